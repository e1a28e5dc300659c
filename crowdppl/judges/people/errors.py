"""The errors of the people who label items, learned from items that several of them labelled.

Model of these items, given the probabilities of their classes by the verdicts of the judges::

    concentration  s    ~ uniform over CONCENTRATIONS
    mean error     m    ~ LogitNormal(logit shared, SPREAD)
    error          e_a  ~ Beta(m s, (1 - m) s), below the error of guessing       of each person a
    truth          z_i  ~ Categorical(p_i)
    label          y    is z_i with probability 1 - e_a, else another class, each equally likely

``shared`` is the error of all people together (:func:`crowdppl.judges.people.human_likelihood.error_of_people`). Few labels of
a person leave the error near it, and people whose errors are alike are pooled. Contradictions of two people do not show who of
them is wrong: that the verdicts say. A person none of whose items another person labelled has the shared error, since verdicts
alone would take what no judge understands for an error of the person.

The verdicts are those weighted under the shared error. The weights are then learned again under the posterior means of ``e_a``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array
from scipy.special import betainc, betaln, expit, logit, ndtri

from crowdppl import arguments
from crowdppl.errors import OptionError, listed, suggestion
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.model.draws import TruthDraws

Array = npt.NDArray[Any]
CONCENTRATIONS = np.array([5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0])
# Standard deviation of the log odds of the mean error, and number of its values.
SPREAD, MEANS = 0.5, 9
SWEEPS = 30
# Errors of 0 beside others: labels of such people are certain, unless these contradict each other.
TINY = 1e-9


class Overlap(NamedTuple):
    """Labels of the items that have several.

    Attributes:
        rows: which human labels these are, ``(m,)``.
        items: the items, ascending, ``(n,)``.
        item: of each label the place in ``items``, ``(m,)``.
        learned: whether a person has such a label, ``(P,)``.
    """

    rows: npt.NDArray[np.bool_]
    items: Array
    item: Array
    learned: npt.NDArray[np.bool_]


def overlap(human: HumanLabels) -> Overlap:
    """Return the labels of items that have several."""
    _, row, count = np.unique(human.item, return_inverse=True, return_counts=True)
    rows = count[row] > 1
    items, item = np.unique(human.item[rows], return_inverse=True)
    people = human.annotator[rows]
    return Overlap(rows, items, item, np.isin(np.arange(len(human.annotators)), people[people >= 0]))


def stated(human: HumanLabels | None, error: float | Mapping[Any, Any] | None, classes: int) -> Array:
    """Return the stated error of each person, ``(P,)``, NaN where none is.

    Raises:
        OptionError: for an unknown person, or an error as large as that of guessing.
    """
    people = [] if human is None else human.annotators.tolist()
    given: dict[Any, Any] = dict(error) if isinstance(error, Mapping) else {"": error} if error is not None else {}
    of_all = not isinstance(error, Mapping)
    if given and not of_all and not people:
        raise OptionError(
            "human_error states errors of people, but no column 'annotator' of the human labels names people"
        )
    place = {str(name): n for n, name in enumerate(people)}
    out = np.full(len(people), np.nan)
    for name, given_error in given.items():
        of = "" if of_all else f" of {listed([name])}"
        value = arguments.number(at_least=0, below=1)(f"human_error{of}", given_error)
        if value >= 1 - 1 / classes:
            raise OptionError(
                f"human_error={value:g}{of} is no better than guessing among {classes} classes ({1 - 1 / classes:.3g})"
            )
        if of_all:
            out[:] = value
        elif str(name) in place:
            out[place[str(name)]] = value
        else:
            raise OptionError(
                f"human_error: {listed([name])} gave no label of a judged item{suggestion(str(name), list(place))}; people are "
                f"{listed(people)}"
            )
    return out


def errors(
    human: HumanLabels, among: Overlap, probability: Array, shared: float, known: Array, rng: np.random.Generator
) -> Array:
    """Return draws of the error of each person, ``(D, P)``, by Gibbs sampling.

    Args:
        human: the labels.
        among: those of items that have several.
        probability: of the classes of these items by the verdicts, in ``D`` draws, ``(K, D, n)``.
        shared: error that all people share, above 0.
        known: stated error of each person, ``(P,)``, NaN where it is not.
        rng: source of random numbers.
    """
    K, D, n = probability.shape
    P, m = len(human.annotators), len(among.item)
    label, person = human.label[among.rows], human.annotator[among.rows]
    own = np.where(person >= 0, person, P)  # the last column: unnamed people, who have the shared error
    limit = 1 - 1 / K
    error = np.append(np.where(np.isnan(known), min(shared, 0.99 * limit), np.maximum(known, TINY)), shared)
    error = np.tile(error, (D, 1))
    free = np.flatnonzero(among.learned & np.isnan(known))
    if not len(free):
        return np.asarray(error[:, :P])
    by_class = csr_array((np.ones(m), (np.arange(m), among.item * K + label)), shape=(m, n * K))
    by_person = csr_array((np.ones(m), (np.arange(m), own)), shape=(m, P + 1))
    total = np.bincount(own, minlength=P + 1)[free]
    log_p = np.log(np.maximum(probability, 1e-300)).transpose(1, 2, 0)  # (D, n, K)
    middle = expit(logit(min(shared, 0.99 * limit)) + SPREAD * ndtri((np.arange(MEANS) + 0.5) / MEANS))
    middle = np.minimum(middle, limit)[:, None]
    a, b = (middle * CONCENTRATIONS).ravel(), ((1 - middle) * CONCENTRATIONS).ravel()
    # Of a Beta distribution below the limit.
    log_constant = betaln(a, b) + np.log(betainc(a, b, limit))
    place = rng.integers(len(a), size=D)
    for _ in range(SWEEPS):
        gain = np.log1p(-error) - np.log(error / (K - 1))
        logits = log_p + np.asarray(gain[:, own] @ by_class).reshape(D, n, K)
        below = np.exp(logits - logits.max(2, keepdims=True)).cumsum(2)
        truth = (rng.random((D, n, 1)) * below[:, :, -1:] > below[:, :, :-1]).sum(2)
        wrong = np.asarray((truth[:, among.item] != label).astype(float) @ by_person)[:, free]
        new = rng.beta(a[place, None] + wrong, b[place, None] + total - wrong)
        error[:, free] = np.where((new < limit) & (new > TINY), new, error[:, free])
        log_wrong, log_right = np.log(error[:, free]).sum(1), np.log1p(-error[:, free]).sum(1)
        log_density = np.outer(log_wrong, a - 1) + np.outer(log_right, b - 1) - len(free) * log_constant
        place = (log_density + rng.gumbel(size=log_density.shape)).argmax(1)
    return np.asarray(error[:, :P])


def log_likelihood(human: HumanLabels, error: Array, shared: float, classes: int) -> Array:
    """Return the log probability of the labels of each labelled item given its class, ``(n, K)``, items ascending.

    Args:
        human: the labels.
        error: of each person, ``(P,)``.
        shared: error of people who are not named.
        classes: their number ``K``.
    """
    items, row = np.unique(human.item, return_inverse=True)
    own = np.maximum(np.append(error, shared)[human.annotator], TINY)
    out = np.zeros((len(items), classes))
    np.add.at(out, row, np.log(own / (classes - 1))[:, None])
    np.add.at(out, (row, human.label), np.log1p(-own) - np.log(own / (classes - 1)))
    return out


def people(draws: TruthDraws) -> pd.DataFrame:
    """Return a row for each person who labelled items, the smallest error first; none if people are not named.

    Columns:

    - ``annotator``; ``labels``: number of labels; ``shared_items``: items among them that have labels of others;
    - ``error`` with its interval: probability of an incorrect label, each other class equally likely;
    - ``basis``: ``learned`` from the shared items and the verdicts on them, ``stated`` by ``human_error``, or ``shared``: the
      error of all people together, without an interval.
    """
    human = draws.human
    # Results of earlier versions have no errors of people.
    if human is None or not len(human.annotators) or not len(draws.error_basis):
        names = ["annotator", "labels", "shared_items", "error", "error_low", "error_high", "basis"]
        return pd.DataFrame({name: pd.Series(dtype=object) for name in names})
    P = len(human.annotators)
    among = overlap(human)
    pairs = pd.DataFrame({"person": human.annotator, "item": human.item})[among.rows].drop_duplicates()
    shared = pairs.loc[pairs["person"] >= 0, "person"].to_numpy()
    frame = pd.DataFrame(
        {
            "annotator": human.annotators,
            "labels": np.bincount(human.annotator[human.annotator >= 0], minlength=P),
            "shared_items": np.bincount(shared, minlength=P),
            **draws.columns("error", draws.person_error),
            "basis": draws.error_basis,
        }
    )
    frame.loc[frame["basis"] == "shared", ["error_low", "error_high"]] = np.nan
    return frame[frame["labels"] > 0].sort_values("error", kind="stable", ignore_index=True)
