"""A model of numbers and its data as a Pyro program, and samples of its parameters back to a result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import ModelError, OptionError, listed
from crowdppl.inference.numeric.draws import NumericDraws, of_readings, thinned
from crowdppl.inference.numeric.fit import numeric_model, result
from crowdppl.inference.numeric.gradients import judged, without_inverse
from crowdppl.isolation import floating, isolated
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.posterior.numbers import NumericPosterior

INTERVAL_METHOD = "draws of the parameters that the caller brought"


@dataclass(frozen=True, eq=False)
class NumericProgram:
    """A model of numbers and its data as a Pyro program, see :func:`crowdppl.pyro_program`.

    The truths are integrated out. Sites are on the scale on which labels have mean 0 and standard deviation 1.

    Attributes:
        model: the model.
        annotations: the data as they were given.
        layout: the labels on the standard scale.
        sizes: shape of each site of the parameters, by name.
    """

    model: LinearGaussian
    annotations: NumericAnnotations
    layout: StandardLabels
    sizes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, model: Any, data: NumericAnnotations, seed: int = 0) -> NumericProgram:
        """Return the program of a model, or of the model of this name."""
        chosen, layout = numeric_model(model), StandardLabels.of(data)
        if chosen.feature_model == "network":
            raise ModelError("a Pyro program has no networks of features; use feature_model='linear', or crowdppl.fit")
        with isolated(seed, device=data.item.device):
            nodes = poutine.trace(chosen.program).get_trace(layout).nodes
        sizes = {
            str(name): tuple(node["value"].shape)
            for name, node in nodes.items()
            if node["type"] == "sample" and not node["is_observed"] and name != "worker"
        }
        return cls(chosen, data, layout, sizes)

    def __call__(self) -> None:
        """Run the program with Pyro's handlers around it."""
        with floating(torch.float64):
            self.model.program(self.layout)

    def posterior(
        self, samples: Mapping[str, Any], *, kind: Literal["posterior", "approximation"] = "posterior", seed: int = 0
    ) -> NumericPosterior:
        """Return a result made of one's own samples.

        Args:
            samples: values of every parameter by site, ``(draw, ...)`` or ``(chain, draw, ...)``; other sites are left out.
            kind: ``"posterior"`` for draws from the posterior itself, ``"approximation"`` for those of a guide.
            seed: recorded with the result.

        Raises:
            OptionError: if a site is missing or has another shape.
        """
        began = time.perf_counter()
        drawn = without_inverse(self._checked(samples))
        facts = judged(drawn) if kind == "posterior" else {}
        draws = NumericDraws(thinned(drawn), kind, INTERVAL_METHOD, of_readings(drawn, self.layout), facts=facts)
        story = {"method": "samples", "options": {}, "seed": seed, "default_model": False}
        return result(
            self.annotations, self.layout, self.model, draws, story | {"seconds": time.perf_counter() - began}
        )

    def _checked(self, samples: Mapping[str, Any]) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        lead: tuple[int, ...] | None = None
        for name, size in self.sizes.items():
            if name not in samples:
                raise OptionError(f"samples lack the site {name!r}; they need {listed(self.sizes, 20)}")
            value = torch.as_tensor(np.asarray(samples[name]), dtype=torch.float64)
            own = tuple(value.shape[: value.dim() - len(size)])
            if len(own) not in (1, 2) or tuple(value.shape[len(own) :]) != size:
                raise OptionError(f"samples[{name!r}] has the shape {tuple(value.shape)}; it must be (draws, *{size})")
            if lead is not None and own != lead:
                raise OptionError(f"samples[{name!r}] has {own} draws, other sites have {lead}")
            lead = own
            out[name] = value.unsqueeze(0) if len(own) == 1 else value
        return out
