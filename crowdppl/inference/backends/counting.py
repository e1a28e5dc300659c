"""Annotations counted by drawn true labels: by sparse products, directly, or by compiled passes."""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.passes import ANNOTATIONS, Sweeps
from crowdppl.model.truths.classes import one_hot

# Annotations counted at a time.
PIECE = 2**18


class LabelCounts:
    """Counts items of each class ``(C, K)``, and labels ``(C, J, K, K)``, by true labels ``(C, N)``.

    Args:
        data: the annotations.
        passes: over them, where there are any: a model need not be one that they serve.
    """

    def __init__(self, data: Annotations, passes: Sweeps | None = None):
        self.data, self.passes = data, passes

    def __call__(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Count."""
        data = self.data
        if self.passes is not None:
            both = [self.passes.counted(row.to(torch.int16)) for row in truth]
            classes, counts = (torch.stack(parts) for parts in zip(*both, strict=True))
            return classes, counts
        if data.A >= ANNOTATIONS and data.weight is None and data.device.type == "cpu":
            # Directly: building the sparse matrices would take longer than all draws.
            return _directly(truth, data)
        chosen = one_hot(truth.long(), data)  # (C, N, K)
        return chosen.sum(-2), data.counts.expected(chosen)


def _directly(truth: Tensor, data: Annotations) -> tuple[Tensor, Tensor]:
    """Count without sparse matrices."""
    J, K, truth = data.J, data.K, truth.long()
    counts = torch.zeros(len(truth), J * K * K, dtype=torch.int64)
    # In pieces: codes of all annotations would be as large as the data.
    step = max(PIECE, J * K * K)
    for begin in range(0, data.A, step):
        worker, item, label = (part[begin : begin + step] for part in (data.worker, data.item, data.label))
        own = (worker * K * K).add_(label)
        for row, total in zip(truth, counts, strict=True):
            total += torch.bincount(own + row[item] * K, minlength=J * K * K)
    classes = torch.stack([torch.bincount(row, minlength=K) for row in truth])
    return classes.to(data.dtype), counts.view(-1, J, K, K).to(data.dtype)
