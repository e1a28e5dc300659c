"""Gradients for what an M step has no closed form of: Adam over mini-batches, or L-BFGS over all items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.engines.lbfgs import minimise
from crowdppl.inference.engines.minibatches import Batches
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.options import EM
from crowdppl.kernels.ops import synchronises
from crowdppl.model.base import ClassifierTargets, Parameters
from crowdppl.model.bound import BoundModel, repeated
from crowdppl.model.plates import Plates

# L-BFGS iterations in one gradient M step: EM needs it to rise, not to arrive.
SEARCH_STEPS = 20
# Steps whose gradients it learns curvature from.
SEARCH_MEMORY = 20


@dataclass(frozen=True)
class Schedule:
    """How gradients are followed in mini-batches of items, where a model has networks.

    Attributes:
        learning_rate: of Adam.
        batch_size: items a step; ``None`` for all items at once, by L-BFGS.
        epochs: passes over the items in one M step.
        steps: steps in one M step, in place of ``epochs``.
        fine_tune_truths: whether fine-tuning takes labels of an item to share its truth, or each to have its own.
    """

    learning_rate: float = 1e-3
    batch_size: int | None = 64
    epochs: int = 1
    steps: int | None = None
    fine_tune_truths: Literal["item", "annotation"] = "item"

    @classmethod
    def of(cls, options: EM) -> Schedule:
        """Return what the options of EM say."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(cls)})


@dataclass
class GradientState:
    """Adam over mini-batches between two M steps.

    Attributes:
        coordinates: unconstrained, by site.
        moments: the optimiser's state, by number of the site.
        batches: those left in the epoch.
    """

    coordinates: Parameters
    moments: dict[int, dict[str, Tensor]]
    batches: list[Tensor]


class _Adam:
    """Adam (AMSGrad) over mini-batches of items; coordinates and its own state last for the whole run.

    Args:
        start: first coordinates, by site.
        schedule: of the mini-batches.
        items: how many there are; of a classifier those with features, which may be fewer than those of the arrangement.
        device: of the data.
    """

    def __init__(self, start: Parameters, schedule: Schedule, items: int, device: torch.device):
        self.schedule = schedule
        self.batches = Batches(items, schedule.batch_size or items, device)
        self.free = {name: value.clone().requires_grad_() for name, value in start.items()}
        self.adam = torch.optim.Adam(list(self.free.values()), lr=schedule.learning_rate, amsgrad=True)

    def state(self) -> GradientState:
        """Return what lasts between M steps."""
        return GradientState(dict(self.free), self.adam.state_dict()["state"], list(self.batches.queue))

    def restore(self, state: GradientState) -> None:
        """Restore it."""
        with torch.no_grad():
            for name, value in state.coordinates.items():
                self.free[name].copy_(value)
        self.batches.queue = state.batches
        self.adam.load_state_dict(self.adam.state_dict() | {"state": state.moments})


class Descent(_Adam):
    """The expected log joint, or the marginal log posterior, of some sites.

    Args:
        model: bound to its networks.
        data: the annotations.
        schedule: of the mini-batches.
        space: of the sites.
        per_item: names of all sites of the model that stand in the item plate.
        theta: the parameters at the start.
    """

    def __init__(
        self,
        model: BoundModel,
        data: Annotations,
        schedule: Schedule,
        space: Space,
        per_item: Collection[str],
        theta: Parameters,
    ):
        self.model, self.data, self.space, self.per_item = model, data, space, per_item
        transforms = space.transforms
        super().__init__(
            {name: transforms[name].inv(theta[name]) for name in space.sizes}, schedule, data.N, data.device
        )

    def __call__(self, responsibility: Tensor | None, theta: Mapping[str, Tensor], steps: int) -> Parameters:
        """Take steps on the expected log joint, or without responsibilities on the marginal log posterior."""
        model, data, transforms = self.model, self.data, self.space.transforms
        with torch.enable_grad():
            for _ in range(steps):
                index = next(self.batches)
                whole = len(index) == data.N  # one batch is all: no need to take it apart
                batch = data if whole else data.mini_batch(index)
                values = dict(theta) | {name: transforms[name](free) for name, free in self.free.items()}
                r, plates = responsibility, model.plates(data, None if whole else index, training=True)
                if not whole:
                    r = None if r is None else r[index]
                    # Sites of items: those of the batch.
                    values |= {name: values[name][index] for name in self.per_item}
                self.adam.zero_grad()
                gain = expected(
                    model,
                    values,
                    r,
                    batch,
                    plates,
                    scale=data.N / len(index),
                    truths=self.schedule.fine_tune_truths,
                )
                (-gain / data.N).backward()
                self.adam.step()
        return {name: transforms[name](free.detach()).clone() for name, free in self.free.items()}


class CrossEntropy(_Adam):
    """That of a classifier which learns soft labels: no trace of the model is needed, a step takes a third of the time.

    Args:
        model: bound to its networks.
        data: the annotations.
        schedule: of the mini-batches; without a batch size the classifier learns by L-BFGS.
        space: of the classifier's weights.
        theta: the parameters at the start.
    """

    def __init__(self, model: BoundModel, data: Annotations, schedule: Schedule, space: Space, theta: Parameters):
        # The weight of the entropy of the classes, and those of the items (N, 1): the targets' at the last call.
        self.certainty, self.weights = 0.0, torch.empty(0, 1)
        bound, features = model.networks, data.features
        if bound is None or features is None:
            raise ModelError(f"{model.name}: targets are for a network of item features")
        self.features = features
        name = next(iter(space.sizes)).split(".")[0]
        self.module = bound.modules[name]
        self.name, self.bound, self.site = name, bound, f"{name}.weights"
        super().__init__({self.site: theta[self.site]}, schedule, len(features), data.device)
        # 1 / (2 variance) of each weight's normal prior.
        self.decay = float(0.5 / space.sites[self.site]["fn"].variance.flatten()[0])

    def __call__(self, learned: ClassifierTargets) -> Parameters:
        """Take the steps of one M step."""
        targets, schedule, self.certainty = learned.targets, self.schedule, learned.certainty
        weights = self.free[self.site]
        with torch.enable_grad():
            if schedule.batch_size is not None:
                self.module.train()
                for _ in range(schedule.steps or schedule.epochs * self.batches.per_epoch):
                    index = next(self.batches)
                    self.adam.zero_grad()
                    self._loss(self.features[index], targets[index], weights).backward()
                    self.adam.step()
            else:
                self._search(targets)
        self.weights = targets.sum(-1, keepdim=True)
        return {self.site: self.free[self.site].detach().clone()}

    def penalty(self, theta: Parameters) -> float:
        """Return the entropy of the classes, times the weights of the items and that of the entropy."""
        if not self.certainty:
            return 0.0
        self.module.eval()
        with torch.no_grad():
            logs = self._logs(self.features, theta[self.site])
            return -self.certainty * float((self.weights * logs.exp() * logs).sum())

    def _search(self, targets: Tensor) -> None:
        self.module.eval()
        lower = lowered(lambda weights: self._loss(self.features, targets, weights), self.free[self.site].detach())
        if lower is not None:
            with torch.no_grad():
                self.free[self.site].copy_(lower)

    def _loss(self, features: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return cross-entropy, weight decay and the penalty on the entropy of the classes an item."""
        logs = self._logs(features, weights)
        if self.certainty:
            targets = targets + self.certainty * targets.sum(-1, keepdim=True) * logs.exp()
        loss = -(targets * logs).sum() / len(features)
        return loss + (self.decay / len(self.features)) * weights.square().sum()

    def _logs(self, features: Tensor, weights: Tensor) -> Tensor:
        output = torch.func.functional_call(self.module, self.bound.views(self.name, weights), (features,))
        return torch.log_softmax(output, -1)


def lowered(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor | None:
    """Return coordinates ``(P,)`` at which a loss is not higher than at the start, by L-BFGS; ``None`` where it ends higher."""
    if synchronises(start):
        end = minimise(loss, start, SEARCH_STEPS, SEARCH_MEMORY)
        return end.vector if end.loss <= end.first else None
    vector = start.clone().requires_grad_()
    options: dict[str, Any] = {"max_iter": SEARCH_STEPS, "history_size": SEARCH_MEMORY}
    search = torch.optim.LBFGS([vector], **options, line_search_fn="strong_wolfe")

    def evaluate() -> Tensor:
        search.zero_grad()
        objective = loss(vector)
        objective.backward()
        return objective

    with torch.enable_grad():
        before = evaluate().item()
        search.step(evaluate)
        after = evaluate().item()
    return vector.detach() if after <= before else None


def expected(
    model: BoundModel,
    values: Mapping[str, Tensor],
    responsibility: Tensor | None,
    data: Annotations,
    plates: Plates | None = None,
    scale: float = 1.0,
    truths: Literal["item", "annotation"] = "item",
) -> Tensor:
    """Return the expected log joint of data, ``scale`` times, plus the log prior, a scalar: what the M step raises.

    Without responsibilities the marginal log-likelihood takes the place of the expected log joint: of items, or with
    ``truths="annotation"`` of annotations with truths of their own.
    """
    parameters, log_prior = model.conditioned(values, data, plates)
    if responsibility is None and truths == "annotation":
        return scale * repeated(model.separate_log_likelihoods(parameters, data), data).sum() + log_prior
    joint = model.item_log_joint(parameters, data)
    if responsibility is None:
        return scale * repeated(model.objective(joint, data), data).sum() + log_prior
    # A state that is ruled out has joint minus infinity and responsibility 0: it adds nothing.
    each = torch.where(responsibility > 0, responsibility * joint, 0.0).sum(-1)
    return scale * repeated(each, data).sum() + log_prior
