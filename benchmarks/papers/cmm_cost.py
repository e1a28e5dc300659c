"""Figure 3: time and memory of an iteration with more annotators."""

from __future__ import annotations

import ctypes
import gc
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cmm_setup1 import network
from cmm_shared import Results, record, stored
from common import fit, table

from crowdppl.data.synthetic import three_gaussians
from crowdppl.models import CrowdMixture, DawidSkene

WORKERS = (100, 2000, 5000, 10_000, 15_000, 25_000, 40_000)
ITERATIONS = 25
RESET = Path("/proc/self/clear_refs")  # a 5 written here makes the peak of memory start anew, on Linux
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "CMM": (CrowdMixture(), {"restarts": 0}),
    "DL-EM": (network(), {}),
    "CMM, one gradient step": (CrowdMixture(), {"restarts": 0, "steps": 1}),
    "DL-EM, one gradient step": (network(), {"steps": 1}),
    "DL-DS": (DawidSkene.maximum_likelihood(), {"accelerate": False}),
}


class Clock:
    """Collects the processor time of each iteration; passed to a fit as ``progress``."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, step: int, steps: int, what: str) -> None:
        """Note the time of a report."""
        self.times.append(time.process_time())

    def median(self) -> float:
        """Return the median time from one report to the next, in seconds."""
        return float(np.median(np.diff(self.times)))


def peak(kind: str) -> float:
    """Return the resident memory of this process (``VmRSS``) or its peak (``VmHWM``), in MiB; not a number but on Linux."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    line = next(line for line in status.read_text().splitlines() if line.startswith(kind))
    return int(line.split()[1]) / 1024


def measure(quick: bool) -> dict[str, Results]:
    """Return seconds of an iteration and MiB that a fit adds at its peak, by model and number of annotators."""
    seconds: Results = {}
    memory: Results = {}
    torch.set_num_threads(1)
    # What was freed goes back to the system before each fit, so that peaks start alike.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: 0)
    warm = three_gaussians(seed=0, workers=100).data
    for model, more in MODELS.values():
        fit(warm, model, method="em", seed=0, max_iter=3, num_samples=2, **more)
    for T in WORKERS[:2] if quick else WORKERS:
        s = three_gaussians(seed=0, workers=T, per_item=10.0)
        for name, (model, more) in MODELS.items():
            for _ in range(1 if quick else 2):
                clock = Clock()
                gc.collect()
                trim(0)
                if RESET.exists():
                    RESET.write_text("5")
                before = peak("VmRSS")
                fit(
                    s.data,
                    model,
                    method="em",
                    seed=0,
                    max_iter=ITERATIONS,
                    tol=0.0,
                    progress=clock,
                    num_samples=2,
                    **more,
                )
                record(memory, name, T, peak("VmHWM") - before)
                record(seconds, name, T, clock.median())
        print("cost", T, {n: [f"{min(v[str(T)]):.4g}" for v in (seconds[n], memory[n])] for n in seconds}, flush=True)
    return {"seconds_per_iteration": seconds, "peak_mib": memory}


def page(results: dict[str, Results]) -> str:
    """Return the section."""
    seconds, memory = results["seconds_per_iteration"], results["peak_mib"]
    sizes = list(seconds["CMM"])
    theirs = stored("time_comparison").set_index("workers")
    columns = {"CMM": "cmm_seconds", "DL-EM": "dl_em_seconds", "DL-DS": "ds_seconds"}
    rows = []
    for name, values in seconds.items():
        rows.append([f"{name}, here", *(f"{1e3 * min(values[T]):.2f} ms" for T in sizes)])
        if name in columns:
            rows.append([f"{name}, paper", *(f"{1e3 * theirs.loc[int(T), columns[name]]:.0f} ms" for T in sizes)])
    space = [[name, *(f"{np.mean(memory[name][T]):.1f} MiB" for T in sizes)] for name in columns]
    numbers = [
        ["CMM: numbers in matrices", *(f"{3 * 9:,}" for _ in sizes)],
        ["DL-EM and DL-DS: numbers in matrices", *(f"{int(T) * 9:,}" for T in sizes)],
    ]
    header = ["", *(f"T = {int(T):,}" for T in sizes)]
    return f"""## Figure 3: cost with more annotators

Time of one EM iteration on set-up 1 with ten labels an item (2,457 items, 24,570 labels): the median of {ITERATIONS}
iterations, the smaller of two fits, in processor time on one thread, while other programs ran on the machine (differences of
a fifth are noise). An iteration of CMM and DL-EM has one epoch of the network (39 batches); with one gradient step the rest
is seen. The paper's figures are of another machine.

{table(header, rows)}

Memory that a fit adds at its peak to that of the process with the data (mean of two), and the size of the matrices:

{table(header, space + numbers)}
"""
