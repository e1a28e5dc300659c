"""Difficulty times competence: the difficulty of an item and the competence of a worker as two tensors.

Emmanouil A. Platanios, Maruan Al-Shedivat, Eric Xing and Tom Mitchell (2020). Learning from imperfect annotations.
arXiv:2004.03473. Their LIA; LIA-E where items have embeddings in place of features; LIA-ML for several labels at once.

Model::

    truth       z_i | x_i      ~ Categorical(h(x_i; theta))
    difficulty  log D_i[k,l,m] = g_m(x_i; phi) + cell_scale d_klm(x_i; phi)         (K, K, L), positive
    competence  log C_j[k,l,m] = c_klm(r_j; psi) + level_m diagonal_bias [k = l]    (K, K, L), positive
    quality     Q_ij[k, l]     = sum_m D_i[k, l, m] C_j[k, l, m], each row divided by its sum     equations (1), (4)
    label       y_n | z_i = k  ~ Categorical(Q_ij[k, :])

``h`` and ``(g, d)`` are perceptrons with four layers of 16 units, ``c`` is linear; ``r_j`` is an embedding of 16 numbers, with a
normal prior, or, given worker features, a linear map of them, so that new workers have one too. Without item features ``x_i``
is a learned embedding (LIA-E). With ``L = 1``, ``log Q`` is a table of the item plus a table of the worker, normalised:
regularised minimax conditional entropy (Zhou et al. 2015) is that case with free tables.

With ``relations`` items are pairs (item, relation) and truths are yes or no (LIA-ML): the last feature is the relation's number,
see :func:`crowdppl.data.label_sets.pairs`. ``h``, ``d`` and ``c`` then read the same learned embedding of the relation too
(section 3.4). The paper's medical networks have ``hidden=(32, 32, 32, 32)``.

How ``D`` and ``C`` are made positive, and the priors of the weights, are ours. A latent dimension is a level of competence:
``level_m`` goes from 0, guessing, to 2, and the difficulty of an item mostly weighs the levels (``g``). So difficulty acts from
the first gradient step on, and is unlikely to permute labels as a function of the features, which exchanges truth and quality at
about the same likelihood. See *Departures from the paper* on the model's page. **Note:** factors can move between ``D`` and ``C``
without a change of ``Q``; compare ``Q`` only, or what follows from it.

Fitting, as in the paper: EM from majority vote, 10 E steps, AMSGrad with batches of 1,024, every M step from where the last one
ended; then gradients on the marginal likelihood (``fine_tune``). By default an M step has 100 gradient steps at 3e-3 (the paper:
1,000 at 1e-3, which takes ten times as long, and finds the quality of workers less well in a simulation).
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
from crowdppl.model.networks import Factory, build, perceptron, standardised
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
        diagonal_bias: mean over latent dimensions of the logarithm of the competence's diagonal, at weights of zero.
        prior_scale: standard deviation of the normal prior of the weights of ``h``.
        embedded_scale: likewise, where items have learned embeddings, which have a prior of their own (LIA-E). With a small one
            ``h`` is the same for all items: 108 items with a few labels each do not pay for what it takes to tell them apart.
        competence_scale: likewise of ``c``, and of the map of worker features: how far workers differ in competence.
        difficulty_scale: likewise of ``g`` and ``d``: how far items differ in difficulty.
        cell_scale: how far the cells of one latent dimension differ in difficulty, compared with the dimensions.
        network: ``h`` in place of the default, a module or a maker of one, with ``K`` outputs.
    """

    latent: int = 4
    hidden: tuple[int, ...] = (16, 16, 16, 16)
    embedding: int = 16
    relations: int = 0
    diagonal_bias: float = 1.0
    prior_scale: float = 1.0
    embedded_scale: float = 3.0
    competence_scale: float = 0.3
    difficulty_scale: float = 0.4
    cell_scale: float = 0.1
    network: Factory | None = None

    dims: ClassVar = {
        "worker_embedding": ("worker", "embedding"),
        "item_embedding": ("item", "embedding"),
        "relation_embedding": ("relation", "embedding"),
        "classifier": ("item", "true_label"),
    }
    viewed: ClassVar = ("classifier", "worker_embedding")

    def __post_init__(self) -> None:
        require_whole(self, "latent", "embedding")
        require_whole(self, "relations", least=0)
        require_positive(self, "prior_scale", "embedded_scale", "competence_scale", "difficulty_scale")
        require_pseudo_counts(self, "diagonal_bias", "cell_scale")

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """A tenth of the paper's gradient steps, three times as long."""
        return {
            "em": {
                "max_iter": 10,
                "steps": 100,
                "batch_size": 1024,
                "learning_rate": 3e-3,
                "fine_tune": 100,
            },
            "svi": {"guide": "point", "learning_rate": 0.01, "batch_size": 1024},
        }

    def networks(self, data: Annotations) -> dict[str, nn.Module]:
        """Return ``h`` (truth), ``d`` (difficulty), ``c`` (competence), and with worker features the map to embeddings."""
        E, out = self.embedding, sum(self._sizes(data))
        x, known, code = data.features, data.worker_features, 0
        if self.relations:
            if x is None or not _numbers(x[:, -1], self.relations):
                raise DataError(
                    f"LIA: the last feature must be the relation's number, 0 to {self.relations - 1}; make pairs by "
                    f"crowdppl.data.label_sets.pairs"
                )
            x, code = x[:, :-1], E
        modules: dict[str, nn.Module] = {"competence": nn.Linear(E + code, self._sizes(data)[1])}
        if x is None:
            modules["truth"] = perceptron(E, data.K, self.hidden)
            modules["difficulty"] = perceptron(E, out, self.hidden)
        else:
            modules["truth"] = build(self.network, x, data.K, lambda D, K: perceptron(D, K, self.hidden), code)
            modules["difficulty"] = standardised(perceptron(x.shape[-1] + code, out, self.hidden), x, code)
        if known is not None:
            modules["workers"] = standardised(nn.Linear(known.shape[-1], E), known)
        return modules

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample the networks' weights and the embeddings.

        Those of workers are ``(J, E)``, of items without features ``(N, E)``, of relations ``(R, E)``.
        """
        out: Parameters = {}
        unit = Normal(torch.zeros(self.embedding), 1.0).to_event(1)
        if data.features is None:
            with plates.item:
                out["item_embedding"] = pyro.sample("item_embedding", unit)
        elif self.relations:
            out["relation_embedding"] = pyro.sample("relation_embedding", unit.expand([self.relations]).to_event(1))
        if data.worker_features is None:
            with plates.worker:
                out["worker_embedding"] = pyro.sample("worker_embedding", unit)
        else:
            out["workers"] = plates.network("workers", scale=self.competence_scale)
        out["truth"] = plates.network("truth", scale=self.embedded_scale if data.features is None else self.prior_scale)
        out["competence"] = plates.network("competence", scale=self.competence_scale)
        out["difficulty"] = plates.network("difficulty", scale=self.difficulty_scale)
        return out

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return Categorical(h(x)), batch ``(N,)``."""
        return Categorical(logits=parameters["truth"](self._items(parameters, data)))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of ``Q_ij`` for each annotation: batch ``(A, K)``."""
        log_D, log_C = self.log_difficulty(parameters, data), self.log_competence(parameters, data)
        return Categorical(logits=torch.logsumexp(log_D[data.item] + log_C, -1))

    def log_difficulty(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log D`` of each item, ``(N, K, K, L)``."""
        levels, cells = parameters["difficulty"](self._items(parameters, data)).split(self._sizes(data), -1)
        return levels[:, None, None] + self.cell_scale * cells.unflatten(-1, (data.K, data.K, self.latent))

    def log_competence(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log C`` for each annotation, ``(A, K, K, L)``: of its worker, and of its item's relation if there are some."""
        r, at = self.workers(parameters, data), data.worker
        if self.relations and data.features is not None:
            codes = parameters["relation_embedding"]
            r = torch.cat([r.repeat_interleave(len(codes), 0), codes.repeat(len(r), 1)], -1)  # (J R, 2 E)
            at = data.worker * len(codes) + data.features[data.item, -1].long()
        c = parameters["competence"](r).unflatten(-1, (data.K, data.K, self.latent))
        level = torch.linspace(0, 2, self.latent) if self.latent > 1 else torch.ones(1)
        bias = self.diagonal_bias * torch.eye(data.K).unsqueeze(-1) * level
        return (c + bias.to(c))[at]

    def _sizes(self, data: Annotations) -> tuple[int, int]:
        """Return the numbers of ``g`` and of ``d``."""
        return self.latent, data.K * data.K * self.latent

    def _items(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return what ``h`` and ``d`` read, a row for each item."""
        if data.features is None:
            return parameters["item_embedding"]
        if not self.relations:
            return data.features
        code = parameters["relation_embedding"][data.features[:, -1].long()]
        return torch.cat([data.features[:, :-1], code], -1)

    def workers(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the workers' embeddings ``r_j``, ``(J, E)``."""
        if data.worker_features is None:
            return parameters["worker_embedding"]
        return parameters["workers"](data.worker_features)

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return ``h(x)`` of each item, and the embeddings of workers that come from features (learned ones are parameters)."""
        out: Parameters = {"classifier": self.truth(parameters, data).probs}
        if data.worker_features is not None:
            out["worker_embedding"] = self.workers(parameters, data)
        return out


def _numbers(codes: Tensor, count: int) -> bool:
    """Tell whether all codes are whole numbers from 0 to ``count - 1``."""
    return bool(((codes >= 0) & (codes < count) & (codes == codes.round())).all())
