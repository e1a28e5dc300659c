"""EM over the parts of all ranks: the loop runs on rank 0, and each E step on all ranks."""

from __future__ import annotations

from typing import Any

import torch

from crowdppl.inference.backends.expectation import SummedExpectation
from crowdppl.inference.engines.em_loop import EMLoop
from crowdppl.inference.engines.em_state import EMCheckpoint, EMResult, EMState
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.hooks import Hooks
from crowdppl.inference.scale.sharded.parts import Parts
from crowdppl.model.bound import BoundModel
from crowdppl.model.contract import check


def em(model: BoundModel, parts: Parts, hooks: Hooks, *, max_iter: int, tol: float) -> EMResult:
    """Run EM from the majority vote, as :func:`crowdppl.inference.engines.em.em` does with one start.

    Args:
        model: with closed-form updates.
        parts: of all ranks.
        hooks: called between steps. The state of their checkpoint are parameters: each rank reads its items again.
        max_iter: largest number of E steps.
        tol: stop when the log posterior rises by less than this fraction of itself.
    """
    assert model.conjugacy is not None
    model.conjugacy.require_mode()
    space = Space(check(model, parts.sizes(1)))
    m_step = MStep(model, parts.sizes(), space)
    loop = EMLoop(
        m_step, max_iter, tol, hooks.report, accelerate=True, expectation=SummedExpectation(m_step, parts, "processes")
    )
    nothing = torch.empty(0)
    state = hooks.keep.resume(EMCheckpoint, nothing.device)
    loop.keep = hooks.keep
    if state is None:
        return loop.onward(EMState(loop.begin(nothing)), nothing)
    m_step.closed = True
    (result,) = loop.resume(state)
    return result


def facts(result: EMResult) -> dict[str, Any]:
    """Return what is said of a run."""
    return {
        "converged": result.converged,
        "iterations": len(result.trace),
        "evaluations": result.evaluations,
        "log_posterior": result.log_posterior,
        "log_likelihood": result.log_likelihood,
    }
