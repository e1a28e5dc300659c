"""What the crowd of LabelMe confuses: shares of the annotations of each class, which Figure 1 of CoNAL is about."""

from __future__ import annotations

import warnings

import baselines  # noqa: F401 - puts the folder of common on the path
import numpy as np
from common import table
from labelme import CLASSES

from crowdppl import CrowdpplWarning
from crowdppl.data import datasets

SHOWN = 0.15  # confusions from this share of the annotations of a class on


def measure(quick: bool) -> dict[str, list[list[float]]]:
    """Return the shares of labels by true class, ``(K, K)``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        data, truth = datasets.public("labelme")
    known = np.searchsorted(data.labels, truth.loc[data.items])
    counts = np.zeros((data.K, data.K))
    np.add.at(counts, (known[data.item.numpy()], data.label.numpy()), 1)
    return {"shares": (counts / counts.sum(1, keepdims=True)).tolist()}


def frequent(results: dict[str, list[list[float]]]) -> dict[str, float]:
    """Return the frequent confusions and their shares, the most frequent first."""
    shares = np.array(results["shares"])
    pairs = [(k, y) for k, y in np.argwhere(shares >= SHOWN) if k != y]
    pairs.sort(key=lambda pair: -shares[pair])
    return {f"{CLASSES[k]} as {CLASSES[y]}": float(shares[k, y]) for k, y in pairs}


def page(results: dict[str, list[list[float]]]) -> str:
    """Write the part of the page."""
    rows = [[what, f"{100 * share:.1f}"] for what, share in frequent(results).items()]
    return f"""## Confusions of LabelMe's crowd

Share of the 2,547 annotations of a class, per cent, from {100 * SHOWN:.0f} on.

{table(["true class as label", "share"], rows)}
"""
