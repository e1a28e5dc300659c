"""Models in which the logits of an annotation's label are sums of effects of the worker and the item.

Row ``k`` of annotation ``n`` of item ``i`` by worker ``j`` is ``softmax_l(effect_jkl + effect_ikl + ...)``. Minimax conditional
entropy and logistic random effects are of this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sum_by
from crowdppl.model.base import Parameters

# Largest change of a logit in one Newton step, and how often the step is halved before it is given up.
LONGEST, HALVINGS = 2.0, 6


class Effects(NamedTuple):
    """Effects on the logits of labels, one table for each worker or item, with independent normal priors.

    Attributes:
        name: of the site, whose value is ``(U, K, K)`` = (unit, true label, given label), or ``(U, K)`` where the effect on a
            label does not depend on the true label.
        unit: worker or item of each annotation, ``(A,)``.
        mean: of the prior, which broadcasts with the value.
        scale: standard deviation of the prior.
    """

    name: str
    unit: Tensor
    mean: Tensor | float
    scale: float


def logits(blocks: Sequence[Effects], parameters: Parameters) -> Tensor:
    """Return the sum of the effects on each annotation, ``(A, K, K)`` = (annotation, true label, given label)."""
    total: Tensor | None = None
    for block in blocks:
        value = parameters[block.name][block.unit]
        value = value if value.dim() == 3 else value.unsqueeze(-2)  # (A, K, K) or (A, 1, K)
        total = value if total is None else total + value
    assert total is not None
    return total


def log_likelihoods(x: Tensor, data: Annotations) -> Tensor:
    """Return ``log p(labels of item i | truth = k)`` times the item's weight, ``(N, K)``, of logits ``(A, K, K)``."""
    label = data.label.view(-1, 1, 1).expand(-1, x.shape[-2], 1)
    given = x.gather(-1, label).squeeze(-1) - torch.logsumexp(x, -1)
    return sum_by(data.item, data.weighted(given), data.N)


def newton_steps(
    blocks: Sequence[Effects], responsibility: Tensor, data: Annotations, parameters: Parameters, rounds: int = 1
) -> Parameters:
    """Return parameters after Newton steps for one block after the other, which never lower the expected log joint.

    Twice its diagonal bounds the matrix of second derivatives of a softmax, so that all effects of a block move at once. The step
    of each unit is halved until its part of the objective does not fall.

    Args:
        blocks: in the order in which they are updated.
        responsibility: of each class for each item, times multiplicities, ``(N, K)``.
        data: the annotations.
        parameters: to start from, by site name.
        rounds: passes over the blocks.
    """
    now = dict(parameters)
    share = data.weighted(responsibility[data.item])  # (A, K)
    chosen = torch.nn.functional.one_hot(data.label, data.K).to(share.dtype).unsqueeze(-2)  # (A, 1, K)

    def objective(block: Effects, value: Tensor) -> Tensor:
        x = logits(blocks, now | {block.name: value})
        fit = (share * ((chosen * x).sum(-1) - torch.logsumexp(x, -1))).sum(-1, keepdim=True)
        off = ((value - block.mean) / block.scale).flatten(1)
        return sum_by(block.unit, fit, len(value)).squeeze(-1) - off.square().sum(-1) / 2

    for _ in range(rounds):
        for block in blocks:
            value = now[block.name]
            p = torch.softmax(logits(blocks, now), -1)
            slope, curve = share.unsqueeze(-1) * (chosen - p), share.unsqueeze(-1) * p * (1 - p)
            if value.dim() == 2:
                slope, curve = slope.sum(-2), curve.sum(-2)
            gradient = sum_by(block.unit, slope, len(value)) - (value - block.mean) / block.scale**2
            step = gradient / (2 * sum_by(block.unit, curve, len(value)) + block.scale**-2)
            step = step.clamp(-LONGEST, LONGEST)
            before = objective(block, value)
            for _ in range(HALVINGS):
                worse = objective(block, value + step) < before
                if not bool(worse.any()):
                    break
                step = torch.where(worse.view(-1, *[1] * (value.dim() - 1)), step / 2, step)
            else:
                worse = objective(block, value + step) < before
                step = torch.where(worse.view(-1, *[1] * (value.dim() - 1)), 0.0, step)
            now[block.name] = value + step
    return now
