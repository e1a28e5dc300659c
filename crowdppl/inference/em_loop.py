"""The way up: E steps, M steps and leaps, until the log posterior stands; several ways side by side where that is quicker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference import distributed
from crowdppl.inference.checkpoint import NOTHING, State, packed, unpacked
from crowdppl.inference.early_stopping import Validation
from crowdppl.inference.evaluate import batched
from crowdppl.inference.m_step import MStep, Schedule
from crowdppl.inference.memory import chunk
from crowdppl.inference.passes import Share, Sweeps, at
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.unconstrained import Space
from crowdppl.kernels.ops import label_shares, normalise, read
from crowdppl.model.base import (
    AnnotationModel,
    Parameters,
    apart,
    conditioned,
    densities,
    is_simplex,
    repeated,
    together,
)

# With networks: stop where the best log posterior of the way has not risen for this many steps.
PATIENCE = 10
# Gradient steps of fine-tuning between two looks at the log posterior.
FINE_STEPS = 100


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


@dataclass(eq=False)
class Way:
    """One ascent by steps that cannot fall, and leaps that are taken back where they do.

    Attributes:
        theta: where it stands.
        leap: where it tries to get to, further along.
        path: the last points, up to two, from which the next leap is taken.
        trace: log posterior at every point it stood on.
        evaluations: E steps taken.
        patience: how many gains in a row were too small.
        end: where it ended.
    """

    theta: Parameters
    leap: Parameters | None = None
    path: list[Parameters] = field(default_factory=list)
    trace: list[float] = field(default_factory=list)
    evaluations: int = 0
    patience: int = 0
    end: End | None = None

    @classmethod
    def unpacked(cls, name: str, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> Way:
        """Return a way of what :meth:`packed` and :meth:`facts` have made of it."""
        path = [unpacked(f"{name} path {n}", tensors) for n in range(told["path"])]
        end = None if told["end"] is None else End.unpacked(f"{name} end", tensors, told["end"])
        leap = unpacked(f"{name} leap", tensors) or None
        counts = (list(told["trace"]), told["evaluations"], told["patience"])
        return cls(unpacked(name, tensors), leap, path, *counts, end)

    def packed(self, name: str) -> dict[str, Tensor]:
        """Return its tensors after a name."""
        out = packed(name, self.theta) | packed(f"{name} leap", self.leap or {})
        for n, point in enumerate(self.path):
            out |= packed(f"{name} path {n}", point)
        return out if self.end is None else out | self.end.packed(f"{name} end")

    def facts(self) -> dict[str, Any]:
        """Everything but the tensors."""
        end = None if self.end is None else self.end.facts()
        counts = {name: getattr(self, name) for name in ("trace", "evaluations", "patience")}
        return {"path": len(self.path), "end": end} | counts


class Climb:
    """Ascents: E step, M step, and where it pays an extrapolation, until the log posterior stands.

    Args:
        model: bound to its networks.
        data: the annotations, as the model takes them.
        space: of the model's sites.
        max_iter: most E steps.
        tol: least gain, as a fraction of the log posterior.
        accelerate: whether to extrapolate.
        report: called with progress.
        schedule: of mini-batches.
        held_out: by which steps are chosen.
        fine_tune: gradient steps after the last M step.

    Attributes:
        keep: where the state is kept.
        ends: of ascents before those now under way, to be kept with the state.
    """

    def __init__(
        self,
        model: AnnotationModel,
        data: Annotations,
        space: Space,
        max_iter: int,
        tol: float,
        accelerate: bool,
        report: ProgressCallback,
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
        self.share = distributed.share(model, data)
        self.keep, self.ends = NOTHING, list[End]()

    @property
    def passes(self) -> Sweeps | None:
        """Compiled passes over the annotations, where this process alone takes them."""
        return self.share.sweeps if isinstance(self.share, Share) else None

    def width(self, first: Tensor, starts: int) -> int:
        """Return how many of so many ascents, ``first`` being what one starts from, to take side by side.

        On small data calling torch costs more than what it does; on a GPU most of it would stand idle. What goes beyond the
        caches, or by compiled passes, is quicker one after the other.
        """
        if starts == 1 or self.share is not None or not (batched(self.model) and self.model.batched_m_step):
            return 1
        if not self.m_step.closed:
            self.learn(first)
        # What gradients have to move goes alone.
        return chunk(self.data, starts) if self.m_step.closed else 1

    def learn(self, first: Tensor) -> None:
        """Find out which sites have closed steps, by an M step from responsibilities; the random stream is left be."""
        stream = torch.get_rng_state()
        self.begin(first)
        torch.set_rng_state(stream)

    def __call__(self, starts: Sequence[Tensor]) -> list[End]:
        """Climb from the parameters that responsibilities ``(N, S)`` suggest, several where :meth:`width` allows it."""
        thetas = [self.begin(responsibility) for responsibility in starts]
        if self.m_step.stochastic:
            return [self.wander(theta) for theta in thetas]
        return self.ascend([Way(theta) for theta in thetas])

    def resumed(self, state: State) -> list[End]:
        """Go on where a fit was stopped, and return the ends of the ascents that were under way."""
        tensors, told = state
        if "ways" not in told:
            return [self.wander({}, state)]
        ways = [Way.unpacked(f"way {n}", tensors, facts) for n, facts in enumerate(told["ways"])]
        self._restore(tensors, ways[0].theta)
        return self.ascend(ways)

    def begin(self, responsibility: Tensor) -> Parameters:
        """Take the first M step, from responsibilities of all items."""
        theta = self.m_step.start(responsibility if self.share is None else self.share.given(responsibility))
        self.accelerate = self.accelerate and self.m_step.closed and bool(self.space.sizes)
        return theta

    # ------------------------------------------------------------------ networks: steps that may fall

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

    def _look(self, theta: Parameters, best: End | None) -> tuple[End, Tensor]:
        """Take an E step at ``theta``: the better of it and the best so far, and its responsibilities."""
        lp, ll, r = self.e_step(theta)
        self.trace.append(lp)
        self._refuse_nan(lp, len(self.trace))
        score = self._score(lp, theta)
        if best is None or score > best.score:
            buffers = {} if self.model._bound is None else self.model._bound.buffers()
            best = End(theta, self.trace, lp, ll, 0, False, score, len(self.trace) - 1, buffers)
        return best, r

    # ------------------------------------------------------------------ steps that cannot fall

    def ascend(self, ways: list[Way]) -> list[End]:
        """Climb all ways to their ends, each as if it were alone, to rounding."""
        alone = len(ways) == 1
        while under := [way for way in ways if way.end is None]:
            self.keep.step(partial(self._state, ways), "em")
            places = [way.theta if way.leap is None else way.leap for way in under]
            objectives, r = self._expect(places)
            due = [n for n, way in enumerate(under) if self._climbs(way, *objectives[n])]
            if under[0].evaluations % 10 == 0:
                self.report(under[0].evaluations, self.max_iter, f"log posterior {under[0].trace[-1]:.4f}")
            if not due:
                continue
            taken = r if len(due) == len(under) else r[due]
            self._step([under[n] for n in due], taken, alone=alone)
        return [way.end for way in ways if way.end is not None]

    def _climbs(self, way: Way, lp: float, ll: float) -> bool:
        """Take in what an E step has found; tell whether an M step is due, or the way has ended or gone back."""
        if way.evaluations >= self.max_iter:
            way.trace.append(lp)
            self._arrived(way, lp, ll, converged=False)
            return False
        way.evaluations += 1
        if way.leap is None:
            self._refuse_nan(lp, way.evaluations)
        elif lp >= way.trace[-1]:
            way.theta, way.leap = way.leap, None
        else:  # the leap fell: back to the plain step, which cannot
            way.leap, way.path = None, []
            return False
        gain = lp - way.trace[-1] if way.trace else math.inf
        way.trace.append(lp)
        way.patience = way.patience + 1 if gain <= self.tol * abs(lp) else 0
        # Two in a row: one small gain may be a poor leap, not the top.
        if way.patience >= (2 if self.accelerate else 1):
            self._arrived(way, lp, ll, converged=True)
        return way.end is None

    def _arrived(self, way: Way, lp: float, ll: float, *, converged: bool) -> None:
        score, step = self._score(lp, way.theta), len(way.trace) - 1
        # Of its own: where several climbed together, a view would hold the points of all of them.
        point = {name: value.clone() for name, value in way.theta.items()}
        way.end = End(point, way.trace, lp, ll, way.evaluations, converged, score, step, {})
        way.theta, way.path = point, []

    def _step(self, ways: list[Way], r: Any, *, alone: bool) -> None:
        """Take the M step of each way, and where its path is long enough the leap; one alone may write over what it left."""
        spare = self.spare.pop() if alone and self.spare else None
        for way, following in zip(ways, self._maximise(ways, r, spare), strict=True):
            way.path.append(way.theta)
            way.theta = following
        over = [way for way in ways if len(way.path) == 2 or not self.accelerate]
        # At the last step there is nobody to see where a leap would lead.
        leaping = [way for way in over if self.accelerate and way.evaluations < self.max_iter]
        for way, leap in zip(leaping, self._leaps([[*way.path, way.theta] for way in leaping]), strict=True):
            way.leap = leap
        for way in over:
            if alone:
                self.spare = way.path
            way.path = []

    def _leaps(self, points: list[list[Parameters]]) -> list[Parameters]:
        """Return where three points in a row lead, for each way."""
        if len(points) < 2:
            return [self.extrapolate(*of) for of in points]
        return apart(self.extrapolate(*map(together, zip(*points, strict=True)), lead=1))

    def _expect(self, places: list[Parameters]) -> tuple[list[tuple[float, float]], Any]:
        """Return log posterior and log-likelihood at each place, and responsibilities ``(N, S)``, of several ``(C, N, S)``."""
        if len(places) == 1:
            lp, ll, r = self.e_step(places[0])
            return [(lp, ll)], r
        joint, log_prior = densities(self.model, together(places), self.data)
        marginal, r = normalise(joint, overwrite=True)
        likelihood = repeated(marginal, self.data).sum(-1, dtype=torch.float64)
        likelihoods, priors = read(likelihood, torch.as_tensor(log_prior).expand_as(likelihood))
        return [(ll + prior, ll) for ll, prior in zip(likelihoods, priors, strict=True)], r

    def _maximise(self, ways: list[Way], r: Any, spare: Parameters | None) -> list[Parameters]:
        """Return the parameters that follow from responsibilities, as :meth:`_expect` gives them."""
        if len(ways) > 1:
            return apart(self.m_step(r, together([way.theta for way in ways])))
        one = r[0] if isinstance(r, Tensor) and r.dim() == 3 else r
        return [self.m_step(one, ways[0].theta, spare)]

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

    def extrapolate(self, first: Parameters, second: Parameters, third: Parameters, *, lead: int = 0) -> Parameters:
        """Leap along first -> second -> third (SQUAREM, scheme 3): probabilities as they are, the rest in unbounded form.

        Logs of probabilities would be led by cells on their way to zero. A leap out of the simplex is taken back cell by
        cell: there the third point is halved instead. ``lead``: 1 where values lead with an axis of ascents.
        """
        a, b, c = ([self._free(name, theta[name]) for name in self.space.sizes] for theta in (first, second, third))
        # As little memory as may be: points may be larger than the caches.
        step = [(y - x).nan_to_num_(0.0, 0.0, 0.0) for x, y in zip(a, b, strict=True)]
        bend = [(z - y).nan_to_num_(0.0, 0.0, 0.0).sub_(s) for y, z, s in zip(b, c, step, strict=True)]
        straight, bent = (
            torch.stack([_squares(v, lead) for v in values]).sum(0) for values in (step, bend)
        )  # (C,), or ()
        # Where not, the leap is of length one: the third point itself.
        far = straight > bent
        ratio = torch.where(far, straight / bent, 1.0).sqrt()
        out = {}
        for name, x, z, s, v in zip(self.space.sizes, a, c, step, bend, strict=True):
            length = _leading(ratio.to(z.dtype), z)
            leapt = s.mul_(2 * length).add_(x).addcmul_(v, length**2)
            if is_simplex(self.space.supports[name]):
                leapt = torch.where(leapt < 0, torch.mul(z, 0.5, out=v), leapt)
                leapt = label_shares(leapt) if leapt.dim() > 2 else leapt.div_(leapt.sum(-1, keepdim=True))
            else:
                leapt = self.space.transforms[name](torch.where(torch.isfinite(leapt), leapt, z))
            # Which may have other axes than its unbounded form.
            out[name] = torch.where(_leading(far, third[name]), leapt, third[name])
        return out

    def _free(self, name: str, value: Tensor) -> Tensor:
        return value if is_simplex(self.space.supports[name]) else self.space.transforms[name].inv(value)

    def _score(self, lp: float, theta: Parameters) -> tuple[float, ...]:
        return (lp,) if self.held_out is None else self.held_out.score(theta)

    def _refuse_nan(self, lp: float, step: int) -> None:
        if math.isnan(lp):
            raise ModelError(
                f"{type(self.model).__name__}: the log posterior is not a number at step {step}; some item's labels "
                f"may be impossible under every truth"
            )

    # ------------------------------------------------------------------ what it takes to go on

    def _state(self, ways: list[Way]) -> State:
        tensors, facts = self._before()
        for n, way in enumerate(ways):
            tensors |= way.packed(f"way {n}")
        return tensors, facts | {"ways": [way.facts() for way in ways]}

    def _before(self) -> State:
        """The ends of earlier ascents, and what gradients and networks keep between steps."""
        tensors = packed("m step", self.m_step.state())
        for n, end in enumerate(self.ends):
            tensors |= end.packed(f"end {n}")
        if self.model._bound is not None:
            tensors |= packed("buffers", self.model._bound.buffers())
        return tensors, {"told": [end.facts() for end in self.ends]}

    def _restore(self, tensors: Mapping[str, Tensor], theta: Parameters) -> None:
        self.m_step.restore(unpacked("m step", tensors), theta)
        if self.model._bound is not None:
            self.model._bound.take(unpacked("buffers", tensors))


def ended(state: State) -> list[End]:
    """Return the ends of the ascents that were over when a state was kept."""
    tensors, told = state
    return [End.unpacked(f"end {n}", tensors, facts) for n, facts in enumerate(told["told"])]


def _leading(each: Tensor, value: Tensor) -> Tensor:
    """Give a number for each ascent, ``(C,)`` or ``()``, the axes of a value that leads with them."""
    return each.reshape(each.shape + (1,) * (value.dim() - each.dim()))


def _squares(value: Tensor, lead: int) -> Tensor:
    """Sum squares over all axes after the first ``lead``; those of float32, too, in float64."""
    axes = tuple(range(lead, value.dim()))
    if not axes:
        return value.double().square()
    return torch.linalg.vector_norm(value, dim=axes, dtype=torch.float64).square_()
