"""What known true labels say about the classes: weights of their probabilities.

A crowd can prefer a class: readers flag half of the items where one in eight deserves it, and no number of labels tells. Known
true labels do. In each draw of the posterior the tempered probabilities of the classes
(:mod:`crowdppl.inference.dependence.design_effect`) are multiplied by weights, the same for all items,

    p(truth_i = k | labels, parameters, rho, b)  proportional to  exp(b_k) p(truth_i = k | labels, parameters)^(1 / f_i(rho)),

which is a logistic regression of the true label on the log-probabilities of the model, with a slope from the design effect and an
intercept for each class. The weights do not assume that the known items were chosen at random: items may have been chosen by
their labels, and only the probability of the true label given the labels is used.

The prior of ``b`` is normal with mean 0 and the same standard deviation for all classes, one of :data:`WIDTHS`, equally probable.
Most crowds need no weights and some need large ones, and the known true labels tell which (docs/benchmarks/known-truths.md). The
posterior is a mixture over the widths of normal distributions around the modes (Laplace), averaged over the prior of ``rho``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations

Array = npt.NDArray[Any]
# Standard deviations of the prior.
WIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0)
# Largest number of items that weights are learned from: with as many their error is below that of the model.
MOST_ITEMS = 2000
# Newton steps at most, and the size of the gradient at which they end.
STEPS, CLOSE = 100, 1e-8
# Lowest log-probability of a class.
LOWEST = -30.0


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """Distribution of the logarithms of the weights: a mixture of ``C`` normal distributions.

    Attributes:
        share: of each component, ``(C,)``, with sum 1.
        mean: of each component, ``(C, K)``.
        root: a square root of each covariance matrix, ``(C, K, K)``.
    """

    share: Array
    mean: Array
    root: Array

    @property
    def average(self) -> Array:
        """Mean logarithm of the weights, ``(K,)``."""
        return np.asarray(self.share @ self.mean)

    def draw(self, count: int, data: Annotations) -> tuple[Tensor, Tensor]:
        """Draw weights, by a scrambled Sobol sequence in random order: averages over few draws are nearly exact.

        Returns:
            Weights ``(count, K)``, and numbers uniform in (0, 1) beside them, ``(count,)``, of the same sequence.
        """
        K = self.mean.shape[1]
        seed = int(torch.randint(2**31, (), device="cpu"))
        points = torch.quasirandom.SobolEngine(K + 2, scramble=True, seed=seed).draw(count, dtype=torch.float64)
        points = points[torch.randperm(count, device="cpu")].clamp(1e-9, 1 - 1e-9)
        chosen = torch.searchsorted(torch.from_numpy(self.share.cumsum()[:-1].copy()), points[:, 0].contiguous())
        noise = torch.special.ndtri(points[:, 2:]).unsqueeze(-1)
        logs = torch.from_numpy(self.mean)[chosen] + (torch.from_numpy(self.root)[chosen] @ noise).squeeze(-1)
        return logs.exp().to(data.dtype).to(data.device), points[:, 1].to(data.dtype).to(data.device)


def class_weights(logs: Array, truth: Array, factors: Array, often: Array | None = None) -> ClassWeights:
    """Return the posterior of the weights given true labels.

    Args:
        logs: log-probabilities of the classes given the labels of each item, as if its true label were unknown, ``(n, K)``.
        truth: known classes, ``(n,)``.
        factors: design effects at equally probable values of rho, ``(n, Q)``.
        often: how often each item counts, ``(n,)``; once where ``None``.
    """
    n, K = logs.shape
    often = np.ones(n) if often is None else often
    if n > MOST_ITEMS:
        some = np.linspace(0, n - 1, MOST_ITEMS).astype(int)
        logs, truth, factors, often = logs[some], truth[some], factors[some], often[some]
    tempered = np.maximum(logs, LOWEST)[:, None, :] / factors[:, :, None]  # (n, Q, K)
    places = [_mode(tempered, truth, often, width) for width in WIDTHS]
    marginal = np.array([place[0] for place in places])
    share = np.exp(marginal - marginal.max())
    mean, root = (np.stack([place[i] for place in places]) for i in (1, 2))
    return ClassWeights(share / share.sum(), mean.reshape(-1, K), root)


def _mode(tempered: Array, truth: Array, often: Array, width: float) -> tuple[float, Array, Array]:
    """Return the log marginal likelihood of a width by Laplace's approximation, the mode ``(K,)``, a root of the covariance."""
    K = tempered.shape[2]
    b = np.zeros(K)
    value, gradient, curvature, positive = _density(b, tempered, truth, often, width)
    for _ in range(STEPS):
        if np.abs(gradient).max() < CLOSE:
            break
        direction = np.linalg.solve(positive, gradient)
        # The density rises along the direction: the step is halved until it does.
        for size in 0.5 ** np.arange(30):
            there = _density(b + size * direction, tempered, truth, often, width)
            if there[0] >= value:
                break
        else:
            break
        b = b + size * direction
        value, gradient, curvature, positive = there
    size, axes = np.linalg.eigh(curvature)
    # The average over rho is not concave everywhere; the prior alone is the widest that a direction can be.
    size = np.maximum(size, width**-2)
    return value - 0.5 * float(np.log(size).sum()) - K * math.log(width), b, axes / np.sqrt(size)


def _density(b: Array, tempered: Array, truth: Array, often: Array, width: float) -> tuple[float, Array, Array, Array]:
    """Return the log density at ``b (K,)`` up to a constant, its gradient, the negative Hessian, and a positive part of it."""
    logs = tempered + b  # (n, Q, K)
    p = np.exp(logs - logs.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    right = p[np.arange(len(truth)), :, truth]  # (n, Q)
    likelihood = right.mean(1)
    each = often[:, None] * right / np.maximum(right.sum(1, keepdims=True), 1e-300)  # (n, Q), how much each rho counts
    slope = -p
    slope[np.arange(len(truth)), :, truth] += 1
    mean = (each[:, :, None] * slope).sum(1)  # (n, K)
    gradient = mean.sum(0) - b / width**2
    flat, weight = p.reshape(-1, len(b)), each.reshape(-1, 1)
    positive = np.diag((flat * weight).sum(0)) - flat.T @ (flat * weight) + np.eye(len(b)) / width**2
    slope = slope.reshape(-1, len(b))
    between = slope.T @ (slope * weight) - mean.T @ (mean / np.maximum(often, 1e-300)[:, None])
    value = float((often * np.log(np.maximum(likelihood, 1e-300))).sum() - 0.5 * (b**2).sum() / width**2)
    return value, gradient, positive - between, positive
