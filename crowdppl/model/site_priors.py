"""The log prior density site by site, of many draws: what power-scaling of one prior at a time needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.program import FAULTS

# Numbers of sites at a time.
BLOCK = 2**22


def log_priors(model: BoundModel, draws: Parameters, fixed: Parameters, data: Annotations) -> Parameters:
    """Return the log density of each site at each of ``D`` draws, ``(D,)``, or ``(D, J)`` of a site with a value for each worker.

    Likewise ``(D, N)`` of the items, and of other plates. Their sum is the log prior.

    Args:
        model: any.
        draws: values by site, ``(D, ...)``.
        fixed: those of sites without draws.
        data: in the model's arrangement.
    """
    count = len(next(iter(draws.values()))) if draws else 1
    if model.closed and model.conjugacy is not None:
        return model.conjugacy.log_priors(draws)
    if model.provides("log_priors") and model.others is None and not fixed and draws:
        with torch.no_grad():
            return {name: _all(value, count) for name, value in model.model.log_priors(draws, data).items()}

    def one(values: Parameters) -> Parameters:
        conditioned = poutine.condition(model.prior, data={**values, **fixed})
        trace = poutine.trace(conditioned).get_trace(data, model.plates(data))
        trace.compute_log_prob()
        return {name: node["log_prob"] for name, node in trace.nodes.items() if _has_density(node)}

    size = max(1, sum(value[0].numel() for value in draws.values()) + data.N)
    with torch.no_grad(), pyro.validation_enabled(False):
        together = _together(one, draws, max(1, BLOCK // size)) if draws else None
        if together is not None:
            return {name: _all(value, count) for name, value in together.items()}
        each = [one({name: value[d] for name, value in draws.items()}) for d in range(count)]
    return {name: torch.stack([values[name] for values in each]) for name in each[0]}


def _together(one: Callable[[Parameters], Parameters], draws: Parameters, chunk: int) -> Parameters | None:
    """Return ``one`` of all draws by a single run of the prior, hundreds of times faster; ``None`` where it cannot be.

    A prior may look at values of its sites, which a run for several draws does not know.
    """
    try:
        return dict(torch.vmap(one, chunk_size=chunk)(dict(draws)))
    except (CrowdpplError, *FAULTS):
        return None


def _all(value: Any, count: int) -> Tensor:
    """Return log densities ``(count, ...)``, in memory of their own."""
    return value.expand(count, *value.shape[1:]).contiguous()


def _has_density(node: Mapping[str, Any]) -> bool:
    """Tell whether a node of a trace is a part of the density: a site, or a factor."""
    return node["type"] == "sample" and type(node["fn"]).__name__ != "_Subsample"
