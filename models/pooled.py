"""Pooled: one confusion matrix for all workers.

The multinomial model of Carpenter (2008, Multilevel Bayesian models of categorical data annotation; the first of six in Paun et
al. 2018, Comparing Bayesian models of annotation, TACL 6): what a label says depends on the label, not on who gave it. Who
gave which label need not be known. Where workers differ it is less accurate and far too sure; where each has given a handful
of labels it is hard to beat.

Story::

    prevalence  p             ~ Dirichlet(1 + items)
    common      B_k           ~ Dirichlet(1 + imaginary answers)      row of each class, for everybody
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k ~ Categorical(B_k)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet, times_log
from crowdppl.model.base import AnnotationModel, Parameters, one_hot
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, mean_field, rows
from crowdppl.model.hyperparameters import require_answers
from crowdppl.model.plates import Plates


@final
@dataclass(frozen=True)
class Pooled(AnnotationModel):
    """One confusion matrix for everybody.

    Attributes:
        prior_correct: imaginary right answers in every class, on top of a flat prior.
        prior_incorrect: imaginary wrong answers in every class, shared evenly by the wrong labels.
        prior_items: imaginary items of every class.
    """

    prior_correct: float = 4.0
    prior_incorrect: float = 1.0
    prior_items: float = 0.0

    dims: ClassVar = {"prevalence": ("true_label",), "common": ("true_label", "given_label")}
    batched_m_step: ClassVar = True

    def __post_init__(self) -> None:
        require_answers(self, "prior_correct", "prior_incorrect", "prior_items")

    @classmethod
    def maximum_likelihood(cls) -> Pooled:
        """Return the model with flat priors, so that EM climbs the likelihood."""
        return cls(prior_correct=0.0, prior_incorrect=0.0, prior_items=0.0)

    # ------------------------------------------------------------------ the story

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)`` and common ``(K, K)``."""
        prevalence = pyro.sample("prevalence", Dirichlet(self._classes(data)))
        common = pyro.sample("common", Dirichlet(rows(data, self.prior_correct, self.prior_incorrect)).to_event(1))
        return {"prevalence": prevalence, "common": common}

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(prevalence), the same for all items."""
        return Categorical(parameters["prevalence"])

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the same rows for every annotation: batch ``(A, K)``."""
        return Categorical(parameters["common"].expand(data.A, data.K, data.K))

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log prevalence ``(..., K)``."""
        return parameters["prevalence"].log()

    def evidence(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``(..., N, K)`` from the votes alone."""
        return times_log(data.weighted_votes, parameters["common"].log())

    def confusion_of(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the one matrix for every worker, ``(..., J, K, K)``."""
        common = parameters["common"].unsqueeze(-3)
        return common.expand(*common.shape[:-3], data.J, data.K, data.K)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of the priors, ``(...)``."""
        table = dirichlet_log_density(rows(data, self.prior_correct, self.prior_incorrect), parameters["common"]).sum(
            -1
        )
        return dirichlet_log_density(self._classes(data), parameters["prevalence"]) + table

    def m_step(self, responsibility: Tensor, data: Annotations, reuse: Parameters | None = None) -> Parameters:
        """Return the modes given ``(..., N, K)`` responsibilities."""
        return {
            "prevalence": dirichlet_mode(self._classes(data) + responsibility.sum(-2)),
            "common": dirichlet_mode(
                rows(data, self.prior_correct, self.prior_incorrect) + responsibility.mT @ data.weighted_votes
            ),
        }

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw prevalence and the matrix given truths ``(C, N)``."""
        chosen = one_hot(truth, data)  # (C, N, K)
        return {
            "prevalence": sample_dirichlet(self._classes(data) + chosen.sum(-2)),
            "common": sample_dirichlet(
                rows(data, self.prior_correct, self.prior_incorrect) + chosen.mT @ data.weighted_votes
            ),
        }

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return the mean-field guide, begun at the prior plus the counts of a majority vote."""
        share = data.majority()
        first = {
            "prevalence": self._classes(data) + share.sum(0),
            "common": rows(data, self.prior_correct, self.prior_incorrect) + share.mT @ data.weighted_votes,
        }
        return mean_field(first, {}, {"prevalence": "dirichlet", "common": "dirichlet"})

    def _classes(self, data: Annotations) -> Tensor:
        return torch.full((data.K,), 1 + self.prior_items, dtype=data.dtype, device=data.device)
