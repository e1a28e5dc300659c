"""Item effects: errors of workers are correlated, because some items lead all of them towards, or away from, a certain label.

Worker and item in one logit: Dengyong Zhou, John C. Platt, Sumit Basu and Yi Mao (2012), Learning from the wisdom of crowds by
minimax entropy, NIPS 25; Zhou, Liu, Platt, Meek and Shah (2015), arXiv:1503.07240. Difficulty as an item effect: Bob Carpenter
(2008), Multilevel Bayesian models of categorical data annotation; Jacob Whitehill et al. (2009), NIPS 22. Spammers who answer
by a distribution of their own: Dirk Hovy et al. (2013), NAACL-HLT (MACE).

Model, ``[k = l]`` being 1 where the label is correct and else 0::

    prevalence           p        (K,)       ~ Dirichlet(1 + prior_items)
    effect weights       u        (G+1,)     ~ Dirichlet(1 + prior_effects)     none, or one of G strengths
    crowd's competence   mu                  ~ Normal(2, 2)
                         tau                 ~ Gamma(1, 1)                      precision
    competence           a_j      (J,)       ~ Normal(mu, 1 / sqrt(tau))
    preference           b_j      (J, K)     ~ Normal(0, preference)            for a label, whatever the truth
    crowd's confusion    D        (K, K)     ~ Normal(0, crowd)
    worker's deviation   d_j      (J, K, K)  ~ Normal(0, deviation)
    truth                z_i                 ~ Categorical(p)
    item effect          t_i      (K,)       = 0, or + or - a strength on one label: strength g by u_g, signs and labels alike
    label                y_n | z_i = k       ~ Categorical(softmax_l(a_j [k = l] + b_jl + D_kl + d_jkl + t_il))

Nothing is assumed of how good workers are: the crowd's competence is learned, in Gibbs sampling with its uncertainty, in EM by
empirical Bayes before the first step. A worker of competence 0 is a spammer. An effect is shared by all annotations of its item,
so that ten equal incorrect labels are weaker evidence than ten independent ones. The state of an item is the pair of class and
effect; both are summed out or drawn exactly.

*Anchoring.* A class means what its label says only as long as workers are mostly right; where they are not, the likelihood
alone lets a class drift to whatever separates items best. Each item enters the likelihood with power ``1 - b`` without its
class, and with power ``b`` with a class drawn from the votes, weighted by the workers' competence
(:mod:`crowdppl.model.weighted_votes`): parameters are learned as if a share ``b`` of the items had been labelled by these
votes. Classes drift because of items with an effect. The fewer such items there are, the smaller is the share:
``b = anchoring * (1 - 0.9 u_0)``, where ``u_0`` is the weight of no effect. EM begins with ``b = anchoring``, and alternates
between the parameters and ``b`` until they agree. Other engines take ``b`` from EM. Class probabilities are those of the model at
these parameters. ``anchoring=0`` gives the likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, final

import numpy as np
import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, Gamma, Normal
from torch import Tensor

from crowdppl.arguments import shown
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model import logit_rows_draws, logit_rows_mode
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, positive
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts, require_share
from crowdppl.model.logit_rows import RowCounts, Rows
from crowdppl.model.plates import Plates
from crowdppl.model.priors import class_prior
from crowdppl.model.weighted_votes import rival_votes, weighted_votes

# Prior of the crowd's mean competence: mean and standard deviation; of its precision: shape and rate.
MEAN, PRECISION = (2.0, 2.0), (1.0, 1.0)
# Largest strength of an effect: odds of 22,000.
LARGEST = 10.0
# Share of the anchor that a crowd without effects does without; the rest steadies fits to few annotations.
RELEASED = 0.9
# Rounds of steps in the first M step, which also learns the crowd's competence; each later one takes a Newton step.
FIRST = 20


def _is_strength(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= LARGEST


def require_effects(model: Any) -> None:
    """Check the hyperparameters of item effects, which a model has as attributes.

    Raises:
        ModelError: for the first that is invalid.
    """
    require_pseudo_counts(model, "prior_items", "prior_effects")
    require_positive(model, "deviation", "preference", "crowd")
    require_share(model, "anchoring")
    given = model.strengths
    if given is not None and not (isinstance(given, tuple) and given and all(_is_strength(s) for s in given)):
        raise ModelError(
            f"{type(model).__name__}: strengths is {shown(given)}; it must be a tuple of numbers above 0 and at most {LARGEST:g}"
        )


def _votes(anchor: Tensor) -> Tensor:
    """Return the votes ``(N, K)`` of an anchor, whose rows add up to its share."""
    return anchor / anchor.sum(-1, keepdim=True)


@cache  # every step of EM asks for them
def _effects(sizes: tuple[float, ...], K: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the effects ``(M, K)`` of some strengths, and the number of the strength of each, ``(M,)``."""
    with torch.inference_mode(False):  # what inference mode creates could not be used with gradients later
        eye = torch.eye(K, dtype=dtype, device=device)
        # With two labels, more of one is less of the other.
        shapes = (eye - 0.5) if K == 2 else torch.cat([eye - 1 / K, 1 / K - eye])
        effects = torch.cat([torch.zeros_like(eye[:1])] + [strength * shapes for strength in sizes])
        strength = torch.arange(len(sizes), device=device).repeat_interleave(len(shapes)) + 1
        return effects, torch.cat([torch.zeros_like(strength[:1]), strength])


@cache  # a size that is counted on a GPU would be waited for in every step
def _log_numbers(sizes: tuple[float, ...], K: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return, for each effect, the logarithm of the number of effects of its strength, ``(M,)``."""
    with torch.inference_mode(False):
        _, strength = _effects(sizes, K, dtype, device)
        return strength.bincount()[strength].to(dtype).log()


@final
@dataclass(frozen=True)
class ItemEffects(AnnotationModel):
    """Dawid and Skene's model on the logit scale, with a learned crowd and effects of items that all workers share.

    Attributes:
        strengths: sizes of item effects, on the logit scale. Defaults to 1, 2 and 3 for two classes, and to 2 for more, where
            there are effects on each label and more strengths cost time and gain nothing.
        anchoring: share of the likelihood in which items have the class of the weighted votes, below 1, where every item has an
            effect; less in proportion where fewer have.
        deviation: standard deviation of a worker's own confusion around the crowd's, on the logit scale.
        preference: standard deviation of a worker's preference for a label.
        crowd: standard deviation of the crowd's confusion around equal incorrect labels.
        prior_items: pseudo-items of every class.
        prior_effects: pseudo-items of every strength of an effect, and of none.
    """

    strengths: tuple[float, ...] | None = None
    anchoring: float = 0.5
    deviation: float = 0.5
    preference: float = 1.0
    crowd: float = 1.0
    prior_items: float = 1.0
    prior_effects: float = 1.0

    default_method: ClassVar = "em"  # measured on all public data; sampling takes 100 times as long
    # docs/benchmarks/residual-correlation.md: the median design effect is the same for every number of annotations.
    residual_rho: ClassVar = (0.0, 2.0)
    dims: ClassVar = {
        "prevalence": ("true_label",),
        "effect_weights": ("effect_strength",),
        "competence": ("worker",),
        "preferences": ("worker", "given_label"),
        "crowd_confusion": ("true_label", "given_label"),
        "deviations": ("worker", "true_label", "given_label"),
    }

    def __post_init__(self) -> None:
        require_effects(self)

    # ------------------------------------------------------------------ the model

    def sizes(self, data: Annotations) -> tuple[float, ...]:
        """Return the strengths of effects for these data."""
        if self.strengths is not None:
            return self.strengths
        return (1.0, 2.0, 3.0) if data.K == 2 else (2.0,)

    def effects(self, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the effects ``(M, K)`` on the logits, and the number of the strength of each, ``(M,)``: 0 for none."""
        return _effects(self.sizes(data), data.K, data.dtype, data.device)

    def states_per_class(self, data: Annotations) -> int:
        """Return the number of effects."""
        return 1 + len(self.sizes(data)) * (2 if data.K == 2 else 2 * data.K)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence, effect weights, the crowd and its workers; shapes are in the module's docstring."""
        one = torch.ones((), dtype=data.dtype, device=data.device)
        K = data.K

        def normal(scale: float, *shape: int) -> Normal:
            return Normal(0 * one, scale * one).expand(shape).to_event(len(shape))

        weights = torch.full((len(self.sizes(data)) + 1,), 1 + self.prior_effects, dtype=data.dtype, device=data.device)
        out = {
            "prevalence": pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items))),
            "effect_weights": pyro.sample("effect_weights", Dirichlet(weights)),
            "crowd_mean": pyro.sample("crowd_mean", Normal(MEAN[0] * one, MEAN[1] * one)),
            "crowd_precision": pyro.sample("crowd_precision", Gamma(PRECISION[0] * one, PRECISION[1] * one)),
            "crowd_confusion": pyro.sample("crowd_confusion", normal(self.crowd, K, K)),
        }
        with plates.worker:
            spread = out["crowd_precision"] ** -0.5
            out["competence"] = pyro.sample("competence", Normal(out["crowd_mean"], spread))
            out["preferences"] = pyro.sample("preferences", normal(self.preference, K))
            out["deviations"] = pyro.sample("deviations", normal(self.deviation, K, K))
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of the states (class, effect), the same for all items."""
        return Categorical(logits=self.log_truth(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker: batch ``(A, S)``."""
        return Categorical(self.confusion(parameters, data)[data.worker])

    def anchor(self, data: Annotations, parameters: Parameters | None = None) -> Tensor | None:
        """Return the weighted votes times ``anchoring``; of anchored data those of another solution for the weights, if any.

        Given parameters, the votes of the data's anchor times ``anchoring``, less where few items have an effect.
        """
        if not self.anchoring:
            return None
        if data.anchor is None:
            return self.anchoring * weighted_votes(data)
        votes = _votes(data.anchor)
        if parameters is not None:
            return self.anchoring * (1 - RELEASED * parameters["effect_weights"][0]) * votes
        rival = rival_votes(data, votes)
        return None if rival is None else self.anchoring * rival

    def initial(self, data: Annotations) -> Tensor:
        """Return the weighted votes, the same for all effects but for their prior weights, ``(N, S)``."""
        share = weighted_votes(data) if data.anchor is None else _votes(data.anchor)
        weights = share.new_full((len(self.sizes(data)) + 1,), 1 / (len(self.sizes(data)) + 1))
        return (share.unsqueeze(-1) * self._log_effects(weights, data).exp()).flatten(-2)

    # ------------------------------------------------------------------ closed forms

    def _log_effects(self, weights: Tensor, data: Annotations) -> Tensor:
        """Return the log-probability of each effect, ``(..., M)``, given the weights of strengths ``(..., G+1)``."""
        _, strength = self.effects(data)
        return weights.log()[..., strength] - _log_numbers(self.sizes(data), data.K, weights.dtype, weights.device)

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return log-probabilities of the states, ``(..., S)``."""
        effects = self._log_effects(parameters["effect_weights"], data)
        return (parameters["prevalence"].log().unsqueeze(-1) + effects.unsqueeze(-2)).flatten(-2)

    def _rows(self, parameters: Parameters, data: Annotations) -> Rows:
        return Rows(
            parameters["competence"],
            parameters["preferences"],
            parameters["crowd_confusion"],
            parameters["deviations"],
            (self.preference, self.crowd, self.deviation),
            self.effects(data)[0],
        )

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the rows by state, ``(..., J, S, K)``."""
        return self._rows(parameters, data).table().flatten(-3, -2)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of all priors, ``(...)``."""
        mean, precision = parameters["crowd_mean"], parameters["crowd_precision"]
        crowd: Tensor = sum(self._log_priors_of_crowd(parameters, data).values())  # type: ignore[assignment]
        return crowd + self._rows(parameters, data).log_prior(mean, precision)

    def log_priors(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return the same for each site, ``(...)``, or ``(..., J)`` of those of workers."""
        mean, precision = parameters["crowd_mean"], parameters["crowd_precision"]
        return self._log_priors_of_crowd(parameters, data) | self._rows(parameters, data).log_priors(mean, precision)

    def _log_priors_of_crowd(self, parameters: Parameters, data: Annotations) -> Parameters:
        weights, mean = parameters["effect_weights"], parameters["crowd_mean"]
        shape, rate = (mean.new_full((), value) for value in PRECISION)
        return {
            "prevalence": dirichlet_log_density(class_prior(data, self.prior_items), parameters["prevalence"]),
            "effect_weights": dirichlet_log_density(torch.full_like(weights, 1 + self.prior_effects), weights),
            "crowd_mean": Normal(mean.new_full((), MEAN[0]), mean.new_full((), MEAN[1])).log_prob(mean),
            "crowd_precision": Gamma(shape, rate).log_prob(parameters["crowd_precision"]),
        }

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return modes of the two Dirichlet sites and workers' parameters after Newton steps, which raise the expected log joint.

        The first M step learns mean and precision of the crowd's competence by empirical Bayes; later ones keep them.
        """
        counts = RowCounts.of(data.counts.expected(responsibility).unflatten(-2, (data.K, -1)))  # from (J, K, M, K)
        items = responsibility.sum(-2).unflatten(-1, (data.K, -1))  # (K, M)
        out = {
            "prevalence": dirichlet_mode(self.prior_items + items.sum(-1)),
            "effect_weights": dirichlet_mode(self.prior_effects + self._by_strength(items.sum(-2), data)),
        }
        first = parameters is None
        parameters = self._start(data) if parameters is None else parameters
        mean, precision = parameters["crowd_mean"], parameters["crowd_precision"]
        rows = self._rows(parameters, data)
        if not first:
            logit_rows_mode.newton_step(rows, counts, mean, precision)
        for _ in range(FIRST if first else 0):
            # Approximate posterior variance of competence, (J,).
            variance = logit_rows_mode.first_step(rows, counts, mean, precision)
            mean = (rows.competence.sum() + MEAN[0]) / (data.J + 1)
            spread = ((rows.competence - mean).square() + variance).sum()
            precision = (data.J + 2 * PRECISION[0]) / (spread + 2 * PRECISION[1])
        return out | {"crowd_mean": mean, "crowd_precision": precision} | rows.parameters()

    def _by_strength(self, effects: Tensor, data: Annotations) -> Tensor:
        """Sum over the effects ``(..., M)`` of each strength: ``(..., G+1)``."""
        _, strength = self.effects(data)
        out = effects.new_zeros(*effects.shape[:-1], len(self.sizes(data)) + 1)
        return out.index_add(-1, strength, effects)

    def _start(self, data: Annotations) -> Parameters:
        zeros = torch.zeros(data.J, data.K, data.K, dtype=data.dtype, device=data.device)
        return {
            "crowd_mean": zeros.new_tensor(MEAN[0]),
            "crowd_precision": zeros.new_tensor(MEAN[1] ** -2),
            "competence": zeros.new_full((data.J,), MEAN[0]),
            "preferences": zeros[:, 0],
            "crowd_confusion": zeros.new_zeros(data.K, data.K),
            "deviations": zeros,
        }

    def compiled_step(self, data: Annotations) -> CompiledStep:
        """Return the same step as :meth:`gibbs_step`, as :mod:`crowdppl.kernels.logit_rows` takes it."""
        J, K, M, G = data.J, data.K, self.states_per_class(data), len(self.sizes(data)) + 1
        effects, strength = self.effects(data)
        scales = (self.preference, self.crowd, self.deviation)
        concentration = [1.0 + self.prior_items] * K + [1.0 + self.prior_effects] * G
        shapes = {
            "prevalence": (K,),
            "effect_weights": (G,),
            "crowd_mean": (),
            "crowd_precision": (),
            "crowd_confusion": (K, K),
            "competence": (J,),
            "preferences": (J, K),
            "deviations": (J, K, K),
        }
        return CompiledStep(
            "logit rows",
            shapes,
            sizes=np.array([J, K, M, G, *strength.tolist()]),
            numbers=np.array([*MEAN, *PRECISION, *scales, *concentration, *effects.double().exp().flatten().tolist()]),
            states=K * M,
            work=J * K * (2 * K + 2 * M + 1),
        )

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the parameters given states ``(C, N)``: workers' rows by Metropolis-Hastings steps, the rest exactly."""
        C, J, K, M = len(truth), data.J, data.K, self.states_per_class(data)
        chain = torch.arange(C, device=data.device).unsqueeze(-1)
        state = truth[:, data.item]  # (C, A)
        worker = chain * J + data.worker

        weight = None if data.weight is None else data.weight[data.item].expand(C, -1).flatten()  # (C A,)

        def counted(cell: Tensor, *shape: int, weights: Tensor | None = None) -> Tensor:
            return torch.bincount(cell.flatten(), weights, math.prod(shape)).to(data.dtype).view(shape)

        true_label = torch.div(state, M, rounding_mode="floor")
        counts = RowCounts(
            counted((worker * K + true_label) * K + data.label, C, J, K, K, weights=weight),
            counted(worker * (K * M) + state, C, J, K, M, weights=weight),
        )
        items = counted(chain * (K * M) + truth, C, K, M)
        effects = self._by_strength(items.sum(-2), data)
        rows = self._rows(parameters, data)
        mean, precision = logit_rows_draws.draw(rows, counts, parameters["crowd_precision"], MEAN, PRECISION)
        return {
            "prevalence": positive(sample_dirichlet(class_prior(data, self.prior_items) + items.sum(-1))),
            "effect_weights": positive(sample_dirichlet(1 + self.prior_effects + effects)),
            "crowd_mean": mean,
            "crowd_precision": precision,
        } | rows.parameters()
