"""Draws of the parameters evaluated by compiled functions, in threads of Python."""

from __future__ import annotations

from contextlib import closing
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.chains import CALL, PARTS, ROOM, begun, compiled_or_none, parts_of
from crowdppl.inference.backends.coded import Coded
from crowdppl.inference.dependence.design_effect import START
from crowdppl.isolation import Threads
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.base import Parameters


class Drawn(NamedTuple):
    """What is written for each of ``D`` draws, in float64 but for the truths.

    Attributes:
        likelihood: log probability of the labels of each item, ``(D, N)``.
        truth: drawn classes, ``(D, N)`` int16.
        correct: number of each worker's labels that agree with them, ``(D, J)`` int32.
        confusion: of the model, ``(D, J, K, K)``, or ``(0, J, K, K)`` where they are not wanted.
        prevalence: likewise, ``(D, K)``.
        calibrated: confusion matrices that follow the drawn truths, ``(D, J, K, K)``; without rho ``(0, J, K, K)``.
        calibrated_prevalence: likewise, ``(D, K)`` or ``(0, K)``.
    """

    likelihood: Tensor
    truth: Tensor
    correct: Tensor
    confusion: Tensor
    prevalence: Tensor
    calibrated: Tensor
    calibrated_prevalence: Tensor


@cache
def kernel(family: str) -> Any:
    """Return the compiled readings of a family; ``None`` where nothing can be compiled."""

    def make() -> Any:
        from crowdppl.kernels.readings import reading

        return reading(family)

    return compiled_or_none(make)


class Readings:
    """Evaluates draws of a model with a compiled step.

    Args:
        step: of the model.
        data: that suit it.
    """

    def __init__(self, step: CompiledStep, data: Annotations):
        self.step, self.data, self.run, self.arrays = step, data, kernel(step.family), Coded.of(data)
        J, K = data.J, data.K
        each = 8 * (J * K * step.states + 2 * data.N * K)
        self.parts = max(1, min(PARTS, ROOM // each))
        # Operations on one draw: products of probabilities, logarithms and powers, gamma variables.
        self.work = step.states * data.A + 20 * data.N * K + J * K * (2 * step.states + 20 * K)

    def read(
        self, flat: Parameters, rho: Tensor | None, nodes: Tensor | None, lift: Tensor | None, out: Drawn
    ) -> tuple[Tensor, Tensor]:
        """Evaluate draws of the parameters; of torch's random stream one number is taken for each part.

        Args:
            flat: sites, ``(D, ...)``.
            rho: by which truths are drawn, ``(D,)``; ``None`` where annotations count as independent.
            nodes: values of rho to average class probabilities over, ``(D, Q)``; ``None`` for the drawn one.
            lift: weights of the classes with rho, ``(D, K)``, if any.
            out: is written.

        Returns:
            Mean class probabilities ``(N, K)`` with rho and without, in float64.
        """
        data, total = self.data, len(out.truth)
        vectors = self.step.vector(flat, shared=True).contiguous()
        given = torch.empty(0, dtype=torch.float64) if rho is None else rho.double().contiguous()
        several = vectors.new_empty(total, 0) if nodes is None else nodes.double().contiguous()
        lifts = vectors.new_empty(0, data.K) if lift is None else lift.double().contiguous()
        parts = parts_of(total, self.parts)
        averages = torch.zeros(len(parts), 2, data.N, data.K, dtype=torch.float64)
        tasks = [
            partial(self._some, part, vectors, given, several, lifts, begun(), average, out)
            for part, average in zip(parts, averages, strict=True)
        ]
        with closing(Threads(len(tasks))) as threads:
            threads.all(tasks)
        # One part after the other: torch adds the last numbers of an array in another order.
        mean, published = sum(averages[1:], averages[0]) / total
        return mean, published

    def _some(
        self,
        part: slice,
        vectors: Tensor,
        rho: Tensor,
        nodes: Tensor,
        lifts: Tensor,
        stream: Tensor,
        averages: Tensor,
        out: Drawn,
    ) -> None:
        """Evaluate a part of the draws, some at a time; torch is not called."""
        from crowdppl.kernels.items import width_of

        J, K, width = self.data.J, self.data.K, width_of(self.step.states)
        table, prior, counts = np.zeros((J * K, width)), np.zeros(width), np.empty((J * K + 1, K))
        at_a_time = max(1, CALL // self.work)
        mean, published = averages.numpy()
        for first in range(part.start, part.stop, at_a_time):
            some = slice(first, min(first + at_a_time, part.stop))
            self.run(
                vectors[some].numpy(),
                rho[some].numpy(),
                nodes[some].numpy(),
                lifts[some].numpy(),
                START,
                self.step.states,
                self.arrays.start,
                self.arrays.column,
                self.arrays.known,
                self.step.sizes,
                self.step.numbers,
                stream.numpy().view(np.uint64),
                table,
                prior,
                counts,
                out.likelihood[some].numpy(),
                out.truth[some].numpy(),
                out.correct[some].numpy(),
                mean,
                published,
                out.confusion[some].numpy(),
                out.prevalence[some].numpy(),
                out.calibrated[some].numpy(),
                out.calibrated_prevalence[some].numpy(),
            )
