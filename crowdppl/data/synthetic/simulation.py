"""What simulations of crowds share: their result, who annotates what, and labels by groups of annotators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.annotations import Annotations

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Simulated annotations and the parameters that generated them.

    Attributes:
        data: the annotations of the training items, with features.
        truth: true class of each training item, ``(N,)``, in the order of ``data.items``.
        features_test: features of test items, ``(n, D)``.
        truth_test: true classes of test items, ``(n,)``.
        parameters: parameters of the simulation, by name.
    """

    data: Annotations
    truth: Array
    features_test: Array
    truth_test: Array
    parameters: dict[str, Array] = field(default_factory=dict)


def assigned(rng: np.random.Generator, items: int, workers: int, per_item: float) -> tuple[Array, Array]:
    """Return the item and the worker of each annotation: random subsets of the workers, ``per_item`` on average, at least one."""
    count = np.maximum(1, rng.binomial(workers, per_item / workers, items))
    worker = np.concatenate([rng.choice(workers, size, replace=False) for size in count])
    return np.repeat(np.arange(items), count), worker


def by_groups(
    rng: np.random.Generator,
    truth: Array,
    features: Array | None,
    workers: int,
    per_item: float,
    confusion: Array,
    share: Array,
) -> tuple[Annotations, Array]:
    """Draw labels by groups of annotators; return them and the group of each annotator who has any."""
    group = rng.choice(len(share), workers, p=share)
    item, worker = assigned(rng, len(truth), workers, per_item)
    label = drawn_from(rng, confusion[group[worker], truth[item]])
    names = np.unique(worker)
    labels = range(confusion.shape[-1])
    return Annotations.from_arrays(item, worker, label, labels=labels, features=features, workers=names), group[names]


def drawn_from(rng: np.random.Generator, rows: Array) -> Array:
    """Draw an index from each row of probabilities ``(A, K)``: ``(A,)``."""
    return (rng.random((len(rows), 1)) > rows.cumsum(-1)[:, :-1]).sum(-1)
