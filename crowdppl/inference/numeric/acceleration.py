"""Steps of mean-field EM, extrapolated by Anderson acceleration, see :mod:`crowdppl.model.fixed_points`.

A step depends on few quantities of the one before: the expected precision of each worker, means of ``g``, ``g^2`` and ``b g``,
and the modes of the crowd. These are extrapolated, as unconstrained coordinates. A step from an extrapolated point counts if
the lower bound after it is not below that of the step before; else the run goes on from that step, without its history. The
bound is read off the sums that the step has used, and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crowdppl.inference.numeric.conditionals import LEAST_SPREAD
from crowdppl.inference.numeric.mean_field import LEAST_SHARE, STILL, Loop, State, moved
from crowdppl.model.fixed_points import Extrapolation
from crowdppl.models.linear_gaussian import FEWEST_DF, MOST_DF

# By how much the lower bound may fall, relative to itself: by rounding.
ROUNDING = 1e-13
# Variances of slopes are taken to be at least this large, so that all have logarithms.
SMALLEST = 1e-12


class Coordinates:
    """Unconstrained coordinates of what a step depends on.

    Args:
        loop: whose states they are of.
    """

    def __init__(self, loop: Loop):
        self._like, self._floor = loop.data.value, loop.data.floor
        self._slopes = loop.model.slopes
        # Modes of the crowd that are positive, with their least and greatest values.
        self._positive = {"truth_sd": (0.0, math.inf), "bias_sd": (LEAST_SPREAD, math.inf), "df": (FEWEST_DF, MOST_DF)}
        self._positive["common"] = (self._floor, math.inf)
        if self._slopes:
            self._positive["slope_sd"] = (LEAST_SPREAD, math.inf)
        if loop.data.features is not None:
            self._positive["weight_sd"] = (LEAST_SPREAD, math.inf)

    def of(self, state: State) -> Tensor:
        """Return the coordinates of a state, ``(P,)``."""
        _, slope, _, slope_square, product = state.overall()
        parts = [state.weight.log(), product]
        crowd = [state.mean, *(math.log(getattr(state, name)) for name in self._positive)]
        if self._slopes:
            parts += [slope, (slope_square - slope**2).clamp(min=SMALLEST).log()]
            crowd.append(math.log(state.random_share) - math.log1p(-state.random_share))
        return torch.cat([*parts, self._like.new_tensor(crowd)])

    def set(self, loop: Loop, plain: State, point: Tensor) -> None:
        """Set the state of a loop, and its truths, to what has these coordinates; all else is that of ``plain``."""
        J = len(plain.weight)
        logs, product, *of_slopes = point[: J * (4 if self._slopes else 2)].split(J)
        mean, *crowd = point[J * (4 if self._slopes else 2) :].tolist()
        slope, square = torch.ones_like(product), torch.ones_like(product)
        modes = {"mean": mean}
        if self._slopes:
            slope, square = of_slopes[0], of_slopes[0] ** 2 + of_slopes[1].exp()
            share = 1 / (1 + math.exp(-max(crowd.pop(), -700.0)))
            modes["random_share"] = max(share, LEAST_SHARE)
        for value, (name, (least, most)) in zip(crowd, self._positive.items(), strict=True):
            modes[name] = min(max(math.exp(min(value, 700.0)), least), most)
        loop.state = replace(plain, weight=logs.exp().clamp(max=1 / self._floor), **modes)
        loop.expectation((square, slope, product))


@dataclass
class PathState:
    """A run between two steps.

    Attributes:
        plain: the state after the last step that counts.
        bound: its lower bound; -inf before the first step.
        point: coordinates of the point from which the next step is taken, ``(P,)``; ``None`` where it is ``plain``.
        kept: of the extrapolation.
    """

    plain: State
    bound: float
    point: Tensor | None
    kept: list[Tensor]


class Path:
    """A run of extrapolated steps.

    Args:
        loop: where it starts.

    Attributes:
        loop: where it is.
        done: whether the last step was the last one.
    """

    def __init__(self, loop: Loop):
        self.loop = loop
        self._coordinates, self._extrapolation = Coordinates(loop), Extrapolation()
        # The state after the last step that counts, its lower bound, and the coordinates of the next point where it is not that.
        self._plain, self._bound = loop.state, -math.inf
        self._point: Tensor | None = None
        self.done = False

    def state(self) -> PathState:
        """Return all that the next steps depend on."""
        return PathState(self._plain, self._bound, self._point, self._extrapolation.kept())

    def take_up(self, state: PathState) -> None:
        """Continue from what :meth:`state` returned."""
        self._plain, self._bound, self._point = state.plain, state.bound, state.point
        self._extrapolation.take_up(state.kept)
        self.loop.state = state.plain
        if state.point is None:
            self.loop.expectation()
        else:
            self._coordinates.set(self.loop, state.plain, state.point)

    def step(self) -> float:
        """Take one step; return the lower bound after it.

        It is the last one if extrapolation moves no truth by more than ``STILL``, and nor does a step without it.
        """
        loop, before = self.loop, self.loop.truths.mean
        start = self._coordinates.of(loop.state) if self._point is None else self._point
        loop.maximisation()
        bound = loop.bound()
        if self._point is not None and not bound >= self._bound - ROUNDING * abs(self._bound):
            self._extrapolation.restart()
            self.end()
            return self._bound
        self._plain, self._bound = loop.state, bound
        self._point = self._extrapolation(start, self._coordinates.of(loop.state))
        self._coordinates.set(loop, self._plain, self._point)
        if moved(before, loop.truths.mean) < STILL:
            self.end()
            self.done = moved(before, loop.truths.mean) < STILL
        return bound

    def end(self) -> None:
        """Go back from an extrapolated point to the state after the last step that counts."""
        if self._point is not None:
            self.loop.state, self._point = self._plain, None
            self.loop.expectation()
