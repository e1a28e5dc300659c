"""Compiled Gibbs chains: many sweeps of one chain in one call, which releases Python's lock, so that chains run in threads.

A sweep draws the state of each item from its conditional distribution given the parameters, and then the parameters given the
states. The second is the step of a *family* of models, a module with two compiled functions: ``tabulate`` writes the
probabilities of labels by worker and state, and ``draw`` draws the parameters. What is watched is summed up on the way.
"""

from __future__ import annotations

import math
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from crowdppl.kernels import random, small_matrices
from crowdppl.kernels.code_cache import compiled, inner
from crowdppl.kernels.random import uniform

# The modules of the parameter steps by name.
FAMILIES = {"logit rows": "crowdppl.kernels.logit_rows"}
# Below this a product of probabilities may have lost digits.
LOST = 1e-280
# Probabilities of which one logarithm is taken, where products are too small.
FACTORS = 8
# What is watched of the confusion matrices: nothing, their diagonals, all.
NOTHING, DIAGONALS, MATRICES = 0, 1, 2


@inner
def fill_log_joint(logs: Any, prior: Any, known: Any, K: Any, table: Any, column: Any, first: Any, end: Any) -> None:
    """Write the log joint of an item ``logs (S,)``, from logarithms of products of a few probabilities."""
    M = prior.shape[0] // K
    for s in range(prior.shape[0]):
        if known >= 0 and s // M != known:
            logs[s] = -np.inf
            continue
        logs[s] = math.log(prior[s])
        for begun in range(first, end, FACTORS):
            product = 1.0
            for n in range(begun, min(begun + FACTORS, end)):
                product *= table[column[n], s]
            if product >= LOST:
                logs[s] += math.log(product)
            else:
                for n in range(begun, min(begun + FACTORS, end)):
                    logs[s] += math.log(table[column[n], s])


@inner
def fill_shares_from_logs(p: Any, share: Any, mass: Any, logs: Any) -> Any:
    """Replace the log joint ``p (S,)`` by weights of the states within each class; write ``share`` and ``mass`` ``(K,)``.

    ``share`` are the probabilities of the classes, ``mass`` the sums of the weights, and ``logs (K,)`` the log joint by class.

    Returns:
        The logarithm of the sum over all states.
    """
    K, M = share.shape[0], p.shape[0] // share.shape[0]
    best, whole = -np.inf, 0.0
    for k in range(K):
        top, mass[k] = -np.inf, 0.0
        for s in range(k * M, k * M + M):
            top = max(top, p[s])
        for s in range(k * M, k * M + M):
            p[s] = math.exp(p[s] - top) if top > -np.inf else 0.0
            mass[k] += p[s]
        logs[k] = top + math.log(mass[k]) if top > -np.inf else -np.inf
        best = max(best, logs[k])
    for k in range(K):
        share[k] = math.exp(logs[k] - best)
        whole += share[k]
    for k in range(K):
        share[k] /= whole
    return best + math.log(whole)


@inner
def choose(weights: Any, first: Any, end: Any, mark: Any) -> Any:
    """Return the place from ``first`` to ``end`` (exclusive) that a mark, from 0 to the sum of its weights, falls on."""
    chosen, below = first, 0.0
    for s in range(first, end - 1):  # without a branch, which could not be predicted
        below += weights[s]
        chosen += below <= mark
    while chosen > first and not weights[chosen] > 0.0:  # rounding: the last possible one
        chosen -= 1
    return chosen


@inner
def _watch(sums: Any, at: Any, value: Any) -> None:
    """Add a quantity: ``sums`` are its origin, the sum of its excess, and that of the squares, each ``(Q,)``."""
    origin, total, squares = sums
    off = value - origin[at]
    total[at] += off
    squares[at] += off * off


@inner
def _watch_workers(table: Any, prior: Any, K: Any, what: Any, sums: Any) -> None:
    """Watch accuracies (J,), prevalence (K,) and, as ``what`` says, confusion matrices (J, K, K) or diagonals (J, K)."""
    J, M = table.shape[0] // K, prior.shape[0] // K
    prevalence, row = np.zeros(K), np.empty(K)
    for k in range(K):
        for s in range(k * M, k * M + M):
            prevalence[k] += prior[s]
        _watch(sums, J + k, prevalence[k])
    for j in range(J):
        accuracy = 0.0
        for k in range(K):
            for y in range(K):
                row[y] = 0.0
                if what == MATRICES or y == k:
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


@inner
def _draw_states(
    start: Any,
    column: Any,
    known: Any,
    anchor: Any,
    table: Any,
    prior: Any,
    state: Any,
    stream: Any,
    rows: Any,
    at: Any,
    sums: Any,
) -> None:
    """Draw the state of each item, and watch the classes of some, from place ``at`` of the sums on."""
    N, S, K = state.shape[0], prior.shape[0], anchor.shape[1]
    M, anchored, classes = S // K, anchor.shape[0] > 0, 1 if K == 2 else K
    p, share, mass, logs = np.empty(S), np.empty(K), np.empty(K), np.empty(K)
    place = 0
    for i in range(N):
        first, end = start[i], start[i + 1]
        for s in range(S):
            p[s] = prior[s]
        if known[i] >= 0:
            for s in range(S):
                p[s] = prior[s] if s // M == known[i] else 0.0
        for n in range(first, end):
            row = column[n]
            for s in range(S):
                p[s] *= table[row, s]
        whole, lost = 0.0, False
        for k in range(K):
            total = 0.0
            for s in range(k * M, k * M + M):
                total += p[s]
            mass[k] = total
            whole += total
            lost |= anchored and total < LOST and anchor[i, k] > 0.0
        if lost or whole < LOST:
            fill_log_joint(p, prior, known[i], K, table, column, first, end)
            fill_shares_from_logs(p, share, mass, logs)
        else:
            for k in range(K):
                share[k] = mass[k] / whole
        if place < rows.shape[0] and rows[place] == i:
            for k in range(classes):
                _watch(sums, at + place * classes + k, share[k])
            place += 1
        if anchored:
            free = 1.0
            for k in range(K):
                free -= anchor[i, k]
            for k in range(K):
                share[k] = free * share[k] + anchor[i, k]
        chosen = choose(share, 0, K, uniform(stream))
        if M > 1:
            chosen = choose(p, chosen * M, chosen * M + M, uniform(stream) * mass[chosen])
        state[i] = chosen


# Number of sweeps; start, column, worker, known, anchor; sizes and numbers of the step; parameters, stream, table, prior, state,
# work; rows, what, origin, total, squares; every, place, kept.
SIGNATURE = (
    "void(i8, i8[::1], i4[::1], i4[::1], i2[::1], f8[:,::1], i8[::1], f8[::1], f8[::1], u8[::1], f8[:,::1], f8[::1], i4[::1], "
    "f8[::1], i8[::1], i8, f8[::1], f8[::1], f8[::1], i8, i8, f8[:,::1])"
)


@cache
def sweeps(family: str) -> Any:
    """Return the compiled chain of a family of models.

    Its arguments, for ``N`` items, ``A`` annotations, ``J`` workers, ``K`` classes, ``S`` states:

    - ``number`` of sweeps;
    - the data: ``start (N+1,)`` int64, the first annotation of each item; ``column (A,)`` int32, worker * K + label; ``worker
      (A,)`` int32; ``known (N,)`` int16, a known class or -1; ``anchor (N, K)``, the share of each item's class that is taken
      from elsewhere, or ``(0, K)``;
    - the step: its ``sizes`` and ``numbers``;
    - the chain: ``parameters``, changed; ``stream (4,)`` of random numbers, changed; memory for the ``table (J*K, S)``, the
      ``prior (S,)``, the ``state (N,)`` int32 and the step's ``work``;
    - what is watched, unless ``Q`` is 0: ``rows``, the items, rising; ``what``, of the confusion matrices; ``origin``, ``total``
      and ``squares (Q,)``, the sums of the excess over the origin and of its squares: of the accuracies, the prevalence, the
      matrices or diagonals, and the classes of the items (one number for two classes);
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
        worker: Any,
        known: Any,
        anchor: Any,
        sizes: Any,
        numbers: Any,
        parameters: Any,
        stream: Any,
        table: Any,
        prior: Any,
        state: Any,
        work: Any,
        rows: Any,
        what: Any,
        origin: Any,
        total: Any,
        squares: Any,
        every: Any,
        place: Any,
        kept: Any,
    ) -> None:
        K, taken = anchor.shape[1], 0
        J = table.shape[0] // K
        classes = J + K + (J * K * K if what == MATRICES else J * K if what == DIAGONALS else 0)
        sums, watching = (origin, total, squares), total.shape[0] > 0
        watched = rows if watching else rows[:0]
        for sweep in range(number):
            tabulate(parameters, sizes, numbers, table, prior)
            if watching:
                _watch_workers(table, prior, K, what, sums)
            _draw_states(start, column, known, anchor, table, prior, state, stream, watched, classes, sums)
            draw(state, start, column, worker, parameters, sizes, numbers, work, stream)
            if taken < kept.shape[0] and (place + sweep + 1) % every == 0:
                for n in range(parameters.shape[0]):
                    kept[taken, n] = parameters[n]
                taken += 1

    run.__qualname__ += f".{family.replace(' ', '_')}.{version(str(module.__file__))}"
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")


def family_module(family: str) -> Any:
    """Return the module of a family's parameter step."""
    return import_module(FAMILIES[family])


def version(*modules: str) -> str:
    """Return a digest of all files whose code a chain contains, and of some more, by which the cache identifies it."""
    digest = 0
    for path in (__file__, random.__file__, small_matrices.__file__, *modules):
        digest = zlib.crc32(Path(path).read_bytes(), digest)
    return f"{digest:08x}"
