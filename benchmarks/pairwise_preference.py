"""Pairwise preference on public verdicts of language models on pairs: labels, position effects, accuracy of judges, strengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, fit, table, write
from scipy.optimize import minimize

from crowdppl import Annotations, Posterior
from crowdppl.data import datasets
from crowdppl.models import PairwisePreference

KNOWN, REPETITIONS = 100, 5
ORDERED, JUDGES = "a worker for each judge and order", "a worker for each judge"
# Of judges-llmbar: the row of the table, the model, and the workers.
METHODS: dict[str, tuple[Any, str]] = {
    "pairwise preference": (PairwisePreference(), ORDERED),
    f"Dawid–Skene, {ORDERED}": ("dawid-skene", ORDERED),
    f"Dawid–Skene, {JUDGES}": ("dawid-skene", JUDGES),
    f"one coin, {JUDGES}": ("one-coin", JUDGES),
    f"item effects, {JUDGES}": ("item-effects", JUDGES),
}


def read(name: str) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the rows of a set, and its truth by item."""
    folder = Path(datasets.folder()) / name
    rows = pd.read_csv(folder / "annotations.csv.gz")
    return rows, pd.read_csv(folder / "truth.csv").set_index("item")["label"]


def vote_accuracy(rows: pd.DataFrame, truth: pd.Series[Any]) -> float:
    """Return the accuracy of the majority vote, ties split evenly."""
    votes = pd.crosstab(rows["item"], rows["label"]).loc[truth.index]
    top = votes.eq(votes.max(axis=1), axis=0)
    return float(np.mean([top.loc[i, k] / top.loc[i].sum() for i, k in truth.items()]))


def accuracy(posterior: Posterior, truth: pd.Series[Any]) -> float:
    """Return the accuracy of the labels on some items."""
    labels = posterior.truth().set_index(posterior.item_column)["label"]
    return float((labels.loc[truth.index] == truth).mean())


def ordered_workers(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the features of workers, each a judge in one order: the order, and the judge one-hot."""
    each = rows.drop_duplicates("ordered").set_index("ordered")
    order = each["swapped"].map({0: 1.0, 1: -1.0}).rename("order")
    return pd.concat([order, pd.get_dummies(each["worker"]).astype(float)], axis=1)


def llmbar(repetitions: int, results: dict[str, Any]) -> str:
    """Measure judges-llmbar, with and without known truths."""
    rows, truth = read("judges-llmbar")
    rows["ordered"] = rows["worker"] + " " + rows["swapped"].astype(str)
    features = ordered_workers(rows)
    kept: dict[str, list[float]] = {name: [] for name in ("majority vote, ties split", *METHODS)}
    blind, quality = dict.fromkeys(kept, 0.0), []
    correct = (rows["label"] == rows["item"].map(truth)).groupby(rows["ordered"]).mean()
    for seed in range(-1, repetitions):
        known = truth.iloc[:0] if seed < 0 else truth.sample(KNOWN, random_state=seed)
        rest = truth.drop(known.index)
        accuracies = {"majority vote, ties split": vote_accuracy(rows, rest)}
        for name, (model, workers) in METHODS.items():
            data = Annotations.from_frame(
                rows[["item", "label"]].assign(worker=rows["ordered" if workers == ORDERED else "worker"]),
                labels=[1, 2],
                truth=known.to_dict(),
                worker_features=features if isinstance(model, PairwisePreference) else None,
            )
            posterior, _ = fit(data, model, method="em", seed=0, independent=False)
            accuracies[name] = accuracy(posterior, rest)
            if isinstance(model, PairwisePreference) and seed <= 0:
                published, _ = fit(data, model, method="em", seed=0)
                for which, one in (("allowing for correlation", posterior), ("as published", published)):
                    by = one.workers().set_index("worker").loc[correct.index]
                    inside = (by["accuracy_low"] <= correct) & (correct <= by["accuracy_high"])
                    quality.append([len(known), which, by["accuracy"].mean(), correct.mean(), inside.mean()])
            if isinstance(model, PairwisePreference) and seed < 0:
                position = position_effects(rows, posterior, list(features.columns[1:]))
        for name, value in accuracies.items():
            if seed < 0:
                blind[name] = value
            else:
                kept[name].append(value)
        print(seed, accuracies, flush=True)
    results["llmbar"] = {"none known": blind, f"{KNOWN} known": kept, "position": position, "judges": quality}
    return (
        f"Accuracy on `judges-llmbar`; with {KNOWN} known truths, on the other items, mean of {repetitions} choices.\n\n"
        + table(["method", "none known", f"{KNOWN} known"], [[n, blind[n], float(np.mean(kept[n]))] for n in kept])
        + "\n\nPosition effects by judge: "
        + ", ".join(f"{name} {value:.3f}" for name, value in position.items())
        + ".\n\nAccuracy of judges in one order, mean, and share of the 89% intervals that contain it.\n\n"
        + table(
            ["known truths", "intervals", "estimated", "by the truth", "contained"],
            [[str(q[0]), *q[1:]] for q in quality],
        )
    )


def position_effects(rows: pd.DataFrame, posterior: Posterior, judges: list[str]) -> dict[str, float]:
    """Compare estimates with the share of verdicts for the answer shown first minus that for the other."""
    first = (rows["label"] == 1) == (rows["swapped"] == 0)
    share = 2 * first.groupby(rows["worker"]).mean().loc[judges].to_numpy() - 1
    draws = posterior.tree["posterior"]["position_effect"]
    low, high = draws.quantile([0.055, 0.945], ("chain", "draw")).values
    return {
        "lowest": float(share.min()),
        "highest": float(share.max()),
        "median size": float(np.median(np.abs(share))),
        "largest difference of the estimate": float(np.abs(draws.mean(("chain", "draw")).values - share).max()),
        "share of intervals without 0": float(((low > 0) | (high < 0)).mean()),
    }


def mtbench(quick: bool, results: dict[str, Any]) -> str:
    """Measure judges-mtbench-alttest, whose systems are known; people are no workers, since the truth is theirs."""
    rows, truth = read("judges-mtbench-alttest")
    rows = rows[rows["kind"] == "llm"]
    items = pd.read_csv(Path(datasets.folder()) / "judges-mtbench-alttest" / "items.csv").set_index("item")
    systems = sorted({*items["a"], *items["b"]})
    contrasts = pd.DataFrame(
        {s: (items["a"] == s) * 0.5 - (items["b"] == s) * 0.5 for s in systems}, index=items.index
    ).loc[rows["item"].unique()]
    labels = ["model_a", "model_b", "tie"]
    accuracies = {"majority vote, ties split": vote_accuracy(rows, truth)}
    for name, model, features, methods in (
        ("pairwise preference", PairwisePreference(), contrasts, ("em", "svi", "nuts")),
        ("without strengths", PairwisePreference(), None, ("em", "svi", "nuts")),
        ("Dawid–Skene", "dawid-skene", None, ("em", "gibbs")),
        ("item effects", "item-effects", None, ("em",)),
    ):
        data = Annotations.from_frame(rows[["item", "worker", "label"]], labels=labels, features=features)
        for method in methods[:1] if quick else methods:
            posterior, _ = fit(data, model, method=method, seed=0, independent=False)
            accuracies[f"{name}, {method}"] = accuracy(posterior, truth)
            if features is not None and method == "em":
                draws = posterior.tree["posterior"]["centred_strength"]
                strength = [draws.mean(("chain", "draw")).values, draws.std(("chain", "draw")).values]
                label = posterior.truth().set_index("item")["label"].loc[truth.index]
                ties = {"people": int((truth == "tie").sum()), "the model": int((label == "tie").sum())}
    ties["share of verdicts"] = float((rows["label"] == "tie").mean())
    strength.append(bradley_terry(rows[rows["label"] != "tie"].join(items, on="item"), systems))
    results["mtbench"] = {
        "accuracy": accuracies,
        "ties": ties,
        "strengths": dict(zip(systems, zip(*strength, strict=True), strict=True)),
    }
    return (
        f"`judges-mtbench-alttest`: language models as workers, accuracy on {len(truth)} pairs with a majority of people.\n\n"
        + table(["method", "accuracy"], [list(row) for row in accuracies.items()])
        + f"\n\nTies on these pairs: {ties['people']} of people, {ties['the model']} of the model by EM; "
        f"{ties['share of verdicts']:.0%} of all verdicts.\n\nStrengths by EM, and those of Bradley and Terry's model by maximum "
        "likelihood for the pooled verdicts other than ties.\n\n"
        + table(
            ["system", "strength", "sd", "Bradley–Terry"],
            sorted(
                ([s, *map(float, row)] for s, *row in zip(systems, *strength, strict=True)), key=lambda row: -row[1]
            ),
        )
    )


def bradley_terry(verdicts: pd.DataFrame, systems: list[str]) -> np.ndarray[Any, Any]:
    """Return centred strengths that maximise the likelihood of the verdicts."""
    place = {system: number for number, system in enumerate(systems)}
    a, b = (verdicts[side].map(place).to_numpy() for side in ("a", "b"))
    sign = np.where(verdicts["label"] == "model_a", 1, -1)
    # A tiny ridge fixes the constant that the likelihood leaves open.
    s = minimize(lambda s: np.logaddexp(0, -sign * (s[a] - s[b])).sum() + 1e-6 * (s**2).sum(), np.zeros(len(place))).x
    return np.asarray(s - s.mean())


def main() -> None:
    """Measure both sets and write the page."""
    options = arguments(__doc__ or "")
    results: dict[str, Any] = {}
    body = llmbar(1 if options.quick else REPETITIONS, results) + "\n\n" + mtbench(options.quick, results)
    write("pairwise_preference", "Pairwise preference", body, results, options)


if __name__ == "__main__":
    main()
