"""Rows of confusion matrices on the logit scale, given their labels: log-likelihood, and its derivatives by the logits."""

from __future__ import annotations

import math
from typing import Any

from crowdppl.kernels.code_cache import inner


@inner
def fill_powers(x: Any, n: Any, p: Any) -> Any:
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
def log_likelihood(x: Any, n: Any, e: Any, by: Any, p: Any, totals: Any) -> Any:
    """Return the log-likelihood of a row's labels ``n (K,)`` and effects ``e (M,)`` at logits ``x (K,)``.

    ``by (K, M)`` are the factors by label. ``p (K,)``, powers of the logits, and ``totals (M,)``, their normalisers under each
    effect, are written.
    """
    out, _ = fill_powers(x, n, p)
    totals[:] = 0.0
    for y in range(x.shape[0]):
        for m in range(e.shape[0]):
            totals[m] += p[y] * by[y, m]
    for m in range(e.shape[0]):
        if e[m] > 0.0:
            out -= e[m] * math.log(totals[m])
    return out


@inner
def fill_slopes(n: Any, e: Any, by: Any, p: Any, totals: Any, shares: Any, slope: Any, curve: Any) -> None:
    """Write first derivatives of the same by the logits, ``slope (K,)``, and minus the second ones, ``curve (K,)``.

    From ``p`` and ``totals`` as :func:`log_likelihood` writes them; ``shares (M,)`` is room.
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
def fill_row(k: Any, a: Any, b: Any, D: Any, d: Any, x: Any) -> None:
    """Write the logits of a row ``x (K,)``: of class ``k``, with competence ``a``, ``b``, ``D`` and ``d (K,)``."""
    for y in range(x.shape[0]):
        x[y] = b[y] + D[y] + d[y] + (a if k == y else 0.0)


@inner
def sum_of_squares(values: Any) -> Any:
    """Return the sum of the squares of values."""
    total = 0.0
    for y in range(values.shape[0]):
        total += values[y] * values[y]
    return total


@inner
def fill_curvature(e: Any, by: Any, p: Any, totals: Any, n: Any, shares: Any, scaled: Any, slope: Any, H: Any) -> None:
    """Write first derivatives of a row's log-likelihood by its logits, ``slope (K,)``, and minus the second ones, ``H (K, K)``.

    From ``p`` and ``totals`` as :func:`log_likelihood` writes them; ``shares (M,)`` and ``scaled (M,)`` are room.
    """
    K, M = p.shape[0], e.shape[0]
    for m in range(M):
        inverse = 1.0 / totals[m]
        shares[m] = e[m] * inverse
        scaled[m] = shares[m] * inverse
    for y in range(K):
        expected = 0.0
        for m in range(M):
            expected += shares[m] * by[y, m]
        expected *= p[y]
        slope[y] = n[y] - expected
        for h in range(y + 1):
            together = 0.0
            for m in range(M):
                together += scaled[m] * by[y, m] * by[h, m]
            H[y, h] = -p[y] * p[h] * together
        H[y, y] += expected
