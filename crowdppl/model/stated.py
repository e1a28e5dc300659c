"""What a model states, with the networks of one fit: its parameters, the prior of the truth, and the likelihood of labels."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from pyro import poutine
from pyro.distributions.torch_distribution import TorchDistributionMixin
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.isolation import floating, streams_kept
from crowdppl.kernels.ops import sum_by, times_log
from crowdppl.model import base, other_rates
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.class_scores import Classifier, ClassScores
from crowdppl.model.conjugacy import Conjugacy
from crowdppl.model.networks import Networks
from crowdppl.model.other_rates import OtherRates
from crowdppl.model.plates import Plates


def is_unknown(node: Mapping[str, Any]) -> bool:
    """Tell whether a node of a trace is a parameter: sampled, not observed, not a subsample of a plate."""
    return node["type"] == "sample" and not node["is_observed"] and type(node["fn"]).__name__ != "_Subsample"


class StatedModel:
    """A model with networks of its own for one fit, and what its contract states.

    Parameters may lead with further axes (chains, restarts, draws) where the model has ``confusion`` or a Gibbs step, and no
    networks.

    Args:
        model: as the user wrote it.
        data: sizes, type and device; features where the model has networks.

    Attributes:
        model: the same.
        networks: of this fit; ``None`` where the model has none.
        others: the rates of labels that are never a true label; ``None`` without such labels.
        classifier: of features, from this fit or an earlier one, which gives new items their class scores; ``None`` for none.
    """

    def __init__(self, model: AnnotationModel, data: Annotations):
        self.model, self._data = model, data
        modules = model.networks(data)
        placed = {name: copy.deepcopy(module).to(data.device, data.dtype) for name, module in modules.items()}
        self.networks = Networks(placed) if placed else None
        self.others = None if data.others is None else OtherRates(data)
        self.classifier: Classifier | None = None

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

    def plates(self, data: Annotations, index: Tensor | None = None, *, training: bool = False) -> Plates:
        """Return the plates of the data, or of the mini-batch ``index`` among ``data.N`` items, with the networks."""
        return Plates.over(data.N, data.J, index, training=training, networks=self.networks)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample the parameters."""
        data = self._with_class_scores(data)
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

    def with_learned_scores(self, data: Annotations, scores: ClassScores | None = None) -> Annotations:
        """Return the data of a fit with class scores, where the model reads any, and keep their classifier.

        Args:
            data: the annotations.
            scores: where they have been learned.
        """
        if self.provides("learn_class_scores") and scores is None:
            scores = self.model.learn_class_scores(data)
        if scores is None or not self.provides("learn_class_scores"):
            return data
        self.classifier = scores.classifier
        return dataclasses.replace(data, class_scores=scores.scores.to(data.device))

    def _with_class_scores(self, data: Annotations) -> Annotations:
        """Return the data with the scores of the classifier, if there is one."""
        if self.classifier is None or data.class_scores is not None or data.features is None:
            return data
        return dataclasses.replace(data, class_scores=self.classifier.scores(data.features))

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return further quantities to report."""
        return self.model.derived(parameters, data)

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

    def tables(self, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return ``p(label | state, worker)`` ``(J, S, K)`` and the prior of the states ``(S,)``, where nothing else matters."""
        table = self.model.confusion(parameters, data)
        if self.shared_confusion:
            table = table.expand(data.J, *table.shape[1:])
        return table, self.log_truth(parameters, data).exp()

    # ------------------------------------------------------------------ prior

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

    def at_sites(self, values: Mapping[str, Tensor], data: Annotations) -> Parameters:
        """Return what :meth:`prior` returns where its sites have these values."""
        return dict(values) if self.batched else self.conditioned(values, data)[0]

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
