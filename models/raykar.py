"""Learning from crowds: a classifier of the items' features and a confusion matrix for each worker, learned together.

Vikas C. Raykar, Shipeng Yu, Linda H. Zhao, Gerardo Hermosillo Valadez, Charles Florin, Luca Bogoni and Linda Moy (2010). Learning
from crowds. JMLR 11, 1297-1322. With a deep network in place of the logistic one it is known as DL-EM or AggNet
(Albarqouni et al. 2016); for two classes a worker's matrix is sensitivity and specificity, and the model is the *original EM*
that the data-difficulty paper compares itself to.

Model::

    confusion   B_jk           ~ Dirichlet(1 + pseudo-counts)          row of worker j under class k, (J, K, K)
    truth       z_i | x_i      ~ Categorical(f(x_i; theta))            f logistic by default, theta normal
    label       y_n | z_i = k  ~ Categorical(B_jk)

EM: confusions in closed form; the classifier by cross-entropy on the responsibilities, to its optimum by L-BFGS where it is
logistic (the paper: Newton-Raphson), by Adam over mini-batches where it is a network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import AnnotationModel, ClassifierTargets, Parameters
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts, require_share
from crowdppl.model.networks import Factory, build, features_of, perceptron
from crowdppl.model.plates import Plates
from crowdppl.model.priors import confusion_prior

# Standard deviation that the prior gives a logit of the logistic classifier, and a weight of another network.
LOGIT, NETWORK = 2.0, 3.0


@final
@dataclass(frozen=True)
class Raykar(AnnotationModel):
    """A classifier and a confusion matrix for each worker.

    Attributes:
        network: classifier, a module or a function that makes one from (D, K), with ``K`` outputs.
        hidden: units of the layers of the default network; none is a logistic classifier.
        dropout: of the default network.
        prior_scale: standard deviation of the normal prior of the classifier's weights, features standardised. Defaults, for the
            logistic classifier of ``D`` features, to ``2 / sqrt(D)``, so that a logit has a standard deviation of 2 however many
            features there are (docs/benchmarks/classifier-prior.md); for networks to 3.
        prior_correct: correct pseudo-annotations of every worker in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
    """

    network: Factory | None = None
    hidden: tuple[int, ...] = ()
    dropout: float = 0.0
    prior_scale: float | None = None
    prior_correct: float = 4.0
    prior_incorrect: float = 1.0

    dims: ClassVar = {"confusion": ("worker", "true_label", "given_label")}

    def __post_init__(self) -> None:
        require_pseudo_counts(self, "prior_correct", "prior_incorrect")
        if self.prior_scale is not None:
            require_positive(self, "prior_scale")
        require_share(self, "dropout")

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """EM of the default logistic classifier is over all items at once, by L-BFGS."""
        return {"em": {"max_iter": 200, "tol": 1e-8} | ({"batch_size": None} if self._logistic else {})}

    @property
    def _logistic(self) -> bool:
        return self.network is None and not self.hidden

    def _scale(self, data: Annotations) -> float:
        """Return the standard deviation of the prior of the weights."""
        if self.prior_scale is not None:
            return self.prior_scale
        return LOGIT / math.sqrt(max(data.D, 1)) if self._logistic else NETWORK

    def networks(self, data: Annotations) -> dict[str, nn.Module]:
        """Return the classifier ``f(x; theta)``."""
        x = features_of(data, "Raykar")
        return {"classifier": build(self.network, x, data.K, lambda D, K: perceptron(D, K, self.hidden, self.dropout))}

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample confusion ``(J, K, K)`` and the classifier's weights."""
        with plates.worker:
            confusion = pyro.sample(
                "confusion", Dirichlet(confusion_prior(data, self.prior_correct, self.prior_incorrect)).to_event(1)
            )
        return {
            "confusion": confusion,
            "classifier": plates.network("classifier", scale=self._scale(data)),
        }

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(f(x)), batch ``(N,)``."""
        return Categorical(logits=parameters["classifier"](data.features))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker's confusion: batch ``(A, K)``."""
        return Categorical(parameters["confusion"][data.worker])

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the confusion matrices ``(J, K, K)``."""
        return parameters["confusion"]

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> Parameters:
        """Return each worker's labels by true label; the classifier's weights have no closed form."""
        return {"confusion": statistics.label_counts}

    def classifier_targets(self, responsibility: Tensor, data: Annotations) -> ClassifierTargets:
        """Return the responsibilities: the classifier learns them."""
        return ClassifierTargets("classifier", responsibility)
