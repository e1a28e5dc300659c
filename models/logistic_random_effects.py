"""Logistic random effects: worker effects around the crowd's confusion, and item effects, on the logit scale.

S. Paun, B. Carpenter, J. Chamberlain, D. Hovy, U. Kruschwitz and M. Poesio (2018), Comparing Bayesian models of annotation,
Transactions of the ACL 6, 571-585: LogRndEff.

Model::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    typical     m_kl          ~ Normal(diagonal [k = l], 1)              the crowd's effects; (K, K)
    worker      b_jkl         ~ Normal(m_kl, worker_scale)            (J, K, K)
    item        t_il          ~ Normal(0, item_scale)                 difficulty; (N, K)
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k ~ Categorical(softmax_l(b_jkl + t_il))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, Normal
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model import label_logits
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts
from crowdppl.model.label_logits import Effects
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior

SPREAD = 1.0  # prior standard deviation of the crowd's effects


@final
@dataclass(frozen=True)
class LogisticRandomEffects(CommonPrevalence, AnnotationModel):
    """Logits of labels: effects of the worker, around those of the crowd, and of the item.

    Attributes:
        diagonal: prior mean of the crowd's effect on the correct label; 2 is 79% correct with three classes.
        worker_scale: standard deviation of a worker's effects around the crowd's.
        item_scale: prior standard deviation of the items' effects.
        prior_items: pseudo-items of every class.
    """

    diagonal: float = 2.0
    worker_scale: float = 1.0
    item_scale: float = 0.5
    prior_items: float = 1.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "typical": ("true_label", "given_label"),
        "worker_effects": ("worker", "true_label", "given_label"),
        "item_effects": ("item", "given_label"),
    }

    def __post_init__(self) -> None:
        require_positive(self, "worker_scale", "item_scale")
        require_pseudo_counts(self, "diagonal", "prior_items")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, the crowd ``(K, K)``, and effects of workers ``(J, K, K)`` and items ``(N, K)``."""
        out = {"prevalence": pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))}
        out["typical"] = pyro.sample("typical", Normal(self._mean(data), SPREAD).to_event(2))
        with plates.worker:
            worker = Normal(out["typical"], self.worker_scale).to_event(2)
            out["worker_effects"] = pyro.sample("worker_effects", worker)
        with plates.item:
            zeros = torch.zeros(data.K, dtype=data.dtype, device=data.device)
            out["item_effects"] = pyro.sample("item_effects", Normal(zeros, self.item_scale).to_event(1))
        return out

    def _mean(self, data: Annotations) -> Tensor:
        return self.diagonal * torch.eye(data.K, dtype=data.dtype, device=data.device)

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each label: batch ``(A, K)``."""
        return Categorical(logits=label_logits.logits(self._blocks(data, parameters), parameters))

    def _blocks(self, data: Annotations, parameters: Parameters) -> tuple[Effects, Effects]:
        return (
            Effects("worker_effects", data.worker, parameters["typical"], self.worker_scale),
            Effects("item_effects", data.item, 0.0, self.item_scale),
        )

    # ------------------------------------------------------------------ closed forms

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's labels, ``(N, K)``."""
        return label_logits.log_likelihoods(label_logits.logits(self._blocks(data, parameters), parameters), data)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return modes of prevalence and crowd, and effects after Newton steps."""
        mean, precision = self._mean(data), self.worker_scale**-2
        now = {
            "typical": mean,
            "worker_effects": mean.expand(data.J, data.K, data.K).clone(),
            "item_effects": responsibility.new_zeros(data.N, data.K),
        }
        now |= {name: parameters[name] for name in now} if parameters is not None else {}
        for _ in range(10 if parameters is None else 1):
            now = label_logits.newton_steps(self._blocks(data, now), responsibility, data, now)
            total = precision * now["worker_effects"].sum(0) + mean / SPREAD**2
            now["typical"] = total / (data.J * precision + SPREAD**-2)
        return {"prevalence": dirichlet_mode(self.prior_items + responsibility.sum(-2))} | now
