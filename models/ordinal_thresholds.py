"""Ordinal labels: classes at equal distances on a line, and each worker's thresholds between labels.

The graded response model (F. Samejima 1969, Estimation of latent ability using a response pattern of graded scores, Psychometrika
Monograph 17) as a worker's confusion matrix: Dawid and Skene's model for ordered labels, with K numbers for each worker instead
of K (K - 1). The likelihood is that model's, in its logistic form: a worker is a test question with a discrimination and ordered
thresholds, an item a person tested. The latent grade is another: not continuous, but one of the K classes, at equal distances.

Model, with labels and classes in the order ``0..K-1``::

    prevalence  p                  ~ Dirichlet(1 + prior_items)
    precision   log c_j            ~ Normal(log precision, precision_scale)     (J,)
    first       t_j1               ~ Normal(1/2, threshold_scale)               below class 1 and above class 0; (J,)
    gaps        log (t_jl+1 - t_jl)~ Normal(0, gap_scale)                       (J, K - 2)
    truth       z_i                ~ Categorical(p)
    label       p(y_n >= l | z = k) = sigmoid(c_j (k - t_jl)),  l = 1..K-1

A worker with thresholds below the middle between classes prefers high labels; a large precision is a careful worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, Normal
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.blocks import graded_confusion, ordered_thresholds
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.hyperparameters import refuse_one_class, require_positive, require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior


@final
@dataclass(frozen=True)
class OrdinalThresholds(CommonPrevalence, AnnotationModel):
    """Ordered labels; thresholds and a precision for each worker.

    Attributes:
        precision: prior median of the precision; 4 is 76% correct in a class between two others.
        precision_scale: prior standard deviation of its logarithm.
        threshold_scale: prior standard deviation of the first threshold, in classes.
        gap_scale: prior standard deviation of the logarithms of distances between thresholds.
        prior_items: pseudo-items of every class.
    """

    precision: float = 4.0
    precision_scale: float = 0.7
    threshold_scale: float = 0.5
    gap_scale: float = 0.5
    prior_items: float = 1.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "log_precision": ("worker",),
        "first_threshold": ("worker",),
        "log_gaps": ("worker", "gap"),
    }

    def __post_init__(self) -> None:
        require_positive(self, "precision", "precision_scale", "threshold_scale", "gap_scale")
        require_pseudo_counts(self, "prior_items")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, log precision and first threshold ``(J,)`` and log gaps ``(J, K - 2)``."""
        out = {"prevalence": pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))}
        with plates.worker:
            centre = math.log(self.precision)
            out["log_precision"] = pyro.sample("log_precision", Normal(centre, self.precision_scale))
            out["first_threshold"] = pyro.sample("first_threshold", Normal(0.5, self.threshold_scale))
            if data.K > 2:
                zeros = torch.zeros(data.K - 2, dtype=data.dtype, device=data.device)
                out["log_gaps"] = pyro.sample("log_gaps", Normal(zeros, self.gap_scale).to_event(1))
        return out

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of each annotation's worker: batch ``(A, K)``."""
        return Categorical(self.confusion(parameters, data)[data.worker])

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse a single class."""
        return refuse_one_class(data)

    # ------------------------------------------------------------------ closed forms

    def thresholds(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the ordered thresholds, ``(..., J, K - 1)``."""
        return ordered_thresholds(parameters["first_threshold"], parameters.get("log_gaps"))

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label | truth)`` of each worker, ``(..., J, K, K)``."""
        places = torch.arange(data.K, dtype=data.dtype, device=data.device)
        return graded_confusion(places, self.thresholds(parameters, data), parameters["log_precision"].exp())

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the mode of the prevalence; gradients raise the rest."""
        return {"prevalence": dirichlet_mode(self.prior_items + responsibility.sum(-2))}
