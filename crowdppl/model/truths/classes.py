"""Truths that are classes: each of the ``S = K M`` states belongs to one class, and ``M`` of them to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, listed
from crowdppl.kernels.ops import above_zero
from crowdppl.model.base import Parameters
from crowdppl.model.stated import StatedModel


def mean(values: Iterator[Tensor]) -> Tensor:
    """Return the mean of at least one tensor, of which one at a time is in memory; the first is written over."""
    total, count = next(values), 1
    for value in values:
        total, count = total.add_(value), count + 1
    return total.div_(count)


class Classes:
    """The truths of a model, each independent of the others given the parameters.

    Args:
        model: as stated.

    Attributes:
        coupled: whether the truths of items depend on each other.
        read_off: whether classes are read off the states with probabilities, so that a state belongs to no one class.
    """

    coupled: bool = False
    read_off: bool = False

    def __init__(self, model: StatedModel):
        self._model = model

    # ------------------------------------------------------------------ data

    def require(self, data: Annotations, arranged: Annotations) -> None:
        """Refuse data that truths of this kind do not allow.

        Args:
            data: the annotations.
            arranged: the same in the layout that the model is about.

        Raises:
            ModelError: where each annotation has a true label of its own, and some are never a true label.
        """
        if data.others is not None and arranged.parent_item is not None:
            raise ModelError(
                f"{self._model.name} gives each annotation a true label of its own, and "
                f"{listed(data.others.names.tolist(), 3)} are never a true label; fit a model with one true label for each item, "
                f"such as 'dawid-skene'"
            )

    def clamp(self, parameters: Parameters, data: Annotations) -> Tensor | None:
        """Return the log-probability of known truths under each state, ``(N, S)``, 0 where the truth is not known.

        0 or minus infinity, unless classes are read off the states: then ``(..., N, S)``. ``None`` where no truth is known.
        """
        M = self._model.states_per_class
        return data.clamp if data.clamp is None or M == 1 else data.clamp.repeat_interleave(M, -1)

    def clamped(self, log_likelihoods: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log-likelihoods ``(..., N, S)`` with what known truths say, in the same memory."""
        clamp = self.clamp(parameters, data)
        return log_likelihoods if clamp is None else log_likelihoods.add_(clamp)

    def started(self, first: Tensor, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, S)`` that engines start from.

        Args:
            first: those of the model, ``(N, S)``.
            data: whose ``start`` has shares of the classes ``(N, K)``, if any; the states of a class keep those of ``first``.
        """
        return first if data.start is None else self.at_shares(data.start, first, data)

    def at_shares(self, shares: Tensor, like: Tensor, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, S)`` with shares of classes ``(N, K)``, divided within a class as ``like`` ``(N, S)``."""
        M = self._model.states_per_class
        within = like.unflatten(-1, (-1, M)) if M > 1 else like.unsqueeze(-1)  # (N, K, M)
        total = within.sum(-1, keepdim=True)
        share = torch.where(total > 0, within / above_zero(total), 1 / M)
        return (share * shares.unsqueeze(-1)).flatten(-2)

    # ------------------------------------------------------------------ states

    def log_joint(self, log_likelihoods: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``L[i, s]``, ``(..., N, S)``: minus infinity where a known truth excludes a state.

        Args:
            log_likelihoods: ``log p(labels of item i | truth = s)``, ``(..., N, S)``, which are written over.
            parameters: of the model.
            data: the annotations.
        """
        log_prior = self._model.log_truth(parameters, data)
        if log_prior.dim() < log_likelihoods.dim():
            log_prior = log_prior.unsqueeze(-2)
        return self.clamped(log_likelihoods.add_(log_prior), parameters, data)

    def draw_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Draw the states of all items before any label is seen, ``(N,)``."""
        log_prior = self._model.log_truth(parameters, data)
        return torch.as_tensor(dist.Categorical(logits=log_prior.expand(data.N, log_prior.shape[-1])).sample())

    def draw_classes(self, states: Tensor, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the class of each of some states ``(n,)``, and the probabilities that it was drawn with, ``(n, K)``."""
        classes = self.class_of(states)
        return classes, torch.nn.functional.one_hot(classes, data.K)

    def class_of(self, states: Tensor) -> Tensor:
        """Return the class that each state belongs to."""
        return torch.div(states, self._model.states_per_class, rounding_mode="floor")

    def log_likelihood_besides(self, parameters: Parameters, data: Annotations) -> Tensor | None:
        """Return the log-probability of what is observed of items besides their labels, ``(..., N)``; ``None`` for nothing.

        The item log joint contains it, and what is reported as the log-likelihood of labels does not.
        """
        return None

    # ------------------------------------------------------------------ classes

    def classes_of_states(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(class = k | truth = s)``, ``(S, K)``: 0 or 1, unless classes are read off the states."""
        return torch.eye(data.K, dtype=data.dtype, device=data.device).repeat_interleave(
            self._model.states_per_class, 0
        )

    def by_class(self, values: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return probabilities of the items' classes ``(..., N, K)`` given those of the states ``(..., N, S)``.

        ``(S,)`` where all items have the same. Where classes are read off the states, a known one is certain.
        """
        M = self._model.states_per_class
        return values if M == 1 else values.unflatten(-1, (-1, M)).sum(-1)

    def log_by_class(self, log_joint: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log joint of the classes ``(..., N, K)`` given that of the states, in memory of its own."""
        M = self._model.states_per_class
        return log_joint.clone() if M == 1 else log_joint.unflatten(-1, (-1, M)).logsumexp(-1)

    def temperable(self, log_joint: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return what :meth:`tempered` takes: here the log joint of the classes, ``(..., N, K)``."""
        return self.log_by_class(log_joint, parameters, data)

    def tempered(
        self, log_joint: Tensor, factor: Tensor, parameters: Parameters, data: Annotations, lift: Tensor | None = None
    ) -> Tensor:
        """Return class probabilities ``(..., N, K)`` where the log joint of each item counts ``1 / factor (..., N)``.

        Tempered on the log scale: a probability that underflows may matter once tempered.

        Args:
            log_joint: as :meth:`temperable` returns it, ``(..., N, K)`` or ``(..., N, S)``.
            factor: design effects, ``(..., N)``.
            parameters: of the model.
            data: the annotations.
            lift: weights of the classes, ``(..., K)``, if any; not where classes are read off the states.
        """
        return _lifted((log_joint / factor.unsqueeze(-1)).softmax(-1), lift)

    def averaged(
        self, log_joint: Tensor, factors: Sequence[Tensor], parameters: Parameters, data: Annotations
    ) -> Tensor:
        """Return the mean of :meth:`tempered` over several factors ``(N,)``, of one log joint, ``(N, K)``."""
        # Items lie together in memory, where the processor takes several at once: classes are few.
        columns = log_joint.mT.contiguous()
        return mean((columns / factor).softmax(0) for factor in factors).mT

    # ------------------------------------------------------------------ workers

    def prevalence(self, parameters: Parameters, data: Annotations, lead: Sequence[int] = ()) -> Tensor:
        """Return the share of each class among items, ``(..., K)``; ``lead`` are the leading axes of the parameters."""
        if data.class_scores is not None:  # normalised already, and large
            states = self._model.log_truth(parameters, data).exp()
        else:
            states = self._model.truth(parameters, data).probs
        return _of_items(self.by_class(states, parameters, data), data, lead)

    def accuracy(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the probability that each worker's annotation of a random item is correct, ``(J,)``."""
        return torch.einsum("k,jkk->j", self.prevalence(parameters, data), self.confusion(parameters, data))

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label = l | truth = k)`` of each worker, ``(..., J, K, K)``.

        Where labels depend on more than the worker, the average over the worker's own annotations (uniform rows for a worker
        without any). Where a class has several states, the average over them by their prior probability.
        """
        model = self._model
        if model.provides("confusion"):
            table = self._averaged(model.model.confusion(parameters, data), parameters, data)
            return table.expand(*table.shape[:-3], data.J, *table.shape[-2:])
        if "confusion" in model.dims:
            return torch.as_tensor(model.derived(parameters, data)["confusion"])
        labels = torch.arange(data.K, device=data.device).view(-1, 1, 1)
        each = model.emission(parameters, data).log_prob(labels).exp().permute(1, 2, 0)  # (A, S, K)
        mean = data.mean_by_worker(self._averaged_each(each, parameters, data))  # (J, K, K)
        return torch.where((mean.sum(-1, keepdim=True) == 0), 1 / data.K, mean)

    def _averaged(self, table: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Return tables of workers by class ``(..., J, K, K)`` given those by state ``(..., J, S, K)``."""
        M = self._model.states_per_class
        if M == 1:
            return table
        share = self._state_shares(parameters, data, table.dim() - 3)  # (..., K, M)
        return (table.unflatten(-2, (-1, M)) * share[..., None, :, :, None]).sum(-2)

    def _averaged_each(self, each: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        """Likewise of single annotations, ``(A, K, K)`` given ``(A, S, K)``."""
        M = self._model.states_per_class
        if M == 1:
            return each
        share = self._state_shares(parameters, data)
        share = share[data.item] if share.dim() == 3 else share  # (A, K, M) or (K, M)
        return (each.unflatten(1, (-1, M)) * share.unsqueeze(-1)).sum(-2)

    def _state_shares(self, parameters: Parameters, data: Annotations, leading: int | None = None) -> Tensor:
        """Return the prior probability of each state within its class, ``(..., K, M)``.

        Given the number of leading axes of the parameters, the mean over items where each has a prior of its own.
        """
        share = self._model.log_truth(parameters, data).exp().unflatten(-1, (-1, self._model.states_per_class))
        if leading is not None and share.dim() > leading + 2:
            share = share.mean(-3)
        return share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)


def averaged_one_by_one(
    truths: Classes, log_joint: Tensor, factors: Sequence[Tensor], parameters: Parameters, data: Annotations
) -> Tensor:
    """As :meth:`Classes.averaged`, of truths that are tempered for one factor after the other."""
    return mean(truths.tempered(log_joint, factor, parameters, data) for factor in factors)


def normalised(probability: Tensor) -> Tensor:
    """Return probabilities with sum 1 over the last axis, in the same memory."""
    return probability.div_(probability.sum(-1, keepdim=True))


def one_hot(truth: Tensor, data: Annotations, states: int | None = None) -> Tensor:
    """Return truths ``(..., N)`` as indicators ``(..., N, K)``, or ``(..., N, states)``, in the data's floating type."""
    zeros = torch.zeros(*truth.shape, states or data.K, dtype=data.dtype, device=data.device)
    return zeros.scatter_(-1, truth.unsqueeze(-1), 1.0)


def _lifted(probability: Tensor, lift: Tensor | None) -> Tensor:
    """Return class probabilities ``(..., N, K)`` by weights of the classes ``(..., K)``, if any."""
    return probability if lift is None else normalised(probability * lift.unsqueeze(-2))


def _of_items(probability: Tensor, data: Annotations, lead: Sequence[int]) -> Tensor:
    """Return the mean over items, where each has a prior of its own, for all leading axes: ``(..., K)``."""
    if probability.dim() > len(lead) + 1:
        probability = probability.mean(-2)
    return probability.expand(*lead, data.K)
