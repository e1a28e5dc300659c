"""Models in which the log odds of the correct label are a function of scalars of the worker and the item.

The other labels are equally likely. Log odds ``x`` are ``(A, 1)`` if they do not depend on the true label, else ``(A, K)``.
Item response models, GLAD and Carpenter's model with item difficulty are of this form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from pyro.distributions import Categorical
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sum_by
from crowdppl.model.base import Parameters

# Largest change of a scalar in one Newton step, and how often the step is halved before it is given up.
LONGEST, HALVINGS = 2.0, 6


def labels_given(x: Tensor, K: int) -> Categorical:
    """Return the distribution of each annotation's label under each true label, batch ``(A, K)``.

    Args:
        x: log odds of the correct label, ``(A, 1)`` or ``(A, K)``.
        K: number of classes.
    """
    eye = torch.eye(K, dtype=x.dtype, device=x.device)
    return Categorical(logits=x.unsqueeze(-1) * eye - math.log(max(1, K - 1)) * (1 - eye))


def log_likelihoods(x: Tensor, data: Annotations) -> Tensor:
    """Return ``log p(labels of item i | truth = k)`` times the item's weight, ``(N, K)``.

    Args:
        x: log odds of the correct label, ``(A, 1)`` or ``(A, K)``.
        data: the annotations.
    """
    incorrect = torch.nn.functional.logsigmoid(-x) - math.log(max(1, data.K - 1))
    if x.shape[-1] == 1:
        # Under the given label the correct one was chosen, else one of the others: log odds decide between the two.
        gain = data.weighted(x + math.log(max(1, data.K - 1))).squeeze(-1)
        own = sum_by(data.item * data.K + data.label, gain.unsqueeze(-1), data.N * data.K).view(data.N, data.K)
        return own + sum_by(data.item, data.weighted(incorrect), data.N)
    chosen = torch.nn.functional.one_hot(data.label, data.K).to(x.dtype)
    correct = torch.nn.functional.logsigmoid(x)
    return sum_by(data.item, data.weighted(chosen * correct + (1 - chosen) * incorrect), data.N)


class Scalars(NamedTuple):
    """One scalar of each worker, of each item, or of each worker and class, with independent normal priors.

    Attributes:
        name: of the site.
        unit: which of them each annotation's log odds contain, ``(A, 1)`` or ``(A, K)``.
        slope: from all parameters to the derivative of the log odds by the scalar, which broadcasts with ``(A, K)``.
        mean: of the prior.
        scale: standard deviation of the prior.
    """

    name: str
    unit: Tensor
    slope: Callable[[Parameters], Tensor]
    mean: Tensor | float
    scale: float


def newton_steps(
    blocks: Sequence[Scalars],
    log_odds: Callable[[Parameters], Tensor],
    responsibility: Tensor,
    data: Annotations,
    parameters: Parameters,
    rounds: int = 1,
) -> Parameters:
    """Return parameters after Newton steps for one block after the other, which never lower the expected log joint.

    The curvature is the expected one (Fisher scoring). Scalars of a block do not share annotations, so that each has a step size
    of its own: it is halved until the scalar's part of the objective does not fall.

    Args:
        blocks: in the order in which they are updated.
        log_odds: from all parameters to ``x``, ``(A, 1)`` or ``(A, K)``.
        responsibility: of each class for each item, times multiplicities, ``(N, K)``.
        data: the annotations.
        parameters: to start from, by site name.
        rounds: passes over the blocks.
    """
    now = dict(parameters)
    x = log_odds(now)
    share = data.weighted(responsibility[data.item])  # (A, K)
    if x.shape[-1] == 1:
        correct, weight = share.gather(-1, data.label.unsqueeze(-1)), share.sum(-1, keepdim=True)
    else:
        correct = share * torch.nn.functional.one_hot(data.label, data.K).to(x.dtype)
        weight = share

    def by_unit(block: Scalars, values: Tensor) -> Tensor:
        index = block.unit.expand_as(values).flatten()
        return sum_by(index, values.flatten().unsqueeze(-1), now[block.name].numel()).view_as(now[block.name])

    def objective(block: Scalars, trial: Parameters) -> Tensor:
        x = log_odds(trial)
        off = (trial[block.name] - block.mean) / block.scale
        fit = correct * x - weight * torch.nn.functional.softplus(x)
        return by_unit(block, fit) - off.square() / 2

    for _ in range(rounds):
        for block in blocks:
            value, name = now[block.name], block.name
            p, slope = torch.sigmoid(log_odds(now)), block.slope(now)
            gradient = by_unit(block, (correct - weight * p) * slope)
            gradient = gradient - (value - block.mean) / block.scale**2
            curvature = by_unit(block, weight * p * (1 - p) * slope.square()) + block.scale**-2
            step = (gradient / curvature).clamp(-LONGEST, LONGEST)
            before = objective(block, now)
            for _ in range(HALVINGS):
                worse = objective(block, now | {name: value + step}) < before
                if not bool(worse.any()):
                    break
                step = torch.where(worse, step / 2, step)
            else:
                step = torch.where(objective(block, now | {name: value + step}) < before, 0.0, step)
            now[name] = value + step
    return now
