"""Real annotations altered for experiments: fewer for each item, and workers whose quality is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from crowdppl.arguments import PositiveInt, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.truths import known_truths, truth_codes, truth_columns
from crowdppl.errors import DataError, listed

__all__ = ["thinned", "with_reference_workers"]

RIGHT, WRONG = "always right", "always wrong"


def __dir__() -> list[str]:
    return __all__


@checked
def thinned(data: Annotations, *, per_item: PositiveInt, seed: Seed) -> Annotations:
    """Return a random subset of the annotations, at most ``per_item`` of each item: the redundancy of an experiment.

    Items and workers stay, also workers who are left without annotations.

    Args:
        data: the annotations.
        per_item: largest number of annotations of an item.
        seed: of the choice.
    """
    chance = np.random.default_rng(seed).random(data.A)
    item = data.item.cpu().numpy()
    order = np.lexsort((chance, item))  # annotations of an item together, in random order
    start = np.cumsum(np.bincount(item, minlength=data.N)) - np.bincount(item, minlength=data.N)
    kept = np.zeros(data.A, dtype=bool)
    kept[order] = np.arange(data.A) - start[item[order]] < per_item
    return data.keep(torch.from_numpy(kept))


@checked
def with_reference_workers(data: Annotations, truth: Any, *, seed: Seed) -> Annotations:
    """Add two workers who annotate every item of known truth, one always right and one always wrong.

    A model that judges workers well places them first and last. Wrong labels are drawn evenly from the other classes. The
    workers are named ``"always right"`` and ``"always wrong"``; names of other workers become strings. Where annotations have
    covariates, those of the two are the means.

    Args:
        data: the annotations.
        truth: a mapping or Series of true labels by item, or a frame with an item and a label column.
        seed: of the wrong labels.

    Raises:
        DataError: if a worker has one of these names already, no item of the truth is in the data, or the truth cannot be read.
    """
    names = [str(name) for name in data.workers.tolist()]
    if taken := {RIGHT, WRONG} & set(names):
        raise DataError(f"the annotations have a worker {listed(sorted(taken))} already; rename it")
    given = known_truths(truth_columns(None, ("item", None), truth, "the truth"))
    known, _ = truth_codes(given, data.items, data.labels, "the data")
    items = np.flatnonzero(known >= 0)
    if len(items) == 0:
        raise DataError("truth has no true label of an item of the data; pass a mapping from item to class")
    right = known[items]
    wrong = (right + np.random.default_rng(seed).integers(1, data.K, len(items))) % data.K
    item, label = (torch.from_numpy(np.concatenate(pair)).to(data.device) for pair in ((items, items), (right, wrong)))
    worker = torch.arange(data.J, data.J + 2, device=data.device).repeat_interleave(len(items))
    item = torch.cat([data.item, item])
    order = item.argsort(stable=True)
    own, usual = data.standard_covariates, data._usual_covariates(len(worker))
    return replace(
        data,
        item=item[order],
        worker=torch.cat([data.worker, worker])[order],
        label=torch.cat([data.label, label])[order],
        workers=np.array([*names, RIGHT, WRONG], dtype=object),
        worker_features=None,
        timestamp=None,
        seconds=None,
        criteria=None,
        criterion=None,
        standard_covariates=None if own is None or usual is None else torch.cat([own, usual])[order],
        notes=(),
    )
