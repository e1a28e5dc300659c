"""Exact marginal EM: the mode of the posterior of the parameters, with the true labels summed out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

from crowdppl.data.annotations import Annotations
from crowdppl.errors import listed
from crowdppl.inference.backends import choose
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.checkpoint import Checkpoint
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.anchoring import settled
from crowdppl.inference.engines.descents import Schedule
from crowdppl.inference.engines.early_stopping import Validation
from crowdppl.inference.engines.em_loop import EMLoop
from crowdppl.inference.engines.em_state import EMCheckpoint, EMResult
from crowdppl.inference.engines.em_stochastic import StochasticEMLoop
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.solutions import share, solution, warning
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.hooks import SILENT, Hooks
from crowdppl.inference.memory import KEPT, affordable, sufficient, thinned_note
from crowdppl.inference.options import EM
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel, repeated
from crowdppl.model.contract import check
from crowdppl.model.program import base, dispersed
from crowdppl.model.weighted_votes import opposing_votes

# Results of restarts whose log posteriors differ by less than this fraction are one mode.
SAME_MODE = 1e-6
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
FLAT = (
    "EM gives a point for the parameters, not a posterior, and there are no intervals: the mode of {sites} is at a boundary, "
    "or a normal approximation around it is wider than any posterior, as happens to the scale of effects of workers or items. "
    "Use method='gibbs', 'nuts' or 'svi'."
)
# Standard deviation of a logarithm, logit or the like beyond which a normal approximation says nothing, and distance from 0 at
# which a point without such an approximation is said to be at a boundary.
WIDEST, FAR = 5.0, 10.0


def em(model: BoundModel, data: Annotations, options: EM, hooks: Hooks = SILENT) -> Draws:
    """Fit by EM from a majority vote.

    Steps are in closed form where the model has an ``m_step``. Else the M step is taken by gradients: by L-BFGS, many times
    slower; with networks by Adam over mini-batches, where the log posterior need not rise at every step, and the best step is
    kept (by accuracy on the items for validation, if there are any). A run ends where the log posterior rises by less than the
    tolerance (with networks: over :data:`crowdppl.inference.engines.em_stochastic.PATIENCE` steps).

    Extrapolation along the path of closed-form steps is SQUAREM (Varadhan and Roland 2008), from several steps where both are
    compiled (Anderson 1965); it falls back to the plain step wherever the log posterior would fall. The first restart is from
    the votes of the workers whom the first solution trusts least, others are around the first start, as all are of models with
    networks or in which an item has several truths.

    Args:
        model: any.
        data: the annotations.
        options: all of EM's.
        hooks: called between steps; a stopped fit continues from its checkpoint.
    """
    # The model's M step may move discrete sites, gradients cannot.
    space = Space(check(model, data, briefly=True), discrete=True)
    if model.conjugacy is not None:
        model.conjugacy.require_mode()
    schedule = Schedule.of(options)
    held_out = None if options.validation is None else Validation(options.validation, model, data)
    m_step = MStep(model, data, space, schedule)
    if m_step.stochastic:
        loop: EMLoop = StochasticEMLoop(
            m_step, options.max_iter, options.tol, hooks.report, held_out=held_out, fine_tune=options.fine_tune
        )
    else:
        loop = EMLoop(
            m_step, options.max_iter, options.tol, hooks.report, accelerate=options.accelerate, held_out=held_out
        )
    with torch.no_grad():
        first = model.initial(data)
        results = _runs(loop, first, options.restarts, hooks.keep)
        winner = max(results, key=lambda result: result.score)
        last, best = settled(loop, first, winner)
        notes, differing = ([], []) if held_out is not None else _others(loop, first, winner, results, best)
        if model.networks is not None:
            model.networks.take(best.buffers)
        out = _intervals(model, last.data, space, best.point, options.num_samples)
    out.point, out.sites, out.passes = best.point, space.sites, loop.expectation.passes
    out.backend = loop.expectation.name
    out.trace = {"log_posterior": torch.tensor(best.trace, dtype=torch.float64)}
    finals = [float(result.log_posterior) for result in results]
    out.facts = _facts(loop, data, best, finals)
    if last.data.anchor is not None:
        out.facts["anchored"] = float(last.data.anchor.sum(-1).mean())
    if differing:
        out.facts["different_labels"] = differing
    if held_out is not None:
        out.facts["validation"] = {"accuracy": best.score[0], "iteration": best.iteration}
    out.warnings += notes
    if not best.converged and not m_step.stochastic:
        out.warnings.append(
            f"EM stopped after {best.evaluations} evaluations before it converged; raise max_iter=..., or loosen tol=..."
        )
    if not notes and max(finals) > finals[0] + SAME_MODE * abs(finals[0]):
        out.warnings.append(
            f"a restart ended higher than the majority start (log posterior {max(finals):.4f} against {finals[0]:.4f}); "
            f"the posterior has several modes"
        )
    return out


def _runs(loop: EMLoop, first: Tensor, restarts: int, keep: Checkpoint) -> list[EMResult]:
    """Return the results of all starts, those of a stopped fit among them, of which only the best has its path."""
    model, data = loop.model, loop.data
    state = keep.resume(EMCheckpoint, data.device)
    results: list[EMResult] = []
    if state is not None:
        results = state.results
        loop.learn(first)
    loop.keep, loop.results = keep, results
    if state is not None:
        results += loop.resume(state)
        _drop_paths(results)
    while (begun := len(results)) <= restarts:
        if begun and model.networks is not None:  # networks start anew
            model.networks.renew(model.model.networks(data))
        results += loop.run(_starts(model, data, first, results, loop.expectation.width(restarts + 1 - begun)))
        _drop_paths(results)
    return results


def _facts(loop: EMLoop, data: Annotations, best: EMResult, finals: list[float]) -> dict[str, Any]:
    """Return what a result records of the run; ``finals`` are the log posteriors of all starts."""
    return {
        "converged": best.converged,
        "iterations": best.earlier + len(best.trace),
        "evaluations": best.evaluations,
        "log_posterior": float(best.log_posterior),
        "log_likelihood": best.log_likelihood if data.anchor is None else loop.expectation.log_likelihood(best.point),
        "restarts": finals,
    }


def _drop_paths(results: list[EMResult]) -> None:
    """Drop the paths of all results but the best: the others do not go on, and every checkpoint has a copy."""
    best = max(results, key=lambda result: result.score)
    for result in results:
        if result is not best:
            result.path = []


def _starts(model: BoundModel, data: Annotations, first: Tensor, results: list[EMResult], width: int) -> list[Tensor]:
    """Return responsibilities ``(N, S)`` of the next starts, up to ``width`` of them, after those with results."""
    if model.networks is not None or data.parent_item is not None:
        begun = len(results)
        return [dispersed(first, data) if n else first for n in range(begun, begun + width)]
    if not results:
        return [first]  # the second start opposes the end of this one
    starts = [dispersed(first, data) for _ in range(width)]
    if len(results) == 1:
        opposing = opposing_votes(data, solution(model, data, results[0]).probability)
        starts[0] = model.truths.at_shares(opposing, first, data)
    return starts


def _others(
    loop: EMLoop, first: Tensor, winner: EMResult, results: list[EMResult], best: EMResult
) -> tuple[list[str], list[float]]:
    """Compare the best solution with others.

    Args:
        loop: of all starts.
        first: responsibilities of the first start, ``(N, S)``.
        winner: the best of the results.
        results: of the starts.
        best: the winner with its anchor settled.

    Returns:
        A sentence if one of them explains the annotations about as well and gives other labels. For each start the share of items
        whose label differs from that reported; empty for a single start.
    """
    model, data = loop.model, loop.data
    notes, differing = [], []
    if len(results) > 1:
        chosen = solution(model, data, winner)
        others = [solution(model, data, result) for result in results]
        differing = [share(chosen, other, data) for other in others]
        notes = warning(chosen, others, data)
    if data.anchor is None or loop.m_step.stochastic or notes:
        return notes, differing
    other = model.anchored(data)
    if other.anchor is not None and not torch.equal(other.anchor, data.anchor):  # found another
        rival = loop.with_anchor(other.anchor)
        start = model.initial(other)
        _, result = settled(rival, start, rival.run([start])[0])
        pair = [solution(model, data, end, anchored=False) for end in (best, result)]
        notes = warning(pair[0], pair[1:], data)
    return notes, differing


def _intervals(
    model: BoundModel,
    data: Annotations,
    space: Space,
    point: Parameters,
    num_samples: int | None,
) -> Draws:
    requested = KEPT if num_samples is None else num_samples
    if model.has_conditionals and model.why_not_gibbs(data) is None:
        count = affordable(space.size, data, requested)
        warnings = [thinned_note(count, requested)] if count < requested else []
        if num_samples is None:
            count = min(count, sufficient(model.states, data))
        later = partial(swept, model, data, point, count)
        return Draws({}, "approximation", ONE_SWEEP, warnings=warnings, later=later, count=count)
    weights = {name: point[name] for name in space.weights}
    rest = space.part(set(space.sizes) - space.weights)
    count = affordable(rest.size, data, requested)
    normal, flat = None, list[str]()
    if 0 < rest.size <= LAPLACE_SIZE:
        normal, flat = _laplace(model, data, rest, point, count)
    if normal is not None and not flat:
        warnings = [thinned_note(count, requested)] if count < requested else []
        return Draws(normal, "approximation", LAPLACE + (FIXED if weights else ""), fixed=weights, warnings=warnings)
    samples = {name: point[name][None, None] for name in rest.sizes}
    sentence = FLAT.format(sites=listed(flat, 5)) if flat else POINT
    return Draws(samples, "point", sentence, fixed=weights, warnings=[sentence])


def swept(model: BoundModel, data: Annotations, point: Parameters, count: int, passes: Sweeps | None) -> Parameters:
    """Draw the parameters by a Gibbs sweep from the point, ``(1, count, ...)`` by site."""
    with torch.no_grad():
        return choose.sampler_from_point(model, data, count, passes).from_point(point, count)


def _laplace(
    model: BoundModel, data: Annotations, space: Space, point: Mapping[str, Tensor], num_samples: int
) -> tuple[Parameters | None, list[str]]:
    """Draw from the normal with the mode's curvature, ``(1, draw, ...)``; ``None`` if the curvature is not negative definite.

    Also returns the sites with bounds about which the mode says nothing: a scale whose mode is 0, for example.
    """
    mode = space.vector(point, inside=False)
    bounded = [name for name in space.sizes if base(space.supports[name]) is not constraints.real]
    places = dict(zip(space.sizes, space.parts(mode), strict=True))
    at_boundary = [name for name in bounded if bool((places[name].abs() > FAR).any())]
    if not bool(torch.isfinite(mode).all()):
        return None, at_boundary

    def loss(vector: Tensor) -> Tensor:
        parameters, log_prior = model.conditioned(dict(point) | space.values(vector), data)
        joint = model.item_log_joint(parameters, data)
        return -(repeated(model.objective(joint, data), data).sum() + log_prior)

    with torch.enable_grad():
        curvature: Any = torch.autograd.functional.hessian(loss, mode)
    factor, failed = torch.linalg.cholesky_ex(curvature)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None, at_boundary
    spreads = dict(zip(space.sizes, space.parts(torch.cholesky_inverse(factor).diagonal().sqrt()), strict=True))
    flat = [name for name in bounded if bool((spreads[name] > WIDEST).any())]
    noise = torch.randn(space.size, num_samples, dtype=mode.dtype, device=mode.device)
    vectors = mode.unsqueeze(-1) + torch.linalg.solve_triangular(factor.mT, noise, upper=True)  # (size, draw)
    draws = [space.values(vector) for vector in vectors.T]
    return {name: torch.stack([draw[name] for draw in draws]).unsqueeze(0) for name in space.sizes}, flat
