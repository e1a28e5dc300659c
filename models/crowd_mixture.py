"""Crowd mixture model: groups of annotators in place of annotators, learned from the label counts of items.

Francisco Mena and Ricardo Ñanculef (2019). Revisiting machine learning from crowds: a mixture model for grouping annotations.
Progress in Pattern Recognition, Image Analysis, Computer Vision, and Applications (CIARP), LNCS 11896. Their CMM.

Model, for each of the ``T_i`` annotations of item ``i``::

    share       alpha          ~ Dirichlet(1 + prior_members)               groups, (M,)
    confusion   beta^m_k       ~ Dirichlet(1 + pseudo-counts)         rows of each group, (M, K, K)
    truth       z | x_i        ~ Categorical(f(x_i; theta))           f a network, theta normal
    group       g              ~ Categorical(alpha)
    label       y | z, g       ~ Categorical(beta^g_z)

so that ``p(y = j | x) = sum_k sum_m beta^m_kj f_k(x) alpha_m``. Annotations enter by their counts ``r_i (N, K)`` only (the
*global* setting): who gave which need not be known, and no parameter belongs to a worker. Every
(item, label) cell is an item of its own, with multiplicity ``r_ij`` and the state (truth, group); an item's truth is the mean
over its cells, the paper's consensus p-bar.

**What is identified.** Truth and group are drawn anew for each annotation, so that the likelihood depends on the parameters only
through ``p(y | x) = f(x)' G``, with the one matrix of the crowd, ``G = sum_m alpha_m beta^m``. Every split of the same ``G`` into
groups is equally likely, one group included: groups differ by the start (k-means) and the prior only. Nor is ``G`` itself
identified: for every row-stochastic ``A`` with a non-negative ``A^-1 G``, the classifier ``f A`` and the matrix ``A^-1 G`` give
each annotation the same probability. A blurred classifier with a sharp ``G`` explains the labels as well as the reverse. Where
some items have certain classes, no classifier is sharper than the true one, and EM therefore keeps the entropy of the classes
low (``certainty``). In :class:`crowdppl.models.WorkerGroups` all annotations of a worker come from one group, and groups are
identified.

Fitting, as in the paper: EM; ``alpha`` and ``beta`` in closed form (equation 6), the network by one epoch of Adam on the
consensus; a start at soft majority, with groups by k-means over annotations; at most 50 iterations, several starts, the
one with the highest objective kept (5 by default, the paper: 20; ``restarts=19``).
Departures from the paper: the entropy above is part of the objective (``certainty=0`` is the paper's); an item counts as often as
it was annotated in the network's cross-entropy (that is the expected log likelihood; the same where all items have equally many
labels); weights have a weak normal prior; rows may have priors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero, sum_by
from crowdppl.model.base import AnnotationModel, ClassifierTargets, Parameters
from crowdppl.model.conjugacy import dirichlet_mode
from crowdppl.model.hyperparameters import require_positive, require_pseudo_counts, require_share, require_whole
from crowdppl.model.networks import Factory, build, features_of, perceptron
from crowdppl.model.plates import Plates
from crowdppl.model.priors import confusion_prior

LLOYD_STEPS = 50


@final
@dataclass(frozen=True)
class CrowdMixture(AnnotationModel):
    """A classifier behind groups of annotators.

    Attributes:
        groups: ``M``, the number of groups.
        network: classifier, a module or a function that makes one from (D, K), with ``K`` outputs. Defaults to one hidden layer
            of ``hidden`` units.
        hidden: units of the default network's layers.
        dropout: of the default network.
        prior_scale: standard deviation of the normal prior of the network's weights.
        prior_correct: correct pseudo-annotations of every group in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
        prior_members: pseudo-annotations of every group.
        certainty: what an annotation counts for in keeping the entropy of the classifier's classes low, by EM; 0 as in the paper.
    """

    groups: int = 3
    network: Factory | None = None
    hidden: tuple[int, ...] = (128,)
    dropout: float = 0.5
    prior_scale: float = 1.0
    prior_correct: float = 0.0
    prior_incorrect: float = 0.0
    prior_members: float = 0.0
    certainty: float = 0.1

    caveat: ClassVar = (
        "The likelihood does not identify the groups: every split of the crowd's confusion matrix into groups explains the "
        "annotations equally well. Use model 'worker-groups' to learn groups of workers."
    )
    dims: ClassVar = {
        "share": ("group",),
        "group_confusion": ("group", "true_label", "given_label"),
        "confusion": ("worker", "true_label", "given_label"),
        "crowd_confusion": ("true_label", "given_label"),
        "membership": ("worker", "group"),
        "assignment": ("annotation", "group"),
    }
    viewed: ClassVar = ("membership",)

    def __post_init__(self) -> None:
        require_whole(self, "groups")
        require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_members")
        require_positive(self, "prior_scale")
        require_share(self, "dropout", "certainty")

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """The schedules of the paper, with five starts."""
        return {
            "em": {"max_iter": 50, "restarts": 4, "tol": 1e-5},
            "svi": {"learning_rate": 0.01, "batch_size": 256},
        }

    def states_per_class(self, data: Annotations) -> int:
        """Return ``M``: the state of an annotation is (truth, group)."""
        return self.groups

    def networks(self, data: Annotations) -> dict[str, torch.nn.Module]:
        """Return the classifier ``f(x; theta)``."""
        x = features_of(data, "CrowdMixture")
        default = lambda D, K: perceptron(D, K, self.hidden, self.dropout)  # noqa: E731
        return {"classifier": build(self.network, x, data.K, default)}

    def expand(self, data: Annotations) -> Annotations:
        """Return the (item, label) cells with their counts."""
        return data.item_label_cells()

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample share ``(M,)``, group_confusion ``(M, K, K)`` and the classifier's weights."""
        a, B = self._concentrations(data)
        return {
            "share": pyro.sample("share", Dirichlet(a)),
            "group_confusion": pyro.sample("group_confusion", Dirichlet(B).to_event(2)),
            "classifier": plates.network("classifier", scale=self.prior_scale),
        }

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the distribution of (truth, group) for each cell, ``(C, K M)``."""
        return Categorical(logits=self.log_truth(parameters, data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the groups' rows, the same for every annotation: batch ``(A, K M)``."""
        table = _by_state(parameters["group_confusion"])  # (S, K)
        return Categorical(table.expand(data.A, *table.shape))

    # ------------------------------------------------------------------ closed forms

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log f_k(x) + log alpha_m`` for each cell, ``(C, K M)``; the network runs once an item, not once a cell."""
        log_f = torch.log_softmax(parameters["classifier"](data.features), -1)  # (N, K)
        if data.parent_item is not None:
            log_f = log_f[data.parent_item]
        return (log_f.unsqueeze(-1) + parameters["share"].log()).flatten(-2)

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log beta^m_k,label`` summed over each item's annotations, ``(C, K M)``: by its votes."""
        logs = _by_state(parameters["group_confusion"]).log()  # (S, K)
        if data.A == data.N and data.parent_item is not None:  # one label a cell: nothing to sum
            return data.weighted(logs.T[data.label])
        return sum_by(data.item, data.weighted(logs.T[data.label]), data.N)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return the modes of share and rows given ``(C, K M)`` responsibilities times counts (equation 6)."""
        a, B = self._concentrations(data)
        q = responsibility.unflatten(-1, (data.K, self.groups))  # (C, K, M)
        counts = sum_by(data.label, data.weighted(q[data.item]), data.K).permute(2, 1, 0)  # (M, truth, label)
        return {"share": dirichlet_mode(q.sum((0, 1)) + a - 1), "group_confusion": dirichlet_mode(counts + B - 1)}

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse Gibbs sampling: items are pairs of an item and a label, which count as often as the label was given."""
        if method == "gibbs":
            return "pairs of an item and a label have multiplicities, which are not sampled; use method='em', 'svi' or 'nuts'"
        return super().check_method(method, data)

    def classifier_targets(self, responsibility: Tensor, data: Annotations) -> ClassifierTargets:
        """Return the consensus, ``sum_j r_ij q_ij(k)``, which the classifier learns by cross-entropy."""
        per_cell = responsibility.unflatten(-1, (data.K, self.groups)).sum(-1)  # (C, K)
        if data.parent_item is None:
            return ClassifierTargets("classifier", per_cell, certainty=self.certainty)
        items = sum_by(data.parent_item, per_cell, len(features_of(data, "CrowdMixture")))
        return ClassifierTargets("classifier", items, certainty=self.certainty)

    def initial(self, data: Annotations) -> Tensor:
        """Return soft majority for the truth and k-means over annotations for the groups, ``(C, K M)``.

        An annotation is the point (its label, the shares of all labels of its item); ties between starts are random.
        """
        label = torch.nn.functional.one_hot(data.label, data.K).to(data.dtype)  # (C, K)
        often = label.new_ones(data.N) if data.multiplicity is None else data.multiplicity
        parent = torch.arange(data.N, device=data.device) if data.parent_item is None else data.parent_item
        votes = sum_by(parent, label * often.unsqueeze(-1), int(parent.max()) + 1)
        share = (votes / above_zero(votes.sum(-1, keepdim=True)))[parent]  # (C, K)
        known = data.truth >= 0
        share[known] = torch.nn.functional.one_hot(data.truth[known], data.K).to(data.dtype)
        group = _k_means(torch.cat([label, share], -1), often, self.groups)  # (C,)
        belongs = 0.9 * torch.nn.functional.one_hot(group, self.groups).to(data.dtype) + 0.1 / self.groups
        return (share.unsqueeze(-1) * belongs.unsqueeze(-2)).flatten(-2)

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return the crowd's matrix ``G (K, K)``, and who the groups consist of (section 3.4).

        ``assignment (A, M)`` is ``p(g = m | x, y)`` of each annotation; ``membership (J, M)`` that of each worker given all of
        their annotations, which are taken to come from one group: in proportion to the share and the product of likelihoods.
        """
        share = parameters["share"].log()
        given = self._log_likelihood_by_group(parameters, data)
        membership = (share + sum_by(data.worker, data.weighted(given), data.J)).softmax(-1)
        return {
            "confusion": torch.einsum("jm,mkl->jkl", membership, parameters["group_confusion"]),
            "crowd_confusion": torch.einsum("m,mkl->kl", parameters["share"], parameters["group_confusion"]),
            "assignment": (share + given).softmax(-1),
            "membership": membership,
        }

    def _log_likelihood_by_group(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(y | x, g = m)`` of each annotation, ``(A, M)``."""
        f = torch.softmax(parameters["classifier"](data.features), -1)  # (N, K)
        chances = torch.einsum("nk,mkl->nlm", f, parameters["group_confusion"])
        return chances[data.item, data.label].log()

    def _concentrations(self, data: Annotations) -> tuple[Tensor, Tensor]:
        share = torch.full((self.groups,), 1 + self.prior_members, dtype=data.dtype, device=data.device)
        return share, confusion_prior(data, self.prior_correct, self.prior_incorrect).expand(
            self.groups, data.K, data.K
        )


def _by_state(confusion: Tensor) -> Tensor:
    """Put ``(M, K, L)`` in the order of states: ``(K M, L)``."""
    return confusion.transpose(0, 1).flatten(0, 1)


def _k_means(points: Tensor, weight: Tensor, clusters: int) -> Tensor:
    """Cluster ``(C, P)`` points with weights ``(C,)`` by Lloyd's iterations, from a k-means++ start: cluster of each ``(C,)``."""
    centres = points[torch.multinomial(weight, 1)]
    for _ in range(clusters - 1):
        distance = torch.cdist(points, centres).amin(-1).square() * weight
        # All points alike: any will do.
        chances = distance if bool(distance.sum() > 0) else weight
        centres = torch.cat([centres, points[torch.multinomial(chances, 1)]])
    for _ in range(LLOYD_STEPS):
        nearest = torch.cdist(points, centres).argmin(-1)
        total = sum_by(nearest, weight, clusters)
        mean = sum_by(nearest, points * weight.unsqueeze(-1), clusters) / above_zero(total).unsqueeze(-1)
        moved = torch.where((total > 0).unsqueeze(-1), mean, centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return torch.cdist(points, centres).argmin(-1)
