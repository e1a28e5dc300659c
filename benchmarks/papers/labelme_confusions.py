"""What the crowd of LabelMe confuses: shares of the annotations of each class, which Figure 1 of CoNAL is about."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import baselines  # noqa: F401 - puts the folder of common on the path
import numpy as np
from common import table
from labelme import CLASSES

from crowdppl import Annotations, CrowdpplWarning
from crowdppl.data import datasets

SHOWN = 0.15  # confusions from this share of the annotations of a class on
PAIR = (67.21, 54.19)  # percentages of the paper, of open country
LIMIT = 1300  # more than all items of a part


def common_sizes(percentages: tuple[float, ...] = PAIR, limit: int = LIMIT) -> list[int]:
    """Return the numbers of things, up to a limit, of which all of the percentages can be shares."""
    return [n for n in range(1, limit) if all(round(100 * round(n * p / 100) / n, 2) == p for p in percentages)]


def readings(data: Annotations, known: np.ndarray) -> Iterator[float]:
    """Yield shares that a percentage of a crowd's confusions may be: of annotations, items, workers and pairs of annotations.

    Args:
        data: the annotations.
        known: index of the true class of each item, ``(N,)``.
    """
    item, worker, label = (part.numpy() for part in (data.item, data.worker, data.label))
    votes, own = np.zeros((data.N, data.K)), np.zeros((data.J, data.K, data.K))
    np.add.at(votes, (item, label), 1)
    np.add.at(own, (worker, known[item], label), 1)
    for k in range(data.K):
        for least in (1, 2, 3):
            there = votes[(known == k) & (votes.sum(1) >= least)]
            yield from np.concatenate([of_rows(there, k), of_votes(there, k)])
        for least in range(1, 6):
            yield from of_rows(own[own[:, k].sum(1) >= least, k], k)
            given = own[own[:, :, k].sum(1) >= least, :, k]  # (workers, true classes), of what they call so
            yield from of_rows(given, k)


def of_rows(counts: np.ndarray, k: int) -> np.ndarray:
    """Return shares of each class in rows of counts, ``(rows, K)``, where class ``k`` is the correct one.

    Pooled over rows, the mean of rows, the share of rows that have a class and of those where it is the most frequent: of all
    counts, of the incorrect ones, and of the correct class and one more.
    """
    wrong = counts.copy()
    wrong[:, k] = 0
    out = []
    for kind in (counts, wrong):
        rows = kind[kind.sum(1) > 0]
        each = rows / rows.sum(1, keepdims=True)
        first = rows == rows.max(1, keepdims=True)
        alone = first & (first.sum(1, keepdims=True) == 1)
        out += [rows.sum(0) / rows.sum(), each.mean(0), (rows > 0).mean(0), first.mean(0), alone.mean(0)]
        out += [(first / first.sum(1, keepdims=True)).mean(0), alone.sum(0) / max(alone.sum(), 1)]
    total = counts.sum(0)
    out += [total / np.maximum(total + total[k], 1), (counts > 0).sum(0) / len(counts)]
    shares = out[0]
    return np.concatenate([*out, np.add.outer(shares, shares).ravel(), np.add.outer(out[7], out[7]).ravel()])


def of_votes(votes: np.ndarray, k: int) -> np.ndarray:
    """Return shares of pairs of annotations of an item that agree, and that agree on each class, of items of class ``k``."""
    out = []
    for kind in (votes, np.delete(votes, k, 1)):
        pairs, both = (kind.sum(1) * (kind.sum(1) - 1)).sum(), (kind * (kind - 1)).sum(0)
        if pairs:
            out += [both.sum(keepdims=True) / pairs, both / pairs]
        if both.sum():
            out.append(both / both.sum())
    return np.concatenate(out) if out else np.zeros(0)


def measure(quick: bool) -> dict[str, Any]:
    """Return the shares of labels by true class, ``(K, K)``, the fewest and most items and annotations of a class, and sizes.

    Also how many shares were tried as readings of the two percentages, and which of the two is one, or the complement of one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        data, truth = datasets.public("labelme")
    known = np.searchsorted(data.labels, truth.loc[data.items])
    counts = np.zeros((data.K, data.K))
    np.add.at(counts, (known[data.item.numpy()], data.label.numpy()), 1)
    tried = 100 * np.array(list(readings(data, known)))
    both = np.concatenate([tried, 100 - tried])
    items, annotations = np.bincount(known), counts.sum(1).astype(int)
    return {
        "shares": (counts / counts.sum(1, keepdims=True)).tolist(),
        "items": [int(items.min()), int(items.max())],
        "annotations": [int(annotations.min()), int(annotations.max())],
        "sizes": common_sizes(),
        "readings": len(np.unique(tried.round(4))),
        "hits": [p for p in PAIR if (np.abs(both - p) < 0.00501).any()],
    }


def frequent(results: dict[str, Any]) -> dict[str, float]:
    """Return the frequent confusions and their shares, the most frequent first."""
    shares = np.array(results["shares"])
    pairs = [(k, y) for k, y in np.argwhere(shares >= SHOWN) if k != y]
    pairs.sort(key=lambda pair: -shares[pair])
    return {f"{CLASSES[k]} as {CLASSES[y]}": float(shares[k, y]) for k, y in pairs}


def page(results: dict[str, Any]) -> str:
    """Write the part of the page."""
    rows = [[what, f"{100 * share:.1f}"] for what, share in frequent(results).items()]
    return f"""## Confusions of LabelMe's crowd

Share of the 2,547 annotations of a class, per cent, from {100 * SHOWN:.0f} on.

{table(["true class as label", "share"], rows)}

The paper has two percentages of open country, {PAIR[0]} and {PAIR[1]}. {tried(results)}
"""


def tried(results: dict[str, Any]) -> str:
    """Say which of the two percentages one of the shares that were tried is."""
    hits = " and ".join(str(p) for p in results["hits"])
    return (
        f"Of {results['readings']:,} shares (of all or of the incorrect annotations of a class, or of those with a label; "
        "pooled, or means over items or workers; of items or workers with a confusion, or with it more often than any "
        "other; of pairs of annotations that agree) and their complements, "
        + (f"{hits} {'is' if len(results['hits']) == 1 else 'are'} one." if results["hits"] else "neither is one.")
    )
