"""Items with the same annotations: what follows from these alone is computed once for all of them.

Workers of a document often give the same labels to many of its tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations

# Items with more annotations than this hardly ever have the same.
MOST = 32


class Alike(NamedTuple):
    """Items that stand for all others.

    Attributes:
        items: their annotations, as a batch of ``U`` items.
        row: number of the one that stands for each item, ``(N,)`` int64.
    """

    items: Annotations
    row: Tensor


def alike(data: Annotations) -> Alike | None:
    """Return items that differ in annotations, known true label or weight; ``None`` where they are most of the items.

    Also ``None`` where anything else is known of items or annotations: a model may read it.
    """
    counts = data.annotations_per_item.cpu().numpy()
    besides = (
        data.features,
        data.class_scores,
        data.others,
        data.covariates,
        data.criterion,
        data.timestamp,
        data.seconds,
    )
    if any(value is not None for value in besides) or counts.max(initial=0) > MOST:
        return None
    size = data.J * (data.K + 1) * data.K
    code = ((data.worker * (data.K + 1) + data.label_before) * data.K + data.label).cpu().numpy()
    code = code[np.lexsort((code, data.item.cpu().numpy()))]
    ends = counts.cumsum()
    known = data.truth.cpu().numpy() + 1
    row = known * (MOST + 1) + counts
    if data.weight is not None:
        row = row + np.unique(data.weight.cpu().numpy(), return_inverse=True)[1] * (data.K + 1) * (MOST + 1)
    row = np.unique(row, return_inverse=True)[1].astype(np.int64)
    for place in range(int(counts.max(initial=0))):
        some = np.flatnonzero(counts > place)
        # Items with other numbers of annotations have other numbers already.
        row[some] = row[some] * size + code[ends[some] - counts[some] + place]
        row = np.unique(row, return_inverse=True)[1].astype(np.int64)
    first = np.unique(row, return_index=True)[1]
    if 2 * len(first) > data.N:
        return None
    return Alike(data.batch(torch.from_numpy(first)), torch.from_numpy(row))
