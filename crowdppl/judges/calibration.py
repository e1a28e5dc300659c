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

Draws of the posterior come in two steps. Laplace's method at each of :data:`POINTS` quasi-random points of the scales, weighted
by the marginal likelihood, gives first draws (:mod:`crowdppl.judges.laplace`). A Markov chain from each of them removes the error
of the approximation, which is large with few human labels (:mod:`crowdppl.judges.chains`). :func:`program` is the same model in
Pyro, against which this is tested by NUTS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from crowdppl.judges import chains
from crowdppl.judges.features import Block, Features
from crowdppl.judges.laplace import Mode, laplace

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
    "panel": BlockPrior(0.0, 2.0, 0.5),
    "families": BlockPrior(2.0, 2.0, 0.5),
    "consensus": BlockPrior(2.0, 3.0, 0.5),
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


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Posterior of the coefficients.

    Attributes:
        theta: draws, ``(D, P)``.
        scale: draws of the standard deviation of each block, ``(D, B)``.
        blocks: the blocks.
    """

    theta: Array
    scale: Array
    blocks: tuple[Block, ...]

    def __repr__(self) -> str:
        draws, coefficients = self.theta.shape
        return f"Calibration({draws:,} draws of {coefficients:,} coefficients in {len(self.blocks)} blocks)"

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


def scales(blocks: tuple[Block, ...], priors: Mapping[str, BlockPrior] = PRIORS) -> Array:
    """Return quasi-random points of the scales of the blocks, drawn from their prior, ``(POINTS, B)``."""
    # seed= and not rng=, which SciPy before 1.15 does not know.
    normal = ndtri(qmc.Sobol(len(blocks), scramble=True, seed=np.random.default_rng(0)).random(POINTS))
    return np.array(
        [
            [priors[b.name].scale * np.exp(priors[b.name].spread * u) for b, u in zip(blocks, row, strict=True)]
            for row in normal
        ]
    )


def calibrate(
    of: Features,
    items: Array,
    log_human: Array,
    weight: Array,
    *,
    draws: int,
    rng: np.random.Generator,
    priors: Mapping[str, BlockPrior] = PRIORS,
) -> Calibration:
    """Return the posterior of the coefficients.

    Args:
        of: the verdicts on all items.
        items: items with human labels, ``(n,)``; none for the prior.
        log_human: log probability of the human labels of each given its class, up to a constant, ``(n, K)``.
        weight: of each of these items in the likelihood, ``(n,)``.
        draws: number of draws.
        rng: source of random numbers.
        priors: of the coefficients, by block.
    """
    blocks = of.blocks
    features = of.rows(items)
    used = [priors[b.name] for b in blocks]
    prior = chains.Prior(
        size=np.array([b.size for b in blocks]),
        mean=np.array([p.mean for p in used]),
        log_scale=np.log([p.scale for p in used]),
        spread=np.array([p.spread for p in used]),
    )
    mean = np.repeat(prior.mean, prior.size)
    points = scales(blocks, priors)
    modes: list[Mode] = []
    for scale in points:
        precision = np.repeat(scale**-2.0, prior.size)
        start = modes[-1].theta if modes else mean
        modes.append(laplace(features, log_human, weight, mean, precision, start))
    log_weight = [mode.log_marginal for mode in modes]
    of_point = np.exp(np.array(log_weight) - logsumexp(log_weight))
    # Systematic resampling: each point has its share of the draws, up to one.
    likelihood = chains.Likelihood(features, log_human, weight)
    C = chains.number_of_chains(likelihood, draws)
    point = np.searchsorted(of_point.cumsum(), (np.arange(C) + rng.random()) / C).clip(max=POINTS - 1)
    theta = rng.standard_normal((C, len(mean)))
    for c in np.unique(point):
        own = point == c
        theta[own] = modes[c].theta + solve_triangular(modes[c].factor, theta[own].T, trans="T", lower=True).T
    theta, log_scale = chains.run(
        likelihood,
        prior,
        modes,
        point,
        theta,
        np.log(points[point]),
        rng=rng,
        kept=-(-draws // C),
    )
    order = rng.permutation(len(theta))[:draws]
    return Calibration(theta[order], np.exp(log_scale[order]), blocks)


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
