"""A model bound to its networks for one fit, and all that follows from its contract: what engines call."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.distributions.torch_distribution import TorchDistributionMixin
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, listed
from crowdppl.isolation import floating, streams_kept
from crowdppl.kernels.ops import above_zero, anchored, normalise, sum_by, times_log
from crowdppl.kernels.statistics import Statistics
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model import base, other_rates
from crowdppl.model.base import AnnotationModel, ClassifierTargets, Parameters
from crowdppl.model.class_scores import Classifier
from crowdppl.model.components import components
from crowdppl.model.conjugacy import Conjugacy
from crowdppl.model.coupling import Smoothed, item_log_joint
from crowdppl.model.graded_rows import RaterForm
from crowdppl.model.networks import Networks
from crowdppl.model.other_rates import OtherRates
from crowdppl.model.plates import Plates


def is_unknown(node: Mapping[str, Any]) -> bool:
    """Tell whether a node of a trace is a parameter: sampled, not observed, not a subsample of a plate."""
    return node["type"] == "sample" and not node["is_observed"] and type(node["fn"]).__name__ != "_Subsample"


def repeated(marginal: Tensor, data: Annotations) -> Tensor:
    """Count each item's ``(..., N)`` log-likelihood as often as the item stands in the data."""
    return marginal if data.multiplicity is None else marginal * data.multiplicity


class BoundModel:
    """A model with networks of its own for one fit.

    The item log joint ``L[i, s] = log p(truth_i = s) + log p(labels of i | truth = s)`` is all that an engine needs of a model:
    its ``logsumexp`` over states is the marginal likelihood, its ``softmax`` the responsibilities. Parameters may lead with
    further axes (chains, restarts, draws) where the model has ``confusion`` or a Gibbs step, and no networks.

    Args:
        model: as the user wrote it.
        data: sizes, type and device; features where the model has networks.

    Attributes:
        model: the same.
        networks: of this fit; ``None`` where the model has none.
        others: the rates of labels that are never a true label; ``None`` without such labels.
        classifier: of features, from an earlier fit, which gives items their class scores; ``None`` for none.
    """

    def __init__(self, model: AnnotationModel, data: Annotations):
        self.model, self._data = model, data
        modules = model.networks(data)
        placed = {name: copy.deepcopy(module).to(data.device, data.dtype) for name, module in modules.items()}
        self.networks = Networks(placed) if placed else None
        self.others = None if data.others is None else OtherRates(data)
        self.classifier: Classifier | None = None

    # ------------------------------------------------------------------ the model's own

    @property
    def name(self) -> str:
        """Name of the model's class, for messages."""
        return type(self.model).__name__

    def provides(self, method: str) -> bool:
        """Tell whether the model adds an optional method of the contract."""
        return base.provides(self.model, method)

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the axes of sites and derived quantities."""
        return self.model.dims if self.others is None else {**self.model.dims, other_rates.SITE: other_rates.DIMS}

    @property
    def viewed(self) -> tuple[str, ...]:
        """Names of the sites and derived quantities that tables and plots show."""
        return self.model.viewed if self.others is None else (*self.model.viewed, other_rates.SITE)

    @property
    def states_per_class(self) -> int:
        """Number ``M`` of states of the truth in each class."""
        return self.model.states_per_class(self._data)

    @property
    def states(self) -> int:
        """Number ``S`` of states of the truth."""
        return self.model.states(self._data)

    @cached_property
    def reads(self) -> bool:
        """Whether classes are read off the states with probabilities, so that a state belongs to no one class."""
        return self.provides("reading")

    @cached_property
    def coupled(self) -> bool:
        """Whether the truths of items depend on each other: of data in sequences or sets, if the model states a coupling."""
        return self.provides("coupling") and self._data.sequence is not None

    def at_sites(self, values: Mapping[str, Tensor], data: Annotations) -> Parameters:
        """Return what :meth:`prior` returns where its sites have these values."""
        return dict(values) if self.batched else self.conditioned(values, data)[0]

    def plates(self, data: Annotations, index: Tensor | None = None, *, training: bool = False) -> Plates:
        """Return the plates of the data, or of the mini-batch ``index`` among ``data.N`` items, with the networks."""
        return Plates.over(data.N, data.J, index, training=training, networks=self.networks)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample the parameters."""
        if self.others is None:
            return self.model.prior(data, plates)
        return {**self.model.prior(data, plates), other_rates.SITE: self.others.sample(plates)}

    def truth(self, parameters: Parameters, data: Annotations) -> Any:
        """Return the distribution of the truth over ``S`` states."""
        return self.model.truth(parameters, self._with_class_scores(data))

    def emission(self, parameters: Parameters, data: Annotations) -> Any:
        """Return the distribution of each label under each state, batch ``(A, S)``."""
        return self.model.emission(parameters, data)

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(truth_i = s)``, ``(..., S)`` or ``(..., N, S)``."""
        return self.model.log_truth(parameters, self._with_class_scores(data))

    def _with_class_scores(self, data: Annotations) -> Annotations:
        """Return the data with the scores of the classifier of an earlier fit, if there is one."""
        if self.classifier is None or data.class_scores is not None or data.features is None:
            return data
        return dataclasses.replace(data, class_scores=self.classifier.scores(data.features))

    def expand(self, data: Annotations) -> Annotations:
        """Return the annotations in the layout that the model is about.

        Raises:
            ModelError: where each annotation has a true label of its own, and some are never a true label.
        """
        arranged = self.model.expand(self._with_class_scores(data))
        if self.coupled and data.multiplicity is not None:
            raise ModelError(
                f"{self.name} has items in sequences or sets, which have no multiplicities; write the items out"
            )
        if data.others is not None and arranged.parent_item is not None:
            raise ModelError(
                f"{self.name} gives each annotation a true label of its own, and {listed(data.others.names.tolist(), 3)} are "
                f"never a true label; fit a model with one true label for each item, such as 'dawid-skene'"
            )
        if data.others is not None and self.reads:
            raise ModelError(
                f"{self.name} has grades, and {listed(data.others.names.tolist(), 3)} are labels that are never a true label; "
                f"leave these annotations out, or fit a model of classes, such as 'dawid-skene'"
            )
        return arranged

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return further quantities to report."""
        return self.model.derived(parameters, data)

    def classifier_targets(self, responsibility: Tensor, data: Annotations) -> ClassifierTargets | None:
        """Return what a network learns by cross-entropy, if any."""
        return self.model.classifier_targets(responsibility, data)

    def initial(self, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, S)`` that engines start from: the model's, or those that ``data.start`` gives.

        ``data.start`` is over classes; the states of each class keep the shares that the model's own have. Where a state belongs
        to no one class, the model uses it.
        """
        first = self.model.initial(data)
        return first if data.start is None or self.reads else self.at_shares(data.start, first, data)

    def at_shares(self, shares: Tensor, like: Tensor, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, S)`` with shares of classes ``(N, K)``, divided within a class as ``like`` ``(N, S)``.

        Where a state belongs to no one class, those that the model starts from with these shares.
        """
        if self.reads:
            return self.model.initial(dataclasses.replace(data, start=shares))
        M = self.states_per_class
        within = like.unflatten(-1, (-1, M)) if M > 1 else like.unsqueeze(-1)  # (N, K, M)
        total = within.sum(-1, keepdim=True)
        share = torch.where(total > 0, within / above_zero(total), 1 / M)
        return (share * shares.unsqueeze(-1)).flatten(-2)

    # ------------------------------------------------------------------ what the model's structure allows

    @cached_property
    def conjugacy(self) -> Conjugacy | None:
        """The conjugate sites, where the model states counts for some; their priors are read off one run of ``prior``."""
        if not self.provides("conjugate_counts"):
            return None
        sites, means = self._at_means
        return Conjugacy(self.model, sites, means, self._data)

    @cached_property
    def shared_confusion(self) -> bool:
        """Whether all workers share one table of label probabilities."""
        if not self.provides("confusion"):
            return False
        return self._data.J != 1 and self.model.confusion(self._at_means[1], self._data).shape[-3] == 1

    @cached_property
    def _at_means(self) -> tuple[dict[str, Any], Parameters]:
        """The sites of the prior, at their means, and what the prior returns there."""
        data = self._data
        # Blocked, since the first to ask may be within a program that a user's handlers trace, condition or replay.
        with torch.no_grad(), streams_kept(data.device), floating(data.dtype), poutine.block(), _Means():
            # Sizes alone, for streams, come without items, and Pyro has no empty plates.
            plates = Plates.over(max(1, data.N), data.J, networks=self.networks)
            trace = poutine.trace(self.model.prior).get_trace(data, plates)
        sites = {name: node for name, node in trace.nodes.items() if is_unknown(node)}
        return sites, trace.nodes["_RETURN"]["value"]

    @cached_property
    def closed(self) -> bool:
        """Whether the statistics of a pass give all parameters: only conjugate sites, and one prior of the truth for all."""
        return self.others is None and self._conjugate

    @cached_property
    def _conjugate(self) -> bool:
        """Whether they give all parameters of the model."""
        own = self.provides("m_step") or self.provides("gibbs_step") or self.provides("log_likelihoods")
        if own or self.networks is not None or self.conjugacy is None or not self.conjugacy.complete:
            return False
        return self.log_truth(self._at_means[1], self._data).dim() == 1

    @property
    def prior_in_batches(self) -> bool:
        """Whether the log prior of parameters with further axes is known without a trace."""
        return self.provides("log_prior") or self._conjugate

    @property
    def batched(self) -> bool:
        """Whether parameters may lead with further axes."""
        return self.networks is None and (self.provides("confusion") or self.provides("gibbs_step"))

    @property
    def has_conditionals(self) -> bool:
        """Whether all parameters can be drawn given the truths: by a step of the model, or by conjugate counts."""
        if not base.has_gibbs(self.model):
            return False
        return self.provides("gibbs_step") or self.conjugacy is None or self.conjugacy.complete

    def why_not_gibbs(self, data: Annotations) -> str | None:
        """Return why Gibbs sampling does not suit the model and these data; ``None`` where it does."""
        if data.multiplicity is not None:
            return "items with multiplicities cannot be sampled by method='gibbs'; write them out as items of their own"
        return self.model.check_method("gibbs", data)

    def sites_with_conditionals(self, data: Annotations) -> set[str]:
        """Return the sites that can be drawn given the truths and all other sites, in closed form.

        Counts give the conditional of a conjugate site where its prior depends on no other site, and the prior of no other site
        on it. Both are seen by exchanging the values of two draws from the prior.
        """
        others = set() if self.others is None else {other_rates.SITE}
        if self.conjugacy is None or self.networks is not None:
            return others
        with torch.no_grad(), streams_kept(data.device, seed=0):
            nodes = [poutine.trace(self.prior).get_trace(data, self.plates(data)).nodes for _ in range(2)]
        draws = [{name: node["value"] for name, node in one.items() if is_unknown(node)} for one in nodes]
        conjugate = {name: value for name, value in draws[1].items() if name in self.conjugacy.sites}
        for exchanged in (conjugate, {name: value for name, value in draws[1].items() if name not in conjugate}):
            there = self._densities(draws[0], data)
            moved = self._densities(draws[0] | exchanged, data)
            if any(not torch.equal(there[name], moved[name]) for name in draws[0] if name not in exchanged):
                return others
        return others | set(conjugate)

    def _densities(self, values: Parameters, data: Annotations) -> Parameters:
        """Return the log densities of all sites at their values."""
        with torch.no_grad():
            trace = self._conditioned(values, data, None)
            trace.compute_log_prob()
        return {name: trace.nodes[name]["log_prob"] for name in values}

    # ------------------------------------------------------------------ likelihood

    def log_likelihoods(
        self, parameters: Parameters, data: Annotations, table: Tensor | None = None, memory: Tensor | None = None
    ) -> Tensor:
        """Return ``log p(labels of item i | truth = s)`` times the item's weight, ``(..., N, S)``, in memory of its own.

        Args:
            parameters: by site.
            data: the annotations.
            table: logs of the model's ``confusion``, where they are at hand.
            memory: to write to, where the model has a table for each worker.
        """
        own = self._of_classes(parameters, data, table, memory)
        if self.others is None:
            return own
        return own.add_(self.others.log_likelihoods(parameters[other_rates.SITE], data, self.states_per_class))

    def _of_classes(
        self, parameters: Parameters, data: Annotations, table: Tensor | None, memory: Tensor | None
    ) -> Tensor:
        """Return the same of the labels that are classes."""
        if self.provides("log_likelihoods"):
            return self.model.log_likelihoods(parameters, data)
        if self.provides("confusion"):
            logs = self.model.confusion(parameters, data).log() if table is None else table
            if self.shared_confusion:
                return times_log(data.weighted_votes, logs.squeeze(-3))
            return data.counts.log_likelihoods(logs, memory)
        log_prob = self.emission(parameters, data).log_prob(data.label.unsqueeze(-1))  # (A, S)
        states = self.states
        if log_prob.shape != (data.A, states):
            raise ModelError(
                f"{self.name}.emission has batch shape {tuple(log_prob.shape)}; it must be (A, S) = ({data.A}, {states}): for "
                f"each annotation a distribution over labels under each true label"
            )
        return sum_by(data.item, data.weighted(log_prob), data.N)

    def separate_log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the sum over each item's labels of ``log sum_s p(truth = s) p(label | truth = s)``, ``(N,)``.

        The log-likelihood if each annotation had a truth of its own.
        """
        log_prob = self.emission(parameters, data).log_prob(data.label.unsqueeze(-1))  # (A, S)
        log_prior = self.log_truth(parameters, data).expand(data.N, -1)  # (N, S)
        clamp = self.clamp(parameters, data)
        if clamp is not None:
            log_prior = log_prior + clamp
        each = torch.logsumexp(log_prior[data.item] + log_prob, -1, keepdim=True)  # (A, 1)
        return sum_by(data.item, data.weighted(each), data.N).squeeze(-1)

    def tables(self, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return ``p(label | state, worker)`` ``(J, S, K)`` and the prior of the states ``(S,)``, where nothing else matters."""
        table = self.model.confusion(parameters, data)
        if self.shared_confusion:
            table = table.expand(data.J, *table.shape[1:])
        return table, self.log_truth(parameters, data).exp()

    def item_log_joint(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``L[i, s]``, ``(..., N, S)``, with what known truths say: minus infinity where one excludes a state."""
        return self._joint(self.log_likelihoods(parameters, data), parameters, data)

    def draw_states(self, parameters: Parameters, data: Annotations, factor: Tensor | None = None) -> Tensor:
        """Draw the states of all items of a model with a coupling together, ``(..., N)``.

        Where there are design effects ``factor (..., N)``, the log-likelihood of an item is divided by its own.
        """
        likelihoods = self.log_likelihoods(parameters, data)
        likelihoods = likelihoods if factor is None else likelihoods / factor.unsqueeze(-1)
        coupling = self.model.coupling(parameters, data)
        return coupling.draw_states(self._clamped(likelihoods, parameters, data), data)

    def _clamped(self, likelihoods: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        clamp = self.clamp(parameters, data)
        return likelihoods if clamp is None else likelihoods.add_(clamp)

    def smoothed(self, parameters: Parameters, data: Annotations) -> Smoothed:
        """Return the posterior of the states of all items of a model with a coupling."""
        return self._smoothed(self.log_likelihoods(parameters, data), parameters, data)

    def _smoothed(self, likelihoods: Tensor, parameters: Parameters, data: Annotations) -> Smoothed:
        """Return the posterior of the states; the likelihoods are written over."""
        return self.model.coupling(parameters, data).smooth(self._clamped(likelihoods, parameters, data), data)

    def _joint(self, likelihoods: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        if self.coupled:
            return item_log_joint(self._smoothed(likelihoods, parameters, data))
        log_prior = self.log_truth(parameters, data)
        if log_prior.dim() < likelihoods.dim():
            log_prior = log_prior.unsqueeze(-2)
        # The likelihoods have the full shape and memory of their own.
        return self._clamped(likelihoods.add_(log_prior), parameters, data)

    def log_prior(self, parameters: Parameters, data: Annotations, logs: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return ``log p(parameters)``, ``(...)``; from a trace of the prior, a scalar, where the model knows no faster way."""
        if self.prior_in_batches:
            if self.provides("log_prior"):
                own = self.model.log_prior(parameters, data)
            else:
                assert self.conjugacy is not None
                own = self.conjugacy.log_prior(parameters, logs or {})
            return own if self.others is None else own + self.others.log_prior(parameters[other_rates.SITE])
        trace = self._conditioned(parameters, data, None)
        return torch.as_tensor(trace.log_prob_sum())

    def log_density(
        self, parameters: Parameters, data: Annotations, workspace: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return item log joint and log prior, which share the logarithms of the confusion matrices.

        ``workspace`` is the engine's, passed again at every call with a single set of parameters: large arrays stay in it.
        """
        if not self.provides("confusion") or self.provides("log_likelihoods") or self.shared_confusion:
            return self.item_log_joint(parameters, data), self.log_prior(parameters, data)
        table = self.model.confusion(parameters, data)
        memory = None
        if workspace is None:
            logs = table.log()
        else:
            if not workspace:
                workspace["logs"] = torch.empty_like(table)
                workspace["likelihoods"] = table.new_empty(data.N, table.shape[-2])
            logs, memory = torch.log(table, out=workspace["logs"]), workspace["likelihoods"]
        joint = self._joint(self.log_likelihoods(parameters, data, logs, memory), parameters, data)
        known = {name: logs for name, value in parameters.items() if value is table}
        return joint, self.log_prior(parameters, data, known)

    def anchored(self, data: Annotations) -> Annotations:
        """Return the data with the model's anchor, if it states one."""
        anchor = self.model.anchor(data)
        return data if anchor is None else dataclasses.replace(data, anchor=anchor)

    def objective(self, log_joint: Tensor, data: Annotations) -> Tensor:
        """Return what parameters are learned from, ``(..., N)``: the marginal log-likelihood, unless the data are anchored."""
        return torch.logsumexp(log_joint, -1) if data.anchor is None else anchored(log_joint, data.anchor)[0]

    def expectation(self, log_joint: Tensor, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the objective ``(..., N)`` and responsibilities ``(..., N, S)``, its derivatives; overwrites ``log_joint``."""
        if data.anchor is None:
            return normalise(log_joint, overwrite=True)
        return anchored(log_joint, data.anchor)

    def learned_from(self, log_joint: Tensor, data: Annotations) -> Tensor:
        """Return log-probabilities ``(..., N, S)``, up to a constant for each item, of the states to draw parameters from."""
        return log_joint if data.anchor is None else anchored(log_joint, data.anchor)[1].log()

    def clamp(self, parameters: Parameters, data: Annotations) -> Tensor | None:
        """Return the log-probability of known truths under each state, ``(N, S)``, 0 where the truth is not known.

        0 or minus infinity, unless classes are read off the states: then ``(..., N, S)``. ``None`` where no truth is known.
        """
        if data.clamp is not None and self.reads:
            logs = self.reading(parameters, data).log().mT  # (..., K, S)
            of_known = logs.index_select(-2, data.truth.clamp(min=0))  # (..., N, S)
            return torch.where((data.truth >= 0).unsqueeze(-1), of_known, 0.0)
        if data.clamp is None or self.states_per_class == 1:
            return data.clamp
        return data.clamp.repeat_interleave(self.states_per_class, -1)

    def statistics(self, responsibility: Tensor, data: Annotations, memory: Tensor | None = None) -> Statistics:
        """Sum responsibilities ``(..., N, S)`` up by sparse products, the label counts in ``memory`` if given."""
        nothing = responsibility.new_full((), torch.nan)
        if self.shared_confusion:
            counts = (responsibility.mT @ data.weighted_votes).unsqueeze(-3)
        else:
            counts = data.counts.expected(responsibility, memory)
        return Statistics(nothing, responsibility.sum(-2), counts)

    # ------------------------------------------------------------------ closed forms

    def m_step(
        self,
        responsibility: Tensor,
        data: Annotations,
        parameters: Parameters | None = None,
        reuse: Parameters | None = None,
    ) -> Parameters:
        """Return the sites that have a closed form, at their maximum given responsibilities ``(..., N, S)``.

        ``reuse`` are earlier parameters that nobody needs any more; their memory may be written to.
        """
        closed: Parameters = {}
        if self.conjugacy is not None:
            counts = (data.J, self.states, data.K)
            memory = next(
                (v for n, v in (reuse or {}).items() if n in self.conjugacy.sites and v.shape == counts), None
            )
            closed = self.conjugacy.m_step(self.statistics(responsibility, data, memory), parameters)
        if self.provides("m_step"):
            if parameters is not None and self.networks is not None:
                parameters = self.conditioned(parameters, data)[0]  # with the networks as functions
            closed |= self.model.m_step(responsibility, data, parameters)
        if self.others is not None:
            closed[other_rates.SITE] = self.others.mode(self.by_class(responsibility, closed, data), data)
        return closed

    def m_step_of_coupled(self, expected: Smoothed, data: Annotations, parameters: Parameters) -> Parameters:
        """Return the parameters of a model with a coupling at their maximum given the posterior of all items."""
        out = self.model.m_step_of_coupled(expected, data, parameters)
        if self.others is not None:
            out[other_rates.SITE] = self.others.mode(expected.probability, data)
        return out

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the parameters given truths ``(C, N)`` of ``C`` chains; every value leads with ``C``."""
        drawn = self._drawn(truth, parameters, data)
        if self.others is not None:
            classes = torch.div(truth, self.states_per_class, rounding_mode="floor")
            drawn[other_rates.SITE] = self.others.draw(one_hot(classes, data), data)
        return drawn

    def _drawn(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the model's own parameters, as far as they have conditionals in closed form."""
        if self.provides("gibbs_step"):
            return self.model.gibbs_step(truth, parameters, data)
        if self.conjugacy is None:
            return {}
        chosen = one_hot(truth, data, self.states)
        return self.conjugacy.gibbs_step(self.statistics(chosen, data), parameters)

    def compiled_step(self, data: Annotations) -> CompiledStep | None:
        """Return the compiled step of the model, or that of its conjugate sites; ``None`` where there is neither."""
        if self.others is not None:
            return None
        return self.model.compiled_step(data) if self.provides("compiled_step") else self._components

    def compiled_raters(self, data: Annotations) -> RaterForm | None:
        """Return what compiled draws and readings of raters with thresholds need; ``None`` where they do not serve the model."""
        return None if self.others is not None else self.model.compiled_raters(data)

    @cached_property
    def _components(self) -> CompiledStep | None:
        """The compiled step that follows from counts, where all sites are conjugate."""
        return components(self.conjugacy, self._data) if self.closed and self.conjugacy is not None else None

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any] | None:
        """Return the model's guide, or that of its conjugate sites; ``None`` where there is neither."""
        if self.others is not None:
            return None
        if self.provides("guide"):
            return self.model.guide(data, start)
        if self.closed and self.conjugacy is not None:
            return self.conjugacy.guide(self.statistics(self.model.initial(data), data))
        return None

    # ------------------------------------------------------------------ what is reported

    def reading(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(class = k | truth = s)``, ``(..., S, K)``, of a model that reads classes off its states."""
        return self.model.reading(parameters, data)

    def classes_of_states(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(class = k | truth = s)``, ``(S, K)``: 0 or 1, unless classes are read off the states."""
        if self.reads:
            return self.reading(parameters, data)
        return torch.eye(data.K, dtype=data.dtype, device=data.device).repeat_interleave(self.states_per_class, 0)

    def by_class(self, values: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return probabilities of the items' classes ``(..., N, K)`` given those of the states ``(..., N, S)``.

        ``(S,)`` where all items have the same. Where classes are read off the states, a known one is certain.
        """
        if self.reads:
            out = values @ self.reading(parameters, data)
            if data.clamp is None:
                return out
            return torch.where((data.truth >= 0).unsqueeze(-1), data.clamp.exp(), out)
        M = self.states_per_class
        return values if M == 1 else values.unflatten(-1, (-1, M)).sum(-1)

    def log_by_class(self, log_joint: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log joint of the classes ``(..., N, K)`` given that of the states, in memory of its own."""
        if self.reads:
            top = log_joint.amax(-1, keepdim=True)
            return self.by_class((log_joint - top).exp(), parameters, data).log() + top
        M = self.states_per_class
        return log_joint.clone() if M == 1 else log_joint.unflatten(-1, (-1, M)).logsumexp(-1)

    def temperable(self, log_joint: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return what :meth:`tempered` takes: the log joint of the classes; where items depend on each other the log-likelihoods.

        Labels of an item are evidence on those that it depends on, too: where they count less, they do so for all. Where classes
        are read off the states it is the item log joint.
        """
        if self.coupled:
            return self.log_likelihoods(parameters, data)
        return log_joint if self.reads else self.log_by_class(log_joint, parameters, data)

    def tempered(
        self,
        log_joint: Tensor,
        factor: Tensor,
        parameters: Parameters,
        data: Annotations,
        lift: Tensor | None = None,
    ) -> Tensor:
        """Return class probabilities ``(..., N, K)`` where the log joint of each item counts ``1 / factor (..., N)``.

        Tempered on the log scale: a probability that underflows may matter once tempered. Where classes are read off the states,
        the likelihood alone is tempered: the spread of the items is not that of correlated errors.

        Args:
            log_joint: as :meth:`temperable` returns it, ``(..., N, K)`` or ``(..., N, S)``.
            factor: design effects, ``(..., N)``.
            parameters: of the model.
            data: the annotations.
            lift: weights of the classes, ``(..., K)``, if any; not where classes are read off the states.
        """
        if self.coupled:
            probability = self._smoothed(log_joint / factor.unsqueeze(-1), parameters, data).probability
            return probability if lift is None else normalised(probability * lift.unsqueeze(-2))
        if not self.reads:
            probability = (log_joint / factor.unsqueeze(-1)).softmax(-1)
            return probability if lift is None else normalised(probability * lift.unsqueeze(-2))
        log_prior = self.log_truth(parameters, data)
        log_prior = log_prior.unsqueeze(-2) if log_prior.dim() < log_joint.dim() else log_prior
        states = (log_prior + (log_joint - log_prior) / factor.unsqueeze(-1)).softmax(-1)
        return self.by_class(states, parameters, data)

    def prevalence_of(self, parameters: Parameters, data: Annotations, lead: Sequence[int] = ()) -> Tensor:
        """Return the share of each class among items, ``(..., K)``; ``lead`` are the leading axes of the parameters."""
        if self.coupled:
            return self.model.coupling(parameters, data).prevalence(data)
        if self.reads:
            states = self.log_truth(parameters, data).exp()
            same = states.dim() <= len(lead) + 1  # one prior for all items
            probs = (states.unsqueeze(-2) if same else states) @ self.reading(parameters, data)
            probs = probs.squeeze(-2) if same else probs
        elif data.class_scores is not None:  # normalised already, and large
            probs = self.by_class(self.log_truth(parameters, data).exp(), parameters, data)
        else:
            probs = self.by_class(self.truth(parameters, data).probs, parameters, data)
        if probs.dim() > len(lead) + 1:  # one prior for each item
            probs = probs.mean(-2)
        return probs.expand(*lead, data.K)

    def accuracy_of(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the probability that each worker's annotation of a random item is correct, ``(J,)``."""
        return torch.einsum("k,jkk->j", self.prevalence_of(parameters, data), self.confusion_of(parameters, data))

    def confusion_of(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label = l | truth = k)`` of each worker, ``(..., J, K, K)``.

        Where labels depend on more than the worker, the average over the worker's own annotations (uniform rows for a worker
        without any). Where a class has several states, the average over them by their prior probability.
        """
        M = self.states_per_class
        if self.provides("confusion"):
            table = self.model.confusion(parameters, data)  # (..., J, S, K)
            if self.reads:
                table = self._states_of_class(parameters, data).unsqueeze(-3) @ table
            elif M > 1:
                share = self._state_shares(parameters, data, table.dim() - 3)  # (..., K, M)
                table = (table.unflatten(-2, (-1, M)) * share[..., None, :, :, None]).sum(-2)
            return table.expand(*table.shape[:-3], data.J, *table.shape[-2:])
        if "confusion" in self.dims:
            return torch.as_tensor(self.derived(parameters, data)["confusion"])
        labels = torch.arange(data.K, device=data.device).view(-1, 1, 1)
        each = self.emission(parameters, data).log_prob(labels).exp().permute(1, 2, 0)  # (A, S, K)
        if self.reads:
            each = self._states_of_class(parameters, data) @ each
        elif M > 1:
            share = self._state_shares(parameters, data)
            share = share[data.item] if share.dim() == 3 else share  # (A, K, M) or (K, M)
            each = (each.unflatten(1, (-1, M)) * share.unsqueeze(-1)).sum(-2)
        mean = data.mean_by_worker(each)  # (J, K, K)
        return torch.where((mean.sum(-1, keepdim=True) == 0), 1 / data.K, mean)

    def _state_shares(self, parameters: Parameters, data: Annotations, leading: int | None = None) -> Tensor:
        """Return the prior probability of each state within its class, ``(..., K, M)``.

        Given the number of leading axes of the parameters, the mean over items where each has a prior of its own.
        """
        share = self.log_truth(parameters, data).exp().unflatten(-1, (-1, self.states_per_class))
        if leading is not None and share.dim() > leading + 2:
            share = share.mean(-3)
        return share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)

    def _states_of_class(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the probability of each state given the class that is read off it, ``(..., K, S)``."""
        prior = self.log_truth(parameters, data).exp()
        joint = self.reading(parameters, data).mT * prior.unsqueeze(-2)
        return joint / joint.sum(-1, keepdim=True)

    # ------------------------------------------------------------------ Pyro programs

    def program(self, data: Annotations, index: Tensor | None = None, *, training: bool = False) -> None:
        """Run the Pyro program: parameters, an enumerated truth for each item, and the observed labels as a factor.

        The specification of the model. Where items depend on each other the truth is summed out. ``index`` ``(B,)`` takes a
        mini-batch of items, whose terms are scaled up; ``training`` activates dropout.
        """
        if self.coupled:
            if index is not None:
                raise ModelError(
                    f"{self.name}: a mini-batch of items would cut sequences or sets; leave batch_size out"
                )
            self.marginal_program(data)
            return
        plates = self.plates(data, index, training=training)
        batch = data if index is None else data.mini_batch(index)
        parameters = self.prior(batch, plates)
        likelihoods = self.log_likelihoods(parameters, batch)  # (B, S)
        clamp = self.clamp(parameters, batch)
        if clamp is not None:
            likelihoods = likelihoods + clamp
        prior = self.truth(parameters, batch)
        with plates.item:
            truth = pyro.sample("truth", prior, infer={"enumerate": "parallel"})
            # Enumerated, the truth is (S, 1): indexing gives (S, B), a term for each state and item.
            pyro.factor("labels", likelihoods[torch.arange(batch.N, device=likelihoods.device), truth])
            if batch.anchor is not None:
                self.factor_anchor(parameters, batch, likelihoods)
            if batch.multiplicity is not None:
                # Enumeration takes no scale for each item: what repeats add is added with the truth summed out.
                marginal = torch.logsumexp(self.log_truth(parameters, batch) + likelihoods, -1)
                pyro.factor("repeats", (batch.multiplicity - 1) * marginal)

    def factor_anchor(self, parameters: Parameters, data: Annotations, likelihoods: Tensor) -> None:
        """Add a factor for the anchor of each item, given ``likelihoods`` ``(N, S)``, in the plate of the items."""
        joint = self.log_truth(parameters, data) + likelihoods
        pyro.factor("anchor", self.objective(joint, data) - torch.logsumexp(joint, -1))

    def marginal_program(self, data: Annotations) -> None:
        """Run the Pyro program with the truth summed out: the same posterior of the parameters, with cheaper gradients."""
        plates = self.plates(data)
        parameters = self.prior(data, plates)
        joint = self.item_log_joint(parameters, data)  # (N, S)
        with plates.item:
            pyro.factor("labels", repeated(self.objective(joint, data), data))

    def _conditioned(self, values: Mapping[str, Tensor], data: Annotations, plates: Plates | None) -> Any:
        conditioned = poutine.condition(self.prior, data=dict(values))
        return poutine.trace(conditioned).get_trace(data, self.plates(data) if plates is None else plates)

    def conditioned(
        self, values: Mapping[str, Tensor], data: Annotations, plates: Plates | None = None
    ) -> tuple[Parameters, Tensor]:
        """Run the prior with its sites fixed: what it returns, and the log density of the sites, a scalar.

        ``plates`` are those of a mini-batch, where ``data`` is one.
        """
        trace = self._conditioned(values, data, plates)
        return trace.nodes["_RETURN"]["value"], torch.as_tensor(trace.log_prob_sum())


class _Means(Messenger):  # type: ignore[misc]
    """Set sites to their prior mean: sizes and concentrations are wanted, not values, and large tables take long to draw."""

    def __init__(self, least: int = 0):
        super().__init__()
        self.least = least

    def _pyro_sample(self, message: Any) -> None:
        prior = message["fn"]
        if message["value"] is not None or not isinstance(prior, TorchDistributionMixin):
            return
        if prior.shape().numel() >= self.least and not prior.support.is_discrete:
            try:
                mean = _mean(prior)
            except NotImplementedError:
                return  # a distribution without a mean is drawn from
            if bool(torch.isfinite(_without_repeats(mean)).all()):
                message["value"] = mean


def each_of(prior: Any) -> Any:
    """Return the distribution of each part of an event that ``to_event`` made."""
    while isinstance(prior, torch.distributions.Independent):
        prior = prior.base_dist
    return prior


def _mean(prior: Any) -> Tensor:
    """Return the mean of a distribution: where all workers have one prior, expanded from one, as its parameters are."""
    of_each = each_of(prior)
    if isinstance(of_each, torch.distributions.Dirichlet):
        one = _without_repeats(of_each.concentration)
        return (one / one.sum(-1, keepdim=True)).expand(of_each.concentration.shape)
    mean = prior.mean
    # The mean may be a parameter of the prior, which the model owns.
    return _without_repeats(mean).clone().expand(mean.shape)


def _without_repeats(value: Tensor) -> Tensor:
    """Return one of the equal parts of an expanded tensor: axes without memory of their own, but for the last, have length 1."""
    return value[tuple(slice(1) if stride == 0 else slice(None) for stride in value.stride()[:-1])]


def bind(model: AnnotationModel | BoundModel, data: Annotations) -> BoundModel:
    """Return the model with networks of its own for these data, made with the current random state."""
    return BoundModel(model.model if isinstance(model, BoundModel) else model, data)


def normalised(probability: Tensor) -> Tensor:
    """Return probabilities with sum 1 over the last axis, in the same memory."""
    return probability.div_(probability.sum(-1, keepdim=True))


def one_hot(truth: Tensor, data: Annotations, states: int | None = None) -> Tensor:
    """Return truths ``(..., N)`` as indicators ``(..., N, K)``, or ``(..., N, states)``, in the data's floating type."""
    zeros = torch.zeros(*truth.shape, states or data.K, dtype=data.dtype, device=data.device)
    return zeros.scatter_(-1, truth.unsqueeze(-1), 1.0)
