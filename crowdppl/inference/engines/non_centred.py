"""Coordinates in which normal sites with a learned mean or scale are standard normal: the non-centred form of a hierarchy.

A site ``x ~ Normal(loc, scale)`` whose location or scale is another unknown makes a funnel where data say little of each ``x``:
the smaller the scale, the closer all ``x`` must be to the location, and no length of step suits both ends. In coordinates
``z = (x - loc) / scale`` the prior has no funnel; where data say much of each ``x``, they tie ``z`` and the scale together
instead. O. Papaspiliopoulos, G. O. Roberts and M. Sköld (2007), A general framework for the parametrization of hierarchical
models, Statistical Science 22; Pyro has the same as ``LocScaleReparam``. Draws are of the sites as the model has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel, repeated
from crowdppl.model.program import FAULTS
from crowdppl.model.stated import each_of

# A start is at most so many scales from the location: where a scale is close to 0, votes may be far from it.
FARTHEST = 2.0
# Data say much of a site where their information is so many times that of the prior: the centred form is then no worse.
MUCH = 3.0
# Random signs, and the step of differences, by which that is measured; draws from the prior.
PROBES, STEP, PRIOR_DRAWS = 4, 1e-3, 20


class _Placed(Messenger):  # type: ignore[misc]
    """Give sites their values, and some of them values of standard normal coordinates, or the other way round."""

    def __init__(self, values: Parameters, names: Collection[str], *, inverse: bool = False):
        super().__init__()
        self.values, self.names, self.inverse = dict(values), names, inverse
        self.change: Any = 0.0
        self.coordinates: Parameters = {}

    def _pyro_sample(self, message: Any) -> None:
        name = message["name"]
        if name not in self.values:
            return
        if name in self.names:
            loc, scale = _normal(message["fn"])
            given = self.values[name]
            if self.inverse:
                self.coordinates[name] = ((given - loc) / scale).clamp(-FARTHEST, FARTHEST)
            else:
                self.values[name] = loc + scale * given
                self.change = self.change + scale.log().expand_as(given).sum()
        message["value"] = self.values[name]


def _normal(prior: Any) -> tuple[Tensor, Tensor]:
    """Return location and scale of a normal distribution, whose values may be an event."""
    each = each_of(prior)
    return each.loc, each.scale


def hierarchical(
    model: BoundModel, data: Annotations, sites: Mapping[str, Any], two: tuple[Parameters, Parameters]
) -> set[str]:
    """Return the normal sites whose location or scale differs between two sets of parameters, that is, depends on others.

    Args:
        model: any.
        data: in its arrangement.
        sites: of the model, by name.
        two: values of all sites.
    """
    names = [name for name, node in sites.items() if isinstance(each_of(node["fn"]), torch.distributions.Normal)]
    if not names:
        return set()
    with torch.no_grad():
        traces = [model._conditioned(values, data, None) for values in two]
    out = set()
    for name in names:
        one, other = (_normal(trace.nodes[name]["fn"]) for trace in traces)
        if not all(map(torch.equal, one, other)):
            out.add(name)
    return out


def uninformed(
    model: BoundModel, data: Annotations, names: Collection[str], values: Parameters, drawn: Collection[Parameters]
) -> set[str]:
    """Return the sites of which data say little: information times prior variance, on average, is below ``MUCH``.

    The information on each number is the curvature of the log-likelihood, the truth summed out, at ``values``, by differences of
    slopes along ``PROBES`` random signs (M. F. Hutchinson's estimate of a diagonal).

    Args:
        model: any.
        data: in its arrangement.
        names: of normal sites.
        values: of all sites, near the posterior.
        drawn: from the prior, whose median variance counts.
    """
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        traces = [model._conditioned(one, data, None) for one in drawn]
    out = set()
    for name in names:
        scales = [_normal(trace.nodes[name]["fn"])[1].square().mean() for trace in traces]
        at, total = values[name], 0.0
        for _ in range(PROBES):
            sign = (2 * torch.randint(2, at.shape, generator=random) - 1).to(at)
            up, down = (_slope(model, data, values | {name: at + step * sign}, name) for step in (STEP, -STEP))
            total += float((sign * (down - up)).mean()) / (2 * STEP * PROBES)
        if not total * float(torch.stack(scales).median()) > MUCH:
            out.add(name)
    return out


def _slope(model: BoundModel, data: Annotations, values: Parameters, name: str) -> Tensor:
    """Return the slope of the log-likelihood in the values of a site, 0 where it does not depend on them."""
    with torch.enable_grad():
        moved = values[name].detach().requires_grad_()
        parameters, _ = model.conditioned({**values, name: moved}, data)
        likelihood = repeated(model.objective(model.item_log_joint(parameters, data), data), data).sum()
        if not likelihood.requires_grad:
            return torch.zeros_like(moved)
        (slope,) = torch.autograd.grad(likelihood, moved, allow_unused=True)
    return torch.zeros_like(moved) if slope is None else slope


class NonCentred(Space):
    """The coordinates of a space, with some normal sites by standard normal ones.

    Args:
        space: of the sites.
        model: that they belong to.
        data: in its arrangement.
        names: of the normal sites, on whose locations and scales no site beyond the space has an influence.
        rest: values of the sites beyond the space.
    """

    def __init__(
        self, space: Space, model: BoundModel, data: Annotations, names: Collection[str], rest: Parameters | None = None
    ):
        super().__init__(space.sites, discrete=True)
        self.model, self.data, self.names = model, data, frozenset(names)
        self.rest = {name: value for name, value in (rest or {}).items() if name not in self.sizes}

    def _run(self, values: Mapping[str, Tensor], *, inverse: bool = False) -> _Placed:
        handler = _Placed({**self.rest, **values}, self.names, inverse=inverse)
        with pyro.poutine.block(), handler:
            self.model.prior(self.data, self.model.plates(self.data))
        return handler

    def placed(self, vector: Tensor) -> tuple[Parameters, Tensor]:
        """Map ``(size,)`` to the sites' values; return them, and the log of the derivative of the map."""
        values, change = super().placed(vector)
        handler = self._run(values)
        return {name: handler.values[name] for name in self.sizes}, change + handler.change

    def values(self, vector: Tensor) -> Parameters:
        """Map ``(size,)`` to the sites' values."""
        handler = self._run(super().values(vector))
        return {name: handler.values[name] for name in self.sizes}

    def several(self, places: Tensor) -> Parameters:
        """Map places ``(..., size)`` to the sites' values, which lead with the same axes."""
        flat = places.reshape(-1, self.size)
        chosen = list(self.names)

        def one(place: Tensor) -> tuple[Tensor, ...]:
            values = self.values(place)
            return tuple(values[name] for name in chosen)

        with pyro.validation_enabled(False):
            try:
                parts = torch.vmap(one)(flat)
            except FAULTS:  # a model that looks at values takes one place at a time
                parts = tuple(map(torch.stack, zip(*map(one, flat), strict=True)))
        moved = {
            name: part.reshape(*places.shape[:-1], *part.shape[1:]) for name, part in zip(chosen, parts, strict=True)
        }
        return super().several(places) | moved

    def vector(self, values: Mapping[str, Tensor], *, inside: bool = True) -> Tensor:
        """Map the sites' values to ``(size,)``, those of a start to within ``FARTHEST`` scales."""
        if inside:
            values = {name: self.interior(name, value) for name, value in values.items() if name in self.sizes}
        return super().vector({**values, **self._run(values, inverse=True).coordinates}, inside=False)
