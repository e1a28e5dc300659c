"""What an engine returns: draws of the parameters, or one point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.engines.monitor import Diagnosis
from crowdppl.model.base import Parameters

Kind = Literal["posterior", "approximation", "point"]


@dataclass
class Draws:
    """Draws of the parameters, with a description of their origin.

    Attributes:
        samples: value of every site, ``(chain, draw, ...)``; empty while they are still to be drawn, see ``later``.
        kind: draws from the posterior itself, draws from an approximation to it, or one point.
        interval_method: a sentence that says how intervals computed from these draws arise.
        point: the best single value of every site, for engines that maximise.
        fixed: value of sites that have no draws: the weights of networks, where an engine takes them as a point.
        trace: objective or loss per iteration, by name, ``(iteration,)``.
        statistics: of each draw, ``(chain, draw)``, by the names of ArviZ's schema.
        facts: single facts of the run (converged, iterations, divergences), serialisable as JSON.
        warnings: sentences for the user.
        sites: of the model's prior, as :func:`crowdppl.model.contract.check` returns them.
        backend: the name of the computation that the engine was left to.
        passes: the compiled passes over the data that the engine used, for :func:`crowdppl.inference.evaluate.evaluate`.
        diagnosis: whether the chains have converged, where the engine has watched them itself.
        later: draws the samples, given ``passes``; where an engine has its point first, and its truths need no more.
        count: how many draws there will be, where they come later.
    """

    samples: Parameters
    kind: Kind
    interval_method: str
    point: Parameters | None = None
    fixed: Parameters = field(default_factory=dict)
    trace: dict[str, Tensor] = field(default_factory=dict)
    statistics: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    sites: dict[str, Any] = field(default_factory=dict)
    backend: str = "torch"
    passes: Sweeps | None = None
    diagnosis: Diagnosis | None = None
    later: Callable[[Sweeps | None], Parameters] | None = None
    count: int = 0

    def drawn(self) -> Draws:
        """Draw the samples where they are still to be drawn; return these draws."""
        if self.later is not None:
            self.samples, self.later = self.later(self.passes), None
        return self
