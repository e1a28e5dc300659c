"""Probabilities of the grades of raters of the graded response model, in compiled code.

The model is that of :mod:`crowdppl.model.graded_rows`. Nodes are evenly spaced, so that powers of one number serve all of them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from zlib import crc32

from crowdppl.kernels.code_cache import inner

# The least probability of a grade, the largest odds against one, and a product of probabilities whose logarithm is due.
LEAST, MOST, DUE = 1e-250, 1e250, 1e-40


@inner
def _fill_thresholds(rater: Any, thresholds: Any, apart: Any) -> None:
    """Write the thresholds ``(K - 1,)``, and one less the odds of neighbours, ``(K - 2,)``; see ``model.graded_rows``."""
    n = thresholds.shape[0]
    height, mean = 0.0, 0.0
    thresholds[0] = 0.0
    for t in range(1, n):
        gap = math.exp(rater[1 + t])
        height += gap
        mean += height / n
        thresholds[t], apart[t - 1] = height, -math.expm1(-gap)
    for t in range(n):
        thresholds[t] += rater[1] - mean


@inner
def fill_table(rater: Any, first: Any, apart: Any, odds: Any, offsets: Any, S: Any, out: Any) -> None:
    """Write the probabilities of a rater's grades, ``out (K, M)``.

    Args:
        rater: its numbers, ``(K,)``.
        first: the first node and the distance of nodes, ``(2,)``.
        apart: room, ``(2 K,)``.
        odds: room, ``(S,)``.
        offsets: the exponential of the offset of each block of ``S`` nodes, ``(L,)``.
        S: number of nodes.
        out: is written.
    """
    K = rater.shape[0]
    _fill_thresholds(rater, apart[: K - 1], apart[K : 2 * K - 2])
    slope = math.exp(rater[0])
    base, power = math.exp(min(max(-slope * first[0], -500.0), 500.0)), math.exp(max(-slope * first[1], -500.0))
    for s in range(S):
        odds[s] = base
        base *= power
    for part in range(offsets.shape[0]):
        begin = part * S
        upper = out[0, begin : begin + S]
        for s in range(S):
            upper[s] = 1.0
        for t in range(K - 1):
            level = math.exp(apart[t]) * offsets[part]
            factor = apart[K + t] if t < K - 2 else 1.0
            lower, upper = upper, out[t + 1, begin : begin + S]
            for s in range(S):
                against = min(level * odds[s], MOST)
                above = 1.0 / (1.0 + against)
                lower[s] = max(lower[s] * against * above, LEAST)
                upper[s] = above * factor
        for s in range(S):
            upper[s] = max(upper[s], LEAST)


def version(module: str) -> str:
    """Return a digest of this file and that of a module which uses it, by which the cache identifies compiled functions."""
    return f"{crc32(Path(module).read_bytes(), crc32(Path(__file__).read_bytes())):08x}"
