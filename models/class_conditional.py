"""Class-conditional: right with a probability that depends on the class, wrong labels spread evenly.

In two classes a worker is then a sensitivity and a specificity: the two-coin model of Raykar et al. (2010, Learning from
crowds, JMLR 11) without features, which for two classes is Dawid and Skene's (1979) model itself. In more classes it lies
between the single number of a one-coin worker and the full matrix: ``K`` numbers a worker, not ``K (K - 1)``.

Story::

    prevalence   p             ~ Dirichlet(1 + items)
    sensitivity  s_jk          ~ Beta(1 + right, 1 + wrong)           for each worker and class
    truth        z_i           ~ Categorical(p)
    label        y_n | z_i = k = k with probability s_jk, else any of the others:  (1 - s_jk) / (K - 1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Beta, Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.model.base import AnnotationModel, Expected, Parameters, Sums, one_hot, sums_of
from crowdppl.model.conjugacy import (
    beta_log_density,
    beta_mode,
    coin_tables,
    dirichlet_expected,
    dirichlet_log_density,
    dirichlet_mode,
    mean_field,
)
from crowdppl.model.hyperparameters import require_answers
from crowdppl.model.plates import Plates


@final
@dataclass(frozen=True)
class ClassConditional(AnnotationModel):
    """One probability of the right label for each worker and class.

    Attributes:
        prior_correct: imaginary right answers of every worker in every class, on top of a flat prior.
        prior_incorrect: imaginary wrong answers.
        prior_items: imaginary items of every class.
    """

    prior_correct: float = 4.0
    prior_incorrect: float = 1.0
    prior_items: float = 0.0

    dims: ClassVar = {"prevalence": ("true_label",), "sensitivity": ("worker", "true_label")}
    batched_m_step: ClassVar = True

    def __post_init__(self) -> None:
        require_answers(self, "prior_correct", "prior_incorrect", "prior_items")

    @classmethod
    def maximum_likelihood(cls) -> ClassConditional:
        """Return the model with flat priors, so that EM climbs the likelihood."""
        return cls(prior_correct=0.0, prior_incorrect=0.0, prior_items=0.0)

    # ------------------------------------------------------------------ the story

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)`` and sensitivity ``(J, K)``."""
        prevalence = pyro.sample("prevalence", Dirichlet(self._classes(data)))
        with plates.worker:
            coin = Beta(1.0 + self.prior_correct, 1.0 + self.prior_incorrect).expand([data.K]).to_event(1)
            sensitivity = pyro.sample("sensitivity", coin)
        return {"prevalence": prevalence, "sensitivity": sensitivity}

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(prevalence), the same for all items."""
        return Categorical(parameters["prevalence"])

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return each annotation's rows: batch ``(A, K)``."""
        return Categorical(_table(parameters["sensitivity"])[data.worker])

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log prevalence ``(..., K)``."""
        return parameters["prevalence"].log()

    def log_confusion(self, parameters: Parameters) -> Tensor:
        """Return the tables in logs, ``(..., J, K, K)``."""
        return _table(parameters["sensitivity"]).log()

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of the priors, ``(...)``."""
        coins = beta_log_density(self.prior_correct, self.prior_incorrect, parameters["sensitivity"]).sum((-2, -1))
        return dirichlet_log_density(self._classes(data), parameters["prevalence"]) + coins

    def m_step(self, responsibility: Tensor, data: Annotations, reuse: Parameters | None = None) -> Parameters:
        """Return the modes given ``(..., N, K)`` responsibilities."""
        return self.m_step_from(sums_of(responsibility, data), data)

    def m_step_from(self, sums: Sums, data: Annotations) -> Parameters:
        """Return the same from the sums over items."""
        right, wrong = _right_and_wrong(sums.counts)
        return {
            "prevalence": dirichlet_mode(self._classes(data) + sums.size),
            "sensitivity": beta_mode(right + self.prior_correct, wrong + self.prior_incorrect),
        }

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw prevalence and sensitivities given truths ``(C, N)``."""
        return self.gibbs_from(sums_of(one_hot(truth, data), data), data)

    def gibbs_from(self, sums: Sums, data: Annotations) -> Parameters:
        """Draw the same from the sums over items."""
        right, wrong = _right_and_wrong(sums.counts)
        return {
            "prevalence": sample_dirichlet(self._classes(data) + sums.size),
            "sensitivity": Beta(1 + self.prior_correct + right, 1 + self.prior_incorrect + wrong).sample(),
        }

    def expected_from(self, sums: Sums, data: Annotations) -> Expected:
        """Return what mean-field variational Bayes expects of the same posteriors."""
        coins, classes = self._coins(data), self._classes(data)
        prior, prevalence, of_prevalence = dirichlet_expected(classes + sums.size, classes)
        logs, sensitivity, of_coins = dirichlet_expected(coins + torch.stack(_right_and_wrong(sums.counts), -1), coins)
        table = coin_tables(logs[..., 0], logs[..., 1], data.K)
        mean = {"prevalence": prevalence, "sensitivity": sensitivity[..., 0]}
        return Expected(table, prior, of_prevalence + of_coins, mean)

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return the mean-field guide, begun at the prior plus the counts of a majority vote."""
        share = data.majority()
        right, wrong = _right_and_wrong(data.counts.expected(share))
        first = {
            "prevalence": self._classes(data) + share.sum(0),
            "sensitivity": torch.stack([1 + self.prior_correct + right, 1 + self.prior_incorrect + wrong], -1),
        }
        return mean_field(first, {"sensitivity": "beta"}, {"prevalence": "dirichlet"})

    def _coins(self, data: Annotations) -> Tensor:
        return torch.tensor([1 + self.prior_correct, 1 + self.prior_incorrect], dtype=data.dtype, device=data.device)

    def _classes(self, data: Annotations) -> Tensor:
        return torch.full((data.K,), 1 + self.prior_items, dtype=data.dtype, device=data.device)


def _right_and_wrong(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return right and wrong annotations of each worker in each class, ``(..., J, K)``, of counts ``(..., J, K, K)``."""
    right = torch.diagonal(counts, dim1=-2, dim2=-1)
    return right, (counts.sum(-1) - right).clamp(min=0)


def _table(sensitivity: Tensor) -> Tensor:
    """Return ``p(label | truth)`` of each worker, ``(..., J, K, K)``."""
    return coin_tables(sensitivity, 1 - sensitivity, sensitivity.shape[-1])
