"""The compiled M step of confusion matrices on the logit scale: the Newton steps of :mod:`crowdppl.model.logit_rows_mode`.

Parameters, ``sizes`` and ``numbers`` are those of :mod:`crowdppl.kernels.logit_rows`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import inner
from crowdppl.kernels.logit_rows import FIXED, rooms, sites
from crowdppl.kernels.logit_rows_slopes import fill_row, fill_slopes, log_likelihood, sum_of_squares
from crowdppl.kernels.logit_rows_workers import SHORTEN, SHORTER, begin_workers, bounded, raise_workers

# Rounds of steps in the first M step; crowdppl.models.item_effects has the same.
FIRST = 20


@inner
def _fill_mode(counts: Any, first: Any, out: Any) -> None:
    """Write the mode of a Dirichlet distribution with concentration ``first + counts``, in place of the counts in ``out``."""
    total = 0.0
    for k in range(out.shape[0]):
        out[k] = max(first[k] - 1.0 + counts[k], 0.0)
        total += out[k]
    for k in range(out.shape[0]):
        out[k] = out[k] / total if total > 0.0 else 1.0 / out.shape[0]


@inner
def _raise_crowd(
    labels: Any,
    effects: Any,
    numbers: Any,
    by: Any,
    likelihood: Any,
    D: Any,
    a: Any,
    b: Any,
    d: Any,
    powers: Any,
    totals: Any,
) -> None:
    """Take a step of the crowd's confusion that does not lower the log joint; then move what all workers deviate by to it.

    ``likelihood`` is the log-likelihood of all rows before the step; ``powers`` and ``totals`` are those of the rows, and are
    written over.
    """
    J, K, M = totals.shape
    common, deviation = 1.0 / numbers[5] ** 2, 1.0 / numbers[6] ** 2
    x, shares, slope, curve = np.empty(K), np.empty(M), np.empty(K), np.empty(K)
    step, bend, new = np.zeros((K, K)), np.zeros((K, K)), np.empty((K, K))
    before = likelihood
    for k in range(K):
        before -= common * sum_of_squares(D[k]) / 2.0
    for j in range(J):
        for k in range(K):
            fill_slopes(labels[j, k], effects[j, k], by, powers[j, k], totals[j, k], shares, slope, curve)
            for y in range(K):
                step[k, y] += slope[y]
                bend[k, y] += curve[y]
    for k in range(K):
        for y in range(K):
            step[k, y] = bounded((step[k, y] - common * D[k, y]) / (2.0 * bend[k, y] + common))
    size = 1.0
    for _ in range(SHORTER):
        after = 0.0
        for k in range(K):
            for y in range(K):
                new[k, y] = D[k, y] + size * step[k, y]
            after -= common * sum_of_squares(new[k]) / 2.0
        for j in range(J):
            for k in range(K):
                fill_row(k, a[j], b[j], new[k], d[j, k], x)
                after += log_likelihood(x, labels[j, k], effects[j, k], by, powers[j, k], totals[j, k])
        if after >= before:
            for k in range(K):
                for y in range(K):
                    D[k, y] = new[k, y]
            break
        size *= SHORTEN
    for k in range(K):
        for y in range(K):
            shift = -common * D[k, y]
            for j in range(J):
                shift += deviation * d[j, k, y]
            shift /= J * deviation + common
            D[k, y] += shift
            for j in range(J):
                d[j, k, y] -= shift


@inner
def _log_dirichlet(concentration: Any, p: Any) -> Any:
    """Return the log density of probabilities ``(K,)``; one of 0 costs nothing where its concentration is 1."""
    out, total = 0.0, 0.0
    for k in range(p.shape[0]):
        total += concentration[k]
        out -= math.lgamma(concentration[k])
        if concentration[k] != 1.0:
            out += (concentration[k] - 1.0) * math.log(p[k])
    return out + math.lgamma(total)


@inner
def log_prior(parameters: Any, sizes: Any, numbers: Any) -> Any:
    """Return the log density of all parameters."""
    J, K, G = sizes[0], sizes[1], sizes[3]
    prevalence, weights, crowd, D, a, b, d = sites(parameters, sizes)
    out = _log_dirichlet(numbers[FIXED : FIXED + K], prevalence)
    out += _log_dirichlet(numbers[FIXED + K : FIXED + K + G], weights)
    half = math.log(2.0 * math.pi) / 2.0
    out -= ((crowd[0] - numbers[0]) / numbers[1]) ** 2 / 2.0 + math.log(numbers[1]) + half
    shape, rate = numbers[2], numbers[3]
    out += shape * math.log(rate) + (shape - 1.0) * math.log(crowd[1]) - rate * crowd[1] - math.lgamma(shape)
    squares, common = 0.0, 0.0
    for j in range(J):
        squares += (a[j] - crowd[0]) ** 2
    out -= crowd[1] * squares / 2.0 - J * (math.log(crowd[1]) / 2.0 - half)
    for k in range(K):
        common += sum_of_squares(D[k])
    out -= common / numbers[5] ** 2 / 2.0 + K * K * (math.log(numbers[5]) + half)
    own, apart = 0.0, 0.0
    for j in range(J):
        own += sum_of_squares(b[j])
        for k in range(K):
            apart += sum_of_squares(d[j, k])
    out -= own / numbers[4] ** 2 / 2.0 + J * K * (math.log(numbers[4]) + half)
    return out - (apart / numbers[6] ** 2 / 2.0 + J * K * K * (math.log(numbers[6]) + half))


@inner
def improve(counts: Any, size: Any, parameters: Any, sizes: Any, numbers: Any, work: Any, first: Any) -> None:
    """Set the two Dirichlet sites to their modes, and take steps of the workers and of the crowd.

    ``counts (J*K, S)`` are expected labels by worker and label, and state; ``size (S,)`` expected items; ``work`` is room for
    J K (2 K + 2 M + 1) numbers. One step of each is taken. Unless ``first`` is 0, the parameters are those of a first M step:
    several steps, which also learn mean and precision of the crowd's competence by empirical Bayes, from the same start.
    """
    J, K, M, G = sizes[0], sizes[1], sizes[2], sizes[3]
    prevalence, weights, crowd, D, a, b, d = sites(parameters, sizes)
    by = np.ascontiguousarray(numbers[FIXED + K + G :].reshape(M, K).T)
    labels, powers, effects, totals, _ = rooms(work, J, K, M)
    classes, strengths = np.zeros(K), np.zeros(G)
    for k in range(K):
        for m in range(M):
            classes[k] += size[k * M + m]
            strengths[sizes[4 + m]] += size[k * M + m]
    _fill_mode(classes, numbers[FIXED : FIXED + K], prevalence)
    _fill_mode(strengths, numbers[FIXED + K : FIXED + K + G], weights)
    effects[:] = 0.0
    for j in range(J):
        for y in range(K):
            for k in range(K):
                total = 0.0
                for m in range(M):
                    count = counts[j * K + y, k * M + m]
                    total += count
                    effects[j, k, m] += count
                labels[j, k, y] = total
    if first > 0:
        crowd[0], crowd[1] = numbers[0], 1.0 / numbers[1] ** 2
        D[:], b[:], d[:] = 0.0, 0.0, 0.0
        a[:] = numbers[0]
    if first == 0:
        likelihood = raise_workers(labels, effects, numbers, by, crowd, D, a, b, d, powers, totals)
        _raise_crowd(labels, effects, numbers, by, likelihood, D, a, b, d, powers, totals)
    else:
        for _ in range(FIRST):
            likelihood, spread = begin_workers(labels, effects, numbers, by, crowd, D, a, b, d, powers, totals)
            _raise_crowd(labels, effects, numbers, by, likelihood, D, a, b, d, powers, totals)
            crowd[0] = numbers[0]
            for j in range(J):
                crowd[0] += a[j]
            crowd[0] /= J + 1.0
            for j in range(J):
                spread += (a[j] - crowd[0]) ** 2
            crowd[1] = (J + 2.0 * numbers[2]) / (spread + 2.0 * numbers[3])
