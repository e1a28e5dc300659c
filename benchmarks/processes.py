"""EM iterations in several processes started by ``torchrun``; run by performance.py.

Each process prints its peak memory as a line of JSON; rank 0 also prints its times.
"""

from __future__ import annotations

import json
import sys

from performance import SIZES, em, peak

from crowdppl.inference import distributed

if __name__ == "__main__":
    times: dict[str, float] = {}
    with distributed.joined() as rank0:
        if rank0:
            times = em(SIZES[sys.argv[1]], 10)
    print(json.dumps({"rank0": rank0} | times | {"peak": peak()}), flush=True)
