"""The compiled steps of workers in the M step of confusion matrices on the logit scale: :mod:`crowdppl.model.logit_rows_mode`.

Arguments of the two that take all workers: expected ``labels (J, K, K)`` and ``effects (J, K, M)``; ``numbers`` of
:mod:`crowdppl.kernels.logit_rows`; factors of the effects, ``by (K, M)``; ``crowd (2,)``, mean and precision of the competence;
the parameters ``D``, ``a``, ``b`` and ``d``, of which the last three are changed; and what is written: ``powers (J, K, K)`` and
``totals (J, K, M)`` of all rows after the steps, as :func:`crowdppl.kernels.logit_rows_slopes.log_likelihood` writes them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crowdppl.kernels.code_cache import inner
from crowdppl.kernels.logit_rows_slopes import fill_curvature, fill_row, fill_slopes, log_likelihood, sum_of_squares
from crowdppl.kernels.small_matrices import factorise, invert, solve_lower, solve_upper

# Largest change of a logit in one step, the first share of a step that is tried in the first M step, the factor that shortens it,
# and how often it does; crowdppl.model.logit_rows_mode has the same.
LONGEST, FIRST_SHARE, SHORTEN, SHORTER = 2.0, 0.5, 0.4, 7


@inner
def bounded(step: Any) -> Any:
    """Return a step, of the largest length where it is longer."""
    return min(max(step, -LONGEST), LONGEST)


@inner
def are_finite(values: Any) -> Any:
    """Return whether all values of an array are finite numbers."""
    total = 0.0
    for value in values.flat:
        total += abs(value)  # a maximum may drop what is not a number; a sum does not
    return total < math.inf


@inner
def fill_single_steps(
    labels: Any,
    effects: Any,
    numbers: Any,
    by: Any,
    crowd: Any,
    a: Any,
    b: Any,
    d: Any,
    powers: Any,
    totals: Any,
    step_b: Any,
    step_d: Any,
) -> Any:
    """Write the Newton step of each of a worker's preferences ``(K,)`` and deviations ``(K, K)``, as if it moved alone.

    Arguments as of all workers, but without their axis.

    Returns:
        The step of the competence, and minus the second derivative of the log joint by it.
    """
    K, M = totals.shape
    preference, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[6] ** 2
    slope, curve, shares, inverse = np.empty((K, K)), np.empty((K, K)), np.empty(M), np.empty(M)
    slope_a, curve_a = -crowd[1] * (a - crowd[0]), crowd[1]
    for k in range(K):
        for m in range(M):
            inverse[m] = totals[k, m]
        fill_slopes(labels[k], effects[k], by, powers[k], inverse, shares, slope[k], curve[k])
        slope_a += slope[k, k]
        curve_a += curve[k, k]
    for y in range(K):
        total, bend = -preference * b[y], preference
        for k in range(K):
            total += slope[k, y]
            # Twice the diagonal bounds the matrix of second derivatives of a softmax.
            bend += 2.0 * curve[k, y]
            step_d[k, y] = bounded((slope[k, y] - deviation * d[k, y]) / (2.0 * curve[k, y] + deviation))
        step_b[y] = bounded(total / bend)
    return bounded(slope_a / curve_a), curve_a


@inner
def move_worker(
    worker: Any, a: Any, fixed: Any, before: Any, fit: Any, size: Any, step: Any, step_d: Any, room: Any
) -> Any:
    """Move a worker's parameters by the largest share of their steps that does not lower the log joint.

    Args:
        worker: its labels, effects, ``b``, ``d``, ``powers`` and ``totals``, as of all workers but without their axis.
        a: its competence.
        fixed: ``numbers``, ``by``, ``crowd`` and ``D``.
        before: the log joint.
        fit: the log-likelihood of its rows.
        size: the first share that is tried.
        step: of the preferences and, last, of the competence, ``(K + 1,)``.
        step_d: of the deviations, ``(K, K)``.
        room: arrays of the shapes of a row's logits, ``b``, ``d``, ``powers`` and ``totals``.

    Returns:
        The competence and the log-likelihood of the rows after the move.
    """
    labels, effects, b, d, powers, totals = worker
    numbers, by, crowd, D = fixed
    x, new_b, new_d, p, sums = room
    K, M = totals.shape
    preference, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[6] ** 2
    for _ in range(SHORTER + 1):
        new_a = a + size * step[K]
        for y in range(K):
            new_b[y] = b[y] + size * step[y]
        after, new_fit = -(crowd[1] * (new_a - crowd[0]) ** 2 + preference * sum_of_squares(new_b)) / 2.0, 0.0
        for k in range(K):
            for y in range(K):
                new_d[k, y] = d[k, y] + size * step_d[k, y]
            fill_row(k, new_a, new_b, D[k], new_d[k], x)
            new_fit += log_likelihood(x, labels[k], effects[k], by, p[k], sums[k])
            after -= deviation * sum_of_squares(new_d[k]) / 2.0
        if after + new_fit >= before:
            for k in range(K):
                b[k] = new_b[k]
                for y in range(K):
                    d[k, y], powers[k, y] = new_d[k, y], p[k, y]
                for m in range(M):
                    totals[k, m] = sums[k, m]
            return new_a, new_fit
        size *= SHORTEN
    return a, fit


@inner
def begin_workers(
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
    """Take half the Newton step of each parameter of the workers, or a part of it that does not lower the log joint.

    For the first M step: mean and precision of the competence, which it learns, would be others after longer steps, since
    learning ends before it converges.

    Returns:
        The log-likelihood of all rows after the steps, and the sum of the approximate posterior variances of the workers'
        competence.
    """
    J, K, M = totals.shape
    preference, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[6] ** 2
    x, slope, curve, shares, inverse = np.empty(K), np.empty((K, K)), np.empty((K, K)), np.empty(M), np.empty(M)
    step, step_d = np.empty(K + 1), np.empty((K, K))
    room = x, np.empty(K), np.empty((K, K)), np.empty((K, K)), np.empty((K, M))
    fixed, likelihood, variance = (numbers, by, crowd, D), 0.0, 0.0
    for j in range(J):
        before = -(crowd[1] * (a[j] - crowd[0]) ** 2 + preference * sum_of_squares(b[j])) / 2.0
        slope_a, curve_a, fit = -crowd[1] * (a[j] - crowd[0]), crowd[1], 0.0
        for k in range(K):
            fill_row(k, a[j], b[j], D[k], d[j, k], x)
            n, e = labels[j, k], effects[j, k]
            fit += log_likelihood(x, n, e, by, powers[j, k], totals[j, k])
            for m in range(M):
                inverse[m] = totals[j, k, m]
            fill_slopes(n, e, by, powers[j, k], inverse, shares, slope[k], curve[k])
            before -= deviation * sum_of_squares(d[j, k]) / 2.0
            slope_a += slope[k, k]
            curve_a += curve[k, k]
        before += fit
        variance += 1.0 / curve_a
        step_a = bounded(slope_a / curve_a)
        for y in range(K):
            total, bend = -preference * b[j, y], preference
            for k in range(K):
                total += slope[k, y]
                # Twice the diagonal bounds the matrix of second derivatives of a softmax.
                bend += 2.0 * curve[k, y]
                step_d[k, y] = bounded((slope[k, y] - deviation * d[j, k, y]) / (2.0 * curve[k, y] + deviation))
            step[y] = bounded(total / bend)
        step[K] = step_a
        worker = labels[j], effects[j], b[j], d[j], powers[j], totals[j]
        a[j], fit = move_worker(worker, a[j], fixed, before, fit, FIRST_SHARE, step, step_d, room)
        likelihood += fit
    return likelihood, variance


@inner
def raise_workers(
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
    """Take a Newton step of each worker's competence, preferences and deviations that does not lower the log joint.

    Given competence and preferences, the deviations of a row follow from it alone: the Newton step of the former is that with
    the latter at their best. Where rounding leaves a matrix of second derivatives that is not positive definite, as at extreme
    scales, each parameter takes half its own Newton step.

    Returns:
        The log-likelihood of all rows after the steps.
    """
    J, K, M = totals.shape
    preference, deviation = 1.0 / numbers[4] ** 2, 1.0 / numbers[6] ** 2
    x, shares, scaled, slope, column = np.empty(K), np.empty(M), np.empty(M), np.empty(K), np.empty(K)
    rows, ends, own, step = np.empty((K, K, K)), np.empty((K, K)), np.empty((K + 1, K + 1)), np.empty(K + 1)
    step_d, room = np.empty((K, K)), (x, np.empty(K), np.empty((K, K)), np.empty((K, K)), np.empty((K, M)))
    fixed, likelihood = (numbers, by, crowd, D), 0.0
    for j in range(J):
        before = -(crowd[1] * (a[j] - crowd[0]) ** 2 + preference * sum_of_squares(b[j])) / 2.0
        fit = 0.0
        own[:], step[K] = 0.0, -crowd[1] * (a[j] - crowd[0])
        own[K, K] = crowd[1]
        for y in range(K):
            own[y, y] = preference
            step[y] = -preference * b[j, y]
        for k in range(K):
            fill_row(k, a[j], b[j], D[k], d[j, k], x)
            n, e, A, z = labels[j, k], effects[j, k], rows[k], ends[k]
            fit += log_likelihood(x, n, e, by, powers[j, k], totals[j, k])
            before -= deviation * sum_of_squares(d[j, k]) / 2.0
            fill_curvature(e, by, powers[j, k], totals[j, k], n, shares, scaled, slope, A)
            for y in range(K):
                A[y, y] += deviation
                slope[y] -= deviation * d[j, k, y]
            invert(A, column)
            for y in range(K):
                total = 0.0
                for h in range(K):
                    total += A[y, h] * slope[h]
                z[y] = total
                total = deviation * (total + d[j, k, y])
                step[y] += total
                if y == k:
                    step[K] += total
                for h in range(y + 1):
                    own[y, h] -= deviation * deviation * A[y, h]
                own[y, y] += deviation
                own[K, y] -= deviation * deviation * A[k, y]
            own[K, k] += deviation
            own[K, K] += deviation - deviation * deviation * A[k, k]
        before += fit
        factorise(own)
        solve_lower(own, step)
        solve_upper(own, step)
        largest = 0.0
        for y in range(K + 1):
            largest = max(largest, abs(step[y]))
        for k in range(K):
            for y in range(K):
                total = ends[k, y] - step[y] - (step[K] if y == k else 0.0) + deviation * rows[k, y, k] * step[K]
                for h in range(K):
                    total += deviation * rows[k, y, h] * step[h]
                step_d[k, y] = total
                largest = max(largest, abs(total))
        size = min(1.0, LONGEST / largest) if largest > 0.0 else 1.0
        if not (are_finite(step) and are_finite(step_d)):
            size = FIRST_SHARE
            step[K], _ = fill_single_steps(
                labels[j], effects[j], numbers, by, crowd, a[j], b[j], d[j], powers[j], totals[j], step, step_d
            )
        worker = labels[j], effects[j], b[j], d[j], powers[j], totals[j]
        a[j], fit = move_worker(worker, a[j], fixed, before, fit, size, step, step_d, room)
        likelihood += fit
    return likelihood
