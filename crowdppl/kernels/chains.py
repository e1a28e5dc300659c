"""Compiled Gibbs chains: many sweeps of one chain in one call, which releases Python's lock, so that chains run in threads.

A sweep draws the state of each item from its conditional distribution given the parameters, and then the parameters given the
states. The second is the step of a *family* of models, a module with two compiled functions: ``tabulate`` writes the
probabilities of labels by worker and state, and ``draw`` draws the parameters. What is watched is summed up on the way.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from crowdppl.kernels import elementary, items, logit_rows_crowd, random, simd, small_matrices
from crowdppl.kernels.code_cache import borrowed, compiled, inline, leaf
from crowdppl.kernels.items import LOST, choose, fill_shares, weigh
from crowdppl.kernels.random import uniform

# The modules of the parameter steps by name.
FAMILIES = {
    "logit rows": "crowdppl.kernels.logit_rows",
    "dirichlet rows": "crowdppl.kernels.dirichlet_rows",
    "hierarchical rows": "crowdppl.kernels.hierarchical_rows",
}
# What is watched of the confusion matrices: nothing, their diagonals, all.
NOTHING, DIAGONALS, MATRICES = 0, 1, 2


@inline
def _watch(sums: Any, at: Any, value: Any) -> None:
    """Add a quantity: ``sums`` are its origin, the sum of its excess, and that of the squares, each ``(Q,)``."""
    origin, total, squares = sums
    off = value - origin[at]
    total[at] += off
    squares[at] += off * off


@leaf
def _watch_workers(table: Any, prior: Any, S: Any, K: Any, what: Any, sums: Any, room: Any) -> None:
    """Watch accuracies (J,), prevalence (K,) and, as ``what`` says, confusion matrices (J, K, K) or diagonals (J, K)."""
    J, M = table.shape[0] // K, S // K
    prevalence, row = room[:K], room[K : 2 * K]
    for k in range(K):
        prevalence[k] = 0.0
        for s in range(k * M, k * M + M):
            prevalence[k] += prior[s]
        _watch(sums, J + k, prevalence[k])
    for j in range(J):
        accuracy = 0.0
        for k in range(K):
            for y in range(K):
                if M == 1:
                    row[y] = table[j * K + y, k]
                elif what == MATRICES or y == k:
                    total = 0.0
                    for s in range(k * M, k * M + M):
                        total += table[j * K + y, s] * prior[s]
                    row[y] = total / prevalence[k]
            accuracy += prevalence[k] * row[k]
            if what == MATRICES:
                for y in range(K):
                    _watch(sums, J + K + (j * K + k) * K + y, row[y])
            elif what == DIAGONALS:
                _watch(sums, J + K + j * K + k, row[k])
        _watch(sums, j, accuracy)


@leaf
def _choose(p: Any, share: Any, mass: Any, anchor: Any, stream: Any) -> Any:
    """Return a state, of weights ``p (S,)`` within each class, whose ``mass (K,)`` is their sum, and ``share (K,)`` of classes.

    With shares ``anchor (K,)`` that are taken from elsewhere, unless it is ``(0,)``.
    """
    K, anchored = share.shape[0], anchor.shape[0] > 0
    M = p.shape[0] // K
    if anchored:
        free = 1.0
        for k in range(K):
            free -= anchor[k]
        for k in range(K):
            share[k] = free * share[k] + anchor[k]
    chosen = choose(share, 0, K, uniform(stream))
    if M > 1:
        chosen = choose(p, chosen * M, chosen * M + M, uniform(stream) * mass[chosen])
    return chosen


@leaf
def _draw_states(
    start: Any,
    column: Any,
    known: Any,
    anchor: Any,
    table: Any,
    prior: Any,
    counts: Any,
    stream: Any,
    rows: Any,
    at: Any,
    sums: Any,
    room: Any,
) -> None:
    """Draw the state of each item, count by it, and watch the classes of some, from place ``at`` of the sums on.

    ``counts (J*K + 1, S)`` are those of the labels, and in the last row of the items; ``room`` is memory for 3 K + 2 W numbers.
    """
    S, K, W, labels = counts.shape[1], anchor.shape[1], table.shape[1], table.shape[0]
    M, anchored, classes = S // K, anchor.shape[0] > 0, 1 if K == 2 else K
    share, mass, logs, rest = room[:K], room[K : 2 * K], room[2 * K : 3 * K], room[3 * K :]
    p, some = rest[:W], rest[W:]
    states, flat, numbers = np.uint64(S), table.reshape(-1), counts.reshape(-1)
    numbers[:] = 0.0
    some[:] = 0.0
    place, following = 0, rows[0] if rows.shape[0] > 0 else -1
    for i in range(start.shape[0] - 1):
        first, end, only = start[i], start[i + 1], np.intp(known[i])
        weigh(only, K, S, flat, prior, some, p, column, first, end)
        whole = 0.0
        for s in range(S):
            whole += p[s]
        heavy = anchored or whole < LOST
        if heavy:
            taken = anchor[i] if anchored else share[:0]
            fill_shares(p[:S], prior[:S], only, table, column, first, end, taken, share, mass, logs)
        if i == following:
            by = 1.0 / whole
            for k in range(classes):
                total = share[k]
                if not heavy:
                    total = 0.0
                    for s in range(k * M, k * M + M):
                        total += p[s]
                    total *= by
                _watch(sums, at + place * classes + k, total)
            place += 1
            following = rows[place] if place < rows.shape[0] else -1
        if heavy:
            state = np.uint64(_choose(p[:S], share, mass, anchor[i] if anchored else share[:0], stream))
        else:
            state = np.uint64(choose(p, 0, S, uniform(stream) * whole))
        numbers[labels * S + np.intp(state)] += 1.0
        for n in range(first, end):
            numbers[np.uint64(column[n]) * states + state] += 1.0


# Number of sweeps; start, column, known, anchor; sizes and numbers of the step; parameters, stream, table, prior, counts, work;
# rows, what, sparse, origin, total, squares; every, place, kept.
SIGNATURE = (
    "void(i8, u8[::1], u4[::1], i2[::1], f8[:,::1], i8[::1], f8[::1], f8[::1], u8[::1], f8[:,::1], f8[::1], f8[:,::1], "
    "f8[::1], i8[::1], i8, i8, f8[::1], f8[::1], f8[::1], i8, i8, f8[:,::1])"
)


@cache
def sweeps(family: str) -> Any:
    """Return the compiled chain of a family of models.

    Its arguments, for ``N`` items, ``A`` annotations, ``J`` workers, ``K`` classes, ``S`` states:

    - ``number`` of sweeps;
    - the data: ``start (N+1,)`` uint64, the first annotation of each item; ``column (A,)`` uint32, worker * K + label; ``known
      (N,)`` int16, a known class or -1; ``anchor (N, K)``, the share of each item's class that is taken from elsewhere, or
      ``(0, K)``;
    - the step: its ``sizes`` and ``numbers``;
    - the chain: ``parameters``, changed; ``stream (4,)`` of random numbers, changed; memory for the ``table (J*K, width)``, see
      :func:`crowdppl.kernels.items.width_of`, and the ``prior (width,)``, both zero from ``S`` on, the ``counts (J*K + 1, S)``
      and the step's ``work``;
    - what is watched, unless ``Q`` is 0: ``rows``, the items, rising; ``what``, of the confusion matrices; at one of so many
      sweeps, ``sparse``; ``origin``, ``total`` and ``squares (Q,)``, the sums of the excess over the origin and of its squares:
      of the accuracies, the prevalence, the matrices or diagonals, and the classes of the items (one number for two classes);
    - what is kept: the parameters after every sweep whose place is divisible by ``every``, in the rows of ``kept``, if any;
      ``place`` is that before the first sweep.

    A sweep watches the parameters that it begins with.
    """
    module = family_module(family)
    tabulate, draw = module.tabulate, module.draw

    def run(
        number: Any,
        start: Any,
        column: Any,
        known: Any,
        anchor: Any,
        sizes: Any,
        numbers: Any,
        parameters: Any,
        stream: Any,
        table: Any,
        prior: Any,
        counts: Any,
        work: Any,
        rows: Any,
        what: Any,
        sparse: Any,
        origin: Any,
        total: Any,
        squares: Any,
        every: Any,
        place: Any,
        kept: Any,
    ) -> None:
        start, column, known, anchor = borrowed(start), borrowed(column), borrowed(known), borrowed(anchor)
        sizes, numbers, parameters, stream = borrowed(sizes), borrowed(numbers), borrowed(parameters), borrowed(stream)
        table, prior, counts, work = borrowed(table), borrowed(prior), borrowed(counts), borrowed(work)
        own = np.empty(3 * anchor.shape[1] + 2 * table.shape[1])
        room = borrowed(own)
        rows, origin, total, squares = borrowed(rows), borrowed(origin), borrowed(total), borrowed(squares)
        K, taken = anchor.shape[1], 0
        J = table.shape[0] // K
        classes = J + K + (J * K * K if what == MATRICES else J * K if what == DIAGONALS else 0)
        sums = (origin, total, squares)
        for sweep in range(number):
            tabulate(parameters, sizes, numbers, table, prior)
            watched = rows[:0]
            if total.shape[0] > 0 and (place + sweep) % sparse == 0:
                watched = rows
                _watch_workers(table, prior, counts.shape[1], K, what, sums, room)
            _draw_states(start, column, known, anchor, table, prior, counts, stream, watched, classes, sums, room)
            draw(counts, parameters, sizes, numbers, work, stream)
            if taken < kept.shape[0] and (place + sweep + 1) % every == 0:
                for n in range(parameters.shape[0]):
                    kept[taken, n] = parameters[n]
                taken += 1
        own[0] = 0.0  # what is borrowed from it ends before

    run.__qualname__ += f".{family.replace(' ', '_')}.{version(str(module.__file__))}"
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")


def family_module(family: str) -> Any:
    """Return the module of a family's parameter step."""
    return import_module(FAMILIES[family])


def version(*modules: str) -> str:
    """Return a digest of all files whose code a chain contains, and of some more, by which the cache identifies it."""
    digest = 0
    own = (elementary, items, logit_rows_crowd, random, small_matrices, simd)
    for path in (__file__, *(str(module.__file__) for module in own), *modules):
        digest = zlib.crc32(Path(path).read_bytes(), digest)
    return f"{digest:08x}"
