"""GLAD and MACE against crowd-kit's: seconds of an iteration on the same data, by the difference of two numbers of iterations."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, fit, table, write
from default_model import load

ITERATIONS = (2, 6)
OURS = (20, 220)  # a fit of few iterations takes milliseconds
SETS = ("rte", "product", "adult-content")


def seconds(work: Callable[[int], Any], counts: tuple[int, int], repeats: int) -> float:
    """Return the seconds of an iteration: the difference of two runs divided by that of their iterations, the least of some."""
    least = []
    for count in counts:
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            work(count)
            times.append(time.perf_counter() - began)
        least.append(min(times))
    return (least[1] - least[0]) / (counts[1] - counts[0])


def main() -> None:
    """Measure every set and write the page."""
    options = arguments(__doc__ or "")
    from crowdkit.aggregation import GLAD, MACE

    rows, results = [], {}
    for name in SETS[:1] if options.quick else SETS:
        data, _ = load(name)
        frame = pd.DataFrame({"task": data.item.numpy(), "worker": data.worker.numpy(), "label": data.label.numpy()})
        peers: dict[str, Callable[[int], Any]] = {
            "glad": lambda n, frame=frame: GLAD(n_iter=n, tol=0).fit(frame),
            "mace": lambda n, frame=frame: MACE(n_restarts=1, n_iter=n).fit(frame),
        }
        for model, peer in peers.items():

            def ours(n: int, model: str = model, data: Any = data) -> Any:
                return fit(data, model, method="em", max_iter=n, tol=0.0, accelerate=False, num_samples=2)

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                own, theirs = seconds(ours, OURS, 3), seconds(peer, ITERATIONS, 1 if data.A > 50_000 else 3)
            results[f"{name} / {model}"] = {"ours": own, "crowd-kit": theirs}
            rows.append([name, model, data.A, 1000 * own, 1000 * theirs, f"{theirs / own:.0f}" if own > 0 else "–"])
            print(rows[-1], flush=True)
    ratio = np.exp(np.mean([np.log(r["crowd-kit"] / r["ours"]) for r in results.values() if r["ours"] > 0]))
    body = (
        "Milliseconds of an iteration: the difference of two runs, divided by the difference of their iterations. An iteration "
        "of ours is an E step and an M step without extrapolation; crowd-kit's GLAD does up to 25 gradient steps in an "
        "iteration, and its MACE is run with one restart. Other programs ran on the machine.\n\n"
        + table(["set", "model", "annotations", "ours, ms", "crowd-kit, ms", "ratio"], rows)
        + f"\n\nGeometric mean of the ratios: {ratio:.0f}."
    )
    write("glad_mace", "GLAD and MACE", body, results, options)


if __name__ == "__main__":
    main()
