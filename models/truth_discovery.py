"""Truths of numeric labels by weighted means: the mean and the median, and three algorithms of truth discovery to compare with.

None of them models bias or slope, and none has intervals. All weigh workers by how close their numbers are to the current truths:

- :func:`crh`: Q. Li, Y. Li, J. Gao, B. Zhao, W. Fan, J. Han 2014, Resolving conflicts in heterogeneous data by truth
  discovery and source reliability estimation, SIGMOD.
- :func:`catd`: Q. Li, Y. Li, J. Gao, L. Su, B. Zhao, M. Demirbas, W. Fan, J. Han 2014, A confidence-aware approach for truth
  discovery on long-tail data, PVLDB 8(4).
- :func:`gtm`: B. Zhao, J. Han 2012, A probabilistic model for estimating real-valued truth from conflicting sources, QDB.

An item whose labels are all equal has no spread to divide by; that of the mean item is taken then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import chdtri

from crowdppl.arguments import PositiveFloat, Probability, checked
from crowdppl.data.numeric import NumericAnnotations

Array = npt.NDArray[Any]
# Rounds of an algorithm, and the change, in standard deviations of the labels, at which it ends earlier.
ROUNDS, STILL = 100, 1e-6


@dataclass(frozen=True)
class NumericAggregate:
    """Numbers by weighted means.

    Attributes:
        method: how they were made.
        data: the annotations.
        value: number of each item, ``(N,)``, NaN without labels.
        weights: weight of each worker, ``(J,)``, summing to 1.
    """

    method: str
    data: NumericAnnotations
    value: Array
    weights: Array

    def truth(self) -> pd.DataFrame:
        """Return a table with one row per item: ``task`` (or ``item``), ``value``, ``annotations``."""
        count = self.data.means()[1]
        return pd.DataFrame({self.data.item_column: self.data.items, "value": self.value, "annotations": count})

    def workers(self) -> pd.DataFrame:
        """Return a table with one row per worker: ``worker``, ``annotations``, ``weight``."""
        count = np.bincount(self.data.worker.numpy(), minlength=self.data.J)
        return pd.DataFrame({"worker": self.data.workers, "annotations": count, "weight": self.weights})


class _Sums:
    """Sums over items and workers of annotations."""

    def __init__(self, data: NumericAnnotations):
        self.item, self.worker, self.value = (part.cpu().numpy() for part in (data.item, data.worker, data.value))
        self.N, self.J = data.N, data.J
        self.per_worker = self.by_worker(np.ones(len(self.value)))
        self.spread = float(self.value.std()) or 1.0

    def by_worker(self, values: Array) -> Array:
        return np.bincount(self.worker, weights=values, minlength=self.J)

    def mean(self, weight: Array) -> Array:
        """Return the weighted mean of each item, ``(N,)``."""
        own = weight[self.worker]
        total = np.bincount(self.item, weights=own, minlength=self.N)
        value = np.bincount(self.item, weights=own * self.value, minlength=self.N)
        return np.divide(value, total, out=np.full(self.N, np.nan), where=total > 0)

    def item_spread(self) -> Array:
        """Return the standard deviation of each item's labels, ``(N,)``; that of the mean item where it is zero."""
        mean = self.mean(np.ones(self.J))
        square = np.bincount(self.item, weights=(self.value - mean[self.item]) ** 2, minlength=self.N)
        count = np.maximum(np.bincount(self.item, minlength=self.N), 1)
        spread = np.sqrt(square / count)
        some = spread > 1e-9 * self.spread
        return np.where(some, spread, spread[some].mean() if some.any() else 1.0)

    def until_still(self, value: Array, step: Callable[[Array], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Repeat a step from truths to truths and weights until nothing moves."""
        weight = np.ones(self.J)
        for _ in range(ROUNDS):
            before = value
            value, weight = step(value)
            if np.nanmax(abs(value - before), initial=0.0) < STILL * self.spread:
                break
        return value, weight / weight.sum()


@checked
def mean(data: NumericAnnotations) -> NumericAggregate:
    """Return the mean of each item's labels."""
    return NumericAggregate("mean", data, data.means()[0], np.full(data.J, 1 / data.J))


@checked
def median(data: NumericAnnotations) -> NumericAggregate:
    """Return the median of each item's labels."""
    values = pd.Series(data.value.cpu().numpy()).groupby(data.item.cpu().numpy()).median()
    return NumericAggregate("median", data, values.reindex(range(data.N)).to_numpy(), np.full(data.J, 1 / data.J))


@checked
def crh(data: NumericAnnotations) -> NumericAggregate:
    """Return truths by conflict resolution on heterogeneous data: weights are minus the log of shares of mean losses."""
    sums = _Sums(data)
    spread = sums.item_spread()[sums.item]

    def step(value: Array) -> tuple[Array, Array]:
        loss = sums.by_worker((sums.value - value[sums.item]) ** 2 / spread) / np.maximum(sums.per_worker, 1)
        weight = -np.log(np.maximum(loss / max(loss.sum(), 1e-300), 1e-12))
        weight = np.maximum(weight, 1e-12)  # a single worker has all of the loss
        return sums.mean(weight), weight

    value, weight = sums.until_still(sums.mean(np.ones(data.J)), step)
    return NumericAggregate("crh", data, value, weight)


@checked
def catd(data: NumericAnnotations, significance: Probability = 0.05) -> NumericAggregate:
    """Return truths by weights that allow for few labels: the upper end of an interval of each worker's precision.

    Args:
        data: the annotations.
        significance: of that interval.
    """
    sums = _Sums(data)
    quantile = np.where(sums.per_worker > 0, chdtri(np.maximum(sums.per_worker, 1), 1 - significance / 2), 0.0)

    def step(value: Array) -> tuple[Array, Array]:
        squares = sums.by_worker((sums.value - value[sums.item]) ** 2)
        weight = quantile / np.maximum(squares, 1e-9 * sums.spread**2)
        return sums.mean(weight), np.maximum(weight, 1e-300)

    value, weight = sums.until_still(sums.mean(np.ones(data.J)), step)
    return NumericAggregate("catd", data, value, weight)


@checked
def gtm(data: NumericAnnotations, shape: PositiveFloat = 10.0, scale: PositiveFloat = 10.0) -> NumericAggregate:
    """Return truths by the Gaussian truth model, by EM on labels less the mean of their item, divided by its spread.

    Args:
        data: the annotations.
        shape: of the inverse gamma prior of a worker's variance.
        scale: likewise.
    """
    sums = _Sums(data)
    centre, spread = sums.mean(np.ones(data.J)), sums.item_spread()
    label = (sums.value - centre[sums.item]) / spread[sums.item]
    x, variance = np.zeros(data.N), np.ones(data.J)
    for _ in range(ROUNDS):
        squares = sums.by_worker((label - x[sums.item]) ** 2)
        variance = (2 * scale + squares) / (2 * (shape + 1) + sums.per_worker)
        weight = 1 / variance[sums.worker]
        total = 1 + np.bincount(sums.item, weights=weight, minlength=data.N)  # the truth has a standard normal prior
        before, x = x, np.bincount(sums.item, weights=weight * label, minlength=data.N) / total
        if abs(x - before).max(initial=0.0) < STILL:
            break
    return NumericAggregate("gtm", data, centre + spread * x, (1 / variance) / (1 / variance).sum())


METHODS: dict[str, Callable[[NumericAnnotations], NumericAggregate]] = {
    "mean": mean,
    "median": median,
    "crh": crh,
    "catd": catd,
    "gtm": gtm,
}
