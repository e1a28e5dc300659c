"""Dirichlet and Beta arithmetic that models with closed forms share; all along the last axis, any leading axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro.distributions import Beta, Dirichlet
from torch import Tensor
from torch.distributions import constraints

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero
from crowdppl.model.plates import Plates


def rows(data: Annotations, right: float, wrong: float) -> Tensor:
    """Return Dirichlet concentrations of confusion rows, ``(K, K)`` = (truth, label).

    Args:
        data: gives ``K``, type and device.
        right: imaginary right answers, on top of a flat prior.
        wrong: imaginary wrong answers, shared evenly by the wrong labels.
    """
    table = torch.full((data.K, data.K), 1 + wrong / max(1, data.K - 1), dtype=data.dtype, device=data.device)
    return table.fill_diagonal_(1 + right)


def dirichlet_mode(concentration: Tensor) -> Tensor:
    """Return the mode; uniform where all concentrations are 1, on the boundary where some are below 1."""
    counts = (concentration - 1).clamp(min=0)
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, counts / above_zero(total), 1 / counts.shape[-1])


def dirichlet_log_density(concentration: Tensor, value: Tensor) -> Tensor:
    """Return the log density; a probability of 0 costs nothing where its concentration is 1."""
    normaliser = torch.lgamma(concentration.sum(-1)) - torch.lgamma(concentration).sum(-1)
    return normaliser + torch.xlogy(concentration - 1, value).sum(-1)


def dirichlet_expected(posterior: Tensor, prior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``exp(E[log p])`` and ``E[p]`` of Dirichlets, and how far they are from their priors.

    Args:
        posterior: concentrations, ``(..., K)``; of a Beta ``(..., 2)`` = (yes, no).
        prior: likewise, or what broadcasts to them.

    Returns:
        Both ``(..., K)``, and the sum of the Kullback-Leibler divergences of all of them, a scalar.
    """
    total = posterior.sum(-1, keepdim=True)
    logs = torch.digamma(posterior) - torch.digamma(total)
    divergence = torch.lgamma(total.squeeze(-1)) - torch.lgamma(prior.sum(-1)) + ((posterior - prior) * logs).sum(-1)
    divergence = divergence - (torch.lgamma(posterior) - torch.lgamma(prior)).sum(-1)
    return logs.exp(), posterior / total, divergence.sum()


def coin_tables(right: Tensor, wrong: Tensor, K: int) -> Tensor:
    """Return tables ``(..., K, K)`` with ``right`` on the diagonal and ``wrong`` evenly beside it.

    Both are ``(..., K)``, a coin for each row, or ``(..., 1)``, one for all.
    """
    eye = torch.eye(K, dtype=right.dtype, device=right.device)
    return right.unsqueeze(-1) * eye + wrong.unsqueeze(-1) / max(1, K - 1) * (1 - eye)


def beta_mode(yes: Tensor, no: Tensor) -> Tensor:
    """Return the mode of Beta(1 + yes, 1 + no); a half where nothing is known."""
    total = yes + no
    return torch.where(total > 0, yes / above_zero(total), 0.5)


def beta_log_density(yes: float, no: float, value: Tensor) -> Tensor:
    """Return the log density of Beta(1 + yes, 1 + no)."""
    a = torch.tensor([1 + yes, 1 + no], dtype=value.dtype, device=value.device)
    normaliser = torch.lgamma(a.sum()) - torch.lgamma(a).sum()
    return normaliser + torch.xlogy(a[0] - 1, value) + torch.xlogy(a[1] - 1, 1 - value)


def positive(value: Tensor) -> Tensor:
    """Lift zeros that a Dirichlet draw with tiny concentrations underflows to, to the smallest positive number, in place."""
    value = value.clamp_(min=torch.finfo(value.dtype).tiny)
    return value.div_(value.sum(-1, keepdim=True))


def mean_field(
    first: dict[str, Tensor], worker_sites: dict[str, str], global_sites: dict[str, str]
) -> Callable[..., Any]:
    """Return a guide of independent Dirichlets and Betas.

    Args:
        first: concentrations to begin with, by site; of a Beta ``(..., 2)`` = (yes, no).
        worker_sites: ``"dirichlet"`` or ``"beta"`` by the name of each site in the worker plate.
        global_sites: likewise of the others.
    """

    def draw(name: str, kind: str, batch: int) -> None:
        value = pyro.param(f"{name}_concentration", first[name], constraint=constraints.positive)
        q = Dirichlet(value) if kind == "dirichlet" else Beta(value[..., 0], value[..., 1])
        pyro.sample(name, q.to_event(len(q.batch_shape) - batch))

    def guide(data: Annotations, index: Tensor | None = None) -> None:
        plates = Plates.over(data.N, data.J, index)
        for name, kind in global_sites.items():
            draw(name, kind, 0)
        with plates.worker:
            for name, kind in worker_sites.items():
                draw(name, kind, 1)

    return guide
