"""Spans of tokens after a fit: which ones the truth is likely to have, and with which probability.

The candidates are the spans of the most probable labels and all that some worker marked. Their probabilities are exact given the
parameters: sums over all sequences of true labels. As those of classes they allow for correlated errors on one item: here each
log-likelihood of a token is divided by its design effect, averaged over the distribution of ``rho``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.sequences import Tags, given_spans
from crowdppl.inference.dependence.design_effect import DesignEffect, factors
from crowdppl.inference.draws import Draws
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.chains import Chain, span_probabilities
from crowdppl.model.coupling import Coupling

Array = npt.NDArray[Any]
# Draws of the parameters that the probabilities are averaged over, each with one value of rho, where there is no point.
DRAWS = 50


def spans(
    model: BoundModel, data: Annotations, draws: Draws, effect: DesignEffect | None, probability: Tensor
) -> dict[str, Array] | None:
    """Return the candidates and their probabilities; ``None`` where labels do not mark spans of sequences.

    Args:
        model: the fitted model.
        data: the annotations.
        draws: of the engine.
        effect: the design effect that the result allows for, if any.
        probability: of the classes, ``(N, K)``.

    Returns:
        ``first`` and ``last`` item, ``type``, ``probability``, and ``chosen``, 1 for the spans of the most probable labels and
        0 for others that a worker marked; ``(M,)`` each, in the order of the tokens.
    """
    tags = Tags.of(data.labels)
    if tags is None or not model.truths.coupled:
        return None
    following = data.following.cpu().numpy()
    chosen = tags.spans(probability.argmax(-1).cpu().numpy(), following)
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    given = given_spans(tags, item, worker, label, following)[:, 1:]
    every, number = np.unique(np.concatenate([chosen, given]), axis=0, return_inverse=True)
    is_chosen = np.zeros(len(every), dtype=np.int8)
    is_chosen[number.reshape(-1)[: len(chosen)]] = 1
    kinds = np.arange(len(tags.types))[:, None]
    marks = [torch.from_numpy(part[None, :] == kinds).to(data.device) for part in (tags.begins, tags.continues)]
    where = torch.from_numpy(every).to(data.device)

    def of_spans(chain: Coupling, likelihoods: Tensor) -> Tensor:
        assert isinstance(chain, Chain)
        return span_probabilities(likelihoods, chain, data, where, *marks)

    first, end, kind = every.T
    mean = averaged(model, data, draws, effect, of_spans)
    return {"first": first, "last": end - 1, "type": kind, "probability": mean, "chosen": is_chosen}


def averaged(
    model: BoundModel,
    data: Annotations,
    draws: Draws,
    effect: DesignEffect | None,
    probabilities: Callable[[Coupling, Tensor], Tensor],
) -> Array:
    """Return probabilities averaged over the parameters and over rho, ``(M,)``.

    Args:
        model: whose items depend on each other.
        data: the annotations.
        draws: of the engine.
        effect: the design effect that the result allows for, if any.
        probabilities: of the coupling of the items and the log-likelihoods of their labels ``(N, S)``, ``(M,)``.
    """
    with torch.no_grad():
        each = []
        for parameters, rho in _parameters(model, data, draws, effect):
            likelihoods = model.log_likelihoods(parameters, data)
            if rho is not None:
                likelihoods = likelihoods / factors(rho, data).unsqueeze(-1)
            likelihoods = likelihoods if data.clamp is None else likelihoods + data.clamp
            each.append(probabilities(model.model.coupling(parameters, data), likelihoods))
        return np.asarray((sum(each[1:], each[0]) / len(each)).clamp(0, 1).cpu().numpy())


def _parameters(
    model: BoundModel, data: Annotations, draws: Draws, effect: DesignEffect | None
) -> list[tuple[Parameters, Tensor | None]]:
    """Return parameters to average over, each with a value of rho."""
    if draws.point is not None:
        point = model.at_sites(draws.point, data)
        if effect is None:
            return [(point, None)]
        return [(point, rho) for rho in effect.nodes(data, few=True)]
    flat = {name: value.flatten(0, 1) for name, value in draws.samples.items()}
    count = len(next(iter(flat.values())))
    rows = np.unique(np.linspace(0, count - 1, min(count, DRAWS)).astype(int)).tolist()
    rhos: list[Tensor | None] = [None] * len(rows)
    if effect is not None:
        rhos = list(effect.draw(len(rows), data)[0])
    return [({name: value[row] for name, value in flat.items()}, rho) for row, rho in zip(rows, rhos, strict=True)]
