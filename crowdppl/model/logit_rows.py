"""Confusion matrices on the logit scale: workers' competence and preferences, the crowd's confusion, workers' deviations.

Row ``k`` of worker ``j``, under effect ``t`` of the item, is ``softmax_l(a_j [k = l] + b_jl + D_kl + d_jkl + t_l)`` with normal
priors. :class:`Rows` is their one specification: probabilities, log-likelihood and its derivatives, priors. Newton steps, for EM,
are in :mod:`crowdppl.model.logit_rows_mode`; draws, for Gibbs sampling, in :mod:`crowdppl.model.logit_rows_draws`. Each has one
compiled form, :mod:`crowdppl.kernels.logit_rows_mode` and :mod:`crowdppl.kernels.logit_rows`, which is tested equal to it.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.model.base import Parameters


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
    """Logits of all workers' rows; Newton steps and draws replace the attributes.

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

    def mean_logits(self) -> Tensor:
        """Return the logits without the workers' deviations, ``(..., J, K, K)``."""
        expected = self.competence[..., None, None] * self.eye + self.preferences.unsqueeze(-2)
        return expected + self.crowd_confusion.unsqueeze(-3)

    def table(self) -> Tensor:
        """Return the probabilities of labels, ``(..., J, K, M, K)``."""
        p = (self.mean_logits() + self.deviations).softmax(-1)
        table = p.unsqueeze(-2) * self.factors
        total = table.sum(-1, keepdim=True)
        return table / total if table.requires_grad else table.div_(total)

    def fit(self, logits: Tensor, counts: RowCounts) -> Tensor:
        """Return the log-likelihood of the counts up to a constant, for each row ``(..., J, K)``."""
        logs = logits.log_softmax(-1)
        return _log_likelihood(counts, logs, logs.exp() @ self.factors.mT)

    def expected(self, p: Tensor, counts: RowCounts) -> tuple[Tensor, Tensor, Tensor]:
        """Return what derivatives of the log-likelihood are made of, given the rows' probabilities without effect, ``p``.

        The normalisers under each effect and what each effect's labels are divided by them, ``(..., J, K, M)``, and the expected
        labels ``(..., J, K, K)``.
        """
        total = p @ self.factors.mT
        share = counts.effects / total
        return total, share, p * (share @ self.factors)

    def together(self, p: Tensor, scaled: Tensor) -> Tensor:
        """Return what the normalisers add to the second derivatives, ``(..., J, K, K, K)``; ``scaled`` is ``share / total``."""
        pairs = (self.factors.unsqueeze(-1) * self.factors.unsqueeze(-2)).flatten(-2)  # (M, K * K)
        return (scaled @ pairs).unflatten(-1, self.eye.shape) * p.unsqueeze(-1) * p.unsqueeze(-2)

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

    def slopes(self, counts: RowCounts) -> tuple[Tensor, Tensor, Tensor]:
        """Return first derivatives of the log-likelihood by the logits, minus the second ones, and itself by row.

        The first two are ``(..., J, K, K)``, the third is ``(..., J, K)``.
        """
        logs = (self.mean_logits() + self.deviations).log_softmax(-1)
        p = logs.exp()
        total, share, expected = self.expected(p, counts)
        curve = expected - p.square() * ((share / total) @ self.factors.square())
        return counts.labels - expected, curve, _log_likelihood(counts, logs, total)

    def curvature(self, counts: RowCounts) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-likelihood's first derivatives by the logits, minus the second ones, and itself by row.

        They are ``(..., J, K, K)``, ``(..., J, K, K, K)`` and ``(..., J, K)``.
        """
        logs = (self.mean_logits() + self.deviations).log_softmax(-1)
        p = logs.exp()
        total, share, expected = self.expected(p, counts)
        together = self.together(p, share / total)
        return counts.labels - expected, torch.diag_embed(expected) - together, _log_likelihood(counts, logs, total)


def _log_likelihood(counts: RowCounts, logs: Tensor, totals: Tensor) -> Tensor:
    """Return the log-likelihood of rows, ``(..., J, K)``, given their log-probabilities and normalisers under each effect."""
    return (counts.labels * logs).sum(-1) - (counts.effects * totals.log()).sum(-1)
