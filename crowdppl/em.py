"""Exact marginal EM: climb to the mode of the posterior of the parameters, with the truth summed out at every step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crowdppl import ranks
from crowdppl.annotations import Annotations
from crowdppl.checkpoint import NOTHING, Checkpoint, State, packed, unpacked
from crowdppl.draws import Draws, Report, chunk, positive, sample_truth, thinning, whole
from crowdppl.errors import ModelError
from crowdppl.kernels import normalise, read
from crowdppl.model import AnnotationModel, Parameters, check, conditioned, dispersed, repeated, without_gibbs
from crowdppl.mstep import MStep, Schedule
from crowdppl.space import Space, is_simplex
from crowdppl.sweeps import Sweeps, at
from crowdppl.validation import Validation

# With networks: stop where the best log posterior of the way has not risen for this many steps.
PATIENCE = 10
# Ends of restarts that differ by less than this fraction are one mode, reached to within the tolerance.
SAME_MODE = 1e-6
# Gradient steps of fine-tuning between two looks at the log posterior.
FINE_STEPS = 100
# Above this many coordinates the curvature at the mode is not computed: its matrix grows with the square.
LAPLACE_SIZE = 1000

ONE_SWEEP = (
    "EM gives a point for the parameters (group 'point'), not a posterior. Intervals come from one Gibbs sweep from that "
    "point: truths drawn given the point, then parameters drawn given those truths. They leave out how far the point itself "
    "could have been elsewhere and are too narrow where labels are few; method='gibbs' gives posterior draws."
)
LAPLACE = (
    "EM gives a point for the parameters (group 'point'), not a posterior. Intervals come from a normal approximation "
    "around that point (Laplace: curvature of the log posterior in unbounded coordinates); method='nuts' gives posterior draws."
)
FIXED = " The weights of networks are held at the point."
POINT = (
    "EM gives a point for the parameters, not a posterior, and this model is too large, or the point too close to a boundary, "
    "for a normal approximation: there are no intervals. Use method='svi' or 'nuts'."
)


def em(
    model: AnnotationModel,
    data: Annotations,
    report: Report,
    keep: Checkpoint = NOTHING,
    *,
    max_iter: int = 2000,
    tol: float = 1e-9,
    restarts: int = 0,
    accelerate: bool = True,
    num_samples: int = 1000,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    epochs: int = 1,
    steps: int | None = None,
    fine_tune: int = 0,
    validation: Any = None,
) -> Draws:
    """Fit by EM from a majority vote.

    Args:
        model: with a closed-form ``m_step``, else its M step is taken by gradients: by L-BFGS, many times slower; with
            networks by Adam over mini-batches, where the log posterior need not rise at every step, and the best point
            of the way is kept.
        data: the judgements.
        report: called with progress.
        keep: where the state is kept, for a fit that is stopped to go on.
        max_iter: most E steps.
        tol: stop where the log posterior rises by less than this fraction of itself (with networks: over ``PATIENCE`` steps).
        restarts: further starts around the majority vote; the best end is kept and all are told.
        accelerate: extrapolate along the path of closed-form steps (SQUAREM, Varadhan and Roland 2008), falling back
            to the plain step wherever that would not rise.
        num_samples: draws for intervals, see ``how`` of the result.
        learning_rate: of Adam, for networks.
        batch_size: items in a mini-batch, for networks.
        epochs: passes over the items in one M step, for networks.
        steps: gradient steps in one M step, in place of ``epochs``.
        fine_tune: with networks, gradient steps on the marginal log posterior of all parameters, after the last M step.
        validation: features and classes of items held out: the step with the highest accuracy on them is kept, in place
            of that with the highest log posterior.
    """
    whole("max_iter", max_iter, 1)
    positive("tol", tol, zero=True)
    whole("restarts", restarts, 0)
    whole("num_samples", num_samples, 1)
    positive("learning_rate", learning_rate)
    whole("batch_size", batch_size, 1)
    whole("epochs", epochs, 1)
    if steps is not None:
        whole("steps", steps, 1)
    whole("fine_tune", fine_tune, 0)
    space = Space(check(model, data))
    schedule = Schedule(learning_rate, batch_size, epochs, steps)
    held_out = None if validation is None else Validation(validation, model, data)
    climb = Climb(model, data, space, max_iter, tol, accelerate, report, schedule, held_out, fine_tune)
    with torch.no_grad():
        first = model.starting(data)
        ends: list[End] = []
        found = keep.resume("em")
        if found is not None:
            ends = [End.of(found, n) for n in range(found[1]["ends"])]
            stream = torch.get_rng_state()
            climb.begin(first)  # learns which sites have closed steps
            torch.set_rng_state(stream)
        climb.keep, climb.ends = keep, ends
        for n in range(len(ends), restarts + 1):
            if found is not None and n == found[1]["ends"]:
                ends.append(climb.wander({}, found) if "mark" in found[1] else climb.ascend({}, found))
                continue
            if n and model._bound is not None:  # networks start anew
                model._bound.renew(model.networks(data))
            ends.append(climb(first if n == 0 else dispersed(first, data)))
        best = max(ends, key=lambda end: end.score)
        if model._bound is not None:
            model._bound.take(best.buffers)
        out = _intervals(model, data, space, best.point, num_samples)
    out.point, out.sites = best.point, space.sites
    out.trace = {"log_posterior": torch.tensor(best.trace, dtype=torch.float64)}
    finals = [float(end.top) for end in ends]
    out.facts = {
        "converged": best.converged,
        "iterations": len(best.trace),
        "evaluations": best.evaluations,
        "log_posterior": finals[ends.index(best)],
        "log_likelihood": best.log_likelihood,
        "restarts": finals,
    }
    if held_out is not None:
        out.facts["validation"] = {"accuracy": best.score[0], "iteration": best.chosen}
    if not best.converged and not climb.m_step.stochastic:
        out.warnings.append(
            f"EM stopped after {best.evaluations} evaluations before it converged; raise max_iter, or loosen tol"
        )
    if max(finals) > finals[0] + SAME_MODE * abs(finals[0]):
        out.warnings.append(
            f"a restart ended higher than the majority start (log posterior {max(finals):.4f} against {finals[0]:.4f}); "
            f"the posterior has several modes"
        )
    return out


@dataclass(eq=False)
class End:
    """Where an ascent ended.

    Attributes:
        point: the parameters kept.
        trace: log posterior at every step.
        top: log posterior of the point.
        log_likelihood: of the point.
        evaluations: E steps taken.
        converged: whether the ascent stood.
        score: by which ascents are compared: the log posterior, or accuracy on held-out items and their log-probability.
        chosen: the step whose point was kept.
        buffers: of the networks at the point.
    """

    point: Parameters
    trace: list[float]
    top: float
    log_likelihood: float
    evaluations: int
    converged: bool
    score: tuple[float, ...]
    chosen: int
    buffers: dict[str, Tensor]

    @classmethod
    def of(cls, state: State, n: int) -> End:
        """Return the ``n``-th end of a state that :meth:`Climb._state` has made."""
        return cls.unpacked(f"end {n}", state[0], state[1]["told"][n])

    @classmethod
    def unpacked(cls, name: str, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> End:
        """Return an end of what :meth:`packed` and :meth:`facts` have made of it."""
        scored = {**told, "score": tuple(told["score"])}
        return cls(unpacked(name, tensors), **scored, buffers=unpacked(f"{name} buffers", tensors))

    def packed(self, name: str) -> dict[str, Tensor]:
        """Return its tensors after a name."""
        return packed(name, self.point) | packed(f"{name} buffers", self.buffers)

    def facts(self) -> dict[str, Any]:
        """Everything but the tensors."""
        names = ("trace", "top", "log_likelihood", "evaluations", "converged", "score", "chosen")
        return {name: getattr(self, name) for name in names}


class Climb:
    """One ascent: E step, M step, and where it pays an extrapolation, until the log posterior stands."""

    def __init__(
        self,
        model: AnnotationModel,
        data: Annotations,
        space: Space,
        max_iter: int,
        tol: float,
        accelerate: bool,
        report: Report,
        schedule: Schedule | None = None,
        held_out: Validation | None = None,
        fine_tune: int = 0,
    ):
        self.model, self.data, self.space, self.report = model, data, space, report
        self.max_iter, self.tol, self.held_out, self.fine_tune = max_iter, tol, held_out, fine_tune
        self.m_step = MStep(model, data, space, schedule)
        # Memory to write over: parameters behind us, and whatever the model keeps between E steps.
        self.spare: list[Parameters] = []
        self.scratch: dict[str, Tensor] = {}
        self.accelerate = accelerate
        self.share = ranks.share(model, data)
        self.keep, self.ends = NOTHING, list[End]()

    def __call__(self, responsibility: Tensor) -> End:
        """Climb from the parameters that ``(N, S)`` responsibilities suggest."""
        theta = self.begin(responsibility)
        return self.wander(theta) if self.m_step.stochastic else self.ascend(theta)

    def begin(self, responsibility: Tensor) -> Parameters:
        """Take the first M step, from responsibilities of all items."""
        theta = self.m_step.start(responsibility if self.share is None else self.share.given(responsibility))
        self.accelerate = self.accelerate and self.m_step.closed
        return theta

    def wander(self, theta: Parameters, found: State | None = None) -> End:
        """Go on while the best of the way still rises: mini-batches do not rise at every step; from a state that was found."""
        self.trace: list[float] = []
        if found is None:
            best, r = self._look(theta, None)
            mark, marked, begun = best.top, 0, 1
        else:
            tensors, told = found
            theta, best = unpacked("theta", tensors), End.unpacked("best", tensors, told["best"])
            mark, marked, begun, self.trace = told["mark"], told["marked"], told["step"], best.trace
            self._restore(tensors, theta)
            r = self.e_step(theta)[2]
        converged = False
        for n in range(begun, self.max_iter):
            self.keep.step(partial(self._wandering, theta, best, mark, marked, n), "em")
            theta = self.m_step(r, theta)
            best, r = self._look(theta, best)
            lp = self.trace[-1]
            self.report(n, self.max_iter, f"log posterior {lp:.4f}")
            if lp > mark + self.tol * abs(lp):
                mark, marked = lp, n
            elif n - marked >= PATIENCE:
                converged = True
                break
        for done in range(0, self.fine_tune, FINE_STEPS):
            theta = self.m_step.raise_marginal(
                best.point if not done else theta, min(FINE_STEPS, self.fine_tune - done)
            )
            best, _ = self._look(theta, best)
            self.report(done, self.fine_tune, f"fine-tuning, log posterior {self.trace[-1]:.4f}")
        best.evaluations, best.converged = len(self.trace), converged
        return best

    def _wandering(self, theta: Parameters, best: End, mark: float, marked: int, step: int) -> State:
        """What it takes to go on, as :meth:`_state`."""
        tensors, facts = self._before()
        tensors |= packed("theta", theta) | best.packed("best")
        return tensors, facts | {"best": best.facts(), "mark": mark, "marked": marked, "step": step}

    def _before(self) -> State:
        """The ends of earlier ascents, and what gradients and networks keep between steps."""
        tensors = packed("m step", self.m_step.state())
        for n, end in enumerate(self.ends):
            tensors |= end.packed(f"end {n}")
        if self.model._bound is not None:
            tensors |= packed("buffers", self.model._bound.buffers())
        return tensors, {"ends": len(self.ends), "told": [end.facts() for end in self.ends]}

    def _restore(self, tensors: Mapping[str, Tensor], theta: Parameters) -> None:
        self.m_step.restore(unpacked("m step", tensors), theta)
        if self.model._bound is not None:
            self.model._bound.take(unpacked("buffers", tensors))

    def _look(self, theta: Parameters, best: End | None) -> tuple[End, Tensor]:
        """Take an E step at ``theta``: the better of it and the best so far, and its responsibilities."""
        lp, ll, r = self.e_step(theta)
        self.trace.append(lp)
        self._refuse_nan(lp, len(self.trace))
        score = (lp,) if self.held_out is None else self.held_out.score(theta)
        if best is None or score > best.score:
            buffers = {} if self.model._bound is None else self.model._bound.buffers()
            best = End(theta, self.trace, lp, ll, 0, False, score, len(self.trace) - 1, buffers)
        return best, r

    def _refuse_nan(self, lp: float, step: int) -> None:
        if math.isnan(lp):
            raise ModelError(
                f"{type(self.model).__name__}: the log posterior is not a number at step {step}; some item's labels "
                f"may be impossible under every truth"
            )

    def ascend(self, theta: Parameters, found: State | None = None) -> End:
        """Climb by steps that cannot fall, and leaps that are taken back where they do; from a state that was found, go on."""
        trace: list[float] = []
        path: list[Parameters] = []
        evaluations, converged, patience = 0, False, 0
        leap: Parameters | None = None
        if found is not None:
            tensors, told = found
            theta, leap = unpacked("theta", tensors), unpacked("leap", tensors) or None
            path = [unpacked(f"path {n}", tensors) for n in range(told["path"])]
            trace, evaluations, patience = list(told["trace"]), told["evaluations"], told["patience"]
            self._restore(tensors, theta)
        while evaluations < self.max_iter:
            self.keep.step(partial(self._state, theta, leap, path, trace, evaluations, patience), "em")
            lp, ll, r = self.e_step(theta if leap is None else leap)
            evaluations += 1
            if leap is None:
                self._refuse_nan(lp, evaluations)
            if leap is not None:
                if lp >= trace[-1]:
                    theta = leap
                else:  # the leap fell: back to the plain step, which cannot
                    leap, path = None, []
                    continue
                leap = None
            gain = lp - trace[-1] if trace else float("inf")
            trace.append(lp)
            if evaluations % 10 == 0:
                self.report(evaluations, self.max_iter, f"log posterior {lp:.4f}")
            patience = patience + 1 if gain <= self.tol * abs(lp) else 0
            # Two in a row: one small gain may be a poor leap, not the top.
            if patience >= (2 if self.accelerate else 1):
                converged = True
                break
            following = self.m_step(r, theta, self.spare.pop() if self.spare else None)
            path.append(theta)
            if not self.accelerate:
                self.spare, path = path, []
            elif len(path) == 2:
                leap = self.extrapolate(path[0], path[1], following)
                self.spare, path = path, []
            theta = following
        else:
            lp, ll, r = self.e_step(theta)
            trace.append(lp)
        score = (lp,) if self.held_out is None else self.held_out.score(theta)
        return End(theta, trace, lp, ll, evaluations, converged, score, len(trace) - 1, {})

    def _state(
        self,
        theta: Parameters,
        leap: Parameters | None,
        path: list[Parameters],
        trace: list[float],
        evaluations: int,
        patience: int,
    ) -> State:
        """What it takes to go on: this ascent, and the ends of those before it."""
        tensors, facts = self._before()
        tensors |= packed("theta", theta) | packed("leap", leap or {})
        for n, point in enumerate(path):
            tensors |= packed(f"path {n}", point)
        return tensors, facts | {"path": len(path), "trace": trace, "evaluations": evaluations, "patience": patience}

    def e_step(self, theta: Parameters) -> tuple[float, float, Any]:
        """Return log posterior, log-likelihood and responsibilities, or the sums over them, at ``theta``."""
        if self.share is not None:
            sums = self.share.expect(*at(self.model, theta, self.data))
            ll, prior = read(sums.log_likelihood, self.model.log_prior(theta, self.data))
            return ll + prior, ll, sums
        if self.m_step.closed:
            joint, log_prior = self.model.log_density(theta, self.data, self.scratch)
        else:
            parameters, log_prior = conditioned(self.model, theta, self.data)
            joint = self.model.item_log_joint(parameters, self.data)
            if self.model.detached:
                sites = self.space.sites
                log_prior = log_prior - sum(sites[name]["fn"].log_prob(theta[name]) for name in self.space.weights)
        marginal, r = normalise(joint, overwrite=True)
        # Exact enough for float32 data, too.
        ll, prior = read(repeated(marginal, self.data).sum(dtype=torch.float64), log_prior)
        return ll + prior, ll, r

    def extrapolate(self, first: Parameters, second: Parameters, third: Parameters) -> Parameters:
        """Leap along first -> second -> third (SQUAREM, scheme 3): probabilities as they are, the rest in unbounded form.

        Logs of probabilities would be led by cells on their way to zero. A leap out of the simplex is taken back cell by
        cell: there the third point is halved instead.
        """
        a, b, c = ([self._free(name, theta[name]) for name in self.space.sizes] for theta in (first, second, third))
        step = [torch.nan_to_num(y - x, 0.0, 0.0, 0.0) for x, y in zip(a, b, strict=True)]
        bend = [torch.nan_to_num(z - y, 0.0, 0.0, 0.0) - s for y, z, s in zip(b, c, step, strict=True)]
        squares = read(*((v * v).sum() for v in (*bend, *step)))
        bent, straight = sum(squares[: len(bend)]), sum(squares[len(bend) :])
        if bent == 0 or straight <= bent:  # a leap of length one is the third point itself
            return third
        length = (straight / bent) ** 0.5
        out = {}
        for name, x, z, s, v in zip(self.space.sizes, a, c, step, bend, strict=True):
            leapt = x + 2 * length * s + length**2 * v
            if is_simplex(self.space.supports[name]):
                inside = torch.where(leapt < 0, 0.5 * z, leapt)
                out[name] = inside / inside.sum(-1, keepdim=True)
            else:
                out[name] = self.space.transforms[name](torch.where(torch.isfinite(leapt), leapt, z))
        return out

    def _free(self, name: str, value: Tensor) -> Tensor:
        return value if is_simplex(self.space.supports[name]) else self.space.transforms[name].inv(value)


def _intervals(model: AnnotationModel, data: Annotations, space: Space, point: Parameters, num_samples: int) -> Draws:
    if without_gibbs(model, data) is None:
        count = max(1, num_samples // thinning(space.size, data, num_samples))
        sweeps = Sweeps.of(model, data, "gibbs_from")
        if sweeps is not None:
            tables = at(model, point, data)
            draws = [model.gibbs_from(sweeps.draw(*tables)[1], data) for _ in range(count)]
            swept = {name: torch.stack([draw[name] for draw in draws]).unsqueeze(0) for name in point}
            return Draws(swept, "approximation", ONE_SWEEP)
        joint = model.item_log_joint(point, data)
        parts = []
        step = chunk(data, count)
        for start in range(0, count, step):
            size = min(step, count - start)
            here = {name: value.expand(size, *value.shape) for name, value in point.items()}
            parts.append(model.gibbs_step(sample_truth(joint.expand(size, *joint.shape)), here, data))
        samples = {name: torch.cat([part[name] for part in parts]).unsqueeze(0) for name in point}
        return Draws(samples, "approximation", ONE_SWEEP)
    weights = {name: point[name] for name in space.weights}
    rest = space.part(set(space.sizes) - space.weights)
    normal = _laplace(model, data, rest, point, num_samples) if 0 < rest.size <= LAPLACE_SIZE else None
    if normal is not None:
        return Draws(normal, "approximation", LAPLACE + (FIXED if weights else ""), fixed=weights)
    samples = {name: point[name][None, None] for name in rest.sizes}
    return Draws(samples, "point", POINT, fixed=weights, warnings=[POINT])


def _laplace(
    model: AnnotationModel, data: Annotations, space: Space, point: Mapping[str, Tensor], num_samples: int
) -> Parameters | None:
    """Draw from the normal with the mode's curvature, ``(1, draw, ...)``; ``None`` where the curvature is not that of a top."""
    top = space.vector(point, inside=False)
    if not bool(torch.isfinite(top).all()):
        return None

    def loss(vector: Tensor) -> Tensor:
        parameters, log_prior = conditioned(model, dict(point) | space.values(vector), data)
        joint = model.item_log_joint(parameters, data)
        return -(repeated(torch.logsumexp(joint, -1), data).sum() + log_prior)

    with torch.enable_grad():
        curvature: Any = torch.autograd.functional.hessian(loss, top)
    factor, failed = torch.linalg.cholesky_ex(curvature)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    noise = torch.randn(space.size, num_samples, dtype=top.dtype, device=top.device)
    vectors = top.unsqueeze(-1) + torch.linalg.solve_triangular(factor.mT, noise, upper=True)  # (size, draw)
    draws = [space.values(vector) for vector in vectors.T]
    return {name: torch.stack([draw[name] for draw in draws]).unsqueeze(0) for name in space.sizes}
