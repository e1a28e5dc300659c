"""Parameters without bounds: the coordinates in which gradients, accelerations and normal approximations are taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.distributions import biject_to, constraints
from torch.distributions.transforms import identity_transform

from crowdppl.errors import ModelError
from crowdppl.model.base import Parameters
from crowdppl.model.networks import is_weight
from crowdppl.model.program import base, is_simplex


class Space:
    """A bijection between the sites of a model and one flat vector of real numbers.

    Args:
        sites: the sample sites of the prior by name, as :func:`crowdppl.model.contract.check` returns them.
        discrete: take discrete sites too; they have a size and no coordinates (for Gibbs sampling and closed M steps).

    Attributes:
        weights: names of the sites that are weights of networks.
        per_item: names of the sites that stand in the item plate.

    Raises:
        ModelError: for a discrete site, which has no such form.
    """

    def __init__(self, sites: Mapping[str, Any], *, discrete: bool = False):
        self.sites = dict(sites)
        for name, node in sites.items():
            if node["fn"].support.is_discrete and not discrete:
                raise ModelError(f"the parameter {name!r} is discrete: gradients cannot move it; use method='gibbs'")
        self.weights = {name for name, node in sites.items() if is_weight(node)}
        self.per_item = {
            name for name, node in sites.items() if any(frame.name == "item" for frame in node["cond_indep_stack"])
        }
        self.supports = {name: node["fn"].support for name, node in sites.items()}
        self.transforms = {
            name: identity_transform if support.is_discrete else biject_to(support)
            for name, support in self.supports.items()
        }
        # Taken from a value: inverse_shape of torch's affine transform would import SymPy, longer than a small fit takes.
        self.shapes = {name: self.transforms[name].inv(node["value"]).shape for name, node in sites.items()}
        self.sizes = {name: int(shape.numel()) for name, shape in self.shapes.items()}
        self.size = sum(self.sizes.values())

    @cached_property
    def continuous(self) -> dict[str, str]:
        """The sites that are not discrete: ``"simplex"`` for probabilities that sum to one, ``"real"`` or ``"bounded"``."""
        kinds = {constraints.simplex: "simplex", constraints.real: "real"}
        supports = {name: support for name, support in self.supports.items() if not support.is_discrete}
        return {name: kinds.get(base(support), "bounded") for name, support in supports.items()}

    def part(self, names: Iterable[str]) -> Space:
        """Return the space of some of the sites."""
        chosen = set(names)
        return Space({name: node for name, node in self.sites.items() if name in chosen})

    def parts(self, vector: Tensor) -> list[Tensor]:
        """Return the part of a vector ``(size,)`` that belongs to each site."""
        return list(vector.split(list(self.sizes.values())))

    def values(self, vector: Tensor) -> Parameters:
        """Map ``(size,)`` to the sites' values."""
        parts = vector.split(list(self.sizes.values()))
        return {
            name: self.transforms[name](part.view(self.shapes[name]))
            for name, part in zip(self.sizes, parts, strict=True)
        }

    def placed(self, vector: Tensor) -> tuple[Parameters, Tensor]:
        """Map ``(size,)`` to the sites' values; return them, and the log of the derivative of the map."""
        values = Space.values(self, vector)
        change = [
            self.transforms[name].log_abs_det_jacobian(part.view(self.shapes[name]), values[name]).sum()
            for name, part in zip(self.sizes, self.parts(vector), strict=True)
        ]
        return values, torch.stack(change).sum()

    def several(self, places: Tensor) -> Parameters:
        """Map places ``(..., size)`` to the sites' values, which lead with the same axes."""
        lead, parts = places.shape[:-1], places.split(list(self.sizes.values()), -1)
        return {
            name: self.transforms[name](part.unflatten(-1, self.shapes[name] or (1,))).reshape(
                *lead, *self.sites[name]["value"].shape
            )
            for name, part in zip(self.sizes, parts, strict=True)
        }

    def vector(self, values: Mapping[str, Tensor], *, inside: bool = True) -> Tensor:
        """Map the sites' values to ``(size,)``; ``inside``: values on a boundary are first moved a little off it."""
        chosen = {name: self.interior(name, values[name]) if inside else values[name] for name in self.sizes}
        return torch.cat([self.transforms[name].inv(value).reshape(-1) for name, value in chosen.items()])

    def interior(self, name: str, value: Tensor) -> Tensor:
        """Move a starting value off the boundary of its support (a probability of 0 has no finite logit)."""
        if is_simplex(self.supports[name]):
            return 0.98 * value + 0.02 / value.shape[-1]
        if base(self.supports[name]) is constraints.unit_interval:
            return 0.98 * value + 0.01
        return value
