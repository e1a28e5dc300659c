"""Raters of the graded response model, drawn around a point given drawn items, in compiled code.

All draws begin at one point: a rater's probabilities of grades there (:mod:`crowdppl.kernels.graded_rows`), and what they say of
gradient and information, are computed once for all draws. The proposal of a Metropolis-Hastings step, a Fisher scoring step from
the point with the information there, does not depend on where the chain is: a step costs one likelihood, and several steps follow
on one factorisation.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import borrowed, compiled, inner
from crowdppl.kernels.graded_rows import DUE, fill_table, version
from crowdppl.kernels.random import fill_normal, uniform
from crowdppl.kernels.small_matrices import factorise, solve_lower, solve_upper

# Largest change of a number in a Fisher scoring step; crowdppl.model.metropolis has the same.
LONGEST = 2.0


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

    run.__qualname__ += f".{version(__file__)}"
    return compiled(run, "void(f8[:,::1], u8[::1], u1[:,::1], f8[:,::1])", nogil=True, error_model="numpy")


@inner
def _fill_step(total: Any, point: Any, mean: Any, precision: Any, factor: Any, step: Any) -> Any:
    """Write the Fisher scoring step of a rater ``(K,)`` from the point, and the factor ``(K, K)`` of the information there.

    ``total`` are the sums of the rater's terms, as :func:`_fill_terms` has them; ``mean`` and ``precision`` are of the prior.

    Returns:
        The log posterior density at the point, up to a constant, less that of the proposal.
    """
    K, place, energy = point.shape[0], 0, 0.0
    lower = K * (K + 1) // 2
    for g in range(K):
        for h in range(g + 1):
            factor[g, h] = total[place]
            place += 1
        factor[g, g] += precision[g]
        step[g] = total[lower + g] - precision[g] * (point[g] - mean[g])
        energy += precision[g] * (point[g] - mean[g]) ** 2 / 2.0
    factorise(factor)
    solve_lower(factor, step)
    solve_upper(factor, step)
    for g in range(K):
        step[g] = min(max(step[g], -LONGEST), LONGEST)
    return total[lower + K] - energy + _scaled_square(factor, step) / 2.0


@inner
def _propose(
    point: Any, step: Any, factor: Any, mean: Any, precision: Any, stream: Any, noise: Any, off: Any, new: Any
) -> Any:
    """Write a rater's proposal, ``new (K,)``; ``noise (K,)`` and ``off (K,)`` are room.

    Returns:
        Minus the log density of the prior, plus that of the proposal, at what is proposed.
    """
    fill_normal(stream, noise)
    energy = 0.0
    for g in range(point.shape[0]):
        energy -= noise[g] ** 2 / 2.0
        off[g] = noise[g]
    solve_upper(factor, off)
    for g in range(point.shape[0]):
        new[g] = point[g] + step[g] + off[g]
        energy += precision[g] * (new[g] - mean[g]) ** 2 / 2.0
    return energy


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
                fill_table(point, first, apart, odds, offsets, S, table)
                _fill_terms(point, table, nodes, by, side, terms)
            for draw in range(D):
                total[:] = 0.0
                for n in range(start[j], start[j + 1]):
                    row = terms[np.intp(label[n]), np.intp(base[n]) + np.intp(own[n - start[j], draw])]
                    for v in range(lower + K + 1):
                        total[v] += row[v]
                weight = _fill_step(total, point, mean, precision[j], factor, step)
                for g in range(K):
                    draws[j, draw, g] = point[g]
                for _ in range(proposals):
                    energy = _propose(point, step, factor, mean, precision[j], stream, noise, off, new)
                    fit = 0.0
                    if start[j + 1] > start[j]:
                        fill_table(new, first, apart, odds, offsets, S, table)
                        fit = _log_likelihood(start[j], start[j + 1], base, label, own, draw, table)
                    if math.log(1.0 - uniform(stream)) < fit - energy - weight:
                        weight = fit - energy
                        for g in range(K):
                            draws[j, draw, g] = new[g]

    run.__qualname__ += f".{version(__file__)}"
    return compiled(run, AROUND, nogil=True, error_model="numpy")
