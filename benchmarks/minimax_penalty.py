"""Accuracy of minimax conditional entropy by the precision of its prior: the table of docs/models/minimax-entropy.md, printed.

    python benchmarks/minimax_penalty.py [SET ...]

A fit each by EM, from the votes, without known truths. ``CROWDPPL_DATA`` names the folder of public data sets.
"""

from __future__ import annotations

import sys

import numpy as np

import crowdppl
from crowdppl import Annotations
from crowdppl.data import datasets
from crowdppl.errors import silent
from crowdppl.models import MinimaxEntropy

SETS = (
    "wsd",
    "dog",
    "face",
    "weather-sentiment-amt",
    "weather-sentiment-cf",
    "valence5",
    "leaves",
    "valence7",
    "labelme",
    "reuters",
    "cifar10s",
)


def accuracy(data: Annotations, truth: dict[object, object], probability: np.ndarray) -> float:
    """Return the share of items of known truth whose most probable class is the true one."""
    names = data.labels.tolist()
    known = [(n, names.index(truth[item])) for n, item in enumerate(data.items.tolist()) if truth.get(item) in names]
    rows, classes = map(np.array, zip(*known, strict=True))
    return float((probability[rows].argmax(1) == classes).mean())


def main(sets: list[str]) -> None:
    """Print a row per set."""
    print("| accuracy | classes | votes | α = K²/4 | α = K/2 | α = 2 | α = 1 | α = 1/2 | α = 1/4 |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in sets:
        with silent():
            data, truth = datasets.public(name)
            known = dict(truth)
            row = [accuracy(data, known, data.majority().numpy())]
            for alpha in (data.K**2 / 4, data.K / 2, 2, 1, 0.5, 0.25):
                model = MinimaxEntropy(penalty=alpha / data.K**2)
                fitted = crowdppl.fit(data, model, method="em", seed=0, num_samples=2)
                row.append(accuracy(data, known, fitted.probability()))
        print(f"| {name} | {data.K} | " + " | ".join(f"{value:.3f}".lstrip("0") for value in row) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(SETS))
