"""The no-U-turn sampler for several chains, whose densities are evaluated together.

A chain is a generator: it yields the place at which it needs the log density, and is sent the density and its slope. Chains are
not in step: each builds its own trees, and all places that are asked for are evaluated in one call. For tensors as small as those
of most crowds a call for four chains costs little more than one for a single chain.

The warm-up is that of Stan (:mod:`crowdppl.inference.backends.trees` has the references), except that the scale of a coordinate
is learned from all chains: chains depend on each other until the warm-up ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.backends.adaptation import EXTREME, Adapted, Target, scales
from crowdppl.inference.backends.trees import STATISTICS, Array, Asking, Edge, Point, Walk

# Warm-up of Stan, for a thousand draws: fast adaptation at the start and at the end, and the first of the windows between them,
# each of which is twice as long as the one before. Shorter warm-ups have shares of these.
FAST, WINDOW, LAST = 75, 25, 50
SHARES = (0.15, 0.75, 0.1)
# Draws of the last part at least: the first sizes that dual averaging tries are ten times too long.
SHORTEST = 10
# A step size is looked for until this share of single steps is accepted, by so many halvings or doublings at most.
SINGLE, TRIALS = 0.8, 50


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


@dataclass
class ChainState:
    """A chain after its last whole draw; fields as those of :class:`Chain`, for a checkpoint."""

    place: Tensor
    scale: Tensor
    stream: dict[str, Any]
    numbers: dict[str, Any]
    mean: Tensor
    squares: Tensor
    draws: Tensor
    statistics: Tensor

    @classmethod
    def of(cls, chain: Chain) -> ChainState:
        """Return the state of a chain."""
        mark = chain.marked
        draws = np.stack(chain.draws) if chain.draws else np.zeros((0, len(chain.place)))
        return cls(
            torch.from_numpy(mark.place),
            torch.from_numpy(chain.scale),
            mark.stream,
            mark.numbers,
            torch.from_numpy(mark.mean),
            torch.from_numpy(mark.squares),
            torch.from_numpy(draws),
            torch.tensor([chain.statistics[name] for name in STATISTICS], dtype=torch.float64),
        )

    def chain(self) -> Chain:
        """Return the chain."""
        place, scale, mean, squares, draws = (
            part.cpu().numpy() for part in (self.place, self.scale, self.mean, self.squares, self.draws)
        )
        random = np.random.default_rng()
        random.bit_generator.state = self.stream
        statistics = dict(zip(STATISTICS, self.statistics.tolist(), strict=True))
        return Chain(
            place, scale, random, mean=mean, squares=squares, draws=list(draws), statistics=statistics, **self.numbers
        )


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
