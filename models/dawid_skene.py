"""Dawid & Skene's model: every worker has a confusion matrix of their own.

A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm. Applied
Statistics 28(1), 20-28. Bayesian: H.-C. Kim and Z. Ghahramani (2012), Bayesian classifier combination, AISTATS.

Model::

    prevalence      pi       (K,)       ~ Dirichlet(a)
    confusion       theta_j  (K, K)     ~ Dirichlet(B_k) for each true label k of worker j     [paper: pi_kl^(j)]
    truth           z_i                 ~ Categorical(pi)                                      [paper: T_ij, q]
    label           y_n | z_i = k       ~ Categorical(theta_j[k]),  i = item[n], j = worker[n]

Repeated annotations of an item by one worker are independent draws, as in the paper (its first anaesthetist annotated each
patient three times). The paper maximises the likelihood; the default prior adds a few pseudo-annotations, see the fields. The M
step of EM is the paper's equations 2.3 and 2.4, plus the pseudo-counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import require_concentration, require_pseudo_counts, require_shares
from crowdppl.model.plates import Plates
from crowdppl.model.priors import class_prior, confusion_prior


@final
@dataclass(frozen=True)
class DawidSkene(AnnotationModel):
    """Dawid & Skene (1979) with Dirichlet priors.

    A flat prior is Dirichlet(1) and leaves the estimate to the data. The fields are pseudo-counts *on top of* it, in units of
    annotations: by default every worker starts with four correct annotations of each class and one incorrect one (for up to
    eight classes), which data soon outweigh. With all of them at zero the posterior mode maximises the likelihood.

    Attributes:
        prior_correct: correct pseudo-annotations of every worker in every class. Defaults to 4, or half the number of classes
            if that is more, since the flat prior itself counts one annotation for each label and would outweigh them.
        prior_incorrect: incorrect pseudo-annotations of every worker in every class, shared evenly by the incorrect labels.
        prior_items: pseudo-items of every class.
        concentration: the whole Dirichlet concentration of the confusion rows ``(K, K)`` = (true label, given label), in place
            of ``prior_correct`` and ``prior_incorrect``: one plus the pseudo-counts.
        prevalence: share of each class, held fixed; ``None`` to learn it.
    """

    prior_correct: float | None = None
    prior_incorrect: float = 1.0
    prior_items: float = 0.0
    concentration: tuple[tuple[float, ...], ...] | None = None
    prevalence: tuple[float, ...] | None = None

    dims: ClassVar = {"prevalence": ("true_label",), "confusion": ("worker", "true_label", "given_label")}

    def __post_init__(self) -> None:
        names = ["prior_incorrect", "prior_items"] + ["prior_correct"] * (self.prior_correct is not None)
        require_pseudo_counts(self, *names)
        if self.concentration is not None:
            require_concentration(self, self.concentration)
        if self.prevalence is not None:
            require_shares(self, "prevalence")

    @classmethod
    def maximum_likelihood(cls) -> DawidSkene:
        """Return the paper's estimator: flat priors, so that EM maximises the likelihood."""
        return cls(prior_correct=0.0, prior_incorrect=0.0, prior_items=0.0)

    def _fixed(self, data: Annotations) -> Tensor:
        """Return the fixed prevalence, ``(K,)``."""
        assert self.prevalence is not None
        if len(self.prevalence) != data.K:
            raise ModelError(f"DawidSkene: prevalence is for {len(self.prevalence)} classes; the data have {data.K}")
        return torch.tensor(self.prevalence, dtype=data.dtype, device=data.device)

    def concentrations(self, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the Dirichlet concentrations of prevalence ``(K,)`` and confusion rows ``(K, K)``."""
        prevalence = class_prior(data, self.prior_items)
        if self.concentration is None:
            correct = max(4.0, data.K / 2) if self.prior_correct is None else self.prior_correct
            return prevalence, confusion_prior(data, correct, self.prior_incorrect)
        rows = torch.tensor(self.concentration, dtype=data.dtype, device=data.device)
        if len(rows) != data.K:
            raise ModelError(f"DawidSkene: concentration is for {len(rows)} classes; the data have {data.K}")
        return prevalence, rows

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)`` and confusion ``(J, K, K)``."""
        a, B = self.concentrations(data)
        out = {} if self.prevalence is not None else {"prevalence": pyro.sample("prevalence", Dirichlet(a))}  # (K,)
        with plates.worker:
            out["confusion"] = pyro.sample("confusion", Dirichlet(B).to_event(1))  # (J, K, K)
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(prevalence), the same for all items."""
        return Categorical(parameters["prevalence"] if self.prevalence is None else self._fixed(data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker's confusion matrix: batch ``(A, K)``."""
        return Categorical(parameters["confusion"][data.worker])

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log prevalence ``(..., K)``: minus infinity for an empty class, where torch's Categorical has -36."""
        return (parameters["prevalence"] if self.prevalence is None else self._fixed(data)).log()

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the confusion matrices ``(..., J, K, K)``."""
        return parameters["confusion"]

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return the items of each class, and each worker's labels by true label."""
        shares = {} if self.prevalence is not None else {"prevalence": statistics.item_counts}
        return {**shares, "confusion": statistics.label_counts}
