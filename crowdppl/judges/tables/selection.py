"""Which items people should label next, and how many labels bring intervals to a width."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.tables.system_table import rates

Array = npt.NDArray[Any]


# Draws of the weights that covariances are computed from.
DRAWS = 250


class _Variances:
    """Variance of the rate of each system as items are labelled, to second order in the weights of verdicts.

    The expected values of the items over the draws of the weights, ``(D, N)``, are taken as Gaussian: a label of an item has the
    variance of its class around them, and conditioning on it is a step of the Kalman filter. The rest of the variance of a rate
    is that of the classes of its own unlabelled items given the weights. The rate of a system in pairs of answers is taken as its
    share of wins, which is linear in the classes, times a factor that makes its variance that by Davidson's model.
    """

    def __init__(self, draws: TruthDraws):
        expected = draws.expected(max(len(draws.truth) // DRAWS, 1)).astype(float)
        member = draws.member
        self.member = member / np.maximum(np.abs(member).sum(0), 1)  # (N, S)
        expected = np.where(draws.labelled, draws.value[draws.probability.argmax(1)], expected)
        self.deviation = (expected - expected.mean(0)) / np.sqrt(len(expected))  # (D, N)
        second = draws.probability @ draws.value**2 - (draws.probability @ draws.value) ** 2
        self.noise = np.maximum(second - (self.deviation**2).sum(0), 1e-9)  # of a class given the weights
        self.open = ~draws.labelled
        if draws.paired:
            # The share of wins has another variance than the rate by Davidson's model, to which it is scaled.
            own = (self.noise * self.open) @ self.member**2
            variance = ((self.deviation @ self.member) ** 2).sum(0) + own
            self.member *= rates(draws, "items").std(0) / np.sqrt(np.maximum(variance, 1e-12))
        self.rate = self.deviation @ self.member  # (D, S)

    def variance(self) -> Array:
        """Return the variance of each system's rate, ``(S,)``."""
        own = (self.noise * self.open) @ self.member**2
        return np.asarray((self.rate**2).sum(0) + own)

    def gain(self) -> Array:
        """Return by how much the label of each item lowers the variance of each rate, ``(N, S)``; 0 for labelled items."""
        total = (self.deviation**2).sum(0) + self.noise
        covariance = self.deviation.T @ self.rate + self.noise[:, None] * self.member * self.open[:, None]
        return np.where(self.open[:, None], covariance**2 / total[:, None], 0.0)

    def best(self) -> int:
        """Return the unlabelled item whose label narrows the intervals of all systems most, in sum."""
        variance = self.variance()
        width = np.sqrt(np.maximum(variance - self.gain(), 0.0)) - np.sqrt(variance)  # (N, S)
        return int(np.where(self.open, width.sum(1), np.inf).argmin())

    def label(self, item: int) -> None:
        """Condition on the label of an item."""
        own = self.deviation[:, item].copy()
        total = own @ own + self.noise[item]
        # A square root of the posterior covariance, so that the variances of all items follow (Potter's form).
        factor = 1 / (total + np.sqrt(self.noise[item] * total))
        self.deviation -= np.outer(own, (own @ self.deviation) * factor)
        self.rate -= np.outer(own, (own @ self.rate) * factor)
        self.rate -= np.outer(self.deviation[:, item], self.member[item])
        self.deviation[:, item] = 0
        self.open[item] = False


def choose(draws: TruthDraws, n: int) -> pd.DataFrame:
    """Return the ``n`` unlabelled items whose human labels narrow the intervals of the systems most, the best first.

    Each choice assumes the labels of those before it. Columns ``item``, ``system`` where stated, the most probable
    ``label`` and its ``probability``, and ``width_after``: the expected mean width of the intervals of the systems once this and
    the items before it are labelled.
    """
    state, v = _Variances(draws), draws.verdicts
    rows = []
    best = draws.probability.argmax(1)
    for _ in range(min(n, int(state.open.sum()))):
        item = state.best()
        state.label(item)
        rows.append((item, _mean_width(state, draws.level)))
    chosen = np.array([item for item, _ in rows], dtype=int)
    frame: dict[str, Any] = {"item": v.items[chosen]}
    if len(v.systems):
        frame["system"] = draws.system_names[chosen]
    if draws.paired:
        frame["opponent"] = draws.opponent_names[chosen]
    frame |= {"label": v.labels[best[chosen]], "probability": draws.probability[chosen, best[chosen]]}
    frame["width_after"] = [width for _, width in rows]
    return pd.DataFrame(frame)


def needed(draws: TruthDraws, width: float) -> pd.DataFrame:
    """Return how many more human labels bring the widest interval of a system's rate to at most a width.

    Rows ``chosen`` (by :func:`choose`) and ``random``, with columns ``labels`` and ``width``, the widest interval then. If all
    items together do not suffice, ``labels`` is missing and ``width`` is what remains. Widths are
    expectations under the present posterior, and tend to be too small by a tenth or more for chosen items: fit again on the way.
    """
    rows = []
    for how in ("chosen", "random"):
        state = _Variances(draws)
        order = np.random.default_rng(0).permutation(np.flatnonzero(state.open)) if how == "random" else None
        count = 0
        while _widest(state, draws.level) > width and state.open.any():
            state.label(state.best() if order is None else int(order[count]))
            count += 1
        reached = _widest(state, draws.level) <= width
        rows.append({"how": how, "labels": count if reached else None, "width": _widest(state, draws.level)})
    return pd.DataFrame(rows).astype({"labels": "Int64"})


def _normal(level: float) -> float:
    return 2 * NormalDist().inv_cdf((1 + level) / 2)


def _mean_width(state: _Variances, level: float) -> float:
    return float(_normal(level) * np.sqrt(state.variance()).mean())


def _widest(state: _Variances, level: float) -> float:
    return float(_normal(level) * np.sqrt(state.variance().max()))
