"""What a compiled chain needs of a model: which parameter step it has, with its numbers, and how its parameters lie."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class CompiledStep:
    """A parameter step of :mod:`crowdppl.kernels.chains` with its constants.

    Attributes:
        family: name of the step.
        shapes: of the value of each site, in the order in which the step's vector of parameters holds them.
        sizes: whole numbers that the step takes, int64.
        numbers: real numbers that it takes, float64.
        states: of an item.
        work: numbers of memory that the step needs.
        betas: sites whose values are held with their complements, as pairs.
        simplexes: sites whose values are probabilities that sum to one.
    """

    family: str
    shapes: Mapping[str, tuple[int, ...]]
    sizes: np.ndarray
    numbers: np.ndarray
    states: int
    work: int
    betas: frozenset[str] = frozenset()
    simplexes: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """The number of parameters in a vector."""
        return sum(math.prod(shape) for shape in self._held.values())

    @cached_property
    def _held(self) -> dict[str, tuple[int, ...]]:
        """The shape in which each site is held."""
        return {name: (*shape, 2) if name in self.betas else shape for name, shape in self.shapes.items()}

    def vector(self, parameters: Mapping[str, Tensor], *, shared: bool = False) -> Tensor:
        """Return sites ``(..., *shape)`` as vectors of float64, ``(..., P)``.

        Args:
            parameters: by site.
            shared: whether the vectors may share the memory of the parameters, where these lie side by side.
        """
        parts = []
        for name, shape in self._held.items():
            value = parameters[name].double()
            value = torch.stack([value, 1 - value], -1) if name in self.betas else value
            parts.append(value.flatten(-len(shape)) if shape else value.unsqueeze(-1))
        together = _side_by_side(parts) if shared else None
        return torch.cat(parts, -1) if together is None else together

    def parameters(self, vector: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return the sites ``(..., *shape)`` of vectors ``(..., P)``, in a floating type."""
        held = self._held
        parts = vector.to(dtype).split([math.prod(shape) for shape in held.values()], -1)
        out = {}
        for (name, shape), part in zip(held.items(), parts, strict=True):
            value = part.reshape((*vector.shape[:-1], *shape))
            if dtype != torch.float64 and name in self.betas | self.simplexes:  # no probability is 0, nor a Beta's 1
                limits = torch.finfo(dtype)
                value = value.clamp(limits.tiny, 1 - limits.eps if name in self.betas else 1)
            out[name] = value[..., 0] if name in self.betas else value
        return out


def _side_by_side(parts: list[Tensor]) -> Tensor | None:
    """Return parts ``(..., n)`` as one array without a copy, ``None`` unless they follow each other in memory."""
    first, size = parts[0], 0
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not same or part.stride() != first.stride() or part.storage_offset() != first.storage_offset() + size:
            return None
        size += part.shape[-1]
    return first.as_strided((*first.shape[:-1], size), first.stride(), first.storage_offset())
