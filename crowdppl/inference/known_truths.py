"""What known true labels say about the correlation of errors, ``rho``.

Where the true label of an item is known, its annotations alone, tempered by the design effect, give that label a probability at
every ``rho``. A crowd that agrees on wrong labels has a large ``rho``, a crowd whose confidence is deserved a small one.

``rho`` differs within a crowd: values that are drawn have a standard deviation around the crowd's mean on the logit scale
(:data:`crowdppl.inference.design_effect.WITHIN`), whatever the number of known true labels. These inform the mean ``m``, with the
probability of each item averaged over ``rho`` within the crowd, as reported probabilities are, and over draws of the parameters:

    p(m | known true labels)  proportional to  p(m) prod_i E[p(truth_i = known class | labels of i, parameters, rho) | m]

Reported probabilities, true labels and workers follow this posterior. A likelihood with one ``rho`` for all items would take the
spread within the crowd for correlation: its mean is higher, and workers seem less accurate than they are.

The parameters were learned with these true labels, and would find each of them too probable. Draws are therefore weighted for
each item by the reciprocal of the probability that they give to its own true label, as if only the others had been known:
importance sampling for leaving one out (Gelfand, Dey and Chang 1992), with weights truncated (Ionides 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.evaluation import TorchEvaluation
from crowdppl.inference.design_effect import PLACES, DesignEffect, RhoLikelihood
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel

# Draws of the parameters that probabilities are averaged over: at most, at least, and the cells (draws x items x classes x values
# of rho) that decide between the two.
MOST, LEAST, CELLS = 100, 10, 2**24
# Lowest probability of a known true label: a label that the model takes for impossible says nothing more about rho.
FLOOR = 1e-12


def informed(
    effect: DesignEffect,
    model: BoundModel,
    data: Annotations,
    flat: Mapping[str, Tensor],
    fixed: Parameters,
    sites: Mapping[str, Any],
) -> DesignEffect:
    """Return the posterior of ``rho`` given the known true labels of the data, or ``effect`` as it is where none say anything.

    Args:
        effect: the prior.
        model: of the annotations.
        data: the annotations, in the layout of the model, with one true label for each item.
        flat: draws of the parameters, ``(S, ...)`` by site.
        fixed: sites without draws.
        sites: of the model's prior.
    """
    known = ((data.truth >= 0) & (data.weighted_per_item > 1)).nonzero().squeeze(-1)
    if effect.fixed or not len(known):
        return effect
    logs = class_log_probabilities(model, data, known, flat, fixed, sites)
    often = None if data.multiplicity is None else data.multiplicity[known]
    return effect.given(rho_likelihood(effect, logs, data.truth[known], data.weighted_per_item[known], often))


def rho_likelihood(
    effect: DesignEffect, logs: Tensor, truth: Tensor, annotations: Tensor, often: Tensor | None = None
) -> RhoLikelihood:
    """Return what true labels say about ``rho``.

    Args:
        effect: prior of ``rho``; the likelihood is computed over the values that it allows.
        logs: log-probabilities of the classes given the labels of each item, up to a constant, for draws ``(S, n, K)``. Where
            there are several, they are taken to come from a fit that knew these true labels, and weighted to undo it.
        truth: known classes, ``(n,)``.
        annotations: number of annotations of each item, ``(n,)``.
        often: how often each item counts, ``(n,)``; once where ``None``.
    """
    places, values, kernel = effect.averages()
    more = (annotations - 1).clamp(min=0).to(logs.dtype)  # (n,)
    at = truth.view(1, -1, 1).expand(len(logs), -1, 1)

    chosen = logs.gather(-1, at).squeeze(-1)  # (S, n)

    def log_probability(rho: float) -> Tensor:
        factor = 1 + more * rho
        value = chosen / factor - (logs / factor.unsqueeze(-1)).logsumexp(-1)  # (S, n)
        return value.nan_to_num(math.log(FLOOR)).clamp(min=math.log(FLOOR))

    own = log_probability(0.0)
    weight = truncated(-own if often is None else -own * often)
    probability = torch.stack(
        [
            (weight * log_probability(rho).exp()).sum(0).double()
            for rho in torch.sigmoid(torch.from_numpy(values)).tolist()
        ]
    )  # (V, n)
    averaged = (torch.from_numpy(kernel) @ probability.cpu()).log()  # (G, n)
    total = (averaged if often is None else averaged * often.cpu()).sum(-1).numpy()
    return RhoLikelihood(len(truth), places, total)


def truncated(logs: Tensor) -> Tensor:
    """Return importance weights of draws ``(S, n)`` from their logs: truncated, with sum 1 over the draws."""
    weight = torch.softmax(logs, 0).clamp(max=len(logs) ** -0.5)
    return weight / weight.sum(0)


def class_log_probabilities(
    model: BoundModel,
    data: Annotations,
    index: Tensor,
    flat: Mapping[str, Tensor],
    fixed: Parameters,
    sites: Mapping[str, Any],
) -> Tensor:
    """Return log-probabilities of the classes of some items given their labels alone, up to a constant: ``(S, n, K)``.

    True labels of these items that are known are not used. Parameters are thinned to between ``LEAST`` and ``MOST`` draws.

    Args:
        model: of the annotations.
        data: the annotations.
        index: of the items, ``(n,)``.
        flat: draws of the parameters, by site.
        fixed: sites without draws.
        sites: of the model's prior.
    """
    batch = data.batch(index)
    batch = replace(batch, truth=torch.full_like(batch.truth, -1))
    total = next((len(value) for value in flat.values()), 1)
    each = batch.N * model.states
    count = min(total, max(LEAST, min(MOST, CELLS // (each * PLACES))))
    chosen = torch.linspace(0, total - 1, count).round().long()
    of_items = {name for name, node in sites.items() if any(f.name == "item" for f in node["cond_indep_stack"])}
    values = {name: value[chosen.to(value.device)] for name, value in flat.items()}
    values = {name: value[:, index] if name in of_items else value for name, value in values.items()}
    logs = [
        model.log_by_class(one.joint, one.parameters, batch).reshape(-1, batch.N, batch.K)
        for one in TorchEvaluation(model, batch, batch).each(values, fixed, count)
    ]
    return torch.cat(logs)
