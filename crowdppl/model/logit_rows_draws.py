"""Draws of confusion matrices on the logit scale, for Gibbs sampling, of :class:`crowdppl.model.logit_rows.Rows`.

:mod:`crowdppl.kernels.logit_rows` has the same draws, compiled.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.model.logit_rows import RowCounts, Rows


def draw(
    rows: Rows,
    counts: RowCounts,
    precision: Tensor,
    mean_prior: tuple[float, float],
    precision_prior: tuple[float, float],
) -> tuple[Tensor, Tensor]:
    """Draw all parameters of the rows given counts, and mean and precision of the competence, which are returned.

    Each row's logits move by a Metropolis-Hastings step whose proposal is normal with the mean of a Newton step and its
    curvature (D. Gamerman 1997, Statistics and Computing 7, 57-68); what explains the logits is then drawn from its normal
    conditional. Where labels are few this centred form mixes slowly, so that competence also moves with the deviations held
    (interweaving: Y. Yu and X.-L. Meng 2011, Journal of Computational and Graphical Statistics 20, 531-570).

    Args:
        rows: are changed.
        counts: labels of the workers, in ``C`` chains.
        precision: of the competence, ``(C,)``.
        mean_prior: mean and standard deviation of ``mean``.
        precision_prior: shape and rate of ``precision``.
    """
    logits = _move_rows(rows, counts)
    mean = _draw_explained(rows, logits, precision, mean_prior)
    rows.deviations = logits - rows.mean_logits()
    _move_competence(rows, counts, mean, precision)
    J = rows.competence.shape[-1]
    prior_precision = mean_prior[1] ** -2
    certain = J * precision + prior_precision
    centre = (precision * rows.competence.sum(-1) + prior_precision * mean_prior[0]) / certain
    mean = centre + torch.randn_like(centre) * certain.rsqrt()
    rate = precision_prior[1] + (rows.competence - mean.unsqueeze(-1)).square().sum(-1) / 2
    precision = torch._standard_gamma(torch.full_like(rate, precision_prior[0] + J / 2)) / rate
    return mean, precision


def _proposal(rows: Rows, logits: Tensor, counts: RowCounts, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean ``(..., K)`` and Cholesky factor of the precision ``(..., K, K)`` of each row's proposal."""
    certain = rows.scales[2] ** -2
    p = logits.softmax(-1)
    total, share, expected = rows.expected(p, counts)
    factor = torch.linalg.cholesky(torch.diag_embed(expected + certain) - rows.together(p, share / total))
    slope = counts.labels - expected - certain * (logits - mean)
    return logits + torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1), factor


def _move_rows(rows: Rows, counts: RowCounts) -> Tensor:
    """Return new logits of the rows, ``(C, J, K, K)``."""
    mean = rows.mean_logits()
    logits = mean + rows.deviations
    certain = rows.scales[2] ** -2

    def log_density(logits: Tensor) -> Tensor:
        return rows.fit(logits, counts) - certain * (logits - mean).square().sum(-1) / 2

    def log_proposal(to: Tensor, centre: Tensor, factor: Tensor) -> Tensor:
        off = (factor.mT @ (to - centre).unsqueeze(-1)).squeeze(-1)
        return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) - off.square().sum(-1) / 2

    centre, factor = _proposal(rows, logits, counts, mean)
    noise = torch.linalg.solve_triangular(factor.mT, torch.randn_like(logits).unsqueeze(-1), upper=True).squeeze(-1)
    new = centre + noise
    back, back_factor = _proposal(rows, new, counts, mean)
    ratio = (
        log_density(new)
        - log_density(logits)
        + log_proposal(logits, back, back_factor)
        - log_proposal(new, centre, factor)
    )
    accepted = torch.rand_like(ratio).log() < ratio  # (C, J, K)
    return torch.where(accepted.unsqueeze(-1), new, logits)


def _draw_explained(rows: Rows, logits: Tensor, precision: Tensor, mean_prior: tuple[float, float]) -> Tensor:
    """Draw the crowd, then competence and preferences, given the logits: normal conditionals.

    The crowd's confusion and mean competence are drawn with the workers' parameters integrated out. Given these they could
    move by ``deviation / sqrt(J)`` only.

    Returns:
        The mean of the competence, ``(C,)``.
    """
    preference, crowd, deviation = (scale**-2 for scale in rows.scales)
    J, K = logits.shape[-3], logits.shape[-1]
    eye = rows.eye
    # What a worker's competence and preferences add to the logits (k, l), (K * K, K + 1).
    design = torch.cat([eye.reshape(-1, 1), eye.repeat(K, 1)], -1)
    own = design.T @ design * deviation
    prior = torch.diag_embed(
        torch.cat([precision.unsqueeze(-1), precision.new_full((len(precision), K), preference)], -1)
    )
    factor = torch.linalg.cholesky(own + prior)  # (C, K+1, K+1), the same for all workers
    # Precision of a worker's logits around the crowd's, with the worker's parameters integrated out (Woodbury).
    half = torch.linalg.solve_triangular(factor, deviation * design.T.expand(len(factor), -1, -1), upper=False)
    around = deviation * torch.eye(K * K, dtype=logits.dtype, device=logits.device) - half.mT @ half
    both = torch.cat([torch.eye(K * K, dtype=logits.dtype, device=logits.device), eye.reshape(-1, 1)], -1)  # (D, mu)
    weight = torch.cat([logits.new_full((K * K,), crowd), logits.new_full((1,), mean_prior[1] ** -2)])
    given = (both.T @ around @ logits.sum(-3).flatten(-2).unsqueeze(-1)).squeeze(-1)
    given[:, -1] += weight[-1] * mean_prior[0]
    drawn = _normal(J * both.T @ around @ both + torch.diag(weight), given)  # (C, K * K + 1)
    rows.crowd_confusion, mean = drawn[:, :-1].unflatten(-1, (K, K)), drawn[:, -1]
    left = (logits - rows.crowd_confusion.unsqueeze(-3)).flatten(-2)  # (C, J, K * K)
    given = deviation * left @ design
    given[..., 0] += (precision * mean).unsqueeze(-1)
    centre = torch.cholesky_solve(given.mT, factor)  # (C, K+1, J)
    drawn = (centre + torch.linalg.solve_triangular(factor.mT, torch.randn_like(centre), upper=True)).mT
    rows.competence, rows.preferences = drawn[..., 0], drawn[..., 1:]
    return mean


def _move_competence(rows: Rows, counts: RowCounts, mean: Tensor, precision: Tensor) -> None:
    """Move each worker's competence with the deviations held, by a Metropolis-Hastings step as for rows."""
    rest = rows.mean_logits() + rows.deviations - rows.competence[..., None, None] * rows.eye
    right = counts.labels.diagonal(dim1=-2, dim2=-1).sum(-1)  # (C, J)
    mean, precision = mean.unsqueeze(-1), precision.unsqueeze(-1)

    def proposal(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logs = (rest + a[..., None, None] * rows.eye).log_softmax(-1)
        p = logs.exp()
        total = p @ rows.factors.mT  # (C, J, K, M)
        correct = p.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) * rows.factors.mT / total  # (C, J, K, M)
        curve = (counts.effects * correct * (1 - correct)).sum((-2, -1)) + precision
        slope = right - (counts.effects * correct).sum((-2, -1)) - precision * (a - mean)
        fit = (counts.labels * logs).sum((-2, -1)) - (counts.effects * total.log()).sum((-2, -1))
        density = fit - precision * (a - mean).square() / 2
        return a + slope / curve, curve, density

    a = rows.competence
    centre, curve, density = proposal(a)
    new = centre + torch.randn_like(a) * curve.rsqrt()
    back, back_curve, new_density = proposal(new)
    ratio = new_density - density
    ratio = ratio + back_curve.log() / 2 - back_curve * (a - back).square() / 2
    ratio = ratio - curve.log() / 2 + curve * (new - centre).square() / 2
    rows.competence = torch.where(torch.rand_like(ratio).log() < ratio, new, a)


def _normal(precision: Tensor, given: Tensor) -> Tensor:
    """Draw from normals with these precisions ``(C, n, n)``, whose means solve ``precision @ mean = given`` ``(C, n)``."""
    factor = torch.linalg.cholesky(precision)
    centre = torch.cholesky_solve(given.unsqueeze(-1), factor)
    return (centre + torch.linalg.solve_triangular(factor.mT, torch.randn_like(centre), upper=True)).squeeze(-1)
