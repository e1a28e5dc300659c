"""Fused passes over the annotations, compiled by numba: all that concerns an item while its annotations are in the caches.

The sparse products of :mod:`crowdppl.kernels.sparse` write the log-likelihoods of all items, read them to normalise, and read
them again in the order of workers; beyond the caches they mostly wait for memory. Here an item's probabilities stay in vectors,
and the rows of workers' tables, which are visited in random order, are prefetched. Probabilities are multiplied, rather than
their logarithms added: where the product of an item, always in float64, becomes too small, the item is repeated in logarithms.

With narrow rows one pass does everything. With wide rows tables of each thread would be most of the memory traffic: a first
pass reads the model's own table and writes the responsibilities, and a second, :func:`crowdppl.kernels.counts.gather`, sums them.

An item's states are a row of :mod:`crowdppl.kernels.simd`, with a lane for each state, or with narrow rows for each number of
half a row of the table, where the rest is zeros. Beyond some number of states the processor's vectors do not hold them, and loops
over so many gain nothing from a number known in advance: passes are then compiled once for all, and the row is an array.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numba
import numpy as np

from crowdppl.kernels.parallel import AHEAD, ANY, BEGIN, ITEMS, NARROW, ONE, Pass, look_ahead, prefetch, row_layout
from crowdppl.kernels.simd import add_to, added, multiplied, scaled, set_to, total, write, zeros

# Below this a product may have lost digits; in a product above it, factors that have lost digits are negligible.
LOST = 1e-280
# Factors smaller than this are left out of a product of many.
SMALL = 1e-100
# Probabilities of which one logarithm is taken, if their product has not lost digits.
FACTORS = 8


@numba.njit  # type: ignore[untyped-decorator]
def _uniform(seed: Any, n: Any) -> Any:
    """Return the ``n``-th number from [0, 1) of the stream of a seed, both uint64, independently of thread and order.

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
    """Return the state that ``mark``, from 0 to the sum of the weights ``p``, falls on."""
    chosen, below = 0, 0.0
    for s in range(states - 1):  # without a branch, which could not be predicted
        below += p[s]
        chosen += below <= mark
    while chosen > 0 and not p[chosen] > 0.0:  # rounding: the last possible state
        chosen -= 1
    return chosen


@cache
def sweep(S: int, real: str, draw: bool) -> Any:
    """Return a pass over the items: an E step, or with ``draw`` true labels drawn, and with narrow rows the counts from either.

    It is compiled for ``S`` states (in narrow rows, or wide ones) or for ``ANY`` number of them in wide rows, and for tables of
    type ``real``, ``"f8"`` or ``"f4"``. Its arguments: ``start (N+1,)``, the first annotation of each item; ``column
    (A + AHEAD,)`` uint32, worker * K + label; ``bounds (T+1,)``, the items of each thread; ``tables (T, J*K*width)``, whose
    counts are added to, or with wide rows the one table ``(1, J*K*S)``; ``prior (S,)``; ``known (N,)`` int16, a known true
    label or -1.
    It writes ``likelihood (T,)``, the log-likelihood; ``size (T, S)``, the number of items of each state; in an E step
    ``out (N, S)``, the responsibilities, unless it is ``(0, S)``; with ``draw`` ``truth (N,)`` int16, by the stream of random
    numbers of a ``seed``, uint64.
    """
    known_number, narrow = S != ANY, 0 < S <= NARROW
    narrow_width, half, line, known_lines = row_layout(S or 1, real)
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
        reach = AHEAD if narrow else look_ahead(lines)
        table = tables[part] if narrow else tables[0]
        room = lanes if narrow else states
        p, some, number, begin = zeros(lanes, states), np.zeros(room), np.zeros(room), np.zeros(room)
        for s in range(states):
            begin[s] = prior[s]
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
                    prefetch(table, np.intp(ahead + np.uint64(n) * line))
                p = multiplied(p, table, np.uint64(column[a]) * width)
            whole, top_log = total(p), 0.0
            if whole < LOST:
                # Repeated in logarithms, which do not underflow; impossible labels remain impossible.
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
            # One logarithm for many items: of their product, as long as neither it nor its factors are small.
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
    return Pass(run, f"void({ITEMS}, real[::1], i2[::1], f8[::1], f8[:,::1], real[:,::1], u8, i2[::1])", real, S)


@cache
def adding(S: int, real: str) -> Any:
    """Return the pass that writes the item log joint ``out (N, S)`` for tables of logs and ``log_prior (S,)``.

    Other arguments are those of :func:`sweep`. Sums of logs, since a probability that underflows may matter once it is tempered.
    """
    known_number, narrow = S != ANY, 0 < S <= NARROW
    narrow_width, half, line, known_lines = row_layout(S or 1, real)
    ahead_lines, lanes = max(1, known_lines // 2), int(half) if narrow else S

    def add(part: Any, start: Any, column: Any, bounds: Any, tables: Any, log_prior: Any, known: Any, out: Any) -> None:
        states = S if known_number else log_prior.shape[0]
        width = narrow_width if narrow else np.uint64(states)
        lines = ahead_lines if narrow else -(-states // np.intp(line))
        reach = AHEAD if narrow else look_ahead(lines)
        table, row = tables[part] if narrow else tables[0], zeros(lanes, states)
        some = np.zeros(lanes if narrow else states)
        for i in range(bounds[part], bounds[part + ONE]):
            for s in range(states):
                some[s] = log_prior[s] if known[i] < 0 or s == known[i] else -np.inf
            row = set_to(row, some, BEGIN)
            for a in range(start[i], start[i + ONE]):
                ahead = np.uint64(column[a + reach]) * width
                for n in range(lines):
                    prefetch(table, np.intp(ahead + np.uint64(n) * line))
                row = added(row, table, np.uint64(column[a]) * width)
            write(row, some, BEGIN)
            for s in range(states):
                out[i, s] = some[s]

    return Pass(add, f"void({ITEMS}, real[::1], i2[::1], real[:,::1])", real, S)


@cache
def accumulate(real: str) -> Any:
    """Return the pass that draws true labels and accumulates probabilities from the item log joint ``(N, S)``.

    ``bounds (T+1,)`` are the items of each thread and ``factor (N,)`` their design effects, or none ``(0,)``, with which the
    classes have weights ``lift (K,)``. It writes
    ``likelihood (N,)``, the log-likelihood, and ``truth (N,)`` int16, drawn by the stream of a ``seed``, uint64; ``share`` times
    the probabilities is added to ``mean (N, S)``. With design effects true labels and ``mean`` follow the log joint divided by
    them, and the probabilities without them are added to ``published (N, S)``, unless it is ``(0, S)``.
    """

    def run(
        part: Any,
        bounds: Any,
        joint: Any,
        factor: Any,
        lift: Any,
        seed: Any,
        share: Any,
        likelihood: Any,
        truth: Any,
        mean: Any,
        published: Any,
    ) -> None:
        tempered, both = factor.shape[0] > 0, published.shape[0] > 0
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
                if both:
                    for s in range(states):
                        published[i, s] += p[s] * (share / whole)
                by, whole = 1.0 / factor[i], 0.0
                for s in range(states):
                    p[s] = math.exp((joint[i, s] - top) * by) * lift[s]
                    whole += p[s]
            truth[i] = _chosen(p, states, _uniform(seed, np.uint64(i)) * whole)
            for s in range(states):
                mean[i, s] += p[s] * (share / whole)

    kinds = "u8, u8[::1], real[:,::1], real[::1], real[::1], u8, f8, real[::1], i2[::1], real[:,::1], real[:,::1]"
    return Pass(run, f"void({kinds})", real)
