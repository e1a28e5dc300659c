"""Steps of EM by compiled functions, for models that have a compiled step and its M step."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.chains import ROOM, compiled_or_none
from crowdppl.inference.backends.coded import Coded
from crowdppl.isolation import Threads
from crowdppl.kernels.steps import CompiledStep

# Multiplications of an E step that one thread takes; of more than so many ranges of items each has its own counts.
SHARE, RANGES = 2 * 10**6, 4


@cache
def kernels(family: str) -> tuple[Any, ...] | None:
    """Return tables, E step, M step and log prior of a family; ``None`` without an M step, or where nothing can be compiled."""

    def make() -> tuple[Any, ...] | None:
        from crowdppl.kernels import em_steps

        if family not in em_steps.MODES:
            return None
        both = em_steps.maximisation(family), em_steps.density(family)
        return em_steps.tabulation(family), em_steps.expectation(), *both

    functions: tuple[Any, ...] | None = compiled_or_none(make)
    return functions


@dataclass(frozen=True)
class Expected:
    """What an E step expects, in memory that the next one writes over.

    Attributes:
        counts: labels by worker and label, and state, ``(J*K, S)``.
        size: items by state, ``(S,)``.
    """

    counts: np.ndarray
    size: np.ndarray


class EMSteps(Threads):
    """The two steps of EM for one model and its data, between points: vectors ``(P,)`` of parameters, float64.

    Args:
        step: of the model.
        data: that suit it, of float64.
    """

    def __init__(self, step: CompiledStep, data: Annotations):
        from crowdppl.kernels.items import width_of  # here: numba may not be there

        self.step, self.data, self.arrays = step, data, Coded.of(data)
        compiled = kernels(step.family)
        assert compiled is not None
        self._tabulate, self._expect, self._improve, self._log_prior = compiled
        N, K, S, width = data.N, data.K, step.states, width_of(step.states)
        # As many whatever the number of threads: sums depend on the ranges.
        ranges = max(1, min(RANGES, S * data.A // SHARE, ROOM // (8 * data.J * K * S)))
        marks = np.linspace(0, data.A, ranges + 1)
        self.bounds = [0, *np.searchsorted(self.arrays.start, marks[1:-1]).tolist(), N]
        self.table, self.prior = np.zeros((data.J * K, width)), np.zeros(width)
        self.counts, self.size = np.empty((ranges, data.J * K, S)), np.empty((ranges, S))
        self.objectives, self.work = np.empty((ranges, 1)), np.empty(step.work)
        super().__init__(ranges)

    def with_anchor(self, anchor: Tensor) -> EMSteps:
        """Return the steps with another anchor ``(N, K)``, or none, without rows; both write over the same memory."""
        other = copy(self)
        other.arrays = self.arrays.with_anchor(anchor)
        return other

    def expect(self, point: Tensor) -> tuple[float, float, Expected]:
        """Return the objective at a point ``(P,)`` without its log prior, that, and what is expected there."""
        vector = point.numpy()
        log_prior = self._log_prior(vector, self.step.sizes, self.step.numbers)
        self._tabulate(vector, self.step.sizes, self.step.numbers, self.table, self.prior)
        self.all([partial(self._some, n) for n in range(len(self.size))])
        counts, size = self.counts[0], self.size[0]
        for n in range(1, len(self.size)):
            counts += self.counts[n]
            size += self.size[n]
        return float(self.objectives.sum()), log_prior, Expected(counts, size)

    def _some(self, n: int) -> None:
        """Sum over the items of one range."""
        arrays = self.arrays
        self._expect(
            self.bounds[n],
            self.bounds[n + 1],
            arrays.start,
            arrays.column,
            arrays.known,
            arrays.anchor,
            self.table,
            self.prior,
            self.counts[n],
            self.size[n],
            self.objectives[n],
        )

    def begin(self, responsibility: Tensor) -> Tensor:
        """Return the point after the first M step, from responsibilities ``(N, S)``."""
        counts = self.data.counts.expected(responsibility).transpose(-1, -2)  # (J, label, state)
        vector = torch.zeros(self.step.size, dtype=torch.float64)
        expected = Expected(counts.reshape(-1, self.step.states).contiguous().numpy(), responsibility.sum(0).numpy())
        return self._maximised(expected, vector, first=True)

    def maximise(self, expected: Expected, point: Tensor) -> Tensor:
        """Return the point after the M step that follows from what is expected at a point."""
        return self._maximised(expected, point.clone(), first=False)

    def _maximised(self, expected: Expected, vector: Tensor, *, first: bool) -> Tensor:
        """Return the point after an M step from a point, which is written over."""
        sizes, numbers = self.step.sizes, self.step.numbers
        self._improve(expected.counts, expected.size, vector.numpy(), sizes, numbers, self.work, int(first))
        return vector
