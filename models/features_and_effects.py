"""Features and item effects: the default model of items with features, whose prior of the class is a classifier's.

The truth given features: Vikas C. Raykar et al. (2010), Learning from crowds, JMLR 11, 1297-1322. Leave-one-out scores of a
classifier, and their weight: David H. Wolpert (1992), Stacked generalization, Neural Networks 5, 241-259. Workers and item
effects: :mod:`crowdppl.models.item_effects`.

Model, with ``o_i`` the class scores of item ``i`` (:mod:`crowdppl.model.class_scores`)::

    prevalence      p        (K,)       ~ Dirichlet(1 + prior_items)
    score weight    w                   ~ Gamma(2, 2 / prior_score_weight)
    truth           z_i                 ~ Categorical(softmax_k(log p_k + w o_ik))
    item effect     t_i      (K,)       as in item effects
    label           y_n | z_i = k       as in item effects

Scores are those of ridge regression on the votes for all *other* items. A classifier inside the model, as Raykar's, learns from
the posterior of the same items that it then classifies: with nearly as many features as items it repeats their labels.
Leave-one-out scores do not depend on the labels of their item. Their weight is learned from how often they agree with the
workers. Where features have no information the scores are 0, and the model is that of item effects.

Scores are functions of the labels of other items. They are taken as given, as a regression takes its covariates; data are
simulated without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, final

import pyro
import torch
from pyro.distributions import Categorical, Gamma
from torch import Tensor
from torch.nn.functional import one_hot

from crowdppl.data.annotations import Annotations
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.class_scores import ClassScores, learned
from crowdppl.model.hyperparameters import require_positive
from crowdppl.model.networks import features_of
from crowdppl.model.plates import Plates
from crowdppl.models.item_effects import ItemEffects, require_effects

# Shape of the prior of the score weight: no density at 0.
SHAPE = 2.0
# Added to all curvatures.
FLAT = 1e-6
# Newton steps in the first M step and in later ones, and how often one is halved.
FIRST, LATER, HALVED = 20, 2, 10


@final
@dataclass(frozen=True)
class FeaturesAndEffects(AnnotationModel):
    """Item effects, with a classifier of features that knows each item from the labels of all others.

    Attributes:
        prior_score_weight: prior mean of the weight of class scores. A score is a difference in predicted vote shares, so
            that 10 is a factor of ``e`` in the odds for a tenth of the votes.
        strengths: sizes of item effects, as in :class:`crowdppl.models.ItemEffects`, and so are all others.
        anchoring: share of the likelihood in which items have the class of the weighted votes.
        deviation: standard deviation of a worker's own confusion around the crowd's.
        preference: standard deviation of a worker's preference for a label.
        crowd: standard deviation of the crowd's confusion around equal incorrect labels.
        prior_items: pseudo-items of every class.
        prior_effects: pseudo-items of every strength of an effect, and of none.
    """

    prior_score_weight: float = 10.0
    strengths: tuple[float, ...] | None = None
    anchoring: float = 0.5
    deviation: float = 0.5
    preference: float = 1.0
    crowd: float = 1.0
    prior_items: float = 1.0
    prior_effects: float = 1.0

    default_method: ClassVar = "em"
    residual_rho: ClassVar = ItemEffects.residual_rho
    dims: ClassVar = {**ItemEffects.dims, "score_weight": ()}

    def __post_init__(self) -> None:
        require_positive(self, "prior_score_weight")
        require_effects(self)

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """Fewer draws than of item effects: states differ by item, which compiled functions do not know."""
        return {"em": {"num_samples": 400}}

    @property
    def effects(self) -> ItemEffects:
        """The model of the labels given the truth."""
        return ItemEffects(
            self.strengths,
            self.anchoring,
            self.deviation,
            self.preference,
            self.crowd,
            self.prior_items,
            self.prior_effects,
        )

    # ------------------------------------------------------------------ the model

    def expand(self, data: Annotations) -> Annotations:
        """Return the data with class scores, unless they have some or nothing is labelled."""
        features_of(data, "FeaturesAndEffects")
        scores = None if data.class_scores is not None else self.learn_class_scores(data)
        return data if scores is None else replace(data, class_scores=scores.scores)

    def learn_class_scores(self, data: Annotations) -> ClassScores | None:
        """Return class scores and their classifier; ``None`` where nothing is labelled."""
        return learned(data) if data.A and data.D else None

    def states_per_class(self, data: Annotations) -> int:
        """Return the number of effects."""
        return self.effects.states_per_class(data)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample the score weight, and what item effects have."""
        shape = torch.full((), SHAPE, dtype=data.dtype, device=data.device)
        return self.effects.prior(data, plates) | {
            "score_weight": pyro.sample("score_weight", Gamma(shape, shape / self.prior_score_weight))
        }

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of the states (class, effect): of each item, where there are class scores."""
        return Categorical(logits=self.log_truth(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker: batch ``(A, S)``."""
        return self.effects.emission(parameters, data)

    def anchor(self, data: Annotations, parameters: Parameters | None = None) -> Tensor | None:
        """Return the anchor of item effects."""
        return self.effects.anchor(data, parameters)

    def initial(self, data: Annotations) -> Tensor:
        """Return the weighted votes, ``(N, S)``."""
        return self.effects.initial(data)

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log-probabilities of the states, ``(..., N, S)``; ``(..., S)`` without class scores."""
        same = self.effects.log_truth(parameters, data)
        if data.class_scores is None:
            return same
        of_class = _logits(parameters["score_weight"], parameters["prevalence"].log(), data.class_scores).log_softmax(
            -1
        )
        of_effect = same.unflatten(-1, (data.K, -1)) - parameters["prevalence"].log().unsqueeze(-1)  # (..., K, M)
        return (of_class.unsqueeze(-1) + of_effect.unsqueeze(-3)).flatten(-2)

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the rows by state, ``(..., J, S, K)``."""
        return self.effects.confusion(parameters, data)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of all priors, ``(...)``."""
        weight = parameters["score_weight"]
        shape = weight.new_full((), SHAPE)
        return self.effects.log_prior(parameters, data) + Gamma(shape, shape / self.prior_score_weight).log_prob(weight)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the M step of item effects, and prevalence and score weight after Newton steps, which raise the log joint."""
        out = self.effects.m_step(responsibility, data, parameters)
        classes = responsibility.unflatten(-1, (data.K, -1)).sum(-1)
        at = _Weights(out["prevalence"].new_tensor(self.prior_score_weight), out["prevalence"].log())
        if parameters is not None:
            at = _Weights(parameters["score_weight"], parameters["prevalence"].log())
        if data.class_scores is None:
            return out | {"score_weight": at.weight.new_tensor(self.prior_score_weight * (SHAPE - 1) / SHAPE)}
        target = self._target(classes, data, self.prior_items)
        for _ in range(FIRST if parameters is None else LATER):
            at = target.raised(at)
        return out | {"score_weight": at.weight, "prevalence": at.logs.softmax(-1)}

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the parameters given states ``(C, N)``: prevalence and score weight by Metropolis-Hastings, the rest as there."""
        out = self.effects.gibbs_step(truth, parameters, data)
        if data.class_scores is None:
            shape = torch.full_like(parameters["score_weight"], SHAPE)
            return out | {"score_weight": torch._standard_gamma(shape) * self.prior_score_weight / SHAPE}
        classes = one_hot(torch.div(truth, self.states_per_class(data), rounding_mode="floor"), data.K).to(data.dtype)
        # On the scale of the logarithms the density of a Dirichlet distribution has the concentration itself as exponent.
        target = self._target(classes, data, 1 + self.prior_items)
        at = target.rescaled(target.moved(_Weights(parameters["score_weight"], parameters["prevalence"].log())))
        return out | {"score_weight": at.weight, "prevalence": at.logs.softmax(-1)}

    def _target(self, classes: Tensor, data: Annotations, exponent: float) -> _Target:
        assert data.class_scores is not None
        return _Target(classes, data.class_scores, exponent, SHAPE / self.prior_score_weight)


class _Weights(NamedTuple):
    """Trust ``(...)``, and logarithms of the prevalence up to a constant, ``(..., K)``."""

    weight: Tensor
    logs: Tensor


def _logits(weight: Tensor, logs: Tensor, scores: Tensor) -> Tensor:
    """Return log-probabilities of the classes up to a constant, ``(..., N, K)``."""
    return logs.unsqueeze(-2) + weight[..., None, None] * scores


class _Target(NamedTuple):
    """Log density of score weight and prevalence given the classes of the items: multinomial regression, concave.

    Attributes:
        classes: of the items, weights ``(..., N, K)``.
        scores: ``(N, K)``.
        exponent: of each prevalence in its prior.
        rate: of the prior of the score weight.
    """

    classes: Tensor
    class_scores: Tensor
    exponent: float
    rate: float

    def density(self, at: _Weights) -> Tensor:
        """Return the log density, ``(...)``; minus infinity for a weight that is not positive."""
        fit = (self.classes * _logits(at.weight, at.logs, self.class_scores).log_softmax(-1)).sum((-2, -1))
        prior = (SHAPE - 1) * at.weight.log() - self.rate * at.weight + self.exponent * at.logs.log_softmax(-1).sum(-1)
        return torch.where(at.weight > 0, fit + prior, -torch.inf)

    def newton(self, at: _Weights) -> tuple[Tensor, Tensor]:
        """Return the Newton step ``(..., 1 + K)`` and the Cholesky factor of the curvature ``(..., 1 + K, 1 + K)``.

        A constant in the logarithms changes nothing; a curvature along it keeps the matrix regular.
        """
        number, K = self.classes.sum(-1, keepdim=True), self.classes.shape[-1]  # (..., N, 1)
        p = _logits(at.weight, at.logs, self.class_scores).softmax(-1)
        expected = number * p
        off = self.class_scores - (p * self.class_scores).sum(-1, keepdim=True)  # (..., N, K)
        share = at.logs.softmax(-1)
        slope_weight = (
            ((self.classes - expected) * self.class_scores).sum((-2, -1)) + (SHAPE - 1) / at.weight - self.rate
        )
        slope_logs = (self.classes - expected).sum(-2) + self.exponent * (1 - K * share)
        curve_weight = (expected * off.square()).sum((-2, -1)) + (SHAPE - 1) / at.weight.square()
        both = (expected * off).sum(-2)  # (..., K)
        prior = self.exponent * K
        curve_logs = torch.diag_embed(expected.sum(-2) + prior * share) - expected.mT @ p
        curve_logs = curve_logs - prior * share.unsqueeze(-1) * share.unsqueeze(-2) + 1.0
        top = torch.cat([curve_weight.unsqueeze(-1), both], -1).unsqueeze(-2)
        curve = torch.cat([top, torch.cat([both.unsqueeze(-1), curve_logs], -1)], -2)
        # Far out a class has no probability left in this precision, and its curvature is 0.
        factor = torch.linalg.cholesky(curve + FLAT * torch.eye(1 + K, dtype=curve.dtype, device=curve.device))
        slope = torch.cat([slope_weight.unsqueeze(-1), slope_logs], -1)
        return torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1), factor

    def raised(self, at: _Weights) -> _Weights:
        """Take a Newton step, halved until the density does not fall."""
        step, _ = self.newton(at)
        before = self.density(at)
        for n in range(HALVED):
            new = _Weights(at.weight + 0.5**n * step[..., 0], at.logs + 0.5**n * step[..., 1:])
            if bool(self.density(new) >= before):
                return new
        return at

    def moved(self, at: _Weights) -> _Weights:
        """Take a Metropolis-Hastings step, whose proposal is normal with mean and curvature of a Newton step (Gamerman 1997)."""
        step, factor = self.newton(at)
        here = torch.cat([at.weight.unsqueeze(-1), at.logs - at.logs.mean(-1, keepdim=True)], -1)
        noise = torch.randn_like(here).unsqueeze(-1)
        there = here + step + torch.linalg.solve_triangular(factor.mT, noise, upper=True).squeeze(-1)
        new = _Weights(there[..., 0].clamp(min=1e-12), there[..., 1:])
        back, back_factor = self.newton(new)
        # The constant in the logarithms, 0 here, is proposed with equal density there and back.
        ratio = self.density(new) - self.density(at)
        ratio = ratio + _log_normal(here - there - back, back_factor) - _log_normal(there - here - step, factor)
        accepted = (torch.rand_like(ratio).log() < ratio) & (there[..., 0] > 0)
        return _Weights(
            torch.where(accepted, new.weight, at.weight), torch.where(accepted.unsqueeze(-1), new.logs, at.logs)
        )

    def rescaled(self, at: _Weights) -> _Weights:
        """Take a Metropolis-Hastings step of the logarithm of the score weight alone, of random size.

        Far out, where the scores decide everything, the density is too flat for a Newton step to lead back.
        """
        factor = (torch.rand_like(at.weight) * torch.randn_like(at.weight)).exp()
        new = _Weights(at.weight * factor, at.logs)
        ratio = self.density(new) - self.density(at) + factor.log()
        return _Weights(torch.where(torch.rand_like(ratio).log() < ratio, new.weight, at.weight), at.logs)


def _log_normal(off: Tensor, factor: Tensor) -> Tensor:
    """Return the log density, up to a constant, of a normal at a distance ``(..., n)`` from its mean."""
    scaled = (factor.mT @ off.unsqueeze(-1)).squeeze(-1)
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) - scaled.square().sum(-1) / 2
