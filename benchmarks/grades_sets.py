"""Public sets of grades, and scores of probabilities of grades."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from default_model import load

from crowdppl import Annotations
from crowdppl.criticism.calibration import FLOOR

SETS = ("valence5", "valence7", "judges-lesion", "judges-10k-prompts", "judges-summeval", "adult-content")
MEASURES = ("log loss", "RPS", "MAE", "accuracy")
Array = np.ndarray[Any, Any]


def each_score(p: Array, true: Array) -> dict[str, Array]:
    """Return log loss, ranked probability score, error of the rounded expectation, and whether the mode is true, of each item.

    Args:
        p: probabilities of the grades, ``(n, K)``.
        true: the true grade of each item, ``(n,)``.
    """
    K = p.shape[1]
    step = np.arange(K) >= true[:, None]
    return {
        "log loss": -np.log(np.maximum(p[np.arange(len(p)), true], FLOOR)),
        "RPS": ((p.cumsum(1) - step) ** 2)[:, :-1].sum(1),
        "MAE": np.abs(np.rint(p @ np.arange(K)) - true),
        "accuracy": (p.argmax(1) == true).astype(float),
    }


def scores(p: Array, true: Array) -> dict[str, float]:
    """Return the means over items of :func:`each_score`."""
    return {name: float(value.mean()) for name, value in each_score(p, true).items()}


def graded(name: str) -> tuple[Annotations, Array, Array]:
    """Return the annotations of a set as grades, the items of known truth and their true grades (codes)."""
    data, truth = load(name)
    row = pd.Index(data.items).get_indexer(truth.index)
    return replace(data, kind="ordinal"), row, pd.Index(data.labels).get_indexer(truth)


def votes(data: Annotations) -> Array:
    """Return the shares of the grades given, ``(N, K)``."""
    given = data.votes.numpy()
    return np.asarray(given / given.sum(1, keepdims=True))
