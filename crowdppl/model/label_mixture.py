"""True labels of a set that depend on each other: each item is in a cluster, and given the cluster its labels are independent.

For a model of sets of labels, item ``i`` stands for a pair of a task ``g`` and a label ``l``, and its states have the probability

    p(z_g1 .. z_gL) = sum_c share[c] prod_l rate[c, l, z_gl]

The pairs of a task follow each other, ``L`` in a row. The sums over clusters are exact. ``log p(labels of pair (g, l) | those of
the pairs before)`` is the difference of two logsumexps over clusters, so that gradients go through them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations

# Numbers of one block of tasks, at most, where no gradients are wanted.
BLOCK = 2**22


class SmoothedSets(NamedTuple):
    """The posterior of the labels of all tasks.

    Attributes:
        log_likelihood: log-probability of the labels of a pair given those of the pairs of the task before it, ``(..., N)``.
        probability: of the states of a pair given all labels of the task, ``(..., N, S)``.
        clusters: expected number of tasks in each cluster, ``(..., C)``.
        states: expected number of tasks by cluster, label and its state, ``(..., C, L, S)``.
    """

    log_likelihood: Tensor
    probability: Tensor
    clusters: Tensor
    states: Tensor


class LabelMixture(NamedTuple):
    """Logs of the distribution of the labels of a task.

    Attributes:
        share: of the clusters, ``(..., C)``.
        rate: of the states of each label in a cluster, ``(..., C, L, S)``.
    """

    share: Tensor
    rate: Tensor

    def smooth(self, log_likelihoods: Tensor, data: Annotations) -> SmoothedSets:
        """Return the posterior of the labels of all tasks, given ``log p(labels of pair | state)``, ``(..., N, S)``."""
        L = self.rate.shape[-2]
        tasks = log_likelihoods.unflatten(-2, (-1, L))  # (..., G, L, S)
        step = self._step(tasks)
        parts = [self._smoothed(tasks[..., g : g + step, :, :]) for g in range(0, tasks.shape[-3], step)]
        if not parts:
            parts = [self._smoothed(tasks)]
        likelihood, probability, clusters, states = zip(*parts, strict=True)
        return SmoothedSets(
            torch.cat(likelihood, -2).flatten(-2),
            torch.cat(probability, -3).flatten(-3, -2),
            torch.stack(clusters).sum(0),
            torch.stack(states).sum(0),
        )

    def _step(self, tasks: Tensor) -> int:
        """Return how many tasks to take at a time."""
        if torch.is_grad_enabled() and any(value.requires_grad for value in (tasks, *self)):
            return max(1, tasks.shape[-3])
        each = self.rate.shape[-3] * tasks[..., :1, :, :].numel()
        return max(1, BLOCK // max(1, each))

    def _given_clusters(self, tasks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what is known of tasks ``(..., G, L, S)`` given their cluster, the tasks on the last axis, where they are many.

        Returns:
            Likelihoods of the states relative to the largest, ``(..., L, S, G)``; the probability of the labels of a pair in
            these units, ``(..., L, C, G)``; and the logarithm of the unit, ``(..., L, 1, G)``.
        """
        logs = tasks.movedim(-3, -1)  # (..., L, S, G)
        unit = logs.detach().amax(-2, keepdim=True)
        each = (logs - unit).exp()
        return each, self.rate.exp().movedim(-3, -2) @ each, unit

    def _smoothed(self, tasks: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what :meth:`smooth` returns, of tasks ``(..., G, L, S)``, and the pairs of a task on an axis of their own."""
        each, pair, unit = self._given_clusters(tasks)
        # log p(cluster, labels of the first pairs), (..., L, C, G); of those of the pairs before, (..., L, G).
        so_far = self.share[..., None, :, None] + pair.log().cumsum(-3)
        upto = torch.logsumexp(so_far, -2)
        likelihood = upto - torch.cat([torch.zeros_like(upto[..., :1, :]), upto[..., :-1, :]], -2) + unit.squeeze(-2)
        with torch.no_grad():
            cluster = (so_far[..., -1, :, :] - upto[..., -1:, :]).exp()  # (..., C, G)
            # Labels that are impossible in a cluster leave it no probability, and its states none.
            weight = torch.where(pair > 0, cluster.unsqueeze(-3) / pair, 0.0)  # (..., L, C, G)
            rate = self.rate.exp().movedim(-3, -2)  # (..., L, C, S)
            state = (rate.mT @ weight) * each  # (..., L, S, G)
            expected = (weight @ each.mT * rate).movedim(-2, -3)  # (..., C, L, S)
        return likelihood.mT, state.movedim(-1, -3), cluster.sum(-1), expected

    def draw_states(self, log_likelihoods: Tensor, data: Annotations) -> Tensor:
        """Draw the states of all pairs from their posterior, ``(..., N)`` int64: the cluster of a task, then its labels."""
        L = self.rate.shape[-2]
        tasks = log_likelihoods.unflatten(-2, (-1, L))
        step = self._step(tasks)
        drawn = [self._drawn(tasks[..., g : g + step, :, :]) for g in range(0, tasks.shape[-3], step)]
        return torch.cat(drawn, -2).flatten(-2)

    def _drawn(self, tasks: Tensor) -> Tensor:
        """Draw the states of tasks ``(..., G, L, S)``, ``(..., G, L)``."""
        each, pair, _ = self._given_clusters(tasks)
        cluster = _drawn((self.share.unsqueeze(-1) + pair.log().sum(-3)).softmax(-2).mT)  # (..., G)
        L, S = self.rate.shape[-2:]
        of_cluster = self.rate.exp().flatten(-2).expand(*cluster.shape[:-1], -1, -1)  # (..., C, L*S)
        own = of_cluster.gather(-2, cluster.unsqueeze(-1).expand(*cluster.shape, L * S)).unflatten(-1, (L, S))
        return _drawn(own * each.movedim(-1, -3))

    def probability_of(self, states: Tensor, log_likelihoods: Tensor) -> Tensor:
        """Return the posterior probability that the pairs of each task have these states, ``(G,)``.

        Args:
            states: of all pairs, ``(N,)``.
            log_likelihoods: as of :meth:`smooth`, ``(N, S)``.
        """
        L = self.rate.shape[-2]
        tasks, states = log_likelihoods.unflatten(-2, (-1, L)), states.view(-1, L)
        step = self._step(tasks)
        parts = [log_likelihoods.new_zeros(0)]
        for g in range(0, len(tasks), step):
            here, own = tasks[g : g + step], states[g : g + step]
            _, pair, unit = self._given_clusters(here)
            of_states = torch.gather(
                self.rate.expand(len(own), *self.rate.shape),
                -1,
                own[:, None, :, None].expand(-1, len(self.share), -1, 1),
            )
            likelihood = here.gather(-1, own.unsqueeze(-1)).sum((-2, -1))
            joint = torch.logsumexp(self.share + of_states.squeeze(-1).sum(-1), -1) + likelihood
            total = torch.logsumexp(self.share.unsqueeze(-1) + pair.log().sum(-3), -2) + unit.sum((-3, -2))
            parts.append((joint - total).exp())
        return torch.cat(parts)

    def marginals(self, data: Annotations) -> Tensor:
        """Return the log-probability of the states of each pair before any label is seen, ``(..., N, S)``."""
        each = torch.logsumexp(self.share[..., None, None] + self.rate, -3)  # (..., L, S)
        tasks = data.N // each.shape[-2]
        return each.unsqueeze(-3).expand(*each.shape[:-2], tasks, -1, -1).flatten(-3, -2)

    def prevalence(self, data: Annotations) -> Tensor:
        """Return the share of pairs in each state, ``(..., S)``."""
        return torch.logsumexp(self.share[..., None, None] + self.rate, -3).exp().mean(-2)


def _drawn(weights: Tensor) -> Tensor:
    """Draw from distributions that are proportional to the weights on the last axis."""
    below = weights.cumsum(-1)
    uniform = torch.rand(below.shape[:-1], dtype=below.dtype, device=below.device).unsqueeze(-1)
    return (below < uniform * below[..., -1:]).sum(-1).clamp(max=weights.shape[-1] - 1)
