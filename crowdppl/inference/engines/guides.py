"""Guides for stochastic variational inference: families of approximations to the posterior of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro import poutine
from pyro.infer.autoguide import (
    AutoDelta,
    AutoGuideList,
    AutoLowRankMultivariateNormal,
    AutoMultivariateNormal,
    AutoNormal,
)
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.plates import Plates

# Guides of all sites together, with a name for users.
JOINT: dict[str, tuple[Callable[..., Any], str]] = {
    "full-rank": (AutoMultivariateNormal, "one normal for all parameters in unbounded coordinates"),
    "low-rank": (AutoLowRankMultivariateNormal, "one normal of low rank for all parameters in unbounded coordinates"),
}
# Most parameters of a covariance matrix.
FULL_RANK = 2000


def guide_of(
    model: BoundModel, data: Annotations, space: Space, first: Parameters, kind: str, *, in_batches: bool = False
) -> tuple[Callable[..., Any], str]:
    """Return the guide and its name for users.

    Args:
        model: bound to its networks.
        data: the annotations.
        space: of the model's sites.
        first: initial values.
        kind: ``"auto"``, ``"point"``, or one of :data:`JOINT`.
        in_batches: whether the guide is called with batches of items.

    Raises:
        ModelError: where one normal for all sites is too large, or items have sites of their own and come in batches.
    """
    inside = {name: space.interior(name, value) for name, value in first.items()}
    start = init_to_value(values=inside)
    story = poutine.block(model.program, hide=["truth", "labels", "repeats"])
    if kind == "point":
        return _Positional(AutoDelta(story, init_loc_fn=start, create_plates=_plates)), "a point"
    weights = sorted(space.weights)
    if kind in JOINT:
        return _joint(model, space, story, start, kind, weights, in_batches=in_batches)
    own = model.guide(data, first)
    if own is not None:
        return _Positional(own), "the model's guide"
    name = "independent normals in unbounded coordinates"
    if not space.weights:
        return _Positional(AutoNormal(story, init_loc_fn=start, create_plates=_plates)), name
    both = AutoGuideList(story, create_plates=_plates)
    both.append(AutoDelta(poutine.block(story, expose=weights), init_loc_fn=start))
    if len(weights) < len(space.sizes):
        others = poutine.block(story, hide=weights)
        both.append(AutoNormal(others, init_loc_fn=start))
        name += ", a point for the weights of networks"
    return _Positional(both), name


def _joint(
    model: BoundModel,
    space: Space,
    story: Callable[..., Any],
    start: Callable[..., Any],
    kind: str,
    weights: list[str],
    *,
    in_batches: bool,
) -> tuple[Callable[..., Any], str]:
    """Return one normal for all sites, with the weights of networks as a point."""
    size = space.size - sum(space.sizes[name] for name in weights)
    if kind == "full-rank" and size > FULL_RANK:
        raise ModelError(
            f"{model.name} has {size:,} parameters here, and a covariance matrix of at most {FULL_RANK:,} is fitted; use "
            f"guide='low-rank'"
        )
    if in_batches and space.per_item:
        raise ModelError(
            f"{model.name} has parameters of items ({', '.join(sorted(space.per_item))}), which one normal for all parameters "
            f"cannot take in batches; leave out batch_size"
        )
    family, name = JOINT[kind]
    normal = family(poutine.block(story, hide=weights) if weights else story, init_loc_fn=start)
    if not weights:
        return _Positional(normal), name
    both = AutoGuideList(story, create_plates=_plates)
    both.append(AutoDelta(poutine.block(story, expose=weights), init_loc_fn=start))
    both.append(normal)
    return _Positional(both), f"{name}, a point for the weights of networks"


class _Positional:
    """A guide called with data and batch, without further arguments of the program."""

    def __init__(self, family: Callable[..., Any]):
        self.family = family

    def __call__(self, data: Annotations, index: Tensor | None = None) -> Any:
        return self.family(data) if index is None else self.family(data, index)


def medians(guide: Callable[..., Any], data: Annotations, space: Space) -> Parameters:
    """Return the medians of the guide's sites; of one without ``median``, the means of its distributions in a trace."""
    family = guide.family if isinstance(guide, _Positional) else guide
    if hasattr(family, "median"):
        with torch.no_grad():
            middle = family.median(data)
        return {name: middle[name].detach() for name in space.sizes}
    trace = poutine.trace(guide).get_trace(data)
    return {name: trace.nodes[name]["fn"].mean.detach() for name in space.sizes}


def _plates(data: Annotations, index: Tensor | None = None) -> list[Any]:
    plates = Plates.over(data.N, data.J, index)
    return [plates.item, plates.worker]


def guide_draws(
    guide: Callable[..., Any], data: Annotations, sites: list[str], weights: list[str], count: int
) -> tuple[Parameters, Parameters]:
    """Return draws of the sites, ``(1, count, ...)``, and the weights of networks, which the guide holds at a point."""
    drawn = []
    for _ in range(count):
        trace = poutine.trace(guide).get_trace(data)
        drawn.append({name: trace.nodes[name]["value"] for name in sites})
    fixed = {name: trace.nodes[name]["value"].detach() for name in weights}
    return {name: torch.stack([draw[name] for draw in drawn]).unsqueeze(0) for name in sites}, fixed
