"""What an annotator is asked for at once: an item, a whole set of labels, or a whole sequence of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.posterior import sets
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Units:
    """Units of annotation; ``N`` items belong to ``U`` of them.

    Attributes:
        table: what is known of each unit now, ``U`` rows, the first column its name: of items ``label`` and ``probability``; of
            sets ``labels`` and the ``probability`` of exactly this set; of sequences the number of ``tokens`` and the smallest
            ``probability`` of the label of one.
        of: the unit of each item, ``(N,)``.
        annotations: the number of annotations of each, ``(U,)``.
        known: whether all true labels of it are known, ``(U,)``.
    """

    table: pd.DataFrame
    of: Array
    annotations: Array
    known: Array

    def total(self, values: Array) -> Array:
        """Return sums over the items of each unit, ``(..., U)``, of values ``(..., N)``."""
        if np.array_equal(self.of, np.arange(len(self.table))):
            return values
        flat = values.reshape(-1, len(self.of))
        summed = np.stack([np.bincount(self.of, weights=row, minlength=len(self.table)) for row in flat])
        return summed.reshape(*values.shape[:-1], len(self.table))


def units(posterior: Posterior) -> Units:
    """Return the units in which annotators are asked."""
    known = posterior.known_truth() >= 0
    number = posterior.annotations_per_item()
    if "position" not in posterior.tree["constant_data"]:
        now = posterior.truth()[[posterior.item_column, "label", "probability"]]
        return Units(now, np.arange(len(now)), number, known)
    of = posterior.tree["constant_data"]["sequence_index"].to_numpy()
    names = posterior.tree["constant_data"]["sequence"].to_numpy()
    count = len(names)
    if sets.has_sets(posterior):
        table = posterior.sets()[[posterior.item_column, "labels", "probability"]]
        # Rows of the table are in the order of the items, of which each task has all labels in turn.
        table = table.iloc[np.argsort(of[:: sets.size(posterior)], kind="stable")].reset_index(drop=True)
    else:
        least = np.ones(count)
        np.minimum.at(least, of, posterior.truth()["probability"].to_numpy())
        table = pd.DataFrame({"sequence": names, "tokens": np.bincount(of, minlength=count), "probability": least})
    most = np.zeros(count, dtype=np.int64)
    np.maximum.at(most, of, number)
    return Units(table, of, most, np.bincount(of, weights=~known, minlength=count) == 0)
