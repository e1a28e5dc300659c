"""Mini-batches of items for stochastic gradients."""

from __future__ import annotations

import torch
from torch import Tensor


class Batches:
    """An endless iterator over batches of item numbers: every epoch in a new order, every item once per epoch.

    Args:
        items: number of items.
        size: items in a batch.
        device: of the index tensors.

    Attributes:
        per_epoch: batches in one epoch.
        queue: batches left in this epoch; the last is next.
    """

    def __init__(self, items: int, size: int, device: torch.device):
        self.items, self.size, self.device = items, size, device
        self.per_epoch = len(in_batches(torch.arange(items), size))
        self.queue: list[Tensor] = []

    def __next__(self) -> Tensor:
        if not self.queue:
            self.queue = list(in_batches(torch.randperm(self.items, device=self.device), self.size))
        return self.queue.pop()


def in_batches(units: Tensor, size: int) -> tuple[Tensor, ...]:
    """Split units into batches of a size, with what remains in a smaller one; a single unit goes with the batch before.

    Normalisation over a batch, as of ``torch.nn.BatchNorm1d``, needs two.
    """
    parts = units.split(size)
    if size > 1 and len(parts) > 1 and len(parts[-1]) == 1:
        parts = (*parts[:-2], torch.cat(parts[-2:]))
    return parts
