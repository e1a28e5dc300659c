"""Community Dawid-Skene: workers come from communities, and their confusion matrices vary around that of their community.

Matteo Venanzi, John Guiver, Gabriella Kazai, Pushmeet Kohli and Milad Shokouhi (2014). Community-based Bayesian aggregation
models for crowdsourcing. WWW, 155-164: CommunityBCC.

Model, with ``M`` communities::

    prevalence  p             ~ Dirichlet(1 + prior_items)
    share       alpha         ~ Dirichlet(1 + prior_members)           of communities, over workers, (M,)
    typical     m_mk          ~ Dirichlet(1 + pseudo-counts)           rows of each community, (M, K, K)
    strength    s_mk          ~ Gamma(strength_shape, strength_shape / strength_mean)   in annotations: how alike its workers are
    community   g_j           ~ Categorical(alpha)                     of each worker, summed out
    confusion   B_jk | g_j    ~ Dirichlet(s_{g_j,k} m_{g_j,k})         rows of each worker, (J, K, K)
    truth       z_i           ~ Categorical(p)
    label       y_n | z_i = k ~ Categorical(B_jk)

One community is :mod:`crowdppl.models.hierarchical`. As strengths grow, the workers of a community become equal:
:mod:`crowdppl.models.worker_groups`. Communities of workers are summed out, so that all sites are continuous. Given the truths,
Gibbs sampling draws communities, typical rows and strengths with the workers' rows summed out
(:mod:`crowdppl.model.populations`), then the rows. The likelihood does not identify the order of communities: in each draw they
are ordered by the mean of the diagonal before they are reported.

Departures: the paper's rows are softmax of Gaussian scores, its inference is variational, and how much workers vary is fixed.
Here rows are Dirichlet, which keeps Gibbs sampling exact, and the strengths are learned. EM is refused: the density of a row has
no upper bound where a cell of concentration below 1 approaches zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, Gamma
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.model import hyperparameters, populations
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.blocks import communities
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, positive
from crowdppl.model.plates import Plates
from crowdppl.model.priors import CommonPrevalence, class_prior, confusion_prior
from crowdppl.model.truths.classes import one_hot


@final
@dataclass(frozen=True)
class CommunityDawidSkene(CommonPrevalence, AnnotationModel):
    """Dawid and Skene's model with communities of workers, who vary around their community.

    Attributes:
        communities: ``M``, the number of communities.
        prior_correct: correct pseudo-annotations of the typical worker of a community in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
        prior_members: pseudo-workers of every community, on top of a flat prior; below 0 (above -1) fewer communities are used.
        prior_items: pseudo-items of every class.
        strength_mean: prior mean of the strength: a worker with as many annotations weighs as much as the community.
        strength_shape: of the strength's Gamma prior; its relative standard deviation is ``shape ** -0.5``.
    """

    communities: int = 3
    prior_correct: float = 4.0
    prior_incorrect: float = 1.0
    prior_members: float = 0.0
    prior_items: float = 0.0
    strength_mean: float = 10.0
    strength_shape: float = 2.0

    dims: ClassVar = {
        "prevalence": ("true_label",),
        "share": ("community",),
        "typical": ("community", "true_label", "given_label"),
        "strength": ("community", "true_label"),
        "confusion": ("worker", "true_label", "given_label"),
        "ordered_share": ("rank",),
        "ordered_confusion": ("rank", "true_label", "given_label"),
        "ordered_strength": ("rank", "true_label"),
        "membership": ("worker", "rank"),
    }
    viewed: ClassVar = ("membership",)

    def __post_init__(self) -> None:
        hyperparameters.require_whole(self, "communities")
        hyperparameters.require_above(self, -1, "prior_members")
        hyperparameters.require_pseudo_counts(self, "prior_correct", "prior_incorrect", "prior_items")
        hyperparameters.require_positive(self, "strength_mean", "strength_shape")

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse EM: the joint density has no maximum."""
        reason = "the joint density of workers and communities has no maximum, since it has no upper bound where"
        reason += " probabilities approach zero; use method='gibbs', 'svi' or 'nuts'"
        return reason if method == "em" else hyperparameters.refuse_weights(method, data)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample prevalence ``(K,)``, share ``(M,)``, typical ``(M, K, K)``, strength ``(M, K)``, confusion ``(J, K, K)``."""
        s = pyro.sample("strength", self._gamma(data).expand([self.communities, data.K]).to_event(2))
        m = pyro.sample("typical", Dirichlet(self._rows(data).expand(self.communities, -1, -1)).to_event(2))
        sites = {"prevalence": pyro.sample("prevalence", Dirichlet(class_prior(data, self.prior_items)))}
        sites |= {"share": pyro.sample("share", Dirichlet(self._members(data))), "typical": m, "strength": s}
        mixture = communities(sites["share"], s.unsqueeze(-1) * m)
        with plates.worker:
            return sites | {"confusion": pyro.sample("confusion", mixture)}

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return, for each annotation, the rows of its worker's confusion: batch ``(A, K)``."""
        return Categorical(parameters["confusion"][data.worker])

    # ------------------------------------------------------------------ closed forms

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the confusion matrices ``(..., J, K, K)``."""
        return parameters["confusion"]

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of all five priors, ``(...)``, the communities of workers summed out."""
        rows = dirichlet_log_density(self._rows(data), parameters["typical"]).sum((-2, -1))
        strength = self._gamma(data).log_prob(parameters["strength"]).sum((-2, -1))
        shared = dirichlet_log_density(class_prior(data, self.prior_items), parameters["prevalence"])
        shared = shared + dirichlet_log_density(self._members(data), parameters["share"])
        return shared + rows + strength + torch.logsumexp(self._log_members(parameters), -1).sum(-1)

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return a first point for the other engines, not a mode: communities of workers who agree with the votes alike."""
        counts = data.counts.expected(responsibility)  # (J, K, K)
        group = populations.by_agreement(counts, self.communities)  # (J,)
        member = torch.nn.functional.one_hot(group, self.communities).to(data.dtype)  # (J, M)
        typical = self._rows(data) + torch.einsum("jm,jkl->mkl", member, counts)
        typical = typical / typical.sum(-1, keepdim=True)
        each = self.strength_mean * typical[group] + counts
        share = 1 + member.sum(0)
        return {
            "prevalence": dirichlet_mode(self.prior_items + responsibility.sum(-2)),
            "share": share / share.sum(),
            "typical": typical,
            "strength": torch.full_like(typical[..., 0], self.strength_mean),
            "confusion": each / each.sum(-1, keepdim=True),
        }

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw communities and what they share given truths ``(C, N)``, the workers' rows summed out, then the rows."""
        chosen = one_hot(truth, data)
        counts = data.counts.expected(chosen)  # (C, J, K, K)
        s, m = parameters["strength"], parameters["typical"]  # (C, M, K), (C, M, K, K)
        logs = parameters["share"].log().unsqueeze(-2) + populations.log_marginals(
            counts, s.unsqueeze(-1) * m
        )  # (C, J, M)
        group = Categorical(logits=logs).sample()  # (C, J)
        member = torch.nn.functional.one_hot(group, self.communities).to(data.dtype)  # (C, J, M)
        chain = torch.arange(len(group), device=data.device).unsqueeze(-1)
        number, weights = populations.draw_auxiliary(counts, s[chain, group], m[chain, group])
        number = torch.einsum("cjm,cjkl->cmkl", member, number)
        weights = torch.einsum("cjm,cjk->cmk", member, weights)
        typical, strength = populations.draw_population(
            number, weights, self._rows(data), self.strength_shape, self.strength_mean
        )
        own = (strength.unsqueeze(-1) * typical)[chain, group]  # (C, J, K, K)
        return {
            "prevalence": sample_dirichlet(class_prior(data, self.prior_items) + chosen.sum(-2)),
            "share": positive(sample_dirichlet(self._members(data) + member.sum(-2))),
            "typical": typical,
            "strength": strength,
            "confusion": positive(sample_dirichlet(own + counts)),
        }

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return the communities by decreasing mean of the diagonal, and the probability that each worker belongs to them."""
        typical, strength = parameters["typical"], parameters["strength"]
        order = torch.diagonal(typical, dim1=-2, dim2=-1).mean(-1).argsort(-1, descending=True)  # (..., M)
        member = self._log_members(parameters).softmax(-1)  # (..., J, M)
        return {
            "ordered_share": parameters["share"].gather(-1, order),
            "ordered_confusion": typical.gather(-3, order[..., None, None].expand_as(typical)),
            "ordered_strength": strength.gather(-2, order.unsqueeze(-1).expand_as(strength)),
            "membership": member.gather(-1, order.unsqueeze(-2).expand_as(member)),
        }

    def _log_members(self, parameters: Parameters) -> Tensor:
        """Return ``log p(g_j = m) + log p(B_j | g_j = m)``, ``(..., J, M)``."""
        cells = parameters["strength"].unsqueeze(-1) * parameters["typical"]
        return parameters["share"].log().unsqueeze(-2) + populations.log_components(parameters["confusion"], cells)

    def _members(self, data: Annotations) -> Tensor:
        return torch.full((self.communities,), 1 + self.prior_members, dtype=data.dtype, device=data.device)

    def _rows(self, data: Annotations) -> Tensor:
        return confusion_prior(data, self.prior_correct, self.prior_incorrect)

    def _gamma(self, data: Annotations) -> Gamma:
        shape = torch.tensor(self.strength_shape, dtype=data.dtype, device=data.device)
        return Gamma(shape, shape / self.strength_mean)
