"""Populations of workers: steps that models share in which confusion rows ``B_jk ~ Dirichlet(s_k m_k)`` come from a population.

Given the true labels, a population is drawn with the workers' rows summed out. A cell with count ``n`` and concentration ``c``
has a number of tables ``t`` (Chinese restaurant: ``t = sum_{i<n} Bernoulli(c / (c + i))``), each row a weight
``w ~ Beta(s, n)``; then ``m ~ Dirichlet(prior + tables)`` and ``s ~ Gamma(shape + tables, rate - sum log w)`` are exact
conditionals (Escobar and West 1995, JASA 90; Teh et al. 2006, JASA 101).
"""

from __future__ import annotations

import torch
from pyro.distributions import Beta, Gamma, MixtureSameFamily
from torch import Tensor

from crowdppl.kernels.ops import above_zero, sample_dirichlet
from crowdppl.model.conjugacy import positive


class DirichletMixture(MixtureSameFamily):  # type: ignore[misc]
    """A mixture of Dirichlets. Its values are those of its components; torch has no coordinates for values of mixtures."""

    @property
    def support(self) -> object:
        """Rows that sum to one."""
        return self.component_distribution.support


def log_components(value: Tensor, concentration: Tensor) -> Tensor:
    """Return the log density of each worker's rows ``(..., J, K, K)`` in each of ``M`` populations: ``(..., J, M)``.

    Args:
        value: rows of the workers.
        concentration: of the populations, ``(..., M, K, K)``.
    """
    normaliser = torch.lgamma(concentration.sum(-1)).sum(-1) - torch.lgamma(concentration).sum((-2, -1))  # (..., M)
    return above_zero(value).log().flatten(-2) @ (concentration - 1).flatten(-2).mT + normaliser.unsqueeze(-2)


def log_marginals(counts: Tensor, concentration: Tensor) -> Tensor:
    """Return the log probability of each worker's counts with the rows summed out, in each population: ``(..., J, M)``.

    Args:
        counts: annotations in a given order, ``(..., J, K, K)``.
        concentration: of the populations, ``(..., M, K, K)``.
    """
    out = []
    for one in concentration.unbind(-3):  # the terms of all populations together take more memory than the counts
        c = one.unsqueeze(-3)  # (..., 1, K, K)
        cells = torch.lgamma(c + counts).sum((-2, -1)) - torch.lgamma(c).sum((-2, -1))
        total = c.sum(-1)
        out.append(cells - torch.lgamma(total + counts.sum(-1)).sum(-1) + torch.lgamma(total).sum(-1))
    return torch.stack(out, -1)


def draw_auxiliary(counts: Tensor, strength: Tensor, typical: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the tables of each cell and the log weight of each row, given the population of each worker.

    Args:
        counts: whole numbers of annotations, ``(..., J, K, K)``.
        strength: ``(..., J, K)``, or ``(..., 1, K)`` where all workers have one population.
        typical: rows of the population, ``(..., J, K, K)`` or ``(..., 1, K, K)``.

    Returns:
        Numbers of tables ``(..., J, K, K)``, and logs of weights ``(..., J, K)``, 0 in rows without annotations.
    """
    number = tables(counts, (strength.unsqueeze(-1) * typical).expand_as(counts))
    total = counts.sum(-1)  # (..., J, K)
    w = above_zero(Beta(strength.expand_as(total), total.clamp(min=1)).sample())
    return number, torch.where(total > 0, w.log(), 0.0)


def draw_population(
    number: Tensor, logs: Tensor, prior: Tensor, strength_shape: float, strength_mean: float
) -> tuple[Tensor, Tensor]:
    """Draw typical rows ``(..., K, K)`` and strengths ``(..., K)`` given sums of tables and log weights over workers.

    Args:
        number: of tables, ``(..., K, K)``.
        logs: of weights, ``(..., K)``.
        prior: Dirichlet concentrations of the typical rows, ``(K, K)``.
        strength_shape: of the strength's Gamma prior.
        strength_mean: of the same.
    """
    typical = positive(sample_dirichlet(prior + number))
    gamma = Gamma(strength_shape + number.sum(-1), strength_shape / strength_mean - logs)
    return typical, gamma.sample().clamp(min=1e-6)


def tables(counts: Tensor, concentration: Tensor) -> Tensor:
    """Draw the number of tables of each cell, ``sum_{i < n} Bernoulli(c / (c + i))``: as many draws as there are annotations."""
    n = counts.reshape(-1).round().long()
    cell = torch.arange(len(n), device=n.device).repeat_interleave(n)  # (annotations,)
    first = n.cumsum(0) - n
    place = (torch.arange(len(cell), device=n.device) - first[cell]).to(counts.dtype)
    c = concentration.reshape(-1)[cell]
    new = (torch.rand_like(c) * (c + place) < c).to(counts.dtype)
    return torch.zeros_like(concentration.reshape(-1)).index_add_(0, cell, new).view(counts.shape)


def by_agreement(counts: Tensor, groups: int) -> Tensor:
    """Divide workers into groups of about equal size by their share of correct annotations, the highest share first.

    Groups that begin alike stay alike; these do not. Workers with the same share are in the same group, so that the order of
    workers does not matter.

    Args:
        counts: expected annotations ``(..., J, K, K)`` = (worker, true label, given label).
        groups: their number.

    Returns:
        The group of each worker, ``(..., J)``.
    """
    correct = torch.diagonal(counts, dim1=-2, dim2=-1).sum(-1)
    total = counts.sum((-2, -1))
    crowd = correct.sum(-1, keepdim=True) / above_zero(total.sum(-1, keepdim=True))
    # One pseudo-annotation of the crowd's share: single annotations say little. Rounded, so that sums in another order are equal.
    share = -((correct + crowd) / (total + 1)).mul(1e6).round()
    better = torch.searchsorted(share.sort(-1).values, share.contiguous())  # how many are better
    return better * groups // max(1, share.shape[-1])
