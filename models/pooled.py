"""Pooled: one confusion matrix for all workers.

The multinomial model of Carpenter (2008, Multilevel Bayesian models of categorical data annotation; the first of six in Paun et
al. 2018, Comparing Bayesian models of annotation, TACL 6): what a label says depends on the label, not on who gave it. Who
gave which label need not be known. Where workers differ, the model is less accurate and far too confident; where each has given
a handful of labels, it is hard to beat.

Model::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    common      B_k           ~ Dirichlet(1 + pseudo-counts)      row of each class, for everybody
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k ~ Categorical(B_k)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior, confusion_prior


@final
@dataclass(frozen=True)
class Pooled(CommonPrevalence, AnnotationModel):
    """One confusion matrix for everybody.

    Attributes:
        prior_correct: correct pseudo-annotations in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations in every class, shared evenly by the incorrect labels.
        prior_items: pseudo-items of every class.
    """

    prior_correct: float = 4.0
    prior_incorrect: float = 1.0
    prior_items: float = 0.0

    dims: ClassVar = {"prevalence": ("true_label",), "common": ("true_label", "given_label")}

    def __post_init__(self) -> None:
        require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_items")

    @classmethod
    def maximum_likelihood(cls) -> Pooled:
        """Return the model with flat priors, so that EM maximises the likelihood."""
        return cls(prior_correct=0.0, prior_incorrect=0.0, prior_items=0.0)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)`` and common ``(K, K)``."""
        rows = confusion_prior(data, self.prior_correct, self.prior_incorrect)
        prevalence = pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))
        common = pyro.sample("common", Dirichlet(rows).to_event(1))
        return {"prevalence": prevalence, "common": common}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the same rows for every annotation: batch ``(A, K)``."""
        return Categorical(parameters["common"].expand(data.A, data.K, data.K))

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the one matrix that all workers share, ``(..., 1, K, K)``."""
        return parameters["common"].unsqueeze(-3)

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return the items of each class, and everybody's labels by true label."""
        return {"prevalence": statistics.item_counts, "common": statistics.label_counts.squeeze(-3)}
