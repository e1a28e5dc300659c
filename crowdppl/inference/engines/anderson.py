"""Anderson acceleration of EM: extrapolation from several earlier steps.

D. G. Anderson (1965). Iterative procedures for nonlinear integral equations. Journal of the ACM 12(4), 547-560. N. C. Henderson
and R. Varadhan (2019). Damped Anderson acceleration with restarts and monotonicity control for accelerating EM and EM-like
algorithms. Journal of Computational and Graphical Statistics 28(4), 834-846; without their damping.

Where SQUAREM follows one direction, this solves for the combination of the last steps whose residual is smallest, as quasi-Newton
methods do. docs/benchmarks/time-to-answer.md compares the two.

A path is a dictionary of arrays, for ``P`` coordinates and up to ``T`` differences between consecutive steps, in a ring:
``moves`` and ``bends (T, P)``, how coordinates after a step and residuals changed; ``products (T, T)`` of the bends; and of the
last step the coordinates ``image (P,)``, the ``residual (P,)``, and the ``number ()`` of differences so far.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch.distributions import constraints

from crowdppl.inference.engines.unconstrained import Space
from crowdppl.model.base import Parameters
from crowdppl.model.fixed_points import extrapolated_step
from crowdppl.model.program import base

Array = npt.NDArray[np.float64]

# Share of the diagonal that is added to the matrix of the least squares, whose steps become nearly parallel.
RIDGE = 1e-12
# Probabilities are taken to be at least this large, so that all have logarithms.
SMALLEST = 1e-300
# Supports whose coordinates are logarithms.
POSITIVE = (constraints.positive, constraints.nonnegative)


def begun(space: Space, memory: int, point: Parameters, image: Parameters) -> Parameters:
    """Return the path after a first M step.

    Args:
        space: of the model's sites.
        memory: the largest number of differences.
        point: the parameters before the step, by site.
        image: those after it.
    """
    to = _coordinates(space, image)
    residual = to - _coordinates(space, point)
    arrays = {
        "moves": np.zeros((memory, len(to))),
        "bends": np.zeros((memory, len(to))),
        "products": np.zeros((memory, memory)),
        "image": to,
        "residual": residual,
        "number": np.zeros((), dtype=np.int64),
    }
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def cut(path: Parameters) -> Parameters:
    """Return a path without its differences, in the same memory."""
    return path | {"number": torch.zeros_like(path["number"])}


def remembered(space: Space, path: Parameters, point: Parameters, image: Parameters) -> Parameters:
    """Return a path after another M step, whose memory is written over; arguments as of :func:`begun`."""
    moves, bends, products = (path[name].numpy() for name in ("moves", "bends", "products"))
    to, number = _coordinates(space, image), int(path["number"])
    residual, place = to - _coordinates(space, point), number % len(moves)
    np.subtract(to, path["image"].numpy(), out=moves[place])
    np.subtract(residual, path["residual"].numpy(), out=bends[place])
    size = min(number + 1, len(moves))
    products[place, :size] = products[:size, place] = bends[:size] @ bends[place]
    last = {"image": torch.from_numpy(to), "residual": torch.from_numpy(residual)}
    return path | last | {"number": path["number"] + 1}


def extrapolate(space: Space, path: Parameters, last: Parameters) -> Parameters:
    """Extrapolate from consecutive steps of EM.

    Args:
        space: of the model's sites.
        path: with at least one difference.
        last: the parameters after the last step, by site.

    Returns:
        The extrapolated parameters; ``last`` where they would not be finite. Discrete sites keep the values of ``last``.
    """
    moves, bends, products = (path[name].numpy() for name in ("moves", "bends", "products"))
    residual, number = path["residual"].numpy(), int(path["number"])
    size, newest = min(number, len(moves)), (number - 1) % len(moves)
    try:
        step = extrapolated_step(moves[:size], bends[:size], products[:size, :size], residual, newest, RIDGE)
    except np.linalg.LinAlgError:
        return last
    vector = path["image"].numpy() + step
    return _parameters(space, vector, last) if np.isfinite(vector).all() else last


def _coordinates(space: Space, parameters: Parameters) -> Array:
    """Return logarithms of probabilities, and other sites in unconstrained coordinates, ``(P,)``."""
    parts = []
    for name, kind in space.continuous.items():
        value = parameters[name]
        if kind == "bounded" and not _positive(space, name):
            value, kind = space.transforms[name].inv(value), "real"
        values = value.numpy().reshape(-1)
        parts.append(values if kind == "real" else np.log(np.maximum(values, SMALLEST)))
    return np.concatenate(parts)


def _positive(space: Space, name: str) -> bool:
    return any(base(space.supports[name]) is support for support in POSITIVE)


def _parameters(space: Space, vector: Array, like: Parameters) -> Parameters:
    """Return the sites of a vector of coordinates ``(P,)``, which is written over.

    Discrete sites, and the shapes of the others, are those of ``like``. Sites share the memory of the vector where they can.
    """
    out, at = dict(like), 0
    for name, kind in space.continuous.items():
        shape, transform = tuple(like[name].shape), space.transforms[name]
        other = kind == "bounded" and not _positive(space, name)
        shape = tuple(transform.inverse_shape(like[name].shape)) if other else shape
        part = vector[at : at + prod(shape)].reshape(shape)
        at += prod(shape)
        if kind == "simplex":
            part -= part.max(-1, keepdims=True)
            np.exp(part, out=part)
            part /= part.sum(-1, keepdims=True)
        elif kind == "bounded" and not other:
            np.exp(part, out=part)
        out[name] = transform(torch.from_numpy(part)) if other else torch.from_numpy(part)
    return out
