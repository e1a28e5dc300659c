"""What an engine hands back, and what is read off its draws: one way for all engines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.design_effect import DesignEffect, factors, quality
from crowdppl.inference.passes import Items, Sweeps, at
from crowdppl.kernels.ops import above_zero, normalise, sum_by
from crowdppl.model.base import AnnotationModel, Parameters, conditioned, densities, provides, repeated

# step, of how many, what is going on: engines call it, the facade shows it.
Report = Callable[[int, int, str], None]
Kind = Literal["posterior", "approximation", "point"]

# Draws kept in memory and on disk stay below this many bytes; beyond it they are thinned, and that is told.
KEEP_BYTES = 2**30
# Temporary arrays of batched draws stay below this: within the caches, and small enough for the allocator to hold on to
# (larger ones come from the system page by page: measured five times slower at 2**27).
WORK_BYTES = 2**22
# On a GPU, which has no such caches, and stands idle where a batch is small.
GPU_WORK_BYTES = 2**29

# With more cells than this in all confusions, workers' accuracies stand for them where convergence is judged: each quantity
# costs about a millisecond.
MIXING_CELLS = 500


@dataclass
class Draws:
    """Draws of the parameters, and how they came about.

    Attributes:
        samples: value of every site, ``(chain, draw, ...)``.
        kind: draws from the posterior itself, from an approximation to it, or one point.
        interval_method: a plain sentence: where the intervals computed from these draws come from.
        point: the best single value of every site, where the engine climbs to one.
        fixed: value of sites that have no draws: the weights of networks, where an engine takes them as a point.
        trace: objective or loss per iteration, by name, ``(iteration,)``.
        facts: single facts of the run (converged, iterations, divergences), JSON-able.
        warnings: what the user should know, in plain sentences.
        sites: of the model's prior, as :func:`crowdppl.model.base.check` returns them.
        passes: compiled ones over the data that the engine took, for the reading to take them, too.
    """

    samples: Parameters
    kind: Kind
    interval_method: str
    point: Parameters | None = None
    fixed: Parameters = field(default_factory=dict)
    trace: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    sites: dict[str, Any] = field(default_factory=dict)
    passes: Sweeps | None = None


@dataclass
class Readings:
    """What follows from draws of the parameters, ``C`` chains of ``S`` draws.

    Attributes:
        probability: ``p(truth_i = k | labels)``, ``(N, K)``: averaged over draws, or at the point where the engine gives one.
        truth: a truth drawn with every draw of the parameters, ``(C, S, N)`` int16.
        log_likelihood: ``log p(labels of item i | parameters)``, ``(C, S, N)``.
        lp: log posterior density of the parameters up to a constant, ``(C, S)``.
        confusion: of each worker, ``(C, S, J, K, K)``.
        prevalence: of each class, ``(C, S, K)``.
        derived: what the model reports besides, ``(C, S, ...)``.
        averaged: likewise, of single annotations: averaged over draws, ``(A, ...)``.
        mixing: what convergence is judged by, the model's own at every draw: ``lp``, ``prevalence`` and workers' ``confusion``,
            or where that is many numbers ``accuracy``; each ``(C, S, ...)``.
        rho: the correlation of annotations of one item, ``(C, S)``; ``None`` where they count as independent.
        published: ``probability`` of the model as published, where the reported one allows for ``rho``.
    """

    probability: Tensor
    truth: Tensor
    log_likelihood: Tensor
    lp: Tensor
    confusion: Tensor
    prevalence: Tensor
    derived: Parameters = field(default_factory=dict)
    averaged: Parameters = field(default_factory=dict)
    mixing: Parameters = field(default_factory=dict)
    rho: Tensor | None = None
    published: Tensor | None = None


def batched(model: AnnotationModel) -> bool:
    """Tell whether a model takes parameters with leading axes, many draws at once."""
    return model._bound is None and (provides(model, "log_confusion") or provides(model, "gibbs_step"))


def thinning(size: int, data: Annotations, draws: int) -> int:
    """Return ``t`` such that every ``t``-th of ``draws`` draws fits in ``KEEP_BYTES``.

    Args:
        size: numbers in one draw of the parameters.
        data: its confusion, log-likelihood and truth are kept with every draw.
        draws: over all chains.
    """
    return max(1, -(-_each(size, data) * draws // KEEP_BYTES))


def affordable(size: int, data: Annotations, draws: int) -> int:
    """Return how many of so many independent draws fit in ``KEEP_BYTES``; arguments as of :func:`thinning`."""
    return max(1, min(draws, KEEP_BYTES // _each(size, data)))


def _each(size: int, data: Annotations) -> int:
    return 8 * (size + data.J * data.K**2 + data.N) + 2 * data.N


def result_bytes(data: Annotations, draws: int) -> int:
    """Return how many bytes a result of so many draws has at most, before it is compressed."""
    kept = min(KEEP_BYTES, draws * _each(data.J * data.K**2, data)) + _each(data.J * data.K**2, data)
    return kept + 24 * data.A + 8 * data.N * (2 * data.K + 2)


def thinned_note(kept: int, asked: int) -> str:
    """Say that fewer draws were kept than asked for."""
    return f"kept {kept:,} of {asked:,} draws, to stay within {KEEP_BYTES / 2**30:g} GiB of memory"


def read(model: AnnotationModel, data: Annotations, draws: Draws, effect: DesignEffect | None = None) -> Readings:
    """Evaluate the model at every draw.

    With a design effect, truths, confusions and prevalence allow for correlated annotations (see :mod:`crowdppl.inference.design_effect`);
    parameters, likelihoods and what the model derives are the model's own. Where each annotation has a truth of its own there is
    nothing to weigh.
    """
    # A model all of whose parameters are weights of networks has one draw of nothing.
    chains, count = next((value.shape[:2] for value in draws.samples.values()), (1, 1))
    flat = {name: value.flatten(0, 1) for name, value in draws.samples.items()}
    total = chains * count
    kind: dict[str, Any] = {"dtype": data.dtype, "device": data.device}
    out = Readings(
        probability=torch.zeros(data.N, data.K, **kind),
        truth=torch.empty(total, data.N, dtype=torch.int16, device=data.device),
        log_likelihood=torch.empty(total, data.N, **kind),
        lp=torch.empty(total, **kind),
        confusion=torch.empty(total, data.J, data.K, data.K, **kind),
        prevalence=torch.empty(total, data.K, **kind),
    )
    told = model.arrange(data)
    rho: Tensor | None = None
    nodes: Tensor | None = None
    if effect is not None and told.parent_item is None:
        rho, nodes = effect.draw(total, data)
        out.published = torch.zeros_like(out.probability)
    several = nodes is not None and nodes.shape[-1] > 1
    few = data.J * data.K**2 <= MIXING_CELLS
    own = {
        "prevalence": torch.empty(total, data.K, **kind),
        "confusion" if few else "accuracy": torch.empty(total, data.J, *([data.K] * 2 if few else []), **kind),
    }
    parts: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        # Let go when all is read: they hold arrays as large as the data.
        made, draws.passes = draws.passes, None
        sweeps = Sweeps.of(model, told, made=made)
        del made
        # Labels are counted by drawn truths whatever the model.
        passes = sweeps if sweeps is not None or rho is None else Sweeps.suited(data, data.K)
        spare = None if sweeps is None else sweeps.spare()
        for part, parameters, joint, log_prior in _evaluations(model, told, flat, draws.fixed, total, sweeps, spare):
            factor = None if rho is None else factors(rho[part], data)
            averaged = out.probability
            if nodes is not None and several:
                _add_averaged(model, joint, nodes[part], data, sweeps, 1 / total, out.probability)
                averaged = torch.zeros_like(averaged)  # that of the drawn rho alone is not needed
            into = Items(out.log_likelihood[part], out.truth[part], averaged, out.published)
            if sweeps is not None:
                sweeps.settle(joint, factor, 1 / total, into)
            else:
                _settle(model, parameters, joint, told, data, factor, 1 / total, into)
            out.lp[part] = out.log_likelihood[part].sum(-1) + log_prior
            confusion, prevalence = model.confusion_of(parameters, data), model.prevalence_of(parameters, data)
            own["prevalence"][part] = prevalence
            if few:
                own["confusion"][part] = confusion
            else:
                own["accuracy"][part] = torch.einsum("...k,...jkk->...j", prevalence, confusion)
            if factor is not None:
                confusion, prevalence = _quality(out.truth[part], data, passes)
            out.confusion[part], out.prevalence[part] = confusion, prevalence
            del joint, factor  # arrays of all items: let go before the next draw, and the point, have theirs
            for name, value in model.derived(parameters, data).items():
                if "annotation" in model.dims.get(name, ()):
                    share = (value if isinstance(part, int) else value.sum(0)) / total
                    out.averaged[name] = out.averaged[name] + share if name in out.averaged else share
                else:
                    parts.setdefault(name, []).append(value.unsqueeze(0) if isinstance(part, int) else value)
        out.derived = {name: torch.cat(values).unflatten(0, (chains, count)) for name, values in parts.items()}
        if draws.point is not None:  # an engine that climbs to a point says what the truth is there
            parameters = draws.point if batched(model) else conditioned(model, draws.point, told)[0]
            _at_point(model, parameters, told, data, None if effect is None else effect.nodes(data), sweeps, spare, out)
    if rho is not None:
        out.rho = rho.unflatten(0, (chains, count))
    # Averages of numbers that sum to one: put right to rounding.
    for mean in (out.probability, out.published):
        if mean is not None:
            mean /= mean.sum(-1, keepdim=True)
    if not bool(torch.isfinite(out.log_likelihood).all()):
        raise ModelError(
            f"{type(model).__name__}: some item has a likelihood of zero or that is not a number at the fitted parameters; "
            f"check that every label is possible under some truth"
        )
    for name in ("truth", "log_likelihood", "lp", "confusion", "prevalence"):
        setattr(out, name, getattr(out, name).unflatten(0, (chains, count)))
    out.mixing = {"lp": out.lp} | {name: value.unflatten(0, (chains, count)) for name, value in own.items()}
    return out


def _at_point(
    model: AnnotationModel,
    parameters: Parameters,
    told: Annotations,
    data: Annotations,
    nodes: Tensor | None,
    sweeps: Sweeps | None,
    spare: Tensor | None,
    out: Readings,
) -> None:
    """Say how probable truths are at a point, in place of the mean over draws: averaged over ``nodes (Q,)`` of rho, if any."""
    published = out.probability if out.published is None else out.published
    if sweeps is not None:
        joint = sweeps.joint(*at(model, parameters, told), spare)
        sweeps.settle(joint, None, 1.0, Items(*_unused(data), published.zero_(), None))
    else:
        joint = model.item_log_joint(parameters, told)
    if out.published is not None and nodes is not None:
        out.probability.zero_()
        _add_averaged(model, joint, nodes, data, sweeps, 1.0, out.probability)
    if sweeps is None:
        published.copy_(_by_item(model, parameters, joint, told, data)[1])  # writes over the joint


def _unused(data: Annotations) -> tuple[Tensor, Tensor]:
    """Return memory for the likelihoods and drawn truths of a compiled reading that are not needed."""
    return torch.empty(data.N, dtype=data.dtype), torch.empty(data.N, dtype=torch.int16)


def _add_averaged(
    model: AnnotationModel,
    joint: Tensor,
    nodes: Tensor,
    data: Annotations,
    sweeps: Sweeps | None,
    share: float,
    into: Tensor,
) -> None:
    """Add class probabilities averaged over equally probable values of rho.

    Args:
        model: of the log joint.
        joint: log joint of the items, ``(..., N, S)``; it stays as it is.
        nodes: values of rho, ``(..., Q)``.
        data: the annotations.
        sweeps: compiled passes, where they made the joint.
        share: what the average counts for.
        into: probabilities ``(N, K)`` to add to, summed over leading axes.
    """
    columns, count = nodes.unbind(-1), nodes.shape[-1]
    if sweeps is not None:
        items = Items(*_unused(data), into, None)
        for rho in columns:
            sweeps.settle(joint, factors(rho, data), share / count, items)
        return
    logs = model.log_by_class(joint)
    for rho in columns:
        probability = (logs / factors(rho, data).unsqueeze(-1)).softmax(-1)
        into.add_(probability.reshape(-1, data.N, data.K).sum(0), alpha=share / count)


def _quality(truth: Tensor, data: Annotations, passes: Sweeps | None) -> tuple[Tensor, Tensor]:
    confusion, prevalence = quality(truth.reshape(-1, data.N), data, passes)
    return (confusion, prevalence) if truth.dim() > 1 else (confusion[0], prevalence[0])


def _settle(
    model: AnnotationModel,
    parameters: Parameters,
    joint: Tensor,
    told: Annotations,
    data: Annotations,
    factor: Tensor | None,
    share: float,
    items: Items,
) -> None:
    """Read items off their log joint, which is written over; arguments as of :meth:`Sweeps.settle`, with leading axes."""
    # Tempered on the log scale: what underflows as a probability may matter once it is.
    logs = None if factor is None else model.log_by_class(joint).div_(factor.unsqueeze(-1))
    marginal, probability = _by_item(model, parameters, joint, told, data)
    items.likelihood.copy_(marginal)
    if logs is not None and items.published is not None:
        items.published.add_(probability.reshape(-1, data.N, data.K).sum(0), alpha=share)
        probability = logs.softmax(-1)
    items.truth.copy_(drawn(probability))
    items.mean.add_(probability.reshape(-1, data.N, data.K).sum(0), alpha=share)


def _by_item(
    model: AnnotationModel, parameters: Parameters, joint: Tensor, told: Annotations, data: Annotations
) -> tuple[Tensor, Tensor]:
    """Read items off the log joint ``(..., N of the arrangement, S)``, which is written over.

    Returns:
        Log-likelihood ``(..., N)`` and class probabilities ``(..., N, K)`` of the items. Where cells or single annotations
        have truths of their own, an item's probabilities are the mean over them (the consensus), and for an item without
        any those of its features.
    """
    marginal, r = normalise(joint, overwrite=True)
    if told.parent_item is None:
        return repeated(marginal, told), model.by_class(r)
    often = torch.ones_like(marginal) if told.multiplicity is None else told.multiplicity
    log_likelihood = sum_by(told.parent_item, repeated(marginal, told), data.N)
    total = sum_by(told.parent_item, often, data.N).unsqueeze(-1)
    mean = sum_by(told.parent_item, model.by_class(r) * often.unsqueeze(-1), data.N) / above_zero(total)
    if bool((total == 0).any()):
        prior = model.by_class(model.log_truth(parameters, data).softmax(-1))
        mean = torch.where(total > 0, mean, prior)
    return log_likelihood, mean


def item_log_likelihood(model: AnnotationModel, parameters: Parameters, data: Annotations) -> Tensor:
    """Return ``log p(labels of item i | parameters)``, the truth summed out, ``(..., N)``."""
    told = model.arrange(data)
    return _by_item(model, parameters, model.item_log_joint(parameters, told), told, data)[0]


def sample_truth(log_joint: Tensor) -> Tensor:
    """Draw a class for each item from ``(..., N, K)`` log-probabilities, up to a constant for each item: ``(..., N)``.

    An exponential race: class ``k`` arrives at time ``E_k / p_k``, the first one wins, with probability ``p_k``. Taken in logs; a
    class of probability zero never arrives. ``E = -log(u)`` is positive, since ``u < 1``, and finite.
    """
    return (log_joint - _log_exponential(torch.empty_like(log_joint))).argmax(-1)


def drawn(probability: Tensor) -> Tensor:
    """Draw a class for each item from probabilities ``(..., N, K)``: ``(..., N)``; the race of :func:`sample_truth`."""
    exponential = _exponential(torch.empty_like(probability))
    return torch.div(probability, exponential, out=exponential).argmax(-1)


def _exponential(memory: Tensor) -> Tensor:
    # A number of zero must not keep the one class that is possible out; no other has a logarithm as low as that.
    return memory.uniform_().log_().neg_().clamp_(max=100.0)


def _log_exponential(memory: Tensor) -> Tensor:
    return _exponential(memory).log_()


class Races:
    """:func:`sample_truth` again and again for one shape, its random numbers drawn for many turns at a time.

    Args:
        shape: of the log-probabilities, ``(..., N, K)``.
        data: gives type and device.
    """

    def __init__(self, shape: tuple[int, ...], data: Annotations):
        # What is drawn ahead is kept with the state of a fit: no more of it on a GPU.
        turns = max(1, WORK_BYTES // (8 * math.prod(shape)))
        self._memory = torch.empty(turns, *shape, dtype=data.dtype, device=data.device)
        self._ready: list[Tensor] = []

    def ahead(self, found: Tensor | None = None) -> Tensor:
        """Return the random numbers that were drawn ahead, ``(turns, ..., N, K)``, after taking those that were found."""
        if found is not None:
            self._ready = list(found)
        return torch.stack(self._ready) if self._ready else self._memory[:0]

    def winners(self, log_joint: Tensor) -> Tensor:
        """Draw a class for each item: ``(..., N)``."""
        if not self._ready:
            self._ready = list(_log_exponential(self._memory))
        return (log_joint - self._ready.pop()).argmax(-1)


def _evaluations(
    model: AnnotationModel,
    data: Annotations,
    flat: Parameters,
    fixed: Parameters,
    total: int,
    sweeps: Sweeps | None,
    spare: Tensor | None,
) -> Iterator[tuple[Any, Parameters, Tensor, Tensor]]:
    if sweeps is not None:
        for s in range(total):
            parameters = {name: value[s] for name, value in flat.items()}
            yield s, parameters, sweeps.joint(*at(model, parameters, data), spare), model.log_prior(parameters, data)
        return
    if not batched(model):
        for s in range(total):
            parameters, log_prior = conditioned(model, {name: value[s] for name, value in flat.items()} | fixed, data)
            yield s, parameters, model.item_log_joint(parameters, data), log_prior
        return
    step = chunk(data, total)
    for start in range(0, total, step):
        part = slice(start, min(start + step, total))
        parameters = {name: value[part] for name, value in flat.items()}
        yield part, parameters, *densities(model, parameters, data)


def chunk(data: Annotations, total: int) -> int:
    """Return how many draws to handle at once, so that their working arrays stay small."""
    each = 8 * 4 * max(data.N * data.K, data.J * data.K**2)
    return max(1, min(total, room(data) // each))


def room(data: Annotations) -> int:
    """Return how many bytes the temporary arrays of a batch may take, where the data are."""
    return WORK_BYTES if data.device.type == "cpu" else GPU_WORK_BYTES


class Batches:
    """Batches of items without end: every epoch a new order, every item once."""

    def __init__(self, items: int, size: int, device: torch.device):
        self.items, self.size, self.device = items, size, device
        self.per_epoch = -(-items // size)
        self.queue: list[Tensor] = []

    def __next__(self) -> Tensor:
        if not self.queue:
            self.queue = list(torch.randperm(self.items, device=self.device).split(self.size))
        return self.queue.pop()
