"""SQUAREM extrapolation along the path of EM.

R. Varadhan and C. Roland (2008). Simple and globally convergent methods for accelerating the convergence of any EM algorithm.
Scandinavian Journal of Statistics 35(2), 335-353; their third scheme for the step length.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.inference.engines.unconstrained import Space
from crowdppl.kernels.ops import label_shares
from crowdppl.model.base import Parameters
from crowdppl.model.program import is_simplex


def extrapolate(
    space: Space, first: Parameters, second: Parameters, third: Parameters, *, leading_axes: int = 0
) -> Parameters:
    """Extrapolate from three consecutive points of EM.

    Probabilities are extrapolated as they are, since their logarithms would be dominated by cells on their way to zero; other
    parameters in unconstrained coordinates. Where a cell becomes negative, the third point is halved instead. Discrete sites
    keep the values of the third point.

    Args:
        space: of the model's sites.
        first: parameters by site.
        second: after one M step.
        third: after two.
        leading_axes: 1 where values have a leading axis of parallel runs, ``(C, ...)``, which are extrapolated independently.

    Returns:
        The extrapolated parameters; the third point where the step length would not exceed one.
    """
    names = [name for name in space.sizes if not space.supports[name].is_discrete]
    a, b, c = ([coordinates(space, name, theta[name]) for name in names] for theta in (first, second, third))
    # As little memory as possible: points may be larger than the caches.
    step = [(y - x).nan_to_num_(0.0, 0.0, 0.0) for x, y in zip(a, b, strict=True)]
    bend = [(z - y).nan_to_num_(0.0, 0.0, 0.0).sub_(s) for y, z, s in zip(b, c, step, strict=True)]
    step_norm, bend_norm = (
        torch.stack([_squared_norm(v, leading_axes) for v in values]).sum(0) for values in (step, bend)
    )  # (C,), or ()
    far = step_norm > bend_norm
    length = torch.where(far, step_norm / bend_norm, 1.0).sqrt()
    out = {name: third[name].clone() for name in space.sizes if name not in names}
    for name, x, z, s, v in zip(names, a, c, step, bend, strict=True):
        alpha = _broadcast(length.to(z.dtype), z)
        value = s.mul_(2 * alpha).add_(x).addcmul_(v, alpha**2)
        if is_simplex(space.supports[name]):
            value = torch.where(value < 0, torch.mul(z, 0.5, out=v), value)
            value = label_shares(value) if value.dim() > 2 else value.div_(value.sum(-1, keepdim=True))
        else:
            value = space.transforms[name](torch.where(torch.isfinite(value), value, z))
        # Constrained values may have other axes than their coordinates.
        out[name] = torch.where(_broadcast(far, third[name]), value, third[name])
    return out


def coordinates(space: Space, name: str, value: Tensor) -> Tensor:
    """Return the coordinates in which a site is extrapolated."""
    return value if is_simplex(space.supports[name]) else space.transforms[name].inv(value)


def _broadcast(each: Tensor, value: Tensor) -> Tensor:
    """Give a number for each run, ``(C,)`` or ``()``, the axes of a value ``(C, ...)``."""
    return each.reshape(each.shape + (1,) * (value.dim() - each.dim()))


def _squared_norm(value: Tensor, leading_axes: int) -> Tensor:
    """Sum squares over all axes after the leading ones, in float64 also for float32 values."""
    axes = tuple(range(leading_axes, value.dim()))
    if not axes:
        return value.double().square()
    return torch.linalg.vector_norm(value, dim=axes, dtype=torch.float64).square_()
