"""One coin a worker: the correct label with one probability, whatever the class.

Incorrect labels are spread evenly, so that a worker is a single number: the model of ZenCrowd (Demartini, Difallah and
Cudré-Mauroux 2012, ZenCrowd: leveraging probabilistic reasoning and crowdsourcing techniques for large-scale entity linking,
WWW), and Dawid and Skene's with symmetric noise (Zhang, Chen, Zhou and Jordan 2014, Spectral methods meet EM, NIPS).

Model::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    accuracy    a_j           ~ Beta(1 + prior_correct, 1 + prior_incorrect)          for each worker
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k = k with probability a_j, else any of the others:  (1 - a_j) / (K - 1)

With few annotations a worker, one number can be learned where a matrix cannot. Where some classes are harder than others, or
are confused with each other, the model is misspecified.
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
class OneCoin(CommonPrevalence, AnnotationModel):
    """One accuracy for each worker.

    Attributes:
        prior_correct: correct pseudo-annotations of every worker, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations.
        prior_items: pseudo-items of every class.
    """

    prior_correct: float = 4.0
    prior_incorrect: float = 1.0
    prior_items: float = 0.0

    dims: ClassVar = {"prevalence": ("true_label",), "accuracy": ("worker",)}

    def __post_init__(self) -> None:
        require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_items")

    @classmethod
    def maximum_likelihood(cls) -> OneCoin:
        """Return the model with flat priors, so that EM maximises the likelihood."""
        return cls(prior_correct=0.0, prior_incorrect=0.0, prior_items=0.0)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)`` and accuracy ``(J,)``."""
        prevalence = pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))
        with plates.worker:
            accuracy = pyro.sample("accuracy", Beta(1.0 + self.prior_correct, 1.0 + self.prior_incorrect))
        return {"prevalence": prevalence, "accuracy": accuracy}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of each annotation's worker: batch ``(A, K)``."""
        return Categorical(self.confusion(parameters, data)[data.worker])

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the symmetric tables, ``(..., J, K, K)``."""
        return symmetric_confusion(parameters["accuracy"].unsqueeze(-1), data.K)

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return the items of each class, and each worker's correct and incorrect annotations ``(..., J, 2)``."""
        return {
            "prevalence": statistics.item_counts,
            "accuracy": correct_and_incorrect(statistics.label_counts).sum(-2),
        }
