"""What a compiled chain needs of a model: which parameter step it has, with its numbers, and how its parameters lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """

    family: str
    shapes: Mapping[str, tuple[int, ...]]
    sizes: np.ndarray
    numbers: np.ndarray
    states: int
    work: int

    def vector(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Return sites ``(..., *shape)`` as vectors of float64, ``(..., P)``."""
        parts = [
            parameters[name].flatten(-len(shape)) if shape else parameters[name].unsqueeze(-1)
            for name, shape in self.shapes.items()
        ]
        return torch.cat(parts, -1).double()

    def parameters(self, vector: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return the sites ``(..., *shape)`` of vectors ``(..., P)``, in a floating type."""
        parts = vector.to(dtype).split([int(np.prod(shape)) for shape in self.shapes.values()], -1)
        return {
            name: part.reshape((*vector.shape[:-1], *shape))
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }
