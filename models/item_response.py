"""Item response models with unknown answers: ability of workers, difficulty and discrimination of items.

G. Rasch (1960), Probabilistic models for some intelligence and attainment tests, and A. Birnbaum (1968), in F. M. Lord and
M. R. Novick, Statistical theories of mental test scores. Which answers are correct is not known here: it is the true label.

Model, with log odds of the correct label ``x_n = d_i (a_j - b_i)`` for annotation ``n`` of item ``i`` by worker ``j``::

    prevalence      p             = 1 / K, or ~ Dirichlet(1 + prior_items)
    ability         a_j           ~ Normal(mean_ability, ability_scale)         (J,)
    difficulty      b_i           ~ Normal(0, difficulty_scale)                 (N,)
    discrimination  log d_i       ~ Normal(0, discrimination_scale)             two parameters; with one, d_i = 1; (N,)
    truth           z_i           ~ Categorical(p)
    label           y_n | z_i = k = k with probability sigmoid(x_n), else any of the others

The models are for two labels; with more, incorrect labels are equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Normal
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.model import correct_odds
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.correct_odds import Scalars
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts, require_whole
from crowdppl.model.plates import Plates
from crowdppl.model.priors import log_prevalence, prevalence_prior


@final
@dataclass(frozen=True)
class ItemResponse(AnnotationModel):
    """Ability minus difficulty, times discrimination in the two-parameter model.

    Attributes:
        item_parameters: 1, difficulty only (Rasch), or 2, difficulty and discrimination (Birnbaum).
        mean_ability: prior mean of the abilities, above 0: most workers are better than chance.
        ability_scale: prior standard deviation of the abilities.
        difficulty_scale: prior standard deviation of the difficulties.
        discrimination_scale: prior standard deviation of the log discriminations.
        prior_items: pseudo-items of every class; ``None`` for equally common classes.
    """

    item_parameters: int = 1
    mean_ability: float = 1.5
    ability_scale: float = 1.0
    difficulty_scale: float = 1.0
    discrimination_scale: float = 0.5
    prior_items: float | None = None

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "ability": ("worker",),
        "difficulty": ("item",),
        "log_discrimination": ("item",),
    }

    def __post_init__(self) -> None:
        require_whole(self, "item_parameters")
        if self.item_parameters > 2:
            raise ModelError(f"ItemResponse: item_parameters is {self.item_parameters}; it must be 1 or 2")
        require_positive(self, "mean_ability", "ability_scale", "difficulty_scale", "discrimination_scale")
        if self.prior_items is not None:
            require_pseudo_counts(self, "prior_items")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, ability ``(J,)``, difficulty ``(N,)`` and, with two parameters, discrimination ``(N,)``."""
        out = prevalence_prior(data, self.prior_items)
        with plates.worker:
            out["ability"] = pyro.sample("ability", Normal(self.mean_ability, self.ability_scale))
        with plates.item:
            out["difficulty"] = pyro.sample("difficulty", Normal(0.0, self.difficulty_scale))
            if self.item_parameters == 2:
                out["log_discrimination"] = pyro.sample("log_discrimination", Normal(0.0, self.discrimination_scale))
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of the classes, the same for all items."""
        return Categorical(logits=log_prevalence(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each label: batch ``(A, K)``."""
        return correct_odds.labels_given(self.log_odds(parameters, data), data.K)

    def log_odds(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return discrimination times the difference of ability and difficulty, ``(A, 1)``."""
        difference = parameters["ability"][data.worker] - parameters["difficulty"][data.item]
        return difference.unsqueeze(-1) * self._discrimination(parameters, data)

    def _discrimination(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the discrimination of each annotation's item, ``(A, 1)``; ones in the one-parameter model."""
        if self.item_parameters == 1:
            return torch.ones(data.A, 1, dtype=data.dtype, device=data.device)
        return parameters["log_discrimination"].exp()[data.item].unsqueeze(-1)

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log-probabilities of the classes, ``(..., K)``."""
        return log_prevalence(parameters, data)

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's labels, ``(N, K)``."""
        return correct_odds.log_likelihoods(self.log_odds(parameters, data), data)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the mode of the prevalence, and the scalars of workers and items after Newton steps."""
        zeros = responsibility.new_zeros(data.N)
        now = {"ability": responsibility.new_full((data.J,), self.mean_ability), "difficulty": zeros}
        worker, item = data.worker.unsqueeze(-1), data.item.unsqueeze(-1)

        def by_ability(p: Parameters) -> Tensor:
            return self._discrimination(p, data)

        def by_difficulty(p: Parameters) -> Tensor:
            return -self._discrimination(p, data)

        blocks = [
            Scalars("ability", worker, by_ability, self.mean_ability, self.ability_scale),
            Scalars("difficulty", item, by_difficulty, 0.0, self.difficulty_scale),
        ]
        if self.item_parameters == 2:
            now["log_discrimination"] = zeros
            # The derivative of d x by log d is d x itself.
            scale = self.discrimination_scale
            blocks.append(Scalars("log_discrimination", item, lambda p: self.log_odds(p, data), 0.0, scale))
        now |= {name: parameters[name] for name in now} if parameters is not None else {}
        rounds = 5 if parameters is None else 1
        raised = correct_odds.newton_steps(blocks, lambda p: self.log_odds(p, data), responsibility, data, now, rounds)
        if self.prior_items is None:
            return raised
        return raised | {"prevalence": dirichlet_mode(self.prior_items + responsibility.sum(-2))}
