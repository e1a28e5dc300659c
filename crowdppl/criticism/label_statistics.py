"""Statistics of labels that a model may fail to reproduce: agreement, spread over items and workers, and pairs of workers."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from crowdppl import arguments
from crowdppl.arguments import checked

Array = npt.NDArray[Any]

# Pairs are compared among this number of workers with most annotations, if they have at least this number of items in common.
MAX_WORKERS = 100
MIN_COMMON = 5

# Interpretation of a statistic that is larger, and smaller, than the model predicts.
MORE_OR_LESS = ("more often than the model expects", "less often than the model expects")
INTERPRETATIONS = {
    "agreement": tuple(f"Annotations of an item agree {frequency}" for frequency in MORE_OR_LESS),
    "agreement_spread": (
        "Items differ in difficulty more than the model allows",
        "Items differ in difficulty less than the model expects",
    ),
    "entropy": (
        "The labels of an item are more mixed than the model expects",
        "The labels of an item are less mixed than the model expects",
    ),
    "entropy_spread": (
        "Some items are disputed and others are not, more than the model allows",
        "Items are disputed more evenly than the model expects",
    ),
    "majority": tuple(f"Workers give the most frequent label of an item {frequency}" for frequency in MORE_OR_LESS),
    "majority_spread": (
        "Workers differ from each other more than the model allows",
        "Workers differ from each other less than the model expects",
    ),
    "pairs": tuple(f"Two workers agree {frequency}" for frequency in MORE_OR_LESS),
    "pairs_spread": (
        "Some pairs of workers agree far more than others: they may copy from each other, or see things alike",
        "Pairs of workers are more alike than the model expects",
    ),
}
LABEL_PREFIX = "share of the label "

# Descriptions of the statistics; spreads are standard deviations.
DESCRIPTIONS = {
    "agreement": "share of pairs of annotations of an item that agree, mean over items",
    "agreement_spread": "spread over items of the share of pairs that agree: how far items differ in difficulty",
    "entropy": "entropy of an item's labels in bits, mean over items",
    "entropy_spread": "spread over items of the entropy of their labels",
    "majority": "share of a worker's labels that are the item's most frequent, mean over workers",
    "majority_spread": "spread over workers of the share that is most frequent: how far workers differ",
    "pairs": "share of common items on which two workers agree, mean over pairs",
    "pairs_spread": "spread over pairs of workers of the share they agree on: whether some copy, or see things alike",
}


@checked
def statistics(
    item: Annotated[Array, arguments.array("annotation", kind="whole")],
    worker: Annotated[Array, arguments.array("annotation", kind="whole")],
    label: Annotated[Array, arguments.array("annotation", kind="whole")],
    sizes: Annotated[tuple[int, int, int], arguments.several(arguments.whole(1), 3)],
) -> tuple[dict[str, float], Array]:
    """Return the statistics of labels, and each worker's share of labels that are the most frequent of their item, ``(J,)``.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        label: its label, ``(A,)``.
        sizes: numbers of items, workers and classes.
    """
    N, J, K = sizes
    votes = np.bincount(item * K + label, minlength=N * K).reshape(N, K)
    n = votes.sum(1)
    several, annotated = n > 1, n > 0
    agreement = (votes * (votes - 1)).sum(1)[several] / (n * (n - 1))[several]
    share = votes[annotated] / n[annotated, None]
    entropy = -(share * np.log2(np.where(share > 0, share, 1))).sum(1)
    frequent = np.bincount(worker, weights=votes.argmax(1)[item] == label, minlength=J)
    total = np.bincount(worker, minlength=J)
    majority = np.where(total > 0, frequent / np.maximum(total, 1), np.nan)
    pairs = _pairs(item, worker, label, sizes, total)
    shares = np.bincount(label, minlength=K) / len(label)
    out: dict[str, float] = {f"label_{k}": float(shares[k]) for k in range(K)}
    for name, values in {
        "agreement": agreement,
        "entropy": entropy,
        "majority": majority[total > 0],
        "pairs": pairs,
    }.items():
        out[name] = float(values.mean()) if len(values) else np.nan
        out[f"{name}_spread"] = float(values.std()) if len(values) else np.nan
    return out, majority


def _pairs(item: Array, worker: Array, label: Array, sizes: tuple[int, int, int], total: Array) -> Array:
    N, J, K = sizes
    busiest = np.argsort(-total, kind="stable")[: min(MAX_WORKERS, J)]
    column_of = np.full(J, -1)
    column_of[busiest] = np.arange(len(busiest))
    kept = column_of[worker] >= 0
    row, column, value = item[kept], column_of[worker[kept]], label[kept]
    shape = (N, len(busiest))
    ones = np.ones(len(row))
    common = sparse.csr_matrix((ones, (row, column)), shape=shape)
    both = (common.T @ common).toarray()
    split = sparse.csr_matrix((ones, (row * K + value, column)), shape=(N * K, len(busiest)))
    agree = (split.T @ split).toarray()
    upper = np.triu(np.ones_like(both, dtype=bool), 1) & (both >= MIN_COMMON)
    return np.asarray(agree[upper] / both[upper])
