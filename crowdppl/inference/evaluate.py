"""The model evaluated at every draw of its parameters: true labels, likelihoods, confusion matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends import choose
from crowdppl.inference.backends.counting import LabelCounts
from crowdppl.inference.backends.evaluation import Evaluation, Weighing, by_item, impossible
from crowdppl.inference.backends.graded import GradedReadings
from crowdppl.inference.backends.passes import Items
from crowdppl.inference.backends.readings import Drawn, Readings
from crowdppl.inference.dependence.design_effect import DesignEffect, quality
from crowdppl.inference.dependence.known_truths import informed
from crowdppl.inference.draws import Draws
from crowdppl.inference.memory import chunk
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.site_priors import log_priors
from crowdppl.model.truths.classes import normalised

# Above this many cells in all confusion matrices, convergence is judged by workers' accuracies: each quantity costs about a
# millisecond.
MIXING_CELLS = 500


@dataclass
class EvaluatedDraws:
    """What follows from draws of the parameters, ``C`` chains of ``S`` draws.

    Attributes:
        probability: ``p(truth_i = k | labels)``, ``(N, K)``: averaged over draws, or at the point of an engine that maximises.
        truth: a true label drawn with every draw of the parameters, ``(C, S, N)`` int16.
        correct: number of each worker's labels that agree with these, ``(C S, J)`` int32; ``None`` where they were not counted.
        log_likelihood: ``log p(labels of item i | parameters)``, ``(C, S, N)``.
        lp: log posterior density of the parameters up to a constant, ``(C, S)``.
        confusion: confusion matrix of each worker, of the model as published, ``(C, S, J, K, K)``.
        prevalence: of each class, likewise, ``(C, S, K)``.
        log_prior: log prior density of the parameters, ``(C, S)``.
        log_priors: that of each site, whose sum it is, ``(C, S)``, or ``(C, S, J)`` of sites of workers, and so on.
        calibrated: ``confusion`` and ``prevalence`` that follow the truths drawn with ``rho``; empty without it.
        derived: further quantities that the model reports, ``(C, S, ...)``.
        averaged: likewise, of single annotations or items, averaged over draws, ``(A, ...)`` or ``(N, ...)``.
        mixing: quantities by which convergence is judged, from the model as published: ``lp``, ``prevalence``, and workers'
            ``confusion``, or ``accuracy`` where the matrices have more than ``MIXING_CELLS`` cells; each ``(C, S, ...)``.
        rho: correlation between annotations of one item, ``(C, S)``; ``None`` where they count as independent.
        lift: weights of the classes, ``(C, S, K)``, estimated from known true labels; ``None`` without them.
        published: ``probability`` of the model as published, where the reported one allows for ``rho``.
        effect: the distribution that ``rho`` was drawn from: that given to :func:`evaluate`, and known true labels.
    """

    probability: Tensor
    truth: Tensor
    log_likelihood: Tensor
    lp: Tensor
    confusion: Tensor
    prevalence: Tensor
    log_prior: Tensor
    log_priors: Parameters = field(default_factory=dict)
    calibrated: Parameters = field(default_factory=dict)
    derived: Parameters = field(default_factory=dict)
    averaged: Parameters = field(default_factory=dict)
    mixing: Parameters = field(default_factory=dict)
    rho: Tensor | None = None
    lift: Tensor | None = None
    correct: Tensor | None = None
    published: Tensor | None = None
    effect: DesignEffect | None = None


def evaluate(model: BoundModel, data: Annotations, draws: Draws, effect: DesignEffect | None = None) -> EvaluatedDraws:
    """Evaluate the model at every draw.

    With a design effect, true labels, confusion matrices and prevalence allow for correlated annotations (see
    :mod:`crowdppl.inference.dependence.design_effect`); parameters, likelihoods and derived quantities are those of the model as
    published. The design effect does not apply to models in which each annotation has a true label of its own.

    Raises:
        ModelError: for an item whose likelihood is zero or not a number.
    """
    run = _Run(model, data, draws)
    with torch.no_grad():
        if effect is not None and run.arranged.parent_item is None:
            run.weigh(effect, draws)
        chosen = choose.evaluation(model, run.arranged, data, draws, run.total, effect is not None)
        draws.passes = None  # they hold arrays as large as the data: released when this function ends
        if chosen.readings is not None:
            run.read_compiled(chosen.readings)
        elif chosen.items is not None:
            run.read_each(chosen.items, draws.fixed)
        out = run.out
        if draws.point is not None:  # engines that maximise report the true labels at the point
            assert chosen.items is not None
            weighted = out.effect if out.published is not None else None
            out.probability, out.published = chosen.items.reported(draws.point, weighted)
        else:
            for probability in (out.probability, out.published):
                if probability is not None:
                    normalised(probability)  # averages sum to one only up to rounding
        # No other sum of finite numbers of this size is infinite.
        if not bool(torch.isfinite(out.log_likelihood.sum())):
            raise impossible(model)
        return run.by_chain(log_priors(model, run.flat, draws.fixed, run.arranged))


class _Run:
    """The evaluation of a model at draws, whose chains are one axis until it ends.

    Args:
        model: the fitted model.
        data: the annotations.
        draws: of the engine.
    """

    def __init__(self, model: BoundModel, data: Annotations, draws: Draws):
        # A model whose only parameters are weights of networks has one draw without sites.
        self.lead = next((value.shape[:2] for value in draws.samples.values()), torch.Size((1, 1)))
        self.model, self.data, self.total = model, data, self.lead.numel()
        self.flat = {name: value.flatten(0, 1) for name, value in draws.samples.items()}
        self.arranged = model.expand(data)
        self.out = _allocate(self.total, data)
        # Of each draw, where there is a design effect: rho (S,), its nodes where probabilities are averaged over several (S, Q),
        # and the weights of the classes (S, K).
        self.rho: Tensor | None = None
        self.nodes: Tensor | None = None
        self.lift: Tensor | None = None
        self.derived: dict[str, list[Tensor]] = {}

    def weigh(self, effect: DesignEffect, draws: Draws) -> None:
        """Draw rho, as known true labels inform it, and the weights of the classes."""
        out, data = self.out, self.data
        effect = out.effect = informed(effect, self.model, self.arranged, self.flat, draws.fixed, draws.sites)
        self.rho, nodes = effect.draw(self.total, data)
        self.nodes = nodes if nodes.shape[-1] > 1 else None
        self.lift = None if effect.classes is None else effect.classes.draw(self.total, data)[0]
        out.published = torch.zeros_like(out.probability)
        out.calibrated = {name: torch.empty_like(getattr(out, name)) for name in ("confusion", "prevalence")}

    def read_each(self, items: Evaluation, fixed: Parameters) -> None:
        """Evaluate one draw, or some draws, at a time."""
        model, data, out, share = self.model, self.data, self.out, 1 / self.total
        # What is averaged over items is read off those of the arrangement, where these are the same.
        given = self.arranged if self.arranged.parent_item is None else data
        labels = None if self.rho is None else choose.label_counts(data, items)
        if labels is not None and data.weight is None and data.others is None:
            out.correct = torch.empty(self.total, data.J, dtype=torch.int32, device="cpu")
        for part, parameters, joint, log_prior in items.each(self.flat, fixed, self.total):
            weights = None if self.lift is None else self.lift[part]
            weighing = None if self.rho is None else Weighing(self.rho[part], weights)
            mean = out.probability
            if self.nodes is not None:
                items.add_averaged(parameters, joint, Weighing(self.nodes[part], weights), share, out.probability)
                mean = torch.zeros_like(mean)  # that of the drawn rho is not needed
            memory = Items(out.log_likelihood[part], out.truth[part], mean, out.published)
            items.read(parameters, joint, weighing, share, memory)
            out.lp[part] = out.log_likelihood[part].sum(-1) + log_prior
            besides = model.truths.log_likelihood_besides(parameters, self.arranged)
            if besides is not None:  # a part of the density of the parameters, and not of the labels
                out.log_likelihood[part] -= besides
            out.log_prior[part] = log_prior
            confusion = model.truths.confusion(parameters, data)
            prevalence = model.truths.prevalence(parameters, given, out.lp[part].shape)
            _set_mixing(out.mixing, part, confusion, prevalence)
            out.confusion[part], out.prevalence[part] = confusion, prevalence
            if labels is not None:
                pair, correct = _quality(out.truth[part], data, labels)
                out.calibrated["confusion"][part], out.calibrated["prevalence"][part] = pair
                if out.correct is not None:
                    out.correct[part] = correct
            # As large as the items: freed before those of the next draw, or of the point, are allocated.
            del joint, weighing
            self._derive(parameters, part)

    def read_compiled(self, readings: Readings | GradedReadings) -> None:
        """Evaluate the draws by compiled functions."""
        model, data, out, flat, total = self.model, self.data, self.out, self.flat, self.total
        # Where the matrices are a site of the model, its draws are all there is to keep.
        table = model.model.confusion({name: value[:1] for name, value in flat.items()}, data)
        site = next((value for value in flat.values() if value[:1].data_ptr() == table.data_ptr()), None)
        if site is not None and site.shape == out.confusion.shape:
            out.confusion = site
        written = [out.log_likelihood, out.truth, out.confusion, out.prevalence]
        if out.confusion is site:
            written[2] = site[:0]
        out.correct = torch.empty(total, data.J, dtype=torch.int32)
        written += [out.calibrated.get(name, getattr(out, name)[:0]) for name in ("confusion", "prevalence")]
        # In float64, and in place where the data have it.
        rooms = [value if value.dtype in (torch.float64, torch.int16) else value.double() for value in written]
        likelihood, truth, *quality = rooms
        drawn = Drawn(likelihood, truth, out.correct, *quality)
        mean, published = readings.read(flat, self.rho, self.nodes, self.lift, drawn)
        for value, room in zip(written, rooms, strict=True):
            if room is not value:  # no probability is 0
                value.copy_(room if value is out.log_likelihood else room.clamp(min=torch.finfo(value.dtype).tiny))
        if out.published is not None:
            out.published.copy_(published)
        out.probability.copy_(mean)
        # The prior has no arrays of the items; what the model derives may have.
        derives = any({"annotation", "item"} & set(axes) for axes in model.dims.values())
        step = chunk(data, total, items=derives)
        for start in range(0, total, step):
            part = slice(start, min(start + step, total))
            parameters = {name: value[part] for name, value in flat.items()}
            out.log_prior[part] = model.log_prior(parameters, data)
            _set_mixing(out.mixing, part, out.confusion[part], out.prevalence[part])
            self._derive(parameters, part)
        torch.add(out.log_likelihood.sum(-1), out.log_prior, out=out.lp)

    def _derive(self, parameters: Parameters, part: Any) -> None:
        """Add what the model derives from the parameters of one draw, or a slice of them."""
        averaged = self.out.averaged
        for name, value in self.model.derived(parameters, self.data).items():
            one = isinstance(part, int)
            if {"annotation", "item"} & set(self.model.dims.get(name, ())):
                share = (value if one else value.sum(0)) / self.total
                averaged[name] = averaged[name] + share if name in averaged else share
            else:
                self.derived.setdefault(name, []).append(value.unsqueeze(0) if one else value)

    def by_chain(self, priors: Parameters) -> EvaluatedDraws:
        """Return what was read, with the axes of chains and draws, and the log prior of each site ``(S, ...)``."""
        out = self.out

        def split(value: Tensor) -> Tensor:
            return value.unflatten(0, tuple(self.lead))

        out.rho, out.lift = (None if value is None else split(value) for value in (self.rho, self.lift))
        out.log_priors = {name: split(value) for name, value in priors.items()}
        out.derived = {name: split(torch.cat(values)) for name, values in self.derived.items()}
        for name in ("truth", "log_likelihood", "lp", "confusion", "prevalence", "log_prior"):
            setattr(out, name, split(getattr(out, name)))
        out.calibrated = {name: split(value) for name, value in out.calibrated.items()}
        out.mixing = {"lp": out.lp} | {name: split(value) for name, value in out.mixing.items()}
        return out


def _allocate(total: int, data: Annotations) -> EvaluatedDraws:
    """Return uninitialised memory for ``total`` draws, with one leading axis."""
    N, J, K = data.N, data.J, data.K
    kind: dict[str, Any] = {"dtype": data.dtype, "device": data.device}
    return EvaluatedDraws(
        probability=torch.zeros(N, K, **kind),
        truth=torch.empty(total, N, dtype=torch.int16, device=data.device),
        log_likelihood=torch.empty(total, N, **kind),
        lp=torch.empty(total, **kind),
        confusion=torch.empty(total, J, K, K, **kind),
        prevalence=torch.empty(total, K, **kind),
        log_prior=torch.empty(total, **kind),
        mixing={"prevalence": torch.empty(total, K, **kind)}
        | (
            {"confusion": torch.empty(total, J, K, K, **kind)}
            if J * K**2 <= MIXING_CELLS
            else {"accuracy": torch.empty(total, J, **kind)}
        ),
    )


def _set_mixing(mixing: Parameters, part: Any, confusion: Tensor, prevalence: Tensor) -> None:
    """Set the quantities by which convergence is judged, for one draw or a slice of them."""
    mixing["prevalence"][part] = prevalence
    if "confusion" in mixing:
        mixing["confusion"][part] = confusion
    else:
        mixing["accuracy"][part] = torch.einsum("...k,...jkk->...j", prevalence, confusion)


def _quality(truth: Tensor, data: Annotations, count: LabelCounts) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Draw confusion matrices ``(..., J, K, K)`` and prevalences ``(..., K)`` given true labels ``(..., N)``.

    Also return how many labels of each worker agree with these, ``(..., J)``.
    """
    classes, counts = count(truth.reshape(-1, data.N))
    confusion, prevalence = quality(truth.reshape(-1, data.N), data, lambda _: (classes, counts))
    correct = counts.diagonal(dim1=-2, dim2=-1).sum(-1).cpu()
    if truth.dim() > 1:
        return (confusion, prevalence), correct
    return (confusion[0], prevalence[0]), correct[0]


def item_log_likelihood(model: BoundModel, parameters: Parameters, data: Annotations) -> Tensor:
    """Return ``log p(labels of item i | parameters)``, summed over true labels, ``(..., N)``."""
    arranged = model.expand(data)
    value = by_item(model, parameters, model.item_log_joint(parameters, arranged), arranged, data)[0]
    besides = model.truths.log_likelihood_besides(parameters, arranged)
    return value if besides is None else value - besides
