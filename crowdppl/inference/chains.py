"""Compiled chains of Gibbs sampling over one set of annotations, in threads of Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.monitor import BlockMoments, Layout
from crowdppl.inference.passes import REAL, in_full
from crowdppl.isolation import threads_outside
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.bound import BoundModel

# Bytes of the tables and counts of all chains.
ROOM = 2 * 2**30
# Multiplications of a chain in one call, at most, which takes some tenths of a second: calls are not interrupted.
CALL = 2 * 10**8


@cache
def kernel(family: str) -> Any:
    """Return the compiled chain of a family, or ``None`` where numba is not there, or has no place to keep what it compiles."""
    try:
        from crowdppl.kernels import chains

        return chains.sweeps(family)
    except (ImportError, OSError, RuntimeError):
        return None


@dataclass
class Chain:
    """One chain.

    Attributes:
        vector: its parameters, as its step holds them, ``(1, P)``.
        stream: the state of its random numbers, ``(4,)`` int64.
        table: memory for probabilities of labels, ``(J*K, S)``.
        state: memory for states of items, ``(N,)`` int32.
        work: memory for the step.
    """

    vector: Tensor
    stream: Tensor
    table: np.ndarray
    state: np.ndarray
    work: np.ndarray


class Chains:
    """What all chains of a run share: the data, the parameter step, what is watched, and threads.

    Args:
        step: of the model.
        data: that suit it.
        rows: of the items that are watched; ``None`` for all.
        layout: of what is watched.
        chains: how many there will be.
    """

    def __init__(self, step: CompiledStep, data: Annotations, rows: Tensor | None, layout: Layout, chains: int):
        from crowdppl.kernels.chains import DIAGONALS, MATRICES, NOTHING

        self.step, self.data, self.run = step, data, kernel(step.family)
        N, K = data.N, data.K
        self.start = np.zeros(N + 1, dtype=np.int64)
        np.cumsum(data.annotations_per_item.numpy(), out=self.start[1:])
        self.column = (data.worker * K + data.label).numpy().astype(np.int32)
        self.worker = data.worker.numpy().astype(np.int32)
        self.known = data.truth.numpy().astype(np.int16)
        self.anchor = np.zeros((0, K)) if data.anchor is None else np.ascontiguousarray(data.anchor.double().numpy())
        self.states = step.states
        self.rows = np.arange(N) if rows is None else rows.numpy()
        self.what = MATRICES if "confusion" in layout.kinds else DIAGONALS if "sensitivity" in layout.kinds else NOTHING
        self.most = max(1, CALL // (self.states * (data.A + N) + step.work))
        self.pool = ThreadPoolExecutor(count) if (count := min(chains, threads_outside())) > 1 else None

    def chain(self, vector: Tensor, stream: Tensor | None = None) -> Chain:
        """Return a chain at parameters ``(1, P)``; ``stream`` defaults to one of its own that a number of torch's begins."""
        if stream is None:
            from crowdppl.kernels.random import stream as begun

            stream = torch.from_numpy(begun(int(torch.empty((), dtype=torch.int64).random_())).view(np.int64))
        table = np.empty((self.data.J * self.data.K, self.states))
        return Chain(vector, stream, table, np.empty(self.data.N, dtype=np.int32), np.empty(self.step.work))

    def sweep(self, chain: Chain, number: int, moments: BlockMoments | None, place: int, every: int) -> np.ndarray:
        """Take sweeps of a chain and return the parameters kept, ``(draws, P)``; torch is not called.

        Args:
            chain: its parameters and stream are changed.
            number: of sweeps.
            moments: to which what is watched is added; ``None`` in the warm-up, when nothing is kept either.
            place: sweeps after the warm-up before these.
            every: the parameters after every sweep whose place is divisible by this are kept.
        """
        nothing = np.empty(0)
        sums = (nothing, nothing, nothing)
        if moments is not None:
            sums = (moments.origin.numpy(), moments.total[0].numpy(), moments.total_squares.numpy())
        count = 0 if moments is None else (place + number) // every - place // every
        kept = np.empty((count, chain.vector.shape[-1]))
        self.run(
            number,
            self.start,
            self.column,
            self.worker,
            self.known,
            self.anchor,
            self.step.sizes,
            self.step.numbers,
            chain.vector[0].numpy(),
            chain.stream.numpy().view(np.uint64),
            chain.table,
            np.empty(self.states),
            chain.state,
            chain.work,
            self.rows,
            self.what,
            *sums,
            every,
            place,
            kept,
        )
        return kept

    def all(self, tasks: Iterable[Callable[[], np.ndarray]]) -> list[np.ndarray]:
        """Return what tasks return, in threads if there are any."""
        if self.pool is None:
            return [task() for task in tasks]
        return list(self.pool.map(lambda task: task(), tasks))

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown()


def compiled_step(model: BoundModel, data: Annotations, chains: int) -> CompiledStep | None:
    """Return the compiled step of a model, where it has one and compiled chains can take the data; else ``None``."""
    real = data.device.type == "cpu" and data.dtype in REAL
    if not real or not in_full(data) or np.iinfo(np.int16).max < data.K or max(data.J * data.K, data.N) >= 2**31:
        return None
    step = model.compiled_step(data)
    if step is None or 8 * chains * (data.J * data.K * step.states + step.work) > ROOM or kernel(step.family) is None:
        return None
    return step
