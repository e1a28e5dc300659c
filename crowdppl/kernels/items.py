"""One item in compiled code: its weights by state, from the probabilities of its labels, and the state that a mark falls on.

A row of the table for each worker and label holds the probabilities under the states, and zeros to the width of a vector of the
processor, where there are few states. Probabilities are multiplied; where a product has no digits left, logarithms are added.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

from crowdppl.kernels.code_cache import inline, leaf
from crowdppl.kernels.simd import multiplied, set_to, write, zeros

# Below this a product of probabilities may have lost digits.
LOST = 1e-280
# Probabilities of which one logarithm is taken, where products are too small.
FACTORS = 8
# The first position of an array. Numba checks at each access whether a signed index counts from the end.
BEGIN = np.uint64(0)


@register_jitable  # type: ignore[untyped-decorator]
def width_of(states: Any) -> Any:
    """Return the width of a row of the table: that of the processor's vectors, where there are few states."""
    if states <= 2:
        return 2
    if states <= 4:
        return 4
    return max(8, states)


@inline
def multiply(begin: Any, p: Any, table: Any, column: Any, first: Any, end: Any) -> None:
    """Write ``begin (W,)`` times the rows of the table ``(J*K*W,)`` at the columns from ``first`` to ``end`` (exclusive)."""
    width = np.uint64(p.shape[0])
    if width == np.uint64(2):
        two = set_to(zeros(2, 2), begin, BEGIN)
        for n in range(first, end):
            two = multiplied(two, table, np.uint64(column[n]) * width)
        write(two, p, BEGIN)
    elif width == np.uint64(4):
        four = set_to(zeros(4, 4), begin, BEGIN)
        for n in range(first, end):
            four = multiplied(four, table, np.uint64(column[n]) * width)
        write(four, p, BEGIN)
    elif width == np.uint64(8):
        eight = set_to(zeros(8, 8), begin, BEGIN)
        for n in range(first, end):
            eight = multiplied(eight, table, np.uint64(column[n]) * width)
        write(eight, p, BEGIN)
    elif width < np.uint64(96):  # eight at a time; the last ones may be computed twice
        last, place = width - np.uint64(8), BEGIN
        while True:
            some = set_to(zeros(8, 8), begin, place)
            for n in range(first, end):
                some = multiplied(some, table, np.uint64(column[n]) * width + place)
            write(some, p, place)
            if place == last:
                break
            place = min(place + np.uint64(8), last)
    else:
        last, place = width - np.uint64(32), BEGIN
        while True:
            many = set_to(zeros(32, 32), begin, place)
            for n in range(first, end):
                many = multiplied(many, table, np.uint64(column[n]) * width + place)
            write(many, p, place)
            if place == last:
                break
            place = min(place + np.uint64(32), last)


@inline
def weigh(
    known: Any, K: Any, S: Any, table: Any, prior: Any, some: Any, p: Any, column: Any, first: Any, end: Any
) -> None:
    """Write the weights ``p (W,)`` of an item's ``S`` states: prior, of a known class only, times its labels' probabilities.

    ``known`` is the class or less than 0, ``table (J*K*W,)`` flat, ``some (W,)`` memory that is zero from ``S`` on.
    """
    if known >= 0:
        for s in range(S):
            some[s] = prior[s] if s // (S // K) == known else 0.0
    multiply(some if known >= 0 else prior, p, table, column, first, end)


@leaf
def fill_log_joint(logs: Any, prior: Any, known: Any, K: Any, table: Any, column: Any, first: Any, end: Any) -> None:
    """Write the log joint of an item ``logs (S,)``, from logarithms of products of a few probabilities."""
    M, first, end = prior.shape[0] // K, np.int64(first), np.int64(end)
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


@leaf
def fill_shares_from_logs(p: Any, share: Any, mass: Any, logs: Any) -> Any:
    """Replace the log joint ``p (S,)`` by weights of the states within each class; write ``share`` and ``mass`` ``(K,)``.

    ``share`` are the probabilities of the classes, ``mass`` the sums of the weights, and ``logs (K,)`` the log joint by class.

    Returns:
        The logarithm of the sum over all states; minus infinity, with shares of 0, where none is possible.
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
    if best == -np.inf:
        share[:] = 0.0
        return best
    for k in range(K):
        share[k] = math.exp(logs[k] - best)
        whole += share[k]
    for k in range(K):
        share[k] /= whole
    return best + math.log(whole)


@leaf
def fill_shares(
    p: Any,
    prior: Any,
    known: Any,
    table: Any,
    column: Any,
    first: Any,
    end: Any,
    anchor: Any,
    share: Any,
    mass: Any,
    logs: Any,
) -> Any:
    """Write ``share (K,)``, the probabilities of an item's classes, and ``mass (K,)`` of its weights ``p (S,)``.

    The weights are computed again from logarithms if digits were lost: of their sum, or of a class with a share of the
    ``anchor (K,)``, which may be ``(0,)``. Then ``logs (K,)`` is the log joint by class.

    Returns:
        ``whole`` and ``unit``: the log-likelihood of the item is ``log(whole) + unit``, and ``unit`` is 0 unless there are logs.
    """
    K, whole, lost = share.shape[0], 0.0, False
    M = p.shape[0] // K
    for k in range(K):
        mass[k] = 0.0
        for s in range(k * M, k * M + M):
            mass[k] += p[s]
        whole += mass[k]
        lost |= anchor.shape[0] > 0 and mass[k] < LOST and anchor[k] > 0.0
    if lost or whole < LOST:
        fill_log_joint(p, prior, known, K, table, column, first, end)
        return 1.0, fill_shares_from_logs(p, share, mass, logs)
    for k in range(K):
        share[k] = mass[k] / whole
    return whole, 0.0


@inline
def choose(weights: Any, first: Any, end: Any, mark: Any) -> Any:
    """Return the place from ``first`` to ``end`` (exclusive) that a mark, from 0 to the sum of its weights, falls on."""
    chosen, below = first, 0.0
    for s in range(first, end - 1):  # without a branch, which could not be predicted
        below += weights[s]
        chosen += below <= mark
    while chosen > first and not weights[chosen] > 0.0:  # rounding: the last possible one
        chosen -= 1
    return chosen
