"""What is read off items at draws of the parameters, or at a point: by torch, or by compiled passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.backends.alike import alike
from crowdppl.inference.backends.passes import Items, Sweeps
from crowdppl.inference.dependence.design_effect import DesignEffect, factors
from crowdppl.inference.memory import chunk
from crowdppl.inference.sampling import sample_truth_from_probabilities
from crowdppl.kernels.ops import above_zero, normalise, sum_by
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel, repeated
from crowdppl.model.chains import TOGETHER, Chain, read_draws
from crowdppl.model.program import densities
from crowdppl.model.truths import Coupled
from crowdppl.model.truths.classes import normalised

# Log-likelihoods of several draws of sequences take at most this many bytes.
CHAIN_BYTES = 2**28
# Pairs of rho and weights of the classes that probabilities at a point are averaged over.
PAIRS = 256


class Evaluated(NamedTuple):
    """The model at one draw, or at a slice of the draws.

    Attributes:
        part: number of the draw, or the slice.
        parameters: as the prior returns them.
        joint: item log joint, ``(..., N, S)``, in memory that is written over.
        log_prior: of the parameters, ``(...)``.
    """

    part: Any
    parameters: Parameters
    joint: Tensor
    log_prior: Tensor


class Weighing(NamedTuple):
    """How reported class probabilities differ from those of the model as published.

    Attributes:
        rho: correlation between annotations of one item, ``(...)``.
        classes: weights of the classes, ``(..., K)``, if any.
    """

    rho: Tensor
    classes: Tensor | None


class Evaluation(ABC):
    """The item log joint of a model, and what follows from it.

    Args:
        model: of the annotations.
        arranged: these, in the model's arrangement.
        data: the same, as they were given.
    """

    def __init__(self, model: BoundModel, arranged: Annotations, data: Annotations):
        self.model, self.arranged, self.data = model, arranged, data

    @abstractmethod
    def each(self, flat: Parameters, fixed: Parameters, total: int) -> Iterator[Evaluated]:
        """Go through draws: sites ``(D, ...)`` of ``total`` draws, and those without draws."""

    @abstractmethod
    def at_point(self, point: Parameters) -> tuple[Parameters, Tensor]:
        """Return what the prior returns at a point, and the item log joint ``(N, S)``."""

    @abstractmethod
    def read(
        self, parameters: Parameters, joint: Tensor, weighing: Weighing | None, share: float, items: Items
    ) -> None:
        """Fill ``items`` from their log joint, which may be written over.

        Args:
            parameters: at which the joint is.
            joint: of the items, ``(..., N, S)``.
            weighing: of the truths, where there is any, for the leading axes.
            share: what is added of probabilities.
            items: memory for what is read, with the leading axes.
        """

    @abstractmethod
    def add_averaged(
        self, parameters: Parameters, joint: Tensor, weighing: Weighing, share: float, out: Tensor
    ) -> None:
        """Add class probabilities averaged over equally probable values of rho.

        Args:
            parameters: at which the joint is.
            joint: log joint of the items, ``(..., N, S)``; it is not changed.
            weighing: with values of rho ``(..., Q)``.
            share: weight of the average.
            out: probabilities ``(N, K)`` to add to, summed over leading axes.
        """

    @abstractmethod
    def probabilities(self, parameters: Parameters, joint: Tensor) -> Tensor:
        """Return class probabilities ``(N, K)`` from a log joint ``(N, S)``, which may be written over."""

    @torch.no_grad()
    def reported(self, point: Parameters, effect: DesignEffect | None) -> tuple[Tensor, Tensor | None]:
        """Return class probabilities ``(N, K)`` at the point of an engine that maximises.

        With a design effect also those of the model as published. It is taken as given: known true labels inform it through
        draws. None applies where each annotation has a true label of its own.

        Raises:
            ModelError: for an item whose likelihood is zero or not a number.
        """
        parameters, joint = self.at_point(point)
        averaged = None
        if effect is not None and self.arranged.parent_item is None:
            averaged = self.zeros()
            for weighing, share in self._weighings(effect):
                self.add_averaged(parameters, joint, weighing, share, averaged)
        published = self.probabilities(parameters, joint)  # writes over the joint: comes last
        for probability in (published,) if averaged is None else (averaged, published):
            if not bool(torch.isfinite(normalised(probability)).all()):
                raise impossible(self.model)
        return (published, None) if averaged is None else (averaged, published)

    def _weighings(self, effect: DesignEffect) -> Iterator[tuple[Weighing, float]]:
        """Yield values of rho and weights of the classes that probabilities are averaged over, and the share of each."""
        if effect.classes is None:
            yield Weighing(effect.nodes(self.data, self.model.truths.coupled), None), 1.0
            return
        lifts, uniform = effect.classes.draw(PAIRS, self.data)
        for rho, lift in zip(effect.quantiles(uniform).split(1), lifts, strict=True):
            yield Weighing(rho, lift), 1 / PAIRS

    def zeros(self) -> Tensor:
        """Return zeros ``(N, K)``."""
        return torch.zeros(self.data.N, self.data.K, dtype=self.data.dtype, device=self.data.device)


class TorchEvaluation(Evaluation):
    """By torch, some draws at a time where the model takes several: for every model."""

    def each(self, flat: Parameters, fixed: Parameters, total: int) -> Iterator[Evaluated]:
        """Go through draws, one by one or in slices."""
        model, data = self.model, self.arranged
        if not model.batched:
            for s in range(total):
                parameters, log_prior = model.conditioned(
                    {name: value[s] for name, value in flat.items()} | fixed, data
                )
                yield Evaluated(s, parameters, model.item_log_joint(parameters, data), log_prior)
            return
        step = chunk(data, total)
        for start in range(0, total, step):
            part = slice(start, min(start + step, total))
            parameters = {name: value[part] for name, value in flat.items()}
            yield Evaluated(part, parameters, *densities(model, parameters, data))

    def at_point(self, point: Parameters) -> tuple[Parameters, Tensor]:
        """Return what the prior returns at a point, and the item log joint."""
        parameters = self.model.at_sites(point, self.arranged)
        return parameters, self.model.item_log_joint(parameters, self.arranged)

    def read(
        self, parameters: Parameters, joint: Tensor, weighing: Weighing | None, share: float, items: Items
    ) -> None:
        """Fill ``items`` from their log joint, which is written over."""
        N, K = self.data.N, self.data.K
        tempered = None
        if weighing is not None:
            tempered = self._weighed(
                parameters, self.model.truths.temperable(joint, parameters, self.arranged), weighing
            )
        marginal, probability = by_item(self.model, parameters, joint, self.arranged, self.data)
        items.likelihood.copy_(marginal)
        if tempered is not None and items.published is not None:
            items.published.add_(probability.reshape(-1, N, K).sum(0), alpha=share)
            probability = tempered
        truths = self.model.truths
        if isinstance(truths, Coupled):  # those of a sequence are drawn together
            factor = None if weighing is None else factors(weighing.rho, self.data)
            items.truth.copy_(truths.draw_states(parameters, self.arranged, factor))
        else:
            items.truth.copy_(sample_truth_from_probabilities(probability))
        items.mean.add_(probability.reshape(-1, N, K).sum(0), alpha=share)

    def add_averaged(
        self, parameters: Parameters, joint: Tensor, weighing: Weighing, share: float, out: Tensor
    ) -> None:
        """Add class probabilities averaged over rho."""
        nodes = weighing.rho.unbind(-1)
        joint = self.model.truths.temperable(joint, parameters, self.arranged)
        if joint.dim() == 2 and weighing.classes is None:  # of one point
            each = factors(weighing.rho, self.data).unbind(0)
            out.add_(self.model.truths.averaged(joint, each, parameters, self.arranged), alpha=share)
            return
        for rho in nodes:
            probability = self._weighed(parameters, joint, weighing._replace(rho=rho))
            out.add_(probability.reshape(-1, self.data.N, self.data.K).sum(0), alpha=share / len(nodes))

    def _weighed(self, parameters: Parameters, joint: Tensor, weighing: Weighing) -> Tensor:
        """Return class probabilities ``(..., N, K)`` with weights."""
        factor = factors(weighing.rho, self.data)
        return self.model.truths.tempered(joint, factor, parameters, self.arranged, weighing.classes)

    def probabilities(self, parameters: Parameters, joint: Tensor) -> Tensor:
        """Return class probabilities; the joint is written over."""
        return by_item(self.model, parameters, joint, self.arranged, self.data)[1]


class ChainEvaluation(TorchEvaluation):
    """Of models whose truths form Markov chains, several draws at a time, where an engine has a point.

    Likelihoods and drawn truths follow from forward passes alone, which are compiled for several draws. Class probabilities are
    those at the point: none are averaged over draws.
    """

    def __init__(self, model: BoundModel, arranged: Annotations, data: Annotations):
        super().__init__(model, arranged, data)
        by_item = any("item" in axes for axes in model.dims.values())
        self.alike = None if by_item else alike(arranged)
        self.distinct = arranged if self.alike is None else self.alike.items

    def each(self, flat: Parameters, fixed: Parameters, total: int) -> Iterator[Evaluated]:
        """Go through draws in slices; in the place of the joint are log-likelihoods of distinct items given their states."""
        model, data = self.model, self.distinct
        step = max(1, min(TOGETHER, CHAIN_BYTES // (8 * data.N * model.states)))
        for start in range(0, total, step):
            part = slice(start, min(start + step, total))
            parameters = {name: value[part] for name, value in flat.items()}
            likelihoods = model.log_likelihoods(parameters, data)
            yield Evaluated(part, parameters, likelihoods, model.log_prior(parameters, self.arranged))

    def read(
        self, parameters: Parameters, joint: Tensor, weighing: Weighing | None, share: float, items: Items
    ) -> None:
        """Fill likelihoods and truths from log-likelihoods of distinct items given their states, ``(D, U, S)``."""
        chain = self.model.model.coupling(parameters, self.arranged)
        assert isinstance(chain, Chain)
        tempered, clamp = joint, self.distinct.clamp
        if weighing is not None:
            tempered = joint / factors(weighing.rho, self.distinct).unsqueeze(-1)
        if clamp is not None:
            joint, tempered = joint + clamp, tempered + clamp
        joint, tempered = chain.joined(joint), chain.joined(tempered)  # items that differ: none stands for others
        row = None if self.alike is None else self.alike.row
        likelihood, truth = read_draws(joint, tempered, chain, self.arranged, row)
        items.likelihood.copy_(likelihood)
        items.truth.copy_(truth)


class PassEvaluation(Evaluation):
    """By compiled passes, one draw after the other.

    Args:
        model: all of whose sites are conjugate.
        data: that the passes serve; the model's arrangement is the same.
        passes: over the data.
    """

    def __init__(self, model: BoundModel, data: Annotations, passes: Sweeps):
        super().__init__(model, data, data)
        self.passes, self.spare = passes, passes.spare()

    def each(self, flat: Parameters, fixed: Parameters, total: int) -> Iterator[Evaluated]:
        """Go through draws, one by one."""
        for s in range(total):
            parameters, joint = self.at_point({name: value[s] for name, value in flat.items()})
            yield Evaluated(s, parameters, joint, self.model.log_prior(parameters, self.data))

    def at_point(self, point: Parameters) -> tuple[Parameters, Tensor]:
        """Return the point, and the item log joint, in memory that the next call writes over."""
        return point, self.passes.joint(*self.model.tables(point, self.data), self.spare)

    def read(
        self, parameters: Parameters, joint: Tensor, weighing: Weighing | None, share: float, items: Items
    ) -> None:
        """Fill ``items`` from their log joint."""
        if weighing is None:
            self.passes.accumulate(joint, None, None, share, items)
        else:
            self.passes.accumulate(joint, factors(weighing.rho, self.data), weighing.classes, share, items)

    def add_averaged(
        self, parameters: Parameters, joint: Tensor, weighing: Weighing, share: float, out: Tensor
    ) -> None:
        """Add class probabilities averaged over rho."""
        items = Items(*self._unused(), out, None)
        nodes = weighing.rho.unbind(-1)
        for rho in nodes:
            self.passes.accumulate(joint, factors(rho, self.data), weighing.classes, share / len(nodes), items)

    def probabilities(self, parameters: Parameters, joint: Tensor) -> Tensor:
        """Return class probabilities."""
        out = self.zeros()
        self.passes.accumulate(joint, None, None, 1.0, Items(*self._unused(), out, None))
        return out

    def _unused(self) -> tuple[Tensor, Tensor]:
        """Return memory for likelihoods and drawn truths that are not needed."""
        return torch.empty(self.data.N, dtype=self.data.dtype), torch.empty(self.data.N, dtype=torch.int16)


def impossible(model: BoundModel) -> ModelError:
    """Return the error for an item that no true label explains."""
    return ModelError(
        f"{model.name}: some item has a likelihood of zero or that is not a number at the fitted parameters; "
        f"check that every label is possible under some truth"
    )


def by_item(
    model: BoundModel, parameters: Parameters, joint: Tensor, arranged: Annotations, data: Annotations
) -> tuple[Tensor, Tensor]:
    """Reduce the log joint ``(..., N of the arrangement, S)``, which is overwritten, to items.

    Returns:
        Log-likelihood ``(..., N)`` and class probabilities ``(..., N, K)``. Where cells or single annotations have true labels
        of their own, an item's probabilities are the mean over them (the consensus), and for an item without annotations
        those of its features.
    """
    marginal, r = normalise(joint, overwrite=True)
    if arranged.parent_item is None:
        return repeated(marginal, arranged), model.truths.by_class(r, parameters, arranged)
    often = torch.ones_like(marginal) if arranged.multiplicity is None else arranged.multiplicity
    log_likelihood = sum_by(arranged.parent_item, repeated(marginal, arranged), data.N)
    total = sum_by(arranged.parent_item, often, data.N).unsqueeze(-1)
    mean = sum_by(
        arranged.parent_item, model.truths.by_class(r, parameters, arranged) * often.unsqueeze(-1), data.N
    ) / above_zero(total)
    if bool((total == 0).any()):
        prior = model.truths.by_class(model.log_truth(parameters, data).softmax(-1), parameters, data)
        mean = torch.where(total > 0, mean, prior)
    return log_likelihood, mean
