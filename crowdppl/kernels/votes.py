"""One compiled step of the EM that learns votes' weights: the same as in :mod:`crowdppl.model.weighted_votes`."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from crowdppl.kernels.code_cache import borrowed, compiled, inner

# Standard deviation of a preference; Newton steps in an M step; largest change in one, the first share of it that is tried, the
# factor that shortens it, and how often one is tried; crowdppl.model.weighted_votes has the same.
PREFERENCE, NEWTON, LONGEST, FIRST_SHARE, SHORTEN, TRIES = 1.0, 4, 2.0, 0.7, 0.4, 6
# The competence that learning starts from.
START = 2.0
# By how much less an objective may be: rounding.
SLACK = 1e-9

# Start, column, known; responsibilities; competence, preferences, mean and variance; counts, logs, correct.
SIGNATURE = "f8(u8[::1], u4[::1], i2[::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1])"


@inner
def _fit(a: Any, b: Any, n: Any, crowd: Any, p: Any) -> Any:
    """Return the log joint of a worker's labels ``n (label, class)`` up to a constant; ``p (K,)`` is room."""
    K = b.shape[0]
    out = -((a - crowd[0]) ** 2) / (2.0 * crowd[1])
    for y in range(K):
        out -= (b[y] / PREFERENCE) ** 2 / 2.0
    for k in range(K):
        top, total, given = -np.inf, 0.0, 0.0
        for y in range(K):
            p[y] = b[y] + (a if k == y else 0.0)
            top = max(top, p[y])
        for y in range(K):
            total += math.exp(p[y] - top)
            out += n[y, k] * (p[y] - top)
            given += n[y, k]
        out -= given * math.log(total)
    return out


@inner
def _fill_row(k: Any, a: Any, b: Any, p: Any) -> None:
    """Write the probabilities of labels of class ``k``, ``p (K,)``."""
    top, total = -np.inf, 0.0
    for y in range(b.shape[0]):
        p[y] = b[y] + (a if k == y else 0.0)
        top = max(top, p[y])
    for y in range(b.shape[0]):
        p[y] = math.exp(p[y] - top)
        total += p[y]
    for y in range(b.shape[0]):
        p[y] /= total


@inner
def _raise_worker(a: Any, b: Any, n: Any, crowd: Any, p: Any, slope: Any, curve: Any, new: Any) -> Any:
    """Take Newton steps of a worker's competence and preferences ``b (K,)``, which are changed.

    Returns:
        The competence, and minus its second derivative before the last step.
    """
    K, curve_a = b.shape[0], 1.0
    for _ in range(NEWTON):
        slope_a, curve_a = -(a - crowd[0]) / crowd[1], 1.0 / crowd[1]
        for y in range(K):
            slope[y], curve[y] = -b[y] / PREFERENCE**2, PREFERENCE**-2
        for k in range(K):
            _fill_row(k, a, b, p)
            given = 0.0
            for y in range(K):
                given += n[y, k]
            for y in range(K):
                slope[y] += n[y, k] - given * p[y]
                # Twice the diagonal bounds the matrix of second derivatives of a softmax.
                curve[y] += 2.0 * given * p[y] * (1.0 - p[y])
            slope_a += n[k, k] - given * p[k]
            curve_a += given * p[k] * (1.0 - p[k])
        before, size = _fit(a, b, n, crowd, p), FIRST_SHARE
        step = min(max(slope_a / curve_a, -LONGEST), LONGEST)
        for _ in range(TRIES):
            for y in range(K):
                new[y] = b[y] + size * min(max(slope[y] / curve[y], -LONGEST), LONGEST)
            if not _fit(a + size * step, new, n, crowd, p) < before - SLACK:
                a += size * step
                for y in range(K):
                    b[y] = new[y]
                break
            size *= SHORTEN
    return a, curve_a


@cache
def learning() -> Any:
    """Return the compiled step.

    Its arguments, for ``N`` items, ``J`` workers, ``K`` classes: the data as :func:`crowdppl.kernels.chains.sweeps` takes them;
    responsibilities ``r (N, K)``, the workers' ``a (J,)`` and ``b (J, K)``, and ``crowd (2,)``, mean and variance of the
    competence, all of which are changed; memory for ``counts (J, K, K)`` and ``logs (J*K, K)``; and ``correct (J,)``, the mean
    over classes of the probability of the correct label, written. It returns the log-likelihood.
    """

    def run(
        start: Any,
        column: Any,
        known: Any,
        r: Any,
        a: Any,
        b: Any,
        crowd: Any,
        counts: Any,
        logs: Any,
        correct: Any,
    ) -> Any:
        start, column, known, r = borrowed(start), borrowed(column), borrowed(known), borrowed(r)
        N, K, J, total = r.shape[0], r.shape[1], b.shape[0], 0.0
        prior, p, slope, curve, new = np.ones(K), np.empty(K), np.empty(K), np.empty(K), np.empty(K)
        table = counts.reshape(J * K, K)
        table[:] = 0.0
        for i in range(N):
            for k in range(K):
                prior[k] += r[i, k]
            for n in range(start[i], start[i + 1]):
                row = np.intp(column[n])
                for k in range(K):
                    table[row, k] += r[i, k]
        variance, mean = 0.0, 0.0
        for j in range(J):
            a[j], bend = _raise_worker(a[j], b[j], counts[j], crowd, p, slope, curve, new)
            mean += a[j]
            variance += 1.0 / bend
            correct[j] = 0.0
            for k in range(K):
                _fill_row(k, a[j], b[j], p)
                correct[j] += p[k] / K
                for y in range(K):
                    logs[j * K + y, k] = math.log(p[y])
        crowd[0] = (mean + START) / (J + 1.0)
        for j in range(J):
            variance += (a[j] - crowd[0]) ** 2
        crowd[1] = (variance + 2.0) / (J + 2.0)
        whole = 0.0
        for k in range(K):
            whole += prior[k]
        for k in range(K):
            prior[k] = math.log(prior[k] / whole)
        for i in range(N):
            only, top = np.intp(known[i]), -np.inf
            for k in range(K):
                p[k] = prior[k]
            for n in range(start[i], start[i + 1]):
                row = np.intp(column[n])
                for k in range(K):
                    p[k] += logs[row, k]
            for k in range(K):
                if only < 0 or k == only:
                    top = max(top, p[k])
            weight = 0.0
            for k in range(K):
                r[i, k] = math.exp(p[k] - top) if only < 0 or k == only else 0.0
                weight += r[i, k]
            total += top + math.log(weight)
            for k in range(K):
                r[i, k] /= weight
        return total

    run.__qualname__ += f".{crc32(Path(__file__).read_bytes()):08x}"
    return compiled(run, SIGNATURE, nogil=True, error_model="numpy")
