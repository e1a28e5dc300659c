"""The default with features: calibration of its class probabilities, and coverage of its workers' intervals.

Public sets with features, and three sets of scikit-learn with simulated crowds, as in classifier_prior.py; by the default with
features and the default without, each with the design effect of correlated errors and as published.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from classifier_prior import PUBLIC, SIMULATED, Task, public, relation, simulated
from common import arguments, table, write

import crowdppl
from crowdppl import criticism

MODELS = ("item-effects", "features-and-effects")
# Smallest number of a worker's annotations of items of known truth, on public sets.
MINIMUM = 20
# Simulated crowds of each set: some hundred workers.
CROWDS = 10


def tasks(crowds: int) -> dict[str, list[Task]]:
    """Return the sets: several crowds of those that are simulated."""
    out = {name: [simulated(load, seed) for seed in range(crowds)] for name, load in SIMULATED.items()}
    return out | {name: [public(name)] for name in PUBLIC} | {"cmm-setup1": [public("cmm-setup1")]}


def measured(task: Task, model: str, *, independent: bool) -> dict[str, float]:
    """Return calibration of labels, and coverage of the intervals of workers' share of correct annotations and accuracy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = crowdppl.fit(task.data, model, seed=0, independent=independent)
    known = task.truth >= 0
    names = task.data.items.tolist()
    truths = {names[i]: task.data.labels[task.truth[i]] for i in np.flatnonzero(known)}
    labels = criticism.calibration(posterior, truths)
    workers = criticism.coverage(posterior, truths, minimum=MINIMUM).workers
    return {
        "accuracy": labels.accuracy,
        "stated": labels.confidence,
        "log loss": labels.log_loss,
        "ece": labels.ece,
        "workers": len(workers),
        "share": float(workers["share_correct_covers"].sum()),
        "share bias": float((workers["share_correct"] - workers["correct"]).sum()),
        "share width": float((workers["share_correct_high"] - workers["share_correct_low"]).sum()),
        "worker accuracy": float(workers["accuracy_covers"].sum()),
    }


def pooled(rows: list[Mapping[str, float]]) -> dict[str, float]:
    """Return means over crowds of what concerns labels, and over workers of what concerns them."""
    workers = sum(row["workers"] for row in rows)
    out = {key: float(np.mean([row[key] for row in rows])) for key in ("accuracy", "stated", "log loss", "ece")}
    of_workers = ("share", "share bias", "share width", "worker accuracy")
    return out | {"workers": workers} | {key: sum(row[key] for row in rows) / workers for key in of_workers}
