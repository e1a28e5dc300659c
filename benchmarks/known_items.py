"""Which items to find the true label of: at random, by entropy, or at random by entropy; docs/benchmarks/known-items.md."""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from common import arguments, table, write
from default_model import GROUPS, known_classes, load

import crowdppl
from crowdppl import Annotations, Posterior, acquisition
from crowdppl.acquisition.batches import FLOOR

KNOWN, REPETITIONS, MOST = 30, 6, 15_000
WAYS = ("without", "at random", "`next_known`", "highest entropy")


def fit(data: Annotations) -> Posterior:
    """Fit the default model."""
    return crowdppl.fit(data, "item-effects", method="em", seed=0, num_samples=100)


def measure(name: str) -> list[list[float]]:
    """Return accuracy and log loss of all items of known truth, the given ones included, by each way."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    data, truth = load(name)
    known = known_classes(data, truth)
    have = np.flatnonzero(known >= 0)
    before = fit(data)
    entropy = -(before.probability() * np.log(np.maximum(before.probability(), 1e-12))).sum(1)
    place = {item: i for i, item in enumerate(before.items().tolist())}
    runs: dict[str, list[Any]] = {way: [] for way in WAYS}
    for seed in range(REPETITIONS):
        order = acquisition.next_known(before, data.N, seed=seed)[before.item_column].map(place).to_numpy()
        chosen = {
            "without": have[:0],
            "at random": np.random.default_rng(seed).choice(have, KNOWN, replace=False),
            "`next_known`": order[known[order] >= 0][:KNOWN],
            "highest entropy": have[np.argsort(-entropy[have], kind="stable")[:KNOWN]],
        }
        for way, items in chosen.items():
            if seed and way in ("without", "highest entropy"):
                continue
            given = np.full(data.N, -1)
            given[items] = known[items]
            p = fit(replace(data, truth=torch.from_numpy(given))).probability()[have].astype(float)
            right = np.maximum(p[np.arange(len(have)), known[have]], 1e-12)
            runs[way].append([(p.argmax(1) == known[have]).mean(), -np.log(right).mean()])
    return [np.mean(one, 0).tolist() for one in runs.values()]


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = [name for group in ("public", "judges") for name in GROUPS[group] if load(name)[0].A <= MOST]
    sets = sets[:2] if options.quick else sets
    with ProcessPoolExecutor(2) as pool:
        results = dict(zip(sets, pool.map(measure, sets), strict=True))
    rows = [[name, *(f"{hits:.3f}; {loss:.3f}" for hits, loss in one)] for name, one in results.items()]
    means = np.mean(list(results.values()), 0)
    rows.append(["mean", *(f"**{hits:.4f}; {loss:.4f}**" for hits, loss in means)])
    body = f"""Accuracy; log loss of all items of known truth, {KNOWN} of which are given to the fit and count as correct. Public
crowds and panels of language models with at most {MOST:,} annotations; {REPETITIONS} draws each. *`next_known`* draws items with
probabilities in proportion to their entropy and {FLOOR:g} more; *highest entropy* takes the first.

{table(["set", *WAYS], rows)}

The most uncertain items alone gain most in the mean, since they are corrected. On some panels of language models they mislead,
since they are not like the others (log loss of `judges-lgbteen` and `judges-wax`). Items drawn by entropy gain more than random
ones in the mean, and lose .4 points of accuracy at most on crowds.
"""
    write("known-items", "Which true labels to find out", body, results, options, "known_items")


if __name__ == "__main__":
    main()
