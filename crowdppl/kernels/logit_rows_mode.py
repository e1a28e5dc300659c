"""The compiled M step of confusion matrices on the logit scale: the Newton steps of :mod:`crowdppl.model.logit_rows`.

Parameters, ``sizes`` and ``numbers`` are those of :mod:`crowdppl.kernels.logit_rows`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import inner
from crowdppl.kernels.logit_rows import FIXED, rooms, sites

# Largest change of a logit in one step, the first share of it that is tried, the factor that shortens it, and how often it does;
# crowdppl.model.logit_rows has the same.
LONGEST, FIRST_SHARE, SHORTEN, SHORTER = 2.0, 0.5, 0.4, 7
# Rounds of Newton steps in the first M step; crowdppl.models.item_effects has the same.
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
def _bounded(step: Any) -> Any:
    return min(max(step, -LONGEST), LONGEST)


@inner
def _fill_powers(x: Any, n: Any, p: Any) -> Any:
    """Write ``p = exp(x - max x)`` of a row's logits ``(K,)``.

    Returns:
        The log density of its labels ``n (K,)`` up to normalisers, and their number.
    """
    top, out, given = x[0], 0.0, 0.0
    for y in range(1, x.shape[0]):
        top = max(top, x[y])
    for y in range(x.shape[0]):
        p[y] = math.exp(x[y] - top)
        out += n[y] * (x[y] - top)
        given += n[y]
    return out, given


@inner
def _fit(x: Any, n: Any, e: Any, by: Any, p: Any, totals: Any) -> Any:
    """Return the log-likelihood of a row's labels ``n (K,)`` and effects ``e (M,)`` at logits ``x (K,)``.

    ``by (K, M)`` are the factors by label. ``p (K,)``, powers of the logits, and ``totals (M,)``, their normalisers under each
    effect, are written.
    """
    out, _ = _fill_powers(x, n, p)
    totals[:] = 0.0
    for y in range(x.shape[0]):
        for m in range(e.shape[0]):
            totals[m] += p[y] * by[y, m]
    for m in range(e.shape[0]):
        if e[m] > 0.0:
            out -= e[m] * math.log(totals[m])
    return out


@inner
def _fill_slopes(n: Any, e: Any, by: Any, p: Any, totals: Any, shares: Any, slope: Any, curve: Any) -> None:
    """Write first derivatives of the same by the logits, ``slope (K,)``, and minus the second ones, ``curve (K,)``.

    From ``p`` and ``totals`` as :func:`_fit` writes them; ``shares (M,)`` is room.
    """
    for m in range(e.shape[0]):
        totals[m] = 1.0 / totals[m]
        shares[m] = e[m] * totals[m]
    for y in range(p.shape[0]):
        expected, squares = 0.0, 0.0
        for m in range(e.shape[0]):
            share = shares[m] * by[y, m]
            expected += share
            squares += share * by[y, m] * totals[m]
        slope[y] = n[y] - p[y] * expected
        curve[y] = max(p[y] * (expected - p[y] * squares), 0.0)


@inner
def _fill_row(k: Any, a: Any, b: Any, D: Any, d: Any, x: Any) -> None:
    """Write the logits of a row ``x (K,)``: of class ``k``, with competence ``a``, ``b``, ``D`` and ``d (K,)``."""
    for y in range(x.shape[0]):
        x[y] = b[y] + D[y] + d[y] + (a if k == y else 0.0)


@inner
def _squares(values: Any) -> Any:
    total = 0.0
    for y in range(values.shape[0]):
        total += values[y] * values[y]
    return total


@inner
def _raise_workers(
    labels: Any,
    effects: Any,
    numbers: Any,
    by: Any,
    crowd: Any,
    D: Any,
    a: Any,
    b: Any,
    d: Any,
    powers: Any,
    totals: Any,
) -> Any:
    """Take a step of each worker's competence, preferences and deviations that does not lower the log joint.

    ``powers (J, K, K)`` and ``totals (J, K, M)`` of all rows after the steps are written.

    Returns:
        The log-likelihood of all rows after the steps, and the sum of the approximate posterior variances of the workers'
        competence.
    """
    J, K, M = totals.shape
    preference, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[6] ** 2
    x, slope, curve, shares, inverse = np.empty(K), np.empty((K, K)), np.empty((K, K)), np.empty(M), np.empty(M)
    p, sums = np.empty((K, K)), np.empty((K, M))
    step_b, new_b, step_d, new_d = np.empty(K), np.empty(K), np.empty((K, K)), np.empty((K, K))
    likelihood, variance = 0.0, 0.0
    for j in range(J):
        before = -(crowd[1] * (a[j] - crowd[0]) ** 2 + preference * _squares(b[j])) / 2.0
        slope_a, curve_a, fit = -crowd[1] * (a[j] - crowd[0]), crowd[1], 0.0
        for k in range(K):
            _fill_row(k, a[j], b[j], D[k], d[j, k], x)
            n, e = labels[j, k], effects[j, k]
            fit += _fit(x, n, e, by, powers[j, k], totals[j, k])
            inverse[:] = totals[j, k]
            _fill_slopes(n, e, by, powers[j, k], inverse, shares, slope[k], curve[k])
            before -= deviation * _squares(d[j, k]) / 2.0
            slope_a += slope[k, k]
            curve_a += curve[k, k]
        before += fit
        variance += 1.0 / curve_a
        step_a = _bounded(slope_a / curve_a)
        for y in range(K):
            total, bend = -preference * b[j, y], preference
            for k in range(K):
                total += slope[k, y]
                # Twice the diagonal bounds the matrix of second derivatives of a softmax.
                bend += 2.0 * curve[k, y]
                step_d[k, y] = _bounded((slope[k, y] - deviation * d[j, k, y]) / (2.0 * curve[k, y] + deviation))
            step_b[y] = _bounded(total / bend)
        size, new_a = FIRST_SHARE, a[j]
        for _ in range(SHORTER + 1):
            new_a = a[j] + size * step_a
            for y in range(K):
                new_b[y] = b[j, y] + size * step_b[y]
            after, new_fit = -(crowd[1] * (new_a - crowd[0]) ** 2 + preference * _squares(new_b)) / 2.0, 0.0
            for k in range(K):
                for y in range(K):
                    new_d[k, y] = d[j, k, y] + size * step_d[k, y]
                _fill_row(k, new_a, new_b, D[k], new_d[k], x)
                new_fit += _fit(x, labels[j, k], effects[j, k], by, p[k], sums[k])
                after -= deviation * _squares(new_d[k]) / 2.0
            if not after + new_fit < before:
                a[j], fit = new_a, new_fit
                for k in range(K):
                    b[j, k] = new_b[k]
                    for y in range(K):
                        d[j, k, y], powers[j, k, y] = new_d[k, y], p[k, y]
                    for m in range(M):
                        totals[j, k, m] = sums[k, m]
                break
            size *= SHORTEN
        likelihood += fit
    return likelihood, variance


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
        before -= common * _squares(D[k]) / 2.0
    for j in range(J):
        for k in range(K):
            _fill_slopes(labels[j, k], effects[j, k], by, powers[j, k], totals[j, k], shares, slope, curve)
            for y in range(K):
                step[k, y] += slope[y]
                bend[k, y] += curve[y]
    for k in range(K):
        for y in range(K):
            step[k, y] = _bounded((step[k, y] - common * D[k, y]) / (2.0 * bend[k, y] + common))
    size = 1.0
    for _ in range(SHORTER):
        after = 0.0
        for k in range(K):
            for y in range(K):
                new[k, y] = D[k, y] + size * step[k, y]
            after -= common * _squares(new[k]) / 2.0
        for j in range(J):
            for k in range(K):
                _fill_row(k, a[j], b[j], new[k], d[j, k], x)
                after += _fit(x, labels[j, k], effects[j, k], by, powers[j, k], totals[j, k])
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
        common += _squares(D[k])
    out -= common / numbers[5] ** 2 / 2.0 + K * K * (math.log(numbers[5]) + half)
    own, apart = 0.0, 0.0
    for j in range(J):
        own += _squares(b[j])
        for k in range(K):
            apart += _squares(d[j, k])
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
    for _ in range(FIRST if first > 0 else 1):
        likelihood, spread = _raise_workers(labels, effects, numbers, by, crowd, D, a, b, d, powers, totals)
        _raise_crowd(labels, effects, numbers, by, likelihood, D, a, b, d, powers, totals)
        if first > 0:
            crowd[0] = numbers[0]
            for j in range(J):
                crowd[0] += a[j]
            crowd[0] /= J + 1.0
            for j in range(J):
                spread += (a[j] - crowd[0]) ** 2
            crowd[1] = (J + 2.0 * numbers[2]) / (spread + 2.0 * numbers[3])
