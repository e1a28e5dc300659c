"""Measures of worker quality: functions of confusion matrices, evaluated for each posterior draw.

Shapes: ``S`` draws, ``J`` workers, ``K`` classes. ``confusion (S, J, K, K)`` = (draw, worker, truth, label), rows sum to
one; ``prevalence (S, K)``. :func:`interval` computes means and intervals over the draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.arguments import Confusions, Level, Prevalences, checked
from crowdppl.data.table.identifiers import class_columns
from crowdppl.errors import OptionError, listed, suggestion
from crowdppl.posterior.arviz_level import arviz_level
from crowdppl.posterior.intervals import equal_tailed

Array = npt.NDArray[Any]


@checked
def accuracy(confusion: Confusions, prevalence: Prevalences) -> Array:
    """Probability that an annotation of a random item is correct, ``sum_k pi_k theta_j[k, k]``: ``(S, J)``."""
    _match(confusion, prevalence)
    return np.einsum("sk,sjkk->sj", prevalence, confusion)


@checked
def sensitivity(confusion: Confusions) -> Array:
    """Probability of the correct label in each class, ``theta_j[k, k]``: ``(S, J, K)``."""
    return np.einsum("sjkk->sjk", confusion)


@checked
def informativeness(confusion: Confusions, prevalence: Prevalences) -> Array:
    """Mutual information of a worker's label and the truth, in bits: ``(S, J)``.

    0 for a worker whose labels do not depend on the truth; the entropy of the prevalence for a perfect worker, and also for one
    who permutes the labels. It is the information of an annotation once the confusion matrix of the worker is known.
    """
    _match(confusion, prevalence)
    # The entropy of the label less that given the truth; a probability of zero contributes nothing.
    given = sum(prevalence[:, k, None] * _negative_entropy(rows) for k, rows in enumerate(np.moveaxis(confusion, 2, 0)))
    # Rounding errors may make it slightly negative.
    return np.maximum(given - _negative_entropy(np.moveaxis(_given(confusion, prevalence), 0, -1)), 0.0)


@checked
def specificity(confusion: Confusions, prevalence: Prevalences) -> Array:
    """Probability that a class is not given to an item of another class, ``p(label != k | truth != k)``: ``(S, J, K)``."""
    _match(confusion, prevalence)
    others = 1 - prevalence  # (S, K)
    false_positive = np.einsum("sk,sjkl->sjl", prevalence, confusion) - prevalence[:, None] * sensitivity(confusion)
    return 1 - false_positive / np.maximum(others, np.finfo(float).tiny)[:, None]


@checked
def mean_diagonal(confusion: Confusions) -> Array:
    """Mean probability of the correct label over classes, ``trace / K``: ``(S, J)``; the accuracy if classes were balanced."""
    return sensitivity(confusion).mean(-1)


@checked
def diagonal_log_odds(confusion: Confusions) -> Array:
    """Mean log-odds of the correct label over classes: ``(S, J)``.

    For ranking: it has no ceiling at 1 and distinguishes .99 from .999. Probabilities are clipped to ``[1e-9, 1 - 1e-9]``.
    """
    diagonal = np.clip(sensitivity(confusion), 1e-9, 1 - 1e-9)
    return np.log(diagonal / (1 - diagonal)).mean(-1)


@checked
def kappa(confusion: Confusions, prevalence: Prevalences) -> Array:
    """Agreement with the truth beyond chance (Cohen 1960): ``(S, J)``.

    0 for guessing, negative if correct less often than by chance.
    """
    _match(confusion, prevalence)
    return beyond_chance(accuracy(confusion, prevalence), confusion, prevalence)


def beyond_chance(correct: Array, confusion: Array, prevalence: Array) -> Array:
    """Return :func:`kappa` of workers whose accuracy is known, ``correct (S, J)``."""
    chance = sum(prevalence[:, k, None] * given for k, given in enumerate(_given(confusion, prevalence)))
    return (correct - chance) / np.maximum(1 - chance, np.finfo(float).eps)


@checked
def distance_from_spammer(confusion: Confusions) -> Array:
    """Squared distance of the confusion matrix to the nearest matrix with equal rows: ``(S, J)``, from 0 to ``K - 1``.

    The labels of a spammer do not depend on the truth: all rows are equal, and the matrix is ``1 v'`` of rank one. The distance
    is ``min_v ||theta_j - 1 v'||^2`` (Raykar and Yu 2012, Eliminating spammers and ranking annotators for crowdsourced labeling
    tasks, JMLR 13); for two classes it is ``(sensitivity + specificity - 1)^2``.
    """
    centred = confusion - confusion.mean(-2, keepdims=True)
    return (centred**2).sum((-2, -1))


@checked
def spammer_score(confusion: Confusions) -> Array:
    """:func:`distance_from_spammer` divided by its maximum ``K - 1``: ``(S, J)``, 0 for a spammer and 1 for a perfect worker."""
    return distance_from_spammer(confusion) / (confusion.shape[-1] - 1)


@checked
def expected_cost(confusion: Confusions, prevalence: Prevalences, cost: Any = None) -> Array:
    """Expected cost of the uncertainty that remains after a worker's label: ``(S, J)``, in units of ``cost``.

    A label ``l`` implies the distribution ``p(k | l)`` of the truth; its cost is that of guessing the truth by a draw from it,
    averaged over the worker's labels (Ipeirotis, Provost and Wang 2010, Quality management on Amazon Mechanical Turk). Systematic
    errors that can be inverted cost nothing.

    Args:
        confusion: confusion matrices, ``(S, J, K, K)``.
        prevalence: prevalence, ``(S, K)``.
        cost: cost of each label (column) given each truth (row), ``(K, K)``. Defaults to 1 for every error.

    Raises:
        OptionError: if the cost is not ``(K, K)`` or is negative.
    """
    _match(confusion, prevalence)
    costs = _costs(cost, confusion.shape[-1])
    joint = prevalence[:, None, :, None] * confusion  # (S, J, truth, label)
    given = joint.sum(-2)  # (S, J, label)
    total = np.einsum("sjkl,sjml,km->sjl", joint, joint, costs, optimize=True)
    return np.divide(total, given, out=np.zeros_like(total), where=given > 0).sum(-1)


@checked
def cost_quality(confusion: Confusions, prevalence: Prevalences, cost: Any = None) -> Array:
    """One minus the ratio of :func:`expected_cost` to that of a spammer: ``(S, J)``, 0 for a spammer, 1 without cost.

    Ipeirotis, Provost and Wang (2010).
    """
    _match(confusion, prevalence)
    costs = _costs(cost, confusion.shape[-1])
    spammer = np.einsum("sk,sm,km->s", prevalence, prevalence, costs)[:, None]
    return 1 - expected_cost(confusion, prevalence, cost) / np.maximum(spammer, np.finfo(float).tiny)


def _given(confusion: Array, prevalence: Array) -> Array:
    """Return the probability of each label, ``(K, S, J)``."""
    S, J, K = confusion.shape[:3]
    if K > SHORT:
        return np.moveaxis(np.einsum("sk,sjkl->sjl", prevalence, confusion), -1, 0)
    out = np.zeros((K, S, J))
    for label, k in np.ndindex(K, K):
        out[label] += prevalence[:, k, None] * confusion[:, :, k, label]
    return out


def _negative_entropy(probability: Array) -> Array:
    """Return the sum of ``p log2 p`` over the last axis, ``(S, J)``."""
    if probability.shape[-1] > SHORT:
        logs = np.maximum(probability, np.finfo(float).tiny)
        return np.einsum("...l,...l->...", probability, np.log2(logs, out=logs))
    out = np.zeros(probability.shape[:-1])
    for p in np.moveaxis(probability, -1, 0):
        out += p * np.log2(np.maximum(p, np.finfo(float).tiny))
    return out


def _match(confusion: Array, prevalence: Array) -> None:
    if (len(confusion), confusion.shape[-1]) != prevalence.shape:
        raise OptionError(
            f"confusion has shape {confusion.shape} and prevalence {prevalence.shape}; they must have the same numbers of draws "
            "and classes"
        )


def _costs(cost: Any, K: int) -> Array:
    if cost is None:
        return 1 - np.eye(K)
    try:
        return np.asarray(arguments.array(str(K), str(K))("cost", arguments.amounts(0)("cost", cost)), dtype=float)
    except OptionError:
        shape = f", of shape {np.shape(cost)}" if isinstance(cost, np.ndarray) else ""
        raise OptionError(
            f"cost={arguments.shown(cost)}{shape}; it must be {K} x {K} numbers of at least 0, with rows for the true class"
        ) from None


# Measures with one column in tables of workers; sensitivity and specificity have one for each class.
MEASURES: dict[str, Callable[[Array, Array, Any], Array]] = {
    "accuracy": lambda confusion, prevalence, cost: accuracy(confusion, prevalence),
    "informativeness": lambda confusion, prevalence, cost: informativeness(confusion, prevalence),
    "mean_diagonal": lambda confusion, prevalence, cost: mean_diagonal(confusion),
    "diagonal_log_odds": lambda confusion, prevalence, cost: diagonal_log_odds(confusion),
    "kappa": lambda confusion, prevalence, cost: kappa(confusion, prevalence),
    "distance_from_spammer": lambda confusion, prevalence, cost: distance_from_spammer(confusion),
    "spammer_score": lambda confusion, prevalence, cost: spammer_score(confusion),
    "expected_cost": expected_cost,
    "cost_quality": cost_quality,
}
BY_CLASS = ("sensitivity", "specificity")
# Numpy takes long over last axes of at most this length, which are gone through one number after the other.
SHORT = 3
# Measures shown by default.
DEFAULT_MEASURES = ("accuracy", "sensitivity", "informativeness")
# Suffixes of the columns of a measure: its mean, and the ends of its interval.
ENDS = ("", "_low", "_high")
# Measures for which lower values are better.
LOWER_IS_BETTER = ("expected_cost",)


@checked
def measure(name: str, confusion: Confusions, prevalence: Prevalences, cost: Any = None) -> Array:
    """Return a measure with one value per worker, by name, ``(S, J)``.

    Raises:
        OptionError: for a name that is not in ``MEASURES``.
    """
    if name not in MEASURES:
        raise OptionError(f"no measure {name!r}{suggestion(name, MEASURES)}; use one of {listed(MEASURES, 20)}")
    return MEASURES[name](confusion, prevalence, cost)


@checked
def qualities(
    confusion: Confusions,
    prevalence: Prevalences,
    labels: Annotated[Array, arguments.a_list],
    measures: Annotated[Iterable[str], arguments.several(arguments.text, 0)] = DEFAULT_MEASURES,
    cost: Any = None,
) -> dict[str, Array]:
    """Return measures by table column, each ``(S, J)``.

    Args:
        confusion: confusion matrices, ``(S, J, K, K)``.
        prevalence: prevalence, ``(S, K)``.
        labels: the classes, for the columns of measures by class.
        measures: names in ``MEASURES`` and ``BY_CLASS``.
        cost: see :func:`expected_cost`.

    Raises:
        OptionError: for an unknown measure.
    """
    out: dict[str, Array] = {}
    for name in measures:
        if name in BY_CLASS:
            each = sensitivity(confusion) if name == "sensitivity" else specificity(confusion, prevalence)
            columns = class_columns(f"{name}_", labels, ENDS)
            out |= {column: each[..., n] for n, column in enumerate(columns)}
        elif name in MEASURES:
            out[name] = measure(name, confusion, prevalence, cost)
        else:
            known = (*MEASURES, *BY_CLASS)
            raise OptionError(f"no measure {name!r}{suggestion(name, known)}; use one of {listed(known, 20)}")
    return out


@checked
def interval(draws: Annotated[Array, arguments.some_draws], level: Level | None = None) -> tuple[Array, Array, Array]:
    """Summarise draws along the first axis.

    Args:
        draws: ``(S, ...)``.
        level: probability of the equal-tailed interval. Defaults to ArviZ's default (``rcParams["stats.ci_prob"]``, .89).

    Returns:
        Mean, lower and upper end, each ``(...)``; the ends are NaN for a single draw.

    Raises:
        OptionError: for a level outside (0, 1).
    """
    level = default_level(level)
    if len(draws) < 2:
        return draws.mean(0), np.full(draws.shape[1:], np.nan), np.full(draws.shape[1:], np.nan)
    return draws.mean(0), *equal_tailed(draws, level)


@checked
def default_level(level: Level | None) -> float:
    """Return the given level, or ArviZ's default."""
    return arviz_level() if level is None else level
