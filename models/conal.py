"""Common and individual noise: some confusions are shared by all workers, some are a worker's own.

Zhendong Chu, Jing Ma and Hongning Wang (2021). Learning from crowds by modeling common confusions. AAAI 35(7), 5832-5840. Their
CoNAL.

Model::

    common      G_k            ~ Dirichlet(1 + pseudo-counts)          row of each class, shared by all workers, (K, K)
    individual  R_jk           ~ Dirichlet(1 + pseudo-counts)          rows of each worker, (J, K, K)
    truth       z_i | x_i      ~ Categorical(f(x_i; theta))            f a network, theta normal
    source      s_n            ~ Bernoulli(omega_ij),  omega_ij = sigmoid(u_j . v_i)      1: common
    label       y_n | z = k, s = 1  ~ Categorical(G_k);   s = 0:  ~ Categorical(R_jk)

with unit embeddings of items and workers, ``v_i = W_v x_i + b_v`` and ``u_j = W_u e_j + b_u`` over their lengths; ``e_j`` is
one-hot (a free embedding for each worker), or the workers' features. The source is summed out, so an
annotation's rows are ``omega G + (1 - omega) R_j``.

Two forms, ``truths=``:

- ``"item"``: equation (1) as a probabilistic model. All annotations of an item share its truth. Fitted by SVI, NUTS, or EM:
  with ``r_ik`` the posterior of the truth and ``q_nk = omega G_kl / (omega G_kl + (1 - omega) R_jkl)`` that of the source given
  truth ``k``, the M step adds ``r q`` to the common counts and ``r (1 - q)`` to the worker's; the networks follow gradients.
- ``"annotation"``: the paper's end-to-end training. Noise adaptation layers on the classifier's output,
  ``p_n = f(x_i) (omega G + (1 - omega) R_j)``, and the cross-entropy of each annotation: in generative terms each annotation has
  a truth of its own. Fitted by ``method="svi", guide="point"`` (Adam on everything). ``omega = 0`` is the crowd layer of
  Rodrigues and Pereira (2018).

The paper adds ``-lambda sum_j ||G - R_j||_2`` to its mean loss, which moves the two kinds of matrices apart; ``separation``
is ``lambda``, here times the number of annotations, since our loss is a sum. Differences from the paper: rows are
probabilities (the authors' matrices are unconstrained and a softmax follows the mixture), and start near the identity by their
prior.

Since the embeddings have length one, ``omega`` lies between sigmoid(-1) = .27 and sigmoid(1) = .73 whatever the data. An
annotation is then never attributed to one source by item and worker alone, and where nothing is common the reported
``common_share`` is about .2, not 0. ``learned_scale=True`` is not the paper's: ``omega = sigmoid(c u_j . v_i)`` with a scale
``c`` that is learned.

**Note.** Where ``G`` and all ``R_j`` are equal, the source has no effect and no gradient. Common and individual confusions are
identified only as far as features distinguish the annotations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, LogNormal
from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero, normalise, sum_by
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.hyperparameters import (
    require_one_of,
    require_positive,
    require_pseudo_counts,
    require_share,
    require_whole,
)
from crowdppl.model.networks import Factory, build, features_of, perceptron, standardised
from crowdppl.model.plates import Plates
from crowdppl.model.priors import confusion_prior

# Diagonal of the authors' matrices before the softmax, where training end to end begins.
START = 2.0
# Median of the prior of a learned scale: omega then reaches from .05 to .95.
SCALE = 3.0


@final
@dataclass(frozen=True)
class CoNAL(AnnotationModel):
    """A classifier behind common and individual confusions.

    Attributes:
        truths: ``"item"``, one truth an item, or ``"annotation"``, the paper's end-to-end form.
        embedding: size of the embeddings of items and workers, 20 to 80 in the paper.
        network: classifier, a module or a function that makes one from (D, K), with ``K`` outputs. Defaults to one hidden layer
            of ``hidden`` units.
        hidden: units of the default network's layers.
        dropout: of the default network.
        prior_scale: standard deviation of the normal prior of all weights.
        prior_correct: correct pseudo-annotations in every row, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels; positive, so that no probability is
            0.
        separation: the paper's ``lambda``.
        learned_scale: whether the product of the unit embeddings has a learned scale, so that ``omega`` is not confined to .27 to
            .73.
    """

    truths: Literal["item", "annotation"] = "item"
    embedding: int = 20
    network: Factory | None = None
    hidden: tuple[int, ...] = (128,)
    dropout: float = 0.5
    prior_scale: float = 0.1
    prior_correct: float = 2.0
    prior_incorrect: float = 0.5
    separation: float = 1e-5
    learned_scale: bool = False

    dims: ClassVar = {
        "common": ("true_label", "given_label"),
        "individual": ("worker", "true_label", "given_label"),
        "source": ("annotation",),
        "common_share": ("worker",),
        "common_errors": (),
        "scale": (),
    }
    viewed: ClassVar = ("common_share",)

    def __post_init__(self) -> None:
        require_one_of(self, "truths", ("item", "annotation"))
        require_whole(self, "embedding")
        require_pseudo_counts(self, "prior_correct", "separation")
        require_positive(
            self, "prior_incorrect", "prior_scale"
        )  # no wrong answer at all: a probability of 0 stops gradients
        require_share(self, "dropout")

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """The schedules of the paper."""
        return {
            "em": {"max_iter": 50, "tol": 1e-5, "learning_rate": 0.002},
            "svi": {"guide": "point", "learning_rate": 0.001, "batch_size": 64},
        }

    def networks(self, data: Annotations) -> dict[str, nn.Module]:
        """Return classifier ``f``, item embedding ``W_v, b_v`` and worker embedding ``W_u, b_u``."""
        x, E = features_of(data, "CoNAL"), self.embedding
        known = data.worker_features
        return {
            "classifier": build(self.network, x, data.K, lambda D, K: perceptron(D, K, self.hidden, self.dropout)),
            "items": standardised(nn.Linear(x.shape[-1], E), x),
            "workers": nn.Embedding(data.J, E) if known is None else standardised(nn.Linear(known.shape[-1], E), known),
        }

    def expand(self, data: Annotations) -> Annotations:
        """Return the annotations one by one in the end-to-end form."""
        return data if self.truths == "item" else data.per_annotation()

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample common ``(K, K)``, individual ``(J, K, K)`` and the weights of the three networks."""
        B = confusion_prior(data, self.prior_correct, self.prior_incorrect)
        common = pyro.sample("common", Dirichlet(B).to_event(1))
        with plates.worker:
            individual = pyro.sample("individual", Dirichlet(B).to_event(1))
        if self.separation:
            apart = torch.linalg.matrix_norm(common - individual).sum()
            with plates.item:  # in the item plate, so that mini-batches scale it as they scale annotations
                pyro.factor("separation", self.separation * apart * data.annotations_per_item)
        networks = {name: plates.network(name, scale=self.prior_scale) for name in ("classifier", "items", "workers")}
        scale = {"scale": pyro.sample("scale", LogNormal(math.log(SCALE), 1.0))} if self.learned_scale else {}
        return {"common": common, "individual": individual} | scale | networks

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(f(x)), batch ``(N,)``."""
        logits = parameters["classifier"](data.features)
        return Categorical(logits=logits if data.parent_item is None else logits[data.parent_item])

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return ``omega G + (1 - omega) R_j`` for each annotation: batch ``(A, K)``."""
        omega = self.omega(parameters, data).view(-1, 1, 1)
        return Categorical(omega * parameters["common"] + (1 - omega) * parameters["individual"][data.worker])

    def omega(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(s_n = 1)`` before the label is seen, ``(A,)``."""
        item = data.item if data.parent_item is None else data.parent_item[data.item]
        known = data.worker_features
        v = nn.functional.normalize(parameters["items"](data.features), dim=-1)  # (N, E)
        u = nn.functional.normalize(
            parameters["workers"](torch.arange(data.J, device=data.device) if known is None else known), dim=-1
        )  # (J, E)
        return torch.sigmoid(parameters.get("scale", 1.0) * (v[item] * u[data.worker]).sum(-1))

    # ------------------------------------------------------------------ closed forms

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``(N, K)`` by the columns of the labels given: no rows are made for labels that were not."""
        mine, shared = self._sources(parameters, data)
        return sum_by(data.item, data.weighted((mine + shared).log()), data.N)

    def m_step(
        self,
        responsibility: Tensor,
        data: Annotations,
        parameters: Parameters | None,
    ) -> Parameters:
        """Return the modes of both kinds of rows, sources weighed by the current parameters; networks are left open."""
        B, r = (
            confusion_prior(data, self.prior_correct, self.prior_incorrect),
            data.weighted(responsibility[data.item]),
        )  # (A, K)
        if parameters is None and self.truths == "annotation":
            # End to end both kinds of rows begin as the authors' do, near the identity, and gradients take it from there.
            near = torch.softmax(START * torch.eye(data.K, dtype=r.dtype, device=r.device), -1)
            return {"common": near, "individual": near.expand(data.J, data.K, data.K).clone()}
        if parameters is None:
            common = torch.full_like(r, 0.5)
        else:
            mine, shared = self._sources(parameters, data)
            common = shared / (mine + shared)
        G = sum_by(data.label, r * common, data.K).mT  # (K, K)
        R = sum_by(data.worker * data.K + data.label, r * (1 - common), data.J * data.K).view(data.J, data.K, data.K).mT
        return {"common": dirichlet_mode(B + G - 1), "individual": dirichlet_mode(B + R - 1)}

    def _sources(self, parameters: Parameters, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return ``(1 - omega) R_j[k, l]`` and ``omega G[k, l]`` at each annotation's label ``l``, both ``(A, K)``."""
        omega = self.omega(parameters, data).unsqueeze(-1)
        mine = parameters["individual"].mT.reshape(-1, data.K)[data.worker * data.K + data.label]
        return (1 - omega) * mine, omega * parameters["common"].mT[data.label]

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return ``p(s_n = 1 | labels)`` of each annotation, and its mean over each worker's annotations.

        ``common_errors`` is the share of the wrong labels that common confusion made.
        """
        layout = self.expand(data)
        joint = self.log_likelihoods(parameters, layout) + self.log_truth(parameters, layout)
        if layout.clamp is not None:
            joint = joint + layout.clamp
        r = normalise(joint)[1][layout.item]  # (A, K)
        mine, shared = self._sources(parameters, layout)
        common = r * shared / above_zero(mine + shared)  # (A, K): p(s = 1, z = k | labels)
        source = common.sum(-1)
        right = torch.nn.functional.one_hot(data.label, data.K).bool()
        wrong = r.masked_fill(right, 0.0).sum()
        errors = common.masked_fill(right, 0.0).sum() / above_zero(wrong)
        return {"source": source, "common_share": data.mean_by_worker(source), "common_errors": errors}
