"""Prototype mixture: each worker's confusion matrix is a mixture of prototypes that all workers share.

Prototype-driven Bayesian classifier combination (PTBCC, 2025, arXiv 2508.02123): with few labels a worker, mixture weights can be
learned where a matrix cannot.

Model, with ``M`` prototypes::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    prototypes  f_mk          ~ Dirichlet(1 + pseudo-annotations)     row of class k of prototype m; (M, K, K)
    weights     w_j           ~ Dirichlet(1 + prior_weights)          of worker j; (J, M)
    truth       z_i           ~ Categorical(p)
    prototype   m_n           ~ Categorical(w_j)                      of each annotation
    label       y_n | z_i = k ~ Categorical(f_mk)

A worker's confusion matrix is ``sum_m w_jm f_m``. The prototype of an annotation is summed out: by its posterior probabilities
in EM, by a draw in Gibbs sampling. All prototypes but the last have ``prior_correct`` pseudo-annotations on the diagonal, each
half as many as the one before, so that they cannot change places; the last has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import refuse_weights, require_pseudo_counts, require_whole
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior


@final
@dataclass(frozen=True)
class PrototypeMixture(CommonPrevalence, AnnotationModel):
    """Shared prototypes of confusion matrices, and mixture weights for each worker.

    Attributes:
        prototypes: number of prototypes.
        prior_correct: correct pseudo-annotations of the first prototype in every class, on top of a flat prior.
        prior_labels: pseudo-annotations of each label in every row of every prototype.
        prior_weights: pseudo-annotations of every worker by each prototype.
        prior_items: pseudo-items of every class.
    """

    prototypes: int = 3
    prior_correct: float = 8.0
    prior_labels: float = 0.1
    prior_weights: float = 0.1
    prior_items: float = 1.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "prototypes": ("prototype", "true_label", "given_label"),
        "prototype_weights": ("worker", "prototype"),
    }

    def __post_init__(self) -> None:
        require_whole(self, "prototypes")
        require_pseudo_counts(self, "prior_correct", "prior_labels", "prior_weights", "prior_items")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, prototypes ``(M, K, K)`` and weights ``(J, M)``."""
        one = torch.ones((), dtype=data.dtype, device=data.device)
        strength = self.prior_correct * 0.5 ** torch.arange(self.prototypes, dtype=data.dtype, device=data.device)
        if self.prototypes > 1:
            strength[-1] = 0
        rows = (
            one + self.prior_labels + strength[:, None, None] * torch.eye(data.K, dtype=data.dtype, device=data.device)
        )
        prevalence = pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))
        prototypes = pyro.sample("prototypes", Dirichlet(rows).to_event(2))
        with plates.worker:
            weights = pyro.sample("prototype_weights", Dirichlet((one + self.prior_weights).expand(self.prototypes)))
        return {"prevalence": prevalence, "prototypes": prototypes, "prototype_weights": weights}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of each annotation's worker: batch ``(A, K)``."""
        return Categorical(self.confusion(parameters, data)[data.worker])

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse Gibbs sampling of items with weights that are not whole: it counts annotations."""
        return refuse_weights(method, data)

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label | truth)`` of each worker, ``(..., J, K, K)``."""
        return torch.einsum("...jm,...mkl->...jkl", parameters["prototype_weights"], parameters["prototypes"])

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return items by class, annotations by prototype, class and label, and each worker's by prototype."""
        now = statistics.parameters
        assert now is not None
        weights = now["prototype_weights"].mT[..., None, None]  # (..., M, J, 1, 1)
        share = weights * now["prototypes"].unsqueeze(-3)  # (..., M, J, K, K)
        later = share.flip(-4).cumsum(-4).flip(-4)  # of this prototype or one after it
        left, parts = statistics.label_counts, []
        for m in range(
            self.prototypes - 1
        ):  # one after the other: from this prototype, given that from none before it?
            part = statistics.split(left, (share[..., m, :, :, :] / above_zero(later[..., m, :, :, :])).clamp(max=1))
            parts.append(part)
            left = left - part
        counts = torch.stack([*parts, left], -4)  # (..., M, J, K, K)
        return {
            "prevalence": statistics.item_counts,
            "prototypes": counts.sum(-3),
            "prototype_weights": counts.sum((-2, -1)).mT,
        }
