"""The largest share of a step that does not lower an objective, for steps of all workers at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crowdppl.kernels.ops import synchronises

# What a share of a step that lowers the objective is multiplied by.
SHORTENED = 0.4


def first_not_worse(objective: Callable[[Tensor], Tensor], before: Tensor, first: float | Tensor, tries: int) -> Tensor:
    """Return the largest share of a step, of so many that are tried, at which an objective is not below ``before``; else 0.

    Args:
        objective: takes shares of the step, of the shape of ``before`` and maybe with an axis before it, and returns as many
            numbers.
        before: the objective without the step, one for each of those who take one.
        first: the first share, of all or of each; each further one is ``SHORTENED`` times the one before.
        tries: how many.
    """
    size = torch.zeros_like(before) + first
    if synchronises(before):
        # All shares at once: a number that is read to save work would have the host wait for the device.
        sizes = torch.stack([size * SHORTENED**n for n in range(tries)])
        good = objective(sizes) >= before
        share = sizes.gather(0, good.byte().argmax(0, keepdim=True)).squeeze(0)
        return torch.where(good.any(0), share, 0.0)
    for n in range(tries):
        worse = ~(objective(size) >= before)
        if not bool(worse.any()):
            break
        size = torch.where(worse, size * SHORTENED if n < tries - 1 else 0.0, size)
    return size
