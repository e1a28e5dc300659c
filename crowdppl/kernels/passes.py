"""All compiled passes, for their one caller :mod:`crowdppl.inference.backends.passes`.

Sparse products are the alternative without numba.
"""

from __future__ import annotations

from crowdppl.kernels.counts import collect, count, gather, load, scatter, tallied, tally
from crowdppl.kernels.fused import accumulate, adding, sweep
from crowdppl.kernels.parallel import AHEAD, ANY, NARROW, width_of

__all__ = [
    "AHEAD",
    "ANY",
    "NARROW",
    "accumulate",
    "adding",
    "collect",
    "count",
    "gather",
    "load",
    "scatter",
    "sweep",
    "tallied",
    "tally",
    "width_of",
]
