"""Rows of the graded response model: how raters use ordered grades, on the logit scale of a continuous item.

A rater is a vector ``(log slope, middle, log gaps)`` of ``K`` numbers. The thresholds between the ``K`` grades have the mean
``middle`` and the distances ``exp(log gaps)``, so that they are in order whatever the numbers. The grade that the rater gives an
item at ``x`` is at least ``l`` with probability ``sigmoid(slope x - threshold_l)`` (F. Samejima 1969, Psychometrika Monograph
17). This module gives tables of these probabilities, and raises and draws raters given counts of grades by node of ``x``.

All thresholds of a rater may be higher by an *offset*, such as the difficulty of the criterion that a grade is by. Nodes and
offsets are then a pair for each place and criterion, ``M`` of them, and counts are by pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.model.metropolis import LONGEST, moved_together

# Largest change of a number in one step, and how often a step that does not raise the log joint is halved.
HALVINGS = 5


class RaterPrior(NamedTuple):
    """Normal prior of raters: means and precisions, each ``(..., K)`` or ``(..., J, K)``."""

    mean: Tensor
    precision: Tensor

    def energy(self, raters: Tensor) -> Tensor:
        """Return minus the log density of raters ``(..., J, K)``, up to a constant, ``(..., J)``."""
        return (self.precision * (raters - self.mean).square()).sum(-1) / 2

    def log_density(self, raters: Tensor) -> Tensor:
        """Return the log density of raters ``(..., J, K)``, ``(..., J)``."""
        constant = (self.precision / (2 * math.pi)).log().expand(raters.shape).sum(-1) / 2
        return constant - self.energy(raters)


@dataclass(frozen=True)
class RaterForm:
    """What compiled functions need of a model whose workers are raters with thresholds, see :mod:`crowdppl.kernels.graded_rows`.

    Attributes:
        nodes: places of an item, evenly spaced, ``(S,)``.
        log_truth: from parameters to their log-probabilities, ``(..., S)``.
        share: of each rater in the crowd, ``(J,)``.
        raters: from parameters to the numbers of raters and, last, of the reference rater, ``(..., J+1, K)``.
        offsets: from parameters to the offset of each criterion, ``(..., L)``.
        prior: from parameters to the prior of one set of raters, a mean ``(K,)`` and precisions ``(J+1, K)``.
        completed: from draws of raters ``(C, J+1, K)``, numbers of items by node ``(C, S)`` and the parameters before to draws of
            all parameters.
    """

    nodes: Tensor
    log_truth: Callable[[Mapping[str, Tensor]], Tensor]
    share: Tensor
    raters: Callable[[Mapping[str, Tensor]], Tensor]
    offsets: Callable[[Mapping[str, Tensor]], Tensor]
    prior: Callable[[Mapping[str, Tensor]], RaterPrior]
    completed: Callable[[Tensor, Tensor, Mapping[str, Tensor]], dict[str, Tensor]]


def thresholds(raters: Tensor) -> Tensor:
    """Return the thresholds of raters ``(..., K)`` in order, ``(..., K - 1)``."""
    heights = torch.nn.functional.pad(raters[..., 2:].exp().cumsum(-1), (1, 0))
    return raters[..., 1:2] + heights - heights.mean(-1, keepdim=True)


def table(raters: Tensor, nodes: Tensor, offset: Tensor | None = None) -> Tensor:
    """Return probabilities of the grades at nodes ``(S,)`` for raters ``(..., K)``: ``(..., S, K)``, none of them 0."""
    return _table(_logits(raters, nodes, offset))


def _logits(raters: Tensor, nodes: Tensor, offset: Tensor | None = None) -> Tensor:
    """Return logits of a grade above each threshold, ``(..., S, K - 1)``, falling."""
    out = raters[..., :1].exp().unsqueeze(-1) * nodes.unsqueeze(-1) - thresholds(raters).unsqueeze(-2)
    return out if offset is None else out - offset.unsqueeze(-1)


def _table(logits: Tensor) -> Tensor:
    # sigmoid(u) - sigmoid(v) = sigmoid(u) sigmoid(-v) (1 - exp(v - u)), without cancellation for u > v.
    upper, lower = logits[..., :-1], logits[..., 1:]
    middle = torch.sigmoid(upper) * torch.sigmoid(-lower) * -torch.expm1(lower - upper)
    out = torch.cat([torch.sigmoid(-logits[..., :1]), middle, torch.sigmoid(logits[..., -1:])], -1)
    return out.clamp(min=torch.finfo(out.dtype).tiny)


def log_likelihood(raters: Tensor, counts: Tensor, nodes: Tensor, offset: Tensor | None = None) -> Tensor:
    """Return the log-likelihood of counts ``(..., J, S, K)`` for raters ``(..., J, K)``, ``(..., J)``."""
    return (counts * table(raters, nodes, offset).log()).sum((-2, -1))


def mean_slope(raters: Tensor, nodes: Tensor, weight: Tensor) -> Tensor:
    """Return by how many grades raters ``(..., K)`` grade lower per unit of their middle, at nodes with weights ``(S,)``."""
    logits = _logits(raters, nodes)
    return ((torch.sigmoid(logits) * torch.sigmoid(-logits)).sum(-1) * weight).sum(-1)


class _ByLogits(NamedTuple):
    """Derivatives by the logits at each node: table, gradient, and the information's main and side diagonals."""

    table: Tensor
    gradient: Tensor
    main: Tensor
    side: Tensor


def _by_logits(raters: Tensor, counts: Tensor, nodes: Tensor, offset: Tensor | None) -> _ByLogits:
    logits = _logits(raters, nodes, offset)
    p = _table(logits)  # (..., J, S, K)
    density = torch.sigmoid(logits) * torch.sigmoid(-logits)  # (..., J, S, K - 1)
    # A threshold moves probability from the grade below it to that above.
    score = counts / p
    gradient = density * (score[..., 1:] - score[..., :-1])
    size = counts.sum(-1, keepdim=True)
    main = size * density.square() * (1 / p[..., 1:] + 1 / p[..., :-1])
    side = -size * density[..., :-1] * density[..., 1:] / p[..., 1:-1]
    return _ByLogits(p, gradient, main, side)


def offset_slopes(raters: Tensor, counts: Tensor, nodes: Tensor, offset: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-likelihood of counts ``(..., J)``, its gradient and the expected information by offsets, ``(..., J, M)``."""
    p, gradient, main, side = _by_logits(raters, counts, nodes, offset)
    return (counts * p.log()).sum((-2, -1)), -gradient.sum(-1), main.sum(-1) + 2 * side.sum(-1)


def slopes(
    raters: Tensor, counts: Tensor, nodes: Tensor, offset: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-likelihood of counts, its gradient and the expected information.

    Args:
        raters: ``(..., J, K)``.
        counts: of grades by node, ``(..., J, S, K)``.
        nodes: ``(S,)``.
        offset: by which thresholds are higher, ``(S,)`` or ``(..., J, S)``, if they are.

    Returns:
        ``(..., J)``, ``(..., J, K)`` and ``(..., J, K, K)``.
    """
    K = raters.shape[-1]
    p, gradient, main, side = _by_logits(raters, counts, nodes, offset)
    # By the numbers of a rater: logits are slope * node - thresholds, summed over nodes with powers of the node.
    powers = torch.stack([torch.ones_like(nodes), nodes, nodes.square()])  # (3, S)
    mains = powers @ main  # (..., J, 3, K - 1)
    sides = powers @ side
    blocks = torch.diag_embed(mains) + torch.diag_embed(sides, 1) + torch.diag_embed(sides, -1)  # (..., J, 3, K-1, K-1)
    slope = raters[..., :1].exp()  # (..., J, 1)
    by_threshold = _by_threshold(raters)  # (..., J, K - 1, K - 1): threshold, number
    first = powers[:2] @ gradient  # (..., J, 2, K - 1)
    out = torch.cat(
        [
            slope * first[..., 1, :].sum(-1, keepdim=True),
            -(by_threshold.mT @ first[..., 0, :].unsqueeze(-1)).squeeze(-1),
        ],
        -1,
    )
    information = raters.new_empty(*raters.shape, K)
    information[..., 0, 0] = slope.squeeze(-1).square() * blocks[..., 2, :, :].sum((-2, -1))
    cross = -slope * (blocks[..., 1, :, :].sum(-2, keepdim=True) @ by_threshold).squeeze(-2)
    information[..., 0, 1:] = information[..., 1:, 0] = cross
    information[..., 1:, 1:] = by_threshold.mT @ blocks[..., 0, :, :] @ by_threshold
    return (counts * p.log()).sum((-2, -1)), out, information


def _by_threshold(raters: Tensor) -> Tensor:
    """Return derivatives of the thresholds by middle and log gaps, ``(..., K - 1, K - 1)`` = (threshold, number)."""
    K = raters.shape[-1]
    above = torch.ones(K - 1, K - 1, dtype=raters.dtype, device=raters.device).tril()
    centred = above - above.mean(0)
    gaps = raters[..., 2:].exp().unsqueeze(-2)  # (..., 1, K - 2)
    ones = torch.ones_like(raters[..., 1:2]).unsqueeze(-1).expand(*raters.shape[:-1], K - 1, 1)
    return torch.cat([ones, centred[:, 1:] * gaps], -1)


def raised(
    raters: Tensor, counts: Tensor, nodes: Tensor, prior: RaterPrior, offset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Take a Fisher scoring step from raters ``(..., J, K)``, shortened where the log joint would fall.

    Returns:
        Raters, and their approximate posterior variances before the step, both ``(..., J, K)``.
    """
    start, gradient, information = slopes(raters, counts, nodes, offset)
    before = start - prior.energy(raters)
    precision = information + torch.diag_embed(prior.precision.expand(raters.shape))
    factor = torch.linalg.cholesky(precision)
    pull = gradient - prior.precision * (raters - prior.mean)
    step = torch.cholesky_solve(pull.unsqueeze(-1), factor).squeeze(-1).clamp(-LONGEST, LONGEST)
    variance = torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1)
    out = raters + step
    for _ in range(HALVINGS):
        fallen = log_likelihood(out, counts, nodes, offset) - prior.energy(out) < before
        if not bool(fallen.any()):
            return out, variance
        step = step / 2
        out = torch.where(fallen.unsqueeze(-1), raters + step, out)
    fallen = log_likelihood(out, counts, nodes, offset) - prior.energy(out) < before
    return torch.where(fallen.unsqueeze(-1), raters, out), variance


def drawn(raters: Tensor, counts: Tensor, nodes: Tensor, prior: RaterPrior, offset: Tensor | None = None) -> Tensor:
    """Draw raters ``(..., J, K)`` given counts: a Metropolis-Hastings step whose proposal is a Fisher scoring step with noise.

    The proposal is normal around the end of the step, with the inverse information as covariance (Qi and Minka 2002,
    Hessian-based Markov chain Monte Carlo algorithms).
    """

    def target(value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fit, gradient, information = slopes(value, counts, nodes, offset)
        pull = gradient - prior.precision * (value - prior.mean)
        return fit - prior.energy(value), pull, information + torch.diag_embed(prior.precision.expand(value.shape))

    return moved_together(raters, target)
