"""The linear Gaussian model's scales: their modes, draws on a grid; and draws of labels beyond the ends of a bounded scale."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crowdppl.kernels.linear_gaussian import WorkerSums
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import (
    FEWEST_DF,
    MOST_DF,
)

# Nodes of the logarithm of a standard deviation, and of the degrees of freedom.
SPREADS = (-9.0, 3.0, 240)
NODES_DF = 80
# The least spread of workers, whose parameters are then equal.
LEAST_SPREAD = 1e-4
# Newton steps to the best degrees of freedom at most, and the relative length of one that is the last.
NEWTON, SETTLED = 30, 1e-12


def best_spread(squares: float, count: float, scale: float) -> float:
    """Return the mode of a standard deviation with a half-normal prior, given ``count`` variables with this sum of squares."""
    square = scale**2 / 2 * (math.sqrt(count**2 + 4 * squares / scale**2) - count)
    return max(math.sqrt(square), LEAST_SPREAD)


def best_df(level: float, start: float) -> float:
    """Return the mode of the degrees of freedom, which is where ``log h - digamma(h) = -level`` with ``h`` half of them.

    ``h (level - 1) + h log h - lgamma(h)`` is concave. Newton's steps are on ``1 / h``, of which the equation is nearly linear.

    Args:
        level: ``1 + log c`` less the mean over workers of ``E log v + c E(1 / v)``, with ``c`` the common variance.
        start: of the search.
    """
    lowest, highest = 2 / MOST_DF, 2 / FEWEST_DF
    inverse = torch.tensor(2 / start, dtype=torch.float64)
    for _ in range(NEWTON):
        half = 1 / inverse
        gap, steep = half.log() - half.digamma() + level, half**2 * (torch.polygamma(1, half) - 1 / half)
        renewed = (inverse - gap / steep).clamp(lowest, highest)
        if abs(float(renewed - inverse)) <= SETTLED:
            break
        inverse = renewed
    return 2 / float(renewed)


def draw_spread(squares: Tensor, count: int | Tensor, scale: float) -> Tensor:
    """Draw a standard deviation, ``(C,)``, given ``count`` normal variables whose squares sum to ``squares``, ``(C,)``.

    Its prior is half normal with this scale. The logarithm is drawn from a grid, evenly within a cell.
    """
    low, high, nodes = SPREADS
    log = torch.linspace(low, high, nodes).to(squares)
    square = (2 * log).exp()
    size = torch.as_tensor(count).to(squares).unsqueeze(-1)
    density = -(size - 1) * log - squares.unsqueeze(-1) / (2 * square) - square / (2 * scale**2)
    return from_grid(density, log)


def from_grid(density: Tensor, log: Tensor) -> Tensor:
    """Draw a number, ``(C,)``, of log densities ``(C, nodes)`` of its logarithm, ``(nodes,)``: evenly within a cell."""
    cell = torch.distributions.Categorical(logits=density, validate_args=False).sample()
    width = log[1] - log[0]
    return (log[cell] + width * (torch.rand_like(density[:, 0]) - 0.5)).exp()


def draw_df(variance: Tensor, common: Tensor) -> Tensor:
    """Draw the degrees of freedom, ``(C,)``, of variances ``(J, C)`` around a common one, ``(C,)``.

    Their inverse is uniform a priori.
    """
    inverse = torch.linspace(1 / MOST_DF, 1 / FEWEST_DF, NODES_DF).to(variance)
    df = 1 / inverse
    half, J = df / 2, len(variance)
    logs, inverses = variance.log().sum(0).unsqueeze(-1), (1 / variance).sum(0).unsqueeze(-1)
    rate = half * common.unsqueeze(-1)
    density = J * (half * rate.log() - half.lgamma()) - half * logs - rate * inverses
    return df[torch.distributions.Categorical(logits=density, validate_args=False).sample()]


class Ends:
    """Labels at the ends of a bounded scale, which stand for everything beyond.

    The tables of the data hold the end itself; what labels exceed it by is added here. Known true numbers are not at an end.
    """

    def __init__(self, data: StandardLabels, chains: int):
        assert data.ends is not None
        low, high = data.ends
        crowd = data.worker < data.workers
        at_high = crowd & (data.value >= high - 1e-9)
        at_low = crowd & (data.value <= low + 1e-9) & ~at_high
        self.row = (at_high | at_low).nonzero().squeeze(-1)
        self.item, self.worker = data.item[self.row], data.worker[self.row]
        self.sign = torch.where(at_high[self.row], 1.0, -1.0).to(data.value).unsqueeze(-1)
        self.bound = data.value[self.row].unsqueeze(-1)
        self.items, self.workers = data.items, data.columns
        self.beyond = torch.zeros(len(self.row), chains).to(data.value)  # in excess of the end, which the tables hold

    def _sum(self, index: Tensor, values: Tensor, size: int) -> Tensor:
        return values.new_zeros(size, values.shape[-1]).index_add_(0, index, values)

    def by_item(self, weight: Tensor) -> Tensor:
        """Return what labels beyond the ends add to the linear term of each item, ``(N, C)``."""
        return self._sum(self.item, self.beyond * weight[self.worker], self.items)

    def draw(self, truth: Tensor, intercept: Tensor, slope: Tensor, variance: Tensor) -> None:
        """Draw the labels beyond the ends."""
        centre = intercept[self.worker] + slope[self.worker] * truth[self.item]
        spread = variance[self.worker].sqrt()
        distance = self.sign * (self.bound - centre) / spread
        tail = torch.special.ndtr(-distance) * torch.rand_like(distance)
        drawn = -torch.special.ndtri(tail.clamp(min=1e-300))
        self.beyond = centre + self.sign * spread * torch.maximum(drawn, distance) - self.bound

    def added(self, sums: WorkerSums, truth: Tensor) -> WorkerSums:
        """Return sums of workers with those of the labels beyond the ends."""
        own = self.beyond
        square = 2 * own * self.bound + own**2
        more = [self._sum(self.worker, part, self.workers) for part in (own, square, own * truth[self.item])]
        return sums._replace(
            label=sums.label + more[0], label_square=sums.label_square + more[1], product=sums.product + more[2]
        )
