"""EM iterations in several processes that ``torchrun`` has started: run by performance.py.

Each process prints how much memory it took, the one that leads its times besides, a line of JSON each.
"""

from __future__ import annotations

import json
import sys

from performance import SIZES, em, peak

from crowdppl.inference import distributed

if __name__ == "__main__":
    found: dict[str, float] = {}
    with distributed.joined() as leads:
        if leads:
            found = em(SIZES[sys.argv[1]], 10)
    print(json.dumps({"leads": leads} | found | {"peak": peak()}), flush=True)
