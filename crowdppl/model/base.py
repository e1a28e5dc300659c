"""What an annotation model says, what it may add, and what follows from it.

A model states how labels arise in three methods that return *distributions*: ``prior``, ``truth`` and ``emission``. From
these follow the Pyro program with its enumerated truth, the program with the truth summed out, the evidence and the item
log joint, simulation, and worker quality. A model may add closed forms, which engines then use.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions.torch_distribution import TorchDistributionMixin
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import constraints

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError, ModelError
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import above_zero, normalise, sum_by
from crowdppl.model.networks import Bound, is_weight
from crowdppl.model.plates import Plates

Parameters = dict[str, Any]  # site name -> Tensor, and what prior adds for truth and emission (networks as functions)


# Items that a check goes through, where a model allows a part.
CHECKED = 1000
# Numbers of a site of probabilities from which on a check takes their mean: to draw a hundred million takes eight seconds.
DRAWN = 10_000_000


class Sums(NamedTuple):
    """What a pass over items leaves, where a label depends on truth and worker only, and all items share the truth's prior.

    Attributes:
        log_likelihood: of all labels, a scalar of float64.
        size: expected number of items of each state, ``(..., S)``.
        counts: expected number of each worker's labels, ``(..., J, S, K)`` = (worker, state, label).
    """

    log_likelihood: Tensor
    size: Tensor
    counts: Tensor


class Expected(NamedTuple):
    """What a mean-field E step goes by: ``q(parameters)``, the conditional posterior given expected sums, in expectation.

    Attributes:
        table: ``exp(E[log p(label | state, worker)])``, ``(J, S, K)``; rows sum to less than 1.
        prior: ``exp(E[log p(state)])``, ``(S,)``.
        divergence: Kullback-Leibler, of ``q`` from the prior, a scalar.
        mean: of the parameters.
    """

    table: Tensor
    prior: Tensor
    divergence: Tensor
    mean: Parameters


class AnnotationModel(ABC):
    """A generative story of annotation.

    Subclass it (one step, no deeper), usually as a frozen dataclass whose fields are the hyperparameters, and write
    :meth:`prior`, :meth:`truth` and :meth:`emission`. The rest is inherited. :meth:`log_confusion`, :meth:`m_step`,
    :meth:`gibbs_step`, :meth:`guide` and :meth:`initial` may be added; :func:`provides` tells an engine whether they are.

    Most models have one state of the truth for each class. One that splits classes (into subtypes, into groups of
    annotators) has ``S = K * substates`` states, state ``k * substates + m`` belonging to class ``k``: ``truth`` and
    ``emission`` are then over states, and everything reported is summed over the states of a class.

    Attributes:
        dims: names of the axes of each site's value, for the result; those of plates are found without it.
        whole_counts: whether ``gibbs_step`` takes counts for whole numbers, so that items with weights cannot be sampled by it.
        batched_m_step: whether ``m_step`` takes responsibilities ``(C, N, S)`` of ``C`` ascents, and with them current parameters
            of which every value leads with ``C``. Restarts of EM then go through one batch where that is quicker, if it gives all
            sites and :meth:`log_confusion` or :meth:`gibbs_step` is there, too.
        defaults: options of an engine that this model wants otherwise than the engine does (its paper's schedule).
    """

    dims: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    whole_counts: ClassVar[bool] = False
    batched_m_step: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    _bound: Bound | None = None

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
        """Return ``p(truth_i)``: a Categorical over ``S`` states (``K`` classes), one for all items or batch ``(N,)``."""

    @abstractmethod
    def emission(self, parameters: Parameters, data: Annotations) -> Any:
        """Return ``p(label_n | truth = s)``: a distribution over ``K`` labels with batch ``(A, S)``."""

    # ------------------------------------------------------------------ what a model may add

    @property
    def states_per_class(self) -> int:
        """Number of states of the truth in each class: 1, unless the model splits classes."""
        return 1

    def networks(self, data: Annotations) -> dict[str, torch.nn.Module]:
        """Return the networks by name, freshly made for ``data.D`` features: :meth:`sample_network` puts them into the story."""
        return {}

    def unsuited(self, method: str) -> str | None:
        """Say why an engine does not suit the model as it is configured, in a sentence; ``None`` where it does."""
        return None

    def arrange(self, data: Annotations) -> Annotations:
        """Return the annotations as the story takes them: by default as they are.

        ``data.item_label_cells()`` where each label of an item has a truth of its own, ``data.per_annotation()`` where each annotation
        has.
        """
        return data

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return further quantities to report with each draw, by name; their axes stand in ``dims``.

        Those with an axis ``annotation`` ``(A,)`` are averaged over draws.
        """
        return {}

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(truth_i = s)``, ``(..., S)`` or ``(..., N, S)``: by default from :meth:`truth`."""
        return self.truth(parameters, data).logits

    def log_confusion(self, parameters: Parameters) -> Tensor:
        """Return ``log p(label = l | truth = s, worker j)``, ``(..., J, S, K)``, where that is all a label depends on."""
        raise NotImplementedError

    def m_step(self, responsibility: Tensor, data: Annotations, reuse: Parameters | None = None) -> Parameters:
        """Return the parameters that maximise expected log joint plus log prior given ``(N, S)`` responsibilities.

        Responsibilities come multiplied by the items' multiplicities. ``reuse`` are earlier parameters nobody needs any more: a
        model may write into their memory, or leave them be. A model may also take ``parameters=``, the current ones (``None``
        at the start), and may return some of its sites only: gradients then raise the others.
        """
        raise NotImplementedError

    def m_step_from(self, sums: Sums, data: Annotations) -> Parameters:
        """Return what :meth:`m_step` does from the sums over items, where they are all that it takes; their memory may be kept.

        Of the data only sizes may be used. With :meth:`log_confusion`, one state a class and a prior of the truth that all items
        share, EM then goes over the annotations once a step, by compiled passes, and in several processes.
        """
        raise NotImplementedError

    def gibbs_from(self, sums: Sums, data: Annotations) -> Parameters:
        """Draw what :meth:`gibbs_step` does from the sums over items with drawn truths, where they are all that it takes."""
        raise NotImplementedError

    def expected_from(self, sums: Sums, data: Annotations) -> Expected:
        """Return what mean-field variational Bayes expects of the conditional posterior that :meth:`gibbs_from` draws from."""
        raise NotImplementedError

    def table(self, parameters: Parameters) -> Tensor:
        """Return ``p(label = l | truth = s, worker j)``, ``(..., J, S, K)``, without logs; not to be written to."""
        return self.log_confusion(parameters).exp()

    @property
    def full_batch(self) -> bool:
        """Whether networks are climbed by L-BFGS over all items (small ones without dropout), not by mini-batches."""
        return False

    @property
    def detached(self) -> bool:
        """Whether the taught network (see :meth:`targets`) is in no likelihood: EM then climbs what the others are in."""
        return False

    def first(self, responsibility: Tensor, data: Annotations) -> Parameters:
        """Return first values of sites that gradients move, given first responsibilities; the prior's median for the rest."""
        return {}

    def targets(self, responsibility: Tensor, data: Annotations) -> tuple[str, Tensor] | None:
        """Return the network that learns the truth by cross-entropy, and what it is to learn; ``None`` for gradients of all.

        For models whose network says what the truth is and nothing else: its part of the expected log joint is
        ``sum targets * log_softmax(network(features))``, with ``targets (N, K)`` in the order of ``data.features``; the M step
        then needs no more than that. Responsibilities come multiplied by multiplicities.
        """
        return None

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw parameters from their conditional given truths ``(C, N)`` of ``C`` chains; every value leads with ``C``."""
        raise NotImplementedError

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return a Pyro guide for :meth:`program`, called with its arguments; ``start`` is a sensible first point."""
        raise NotImplementedError

    def initial(self, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, S)`` to start from: majority vote, which also breaks the symmetry of labels."""
        M = self.states_per_class
        return data.majority() if M == 1 else data.majority().repeat_interleave(M, -1) / M

    # ------------------------------------------------------------------ what follows

    def starting(self, data: Annotations) -> Tensor:
        """Return responsibilities ``(N, S)`` that engines start from: :meth:`initial`, or what the data bring along.

        Where ``data.start`` says what is known of the classes, the states of each class keep the shares that ``initial`` gives.
        """
        first = self.initial(data)
        if data.start is None:
            return first
        M = self.states_per_class
        within = first.unflatten(-1, (-1, M)) if M > 1 else first.unsqueeze(-1)  # (N, K, M)
        total = within.sum(-1, keepdim=True)
        share = torch.where(total > 0, within / above_zero(total), 1 / M)
        return (share * data.start.unsqueeze(-1)).flatten(-2)

    def sample_network(self, name: str, plates: Plates, *, spread: float = 1.0) -> Callable[..., Any]:
        """Sample the weights of a network of :meth:`networks`, normal with standard deviation ``spread``; return it.

        The function takes what the module's ``forward`` takes. To be called in :meth:`prior`.
        """
        if self._bound is None:
            raise ModelError(
                f"{type(self).__name__} has networks: fit it, or bind(model, data) before you run its parts"
            )
        return self._bound.sample(name, spread, plates.training)

    def evidence(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(labels of item i | truth = s)`` times the item's weight, ``(..., N, S)``.

        In memory of its own: it is added to. A model with an ``evidence`` of its own sums annotations by way of
        ``data.weighted(...)``, ``data.weighted_votes`` or ``data.counts``, which know the weights.
        """
        if provides(self, "log_confusion"):
            return data.counts.evidence(self.log_confusion(parameters))
        log_prob = self.emission(parameters, data).log_prob(data.label.unsqueeze(-1))  # (A, S)
        if log_prob.shape != (data.A, data.K * self.states_per_class):
            raise ModelError(
                f"{type(self).__name__}.emission has batch shape {tuple(log_prob.shape)}; it must be (A, K) = "
                f"({data.A}, {data.K * self.states_per_class}): for each annotation a distribution over labels under each truth"
            )
        return sum_by(data.item, data.weighted(log_prob), data.N)

    def item_log_joint(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``L[i, s] = log p(truth_i = s) + weight_i log p(labels of i | truth = s)``, ``(..., N, S)``.

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
        clamp = self.clamp(data)
        return joint if clamp is None else joint.add_(clamp)

    def clamp(self, data: Annotations) -> Tensor | None:
        """Return the log of what known truths allow, ``(N, S)``: 0 or minus infinity; ``None`` where no truth is known."""
        if data.clamp is None or self.states_per_class == 1:
            return data.clamp
        return data.clamp.repeat_interleave(self.states_per_class, -1)

    def by_class(self, values: Tensor) -> Tensor:
        """Sum over the states of each class: ``(..., S)`` to ``(..., K)``."""
        M = self.states_per_class
        return values if M == 1 else values.unflatten(-1, (-1, M)).sum(-1)

    def log_by_class(self, log_joint: Tensor) -> Tensor:
        """Sum, on the log scale, over the states of each class: ``(..., S)`` to ``(..., K)``, in memory of its own."""
        M = self.states_per_class
        return log_joint.clone() if M == 1 else log_joint.unflatten(-1, (-1, M)).logsumexp(-1)

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

    def program(self, data: Annotations, index: Tensor | None = None, *, training: bool = False) -> None:
        """Run the Pyro program: parameters, an enumerated truth for each item, and the evidence observed.

        The specification of the model. ``index`` ``(B,)`` takes a mini-batch of items, whose terms are scaled up;
        ``training`` turns dropout and its like on.
        """
        plates = Plates.over(data.N, data.J, index, training=training)
        batch = data if index is None else data.batch(index)
        parameters = self.prior(batch, plates)
        evidence = self.evidence(parameters, batch)  # (B, S)
        clamp = self.clamp(batch)
        if clamp is not None:
            evidence = evidence + clamp
        prior = self.truth(parameters, batch)
        with plates.item:
            truth = pyro.sample("truth", prior, infer={"enumerate": "parallel"})
            # Enumerated, the truth is (S, 1): indexing gives (S, B), a term for each state and item.
            pyro.factor("labels", evidence[torch.arange(batch.N, device=evidence.device), truth])
            if batch.multiplicity is not None:
                # Enumeration takes no scale for each item: what a repeated item adds is added with its truth summed out.
                marginal = torch.logsumexp(self.log_truth(parameters, batch) + evidence, -1)
                pyro.factor("repeats", (batch.multiplicity - 1) * marginal)

    def marginal_program(self, data: Annotations) -> None:
        """Run the Pyro program with the truth summed out: the same posterior of the parameters, and cheaper to climb."""
        plates = Plates.over(data.N, data.J)
        parameters = self.prior(data, plates)
        joint = self.item_log_joint(parameters, data)  # (N, S)
        with plates.item:
            pyro.factor("labels", repeated(torch.logsumexp(joint, -1), data))

    def prevalence_of(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the share of each class among items, ``(..., K)``."""
        probs = self.by_class(self.truth(parameters, data).probs)
        return probs.mean(-2) if probs.dim() > 1 and probs.shape[-2] == data.N else probs

    def confusion_of(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label = l | truth = k)`` of each worker, ``(..., J, K, K)``.

        Where labels depend on more than the worker, the average over the worker's own annotations (uniform rows for a
        worker without any). Where a class has several states, the average over them by their prior probability.
        """
        M = self.states_per_class
        if provides(self, "log_confusion"):
            table = self.log_confusion(parameters).exp()  # (..., J, S, K)
            if M == 1:
                return table
            share = self.log_truth(parameters, data).exp().unflatten(-1, (-1, M))  # (..., K, M)
            share = share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)
            return (table.unflatten(-2, (-1, M)) * share[..., None, :, :, None]).sum(-2)
        labels = torch.arange(data.K, device=data.device).view(-1, 1, 1)
        each = self.emission(parameters, data).log_prob(labels).exp().permute(1, 2, 0)  # (A, S truths, K labels)
        if M > 1:
            share = self.log_truth(parameters, data).exp().unflatten(-1, (-1, M))
            share = share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)
            share = share[data.item] if share.dim() == 3 else share  # (A, K, M) or (K, M)
            each = (each.unflatten(1, (-1, M)) * share.unsqueeze(-1)).sum(-2)
        mean = data.mean_by_worker(each)  # (J, K, K)
        return torch.where((data.annotations_per_worker == 0).view(-1, 1, 1), 1 / data.K, mean)

    @arguments.checked(
        task=arguments.a_list,
        worker=arguments.a_list,
        classes=arguments.whole(2),
        seed=arguments.seed,
        parameters=arguments.mapping,
        features=arguments.anything,
        worker_features=arguments.anything,
    )
    def simulate(
        self,
        task: Any,
        worker: Any,
        *,
        classes: int,
        seed: int,
        parameters: Mapping[str, Any] | None = None,
        features: Any = None,
        worker_features: Any = None,
    ) -> tuple[Annotations, np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
        """Draw labels for a design from the story.

        Args:
            task: item of each annotation, ``(A,)``: identifiers of any kind.
            worker: worker of each annotation, ``(A,)``.
            classes: ``K``.
            seed: of the draw; the same seed gives the same data.
            parameters: values of some sites to fix; the others are drawn from the prior.
            features: of the items, see :meth:`Annotations.with_features`.
            worker_features: of the workers.

        Returns:
            The labelled data (classes ``0..K-1``), the truth of its items ``(N,)`` and the parameters. Where the story gives
            each annotation a truth of its own (see :meth:`arrange`), the truths are those of the annotations ``(A,)``, sorted
            by item as the data are.
        """
        design = Annotations.from_arrays(
            task,
            worker,
            np.zeros(len(task), dtype=np.int64),
            labels=range(classes),
            features=features,
            worker_features=worker_features,
        )
        with isolated(seed), torch.no_grad():
            fixed = {
                name: torch.as_tensor(np.asarray(value), dtype=design.dtype)
                for name, value in (parameters or {}).items()
            }
            model = bind(self, design)
            told = design if model.arrange(design).parent_item is None else design.per_annotation()
            plates = Plates.over(told.N, told.J)
            traced = poutine.trace(poutine.condition(model.prior, data=fixed)).get_trace(told, plates)
            drawn = traced.nodes["_RETURN"]["value"]
            log_prior = model.log_truth(drawn, told)
            state = dist.Categorical(logits=log_prior.expand(told.N, log_prior.shape[-1])).sample()  # (N,)
            under_each = model.emission(drawn, told).sample()  # (A, S): a label under each state
            label = under_each.gather(-1, state[told.item].unsqueeze(-1)).squeeze(-1)
            values = {
                name: node["value"].numpy() for name, node in traced.nodes.items() if is_unknown(node) or name in fixed
            }
        data = replace(design, label=label.long(), notes=())
        truth = torch.div(state, model.states_per_class, rounding_mode="floor")
        return data, truth.numpy(), values


def bind(model: AnnotationModel, data: Annotations) -> AnnotationModel:
    """Return the model with networks of its own for these data, made with the current random state; the model is left be.

    A model without networks is returned as it is.
    """
    modules = model.networks(data)
    if not modules:
        return model
    bound = copy.copy(model)
    placed = {name: copy.deepcopy(module).to(data.device, data.dtype) for name, module in modules.items()}
    object.__setattr__(bound, "_bound", Bound(placed))  # models are frozen for their users
    return bound


def is_unknown(node: Mapping[str, Any]) -> bool:
    """Tell whether a node of a trace is a parameter: sampled, not observed, not a subsample of a plate."""
    return node["type"] == "sample" and not node["is_observed"] and type(node["fn"]).__name__ != "_Subsample"


def sums_of(responsibility: Tensor, data: Annotations, memory: Tensor | None = None) -> Sums:
    """Sum responsibilities ``(..., N, S)`` up by sparse products, over ``memory``; the log-likelihood is not a number."""
    nothing = responsibility.new_tensor(torch.nan)
    return Sums(nothing, responsibility.sum(-2), data.counts.expected(responsibility, memory))


def repeated(marginal: Tensor, data: Annotations) -> Tensor:
    """Count each item's ``(..., N)`` log-likelihood as often as the item stands in the data."""
    return marginal if data.multiplicity is None else marginal * data.multiplicity


def without_gibbs(model: AnnotationModel, data: Annotations) -> str | None:
    """Say why ``gibbs_step`` cannot draw parameters for these data; ``None`` where it can."""
    if not provides(model, "gibbs_step"):
        return (
            f"{type(model).__name__} has no gibbs_step, so method='gibbs' cannot sample it; use method='nuts' or 'svi'"
        )
    if data.multiplicity is not None:
        return "items with multiplicities cannot be sampled by method='gibbs'; write them out as items of their own"
    if data.weight is not None and model.whole_counts:
        return f"{type(model).__name__} samples whole counts, so method='gibbs' takes no item weights; use method='nuts' or 'svi'"
    return None


def provides(model: AnnotationModel, method: str) -> bool:
    """Tell whether a model adds an optional method of :class:`AnnotationModel`."""
    return getattr(type(model), method) is not getattr(AnnotationModel, method)


class _Means(Messenger):  # type: ignore[misc]
    """Give the largest sites of probabilities, which take longest to draw, their mean: a check is of shapes and supports."""

    def _pyro_sample(self, message: Any) -> None:
        prior = message["fn"]
        if (
            message["value"] is None
            and isinstance(prior, TorchDistributionMixin)
            and prior.shape().numel() >= DRAWN
            and is_simplex(prior.support)
        ):
            with suppress(NotImplementedError):
                message["value"] = prior.mean.clone()


def check(model: AnnotationModel, data: Annotations) -> dict[str, Any]:
    """Run a model once with all of Pyro's checks on and return the sites of its prior.

    Raises:
        ModelError: where the model does not keep its contract, with the reason.
    """
    name = type(model).__name__
    if data.N > CHECKED and provides(model, "m_step_from"):
        # Nothing in such a model grows with the items: some of them show what all would.
        data = data.batch(torch.arange(CHECKED, device=data.device))
    try:
        with pyro.validation_enabled(True), torch.no_grad(), _Means():
            traced = poutine.trace(model.prior).get_trace(data, Plates.over(data.N, data.J))
            returned = traced.nodes["_RETURN"]["value"]
            sites = {site: node for site, node in traced.nodes.items() if is_unknown(node)}
            wanted = {site for site, node in sites.items() if not is_weight(node)}
            if not isinstance(returned, dict) or not wanted <= set(returned):
                raise ModelError(
                    f"{name}.prior must return a dict with every site it samples, {sorted(wanted)}; it returned "
                    f"{sorted(returned) if isinstance(returned, dict) else type(returned).__name__}"
                )
            states = model.truth(returned, data).logits.shape[-1]
            if states != data.K * model.states_per_class:
                told = f" of {model.states_per_class} states each" if model.states_per_class > 1 else ""
                raise ModelError(f"{name}.truth is a distribution over {states} classes; the data have {data.K}{told}")
            joint = model.item_log_joint(returned, data)
            poutine.trace(model.marginal_program).get_trace(data)
    except CrowdpplError as error:
        # Pyro appends the shapes of its trace: of no use where the reason is told.
        raise type(error)(str(error).partition("\n")[0]) from error
    except (RuntimeError, ValueError, IndexError, KeyError, TypeError, AttributeError, NotImplementedError) as error:
        raise ModelError(f"{name} failed on {data!r}: {type(error).__name__}: {error}") from error
    if joint.shape != (data.N, data.K * model.states_per_class):
        raise ModelError(f"{name} gives an item log joint of shape {tuple(joint.shape)}; it must be (N, K)")
    return sites


def is_simplex(support: Any) -> bool:
    """Tell whether values are probabilities that sum to one over the last axis."""
    return base(support) is constraints.simplex


def base(support: Any) -> Any:
    """Return the support of one value, where several are one event."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def unknowns(model: AnnotationModel, data: Annotations) -> Parameters:
    """Draw every parameter from the prior once: values by site."""
    nodes = poutine.trace(model.prior).get_trace(data, Plates.over(data.N, data.J)).nodes
    return {name: node["value"] for name, node in nodes.items() if is_unknown(node)}


def dispersed(start: Tensor, data: Annotations, weight: float = 0.3) -> Tensor:
    """Mix responsibilities ``(..., N, S)`` with uniform draws from the simplex, for starts that differ; known truths stay."""
    noise = dist.Dirichlet(torch.ones_like(start)).sample()
    known = (data.truth >= 0).unsqueeze(-1)
    return torch.where(known, start, (1 - weight) * start + weight * noise)


def conditioned(
    model: AnnotationModel, values: Mapping[str, Tensor], data: Annotations, plates: Plates | None = None
) -> tuple[Parameters, Tensor]:
    """Run the prior with its sites fixed: what it returns, and the log density of the sites.

    ``plates`` are those of a mini-batch, where ``data`` is one.
    """
    plates = Plates.over(data.N, data.J) if plates is None else plates
    trace = poutine.trace(poutine.condition(model.prior, data=dict(values))).get_trace(data, plates)
    return trace.nodes["_RETURN"]["value"], torch.as_tensor(trace.log_prob_sum())


def densities(model: AnnotationModel, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
    """Return item log joint ``(C, N, S)`` and log prior ``(C,)`` at ``C`` sets of parameters, with which every value leads.

    For models that take such parameters. A log prior from the trace of the story is taken set by set: it sums up all there is.
    """
    if not parameters or provides(model, "log_prior") or provides(model, "log_density"):
        return model.log_density(parameters, data)
    each = [conditioned(model, one, data)[1] for one in apart(parameters)]
    return model.item_log_joint(parameters, data), torch.stack(each)


def together(sets: Sequence[Parameters]) -> Parameters:
    """Make one of several sets of parameters: every value leads with an axis of them."""
    return {name: torch.stack([one[name] for one in sets]) for name in sets[0]}


def apart(parameters: Parameters) -> list[Parameters]:
    """Take the leading axis away again: a set for each place on it."""
    return [dict(zip(parameters, values, strict=True)) for values in zip(*parameters.values(), strict=True)]


def prior_draws(model: AnnotationModel, data: Annotations, count: int) -> Parameters:
    """Draw from the prior ``count`` times: every value ``(count, ...)``."""
    return together([unknowns(model, data) for _ in range(count)])


def one_hot(truth: Tensor, data: Annotations, states: int | None = None) -> Tensor:
    """Return truths ``(..., N)`` as indicators ``(..., N, K)``, or ``(..., N, states)``, in the data's floating type."""
    zeros = torch.zeros(*truth.shape, states or data.K, dtype=data.dtype, device=data.device)
    return zeros.scatter_(-1, truth.unsqueeze(-1), 1.0)


def responsibilities(model: AnnotationModel, parameters: Parameters, data: Annotations) -> Tensor:
    """Return ``p(truth_i = s | labels, parameters)``, ``(..., N, S)``."""
    return normalise(model.item_log_joint(parameters, data))[1]
