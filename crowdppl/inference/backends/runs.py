"""Groups of Gibbs chains and what runs them: the state of a group, a turn of sweeps, and what every sampler answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.chains import Chain
from crowdppl.inference.backends.hamiltonian import Tuning
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.checkpoint import Checkpoint
from crowdppl.inference.engines.monitor import BlockMoments, Layout
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.sampling import GumbelMaxSampler
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.program import dispersed, prior_draws, together

# Steps of a chain's first parameters while its truths are held, where steps depend on the parameters before.
FIRST_STEPS = 30


@dataclass
class GroupState:
    """The state of some chains that run side by side.

    Attributes:
        sweep: their next sweep.
        parameters: after the last sweep; of a compiled chain the vector of its step.
        samples: draws kept, ``(draw, chain, ...)``.
        places: sweep after the warm-up of each draw kept.
        random: random numbers generated and not yet used, see :class:`GumbelMaxSampler`; of a compiled chain its stream.
        moments: of what is reported, after the warm-up.
        tuning: of trajectories, where sites move by gradients.
    """

    sweep: int
    parameters: Parameters
    samples: Parameters
    places: list[int]
    random: Tensor
    moments: BlockMoments
    tuning: Tuning | None


class Group:
    """Chains that run side by side.

    Attributes:
        chains: how many.
        kept: draws stored, with their places, sweeps after the warm-up.
        random: the state of their random numbers, as it was read from a checkpoint.
        tuning: of their trajectories, where sites move by gradients.
    """

    def __init__(self, chains: int, moments: BlockMoments):
        self.chains, self.moments = chains, moments
        self.sweep = 0
        self.parameters: Parameters = {}
        self.kept: list[tuple[int, Parameters]] = []
        self.sampler: GumbelMaxSampler | None = None
        self.chain: Chain | None = None
        self.random: Tensor | None = None
        self.tuning: Tuning | None = None

    def state(self) -> GroupState:
        """Return the state, for a checkpoint."""
        random = self.moments.origin[:0]
        if self.chain is not None:
            random = self.chain.stream
        elif self.sampler is not None:
            random = self.sampler.unused
        draws = [draw for _, draw in self.kept]
        samples = {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]} if draws else {}
        kept_at = [place for place, _ in self.kept]
        return GroupState(self.sweep, self.parameters, samples, kept_at, random, self.moments, self.tuning)

    def restore(self, state: GroupState) -> None:
        """Restore it."""
        self.sweep, self.parameters, self.moments = state.sweep, state.parameters, state.moments
        self.random, self.tuning = state.random, state.tuning
        draws = zip(*state.samples.values(), strict=True)
        self.kept = [
            (place, dict(zip(state.samples, values, strict=True)))
            for place, values in zip(state.places, draws, strict=True)
        ]


class Run(Protocol):
    """What chains need to know of the run that they are part of.

    Attributes:
        groups: of its chains.
        number: of the group that is being sampled, where one comes after the other.
        target: sweeps that each group has at the end of this turn.
        warmup: sweeps before what counts.
        step: one of so many sweeps is kept.
        num_samples: sweeps after the warm-up, where their number is known.
    """

    groups: list[Group]
    number: int
    target: int
    warmup: int
    step: int
    num_samples: int | None

    @property
    def sites(self) -> Mapping[str, Any]:
        """The sites of the model's prior, by name."""

    def quantities(self, parameters: Parameters, probability: Tensor, known: Parameters | None = None) -> Tensor:
        """Return what is watched, given the probabilities of the classes ``(c, N, K)``, and what of it is ``known``."""

    def state(self) -> Any:
        """Return the state, for a checkpoint."""


class Sampler(ABC):
    """Chains for one model and its data.

    Args:
        model: with conjugate steps.
        data: in its arrangement.

    Attributes:
        name: of the computation, as results state it.
        passes: compiled passes over the annotations, if these do the work.
        torch_threads: of torch, beside which chains have threads of their own; ``None`` for as many as there are.
        dtype: of what is watched.
        shared: coordinates that are watched besides, of sites outside of plates.
    """

    name: str
    passes: Sweeps | None = None
    torch_threads: int | None = None
    shared: int = 0

    def __init__(self, model: BoundModel, data: Annotations):
        self.model, self.data, self.dtype = model, data, data.dtype
        self.states = model.states

    def widths(self, chains: int) -> list[int]:
        """Return how many chains run side by side in each group."""
        return [1] * chains

    def watched_ahead(self, num_samples: int | None) -> int:
        """Return for how many values of what is watched there is to be memory from the start."""
        return 0

    def watch(self, rows: Tensor | None, layout: Layout, chains: int) -> None:
        """Learn what is watched: the items ``rows``, ``None`` for all, and where quantities lie."""
        return

    @abstractmethod
    def begin(self, group: Group, sites: Mapping[str, Any]) -> None:
        """Draw the first parameters of a group, which are to have all ``sites``."""

    @abstractmethod
    def turn(self, run: Run, report: ProgressCallback, keep: Checkpoint) -> None:
        """Let every group sweep up to the run's target."""

    def by_site(self, draws: Parameters) -> Parameters:
        """Return draws kept, ``(chain, draw, ...)``, by site of the model."""
        return draws

    def all_kept(self) -> Parameters | None:
        """Return all draws of a run ``(chain, draw, ...)``, where they lie together in memory."""
        return None

    def facts(self, groups: Sequence[Group]) -> dict[str, Any]:
        """Return facts on the chains that only this computation has."""
        return {}

    @abstractmethod
    def from_point(self, point: Parameters, count: int) -> Parameters:
        """Draw parameters by a sweep from a point, ``(1, count, ...)`` by site."""

    def close(self) -> None:
        """End what was begun."""
        return

    def _first(self, start: Tensor, truth: Tensor, sites: Mapping[str, Any]) -> Parameters:
        """Return the first parameters of some chains, whose truths start at responsibilities ``(C, N, S)``."""
        model, data = self.model, self.data
        own = model.provides("m_step") and model.provides("gibbs_step")
        if own and model.model.check_method("em", data) is None:
            # States beyond the classes are random at first: parameters drawn given them may stay in a mode of their own.
            given = [model.m_step(one, data) for one in start]
            if set(given[0]) == set(sites):
                return together(given)
        # Steps that also condition on the parameters get them from the prior, and forget them while the truths are held. With a
        # step of the model's own the truths held are the most probable ones: effects of items would learn to explain others.
        parameters = prior_draws(model, data, len(start))
        if not model.provides("gibbs_step"):
            return model.gibbs_step(truth, parameters, data)
        held = model.initial(data).argmax(-1).expand_as(truth)
        for _ in range(FIRST_STEPS):
            parameters = model.gibbs_step(held, parameters, data)
        return parameters

    def _start(self, chains: int) -> Tensor:
        """Return responsibilities ``(C, N, S)`` that chains start from, around the votes."""
        return dispersed(self.model.initial(self.data).expand(chains, self.data.N, self.states), self.data)
