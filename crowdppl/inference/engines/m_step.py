"""The M step: a model's closed forms where it has them, gradients for the rest; and with it the first point of every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel, repeated
from crowdppl.model.plates import Plates
from crowdppl.model.program import prior_draws

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


@dataclass
class MStepState:
    """What gradients retain from one M step to the next: of the classifier, and of the other parameters."""

    classifier: GradientState | None
    gradient: GradientState | None


class MStep:
    """Maximise, or at least raise, the expected log joint plus log prior.

    Sites that the model's ``m_step`` returns are set to what it returns. The others are moved by gradients: by L-BFGS over
    all items, taken only where it rises; or, where there are networks, by Adam (AMSGrad: Reddi, Kale and Kumar 2018) over
    mini-batches, whose state lasts from one M step to the next. The latter need not rise.

    Args:
        model: bound to its networks, with or without ``m_step``.
        data: the annotations.
        space: of the model's sites.
        schedule: of the mini-batches.

    Attributes:
        closed: whether ``m_step`` gives all sites; known once :meth:`start` has been called.
        stochastic: whether gradients are taken over mini-batches.
    """

    def __init__(self, model: BoundModel, data: Annotations, space: Space, schedule: Schedule | None = None):
        self.model, self.data, self.space = model, data, space
        if schedule is None:
            whole = model.model.engine_defaults.get("em", {}).get("batch_size", 64) is None
            schedule = Schedule(batch_size=None if whole else 64)
        self.schedule = schedule
        self.stochastic = bool(space.weights) and schedule.batch_size is not None
        # Whether a network that learns the truth is in no likelihood.
        self.detached = False
        self.closed = False
        self.classifier: Space | None = None
        self.open = space
        self._descent: _Descent | None = None
        self._classifier_update: _CrossEntropy | None = None
        self._fine: _Descent | None = None

    def start(self, responsibility: Tensor) -> Parameters:
        """Return the parameters that responsibilities ``(N, S)`` suggest.

        Gradients begin at the prior's median, networks at their own first weights.
        """
        r = self.counted(responsibility)
        self._descent, self._classifier_update, self._fine = None, None, None
        given = self.model.m_step(r, self.data)
        if not set(self.space.sizes) - set(given):
            self.closed = True
            return given
        self.closed = False
        theta = {name: value.median(0).values for name, value in prior_draws(self.model, self.data, 15).items()}
        if self.model.networks is not None:
            theta |= self.model.networks.start()
        theta |= given
        # Values that only the first M step returns are starts for gradients.
        left = set(self.space.sizes) - set(self.model.m_step(r, self.data, theta))
        targets = self.model.classifier_targets(r, self.data)
        # The network that learns by cross-entropy, and what is left to gradients of everything.
        self.classifier, self.detached = None, False
        if targets is not None:
            self.classifier = self.space.part(n for n in left if n.startswith(f"{targets.network}."))
            self.detached = not targets.in_likelihood
        self.open = self.space.part(left - set(self.classifier.sizes if self.classifier else ()))
        return self._follow(responsibility, theta)

    def from_sums(self, statistics: Statistics, theta: Parameters | None) -> Parameters:
        """Return the parameters of a conjugate model that sums over responsibilities lead to, all of them in closed form."""
        assert self.model.conjugacy is not None
        self.closed = True
        return self.model.conjugacy.m_step(statistics, theta)

    def __call__(self, responsibility: Tensor, theta: Parameters, reuse: Parameters | None = None) -> Parameters:
        """Return better parameters than ``theta`` for the given responsibilities, or ``theta``; may overwrite ``reuse``."""
        closed = self.model.m_step(self.counted(responsibility), self.data, theta, reuse)
        return closed if self.closed else self._follow(responsibility, {**theta, **closed})

    def _follow(self, responsibility: Tensor, theta: Parameters) -> Parameters:
        """Raise what has no closed form, the rest held at ``theta``."""
        if self.classifier is not None:
            if self._classifier_update is None:
                self._classifier_update = _CrossEntropy(self, self.classifier, theta)
            theta |= self._classifier_update(responsibility)
        if not self.open.sizes:
            return theta
        if self.stochastic:
            if self._descent is None:
                self._descent = _Descent(self, theta, self.open)
            schedule = self.schedule
            steps = schedule.steps or schedule.epochs * self._descent.batches.per_epoch
            return theta | self._descent(responsibility, theta, steps)
        return theta | self._search(responsibility, theta)

    def raise_marginal(self, theta: Parameters, steps: int) -> Parameters:
        """Follow gradients of the marginal log posterior of all parameters, over mini-batches, from ``theta``.

        Where the schedule says so, as if each annotation had a truth of its own.
        """
        if self._fine is None:
            self._fine = _Descent(self, theta, self.space)
        return theta | self._fine(None, theta, steps)

    def penalty(self, theta: Parameters) -> float:
        """Return what the entropy of the classifier's classes takes from the objective, if the model keeps it low."""
        return 0.0 if self._classifier_update is None else self._classifier_update.penalty(theta)

    def state(self) -> MStepState:
        """Return what gradients retain, for a checkpoint."""
        return MStepState(
            *(None if part is None else part.state() for part in (self._classifier_update, self._descent))
        )

    def restore(self, state: MStepState, theta: Parameters) -> None:
        """Restore what :meth:`state` returned, after :meth:`start`; ``theta`` are the parameters then."""
        if state.gradient is not None:
            self._descent = _Descent(self, theta, self.open)
            self._descent.restore(state.gradient)
        if state.classifier is not None and self.classifier is not None:
            self._classifier_update = _CrossEntropy(self, self.classifier, theta)
            self._classifier_update.restore(state.classifier)

    def counted(self, responsibility: Tensor) -> Tensor:
        """Return responsibilities ``(N, S)`` times the multiplicities of the items."""
        often = self.data.multiplicity
        return responsibility if often is None else responsibility * often.unsqueeze(-1)

    def _search(self, responsibility: Tensor, theta: Parameters) -> Parameters:
        def loss(vector: Tensor) -> Tensor:
            return -expected(self.model, theta | self.open.values(vector), responsibility, self.data)

        lower = _lowered(loss, self.open.vector(theta, inside=False))
        return {} if lower is None else self.open.values(lower)


def _gradient_state(free: Parameters, adam: torch.optim.Adam, batches: Batches) -> GradientState:
    return GradientState(dict(free), adam.state_dict()["state"], list(batches.queue))


def _restore(state: GradientState, free: Parameters, adam: torch.optim.Adam, batches: Batches) -> None:
    with torch.no_grad():
        for name, value in state.coordinates.items():
            free[name].copy_(value)
    batches.queue = state.batches
    adam.load_state_dict(adam.state_dict() | {"state": state.moments})


class _Descent:
    """Adam over mini-batches; coordinates and its own state last for the whole run."""

    def __init__(self, step: MStep, theta: Parameters, space: Space):
        self.step, self.space = step, space
        self.batches = Batches(step.data.N, step.schedule.batch_size or step.data.N, step.data.device)
        transforms = space.transforms
        self.free = {name: transforms[name].inv(theta[name]).clone().requires_grad_() for name in space.sizes}
        self.adam = torch.optim.Adam(list(self.free.values()), lr=step.schedule.learning_rate, amsgrad=True)

    def state(self) -> GradientState:
        """Return what lasts between M steps."""
        return _gradient_state(self.free, self.adam, self.batches)

    def restore(self, state: GradientState) -> None:
        """Restore it."""
        _restore(state, self.free, self.adam, self.batches)

    def __call__(self, responsibility: Tensor | None, theta: Mapping[str, Tensor], steps: int) -> Parameters:
        """Take steps on the expected log joint, or without responsibilities on the marginal log posterior."""
        step, data, transforms = self.step, self.step.data, self.space.transforms
        with torch.enable_grad():
            for _ in range(steps):
                index = next(self.batches)
                whole = len(index) == data.N  # one batch is all: no need to take it apart
                batch = data if whole else data.mini_batch(index)
                values = dict(theta) | {name: transforms[name](free) for name, free in self.free.items()}
                r, plates = responsibility, step.model.plates(data, None if whole else index, training=True)
                if not whole:
                    r = None if r is None else r[index]
                    # Sites of items: those of the batch.
                    values |= {name: values[name][index] for name in step.space.per_item}
                self.adam.zero_grad()
                gain = expected(
                    step.model,
                    values,
                    r,
                    batch,
                    plates,
                    scale=data.N / len(index),
                    truths=step.schedule.fine_tune_truths,
                )
                (-gain / data.N).backward()
                self.adam.step()
        return {name: transforms[name](free.detach()).clone() for name, free in self.free.items()}


class _CrossEntropy:
    """The same for a classifier that learns soft labels: no trace of the model is needed, a step takes a third of the time."""

    def __init__(self, step: MStep, space: Space, theta: Parameters):
        # The weight of the entropy of the classes, and those of the items (N, 1): the targets' at the last call.
        self.certainty, self.weights = 0.0, torch.empty(0, 1)
        bound, features = step.model.networks, step.data.features
        if bound is None or features is None:
            raise ModelError(f"{step.model.name}: targets are for a network of item features")
        self.step, self.space, self.features = step, space, features
        name = next(iter(space.sizes)).split(".")[0]
        self.module = bound.modules[name]
        self.name, self.bound, self.site = name, bound, f"{name}.weights"
        self.free = theta[self.site].clone().requires_grad_()
        # 1 / (2 variance) of each weight's normal prior.
        self.decay = float(0.5 / space.sites[self.site]["fn"].variance.flatten()[0])
        self.batches = Batches(len(features), step.schedule.batch_size or len(features), step.data.device)
        self.adam = torch.optim.Adam([self.free], lr=step.schedule.learning_rate, amsgrad=True)

    def state(self) -> GradientState:
        """Return what lasts between M steps."""
        return _gradient_state({self.site: self.free}, self.adam, self.batches)

    def restore(self, state: GradientState) -> None:
        """Restore it."""
        _restore(state, {self.site: self.free}, self.adam, self.batches)

    def __call__(self, responsibility: Tensor) -> Parameters:
        learned = self.step.model.classifier_targets(self.step.counted(responsibility), self.step.data)
        assert learned is not None
        targets, schedule, self.certainty = learned.targets, self.step.schedule, learned.certainty
        with torch.enable_grad():
            if self.step.stochastic:
                self.module.train()
                for _ in range(schedule.steps or schedule.epochs * self.batches.per_epoch):
                    index = next(self.batches)
                    self.adam.zero_grad()
                    self._loss(self.features[index], targets[index], self.free).backward()
                    self.adam.step()
            else:
                self._search(targets)
        self.weights = targets.sum(-1, keepdim=True)
        return {self.site: self.free.detach().clone()}

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
        lower = _lowered(lambda weights: self._loss(self.features, targets, weights), self.free.detach())
        if lower is not None:
            with torch.no_grad():
                self.free.copy_(lower)

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


def _lowered(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor | None:
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
