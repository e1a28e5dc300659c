"""Difficulties of criteria by which raters grade: offsets of all thresholds with mean 0, and steps that raise or draw them.

The facets model of several criteria (J. M. Linacre 1989, Many-facet Rasch measurement): thresholds ``t_jl + d_c`` with a
difficulty ``d_c`` of each criterion. A vector ``b`` of free numbers has the difficulties ``d = b - mean(b)``, so that severities
and difficulties are identified by the data whatever the prior, and the mean of ``b`` keeps its prior.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.model import graded_rows
from crowdppl.model.metropolis import moved_together, raised_together

# How often a step that does not raise the log joint is halved.
HALVINGS = 5


def difficulties(free: Tensor) -> Tensor:
    """Return difficulties ``(..., L)`` with mean 0 of free numbers."""
    return free - free.mean(-1, keepdim=True)


def offsets(free: Tensor, nodes: int) -> Tensor:
    """Return the offset of each pair of a criterion and a node, ``(..., 1, L*S)``, for all raters."""
    return difficulties(free).repeat_interleave(nodes, -1).unsqueeze(-2)


def with_reference(offset: Tensor, raters: int) -> Tensor:
    """Return offsets of ``J`` raters, and of the reference rater, whose grades are by no criterion: ``(..., J+1, L*S)``."""
    each = offset.expand(*offset.shape[:-2], raters, offset.shape[-1])
    return torch.cat([each, torch.zeros_like(offset)], -2)


def slopes(free: Tensor, raters: Tensor, counts: Tensor, nodes: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log joint of free numbers ``(..., L)``, its gradient, and the expected information with the prior's.

    Args:
        free: with a prior of mean 0, ``(..., L)``.
        raters: without the reference rater, ``(..., J, K)``.
        counts: of grades by criterion and node, ``(..., J, L*S, K)``.
        nodes: the nodes once for each criterion, ``(L*S,)``.
        scale: prior standard deviation.

    Returns:
        ``(...)``, ``(..., L)`` and ``(..., L, L)``.
    """
    L = free.shape[-1]
    offset = offsets(free, len(nodes) // L)
    fit, gradient, information = graded_rows.offset_slopes(raters, counts, nodes, offset)
    by_criterion, curve = (part.sum(-2).unflatten(-1, (L, -1)).sum(-1) for part in (gradient, information))  # (..., L)
    eye = torch.eye(L, dtype=free.dtype, device=free.device)
    centre = eye - 1 / L
    value = fit.sum(-1) - (free / scale).square().sum(-1) / 2
    return (
        value,
        by_criterion @ centre - free / scale**2,
        centre @ torch.diag_embed(curve) @ centre + eye / scale**2,
    )


def raised(free: Tensor, raters: Tensor, counts: Tensor, nodes: Tensor, scale: float) -> Tensor:
    """Take a Fisher scoring step from ``(L,)``, shortened where the log joint would fall; arguments as :func:`slopes`."""
    return raised_together(free, lambda value: slopes(value, raters, counts, nodes, scale), HALVINGS)


def drawn(free: Tensor, raters: Tensor, counts: Tensor, nodes: Tensor, scale: float) -> Tensor:
    """Draw free numbers ``(C, L)`` by a Metropolis-Hastings step around a Fisher scoring step; arguments as :func:`slopes`."""
    return moved_together(free, lambda value: slopes(value, raters, counts, nodes, scale))
