"""Coverage of workers' intervals for every model and engine that can fit public data.

Writes docs/benchmarks/coverage.md and crowdppl/inference/dependence/coverage.json, which every result cites for its own model and
engine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from common import fit, table, write
from design_effect import SETS, known_of

from crowdppl import criticism
from crowdppl.data import datasets

LARGEST = 100_000  # annotations of a set; all larger ones together take hours
MINIMUM = 20  # annotations of items of known truth that a worker must have
OPTIONS: dict[str, dict[str, Any]] = {
    "em": {"num_samples": 300},
    "gibbs": {"chains": 2, "warmup": 300, "num_samples": 200},
    "svi": {"num_samples": 300},
}
# SVI takes minutes per set and is measured for one model.
MODELS = {
    "em": ("item-effects", "dawid-skene", "one-coin", "class-conditional", "pooled", "majority-vote"),
    "gibbs": (
        "dawid-skene",
        "item-subtypes",
        "one-coin",
        "class-conditional",
        "pooled",
        "hierarchical",
        "majority-vote",
        "worker-groups",
    ),
    "svi": ("dawid-skene",),
}
KINDS: dict[str, dict[str, Any]] = {"default": {"independent": False}, "independent": {"independent": True}}
PLACE = Path(__file__).parents[2] / "crowdppl" / "inference" / "dependence" / "coverage.json"
# Completed fits, one per line, so that an interrupted run continues from there. Delete it to repeat all fits.
DONE = Path(__file__).parents[2] / "build" / "coverage.jsonl"


def measure(job: tuple[str, str, str]) -> dict[str, Any]:
    """Fit one set by one model and engine, with and without the design effect; count the intervals that hold the true value."""
    name, model, method = job
    torch.set_num_threads(1)
    data, truth = datasets.public(name)
    truths = {data.items[i]: data.labels[k] for i, k in enumerate(known_of(name, data, truth)) if k >= 0}
    out: dict[str, Any] = {"set": name, "model": model, "method": method}
    for kind, more in KINDS.items():
        posterior, _ = fit(data, model, method=method, seed=1, **OPTIONS[method], **more)
        coverage = criticism.coverage(posterior, truths, minimum=MINIMUM)
        out[kind] = {
            "workers": len(coverage.workers),
            "share": int(coverage.workers["share_correct_covers"].sum()),
            "accuracy": int(coverage.workers["accuracy_covers"].sum()),
            "correct": criticism.calibration(posterior, truths).accuracy,
        }
    return out


def summary(runs: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Sum over the sets of one model and engine."""
    parts = [run[kind] for run in runs if run[kind]["workers"]]
    workers = sum(part["workers"] for part in parts)
    return {
        "sets": len(parts),
        "workers": workers,
        "share": round(sum(part["share"] for part in parts) / workers, 4),
        "accuracy": round(sum(part["accuracy"] for part in parts) / workers, 4),
        "share_by_set": round(float(np.mean([part["share"] / part["workers"] for part in parts])), 4),
        "accuracy_by_set": round(float(np.mean([part["accuracy"] / part["workers"] for part in parts])), 4),
        "correct": round(float(np.mean([run[kind]["correct"] for run in runs])), 4),
    }


def chosen_options() -> argparse.Namespace:
    """Read the options of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three sets, one model; writes nothing")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder [docs/benchmarks]")
    parser.add_argument("--only", nargs="*", help="these models; the figures that are cited now stand for the others")
    parser.add_argument("--processes", type=int, default=2, help="fits at a time [2]")
    return parser.parse_args()


# Columns of the table of the coverage that results cite.
HEAD = (
    "model",
    "engine",
    "",
    "accuracy of labels",
    "workers",
    "share correct: workers covered",
    "mean of sets",
    "accuracy: workers covered",
    "mean of sets",
)


def main() -> None:
    """Fit every set by every model and engine, write the page and the figures that results cite."""
    options = chosen_options()
    sets = [name for name in SETS if name != "cifar10n"][: 3 if options.quick else None]
    sets = [name for name in sets if datasets.public(name)[0].A <= LARGEST]
    jobs = [(name, model, method) for method, models in MODELS.items() for model in models for name in sets]
    jobs = [job for job in jobs if not options.only or job[1] in options.only]
    jobs = jobs[: len(sets)] if options.quick else jobs
    runs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    DONE.parent.mkdir(exist_ok=True)
    before = [json.loads(line) for line in DONE.read_text().splitlines()] if DONE.exists() else []
    done = {(run["set"], run["model"], run["method"]): run for run in before}
    with ProcessPoolExecutor(options.processes) as pool, DONE.open("a", encoding="utf-8") as kept:
        for run in pool.map(measure, [job for job in jobs if job not in done]):
            done[run["set"], run["model"], run["method"]] = run
            kept.write(json.dumps(run) + "\n")
            kept.flush()
            print(run, flush=True)
    for _, model, method in jobs:
        runs[model, method] = [done[name, model, method] for name in sets]
    cited: dict[str, dict[str, Any]] = json.loads(PLACE.read_text(encoding="utf-8")) if options.only else {}
    for (model, method), mine in runs.items():
        cited.setdefault(model, {})[method] = {kind: summary(mine, kind) for kind in KINDS}
    cited = {
        model: cited[model]
        for model in dict.fromkeys(m for models in MODELS.values() for m in models)
        if model in cited
    }
    rows = []
    for method, models in MODELS.items():
        for model, kind in ((model, kind) for model in models if method in cited.get(model, {}) for kind in KINDS):
            one = cited[model][method][kind]
            figures = [f"{one[key]:.0%}" for key in ("share", "share_by_set", "accuracy", "accuracy_by_set")]
            rows.append([model, method, kind, f"{one['correct']:.3f}", one["workers"], *figures])
    body = f"""
89% intervals on {len(sets)} public sets with known truth and at most {LARGEST:,} annotations; workers with at least {MINIMUM}
annotations of items of known truth; seed 1. *Default*: the posteriors of true labels and workers allow for correlated errors,
with the default distribution of rho, whose two parameters were learned from these sets and three others, for item effects from
[26 sets](residual-correlation.md). *Independent*: the model as published. *Share correct* is the share of a worker's own
annotations that are correct; *accuracy* is the parameter, the probability that a future annotation is correct. Both are compared
with the share that is correct according to the known truth. A calibrated interval covers 89%.

{table(HEAD, rows)}

Every result cites the row of its own model and engine (`Posterior.coverage`), or states that none was measured. `cifar10n` is
excluded, because its worker ids do not belong to its labels. NUTS samples the same posterior as Gibbs sampling and cites its
row.
"""
    write(
        "coverage",
        "Coverage by model and engine",
        body,
        {"sets": sets, "runs": dict(cited)},
        options,
        "calibration/model_coverage",
    )
    if not options.quick:
        measured = {model for models in MODELS.values() for model in models}
        stored = json.loads(PLACE.read_text(encoding="utf-8"))
        others = {model: one for model, one in stored.items() if model not in measured}  # by features_coverage.py
        PLACE.write_text(json.dumps(cited | others, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
