"""Anderson acceleration of EM: extrapolation from several earlier steps.

D. G. Anderson (1965). Iterative procedures for nonlinear integral equations. Journal of the ACM 12(4), 547-560. N. C. Henderson
and R. Varadhan (2019). Damped Anderson acceleration with restarts and monotonicity control for accelerating EM and EM-like
algorithms. Journal of Computational and Graphical Statistics 28(4), 834-846; without their damping.

Where SQUAREM follows one direction, this solves for the combination of the last steps whose residual is smallest, as quasi-Newton
methods do. docs/benchmarks/time-to-answer.md compares the two.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.engines.unconstrained import Space
from crowdppl.model.base import Parameters

# Share of the diagonal that is added to the matrix of the least squares, whose steps become nearly parallel.
RIDGE = 1e-12
# Probabilities are taken to be at least this large, so that all have logarithms.
SMALLEST = 1e-300


def remembered(space: Space, earlier: list[Parameters], point: Parameters, image: Parameters) -> Parameters:
    """Return what :func:`extrapolate` takes of an M step.

    Args:
        space: of the model's sites.
        earlier: the steps before, as this function returned them; those that are left out later are the first ones.
        point: the parameters before the step, by site.
        image: those after it.

    Returns:
        The coordinates ``image (P,)`` after the step and the ``residual (P,)``; after another step also how both changed from it,
        ``move`` and ``bend (P,)``, and the ``products (T,)`` of the bend with those of the steps after the first and itself.
    """
    to = _coordinates(space, image)
    residual = to - _coordinates(space, point)
    if not earlier:
        return {"image": to, "residual": residual}
    bend = residual - earlier[-1]["residual"]
    bends = [*(step["bend"] for step in earlier[1:]), bend]
    products = torch.from_numpy(np.array([np.dot(bend.numpy(), other.numpy()) for other in bends]))
    return {"image": to, "residual": residual, "bend": bend, "move": to - earlier[-1]["image"], "products": products}


def extrapolate(space: Space, steps: list[Parameters], last: Parameters) -> Parameters:
    """Extrapolate from consecutive steps of EM.

    Args:
        space: of the model's sites.
        steps: at least two, as :func:`remembered` returns them.
        last: the parameters after the last one, by site.

    Returns:
        The extrapolated parameters; ``last`` where they would not be finite. Discrete sites keep the values of ``last``.
    """
    later, residual = steps[1:], steps[-1]["residual"].numpy()
    lower = np.zeros((len(later), len(later)))
    for n, step in enumerate(later):
        lower[n, : n + 1] = step["products"].numpy()[-n - 1 :]
    scale = 1 / np.sqrt(np.maximum(lower.diagonal(), SMALLEST))
    gram = (lower + np.tril(lower, -1).T) * scale * scale[:, None] + RIDGE * np.eye(len(later))
    try:
        weights = scale * np.linalg.solve(
            gram, scale * np.array([np.dot(step["bend"].numpy(), residual) for step in later])
        )
    except np.linalg.LinAlgError:
        return last
    vector = steps[-1]["image"].numpy().copy()
    for weight, step in zip(weights, later, strict=True):
        vector -= weight * step["move"].numpy()
    return _parameters(space, torch.from_numpy(vector), last) if np.isfinite(vector).all() else last


def _coordinates(space: Space, parameters: Parameters) -> Tensor:
    """Return logarithms of probabilities, and other sites in unconstrained coordinates, ``(P,)``."""
    parts = []
    for name, kind in space.continuous.items():
        value = parameters[name]
        if kind == "simplex":
            value = value.clamp(min=SMALLEST).log()
        elif kind == "bounded":
            value = space.transforms[name].inv(value)
        parts.append(value.reshape(-1))
    return torch.cat(parts)


def _parameters(space: Space, vector: Tensor, like: Parameters) -> Parameters:
    """Return the sites of a vector of coordinates ``(P,)``; discrete ones, and coordinates' shapes, are those of ``like``."""
    out, at = dict(like), 0
    for name, kind in space.continuous.items():
        shape = like[name].shape
        if kind == "bounded":
            shape = space.transforms[name].inverse_shape(shape)
        part = vector[at : at + shape.numel()].view(shape)
        if kind == "simplex":
            part = part.softmax(-1)
        out[name] = space.transforms[name](part) if kind == "bounded" else part
        at += shape.numel()
    return out
