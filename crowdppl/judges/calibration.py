"""The weights of verdicts, learned from human labels: a hierarchical log-linear model of the true label given the verdicts.

Model, with the features of :mod:`crowdppl.judges.features`::

    scale        sigma_b  ~ LogNormal(log s_b, t_b)                 of each block b of coefficients
    coefficient  theta_p  ~ Normal(m_b, sigma_b)                    of each feature p in block b
    truth        z_i      ~ Categorical(softmax_k(features[i, k] . theta))
    human label  y_n | z_i = k  is k with probability 1 - epsilon, else another class

The verdicts are conditioned on, and not modelled: no assumption on how the errors of judges are correlated is needed. A posterior
that takes verdicts as independent given the true label is too certain. Unlabelled items enter by the features, in which judges
who agree with the others count more. Means and scales of the blocks are those of public panels (:data:`PRIORS`,
``benchmarks/judges.py``).

The posterior is computed by Laplace's method at each of :data:`POINTS` points of the scales, which are weighted by the
marginal likelihood (importance sampling from their prior, at quasi-random points). :func:`program` is the same model in Pyro,
against which this is tested. With few human labels Laplace's method is less certain than the posterior by NUTS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from crowdppl.judges.features import Block, Features

Array = npt.NDArray[Any]


class BlockPrior(NamedTuple):
    """Prior of the coefficients of a block.

    Attributes:
        mean: of every coefficient.
        scale: median of their standard deviation.
        spread: standard deviation of the log of it.
    """

    mean: float
    scale: float
    spread: float


# Chosen on public panels; docs/benchmarks/judges.md tells how many variants were tried, and what they change.
PRIORS: Mapping[str, BlockPrior] = {
    "prevalence": BlockPrior(0.0, 1.0, 0.5),
    "panel": BlockPrior(2.0, 2.0, 0.5),
    "consensus": BlockPrior(6.0, 3.0, 0.5),
    "judge": BlockPrior(0.0, 0.3, 1.0),
    "family": BlockPrior(0.0, 0.1, 1.0),
    "confusion": BlockPrior(0.0, 0.7, 1.0),
    "system_rate": BlockPrior(1.0, 1.0, 0.5),
    "system": BlockPrior(0.0, 0.25, 0.7),
    "score_consensus": BlockPrior(3.0, 2.0, 0.3),
    "score": BlockPrior(0.0, 0.3, 1.0),
    "position": BlockPrior(0.0, 0.3, 1.0),
    "abstained": BlockPrior(0.0, 0.5, 1.0),
    "unparseable": BlockPrior(0.0, 0.5, 1.0),
}
POINTS = 64  # of the scales
STEPS = 100
TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Calibration:
    """Posterior of the coefficients.

    Attributes:
        theta: draws, ``(D, P)``.
        weight: posterior weight of each point of the scales, ``(POINTS,)``.
        scale: standard deviation of each block at each point, ``(POINTS, B)``.
        blocks: the blocks.
    """

    theta: Array
    weight: Array
    scale: Array
    blocks: tuple[Block, ...]

    def block(self, name: str) -> Array | None:
        """Return the draws of the coefficients of a block, ``(D, size)``; ``None`` where there is no such block."""
        first = 0
        for block in self.blocks:
            if block.name == name:
                return self.theta[:, first : first + block.size]
            first += block.size
        return None

    def probability(self, features: Array) -> Array:
        """Return the class probabilities of items in each draw, ``(K, D, n)``, from their features ``(n, K, P)``."""
        logit = np.stack([self.theta @ features[:, k].T for k in range(features.shape[1])])
        logit -= logit.max(0)
        np.exp(logit, out=logit)
        logit /= logit.sum(0)
        return logit


def scales(blocks: tuple[Block, ...]) -> Array:
    """Return quasi-random points of the scales of the blocks, drawn from their prior, ``(POINTS, B)``."""
    # seed= and not rng=, which SciPy before 1.15 does not know.
    normal = ndtri(qmc.Sobol(len(blocks), scramble=True, seed=np.random.default_rng(0)).random(POINTS))
    return np.array(
        [
            [PRIORS[b.name].scale * np.exp(PRIORS[b.name].spread * u) for b, u in zip(blocks, row, strict=True)]
            for row in normal
        ]
    )


def calibrate(
    of: Features, items: Array, log_human: Array, weight: Array, *, draws: int, rng: np.random.Generator
) -> Calibration:
    """Return the posterior of the coefficients.

    Args:
        of: the verdicts on all items.
        items: items with human labels, ``(n,)``; none for the prior.
        log_human: log probability of the human labels of each given its class, up to a constant, ``(n, K)``.
        weight: of each of these items in the likelihood, ``(n,)``.
        draws: number of draws.
        rng: source of random numbers.
    """
    blocks = of.blocks
    features = of.rows(items)
    sizes = [b.size for b in blocks]
    mean = np.repeat([PRIORS[b.name].mean for b in blocks], sizes)
    points = scales(blocks)
    modes, factors, log_weight = [], [], []
    start = mean
    for scale in points:
        precision = np.repeat(scale**-2.0, sizes)
        mode, factor, log_marginal = laplace(features, log_human, weight, mean, precision, start)
        start = mode
        modes.append(mode)
        factors.append(factor)
        log_weight.append(log_marginal)
    of_point = np.exp(np.array(log_weight) - logsumexp(log_weight))
    # Systematic resampling: each point has its share of the draws, up to one.
    chosen = np.searchsorted(of_point.cumsum(), (np.arange(draws) + rng.random()) / draws).clip(max=POINTS - 1)
    theta = rng.standard_normal((draws, len(mean)))
    for c in np.unique(chosen):
        own = chosen == c
        theta[own] = modes[c] + solve_triangular(factors[c], theta[own].T, trans="T", lower=True).T
    return Calibration(rng.permutation(theta), of_point, points, blocks)


def laplace(
    features: Array, log_human: Array, weight: Array, mean: Array, precision: Array, start: Array
) -> tuple[Array, Array, float]:
    """Return the mode of the coefficients, the Cholesky factor of the precision there, and the log marginal likelihood.

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
    exact, _ = curvature(p)
    if not known:  # the exact curvature, where it is positive
        try:
            factor = cholesky(exact - curvature(posterior)[0] + np.diag(precision), lower=True)
        except np.linalg.LinAlgError:
            factor = cholesky(exact + np.diag(precision), lower=True)
    else:
        factor = cholesky(exact + np.diag(precision), lower=True)
    log_marginal = value + 0.5 * np.log(precision).sum() - np.log(np.diag(factor)).sum()
    return theta, factor, float(log_marginal)


def _log_sum(logits: Array) -> Array:
    """Return the log of the sum of exponentials of each row, of which one entry at least is finite."""
    top = logits.max(1, initial=-np.inf)
    return np.asarray(top + np.log(np.exp(logits - top[:, None]).sum(1)))


def program(features: Array, log_human: Array, blocks: tuple[Block, ...]) -> Any:
    """Run the model in Pyro: sample scales and coefficients, and score the human labels with the truth enumerated.

    Args:
        features: of the labelled items, ``(n, K, P)``.
        log_human: log probability of their human labels given the class, ``(n, K)``.
        blocks: of the coefficients.
    """
    import pyro  # here: slow to import, and not used by fits
    import torch
    from pyro.distributions import Categorical, LogNormal, Normal

    x, human = torch.as_tensor(features), torch.as_tensor(log_human)
    theta: list[torch.Tensor] = []
    for block in blocks:
        prior = PRIORS[block.name]
        middle = torch.tensor(prior.scale, dtype=x.dtype).log()
        scale = pyro.sample(f"scale_{block.name}", LogNormal(middle, torch.tensor(prior.spread, dtype=x.dtype)))
        z = pyro.sample(block.name, Normal(x.new_zeros(block.size), 1.0).to_event(1))
        theta.append(prior.mean + scale * z)
    logits = x @ torch.cat(theta)
    with pyro.plate("item", len(x)):
        truth = pyro.sample("truth", Categorical(logits=logits), infer={"enumerate": "parallel"})
        pyro.factor("human", human[torch.arange(len(x)), truth])
    return torch.cat(theta)
