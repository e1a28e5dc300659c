"""One pass over the judgements: E step and expected counts, or truths and their counts, for models of workers and classes.

Where a label depends on truth and worker only, and the truth on a prior that all items share, the sums that follow from a pass
are all that a step needs: the log-likelihood, how many items there are of each state, and how often each worker gave each label
under each. :class:`crowdppl.model.Sums` are those; what makes them is :class:`Sweeps` (compiled, for data beyond the caches)
or, with the products of :mod:`crowdppl.kernels`, :func:`plain`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.annotations import Annotations
from crowdppl.kernels import normalise
from crowdppl.model import AnnotationModel, Parameters, Sums, provides, sums_of

# With more states than this the products of whole rows, which use wide registers, are faster, as long as what they go through
# (a number for each item and state) stays in the caches; and with more than the second figure nothing is compiled.
STATES, MOST = 8, 128
BEYOND = 2_000_000
# Bytes of the tables of all threads.
TABLES = 4 * 2**30
# Fewer judgements than this stay in the caches, and are done before anything is compiled.
JUDGEMENTS = 200_000
# Bytes of a large page.
PAGE = 2**21
# What compiled passes call types.
REAL = {torch.float64: "f8", torch.float32: "f4"}
NO_TRUTH = torch.empty(0, dtype=torch.int16)


def plain(table: Tensor, prior: Tensor, data: Annotations, memory: Tensor | None = None) -> Sums:
    """Return the sums by sparse products; arguments as of :meth:`Sweeps.expect`."""
    marginal, r = normalise(plain_joint(table, prior, data), overwrite=True)
    return sums_of(r, data, memory)._replace(log_likelihood=marginal.sum(dtype=torch.float64))


def plain_joint(table: Tensor, prior: Tensor, data: Annotations) -> Tensor:
    """Return the item log joint ``(N, S)`` by a sparse product."""
    joint = data.counts.evidence(table.log()).add_(prior.log())
    return joint if data.clamp is None else joint.add_(data.clamp)


@cache
def compiled() -> Any:
    """Return the compiled passes, or ``None`` where numba is not there, or has no place to keep what it compiles."""
    try:
        from crowdppl import compiled as found
    except (ImportError, RuntimeError):
        return None
    # Numba's threads, as they start, set the number of those that torch uses.
    threads = torch.get_num_threads()
    found.load(2, "f8")(np.zeros((1, 4)), np.zeros((1, 2)))
    torch.set_num_threads(threads)
    return found


def once(data: Annotations) -> bool:
    """Tell whether rows are items, each of which counts once and in full."""
    return data.weight is None and data.multiplicity is None and data.owner is None


def suits(data: Annotations, states: int) -> bool:
    """Tell whether compiled passes can take the data, and are worth it."""
    return (
        data.device.type == "cpu"
        and data.dtype in REAL
        and once(data)
        and states == data.K <= MOST
        and (states <= STATES or data.N * states >= BEYOND)
        and data.A >= JUDGEMENTS
        and data.J * data.K < 2**32
        and compiled() is not None
        and _table_bytes(data) <= TABLES
    )


def _table_bytes(data: Annotations) -> int:
    """Return the bytes of a thread's table."""
    return data.J * data.K * int(compiled().width_of(data.K, REAL[data.dtype])) * data.dtype.itemsize


def _large(shape: tuple[int, int], real: str) -> np.ndarray:
    """Return memory for rows that are visited at random, from where a large page begins on.

    Numpy asks Linux for large pages, torch does not: with small ones finding where a row lies costs up to a sixth of a pass.
    """
    size = math.prod(shape) * np.dtype(real).itemsize
    room = np.empty(size + PAGE, dtype=np.uint8)
    skip = -room.ctypes.data % PAGE
    return room[skip : skip + size].view(real).reshape(shape)


def at(model: AnnotationModel, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
    """Return what a pass goes by: ``p(label | state, worker)`` ``(J, S, K)`` and the prior of the states ``(S,)``."""
    return model.table(parameters), model.log_truth(parameters, data).exp()


class Sweeps:
    """Compiled passes over one set of judgements.

    Args:
        data: that :func:`suits`.
        threads: torch's number of threads where not given, or fewer where their tables would be too large.
    """

    def __init__(self, data: Annotations, threads: int | None = None):
        self.passes, self.data = compiled(), data
        fit = max(1, TABLES // _table_bytes(data))
        self.threads = min(fit, torch.get_num_threads() if threads is None else threads)
        N, J, K, A = data.N, data.J, data.K, data.A
        self.start = np.zeros(N + 1, dtype=np.int64)
        np.cumsum(data.judgements_per_item.numpy(), out=self.start[1:])
        self.column = np.empty(A, dtype=np.uint32)
        np.multiply(data.worker.numpy(), K, out=self.column, casting="unsafe")
        np.add(self.column, data.label.numpy(), out=self.column, casting="unsafe")
        self.known = data.truth.numpy().astype(np.int16)
        # Each thread has as many judgements as any other, and whole items.
        self.bounds = np.searchsorted(self.start, np.linspace(0, A, self.threads + 1)).astype(np.int64)
        self.bounds[0], self.bounds[-1] = 0, N
        self.tables = _large((self.threads, J * K * self.passes.width_of(K, REAL[data.dtype])), REAL[data.dtype])
        self.rows = J * K

    @staticmethod
    def of(model: AnnotationModel, data: Annotations, hook: str = "m_step_from") -> Sweeps | None:
        """Return passes for data that suit them, where the model has the method that takes their sums; else ``None``."""
        return Sweeps.suited(data, data.K * model.states_per_class) if provides(model, hook) else None

    @staticmethod
    def suited(data: Annotations, states: int) -> Sweeps | None:
        """Return passes for data that suit them, else ``None``."""
        return Sweeps(data) if suits(data, states) else None

    def expect(
        self,
        table: Tensor,
        prior: Tensor,
        memory: Tensor | None = None,
        responsibility: Tensor | None = None,
    ) -> Sums:
        """Take an E step and sum up what it expects.

        Args:
            table: ``p(label | state, worker)``, ``(J, S, K)``.
            prior: of the states, ``(S,)``.
            memory: an earlier result's counts that nobody needs any more, to write over.
            responsibility: ``(N, S)`` to be written, where wanted.
        """
        out = torch.empty(0, self.data.K, dtype=self.data.dtype) if responsibility is None else responsibility
        return self._sweep(table, prior, memory, out=out)

    def joint(self, table: Tensor, prior: Tensor) -> Tensor:
        """Return the item log joint ``(N, S)``, as :meth:`AnnotationModel.item_log_joint` does."""
        self._load(table.log())
        out = torch.empty(self.data.N, self.data.K, dtype=self.data.dtype)
        self._run("adding", prior.log().numpy(), self.known, out.numpy())
        return out

    def given(self, responsibility: Tensor) -> Sums:
        """Sum given responsibilities ``(N, S)`` up; the log-likelihood is not a number."""
        K = self.data.K
        self._load(torch.zeros(self.data.J, K, K, dtype=self.data.dtype))
        self._run("scatter", responsibility.contiguous().numpy())
        return Sums(torch.tensor(torch.nan), responsibility.sum(0), self._counts(None))

    def counted(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Count items of each class ``(K,)``, and labels ``(J, K, K)`` by truths ``(N,)`` int16."""
        J, K, real = self.data.J, self.data.K, REAL[self.data.dtype]
        size, out = np.empty((self.threads, K), dtype=np.int64), torch.empty(J, K, K, dtype=self.data.dtype)
        rows = out.view(self.rows, K).numpy()  # (worker, label, state)
        run = self.passes.tally(K, real)
        run(self.start, self.column, self.bounds, self.tables.view(np.int32), truth.numpy(), size, rows)
        return torch.from_numpy(size.sum(0)).to(self.data.dtype), out.transpose(1, 2)

    def draw(self, table: Tensor, prior: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Sums]:
        """Draw the truth of each item, ``(N,)`` int16, and count by it; of torch's random stream it takes one number."""
        N, K = self.data.N, self.data.K
        truth, seed = torch.empty(N, dtype=torch.int16), int(torch.empty((), dtype=torch.int64).random_())
        out = torch.empty(0, K, dtype=self.data.dtype)
        return truth, self._sweep(table, prior, memory, out=out, seed=seed, truth=truth)

    def _sweep(
        self,
        table: Tensor,
        prior: Tensor,
        memory: Tensor | None,
        *,
        out: Tensor,
        seed: int = 0,
        truth: Tensor = NO_TRUTH,
    ) -> Sums:
        self._load(table)
        likelihood, size = np.empty(self.threads), np.empty((self.threads, self.data.K))
        rest = (out.numpy(), np.uint64(seed), truth.numpy())
        run = self.passes.sweep(self.data.K, REAL[self.data.dtype], truth is not NO_TRUTH)
        run(self.start, self.column, self.bounds, self.tables, prior.numpy(), self.known, likelihood, size, *rest)
        total = torch.from_numpy(size.sum(0)).to(self.data.dtype)
        return Sums(torch.tensor(likelihood.sum()), total, self._counts(memory))

    def _run(self, name: str, *rest: Any) -> None:
        run = getattr(self.passes, name)(self.data.K, REAL[self.data.dtype])
        run(self.start, self.column, self.bounds, self.tables, *rest)

    def _load(self, table: Tensor) -> None:
        # (worker, label, state) in memory is what earlier counts are, and what this asks for: nothing is copied then.
        rows = table.transpose(1, 2).contiguous().view(self.rows, -1)
        self.passes.load(self.data.K, REAL[self.data.dtype])(self.tables, rows.numpy())

    def _counts(self, memory: Tensor | None) -> Tensor:
        J, K = self.data.J, self.data.K
        if memory is None or not memory.transpose(1, 2).is_contiguous():
            memory = torch.empty(J, K, K, dtype=self.data.dtype).transpose(1, 2)
        out = memory.transpose(1, 2).view(self.rows, K).numpy()
        self.passes.collect(K, REAL[self.data.dtype])(self.tables, out)
        return memory


class Share:
    """The sums over some judgements, or all, by the quickest way there is in one process.

    Args:
        data: the judgements.
    """

    def __init__(self, data: Annotations):
        self.data = data
        self.sweeps = Sweeps.suited(data, data.K)

    def expect(self, table: Tensor, prior: Tensor) -> Sums:
        """Take an E step; arguments as of :meth:`Sweeps.expect`."""
        return plain(table, prior, self.data) if self.sweeps is None else self.sweeps.expect(table, prior)

    def given(self, responsibility: Tensor) -> Sums:
        """Sum given responsibilities ``(N, S)`` up; the log-likelihood is not a number."""
        return sums_of(responsibility, self.data) if self.sweeps is None else self.sweeps.given(responsibility)
