"""Judged systems: judges err differently for different systems, and every system has a prevalence of its own.

A model of a latent class (A. P. Dawid and A. M. Skene 1979, Applied Statistics 28, 20-28) with crossed random effects of errors
(R. H. Baayen, D. J. Davidson and D. M. Bates 2008, Mixed-effects modeling with crossed random effects for subjects and items,
Journal of Memory and Language 59, 390-412). Pooling of workers is as in Paun et al. (2018), Transactions of the ACL 6, 571-585.
The combination is this library's own.

Features of items say which of ``S`` systems was judged (one-hot); without features there is one system. Features of workers say
of which of ``F`` families the judge is (one-hot); without them there are no families. Model, for item ``i`` of system ``s``,
judge ``j`` of family ``f``, true label ``k`` and incorrect label ``l``::

    common      c_k        ~ Normal(0, 1)                            prevalence, as logits; (K,)
    system      q_sk       ~ Normal(0, prevalence_scale)             a system's around it; (S, K)
    typical     m_kl       ~ Normal(diagonal, 1)                     log odds of the correct label against l; (K, K-1)
    family      h_f0kl     ~ Normal(0, family_scale)                 of a family, for all systems; (F, 1 + S, K, K-1)
                h_fskl     ~ Normal(0, family_scale)                 and for system s
    judge       a_jkl      ~ Normal(m_kl + h_f0kl, judge_scale)      (J, K, K-1)
    system      t_skl      ~ Normal(0, system_scale)                 deviation for a system, shared by all judges; (S, K, K-1)
    interaction d_jskl     ~ Normal(h_fskl, interaction_scale)       of a judge for a system; (J, S, K, K-1)
    truth       z_i        ~ Categorical(softmax_k(c_k + q_sk))
    label       y_n | z_i = k: log odds of k against l are  a_jkl + t_skl + d_jskl

The logarithm of each of the five scales is ``Normal(log median, spread)``. Features other than one-hot enter linearly.

The joint mode of a scale and the deviations around zero that it governs is no estimate of the scale: it is near 0, far from what
the deviations are. EM holds the scales at their prior medians. SVI and NUTS learn them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, LogNormal, Normal
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sum_by
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import refuse_one_class, require_positive, require_pseudo_counts
from crowdppl.model.plates import Plates


@final
@dataclass(frozen=True)
class JudgedSystems(AnnotationModel):
    """Judges whose confusion varies by system, around their own and with their family, and a prevalence for each system.

    Attributes:
        diagonal: prior mean of the log odds of the correct label against each other one; 2 is 88% correct with two classes.
        prevalence_scale: prior median of the standard deviation of the systems' prevalences, on the logit scale.
        judge_scale: prior median of the standard deviation of judges around the typical one of their family.
        family_scale: prior median of the standard deviation of the families' deviations.
        system_scale: prior median of the standard deviation of deviations by system that all judges share.
        interaction_scale: prior median of the standard deviation of a judge's own deviations by system.
        spread: prior standard deviation of the logarithm of each scale.
    """

    diagonal: float = 2.0
    prevalence_scale: float = 0.7
    judge_scale: float = 0.7
    family_scale: float = 0.4
    system_scale: float = 0.4
    interaction_scale: float = 0.4
    spread: float = 0.5

    dims: ClassVar = {
        "common_prevalence": ("true_label",),
        "system_prevalence": ("system", "true_label"),
        "typical": ("true_label", "other_label"),
        "family_effects": ("family", "for_system", "true_label", "other_label"),
        "judge_effects": ("worker", "true_label", "other_label"),
        "system_effects": ("system", "true_label", "other_label"),
        "interaction_effects": ("worker", "system", "true_label", "other_label"),
        "prevalence_of_system": ("system", "true_label"),
        "confusion_by_system": ("worker", "system", "true_label", "given_label"),
    }

    def __post_init__(self) -> None:
        require_positive(self, "spread", *(f"{name}_scale" for name in _SCALES))
        require_pseudo_counts(self, "diagonal")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample scales, prevalences and log odds; shapes are in the module's docstring."""
        known, S, odds = data.worker_features, _systems(data).shape[-1], (data.K, data.K - 1)
        zero = torch.zeros((), dtype=data.dtype, device=data.device)

        def normal(name: str, mean: Tensor | float, scale: Tensor | float, *shape: int) -> Tensor:
            sampled: Tensor = pyro.sample(name, Normal(zero + mean, scale).expand(shape).to_event(len(shape)))
            return sampled

        out = {}
        for name in _SCALES if known is not None else [name for name in _SCALES if name != "family"]:
            median = getattr(self, f"{name}_scale")
            out[f"{name}_scale"] = pyro.sample(f"{name}_scale", LogNormal(zero + math.log(median), zero + self.spread))
        out["common_prevalence"] = normal("common_prevalence", 0.0, 1.0, data.K)
        out["system_prevalence"] = normal("system_prevalence", 0.0, out["prevalence_scale"], S, data.K)
        out["typical"] = normal("typical", self.diagonal, 1.0, *odds)
        out["system_effects"] = normal("system_effects", 0.0, out["system_scale"], S, *odds)
        centre, by_system = out["typical"].expand(data.J, *odds), zero.expand(data.J, S, *odds)
        if known is not None:
            out["family_effects"] = normal("family_effects", 0.0, out["family_scale"], known.shape[-1], 1 + S, *odds)
            of_judge = torch.einsum("jf,fskl->jskl", known, out["family_effects"])
            centre, by_system = centre + of_judge[:, 0], of_judge[:, 1:]
        with plates.worker:
            out["judge_effects"] = pyro.sample("judge_effects", Normal(centre, out["judge_scale"]).to_event(2))
            out["interaction_effects"] = pyro.sample(
                "interaction_effects", Normal(by_system, out["interaction_scale"]).to_event(3)
            )
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the prevalence of each item's system, batch ``(N,)``."""
        return Categorical(logits=parameters["common_prevalence"] + _systems(data) @ parameters["system_prevalence"])

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of each label: batch ``(A, K)``."""
        systems, number = _distinct(data)
        return Categorical(logits=self._logits(parameters, systems, data.K)[number[data.item], data.worker])

    def _logits(self, parameters: Parameters, systems: Tensor, K: int) -> Tensor:
        """Return logits of labels of judges for rows of features ``(G, S)``: 0 for the correct one, ``(G, J, K, K)``."""
        by_system = torch.einsum(
            "gs,jskl->gjkl", systems, parameters["system_effects"] + parameters["interaction_effects"]
        )
        against = -(parameters["judge_effects"] + by_system).flatten(
            -2
        )  # of the incorrect labels, true label by true label
        at = torch.ones(K, K, dtype=torch.long, device=against.device).fill_diagonal_(0)
        at = at.flatten().cumsum(0).view(K, K).fill_diagonal_(0)  # 0 is the correct label
        return torch.cat([torch.zeros_like(against[..., :1]), against], -1)[..., at]

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse a single class."""
        return refuse_one_class(data)

    # ------------------------------------------------------------------ how it is fitted

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each item's labels, ``(N, K)``: a table by system and judge, and a look-up."""
        systems, number = _distinct(data)
        table = (
            self._logits(parameters, systems, data.K).log_softmax(-1).mT.flatten(0, 2)
        )  # (G J K, K), true label last
        at = (number[data.item] * data.J + data.worker) * data.K + data.label
        return sum_by(data.item, data.weighted(table[at]), data.N)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the prior medians of the scales; gradients raise the rest."""
        names = _SCALES if data.worker_features is not None else [name for name in _SCALES if name != "family"]
        return {f"{name}_scale": responsibility.new_tensor(getattr(self, f"{name}_scale")) for name in names}

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return the prevalence of each system ``(S, K)``, and confusion of each judge for each system ``(J, S, K, K)``."""
        each = torch.eye(_systems(data).shape[-1], dtype=data.dtype, device=data.device)
        return {
            "prevalence_of_system": (parameters["common_prevalence"] + parameters["system_prevalence"]).softmax(-1),
            "confusion_by_system": self._logits(parameters, each, data.K).softmax(-1).transpose(0, 1),
        }


_SCALES = ("prevalence", "judge", "family", "system", "interaction")


def _systems(data: Annotations) -> Tensor:
    """Return the features of items, ``(N, S)``: a column of ones where there are none."""
    if data.features is None:
        return torch.ones(data.N, 1, dtype=data.dtype, device=data.device)
    return data.features


def _distinct(data: Annotations) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of the features ``(G, S)``, and which of them each item has, ``(N,)``."""
    rows, number = torch.unique(_systems(data), dim=0, return_inverse=True)
    return rows, number
