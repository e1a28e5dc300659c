"""Confusion matrices on the logit scale: workers' competence and preferences, the crowd's confusion, workers' deviations.

Row ``k`` of worker ``j``, under effect ``t`` of the item, is ``softmax_l(a_j [k = l] + b_jl + D_kl + d_jkl + t_l)`` with normal
priors. This module raises the log joint of these parameters given counts of labels (Newton steps, for EM), and draws them (for
Gibbs sampling).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.kernels.ops import synchronises
from crowdppl.model.base import Parameters
from crowdppl.model.step_shares import first_not_worse

# Largest change of a logit in one Newton step.
LONGEST = 2.0
# Shares of a step that are tried: of workers in the first M step, whose parameters move as if each did alone; how many, of the
# crowd, too.
FIRST_SHARE, TRIES, CROWD_TRIES = 0.5, 8, 7


class RowCounts(NamedTuple):
    """What the likelihood of the rows needs of the labels.

    Attributes:
        labels: labels of each worker by class and label, ``(..., J, K, K)``.
        effects: by class and effect of the item, ``(..., J, K, M)``.
    """

    labels: Tensor
    effects: Tensor

    @classmethod
    def of(cls, counts: Tensor) -> RowCounts:
        """Return the sums of labels by class, effect and label, ``(..., J, K, M, K)``."""
        return cls(counts.sum(-2), counts.sum(-1))


class Rows:
    """Logits of all workers' rows; the attributes are updated in place of the old ones by :meth:`newton_step` and :meth:`draw`.

    Args:
        competence: ``a``, ``(..., J)``.
        preferences: ``b``, ``(..., J, K)``.
        crowd_confusion: ``D``, ``(..., K, K)``.
        deviations: ``d``, ``(..., J, K, K)``.
        scales: prior standard deviations of ``b``, ``D`` and ``d``.
        effects: ``t``, ``(M, K)``.
    """

    def __init__(
        self,
        competence: Tensor,
        preferences: Tensor,
        crowd_confusion: Tensor,
        deviations: Tensor,
        scales: tuple[float, float, float],
        effects: Tensor,
    ):
        self.competence, self.preferences = competence, preferences
        self.crowd_confusion, self.deviations = crowd_confusion, deviations
        self.scales, self.effects = scales, effects

    @cached_property
    def factors(self) -> Tensor:
        """``(M, K)``: of a row ``p`` without effect, effect ``m`` makes ``p_l factors_ml / sum_l p_l factors_ml``."""
        return self.effects.exp()

    @cached_property
    def eye(self) -> Tensor:
        """The identity matrix, ``(K, K)``."""
        return torch.eye(self.effects.shape[-1], dtype=self.effects.dtype, device=self.effects.device)

    def parameters(self) -> Parameters:
        """Return the four sites by name."""
        names = ("competence", "preferences", "crowd_confusion", "deviations")
        return {name: getattr(self, name) for name in names}

    def _mean(self) -> Tensor:
        """Return the logits without the workers' deviations, ``(..., J, K, K)``."""
        expected = self.competence[..., None, None] * self.eye + self.preferences.unsqueeze(-2)
        return expected + self.crowd_confusion.unsqueeze(-3)

    def table(self) -> Tensor:
        """Return the probabilities of labels, ``(..., J, K, M, K)``."""
        p = (self._mean() + self.deviations).softmax(-1)
        table = p.unsqueeze(-2) * self.factors
        return (
            table.div_(table.sum(-1, keepdim=True)) if not table.requires_grad else table / table.sum(-1, keepdim=True)
        )

    def _fit(self, logits: Tensor, counts: RowCounts) -> Tensor:
        """Return the log-likelihood of the counts up to a constant, for each row ``(..., J, K)``."""
        logs = logits.log_softmax(-1)
        return (counts.labels * logs).sum(-1) - (counts.effects * (logs.exp() @ self.factors.mT).log()).sum(-1)

    def log_prior(self, mean: Tensor, precision: Tensor) -> Tensor:
        """Return the log density of the four sites, ``(...)``, given mean and precision of the competence ``(...)``."""
        priors = self.log_priors(mean, precision)
        crowd = priors.pop("crowd_confusion")
        return crowd + sum(value.sum(-1) for value in priors.values())

    def log_priors(self, mean: Tensor, precision: Tensor) -> Parameters:
        """Return the same for each site: ``(...)`` of the crowd's confusion, ``(..., J)`` of the workers'."""
        off, precision = self.competence - mean.unsqueeze(-1), precision.unsqueeze(-1)
        out = {"competence": (precision / (2 * math.pi)).log() / 2 - precision * off.square() / 2}
        names = ("preferences", "crowd_confusion", "deviations")
        values = (self.preferences, self.crowd_confusion.flatten(-2), self.deviations.flatten(-2))
        for name, value, scale in zip(names, values, self.scales, strict=True):
            constant = value.shape[-1] * (math.log(scale) + math.log(2 * math.pi) / 2)
            out[name] = -torch.linalg.vecdot(value, value) / (2 * scale**2) - constant
        return out

    # ------------------------------------------------------------------ mode

    def _slopes(self, counts: RowCounts) -> tuple[Tensor, Tensor, Tensor]:
        """Return first derivatives of the log-likelihood by the logits, minus the second ones, and itself by row.

        The first two are ``(..., J, K, K)``, the third is ``(..., J, K)``.
        """
        logs = (self._mean() + self.deviations).log_softmax(-1)
        p = logs.exp()
        total = p @ self.factors.mT  # (..., J, K, M)
        share = counts.effects / total
        expected = p * (share @ self.factors)
        curve = expected - p.square() * ((share / total) @ self.factors.square())
        fit = (counts.labels * logs).sum(-1) - (counts.effects * total.log()).sum(-1)
        return counts.labels - expected, curve, fit

    def newton_step(self, counts: RowCounts, mean: Tensor, precision: Tensor) -> None:
        """Take a Newton step for each worker, then one for the crowd, so that the log joint does not fall.

        Args:
            counts: expected labels of the workers.
            mean: of the competence, a scalar.
            precision: of the competence, a scalar.
        """
        self._newton_workers(counts, mean, precision)
        self._newton_crowd(counts)

    def first_step(self, counts: RowCounts, mean: Tensor, precision: Tensor) -> Tensor:
        """Take a shorter step in place of that for each worker: arguments as of :meth:`newton_step`.

        Each parameter takes half its own Newton step. Mean and precision of the competence are learned between such steps, and
        would be others after longer ones, since learning ends before it converges.

        Returns:
            The approximate posterior variance of each competence, ``(J,)``.
        """
        variance = self._begin_workers(counts, mean, precision)
        self._newton_crowd(counts)
        return variance

    def _curvature(self, counts: RowCounts) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-likelihood's first derivatives by the logits, minus the second ones, and itself by row.

        They are ``(..., J, K, K)``, ``(..., J, K, K, K)`` and ``(..., J, K)``.
        """
        logs = (self._mean() + self.deviations).log_softmax(-1)
        p = logs.exp()
        total = p @ self.factors.mT  # (..., J, K, M)
        share = counts.effects / total
        expected = p * (share @ self.factors)
        pairs = (self.factors.unsqueeze(-1) * self.factors.unsqueeze(-2)).flatten(-2)  # (M, K * K)
        together = ((share / total) @ pairs).unflatten(-1, self.eye.shape) * p.unsqueeze(-1) * p.unsqueeze(-2)
        fit = (counts.labels * logs).sum(-1) - (counts.effects * total.log()).sum(-1)
        return counts.labels - expected, torch.diag_embed(expected) - together, fit

    def _newton_workers(self, counts: RowCounts, mean: Tensor, precision: Tensor) -> None:
        """Take the Newton step of each worker; given competence and preferences, the deviations of a row depend on it alone.

        Where rounding leaves a matrix of second derivatives that is not positive definite, as at extreme scales or in float32,
        the parameters of the worker take the steps of :meth:`_single_steps`.
        """
        preference, _, deviation = (scale**-2 for scale in self.scales)
        slope, curvature, fit = self._curvature(counts)
        single = slope, curvature.diagonal(dim1=-2, dim2=-1)
        # Without the errors of matrices that cannot be factorised: they would stop the fit, and a device would be waited for.
        factor, fault = torch.linalg.cholesky_ex(curvature + deviation * self.eye)
        fault = (fault != 0)[..., None, None]
        inverse = torch.cholesky_inverse(torch.where(fault, self.eye, factor))  # (..., J, K, K, K)
        ends = (inverse @ (slope - deviation * self.deviations).unsqueeze(-1)).squeeze(-1)
        # Derivatives by what competence and preferences add to a row, with its deviations at their best.
        slope = deviation * (ends + self.deviations)
        curvature = deviation * (self.eye - deviation * inverse)
        own = torch.cat([curvature.sum(-3), curvature.diagonal(dim1=-3, dim2=-2).sum(-1).unsqueeze(-2)], -2)
        right = torch.cat(
            [own[..., -1, :], curvature.diagonal(dim1=-3, dim2=-2).diagonal(dim1=-2, dim2=-1).sum(-1, True)], -1
        )
        own = torch.cat([own, right.unsqueeze(-1)], -1)  # (..., J, K+1, K+1), the competence last
        prior = torch.cat(
            [torch.full_like(self.preferences, preference), torch.zeros_like(right[..., :1]) + precision], -1
        )
        given = torch.cat([slope.sum(-2), slope.diagonal(dim1=-2, dim2=-1).sum(-1, True)], -1)
        given = given - prior * torch.cat([self.preferences, (self.competence - mean).unsqueeze(-1)], -1)
        step, singular = torch.linalg.solve_ex(own + torch.diag_embed(prior), given)
        added = step[..., -1, None, None] * self.eye + step[..., None, :-1]
        step_d = ends - added + deviation * (inverse @ added.unsqueeze(-1)).squeeze(-1)
        steps = step[..., -1], step[..., :-1], step_d
        largest = torch.maximum(step.abs().amax(-1), step_d.abs().amax((-2, -1)))
        first = (LONGEST / largest).clamp(max=1.0)
        # A positive definite matrix leads uphill; the largest step is finite only if all are.
        good = (
            ~fault.flatten(-3).any(-1) & (singular == 0) & largest.isfinite() & (torch.linalg.vecdot(step, given) >= 0)
        )
        if synchronises(good) or not bool(good.all()):
            first = torch.where(good, first, FIRST_SHARE)
            step_a, step_b, step_d = (
                torch.where(good.reshape(good.shape + (1,) * (new.dim() - good.dim())), new, own)
                for new, own in zip(steps, self._single_steps(*single, mean, precision), strict=True)
            )
            steps = step_a, step_b, step_d
        self._move_workers(counts, fit, mean, precision, steps, first)

    def _single_steps(
        self, slope: Tensor, curve: Tensor, mean: Tensor, precision: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the Newton step of each parameter of the workers, as if it moved alone, from what :meth:`_slopes` returns."""
        preference, _, deviation = (scale**-2 for scale in self.scales)
        curve = curve.clamp(min=0)  # a difference, which rounding may leave below
        curve_a = curve.diagonal(dim1=-2, dim2=-1).sum(-1) + precision
        step_a = (slope.diagonal(dim1=-2, dim2=-1).sum(-1) - precision * (self.competence - mean)) / curve_a
        # Twice the diagonal bounds the matrix of second derivatives of a softmax.
        step_b = (slope.sum(-2) - preference * self.preferences) / (2 * curve.sum(-2) + preference)
        step_d = (slope - deviation * self.deviations) / (2 * curve + deviation)
        a, b, d = (step.clamp(-LONGEST, LONGEST) for step in (step_a, step_b, step_d))
        return a, b, d

    def _begin_workers(self, counts: RowCounts, mean: Tensor, precision: Tensor) -> Tensor:
        """Take half the Newton step of each parameter of the workers; return the variances of :meth:`first_step`."""
        slope, curve, fit = self._slopes(counts)
        steps = self._single_steps(slope, curve, mean, precision)
        self._move_workers(counts, fit, mean, precision, steps, FIRST_SHARE)
        curve_a = curve.clamp(min=0).diagonal(dim1=-2, dim2=-1).sum(-1) + precision
        return 1 / curve_a

    def _move_workers(
        self,
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
        preference, _, deviation = (scale**-2 for scale in self.scales)

        def moved(size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return (
                self.competence + size * steps[0],
                self.preferences + size[..., None] * steps[1],
                self.deviations + size[..., None, None] * steps[2],
            )

        def log_prior(a: Tensor, b: Tensor, d: Tensor) -> Tensor:
            ends = (
                precision * (a - mean).square() + preference * b.square().sum(-1) + deviation * d.square().sum((-2, -1))
            )
            return -ends / 2

        def objective(a: Tensor, b: Tensor, d: Tensor) -> Tensor:
            logits = a[..., None, None] * self.eye + b.unsqueeze(-2) + self.crowd_confusion + d
            return self._fit(logits, counts).sum(-1) + log_prior(a, b, d)

        before = fit.sum(-1) + log_prior(self.competence, self.preferences, self.deviations)
        size = first_not_worse(lambda size: objective(*moved(size)), before, first, TRIES)
        self.competence, self.preferences, self.deviations = moved(size)

    def _newton_crowd(self, counts: RowCounts) -> None:
        _, crowd, deviation = (scale**-2 for scale in self.scales)
        slope, curve, fit = self._slopes(counts)
        slope, curve = slope.sum(-3), curve.clamp(min=0).sum(-3)
        step = ((slope - crowd * self.crowd_confusion) / (2 * curve + crowd)).clamp(-LONGEST, LONGEST)

        def log_prior(D: Tensor) -> Tensor:
            return -crowd * D.square().sum((-2, -1)) / 2

        rest = self._mean() - self.crowd_confusion + self.deviations

        def moved(size: Tensor) -> Tensor:
            return self.crowd_confusion + size[..., None, None] * step

        def objective(size: Tensor) -> Tensor:
            new = moved(size)
            return self._fit(rest + new.unsqueeze(-3), counts).sum((-2, -1)) + log_prior(new)

        before = fit.sum() + log_prior(self.crowd_confusion)
        self.crowd_confusion = moved(first_not_worse(objective, before, 1.0, CROWD_TRIES))
        # What all workers deviate by is the crowd's: the prior rises and the rows stay as they are.
        J = self.deviations.shape[-3]
        common = (deviation * self.deviations.sum(-3) - crowd * self.crowd_confusion) / (J * deviation + crowd)
        self.crowd_confusion = self.crowd_confusion + common
        self.deviations = self.deviations - common

    # ------------------------------------------------------------------ draws

    def draw(
        self,
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
            counts: labels of the workers, in ``C`` chains.
            precision: of the competence, ``(C,)``.
            mean_prior: mean and standard deviation of ``mean``.
            precision_prior: shape and rate of ``precision``.
        """
        logits = self._move_rows(counts)
        mean = self._draw_explained(logits, precision, mean_prior)
        self.deviations = logits - self._mean()
        self._move_competence(counts, mean, precision)
        J = self.competence.shape[-1]
        prior_precision = mean_prior[1] ** -2
        certain = J * precision + prior_precision
        centre = (precision * self.competence.sum(-1) + prior_precision * mean_prior[0]) / certain
        mean = centre + torch.randn_like(centre) * certain.rsqrt()
        rate = precision_prior[1] + (self.competence - mean.unsqueeze(-1)).square().sum(-1) / 2
        precision = torch._standard_gamma(torch.full_like(rate, precision_prior[0] + J / 2)) / rate
        return mean, precision

    def _proposal(self, logits: Tensor, counts: RowCounts, mean: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean ``(..., K)`` and Cholesky factor of the precision ``(..., K, K)`` of each row's proposal."""
        certain, K = self.scales[2] ** -2, logits.shape[-1]
        p = logits.softmax(-1)
        total = p @ self.factors.mT  # (..., J, K, M)
        share = counts.effects / total
        expected = p * (share @ self.factors)
        pairs = (self.factors.unsqueeze(-1) * self.factors.unsqueeze(-2)).flatten(-2)  # (M, K * K)
        together = ((share / total) @ pairs).unflatten(-1, (K, K)) * p.unsqueeze(-1) * p.unsqueeze(-2)
        factor = torch.linalg.cholesky(torch.diag_embed(expected + certain) - together)
        slope = counts.labels - expected - certain * (logits - mean)
        return logits + torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1), factor

    def _move_rows(self, counts: RowCounts) -> Tensor:
        """Return new logits of the rows, ``(C, J, K, K)``."""
        mean = self._mean()
        logits = mean + self.deviations
        certain = self.scales[2] ** -2

        def log_density(logits: Tensor) -> Tensor:
            return self._fit(logits, counts) - certain * (logits - mean).square().sum(-1) / 2

        def log_proposal(to: Tensor, centre: Tensor, factor: Tensor) -> Tensor:
            off = (factor.mT @ (to - centre).unsqueeze(-1)).squeeze(-1)
            return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) - off.square().sum(-1) / 2

        centre, factor = self._proposal(logits, counts, mean)
        noise = torch.linalg.solve_triangular(factor.mT, torch.randn_like(logits).unsqueeze(-1), upper=True).squeeze(-1)
        new = centre + noise
        back, back_factor = self._proposal(new, counts, mean)
        ratio = (
            log_density(new)
            - log_density(logits)
            + log_proposal(logits, back, back_factor)
            - log_proposal(new, centre, factor)
        )
        accepted = torch.rand_like(ratio).log() < ratio  # (C, J, K)
        return torch.where(accepted.unsqueeze(-1), new, logits)

    def _draw_explained(self, logits: Tensor, precision: Tensor, mean_prior: tuple[float, float]) -> Tensor:
        """Draw the crowd, then competence and preferences, given the logits: normal conditionals.

        The crowd's confusion and mean competence are drawn with the workers' parameters integrated out. Given these they could
        move by ``deviation / sqrt(J)`` only.

        Returns:
            The mean of the competence, ``(C,)``.
        """
        preference, crowd, deviation = (scale**-2 for scale in self.scales)
        J, K = logits.shape[-3], logits.shape[-1]
        eye = self.eye
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
        both = torch.cat(
            [torch.eye(K * K, dtype=logits.dtype, device=logits.device), eye.reshape(-1, 1)], -1
        )  # (D, mu)
        weight = torch.cat([logits.new_full((K * K,), crowd), logits.new_full((1,), mean_prior[1] ** -2)])
        given = (both.T @ around @ logits.sum(-3).flatten(-2).unsqueeze(-1)).squeeze(-1)
        given[:, -1] += weight[-1] * mean_prior[0]
        drawn = _normal(J * both.T @ around @ both + torch.diag(weight), given)  # (C, K * K + 1)
        self.crowd_confusion, mean = drawn[:, :-1].unflatten(-1, (K, K)), drawn[:, -1]
        left = (logits - self.crowd_confusion.unsqueeze(-3)).flatten(-2)  # (C, J, K * K)
        given = deviation * left @ design
        given[..., 0] += (precision * mean).unsqueeze(-1)
        centre = torch.cholesky_solve(given.mT, factor)  # (C, K+1, J)
        drawn = (centre + torch.linalg.solve_triangular(factor.mT, torch.randn_like(centre), upper=True)).mT
        self.competence, self.preferences = drawn[..., 0], drawn[..., 1:]
        return mean

    def _move_competence(self, counts: RowCounts, mean: Tensor, precision: Tensor) -> None:
        """Move each worker's competence with the deviations held, by a Metropolis-Hastings step as for rows."""
        rest = self._mean() + self.deviations - self.competence[..., None, None] * self.eye
        right = counts.labels.diagonal(dim1=-2, dim2=-1).sum(-1)  # (C, J)
        mean, precision = mean.unsqueeze(-1), precision.unsqueeze(-1)

        def proposal(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            logs = (rest + a[..., None, None] * self.eye).log_softmax(-1)
            p = logs.exp()
            total = p @ self.factors.mT  # (C, J, K, M)
            correct = p.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) * self.factors.mT / total  # (C, J, K, M)
            curve = (counts.effects * correct * (1 - correct)).sum((-2, -1)) + precision
            slope = right - (counts.effects * correct).sum((-2, -1)) - precision * (a - mean)
            fit = (counts.labels * logs).sum((-2, -1)) - (counts.effects * total.log()).sum((-2, -1))
            density = fit - precision * (a - mean).square() / 2
            return a + slope / curve, curve, density

        a = self.competence
        centre, curve, density = proposal(a)
        new = centre + torch.randn_like(a) * curve.rsqrt()
        back, back_curve, new_density = proposal(new)
        ratio = new_density - density
        ratio = ratio + back_curve.log() / 2 - back_curve * (a - back).square() / 2
        ratio = ratio - curve.log() / 2 + curve * (new - centre).square() / 2
        self.competence = torch.where(torch.rand_like(ratio).log() < ratio, new, a)


def _normal(precision: Tensor, given: Tensor) -> Tensor:
    """Draw from normals with these precisions ``(C, n, n)``, whose means solve ``precision @ mean = given`` ``(C, n)``."""
    factor = torch.linalg.cholesky(precision)
    centre = torch.cholesky_solve(given.unsqueeze(-1), factor)
    return (centre + torch.linalg.solve_triangular(factor.mT, torch.randn_like(centre), upper=True)).squeeze(-1)
