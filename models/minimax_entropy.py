"""Minimax conditional entropy: confusion of the worker plus confusion of the item, on the logit scale.

D. Zhou, Q. Liu, J. C. Platt, C. Meek and N. B. Shah (2015), Regularized minimax conditional entropy for crowdsourcing,
arXiv:1503.07240; D. Zhou, J. C. Platt, S. Basu and Y. Mao (2012), Learning from the wisdom of crowds by minimax entropy, Advances
in Neural Information Processing Systems 25.

The dual of the minimax problem is a maximum of the posterior of this model::

    worker  t_jkl         ~ Normal(0, 1 / sqrt(alpha))         (J, K, K)
    item    s_ikl         ~ Normal(0, 1 / sqrt(beta))          (N, K, K)
    truth   z_i           ~ Uniform
    label   y_n | z_i = k ~ Categorical(softmax_l(s_ikl + t_jkl))

with the penalties ``alpha / 2 sum t^2`` and ``beta / 2 sum s^2`` of the regularised form. As in the paper, ``beta`` is ``alpha``
times the mean number of annotations of a worker over that of an item, that is ``alpha N / J``. The paper has
``alpha = gamma K^2`` and chooses ``gamma`` for each data set; here ``alpha`` is 1 by default. With many classes
``alpha = K^2 / 4`` exceeds what the labels say, and EM ends where all effects are 0 and all classes equally probable.

EM alternates between classes and parameters, as the paper's algorithm does. The model is difficulty times competence
(:class:`crowdppl.models.LIA`) with one latent dimension and a free table for each item and worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Normal
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model import label_logits
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import require_positive
from crowdppl.model.label_logits import Effects
from crowdppl.model.plates import Plates
from crowdppl.model.priors import log_prevalence


@final
@dataclass(frozen=True)
class MinimaxEntropy(AnnotationModel):
    """A table of effects on the logits for each worker, and one for each item.

    Attributes:
        penalty: the paper's ``gamma``; ``alpha = penalty K^2`` is the prior precision of the workers' effects. Defaults to
            ``1 / K^2``.
        items_per_worker: prior precision of the items' effects over that of the workers'. Defaults to the number of items over
            the number of workers, as in the paper.
    """

    penalty: float | None = None
    items_per_worker: float | None = None

    dims: ClassVar = {
        "worker_effects": ("worker", "true_label", "given_label"),
        "item_effects": ("item", "true_label", "given_label"),
    }

    def __post_init__(self) -> None:
        require_positive(self, *(name for name in ("penalty", "items_per_worker") if getattr(self, name) is not None))

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """One start of EM, at the majority vote: nothing else says which class is which label."""
        return {"em": {"restarts": 0}}

    def scales(self, data: Annotations) -> tuple[float, float]:
        """Return the prior standard deviations of the effects of workers and of items."""
        alpha = 1.0 if self.penalty is None else self.penalty * data.K**2
        ratio = data.N / max(1, data.J) if self.items_per_worker is None else self.items_per_worker
        return alpha**-0.5, (alpha * ratio) ** -0.5

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample the effects of workers ``(J, K, K)`` and of items ``(N, K, K)``."""
        zeros = torch.zeros(data.K, data.K, dtype=data.dtype, device=data.device)
        by_worker, by_item = self.scales(data)
        with plates.worker:
            worker = pyro.sample("worker_effects", Normal(zeros, by_worker).to_event(2))
        with plates.item:
            item = pyro.sample("item_effects", Normal(zeros, by_item).to_event(2))
        return {"worker_effects": worker, "item_effects": item}

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the uniform distribution over classes."""
        return Categorical(logits=log_prevalence(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each label: batch ``(A, K)``."""
        return Categorical(logits=label_logits.logits(self._blocks(data), parameters))

    def _blocks(self, data: Annotations) -> tuple[Effects, Effects]:
        by_worker, by_item = self.scales(data)
        return (
            Effects("worker_effects", data.worker, 0.0, by_worker),
            Effects("item_effects", data.item, 0.0, by_item),
        )

    # ------------------------------------------------------------------ closed forms

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's labels, ``(N, K)``."""
        return label_logits.log_likelihoods(label_logits.logits(self._blocks(data), parameters), data)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the effects after Newton steps."""
        first = parameters is None
        if parameters is None:
            K = data.K
            parameters = {
                "worker_effects": responsibility.new_zeros(data.J, K, K),
                "item_effects": responsibility.new_zeros(data.N, K, K),
            }
        now = {name: parameters[name] for name in self.dims}
        return label_logits.newton_steps(self._blocks(data), responsibility, data, now, 10 if first else 1)
