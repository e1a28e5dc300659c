"""The mode of confusion matrices on the logit scale: Newton steps, for EM, of :class:`crowdppl.model.logit_rows.Rows`.

:mod:`crowdppl.kernels.logit_rows_mode` has the same steps, compiled.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.kernels.ops import synchronises
from crowdppl.model.logit_rows import RowCounts, Rows
from crowdppl.model.step_shares import first_not_worse

# Largest change of a logit in one Newton step.
LONGEST = 2.0
# Shares of a step that are tried: of workers in the first M step, whose parameters move as if each did alone; how many, of the
# crowd, too.
FIRST_SHARE, TRIES, CROWD_TRIES = 0.5, 8, 7


def newton_step(rows: Rows, counts: RowCounts, mean: Tensor, precision: Tensor) -> None:
    """Take a Newton step for each worker, then one for the crowd, so that the log joint does not fall.

    Args:
        rows: are changed.
        counts: expected labels of the workers.
        mean: of the competence, a scalar.
        precision: of the competence, a scalar.
    """
    _newton_workers(rows, counts, mean, precision)
    _newton_crowd(rows, counts)


def first_step(rows: Rows, counts: RowCounts, mean: Tensor, precision: Tensor) -> Tensor:
    """Take a shorter step in place of that for each worker: arguments as of :func:`newton_step`.

    Each parameter takes half its own Newton step. Mean and precision of the competence are learned between such steps, and
    would be others after longer ones, since learning ends before it converges.

    Returns:
        The approximate posterior variance of each competence, ``(J,)``.
    """
    variance = _begin_workers(rows, counts, mean, precision)
    _newton_crowd(rows, counts)
    return variance


def _newton_workers(rows: Rows, counts: RowCounts, mean: Tensor, precision: Tensor) -> None:
    """Take the Newton step of each worker; given competence and preferences, the deviations of a row depend on it alone.

    Where rounding leaves a matrix of second derivatives that is not positive definite, as at extreme scales or in float32,
    the parameters of the worker take the steps of :func:`_single_steps`.
    """
    preference, _, deviation = (scale**-2 for scale in rows.scales)
    slope, curvature, fit = rows.curvature(counts)
    single = slope, curvature.diagonal(dim1=-2, dim2=-1)
    # Without the errors of matrices that cannot be factorised: they would stop the fit, and a device would be waited for.
    factor, fault = torch.linalg.cholesky_ex(curvature + deviation * rows.eye)
    fault = (fault != 0)[..., None, None]
    inverse = torch.cholesky_inverse(torch.where(fault, rows.eye, factor))  # (..., J, K, K, K)
    ends = (inverse @ (slope - deviation * rows.deviations).unsqueeze(-1)).squeeze(-1)
    # Derivatives by what competence and preferences add to a row, with its deviations at their best.
    slope = deviation * (ends + rows.deviations)
    curvature = deviation * (rows.eye - deviation * inverse)
    own = torch.cat([curvature.sum(-3), curvature.diagonal(dim1=-3, dim2=-2).sum(-1).unsqueeze(-2)], -2)
    right = torch.cat(
        [own[..., -1, :], curvature.diagonal(dim1=-3, dim2=-2).diagonal(dim1=-2, dim2=-1).sum(-1, True)], -1
    )
    own = torch.cat([own, right.unsqueeze(-1)], -1)  # (..., J, K+1, K+1), the competence last
    prior = torch.cat([torch.full_like(rows.preferences, preference), torch.zeros_like(right[..., :1]) + precision], -1)
    given = torch.cat([slope.sum(-2), slope.diagonal(dim1=-2, dim2=-1).sum(-1, True)], -1)
    given = given - prior * torch.cat([rows.preferences, (rows.competence - mean).unsqueeze(-1)], -1)
    step, singular = torch.linalg.solve_ex(own + torch.diag_embed(prior), given)
    added = step[..., -1, None, None] * rows.eye + step[..., None, :-1]
    step_d = ends - added + deviation * (inverse @ added.unsqueeze(-1)).squeeze(-1)
    steps = step[..., -1], step[..., :-1], step_d
    largest = torch.maximum(step.abs().amax(-1), step_d.abs().amax((-2, -1)))
    first = (LONGEST / largest).clamp(max=1.0)
    # A positive definite matrix leads uphill; the largest step is finite only if all are.
    good = ~fault.flatten(-3).any(-1) & (singular == 0) & largest.isfinite() & (torch.linalg.vecdot(step, given) >= 0)
    if synchronises(good) or not bool(good.all()):
        first = torch.where(good, first, FIRST_SHARE)
        step_a, step_b, step_d = (
            torch.where(good.reshape(good.shape + (1,) * (new.dim() - good.dim())), new, own)
            for new, own in zip(steps, _single_steps(rows, *single, mean, precision), strict=True)
        )
        steps = step_a, step_b, step_d
    _move_workers(rows, counts, fit, mean, precision, steps, first)


def _single_steps(
    rows: Rows, slope: Tensor, curve: Tensor, mean: Tensor, precision: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the Newton step of each parameter of the workers, as if it moved alone, from what :meth:`Rows.slopes` returns."""
    preference, _, deviation = (scale**-2 for scale in rows.scales)
    curve = curve.clamp(min=0)  # a difference, which rounding may leave below
    curve_a = curve.diagonal(dim1=-2, dim2=-1).sum(-1) + precision
    step_a = (slope.diagonal(dim1=-2, dim2=-1).sum(-1) - precision * (rows.competence - mean)) / curve_a
    # Twice the diagonal bounds the matrix of second derivatives of a softmax.
    step_b = (slope.sum(-2) - preference * rows.preferences) / (2 * curve.sum(-2) + preference)
    step_d = (slope - deviation * rows.deviations) / (2 * curve + deviation)
    a, b, d = (step.clamp(-LONGEST, LONGEST) for step in (step_a, step_b, step_d))
    return a, b, d


def _begin_workers(rows: Rows, counts: RowCounts, mean: Tensor, precision: Tensor) -> Tensor:
    """Take half the Newton step of each parameter of the workers; return the variances of :func:`first_step`."""
    slope, curve, fit = rows.slopes(counts)
    steps = _single_steps(rows, slope, curve, mean, precision)
    _move_workers(rows, counts, fit, mean, precision, steps, FIRST_SHARE)
    curve_a = curve.clamp(min=0).diagonal(dim1=-2, dim2=-1).sum(-1) + precision
    return 1 / curve_a


def _move_workers(
    rows: Rows,
    counts: RowCounts,
    fit: Tensor,
    mean: Tensor,
    precision: Tensor,
    steps: tuple[Tensor, Tensor, Tensor],
    first: float | Tensor,
) -> None:
    """Move competence, preferences and deviations by the largest share of their steps that does not lower the log joint.

    ``fit (..., J, K)`` is the log-likelihood of each row before, ``first`` the first share to try.
    """
    preference, _, deviation = (scale**-2 for scale in rows.scales)

    def moved(size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (
            rows.competence + size * steps[0],
            rows.preferences + size[..., None] * steps[1],
            rows.deviations + size[..., None, None] * steps[2],
        )

    def log_prior(a: Tensor, b: Tensor, d: Tensor) -> Tensor:
        ends = precision * (a - mean).square() + preference * b.square().sum(-1) + deviation * d.square().sum((-2, -1))
        return -ends / 2

    def objective(a: Tensor, b: Tensor, d: Tensor) -> Tensor:
        logits = a[..., None, None] * rows.eye + b.unsqueeze(-2) + rows.crowd_confusion + d
        return rows.fit(logits, counts).sum(-1) + log_prior(a, b, d)

    before = fit.sum(-1) + log_prior(rows.competence, rows.preferences, rows.deviations)
    size = first_not_worse(lambda size: objective(*moved(size)), before, first, TRIES)
    rows.competence, rows.preferences, rows.deviations = moved(size)


def _newton_crowd(rows: Rows, counts: RowCounts) -> None:
    """Take a step of the crowd's confusion that does not lower the log joint; then move what all workers deviate by to it."""
    _, crowd, deviation = (scale**-2 for scale in rows.scales)
    slope, curve, fit = rows.slopes(counts)
    slope, curve = slope.sum(-3), curve.clamp(min=0).sum(-3)
    step = ((slope - crowd * rows.crowd_confusion) / (2 * curve + crowd)).clamp(-LONGEST, LONGEST)

    def log_prior(D: Tensor) -> Tensor:
        return -crowd * D.square().sum((-2, -1)) / 2

    rest = rows.mean_logits() - rows.crowd_confusion + rows.deviations

    def moved(size: Tensor) -> Tensor:
        return rows.crowd_confusion + size[..., None, None] * step

    def objective(size: Tensor) -> Tensor:
        new = moved(size)
        return rows.fit(rest + new.unsqueeze(-3), counts).sum((-2, -1)) + log_prior(new)

    before = fit.sum() + log_prior(rows.crowd_confusion)
    rows.crowd_confusion = moved(first_not_worse(objective, before, 1.0, CROWD_TRIES))
    # What all workers deviate by is the crowd's: the prior rises and the rows stay as they are.
    J = rows.deviations.shape[-3]
    common = (deviation * rows.deviations.sum(-3) - crowd * rows.crowd_confusion) / (J * deviation + crowd)
    rows.crowd_confusion = rows.crowd_confusion + common
    rows.deviations = rows.deviations - common
