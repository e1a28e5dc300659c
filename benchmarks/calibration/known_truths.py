"""Known true labels in a fit: coverage of workers' intervals before and after, on items whose true label was not given.

Writes docs/benchmarks/known-truths.md. `WITHIN` in crowdppl/inference/design_effect.py is chosen by its last tables.
"""

from __future__ import annotations

import argparse
import functools
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
from common import fit, table, write
from default_model import GROUPS, load

import crowdppl
from crowdppl import Annotations, Posterior, criticism
from crowdppl.cli.main import app
from crowdppl.errors import silent
from crowdppl.inference import design_effect
from crowdppl.inference.design_effect import DesignEffect
from crowdppl.models import CATALOGUE
from crowdppl.posterior.known_truth import truth_indices

MINIMUM = 20  # annotations of evaluated items that a worker must have
FEW, MANY = 30, 100  # known true labels
# Shares of the variance of logit rho that are within crowds, compared in the first repetition.
WITHIN = (0.5, 0.7, 0.8, 0.9, 0.95)
# Sets with more annotations or classes are slow: fewer repetitions. The largest: fewer still.
ANNOTATIONS, CLASSES, LARGE = 20_000, 4, 30_000
OPTIONS: dict[str, dict[str, Any]] = {
    "em": {"num_samples": 200},
    "gibbs": {"chains": 2, "warmup": 200, "num_samples": 100},
    "svi": {"num_samples": 200},
}
# Completed repetitions, one per line, so that an interrupted run continues from there. Delete it to repeat all.
DONE = Path(__file__).parents[2] / "build" / "known_truths.jsonl"
SUMMED = ("share", "accuracy", "accuracy_all")  # counts of workers
DROP = 0.03  # of coverage, that a set is named for
MEANS = ("width", "log_loss", "ece", "expected_ece")


def options() -> argparse.Namespace:
    """Read the options of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three small sets, to see that it runs; writes nothing")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder [docs/benchmarks]")
    parser.add_argument("--repetitions", type=int, default=20, help="random choices of known items per set [20]")
    parser.add_argument(
        "--slow", type=int, default=4, help=f"above {ANNOTATIONS:,} annotations or {CLASSES} classes [4]"
    )
    parser.add_argument("--large", type=int, default=1, help=f"above {LARGE:,} annotations [1]")
    parser.add_argument("--model", default="item-effects", help="[item-effects]")
    parser.add_argument("--method", default="em", choices=sorted(OPTIONS), help="[em]")
    parser.add_argument("--processes", type=int, default=2, help="at a time [2]")
    parser.add_argument("--write", action="store_true", help="write the page from the completed repetitions")
    return parser.parse_args()


def expected_ece(posterior: Posterior, items: np.ndarray) -> float:
    """Return the calibration error of the same probabilities if they were calibrated: mean over 200 draws of true labels."""
    p = posterior.probability()[items].astype(float)
    confidence = p.max(1)
    place = np.minimum((confidence * 10).astype(int), 9)
    hit = np.random.default_rng(0).random((200, len(p))) < confidence
    gaps = [np.abs((hit - confidence)[:, place == b].sum(1)) for b in np.unique(place)]
    return float(np.sum(gaps, 0).mean() / len(p))


def measured(posterior: Posterior, truths: dict[Any, Any], known: np.ndarray) -> dict[str, Any]:
    """Count covered workers; take widths, log loss and calibration error.

    Args:
        posterior: of the fit.
        truths: true labels of the evaluated items.
        known: true classes of all items, the given ones included, ``(N,)``; -1 where unknown.
    """
    workers = criticism.coverage(posterior, truths, minimum=MINIMUM).workers
    item, worker, label = (index[known[posterior.annotation_index()[0]] >= 0] for index in posterior.annotation_index())
    names = posterior.worker_names()
    correct = np.bincount(worker, known[item] == label, len(names)) / np.maximum(
        np.bincount(worker, minlength=len(names)), 1
    )
    share = workers["worker"].map(dict(zip(names, correct, strict=True))).astype(float)
    calibration = criticism.calibration(posterior, truths)
    return {
        "workers": len(workers),
        "share": int(workers["share_correct_covers"].sum()),
        "accuracy": int(workers["accuracy_covers"].sum()),
        "accuracy_all": int(((workers["accuracy_low"] <= share) & (share <= workers["accuracy_high"])).sum()),
        "width": float((workers["share_correct_high"] - workers["share_correct_low"]).mean()),
        "log_loss": calibration.log_loss,
        "ece": calibration.ece,
        "expected_ece": expected_ece(posterior, truth_indices(posterior, truths) >= 0),
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
        posterior = crowdppl.load(place / "results" / "posterior.nc")
        posterior.tree.load()  # the folder is deleted
        return posterior


def slow(data: Annotations) -> bool:
    """Return whether a set has fewer repetitions."""
    return data.A > ANNOTATIONS or data.K > CLASSES


@functools.lru_cache(maxsize=64)
def uninformed(name: str, model: str, method: str) -> Posterior:
    """Fit one set without true labels; the same for all repetitions."""
    return fit(load(name)[0], model, method=method, seed=0, independent=False, **OPTIONS[method])[0]


def repetition(job: tuple[str, int, str, str]) -> dict[str, Any]:
    """Fit one set without and with true labels of random items; what was measured, by number of them.

    In the first repetition 100 true labels are given by the commands; in the others by a fit with the same options, which is
    what the proposed command runs.
    """
    name, number, model, method = job
    torch.set_num_threads(1)
    with silent():
        data, truth = load(name)
    codes = {str(label): k for k, label in enumerate(data.labels.tolist())}
    known = np.array([codes.get(truth.get(str(item), ""), -1) for item in data.items.tolist()])
    rng = np.random.default_rng([number, 1])
    out: dict[str, Any] = {"set": name, "repetition": number, "model": model, "method": method, "annotations": data.A}
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
        more = {"method": method, "seed": number, "independent": False, **OPTIONS[method]}
        runs = {"without": uninformed(name, model, method)}
        runs["with"] = (
            proposed(data, gold, model, method, number)
            if count == MANY and number == 0
            else fit(informed, model, **more)[0]
        )
        for share in WITHIN if number == 0 and data.A <= LARGE else ():
            if share == design_effect.WITHIN:
                runs[f"within {share}"] = runs["with"]
                continue
            with mock.patch.object(design_effect, "WITHIN", share):
                runs[f"within {share}"], _ = fit(informed, model, **more)
        out[str(count)] = {kind: measured(p, truths, known) | rho_of(p) for kind, p in runs.items()}
    return out


def rho_of(posterior: Posterior) -> dict[str, float]:
    """Return mean and standard deviation of logit rho on average of the crowd, where true labels informed it."""
    truths = (posterior.info["rho"] or {}).get("truths")
    return {} if truths is None else {"rho": truths["crowd_mean"], "rho_sd": truths["crowd_spread"]}


def mean(runs: list[dict[str, Any]], count: int, kind: str, what: str) -> float:
    """Mean over repetitions; of coverage, over workers as well."""
    parts = [run[str(count)][kind] for run in runs if kind in run.get(str(count), {})]
    if what in SUMMED:
        workers = sum(part["workers"] for part in parts)
        return sum(part[what] for part in parts) / workers if workers else math.nan
    values = [part[what] for part in parts if what in part]
    return float(np.nanmean(values)) if len(values) and not np.isnan(values).all() else math.nan


def rows_of(by_set: dict[str, list[dict[str, Any]]], count: int) -> list[list[Any]]:
    """Return a row for each set: coverage before and after, width, log loss, calibration error and rho."""
    rows = []
    for name, runs in by_set.items():
        runs = [run for run in runs if str(count) in run]
        if not runs:
            continue
        pairs = {what: [mean(runs, count, kind, what) for kind in ("without", "with")] for what in (*SUMMED, *MEANS)}
        cells = [
            "–" if math.isnan(b) else f"{b:.2f} → {a:.2f}" for b, a in (pairs[what] for what in (*SUMMED, "width"))
        ]
        cells += [f"{b:.3f} → {a:.3f}" for b, a in (pairs[what] for what in ("log_loss", "ece"))]
        rho = f"{mean(runs, count, 'with', 'rho'):.2f} ± {mean(runs, count, 'with', 'rho_sd'):.2f}"
        workers = mean(runs, count, "without", "workers")
        expected = f"{pairs['expected_ece'][1]:.3f}"
        rows.append([name, f"{runs[0]['annotations']:,}", f"{len(runs)}", f"{workers:.0f}", *cells, expected, rho])
    return rows


def summary(by_set: dict[str, list[dict[str, Any]]], count: int, after: str = "with") -> dict[str, Any]:
    """Return means over sets before and after, pooled coverage, and sets of low coverage or coverage that falls."""
    by_set = {name: [run for run in runs if after in run.get(str(count), {})] for name, runs in by_set.items()}
    out: dict[str, Any] = {}
    for what in (*SUMMED, *MEANS):
        pairs = {name: [mean(runs, count, kind, what) for kind in ("without", after)] for name, runs in by_set.items()}
        pairs = {name: pair for name, pair in pairs.items() if not np.isnan(pair).any()}
        out[what] = np.mean(list(pairs.values()), 0).tolist()
        if what in SUMMED:
            # Each set weighs as many workers as it has, whatever its number of repetitions.
            weight = {name: mean(by_set[name], count, after, "workers") for name in pairs}
            out[f"{what}_pooled"] = [
                float(np.average([p[k] for p in pairs.values()], weights=list(weight.values()))) for k in (0, 1)
            ]
            fallen = {name: pair[0] - pair[1] for name, pair in pairs.items()}
            out[f"{what}_drop"] = {name: drop for name, drop in fallen.items() if drop > DROP}
            out[f"{what}_worst"] = [max(fallen.values()), max(fallen, key=fallen.__getitem__)]
            out[f"{what}_low"] = {name: pair[1] for name, pair in pairs.items() if pair[1] < 0.6}
    return out


def main() -> None:
    """Repeat on every set, write the page."""
    chosen = options()
    with silent():
        sizes = {name: load(name)[0].A for name in GROUPS["public"]}
        often = {name: chosen.slow if slow(load(name)[0]) else chosen.repetitions for name in sizes}
    sets = sorted(sizes, key=lambda name: (sizes[name] > LARGE, slow(load(name)[0]), sizes[name]))[
        : 3 if chosen.quick else None
    ]
    often = {name: 2 if chosen.quick else chosen.large if sizes[name] > LARGE else often[name] for name in sets}
    jobs = [(s, r, chosen.model, chosen.method) for r in range(max(often.values())) for s in sets if r < often[s]]
    DONE.parent.mkdir(exist_ok=True)
    lines = DONE.read_text().splitlines() if DONE.exists() and not chosen.quick else []
    key = ("set", "repetition", "model", "method")
    done = {tuple(run[part] for part in key): run for run in map(json.loads, lines)}
    with ProcessPoolExecutor(chosen.processes) as pool, DONE.open("a", encoding="utf-8") as kept:
        for run in pool.map(repetition, [] if chosen.write else [job for job in jobs if job not in done]):
            done[tuple(run[part] for part in key)] = run
            if not chosen.quick:
                kept.write(json.dumps(run) + "\n")
                kept.flush()
            print(run["set"], run["repetition"], flush=True)
    by_set = {name: [done[job] for job in jobs if job[0] == name and job in done] for name in sets}
    head = ["set", "annotations", "repetitions", "workers", "share correct covered", "accuracy covered"]
    head += ["accuracy covered, all known items", "width"]
    head += ["log loss", "calibration error", "if calibrated", "logit rho"]
    few, many = summary(by_set, FEW), summary(by_set, MANY)
    residual = CATALOGUE[chosen.model].residual_rho
    prior = DesignEffect.of_crowds(residual, 1.0)
    less = " less the log of the annotations an item" if residual else ""
    before = f"{prior.mean:g}{less}, ± {prior.crowd_mean_sd[1]:.2f}"

    def pair(one: dict[str, Any], what: str) -> str:
        return f"{one[what][0]:.3f} → {one[what][1]:.3f}"

    measures = {"share": "share correct", "accuracy": "accuracy", "accuracy_all": "accuracy on all known items"}

    def named(one: dict[str, Any], what: str) -> str:
        return "; ".join(
            f"{words}: {', '.join(f'{name} {value:.2f}' for name, value in one[f'{kind}_{what}'].items()) or 'none'}"
            for kind, words in measures.items()
        )

    def sentence(one: dict[str, Any]) -> str:
        pairs = ", ".join(f"{words} {pair(one, what)}" for what, words in measures.items())
        pooled = ", ".join(f"{words} {pair(one, f'{what}_pooled')}" for what, words in measures.items())
        worst = ", ".join(
            f"{100 * one[f'{what}_worst'][0]:.1f} points of the {words} ({one[f'{what}_worst'][1]})"
            for what, words in measures.items()
        )
        return (
            f"Mean over sets: {pairs}, width {pair(one, 'width')}, "
            f"log loss {pair(one, 'log_loss')}, calibration error {pair(one, 'ece')} "
            f"(if calibrated: {one['expected_ece'][1]:.3f}). Over all workers: {pooled}. "
            f"Largest drop of a set: {worst}. Sets with a drop of more than {100 * DROP:g} points: {named(one, 'drop')}. "
            f"Sets below .60 with the true labels: {named(one, 'low')}."
        )

    def compared(count: int) -> str:
        rows = []
        for share in WITHIN:
            one = summary(by_set, count, f"within {share}")
            figures = [one[what][1] for what in ("share", "accuracy", "accuracy_all", "width", "log_loss", "ece")]
            fallen = " / ".join(str(len(one[f"{what}_drop"])) for what in measures)
            low = " / ".join(str(len(one[f"{what}_low"])) for what in measures)
            rows.append([f"{share:g}", *(f"{value:.3f}" for value in figures), fallen, low])
        return table(columns, rows)

    columns = ["share within", "share correct", "accuracy", "accuracy, all known items", "width", "log loss"]
    columns += ["calibration error", f"sets that lose more than {100 * DROP:g} points", "sets below .60"]
    missing = [name for name, runs in by_set.items() if not runs]
    left = f" Not measured: {', '.join(missing)}." if missing else ""
    body = f"""
{chosen.model} by {chosen.method}; {len(sets) - len(missing)} public sets with known truth, of those of
[the default model](default-model.md).{left}
*Repetitions*: choices of known items at random; fewer where a set has more than {ANNOTATIONS:,} annotations or {CLASSES} classes,
since its fits take long. Workers with at least {MINIMUM} annotations of evaluated items: those whose true label is known, but was
not given. Coverage of 89% intervals, of the share of a worker's annotations that are correct and of the accuracy, over all
workers and repetitions of a set; *width* is that of the interval of the share; *log loss* and *calibration error* (ten bins) are
those of the evaluated items; *if calibrated* is the calibration error that calibrated probabilities would have on as many items;
*logit rho* is mean ± sd of the crowd's mean given the true labels (before: {before}). Before and after are the same fit without
and with the true labels, both with default options.

The share of correct annotations on evaluated items is what its interval is about. The accuracy is a parameter, and that share a
sample of it, of as few as {MINIMUM} annotations, from which the given items are excluded. True labels narrow the interval of the
parameter and leave the error of the sample: coverage that was above 89% can then fall towards it. *All known items* compares the
interval of the accuracy with the share over all items of known truth, the given ones included, both before and after.

## {FEW} known true labels in the fit

{table(head, rows_of(by_set, FEW))}

{sentence(few)}

## {MANY} known true labels: `crowdppl calibrate`, then the command that it proposes

Sets with at least {2 * MANY} known true labels. The commands run in the first repetition; the others run the fit that the
proposed command is.

{table(head, rows_of(by_set, MANY))}

{sentence(many)}

## What was compared

The share of the variance of logit rho that is within crowds; the rest of {prior.spread:g}², the variance over public sets, is
between crowds and is what true labels move. First repetition, sets with at most {LARGE:,} annotations. With
little within crowds, draws take nearly the mean of the crowd for every worker, and intervals are too narrow; with much, true
labels change little. Sets that lose coverage, and sets below .60: of the share, the accuracy, and the accuracy on all known
items.

{FEW} true labels:

{compared(FEW)}

{MANY} true labels:

{compared(MANY)}
"""
    results = {"few": few, "many": many, "runs": by_set}
    write("known_truths", "Known true labels in a fit", body, results, chosen, "calibration/known_truths")


if __name__ == "__main__":
    main()
