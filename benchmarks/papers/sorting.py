"""Describing a crowd and sorting its workers, on CIFAR-10S and on the label counts of CIFAR-10H."""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from baselines import save
from common import arguments, fit, table, write
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from crowdppl import Annotations, CrowdpplWarning
from crowdppl.data import datasets
from crowdppl.posterior.workers import gold_accuracy

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
OBVIOUS = 0.95  # agreement in CIFAR-10H from which an image is a gold question
GOLD = 0.75  # share correct of the attention checks below which CIFAR-10H dropped a worker
SORTED = ("gold questions", "spammer score", "mean diagonal", "median seconds")
BLUE, GREY, RED = "#3b6ea8", "#999999", "#b03a2e"


def shares(data: Annotations) -> np.ndarray:
    """Return the naive soft labels ``(N, K)``, the shares of the votes."""
    counts = np.zeros((data.N, data.K))
    weight = np.ones(data.A) if data.weight is None else data.weight.numpy()
    np.add.at(counts, (data.item.numpy(), data.label.numpy()), weight)
    return counts / counts.sum(1, keepdims=True)


def bits(p: np.ndarray) -> np.ndarray:
    """Return the entropy of each row in bits."""
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(1)


def fence(values: np.ndarray) -> float:
    """Return the lower fence of a box plot, 1.5 interquartile ranges below the first quartile."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(low - 1.5 * (high - low))


def histogram(ax: Axes, values: np.ndarray, label: str, count: str, line: float | None = None) -> None:
    """Draw a histogram, with a threshold."""
    discrete = np.issubdtype(values.dtype, np.integer)
    edges = np.arange(values.min(), values.max() + 2) - 0.5 if discrete and np.ptp(values) < 40 else 30
    ax.hist(values, bins=edges, color=BLUE)
    if line is not None:
        ax.axvline(line, color=RED, lw=1.2, ls="--")
    ax.set_xlabel(label, fontsize=8)
    ax.set_ylabel(count, fontsize=8)
    ax.tick_params(labelsize=7)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def matrices(shown: dict[str, np.ndarray]) -> None:
    """Draw confusion matrices side by side."""
    figure, axes = plt.subplots(1, len(shown), figsize=(11, 3.4), layout="constrained")
    for ax, (title, matrix) in zip(axes, shown.items(), strict=True):
        heat = ax.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        ax.set_title(title, fontsize=8)
        ax.set_xlabel("given label", fontsize=8)
        ax.set_xticks(range(10), CLASSES, rotation=90, fontsize=6)
        ax.set_yticks(range(10), CLASSES if ax is axes[0] else [], fontsize=6)
    axes[0].set_ylabel("true label", fontsize=8)
    figure.colorbar(heat, ax=axes, shrink=0.7).ax.tick_params(labelsize=7)
    save(figure, "paper-sorting-confusion.png")


def average(votes: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the mean of the soft labels of the items of each class ``(K, K)``."""
    return np.stack([votes[truth == k].mean(0) for k in range(10)])


def main() -> None:
    """Draw the figures and write the page."""
    options = arguments(__doc__ or "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        crowd, classes = datasets.public("cifar10h-counts")
        folder = datasets.folder()
        assert folder is not None
        frame = pd.read_csv(folder / "cifar10s" / "annotations.csv.gz")
        frame["seconds"] = frame["time_ms"] / 1000
        data = Annotations.from_frame(frame, seconds="seconds")
    votes = {"CIFAR-10S": shares(data), "CIFAR-10H": shares(crowd)}
    feedback = {name: d.annotations_per_item.numpy() for name, d in (("CIFAR-10S", data), ("CIFAR-10H", crowd))}
    entropy = {name: bits(v) for name, v in votes.items()}
    load = data.annotations_per_worker.numpy()

    figure, axes = plt.subplots(2, 3, figsize=(9, 4.6), layout="constrained")
    for row, name in enumerate(votes):
        histogram(axes[row, 0], feedback[name], f"annotations of a task, {name}", "tasks")
        histogram(axes[row, 2], entropy[name], f"entropy of the naive soft label, bits, {name}", "tasks")
    histogram(axes[0, 1], load, "annotations of a worker, CIFAR-10S", "workers")
    axes[1, 1].axis("off")
    axes[1, 1].text(0.5, 0.5, "CIFAR-10H: workers not at hand", ha="center", fontsize=8, color=GREY)
    save(figure, "paper-sorting-crowd.png")

    # Gold questions: images on which the crowd of CIFAR-10H agrees, and rightly so.
    truth_h = classes.loc[crowd.items].to_numpy().astype(int)
    obvious = votes["CIFAR-10H"][np.arange(crowd.N), truth_h] >= OBVIOUS
    gold = pd.Series(truth_h[obvious], crowd.items[obvious])
    gold = gold[gold.index.isin(data.items)]
    posterior, _ = fit(data, "hierarchical", method="gibbs", seed=0, chains=2, warmup=200, num_samples=200)
    workers = posterior.workers(measures=["accuracy", "mean_diagonal", "spammer_score"]).set_index("worker")
    asked = gold_accuracy(posterior, gold).set_index("worker")
    asked = asked[asked["annotations"] >= 3]
    scores = {
        "gold questions": asked["score"],
        "spammer score": workers["spammer_score"],
        "mean diagonal": workers["mean_diagonal"],
        "median seconds": workers["seconds"],
    }
    lines = {"gold questions": GOLD} | {name: fence(scores[name].to_numpy()) for name in SORTED[1:3]}
    lines["median seconds"] = float(np.exp(fence(np.log(scores["median seconds"].to_numpy()))))
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), layout="constrained")
    for ax, (name, values) in zip(axes, scores.items(), strict=True):
        histogram(
            ax, values.to_numpy(), "share correct of the gold questions" if name == SORTED[0] else name, "workers"
        )
        ax.axvline(lines[name], color=RED, lw=1.2, ls="--")
    save(figure, "paper-sorting-workers.png")

    truth = classes.loc[data.items].to_numpy().astype(int)
    item, worker, label = (v.numpy() for v in (data.item, data.worker, data.label))
    correct = pd.Series(np.bincount(worker, label == truth[item], data.J) / load, data.workers)
    order = workers["mean_diagonal"].sort_values()
    confusion = posterior.tree["posterior"]["confusion"].mean(("chain", "draw"))
    best, worst = order.index[-1], order.index[0]
    matrices(
        {
            "average, CIFAR-10H": average(votes["CIFAR-10H"], truth_h),
            "average, CIFAR-10S": average(votes["CIFAR-10S"], truth),
            f"best worker, CIFAR-10S ({correct[best]:.0%} correct)": confusion.sel(worker=best).values,
            f"worst worker, CIFAR-10S ({correct[worst]:.0%} correct)": confusion.sel(worker=worst).values,
        }
    )
    mixed = average(votes["CIFAR-10H"], truth_h) * (1 - np.eye(10))
    top = [divmod(int(index), 10) for index in mixed.ravel().argsort()[::-1][:3]]

    results: dict[str, Any] = {
        "cifar10h-counts": {
            "feedback": float(feedback["CIFAR-10H"].mean()),
            "entropy": {
                "mean": float(entropy["CIFAR-10H"].mean()),
                "zero": float((entropy["CIFAR-10H"] == 0).mean()),
                "above 1": float((entropy["CIFAR-10H"] > 1).mean()),
            },
            "confusions": {f"{CLASSES[k]} as {CLASSES[y]}": float(mixed[k, y]) for k, y in top},
        },
        "cifar10s": {
            "feedback": float(feedback["CIFAR-10S"].mean()),
            "load": float(load.mean()),
            "mean_diagonal": {"best": float(correct[best]), "worst": float(correct[worst])},
            "sorted": {},
        },
    }
    rows = []
    chosen = {}
    for name, values in scores.items():
        below = values[values < lines[name]]
        chosen[name] = set(below.index)
        rest = correct.loc[values.index.difference(below.index)].mean()
        # How well the order of the workers agrees with their accuracy by the truth.
        agreement = float(values.corr(correct.loc[values.index], method="spearman"))
        results["cifar10s"]["sorted"][name] = {
            "threshold": lines[name],
            "below": len(below),
            "workers": len(values),
            "rank_correlation": agreement,
        }
        rows.append(
            [
                name,
                f"{lines[name]:.2f}",
                f"{len(below)} of {len(values)}",
                f"{100 * correct.loc[below.index].mean():.1f}" if len(below) else "–",
                f"{100 * rest:.1f}",
                f"{agreement:.2f}",
            ]
        )
    described = [
        [
            name,
            d.N,
            f"{feedback[name].mean():.1f} ({feedback[name].min()} to {feedback[name].max()})",
            f"{load.mean():.1f} ({load.min()} to {load.max()}), {data.J} workers"
            if name == "CIFAR-10S"
            else "not at hand",
            f"{entropy[name].mean():.2f}",
            f"{100 * (entropy[name] == 0).mean():.0f}",
            f"{100 * (entropy[name] > 1).mean():.0f}",
        ]
        for name, d in (("CIFAR-10S", data), ("CIFAR-10H", crowd))
    ]
    frequent = ", ".join(f"{CLASSES[k]} as {CLASSES[y]} ({100 * mixed[k, y]:.1f}%)" for k, y in top)
    together = set.intersection(*chosen.values())
    body = f"""The raw answers of CIFAR-10H with its workers are not at hand. Its label counts are (`cifar10h-counts`, 10,000
pictures). CIFAR-10S has 1,000 of these pictures with known workers; it stands in
where workers are needed.

## The crowd

{table(["", "tasks", "of a task", "of a worker", "entropy, bits", "entropy 0, %", "above 1, %"], described)}

Annotations of a task and of a worker: mean, smallest and largest number.

![Annotations of a task, annotations of a worker, entropy of naive soft labels](../images/paper-sorting-crowd.png)

*Naive soft label*: the shares of a task's votes. *Entropy 0*: all annotations agree. A worker of CIFAR-10S sees some pictures
twice.

## Confusions

![Average confusions of two crowds, and those of the best and the worst worker](../images/paper-sorting-confusion.png)

The averages are over the true labels. The two workers' matrices are estimated by hierarchical Dawid–Skene without the truth; the
workers are the best and the worst by mean diagonal. A worker has about {load.mean():.0f} annotations in ten classes, so that much
of a matrix is the learned average crowd. The most frequent confusions of CIFAR-10H are {frequent}.

## Four ways of sorting workers

![Workers by gold questions, spammer score, mean diagonal, median seconds](../images/paper-sorting-workers.png)

*Gold questions*: share correct of the {len(gold)} pictures of CIFAR-10S on which at least {OBVIOUS:.0%} of the annotations of
CIFAR-10H are correct, for workers with three or more; threshold {GOLD}, as for the attention checks of CIFAR-10H. *Spammer
score* and *mean diagonal* are of hierarchical Dawid–Skene, *median seconds* of the annotations; their thresholds are the lower
fences of a box plot (1.5 interquartile ranges below the first quartile; of the logarithm of seconds). Accuracy is by the true
labels of CIFAR-10. *Agreement*: rank correlation of the score with that accuracy.

{table(["sorted by", "threshold", "workers below", "their accuracy, %", "accuracy of the others, %", "agreement"], rows)}

Workers below all four thresholds: {len(together)}. Both measures of the confusion matrix find workers who are less accurate;
speed and the few gold questions of each worker do not.
"""
    write("paper_sorting", "Sorting workers", body, results, options, script="papers/sorting")


if __name__ == "__main__":
    main()
