"""A model bound to its networks for one fit, and all that follows from its contract: what engines call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pyro
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.kernels.ops import anchored, normalise, sum_by
from crowdppl.kernels.statistics import Statistics
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model import other_rates
from crowdppl.model.base import AnnotationModel, ClassifierTargets, Parameters
from crowdppl.model.components import components
from crowdppl.model.coupling import Smoothed
from crowdppl.model.graded_rows import RaterForm
from crowdppl.model.stated import StatedModel
from crowdppl.model.truths import Classes, truths_of
from crowdppl.model.truths.classes import one_hot


def repeated(marginal: Tensor, data: Annotations) -> Tensor:
    """Count each item's ``(..., N)`` log-likelihood as often as the item stands in the data."""
    return marginal if data.multiplicity is None else marginal * data.multiplicity


class BoundModel(StatedModel):
    """A model with networks of its own for one fit.

    The item log joint ``L[i, s] = log p(truth_i = s) + log p(labels of i | truth = s)`` is all that an engine needs of a model:
    its ``logsumexp`` over states is the marginal likelihood, its ``softmax`` the responsibilities. What its states say of classes
    is asked of ``truths``.

    Args:
        model: as the user wrote it.
        data: sizes, type and device; features where the model has networks.
    """

    @property
    def truths(self) -> Classes:
        """The kind of truth of the items; not kept, since it refers to this object and would keep its data alive."""
        return truths_of(self, in_sequences=self._data.sequence is not None)

    def expand(self, data: Annotations) -> Annotations:
        """Return the annotations in the layout that the model is about.

        Raises:
            ModelError: where the kind of truth does not allow for the data.
        """
        arranged = self.model.expand(self._with_class_scores(data))
        self.truths.require(data, arranged)
        return arranged

    def initial(self, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, S)`` that engines start from: the model's, or those that ``data.start`` gives."""
        return self.truths.started(self.model.initial(data), data)

    def classifier_targets(self, responsibility: Tensor, data: Annotations) -> ClassifierTargets | None:
        """Return what a network learns by cross-entropy, if any."""
        return self.model.classifier_targets(responsibility, data)

    # ------------------------------------------------------------------ joint density

    def item_log_joint(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``L[i, s]``, ``(..., N, S)``, with what known truths say: minus infinity where one excludes a state."""
        return self.truths.log_joint(self.log_likelihoods(parameters, data), parameters, data)

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
        joint = self.truths.log_joint(self.log_likelihoods(parameters, data, logs, memory), parameters, data)
        known = {name: logs for name, value in parameters.items() if value is table}
        return joint, self.log_prior(parameters, data, known)

    def separate_log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the sum over each item's labels of ``log sum_s p(truth = s) p(label | truth = s)``, ``(N,)``.

        The log-likelihood if each annotation had a truth of its own.
        """
        log_prob = self.emission(parameters, data).log_prob(data.label.unsqueeze(-1))  # (A, S)
        log_prior = self.log_truth(parameters, data).expand(data.N, -1)  # (N, S)
        clamp = self.truths.clamp(parameters, data)
        if clamp is not None:
            log_prior = log_prior + clamp
        each = torch.logsumexp(log_prior[data.item] + log_prob, -1, keepdim=True)  # (A, 1)
        return sum_by(data.item, data.weighted(each), data.N).squeeze(-1)

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
            closed[other_rates.SITE] = self.others.mode(self.truths.by_class(responsibility, closed, data), data)
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
            classes = self.truths.class_of(truth)
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

    # ------------------------------------------------------------------ Pyro programs

    def program(self, data: Annotations, index: Tensor | None = None, *, training: bool = False) -> None:
        """Run the Pyro program: parameters, an enumerated truth for each item, and the observed labels as a factor.

        The specification of the model. Where items depend on each other the truth is summed out. ``index`` ``(B,)`` takes a
        mini-batch of items, whose terms are scaled up; ``training`` activates dropout.
        """
        if self.truths.coupled:
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
        clamp = self.truths.clamp(parameters, batch)
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


def bind(model: AnnotationModel | BoundModel, data: Annotations) -> BoundModel:
    """Return the model with networks of its own for these data, made with the current random state."""
    return BoundModel(model.model if isinstance(model, BoundModel) else model, data)
