"""Dawid and Skene's model with item difficulty: an ability for each worker and class, a difficulty for each item.

B. Carpenter (2008), Multilevel Bayesian models of categorical data annotation, technical report: the binomial logit model with
annotator effects by class, item effects and a population of annotators.

Model, with log odds of the correct label ``x_nk = a_jk - b_i`` for annotation ``n`` of item ``i`` by worker ``j``::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    typical     m_k           ~ Normal(mean_ability, 1)               mean ability in class k; (K,)
    ability     a_jk          ~ Normal(m_k, ability_scale)            (J, K)
    difficulty  b_i           ~ Normal(0, difficulty_scale)           (N,)
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k = k with probability sigmoid(x_nk), else any of the others

For two classes ``a_j1`` and ``a_j0`` are the logits of sensitivity and specificity for an item of mean difficulty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, Normal
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model import correct_odds
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.correct_odds import Scalars
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior

SPREAD = 1.0  # prior standard deviation of the mean abilities


@final
@dataclass(frozen=True)
class ItemDifficulty(CommonPrevalence, AnnotationModel):
    """A worker's ability in each class, minus the item's difficulty.

    Attributes:
        mean_ability: prior mean of the population's abilities; 1.5 is 82% correct.
        ability_scale: standard deviation of the workers' abilities around the population's.
        difficulty_scale: prior standard deviation of the difficulties.
        prior_items: pseudo-items of every class.
    """

    mean_ability: float = 1.5
    ability_scale: float = 1.0
    difficulty_scale: float = 1.0
    prior_items: float = 1.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "typical": ("true_label",),
        "ability": ("worker", "true_label"),
        "difficulty": ("item",),
    }

    def __post_init__(self) -> None:
        require_positive(self, "mean_ability", "ability_scale", "difficulty_scale")
        require_pseudo_counts(self, "prior_items")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence and typical ability ``(K,)``, ability ``(J, K)`` and difficulty ``(N,)``."""
        mean = torch.full((data.K,), self.mean_ability, dtype=data.dtype, device=data.device)
        prevalence = pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))
        typical = pyro.sample("typical", Normal(mean, SPREAD).to_event(1))
        with plates.worker:
            ability = pyro.sample("ability", Normal(typical, self.ability_scale).to_event(1))
        with plates.item:
            difficulty = pyro.sample("difficulty", Normal(0.0, self.difficulty_scale))
        return {"prevalence": prevalence, "typical": typical, "ability": ability, "difficulty": difficulty}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each label: batch ``(A, K)``."""
        return correct_odds.labels_given(self.log_odds(parameters, data), data.K)

    def log_odds(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ability minus difficulty for each annotation and class, ``(A, K)``."""
        return parameters["ability"][data.worker] - parameters["difficulty"][data.item].unsqueeze(-1)

    # ------------------------------------------------------------------ closed forms

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's labels, ``(N, K)``."""
        return correct_odds.log_likelihoods(self.log_odds(parameters, data), data)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return modes of prevalence and typical ability, and abilities and difficulties after Newton steps."""
        K, precision = data.K, self.ability_scale**-2
        now = {
            "typical": responsibility.new_full((K,), self.mean_ability),
            "ability": responsibility.new_full((data.J, K), self.mean_ability),
            "difficulty": responsibility.new_zeros(data.N),
        }
        now |= {name: parameters[name] for name in now} if parameters is not None else {}
        cell = data.worker.unsqueeze(-1) * K + torch.arange(K, device=data.device)  # (A, K)
        one = responsibility.new_ones(1, 1)
        for _ in range(5 if parameters is None else 1):
            blocks = (
                Scalars("ability", cell, lambda p: one, now["typical"], self.ability_scale),
                Scalars("difficulty", data.item.unsqueeze(-1), lambda p: -one, 0.0, self.difficulty_scale),
            )
            now = correct_odds.newton_steps(blocks, lambda p: self.log_odds(p, data), responsibility, data, now)
            total = precision * now["ability"].sum(0) + self.mean_ability / SPREAD**2
            now["typical"] = total / (data.J * precision + SPREAD**-2)
        return {"prevalence": dirichlet_mode(self.prior_items + responsibility.sum(-2))} | now
