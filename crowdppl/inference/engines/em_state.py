"""States and results of EM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from crowdppl.inference.engines.m_step import MStepState
from crowdppl.model.base import Parameters


@dataclass(eq=False)
class EMResult:
    """The end of one run of EM.

    Attributes:
        point: the parameters kept.
        trace: log posterior at every step.
        log_posterior: at the point.
        log_likelihood: at the point.
        evaluations: number of E steps.
        converged: whether the run converged.
        score: by which runs are compared: the log posterior, or accuracy and mean log-probability on held-out items.
        iteration: the step whose point was kept.
        buffers: of the networks at the point.
        earlier: steps before those of the trace, with another anchor.
        path: of the run's state, where the run may go on; of several starts, that of the best alone.
    """

    point: Parameters
    trace: list[float]
    log_posterior: float
    log_likelihood: float
    evaluations: int
    converged: bool
    score: tuple[float, ...]
    iteration: int
    buffers: dict[str, Tensor]
    earlier: int = 0
    path: list[Parameters] = field(default_factory=list)


@dataclass(eq=False)
class EMState:
    """A run of EM whose log posterior cannot fall: an extrapolation that lowers it is discarded.

    Attributes:
        theta: the current parameters, as the computation holds them: by site or in one vector.
        extrapolated: parameters to try in place of them.
        path: the points before, from which the next extrapolation starts: up to two, or the path of
            :mod:`crowdppl.inference.engines.anderson`, if there is one.
        trace: log posterior at every accepted point.
        evaluations: number of E steps.
        small_gains: how many gains in a row were below the tolerance.
        result: the end of the run, once reached.
    """

    theta: Any
    extrapolated: Any = None
    path: list[Parameters] = field(default_factory=list)
    trace: list[float] = field(default_factory=list)
    evaluations: int = 0
    small_gains: int = 0
    result: EMResult | None = None

    def held(self, otherwise: Callable[[Any], Any]) -> EMState:
        """Return the state with its parameters held in another way: what a function returns of them."""
        extrapolated = None if self.extrapolated is None else otherwise(self.extrapolated)
        return replace(self, theta=otherwise(self.theta), extrapolated=extrapolated)


@dataclass(eq=False)
class StochasticState:
    """A run of EM whose log posterior may fall.

    Attributes:
        theta: the current parameters.
        best: the best step so far; its ``trace`` is that of the whole run.
        reference: log posterior that a step must exceed by the tolerance to count as a gain.
        reference_step: the last step that did.
        step: the next step.
    """

    theta: Parameters
    best: EMResult
    reference: float
    reference_step: int
    step: int


@dataclass
class EMCheckpoint:
    """The state of a fit by EM.

    Attributes:
        results: of runs that have ended.
        m_step: what gradients retain between M steps.
        buffers: of the networks.
        runs: that are under way.
        stochastic: likewise, with networks.
        backend: name of the computation, whose paths another one cannot continue. Parameters are by site.
    """

    results: list[EMResult]
    m_step: MStepState
    buffers: dict[str, Tensor]
    runs: list[EMState] = field(default_factory=list)
    stochastic: StochasticState | None = None
    backend: str = ""
