"""The M step: a model's closed forms where it has them, gradients for the rest; and with it the first point of every engine."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.minibatches import Batches
from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import AnnotationModel, Parameters, Sums, conditioned, prior_draws, provides, repeated
from crowdppl.model.plates import Plates

# L-BFGS iterations in one gradient M step: EM needs it to rise, not to arrive.
SEARCH_STEPS = 20


@dataclass(frozen=True)
class Schedule:
    """How gradients are followed in mini-batches of items, where a model has networks.

    Attributes:
        learning_rate: of Adam.
        batch_size: items a step.
        epochs: passes over the items in one M step.
        steps: steps in one M step, in place of ``epochs``.
    """

    learning_rate: float = 1e-3
    batch_size: int = 64
    epochs: int = 1
    steps: int | None = None


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

    def __init__(self, model: AnnotationModel, data: Annotations, space: Space, schedule: Schedule | None = None):
        self.model, self.data, self.space = model, data, space
        self.schedule = Schedule() if schedule is None else schedule
        takes = inspect.signature(model.m_step).parameters if provides(model, "m_step") else {}
        # A model of one's own may leave further arguments out.
        self.takes_memory, self.takes_parameters = "reuse" in takes, "parameters" in takes
        self.stochastic = bool(space.weights) and not model.full_batch
        self.closed = False
        self.taught: Space | None = None
        self.open = space
        self._descent: _Descent | None = None
        self._lesson: _CrossEntropy | None = None
        self._fine: _Descent | None = None

    def start(self, responsibility: Tensor | Sums) -> Parameters:
        """Return the parameters that ``(N, S)`` responsibilities, or the sums over them, suggest.

        Gradients begin at the prior's median, networks at their own first weights.
        """
        if isinstance(responsibility, Sums):
            self.closed = True
            return self.model.m_step_from(responsibility, self.data)
        r = self._counted(responsibility)
        self._descent, self._lesson, self._fine = None, None, None
        given = self._closed(r, None, None) if provides(self.model, "m_step") else {}
        left = set(self.space.sizes) - set(given)
        self.closed = not left
        if self.closed:
            return given
        taught = self.model.targets(r, self.data)
        # The network that learns by cross-entropy, and what is left to gradients of everything.
        self.taught = None if taught is None else self.space.part(n for n in left if n.startswith(f"{taught[0]}."))
        self.open = self.space.part(left - set(self.taught.sizes if self.taught else ()))
        theta = {name: value.median(0).values for name, value in prior_draws(self.model, self.data, 15).items()}
        if self.model._bound is not None:
            theta |= self.model._bound.start()
        return self._follow(responsibility, theta | given | self.model.first(r, self.data))

    def __call__(self, responsibility: Tensor | Sums, theta: Parameters, reuse: Parameters | None = None) -> Parameters:
        """Return better parameters than ``theta`` for the given responsibilities, or ``theta``; may overwrite ``reuse``."""
        if isinstance(responsibility, Sums):
            return self.model.m_step_from(responsibility, self.data)
        r = self._counted(responsibility)
        if self.closed:
            return self._closed(r, theta, reuse)
        theta = dict(theta)
        if provides(self.model, "m_step"):
            theta |= self._closed(r, theta, reuse)
        return self._follow(responsibility, theta)

    def _follow(self, responsibility: Tensor, theta: Parameters) -> Parameters:
        """Raise what has no closed form, the rest held at ``theta``."""
        if self.taught is not None:
            if self._lesson is None:
                self._lesson = _CrossEntropy(self, self.taught, theta)
            theta |= self._lesson(responsibility)
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
        """Follow gradients of the marginal log posterior of all parameters, over mini-batches, from ``theta``."""
        if self._fine is None:
            self._fine = _Descent(self, theta, self.space)
        return theta | self._fine(None, theta, steps)

    def state(self) -> MStepState:
        """Return what gradients retain, for a checkpoint."""
        return MStepState(*(None if part is None else part.state() for part in (self._lesson, self._descent)))

    def restore(self, state: MStepState, theta: Parameters) -> None:
        """Restore what :meth:`state` returned, after :meth:`start`; ``theta`` are the parameters then."""
        if state.gradient is not None:
            self._descent = _Descent(self, theta, self.open)
            self._descent.restore(state.gradient)
        if state.classifier is not None and self.taught is not None:
            self._lesson = _CrossEntropy(self, self.taught, theta)
            self._lesson.restore(state.classifier)

    def _counted(self, responsibility: Tensor) -> Tensor:
        often = self.data.multiplicity
        return responsibility if often is None else responsibility * often.unsqueeze(-1)

    def _closed(self, r: Tensor, theta: Parameters | None, reuse: Parameters | None) -> Parameters:
        more: dict[str, Parameters | None] = {}
        if self.takes_memory:
            more["reuse"] = reuse
        if self.takes_parameters:
            more["parameters"] = theta
        return self.model.m_step(r, self.data, **more)

    def _search(self, responsibility: Tensor, theta: Parameters) -> Parameters:
        vector = self.open.vector(theta, inside=False).requires_grad_()
        search = torch.optim.LBFGS([vector], max_iter=SEARCH_STEPS, history_size=20, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            search.zero_grad()
            objective = -expected(self.model, theta | self.open.values(vector), responsibility, self.data)
            objective.backward()
            return objective

        with torch.enable_grad():
            before = loss().item()
            search.step(loss)
            after = loss().item()
        return self.open.values(vector.detach()) if after <= before else {}


def _gradient_state(free: Parameters, adam: torch.optim.Adam, batches: Batches) -> GradientState:
    return GradientState(dict(free), adam.state_dict()["state"], list(batches.queue))


def _restore(state: GradientState, free: Parameters, adam: torch.optim.Adam, batches: Batches) -> None:
    with torch.no_grad():
        for name, value in state.coordinates.items():
            free[name].copy_(value)
    batches.queue = state.batches
    adam.load_state_dict(adam.state_dict() | {"state": state.moments})


class _Descent:
    """Adam over mini-batches; coordinates and its own state last for the whole ascent."""

    def __init__(self, step: MStep, theta: Parameters, space: Space):
        self.step, self.space = step, space
        self.batches = Batches(step.data.N, step.schedule.batch_size, step.data.device)
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
                batch = data if whole else data.batch(index)
                values = dict(theta) | {name: transforms[name](free) for name, free in self.free.items()}
                r, plates = responsibility, Plates.over(data.N, data.J, None if whole else index, training=True)
                if not whole:
                    r = None if r is None else r[index]
                    # Sites of items: those of the batch.
                    values |= {name: values[name][index] for name in step.space.per_item}
                self.adam.zero_grad()
                gain = expected(step.model, values, r, batch, plates, scale=data.N / len(index))
                (-gain / data.N).backward()
                self.adam.step()
        return {name: transforms[name](free.detach()).clone() for name, free in self.free.items()}


class _CrossEntropy:
    """The same for a classifier that learns soft labels: no trace of the model is needed, a step takes a third of the time."""

    def __init__(self, step: MStep, space: Space, theta: Parameters):
        bound, features = step.model._bound, step.data.features
        if bound is None or features is None:
            raise ModelError(f"{type(step.model).__name__}: targets are for a network of item features")
        self.step, self.space, self.features = step, space, features
        name = next(iter(space.sizes)).split(".")[0]
        self.module = bound.modules[name]
        self.name, self.bound, self.site = name, bound, f"{name}.weights"
        self.free = theta[self.site].clone().requires_grad_()
        # 1 / (2 variance) of each weight's normal prior.
        self.decay = float(0.5 / space.sites[self.site]["fn"].variance.flatten()[0])
        self.batches = Batches(len(features), step.schedule.batch_size, step.data.device)
        self.adam = torch.optim.Adam([self.free], lr=step.schedule.learning_rate, amsgrad=True)

    def state(self) -> GradientState:
        """Return what lasts between M steps."""
        return _gradient_state({self.site: self.free}, self.adam, self.batches)

    def restore(self, state: GradientState) -> None:
        """Restore it."""
        _restore(state, {self.site: self.free}, self.adam, self.batches)

    def __call__(self, responsibility: Tensor) -> Parameters:
        told = self.step.model.targets(self.step._counted(responsibility), self.step.data)
        assert told is not None
        targets, schedule = told[1], self.step.schedule
        with torch.enable_grad():
            if self.step.stochastic:
                self.module.train()
                for _ in range(schedule.steps or schedule.epochs * self.batches.per_epoch):
                    index = next(self.batches)
                    self.adam.zero_grad()
                    self._loss(self.features[index], targets[index]).backward()
                    self.adam.step()
            else:
                self._search(targets)
        return {self.site: self.free.detach().clone()}

    def _search(self, targets: Tensor) -> None:
        self.module.eval()
        before = self.free.detach().clone()
        search = torch.optim.LBFGS([self.free], max_iter=SEARCH_STEPS, history_size=20, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            search.zero_grad()
            objective = self._loss(self.features, targets)
            objective.backward()
            return objective

        first = loss().item()
        search.step(loss)
        if not loss().item() <= first:
            with torch.no_grad():
                self.free.copy_(before)

    def _loss(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return cross-entropy and weight decay an item."""
        output = torch.func.functional_call(self.module, self.bound.views(self.name, self.free), (features,))
        loss = -(targets * torch.log_softmax(output, -1)).sum() / len(features)
        return loss + (self.decay / len(self.features)) * self.free.square().sum()


def expected(
    model: AnnotationModel,
    values: Mapping[str, Tensor],
    responsibility: Tensor | None,
    data: Annotations,
    plates: Plates | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Return the expected log joint of data, ``scale`` times, plus the log prior, a scalar: what the M step raises.

    Without responsibilities the marginal log-likelihood takes the place of the expected log joint.
    """
    parameters, log_prior = conditioned(model, values, data, plates)
    joint = model.item_log_joint(parameters, data)
    if responsibility is None:
        return scale * repeated(torch.logsumexp(joint, -1), data).sum() + log_prior
    # A state that is ruled out has joint minus infinity and responsibility 0: it adds nothing.
    each = torch.where(responsibility > 0, responsibility * joint, 0.0).sum(-1)
    return scale * repeated(each, data).sum() + log_prior
