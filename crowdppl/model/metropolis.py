"""Newton steps, and Metropolis-Hastings steps whose proposal is normal around the end of one, with its curvature.

D. Gamerman (1997), Sampling from the posterior distribution in generalized linear mixed models, Statistics and Computing
7, 57-68.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Largest change of a number in a Newton step.
LONGEST = 2.0


def moved(value: Tensor, target: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Take a step for each number on its own.

    Args:
        value: numbers that are independent given all else, of any shape.
        target: from numbers to the log density of each, its slope, and minus its curvature, which is positive.
    """
    density, slope, curve = target(value)
    proposed = value + _bounded(slope / curve) + torch.randn_like(value) * curve**-0.5
    new_density, new_slope, new_curve = target(proposed)
    there = _log_normal(proposed - value - _bounded(slope / curve), curve)
    back = _log_normal(value - proposed - _bounded(new_slope / new_curve), new_curve)
    accepted = torch.rand_like(value).log() < new_density - density + back - there
    return torch.where(accepted, proposed, value)


def moved_together(value: Tensor, target: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Take a step for vectors ``(..., P)``.

    Args:
        value: vectors that are independent given all else.
        target: from vectors to their log densities ``(...)``, slopes ``(..., P)``, and minus the second derivatives, or their
            expectations, ``(..., P, P)``, which are positive definite.
    """
    density, slope, precision = target(value)
    factor, step = _scaled(slope, precision)
    noise = torch.linalg.solve_triangular(factor.mT, torch.randn_like(value).unsqueeze(-1), upper=True).squeeze(-1)
    proposed = value + step + noise
    new_density, new_slope, new_precision = target(proposed)
    new_factor, new_step = _scaled(new_slope, new_precision)
    there = _log_normals(noise, factor)
    back = _log_normals(value - proposed - new_step, new_factor)
    accepted = torch.rand_like(density).log() < new_density - density + back - there
    return torch.where(accepted.unsqueeze(-1), proposed, value)


def raised_together(value: Tensor, target: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], halvings: int) -> Tensor:
    """Take the Newton step alone from a vector ``(P,)``, shortened where the log density would fall.

    Args:
        value: the vector, which is returned where no step raises its log density.
        target: as of :func:`moved_together`.
        halvings: how often a step is halved at most.
    """
    before, slope, precision = target(value)
    step = _bounded(torch.linalg.solve(precision, slope))
    for _ in range(halvings + 1):
        if bool(target(value + step)[0] >= before):
            return value + step
        step = step / 2
    return value


def _scaled(slope: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factor of a precision, and the Newton step."""
    factor = torch.linalg.cholesky(precision)
    return factor, _bounded(torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1))


def _bounded(step: Tensor) -> Tensor:
    return step.clamp(-LONGEST, LONGEST)


def _log_normal(off: Tensor, precision: Tensor) -> Tensor:
    return (precision.log() - precision * off.square()) / 2


def _log_normals(off: Tensor, factor: Tensor) -> Tensor:
    away = (factor.mT @ off.unsqueeze(-1)).squeeze(-1)
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) - away.square().sum(-1) / 2
