"""The EM loop: E steps, M steps and extrapolation until convergence; several runs in parallel where that is faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from crowdppl.errors import ModelError
from crowdppl.inference.backends import choose
from crowdppl.inference.backends.expectation import Expectation
from crowdppl.inference.checkpoint import NOTHING
from crowdppl.inference.engines import anderson
from crowdppl.inference.engines.early_stopping import Validation
from crowdppl.inference.engines.em_state import EMCheckpoint, EMResult, EMState
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.squarem import extrapolate
from crowdppl.inference.progress import ProgressCallback
from crowdppl.isolation import random_state, set_random_state
from crowdppl.model.base import Parameters
from crowdppl.model.program import apart, together

# Smallest gain, as a fraction of the log posterior, of a run whose end determines the next anchor alone: it is needed less
# exactly than parameters that are reported.
TURN = 1e-7

# Steps of a run before the first extrapolation from several steps: from the steps of a start, which are long, it may lead to
# another, lower mode.
PLAIN = 4


class EMLoop:
    """EM whose log posterior rises at every step.

    Args:
        m_step: of the model and the data.
        max_iter: largest number of E steps.
        tol: smallest gain, as a fraction of the log posterior.
        report: called with progress.
        accelerate: whether to extrapolate.
        held_out: by which runs are compared, in place of the log posterior.
        expectation: the two steps, in place of those that :func:`crowdppl.inference.backends.choose.expectation` chooses.

    Attributes:
        turning: whether a run ends at ``TURN``, where that is a larger gain than ``tol``, since others with other anchors follow
            (:mod:`crowdppl.inference.engines.anchoring`).
        keep: the checkpoint.
        results: of earlier runs, to be kept in the checkpoint.
    """

    def __init__(
        self,
        m_step: MStep,
        max_iter: int,
        tol: float,
        report: ProgressCallback,
        *,
        accelerate: bool = False,
        held_out: Validation | None = None,
        expectation: Expectation | None = None,
    ):
        self.m_step = m_step
        self.expectation = choose.expectation(m_step) if expectation is None else expectation
        self.model, self.data, self.space = m_step.model, m_step.data, m_step.space
        self.max_iter, self.tol, self.report = max_iter, tol, report
        self.turning = self.data.anchor is not None and held_out is None and not m_step.stochastic
        self.accelerate, self.held_out = accelerate, held_out
        # Parameters of earlier steps, whose memory is overwritten.
        self.spare: list[Any] = []
        self.keep, self.results = NOTHING, list[EMResult]()

    def with_anchor(self, anchor: Tensor) -> EMLoop:
        """Return a loop for a further run with another anchor ``(N, K)`` of the data; it keeps no checkpoint."""
        step = MStep(self.model, replace(self.data, anchor=anchor), self.space, self.m_step.schedule)
        step.closed = self.m_step.closed
        expectation = self.expectation.with_anchor(step)
        loop = EMLoop(step, self.max_iter, self.tol, self.report, accelerate=self.accelerate, expectation=expectation)
        loop.results = self.results
        return loop

    def learn(self, first: Tensor) -> None:
        """Determine which sites have closed-form steps by an M step from responsibilities; the random stream is unchanged."""
        stream = random_state(self.data.device)
        self.begin(first)
        set_random_state(stream, self.data.device)

    def begin(self, responsibility: Tensor) -> Parameters:
        """Take the first M step, from responsibilities ``(N, S)`` of all items."""
        theta = self.expectation.begin(responsibility)
        self.accelerate = self.accelerate and self.m_step.closed and bool(self.space.sizes)
        return theta | self._learned_once(responsibility, theta)

    def _learned_once(self, responsibility: Tensor, theta: Parameters) -> Parameters:
        """Return, for a further start, the sites that only its first M step learns, from the first start.

        By empirical Bayes, for example: with values of their own, log posteriors could not be compared.
        """
        if not self.results or not self.m_step.closed:
            return {}
        return {name: self.results[0].point[name] for name in self.expectation.learned_first(responsibility, theta)}

    def run(self, starts: Sequence[Tensor]) -> list[EMResult]:
        """Run EM from responsibilities ``(N, S)``: in parallel, from no more than :meth:`Expectation.width` allows."""
        return self._loop([EMState(self.expectation.point(self.begin(responsibility))) for responsibility in starts])

    def onward(self, state: EMState, first: Tensor) -> EMResult:
        """Continue from the parameters of another run, by site, whose first responsibilities were ``(N, S)``."""
        if not self.m_step.closed:
            self.learn(first)
        state.theta = self.expectation.point(state.theta)
        (result,) = self._loop([state])
        return result

    def resume(self, state: EMCheckpoint) -> list[EMResult]:
        """Continue a stopped fit, and return the results of the runs that were under way.

        Where another computation began it, on another machine, runs continue from their points and without their paths.
        """
        self._restore(state, state.runs[0].theta)
        runs = [run.held(self.expectation.point) for run in state.runs]
        if state.backend != self.expectation.name:
            for run in runs:
                run.path = []
            for result in state.results:
                result.path = []
        return self._loop(runs)

    def _loop(self, runs: list[EMState]) -> list[EMResult]:
        """Take all runs to their ends; each goes, to rounding, as it would alone."""
        alone = len(runs) == 1
        while active := [run for run in runs if run.result is None]:
            self.keep.step(lambda: self._checkpoint(runs=[run.held(self.expectation.sites) for run in runs]))
            points = [run.theta if run.extrapolated is None else run.extrapolated for run in active]
            objectives, r = self.expectation.several(points)
            due = [n for n, run in enumerate(active) if self._accept(run, *objectives[n])]
            if active[0].evaluations % 10 == 0:
                self.report(active[0].evaluations, self.max_iter, f"log posterior {active[0].trace[-1]:.4f}")
            if not due:
                continue
            self._maximise([active[n] for n in due], r if len(due) == len(active) else r[due], alone=alone)
        return [run.result for run in runs if run.result is not None]

    def _accept(self, run: EMState, lp: float, ll: float) -> bool:
        """Accept or discard the point of an E step; return whether an M step is due."""
        if run.evaluations >= self.max_iter:
            run.trace.append(lp)
            self._end(run, lp, ll, converged=False)
            return False
        run.evaluations += 1
        if run.extrapolated is None:
            self.require_number(lp, run.evaluations)
        elif lp >= run.trace[-1]:
            run.theta, run.extrapolated = run.extrapolated, None
        else:  # back to the plain step, which cannot lower the log posterior
            run.extrapolated, run.path = (
                None,
                [anderson.cut(path) for path in run.path] if self.expectation.memory else [],
            )
            return False
        gain = lp - run.trace[-1] if run.trace else math.inf
        run.trace.append(lp)
        tol = max(self.tol, TURN) if self.turning else self.tol
        run.small_gains = run.small_gains + 1 if gain <= tol * abs(lp) else 0
        # Two in a row: one small gain may be a poor extrapolation rather than the maximum.
        if run.small_gains >= (2 if self.accelerate else 1):
            self._end(run, lp, ll, converged=True)
        return run.result is None

    def _end(self, run: EMState, lp: float, ll: float, *, converged: bool) -> None:
        sites, iteration = self.expectation.sites(run.theta), len(run.trace) - 1
        score = self._score(lp, sites)
        # A copy: a view would hold the points of all parallel runs.
        point = {name: value.clone() for name, value in sites.items()}
        path = run.path if self.turning else []
        run.result = EMResult(point, run.trace, lp, ll, run.evaluations, converged, score, iteration, {}, path=path)
        run.theta, run.path = self.expectation.point(point), []

    def _maximise(self, runs: list[EMState], r: Any, *, alone: bool) -> None:
        """Take the M step of each run, and extrapolate where its path is long enough; a single run may overwrite its path."""
        if self.accelerate and self.expectation.memory:
            for run in runs:
                self._remember(run, *self._m_steps([run], r, None))
            return
        spare = self.spare.pop() if alone and self.spare else None
        for run, theta in zip(runs, self._m_steps(runs, r, spare), strict=True):
            run.path.append(run.theta)
            run.theta = theta
        complete = [run for run in runs if len(run.path) == 2 or not self.accelerate]
        # No E step follows the last M step, to evaluate an extrapolation.
        due = [run for run in complete if self.accelerate and run.evaluations < self.max_iter]
        for run, theta in zip(due, self._extrapolations([[*run.path, run.theta] for run in due]), strict=True):
            run.extrapolated = theta
        for run in complete:
            if alone:
                self.spare = run.path
            run.path = []

    def _remember(self, run: EMState, theta: Any) -> None:
        """Take an M step to ``theta``, and extrapolate from it and the steps before."""
        coordinates = self.expectation.coordinates
        if run.path:
            run.path = [anderson.remembered(coordinates, run.path[0], run.theta, theta)]
        else:
            run.path = [anderson.begun(coordinates, self.expectation.memory, run.theta, theta)]
        run.theta = theta
        due = int(run.path[0]["number"]) > 0 and len(run.trace) >= PLAIN
        if due and run.evaluations < self.max_iter:  # else no E step follows
            run.extrapolated = anderson.extrapolate(coordinates, run.path[0], theta)

    def _m_steps(self, runs: list[EMState], r: Any, spare: Any) -> list[Any]:
        """Return the parameters that follow from responsibilities, as :meth:`Expectation.several` returns them."""
        if len(runs) > 1:
            return apart(self.expectation.maximise(r, together([run.theta for run in runs])))
        one = r[0] if isinstance(r, Tensor) and r.dim() == 3 else r
        return [self.expectation.maximise(one, runs[0].theta, spare)]

    def _extrapolations(self, points: list[list[Any]]) -> list[Any]:
        """Extrapolate from three consecutive points of each run."""
        if len(points) < 2:
            by_site = [map(self.expectation.sites, path) for path in points]
            return [self.expectation.point(extrapolate(self.space, *path)) for path in by_site]
        return apart(extrapolate(self.space, *map(together, zip(*points, strict=True)), leading_axes=1))

    def require_number(self, lp: float, step: int) -> None:
        """Raise for a log posterior that is not a number.

        Raises:
            ModelError: for such a value.
        """
        if math.isnan(lp):
            raise ModelError(
                f"{self.model.name}: the log posterior is not a number at step {step}; some item's labels "
                f"may be impossible under every truth"
            )

    def _score(self, lp: float, theta: Parameters) -> tuple[float, ...]:
        return (lp,) if self.held_out is None else self.held_out.score(theta)

    def _checkpoint(self, **state: Any) -> EMCheckpoint:
        buffers = {} if self.model.networks is None else self.model.networks.buffers()
        return EMCheckpoint(self.results, self.m_step.state(), buffers, backend=self.expectation.name, **state)

    def _restore(self, state: EMCheckpoint, theta: Parameters) -> None:
        self.m_step.restore(state.m_step, theta)
        if self.model.networks is not None:
            self.model.networks.take(state.buffers)
