"""What is read off draws of raters of the graded response model, in compiled code: true grades, likelihoods, confusion matrices.

Probabilities of grades are those of :mod:`crowdppl.kernels.graded_rows`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import borrowed, compiled, inner
from crowdppl.kernels.graded_rows import DUE, fill_table, version
from crowdppl.kernels.random import uniform


@inner
def _read_item(start: Any, end: Any, row: Any, base: Any, tables: Any, weight: Any, truth: Any) -> Any:
    """Multiply the prior probabilities of an item's states, ``weight (S,)``, by those of its grades.

    Args:
        start: the first annotation of the item, and ``end`` the first of the next one.
        end: see there.
        row: of each annotation in the tables, ``(A,)``.
        base: first node of its block, likewise.
        tables: probabilities of grades of all raters, ``(J*K, M)``.
        weight: is written over.
        truth: probabilities of the known true grade, ``(S,)``, or all 1.

    Returns:
        The logarithm by which the weights are too large.
    """
    S, out = weight.shape[0], 0.0
    for s in range(S):
        weight[s] *= truth[s]
    for n in range(start, end):
        begin, top = np.intp(base[n]), 0.0
        given = tables[np.intp(row[n]), begin : begin + S]
        for s in range(S):
            weight[s] *= given[s]
            top += weight[s]
        if top < DUE:
            out += math.log(top)
            for s in range(S):
                weight[s] /= top
    return out


@inner
def _fill_given(
    raters: Any, first: Any, offsets: Any, share: Any, S: Any, apart: Any, odds: Any, tables: Any, given: Any
) -> None:
    """Write the probabilities of grades of all raters, ``tables (J*K, L*S)``, and of one of the crowd, ``given (K, S)``."""
    J, K, L = raters.shape[0], raters.shape[1], offsets.shape[0]
    given[:] = 0.0
    for j in range(J):
        table = tables[j * K : (j + 1) * K]
        fill_table(raters[j], first, apart, odds, offsets, S, table)
        for y in range(K):
            for part in range(L):
                for s in range(S):
                    given[y, s] += share[j] / L * table[y, part * S + s]


@inner
def _fill_of_class(given: Any, prior: Any, prevalence: Any, of_class: Any) -> None:
    """Write the prevalence of grades ``(K,)``, and the probabilities of the nodes of each, ``of_class (K, S)``."""
    for k in range(given.shape[0]):
        total = 0.0
        for s in range(given.shape[1]):
            of_class[k, s] = given[k, s] * prior[s]
            total += of_class[k, s]
        prevalence[k] = total
        for s in range(given.shape[1]):
            of_class[k, s] /= total


@inner
def _fill_confusion(table: Any, of_class: Any, blocks: Any, own: Any, confusion: Any) -> None:
    """Write the confusion matrix of a rater ``(K, K)`` from the probabilities of its grades, ``table (K, L*S)``.

    ``own (K, S)`` is room.
    """
    K, S = own.shape
    for y in range(K):
        for s in range(S):
            own[y, s] = table[y, s]
        for part in range(1, blocks):
            for s in range(S):
                own[y, s] += table[y, part * S + s]
    for k in range(K):
        share_of_class = of_class[k]
        for y in range(K):
            total, chance = 0.0, own[y]
            for s in range(S):
                total += share_of_class[s] * chance[s]
            confusion[k, y] = total / blocks


@inner
def _draw_grade(weight: Any, given: Any, mean: Any, stream: Any, probability: Any) -> Any:
    """Draw the true grade of an item with the weights ``(S,)`` of its states; probabilities are added to ``mean (K,)``."""
    K, total = given.shape[0], 0.0
    for k in range(K):
        part_of, chance = 0.0, given[k]
        for s in range(weight.shape[0]):
            part_of += weight[s] * chance[s]
        probability[k] = part_of
        total += part_of
    mark = uniform(stream) * total
    for k in range(K):
        mean[k] += probability[k] / total
    for k in range(K):
        mark -= probability[k]
        if mark < 0.0:
            return k
    return K - 1


# Raters, reference, offsets; share, first, prior; start, row, base, known; stream; tables; what is written.
READING = (
    "void(f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[:,::1], u8[::1], u4[::1], u4[::1], i2[::1], u8[::1], "
    "f8[:,::1], f8[:,::1], i2[:,::1], i4[:,::1], f8[:,::1], f8[:,:,:,::1], f8[:,::1])"
)


@cache
def reading() -> Any:
    """Return the compiled readings of draws.

    Its arguments, for ``D`` draws, ``J`` raters, ``K`` grades, ``S`` nodes in each of ``L`` blocks: ``raters (D, J, K)``;
    the ``reference`` rater ``(D, K)``, or ``(0, K)`` where true grades are those of a rater drawn from the crowd;
    exponentials of the blocks' ``offsets (D, L)``; the ``share (J,)`` of each rater in the crowd; the first node and their
    distance ``(2,)``; the ``prior (D, S)`` of the nodes; ``start (N+1,)``, ``row (A,)`` = rater * K + grade and ``base (A,)`` of
    annotations sorted by item; ``known (N,)``, a true grade or -1; ``stream (4,)`` of random numbers, changed;
    ``tables (J*K, L*S)``, room.
    Written are ``likelihood (D, N)``, ``truth (D, N)``, ``correct (D, J)``, ``mean (N, K)``, to which probabilities are added,
    ``confusion (D, J, K, K)`` and ``prevalence (D, K)``.
    """

    def run(
        raters: Any,
        reference: Any,
        offsets: Any,
        share: Any,
        first: Any,
        prior: Any,
        start: Any,
        row: Any,
        base: Any,
        known: Any,
        stream: Any,
        tables: Any,
        likelihood: Any,
        truth: Any,
        correct: Any,
        mean: Any,
        confusion: Any,
        prevalence: Any,
    ) -> None:
        J, K, S, L = raters.shape[1], raters.shape[2], prior.shape[1], offsets.shape[1]
        tables, row, base = borrowed(tables), borrowed(row), borrowed(base)
        apart, odds, weight, probability = np.empty(2 * K), np.empty(S), np.empty(S), np.empty(K)
        given, of_class, own = np.empty((K, S)), np.empty((K, S)), np.empty((K, S))
        ones, none = np.ones(S), np.ones(1)
        for draw in range(raters.shape[0]):
            _fill_given(raters[draw], first, offsets[draw], share, S, apart, odds, tables, given)
            if reference.shape[0] > 0:
                fill_table(reference[draw], first, apart, odds, none, S, given)
            _fill_of_class(given, prior[draw], prevalence[draw], of_class)
            for j in range(J):
                _fill_confusion(tables[j * K : (j + 1) * K], of_class, L, own, confusion[draw, j])
            correct[draw] = 0
            for i in range(known.shape[0]):
                only: Any = np.intp(known[i])
                for s in range(S):
                    weight[s] = prior[draw, s]
                log = _read_item(start[i], start[i + 1], row, base, tables, weight, ones if only < 0 else given[only])
                whole = 0.0
                for s in range(S):
                    whole += weight[s]
                likelihood[draw, i] = log + math.log(whole)
                if only < 0:
                    only = _draw_grade(weight, given, mean[i], stream, probability)
                else:
                    mean[i, only] += 1.0
                truth[draw, i] = only
                for n in range(start[i], start[i + 1]):
                    j = np.intp(row[n]) // K
                    if np.intp(row[n]) - j * K == only:
                        correct[draw, j] += 1

    run.__qualname__ += f".{version(__file__)}"
    return compiled(run, READING, nogil=True, error_model="numpy")
