"""What known true labels say about the correlation of errors, ``rho``, and about the classes.

Where the true label of an item is known, its annotations alone, tempered by the design effect, give that label a probability at
every ``rho``. A crowd that agrees on wrong labels has a large ``rho``, a crowd whose confidence is deserved a small one.

``rho`` differs within a crowd: values that are drawn have a standard deviation around the crowd's mean on the logit scale
(:data:`crowdppl.inference.dependence.design_effect.WITHIN`), whatever the number of known true labels. These inform the mean
``m``, with the probability of each item averaged over ``rho`` within the crowd, as reported probabilities are, and over draws of
the parameters:

    p(m | known true labels)  proportional to  p(m) prod_i E[p(truth_i = known class | labels of i, parameters, rho) | m]

Reported probabilities, true labels and workers follow this posterior. A likelihood with one ``rho`` for all items would take the
spread within the crowd for correlation: its mean is higher, and workers seem less accurate than they are.

The parameters were learned with these true labels, and would find each of them too probable. Draws are therefore weighted for
each item by the reciprocal of the probability that they give to its own true label, as if only the others had been known:
importance sampling for leaving one out (Gelfand, Dey and Chang 1992), with weights truncated (Ionides 2008).

The same probabilities say whether the crowd prefers a class (:mod:`crowdppl.inference.dependence.class_weights`); ``rho`` is
estimated with the weights of the classes at their mean.
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
from crowdppl.inference.dependence.class_weights import class_weights
from crowdppl.inference.dependence.design_effect import PLACES, DesignEffect, RhoLikelihood
from crowdppl.inference.draws import Draws
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel

# Draws of the parameters that probabilities are averaged over: at most, at least, and the cells (draws x items x classes x values
# of rho) that decide between the two.
MOST, LEAST, CELLS = 100, 10, 2**24
# Values of rho that the weights of the classes are averaged over.
NODES = 16
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
    """Return the posterior of ``rho`` and of the weights of classes given the known true labels of the data.

    Where no item with a known true label has annotations, or ``rho`` is fixed, ``effect`` is returned as it is.

    Args:
        effect: the prior.
        model: of the annotations.
        data: the annotations, in the layout of the model, with one true label for each item.
        flat: draws of the parameters, ``(S, ...)`` by site.
        fixed: sites without draws.
        sites: of the model's prior.
    """
    known = ((data.truth >= 0) & (data.weighted_per_item > 0)).nonzero().squeeze(-1)
    if effect.fixed or not len(known):
        return effect
    logs = class_log_probabilities(model, data, known, flat, fixed, sites)
    truth, annotations = data.truth[known], data.sources_per_item[known]
    often = None if data.multiplicity is None else data.multiplicity[known]
    shift = None
    # Where classes are read off the place of an item, known true labels move the places.
    if not model.truths.read_off:
        effect = _weighing(effect, logs, truth, annotations, often)
        shift = None if effect.classes is None else torch.from_numpy(effect.classes.average).to(logs)
    several = annotations > 1
    if not bool(several.any()):
        return effect
    often = None if often is None else often[several]
    return effect.given(rho_likelihood(effect, logs[:, several], truth[several], annotations[several], often, shift))


def _weighing(
    effect: DesignEffect, logs: Tensor, truth: Tensor, annotations: Tensor, often: Tensor | None
) -> DesignEffect:
    """Return the design effect with the weights of classes; arguments as of :func:`rho_likelihood`."""
    each = logs.log_softmax(-1).nan_to_num(math.log(FLOOR))  # (S, n, K)
    mean = (left_out(own(logs, truth), often).unsqueeze(-1) * each.exp()).sum(0)  # (n, K)
    rho = effect.quantiles((torch.arange(NODES, dtype=torch.float64, device="cpu") + 0.5) / NODES)
    factors = 1 + (annotations - 1).clamp(min=0).double().cpu().unsqueeze(-1) * rho  # (n, Q)
    return effect.weighing(
        class_weights(
            mean.double().cpu().clamp(min=math.exp(-690)).log().numpy(),
            truth.cpu().numpy(),
            factors.numpy(),
            None if often is None else often.double().cpu().numpy(),
        )
    )


def rho_likelihood(
    effect: DesignEffect,
    logs: Tensor,
    truth: Tensor,
    annotations: Tensor,
    often: Tensor | None = None,
    shift: Tensor | None = None,
) -> RhoLikelihood:
    """Return what true labels say about ``rho``.

    Args:
        effect: prior of ``rho``; the likelihood is computed over the values that it allows.
        logs: log-probabilities of the classes given the labels of each item, up to a constant, for draws ``(S, n, K)``. Where
            there are several, they are taken to come from a fit that knew these true labels, and weighted to undo it.
        truth: known classes, ``(n,)``.
        annotations: number of annotations of each item, ``(n,)``.
        often: how often each item counts, ``(n,)``; once where ``None``.
        shift: what is added to tempered log-probabilities, ``(K,)``, if anything.
    """
    places, values, kernel = effect.averages()
    more = (annotations - 1).clamp(min=0).to(logs.dtype)  # (n,)
    shift = logs.new_zeros(logs.shape[-1]) if shift is None else shift
    weight = left_out(own(logs, truth), often)
    probability = torch.stack(
        [
            (weight * own(logs / (1 + more * rho).unsqueeze(-1) + shift, truth).exp()).sum(0).double()
            for rho in torch.sigmoid(torch.from_numpy(values)).tolist()
        ]
    )  # (V, n)
    averaged = (torch.from_numpy(kernel) @ probability.cpu()).log()  # (G, n)
    total = (averaged if often is None else averaged * often.cpu()).sum(-1).numpy()
    return RhoLikelihood(len(truth), places, total)


def left_out_score(model: BoundModel, data: Annotations, draws: Draws) -> float:
    """Return the log-probability of the known true labels of items with several annotations, by a model as published.

    Each is left out of the parameters by importance weights.
    """
    known = ((data.truth >= 0) & (data.weighted_per_item > 1)).nonzero().squeeze(-1)
    flat = {name: value.flatten(0, 1) for name, value in draws.samples.items()}
    logs = own(class_log_probabilities(model, data, known, flat, draws.fixed, draws.sites), data.truth[known])
    return float((left_out(logs, None) * logs.exp()).sum(0).log().sum())


def own(logs: Tensor, truth: Tensor) -> Tensor:
    """Return the log-probability of each known true label, ``(S, n)``, at least that of ``FLOOR``.

    Args:
        logs: log-probabilities of the classes up to a constant, ``(S, n, K)``.
        truth: known classes, ``(n,)``.
    """
    chosen = logs.gather(-1, truth.view(1, -1, 1).expand(len(logs), -1, 1)).squeeze(-1)
    return (chosen - logs.logsumexp(-1)).nan_to_num(math.log(FLOOR)).clamp(min=math.log(FLOOR))


def left_out(logs: Tensor, often: Tensor | None) -> Tensor:
    """Return weights of draws ``(S, n)``, as if each item's true label had been unknown.

    Args:
        logs: log-probability of each known true label, ``(S, n)``.
        often: how often each item counts, ``(n,)``; once where ``None``.
    """
    return truncated(-logs if often is None else -logs * often)


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

    Where items depend on each other, given the labels of their sequences or sets. True labels that are known are not used.
    Parameters are thinned to between ``LEAST`` and ``MOST`` draws.

    Args:
        model: of the annotations.
        data: the annotations.
        index: of the items, ``(n,)``.
        flat: draws of the parameters, by site.
        fixed: sites without draws.
        sites: of the model's prior.
    """
    place = torch.arange(len(index), device=index.device)
    if model.truths.coupled and data.sequence is not None:
        # Sequences and sets are whole, or the items around these would be missing.
        whole = torch.isin(data.sequence, data.sequence[index]).nonzero().squeeze(-1)
        index, place = whole, torch.searchsorted(whole, index)
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
        model.truths.log_by_class(one.joint, one.parameters, batch).reshape(-1, batch.N, batch.K)[:, place]
        for one in TorchEvaluation(model, batch, batch).each(values, fixed, count)
    ]
    return torch.cat(logs)
