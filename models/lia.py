"""Difficulty times competence: the difficulty of an item and the competence of a worker as two tensors.

Emmanouil A. Platanios, Maruan Al-Shedivat, Eric Xing and Tom Mitchell (2020). Learning from imperfect annotations.
arXiv:2004.03473. Their LIA; LIA-E where items have embeddings in place of features; LIA-ML for several labels at once.

Model::

    truth       z_i | x_i      ~ Categorical(h(x_i; theta))
    difficulty  D_i            = 1 + d(x_i; phi)                       (K, K, L)
    competence  C_j            = c(r_j; psi), linear                   (K, K, L)
    quality     Q_ij[k, :]     = softmax over labels of  sum_l D_i[k, :, l] C_j[k, :, l] + diagonal_bias [label = k]
    label       y_n | z_i = k  ~ Categorical(Q_ij[k, :])

``h`` and ``d`` are perceptrons with four layers of 16 units; ``r_j`` is an embedding of 16 numbers, learned with a normal prior,
or, given worker features, a linear map of them, so that new workers have one too. Without item features ``x_i`` is a
learned embedding (LIA-E). Of the paper's ways to normalise ``Q`` this is the log-linear one, its default.

The 1 in ``D``, the small ``difficulty_scale`` of its weights and the ``diagonal_bias`` are ours. An unconstrained ``D`` can
permute labels as a function of the features: truth and quality are then exchanged at the same likelihood (in a simulation with
two features EM found 47% of the truths, and 98% with ``difficulty_scale`` .1). With these priors a worker starts with one
confusion matrix for all items, near the identity, which items modify. The paper relies on a first E step by majority vote, which
is here too. **Note:** ``D`` and ``C`` can still be rotated and scaled against each other without a change of ``Q``; compare ``Q``
only, or what follows from it.

With ``relations`` items are pairs (item, relation) and truths are yes or no (LIA-ML): the last feature is the relation's number,
for which an embedding is learned; see :func:`crowdppl.data.label_sets.pairs`.

Fitting, as in the paper: EM from majority vote, 10 E steps of 1,000 AMSGrad steps each at 1e-3 with batches of 1,024, every M
step from where the last one ended; then gradients on the marginal likelihood (``fine_tune``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Normal
from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts, require_whole
from crowdppl.model.networks import Coded, Factory, build, perceptron, standardised
from crowdppl.model.plates import Plates


@final
@dataclass(frozen=True)
class LIA(AnnotationModel):
    """A classifier, a difficulty of each item and a competence of each worker.

    Attributes:
        latent: ``L``, dimensions of difficulty and competence.
        hidden: units of the layers of ``h`` and ``d``.
        embedding: size of the embeddings of workers, of items without features, and of relations.
        relations: number of relations where items are pairs, 0 where they are not.
        diagonal_bias: added to the diagonal of every quality's logits.
        prior_scale: standard deviation of the normal prior of the weights of ``h`` and ``c``.
        difficulty_scale: likewise of ``d``: how far items differ in difficulty.
        network: ``h`` in place of the default, a module or a maker of one, with ``K`` outputs.
    """

    latent: int = 4
    hidden: tuple[int, ...] = (16, 16, 16, 16)
    embedding: int = 16
    relations: int = 0
    diagonal_bias: float = 1.0
    prior_scale: float = 1.0
    difficulty_scale: float = 0.1
    network: Factory | None = None

    dims: ClassVar = {
        "worker_embedding": ("worker", "embedding"),
        "item_embedding": ("item", "embedding"),
    }

    def __post_init__(self) -> None:
        require_whole(self, "latent", "embedding")
        require_whole(self, "relations", least=0)
        require_positive(self, "prior_scale", "difficulty_scale")
        require_pseudo_counts(self, "diagonal_bias")

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """The schedules of the paper."""
        return {
            "em": {
                "max_iter": 10,
                "steps": 1000,
                "batch_size": 1024,
                "learning_rate": 1e-3,
                "fine_tune": 1000,
            },
            "svi": {"guide": "point", "learning_rate": 0.01, "batch_size": 1024},
        }

    def networks(self, data: Annotations) -> dict[str, nn.Module]:
        """Return ``h`` (truth), ``d`` (difficulty), ``c`` (competence), and with worker features the map to embeddings."""
        E, out = self.embedding, data.K * data.K * self.latent
        known = data.worker_features
        modules: dict[str, nn.Module] = {"competence": nn.Linear(E, out)}
        if data.features is None:
            modules["truth"] = perceptron(E, data.K, self.hidden)
            modules["difficulty"] = perceptron(E, out, self.hidden)
        elif self.relations:
            code = data.features[:, -1]
            if bool(((code < 0) | (code >= self.relations) | (code != code.round())).any()):
                raise DataError(
                    f"LIA: the last feature must be the relation's number, 0 to {self.relations - 1}; make pairs by "
                    f"crowdppl.data.label_sets.pairs"
                )
            inputs = data.D - 1 + E
            for name, size in (("truth", data.K), ("difficulty", out)):
                modules[name] = Coded(data.features, self.relations, E, perceptron(inputs, size, self.hidden))
        else:
            x = data.features
            modules["truth"] = build(self.network, x, data.K, lambda D, K: perceptron(D, K, self.hidden))
            modules["difficulty"] = standardised(perceptron(x.shape[-1], out, self.hidden), x)
        if known is not None:
            modules["workers"] = standardised(nn.Linear(known.shape[-1], E), known)
        return modules

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample the networks' weights and the embeddings: workers' ``(J, E)``, and items' ``(N, E)`` without features."""
        out: Parameters = {}
        unit = Normal(torch.zeros(self.embedding), 1.0).to_event(1)
        if data.features is None:
            with plates.item:
                out["item_embedding"] = pyro.sample("item_embedding", unit)
        if data.worker_features is None:
            with plates.worker:
                out["worker_embedding"] = pyro.sample("worker_embedding", unit)
        else:
            out["workers"] = plates.network("workers", scale=self.prior_scale)
        for name in ("truth", "competence"):
            out[name] = plates.network(name, scale=self.prior_scale)
        out["difficulty"] = plates.network("difficulty", scale=self.difficulty_scale)
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(h(x)), batch ``(N,)``."""
        return Categorical(logits=parameters["truth"](self._items(parameters, data)))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of ``Q_ij`` for each annotation: batch ``(A, K)``."""
        shape = (data.K, data.K, self.latent)
        D = 1 + parameters["difficulty"](self._items(parameters, data)).unflatten(-1, shape)  # (N, K, K, L)
        C = parameters["competence"](self.workers(parameters, data)).unflatten(-1, shape)  # (J, K, K, L)
        logits = (D[data.item] * C[data.worker]).sum(-1)  # (A, K, K)
        return Categorical(
            logits=logits + self.diagonal_bias * torch.eye(data.K, dtype=logits.dtype, device=logits.device)
        )

    def _items(self, parameters: Parameters, data: Annotations) -> Tensor:
        return parameters["item_embedding"] if data.features is None else data.features

    def workers(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the workers' embeddings ``r_j``, ``(J, E)``."""
        if data.worker_features is None:
            return parameters["worker_embedding"]
        return parameters["workers"](data.worker_features)

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return the embeddings of workers that come from features; learned ones are parameters already."""
        if data.worker_features is None:
            return {}
        return {"worker_embedding": self.workers(parameters, data)}
