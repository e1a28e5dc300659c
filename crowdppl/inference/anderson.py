"""Anderson acceleration of EM: extrapolation from several earlier steps.

D. G. Anderson (1965). Iterative procedures for nonlinear integral equations. Journal of the ACM 12(4), 547-560. N. C. Henderson
and R. Varadhan (2019). Damped Anderson acceleration with restarts and monotonicity control for accelerating EM and EM-like
algorithms. Journal of Computational and Graphical Statistics 28(4), 834-846; without their damping.

Where SQUAREM follows one direction, this solves for the combination of the last steps whose residual is smallest, as quasi-Newton
methods do. docs/benchmarks/time-to-answer.md compares the two.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import Parameters
from crowdppl.model.program import is_simplex

# Share of the diagonal that is added to the matrix of the least squares, whose steps become nearly parallel.
RIDGE = 1e-12
# Probabilities are taken to be at least this large, so that all have logarithms.
SMALLEST = 1e-300


def remembered(space: Space, point: Parameters, image: Parameters) -> Parameters:
    """Return the coordinates of a point and of its M step, ``(P,)`` each, as :func:`extrapolate` takes them."""
    return {"point": _coordinates(space, point), "image": _coordinates(space, image)}


def extrapolate(space: Space, steps: list[Parameters], last: Parameters) -> Parameters:
    """Extrapolate from consecutive steps of EM.

    Args:
        space: of the model's sites.
        steps: at least two, as :func:`remembered` returns them.
        last: the parameters after the last one, by site.

    Returns:
        The extrapolated parameters; ``last`` where they would not be finite. Discrete sites keep the values of ``last``.
    """
    images = torch.stack([step["image"] for step in steps])  # (T, P)
    residuals = images - torch.stack([step["point"] for step in steps])
    bends, moves = residuals.diff(dim=0), images.diff(dim=0)  # (T-1, P)
    gram = bends @ bends.T
    scale = gram.diagonal().clamp(min=SMALLEST).rsqrt()
    gram = gram * scale * scale.unsqueeze(-1) + RIDGE * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    weights, failed = torch.linalg.solve_ex(gram, scale * (bends @ residuals[-1]))
    vector = images[-1] - (scale * weights) @ moves
    if int(failed) or not bool(torch.isfinite(vector).all()):
        return last
    return _parameters(space, vector, last)


def _continuous(space: Space) -> list[str]:
    return [name for name in space.sizes if not space.supports[name].is_discrete]


def _coordinates(space: Space, parameters: Parameters) -> Tensor:
    """Return logarithms of probabilities, and other sites in unconstrained coordinates, ``(P,)``."""
    parts = []
    for name in _continuous(space):
        value = parameters[name]
        simplex = is_simplex(space.supports[name])
        parts.append((value.clamp(min=SMALLEST).log() if simplex else space.transforms[name].inv(value)).flatten())
    return torch.cat(parts)


def _parameters(space: Space, vector: Tensor, like: Parameters) -> Parameters:
    """Return the sites of a vector of coordinates ``(P,)``; discrete ones, and coordinates' shapes, are those of ``like``."""
    out, at = dict(like), 0
    for name in _continuous(space):
        simplex = is_simplex(space.supports[name])
        shape = like[name].shape if simplex else space.transforms[name].inverse_shape(like[name].shape)
        part = vector[at : at + shape.numel()].view(shape)
        out[name] = part.softmax(-1) if simplex else space.transforms[name](part)
        at += shape.numel()
    return out
