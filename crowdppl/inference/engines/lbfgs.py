"""L-BFGS on a device that the host should not wait for.

The steps are those of ``torch.optim.LBFGS`` with its line search for the strong Wolfe conditions, up to rounding (J. Nocedal and
S. Wright 2006, Numerical Optimization, algorithms 3.5, 3.6 and 7.4). That optimiser reads some twenty numbers from the device in
each iteration, and each read waits for all earlier work. Most iterations accept the first length that a line search would try.
Here several iterations are therefore taken on trust before the numbers that decide about all of them are read at once; those
after the first that would not have been accepted are discarded, and a line search, which reads once for each length, takes its
place. The more iterations in a row were accepted, the more are taken on trust.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

# Sufficient decrease and curvature of the strong Wolfe conditions.
DECREASE, CURVATURE = 1e-4, 0.9
# Largest slope at which it stops, smallest change of a coordinate or of the loss, and curvature below which a step is not kept.
SLOPE, CHANGE, FLAT = 1e-7, 1e-9, 1e-10
# Largest number of iterations taken on trust.
AHEAD = 8

Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Minimum:
    """Where the search ended.

    Attributes:
        vector: the coordinates, ``(P,)``.
        first: the loss at the start.
        loss: the loss at the end.
    """

    vector: Tensor
    first: float
    loss: float


@dataclass(frozen=True)
class _Point:
    """A point with its loss and gradient; the last moves, changes of the gradient in them, and one over their products."""

    vector: Tensor
    loss: Tensor
    gradient: Tensor
    moves: tuple[Tensor, ...] = ()
    bends: tuple[Tensor, ...] = ()
    rates: tuple[Tensor, ...] = ()
    scale: Tensor | None = None

    def direction(self) -> Tensor:
        """Return the quasi-Newton direction, by the recursion of two loops."""
        out = -self.gradient
        pairs = list(zip(self.moves, self.bends, self.rates, strict=True))
        shares = []
        for move, bend, rate in reversed(pairs):
            shares.append(move.dot(out) * rate)
            out = out - shares[-1] * bend
        if self.scale is not None:
            out = out * self.scale
        for (move, bend, rate), share in zip(pairs, reversed(shares), strict=True):
            out = out + (share - bend.dot(out) * rate) * move
        return out


class _Numbers(NamedTuple):
    """What decides about a step: its length, loss and slope at its end, product of move and bend, and steepest coordinate."""

    length: float
    loss: float
    slope: float
    product: float
    steepest: float


@dataclass(frozen=True)
class _Step:
    """A step from a point along a direction, whose numbers ``(5,)`` are on the device."""

    start: _Point
    direction: Tensor
    end: _Point
    numbers: Tensor

    def decides(self) -> Tensor:
        """Return the slope at the start, the longest coordinate of the direction, and the numbers, ``(7,)``."""
        slope, longest = self.start.gradient.dot(self.direction), self.direction.abs().max()
        return torch.cat([torch.stack([slope, longest]), self.numbers])

    def forgotten(self) -> _Point:
        """Return the end without this step among the last moves."""
        start = self.start
        return replace(self.end, moves=start.moves, bends=start.bends, rates=start.rates, scale=start.scale)


class _Search:
    """L-BFGS on one loss, of which ``memory`` moves are kept."""

    def __init__(self, loss: Loss, memory: int):
        self.loss, self.memory = loss, memory

    def point(self, vector: Tensor) -> _Point:
        """Evaluate loss and gradient."""
        with torch.enable_grad():
            vector = vector.detach().requires_grad_()
            loss = self.loss(vector)
            (gradient,) = torch.autograd.grad(loss, vector)
        return _Point(vector.detach(), loss.detach(), gradient)

    def step(self, start: _Point, direction: Tensor, length: Tensor) -> _Step:
        """Take a step of a length, ``()``."""
        move = length * direction
        end = self.point(start.vector + move)
        bend = end.gradient - start.gradient
        product = bend.dot(move)
        kept = [*start.moves, move], [*start.bends, bend], [*start.rates, 1 / product]
        moves, bends, rates = (tuple(part[-self.memory :]) for part in kept)
        end = replace(end, moves=moves, bends=bends, rates=rates, scale=product / bend.dot(bend))
        slope, steepest = end.gradient.dot(direction), end.gradient.abs().max()
        return _Step(start, direction, end, torch.stack([length, end.loss, slope, product, steepest]))

    def trusted(self, start: _Point) -> _Step:
        """Take the step that a line search tries first."""
        length = torch.ones_like(start.loss)
        if not start.moves:
            length = (1 / start.gradient.abs().sum()).clamp(max=1)
        return self.step(start, start.direction(), length)

    def line(
        self, first: _Step, known: _Numbers, zero: _Numbers, longest: float, most: int
    ) -> tuple[_Step | None, _Numbers, int]:
        """Search along the direction of a first step for a length with strong Wolfe conditions.

        Args:
            first: the step.
            known: its numbers.
            zero: those of a step of length 0.
            longest: coordinate of the direction.
            most: further lengths to try, at most.

        Returns:
            The step, ``None`` where the best length is 0, its numbers, and how many lengths were evaluated, the first included.
        """
        steps = {zero.length: None, known.length: first}

        def tried(length: float) -> _Numbers:
            step = self.step(first.start, first.direction, first.end.loss.new_full((), length))
            numbers = _Numbers(length, *step.numbers[1:].tolist())
            steps[length] = step
            return numbers

        def falls(numbers: _Numbers) -> bool:
            return not numbers.loss > zero.loss + DECREASE * numbers.length * zero.slope

        def ended(numbers: _Numbers) -> tuple[_Step | None, _Numbers, int]:
            return steps[numbers.length], numbers, 1 + taken

        before, now, taken = zero, known, 0
        while taken < most:
            if not falls(now) or (taken > 1 and now.loss >= before.loss):
                ends = [before, now]
                break
            if _level(now, zero):
                return ended(now)
            if now.slope >= 0:
                ends = [before, now]
                break
            bounds = now.length + 0.01 * (now.length - before.length), now.length * 10
            before, now, taken = now, tried(_cubic(before, now, bounds)), taken + 1
        else:
            ends = [zero, now]
        close = False
        ends.sort(key=lambda end: end.loss)  # the lower one first
        while taken < most:
            low, high = ends
            lengths = sorted((low.length, high.length))
            if (lengths[1] - lengths[0]) * longest < CHANGE:
                break
            length, near = _cubic(low, high, (lengths[0], lengths[1])), 0.1 * (lengths[1] - lengths[0])
            if min(lengths[1] - length, length - lengths[0]) < near:
                # Twice at an end of the interval: a tenth of it away from there.
                if close or length >= lengths[1] or length <= lengths[0]:
                    upper = abs(length - lengths[1]) < abs(length - lengths[0])
                    length, close = lengths[1] - near if upper else lengths[0] + near, False
                else:
                    close = True
            else:
                close = False
            new, taken = tried(length), taken + 1
            if not falls(new) or new.loss >= low.loss:
                ends = sorted((low, new), key=lambda end: end.loss)
                continue
            if _level(new, zero):
                return ended(new)
            ends = [new, low if new.slope * (high.length - low.length) >= 0 else high]
        return ended(ends[0])


def minimise(loss: Loss, start: Tensor, iterations: int, memory: int) -> Minimum:
    """Minimise a loss.

    Args:
        loss: takes coordinates ``(P,)`` and returns a scalar that can be differentiated.
        start: the coordinates to begin at.
        iterations: at most so many, with a quarter more evaluations of the loss.
        memory: number of moves that the curvature is learned from.
    """
    search, most = _Search(loss, memory), iterations * 5 // 4
    point, first, value, evaluations, taken, ahead = search.point(start), None, math.nan, 1, 0, 1
    while True:
        trials: list[_Step] = []
        for _ in range(max(1, min(ahead, iterations - taken, most - evaluations))):
            trials.append(search.trusted(trials[-1].end if trials else point))
        ahead = min(AHEAD, 2 * ahead)
        begin = torch.stack([point.loss, point.gradient.abs().max()])
        value, steepest, *rows = torch.cat([begin, *(trial.decides() for trial in trials)]).tolist()
        if first is None:
            first = value
            if steepest <= SLOPE:
                return Minimum(point.vector, first, value)
        for n, trial in enumerate(trials):
            slope, longest, *known = rows[7 * n : 7 * n + 7]
            numbers, zero, step = _Numbers(*known), _Numbers(0.0, value, slope, 0.0, 0.0), trial
            taken += 1
            if slope > -CHANGE:
                return Minimum(point.vector, first, value)
            accepted = numbers.loss <= value + DECREASE * numbers.length * slope and _level(numbers, zero)
            used = 1
            if not accepted:
                ahead = 1
                best, numbers, used = search.line(trial, numbers, zero, longest, most - evaluations)
                if best is None:  # no length lowers the loss
                    return Minimum(point.vector, first, value)
                step = best
            kept = numbers.product > FLAT
            point, evaluations = step.end if kept else step.forgotten(), evaluations + used
            change, value = abs(numbers.loss - value), numbers.loss
            small = numbers.length * longest <= CHANGE or change < CHANGE or numbers.steepest <= SLOPE
            if taken == iterations or evaluations >= most or small:
                return Minimum(point.vector, first, value)
            if not (accepted and kept):
                break


def _level(numbers: _Numbers, zero: _Numbers) -> bool:
    """Tell whether the slope has become small enough."""
    return abs(numbers.slope) <= -CURVATURE * zero.slope


def _cubic(one: _Numbers, other: _Numbers, bounds: tuple[float, float]) -> float:
    """Return where the cubic through two points with their slopes is lowest, within bounds, or the middle of these."""
    low, high = (one, other) if one.length <= other.length else (other, one)
    bend = low.slope + high.slope - 3 * (low.loss - high.loss) / (low.length - high.length)
    square = bend**2 - low.slope * high.slope
    divisor = high.slope - low.slope + 2 * math.sqrt(square) if square >= 0 else 0.0
    if not divisor:
        return (bounds[0] + bounds[1]) / 2
    lowest = high.length - (high.length - low.length) * (high.slope + math.sqrt(square) - bend) / divisor
    return min(max(lowest, bounds[0]), bounds[1])
