"""Worker quality: functions of posterior draws, each draw giving one value of the quality.

Shapes: ``S`` draws, ``J`` workers, ``K`` classes. ``confusion (S, J, K, K)`` = (draw, worker, truth, label), rows summing to
one; ``prevalence (S, K)``. An interval is taken over the draws afterwards, by :func:`interval`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from arviz_base import rcParams

from crowdppl.errors import OptionError

Array = npt.NDArray[Any]


def accuracy(confusion: Array, prevalence: Array) -> Array:
    """Probability that a judgement of a random item is right, ``sum_k pi_k theta_j[k, k]``: ``(S, J)``."""
    return np.einsum("sk,sjkk->sj", prevalence, confusion)


def sensitivity(confusion: Array) -> Array:
    """Probability of the right label in each class, ``theta_j[k, k]``: ``(S, J, K)``."""
    return np.einsum("sjkk->sjk", confusion)


def informativeness(confusion: Array, prevalence: Array) -> Array:
    """Mutual information of a worker's label and the truth, in bits: ``(S, J)``.

    0 for a worker who answers without looking, the entropy of the prevalence for one who is always right, and as much for
    one who permutes the labels: what a judgement tells, once the worker is known.
    """
    joint = prevalence[:, None, :, None] * confusion  # (S, J, K, K)
    marginal = joint.sum(-2, keepdims=True)  # p(label)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(joint > 0, confusion / marginal, 1.0)
    # Rounding may leave a spammer a hair below zero.
    return np.maximum((joint * np.log2(ratio)).sum((-2, -1)), 0.0)


def qualities(confusion: Array, prevalence: Array, labels: Array) -> dict[str, Array]:
    """Return the qualities that tables of workers show, by column: each ``(S, J)``."""
    sensitive = sensitivity(confusion)
    out = {"accuracy": accuracy(confusion, prevalence)}
    out |= {f"sensitivity_{k}": sensitive[..., n] for n, k in enumerate(labels)}
    out["informativeness"] = informativeness(confusion, prevalence)
    return out


def interval(draws: Array, level: float | None = None) -> tuple[Array, Array, Array]:
    """Summarise draws along the first axis.

    Args:
        draws: ``(S, ...)``.
        level: probability of the equal-tailed interval; ArviZ's default (``rcParams["stats.ci_prob"]``, .89) if not given.

    Returns:
        Mean, lower and upper end, each ``(...)``; the ends are NaN for a single draw, which has no spread.

    Raises:
        OptionError: for a level outside (0, 1).
    """
    level = default_level(level)
    if len(draws) < 2:
        return draws.mean(0), np.full(draws.shape[1:], np.nan), np.full(draws.shape[1:], np.nan)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return draws.mean(0), low, high


def default_level(level: float | None) -> float:
    """Return a valid level: the given one, or ArviZ's default."""
    chosen = float(rcParams["stats.ci_prob"]) if level is None else level
    if not 0 < chosen < 1:
        raise OptionError(f"level={level!r}; an interval's probability lies between 0 and 1, such as 0.89")
    return chosen
