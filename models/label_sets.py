"""Sets of labels: which labels go together, and how often each worker chooses a label that is, or is not, in the true set.

Jing Zhang and Xindong Wu (2021). Multi-label truth inference for crowdsourcing using mixture models. IEEE Transactions on
Knowledge and Data Engineering 33: their MCMLD for labels that are chosen or not, in which labels are independent given the
cluster of a task. With one cluster it is their MCMLI, a model for each label on its own. Here workers come from a population.

Model, for tasks ``g`` and labels ``l``; a pair of both is an item::

    share        s             ~ Dirichlet(1 + prior_tasks)             of the clusters
    rate         r_cl          ~ Beta(1 + prior_present, 1 + prior_absent)   of each label in a cluster
    crowd        m_lz          ~ Normal(mean_z, crowd_scale)            logit of choosing a label in the set (z = 1) or not
    choice       x_jlz         ~ Normal(m_lz, spread)                   likewise of each worker
    truth        c_g ~ Categorical(s),   z_gl | c_g = c ~ Bernoulli(r_cl)
    label        y_n | z = k   ~ Bernoulli(sigmoid(x_jlk))

``sigmoid(x_jl1)`` is the worker's sensitivity to a label, ``sigmoid(x_jl0)`` the false-positive rate. The paper is EM without
priors; here EM takes the posterior mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyro
import torch
from pyro.distributions import Beta, Categorical, Dirichlet, Normal
from torch import Tensor
from torch.nn.functional import logsigmoid

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import sample_dirichlet
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.choice_rates import ChoicePrior, Decisions, drawn, raised
from crowdppl.model.conjugacy import dirichlet_log_density, dirichlet_mode, positive
from crowdppl.model.hyperparameters import require_numbers, require_positive, require_pseudo_counts, require_whole
from crowdppl.model.label_mixture import LabelMixture, SmoothedSets
from crowdppl.model.plates import Plates
from crowdppl.model.truths.classes import one_hot

# Clusters by default, at most: one for each label up to this many.
MOST = 20
# Share of the first cluster of a task that its most chosen label decides.
DECIDED = 0.8
# Rounds of Newton steps of the first M step, and of later ones.
FIRST, LATER = 8, 2


@final
@dataclass(frozen=True)
class LabelSets(AnnotationModel):
    """Clusters of tasks with a rate for each label; sensitivity and false-positive rate of each worker around the crowd's.

    Attributes:
        clusters: number of clusters. Defaults to the number of labels, or 20 if that is less; 1 makes labels independent.
        prior_tasks: pseudo-tasks of each cluster, on top of a flat prior.
        prior_present: pseudo-tasks of each cluster with each label, on top of a flat prior.
        prior_absent: likewise without it: most labels are absent from most sets.
        crowd_mean: prior mean of the crowd's logits: of choosing a label that is not in the set, and one that is.
        crowd_scale: prior standard deviation of the crowd's logits.
        spread: standard deviation of workers' logits around the crowd's.
    """

    clusters: int | None = None
    prior_tasks: float = 1.0
    prior_present: float = 0.5
    prior_absent: float = 5.0
    crowd_mean: tuple[float, float] = (-3.0, 1.0)
    crowd_scale: float = 1.5
    spread: float = 1.5

    default_method: ClassVar[str] = "em"
    dims: ClassVar = {
        "share": ("cluster",),
        "rate": ("cluster", "set_label"),
        "crowd": ("set_label", "in_set"),
        "choice": ("worker", "set_label", "in_set"),
        "sensitivity": ("worker", "set_label"),
        "false_positive_rate": ("worker", "set_label"),
        "confusion": ("worker", "true_label", "given_label"),
    }
    viewed: ClassVar = ("false_positive_rate", "sensitivity")

    def __post_init__(self) -> None:
        if self.clusters is not None:
            require_whole(self, "clusters")
        require_pseudo_counts(self, "prior_tasks", "prior_present", "prior_absent")
        require_positive(self, "crowd_scale", "spread")
        require_numbers(self, "crowd_mean", 2)

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """A hundred draws around the mode: each has a rate for every worker and label."""
        return {"em": {"num_samples": 100}}

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Refuse classes other than two."""
        if data is None or data.K == 2:
            return None
        return (
            f"a label is in the set or not, and the data have {data.K} classes; read sets of labels with several='sets' "
            f"(--several sets), or fit a model of classes, such as 'item-effects'"
        )

    # ------------------------------------------------------------------ the model

    def number_of_clusters(self, data: Annotations) -> int:
        """Return the number of clusters."""
        return min(MOST, data.number_of_set_labels) if self.clusters is None else self.clusters

    def _choice_prior(self, data: Annotations) -> ChoicePrior:
        mean = torch.tensor(self.crowd_mean, dtype=data.dtype, device=data.device)
        return ChoicePrior(mean, self.crowd_scale, self.spread)

    def _pseudo_tasks(self, data: Annotations) -> tuple[Tensor, Tensor]:
        """Return the pseudo-tasks of a cluster with a label, and without it."""
        like: dict[str, Any] = {"dtype": data.dtype, "device": data.device}
        return torch.tensor(self.prior_present, **like), torch.tensor(self.prior_absent, **like)

    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample share ``(C,)``, rate ``(C, L)``, crowd ``(L, 2)`` and choice ``(J, L, 2)``."""
        C, L = self.number_of_clusters(data), data.number_of_set_labels
        mean = self._choice_prior(data).mean.expand(L, 2)
        share = pyro.sample(
            "share", Dirichlet(torch.full((C,), 1 + self.prior_tasks, dtype=data.dtype, device=data.device))
        )
        present, absent = (1 + pseudo.expand(C, L) for pseudo in self._pseudo_tasks(data))
        rate = pyro.sample("rate", Beta(present, absent).to_event(2))
        crowd = pyro.sample("crowd", Normal(mean, self.crowd_scale).to_event(2))
        with plates.worker:
            choice = pyro.sample("choice", Normal(crowd, self.spread).to_event(2))
        return {"share": share, "rate": rate, "crowd": crowd, "choice": choice}

    def coupling(self, parameters: Parameters, data: Annotations) -> LabelMixture:
        """Return the mixture of clusters."""
        rate = parameters["rate"]
        return LabelMixture(parameters["share"].log(), torch.stack([(-rate).log1p(), rate.log()], -1))

    def truth(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return whether each label is in the set, before any annotation is seen: batch ``(N,)``."""
        return Categorical(logits=self.coupling(parameters, data).marginals(data))

    def emission(self, parameters: Parameters, data: Annotations) -> Categorical:
        """Return the probability that each annotation's worker chooses the label of its item: batch ``(A, 2)``."""
        logits = parameters["choice"][data.worker, data.set_label[data.item]]  # (A, 2)
        return Categorical(logits=torch.stack([torch.zeros_like(logits), logits], -1))

    # ------------------------------------------------------------------ closed forms

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log-likelihood of each pair's annotations, ``(..., N, 2)``."""
        choice = parameters["choice"].flatten(-3, -2)  # (..., J*L, 2)
        table = torch.stack([logsigmoid(-choice), logsigmoid(choice)], -1)
        return data.counts_by_set_label.log_likelihoods(table)

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return the log density of all four priors, ``(...)``."""
        share, rate, crowd, choice = (parameters[name] for name in ("share", "rate", "crowd", "choice"))
        present, absent = self._pseudo_tasks(data)
        return (
            dirichlet_log_density(torch.full_like(share, 1 + self.prior_tasks), share)
            + Beta(1 + present, 1 + absent).log_prob(rate).sum((-2, -1))
            + Normal(self._choice_prior(data).mean, self.crowd_scale).log_prob(crowd).sum((-2, -1))
            + Normal(crowd.unsqueeze(-3), self.spread).log_prob(choice).sum((-3, -2, -1))
        )

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return parameters of higher expected log joint; the first clusters are of tasks with the same most chosen label."""
        if parameters is None:
            return self.m_step_of_coupled(self._begun(responsibility, data), data, None)
        if data.set_labels is None:  # pairs are tasks of their own, and clusters follow from their labels alone
            mixture = self.coupling(parameters, data)
            joint = mixture.share.unsqueeze(-1) + mixture.rate.squeeze(-2)  # (C, 2)
            states = joint.softmax(0) * responsibility.sum(0)
            expected = SmoothedSets(responsibility[:, 0], responsibility, states.sum(-1), states.unsqueeze(-2))
            return self.m_step_of_coupled(expected, data, parameters)
        logs = self.log_likelihoods(parameters, data)
        logs = logs if data.clamp is None else logs + data.clamp
        return self.m_step_of_coupled(self.coupling(parameters, data).smooth(logs, data), data, parameters)

    def _begun(self, responsibility: Tensor, data: Annotations) -> SmoothedSets:
        """Return what the first M step takes."""
        C, L = self.number_of_clusters(data), data.number_of_set_labels
        chosen = responsibility[:, 1].unflatten(0, (-1, L))  # (G, L)
        often = chosen.sum(0).argsort(descending=True, stable=True)
        cluster = torch.empty(L, dtype=torch.int64, device=data.device)
        cluster[often] = torch.arange(L, device=data.device).clamp(max=C - 1)
        share = torch.full((len(chosen), C), (1 - DECIDED) / C, dtype=data.dtype, device=data.device)
        of_task = cluster[chosen.argmax(-1)].unsqueeze(-1)
        share.scatter_add_(-1, of_task, torch.full_like(share[:, :1], DECIDED))
        pairs = responsibility.unflatten(0, (-1, L))  # (G, L, 2), times how often a task stands in the data
        each = torch.einsum("gc,gls->cls", share, pairs)
        clusters = (share * pairs[:, :1].sum(-1)).sum(0)
        return SmoothedSets(chosen.new_zeros(data.N), responsibility, clusters, each)

    def m_step_of_coupled(self, expected: SmoothedSets, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return parameters of higher expected log joint, given the posterior of clusters and labels."""
        prior, J, L = self._choice_prior(data), data.J, data.number_of_set_labels
        if parameters is None:
            crowd = prior.mean.expand(L, 2)
            choice = crowd.expand(J, L, 2)
        else:
            crowd, choice = parameters["crowd"], parameters["choice"]
        rounds = FIRST if parameters is None else LATER
        crowd, choice = raised(crowd, choice, _decisions(expected.probability, data), prior, rounds)
        present, absent = self._pseudo_tasks(data)
        rate = (expected.states[..., 1] + present) / (expected.states.sum(-1) + present + absent)
        return {
            "share": dirichlet_mode(self.prior_tasks + expected.clusters),
            "rate": rate,
            "crowd": crowd,
            "choice": choice,
        }

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw the clusters given the labels of all sets ``(chains, N)``, then all parameters."""
        L = data.number_of_set_labels
        chosen = one_hot(truth, data)
        mixture = self.coupling(parameters, data)
        in_set = truth.unflatten(-1, (-1, L)).to(data.dtype)  # (chains, G, L)
        logits = mixture.rate[..., 1] - mixture.rate[..., 0]
        log_cluster = in_set @ logits.mT + (mixture.share + mixture.rate[..., 0].sum(-1)).unsqueeze(-2)
        cluster = torch.nn.functional.one_hot(Categorical(logits=log_cluster).sample(), mixture.share.shape[-1]).to(
            data.dtype
        )  # (chains, G, C)
        tasks, members = cluster.sum(-2), cluster.mT @ in_set  # (chains, C), (chains, C, L)
        both = torch.stack([members, tasks.unsqueeze(-1) - members], -1)
        crowd, choice = drawn(
            parameters["crowd"], parameters["choice"], _decisions(chosen, data), self._choice_prior(data)
        )
        return {
            "share": positive(sample_dirichlet(1 + self.prior_tasks + tasks)),
            "rate": positive(sample_dirichlet(1 + torch.stack(self._pseudo_tasks(data)) + both))[..., 0],
            "crowd": crowd,
            "choice": choice,
        }

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return each worker's sensitivity and false-positive rate by label ``(J, L)``, and one confusion matrix.

        The matrix is the mean over labels: as often as they are in sets, and as they are not, so that it is what a worker does
        with a random pair.
        """
        p = parameters["choice"].sigmoid()  # (..., J, L, 2)
        rate = torch.einsum("...c,...cl->...l", parameters["share"], parameters["rate"])
        weight = torch.stack([1 - rate, rate], -1)  # (..., L, 2)
        weight = weight / weight.sum(-2, keepdim=True)
        chosen = (p * weight.unsqueeze(-3)).sum(-2)  # (..., J, 2)
        confusion = torch.stack([1 - chosen, chosen], -1)
        return {"sensitivity": p[..., 1], "false_positive_rate": p[..., 0], "confusion": confusion}


def _decisions(responsibility: Tensor, data: Annotations) -> Decisions:
    """Return the expected decisions of each worker on each label, by truth."""
    counts = data.counts_by_set_label.expected(responsibility)  # (..., J*L, 2, 2) = (truth, given)
    counts = counts.unflatten(-3, (data.J, data.number_of_set_labels))
    return Decisions(counts.sum(-1), counts[..., 1])
