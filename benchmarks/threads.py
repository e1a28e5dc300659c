"""Fits and passes while other programs compute on the same cores, and on one core of several, against the same in quiet.

Every measurement runs in a process of its own. A program of one thread that adds numbers is timed beside each, under the same
load: by how much that becomes slower is the fair share. ``--one WORK`` is such a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import crowdppl  # isort: skip - before torch, whose threads then sleep while they wait
import numpy as np
from common import arguments, table, write
from performance import SIZES, annotations

from crowdppl.data import datasets

ROOT = Path(__file__).resolve().parents[1]
BUSY = 4
LARGE = "500k x 10"
SWEEPS = {"chains": 4, "warmup": 500, "num_samples": 1_000}
FEW = {"chains": 4, "warmup": 10, "num_samples": 20}
SHORT: dict[str, Any] = {"max_iter": 200, "num_samples": 100}
NUTS = {"chains": 1, "warmup": 20, "num_samples": 20, "max_tree_depth": 4}
PASSES = 20
# Variables by which threads spin as GNU's OpenMP has it by default.
SPINNING = {"GOMP_SPINCOUNT": "300000"}


def fitted(data: Any, model: str, **options: Any) -> Callable[[], None]:
    """Return a fit with truths, workers and intervals, as published."""

    def work() -> None:
        posterior = crowdppl.fit(data, model, independent=True, seed=1, progress=False, **options)
        posterior.truth()
        posterior.workers()

    return work


def passes(size: str) -> Callable[[], None]:
    """Return EM steps of Dawid-Skene, without anything else of a fit."""
    from crowdppl.inference.backends import choose
    from crowdppl.inference.engines.em_loop import EMLoop
    from crowdppl.inference.engines.m_step import MStep
    from crowdppl.inference.engines.unconstrained import Space
    from crowdppl.isolation import isolated
    from crowdppl.model.bound import bind
    from crowdppl.model.contract import check
    from crowdppl.models import DawidSkene

    data = annotations(SIZES[size])
    model = bind(DawidSkene(), data)
    count = choose.threads(data, model)
    with isolated(0, threads=count):
        loop = EMLoop(MStep(model, data, Space(check(model, data))), PASSES, -1.0, lambda *_: None)
        start = loop.begin(model.initial(data))

    def work() -> None:
        theta = start
        with isolated(0, threads=count):
            for _ in range(PASSES):
                _, _, expected = loop.expectation(theta)
                theta = loop.expectation.maximise(expected, theta)

    return work


def rte() -> Any:
    """Return a public set of 8,000 annotations."""
    return datasets.public("rte")[0]


WORKS: dict[str, Callable[[], Callable[[], None]]] = {
    "EM, rte": lambda: fitted(rte(), "dawid-skene", method="em"),
    "Gibbs, rte": lambda: fitted(rte(), "dawid-skene", method="gibbs", **SWEEPS),
    "Gibbs of item effects, rte": lambda: fitted(rte(), "item-effects", method="gibbs", **SWEEPS),
    "SVI, rte": lambda: fitted(rte(), "dawid-skene", method="svi", **SHORT),
    "NUTS, rte": lambda: fitted(rte(), "one-coin", method="nuts", **NUTS),
    f"Gibbs, {LARGE}, 30 sweeps": lambda: fitted(annotations(SIZES[LARGE]), "dawid-skene", method="gibbs", **FEW),
    f"{PASSES} EM steps, {LARGE}": lambda: passes(LARGE),
    f"{PASSES} EM steps, 5M x 4": lambda: passes("5M x 4"),
}


def alone() -> float:
    """Return the seconds of a program of one thread that neither waits nor needs memory."""
    began, total = time.perf_counter(), 0
    for number in range(4_000_000):
        total += number
    return time.perf_counter() - began


def one(name: str, repeats: int, core: int | None) -> dict[str, float]:
    """Time one work in this process: the median of some runs, after one that compiles."""
    if core is not None:  # after torch was imported, which has counted the cores, as with a quota
        os.sched_setaffinity(0, {core})
    work = WORKS[name]()
    work()
    times, references = [], []
    for _ in range(repeats):
        references.append(alone())
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return {"seconds": float(np.median(times)), "alone": float(np.median(references))}


def measured(name: str, repeats: int, core: int | None = None, **environment: str) -> dict[str, float]:
    """Time one work in a process of its own; of variables about threads it has the given ones only."""
    about = ("OMP_", "GOMP_", "KMP_", "MKL_", "NUMBA_NUM_THREADS")
    kept = {variable: value for variable, value in os.environ.items() if not variable.startswith(about)}
    words = [sys.executable, __file__, "--one", name, str(repeats), "" if core is None else str(core)]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=kept | environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


@contextmanager
def load() -> Iterator[None]:
    """Let other programs compute during a block."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def compare(name: str, repeats: int) -> dict[str, float]:
    """Measure one work in quiet, under load with threads that sleep and that spin, and on one core."""
    quiet = measured(name, repeats)
    with load():
        loaded = measured(name, repeats)
        spinning = measured(name, repeats, **SPINNING)
    core = min(os.sched_getaffinity(0))
    confined, single = measured(name, repeats, core), measured(name, repeats, core, OMP_NUM_THREADS="1")
    out = {
        "quiet": quiet["seconds"],
        "loaded": loaded["seconds"],
        "spinning": spinning["seconds"],
        "fair": loaded["alone"] / quiet["alone"],
        "fair_spinning": spinning["alone"] / quiet["alone"],
        "one_core": confined["seconds"],
        "one_thread": single["seconds"],
    }
    out["under_load"] = out["loaded"] / out["quiet"] / out["fair"]
    out["under_load_spinning"] = out["spinning"] / out["quiet"] / out["fair_spinning"]
    out["on_one_core"] = out["one_core"] / out["one_thread"]
    print(name, out, flush=True)
    return out


def main() -> None:
    """Measure every work and write the table."""
    if sys.argv[1:2] == ["--one"]:
        name, repeats, core = sys.argv[2:]
        print(json.dumps(one(name, int(repeats), int(core) if core else None)))
        return
    options = arguments(__doc__ or "")
    names = list(WORKS)[:1] if options.quick else list(WORKS)
    results = {name: compare(name, 1 if options.quick else 5) for name in names}
    rows = [
        [
            name,
            *(f"{r[key]:.3g}" for key in ("quiet", "loaded")),
            *(f"{r[key]:.2f}" for key in ("fair", "under_load", "under_load_spinning")),
            *(f"{r[key]:.3g}" for key in ("one_core", "one_thread")),
            f"{r['on_one_core']:.2f}",
        ]
        for name, r in results.items()
    ]
    header = ["work", "quiet, s", "loaded, s", "fair share", "ratio", "ratio, spinning"]
    header += ["one core, s", "one thread, s", "ratio"]
    most, core = max(r["under_load"] for r in results.values()), max(r["on_one_core"] for r in results.values())
    body = f"""Seconds of a fit with true labels, workers and intervals, as published, or of {PASSES} EM steps alone: the median
of 5 runs in a process that has compiled.

- **Loaded**: {BUSY} other processes compute without pause. *Fair share*: how many times as long a program of one thread takes
  under this load as in quiet. The ratio after it is that of loaded to quiet seconds, divided by the fair share: 1 means
  that nothing is lost by sharing. The largest is {most:.2f}. *Spinning*: the same where threads of torch spin while they
  wait (`GOMP_SPINCOUNT=300000`, the default of GNU's OpenMP).
- **One core**: the process is confined to one core after torch was imported and has counted all cores; *one thread*:
  likewise, with `OMP_NUM_THREADS=1`. The largest ratio is {core:.2f}.

{table(header, rows)}
"""
    write("threads", "Threads under load", body, results, options)


if __name__ == "__main__":
    main()
