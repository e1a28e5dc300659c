"""Targets of two-stage training: the probabilities of an aggregation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.aggregate import Aggregate
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError
from crowdppl.posterior.posterior import Posterior


def target_of(data: Annotations, aggregation: Any) -> Tensor:
    """Return the probabilities of an aggregation, ``(N, K)``; 0 for items of which it knows nothing.

    Raises:
        DataError: for other items or classes than those of the data.
    """
    if isinstance(aggregation, (Aggregate, Posterior)):
        if isinstance(aggregation, Aggregate):
            items, classes = aggregation.data.items, aggregation.data.labels
        else:
            items, classes = aggregation.items(), aggregation.labels
        if items.tolist() != data.items.tolist() or classes.tolist() != data.labels.tolist():
            raise DataError(
                "the items and classes of the aggregation are not those of the data; pass one of the same data"
            )
        target = torch.as_tensor(np.array(aggregation.probability()))
        unknown = (data.annotations_per_item == 0) & (data.truth < 0)
        return target.masked_fill(unknown.cpu().unsqueeze(-1), 0.0)
    target = torch.as_tensor(np.asarray(arguments.array("item", "class")("aggregation", aggregation)))
    if target.shape != (data.N, data.K):
        raise DataError(
            f"aggregation has the shape {tuple(target.shape)}; pass the probabilities of {data.N:,} items and {data.K:,} classes"
        )
    total = target.sum(-1)
    if (target < 0).any() or not torch.isclose(total, total.round(), atol=1e-4).all() or (total > 1.5).any():
        raise DataError("aggregation: probabilities must be at least 0, and each item's must add up to 1, or all be 0")
    return target


def hardened(target: Tensor, seed: int) -> Tensor:
    """Return one-hot rows of the most probable classes of ``(N, K)``; ties are broken at random, and rows of 0 stay so."""
    rows = target.cpu().numpy()
    top = np.where(
        rows >= rows.max(1, keepdims=True) * (1 - 1e-12), np.random.default_rng(seed).random(rows.shape), -1.0
    )
    return torch.from_numpy(np.eye(rows.shape[1])[top.argmax(1)] * (rows.sum(1, keepdims=True) > 0))
