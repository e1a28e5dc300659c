"""Passes over the judgements compiled by numba: everything of an item while its judgements are at hand.

The sparse products of :mod:`crowdppl.kernels` write the evidence of all items, read it to normalise, and read it again in the
order of workers; beyond the caches they wait for memory most of the time. Here an item's probabilities stay in registers, and
what is random, the row of a worker's table, is asked for some judgements ahead. Probabilities are multiplied, not their logs
added: where a product grows small it is scaled, and where that is not enough the item is done again in logs.

:mod:`crowdppl.sweeps` is the one caller; the sparse products are the fallback without numba and the oracle in the tests.

Every thread has a table of its own, ``(J*K, width)``: for each worker and label a row with the probabilities under the ``S``
states and, from the middle on, their expected counts. Rows begin where cache lines do, so that one line, or two, is all that a
judgement waits for.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Judgements between asking for a row and using it: enough to cover the way to memory, few enough to stay in the caches.
AHEAD = 32
# Products are looked at after so many factors, and scaled when small.
LOOK = 8
SMALL, LARGE = 1e-100, 1e100
# Below this a product may have lost digits.
LOST = 1e-280


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


def width_of(S: int) -> int:
    """Return the numbers in a row for ``S`` states: twice as many, up to a power of two, so that rows do not straddle lines."""
    return 1 << (2 * S - 1).bit_length()


@numba.njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
def load(tables: Any, rows: Any, width: int) -> None:
    """Write probabilities ``(J*K, S)`` into the rows of every thread's table, and zeros to their counts."""
    half = width // 2
    for c in numba.prange(rows.shape[0]):
        for t in range(tables.shape[0]):
            for s in range(rows.shape[1]):
                tables[t, c * width + s] = rows[c, s]
                tables[t, c * width + half + s] = 0.0


@numba.njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
def collect(tables: Any, out: Any, width: int) -> None:
    """Add the counts of all threads up into ``(J*K, S)``."""
    half = width // 2
    for c in numba.prange(out.shape[0]):
        for s in range(out.shape[1]):
            total = 0.0
            for t in range(tables.shape[0]):
                total += tables[t, c * width + half + s]
            out[c, s] = total


@numba.njit(parallel=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def log_totals(rows: Any, out: Any) -> None:
    """Add logs up over the first axis of ``(J, R)`` into ``(T, R)``, a row for each thread: of products, not of each number."""
    T, R, J = out.shape[0], out.shape[1], rows.shape[0]
    for t in numba.prange(T):
        product = np.ones(R)
        total = np.zeros(R)
        for j in range(t * J // T, (t + 1) * J // T):
            for r in range(R):
                product[r] *= rows[j, r]
                if not SMALL < product[r] < LARGE:
                    total[r] += math.log(product[r])
                    product[r] = 1.0
        for r in range(R):
            out[t, r] = total[r] + math.log(product[r])


@lru_cache(maxsize=16)
def scatter(S: int) -> Any:
    """Return the sum of given responsibilities ``(N, S)`` into the counts of the tables; arguments as of :func:`expectation`."""
    width = np.uint64(width_of(S))
    half = np.uint64(width_of(S) // 2)
    second = width_of(S) > 8

    @numba.njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
    def add(start: Any, column: Any, bounds: Any, tables: Any, given: Any) -> None:
        for t in numba.prange(bounds.shape[0] - 1):
            table = tables[t]
            last = start[bounds[t + 1]]
            for i in range(bounds[t], bounds[t + 1]):
                for a in range(start[i], start[i + 1]):
                    if a + AHEAD < last:
                        ahead = np.uint64(column[a + AHEAD]) * width + half
                        _prefetch(table, np.intp(ahead))
                        if second:
                            _prefetch(table, np.intp(ahead + np.uint64(8)))
                    cell = np.uint64(column[a]) * width + half
                    for s in range(S):
                        table[cell + np.uint64(s)] += given[i, s]

    return add


@lru_cache(maxsize=16)
def expectation(S: int) -> Any:
    """Return the E step with expected counts, compiled for ``S`` states.

    Its arguments: ``start (N+1,)``, where the judgements of each item begin; ``column (A,)`` uint32, worker * K + label;
    ``bounds (T+1,)``, the items of each thread; ``tables (T, J*K*width)``, whose counts are added to; ``prior (S,)``; ``known
    (N,)`` int16, a known truth or -1; ``likelihood (T,)`` and ``size (T, S)``, which are written: the log-likelihood and the
    expected numbers of items; ``out (N, S)`` for responsibilities, or ``(0, S)``; ``each (N,)`` for log-likelihoods of items,
    or ``(0,)``.
    """
    width = np.uint64(width_of(S))
    half = np.uint64(width_of(S) // 2)
    second = width_of(S) > 8

    @numba.njit(parallel=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
    def sweep(
        start: Any,
        column: Any,
        bounds: Any,
        tables: Any,
        prior: Any,
        known: Any,
        likelihood: Any,
        size: Any,
        out: Any,
        each: Any,
    ) -> None:
        keep, keep_each = out.shape[0] > 0, each.shape[0] > 0
        for t in numba.prange(bounds.shape[0] - 1):
            table = tables[t]
            p = np.empty(S)
            total_size = np.zeros(S)
            product, log_likelihood = 1.0, 0.0
            last = start[bounds[t + 1]]
            for i in range(bounds[t], bounds[t + 1]):
                first, end = start[i], start[i + 1]
                for s in range(S):
                    p[s] = prior[s]
                if known[i] >= 0:
                    for s in range(S):
                        if s != known[i]:
                            p[s] = 0.0
                shift, top_log = 0, 0.0
                for a in range(first, end):
                    if a + AHEAD < last:
                        ahead = np.uint64(column[a + AHEAD]) * width
                        _prefetch(table, np.intp(ahead))
                        if second:
                            _prefetch(table, np.intp(ahead + np.uint64(8)))
                    cell = np.uint64(column[a]) * width
                    for s in range(S):
                        p[s] *= table[cell + np.uint64(s)]
                    if (a - first) % LOOK == LOOK - 1:
                        top = 0.0
                        for s in range(S):
                            top = max(top, p[s])
                        if top < SMALL:
                            for s in range(S):
                                p[s] *= LARGE
                            shift += 1
                total = 0.0
                for s in range(S):
                    total += p[s]
                if total < LOST:
                    # Again in logs, which do not end; what is impossible stays so.
                    shift = 0
                    for s in range(S):
                        p[s] = math.log(prior[s]) if known[i] < 0 or s == known[i] else -np.inf
                    for a in range(first, end):
                        cell = np.uint64(column[a]) * width
                        for s in range(S):
                            p[s] += math.log(table[cell + np.uint64(s)])
                    top = -np.inf
                    for s in range(S):
                        top = max(top, p[s])
                    total = 0.0
                    for s in range(S):
                        p[s] = math.exp(p[s] - top)
                        total += p[s]
                    top_log = top
                top_log -= shift * math.log(LARGE)
                log_likelihood += top_log
                if keep_each:
                    each[i] = math.log(total) + top_log
                # One logarithm for many items: their product, as long as it is no small number.
                product *= total
                if product < SMALL:
                    log_likelihood += math.log(product)
                    product = 1.0
                for s in range(S):
                    p[s] /= total
                    total_size[s] += p[s]
                    if keep:
                        out[i, s] = p[s]
                for a in range(first, end):
                    cell = np.uint64(column[a]) * width + half
                    for s in range(S):
                        table[cell + np.uint64(s)] += p[s]
            likelihood[t] = log_likelihood + math.log(product)
            for s in range(S):
                size[t, s] = total_size[s]

    return sweep


@lru_cache(maxsize=16)
def sampling(S: int) -> Any:
    """Return a Gibbs sampler's half: truths drawn given the tables, and the counts they give; else as :func:`expectation`.

    ``chance (N,)`` are numbers drawn evenly from [0, 1), one for each item; ``truth (N,)`` int16 is written.
    """
    width = np.uint64(width_of(S))
    half = np.uint64(width_of(S) // 2)
    second = width_of(S) > 8

    @numba.njit(parallel=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
    def sweep(
        start: Any, column: Any, bounds: Any, tables: Any, prior: Any, known: Any, chance: Any, truth: Any, size: Any
    ) -> None:
        for t in numba.prange(bounds.shape[0] - 1):
            table = tables[t]
            p = np.empty(S)
            number = np.zeros(S)
            last = start[bounds[t + 1]]
            for i in range(bounds[t], bounds[t + 1]):
                first, end = start[i], start[i + 1]
                for s in range(S):
                    p[s] = prior[s]
                for a in range(first, end):
                    if a + AHEAD < last:
                        ahead = np.uint64(column[a + AHEAD]) * width
                        _prefetch(table, np.intp(ahead))
                        if second:
                            _prefetch(table, np.intp(ahead + np.uint64(8)))
                    cell = np.uint64(column[a]) * width
                    for s in range(S):
                        p[s] *= table[cell + np.uint64(s)]
                    if (a - first) % LOOK == LOOK - 1:
                        top = 0.0
                        for s in range(S):
                            top = max(top, p[s])
                        if top < SMALL:
                            for s in range(S):
                                p[s] *= LARGE
                total = 0.0
                for s in range(S):
                    total += p[s]
                if total < LOST:
                    for s in range(S):
                        p[s] = math.log(prior[s])
                    for a in range(first, end):
                        cell = np.uint64(column[a]) * width
                        for s in range(S):
                            p[s] += math.log(table[cell + np.uint64(s)])
                    top = -np.inf
                    for s in range(S):
                        top = max(top, p[s])
                    total = 0.0
                    for s in range(S):
                        p[s] = math.exp(p[s] - top)
                        total += p[s]
                # The last class that is possible takes what rounding leaves.
                chosen, mark = 0, chance[i] * total
                for s in range(S):
                    if p[s] > 0.0:
                        chosen = s
                        mark -= p[s]
                        if mark < 0.0:
                            break
                if known[i] >= 0:
                    chosen = known[i]
                truth[i] = chosen
                number[chosen] += 1.0
                for a in range(first, end):
                    table[np.uint64(column[a]) * width + half + np.uint64(chosen)] += 1.0
            for s in range(S):
                size[t, s] = number[s]

    return sweep
