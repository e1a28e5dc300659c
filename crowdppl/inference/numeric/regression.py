"""Truths that depend on features of items: the weights of the features, with the truths summed out.

The labels of an item say of its truth what one number ``h / P`` with variance ``1 / P`` says, see
:mod:`crowdppl.kernels.linear_gaussian`. With ``z_i ~ Normal(x_i' w, s^2)`` summed out this number is normal around ``x_i' w``
with variance ``s^2 + 1 / P``: weights with a normal prior are a Bayesian linear regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crowdppl.inference.numeric.readings import given_labels


def weights(
    features: Tensor, precision: Tensor, linear: Tensor, truth_sd: Tensor, weight_sd: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the normal distribution of weights given labels: mean ``(D, C)`` and lower root of the precision ``(C, D, D)``.

    Args:
        features: ``(N, D)``.
        precision: ``P`` of each item, without the prior, ``(N, C)``.
        linear: ``h``, likewise.
        truth_sd: ``s``, ``(C,)``.
        weight_sd: prior standard deviation of the weights, ``(C,)``.
    """
    share = 1 / (1 + truth_sd**2 * precision)
    own = torch.eye(features.shape[-1]).to(features)
    matrix = torch.stack(
        [
            features.T @ (features * by.unsqueeze(-1)) + own * spread**-2
            for by, spread in zip((precision * share).T, weight_sd, strict=True)
        ]
    )
    root = torch.linalg.cholesky(matrix)
    right = (features.T @ (linear * share)).T.unsqueeze(-1)  # (C, D, 1)
    return torch.cholesky_solve(right, root).squeeze(-1).T, root


def drawn(mean: Tensor, root: Tensor, noise: Tensor) -> Tensor:
    """Return draws ``(D, C)`` from the distribution that :func:`weights` returns, made of standard normal ``noise (D, C)``."""
    upper = root.mT
    return mean + torch.linalg.solve_triangular(upper, noise.T.unsqueeze(-1), upper=True).squeeze(-1).T


@dataclass
class Truths:
    """The joint distribution of truths and weights given labels and workers, as moments.

    Attributes:
        mean: of the truths, ``(N,)``.
        variance: likewise.
        apart: mean of truths less what features make expect, ``(N,)``; without features of the truths.
        apart_variance: variance of the same.
        given: variance of a truth given the weights, likewise.
        weight: mean of the weights, ``(D,)``; ``None`` without features.
        root: lower root of their precision, ``(D, D)``; ``None`` without features.
    """

    mean: Tensor
    variance: Tensor
    apart: Tensor
    apart_variance: Tensor
    given: Tensor
    weight: Tensor | None = None
    root: Tensor | None = None

    @classmethod
    def of(
        cls, features: Tensor | None, precision: Tensor, linear: Tensor, truth_sd: float, weight_sd: float
    ) -> Truths:
        """Return the moments; arguments as of :func:`weights`, for one chain."""
        if features is None:
            mean, variance = (part.squeeze(-1) for part in given_labels(precision, linear, truth_sd))
            return cls(mean, variance, mean, variance, variance)
        own, spread = (precision.new_tensor([one]) for one in (truth_sd, weight_sd))
        weight, root = weights(features, precision, linear, own, spread)
        centre = features @ weight
        mean, given = (part.squeeze(-1) for part in given_labels(precision, linear, truth_sd, centre))
        # A truth follows what is expected of it by this share, and is apart by the rest.
        follows = given / truth_sd**2
        expected = _variance(features, root[0])
        return cls(
            mean,
            given + follows**2 * expected,
            mean - centre.squeeze(-1),
            given + (1 - follows) ** 2 * expected,
            given,
            weight.squeeze(-1),
            root[0],
        )

    def relative_variance(self, features: Tensor | None, truth_sd: float) -> Tensor:
        """Return the variance of each truth less the mean of all, ``(N,)``."""
        N = len(self.mean)
        out = self.given * (1 - 2 / N) + self.given.mean() / N
        if features is None or self.root is None:
            return out
        rows = (self.given / truth_sd**2).unsqueeze(-1) * features
        return out + _variance(rows - rows.mean(0), self.root)

    def weight_square(self) -> Tensor:
        """Return the expected sum of squares of the weights."""
        assert self.weight is not None
        assert self.root is not None
        own = torch.eye(len(self.weight)).to(self.weight)
        return (self.weight**2).sum() + (torch.linalg.solve_triangular(self.root, own, upper=False) ** 2).sum()

    def shift(self, by: float) -> None:
        """Add a number to all truths."""
        self.mean, self.apart = self.mean + by, self.apart + by

    def stretch(self, shrunk: float) -> None:
        """Divide truths and weights by a number."""
        self.mean, self.apart = self.mean / shrunk, self.apart / shrunk
        self.variance, self.apart_variance = self.variance / shrunk**2, self.apart_variance / shrunk**2
        self.given = self.given / shrunk**2
        if self.weight is not None and self.root is not None:
            self.weight, self.root = self.weight / shrunk, self.root * shrunk


def _variance(rows: Tensor, root: Tensor) -> Tensor:
    """Return the variance of ``rows @ w``, ``(N,)``, for weights with this lower root of their precision."""
    return (torch.linalg.solve_triangular(root, rows.T, upper=False) ** 2).sum(0)
