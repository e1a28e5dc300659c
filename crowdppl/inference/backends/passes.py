"""A pass or two over the annotations: E step and expected counts, or truths and counts, for models of workers and classes.

Where a label depends on truth and worker only, and the truth on a prior that all items share, the sums that follow from a pass
are all that a step needs: the log-likelihood, how many items there are of each state, and how often each worker gave each label
under each. :class:`crowdppl.kernels.statistics.Statistics` holds them; :class:`Sweeps` computes them (compiled, for data beyond
the caches), or :class:`crowdppl.inference.backends.sums.SparseSums`, by sparse products.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.coded import Coded, padded, shared
from crowdppl.isolation import threads_outside
from crowdppl.kernels.statistics import Statistics

# With more states than this nothing is compiled for their number alone.
KNOWN = 64
# Bytes of the tables of all threads.
TABLES = 4 * 2**30
# Fewer annotations than this stay in the caches, and are done before anything is compiled.
ANNOTATIONS = 200_000
# Bytes of a large page.
PAGE = 2**21
# What compiled passes call types.
REAL = {torch.float64: "f8", torch.float32: "f4"}
NO_TRUTH = torch.empty(0, dtype=torch.int16)


@cache
def compiled() -> Any:
    """Return the compiled passes, or ``None`` where numba is not there, or has no place to keep what it compiles."""
    try:
        from crowdppl.kernels import passes as found

        found.load(2, "f8")(1, np.zeros((1, 4)), np.zeros((1, 2)))
    except (ImportError, OSError, RuntimeError):
        return None
    return found


def padding() -> int:
    """Return how many codes passes look at beyond the last."""
    return 0 if compiled() is None else int(compiled().AHEAD)


def once(data: Annotations) -> bool:
    """Tell whether rows are items, each of which counts once, in full, and whatever its class."""
    return data.in_full and data.anchor is None


def serves(data: Annotations, states: int) -> bool:
    """Tell whether compiled passes can take the data, of whatever size."""
    return (
        data.device.type == "cpu"
        and data.dtype in REAL
        and once(data)
        and states == data.K <= np.iinfo(np.int16).max
        and max(data.J * data.K, data.N) < 2**32
        and compiled() is not None
        and (states > compiled().NARROW or _table_bytes(data) <= TABLES)
    )


def _table_bytes(data: Annotations | Coded) -> int:
    """Return the bytes of a thread's table of narrow rows."""
    return data.J * data.K * int(compiled().width_of(data.K, REAL[data.dtype])) * data.dtype.itemsize


def _large(shape: tuple[int, int], real: str) -> np.ndarray:
    """Return memory for rows that are visited at random, from where a large page begins on.

    Numpy asks Linux for large pages, torch does not: with small ones finding where a row lies costs up to a sixth of a pass.
    """
    size = math.prod(shape) * np.dtype(real).itemsize
    room = np.empty(size + PAGE, dtype=np.uint8)
    skip = -room.ctypes.data % PAGE
    return room[skip : skip + size].view(real).reshape(shape)


class Items(NamedTuple):
    """Where what is read off items goes, with leading axes for several draws.

    Attributes:
        likelihood: log-likelihoods ``(..., N)``, written.
        truth: drawn truths ``(..., N)`` int16, written.
        mean: probabilities ``(N, K)`` that truths are drawn by are added to it.
        published: those without design effects likewise; where there are such, and they are asked for.
    """

    likelihood: Tensor
    truth: Tensor
    mean: Tensor
    published: Tensor | None


class Sweeps(ABC):
    """Compiled passes over one set of annotations, by :class:`Narrow` rows of the workers' tables or :class:`Wide` ones.

    Args:
        data: that :func:`serves` tells of.
        threads: defaults to those of the process, or fewer where narrow tables of so many would be too large.
    """

    # The number of states that passes are compiled for, and the items of each thread (T+1,).
    states: int
    bounds: np.ndarray

    def __init__(self, data: Annotations | Coded, threads: int | None = None):
        self.passes, self.data, self.real = compiled(), data, REAL[data.dtype]
        self.threads = threads_outside() if threads is None else threads
        self.rows = data.J * data.K
        codes = data if isinstance(data, Coded) else Coded.of(data, padding())
        self.start, self.column, self.known = codes.start, codes.column, codes.known

    @staticmethod
    def over(data: Annotations | Coded, threads: int | None = None) -> Sweeps:
        """Return passes over data that suit them."""
        return (Narrow if data.K <= compiled().NARROW else Wide)(data, threads)

    def expect(
        self,
        table: Tensor,
        prior: Tensor,
        memory: Tensor | None = None,
        responsibility: Tensor | None = None,
    ) -> Statistics:
        """Take an E step and sum up what it expects.

        Args:
            table: ``p(label | state, worker)``, ``(J, S, K)``.
            prior: of the states, ``(S,)``.
            memory: an earlier result's counts that nobody needs any more, to write over.
            responsibility: ``(N, S)`` to be written, where wanted.
        """
        out = self._room() if responsibility is None else responsibility
        log_likelihood, size = self._sweep(table, prior, out=out)
        return Statistics(log_likelihood, size, self._expected(out, memory))

    def responsibilities(self, table: Tensor, prior: Tensor) -> Tensor:
        """Take an E step and return the responsibilities ``(N, S)``; arguments as of :meth:`expect`."""
        out = torch.empty(self.data.N, self.data.K, dtype=self.data.dtype)
        self._sweep(table, prior, out=out)
        return out

    def joint(self, table: Tensor, prior: Tensor, memory: Tensor | None = None) -> Tensor:
        """Return the item log joint ``(N, S)``, as :meth:`AnnotationModel.item_log_joint` does; in ``memory`` if given."""
        out = torch.empty(self.data.N, self.data.K, dtype=self.data.dtype) if memory is None else memory
        run = self.passes.adding(self.states, self.real)
        self._pass(run, table.log(), prior.log().numpy(), self.known, out.numpy())
        return out

    def accumulate(
        self,
        joint: Tensor,
        factor: Tensor | None,
        lift: Tensor | None,
        share: float,
        items: Items,
    ) -> None:
        """Read items off their log joint ``(N, K)``; of torch's random stream it takes one number.

        Args:
            joint: as :meth:`joint` returns it.
            factor: design effects ``(N,)``, by which the log joint is divided for the truths, where there are any.
            lift: weights of the classes with them, ``(K,)``, if any.
            share: what is added of probabilities.
            items: memory for what is read.
        """
        factors = torch.empty(0, dtype=self.data.dtype) if factor is None else factor
        lifts = torch.ones(self.data.K, dtype=self.data.dtype) if lift is None else lift.contiguous()
        seed = np.uint64(int(torch.empty((), dtype=torch.int64).random_()))
        published = items.mean[:0] if items.published is None else items.published
        arrays = (part.numpy() for part in (items.likelihood, items.truth, items.mean, published))
        self.passes.accumulate(self.real)(
            self.threads, self.bounds, joint.numpy(), factors.numpy(), lifts.numpy(), seed, share, *arrays
        )

    def spare(self) -> Tensor:
        """Return memory ``(N, S)`` that the next E step may write over, and nothing else does."""
        return torch.empty(self.data.N, self.data.K, dtype=self.data.dtype)

    @abstractmethod
    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities ``(N, S)`` up; the log-likelihood is not a number."""

    @abstractmethod
    def counted(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Count items of each class ``(K,)``, and labels ``(J, K, K)`` by truths ``(N,)`` int16."""

    def draw(self, table: Tensor, prior: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Statistics]:
        """Draw the truth of each item, ``(N,)`` int16, and count by it; of torch's random stream it takes one number."""
        truth, seed = torch.empty(self.data.N, dtype=torch.int16), int(torch.empty((), dtype=torch.int64).random_())
        nothing = torch.empty(0, self.data.K, dtype=self.data.dtype)
        log_likelihood, size = self._sweep(table, prior, out=nothing, seed=seed, truth=truth)
        return truth, Statistics(log_likelihood, size, self._drawn(truth, memory))

    def _sweep(
        self, table: Tensor, prior: Tensor, *, out: Tensor, seed: int = 0, truth: Tensor = NO_TRUTH
    ) -> tuple[Tensor, Tensor]:
        """Go over the items once; return the log-likelihood and how many items there are of each state."""
        likelihood, size = np.empty(self.threads), np.empty((self.threads, self.data.K))
        rest = (out.numpy(), np.uint64(seed), truth.numpy())
        run = self.passes.sweep(self.states, self.real, truth is not NO_TRUTH)
        self._pass(run, table, prior.numpy(), self.known, likelihood, size, *rest)
        return torch.tensor(likelihood.sum()), torch.from_numpy(size.sum(0)).to(self.data.dtype)

    def _pass(self, run: Any, table: Tensor, *rest: Any) -> None:
        """Run a compiled pass over the items by ``table (J, S, K)``; ``rest`` are its arguments after the tables."""
        # (worker, label, state) in memory is what earlier counts are, and what this asks for: nothing is copied then.
        rows = table.transpose(1, 2).contiguous().view(self.rows, -1).numpy()
        tables, load = self._tables(rows)
        if load is not None:
            load(self.threads, tables, rows)
        run(self.threads, self.start, self.column, self.bounds, tables, *rest)

    @abstractmethod
    def _tables(self, rows: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return what passes read in place of ``rows (J*K, S)``, and what fills a part of it before, if anything does."""

    @abstractmethod
    def _room(self) -> Tensor:
        """Return what responsibilities are written to where nobody asks for them."""

    @abstractmethod
    def _expected(self, responsibility: Tensor, memory: Tensor | None) -> Tensor:
        """Return the counts ``(J, S, K)`` that a pass expected."""

    @abstractmethod
    def _drawn(self, truth: Tensor, memory: Tensor | None) -> Tensor:
        """Return the counts ``(J, S, K)`` by the truths that a pass drew."""

    def _counts(self, memory: Tensor | None) -> tuple[Tensor, np.ndarray]:
        """Return counts ``(J, K, K)`` to be written, and how they lie: ``(J*K, K)`` = (worker and label, state)."""
        J, K = self.data.J, self.data.K
        if memory is None or not memory.transpose(1, 2).is_contiguous():
            memory = torch.from_numpy(_large((self.rows, K), self.real)).view(J, K, K).transpose(1, 2)
        return memory, memory.transpose(1, 2).view(self.rows, K).numpy()


class Narrow(Sweeps):
    """Passes with a table of probabilities and counts for each thread: all of an item at once."""

    def __init__(self, data: Annotations | Coded, threads: int | None = None):
        super().__init__(data, threads)
        self.states = data.K
        self.threads = min(max(1, TABLES // _table_bytes(data)), self.threads)
        self.bounds = shared(self.start, self.threads)
        self.tables = _large((self.threads, self.rows * self.passes.width_of(data.K, self.real)), self.real)

    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities up."""
        J, K = self.data.J, self.data.K
        run = self.passes.scatter(K, self.real)
        nothing = torch.zeros(J, K, K, dtype=self.data.dtype)
        self._pass(run, nothing, responsibility.contiguous().numpy())
        return Statistics(torch.tensor(torch.nan), responsibility.sum(0), self._expected(responsibility, None))

    def counted(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Count by truths, in the tables' memory."""
        size, (out, rows) = np.empty((self.threads, self.data.K), dtype=np.int64), self._counts(None)
        cells = self.tables.view(np.int32)
        for run in (self.passes.tally(self.data.K, self.real), self.passes.tallied(self.data.K, self.real)):
            run(self.threads, self.start, self.column, self.bounds, cells, truth.numpy(), size, rows)
        return torch.from_numpy(size.sum(0)).to(self.data.dtype), out

    def _tables(self, rows: np.ndarray) -> tuple[np.ndarray, Any]:
        return self.tables, self.passes.load(self.data.K, self.real)

    def _room(self) -> Tensor:
        return torch.empty(0, self.data.K, dtype=self.data.dtype)  # nothing is written

    def _expected(self, responsibility: Tensor, memory: Tensor | None) -> Tensor:
        counts, rows = self._counts(memory)
        self.passes.collect(self.data.K, self.real)(self.threads, self.tables, rows)
        return counts

    def _drawn(self, truth: Tensor, memory: Tensor | None) -> Tensor:
        return self._expected(truth, memory)


class Wide(Sweeps):
    """Passes over items, which read the table as it is, and passes in the order of workers and labels, which count."""

    def __init__(self, data: Annotations | Coded, threads: int | None = None):
        super().__init__(data, threads)
        self.states = data.K if data.K <= KNOWN else self.passes.ANY
        self.bounds = shared(self.start, self.threads)

    @cached_property
    def sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where annotations of each worker and label begin ``(J*K+1,)``, whose they are ``(A + AHEAD,)``, and rows of threads."""
        N, A = self.data.N, self.data.A
        column, start = self.column[:A], self.start.view(np.int64)
        if max(N, A, self.rows) < 2**31:  # scipy would make int64 of other types
            column, start = column.view(np.int32), start.astype(np.int32)
        # Scipy sorts entries, in linear time; those of one item and column stay apart.
        entries = scipy.sparse.csr_array((np.ones(A, dtype=np.int8), column, start), shape=(N, self.rows)).tocsc()
        begin = entries.indptr.astype(np.uint64)
        room, item = padded(A, padding())
        np.copyto(item, entries.indices, casting="unsafe")
        return begin, room, shared(begin, self.threads)

    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities up."""
        total = responsibility.sum(0)
        return Statistics(torch.tensor(torch.nan), total, self._expected(responsibility.contiguous(), None))

    def counted(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Count by truths."""
        size = torch.from_numpy(np.bincount(truth.numpy(), minlength=self.data.K)).to(self.data.dtype)
        return size, self._drawn(truth, None)

    def _tables(self, rows: np.ndarray) -> tuple[np.ndarray, Any]:
        return rows.reshape(1, -1), None

    @cached_property
    def _own(self) -> Tensor:
        return torch.from_numpy(_large((self.data.N, self.data.K), self.real))

    def _room(self) -> Tensor:
        return self._own

    def spare(self) -> Tensor:
        """Return memory that E steps write over."""
        return self._own

    def _expected(self, responsibility: Tensor, memory: Tensor | None) -> Tensor:
        counts, rows = self._counts(memory)
        self.passes.gather(self.states, self.real)(self.threads, *self.sorted, responsibility.numpy(), rows)
        return counts

    def _drawn(self, truth: Tensor, memory: Tensor | None) -> Tensor:
        counts, rows = self._counts(memory)
        self.passes.count(self.real)(self.threads, *self.sorted, truth.numpy(), rows)
        return counts
