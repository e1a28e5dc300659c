"""The M step: a model's closed forms where it has them, gradients for the rest; and with it the first point of every engine."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.engines.descents import CrossEntropy, Descent, GradientState, Schedule, expected, lowered
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.program import prior_draws


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
        self._descent: Descent | None = None
        self._classifier_update: CrossEntropy | None = None
        self._fine: Descent | None = None

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
                self._classifier_update = CrossEntropy(self.model, self.data, self.schedule, self.classifier, theta)
            learned = self.model.classifier_targets(self.counted(responsibility), self.data)
            assert learned is not None
            theta |= self._classifier_update(learned)
        if not self.open.sizes:
            return theta
        if self.stochastic:
            if self._descent is None:
                self._descent = self._begun(self.open, theta)
            schedule = self.schedule
            steps = schedule.steps or schedule.epochs * self._descent.batches.per_epoch
            return theta | self._descent(responsibility, theta, steps)
        return theta | self._search(responsibility, theta)

    def _begun(self, space: Space, theta: Parameters) -> Descent:
        """Return mini-batches for some sites, from ``theta``."""
        return Descent(self.model, self.data, self.schedule, space, self.space.per_item, theta)

    def raise_marginal(self, theta: Parameters, steps: int) -> Parameters:
        """Follow gradients of the marginal log posterior of all parameters, over mini-batches, from ``theta``.

        Where the schedule says so, as if each annotation had a truth of its own.
        """
        if self._fine is None:
            self._fine = self._begun(self.space, theta)
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
            self._descent = self._begun(self.open, theta)
            self._descent.restore(state.gradient)
        if state.classifier is not None and self.classifier is not None:
            self._classifier_update = CrossEntropy(self.model, self.data, self.schedule, self.classifier, theta)
            self._classifier_update.restore(state.classifier)

    def counted(self, responsibility: Tensor) -> Tensor:
        """Return responsibilities ``(N, S)`` times the multiplicities of the items."""
        often = self.data.multiplicity
        return responsibility if often is None else responsibility * often.unsqueeze(-1)

    def _search(self, responsibility: Tensor, theta: Parameters) -> Parameters:
        def loss(vector: Tensor) -> Tensor:
            return -expected(self.model, theta | self.open.values(vector), responsibility, self.data)

        lower = lowered(loss, self.open.vector(theta, inside=False))
        return {} if lower is None else self.open.values(lower)
