"""Anderson acceleration of EM: extrapolation from several earlier steps.

D. G. Anderson (1965). Iterative procedures for nonlinear integral equations. Journal of the ACM 12(4), 547-560. N. C. Henderson
and R. Varadhan (2019). Damped Anderson acceleration with restarts and monotonicity control for accelerating EM and EM-like
algorithms. Journal of Computational and Graphical Statistics 28(4), 834-846; without their damping.

Where SQUAREM follows one direction, this solves for the combination of the last steps whose residual is smallest, as quasi-Newton
methods do. docs/benchmarks/time-to-answer.md compares the two.

A path is a list: for each of the last steps how it differs from the step before, then the last step itself.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch.distributions.transforms import ExpTransform

from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import Parameters

Array = npt.NDArray[np.float64]

# Share of the diagonal that is added to the matrix of the least squares, whose steps become nearly parallel.
RIDGE = 1e-12
# Probabilities are taken to be at least this large, so that all have logarithms.
SMALLEST = 1e-300
# Where steps become longer, how many of the last one at most to go ahead.
FARTHEST = 32.0


def remembered(
    space: Space, path: list[Parameters], memory: int, point: Parameters, image: Parameters
) -> list[Parameters]:
    """Return the path after an M step.

    Args:
        space: of the model's sites.
        path: before it; of the first steps only ``memory - 1`` are kept.
        memory: the largest number of differences.
        point: the parameters before the step, by site.
        image: those after it.

    Returns:
        Of each difference the coordinates ``move (P,)``, how those after the step changed, and ``bend (P,)``, how the residual
        did, and the ``products (T,)`` of the bend with those of the differences before and itself. Of the last step the
        coordinates ``image (P,)`` and the ``residual (P,)``.
    """
    to = _coordinates(space, image)
    residual = to - _coordinates(space, point)
    last = {"image": torch.from_numpy(to), "residual": torch.from_numpy(residual)}
    if not path:
        return [last]
    bend = residual - path[-1]["residual"].numpy()
    earlier = path[max(0, len(path) - memory) : -1]
    products = np.array([*(np.dot(bend, step["bend"].numpy()) for step in earlier), np.dot(bend, bend)])
    change = {"move": to - path[-1]["image"].numpy(), "bend": bend, "products": products}
    return [*earlier, {name: torch.from_numpy(value) for name, value in change.items()}, last]


def extrapolate(space: Space, path: list[Parameters], last: Parameters) -> Parameters:
    """Extrapolate from consecutive steps of EM.

    Args:
        space: of the model's sites.
        path: as :func:`remembered` returns it, with at least one difference.
        last: the parameters after the last step, by site.

    Returns:
        The extrapolated parameters; ``last`` where they would not be finite. Discrete sites keep the values of ``last``.
    """
    differences, residual = path[:-1], path[-1]["residual"].numpy()
    lower = np.zeros((len(differences), len(differences)))
    for n, step in enumerate(differences):
        lower[n, : n + 1] = step["products"].numpy()[-n - 1 :]
    scale = 1 / np.sqrt(np.maximum(lower.diagonal(), SMALLEST))
    gram = (lower + np.tril(lower, -1).T) * scale * scale[:, None] + RIDGE * np.eye(len(differences))
    right = np.array([np.dot(step["bend"].numpy(), residual) for step in differences])
    try:
        weights = scale * np.linalg.solve(gram, scale * right)
    except np.linalg.LinAlgError:
        return last
    step = np.zeros_like(residual)
    for weight, change in zip(weights, differences, strict=True):
        step -= weight * change["move"].numpy()
    if np.dot(step, residual) < 0:  # steps become longer: the residual is 0 behind, where the objective is not greatest
        length = np.sqrt(np.dot(residual, residual) / max(lower[-1, -1], SMALLEST))
        step = min(length, FARTHEST) * differences[-1]["move"].numpy()
    vector = path[-1]["image"].numpy() + step
    return _parameters(space, vector, last) if np.isfinite(vector).all() else last


def _coordinates(space: Space, parameters: Parameters) -> Array:
    """Return logarithms of probabilities, and other sites in unconstrained coordinates, ``(P,)``."""
    parts = []
    for name, kind in space.continuous.items():
        value = parameters[name]
        transform = space.transforms[name]
        if kind == "bounded" and not isinstance(transform, ExpTransform):
            value, kind = transform.inv(value), "real"
        values = value.numpy().reshape(-1)
        parts.append(values if kind == "real" else np.log(np.maximum(values, SMALLEST)))
    return np.concatenate(parts)


def _parameters(space: Space, vector: Array, like: Parameters) -> Parameters:
    """Return the sites of a vector of coordinates ``(P,)``; discrete ones, and coordinates' shapes, are those of ``like``."""
    out, at = dict(like), 0
    for name, kind in space.continuous.items():
        shape, transform = tuple(like[name].shape), space.transforms[name]
        simple = kind != "bounded" or isinstance(transform, ExpTransform)
        shape = shape if simple else tuple(transform.inverse_shape(like[name].shape))
        part = vector[at : at + prod(shape)].reshape(shape)
        at += prod(shape)
        if kind == "simplex":
            part = np.exp(part - part.max(-1, keepdims=True))
            part /= part.sum(-1, keepdims=True)
        elif kind == "bounded" and simple:
            part = np.exp(part)
        out[name] = torch.from_numpy(np.asarray(part)) if simple else transform(torch.from_numpy(part))
    return out
