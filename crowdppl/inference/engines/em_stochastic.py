"""EM for models with networks, whose M step follows gradients over mini-batches: the log posterior may fall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from crowdppl.inference.engines.em_loop import EMLoop
from crowdppl.inference.engines.em_state import EMCheckpoint, EMResult, StochasticState
from crowdppl.model.base import Parameters

# Stop when the highest log posterior has not risen for this many steps.
PATIENCE = 10
# Gradient steps of fine-tuning between two evaluations of the log posterior.
FINE_STEPS = 100


class StochasticEMLoop(EMLoop):
    """EM that keeps the best step.

    Args:
        *args: as for :class:`EMLoop`.
        fine_tune: gradient steps on the marginal log posterior after the last M step.
            Where they take each annotation to have a truth of its own, the last of them is kept.
        **options: as for :class:`EMLoop`.
    """

    def __init__(self, *args: Any, fine_tune: int = 0, **options: Any):
        super().__init__(*args, **options)
        self.fine_tune = fine_tune
        self.trace: list[float] = []

    def run(self, starts: Sequence[Tensor]) -> list[EMResult]:
        """Run EM from responsibilities ``(N, S)``, one run after the other."""
        return [self._first(self.begin(responsibility)) for responsibility in starts]

    def resume(self, state: EMCheckpoint) -> list[EMResult]:
        """Continue a stopped fit, and return the result of the run that was under way."""
        assert state.stochastic is not None
        run = state.stochastic
        self.trace = run.best.trace
        self._restore(state, run.theta)
        return [self._steps(run, self.expectation(run.theta)[2])]

    def _first(self, theta: Parameters) -> EMResult:
        self.trace = []
        best, r = self._evaluate(theta, None)
        return self._steps(StochasticState(theta, best, best.log_posterior, 0, 1), r)

    def _steps(self, run: StochasticState, r: Any) -> EMResult:
        """Take steps while the best log posterior rises, then fine-tune; return the best step."""
        converged = False
        for step in range(run.step, self.max_iter):
            run.step = step
            self.keep.step(lambda: self._checkpoint(stochastic=run))
            run.theta = self.expectation.maximise(r, run.theta)
            run.best, r = self._evaluate(run.theta, run.best)
            lp = self.trace[-1]
            self.report(step, self.max_iter, f"log posterior {lp:.4f}")
            if lp > run.reference + self.tol * abs(lp):
                run.reference, run.reference_step = lp, step
            elif step - run.reference_step >= PATIENCE:
                converged = True
                break
        best, theta = run.best, run.best.point
        # Another objective than the log posterior, by which steps would be compared.
        separate = self.m_step.schedule.fine_tune_truths == "annotation" and self.held_out is None
        for done in range(0, self.fine_tune, FINE_STEPS):
            theta = self.m_step.raise_marginal(theta, min(FINE_STEPS, self.fine_tune - done))
            best, _ = self._evaluate(theta, None if separate else best)
            self.report(done, self.fine_tune, f"fine-tuning, log posterior {self.trace[-1]:.4f}")
        best.evaluations, best.converged = len(self.trace), converged
        return best

    def _evaluate(self, theta: Parameters, best: EMResult | None) -> tuple[EMResult, Tensor]:
        """Take an E step at ``theta``; return the better of it and the best so far, and its responsibilities."""
        lp, ll, r = self.expectation(theta)
        self.trace.append(lp)
        self.require_number(lp, len(self.trace))
        score = self._score(lp - self.m_step.penalty(theta), theta)
        if best is None or score > best.score:
            buffers = {} if self.model.networks is None else self.model.networks.buffers()
            best = EMResult(theta, self.trace, lp, ll, 0, False, score, len(self.trace) - 1, buffers)
        return best, r
