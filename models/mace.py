"""MACE: workers who know the label or guess it, each with a distribution of guesses of their own.

D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013), Learning whom to trust with MACE, NAACL-HLT, 1120-1130.

Model (the paper's section 2)::

    knowledge   t_j              ~ Beta(1 + prior_known, 1 + prior_guesses)       the paper's competence; (J,)
    guess       g_j              ~ Dirichlet(1 + prior_strategy)                  where the worker does not know; (J, K)
    prevalence  p                ~ Dirichlet(1 + prior_items)
    truth       z_i              ~ Categorical(p)
    label       y_n | z_i = k    = k with probability t_j, else drawn from g_j

A worker's confusion matrix is ``t_j I + (1 - t_j) 1 g_j``. Labels are split in two kinds, known and guessed, by their posterior
probabilities in EM, and by a draw in Gibbs sampling. In the paper classes are equally common:
``prior_items=None``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Beta, Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import refuse_weights, require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import class_prior, log_prevalence, prevalence_prior


@final
@dataclass(frozen=True)
class MACE(AnnotationModel):
    """A probability of knowing for each worker, and a distribution of guesses.

    Attributes:
        prior_known: known pseudo-annotations of every worker, on top of a flat prior.
        prior_guesses: guessed pseudo-annotations of every worker.
        prior_strategy: pseudo-guesses of each label.
        prior_items: pseudo-items of every class; ``None`` for equally common classes, as in the paper.
    """

    prior_known: float = 1.0
    prior_guesses: float = 1.0
    prior_strategy: float = 1.0
    prior_items: float | None = 1.0

    dims: ClassVar = {"prevalence": ("true_label",), "knowledge": ("worker",), "guess": ("worker", "given_label")}

    def __post_init__(self) -> None:
        require_pseudo_counts(self, "prior_known", "prior_guesses", "prior_strategy")
        if self.prior_items is not None:
            require_pseudo_counts(self, "prior_items")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, knowledge ``(J,)`` and guess ``(J, K)``."""
        out = prevalence_prior(data, self.prior_items)
        with plates.worker:
            out["knowledge"] = pyro.sample("knowledge", Beta(1.0 + self.prior_known, 1.0 + self.prior_guesses))
            out["guess"] = pyro.sample("guess", Dirichlet(class_prior(data, self.prior_strategy)))
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of the classes, the same for all items."""
        return Categorical(logits=log_prevalence(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of each annotation's worker: batch ``(A, K)``."""
        return Categorical(self.confusion(parameters, data)[data.worker])

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse Gibbs sampling of items with weights that are not whole: it counts known annotations."""
        return refuse_weights(method, data)

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log-probabilities of the classes, ``(..., K)``."""
        return log_prevalence(parameters, data)

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label | truth)`` of each worker, ``(..., J, K, K)``."""
        known = parameters["knowledge"][..., None, None]
        eye = torch.eye(data.K, dtype=known.dtype, device=known.device)
        return known * eye + (1 - known) * parameters["guess"].unsqueeze(-2)

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return items by class, known and guessed annotations ``(..., J, 2)``, and the guessed ones by label ``(..., J, K)``."""
        now = statistics.parameters
        assert now is not None
        guessing = (1 - now["knowledge"][..., None, None]) * now["guess"].unsqueeze(-2)
        share = (guessing / self.confusion(dict(now), data)).nan_to_num()
        guessed = statistics.split(statistics.label_counts, share)  # (..., J, K, K)
        counts = {
            "knowledge": torch.stack([(statistics.label_counts - guessed).sum((-2, -1)), guessed.sum((-2, -1))], -1),
            "guess": guessed.sum(-2),
        }
        return counts if self.prior_items is None else counts | {"prevalence": statistics.item_counts}
