"""Passes over the annotations compiled by numba: everything of an item while its annotations are at hand.

The sparse products of :mod:`crowdppl.kernels.sparse` write the log-likelihoods of all items, read them to normalise, and read them
again in the order of workers; beyond the caches they wait for memory most of the time. Here an item's probabilities stay at hand, and
what is random, the row of a worker's table, is asked for some annotations ahead. Probabilities are multiplied, not their logs
added: where the products, float64 always, of an item grow too small, it is done again in logs.

:mod:`crowdppl.inference.passes` is the one caller; the sparse products are the fallback without numba and the oracle in the tests.

Up to eight states (*narrow* rows) one pass does all, and every thread has a table of its own, ``(J*K, width)``: for each worker
and label a row with the probabilities under the ``S`` states and, from the middle on, their expected counts. Rows begin where
cache lines do, so that an annotation waits for no more of them than it must: one, or two.

With more states (*wide* rows) such tables would be most of what is moved. There a first pass reads the model's own table and
writes the responsibilities, and a second, :func:`gather`, sums these up in the order of workers and labels: no row of counts is
gone to twice.

An item's states are a row of :mod:`crowdppl.kernels.simd`, of as many lanes as there are states, or with narrow rows as half a row
of the table has numbers: the rest is zeros. Beyond some number of states the registers do not hold them, and loops over so many
need no number known beforehand: there passes are compiled once for all, and the row is an array.
"""

from __future__ import annotations

import math
import os
from functools import cache, cached_property
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from crowdppl.kernels.code_cache import compiled
from crowdppl.kernels.simd import VERSION, add_to, added, multiplied, scaled, set_to, total, write, zeros

# Annotations between asking for a row and using it: enough to cover the way to memory, few enough to stay in the caches; with
# wide rows as many as make so many lines. Arrays of annotations are longer by so many, for nobody to look where they end.
AHEAD, LINES_AHEAD = np.uint64(32), 64
# Below this a product may have lost digits; where it is no such, what has lost digits is nothing beside it.
LOST = 1e-280
# So small a factor is kept out of a product of many.
SMALL = 1e-100
# Probabilities of which one logarithm is taken, where their product has its digits.
FACTORS = 8
# Bytes of a cache line.
LINE = 64
# Rows of up to so many states are narrow.
NARROW = 8
# The first place of an array, and one more.
BEGIN, ONE = np.uint64(0), np.uint64(1)
# Whether this process is a child made by fork, where OpenMP ends it if its parent has used it.
FORKED: list[bool] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: FORKED.append(True))
# Stands for any number of states, found out at run time.
ANY = 0


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of an element."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(made.data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@numba.njit  # type: ignore[untyped-decorator]
def _uniform(seed: Any, n: Any) -> Any:
    """Return the ``n``-th number from [0, 1) of the stream of a seed, both uint64: whoever asks, in whatever order.

    SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators): a counter with its bits mixed.
    """
    z = seed + (n + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / 2**53)


@numba.njit  # type: ignore[untyped-decorator]
def _log_product(table: Any, column: Any, begin: Any, end: Any, width: Any, s: Any) -> Any:
    """Return the log of the probabilities of some labels under one state."""
    product = 1.0
    for a in range(begin, end):
        product *= table[np.uint64(column[a]) * width + np.uint64(s)]
    if product >= LOST:
        return math.log(product)
    logs = 0.0
    for a in range(begin, end):
        logs += math.log(table[np.uint64(column[a]) * width + np.uint64(s)])
    return logs


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _chosen(p: Any, states: Any, mark: Any) -> Any:
    """Return the state that ``mark``, from 0 to the sum of its weights, falls on."""
    chosen, below = 0, 0.0
    for s in range(states - 1):  # without a branch, which nobody could foresee
        below += p[s]
        chosen += below <= mark
    while chosen > 0 and not p[chosen] > 0.0:  # the last one that is possible takes what rounding leaves
        chosen -= 1
    return chosen


def width_of(S: int, real: str) -> int:
    """Return the numbers in a row for ``S`` states: twice as many, and so many more that rows do not straddle lines."""
    line = LINE // np.dtype(real).itemsize
    return 1 << (2 * S - 1).bit_length() if line >= 2 * S else 2 * -(-S // line) * line


def _row(S: int, real: str) -> tuple[np.uint64, np.uint64, np.uint64, int]:
    """Return the numbers in a row, where its counts begin, the numbers in a cache line, and the lines of a row."""
    width, line = width_of(S, real), LINE // np.dtype(real).itemsize
    return np.uint64(width), np.uint64(width // 2), np.uint64(line), max(1, width // line)


class Pass:
    """A compiled pass, which does the parts of its work one after another or at the same time.

    It is compiled for one signature and kept in a file that is named after what it is compiled for: numba's cache has one list
    for all that a function is compiled for, and numbers its files. Two processes that compile different things at once may choose
    the same number, and a third is then given code for other numbers of states.

    Args:
        function: does one part; the first argument is its number.
        signature: of the function.
        real: the type of the tables.
        S: number of states.
    """

    def __init__(self, function: Any, signature: str, real: str, S: int = ANY):
        function.__qualname__ += f".{real}.{S or 'any'}.{VERSION}"
        self.name, self.signature = function.__qualname__, signature.replace("real", real)
        self.part = compiled(function, self.signature, nogil=True, error_model="numpy")

    def __call__(self, parts: int, *arguments: Any) -> None:
        """Do so many parts by OpenMP's threads, or by this one where it is alone or OpenMP is not to be used."""
        if parts == 1 or FORKED:
            for part in range(parts):
                self.part(part, *arguments)
        else:
            self.all(parts, arguments)

    @cached_property
    def all(self) -> Any:
        """What does all parts at the same time: the number of parts, and a tuple of the other arguments."""
        do = self.part

        def share(parts: Any, arguments: Any) -> None:
            for part in numba.prange(parts):
                do(np.uint64(part), *arguments)

        share.__qualname__ = f"{self.name}.all"
        kinds = normalize_signature(self.signature)[0][1:]
        signature = types.void(types.intp, types.Tuple(kinds))  # type: ignore[attr-defined]
        return compiled(share, signature, parallel=True, error_model="numpy")


# Signatures in numba's short form; "real" is the type of the tables. Arrays lie row by row without gaps. Places in arrays are
# numbers without sign: with one numba would see to it, at each of them, that a number below zero counts from the end.
JUDGED = "u8, u8[::1], u4[::1], u8[::1], real[:,::1]"  # part, start, column, bounds, tables
COUNTED = "u8, u8[::1], u4[::1], u8[::1], i4[:,::1], i2[::1], i8[:,::1], real[:,::1]"
SORTED = "u8, u8[::1], u4[::1], u8[::1]"  # part, begin, item, bounds: the same annotations in the order of workers and labels


@numba.njit  # type: ignore[untyped-decorator]
def _rows(part: Any, parts: Any, rows: Any) -> Any:
    """Return the first row of a part, and the one after its last."""
    return rows * part // parts, rows * (part + 1) // parts


@numba.njit  # type: ignore[untyped-decorator]
def _reach(lines: Any) -> Any:
    """Return how many annotations ahead rows of so many lines are asked for."""
    return np.uint64(max(2, min(np.intp(AHEAD), LINES_AHEAD // lines)))


@cache
def load(S: int, real: str) -> Any:
    """Return what writes probabilities ``(J*K, S)`` into the rows of a part's table, and zeros to their counts."""
    width = width_of(S, real)

    def fill(part: Any, tables: Any, rows: Any) -> None:
        table = tables[part]
        for c in range(rows.shape[0]):
            for s in range(width):  # and zeros to the lanes between
                table[c * width + s] = rows[c, s] if s < S else 0.0

    return Pass(fill, "void(u8, real[:,::1], real[:,::1])", real, S)


@cache
def collect(S: int, real: str) -> Any:
    """Return what adds the counts of all tables up into a part of the rows of ``(J*K, S)``."""
    width, half = width_of(S, real), width_of(S, real) // 2

    def add(part: Any, tables: Any, out: Any) -> None:
        begin, end = _rows(np.int64(part), tables.shape[0], out.shape[0])
        for c in range(begin, end):
            for s in range(S):
                total = 0.0
                for t in range(tables.shape[0]):
                    total += tables[t, c * width + half + s]
                out[c, s] = total

    return Pass(add, "void(u8, real[:,::1], real[:,::1])", real, S)


@cache
def scatter(S: int, real: str) -> Any:
    """Return the sum of given responsibilities ``(N, S)`` into the counts of the tables; arguments as of :func:`sweep`."""
    width, half, line, lines = _row(S, real)
    ahead_lines, lanes = max(1, lines // 2), int(half)

    def add(part: Any, start: Any, column: Any, bounds: Any, tables: Any, given: Any) -> None:
        table, row, padded = tables[part], zeros(lanes, S), np.zeros(lanes)
        for i in range(bounds[part], bounds[part + ONE]):
            for s in range(S):
                padded[s] = given[i, s]
            row = set_to(row, padded, BEGIN)
            for a in range(start[i], start[i + ONE]):
                ahead = np.uint64(column[a + AHEAD]) * width + half
                for n in range(ahead_lines):
                    _prefetch(table, np.intp(ahead + np.uint64(n) * line))
                cell = np.uint64(column[a]) * width + half
                add_to(row, table, cell)

    return Pass(add, f"void({JUDGED}, real[:,::1])", real, S)


@cache
def tally(S: int, real: str) -> Any:
    """Return what counts labels by given truths ``(N,)`` int16, as whole numbers over the memory of a part's table.

    Written are ``size (T, S)`` int64, how many items there are of each state, and ``cells (T, ...)`` int32, the counts.
    """

    def count(part: Any, start: Any, column: Any, bounds: Any, cells: Any, truth: Any, size: Any, out: Any) -> None:
        rows, wide, table, number = out.shape[0], np.uint64(S), cells[part], size[part]
        table[: rows * S] = 0
        number[:] = 0
        for i in range(bounds[part], bounds[part + ONE]):
            chosen = np.uint64(truth[i])
            number[chosen] += 1
            for a in range(start[i], start[i + ONE]):
                _prefetch(table, np.intp(np.uint64(column[a + AHEAD]) * wide))
                table[np.uint64(column[a]) * wide + chosen] += 1

    return Pass(count, f"void({COUNTED})", real, S)


@cache
def tallied(S: int, real: str) -> Any:
    """Return what adds up, into a part of the rows of ``out (J*K, S)``, what :func:`tally` counted; arguments as there."""

    def add(part: Any, start: Any, column: Any, bounds: Any, cells: Any, truth: Any, size: Any, out: Any) -> None:
        parts = bounds.shape[0] - 1
        begin, end = _rows(np.int64(part), parts, out.shape[0])
        for c in range(begin, end):
            for s in range(S):
                total = 0
                for t in range(parts):
                    total += cells[t, c * S + s]
                out[c, s] = total

    return Pass(add, f"void({COUNTED})", real, S)


@cache
def gather(S: int, real: str) -> Any:
    """Return the sum of responsibilities ``given (N, S)`` into counts ``out (J*K, S)``.

    ``begin (J*K+1,)`` is where the annotations of each worker and label begin, ``item (A + AHEAD,)`` uint32 whose they are, and
    ``bounds (T+1,)`` the rows of each thread.
    """
    known_number, line = S != ANY, LINE // np.dtype(real).itemsize

    def add(part: Any, begin: Any, item: Any, bounds: Any, given: Any, out: Any) -> None:
        flat, sums = given.reshape(-1), out.reshape(-1)
        states = S if known_number else given.shape[1]
        width, lines = np.uint64(states), -(-states // line)
        reach, row, nothing = _reach(lines), zeros(S, states), np.zeros(states)
        for c in range(bounds[part], bounds[part + ONE]):
            row = set_to(row, nothing, BEGIN)
            for a in range(begin[c], begin[c + ONE]):
                ahead = np.uint64(item[a + reach]) * width
                for n in range(lines):
                    _prefetch(flat, np.intp(ahead + np.uint64(n * line)))
                row = added(row, flat, np.uint64(item[a]) * width)
            write(row, sums, np.uint64(c) * width)

    return Pass(add, f"void({SORTED}, real[:,::1], real[:,::1])", real, S)


@cache
def count(real: str) -> Any:
    """Return what counts labels by given truths ``(N,)`` int16 into ``out (J*K, S)``; arguments as of :func:`gather`."""

    def add(part: Any, begin: Any, item: Any, bounds: Any, truth: Any, out: Any) -> None:
        number = np.empty(out.shape[1])  # float64: single precision ends counting at 2^24
        for c in range(bounds[part], bounds[part + ONE]):
            for s in range(out.shape[1]):
                number[s] = 0.0
            for a in range(begin[c], begin[c + ONE]):
                number[truth[item[a]]] += 1.0
            for s in range(out.shape[1]):
                out[c, s] = number[s]

    return Pass(add, f"void({SORTED}, i2[::1], real[:,::1])", real)


@cache
def sweep(S: int, real: str, draw: bool) -> Any:
    """Return a pass over the items: an E step, or truths drawn, and with narrow rows the counts that either gives.

    It is compiled for ``S`` states (in narrow rows, or wide ones) or for ``ANY`` number of them in wide rows, for tables of type
    ``real``, ``"f8"`` or ``"f4"``, and for one of the two. Its arguments: ``start (N+1,)``, where the annotations of each item
    begin; ``column (A + AHEAD,)`` uint32, worker * K + label; ``bounds (T+1,)``, the items of each thread; ``tables
    (T, J*K*width)``, whose counts are added to, or with wide rows the one table ``(1, J*K*S)``; ``prior (S,)``; ``known
    (N,)`` int16, a known truth or -1.
    Written are ``likelihood (T,)``, the log-likelihood; ``size (T, S)``, how many items there are of each state; in an E step
    ``out (N, S)``, the responsibilities, unless it is ``(0, S)``; where truths are drawn ``truth (N,)`` int16, by the stream
    of random numbers of a ``seed``, uint64.
    """
    known_number, narrow = S != ANY, 0 < S <= NARROW
    narrow_width, half, line, known_lines = _row(S or 1, real)
    lanes = int(half) if narrow else S

    def run(
        part: Any,
        start: Any,
        column: Any,
        bounds: Any,
        tables: Any,
        prior: Any,
        known: Any,
        likelihood: Any,
        size: Any,
        out: Any,
        seed: Any,
        truth: Any,
    ) -> None:
        keep, flat = out.shape[0] > 0, out.reshape(-1)
        states = S if known_number else prior.shape[0]
        width = narrow_width if narrow else np.uint64(states)
        lines = known_lines if narrow else -(-states // np.intp(line))
        reach = AHEAD if narrow else _reach(lines)
        table = tables[part] if narrow else tables[0]
        room = lanes if narrow else states
        p, some, number, begin = zeros(lanes, states), np.zeros(room), np.zeros(room), np.zeros(room)
        begin[:states] = prior
        product, log_likelihood = 1.0, 0.0
        for i in range(bounds[part], bounds[part + ONE]):
            first, end = start[i], start[i + ONE]
            p = set_to(p, begin, BEGIN)
            if known[i] >= 0:
                some[:] = 0.0
                some[known[i]] = prior[known[i]]
                p = set_to(p, some, BEGIN)
            for a in range(first, end):
                ahead = np.uint64(column[a + reach]) * width
                for n in range(lines):
                    _prefetch(table, np.intp(ahead + np.uint64(n) * line))
                p = multiplied(p, table, np.uint64(column[a]) * width)
            whole, top_log = total(p), 0.0
            if whole < LOST:
                # Again in logs, which do not end; what is impossible stays so.
                top_log = -np.inf
                for s in range(states):
                    some[s] = math.log(prior[s]) if known[i] < 0 or s == known[i] else -np.inf
                    for begun in range(np.int64(first), np.int64(end), FACTORS):
                        some[s] += _log_product(table, column, begun, min(begun + FACTORS, np.int64(end)), width, s)
                    top_log = max(top_log, some[s])
                for s in range(states):
                    some[s] = math.exp(some[s] - top_log)
                some[states:] = 0.0
                p = set_to(p, some, BEGIN)
                whole = total(p)
                log_likelihood += top_log
            # One logarithm for many items: their product, as long as neither it nor what it is of is a small number.
            if whole < SMALL:
                log_likelihood += math.log(whole)
            else:
                product *= whole
                if product < SMALL:
                    log_likelihood += math.log(product)
                    product = 1.0
            if draw:
                write(p, some, BEGIN)
                chosen = _chosen(some, states, _uniform(seed, np.uint64(i)) * whole)
                truth[i] = chosen
                number[chosen] += 1.0
                if narrow:
                    for a in range(first, end):
                        table[np.uint64(column[a]) * width + half + np.uint64(chosen)] += 1.0
            else:
                p = scaled(p, 1.0 / whole)
                if keep and narrow:
                    write(p, some, BEGIN)
                    for s in range(states):
                        out[i, s] = some[s]
                elif keep:
                    write(p, flat, np.uint64(i) * width)
                if narrow:
                    for a in range(first, end):
                        cell = np.uint64(column[a]) * width + half
                        add_to(p, table, cell)
                add_to(p, number, BEGIN)
        likelihood[part] = log_likelihood + math.log(product)
        for s in range(states):
            size[part, s] = number[s]

    run.__qualname__ += ".draw" if draw else ".expect"
    return Pass(run, f"void({JUDGED}, real[::1], i2[::1], f8[::1], f8[:,::1], real[:,::1], u8, i2[::1])", real, S)


@cache
def adding(S: int, real: str) -> Any:
    """Return the item log joint, for tables of logs: ``log_prior (S,)``, ``out (N, S)`` is written; else as :func:`sweep`.

    Sums of logs, since what is next to nothing as a probability may be much once it is tempered.
    """
    known_number, narrow = S != ANY, 0 < S <= NARROW
    narrow_width, half, line, known_lines = _row(S or 1, real)
    ahead_lines, lanes = max(1, known_lines // 2), int(half) if narrow else S

    def add(part: Any, start: Any, column: Any, bounds: Any, tables: Any, log_prior: Any, known: Any, out: Any) -> None:
        states = S if known_number else log_prior.shape[0]
        width = narrow_width if narrow else np.uint64(states)
        lines = ahead_lines if narrow else -(-states // np.intp(line))
        reach = AHEAD if narrow else _reach(lines)
        table, row = tables[part] if narrow else tables[0], zeros(lanes, states)
        some = np.zeros(lanes if narrow else states)
        for i in range(bounds[part], bounds[part + ONE]):
            for s in range(states):
                some[s] = log_prior[s] if known[i] < 0 or s == known[i] else -np.inf
            row = set_to(row, some, BEGIN)
            for a in range(start[i], start[i + ONE]):
                ahead = np.uint64(column[a + reach]) * width
                for n in range(lines):
                    _prefetch(table, np.intp(ahead + np.uint64(n) * line))
                row = added(row, table, np.uint64(column[a]) * width)
            write(row, some, BEGIN)
            for s in range(states):
                out[i, s] = some[s]

    return Pass(add, f"void({JUDGED}, real[::1], i2[::1], real[:,::1])", real, S)


@cache
def settle(real: str) -> Any:
    """Return what reads items off the item log joint ``(N, S)``, each at once.

    ``bounds (T+1,)`` are the items of each thread and ``factor (N,)`` their design effects, or none ``(0,)``. Written are
    ``likelihood (N,)``, the log-likelihood, and ``truth (N,)`` int16, drawn by the stream of a ``seed``, uint64; a ``share`` of
    the probabilities is added to ``mean (N, S)``. With design effects truths and ``mean`` follow the log joint over them, and
    the probabilities without them go to ``published (N, S)``, unless it is ``(0, S)``.
    """

    def run(
        part: Any,
        bounds: Any,
        joint: Any,
        factor: Any,
        seed: Any,
        share: Any,
        likelihood: Any,
        truth: Any,
        mean: Any,
        published: Any,
    ) -> None:
        tempered, told = factor.shape[0] > 0, published.shape[0] > 0
        states = joint.shape[1]
        p = np.empty(states)
        for i in range(bounds[part], bounds[part + ONE]):
            top, whole = -np.inf, 0.0
            for s in range(states):
                top = max(top, joint[i, s])
            for s in range(states):
                p[s] = math.exp(joint[i, s] - top)
                whole += p[s]
            likelihood[i] = top + math.log(whole)
            if tempered:
                if told:
                    for s in range(states):
                        published[i, s] += p[s] * (share / whole)
                by, whole = 1.0 / factor[i], 0.0
                for s in range(states):
                    p[s] = math.exp((joint[i, s] - top) * by)
                    whole += p[s]
            truth[i] = _chosen(p, states, _uniform(seed, np.uint64(i)) * whole)
            for s in range(states):
                mean[i, s] += p[s] * (share / whole)

    kinds = "u8, u8[::1], real[:,::1], real[::1], u8, f8, real[::1], i2[::1], real[:,::1], real[:,::1]"
    return Pass(run, f"void({kinds})", real)
