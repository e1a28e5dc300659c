"""Posterior draws of the true labels of judged items, of which all tables are functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from crowdppl.judges.coding import values
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.model.calibration import Calibration
from crowdppl.judges.model.features import Features
from crowdppl.judges.verdicts import Verdicts
from crowdppl.posterior.intervals import equal_tailed

Array = npt.NDArray[Any]
# Columns of tables of differences.
DIFFERENCE = ("difference", "difference_low", "difference_high", "probability_better")


@dataclass(frozen=True, eq=False, repr=False)
class TruthDraws:
    """Posterior of the true labels of ``N`` judged items, and of judges, systems and the panel.

    Attributes:
        verdicts: the verdicts.
        human: the human labels.
        features: the verdicts as they enter the logits.
        calibration: posterior of the weights of verdicts.
        truth: draws of the true labels, as codes into ``verdicts.labels``, ``(D, N)``.
        probability: posterior probability of each class, ``(N, K)``.
        labelled: whether people labelled the item, ``(N,)``.
        human_error: probability of an incorrect human label; 0 where people do not contradict each other. Of people whose own
            error is learned or stated it is ``person_error``.
        value: what an item of each class adds to the rate of its system, ``(K,)``: 1 for classes that pass, 0 for the others;
            or the grades of numeric classes; or, for pairs of answers, 1, 0, and .5 for a tie.
        level: probability of intervals.
        person_error: draws of the error of each person who is named, ``(D, P)``.
        error_basis: where it comes from, ``(P,)``, see :func:`crowdppl.judges.people.errors.people`.
    """

    verdicts: Verdicts
    human: HumanLabels | None
    features: Features
    calibration: Calibration
    truth: Array
    probability: Array
    labelled: Array
    human_error: float
    value: Array
    level: float
    person_error: Array = field(default_factory=lambda: np.zeros((0, 0)))
    error_basis: Array = field(default_factory=lambda: np.zeros(0, dtype=object))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read, dropped or unusual in verdicts and human labels, in sentences."""
        return (*self.verdicts.notes, *(self.human.notes if self.human is not None else ()))

    @property
    def system_names(self) -> Array:
        """Name of the system of each item, ``(N,)``; ``None`` where it is not stated."""
        return values.named(self.verdicts.systems, self.verdicts.system)

    @property
    def rated(self) -> tuple[Array, Array]:
        """Names of what has a rate, the systems or ``all`` without systems, ``(S,)``; and of each item which, ``(N,)``."""
        v = self.verdicts
        if len(v.systems):
            return v.systems, v.system
        return np.array(["all"], dtype=object), np.zeros(len(v.items), dtype=np.int64)

    @property
    def paired(self) -> bool:
        """Whether items are pairs of answers of two systems."""
        return self.features.outcome is not None

    @property
    def member(self) -> Array:
        """Return which items count for what has a rate, ``(N, S)``: 1, or -1 where the system is the opponent, or 0."""
        names, code = self.rated
        every = np.arange(len(names))
        member = (code[:, None] == every).astype(float)
        return member - (self.verdicts.opponent[:, None] == every) if self.paired else member

    @property
    def opponent_names(self) -> Array:
        """Name of the second system of each item, ``(N,)``; ``None`` for single answers."""
        return values.named(self.verdicts.systems, self.verdicts.opponent)

    def expected(self, every: int) -> Array:
        """Return the expected value of each item given the weights of every so many draws, ``(D / every, N)``."""
        some = self.calibration.every(every)
        out = np.empty((len(some.theta), self.truth.shape[1]), dtype=np.float32)
        for index, features in self.features.pieces():
            out[:, index] = np.tensordot(self.value, some.probability(features, self.verdicts.system[index]), 1)
        return out

    def ends(self, draws: Array) -> tuple[Array, Array]:
        """Return the ends of the credible intervals of draws ``(D, ...)``."""
        return equal_tailed(draws, self.level)

    def columns(self, name: str, draws: Array) -> dict[str, Array]:
        """Return mean and interval of draws ``(D, n)`` as three columns."""
        low, high = self.ends(draws)
        return {name: draws.mean(0), f"{name}_low": low, f"{name}_high": high}

    def difference(self, draws: Array) -> dict[str, Any]:
        """Return mean and interval of draws of a difference ``(D,)``, and the share above zero; those at zero count half."""
        better = float((draws > 0).mean() + 0.5 * (draws == 0).mean())
        return self.columns("difference", draws) | {"probability_better": better}

    def counts(self, rows: Array | None = None) -> Array:
        """Return the verdicts of each judge by true and given label in every draw, ``(D, J, K, K)``.

        Args:
            rows: the rows of the verdicts to count, a mask ``(n,)``. Defaults to all. Only verdicts that were given count.
        """
        v = self.verdicts
        D, N = self.truth.shape
        J, K = len(v.judges), len(v.labels)
        used = v.label >= 0 if rows is None else rows & (v.label >= 0)
        cell = v.judge[used] * K + v.label[used]
        table = csr_array((np.ones(used.sum(), dtype=np.float32), (cell, v.item[used])), shape=(J * K, N))
        out = np.empty((D, J, K, K), dtype=np.float32)
        for k in range(K):
            of_class = (self.truth == k).astype(np.float32)  # (D, N)
            out[:, :, k, :] = (table @ of_class.T).T.reshape(D, J, K)
        return out
