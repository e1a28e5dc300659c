"""Sweeps of :mod:`crowdppl.kernels.logit_rows` that all begin at one point: draws around it.

What depends on the point alone is computed once: the probabilities of the items' states, and the powers and normalisers of each
row. A row's proposal, a Newton step from the point and its curvature, is then the same whatever the row's logits are: the
Metropolis-Hastings step needs it once, not also back from the logits proposed. Arguments are those of that module.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from crowdppl.kernels import logit_rows
from crowdppl.kernels.chains import version
from crowdppl.kernels.code_cache import compiled, inner
from crowdppl.kernels.elementary import exp, log
from crowdppl.kernels.logit_rows import FIXED, rooms, sites
from crowdppl.kernels.logit_rows_crowd import draw_explanation
from crowdppl.kernels.random import fill_dirichlet, fill_normal, normal, uniform
from crowdppl.kernels.small_matrices import factorise, solve_lower, solve_upper

# Equal parts of the unit interval for which it is known where the search for an item's state begins; a power of two.
GUIDES = 32


@inner
def _fill_guide(below: Any, guide: Any) -> None:
    """Write the first state that a uniform variable in each part of the interval may draw, ``guide (N, GUIDES)`` uint16.

    A larger number than the type holds is the largest one: the search begins before the state.
    Source: H.-C. Chen and Y. Asau 1974, On generating random variates from an empirical distribution, AIIE Transactions 6.
    """
    S = below.shape[1]
    for i in range(below.shape[0]):
        state = 0
        for g in range(GUIDES):
            mark = g * (1.0 / GUIDES) * below[i, S - 1]
            while state < S - 1 and not below[i, state] > mark:
                state += 1
            guide[i, g] = np.uint16(min(state, 65535))


@inner
def _tally(
    start: Any,
    column: Any,
    worker: Any,
    below: Any,
    guide: Any,
    sizes: Any,
    concentration: Any,
    labels: Any,
    effects: Any,
    stream: Any,
) -> None:
    """Draw the state of each item, add items to ``concentration (K + G,)``, and count its annotations in ``labels, effects``."""
    K, M, S = sizes[1], sizes[2], below.shape[1]
    labels[:], effects[:] = 0.0, 0.0
    # Numbers without a sign: places in an array are not counted from its end.
    by_label, by_effect, other = labels.reshape(-1), effects.reshape(-1), np.uint64(K * K - K)
    each = np.uint64(K * M)
    for i in range(below.shape[0]):
        u = uniform(stream)
        mark, state = u * below[i, S - 1], np.intp(guide[i, np.intp(u * GUIDES)])
        while state < S - 1 and not below[i, state] > mark:  # the first state that ends above the mark
            state += 1
        k = state // M
        concentration[k] += 1.0
        concentration[K + sizes[4 + state - k * M]] += 1.0
        row, place = np.uint64(k * K), np.uint64(state)
        for n in range(start[i], start[i + 1]):
            j = np.uint64(worker[n])
            by_label[np.uint64(column[n]) + j * other + row] += 1.0
            by_effect[j * each + place] += 1.0


@inner
def _fill_point(point: Any, sizes: Any, factors: Any, means: Any, powers: Any, inverse: Any, tops: Any) -> None:
    """Write of each row at the point: the prior's mean ``(J, K, K)``, powers of its logits less the largest, ``tops (J, K)``.

    And one by the normalisers of the powers under each effect, ``inverse (J, K, M)``.
    """
    J, K = tops.shape
    _, _, _, D, a, b, d = sites(point, sizes)
    for j in range(J):
        for k in range(K):
            top = -np.inf
            for y in range(K):
                means[j, k, y] = b[j, y] + D[k, y] + (a[j] if k == y else 0.0)
                top = max(top, means[j, k, y] + d[j, k, y])
            tops[j, k] = top
            for y in range(K):
                powers[j, k, y] = math.exp(means[j, k, y] + d[j, k, y] - top)
            for m in range(inverse.shape[2]):
                total = 0.0
                for y in range(K):
                    total += powers[j, k, y] * factors[m, y]
                inverse[j, k, m] = 1.0 / total


@inner
def _propose_by_effects(size: Any, parts: Any, certain: Any, slope: Any, inner: Any, noise: Any, shift: Any) -> Any:
    """Propose by a matrix of the effects, where there are fewer than labels; arguments as of :func:`_propose`.

    The precision is ``diag(certain) - parts' parts`` (Woodbury). ``inner`` is room, ``(K + 3, K)``.
    """
    K = slope.shape[0]
    mean, own, other = inner[K], inner[K + 1], inner[K + 2]
    before, after = 0.0, 0.0
    for y in range(K):
        shift[y] = slope[y] / certain[y]
        before += slope[y] * shift[y]
    factor = inner[:size, :size]
    for r in range(size):
        mean[r] = 0.0
        for y in range(K):
            mean[r] += parts[r, y] * shift[y]
            other[y] = parts[r, y] / certain[y]
        for c in range(r + 1):
            total = 1.0 if c == r else 0.0
            for y in range(K):
                total -= other[y] * parts[c, y]
            factor[r, c] = total
    factorise(factor)
    solve_lower(factor, mean[:size])
    for r in range(size):
        before += mean[r] * mean[r]
        own[r] = noise[K + r]
    solve_upper(factor, mean[:size])
    solve_upper(factor, own[:size])
    other[:] = 0.0
    for y in range(K):
        moved, off = 0.0, noise[y] * math.sqrt(certain[y])
        for r in range(size):
            moved += parts[r, y] * mean[r]
            off += parts[r, y] * own[r]
        after += off * off / certain[y]
        shift[y] += (moved + off) / certain[y]
        noise[y] = off / certain[y]
    for r in range(size):
        total = 0.0
        for y in range(K):
            total += parts[r, y] * noise[y]
        after -= total * total
    return after - before


@inner
def _propose(size: Any, parts: Any, certain: Any, slope: Any, factor: Any, noise: Any, shift: Any) -> Any:
    """Write how far a row's proposal is from the point, ``shift (K,)``.

    Args:
        size: number of effects that the row has.
        parts: of each, the probabilities of the labels, times the root of how often it has it, in the first ``size`` rows.
        certain: the precision without the effects' part, ``(K,)``.
        slope: first derivatives of the row's log density at the point, ``(K,)``.
        factor: room, ``(K, K)`` or more.
        noise: standard normal variables, ``(2 K,)``, changed.
        shift: is written.

    Returns:
        By how much what is proposed is further from the proposal's centre than the point: squared distances by its precision.
    """
    K = slope.shape[0]
    before, after = 0.0, 0.0
    for y in range(K):
        for h in range(y + 1):
            total = certain[y] if h == y else 0.0
            for r in range(size):
                total -= parts[r, y] * parts[r, h]
            factor[y, h] = total
        shift[y] = slope[y]
    factorise(factor[:K])
    solve_lower(factor[:K], shift)
    for y in range(K):
        before += shift[y] * shift[y]
        after += noise[y] * noise[y]
        shift[y] += noise[y]
    solve_upper(factor[:K], shift)
    return after - before


@inner
def _move_rows(
    labels: Any,
    effects: Any,
    factors: Any,
    certain: Any,
    d: Any,
    means: Any,
    powers: Any,
    inverse: Any,
    logits: Any,
    totals: Any,
    tops: Any,
    stream: Any,
) -> None:
    """Write logits of all rows, ``totals`` and, of rows without labels, ``tops``, as :func:`draw_explanation` takes them."""
    J, K, M = inverse.shape
    # Of no more effects than classes the matrix by effects is the smaller one; all lie in the same rooms.
    parts, room = np.empty((M, K)), np.empty((K + 3, K))
    curve, slope, shift, noise = np.empty(K), np.empty(K), np.empty(K), np.empty(2 * K)
    often, change, spread = np.empty(M), np.empty(M), 1.0 / math.sqrt(certain)
    for j in range(J):
        for k in range(K):
            n, e, power, size = labels[j, k], effects[j, k], powers[j, k], 0
            for y in range(K):
                slope[y], curve[y] = n[y] - certain * d[j, k, y], certain
            for m in range(M):
                if e[m] > 0.0:
                    root = math.sqrt(e[m])
                    for y in range(K):
                        parts[size, y] = root * power[y] * factors[m, y] * inverse[j, k, m]
                        slope[y] -= root * parts[size, y]
                        curve[y] += root * parts[size, y]
                    size += 1
            if size == 0:
                tops[j, k] = np.inf
                for y in range(K):
                    logits[j, k, y] = means[j, k, y] + normal(stream) * spread
                continue
            if size < K:
                fill_normal(stream, noise[: K + size])
                excess = _propose_by_effects(size, parts, curve, slope, room, noise, shift)
            else:
                fill_normal(stream, noise[:K])
                excess = _propose(size, parts, curve, slope, room, noise, shift)
            ratio, size = excess / 2.0, 0
            for y in range(K):
                ratio += n[y] * shift[y] - certain * (2.0 * d[j, k, y] + shift[y]) * shift[y] / 2.0
            for y in range(K):
                noise[y] = power[y] * exp(shift[y])
            for m in range(M):
                if e[m] > 0.0:
                    total = 0.0
                    for y in range(K):
                        total += noise[y] * factors[m, y]
                    totals[j, k, m] = total
                    often[size], change[size] = e[m], total * inverse[j, k, m]
                    size += 1
            for r in range(size):
                ratio -= often[r] * log(change[r])
            u = 1.0 - uniform(stream)  # always, so that the stream goes on alike
            stays = not (ratio >= 0.0 or math.log(u) < ratio)
            for m in range(M):
                if stays and e[m] > 0.0:
                    totals[j, k, m] = 1.0 / inverse[j, k, m]
            for y in range(K):
                logits[j, k, y] = means[j, k, y] + d[j, k, y] + (0.0 if stays else shift[y])


# Start, column, worker, below; sizes and numbers of the step; point, stream, work; draws.
SIGNATURE = "void(u8[::1], u4[::1], u4[::1], f8[:,::1], i8[::1], f8[::1], f8[::1], u8[::1], f8[::1], f8[:,::1])"


@cache
def around() -> Any:
    """Return the compiled draws around a point.

    Its arguments, for ``N`` items, ``A`` annotations, ``S`` states: ``start (N+1,)`` and ``column (A,)`` as
    :func:`crowdppl.kernels.chains.sweeps` takes them, ``worker (A,)``; ``below (N, S)``, the probability of each state of an item
    at the point and of those before it; ``sizes`` and ``numbers`` of the step; the ``point (P,)``; ``stream (4,)`` of random
    numbers, changed; ``work``, room for J K (2 K + 2 M + 1) numbers; ``draws (D, P)``, written.
    """

    def run(
        start: Any,
        column: Any,
        worker: Any,
        below: Any,
        sizes: Any,
        numbers: Any,
        point: Any,
        stream: Any,
        work: Any,
        draws: Any,
    ) -> None:
        J, K, M, G = sizes[0], sizes[1], sizes[2], sizes[3]
        factors = numbers[FIXED + K + G :].reshape(M, K)
        labels, logits, effects, totals, tops = rooms(work, J, K, M)
        means, powers, inverse = np.empty((J, K, K)), np.empty((J, K, K)), np.empty((J, K, M))
        at_point, concentration = np.empty((J, K)), np.empty(K + G)
        guide = np.empty((below.shape[0], GUIDES), dtype=np.uint16)
        _fill_guide(below, guide)
        _fill_point(point, sizes, factors, means, powers, inverse, at_point)
        given = sites(point, sizes)[6]
        for draw in range(draws.shape[0]):
            for n in range(point.shape[0]):
                draws[draw, n] = point[n]
            prevalence, weights, crowd, D, a, b, d = sites(draws[draw], sizes)
            for n in range(K + G):
                concentration[n] = numbers[FIXED + n]
            _tally(start, column, worker, below, guide, sizes, concentration, labels, effects, stream)
            fill_dirichlet(stream, concentration[:K], prevalence)
            fill_dirichlet(stream, concentration[K:], weights)
            for j in range(J):
                for k in range(K):
                    tops[j, k] = at_point[j, k]
            certain = 1.0 / numbers[6] ** 2
            _move_rows(labels, effects, factors, certain, given, means, powers, inverse, logits, totals, tops, stream)
            draw_explanation(labels, effects, factors, totals, tops, logits, numbers, crowd, D, a, b, d, stream)

    run.__qualname__ += f".{version(str(logit_rows.__file__), __file__)}"
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")
