"""Gibbs chains of models with sites that have no conditional in closed form: these move by gradients.

A sweep takes a trajectory of Hamiltonian Monte Carlo (:mod:`crowdppl.inference.backends.hamiltonian`) in the unbounded
coordinates of such sites, given the other ones, with the true labels summed out; then draws the true labels given all
parameters; then the other sites given both. Each step leaves the posterior as it is, and the true labels are drawn anew before
anything depends on them, which is a partially collapsed Gibbs sampler (D. A. van Dyk and T. Park, 2008, Partially collapsed Gibbs
samplers, Journal of the American Statistical Association 103). Where no site has a conditional, no true label need be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.backends.adaptation import Target
from crowdppl.inference.backends.batching import Function, batched
from crowdppl.inference.backends.hamiltonian import Tuning
from crowdppl.inference.backends.runs import Group, Run
from crowdppl.inference.backends.samplers import TorchSampler
from crowdppl.inference.engines.descents import expected
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.non_centred import PRIOR_DRAWS, NonCentred, hierarchical, uninformed
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.sampling import sample_truth
from crowdppl.isolation import streams_kept
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.contract import check
from crowdppl.model.program import FAULTS, together, unknowns
from crowdppl.model.truths import Coupled

# Sweeps from which on it is worth recording operations.
MANY = 200


class GradientSampler(TorchSampler):
    """Chains of a model, some or all of whose sites move by gradients.

    Args:
        model: any whose sites without a conditional in closed form are continuous.
        data: in its arrangement.
        sites: of the model's prior, by name.

    Raises:
        ModelError: for a discrete site without a conditional.
    """

    name = "gradients"

    def __init__(self, model: BoundModel, data: Annotations, sites: Mapping[str, Any]):
        super().__init__(model, data)
        self.space = Space(sites, discrete=True)
        self.drawn = [name for name in sites if name in model.sites_with_conditionals(data)]
        left = set(sites) - set(self.drawn)
        for name in left:
            if sites[name]["fn"].support.is_discrete:
                raise ModelError(
                    f"{model.name} has a discrete site {name!r}, which no gradient moves; write gibbs_step, or use method='em'"
                )
        self.open = space_of_chains(model, data, self.space.part(left), None)
        own = [name not in self.open.weights and not sites[name]["cond_indep_stack"] for name in self.open.sizes]
        sizes = torch.tensor(list(self.open.sizes.values()), dtype=torch.long)
        self.watched = torch.tensor(own, dtype=torch.bool).repeat_interleave(sizes).to(data.device)
        self.shared = int(self.watched.sum())
        # The log density with its slope, and what is read off parameters, by the number of chains that run side by side.
        self._functions: dict[int, tuple[Function, Function]] = {}

    def begin(self, group: Group, sites: Mapping[str, Any]) -> None:
        """Begin every chain at the parameters that its own disturbed votes suggest."""
        model, data = self.model, self.data
        with torch.inference_mode(False), torch.no_grad():
            start = self._start(group.chains)
            each = [MStep(model, data, self.space).start(responsibility) for responsibility in start]
            group.parameters = {name: torch.stack([one[name] for one in each]).detach() for name in self.space.sizes}

    def prepare(self, run: Run, group: Group) -> Tuning:
        """Record the model's operations, at the first sweep, and return what has been adapted."""
        model, data = self.model, self.data
        if group.chains not in self._functions:
            compiled = run.num_samples is None or run.warmup + run.num_samples >= MANY
            first, other = (self._arguments(together(points(model, data, group.chains, n))) for n in range(2))
            self._functions[group.chains] = (
                batched(self._density, first, other, compiled=compiled),
                batched(self._read, first, other, compiled=compiled),
            )
        if group.tuning is None:
            place = self._arguments(group.parameters)[0]
            given = self._given(group.parameters)
            if not bool(torch.isfinite(given(place)[0]).all()):
                raise ModelError(
                    f"{model.name}: the log density is not finite, or fails, where a chain starts; check the model with "
                    f"crowdppl.check_contract(model, data)"
                )
            group.tuning = Tuning.at(place, given)
        return group.tuning

    def sweep(self, run: Run, group: Group, sweep: int) -> None:
        """Move what has no conditional, draw the truths, and the other sites given both."""
        model, data = self.model, self.data
        # What gradients are taken of may not have come from inference mode.
        with torch.inference_mode(False), torch.no_grad():
            group.parameters = {name: value.clone() for name, value in group.parameters.items()}
            tuning = self.prepare(run, group)
            tuning.place = tuning.place.clone()
            tuning.transition(self._given(group.parameters), (sweep, run.warmup) if sweep < run.warmup else None)
            group.parameters = group.parameters | self.open.several(tuning.place)
            reading = None
            if sweep >= run.warmup or self.drawn:
                read = self._functions[group.chains][1]
                reading = read(*self._arguments(group.parameters, tuning.place))
        if reading is None:
            return
        joint, probability, confusion, prevalence = reading
        if sweep >= run.warmup:
            known = {"confusion": confusion, "prevalence": prevalence, "shared": tuning.place[:, self.watched]}
            group.moments.add(run.quantities(group.parameters, probability, known))
        if self.drawn:
            truth = (
                self._states(group)
                if isinstance(model.truths, Coupled)
                else sample_truth(model.learned_from(joint, data))
            )
            drawn = model.gibbs_step(truth, group.parameters, data)
            group.parameters = group.parameters | {name: drawn[name] for name in self.drawn}

    def facts(self, groups: Sequence[Group]) -> dict[str, Any]:
        """Return what the trajectories were like."""
        tunings = [group.tuning for group in groups if group.tuning is not None]
        transitions = max(1, sum(tuning.transitions for tuning in tunings))
        return {
            "step_size": [float(torch.tensor(tuning.log_average).exp()) for tuning in tunings],
            "acceptance": sum(tuning.accepted for tuning in tunings) / transitions,
            "divergences": sum(tuning.divergent for tuning in tunings),
            "gradients": sum(tuning.gradients for tuning in tunings),
        }

    def from_point(self, point: Parameters, count: int) -> Parameters:
        """Draws around a point are those of sites with conditionals alone.

        Raises:
            ModelError: always: the engines approximate the posterior of other models by a normal distribution.
        """
        raise ModelError(f"{self.model.name} has sites without a conditional, which no sweep draws from a point")

    # ------------------------------------------------------------------ the model, for one chain

    def _density(self, place: Tensor, *drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density in unbounded coordinates ``(P,)`` of the open sites, a scalar, and its slope."""
        return density(self.model, self.data, self.open, place, dict(zip(self.drawn, drawn, strict=True)))

    def _read(self, place: Tensor, *drawn: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return item log joint, class probabilities, confusion matrices and prevalence."""
        model, data = self.model, self.data
        values = self.open.values(place) | dict(zip(self.drawn, drawn, strict=True))
        parameters = model.conditioned(values, data)[0]
        joint = model.item_log_joint(parameters, data)
        probability = model.truths.by_class(joint.softmax(-1), parameters, data)
        return joint, probability, model.truths.confusion(parameters, data), model.truths.prevalence(parameters, data)

    # ------------------------------------------------------------------ and for all of a group

    def _arguments(self, parameters: Parameters, place: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return what functions of a chain take, stacked: places of the open sites, and values of the others."""
        if place is None:
            chains = len(next(iter(parameters.values())))
            place = torch.stack(
                [self.open.vector({name: parameters[name][n] for name in self.open.sizes}) for n in range(chains)]
            )
        return place, *(parameters[name] for name in self.drawn)

    def _given(self, parameters: Parameters) -> Any:
        """Return the log density of the open sites given the others, as a function of places ``(C, P)``."""
        drawn = [parameters[name] for name in self.drawn]
        return tolerant(self._functions[len(next(iter(parameters.values())))][0], self._density, drawn)

    def _states(self, group: Group) -> Tensor:
        """Draw the states of all items together, where they depend on each other: ``(C, N)``."""
        truths, parts = self.model.truths, []
        assert isinstance(truths, Coupled)
        for n in range(group.chains):
            values = {name: value[n] for name, value in group.parameters.items()}
            parameters = self.model.conditioned(values, self.data)[0]
            parts.append(truths.draw_states(parameters, self.data))
        return torch.stack(parts)


def tolerant(together: Function, one: Function, fixed: Sequence[Tensor] = ()) -> Target:
    """Return a log density of several chains that is minus infinity where the model fails.

    Args:
        together: of places ``(C, P)`` and further arguments, with its slope.
        one: the same for one chain.
        fixed: these arguments.
    """

    def each(place: Tensor, *arguments: Tensor) -> tuple[Tensor, ...]:
        try:
            return one(place, *arguments)
        except FAULTS:
            return place.new_full((), -math.inf), torch.zeros_like(place)

    def given(place: Tensor) -> tuple[Tensor, Tensor]:
        try:
            value, slope = together(place, *fixed)
        except FAULTS:
            # Far from the posterior a model may fail, as by a matrix that is not positive definite: nobody stays there.
            parts = [each(*arguments) for arguments in zip(place, *fixed, strict=True)]
            value, slope = (torch.stack(part) for part in zip(*parts, strict=True))
        return value, slope

    return given


def density(
    model: BoundModel, data: Annotations, space: Space, place: Tensor, fixed: Parameters
) -> tuple[Tensor, Tensor]:
    """Return the log density in the unbounded coordinates of some sites, with the truth summed out, and its slope.

    Args:
        model: any.
        data: in its arrangement.
        space: of these sites.
        place: coordinates, ``(P,)``.
        fixed: values of all other sites.
    """
    slope, value = torch.func.grad_and_value(partial(_log_density, model, data, space, fixed))(place)
    return value, slope


def plain_density(
    model: BoundModel, data: Annotations, space: Space, place: Tensor, fixed: Parameters
) -> tuple[Tensor, Tensor]:
    """Return what :func:`density` does by gradients that take any operation, but are neither mapped over sets nor recorded."""
    with torch.enable_grad():
        place = place.detach().requires_grad_()
        value = _log_density(model, data, space, fixed, place)
        (slope,) = torch.autograd.grad(value, place)
    return value.detach(), slope


def _log_density(model: BoundModel, data: Annotations, space: Space, fixed: Parameters, place: Tensor) -> Tensor:
    values, change = space.placed(place)
    return expected(model, values | fixed, None, data) + change


def space_of_chains(model: BoundModel, data: Annotations, space: Space, wanted: bool | None) -> Space:
    """Return the coordinates in which chains move by gradients: some normal sites in their non-centred form.

    Args:
        model: any with continuous sites.
        data: in its arrangement.
        space: of the sites that move so.
        wanted: whether to take that form of every site that has it; ``None`` where data say little of the site.
    """
    if wanted is False:
        return space
    drawn = points(model, data, PRIOR_DRAWS)
    one, other = drawn[:2]
    names = hierarchical(model, data, space.sites, (one, other))
    # What a site beyond the space has an influence on stays as it is.
    beyond = {name: value for name, value in other.items() if name not in space.sizes}
    names -= hierarchical(model, data, space.sites, (one, one | beyond)) if beyond else set()
    if wanted is None and names:
        with torch.no_grad(), streams_kept(data.device, 0):
            first = MStep(model, data, Space(check(model, data), discrete=True)).start(model.initial(data))
        names = uninformed(model, data, names, first, drawn)
    return NonCentred(space, model, data, names, one) if names else space


def points(model: BoundModel, data: Annotations, count: int, seed: int = 0) -> list[Parameters]:
    """Draw parameters from the prior at which forms of a function are compared, the same for a fit that continues."""
    with torch.no_grad(), streams_kept(data.device, seed):
        return [unknowns(model, data) for _ in range(count)]
