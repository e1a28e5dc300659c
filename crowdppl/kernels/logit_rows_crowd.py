"""What explains the logits of workers' rows: the crowd, competence and preferences, drawn in a step of compiled chains.

Parameters and ``numbers`` are those of :mod:`crowdppl.kernels.logit_rows`. :mod:`crowdppl.model.logit_rows_draws` draws the same
from the matrices written out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import inline_with_arrays
from crowdppl.kernels.elementary import exp, log
from crowdppl.kernels.random import gamma, normal, uniform
from crowdppl.kernels.small_matrices import draw_normal, factorise


@inline_with_arrays
def draw_explanation(
    labels: Any,
    effects: Any,
    factors: Any,
    totals: Any,
    tops: Any,
    logits: Any,
    numbers: Any,
    crowd: Any,
    D: Any,
    a: Any,
    b: Any,
    d: Any,
    stream: Any,
) -> None:
    """Draw everything but the logits given these, then move competence with the deviations held.

    Args:
        labels: of each worker by class and label, ``(J, K, K)``.
        effects: of each worker by class and effect, ``(J, K, M)``.
        factors: of the effects, ``(M, K)``.
        totals: the normaliser of ``exp(logits - top)`` of a row under each effect that it has, ``(J, K, M)``.
        tops: the ``top`` of each row, ``(J, K)``; infinite for rows without labels.
        logits: ``(J, K, K)``.
        numbers: of the step.
        crowd: mean and precision of the competence, written.
        D: the crowd's confusion, ``(K, K)``, written.
        a: competence, ``(J,)``, written.
        b: preferences, ``(J, K)``, written.
        d: deviations, ``(J, K, K)``, written.
        stream: of random numbers.
    """
    J, K = logits.shape[0], logits.shape[1]
    _draw_shared(logits, numbers, crowd, D, stream)
    _draw_own(logits, numbers, crowd, D, a, b, stream)
    for j in range(J):
        for k in range(K):
            for y in range(K):
                d[j, k, y] = logits[j, k, y] - b[j, y] - D[k, y] - (a[j] if k == y else 0.0)
    _move_competence(labels, effects, factors, totals, tops, crowd, a, logits, stream)
    _draw_crowd(a, numbers, crowd, stream)


@inline_with_arrays
def _draw_shared(logits: Any, numbers: Any, crowd: Any, D: Any, stream: Any) -> None:
    """Draw the crowd's confusion and mean competence with the workers integrated out.

    A worker's logits are ``D + a I + 1 b' + noise``. Their covariance has ``1 + K`` directions beside the noise: the identity and
    the columns. With ``u`` the matrix of equal entries and ``w`` the identity less its projection on ``u``, both of length one,
    only ``w``, ``u`` and the mean depend on each other; differences of column means have one precision, what is left another.
    """
    J, K = logits.shape[0], logits.shape[1]
    preference, common, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[5] ** 2, 1.0 / numbers[6] ** 2
    # The identity is side w + u; of one class it is u.
    before, root, side, length = 1.0 / numbers[1] ** 2, math.sqrt(K), math.sqrt(K - 1.0), math.sqrt(max(K - 1.0, 1.0))
    columns, trace, whole = np.zeros(K), 0.0, 0.0
    D[:] = 0.0
    for j in range(J):
        for k in range(K):
            for y in range(K):
                D[k, y] += logits[j, k, y]
    for k in range(K):
        trace += D[k, k]
        for y in range(K):
            columns[y] += D[k, y] / root
    for y in range(K):
        whole += columns[y] / root
    along_w = (trace - whole) / length
    # What is left: of one precision.
    certain = J * deviation + common
    for k in range(K):
        for y in range(K):
            D[k, y] = deviation * D[k, y] / certain + normal(stream) / math.sqrt(certain)
    trace = 0.0
    for y in range(K):
        mean = 0.0
        for k in range(K):
            mean += D[k, y] / K
        for k in range(K):
            D[k, y] -= mean
        trace += D[y, y]
    # Differences between columns.
    weight = 1.0 / (1.0 / deviation + K / preference)
    certain, mean = J * weight + common, 0.0
    for y in range(K):
        columns[y] = weight * columns[y] / certain + normal(stream) / math.sqrt(certain)
        mean += columns[y] / K
    # Along w and u, and the mean of the competence, which adds to both.
    square, cross = 1.0 / deviation + side * side / crowd[1], side / crowd[1]
    level = 1.0 / deviation + K / preference + 1.0 / crowd[1]
    by = 1.0 / (square * level - cross * cross)
    both, given = np.empty((3, 3)), np.empty(3)
    both[0, 0], both[1, 0], both[1, 1] = J * level * by, -J * cross * by, J * square * by
    both[2, 0], both[2, 1] = side * both[0, 0] + both[1, 0], side * both[1, 0] + both[1, 1]
    both[2, 2] = side * both[2, 0] + both[2, 1] + before
    both[0, 0] += common
    both[1, 1] += common
    given[0] = (level * along_w - cross * whole) * by
    given[1] = (square * whole - cross * along_w) * by
    given[2] = side * given[0] + given[1] + before * numbers[0]
    factorise(both)
    draw_normal(both, given, np.empty(3), stream)
    along_w, crowd[0] = (given[0] - trace / length) / length, given[2]
    for k in range(K):
        for y in range(K):
            of_w = (1.0 if k == y else 0.0) - 1.0 / K
            D[k, y] += along_w * of_w + (columns[y] - mean + given[1] / root) / root


@inline_with_arrays
def _draw_own(logits: Any, numbers: Any, crowd: Any, D: Any, a: Any, b: Any, stream: Any) -> None:
    """Draw each worker's competence with the preferences integrated out, then the preferences."""
    J, K = logits.shape[0], logits.shape[1]
    preference, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[6] ** 2
    of_label = K * deviation + preference
    certain = K * deviation + crowd[1] - K * deviation * deviation / of_label
    spread, spread_label = 1.0 / math.sqrt(certain), 1.0 / math.sqrt(of_label)
    for j in range(J):
        total = crowd[1] * crowd[0]
        for y in range(K):
            b[j, y] = 0.0
        for k in range(K):
            total += deviation * (logits[j, k, k] - D[k, k])
            for y in range(K):
                b[j, y] += deviation * (logits[j, k, y] - D[k, y])
        for y in range(K):
            total -= deviation * b[j, y] / of_label
        a[j] = total / certain + normal(stream) * spread
        for y in range(K):
            b[j, y] = (b[j, y] - deviation * a[j]) / of_label + normal(stream) * spread_label


@inline_with_arrays
def _draw_crowd(a: Any, numbers: Any, crowd: Any, stream: Any) -> None:
    """Draw mean and precision of the competence given all workers'."""
    J, before = a.shape[0], 1.0 / numbers[1] ** 2
    certain = J * crowd[1] + before
    total = before * numbers[0]
    for j in range(J):
        total += crowd[1] * a[j]
    crowd[0] = total / certain + normal(stream) / math.sqrt(certain)
    rate = numbers[3]
    for j in range(J):
        rate += (a[j] - crowd[0]) ** 2 / 2.0
    crowd[1] = gamma(stream, numbers[2] + J / 2.0) / rate


@inline_with_arrays
def _slope(often: Any, part: Any, whole: Any, size: Any) -> Any:
    """Return what normalisers add to first and minus second derivative by competence of the log-likelihood of labels.

    ``part`` is the power of the correct label in each of the first ``size`` normalisers ``whole``, which occur ``often``.
    """
    slope, curve = 0.0, 0.0
    for r in range(size):
        correct = part[r] / whole[r]
        slope -= often[r] * correct
        curve += often[r] * correct * (1.0 - correct)
    return slope, curve


@inline_with_arrays
def _move_competence(
    labels: Any, effects: Any, factors: Any, totals: Any, tops: Any, crowd: Any, a: Any, logits: Any, stream: Any
) -> None:
    """Move each worker's competence with the deviations held, by a Metropolis-Hastings step.

    The proposal is normal with the mean of a Newton step and its curvature. A move changes one power in each sum of ``totals``.
    Those of the sums that a worker has are written side by side, where the processor takes several at once.
    """
    J, K, M = totals.shape
    shares, by, room = np.empty(K), np.empty((K, M)), np.empty((3, K * M + 1))
    often, part, whole = room[0], room[1], room[2]
    for k in range(K):
        for m in range(M):
            by[k, m] = factors[m, k]
    for j in range(J):
        n, e, old, size, given = labels[j], effects[j], a[j], 0, 0.0
        for k in range(K):
            shares[k] = exp(logits[j, k, k] - tops[j, k])
        for k in range(K):
            if tops[j, k] < np.inf:
                given += n[k, k]
                for m in range(M):  # without a branch: the next one is written over those that the worker does not have
                    often[size], part[size], whole[size] = e[k, m], shares[k] * by[k, m], totals[j, k, m]
                    size += 1 if e[k, m] > 0.0 else 0
        slope, curve = _slope(often, part, whole, size)
        slope, curve = slope + given - crowd[1] * (old - crowd[0]), curve + crowd[1]
        noise = normal(stream)
        step = slope / curve + noise / math.sqrt(curve)
        new, factor, ratio = old + step, math.exp(step), given * step
        for r in range(size):
            moved = part[r] * factor
            total = whole[r] + (moved - part[r])
            ratio += often[r] * log(whole[r] / total)
            part[r], whole[r] = moved, total
        slope, back = _slope(often, part, whole, size)
        slope, back = slope + given - crowd[1] * (new - crowd[0]), back + crowd[1]
        ratio -= crowd[1] * ((new - crowd[0]) ** 2 - (old - crowd[0]) ** 2) / 2.0
        ratio += (math.log(back / curve) + noise * noise - back * (step + slope / back) ** 2) / 2.0
        if math.log(1.0 - uniform(stream)) < ratio:
            a[j] = new
