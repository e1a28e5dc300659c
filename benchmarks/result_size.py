"""Size of result files, small and full; time of ``crowdppl next`` on them; and what the small form changes in views and ArviZ."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
from common import arguments, fit, table, write

import crowdppl
from crowdppl import Annotations, Posterior, acquisition, criticism
from crowdppl.data import datasets

ROOT = Path(__file__).resolve().parents[1]
DEFAULT, EM, GIBBS = "default", "Dawid–Skene, EM", "Dawid–Skene, Gibbs"
FITS: dict[str, dict[str, Any]] = {
    DEFAULT: {"model": None},
    EM: {"model": "dawid-skene", "method": "em"},
    GIBBS: {"model": "dawid-skene", "method": "gibbs"},
}
SIZES = (
    *("set", "annotations", "items", "workers", "classes", "fit", "small, MB", "full, MB", "save small, s"),
    *("`next`, CPU s", "`next`, s", "`next` on full, CPU s"),
)
CHANGES = (
    *("set", "fit", "confusion", "its interval", "interval of accuracy", "interval of information, bits", "verdicts"),
    *("elpd", "standard error of the elpd", "Pareto k, mean", "p-value of `check`"),
)


def simulated(annotations: int, items: int, workers: int, classes: int, seed: int = 0) -> Annotations:
    """Return labels by workers of different accuracy and diligence, on items of unequal classes."""
    rng = np.random.default_rng(seed)
    share = rng.gamma(0.8, size=workers) + 0.05
    item = np.sort(rng.permutation(np.arange(annotations) % items))
    worker = rng.choice(workers, annotations, p=share / share.sum())
    prevalence = rng.dirichlet(np.full(classes, 3.0))
    truth = rng.choice(classes, items, p=prevalence)
    accuracy = rng.beta(6, 2, workers)
    label = np.where(
        rng.random(annotations) < accuracy[worker], truth[item], rng.choice(classes, annotations, p=prevalence)
    )
    return Annotations.from_frame(pd.DataFrame({"task": item, "worker": worker, "label": label}))


def public(name: str) -> Annotations:
    """Return the annotations of a public set."""
    return datasets.public(name)[0]


def sets(quick: bool) -> Iterator[tuple[str, Annotations, tuple[str, ...]]]:
    """Yield the name of each set, its annotations, and the fits to it."""
    if quick:
        yield "simulated", simulated(1500, 300, 30, 4), tuple(FITS)
        return
    yield "rte", public("rte"), tuple(FITS)
    yield "popquorn-offensiveness", public("popquorn-offensiveness"), tuple(FITS)
    yield "simulated, five classes", simulated(15_567, 1_557, 200, 5), tuple(FITS)
    yield "adult-content", public("adult-content"), (DEFAULT, EM)
    yield "simulated, four classes", simulated(98_453, 10_940, 800, 4), (DEFAULT, EM)


def next_seconds(folder: Path) -> tuple[float, float]:
    """Run ``crowdppl next`` on a folder of results; return its CPU seconds and its seconds, the least of three runs."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    runs = []
    for _ in range(3):
        began, before = time.perf_counter(), os.times()
        subprocess.run(
            [sys.executable, "-m", "crowdppl", "next", str(folder)], check=True, capture_output=True, env=environment
        )
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        runs.append((used, time.perf_counter() - began))
    return min(cpu for cpu, _ in runs), min(wall for _, wall in runs)


def measure(name: str, data: Annotations, kind: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """Fit and save; return the row of sizes and the row of changes."""
    options = dict(FITS[kind])
    # Results allow for correlated errors, as by default.
    posterior, _ = fit(data, options.pop("model"), seed=1, independent=False, **options)
    began = time.perf_counter()
    small = posterior.save(folder / "small" / "posterior.nc")
    save = time.perf_counter() - began
    full = posterior.save(folder / "full" / "posterior.nc", keep="full")
    (cpu, wall), (cpu_full, _) = next_seconds(small.parent), next_seconds(full.parent)
    size = [path.stat().st_size / 1e6 for path in (small, full)]
    seconds = [f"{value:.1f}" for value in (save, cpu, wall, cpu_full)]
    sizes = [name, data.A, data.N, data.J, data.K, kind, *(f"{value:.1f}" for value in size), *seconds]
    return sizes, [name, kind, *changes(posterior, crowdppl.load(small))]


def changes(whole: Posterior, small: Posterior) -> list[str]:
    """Return the greatest differences between what a small file gives and the result it was saved from.

    Raises:
        AssertionError: if true labels, or the items to annotate next, are not the same.
    """
    assert small.truth().equals(whole.truth())
    assert acquisition.next_items(small, 100).equals(acquisition.next_items(whole, 100))
    cells = [posterior.confusion() for posterior in (small, whole)]
    workers = [posterior.workers() for posterior in (small, whole)]

    def greatest(tables: list[pd.DataFrame], *columns: str) -> float:
        return float(max((tables[0][column] - tables[1][column]).abs().max() for column in columns))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on high Pareto k, which are compared
        loo = [arviz_stats.loo(posterior.tree, pointwise=True) for posterior in (small, whole)]
    checks = [criticism.check(posterior, draws=200).table for posterior in (small, whole)]
    k = np.abs(loo[0].pareto_k.values - loo[1].pareto_k.values).mean()
    return [
        f"{greatest(cells, 'probability'):.1e}",
        f"{greatest(cells, 'low', 'high'):.1e}",
        f"{greatest(workers, 'accuracy_low', 'accuracy_high'):.1e}",
        f"{greatest(workers, 'informativeness_low', 'informativeness_high'):.1e}",
        str(int((workers[0]["verdict"] != workers[1]["verdict"]).sum())),
        f"{abs(loo[0].elpd - loo[1].elpd):.2f}",
        f"{loo[1].se:.0f}",
        f"{k:.3f}",
        f"{greatest(checks, 'p_value'):.3f}",
    ]


def main() -> None:
    """Measure all sets and write the page."""
    options = arguments(__doc__ or "")
    rows: list[tuple[list[Any], list[Any]]] = []
    for name, data, kinds in sets(options.quick):
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                for keep in ("small", "full"):
                    (Path(folder) / keep).mkdir()
                rows.append(measure(name, data, kind, Path(folder)))
            print(rows[-1], flush=True)
    sizes, differences = [row[0] for row in rows], [row[1] for row in rows]
    body = f"""{table(SIZES, sizes)}

`small` and `full` are the two forms of `posterior.nc` ([guide](../guide/files.md#the-result)); all fits keep 1,000 draws. `next`
is the command `crowdppl next` from start to end, the least of three runs; CPU seconds depend less on other work of the machine.
The simulated sets have workers of different accuracy and diligence, and items of unequal classes.

## What the small form changes

Greatest absolute difference between a small file and the result that it was saved from, over all workers, classes and ends of
intervals. Tables of true labels, with their probabilities, and the items of `next` are the same; the program asserts it.

{table(CHANGES, differences)}

`verdicts` is the number of workers whose verdict differs. `elpd`, its standard error and Pareto k are of leave-one-item-out
prediction by ArviZ. The check has 200 replicates. For comparison, the ends of 89% intervals from 1,000 draws have a Monte Carlo
error of about .065 standard deviations of the draws: .0065 for a standard deviation of .1.
"""
    story = {"sizes": sizes, "changes": differences}
    write("result-size", "Size of result files", body, story, options, script="result_size")


if __name__ == "__main__":
    main()
