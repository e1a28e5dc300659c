"""Groups of workers: each worker belongs to one group, and all their annotations come from the group's confusion matrix.

The identified relative of Mena and Ñanculef's crowd mixture (:mod:`crowdppl.models.crowd_mixture`), where each annotation draws a
group anew. Hideaki Imamura, Issei Sato and Masashi Sugiyama (2018). Analysis of minimax error rate for crowdsourcing and its
application to worker clustering model. ICML, PMLR 80, 2147-2156: their worker clustering model (WC). Communities whose workers
vary around a common matrix are in :mod:`crowdppl.models.community`.

Model::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    share       alpha         ~ Dirichlet(1 + prior_members)                groups, over workers, (M,)
    confusion   beta^m_k      ~ Dirichlet(1 + pseudo-counts)          rows of each group, (M, K, K)
    group       g_j           ~ Categorical(alpha)                    of each worker, (J,)
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k ~ Categorical(beta^{g_j}_k)

The groups of workers are discrete and connect all items. Gibbs sampling draws them by exact conditionals. EM has them at their
mode: given expected counts, each worker is assigned to the group in which they are most probable, then the groups' matrices and
shares follow, until no worker changes; truths are summed out. It rises at every step, to a local maximum: the first groups
divide the workers by their agreement with the votes. The likelihood does not identify the order of groups: in each draw they are
ordered by the mean of the diagonal before they are reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero, sample_dirichlet
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, positive
from crowdppl.model.hyperparameters import require_above, require_pseudo_counts, require_whole
from crowdppl.model.plates import Plates
from crowdppl.model.populations import by_agreement
from crowdppl.model.priors import CommonPrevalence, confusion_prior
from crowdppl.model.truths.classes import one_hot

# Alternations in one M step; fewer are needed.
ROUNDS = 100


@final
@dataclass(frozen=True)
class WorkerGroups(CommonPrevalence, AnnotationModel):
    """Workers in groups, a confusion matrix a group.

    Attributes:
        groups: ``M``, the number of groups.
        prior_correct: correct pseudo-annotations of every group in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
        prior_members: pseudo-workers of every group, on top of a flat prior; below 0 (above -1) fewer groups are used.
        prior_items: pseudo-items of every class.
    """

    groups: int = 3
    prior_correct: float = 2.0
    prior_incorrect: float = 1.0
    prior_members: float = 0.0
    prior_items: float = 0.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "share": ("group",),
        "group_confusion": ("group", "true_label", "given_label"),
        "group_of": ("worker",),
        "ordered_share": ("rank",),
        "ordered_confusion": ("rank", "true_label", "given_label"),
        "membership": ("worker", "rank"),
    }
    viewed: ClassVar = ("membership",)

    def __post_init__(self) -> None:
        require_whole(self, "groups")
        require_above(self, -1, "prior_members")
        require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_items")

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse gradients, which cannot move groups, and EM where a group without workers has an infinite density."""
        if method == "gibbs":
            return None
        if method != "em":
            return (
                "the groups of workers are discrete and connect all items; use method='gibbs', or 'em' for their mode"
            )
        if self.prior_members < 0:
            return "with prior_members below 0 the posterior has no mode for EM; use method='gibbs'"
        return None

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, share ``(M,)``, group_confusion ``(M, K, K)`` and group_of ``(J,)``."""
        p, a, B = self._concentrations(data)
        prevalence = pyro.sample("prevalence", Dirichlet(p))
        share = pyro.sample("share", Dirichlet(a))
        confusion = pyro.sample("group_confusion", Dirichlet(B).to_event(2))
        with plates.worker:
            group = pyro.sample("group_of", Categorical(share))
        return {"prevalence": prevalence, "share": share, "group_confusion": confusion, "group_of": group}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the rows of the group of each annotation's worker: batch ``(A, K)``."""
        return Categorical(parameters["group_confusion"][parameters["group_of"].long()][data.worker])

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the rows of each worker's group, ``(..., J, K, K)``."""
        table, group = parameters["group_confusion"], parameters["group_of"].long()
        index = group[..., None, None].expand(*group.shape, *table.shape[-2:])
        return table.gather(-3, index)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of the three Dirichlets and of the groups, ``(...)``."""
        p, a, B = self._concentrations(data)
        share = parameters["share"]
        members = share.log().gather(-1, parameters["group_of"].long()).sum(-1)
        table = dirichlet_log_density(B, parameters["group_confusion"]).sum((-2, -1))
        return dirichlet_log_density(p, parameters["prevalence"]) + dirichlet_log_density(a, share) + table + members

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return groups and what they share at a maximum given responsibilities ``(N, K)``: no worker gains by another group.

        Matrices given groups and groups given matrices alternate, from the current groups; each raises the expected log joint.
        """
        counts = data.counts.expected(responsibility)  # (J, K, K)
        group = by_agreement(counts, self.groups) if parameters is None else parameters["group_of"].long().clone()
        _, a, B = self._concentrations(data)
        for _ in range(ROUNDS):
            member = torch.nn.functional.one_hot(group, self.groups).to(data.dtype)  # (J, M)
            share = dirichlet_mode(a - 1 + member.sum(0))
            table = dirichlet_mode(B - 1 + torch.einsum("jm,jkl->mkl", member, counts))
            logs = above_zero(share).log() + torch.einsum("jkl,mkl->jm", counts, above_zero(table).log())  # (J, M)
            now = logs.gather(-1, group.unsqueeze(-1)).squeeze(-1)
            best, choice = logs.max(-1)
            moves = best > now + 1e-9 * now.abs()  # not for rounding
            if not bool(moves.any()):
                break
            group = torch.where(moves, choice, group)
        prevalence = dirichlet_mode(self.prior_items + responsibility.sum(-2))
        return {"prevalence": prevalence, "share": share, "group_confusion": table, "group_of": group}

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw groups given truths ``(C, N)`` and the groups' matrices, then matrices and shares given the groups."""
        p, a, B = self._concentrations(data)
        chosen = one_hot(truth, data)
        counts = data.counts.expected(chosen)  # (C, J, K, K)
        logs = parameters["share"].log().unsqueeze(-2) + torch.einsum(
            "cjkl,cmkl->cjm", counts, parameters["group_confusion"].log()
        )  # (C, J, M)
        group = Categorical(logits=logs).sample()  # (C, J)
        member = torch.nn.functional.one_hot(group, self.groups).to(data.dtype)  # (C, J, M)
        return {
            "prevalence": sample_dirichlet(p + chosen.sum(-2)),
            "share": positive(sample_dirichlet(a + member.sum(-2))),
            "group_confusion": positive(sample_dirichlet(B + torch.einsum("cjm,cjkl->cmkl", member, counts))),
            "group_of": group,
        }

    # ------------------------------------------------------------------ what is reported

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return shares and matrices of the groups by decreasing mean of the diagonal, and each worker's membership in them."""
        confusion = parameters["group_confusion"]
        right = torch.diagonal(confusion, dim1=-2, dim2=-1).mean(-1)  # (..., M)
        order = right.argsort(-1, descending=True)
        place = order.argsort(-1)  # rank of each group
        mine = place.gather(-1, parameters["group_of"].long())
        return {
            "ordered_share": parameters["share"].gather(-1, order),
            "ordered_confusion": confusion.gather(-3, order[..., None, None].expand_as(confusion)),
            "membership": torch.nn.functional.one_hot(mine, self.groups).to(confusion.dtype),
        }

    def _concentrations(self, data: Annotations) -> tuple[Tensor, Tensor, Tensor]:
        p = torch.full((data.K,), 1 + self.prior_items, dtype=data.dtype, device=data.device)
        a = torch.full((self.groups,), 1 + self.prior_members, dtype=data.dtype, device=data.device)
        return p, a, confusion_prior(data, self.prior_correct, self.prior_incorrect).expand(self.groups, data.K, data.K)
