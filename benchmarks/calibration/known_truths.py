"""Known true labels in a fit: labels, and coverage of workers' intervals, on items whose true label was not given.

Writes docs/benchmarks/known-truths.md. `WITHIN` in crowdppl/inference/dependence/design_effect.py is chosen by its last tables,
and `WIDTHS` in crowdppl/inference/dependence/class_weights.py by those of labels.
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
from scipy.optimize import minimize
from scipy.special import log_softmax
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import fit, table, write
from default_model import GROUPS, known_classes, load

import crowdppl
from crowdppl import Annotations, Posterior, criticism
from crowdppl.cli.main import app
from crowdppl.errors import silent
from crowdppl.inference.dependence import class_weights, design_effect, known_truths
from crowdppl.inference.dependence.design_effect import DesignEffect
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
# What labels are compared by: a fit without the true labels, one in which they inform rho alone, one with weights of the classes
# of a single width of the prior, and of all; and the fit without them, calibrated after it.
KINDS = ("without", "rho alone", "width 0.5", "width 1", "with", "after")
NAMES = ("without", "rho alone", "one width, 0.5", "one width, 1", "**default**", "calibrated after the fit")
LABELS = ("hits", "log_loss", "ece")


def options() -> argparse.Namespace:
    """Read the options of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four small sets, to see that it runs; writes nothing")
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


def of_labels(probability: np.ndarray, known: np.ndarray) -> dict[str, float]:
    """Return accuracy, log loss and calibration error (ten bins) of items ``(n, K)`` with true classes ``(n,)``."""
    p = np.maximum(probability.astype(float), 1e-12)
    confidence, correct = p.max(1), p.argmax(1) == known
    place = np.minimum((confidence * 10).astype(int), 9)
    gaps = np.bincount(place, correct - confidence, 10)
    loss = -np.log(p[np.arange(len(p)), known]).mean()
    return {"hits": float(correct.mean()), "log_loss": float(loss), "ece": float(np.abs(gaps).sum() / len(p))}


def calibrated_after(posterior: Posterior, known: np.ndarray) -> np.ndarray:
    """Return the probabilities of a fit without true labels, with a slope and intercepts fitted to some, ``(N,)``.

    The slope has a normal prior with mean 1 and sd .5, intercepts one with mean 0 and sd 1.
    """
    logs = np.log(np.maximum(posterior.probability().astype(float), 1e-12))
    given = np.flatnonzero(known >= 0)

    def loss(x: np.ndarray) -> float:
        p = log_softmax(x[0] * logs[given] + x[1:], 1)
        return float(-p[np.arange(len(given)), known[given]].sum() + 2 * (x[0] - 1) ** 2 + (x[1:] ** 2).sum() / 2)

    x = minimize(loss, np.r_[1.0, np.zeros(logs.shape[1])]).x
    return np.exp(log_softmax(x[0] * logs + x[1:], 1))


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
    known = known_classes(data, truth)
    rng, public = np.random.default_rng([number, 1]), name in GROUPS["public"]
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
            if count == MANY and number == 0 and public
            else fit(informed, model, **more)[0]
        )
        with mock.patch.object(known_truths, "_weighing", lambda effect, *_: effect):
            runs["rho alone"], _ = fit(informed, model, **more)
        for width in (0.5, 1):
            with mock.patch.object(class_weights, "WIDTHS", (width,)):
                runs[f"width {width:g}"], _ = fit(informed, model, **more)
        rest = np.flatnonzero((known >= 0) & (given < 0))
        labels = {kind: of_labels(p.probability()[rest], known[rest]) for kind, p in runs.items()}
        labels["after"] = of_labels(calibrated_after(runs["without"], given)[rest], known[rest])
        for share in WITHIN if number == 0 and data.A <= LARGE and public else ():
            if share == design_effect.WITHIN:
                runs[f"within {share}"] = runs["with"]
                continue
            with mock.patch.object(design_effect, "WITHIN", share):
                runs[f"within {share}"], _ = fit(informed, model, **more)
        kept = {kind: p for kind, p in runs.items() if kind not in KINDS[1:4]}
        out[str(count)] = {kind: measured(p, truths, known) | rho_of(p) for kind, p in kept.items()} if public else {}
        out[str(count)]["labels"] = labels
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


def compare_labels(by_set: dict[str, list[dict[str, Any]]], count: int) -> str:
    """Return a table of accuracy and log loss of labels by set, and their means."""
    rows, means = [], []
    for name, runs in by_set.items():
        parts = [run[str(count)]["labels"] for run in runs if str(count) in run]
        if not parts:
            continue
        one = np.array([[np.mean([part[kind][what] for part in parts]) for what in LABELS] for kind in KINDS])
        means.append(one)
        rows.append([name, f"{len(parts)}", *(f"{hits:.3f}; {loss:.3f}" for hits, loss, _ in one)])
    total = np.mean(means, 0)
    rows.append([f"mean of {len(means)}", "", *(f"**{hits:.4f}; {loss:.4f}**" for hits, loss, _ in total)])
    rows.append(["calibration error", "", *(f"{error:.3f}" for _, _, error in total)])
    fallen = [f"{100 * min(one[k, 0] - one[0, 0] for one in means):.1f}" for k in range(len(KINDS))]
    rows.append(["largest change of accuracy, points", "", *fallen])
    return table(["set", "repetitions", *NAMES], rows)


def chosen_by_class(seeds: int) -> str:
    """Return a table of simulated crowds whose known items are chosen at random, or as many of each class.

    600 items with five labels each by 20 workers of accuracy .8 ± .08, in half of the crowds on items that differ in difficulty.
    """
    rows = []
    for spread in (0.0, 1.5):
        for share in (0.05, 0.15, 0.4):
            scores: dict[tuple[str, str], list[np.ndarray]] = {}
            for seed in range(seeds):
                g = np.random.default_rng(seed)
                truth = (g.random(600) < share).astype(int)
                item = np.repeat(np.arange(600), 5)
                worker = np.concatenate([g.choice(20, 5, replace=False) for _ in range(600)])
                accuracy = np.clip(g.normal(0.8, 0.08, 20), 0.55, 0.97)[worker]
                odds = np.log(accuracy / (1 - accuracy)) + (spread * g.normal(size=600))[item]
                label = np.where(g.random(3000) < 1 / (1 + np.exp(-odds)), truth[item], 1 - truth[item])
                data = Annotations.from_arrays(item, worker, label, labels=[0, 1])
                each = [g.choice(np.flatnonzero(truth == k), FEW // 2, replace=False) for k in (0, 1)]
                for how, chosen in {
                    "at random": g.choice(600, FEW, replace=False),
                    "by class": np.concatenate(each),
                }.items():
                    given = np.full(600, -1)
                    given[chosen] = truth[chosen]
                    informed, rest = replace(data, truth=torch.from_numpy(given)), np.flatnonzero(given < 0)
                    for kind, one in {"without": data, "rho alone": informed, "default": informed}.items():
                        off = {"side_effect": lambda effect, *_: effect} if kind == "rho alone" else {}
                        with mock.patch.object(known_truths, "_weighing", wraps=known_truths._weighing, **off):
                            p = crowdppl.fit(one, "item-effects", method="em", seed=0, num_samples=100).probability()
                        labels = of_labels(p[rest], truth[rest])
                        scores.setdefault((how, kind), []).append(np.array([labels["hits"], labels["log_loss"]]))
            cells = ["; ".join(f"{value:.3f}" for value in np.mean(one, 0)) for one in scores.values()]
            rows.append(["yes" if spread else "no", f"{share:.0%}", *cells])
    kinds = ("without", "rho alone", "default")
    return table(["difficult items", "share of the class", *kinds, *kinds], rows)


def main() -> None:
    """Repeat on every set, write the page."""
    chosen = options()
    with silent():
        sizes = {name: load(name)[0].A for group in ("public", "spammers", "judges") for name in GROUPS[group]}
        often = {name: chosen.slow if slow(load(name)[0]) else chosen.repetitions for name in sizes}
    sets = sorted(sizes, key=lambda name: (sizes[name] > LARGE, slow(load(name)[0]), sizes[name]))
    if chosen.quick:
        sets = [*[name for name in sets if name in GROUPS["public"]][:3], "judges-cebab-aspects"]
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
    measured_sets = {name: [done[job] for job in jobs if job[0] == name and job in done] for name in sets}
    by_set, others = (
        {n: runs for n, runs in measured_sets.items() if (n in GROUPS["public"]) == public} for public in (True, False)
    )
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
    widths = ", ".join(f"{width:g}" for width in class_weights.WIDTHS)
    missing = [name for name, runs in by_set.items() if not runs]
    left = f" Not measured: {', '.join(missing)}." if missing else ""
    body = f"""
{chosen.model} by {chosen.method}; {len(by_set) - len(missing)} public sets with known truth, of those of
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

## Labels

Accuracy; log loss of the evaluated items: of a fit without true labels; with them, where they inform rho alone; where they weigh
the classes as well, with one width of the prior, and with {widths}, the default; and of the fit without them, its
probabilities calibrated after it by a slope and intercepts (normal priors: 1 ± .5, 0 ± 1). Items that were given are not
evaluated. The widths were chosen on these sets, of some twenty variants: one width from .3 to 2, with and without a point at no
weights, weights that are tempered with the probabilities or not.

Crowds, {FEW} known true labels:

{compare_labels(by_set, FEW)}

Crowds, {MANY}:

{compare_labels(by_set, MANY)}

Panels of language models, and a crowd of spammers, {FEW}:

{compare_labels(others, FEW)}

The same, {MANY}:

{compare_labels(others, MANY)}

## How known items are chosen

Simulated crowds of 600 items, accuracy and log loss of the items not given: {FEW} known items chosen at random (first three
columns), or as many of each class (last three). The weights correct the default's estimate of a rare class where items are
chosen at random or by their labels. Items chosen by their true class say nothing of its share.

{chosen_by_class(2 if chosen.quick else 5)}

`fact-eval` shows it: 92% of its items of known truth are of one class, which 60% of all its items are by their labels. Labels of
items like the known ones gain 6 points, and the accuracies of workers, over all items, are then too low.

## Workers: {FEW} known true labels in the fit

{table(head, rows_of(by_set, FEW))}

{sentence(few)}

## Workers: {MANY} known true labels: `crowdppl calibrate`, then the command that it proposes

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
    results = {"few": few, "many": many, "runs": measured_sets}
    write("known_truths", "Known true labels in a fit", body, results, chosen, "calibration/known_truths")


if __name__ == "__main__":
    main()
