"""Stochastic variational inference: Pyro's SVI with the truth enumerated exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyro
import torch
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.early_stopping import Validation
from crowdppl.inference.engines.guides import JOINT, guide_draws, guide_of, medians
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.minibatches import Batches
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.hooks import SILENT, Hooks
from crowdppl.inference.memory import affordable, thinned_note
from crowdppl.inference.options import SVI
from crowdppl.isolation import random_state, set_random_state
from crowdppl.model.bound import BoundModel
from crowdppl.model.contract import check

INTERVAL_METHOD = (
    "draws from a variational approximation ({guide}, fitted by SVI){independent}: intervals tend to be too narrow; "
    "method='gibbs' or 'nuts' gives posterior draws"
)
INDEPENDENT = ", whose sites are independent of each other"
POINT = "one point for all parameters, trained end to end by gradients: there are no intervals"
# Steps between two evaluations on held-out items, where a step takes all items.
VALIDATION_STEPS = 10


@dataclass
class SVIState:
    """The state of the optimiser loop between two steps.

    Attributes:
        guide: parameters of the guide, by name.
        optimiser: state of Pyro's optimiser.
        batches: those left in the epoch.
        loss: of each step.
        calm: windows in a row in which the loss hardly fell.
    """

    guide: dict[str, Tensor]
    optimiser: dict[str, Any]
    batches: list[Tensor]
    loss: list[float]
    calm: int


@dataclass(frozen=True)
class _Best:
    """The step with the highest score on held-out items."""

    score: tuple[float, float]
    step: int
    guide: dict[str, Tensor]
    buffers: dict[str, Tensor]


def svi(model: BoundModel, data: Annotations, options: SVI, hooks: Hooks = SILENT) -> Draws:
    """Fit a guide to the posterior of the parameters.

    The guide ``"auto"`` is the model's own, else independent normals, with the weights of networks as a point; ``"full-rank"``
    and ``"low-rank"`` are one normal for all sites but these weights, with a covariance matrix, or a factor of it; ``"point"`` is
    a point for every parameter, which is training end to end. The loop ends early when the mean loss of a window of steps falls
    by less than the tolerance; of items for validation the epoch with the highest accuracy is kept.

    Args:
        model: any.
        data: the annotations.
        options: all of SVI's.
        hooks: called between steps; a stopped fit continues from its checkpoint.
    """
    guide, batch_size = options.guide, options.batch_size
    space = Space(check(model, data))
    with torch.no_grad():
        first = MStep(model, data, space).start(model.initial(data))
    held_out = None if options.validation is None else Validation(options.validation, model, data)
    in_batches = batch_size is not None and batch_size < data.N
    family, name = guide_of(model, data, space, first, guide, in_batches=in_batches)
    loop = _OptimiserLoop(model, data, space, family, options)
    if held_out is None:
        state = hooks.keep.resume(SVIState, data.device)
        if state is not None:
            loop.restore(state)
    converged = loop.run(options.tol, held_out, hooks)
    warnings = [] if converged else [f"SVI stopped after {len(loop.loss)} steps before its loss stood; raise max_iter"]
    point = None
    with torch.no_grad():
        if guide == "point":
            point = medians(family, data, space)
            samples = {name: point[name][None, None] for name in space.sizes if name not in space.weights}
            fixed = {name: point[name] for name in space.weights}
            warnings.append(POINT)
        else:
            sites = [name for name in space.sizes if name not in space.weights]
            size = space.size - sum(space.sizes[name] for name in space.weights)
            count = affordable(size, data, options.num_samples) if sites else 1
            samples, fixed = guide_draws(family, data, sites, sorted(space.weights), count)
            if sites and count < options.num_samples:
                warnings.append(thinned_note(count, options.num_samples))
    facts: dict[str, Any] = {
        "converged": converged,
        "iterations": len(loop.loss),
        "loss": loop.loss[-1],
        "batch_size": None if loop.batches is None else batch_size,
    }
    if loop.best is not None:
        facts["validation"] = {"accuracy": loop.best.score[0], "iteration": loop.best.step}
    return Draws(
        samples,
        "point" if guide == "point" else "approximation",
        POINT
        if guide == "point"
        else INTERVAL_METHOD.format(guide=name, independent="" if guide in JOINT else INDEPENDENT),
        point=point,
        fixed=fixed,
        trace={"loss": torch.tensor(loop.loss, dtype=torch.float64)},
        facts=facts,
        warnings=warnings,
        sites=space.sites,
    )


class _OptimiserLoop:
    """Gradient steps on the parameters of a guide.

    Args:
        model: bound to its networks.
        data: the annotations.
        space: of the model's sites.
        guide: the family of approximations.
        options: of SVI.

    Attributes:
        loss: of each step.
        best: the step kept by its score on held-out items, if any.
    """

    def __init__(
        self,
        model: BoundModel,
        data: Annotations,
        space: Space,
        guide: Callable[..., Any],
        options: SVI,
    ):
        self.model, self.data, self.space, self.guide, self.max_iter = model, data, space, guide, options.max_iter
        self.optimiser = adam(options.learning_rate, options.max_iter)
        training = partial(model.program, training=True) if space.weights else model.program
        self.steps = pyro.infer.SVI(training, guide, self.optimiser, TraceEnum_ELBO(max_plate_nesting=1))
        size = options.batch_size
        self.batches = None if size is None or size >= data.N else Batches(data.N, size, data.device)
        if self.batches is not None:
            self._initialise_guide()
        self.window = max(50, self.batches.per_epoch if self.batches else 0)
        self.loss: list[float] = []
        self.calm = 0
        self.best: _Best | None = None

    def _initialise_guide(self) -> None:
        """Call the guide: automatic ones set sizes and initial values at their first call, from all items, not from a batch."""
        with torch.no_grad():
            self.guide(self.data)

    def run(self, tol: float, held_out: Validation | None, hooks: Hooks) -> bool:
        """Take steps until convergence or ``max_iter``, restore the best one if there are held-out items, return convergence."""
        converged = False
        for step in range(len(self.loss), self.max_iter):
            batch = () if self.batches is None else (next(self.batches),)
            self.loss.append(self.steps.step(self.data, *batch))
            require_finite(self.loss[-1], self.model, step)
            if step % 20 == 0:
                hooks.report(step, self.max_iter, f"loss {self.loss[-1]:.2f}")
            if held_out is not None:
                self._validate(held_out, step)
            if converged := self._converged(tol):
                break
            if held_out is None:
                hooks.keep.step(self.state)
        if self.best is not None:
            _set_guide(self.best.guide)
            if self.model.networks is not None:
                self.model.networks.take(self.best.buffers)
        return converged

    def _validate(self, held_out: Validation, step: int) -> None:
        """Keep the guide, after an epoch, if its score on held-out items is the highest."""
        if (step + 1) % (self.batches.per_epoch if self.batches else VALIDATION_STEPS):
            return
        score = held_out.score(medians(self.guide, self.data, self.space))
        if self.best is None or score > self.best.score:
            buffers = {} if self.model.networks is None else self.model.networks.buffers()
            self.best = _Best(score, step, _guide_parameters(), buffers)

    def _converged(self, tol: float) -> bool:
        """Compare the last two windows, after every window; two in a row must be calm."""
        window = self.window
        if len(self.loss) % window or len(self.loss) < 2 * window:
            return False
        now, before = (sum(part) / window for part in (self.loss[-window:], self.loss[-2 * window : -window]))
        self.calm = self.calm + 1 if before - now < tol * abs(now) else 0
        return self.calm == 2

    def state(self) -> SVIState:
        """Return the state, for a checkpoint."""
        batches = [] if self.batches is None else self.batches.queue
        return SVIState(_guide_parameters(), self.optimiser.get_state(), batches, self.loss, self.calm)

    def restore(self, state: SVIState) -> None:
        """Restore a state; the random stream is left as it is."""
        stream = random_state(self.data.device)
        self._initialise_guide()
        _set_guide(state.guide)
        self.optimiser.set_state(state.optimiser)
        self.loss, self.calm = state.loss, state.calm
        if self.batches is not None:
            self.batches.queue = state.batches
        set_random_state(stream, self.data.device)


def adam(learning_rate: float, steps: int) -> Any:
    """Return Pyro's Adam with a learning rate that falls to a tenth over ``steps``."""
    return pyro.optim.ClippedAdam(
        {"lr": learning_rate, "lrd": 0.1 ** (1 / steps), "betas": (0.9, 0.99), "clip_norm": 1e12}
    )


def require_finite(loss: float, model: BoundModel, step: int) -> None:
    """Raise for a loss that is infinite or not a number.

    Args:
        loss: of the step.
        model: named in the message.
        step: number of the step, from 0.

    Raises:
        ModelError: for such a loss.
    """
    if not math.isfinite(loss):
        # Gradients of Dirichlet draws in float32 are not finite where a component is close to 0.
        rounded = "use float64, " if torch.get_default_dtype() == torch.float32 else ""
        raise ModelError(
            f"{model.name}: the loss of SVI is {loss} at step {step + 1}; {rounded}lower learning_rate, or check that "
            f"every label is possible under the model"
        )


def _guide_parameters() -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in pyro.get_param_store().named_parameters()}


def _set_guide(values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in pyro.get_param_store().named_parameters():
            value.copy_(values[name])
