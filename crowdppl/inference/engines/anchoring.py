"""Anchors that depend on the parameters: EM and the model's anchor in turns, until they agree.

A model may state how much of the likelihood is anchored (:meth:`crowdppl.model.base.AnnotationModel.anchor`) by parameters that
are not known before they are learned. EM converges with the first anchor, takes the one that its parameters call for, continues
from these parameters, and so on. Until they agree it converges less closely (:data:`crowdppl.inference.engines.em_loop.TURN`).
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.engines.em_loop import EMLoop
from crowdppl.inference.engines.em_state import EMResult, EMState
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.options import completed
from crowdppl.inference.progress import silent
from crowdppl.model.bound import BoundModel
from crowdppl.model.contract import check

# Anchor and parameters agree if no entry of the anchor changes by more; the largest number of turns.
SETTLED, TURNS = 5e-3, 20


def called_for(model: BoundModel, data: Annotations, result: EMResult) -> Tensor | None:
    """Return the anchor ``(N, K)`` that parameters call for in place of that of the data; ``None`` where they agree."""
    if data.anchor is None:
        return None
    anchor = model.model.anchor(data, result.point)
    assert anchor is not None
    return None if float((anchor - data.anchor).abs().max()) <= SETTLED else anchor


def settled(loop: EMLoop, first: Tensor, result: EMResult) -> tuple[EMLoop, EMResult]:
    """Continue a run of EM that has converged until its anchor and its parameters agree.

    Args:
        loop: of the run.
        first: responsibilities from which a run begins, ``(N, S)``.
        result: the end of the run.

    Returns:
        The loop with the last anchor, and its result: the trace of the last turn, and the evaluations of all turns. It has
        converged only if anchor and parameters agree.
    """
    model = loop.model
    if loop.data.anchor is None or loop.m_step.stochastic or loop.held_out is not None:
        return loop, result
    for turn in range(TURNS + 1):
        left = loop.max_iter - result.evaluations
        anchor = called_for(model, loop.data, result) if result.converged else None
        if anchor is None and not (result.converged and loop.turning):
            break
        if turn == TURNS or left <= 0:
            result = dataclasses.replace(result, converged=False)
            break
        if anchor is None:  # they agree: on to the end
            loop.turning = False
            state = EMState(result.point, path=result.path, trace=result.trace[:-1], evaluations=result.evaluations)
            earlier = result.earlier
        else:
            turning, earlier = loop.turning, result.earlier + len(result.trace)
            loop = loop.with_anchor(anchor)
            loop.turning = turning
            state = EMState(result.point, evaluations=result.evaluations)
        result = dataclasses.replace(loop.onward(state, first), earlier=earlier)
    return loop, result


def learned(model: BoundModel, data: Annotations) -> Annotations:
    """Return anchored data with the anchor that EM ends with, for engines that take it as given; others as they are."""
    if data.anchor is None:
        return data
    options = completed("em", {}, model.model.engine_defaults.get("em"))
    step = MStep(model, data, Space(check(model, data, briefly=True)))
    if step.stochastic:
        return data
    loop = EMLoop(step, options.max_iter, options.tol, silent, accelerate=options.accelerate)
    with torch.no_grad():
        first = model.initial(data)
        last, _ = settled(loop, first, loop.run([first])[0])
    return last.data
