"""GLAD: ability of workers times easiness of items.

J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma and J. Movellan (2009), Whose vote should count more: optimal integration of labels
from labelers of unknown expertise, Advances in Neural Information Processing Systems 22.

Model, with log odds of the correct label ``x_n = a_j exp(e_i)`` for annotation ``n`` of item ``i`` by worker ``j``::

    prevalence  p             = 1 / K, or ~ Dirichlet(1 + prior_items)
    ability     a_j           ~ Normal(1, ability_scale)         below 0: adversarial; (J,)
    easiness    e_i           ~ Normal(1, easiness_scale)        1 / exp(e) is the paper's difficulty; (N,)
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k = k with probability sigmoid(x_n)  (equation 1), else any of the others

The paper has two classes; more are as in its implementations. EM finds the joint mode of ability and easiness (its section 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
from pyro.distributions import Categorical, Normal
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model import correct_odds
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.correct_odds import Scalars
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.priors import log_prevalence, prevalence_prior

MEAN = 1.0  # of ability and of log easiness, as in the paper's experiments


@final
@dataclass(frozen=True)
class GLAD(AnnotationModel):
    """An ability for each worker, an easiness for each item, and their product.

    Attributes:
        ability_scale: prior standard deviation of the abilities.
        easiness_scale: prior standard deviation of the log easiness.
        prior_items: pseudo-items of every class; ``None`` for equally common classes, as in the paper.
    """

    ability_scale: float = 1.0
    easiness_scale: float = 1.0
    prior_items: float | None = None

    dims: ClassVar = {"prevalence": ("true_label",), "ability": ("worker",), "easiness": ("item",)}

    def __post_init__(self) -> None:
        require_positive(self, "ability_scale", "easiness_scale")
        if self.prior_items is not None:
            require_pseudo_counts(self, "prior_items")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, ability ``(J,)`` and log easiness ``(N,)``."""
        out = prevalence_prior(data, self.prior_items)
        with plates.worker:
            out["ability"] = pyro.sample("ability", Normal(MEAN, self.ability_scale))
        with plates.item:
            out["easiness"] = pyro.sample("easiness", Normal(MEAN, self.easiness_scale))
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of the classes, the same for all items."""
        return Categorical(logits=log_prevalence(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each label: batch ``(A, K)``."""
        return correct_odds.labels_given(self.log_odds(parameters, data), data.K)

    def log_odds(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ability times easiness of each annotation, ``(A, 1)``."""
        return (parameters["ability"][data.worker] * parameters["easiness"].exp()[data.item]).unsqueeze(-1)

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log-probabilities of the classes, ``(..., K)``."""
        return log_prevalence(parameters, data)

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's labels, ``(N, K)``."""
        return correct_odds.log_likelihoods(self.log_odds(parameters, data), data)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the mode of the prevalence, and abilities and easiness after Newton steps."""
        now = {
            "ability": responsibility.new_full((data.J,), MEAN),
            "easiness": responsibility.new_full((data.N,), MEAN),
        }
        now |= {name: parameters[name] for name in now} if parameters is not None else {}
        blocks = (
            Scalars(
                "ability",
                data.worker.unsqueeze(-1),
                lambda p: p["easiness"].exp()[data.item].unsqueeze(-1),
                MEAN,
                self.ability_scale,
            ),
            Scalars("easiness", data.item.unsqueeze(-1), lambda p: self.log_odds(p, data), MEAN, self.easiness_scale),
        )
        rounds = 5 if parameters is None else 1
        raised = correct_odds.newton_steps(blocks, lambda p: self.log_odds(p, data), responsibility, data, now, rounds)
        if self.prior_items is None:
            return raised
        return raised | {"prevalence": dirichlet_mode(self.prior_items + responsibility.sum(-2))}
