"""Laplace's approximation of the posterior of the weights of verdicts, given the scales of their prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, eigh

Array = npt.NDArray[Any]
STEPS = 100
TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of the posterior, and the Gaussian around it.

    Attributes:
        theta: the coefficients, ``(P,)``.
        factor: Cholesky factor of the negative Hessian of the log posterior, ``(P, P)``.
        log_marginal: log marginal likelihood.
        gradient: of the log likelihood, ``(P,)``.
        features: of the labelled items, ``(n, K, P)``.
        class_probability: of them at the mode, ``(n, K)``.
        weight: of them in the likelihood, ``(n,)``.
    """

    theta: Array
    factor: Array
    log_marginal: float
    gradient: Array
    features: Array
    class_probability: Array
    weight: Array

    @cached_property
    def root(self) -> Array:
        """A square root of the part of the negative Hessian of the log likelihood that is never negative, ``(R, P)``.

        ``root.T @ root`` is the sum over items of the covariance of their features under the class probabilities. With two
        classes it has a row for each item, otherwise one for each item and class, unless there are fewer coefficients.
        """
        features, p = self.features, self.class_probability
        n, K, P = features.shape
        if K == 2:
            own = np.sqrt(self.weight * p[:, 0] * p[:, 1])[:, None] * (features[:, 1] - features[:, 0])
        else:
            around = features - np.einsum("nk,nkp->np", p, features)[:, None]
            own = (np.sqrt(self.weight[:, None] * p)[:, :, None] * around).reshape(n * K, P)
        if len(own) <= P:
            return np.asarray(own)
        values, vectors = eigh(own.T @ own)
        return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def laplace(features: Array, log_human: Array, weight: Array, mean: Array, precision: Array, start: Array) -> Mode:
    """Return the mode of the posterior of the coefficients.

    The likelihood of an item is ``sum_k softmax_k(features theta) exp(log_human_k)``. Newton steps use the part of its curvature
    that is never negative, and are halved until the log posterior rises.

    Args:
        features: ``(n, K, P)``.
        log_human: ``(n, K)``; minus infinity excludes a class.
        weight: of each item, ``(n,)``.
        mean: of the prior, ``(P,)``.
        precision: of the prior, ``(P,)``.
        start: first point, ``(P,)``.
    """
    n, K, P = features.shape
    flat = features.reshape(n * K, P)
    known = bool(np.isneginf(log_human).sum() == n * (K - 1)) if n else True

    def log_posterior(theta: Array) -> tuple[float, Array, Array]:
        logit = (flat @ theta).reshape(n, K)
        log_p = logit - _log_sum(logit)[:, None]
        joint = log_p + log_human
        each = _log_sum(joint)
        value = weight @ each - 0.5 * (precision * (theta - mean) ** 2).sum()
        return float(value), np.exp(log_p), np.exp(joint - each[:, None])

    def curvature(p: Array) -> tuple[Array, Array]:
        expected = np.einsum("nk,nkp->np", p, features)
        weighted = (weight[:, None] * p).reshape(-1, 1)
        return (flat * weighted).T @ flat - (weight[:, None] * expected).T @ expected, expected

    theta = start
    value, p, posterior = log_posterior(theta)
    for _ in range(STEPS):
        hessian, expected = curvature(p)
        target = np.einsum("nk,nkp->np", posterior, features)
        gradient = weight @ (target - expected) - precision * (theta - mean)
        step = cho_solve((cholesky(hessian + np.diag(precision), lower=True), True), gradient)
        if gradient @ step < TOLERANCE:
            break
        length = 1.0
        while length > 1e-6:
            value_new, p_new, posterior_new = log_posterior(theta + length * step)
            if value_new > value:
                break
            length /= 2
        else:
            break
        theta, value, p, posterior = theta + length * step, value_new, p_new, posterior_new
    else:
        hessian, _ = curvature(p)
    if not known:  # the exact curvature, where it is positive
        try:
            factor = cholesky(hessian - curvature(posterior)[0] + np.diag(precision), lower=True)
        except np.linalg.LinAlgError:
            factor = cholesky(hessian + np.diag(precision), lower=True)
    else:
        factor = cholesky(hessian + np.diag(precision), lower=True)
    log_marginal = value + 0.5 * np.log(precision).sum() - np.log(np.diag(factor)).sum()
    gradient = precision * (theta - mean)  # equal and opposite to that of the log prior
    return Mode(theta, factor, float(log_marginal), gradient, features, p, weight)


def _log_sum(logits: Array) -> Array:
    """Return the log of the sum of exponentials of each row, of which one entry at least is finite."""
    top = logits.max(1, initial=-np.inf)
    return np.asarray(top + np.log(np.exp(logits - top[:, None]).sum(1)))
