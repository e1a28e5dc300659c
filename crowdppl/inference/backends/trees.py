"""One draw of the no-U-turn sampler, by trees of leapfrog steps.

Trees, their proportional (multinomial) samples and the criterion of a U-turn are those of Stan: M. D. Hoffman and A. Gelman
(2014), The No-U-Turn sampler, Journal of Machine Learning Research 15; M. Betancourt (2017), A conceptual introduction to
Hamiltonian Monte Carlo, appendix A, with the checks across both halves of a tree that Stan added in 2019.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from crowdppl.inference.backends.adaptation import DIVERGENT

Array = npt.NDArray[np.float64]
# A generator that is sent the log density and its slope at each place that it yields.
Asking = Generator[Array, tuple[float, Array], Any]

# What is kept of each draw, by the names of ArviZ's schema, and its type.
STATISTICS = {
    "diverging": torch.bool,
    "energy": torch.float64,
    "tree_depth": torch.int64,
    "n_steps": torch.int64,
    "acceptance_rate": torch.float64,
    "step_size": torch.float64,
}


class Point(NamedTuple):
    """A place ``(P,)``, its log density, and the slope of that ``(P,)``."""

    place: Array
    density: float
    slope: Array


class Edge(NamedTuple):
    """The end of a trajectory: a point, and the velocity there ``(P,)``."""

    point: Point
    velocity: Array


class Tree(NamedTuple):
    """A part of a trajectory, in the order in which it was built.

    Attributes:
        first: velocity at its beginning.
        last: its end, from which it goes on.
        total: sum of its velocities.
        chosen: a point of it, drawn in proportion to the densities.
        weight: log of the sum of these.
        whole: whether it neither turned nor diverged.
    """

    first: Array
    last: Edge
    total: Array
    chosen: Point
    weight: float
    whole: bool


class Walk:
    """One draw of a chain.

    Args:
        scale: of each coordinate, ``(P,)``.
        step: length of a leapfrog step, in scales.
        random: the chain's stream.

    Attributes:
        energy: at the start.
        statistics: of the draw, by name.
    """

    deepest = 10

    def __init__(self, scale: Array, step: float, random: np.random.Generator):
        self.full, self.half = step * scale, step / 2 * scale
        self.random, self.energy = random, 0.0
        self.statistics = dict.fromkeys(STATISTICS, 0.0) | {"step_size": step}

    def transition(self, at: Point) -> Asking:
        """Double a trajectory until it turns, and return a point of it."""
        velocity = self.random.standard_normal(len(at.place))
        self.energy = float(velocity @ velocity) / 2 - at.density
        ends = {1.0: Edge(at, velocity), -1.0: Edge(at, velocity)}
        chosen, weight, total = at, 0.0, velocity
        statistics = self.statistics
        statistics["energy"] = self.energy
        for depth in range(self.deepest):
            sign = 1.0 if self.random.random() < 0.5 else -1.0
            near, far = ends[sign], ends[-sign]
            tree = yield from self.grown(depth, near, sign)
            statistics["tree_depth"] += 1
            if not tree.whole:
                break
            if math.log1p(-self.random.random()) < tree.weight - weight:
                chosen = tree.chosen
            weight = float(np.logaddexp(weight, tree.weight))
            ends[sign] = tree.last
            if _turns(far.velocity, near.velocity, total, tree):
                break
            total = total + tree.total
        statistics["acceptance_rate"] /= statistics["n_steps"]
        return chosen

    def grown(self, depth: int, edge: Edge, sign: float) -> Generator[Array, tuple[float, Array], Tree]:
        """Build a tree of ``2 ** depth`` steps from an edge, forwards or backwards."""
        if depth == 0:
            return (yield from self._leapfrog(edge, sign))
        one = yield from self.grown(depth - 1, edge, sign)
        if not one.whole:
            return one
        other = yield from self.grown(depth - 1, one.last, sign)
        if not other.whole:
            return other
        weight = float(np.logaddexp(one.weight, other.weight))
        chosen = other.chosen if math.log1p(-self.random.random()) < other.weight - weight else one.chosen
        whole = not _turns(one.first, one.last.velocity, one.total, other)
        return Tree(one.first, other.last, one.total + other.total, chosen, weight, whole)

    def _leapfrog(self, edge: Edge, sign: float) -> Generator[Array, tuple[float, Array], Tree]:
        point, velocity = edge
        velocity = velocity + sign * (self.half * point.slope)
        place = point.place + sign * (self.full * velocity)
        density, slope = yield place
        velocity = velocity + sign * (self.half * slope)
        gain = density - float(velocity @ velocity) / 2 + self.energy
        if math.isnan(gain):
            gain = -math.inf
        statistics = self.statistics
        statistics["n_steps"] += 1
        statistics["acceptance_rate"] += math.exp(min(gain, 0.0))
        diverging = gain < -DIVERGENT
        statistics["diverging"] = max(statistics["diverging"], float(diverging))
        at = Point(place, density, slope)
        return Tree(velocity, Edge(at, velocity), velocity, at, gain, not diverging)


def _turns(far: Array, near: Array, total: Array, tree: Tree) -> bool:
    """Tell whether a trajectory turns that goes on by a tree.

    Args:
        far: velocity at its beginning.
        near: velocity at its end, where the tree begins.
        total: sum of its velocities.
        tree: what it goes on by.
    """
    last = tree.last.velocity
    for sum_, begin, end in (
        (total + tree.total, far, last),
        (total + tree.first, far, tree.first),
        (tree.total + near, near, last),
    ):
        if sum_ @ begin <= 0 or sum_ @ end <= 0:
            return True
    return False
