"""From a file of annotations to a label for each item, by crowdppl or by crowd-kit.

performance.py runs it in a process of its own. Only the packages needed are imported, so that time and memory are those of a
script.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings

BEGAN = time.perf_counter()


def crowd_kit(path: str) -> dict[str, float]:
    """Read by pandas, aggregate by crowd-kit."""
    import pandas as pd
    from crowdkit.aggregation import DawidSkene

    start = time.perf_counter() - BEGAN
    frame = pd.read_csv(path)
    read = time.perf_counter() - BEGAN - start
    model = DawidSkene(n_iter=100)
    labels = model.fit_predict(frame)
    return {"start": start, "read": read, "items": len(labels), "iterations": len(model.loss_history_)}


def ours(path: str) -> dict[str, float]:
    """Read and fit by crowdppl."""
    import crowdppl

    start = time.perf_counter() - BEGAN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = crowdppl.Annotations.from_parquet if path.endswith(".parquet") else crowdppl.Annotations.from_csv
        data = taken(path, task="task", worker="worker", label="label")
        read = time.perf_counter() - BEGAN - start
        posterior = crowdppl.fit(data, "dawid-skene", method="em", num_samples=1, tol=1e-7)
    items = len(posterior.truth())
    return {"start": start, "read": read, "items": items, "iterations": posterior.info["facts"]["evaluations"]}


if __name__ == "__main__":
    result = {"ours": ours, "crowd-kit": crowd_kit}[sys.argv[1]](sys.argv[2])
    result["seconds"] = time.perf_counter() - BEGAN
    result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps(result))
