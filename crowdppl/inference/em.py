"""Exact marginal EM: climb to the mode of the posterior of the parameters, with the truth summed out at every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.checkpoint import NOTHING, Checkpoint
from crowdppl.inference.draws import Draws
from crowdppl.inference.early_stopping import Validation
from crowdppl.inference.em_loop import Climb, End, ended
from crowdppl.inference.m_step import Schedule
from crowdppl.inference.memory import affordable, chunk, thinned_note
from crowdppl.inference.options import engine
from crowdppl.inference.passes import Sweeps, at
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.sampling import sample_truth
from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import AnnotationModel, Parameters, check, conditioned, dispersed, repeated, without_gibbs

# Ends of restarts that differ by less than this fraction are one mode, reached to within the tolerance.
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


@engine("em")
def em(
    model: AnnotationModel,
    data: Annotations,
    report: ProgressCallback,
    keep: Checkpoint = NOTHING,
    *,
    max_iter: int,
    tol: float,
    restarts: int,
    accelerate: bool,
    num_samples: int,
    learning_rate: float,
    batch_size: int,
    epochs: int,
    steps: int | None,
    fine_tune: int,
    validation: Any,
) -> Draws:
    """Fit by EM from a majority vote; defaults of the options are in :class:`crowdppl.inference.options.EMOptions`.

    Args:
        model: with a closed-form ``m_step``, else its M step is taken by gradients: by L-BFGS, many times slower; with
            networks by Adam over mini-batches, where the log posterior need not rise at every step, and the best point
            of the way is kept.
        data: the annotations.
        report: called with progress.
        keep: where the state is kept, for a fit that is stopped to go on.
        max_iter: most E steps.
        tol: stop where the log posterior rises by less than this fraction of itself (with networks: over ``PATIENCE`` steps).
        restarts: further starts around the majority vote; the best end is kept and all are told.
        accelerate: extrapolate along the path of closed-form steps (SQUAREM, Varadhan and Roland 2008), falling back
            to the plain step wherever that would not rise.
        num_samples: draws for intervals, see ``interval_method`` of the result.
        learning_rate: of Adam, for networks.
        batch_size: items in a mini-batch, for networks.
        epochs: passes over the items in one M step, for networks.
        steps: gradient steps in one M step, in place of ``epochs``.
        fine_tune: with networks, gradient steps on the marginal log posterior of all parameters, after the last M step.
        validation: features and classes of items held out: the step with the highest accuracy on them is kept, in place
            of that with the highest log posterior.
    """
    space = Space(check(model, data))
    schedule = Schedule(learning_rate, batch_size, epochs, steps)
    held_out = None if validation is None else Validation(validation, model, data)
    climb = Climb(model, data, space, max_iter, tol, accelerate, report, schedule, held_out, fine_tune)
    with torch.no_grad():
        first = model.starting(data)
        ends: list[End] = []
        found = keep.resume("em", data.device)
        if found is not None:
            ends = ended(found)
            climb.learn(first)
        climb.keep, climb.ends = keep, ends
        if found is not None:
            ends += climb.resumed(found)
        while (begun := len(ends)) <= restarts:
            if begun and model._bound is not None:  # networks start anew
                model._bound.renew(model.networks(data))
            numbers = range(begun, begun + climb.width(first, restarts + 1 - begun))
            ends += climb([dispersed(first, data) if n else first for n in numbers])
        best = max(ends, key=lambda end: end.score)
        if model._bound is not None:
            model._bound.take(best.buffers)
        out = _intervals(model, data, space, best.point, num_samples, climb.passes)
    out.point, out.sites, out.passes = best.point, space.sites, climb.passes
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
            f"EM stopped after {best.evaluations} evaluations before it converged; raise max_iter=..., or loosen tol=..."
        )
    if max(finals) > finals[0] + SAME_MODE * abs(finals[0]):
        out.warnings.append(
            f"a restart ended higher than the majority start (log posterior {max(finals):.4f} against {finals[0]:.4f}); "
            f"the posterior has several modes"
        )
    return out


def _intervals(
    model: AnnotationModel,
    data: Annotations,
    space: Space,
    point: Parameters,
    num_samples: int,
    passes: Sweeps | None,
) -> Draws:
    if without_gibbs(model, data) is None:
        count = affordable(space.size, data, num_samples)
        told = [thinned_note(count, num_samples)] if count < num_samples else []
        sweeps = Sweeps.of(model, data, "gibbs_from", passes)
        if sweeps is not None:
            tables = at(model, point, data)
            draws = [model.gibbs_from(sweeps.draw(*tables)[1], data) for _ in range(count)]
            swept = {name: torch.stack([draw[name] for draw in draws]).unsqueeze(0) for name in point}
            return Draws(swept, "approximation", ONE_SWEEP, warnings=told)
        joint = model.item_log_joint(point, data)
        parts = []
        step = chunk(data, count)
        for start in range(0, count, step):
            size = min(step, count - start)
            here = {name: value.expand(size, *value.shape) for name, value in point.items()}
            parts.append(model.gibbs_step(sample_truth(joint.expand(size, *joint.shape)), here, data))
        samples = {name: torch.cat([part[name] for part in parts]).unsqueeze(0) for name in point}
        return Draws(samples, "approximation", ONE_SWEEP, warnings=told)
    weights = {name: point[name] for name in space.weights}
    rest = space.part(set(space.sizes) - space.weights)
    count = affordable(rest.size, data, num_samples)
    normal = _laplace(model, data, rest, point, count) if 0 < rest.size <= LAPLACE_SIZE else None
    if normal is not None:
        told = [thinned_note(count, num_samples)] if count < num_samples else []
        return Draws(normal, "approximation", LAPLACE + (FIXED if weights else ""), fixed=weights, warnings=told)
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
