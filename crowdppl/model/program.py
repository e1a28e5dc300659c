"""Runs of a model's program outside of engines: draws from its prior, its densities, parameters in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions import biject_to, constraints

from crowdppl.data.annotations import Annotations
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.stated import is_unknown

# The support of a mixture, of which torch has no coordinates, though its values are those of the components; torch 2.4 gives
# theirs.
MIXTURE = getattr(constraints, "MixtureSameFamilyConstraint", None)
if MIXTURE is not None:
    biject_to.register(MIXTURE, lambda support: biject_to(support.base_constraint))


# Share of random probabilities in a start that differs from another.
DISPERSION = 0.3
# What a faulty model may raise when it is run.
FAULTS = (RuntimeError, ValueError, IndexError, KeyError, TypeError, AttributeError, NotImplementedError)


def is_simplex(support: Any) -> bool:
    """Tell whether values are probabilities that sum to one over the last axis."""
    return base(support) is constraints.simplex


def base(support: Any) -> Any:
    """Return the support of one value, where several are one event."""
    while isinstance(support, constraints.independent) or (MIXTURE is not None and isinstance(support, MIXTURE)):
        support = support.base_constraint
    return support


def unknowns(model: BoundModel, data: Annotations) -> Parameters:
    """Draw every parameter from the prior once: values by site."""
    nodes = poutine.trace(model.prior).get_trace(data, model.plates(data)).nodes
    return {name: node["value"] for name, node in nodes.items() if is_unknown(node)}


def prior_draws(model: BoundModel, data: Annotations, count: int) -> Parameters:
    """Draw from the prior ``count`` times: every value ``(count, ...)``."""
    return together([unknowns(model, data) for _ in range(count)])


def dispersed(start: Tensor, data: Annotations) -> Tensor:
    """Mix responsibilities ``(..., N, S)`` with uniform draws from the simplex, for starts that differ; known truths stay."""
    noise = dist.Dirichlet(torch.ones_like(start)).sample()
    known = (data.truth >= 0).unsqueeze(-1)
    return torch.where(known, start, (1 - DISPERSION) * start + DISPERSION * noise)


def densities(model: BoundModel, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
    """Return item log joint ``(C, N, S)`` and log prior ``(C,)`` at ``C`` sets of parameters, with which every value leads.

    For batched models. A log prior from the trace of the prior is taken set by set: it sums up all there is.
    """
    if not parameters or model.prior_in_batches:
        return model.log_density(parameters, data)
    each = [model.conditioned(one, data)[1] for one in apart(parameters)]
    return model.item_log_joint(parameters, data), torch.stack(each)


def together(sets: Sequence[Mapping[str, Any]]) -> Parameters:
    """Stack several sets of parameters: every value leads with an axis of them."""
    return {name: torch.stack([one[name] for one in sets]) for name in sets[0]}


def apart(parameters: Parameters) -> list[Parameters]:
    """Undo :func:`together`: a set for each place on the leading axis."""
    return [dict(zip(parameters, values, strict=True)) for values in zip(*parameters.values(), strict=True)]
