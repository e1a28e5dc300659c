"""Credible intervals: of draws, and of a probability given how often something happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def tails(level: float) -> tuple[float, float]:
    """Return the probabilities below the lower and below the upper end of an equal-tailed interval."""
    return (1 - level) / 2, (1 + level) / 2


def equal_tailed(draws: Array, level: float, axis: int = 0) -> tuple[Array, Array]:
    """Return the ends of the equal-tailed intervals of draws, which lie along one axis."""
    low, high = np.quantile(draws, tails(level), axis=axis)
    return low, high


def jeffreys(hits: npt.ArrayLike, misses: npt.ArrayLike, level: float) -> tuple[Array, Array]:
    """Return the ends of the intervals of a probability under Jeffreys' prior, Beta(½, ½) (Brown, Cai and DasGupta 2001).

    Args:
        hits: how often it happened; shares of a case count in part.
        misses: how often it did not, of the same shape.
        level: probability of the intervals.
    """
    from scipy.special import betaincinv  # here: slow to import

    a, b = np.asarray(hits) + 0.5, np.asarray(misses) + 0.5
    low, high = (betaincinv(a, b, share) for share in tails(level))
    return low, high
