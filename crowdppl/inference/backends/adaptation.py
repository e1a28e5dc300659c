"""What Hamiltonian samplers learn in the warm-up: the length of a leapfrog step, and the scale of each coordinate.

The step size follows the acceptance probability by dual averaging (M. D. Hoffman and A. Gelman, 2014, The No-U-Turn sampler,
Journal of Machine Learning Research 15), scales the variance of the places that a chain has been at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

# From places (C, P) to log densities (C,) and their slopes (C, P).
Target = Callable[[Tensor], tuple[Tensor, Tensor]]

# Error of the energy from which on a trajectory has left the target.
DIVERGENT = 1000.0
# A variance counts as if so many draws had had a thousandth of it besides (as in Stan).
SHRUNK, SMALL = 5.0, 1e-3
# Dual averaging: shrinkage, forgetting, and the number of steps that the first ones count like.
GAMMA, KAPPA, FIRST = 0.05, 0.75, 10.0
# Logarithm of a step size at most, in absolute value.
EXTREME = 30.0


class Adapted:
    """What is learned of a step size and of scales; for dataclasses whose fields these attributes are.

    Attributes:
        log_step: log of the step size that is tried.
        log_average: log of the one that is kept after the warm-up.
        centre: towards which step sizes shrink.
        lack: mean of what the acceptance probability lacks.
        updates: of the step size since scales have been learned.
        mean: of the places since then, ``(P,)``, an array or a tensor.
        squares: sum of squares of their differences from the mean, ``(P,)``.
        number: of these places.
    """

    log_step: float
    log_average: float
    centre: float
    lack: float
    updates: int
    mean: Any
    squares: Any
    number: int

    def begin_averaging(self, log_step: float, times: float) -> None:
        """Average step sizes anew from one on; the first that are tried are so many times longer."""
        self.log_step = self.log_average = log_step
        self.centre, self.lack, self.updates = log_step + math.log(times), 0.0, 0

    def learn_step(self, lack: float) -> None:
        """Learn from what the acceptance probability of a draw lacks."""
        self.updates += 1
        weight = 1 / (self.updates + FIRST)
        self.lack = (1 - weight) * self.lack + weight * lack
        proposed = self.centre - math.sqrt(self.updates) / GAMMA * self.lack
        self.log_step = max(-EXTREME, min(EXTREME, proposed))
        share = self.updates**-KAPPA
        self.log_average = share * self.log_step + (1 - share) * self.log_average

    def learn_place(self, place: Any) -> None:
        """Count a place ``(P,)`` among those whose variance gives scales: Welford's sums."""
        self.number += 1
        off = place - self.mean
        self.mean = self.mean + off / self.number
        self.squares = self.squares + off * (place - self.mean)


def scales(variance: Any, number: int) -> Any:
    """Return scales ``(P,)``, an array or a tensor, from the variance of so many places."""
    weight = number / (number + SHRUNK)
    return (weight * variance + (1 - weight) * SMALL) ** 0.5
