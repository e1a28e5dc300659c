"""Two coins and the difficulty of each instance: experts err where the classifier is unsure.

Xu, Zhang, Zhang and Zhang, on learning from crowds with data difficulty: a binary classifier and experts whose sensitivity and
specificity fall to a coin toss for instances near the boundary.

Model, with ``p_i = p(z_i = 1 | x_i)`` the classifier's probability::

    lambda      l_jk           ~ LogNormal(log(scale), 1)              for each worker; k = 1: lambda1, k = 0: lambda2; (J, 2)
    truth       z_i | x_i      ~ Bernoulli(p_i),  p_i = f(x_i; theta)  f logistic by default, theta normal
    sensitivity alpha_i^j      = sigmoid(l_j1 (p_i - 1/2)^2)           equation (1)
    specificity beta_i^j       = sigmoid(l_j0 (p_i - 1/2)^2)           equation (2)
    label       y_n | z_i = 1  = 1 with probability alpha;  y_n | z_i = 0  = 0 with probability beta

At ``p = 1/2`` both are a half, at ``p`` in {0, 1} ``sigmoid(l / 4)``: what is reported as a worker's sensitivity and specificity.
(The boxes of the paper's algorithms drop the square in the second factor; its probabilities then do not sum to one.) ``l > 0``
excludes workers who are worse than chance, whatever the data: ``positive=False`` lets ``l ~ Normal(scale, scale)`` be
negative.

``difficulty=``:

- ``"adaptive"``: ``p_i`` is the current classifier's (*adaptive difficulty EM*). The classifier then is in the truth and in the
  difficulty; its M step here follows both, so that the log posterior rises at each step; the paper's follows the first only.
- ``"fixed"``: the mean vote of the item stands for ``p_i`` in the difficulty (*fixed difficulty EM*). With
  ``prior_of_truth="classifier"`` the truth keeps the classifier as its prior, as in the authors' program. With
  ``prior_of_truth="votes"`` the mean vote is the prior of the truth, too, as algorithm 3 is printed: the truth then *is* the
  majority vote, and the classifier, which is in no likelihood, learns it afterwards, by EM only. Simulation, and items without a
  vote, use the classifier's ``p_i``.

With fixed difficulty, ``lambda`` is not bounded by the data: where votes are unanimous it grows, and what is reported as
sensitivity goes to 1. The authors' stored expertise of both variants is equal to the start of appendix A.3: their step size does
not move ``lambda``.

The paper's *original EM* is :class:`crowdppl.models.Raykar`. Start (appendix A.3): truths at the mean votes, and for each worker
``l = 4 logit(sensitivity)`` against them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import pyro
import torch
from pyro.distributions import Categorical, LogNormal, Normal
from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, OptionError
from crowdppl.kernels.ops import sum_by
from crowdppl.model.base import AnnotationModel, ClassifierTargets, Parameters
from crowdppl.model.hyperparameters import require_one_of, require_positive, require_share
from crowdppl.model.networks import Factory, build, features_of, perceptron
from crowdppl.model.plates import Plates


@final
@dataclass(frozen=True)
class TwoCoinDifficulty(AnnotationModel):
    """Binary labels; experts' coins flatten where the classifier is unsure.

    Attributes:
        difficulty: ``"adaptive"`` or ``"fixed"``.
        prior_of_truth: of the fixed difficulty, ``"classifier"`` (the authors' program) or ``"votes"`` (algorithm 3 as printed).
        positive: whether ``lambda`` is positive, as in the paper.
        scale: median of ``lambda`` in the prior; 4 is a sensitivity of .73 at the easiest instances.
        network: classifier, a module or a function that makes one from (D, 2), with 2 outputs.
        hidden: units of the layers of the default network; none is a logistic classifier.
        dropout: of the default network.
        prior_scale: standard deviation of the normal prior of the classifier's weights, features standardised.
    """

    difficulty: Literal["adaptive", "fixed"] = "adaptive"
    prior_of_truth: Literal["classifier", "votes"] = "classifier"
    positive: bool = True
    scale: float = 4.0
    network: Factory | None = None
    hidden: tuple[int, ...] = ()
    dropout: float = 0.0
    prior_scale: float = 3.0

    dims: ClassVar = {
        "discrimination": ("worker", "true_label"),
        "sensitivity": ("worker",),
        "specificity": ("worker",),
    }

    def __post_init__(self) -> None:
        require_one_of(self, "difficulty", ("adaptive", "fixed"))
        require_one_of(self, "prior_of_truth", ("classifier", "votes"))
        if self.difficulty == "adaptive" and self.prior_of_truth == "votes":
            raise OptionError('TwoCoinDifficulty: prior_of_truth="votes" is for difficulty="fixed"')
        require_positive(self, "scale", "prior_scale")
        require_share(self, "dropout")

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """EM of the default logistic classifier is over all items at once, by L-BFGS."""
        logistic = self.network is None and not self.hidden
        return {"em": {"max_iter": 100, "tol": 1e-7} | ({"batch_size": None} if logistic else {})}

    def networks(self, data: Annotations) -> dict[str, nn.Module]:
        """Return the classifier ``f(x; theta)``."""
        if data.K != 2:
            raise DataError(
                f"TwoCoinDifficulty: the data have {data.K} classes; the model is for two, use 'raykar' for more"
            )
        x = features_of(data, "TwoCoinDifficulty")
        return {"classifier": build(self.network, x, 2, lambda D, K: perceptron(D, K, self.hidden, self.dropout))}

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample discrimination ``(J, 2)``, lambda2 and lambda1 by the class they belong to, and the classifier's weights."""
        one = LogNormal(math.log(self.scale), 1.0) if self.positive else Normal(self.scale, self.scale)
        with plates.worker:
            discrimination = pyro.sample("discrimination", one.expand([2]).to_event(1))
        classifier = plates.network("classifier", scale=self.prior_scale)
        return {"discrimination": discrimination, "classifier": classifier}

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the classifier's probabilities, or the mean votes in their place, batch ``(N,)``."""
        if self.prior_of_truth == "classifier":
            return Categorical(logits=parameters["classifier"](data.features))
        # An item of known truth has its class by that, should all its votes say otherwise.
        p = torch.where(data.truth >= 0, 0.5, self._chance(parameters, data))
        return Categorical(probs=torch.stack([1 - p, p], -1))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the coins of each annotation: batch ``(A, 2)``."""
        easy = (self._chance(parameters, data) - 0.5).square()[data.item]  # (A,), 0 is a toss, 1/4 the easiest
        score = parameters["discrimination"][data.worker] * easy.unsqueeze(-1)  # (A, 2)
        half = score / 2  # logits (+s/2, -s/2) are probabilities (sigmoid(s), 1 - sigmoid(s))
        sign = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=score.dtype, device=score.device)
        return Categorical(logits=half.unsqueeze(-1) * sign)

    def _chance(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p_i``, ``(N,)``."""
        if self.difficulty == "fixed" and data.A and bool((data.annotations_per_item > 0).all()):
            return _mean_vote(data)
        learned = torch.softmax(parameters["classifier"](data.features), -1)[:, 1]
        if self.difficulty == "adaptive" or not data.A:
            return learned
        return torch.where(data.annotations_per_item > 0, _mean_vote(data), learned)

    # ------------------------------------------------------------------ how it is fitted

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return first values, ``lambda = 4 logit(sensitivity)`` and of the specificity (appendix A.3), for gradients."""
        if parameters is not None:
            return {}
        at = data.worker * 2 + data.label
        weighted = data.weighted(responsibility[data.item])
        counts = sum_by(at, weighted, data.J * 2).view(data.J, 2, 2)  # (worker, given label, true label)
        correct = torch.diagonal(counts, dim1=-2, dim2=-1)
        rate = (correct + 1) / (counts.sum(-2) + 2)  # one pseudo-annotation of each kind: no infinite logit
        slope = 4 * torch.logit(rate)
        return {"discrimination": slope.clamp(min=0.1) if self.positive else slope}

    def classifier_targets(self, responsibility: Tensor, data: Annotations) -> ClassifierTargets | None:
        """Return the responsibilities, unless the classifier is in the difficulty, too: gradients then know what it is to do."""
        if self.difficulty == "adaptive":
            return None
        return ClassifierTargets("classifier", responsibility, in_likelihood=self.prior_of_truth == "classifier")

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Allow EM only, where the classifier is in no likelihood, and SVI and NUTS would leave it at its prior."""
        if method == "em" or self.prior_of_truth == "classifier":
            return super().check_method(method, data)
        return (
            f"the votes are the prior of the truth, so that the classifier is in no likelihood and {method} would not train it; "
            f"use method='em', or prior_of_truth='classifier'"
        )

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return sensitivity and specificity at the easiest instances, ``sigmoid(lambda / 4)``, each ``(J,)``."""
        best = torch.sigmoid(parameters["discrimination"] / 4)
        return {"sensitivity": best[:, 1], "specificity": best[:, 0]}

    def generative(self) -> AnnotationModel:
        """Return the model with difficulties from the classifier: there are no votes before labels are drawn."""
        return replace(self, difficulty="adaptive", prior_of_truth="classifier")


def _mean_vote(data: Annotations) -> Tensor:
    return data.votes[:, 1] / data.votes.sum(-1).clamp(min=1)
