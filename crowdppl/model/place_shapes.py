"""Distributions of items on a line of nodes: smooth departures from a normal one.

The log density is that of a standard normal distribution plus a Gaussian process whose correlation falls with the distance of two
places, as ``exp(-distance^2 / 2)`` in standard deviations of the items (T. Leonard 1978, Density estimation, stochastic processes
and prior information, JRSS B 40; P. J. Lenk 1988, The logistic normal distribution for Bayesian, nonparametric, predictive
densities, JASA 83). Of the process the leading components are kept that are orthogonal, under the normal distribution, to the
place and its square. A *shape* is a vector of their numbers ``(..., B)``.

To first order in the shape they leave the mean and the spread of the items as they are, which the crowd's thresholds and slope
describe already. Large shapes move both: with numbers from a normal prior of standard deviation 2 (25 nodes to 4, 6 components),
the items' mean has a standard deviation of 1.28, their own standard deviation the quantiles (5%, 50%, 95%) .99, 1.15 and 1.99,
and the mass on the two outermost nodes a 95% quantile of .58. Thresholds and slopes are therefore relative to the nodes, not to
standardised items. A severity, as a difference of thresholds, is free of the shift, but not of the stretch.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from crowdppl.model.metropolis import moved_together, raised_together

# How often a step that does not raise the log joint is halved, and Metropolis-Hastings steps of a draw: proposals are close to
# the conditional distribution, and of two nearly none stays where it was.
HALVINGS, PROPOSALS = 10, 2


@cache
def basis(nodes: int, number: int, outermost: float) -> Tensor:
    """Return the leading components of unit prior variance, ``(S, B)``: ``number`` of them, but at most ``S - 3``.

    Args:
        nodes: number of places, ``S``, evenly spaced.
        number: of components.
        outermost: the last place; the first is its negative.
    """
    x = torch.linspace(-outermost, outermost, nodes, dtype=torch.float64)
    number = min(number, nodes - 3)
    if number == 0:
        return x.new_zeros(nodes, 0)
    weight = (-x.square() / 2).softmax(-1)
    quadratic = torch.stack([torch.ones_like(x), x, x.square()], -1)
    gram = quadratic.T @ (weight.unsqueeze(-1) * quadratic)
    apart = torch.eye(nodes, dtype=x.dtype) - quadratic @ torch.linalg.solve(gram, quadratic.T * weight)
    covariance = apart @ (-(x - x.unsqueeze(-1)).square() / 2).exp() @ apart.T
    root = weight.sqrt()
    size, direction = torch.linalg.eigh(
        root.unsqueeze(-1) * covariance * root
    )  # components that matter for normal items
    out = direction[:, -number:].flip(-1) / root.unsqueeze(-1) * size[-number:].flip(-1).clamp(min=0.0).sqrt()
    return out * torch.where(out[-1] < 0, -1.0, 1.0)


def log_shares(nodes: Tensor, components: Tensor, shape: Tensor | None) -> Tensor:
    """Return the log-probabilities of nodes ``(S,)`` for shapes ``(..., B)``, ``(..., S)``; without one, of normal items."""
    normal = -nodes.square() / 2
    return (normal if shape is None else normal + shape @ components.T).log_softmax(-1)


def counted(states: Tensor, nodes: int, weight: Tensor | None = None) -> Tensor:
    """Return the number of items at each node, ``(C, S)``, or sums of their weights ``(C, N)``, given states ``(C, N)``."""
    out = torch.zeros(len(states), nodes, dtype=torch.float64, device=states.device)
    ones = torch.ones_like(states, dtype=out.dtype) if weight is None else weight.to(out.dtype)
    return out.scatter_add_(-1, states, ones)


def slopes(
    shape: Tensor, at_nodes: Tensor, nodes: Tensor, components: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log joint of shapes, its gradient and minus its second derivatives.

    Args:
        shape: ``(..., B)``.
        at_nodes: number of items at each node, ``(..., S)``.
        nodes: ``(S,)``.
        components: ``(S, B)``.
        scale: prior standard deviation.

    Returns:
        ``(...)``, ``(..., B)`` and ``(..., B, B)``.
    """
    log = log_shares(nodes, components, shape)
    share, number = log.exp(), at_nodes.sum(-1, keepdim=True)
    mean = share @ components  # (..., B)
    spread = components.T @ (share.unsqueeze(-1) * components) - mean.unsqueeze(-1) * mean.unsqueeze(-2)
    eye = torch.eye(components.shape[-1], dtype=shape.dtype, device=shape.device)
    value = (at_nodes * log).sum(-1) - (shape / scale).square().sum(-1) / 2
    gradient = (at_nodes - number * share) @ components - shape / scale**2
    return value, gradient, number.unsqueeze(-1) * spread + eye / scale**2


def raised(shape: Tensor, at_nodes: Tensor, nodes: Tensor, components: Tensor, scale: float) -> Tensor:
    """Take a Newton step from a shape ``(B,)``, shortened where the log joint would fall; arguments as :func:`slopes`."""
    return raised_together(shape, lambda value: slopes(value, at_nodes, nodes, components, scale), HALVINGS)


def drawn(shape: Tensor, at_nodes: Tensor, nodes: Tensor, components: Tensor, scale: float) -> Tensor:
    """Draw shapes ``(C, B)`` by Metropolis-Hastings steps around Newton steps; arguments as :func:`slopes`."""
    for _ in range(PROPOSALS):
        shape = moved_together(shape, lambda value: slopes(value, at_nodes, nodes, components, scale))
    return shape
