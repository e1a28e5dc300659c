"""Fits on a GPU beside the same fits on the CPU of the machine: seconds, equality of results, waits for the GPU, and memory.

Needs a CUDA device; ``--device cpu`` tries the script without one. Each fit runs once to compile and to fill caches, and is then
timed. Reads that wait for the GPU are counted by torch (``torch.cuda.set_sync_debug_mode``) in two fits of different lengths, so
that what a fit does once is not counted.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import records
import torch
from common import machine, table

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, ModelError

PAGE = Path("docs/benchmarks/gpu.md")
# Steps of the fit that warms up.
WARM = 5


@dataclass(frozen=True)
class Work:
    """A fit that is timed.

    Attributes:
        name: in the table.
        model: its name.
        size: numbers of items, of annotations of each, of workers, and of classes.
        options: of the fit; those that set its length are in ``steps``.
        steps: the option that sets the length of a fit, its value, and the longer one.
        features: number of features of the items.
        dtypes: floating types in which the device computes.
    """

    name: str
    model: str
    size: tuple[int, int, int, int]
    options: dict[str, Any]
    steps: tuple[str, int, int]
    features: int = 0
    dtypes: tuple[str, ...] = ("float64", "float32")


EM = {"method": "em", "restarts": 0, "tol": 0.0}
STEPS = ("max_iter", 50, 80)
SVI_STEPS = ("max_iter", 300, 400)
WORKS = (
    *(
        Work("Dawid-Skene, EM, 50 steps", "dawid-skene", size, EM, STEPS)
        for size in (
            (50_000, 10, 2_500, 10),
            (1_000_000, 5, 50_000, 4),
            (1_000_000, 5, 10_000, 50),
            (10_000_000, 5, 500_000, 2),
        )
    ),
    *(
        Work("item effects (the default), EM, 50 steps", "item-effects", size, EM, STEPS)
        for size in ((20_000, 5, 200, 4), (200_000, 5, 2_000, 4))
    ),
    Work(
        "Dawid-Skene, Gibbs, 4 chains of 200 sweeps",
        "dawid-skene",
        (20_000, 5, 200, 4),
        {"method": "gibbs", "warmup": 100, "chains": 4},
        ("num_samples", 100, 200),
    ),
    *(
        Work("hierarchical, SVI, 300 steps", "hierarchical", size, {"method": "svi", "num_samples": draws}, SVI_STEPS)
        for size, draws in (((20_000, 5, 200, 4), 50), ((400_000, 5, 2_000, 10), 10))
    ),
    Work(
        "Raykar, EM of 3 steps, 512 features",
        "raykar",
        (50_000, 3, 500, 10),
        EM,
        ("max_iter", 3, 5),
        512,
    ),
    Work(
        "hierarchical, NUTS, 20 + 20 draws",
        "hierarchical",
        (20_000, 5, 200, 4),
        {"method": "nuts", "warmup": 20, "chains": 1, "max_tree_depth": 5},
        ("num_samples", 20, 25),
        dtypes=("float64",),
    ),
)


def crowd(work: Work, small: bool) -> Annotations:
    """Draw annotations by workers who are correct with probability .5 to .95."""
    N, each, J, K = work.size
    if small:
        N, J = max(200, N // 500), max(10, J // 50)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, N)
    item = np.repeat(np.arange(N), each)
    worker = rng.integers(0, J, len(item))
    right = rng.random(len(item)) < rng.uniform(0.5, 0.95, J)[worker]
    label = np.where(right, truth[item], rng.integers(0, K, len(item)))
    features = None
    if work.features:
        centres = rng.normal(size=(K, work.features))
        features = 0.1 * centres[truth] + rng.normal(size=(N, work.features))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return Annotations.from_arrays(item, worker, label, labels=range(K), features=features)


def run(data: Annotations, work: Work, device: str, steps: int) -> tuple[Any, float]:
    """Fit and compute the probabilities of labels; return the result and its seconds, all work of the device included."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = crowdppl.fit(
            data, work.model, device=device, seed=0, independent=True, **work.options, **{work.steps[0]: steps}
        )
    return posterior, time.perf_counter() - began


def waits(data: Annotations, work: Work, device: str) -> float:
    """Count the reads of the host that wait for the GPU, for each further step of a fit."""
    counts = []
    for steps in work.steps[1:]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                run(data, work, device, steps)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        counts.append(sum("synchronizing CUDA operation" in str(warning.message) for warning in seen))
    return (counts[1] - counts[0]) / (work.steps[2] - work.steps[1])


def measure(work: Work, device: str, small: bool) -> list[dict[str, Any]]:
    """Time a fit in float64 on the CPU, and on the device in each floating type."""
    whole = crowd(work, small)
    run(whole, work, "cpu", WARM)
    posterior, seconds = run(whole, work, "cpu", work.steps[1])
    expected = posterior.probability_as_published()
    rows = []
    for dtype in work.dtypes:
        data = whole.to(dtype=getattr(torch, dtype))
        row: dict[str, Any] = {"name": work.name, "annotations": data.A, "workers": data.J, "classes": data.K}
        row |= {"dtype": dtype, "cpu": seconds}
        try:
            run(data, work, device, WARM)
            if device != "cpu":
                torch.cuda.reset_peak_memory_stats()
            posterior, row["device"] = run(data, work, device, work.steps[1])
        except ModelError as error:
            row["error"] = str(error)
        else:
            probability = posterior.probability_as_published()
            row["difference"] = float(np.abs(probability - expected).max())
            row["labels"] = float((probability.argmax(1) == expected.argmax(1)).mean())
            if device != "cpu":
                row["memory"] = torch.cuda.max_memory_allocated() / 1e9
                # Warnings are slow: the count does not depend on the size of the data.
                row["waits"] = waits(crowd(work, True).to(dtype=data.dtype), work, device)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def page(rows: list[dict[str, Any]], card: str, where: str) -> str:
    """Write the page."""
    none = float("nan")
    body = [
        [
            row["name"],
            f"{row['annotations']:,} × {row['classes']}",
            row["dtype"],
            row["cpu"],
            row.get("device", none),
            f"{row['cpu'] / row['device']:.2g}" if "device" in row else "–",
            max(row.get("waits", none), 0.0),
            row.get("memory", none),
            f"{row['difference']:.1g}" if "difference" in row else "not finite",
            f"{row['labels']:.5f}" if "labels" in row else "–",
        ]
        for row in rows
    ]
    missing = sorted({work.name for work in WORKS} - {row["name"] for row in rows})
    left_out = f"- Not timed: {'; '.join(missing)}.\n" if missing else ""
    header = (
        "fit", "annotations × classes", "type", "CPU, s", "GPU, s", "ratio", "waits a step", "GPU memory, GB",
        "largest difference", "equal labels",
    )  # fmt: skip
    return f"""# On a GPU

Rerun on a machine with a GPU: `python benchmarks/gpu.py`. Ran on one {card} beside {where}.

Seconds of a whole fit with the probabilities of all labels, from data in memory, after one fit to warm up. The CPU column is
float64 with the default of that machine: compiled passes on all cores where there are some, else torch. *Waits* are the times
that a further step of the fit waits for the GPU. Differences are of class probabilities to the CPU's in float64; for engines
that draw they include the randomness of two streams.

{table(header, body)}

- Answers are right everywhere: EM ends at the CPU's probabilities in float64, up to the order of sums, which is not fixed
  (`torch.Tensor.index_add_` on CUDA is not deterministic): two fits with one seed differ in the last bits, and draws with them.
- A GPU pays from some hundred thousand annotations on; below, the CPU is as fast, and compiled chains and passes need no copy.
- float32 gains little on this card, whose rate in float64 is half of that in float32; on consumer cards it is a thirty-second or
  a sixty-fourth, and float32 pays. It moves probabilities of item effects by up to .1 and one label in 600, and gradients of
  Dirichlet draws may not be finite where a component is close to 0: the fit then says so.
{left_out}- The tests of `tests/inference/test_cuda.py` passed on this card: all pairs of model and engine, with the
  probabilities of each recomputed on the CPU at the GPU's parameters (1e-6); files, updates, predictions, checkpoints,
  classifiers, and the command.
"""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; writes nothing")
    parser.add_argument("--only", nargs="*", help="fits whose names begin so; the figures of the others are kept")
    parser.add_argument("--out", type=Path, default=records.FIGURES, help="folder for the figures")
    parser.add_argument("--show", action="store_true", help="write the page from the figures of an earlier run")
    options = parser.parse_args()
    if options.show:
        story = records.load("gpu", options.out) or parser.error(f"no figures in {options.out}")
        order = {(work.name, work.size[0] * work.size[1]): n for n, work in enumerate(WORKS)}
        rows = sorted(story["results"], key=lambda row: order[row["name"], row["annotations"]])
        PAGE.write_text(page(rows, story["card"], story["machine"]))
        return
    card = "CPU" if options.device == "cpu" else torch.cuda.get_device_name()
    chosen = [work for work in WORKS if not options.only or work.name.startswith(tuple(options.only))]
    names = {work.name for work in chosen}
    kept = [] if len(chosen) == len(WORKS) else (records.load("gpu", options.out) or {"results": []})["results"]
    rows: list[dict[str, Any]] = [row for row in kept if row["name"] not in names]
    for work in chosen:
        rows += measure(work, options.device, options.quick)
        if not options.quick:
            records.save("gpu", {"machine": machine(), "card": card, "results": rows}, options.out)
    if not options.quick:
        print(page(rows, card, machine()))


if __name__ == "__main__":
    main()
