"""One compiled step of the EM that learns votes' weights: the same as in :mod:`crowdppl.model.weighted_votes`."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from crowdppl.kernels import items, simd
from crowdppl.kernels.code_cache import borrowed, compiled, inline, inner
from crowdppl.kernels.items import BEGIN, multiply
from crowdppl.kernels.simd import add_to, set_to, zeros

# Standard deviation of a preference; Newton steps in an M step; largest change in one, the first share of it that is tried, the
# factor that shortens it, and how often one is tried; crowdppl.model.weighted_votes has the same.
PREFERENCE, NEWTON, LONGEST, FIRST_SHARE, SHORTEN, TRIES = 1.0, 4, 2.0, 0.7, 0.4, 6
# The competence that learning starts from.
START = 2.0
# By how much less an objective may be: rounding.
SLACK = 1e-9
# Below the first a product of probabilities may have lost digits; below the second its logarithm is taken.
LOST, SMALL = 1e-280, 1e-100

# Start, column, known; counts, size; competence, preferences, mean and variance; table, correct.
SIGNATURE = "f8(u8[::1], u4[::1], i2[::1], f8[:,::1], f8[::1], f8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1])"


@inner
def _fit(a: Any, b: Any, n: Any, given: Any, crowd: Any, e: Any, totals: Any) -> Any:
    """Return the log joint of a worker's labels ``n (label, class)``, ``given (K,)`` by class, up to a constant.

    ``e (K,)``, powers of the preferences, and ``totals (K,)``, the normalisers of the rows, are written; the power of the
    competence makes that of the correct label.
    """
    K, top, correct = b.shape[0], b[0], math.exp(a)
    out = -((a - crowd[0]) ** 2) / (2.0 * crowd[1])
    for y in range(1, K):
        top = max(top, b[y])
    for y in range(K):
        e[y] = math.exp(b[y] - top)
        out -= (b[y] / PREFERENCE) ** 2 / 2.0
    for k in range(K):
        total = e[k] * correct
        for y in range(K):
            total += e[y] if y != k else 0.0
            out += n[y, k] * (b[y] - top)
        totals[k] = total
        out += n[k, k] * a - given[k] * math.log(total)
    return out


@inner
def _raise_worker(a: Any, b: Any, n: Any, crowd: Any, room: Any, p: Any) -> Any:
    """Take Newton steps of a worker's competence and preferences ``b (K,)``, which are changed.

    ``p (label, class)``, probabilities of labels at the end, is written; ``room (8, K)`` is memory.

    Returns:
        The competence, and minus its second derivative before the last step.
    """
    K, curve_a = b.shape[0], 1.0
    e, totals, new_e, new_totals, given, slope, curve, new = (
        room[0],
        room[1],
        room[2],
        room[3],
        room[4],
        room[5],
        room[6],
        room[7],
    )
    for k in range(K):
        given[k] = 0.0
        for y in range(K):
            given[k] += n[y, k]
    before = _fit(a, b, n, given, crowd, e, totals)
    for _ in range(NEWTON):
        slope_a, curve_a, correct = -(a - crowd[0]) / crowd[1], 1.0 / crowd[1], math.exp(a)
        for y in range(K):
            slope[y], curve[y] = -b[y] / PREFERENCE**2, PREFERENCE**-2
        for k in range(K):
            inverse = 1.0 / totals[k]
            for y in range(K):
                share = e[y] * inverse * (correct if y == k else 1.0)
                slope[y] += n[y, k] - given[k] * share
                # Twice the diagonal bounds the matrix of second derivatives of a softmax.
                curve[y] += 2.0 * given[k] * share * (1.0 - share)
                if y == k:
                    slope_a += n[k, k] - given[k] * share
                    curve_a += given[k] * share * (1.0 - share)
        size, step = FIRST_SHARE, min(max(slope_a / curve_a, -LONGEST), LONGEST)
        for _ in range(TRIES):
            for y in range(K):
                new[y] = b[y] + size * min(max(slope[y] / curve[y], -LONGEST), LONGEST)
            after = _fit(a + size * step, new, n, given, crowd, new_e, new_totals)
            if not after < before - SLACK:
                a += size * step
                before = after
                for y in range(K):
                    b[y], e[y], totals[y] = new[y], new_e[y], new_totals[y]
                break
            size *= SHORTEN
    correct = math.exp(a)
    for k in range(K):
        for y in range(K):
            p[y, k] = e[y] / totals[k] * (correct if y == k else 1.0)
    return a, curve_a


@inner
def _weigh_by_logs(prior: Any, only: Any, table: Any, column: Any, first: Any, end: Any, r: Any) -> Any:
    """Write the probabilities of an item's classes ``r (K,)``, whose products have no digits left; return the log-likelihood."""
    K, top, weight = r.shape[0], -np.inf, 0.0
    for k in range(K):
        r[k] = math.log(prior[k]) if only < 0 or k == only else -np.inf
        for n in range(first, end):
            r[k] += math.log(table[np.intp(column[n]), k])
        top = max(top, r[k])
    for k in range(K):
        r[k] = math.exp(r[k] - top)
        weight += r[k]
    for k in range(K):
        r[k] /= weight
    return top + math.log(weight)


@inline
def _add_to_counts(p: Any, counts: Any, column: Any, first: Any, end: Any) -> None:
    """Add the probabilities ``p (W,)`` of an item's classes to the ``counts (J*K*W,)`` of its labels."""
    width = np.uint64(p.shape[0])
    if width == np.uint64(2):
        two = set_to(zeros(2, 2), p, BEGIN)
        for n in range(first, end):
            add_to(two, counts, np.uint64(column[n]) * width)
    elif width == np.uint64(4):
        four = set_to(zeros(4, 4), p, BEGIN)
        for n in range(first, end):
            add_to(four, counts, np.uint64(column[n]) * width)
    else:
        for n in range(first, end):
            row = np.uint64(column[n]) * width
            for k in range(p.shape[0]):
                counts[row + np.uint64(k)] += p[k]


@cache
def learning() -> Any:
    """Return the compiled step: the M step from expected counts, and the E step that follows.

    Its arguments, for ``N`` items, ``J`` workers, ``K`` classes, in rows of ``W`` numbers
    (:func:`crowdppl.kernels.items.width_of`): the data as :func:`crowdppl.kernels.chains.sweeps` takes them; expected labels
    ``counts (J*K, W)`` = (worker and label, class) and items ``size (W,)`` by class, zero from ``K`` on; the workers' ``a (J,)``
    and ``b (J, K)``, and ``crowd (2,)``, mean and variance of the competence; all of which are changed; ``table (J*K, W)``, zero
    from ``K`` on, and ``correct (J,)``, the mean over classes of the probability of the correct label, which are written. It
    returns the log-likelihood.
    """

    def run(
        start: Any,
        column: Any,
        known: Any,
        counts: Any,
        size: Any,
        a: Any,
        b: Any,
        crowd: Any,
        table: Any,
        correct: Any,
    ) -> Any:
        start, column, known = borrowed(start), borrowed(column), borrowed(known)
        table, counts = borrowed(table), borrowed(counts)
        N, W, J, K = known.shape[0], table.shape[1], b.shape[0], b.shape[1]
        own = np.zeros((3, W))
        prior, some, r = borrowed(own[0]), borrowed(own[1]), borrowed(own[2])
        room, p, n_of = np.empty((8, K)), table.reshape(J, K, W), counts.reshape(J, K, W)
        variance, mean, whole = 0.0, 0.0, 0.0
        for j in range(J):
            a[j], bend = _raise_worker(a[j], b[j], n_of[j], crowd, room, p[j])
            mean += a[j]
            variance += 1.0 / bend
            correct[j] = 0.0
            for k in range(K):
                correct[j] += p[j, k, k] / K
        crowd[0] = (mean + START) / (J + 1.0)
        for j in range(J):
            variance += (a[j] - crowd[0]) ** 2
        crowd[1] = (variance + 2.0) / (J + 2.0)
        for k in range(K):
            prior[k] = 1.0 + size[k]
            whole += prior[k]
        for k in range(K):
            prior[k] /= whole
        flat, expected = table.reshape(-1), counts.reshape(-1)
        expected[:], size[:] = 0.0, 0.0
        total, product = 0.0, 1.0
        for i in range(N):
            first, end, only, weight = start[i], start[i + 1], np.intp(known[i]), 0.0
            for k in range(K):
                some[k] = prior[k] if only < 0 or k == only else 0.0
            multiply(some, r, flat, column, first, end)
            for k in range(K):
                weight += r[k]
            if weight < LOST:
                total += _weigh_by_logs(prior[:K], only, table, column, first, end, r[:K])
            else:
                for k in range(K):
                    r[k] /= weight
                # One logarithm for many items.
                if weight < SMALL:
                    total += math.log(weight)
                else:
                    product *= weight
                    if product < SMALL:
                        total += math.log(product)
                        product = 1.0
            for k in range(K):
                size[k] += r[k]
            _add_to_counts(r, expected, column, first, end)
        own[0, 0] = 0.0  # what is borrowed from it ends before
        return total + math.log(product)

    digest = 0
    for path in (__file__, str(items.__file__), str(simd.__file__)):
        digest = crc32(Path(path).read_bytes(), digest)
    run.__qualname__ += f".{digest:08x}"
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")
