"""Accuracy against annotations per item of votes, models and two-stage classifiers, beside Table 2 of the LIA paper."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from baselines import save
from common import arguments, fit, spread, table, write
from lia import overlap, similarity
from records import folder_of, load

from crowdppl import Annotations, CrowdpplWarning, aggregate, learning
from crowdppl.data import datasets
from crowdppl.learning import Training
from crowdppl.metrics import RedundancyCurve, redundancy_curve

DRAWS, TRAINED_DRAWS = 50, 10  # of methods without and with a network
STARTS = 5  # of a network with all annotations
EMBEDDING = 16
STEPS = 2000  # gradient steps of a network
# Table 2 of the LIA paper, per cent, by set and method, in the order of LEVELS.
LEVELS = {"Blue Birds": (2, 5, 10, 20, 39), "RTE": (2, 5, 10), "Word Similarity": (2, 5, 10)}
PAPER = {
    "Blue Birds": {
        "majority": "63.9 71.1 74.4 76.4 75.9",
        "vote shares, embeddings (MAJ*-E)": "64.4 70.9 75.9 76.2 78.4",
        "minimax entropy": "66.9 73.9 76.5 78.5 79.6",
        "minimax entropy, embeddings (MMCE*-E)": "63.2 74.2 76.9 77.7 78.8",
    },
    "RTE": {
        "majority": "72.8 84.8 90.0",
        "vote shares, embeddings (MAJ*-E)": "72.8 84.0 90.4",
        "vote shares, features (MAJ*)": "74.5 84.8 89.9",
        "minimax entropy": "75.3 88.5 92.7",
        "minimax entropy, embeddings (MMCE*-E)": "77.3 88.9 92.7",
        "minimax entropy, features (MMCE*)": "73.2 85.3 87.1",
    },
    "Word Similarity": {
        "majority": "82.8 87.1 88.6",
        "vote shares, embeddings (MAJ*-E)": "87.2 91.4 93.3",
        "minimax entropy": "80.1 87.0 90.2",
        "minimax entropy, embeddings (MMCE*-E)": "79.3 84.4 80.0",
    },
}
SIMPLE: dict[str, Any] = {
    "majority": aggregate.majority,
    "Dawid–Skene": "dawid-skene",
    "GLAD": "glad",
    "minimax entropy": "minimax-entropy",
    "minimax entropy, stopped after two E steps": lambda data: fit(
        data, "minimax-entropy", method="em", num_samples=2, max_iter=2
    )[0],
}


def trained(
    model: str | None, features: pd.DataFrame | None, seed: int = 0
) -> Callable[[Annotations], learning.Classifier]:
    """Return a two-stage method: votes or a model, then a classifier of features or of item embeddings."""

    def method(data: Annotations) -> learning.Classifier:
        training = Training(epochs=-(-STEPS // -(-data.N // Training().batch_size)))
        target: Any = aggregate.vote_shares(data)
        if model is not None:
            target, _ = fit(data, model, method="em", num_samples=2)
        if features is None:
            return learning.two_stage(data, target, embedding=EMBEDDING, training=training, seed=seed)
        given = data.with_features(features.loc[data.items]).to(dtype=torch.float32)
        return learning.two_stage(given, target, training=training, seed=seed)

    return method


def networks(features: pd.DataFrame | None, seed: int = 0) -> dict[str, Any]:
    """Return the two-stage methods for a set with or without features."""
    out: dict[str, Any] = {}
    for name, model in (("vote shares", None), ("minimax entropy", "minimax-entropy")):
        short = "MAJ*" if model is None else "MMCE*"
        out[f"{name}, embeddings ({short}-E)"] = trained(model, None, seed)
        if features is not None:
            out[f"{name}, features ({short})"] = trained(model, features, seed)
    return out


def curve(
    data: Annotations, truth: pd.Series, levels: tuple[int, ...], features: pd.DataFrame | None, quick: bool
) -> RedundancyCurve:
    """Return the curves of all methods; all see the same subsets."""
    parts = []
    for methods, draws in ((SIMPLE, DRAWS), (networks(features), TRAINED_DRAWS)):
        parts.append(redundancy_curve(data, truth, methods, levels, draws=2 if quick else draws))
    return RedundancyCurve(*(pd.concat([getattr(p, name) for p in parts]) for name in ("table", "draws")))


def starts(
    data: Annotations, truth: pd.Series, level: int, features: pd.DataFrame | None, quick: bool
) -> dict[str, list[float]]:
    """Return the accuracies of methods with a network from several starts, with all annotations."""
    out: dict[str, list[float]] = {}
    for seed in range(2 if quick else STARTS):
        one = redundancy_curve(data, truth, networks(features, seed), (level,), draws=1).table
        for method, accuracy in zip(one.method, one.accuracy, strict=True):
            out.setdefault(method, []).append(float(accuracy))
    return out


def with_starts(table: pd.DataFrame, accuracies: dict[str, list[float]], level: int) -> pd.DataFrame:
    """Return a table of a curve with means over starts where all annotations are kept."""
    out = table.copy()
    for method, values in accuracies.items():
        row = (out.method == method) & (out.per_item == level)
        error = np.std(values, ddof=1) / len(values) ** 0.5
        out.loc[row, ["accuracy", "error", "draws"]] = [np.mean(values), error, len(values)]
    return out.astype({"draws": int})


def block(name: str, result: pd.DataFrame) -> str:
    """Return the table of a set, ours with standard errors beside the paper's."""
    levels, rows = LEVELS[name], []
    for method, own in result.groupby("method", sort=False):
        by = own.set_index("per_item")
        cells = [f"{100 * by.accuracy[r]:.1f} ± {100 * np.nan_to_num(by.error[r]):.1f}" for r in levels]
        rows.append([f"{method}, here", *cells])
        if (paper := PAPER[name].get(str(method))) is not None:
            rows.append([f"{method}, paper", *paper.split()])
    return table(["accuracy", *(f"r = {r}" for r in levels)], rows)


def draw(curves: dict[str, RedundancyCurve]) -> None:
    """Draw the curves of all sets."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
    for ax, (name, result) in zip(axes, curves.items(), strict=True):
        result.plot(ax)
        ax.set_title(name, fontsize=10)
        ax.get_legend().remove()
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=7)
    save(figure, "paper-redundancy.png")


def main() -> None:
    """Measure the parts asked for, all by default, and write the page from the figures of both."""
    options = arguments(__doc__ or "", parts=("curves", "starts"))
    parts = ("curves", "starts") if options.only is None else options.only
    story = None if "curves" in parts else load("paper_redundancy", folder_of(options.out))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        birds, rte = datasets.public("bluebirds"), datasets.public("rte")
        words, positive = similarity()
        sets = {
            "Blue Birds": (*birds, None),
            "RTE": (*rte, overlap()),
            "Word Similarity": (words, pd.Series(positive, words.items), None),
        }
        results = {name: pd.DataFrame(one) for name, one in story["results"].items()} if story else {}
        curves = {}
        for name, (data, truth, features) in sets.items():
            if "curves" in parts:
                curves[name] = curve(data, truth, LEVELS[name], features, options.quick)
                results[name] = curves[name].table
            if "starts" in parts:
                level = max(LEVELS[name])
                values = starts(data, truth, level, features, options.quick)
                results[name] = with_starts(results[name], values, level)
                print(name, {method: spread(one) for method, one in values.items()})
            print(name, f"{time.perf_counter() - began:.0f} s", flush=True)
    if curves:
        draw(curves)
    body = f"""Each item keeps r annotations, chosen at random; all methods see the same subsets. Per cent, mean and standard
error over {DRAWS} draws, {TRAINED_DRAWS} for methods that train a network; where r keeps everything one, and {STARTS} starts of a
network.

![Accuracy against annotations per item on three sets](../images/paper-redundancy.png)

Starred methods train a classifier on the vote shares or on the posterior of minimax entropy by {STEPS:,} gradient steps, and
are judged on the items that they were trained on. *Embeddings*: a learned vector of {EMBEDDING} numbers for each item in place
of features. *Features*: for RTE the {overlap().shape[1]} of ours (word overlap, lengths, negation, numbers, task), in place of
the paper's; they separate the classes poorly, and the classifier, not the votes, decides. The images of Blue Birds and
the words of Word Similarity have no features here, so that their rows with features are missing.
Snorkel and MeTaL, and these methods in the form of the authors' program: [the authors' programs](paper-programs.md).

Minimax entropy has no preference for the label that names the class. With two annotations an item its likelihood keeps
rising while the classes move away from the votes, at which EM starts; stopped after two E steps it has not left them yet.
From five annotations an item on, the two agree.

{"".join(f"## {name}{chr(10) * 2}{block(name, result)}{chr(10) * 2}" for name, result in results.items())}"""
    stored = {name: result.to_dict("records") for name, result in results.items()}
    write(
        "paper_redundancy", "Accuracy against annotations per item", body, stored, options, script="papers/redundancy"
    )


if __name__ == "__main__":
    main()
