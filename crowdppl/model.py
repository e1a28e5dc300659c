"""What an annotation model says, what it may add, and what follows from it.

A model states how labels arise in three methods that return *distributions*: ``prior``, ``truth`` and ``emission``. From
these follow the Pyro program with its enumerated truth, the program with the truth summed out, the evidence and the item
log joint, simulation, and worker quality. A model may add closed forms, which engines then use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.isolation import isolated
from crowdppl.kernels import normalise, sum_by
from crowdppl.plates import Plates

Parameters = dict[str, Tensor]


class AnnotationModel(ABC):
    """A generative story of annotation.

    Subclass it (one step, no deeper), usually as a frozen dataclass whose fields are the hyperparameters, and write
    :meth:`prior`, :meth:`truth` and :meth:`emission`. The rest is inherited. :meth:`log_confusion`, :meth:`m_step`,
    :meth:`gibbs_step`, :meth:`guide` and :meth:`initial` may be added; :func:`provides` tells an engine whether they are.

    Attributes:
        dims: names of the axes of each site's value, for the result; those of plates are found without it.
    """

    dims: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    # ------------------------------------------------------------------ the story: to be written

    @abstractmethod
    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample every continuous unknown with ``pyro.sample`` and return them by site name.

        Args:
            data: sizes ``data.J``, ``data.K``; of the labels nothing may be used here.
            plates: ``plates.worker`` for sites ``(J, ...)``, ``plates.item`` for sites ``(N, ...)``.
        """

    @abstractmethod
    def truth(self, parameters: Parameters, data: Annotations) -> Any:
        """Return ``p(truth_i)``: a Categorical over ``K`` classes, one for all items or batch ``(N,)``."""

    @abstractmethod
    def emission(self, parameters: Parameters, data: Annotations) -> Any:
        """Return ``p(label_n | truth = k)``: a distribution over labels with batch ``(A, K)``."""

    # ------------------------------------------------------------------ what a model may add

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(truth_i = k)``, ``(..., K)`` or ``(..., N, K)``: by default from :meth:`truth`."""
        return self.truth(parameters, data).logits

    def log_confusion(self, parameters: Parameters) -> Tensor:
        """Return ``log p(label = l | truth = k, worker j)``, ``(..., J, K, K)``, where that is all a label depends on."""
        raise NotImplementedError

    def m_step(self, responsibility: Tensor, data: Annotations, reuse: Parameters | None = None) -> Parameters:
        """Return the parameters that maximise expected log joint plus log prior given ``(N, K)`` responsibilities.

        ``reuse`` are earlier parameters nobody needs any more: a model may write into their memory, or leave them be.
        """
        raise NotImplementedError

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw parameters from their conditional given truths ``(C, N)`` of ``C`` chains; every value leads with ``C``."""
        raise NotImplementedError

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return a Pyro guide for :meth:`program`, called with its arguments; ``start`` is a sensible first point."""
        raise NotImplementedError

    def initial(self, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, K)`` to start from: majority vote, which also breaks the symmetry of labels."""
        return data.majority()

    # ------------------------------------------------------------------ what follows

    def evidence(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(labels of item i | truth = k)``, ``(..., N, K)``, in memory of its own: it is added to."""
        if provides(self, "log_confusion"):
            return data.counts.evidence(self.log_confusion(parameters))
        log_prob = self.emission(parameters, data).log_prob(data.label.unsqueeze(-1))  # (A, K)
        if log_prob.shape != (data.A, data.K):
            raise ModelError(
                f"{type(self).__name__}.emission has batch shape {tuple(log_prob.shape)}; it must be (A, K) = "
                f"({data.A}, {data.K}): for each judgement a distribution over labels under each truth"
            )
        return sum_by(data.item, log_prob, data.N)

    def item_log_joint(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``L[i, k] = log p(truth_i = k) + log p(labels of i | truth = k)``, ``(..., N, K)``.

        Minus infinity at classes that a known truth rules out. Parameters may lead with further axes (chains) where the
        model has :meth:`log_confusion`.
        """
        return self._joint(self.evidence(parameters, data), parameters, data)

    def _joint(self, evidence: Tensor, parameters: Parameters, data: Annotations) -> Tensor:
        log_prior = self.log_truth(parameters, data)
        if log_prior.dim() < evidence.dim():
            log_prior = log_prior.unsqueeze(-2)
        # The evidence was made for this and has the full shape: added to in its own memory.
        joint = evidence.add_(log_prior)
        return joint if data.clamp is None else joint.add_(data.clamp)

    def log_density(
        self, parameters: Parameters, data: Annotations, scratch: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the item log joint and the log prior together: a model may share work between them.

        ``scratch`` is the caller's, handed in again at every call: a model may keep large arrays in it between calls.
        """
        return self.item_log_joint(parameters, data), self.log_prior(parameters, data)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(parameters)``, a scalar, on the scale of the sites' own values."""
        return conditioned(self, parameters, data)[1]

    def program(self, data: Annotations, index: Tensor | None = None) -> None:
        """Run the Pyro program: parameters, an enumerated truth for each item, and the evidence observed.

        The specification of the model. ``index`` ``(B,)`` takes a mini-batch of items, whose terms are scaled up.
        """
        plates = Plates.over(data.N, data.J, index)
        batch = data if index is None else data.batch(index)
        parameters = self.prior(batch, plates)
        evidence = self.evidence(parameters, batch)  # (B, K)
        if batch.clamp is not None:
            evidence = evidence + batch.clamp
        with plates.item:
            truth = pyro.sample("truth", self.truth(parameters, batch), infer={"enumerate": "parallel"})
            # Enumerated, the truth is (K, 1): indexing gives (K, B), a term for each class and item.
            pyro.factor("labels", evidence[torch.arange(batch.N, device=evidence.device), truth])

    def marginal_program(self, data: Annotations) -> None:
        """Run the Pyro program with the truth summed out: the same posterior of the parameters, and cheaper to climb."""
        plates = Plates.over(data.N, data.J)
        parameters = self.prior(data, plates)
        joint = self.item_log_joint(parameters, data)  # (N, K)
        with plates.item:
            pyro.factor("labels", torch.logsumexp(joint, -1))

    def prevalence_of(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the share of each class among items, ``(..., K)``."""
        probs = self.truth(parameters, data).probs
        return probs.mean(-2) if probs.dim() > 1 and probs.shape[-2] == data.N else probs

    def confusion_of(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label = l | truth = k)`` of each worker, ``(..., J, K, K)``.

        Where labels depend on more than the worker, the average over the worker's own judgements (uniform rows for a
        worker without any).
        """
        if provides(self, "log_confusion"):
            return self.log_confusion(parameters).exp()
        labels = torch.arange(data.K, device=data.device).view(-1, 1, 1)
        each = self.emission(parameters, data).log_prob(labels).exp()  # (K labels, A, K truths)
        mean = data.mean_by_worker(each.permute(1, 2, 0))  # (J, K, K)
        return torch.where((data.judgements_per_worker == 0).view(-1, 1, 1), 1 / data.K, mean)

    def simulate(
        self,
        task: Any,
        worker: Any,
        *,
        classes: int,
        seed: int,
        parameters: Mapping[str, Any] | None = None,
    ) -> tuple[Annotations, np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
        """Draw labels for a design from the story.

        Args:
            task: item of each judgement, ``(A,)``: identifiers of any kind.
            worker: worker of each judgement, ``(A,)``.
            classes: ``K``.
            seed: of the draw; the same seed gives the same data.
            parameters: values of some sites to fix; the others are drawn from the prior.

        Returns:
            The labelled data (classes ``0..K-1``), the truth of its items ``(N,)`` and the parameters.
        """
        design = Annotations.from_arrays(task, worker, np.zeros(len(task), dtype=np.int64), labels=range(classes))
        with isolated(seed), torch.no_grad():
            fixed = {
                name: torch.as_tensor(np.asarray(value), dtype=design.dtype)
                for name, value in (parameters or {}).items()
            }
            plates = Plates.over(design.N, design.J)
            drawn = poutine.condition(self.prior, data=fixed)(design, plates)
            truth_prior = self.truth(drawn, design)
            truth = truth_prior.sample() if truth_prior.batch_shape == (design.N,) else truth_prior.sample((design.N,))
            under_each = self.emission(drawn, design).sample()  # (A, K): a label under each truth
            label = under_each.gather(-1, truth.reshape(-1)[design.item].unsqueeze(-1)).squeeze(-1)
        data = replace(design, label=label.long(), notes=())
        return data, truth.reshape(-1).numpy(), {name: value.numpy() for name, value in drawn.items()}


def provides(model: AnnotationModel, method: str) -> bool:
    """Tell whether a model adds an optional method of :class:`AnnotationModel`."""
    return getattr(type(model), method) is not getattr(AnnotationModel, method)


def check(model: AnnotationModel, data: Annotations) -> dict[str, Any]:
    """Run a model once with all of Pyro's checks on and return the sites of its prior.

    Raises:
        ModelError: where the model does not keep its contract, with the reason.
    """
    name = type(model).__name__
    try:
        with pyro.validation_enabled(True), torch.no_grad():
            traced = poutine.trace(model.prior).get_trace(data, Plates.over(data.N, data.J))
            returned = traced.nodes["_RETURN"]["value"]
            sites = {
                site: node
                for site, node in traced.nodes.items()
                if node["type"] == "sample" and type(node["fn"]).__name__ != "_Subsample"
            }
            if not isinstance(returned, dict) or not set(sites) <= set(returned):
                raise ModelError(
                    f"{name}.prior must return a dict with every site it samples, {sorted(sites)}; it returned "
                    f"{sorted(returned) if isinstance(returned, dict) else type(returned).__name__}"
                )
            classes = model.truth(returned, data).logits.shape[-1]
            if classes != data.K:
                raise ModelError(f"{name}.truth is a distribution over {classes} classes; the data have {data.K}")
            joint = model.item_log_joint(returned, data)
            poutine.trace(model.marginal_program).get_trace(data)
    except (RuntimeError, ValueError, IndexError, KeyError, TypeError, AttributeError, NotImplementedError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{name} failed on {data!r}: {type(error).__name__}: {error}") from error
    if joint.shape != (data.N, data.K):
        raise ModelError(f"{name} gives an item log joint of shape {tuple(joint.shape)}; it must be (N, K)")
    return sites


def dispersed(start: Tensor, data: Annotations, weight: float = 0.3) -> Tensor:
    """Mix responsibilities ``(..., N, K)`` with uniform draws from the simplex, for starts that differ; known truths stay."""
    noise = dist.Dirichlet(torch.ones_like(start)).sample()
    known = (data.truth >= 0).unsqueeze(-1)
    return torch.where(known, start, (1 - weight) * start + weight * noise)


def conditioned(model: AnnotationModel, values: Mapping[str, Tensor], data: Annotations) -> tuple[Parameters, Tensor]:
    """Run the prior with its sites fixed: what it returns, and the log density of the sites."""
    plates = Plates.over(data.N, data.J)
    trace = poutine.trace(poutine.condition(model.prior, data=dict(values))).get_trace(data, plates)
    return trace.nodes["_RETURN"]["value"], torch.as_tensor(trace.log_prob_sum())


def prior_draws(model: AnnotationModel, data: Annotations, count: int) -> Parameters:
    """Draw from the prior ``count`` times: every value ``(count, ...)``."""
    draws = [model.prior(data, Plates.over(data.N, data.J)) for _ in range(count)]
    return {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]}


def one_hot(truth: Tensor, data: Annotations) -> Tensor:
    """Return truths ``(..., N)`` as indicators ``(..., N, K)`` in the data's floating type."""
    zeros = torch.zeros(*truth.shape, data.K, dtype=data.dtype, device=data.device)
    return zeros.scatter_(-1, truth.unsqueeze(-1), 1.0)


def responsibilities(model: AnnotationModel, parameters: Parameters, data: Annotations) -> Tensor:
    """Return ``p(truth_i = k | labels, parameters)``, ``(..., N, K)``."""
    return normalise(model.item_log_joint(parameters, data))[1]
