"""Raters of the graded response model, in compiled code: drawn around a point given drawn items, and read off draws.

The model is that of :mod:`crowdppl.model.graded_rows`. All draws begin at one point: a rater's probabilities of grades there, and
what they say of gradient and information, are computed once for all draws. The proposal of a Metropolis-Hastings step, a Fisher
scoring step from the point with the information there, does not depend on where the chain is: a step costs one likelihood, and
several steps follow on one factorisation. Nodes are evenly spaced, so that powers of one number serve all of them.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from crowdppl.kernels.code_cache import borrowed, compiled, inner
from crowdppl.kernels.random import fill_normal, uniform
from crowdppl.kernels.small_matrices import factorise, solve_lower, solve_upper

# Largest change of a number in a Fisher scoring step; crowdppl.model.metropolis has the same.
LONGEST = 2.0
# The least probability of a grade, the largest odds against one, and a product of probabilities whose logarithm is due.
LEAST, MOST, DUE = 1e-250, 1e250, 1e-40


@inner
def _fill_thresholds(rater: Any, thresholds: Any, apart: Any) -> None:
    """Write the thresholds ``(K - 1,)``, and one less the odds of neighbours, ``(K - 2,)``; see ``model.graded_rows``."""
    n = thresholds.shape[0]
    height, mean = 0.0, 0.0
    thresholds[0] = 0.0
    for t in range(1, n):
        gap = math.exp(rater[1 + t])
        height += gap
        mean += height / n
        thresholds[t], apart[t - 1] = height, -math.expm1(-gap)
    for t in range(n):
        thresholds[t] += rater[1] - mean


@inner
def _fill_table(rater: Any, first: Any, apart: Any, odds: Any, offsets: Any, S: Any, out: Any) -> None:
    """Write the probabilities of a rater's grades, ``out (K, M)``.

    Args:
        rater: its numbers, ``(K,)``.
        first: the first node and the distance of nodes, ``(2,)``.
        apart: room, ``(2 K,)``.
        odds: room, ``(S,)``.
        offsets: the exponential of the offset of each block of ``S`` nodes, ``(L,)``.
        S: number of nodes.
        out: is written.
    """
    K = rater.shape[0]
    _fill_thresholds(rater, apart[: K - 1], apart[K : 2 * K - 2])
    slope = math.exp(rater[0])
    base, power = math.exp(min(max(-slope * first[0], -500.0), 500.0)), math.exp(max(-slope * first[1], -500.0))
    for s in range(S):
        odds[s] = base
        base *= power
    for part in range(offsets.shape[0]):
        begin = part * S
        upper = out[0, begin : begin + S]
        for s in range(S):
            upper[s] = 1.0
        for t in range(K - 1):
            level = math.exp(apart[t]) * offsets[part]
            factor = apart[K + t] if t < K - 2 else 1.0
            lower, upper = upper, out[t + 1, begin : begin + S]
            for s in range(S):
                against = min(level * odds[s], MOST)
                above = 1.0 / (1.0 + against)
                lower[s] = max(lower[s] * against * above, LEAST)
                upper[s] = above * factor
        for s in range(S):
            upper[s] = max(upper[s], LEAST)


@inner
def _fill_by_threshold(rater: Any, out: Any) -> None:
    """Write the derivatives of logits by middle and log gaps, ``(K - 1, K - 1)`` = (threshold, number)."""
    n = out.shape[0]
    for t in range(n):
        out[t, 0] = -1.0
        for g in range(1, n):
            out[t, g] = -math.exp(rater[1 + g]) * ((1.0 if t >= g else 0.0) - (n - g) / n)


@inner
def _fill_terms(rater: Any, table: Any, nodes: Any, by: Any, side: Any, terms: Any) -> None:
    """Write what a grade at a node adds to information, gradient and log-likelihood at the point.

    Args:
        rater: its numbers, ``(K,)``.
        table: probabilities of its grades, ``(K, M)``.
        nodes: ``(M,)``.
        by: derivatives of logits by numbers, written, ``(K - 1, K)``.
        side: room, ``(K,)``.
        terms: lower triangle of the information, gradient, and log-likelihood, written: ``(K, M, K (K + 1) / 2 + K + 1)``.
    """
    K, M = table.shape
    _fill_by_threshold(rater, by[:, 1:])
    slope = math.exp(rater[0])
    for m in range(M):
        above, below = 0.0, 0.0
        for t in range(K - 2, -1, -1):
            by[t, 0] = slope * nodes[m]
            above += table[t + 1, m]
            side[t] = above
        for t in range(K - 1):  # the density at a threshold, without cancellation
            below += table[t, m]
            side[t] *= below
        place = 0
        for g in range(K):
            for h in range(g + 1):
                total = 0.0
                for t in range(K - 1):
                    both = side[t] * side[t]
                    total += both * (1.0 / table[t, m] + 1.0 / table[t + 1, m]) * by[t, g] * by[t, h]
                    if t < K - 2:
                        cross = side[t] * side[t + 1] / table[t + 1, m]
                        total -= cross * (by[t, g] * by[t + 1, h] + by[t + 1, g] * by[t, h])
                for y in range(K):
                    terms[y, m, place] = total
                place += 1
        for y in range(K):
            for g in range(K):
                up = side[y - 1] * by[y - 1, g] if y > 0 else 0.0
                down = side[y] * by[y, g] if y < K - 1 else 0.0
                terms[y, m, place + g] = (up - down) / table[y, m]
            terms[y, m, place + K] = math.log(table[y, m])


@inner
def _log_likelihood(start: Any, end: Any, base: Any, label: Any, states: Any, draw: Any, table: Any) -> Any:
    """Return the log probability of the grades of one rater at the states of a draw."""
    out, product = 0.0, 1.0
    for n in range(start, end):
        product *= table[np.intp(label[n]), np.intp(base[n]) + np.intp(states[n - start, draw])]
        if product < DUE:
            out += math.log(product)
            product = 1.0
    return out + math.log(product)


@inner
def _scaled_square(factor: Any, off: Any) -> Any:
    """Return the squared length of ``off`` by the precision whose factor is given."""
    K, out = off.shape[0], 0.0
    for k in range(K):
        total = off[k] / factor[k, k]
        for i in range(k + 1, K):
            total += factor[i, k] * off[i]
        out += total * total
    return out


@cache
def states_at() -> Any:
    """Return the compiled draws of states.

    Its arguments: ``below (N, S)``, the probability of each state of an item and of those before it; ``stream (4,)`` of random
    numbers, changed; ``out (N, D)``, written; and ``number (D, S)`` of items in each state, to which items are added.
    """

    def run(below: Any, stream: Any, out: Any, number: Any) -> None:
        below, out = borrowed(below), borrowed(out)
        S = below.shape[1]
        for i in range(out.shape[0]):
            for draw in range(out.shape[1]):
                mark, state, end = uniform(stream) * below[i, S - 1], 0, S - 1
                while state < end:  # the first state that ends above the mark
                    middle = (state + end) // 2
                    if below[i, middle] > mark:
                        end = middle
                    else:
                        state = middle + 1
                out[i, draw] = state
                number[draw, state] += 1.0

    run.__qualname__ += f".{_version()}"
    return compiled(run, "void(f8[:,::1], u8[::1], u1[:,::1], f8[:,::1])", nogil=True, error_model="numpy")


# Start, item, base, label; states; raters, mean, precision; nodes, first, offsets; proposals, stream; draws.
AROUND = (
    "void(i8[::1], u4[::1], u4[::1], u4[::1], u1[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[::1], f8[::1], i8, "
    "u8[::1], f8[:,:,::1])"
)


@cache
def around() -> Any:
    """Return the compiled draws of raters around a point.

    Its arguments, for ``J`` raters, ``K`` grades, ``M`` nodes in blocks of ``S`` with an offset each: ``start (J+1,)``, the first
    annotation of each rater, and ``item``, ``base`` and ``label (A,)``, where ``base`` is the first node of the block; the
    ``states (N, D)`` drawn; ``raters (J, K)`` at the point; the prior's ``mean (K,)`` and ``precision (J, K)``; ``nodes (M,)``,
    the first one and their distance, ``(2,)``, and exponentials of the offsets, ``(L,)``; the number of ``proposals`` of a draw;
    ``stream (4,)`` of random numbers, changed; ``draws (J, D, K)``, written.
    """

    def run(
        start: Any,
        item: Any,
        base: Any,
        label: Any,
        states: Any,
        raters: Any,
        mean: Any,
        precision: Any,
        nodes: Any,
        first: Any,
        offsets: Any,
        proposals: Any,
        stream: Any,
        draws: Any,
    ) -> None:
        J, K, M, D = raters.shape[0], raters.shape[1], nodes.shape[0], draws.shape[1]
        S, lower = M // offsets.shape[0], K * (K + 1) // 2
        table, terms, total = np.empty((K, M)), np.empty((K, M, lower + K + 1)), np.empty(lower + K + 1)
        apart, odds, by, side = np.empty(2 * K), np.empty(S), np.empty((K - 1, K)), np.empty(K)
        factor, step, noise, off, new = np.empty((K, K)), np.empty(K), np.empty(K), np.empty(K), np.empty(K)
        longest = 1
        for j in range(J):
            longest = max(longest, start[j + 1] - start[j])
        own = np.empty((longest, D), np.uint8)  # states of the items of a rater
        for j in range(J):
            point = raters[j]
            for n in range(start[j], start[j + 1]):
                for draw in range(D):
                    own[n - start[j], draw] = states[np.intp(item[n]), draw]
            if start[j + 1] > start[j]:
                _fill_table(point, first, apart, odds, offsets, S, table)
                _fill_terms(point, table, nodes, by, side, terms)
            for draw in range(D):
                total[:] = 0.0
                for n in range(start[j], start[j + 1]):
                    row = terms[np.intp(label[n]), np.intp(base[n]) + np.intp(own[n - start[j], draw])]
                    for v in range(lower + K + 1):
                        total[v] += row[v]
                place, energy = 0, 0.0
                for g in range(K):
                    for h in range(g + 1):
                        factor[g, h] = total[place]
                        place += 1
                    factor[g, g] += precision[j, g]
                    step[g] = total[lower + g] - precision[j, g] * (point[g] - mean[g])
                    energy += precision[j, g] * (point[g] - mean[g]) ** 2 / 2.0
                factorise(factor)
                solve_lower(factor, step)
                solve_upper(factor, step)
                for g in range(K):
                    step[g] = min(max(step[g], -LONGEST), LONGEST)
                    draws[j, draw, g] = point[g]
                weight = total[lower + K] - energy + _scaled_square(factor, step) / 2.0
                for _ in range(proposals):
                    fill_normal(stream, noise)
                    energy = 0.0
                    for g in range(K):
                        energy -= noise[g] ** 2 / 2.0
                        off[g] = noise[g]
                    solve_upper(factor, off)
                    for g in range(K):
                        new[g] = point[g] + step[g] + off[g]
                        energy += precision[j, g] * (new[g] - mean[g]) ** 2 / 2.0
                    fit = 0.0
                    if start[j + 1] > start[j]:
                        _fill_table(new, first, apart, odds, offsets, S, table)
                        fit = _log_likelihood(start[j], start[j + 1], base, label, own, draw, table)
                    if math.log(1.0 - uniform(stream)) < fit - energy - weight:
                        weight = fit - energy
                        for g in range(K):
                            draws[j, draw, g] = new[g]

    run.__qualname__ += f".{_version()}"
    return compiled(run, AROUND, nogil=True, error_model="numpy")


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
            given[:] = 0.0
            for j in range(J):
                table = tables[j * K : (j + 1) * K]
                _fill_table(raters[draw, j], first, apart, odds, offsets[draw], S, table)
                for y in range(K):
                    for part in range(L):
                        for s in range(S):
                            given[y, s] += share[j] / L * table[y, part * S + s]
            if reference.shape[0] > 0:
                _fill_table(reference[draw], first, apart, odds, none, S, given)
            for k in range(K):
                total = 0.0
                for s in range(S):
                    of_class[k, s] = given[k, s] * prior[draw, s]
                    total += of_class[k, s]
                prevalence[draw, k] = total
                for s in range(S):
                    of_class[k, s] /= total
            for j in range(J):
                for y in range(K):
                    for s in range(S):
                        own[y, s] = tables[j * K + y, s]
                    for part in range(1, L):
                        for s in range(S):
                            own[y, s] += tables[j * K + y, part * S + s]
                for k in range(K):
                    share_of_class = of_class[k]
                    for y in range(K):
                        total, chance = 0.0, own[y]
                        for s in range(S):
                            total += share_of_class[s] * chance[s]
                        confusion[draw, j, k, y] = total / L
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
                    total, only = 0.0, K - 1
                    for k in range(K):
                        part_of, chance = 0.0, given[k]
                        for s in range(S):
                            part_of += weight[s] * chance[s]
                        probability[k] = part_of
                        total += part_of
                    mark = uniform(stream) * total
                    for k in range(K):
                        mean[i, k] += probability[k] / total
                    for k in range(K):
                        mark -= probability[k]
                        if mark < 0.0:
                            only = k
                            break
                else:
                    mean[i, only] += 1.0
                truth[draw, i] = only
                for n in range(start[i], start[i + 1]):
                    j = np.intp(row[n]) // K
                    if np.intp(row[n]) - j * K == only:
                        correct[draw, j] += 1

    run.__qualname__ += f".{_version()}"
    return compiled(run, READING, nogil=True, error_model="numpy")


def _version() -> str:
    return f"{crc32(Path(__file__).read_bytes()):08x}"
