"""Class-conditional: the correct label with a probability that depends on the class, incorrect labels spread evenly.

In two classes a worker is then a sensitivity and a specificity: the two-coin model of Raykar et al. (2010, Learning from
crowds, JMLR 11) without features, which for two classes is Dawid and Skene's (1979) model itself. In more classes it lies
between the single number of a one-coin worker and the full matrix: ``K`` numbers a worker, not ``K (K - 1)``.

Model::

    prevalence   p             ~ Dirichlet(1 + prior_items)
    sensitivity  s_jk          ~ Beta(1 + prior_correct, 1 + prior_incorrect)      for each worker and class
    truth        z_i           ~ Categorical(p)
    label        y_n | z_i = k = k with probability s_jk, else any of the others:  (1 - s_jk) / (K - 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
from pyro.distributions import Beta, Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior, correct_and_incorrect, symmetric_confusion


@final
@dataclass(frozen=True)
class ClassConditional(CommonPrevalence, AnnotationModel):
    """One probability of the correct label for each worker and class.

    Attributes:
        prior_correct: correct pseudo-annotations of every worker in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations.
        prior_items: pseudo-items of every class.
    """

    prior_correct: float = 4.0
    prior_incorrect: float = 1.0
    prior_items: float = 0.0

    dims: ClassVar = {"prevalence": ("true_label",), "sensitivity": ("worker", "true_label")}

    def __post_init__(self) -> None:
        require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_items")

    @classmethod
    def maximum_likelihood(cls) -> ClassConditional:
        """Return the model with flat priors, so that EM maximises the likelihood."""
        return cls(prior_correct=0.0, prior_incorrect=0.0, prior_items=0.0)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)`` and sensitivity ``(J, K)``."""
        prevalence = pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))
        with plates.worker:
            coin = Beta(1.0 + self.prior_correct, 1.0 + self.prior_incorrect).expand([data.K]).to_event(1)
            sensitivity = pyro.sample("sensitivity", coin)
        return {"prevalence": prevalence, "sensitivity": sensitivity}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of each annotation's worker: batch ``(A, K)``."""
        return Categorical(self.confusion(parameters, data)[data.worker])

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label | truth)`` of each worker, ``(..., J, K, K)``."""
        return symmetric_confusion(parameters["sensitivity"], data.K)

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return the items of each class, and each worker's correct and incorrect annotations by class ``(..., J, K, 2)``."""
        return {
            "prevalence": statistics.item_counts,
            "sensitivity": correct_and_incorrect(statistics.label_counts),
        }
