"""Known true labels in a fit: coverage of workers' intervals before and after, on items whose true label was not given.

Writes docs/benchmarks/known-truths.md. `WITHIN` in crowdppl/inference/design_effect.py is chosen by its last table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from common import fit, table, write
from design_effect import SETS, known_of

import crowdppl
from crowdppl import Annotations, Posterior, criticism
from crowdppl.cli.main import app
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.inference import design_effect, known_truths

MINIMUM = 20  # annotations of evaluated items that a worker must have
FEW, MANY = 30, 100  # known true labels
WITHIN = (0.5, 1.5, 2.0, 2.5, 2.9)  # standard deviations of logit rho within a crowd, compared for MANY true labels
OPTIONS: dict[str, dict[str, Any]] = {
    "em": {"num_samples": 300},
    "gibbs": {"chains": 2, "warmup": 200, "num_samples": 150},
    "svi": {"num_samples": 300},
}
# Completed repetitions, one per line, so that an interrupted run continues from there. Delete it to repeat all.
DONE = Path(__file__).parents[2] / "build" / "known_truths.jsonl"


def options() -> argparse.Namespace:
    """Read the options of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three small sets, to see that it runs; writes nothing")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder [docs/benchmarks]")
    parser.add_argument("--repetitions", type=int, default=20, help="random choices of known items per set [20]")
    parser.add_argument("--model", default="dawid-skene", help="[dawid-skene]")
    parser.add_argument("--method", default="em", choices=sorted(OPTIONS), help="[em]")
    parser.add_argument("--largest", type=int, default=30_000, help="annotations of a set, at most [30000]")
    return parser.parse_args()


def measured(posterior: Posterior, truths: dict[Any, Any]) -> dict[str, Any]:
    """Count covered workers on evaluated items, and take widths and the log loss, given true labels of these items."""
    workers = criticism.coverage(posterior, truths, minimum=MINIMUM).workers
    return {
        "workers": len(workers),
        "share": int(workers["share_correct_covers"].sum()),
        "accuracy": int(workers["accuracy_covers"].sum()),
        "width": float((workers["share_correct_high"] - workers["share_correct_low"]).mean()),
        "log_loss": criticism.calibration(posterior, truths).log_loss,
    }


def proposed(data: Annotations, truths: dict[Any, Any], model: str, method: str, seed: int) -> Posterior:
    """Run `crowdppl calibrate` with some true labels, then the command that it proposes, and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        frame = {
            "photo": data.items[data.item.numpy()],
            "who": data.workers[data.worker.numpy()],
            "answer": data.labels[data.label.numpy()],
        }
        pd.DataFrame(frame).to_csv(place / "labels.csv", index=False)
        pd.Series(truths).rename_axis("photo").rename("answer").reset_index().to_csv(place / "gold.csv", index=False)
        names = ["--item", "photo", "--worker", "who", "--label", "answer", "--truth-file", str(place / "gold.csv")]
        fitted = ["--model", model, "--method", method, "--seed", str(seed)]
        runner = CliRunner()
        output = runner.invoke(app, ["calibrate", str(place / "labels.csv"), *names, *fitted]).output
        command = next(line for line in output.splitlines() if line.startswith("crowdppl fit ")).split()[1:]
        more = [word for name, value in OPTIONS[method].items() for word in (f"--{name.replace('_', '-')}", str(value))]
        done = runner.invoke(app, [*command, *more, "--out", str(place / "results")])
        if done.exit_code:
            raise RuntimeError(f"{' '.join(command)}: {done.output}")
        return crowdppl.load(place / "results" / "posterior.nc")


def repetition(job: tuple[str, int, str, str]) -> dict[str, Any]:
    """Fit one set without and with true labels of random items; what was measured, by number of them."""
    name, number, model, method = job
    torch.set_num_threads(1)
    with silent():
        data, truth = datasets.public(name)
    known = known_of(name, data, truth)
    rng = np.random.default_rng([number, 1])
    out: dict[str, Any] = {"set": name, "repetition": number, "model": model, "method": method, "annotations": data.A}
    more = {"method": method, "seed": number, "independent": False, **OPTIONS[method]}
    without, _ = fit(data, model, **more)
    for count in (FEW, MANY):
        have = np.flatnonzero(known >= 0)
        if len(have) < 2 * count:
            continue
        chosen = rng.choice(have, count, replace=False)
        given = np.full(data.N, -1)
        given[chosen] = known[chosen]
        truths = {data.items[i]: data.labels[known[i]] for i in np.flatnonzero((known >= 0) & (given < 0))}
        gold = {data.items[i]: data.labels[known[i]] for i in chosen}
        informed = replace(data, truth=torch.from_numpy(given))
        runs = {"without": without}
        if count == FEW:
            runs["with"], _ = fit(informed, model, **more)
        else:
            runs["proposed"] = proposed(data, gold, model, method, number)
            for spread in WITHIN:
                share = (spread / design_effect.POPULATION[1]) ** 2
                with mock.patch.object(design_effect, "WITHIN", share):
                    runs[f"within {spread}"], _ = fit(informed, model, **more)
        if count == FEW:
            with mock.patch.object(known_truths, "truncated", uniform):
                runs["not left out"], _ = fit(informed, model, **more)
        out[str(count)] = {kind: measured(p, truths) | rho_of(p) for kind, p in runs.items()}
    return out


def uniform(own: torch.Tensor) -> torch.Tensor:
    """Return equal weights of draws (S, n): items vouch for themselves."""
    return torch.full_like(own, 1 / len(own))


def rho_of(posterior: Posterior) -> dict[str, float]:
    """Return mean and standard deviation of logit rho on average of the crowd, where true labels informed it."""
    truths = posterior.info["rho"]["truths"]
    return {} if truths is None else {"rho": truths["crowd_mean"], "rho_sd": truths["crowd_spread"]}


def mean(runs: list[dict[str, Any]], count: int, kind: str, what: str) -> float:
    """Mean over repetitions; of coverage, over workers as well."""
    parts = [run[str(count)][kind] for run in runs if str(count) in run]
    if what in ("share", "accuracy"):
        workers = sum(part["workers"] for part in parts)
        return sum(part[what] for part in parts) / workers if workers else math.nan
    values = [part[what] for part in parts]
    return float(np.nanmean(values)) if len(values) and not np.isnan(values).all() else math.nan


def rows_of(by_set: dict[str, list[dict[str, Any]]], count: int, after: str) -> list[list[Any]]:
    """Return a row for each set: coverage before and after, width, log loss and rho."""
    rows = []
    for name, runs in by_set.items():
        if not any(str(count) in run and run[str(count)]["without"]["workers"] for run in runs):
            continue
        pairs = [(mean(runs, count, "without", what), mean(runs, count, after, what)) for what in ("share", "accuracy")]
        cells = [f"{b:.2f} → {a:.2f}" for b, a in pairs]
        for what in ("width", "log_loss"):
            cells.append(f"{mean(runs, count, 'without', what):.2f} → {mean(runs, count, after, what):.2f}")
        rho = f"{mean(runs, count, after, 'rho'):.2f} ± {mean(runs, count, after, 'rho_sd'):.2f}"
        workers = mean(runs, count, "without", "workers")
        rows.append([name, f"{runs[0]['annotations']:,}", f"{workers:.0f}", *cells, rho])
    return rows


def summary(by_set: dict[str, list[dict[str, Any]]], count: int, after: str) -> dict[str, Any]:
    """Return means over sets before and after, and the largest drop of a set's coverage with its name."""
    out: dict[str, Any] = {}
    for what in ("share", "accuracy", "width", "log_loss", "rho"):
        before = design_effect.POPULATION[0] if what == "rho" else None
        pairs = {
            name: (before or mean(runs, count, "without", what), mean(runs, count, after, what))
            for name, runs in by_set.items()
        }
        pairs = {name: pair for name, pair in pairs.items() if not np.isnan(pair).any()}
        out[what] = [float(np.mean([pair[n] for pair in pairs.values()])) for n in (0, 1)]
        if what in ("share", "accuracy"):
            worst = max(pairs, key=lambda name: pairs[name][0] - pairs[name][1])
            out[f"{what}_drop"] = [pairs[worst][0] - pairs[worst][1], worst]
    return out


def main() -> None:
    """Repeat on every set, write the page."""
    chosen = options()
    with silent():
        sizes = {name: datasets.public(name)[0].A for name in SETS}
    sets = [name for name, size in sizes.items() if size <= chosen.largest][: 3 if chosen.quick else None]
    jobs = [(s, r, chosen.model, chosen.method) for r in range(2 if chosen.quick else chosen.repetitions) for s in sets]
    DONE.parent.mkdir(exist_ok=True)
    lines = DONE.read_text().splitlines() if DONE.exists() and not chosen.quick else []
    key = ("set", "repetition", "model", "method")
    done = {tuple(run[part] for part in key): run for run in map(json.loads, lines)}
    with ProcessPoolExecutor(2) as pool, DONE.open("a", encoding="utf-8") as kept:
        for run in pool.map(repetition, [job for job in jobs if job not in done]):
            done[tuple(run[part] for part in key)] = run
            if not chosen.quick:
                kept.write(json.dumps(run) + "\n")
                kept.flush()
            print(run["set"], run["repetition"], flush=True)
    by_set = {name: [done[job] for job in jobs if job[0] == name] for name in sets}
    head = [
        "set",
        "annotations",
        "workers",
        "share correct covered",
        "accuracy covered",
        "width",
        "log loss",
        "logit rho",
    ]
    few, many = summary(by_set, FEW, "with"), summary(by_set, MANY, "proposed")
    kinds = [(FEW, "with", "leaving each item out"), (FEW, "not left out", "each item vouching for itself")]
    kinds += [(MANY, f"within {spread}", f"{spread:g} within crowds") for spread in WITHIN]
    compared = []
    for count, kind, words in kinds:
        one = summary(by_set, count, kind)
        drops = [f"{100 * one[f'{what}_drop'][0]:.0f} ({one[f'{what}_drop'][1]})" for what in ("share", "accuracy")]
        means = [f"{one['share'][1]:.3f}", drops[0], f"{one['accuracy'][1]:.3f}", drops[1]]
        ends = [f"{one['width'][1]:.3f}", f"{one['log_loss'][1]:.3f}", f"{one['rho'][1]:.2f}"]
        compared.append([f"{count} true labels, {words}", *means, *ends])

    def sentence(one: dict[str, Any]) -> str:
        return (
            f"Mean over sets: share correct {one['share'][0]:.3f} → {one['share'][1]:.3f}, accuracy {one['accuracy'][0]:.3f} → "
            f"{one['accuracy'][1]:.3f}, width {one['width'][0]:.3f} → {one['width'][1]:.3f}, log loss {one['log_loss'][0]:.3f} → "
            f"{one['log_loss'][1]:.3f}. Largest drop of a set: {100 * one['share_drop'][0]:.1f} points of the share correct "
            f"({one['share_drop'][1]}), {100 * one['accuracy_drop'][0]:.1f} of the accuracy ({one['accuracy_drop'][1]})."
        )

    columns = ["", "share correct", "largest drop", "accuracy", "largest drop", "width", "log loss", "mean logit rho"]
    body = f"""
{chosen.model} by {chosen.method}; {len(sets)} public sets with known truth and at most {chosen.largest:,} annotations;
repetitions, each with other known items, chosen at random: {len(jobs) // len(sets)}. Workers with at least {MINIMUM} annotations
of evaluated items: those whose true label is known, but was not given. Coverage of 89% intervals, of the share of a worker's
annotations that are correct and of the accuracy, over all workers and repetitions of a set; *width* is that of the interval of
the share; *log loss* is that of the evaluated items; *logit rho* is mean ± sd of the crowd's mean given the true labels
(before: -1 ± 1.66). Before and after are the same fit without and with the true labels, both with default options.

The share of correct annotations on evaluated items is what its interval is about. The accuracy is a parameter, and that share a
sample of it, of as few as {MINIMUM} annotations, from which the given items are excluded. True labels narrow the interval of the
parameter and leave the error of the sample: coverage that was above 89% can then fall towards it.

## {FEW} known true labels in the fit

{table(head, rows_of(by_set, FEW, "with"))}

{sentence(few)}

## {MANY} known true labels: `crowdppl calibrate`, then the command that it proposes

{table(head, rows_of(by_set, MANY, "proposed"))}

{sentence(many)}

## What was compared

Two parts of the method, by coverage and the largest drop of a set in points. *Leaving each item out*: the parameters were learned
with the true labels, so draws are weighted to undo it. *Within crowds*: standard deviation of logit rho around the crowd's mean;
with the part between crowds it makes 3, the spread over public sets. With none of it, intervals take the mean of the crowd for
every worker, and are too narrow.

{table(columns, compared)}
"""
    results = {"repetitions": len(jobs) // len(sets), "few": few, "many": many, "runs": by_set}
    write("known_truths", "Known true labels in a fit", body, results, chosen, "calibration/known_truths")


if __name__ == "__main__":
    main()
