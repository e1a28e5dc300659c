"""Anderson acceleration of EM: extrapolation from several earlier steps.

D. G. Anderson (1965). Iterative procedures for nonlinear integral equations. Journal of the ACM 12(4), 547-560. N. C. Henderson
and R. Varadhan (2019). Damped Anderson acceleration with restarts and monotonicity control for accelerating EM and EM-like
algorithms. Journal of Computational and Graphical Statistics 28(4), 834-846; without their damping.

Where SQUAREM follows one direction, this solves for the combination of the last steps whose residual is smallest, as quasi-Newton
methods do. docs/benchmarks/time-to-answer.md compares the two.

A point is a vector ``(P,)`` of all parameters. Its coordinates are the logarithms of probabilities and of positive numbers, and
other parameters as they are.

A path is a dictionary of arrays, for ``P`` coordinates and up to ``T`` differences between consecutive steps, in a ring:
``moves`` and ``bends (T, P)``, how coordinates after a step and residuals changed; ``products (T, T)`` of the bends; and of the
last step the coordinates ``image (P,)``, the ``residual (P,)``, and the ``number ()`` of differences so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
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


@dataclass(frozen=True)
class Coordinates:
    """The map between points and their coordinates.

    Attributes:
        logged: places of the parameters whose coordinates are logarithms, in the vector.
        simplexes: first place and shape ``(rows, K)`` of each site whose rows are probabilities that sum to one.
    """

    logged: npt.NDArray[np.intp]
    simplexes: tuple[tuple[int, tuple[int, int]], ...]

    @staticmethod
    def of(space: Space, shapes: Mapping[str, tuple[int, ...]]) -> Coordinates:
        """Return those of the sites of a model, whose values lie in a vector one after the other in these shapes.

        Raises:
            AssertionError: for a site with other bounds, or one that is discrete.
        """
        logged, simplexes, at = [], [], 0
        for name, shape in shapes.items():
            kind, size = space.continuous[name], prod(shape)
            assert kind != "bounded" or base(space.supports[name]) in POSITIVE, name
            if kind == "simplex":
                simplexes.append((at, (size // shape[-1], shape[-1])))
            if kind != "real":
                logged.append(np.arange(at, at + size))
            at += size
        return Coordinates(np.concatenate(logged) if logged else np.zeros(0, dtype=np.intp), tuple(simplexes))

    def at(self, point: Tensor) -> Array:
        """Return the coordinates of a point."""
        out = point.numpy().copy()
        out[self.logged] = np.log(np.maximum(out[self.logged], SMALLEST))
        return out

    def point(self, coordinates: Array) -> Tensor:
        """Return the point with some coordinates, which are written over; probabilities are normalised."""
        for first, (rows, K) in self.simplexes:
            part = coordinates[first : first + rows * K].reshape(rows, K)
            part -= part.max(-1, keepdims=True)
            part -= np.log(np.exp(part).sum(-1, keepdims=True))
        coordinates[self.logged] = np.exp(coordinates[self.logged])
        return torch.from_numpy(coordinates)


def begun(coordinates: Coordinates, memory: int, point: Tensor, image: Tensor) -> Parameters:
    """Return the path after a first M step.

    Args:
        coordinates: of the model's points.
        memory: the largest number of differences.
        point: the parameters before the step, ``(P,)``.
        image: those after it.
    """
    to = coordinates.at(image)
    residual = to - coordinates.at(point)
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


def remembered(coordinates: Coordinates, path: Parameters, point: Tensor, image: Tensor) -> Parameters:
    """Return a path after another M step, whose memory is written over; arguments as of :func:`begun`."""
    moves, bends, products = (path[name].numpy() for name in ("moves", "bends", "products"))
    to, number = coordinates.at(image), int(path["number"])
    residual, place = to - coordinates.at(point), number % len(moves)
    np.subtract(to, path["image"].numpy(), out=moves[place])
    np.subtract(residual, path["residual"].numpy(), out=bends[place])
    size = min(number + 1, len(moves))
    products[place, :size] = products[:size, place] = bends[:size] @ bends[place]
    last = {"image": torch.from_numpy(to), "residual": torch.from_numpy(residual)}
    return path | last | {"number": path["number"] + 1}


def extrapolate(coordinates: Coordinates, path: Parameters, last: Tensor) -> Tensor:
    """Extrapolate from consecutive steps of EM.

    Args:
        coordinates: of the model's points.
        path: with at least one difference.
        last: the parameters after the last step, ``(P,)``.

    Returns:
        The extrapolated parameters, ``(P,)``; ``last`` where they would not be finite.
    """
    moves, bends, products = (path[name].numpy() for name in ("moves", "bends", "products"))
    residual, number = path["residual"].numpy(), int(path["number"])
    size, newest = min(number, len(moves)), (number - 1) % len(moves)
    try:
        step = extrapolated_step(moves[:size], bends[:size], products[:size, :size], residual, newest, RIDGE)
    except np.linalg.LinAlgError:
        return last
    vector = path["image"].numpy() + step
    return coordinates.point(vector) if np.isfinite(vector).all() else last
