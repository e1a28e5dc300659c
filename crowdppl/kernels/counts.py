"""Compiled sums over annotations: tables of probabilities loaded, counts by responsibilities or by given true labels.

With narrow rows, counts are written beside the probabilities of each thread's table, and added up over threads. With wide rows
:func:`gather` sums responsibilities in the order of workers and labels, so that no row of counts is visited twice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels.parallel import (
    AHEAD,
    ANY,
    BEGIN,
    CELLS,
    ITEMS,
    LINE,
    ONE,
    TALLY,
    Pass,
    look_ahead,
    prefetch,
    row_layout,
    row_range,
    width_of,
)
from crowdppl.kernels.simd import add_to, added, set_to, write, zeros


@cache
def load(S: int, real: str) -> Any:
    """Return the pass that writes probabilities ``(J*K, S)`` into the rows of a part's table, and zeros to their counts."""
    width = width_of(S, real)

    def fill(part: Any, tables: Any, rows: Any) -> None:
        table = tables[part]
        for c in range(rows.shape[0]):
            for s in range(width):  # and zeros to the lanes in between
                table[c * width + s] = rows[c, s] if s < S else 0.0

    return Pass(fill, "void(u8, real[:,::1], real[:,::1])", real, S)


@cache
def collect(S: int, real: str) -> Any:
    """Return the pass that adds up the counts of all tables into a part of the rows of ``(J*K, S)``."""
    width, half = width_of(S, real), width_of(S, real) // 2

    def add(part: Any, tables: Any, out: Any) -> None:
        begin, end = row_range(np.int64(part), tables.shape[0], out.shape[0])
        for c in range(begin, end):
            for s in range(S):
                total = 0.0
                for t in range(tables.shape[0]):
                    total += tables[t, c * width + half + s]
                out[c, s] = total

    return Pass(add, "void(u8, real[:,::1], real[:,::1])", real, S)


@cache
def scatter(S: int, real: str) -> Any:
    """Return the pass that sums given responsibilities ``(N, S)`` into the counts of the tables.

    Arguments as for :func:`crowdppl.kernels.fused.sweep`.
    """
    width, half, line, lines = row_layout(S, real)
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
                    prefetch(table, np.intp(ahead + np.uint64(n) * line))
                cell = np.uint64(column[a]) * width + half
                add_to(row, table, cell)

    return Pass(add, f"void({ITEMS}, real[:,::1])", real, S)


@cache
def tally(S: int, real: str) -> Any:
    """Return the pass that counts labels by given true labels ``(N,)`` int16, as integers in the memory of a part's table.

    It writes ``size (T, S)`` int64, the number of items of each state, and the counts, ``(T, ...)`` int32, into the second array.
    """

    def count(part: Any, start: Any, column: Any, bounds: Any, cells: Any, truth: Any, size: Any, out: Any) -> None:
        rows, wide, table, number = out.shape[0], np.uint64(S), cells[part], size[part]
        table[: rows * S] = 0
        number[:] = 0
        for i in range(bounds[part], bounds[part + ONE]):
            chosen = np.uint64(truth[i])
            number[chosen] += 1
            for a in range(start[i], start[i + ONE]):
                prefetch(table, np.intp(np.uint64(column[a + AHEAD]) * wide))
                table[np.uint64(column[a]) * wide + chosen] += 1

    return Pass(count, f"void({TALLY})", real, S)


@cache
def tallied(S: int, real: str) -> Any:
    """Return the pass that adds up the counts of :func:`tally` into some rows of ``out (J*K, S)``; arguments as there."""

    def add(part: Any, start: Any, column: Any, bounds: Any, cells: Any, truth: Any, size: Any, out: Any) -> None:
        parts = bounds.shape[0] - 1
        begin, end = row_range(np.int64(part), parts, out.shape[0])
        for c in range(begin, end):
            for s in range(S):
                total = 0
                for t in range(parts):
                    total += cells[t, c * S + s]
                out[c, s] = total

    return Pass(add, f"void({TALLY})", real, S)


@cache
def gather(S: int, real: str) -> Any:
    """Return the pass that sums responsibilities ``given (N, S)`` into counts ``out (J*K, S)``.

    ``begin (J*K+1,)`` holds the first annotation of each worker and label, ``item (A + AHEAD,)`` uint32 the items in that order,
    and ``bounds (T+1,)`` the rows of each thread.
    """
    known_number, line = S != ANY, LINE // np.dtype(real).itemsize

    def add(part: Any, begin: Any, item: Any, bounds: Any, given: Any, out: Any) -> None:
        flat, sums = given.reshape(-1), out.reshape(-1)
        states = S if known_number else given.shape[1]
        width, lines = np.uint64(states), -(-states // line)
        reach, row, nothing = look_ahead(lines), zeros(S, states), np.zeros(states)
        for c in range(bounds[part], bounds[part + ONE]):
            row = set_to(row, nothing, BEGIN)
            for a in range(begin[c], begin[c + ONE]):
                ahead = np.uint64(item[a + reach]) * width
                for n in range(lines):
                    prefetch(flat, np.intp(ahead + np.uint64(n * line)))
                row = added(row, flat, np.uint64(item[a]) * width)
            write(row, sums, np.uint64(c) * width)

    return Pass(add, f"void({CELLS}, real[:,::1], real[:,::1])", real, S)


@cache
def count(real: str) -> Any:
    """Return the pass that counts labels by given true labels ``(N,)`` int16 into ``out (J*K, S)``.

    Arguments are those of :func:`gather`.
    """

    def add(part: Any, begin: Any, item: Any, bounds: Any, truth: Any, out: Any) -> None:
        number = np.empty(out.shape[1])  # float64: single precision counts up to 2^24 only
        for c in range(bounds[part], bounds[part + ONE]):
            for s in range(out.shape[1]):
                number[s] = 0.0
            for a in range(begin[c], begin[c + ONE]):
                number[truth[item[a]]] += 1.0
            for s in range(out.shape[1]):
                out[c, s] = number[s]

    return Pass(add, f"void({CELLS}, i2[::1], real[:,::1])", real)
