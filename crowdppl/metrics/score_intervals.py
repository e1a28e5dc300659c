"""Intervals of shares of agreement and of coefficients corrected for chance, which hold for few items and perfect agreement."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[Any]

# Weight, in items, of the variance of shares that are 0 or 1: with few items the variance that is observed is often too small.
FEW = 10
# Chance agreement closer to 1, and variances relative to that of a share closer to 0, are rounding errors.
TINY = 1e-12


def score_interval(observed: float, expected: float, variance: float, units: int, level: float) -> tuple[float, float]:
    """Return an interval of ``(observed - expected) / (1 - expected)``.

    It is Wilson's score interval of the observed agreement, with Student's t and an effective number of units, mapped to the
    coefficient. The effective number is that with which a share would have the variance of the coefficient. Where it is above
    the number of units, because units have many pairs or labels that agree in part, it is shrunk towards this number: by one
    half for ``FEW`` units, and less the more units there are. ``benchmarks/agreement_intervals.py`` measures the coverage.

    Args:
        observed: observed agreement, from 0 to 1.
        expected: agreement expected by chance; 0 for the observed agreement itself.
        variance: of the coefficient.
        units: number of items.
        level: probability of the interval.

    Returns:
        Both ends, between -1, or 0 without chance agreement, and 1; NaN for fewer than two units or if the coefficient is
        undefined.
    """
    beyond = 1 - expected
    if units < 2 or not beyond > TINY:
        return np.nan, np.nan
    wrong = float(np.clip(1 - observed, 0, 1))
    spread, binomial = variance * beyond**2, wrong * (1 - wrong)
    size = binomial / spread if spread > TINY * binomial > 0 else float(units)
    if size > units:
        share = FEW / (units + FEW)
        size = 1 / ((1 - share) / size + share / units)
    t = special.stdtrit(units - 1, (1 + level) / 2)
    centre = (wrong + t * t / (2 * size)) / (1 + t * t / size)
    half = t / (1 + t * t / size) * np.sqrt(wrong * (1 - wrong) / size + t * t / (4 * size * size))
    most = 1.0 if wrong == 1 else min(1.0, centre + half)
    least = 0.0 if wrong == 0 else max(0.0, centre - half)
    return max(1 - most / beyond, 0.0 if expected == 0 else -1.0), 1 - least / beyond
