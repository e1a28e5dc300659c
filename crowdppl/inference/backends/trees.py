"""The no-U-turn sampler for several chains, whose densities are evaluated together.

A chain is a generator: it yields the place at which it needs the log density, and is sent the density and its slope. Chains are
not in step: each builds its own trees, and all places that are asked for are evaluated in one call. For tensors as small as those
of most crowds a call for four chains costs little more than one for a single chain.

Trees, their proportional (multinomial) samples and the criterion of a U-turn are those of Stan: M. D. Hoffman and A. Gelman
(2014), The No-U-Turn sampler, Journal of Machine Learning Research 15; M. Betancourt (2017), A conceptual introduction to
Hamiltonian Monte Carlo, appendix A, with the checks across both halves of a tree that Stan added in 2019. So is the warm-up,
except that the scale of a coordinate is learned from all chains: chains depend on each other until the warm-up ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from crowdppl.inference.backends.adaptation import DIVERGENT, EXTREME, Adapted, Target, scales

Array = npt.NDArray[np.float64]
# A generator that is sent the log density and its slope at each place that it yields.
Asking = Generator[Array, tuple[float, Array], Any]

# Warm-up of Stan, for a thousand draws: fast adaptation at the start and at the end, and the first of the windows between them,
# each of which is twice as long as the one before. Shorter warm-ups have shares of these.
FAST, WINDOW, LAST = 75, 25, 50
SHARES = (0.15, 0.75, 0.1)
# Draws of the last part at least: the first sizes that dual averaging tries are ten times too long.
SHORTEST = 10
# A step size is looked for until this share of single steps is accepted, by so many halvings or doublings at most.
SINGLE, TRIALS = 0.8, 50
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


def phases(warmup: int) -> list[tuple[int, bool]]:
    """Return the ends of the parts of a warm-up, and whether scales are learned at each."""
    if warmup < 20:
        return [(warmup, False)]
    fast, last = FAST, LAST
    if fast + WINDOW + last > warmup:
        fast, last = int(SHARES[0] * warmup), max(int(SHARES[2] * warmup), SHORTEST)
        return [(fast, False), (warmup - last, True), (warmup, False)]
    out, at, size = [(fast, False)], fast, WINDOW
    while at < warmup - last:
        # A window that would leave less than twice its size takes the rest.
        at = at + size if at + 3 * size <= warmup - last else warmup - last
        out.append((at, True))
        size *= 2
    return [*out, (warmup, False)]


# The numbers among the fields of a chain.
NUMBERS = (
    "deepest",
    "done",
    "log_step",
    "log_average",
    "centre",
    "lack",
    "updates",
    "number",
    "divergences",
    "accepted",
)


class Mark(NamedTuple):
    """A chain after a whole draw: fields as those of :class:`Chain`, and the state of the stream."""

    place: Array
    stream: Any
    numbers: dict[str, Any]
    mean: Array
    squares: Array


@dataclass
class Chain(Adapted):
    """A chain between two draws.

    Attributes:
        place: of the chain, ``(P,)``.
        scale: of each coordinate, ``(P,)``.
        random: its stream.
        deepest: doublings of a trajectory at most.
        done: draws so far, warm-up included.
        draws: kept, each ``(P,)``.
        statistics: of the draws kept, by name.
        divergences: number of draws after the warm-up that diverged.
        accepted: sum of the acceptance probabilities after the warm-up.
        marked: the chain at its last draw.
    """

    place: Array
    scale: Array
    random: np.random.Generator
    deepest: int = 10
    done: int = 0
    log_step: float = 0.0
    log_average: float = 0.0
    centre: float = 0.0
    lack: float = 0.0
    updates: int = 0
    mean: Array = field(default_factory=lambda: np.zeros(0))
    squares: Array = field(default_factory=lambda: np.zeros(0))
    number: int = 0
    draws: list[Array] = field(default_factory=list)
    statistics: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in STATISTICS})
    divergences: int = 0
    accepted: float = 0.0
    marked: Mark = field(init=False)

    def __post_init__(self) -> None:
        if not len(self.mean):
            self.begin_window()
        self.mark()

    def begin_window(self) -> None:
        """Begin to learn scales: no place has been seen."""
        self.mean, self.squares, self.number = np.zeros_like(self.place), np.zeros_like(self.place), 0

    def mark(self) -> None:
        """Remember the chain as it is, for a run that is stopped before the next draw."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        self.marked = Mark(self.place, self.random.bit_generator.state, numbers, self.mean, self.squares)

    def until(self, end: int, tuned: float | None, thin: int, warmup: int) -> Asking:
        """Draw until there are ``end`` draws.

        Args:
            end: number of draws.
            tuned: acceptance probability that the step size is tuned to; ``None`` after the warm-up.
            thin: one of so many draws is kept.
            warmup: draws that are not.
        """
        self.mark()
        at = Point(self.place, *(yield self.place))
        if tuned is not None and self.updates == 0 and self.done < end:
            yield from self._first_step(at)
        while self.done < end:
            step = math.exp(self.log_average if tuned is None else self.log_step)
            walk = Walk(self.scale, step, self.random)
            walk.deepest = self.deepest
            at = yield from walk.transition(at)
            self.place = at.place
            self.done += 1
            if tuned is None:
                self._keep(walk.statistics, (self.done - warmup) % thin == 0)
            else:
                self._adapt(walk.statistics["acceptance_rate"], tuned)
            self.mark()

    def _keep(self, statistics: dict[str, float], stored: bool) -> None:
        """Count a draw, and store it."""
        self.divergences += int(statistics["diverging"])
        self.accepted += statistics["acceptance_rate"]
        if stored:
            self.draws.append(self.place)
            for name, value in statistics.items():
                self.statistics[name].append(value)

    def _first_step(self, at: Point) -> Asking:
        """Look for a step size at which single steps are accepted."""
        way = 0
        for _ in range(TRIALS):
            walk = Walk(self.scale, math.exp(self.log_step), self.random)
            velocity = self.random.standard_normal(len(at.place))
            walk.energy = float(velocity @ velocity) / 2 - at.density
            tree = yield from walk.grown(0, Edge(at, velocity), 1.0)
            up = tree.weight > math.log(SINGLE)
            if (way and up != (way > 0)) or abs(self.log_step) > EXTREME:
                break
            way = 1 if up else -1
            self.log_step += way * math.log(2)
        self.begin_averaging(self.log_step, times=10)

    def _adapt(self, accepted: float, tuned: float) -> None:
        """Learn from a draw of the warm-up."""
        self.learn_step(tuned - accepted)
        self.learn_place(self.place)


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


def together(chains: Sequence[Chain], asking: Sequence[Asking], target: Target, after: Callable[[], None]) -> None:
    """Let all chains go on until each has what it asked for.

    Args:
        chains: whose places those that ask no more keep: each chain stays in its row, so that it does not depend on the others.
        asking: a generator for each.
        target: the log density.
        after: called after each evaluation.
    """
    places = np.stack([chain.place for chain in chains])
    going: list[int] = []
    for n, one in enumerate(asking):
        try:
            places[n] = next(one)
            going.append(n)
        except StopIteration:
            continue
    while going:
        density, slope = target(torch.from_numpy(places.copy()))
        values, slopes = density.double().cpu().tolist(), slope.double().cpu().numpy()
        ended = []
        for n in going:
            try:
                places[n] = asking[n].send((values[n], slopes[n]))
            except StopIteration:
                ended.append(n)
        going = [n for n in going if n not in ended]
        after()


def learn_scales(chains: Sequence[Chain]) -> None:
    """Set the scales of all chains to the standard deviations of the places that they have been at, within chains."""
    number = sum(chain.number - 1 for chain in chains)
    variance = sum(chain.squares for chain in chains) / max(number, 1)
    scale = scales(variance, number)
    for chain in chains:
        chain.scale = scale
        chain.log_step, chain.updates = chain.log_average, 0
        chain.begin_window()
