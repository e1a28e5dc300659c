"""Chance-corrected agreement of labels from counts by item, with a standard error whose clusters are items.

:mod:`crowdppl.metrics` has all coefficients, weights of ordered labels and intervals; a fit needs two numbers quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Fewest pairs of labels, those of one item each, from which agreement is computed; and standard errors that make a value sure.
FEWEST, SURELY = 20, 2.0


@dataclass(frozen=True)
class ChanceAgreement:
    """Agreement beyond chance, as a share of what is possible beyond chance, and its standard error."""

    value: float
    error: float

    def surely_below(self, bound: float) -> bool:
        """Return whether it is below a bound by two standard errors."""
        return self.value + SURELY * self.error < bound

    @staticmethod
    def of(equal: Array, pairs: Array, chance: float) -> ChanceAgreement:
        """Return it from the numbers of equal and of all pairs of labels of each item ``(n,)``."""
        rate = float(equal.sum() / pairs.sum())
        error = float(np.sqrt(((equal - rate * pairs) ** 2).sum()) / pairs.sum())
        rest = max(1 - chance, 1e-9)
        return ChanceAgreement((rate - chance) / rest, error / rest)

    @staticmethod
    def within(counts: Array) -> ChanceAgreement | None:
        """Return that of all pairs of labels of an item, from counts of labels ``(n, L)``; ``None`` for too few pairs.

        Chance is the agreement of two labels drawn with the frequencies in these pairs.
        """
        number = counts.sum(1)
        pairs = number * (number - 1)
        if pairs.sum() < FEWEST:
            return None
        shares = (counts * np.maximum(number - 1, 0)[:, None]).sum(0) / pairs.sum()
        return ChanceAgreement.of((counts * (counts - 1)).sum(1), pairs, float(shares @ shares))

    @staticmethod
    def krippendorff(counts: Array) -> ChanceAgreement | None:
        """Return Krippendorff's alpha for nominal labels, from counts of labels ``(n, L)``; ``None`` for too few pairs.

        Each item counts by its number of labels, and chance is the agreement of two labels of all items that have two or more
        (Krippendorff 2004, Content Analysis, chapter 11).
        """
        counts = counts[counts.sum(1) > 1]
        number = counts.sum(1)
        if (number * (number - 1)).sum() < FEWEST:
            return None
        total, each = number.sum(), counts.sum(0)
        chance = float((each * (each - 1)).sum() / (total * (total - 1)))
        return ChanceAgreement.of((counts * (counts - 1)).sum(1) / (number - 1), number, chance)
