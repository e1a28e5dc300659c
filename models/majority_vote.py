"""Majority vote, as the generative model under which it is optimal.

Everybody is equally good and no class is more frequent than another: each annotation is the truth with probability
``knowledge`` and a uniform guess otherwise. The posterior of an item's truth then depends on its votes alone and grows
with every vote, by the same factor for every worker, so that its mode is the class with most votes; classes with equal
votes are equally probable (ties are split, not broken). What the model adds to counting is the
probability that a majority is correct: it depends on how often the crowd agrees, which ``knowledge`` learns.

Model::

    knowledge   b             ~ Beta(1 + prior_known, 1 + prior_guesses)
    truth       z_i           ~ Categorical(1/K, ..., 1/K)
    label       y_n | z_i = k = k with probability b, else uniform:  p(l | k) = b [l = k] + (1 - b) / K

The label model is MACE's (Hovy et al. 2013, Learning whom to trust with MACE, NAACL) with one worker for all; shares of
votes themselves are ``Annotations.majority()``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Beta, Binomial, Categorical
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import refuse_one_class, refuse_weights, require_pseudo_counts
from crowdppl.model.plates import Plates
from crowdppl.model.truths.classes import one_hot


@final
@dataclass(frozen=True)
class MajorityVote(AnnotationModel):
    """One knowledge for all workers, all classes equally common.

    Attributes:
        prior_known: pseudo-annotations given from knowledge, on top of a flat prior.
        prior_guesses: pseudo-annotations that were guesses.
    """

    prior_known: float = 1.0
    prior_guesses: float = 1.0

    dims: ClassVar = {"knowledge": ()}

    def __post_init__(self) -> None:
        require_pseudo_counts(self, "prior_known", "prior_guesses")

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample knowledge, a scalar in (0, 1)."""
        return {"knowledge": pyro.sample("knowledge", Beta(1.0 + self.prior_known, 1.0 + self.prior_guesses))}

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the uniform distribution over classes."""
        return Categorical(logits=torch.zeros(data.K, dtype=data.dtype, device=data.device))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the same distribution for every annotation: batch ``(A, K)``."""
        return Categorical(self.confusion(parameters, data).expand(data.A, data.K, data.K))

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse a single class, and Gibbs sampling of items with weights that are not whole: it counts annotations."""
        return refuse_one_class(data) or refuse_weights(method, data)

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the table that all workers share, ``(..., 1, K, K)``."""
        b = parameters["knowledge"][..., None, None, None]
        return b * torch.eye(data.K, dtype=b.dtype, device=b.device) + (1 - b) / data.K

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of the Beta prior, ``(...)``."""
        b = parameters["knowledge"]
        prior = torch.tensor([1 + self.prior_known, 1 + self.prior_guesses], dtype=b.dtype, device=b.device)
        normaliser = torch.lgamma(prior.sum()) - torch.lgamma(prior).sum()
        return normaliser + torch.xlogy(prior[0] - 1, b) + torch.xlogy(prior[1] - 1, 1 - b)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the knowledge that maximises the expected log joint: the root of a quadratic.

        With ``u`` expected agreements, ``v`` the rest and ``c = (K - 1) / K``, the slope of
        ``u log(1/K + c b) + v log((1 - b)/K) + w log b + guesses log(1 - b)``, times its denominators, vanishes.
        """
        K, c = data.K, (data.K - 1) / data.K
        votes = data.weighted_votes
        u = (responsibility * votes).sum((-2, -1))
        v = (responsibility.sum(-1) * votes.sum(-1)).sum(-1) - u + self.prior_guesses
        w = self.prior_known
        square = -c * (u + v + w)
        linear = u * c - v / K + w * (c - 1 / K)
        root = (-linear - (linear**2 - 4 * square * (w / K)).clamp(min=0).sqrt()) / (2 * square)
        return {"knowledge": root.clamp(0, 1)}

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw knowledge given truths ``(C, N)``, by way of how many of the agreements were known and not guessed."""
        b = parameters["knowledge"]  # (C,)
        chosen = one_hot(truth, data)  # (C, N, K)
        votes = data.weighted_votes
        agree = (chosen * votes).sum((-2, -1))
        knew = Binomial(agree, b / (b + (1 - b) / data.K)).sample()
        return {"knowledge": Beta(1 + self.prior_known + knew, 1 + self.prior_guesses + votes.sum() - knew).sample()}
