"""Pairwise preference: which of two answers is better, by judges who may favour the answer that is shown first.

The true labels follow a model of paired comparison (R. A. Bradley and M. E. Terry 1952, Rank analysis of incomplete block
designs: I. The method of paired comparisons, Biometrika 39, 324-345), with ties (R. R. Davidson 1970, On extending the
Bradley-Terry model to accommodate ties in paired comparison experiments, Journal of the American Statistical Association 65,
317-328). Judges err as in a latent class model (A. P. Dawid and A. M. Skene 1979, Applied Statistics 28, 20-28), with at
most three numbers each. The combination is this library's own.

An item is a pair of answers, of ``K`` = 2 or 3 classes in this order: the first answer is better, the second is better, a tie.
Features of items ``x_i`` ``(N, S)`` say which of ``S`` systems gave the answers: 1/2 for the first, -1/2 for the second, 0 for
the others. Without features there are no strengths, and all pairs are alike.

The first column of the features of workers ``(J, 1 + C)`` is the order ``o_j`` of the answers: 1 if the first answer was shown
first, -1 if the second was, 0 if unknown or both. The other columns say which of ``C`` judges the worker is (one-hot). A worker
thus is a judge in one order, and a judge in both orders is two workers with one skill. With the order alone, and without
features of workers, every worker is a judge (``C = J``). Without features of workers there are no position effects. Model, for
item ``i``, worker ``j`` who is judge ``c``, true label ``k`` and given label ``l``::

    strength    s_m            ~ Normal(0, strength_scale)               of a system; (S,)
    ties        log v          ~ Normal(log ties, 1)                     if K = 3; ()
    skill       a_c            ~ Normal(skill_mean, skill_scale)         log odds of the correct label; (C,)
    tie         t_c            ~ Normal(0, tie_scale)                    tendency to call a tie, if K = 3; (C,)
    position    b_c            ~ Normal(0, position_scale)               tendency to prefer what is shown first; (C,)
    truth       d_i            = sum_m x_im s_m                          half the difference of the strengths
                z_i            ~ Categorical(exp(d_i) : exp(-d_i) : v)   first, second, and, if K = 3, tie
    label       y_n | z_i = k  ~ Categorical(softmax_l(a_c [l = k] + t_c [l = tie] + b_c o_j ([l = first] - [l = second]) / 2))

With worths ``exp(s)``, the truth is Davidson's model, and with two classes that of Bradley and Terry. The likelihood is the same
if a constant is added to all strengths; their prior centres them. Features other than these contrasts enter linearly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Normal
from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.blocks import label_logits
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts
from crowdppl.model.plates import Plates

FIRST, SECOND, TIE = range(3)  # what the classes mean


@final
@dataclass(frozen=True)
class PairwisePreference(AnnotationModel):
    """Which of two answers is better, or a tie: strengths of systems, and judges with a skill and a position effect.

    The defaults were not tuned.

    Attributes:
        strength_scale: prior standard deviation of the strengths of systems, on the scale of log odds.
        ties: prior median of Davidson's parameter; 0.37 is 16% of ties between equal systems.
        skill_mean: prior mean of the log odds of the correct label against each other one; 1.5 is 82% correct with two classes.
        skill_scale: prior standard deviation of the skills.
        tie_scale: prior standard deviation of the judges' tendencies to call a tie.
        position_scale: prior standard deviation of the position effects; 0.7 changes 50% to 59% for the answer shown first.
    """

    strength_scale: float = 1.0
    ties: float = 0.37
    skill_mean: float = 1.5
    skill_scale: float = 0.7
    tie_scale: float = 0.7
    position_scale: float = 0.7

    dims: ClassVar = {
        "strength": ("system",),
        "centred_strength": ("system",),
        "probability_better": ("system", "other_system"),
        "tie_probability": (),
        "position_effect": ("judge",),
    }

    def __post_init__(self) -> None:
        require_positive(self, "strength_scale", "ties", "skill_scale", "tie_scale", "position_scale")
        require_pseudo_counts(self, "skill_mean")

    def networks(self, data: Annotations) -> dict[str, nn.Module]:
        """Return none, and refuse data of other than two or three classes before anything is sampled."""
        if data.K not in (2, 3):
            raise DataError(
                f"PairwisePreference: the data have {data.K} classes; the model is for two (first, second) or three (and tie)"
            )
        return {}

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample strengths ``(S,)``, the log of the tie parameter ``()``, and skills, tie tendencies and positions ``(C,)``."""
        zero = torch.zeros((), dtype=data.dtype, device=data.device)
        out = {}
        if data.features is not None:
            S = data.features.shape[-1]
            out["strength"] = pyro.sample("strength", Normal(zero, self.strength_scale).expand([S]).to_event(1))
        if data.K == 3:
            out["log_ties"] = pyro.sample("log_ties", Normal(zero + math.log(self.ties), 1.0))
        judges = _judges(data)
        with plates.worker if judges is None else pyro.plate("judge", judges.shape[-1], dim=-1):
            out["skill"] = pyro.sample("skill", Normal(zero + self.skill_mean, self.skill_scale))
            if data.K == 3:
                out["tie_tendency"] = pyro.sample("tie_tendency", Normal(zero, self.tie_scale))
            if data.worker_features is not None:
                out["position"] = pyro.sample("position", Normal(zero, self.position_scale))
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Davidson's probabilities of each pair, batch ``(N,)``; without features the same for all."""
        log_ties = parameters.get("log_ties")
        if data.features is None:
            alike = torch.zeros((), dtype=data.dtype, device=data.device)
            return Categorical(logits=_davidson(alike, log_ties))
        half = parameters["strength"] @ data.features.mT  # (..., N)
        return Categorical(logits=_davidson(half, None if log_ties is None else log_ties.unsqueeze(-1)))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of each annotation's worker: batch ``(A, K)``."""
        return Categorical(logits=self._logits(parameters, data)[data.worker])

    def _logits(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return logits of labels under each true label, ``(..., J, K, K)``."""
        order = None if data.worker_features is None else data.worker_features[:, 0]
        return _label_logits(_of_workers(parameters, data), order, data.K)

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label | truth)`` of each worker, ``(..., J, K, K)``."""
        return self._logits(parameters, data).softmax(-1)

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return what strengths and position effects mean, where the model has them.

        ``centred_strength`` ``(S,)`` has mean zero. ``probability_better`` ``(S, S)`` is the probability that the true label of a
        pair prefers the system of the row to that of the column, plus half that of a tie. ``tie_probability`` ``()`` is that of a
        tie between equal systems. ``position_effect`` ``(C,)`` is how much more probable it is that a judge prefers an answer
        when it is shown first than when it is shown second, mean of a pair where it is better and one where it is worse.
        """
        out = {}
        log_ties = parameters.get("log_ties")
        if data.features is not None:
            s = parameters["strength"]
            half = (s.unsqueeze(-1) - s.unsqueeze(-2)) / 2
            p = _davidson(half, None if log_ties is None else log_ties[..., None, None]).softmax(-1)
            out["centred_strength"] = s - s.mean(-1, keepdim=True)
            out["probability_better"] = p[..., FIRST] + p[..., TIE:].sum(-1) / 2
        if log_ties is not None:
            out["tie_probability"] = _davidson(torch.zeros_like(log_ties), log_ties).softmax(-1)[..., TIE]
        if data.worker_features is not None:
            one = torch.ones_like(parameters["position"])
            shown = [_label_logits(parameters, o * one, data.K).softmax(-1)[..., :TIE, FIRST] for o in (1, -1)]
            out["position_effect"] = (shown[0] - shown[1]).mean(-1)
        return out


def _davidson(half: Tensor, log_ties: Tensor | None) -> Tensor:
    """Return logits of the true label ``(..., K)``, of half the difference of the strengths, and of ties if there are three."""
    if log_ties is None:
        return torch.stack([half, -half], -1)
    return torch.stack(torch.broadcast_tensors(half, -half, log_ties), -1)


def _judges(data: Annotations) -> Tensor | None:
    """Return which judge each worker is, ``(J, C)``; ``None`` where every worker is one."""
    if data.worker_features is None or data.worker_features.shape[-1] == 1:
        return None
    return data.worker_features[:, 1:]


def _of_workers(parameters: Parameters, data: Annotations) -> Parameters:
    """Return skill, tie tendency and position effect of each worker's judge, ``(..., J)``."""
    judges = _judges(data)
    names = [name for name in ("skill", "tie_tendency", "position") if name in parameters]
    return {name: parameters[name] if judges is None else parameters[name] @ judges.mT for name in names}


def _label_logits(of: Parameters, order: Any, K: int) -> Tensor:
    """Return logits of labels under each true label, ``(..., J, K, K)``, of skills and so on ``(..., J)``; order ``(J,)``."""
    skill = of["skill"]
    columns = skill.new_zeros(*skill.shape, K)  # what is added whatever the true label
    if order is not None:
        towards = skill.new_tensor([0.5, -0.5, 0.0][:K])
        columns = columns + (of["position"] * order).unsqueeze(-1) * towards
    if K == 3:
        columns = columns + of["tie_tendency"].unsqueeze(-1) * skill.new_tensor([0.0, 0.0, 1.0])
    return label_logits(skill, K, columns)
