"""Readings of a truth: consensus, fair average and true number, as moments over draws of the parameters.

Given the parameters a truth is normal, ``z_i ~ Normal(mu_i, V_i)``, and a reading is linear in it, ``alpha + beta z_i``.
Means and variances are those of the mixture over draws (Rao and Blackwell): no draw of a truth is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from crowdppl.model.numeric import StandardLabels

# Readings; the last one only where true numbers are known.
CONSENSUS, FAIR, REFERENCE = "consensus", "fair_average", "true_number"


@dataclass(frozen=True)
class Parameters:
    """Parameters of ``C`` chains or draws, on the standard scale; workers come first, the reference last.

    Attributes:
        intercept: ``(J, C)``.
        slope: ``(J, C)``.
        variance: ``(J, C)``.
        mean: of the crowd, ``(C,)``.
        truth_sd: standard deviation of the truths, ``(C,)``.
        weight: of the features of items, ``(D, C)``; ``None`` without features.
    """

    intercept: Tensor
    slope: Tensor
    variance: Tensor
    mean: Tensor
    truth_sd: Tensor
    weight: Tensor | None = None

    def centre(self, data: StandardLabels) -> Tensor | None:
        """Return the truths that features make expect, ``(N, C)``; ``None`` without features."""
        return None if self.weight is None or data.features is None else data.features @ self.weight


def readings(parameters: Parameters, data: StandardLabels) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Return ``alpha``, ``beta`` and a variance beside that of the truth, ``(C,)`` each, of every reading."""
    workers = slice(0, data.workers)
    count = data.tables.count[workers]
    intercept, slope = parameters.intercept[workers], parameters.slope[workers]
    share, none = count / count.sum(), torch.zeros_like(parameters.mean)
    out = {
        CONSENSUS: (parameters.mean, torch.ones_like(parameters.mean), none),
        FAIR: ((share * intercept).sum(0), (share * slope).sum(0), none),
    }
    if data.has_reference:
        # What the reference says of an item has its noise: known and true numbers differ from a linear function of consensus.
        out[REFERENCE] = (parameters.intercept[-1], parameters.slope[-1], parameters.variance[-1])
    return out


@dataclass
class Moments:
    """Sums over draws of means and mean squares of readings, and of readings less their mean over items.

    Attributes:
        sums: of each reading, ``(4, N)``: means, mean squares, and likewise relative to the mean item.
        draws: their number.
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    draws: int = 0

    def add(self, mean: Tensor, variance: Tensor, of: Mapping[str, tuple[Tensor, Tensor, Tensor]]) -> None:
        """Add draws.

        Args:
            mean: of the truths given the parameters of each draw, ``(N, C)``.
            variance: likewise.
            of: readings, see :func:`readings`.
        """
        N = len(mean)
        from_mean = mean - mean.mean(0)
        # The variance of z_i less the mean of all, whose terms are independent given the parameters.
        relative = variance * (1 - 2 / N) + variance.mean(0) / N
        for name, (alpha, beta, noise) in of.items():
            value, apart = alpha + beta * mean, beta * from_mean
            square = value**2 + beta**2 * variance + noise
            square_apart = apart**2 + beta**2 * relative + noise * (1 - 1 / N)
            both = torch.stack([part.sum(-1) for part in (value, square, apart, square_apart)])
            self.sums[name] = self.sums[name] + both if name in self.sums else both
        self.draws += mean.shape[-1]

    def result(self) -> dict[str, Tensor]:
        """Return mean, standard deviation, and both relative to the mean item, of each reading ``(4, N)``."""
        out = {}
        for name, sums in self.sums.items():
            value, square, apart, square_apart = sums / self.draws
            spread = [(s - m**2).clamp(min=0).sqrt() for s, m in ((square, value), (square_apart, apart))]
            out[name] = torch.stack([value, spread[0], apart, spread[1]])
        return out


def conditional(parameters: Parameters, data: StandardLabels) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the truths given parameters, ``(N, C)`` each."""
    precision, linear = data.tables.by_item(parameters.intercept, parameters.slope, 1 / parameters.variance)
    return given_labels(precision, linear, parameters.truth_sd, parameters.centre(data))


def given_labels(
    precision: Tensor, linear: Tensor, truth_sd: Tensor | float, centre: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of normal truths given their labels.

    Args:
        precision: of what the labels say of each truth, ``(N, C)``.
        linear: precision times mean of the same.
        truth_sd: prior standard deviation of the truths, ``(C,)`` or one number.
        centre: their prior mean, ``(N, C)``; 0 where it is not given.
    """
    prior = truth_sd**-2
    linear = linear if centre is None else linear + centre * prior
    precision = precision + prior
    return linear / precision, 1 / precision
