"""What the crowd of LabelMe confuses: shares of the annotations of each class, which Figure 1 of CoNAL is about."""

from __future__ import annotations

import warnings
from typing import Any

import baselines  # noqa: F401 - puts the folder of common on the path
import numpy as np
from common import table
from labelme import CLASSES

from crowdppl import CrowdpplWarning
from crowdppl.data import datasets

SHOWN = 0.15  # confusions from this share of the annotations of a class on
PAIR = (67.21, 54.19)  # percentages of the paper, of open country
LIMIT = 1300  # more than all items of a part


def common_sizes(percentages: tuple[float, ...] = PAIR, limit: int = LIMIT) -> list[int]:
    """Return the numbers of things, up to a limit, of which all of the percentages can be shares."""
    return [n for n in range(1, limit) if all(round(100 * round(n * p / 100) / n, 2) == p for p in percentages)]


def measure(quick: bool) -> dict[str, Any]:
    """Return the shares of labels by true class, ``(K, K)``, the fewest and most items and annotations of a class, and sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        data, truth = datasets.public("labelme")
    known = np.searchsorted(data.labels, truth.loc[data.items])
    counts = np.zeros((data.K, data.K))
    np.add.at(counts, (known[data.item.numpy()], data.label.numpy()), 1)
    items, annotations = np.bincount(known), counts.sum(1).astype(int)
    return {
        "shares": (counts / counts.sum(1, keepdims=True)).tolist(),
        "items": [int(items.min()), int(items.max())],
        "annotations": [int(annotations.min()), int(annotations.max())],
        "sizes": common_sizes(),
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
"""
