"""Small positive definite matrices in compiled code: Cholesky factors, solutions, and normal draws by their precision.

The diagonal of a factor ``L`` holds its reciprocals, since divisions take long.
"""

from __future__ import annotations

import math
from typing import Any

from crowdppl.kernels.code_cache import inner
from crowdppl.kernels.random import fill_normal


@inner
def factorise(a: Any) -> None:
    """Replace the lower triangle of a positive definite matrix ``(n, n)`` by its Cholesky factor ``L``."""
    for i in range(a.shape[0]):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total * a[j, j] if j < i else 1.0 / math.sqrt(total)


@inner
def solve_lower(factor: Any, x: Any) -> None:
    """Replace a vector by ``L^-1 x``."""
    for i in range(x.shape[0]):
        total = x[i]
        for k in range(i):
            total -= factor[i, k] * x[k]
        x[i] = total * factor[i, i]


@inner
def solve_upper(factor: Any, x: Any) -> None:
    """Replace a vector by ``L^-T x``."""
    n = x.shape[0]
    for i in range(n - 1, -1, -1):
        x[i] *= factor[i, i]
        for k in range(i):  # along a row of the factor, which lies together in memory
            x[k] -= factor[i, k] * x[i]


@inner
def invert(a: Any, column: Any) -> None:
    """Replace the lower triangle of a positive definite matrix ``(n, n)`` by its inverse, whole; ``column (n,)`` is room."""
    n = a.shape[0]
    factorise(a)
    for i in range(n):  # the inverse of the factor, row by row
        own = a[i, i]
        for h in range(i):
            total = 0.0
            for c in range(h, i):
                total += a[i, c] * a[c, h]
            column[h] = -total * own
        for h in range(i):
            a[i, h] = column[h]
    for i in range(n):  # its square
        for h in range(i + 1):
            total = 0.0
            for c in range(i, n):
                total += a[c, i] * a[c, h]
            a[i, h] = total
    for i in range(n):
        for h in range(i):
            a[h, i] = a[i, h]


@inner
def draw_normal(factor: Any, given: Any, noise: Any, state: Any) -> None:
    """Replace ``given`` by a normal draw of precision ``L L^T`` and mean ``(L L^T)^-1 given``; ``noise`` is room for as many."""
    fill_normal(state, noise)
    solve_lower(factor, given)
    for i in range(given.shape[0]):
        given[i] += noise[i]
    solve_upper(factor, given)
