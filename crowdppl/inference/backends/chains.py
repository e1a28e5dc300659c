"""Compiled chains of Gibbs sampling over one set of annotations, in threads of Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.coded import Coded
from crowdppl.inference.backends.passes import ANNOTATIONS
from crowdppl.inference.engines.monitor import BlockMoments, Layout
from crowdppl.isolation import Threads
from crowdppl.kernels.steps import CompiledStep

# Bytes of the tables and counts of all chains.
ROOM = 2 * 2**30
# Parts that independent draws are made in, each with random numbers of its own, whatever the number of threads.
PARTS = 8
# Multiplications of a chain in one call, at most, which takes some tenths of a second: calls are not interrupted.
CALL = 2 * 10**8
# What is watched of large data takes longer than a sweep: it is at one of so many sweeps.
SPARSE = 4


def compiled_or_none(make: Callable[[], Any]) -> Any:
    """Return a compiled function, or ``None`` where numba is not there, or has no place to keep what it compiles."""
    try:
        return make()
    except (ImportError, OSError, RuntimeError):
        return None


@cache
def kernel(family: str) -> Any:
    """Return the compiled chain of a family; ``None`` where nothing can be compiled."""

    def make() -> Any:
        from crowdppl.kernels import chains

        return chains.sweeps(family)

    return compiled_or_none(make)


@cache
def kernel_around(family: str) -> Any:
    """Return the compiled draws around a point of a family that has them; ``None`` as of :func:`kernel`, or of other families."""

    def make() -> Any:
        from crowdppl.kernels.logit_rows_around import around

        return around() if family == "logit rows" else None

    return compiled_or_none(make)


def kernel_from_point(family: str) -> Any:
    """Return what makes draws around a point of a family: a chain, where there is nothing of its own."""
    return kernel_around(family) or kernel(family)


def parts_of(number: int, most: int = PARTS) -> list[slice]:
    """Return slices of so many, each with random numbers of its own, whatever the number of threads."""
    bounds = np.linspace(0, number, min(most, number) + 1).astype(int).tolist()
    return [slice(first, end) for first, end in pairwise(bounds)]


def begun() -> Tensor:
    """Return the state of a stream of random numbers ``(4,)`` that a number of torch's begins."""
    from crowdppl.kernels.random import stream

    return torch.from_numpy(stream(int(torch.empty((), dtype=torch.int64).random_())).view(np.int64))


@dataclass
class Chain:
    """One chain.

    Attributes:
        vector: its parameters, as its step holds them, ``(1, P)``.
        stream: the state of its random numbers, ``(4,)`` int64.
        table: memory for probabilities of labels, ``(J*K, width)``.
        counts: memory for counts of labels and items, ``(J*K + 1, S)``.
        work: memory for the step.
    """

    vector: Tensor
    stream: Tensor
    table: np.ndarray
    counts: np.ndarray
    work: np.ndarray


class Chains(Threads):
    """What all chains of a run share: the data, the parameter step, what is watched, and threads.

    Args:
        step: of the model.
        data: that suit it.
        rows: of the items that are watched; ``None`` for all.
        layout: of what is watched; ``None`` for nothing.
        chains: how many there will be.
    """

    def __init__(self, step: CompiledStep, data: Annotations, rows: Tensor | None, layout: Layout | None, chains: int):
        from crowdppl.kernels.chains import DIAGONALS, MATRICES, NOTHING
        from crowdppl.kernels.items import width_of

        self.step, self.data = step, data
        # A chain takes long to compile where that is still to be done: not for draws around a point that need none.
        self.around = kernel_around(step.family) if layout is None else None
        self.run: Any = kernel(step.family) if self.around is None else None
        self.arrays = Coded.of(data)
        self.states, self.width = step.states, width_of(step.states)
        self.sparse = self.sparse_for(data)
        self.rows = np.arange(data.N) if rows is None else rows.numpy()
        kinds = () if layout is None else layout.kinds
        self.what = MATRICES if "confusion" in kinds else DIAGONALS if "sensitivity" in kinds else NOTHING
        self.most = max(1, CALL // (self.states * (data.A + data.N) + step.work))
        super().__init__(chains)

    @staticmethod
    def sparse_for(data: Annotations) -> int:
        """Return at one of how many sweeps something is watched."""
        return SPARSE if data.A >= ANNOTATIONS else 1

    def chain(self, vector: Tensor, stream: Tensor | None = None) -> Chain:
        """Return a chain at parameters ``(1, P)``; ``stream`` defaults to one of its own that a number of torch's begins."""
        if stream is None:
            stream = begun()
        rows = self.data.J * self.data.K
        table, counts = np.zeros((rows, self.width)), np.empty((rows + 1, self.states))
        return Chain(vector, stream, table, counts, np.empty(self.step.work))

    def sweep(
        self,
        chain: Chain,
        number: int,
        moments: BlockMoments | None,
        place: int,
        every: int,
        room: np.ndarray | None = None,
    ) -> np.ndarray:
        """Take sweeps of a chain and return the parameters kept, ``(draws, P)``; torch is not called.

        Args:
            chain: its parameters and stream are changed.
            number: of sweeps.
            moments: to which what is watched is added; ``None`` in the warm-up, when nothing is kept either.
            place: sweeps after the warm-up before these.
            every: the parameters after every sweep whose place is divisible by this are kept.
            room: memory for all draws of the run, ``(D, P)``, in which they find their places; ``None`` for memory of their own.
        """
        nothing = np.empty(0)
        sums = (nothing, nothing, nothing)
        if moments is not None:
            sums = (moments.origin.numpy(), moments.total[0].numpy(), moments.total_squares.numpy())
        count = 0 if moments is None else (place + number) // every - place // every
        kept = np.empty((count, chain.vector.shape[-1])) if room is None else room[place // every :][:count]
        self.run(
            number,
            self.arrays.start,
            self.arrays.column,
            self.arrays.known,
            self.arrays.anchor,
            self.step.sizes,
            self.step.numbers,
            chain.vector[0].numpy(),
            chain.stream.numpy().view(np.uint64),
            chain.table,
            np.zeros(self.width),
            chain.counts,
            chain.work,
            self.rows,
            self.what,
            self.sparse,
            *sums,
            every,
            place,
            kept,
        )
        return kept

    def watched(self, place: int, number: int) -> int:
        """Return at how many of ``number`` sweeps from a place on something is watched."""
        return -(-(place + number) // self.sparse) - -(-place // self.sparse)

    def ahead(self, place: int, room: int) -> int:
        """Return for how many sweeps from a place on there is room, if there is room for so many that are watched."""
        return (-(-place // self.sparse) + room) * self.sparse - place

    def from_point(self, vector: Tensor, count: int, states: Callable[[], Tensor]) -> Tensor:
        """Take a sweep from a point ``(P,)`` several times, and return where each ends, ``(count, P)``.

        Args:
            vector: the point.
            count: of sweeps.
            states: returns the probabilities of the items' states at the point, ``(N, S)``, in float64.
        """
        out = torch.empty(count, len(vector), dtype=torch.float64)
        parts = out.tensor_split(min(PARTS, count))
        if self.around is None:
            chains = [self.chain(vector.unsqueeze(0).clone()) for _ in parts]
            tasks = [partial(self._sweep_back, vector, chain, part) for chain, part in zip(chains, parts, strict=True)]
        else:
            below, worker = states().cumsum(-1).numpy(), self.data.worker.numpy().astype(np.uint32)
            draw = partial(self._draw_around, self.around, worker, below, vector.numpy())
            tasks = [partial(draw, begun(), part) for part in parts]
        self.all(tasks)
        return out

    def _sweep_back(self, vector: Tensor, chain: Chain, out: Tensor) -> None:
        """Take a sweep from a point for each row of ``out``."""
        for row in out:
            chain.vector[0] = vector
            self.sweep(chain, 1, None, 0, 1)
            row.copy_(chain.vector[0])

    def _draw_around(
        self, around: Any, worker: np.ndarray, below: np.ndarray, point: np.ndarray, stream: Tensor, out: Tensor
    ) -> None:
        """Draw each row of ``out`` around a point, some rows in a call; torch is not called in these."""
        work, state, step = np.empty(self.step.work), stream.numpy().view(np.uint64), self.step
        arrays = self.arrays.start, self.arrays.column, worker, below
        at_a_time = max(1, CALL // (self.data.A + self.data.N + step.work))
        for rows in out.split(at_a_time):
            around(*arrays, step.sizes, step.numbers, point, state, work, rows.numpy())
