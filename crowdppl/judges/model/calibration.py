"""The weights of verdicts, learned from human labels: a hierarchical log-linear model of the true label given the verdicts.

Model, with the features of :mod:`crowdppl.judges.model.features`::

    scale        sigma_b  ~ LogNormal(log s_b, t_b)                 of each block b of coefficients
    coefficient  theta_p  ~ Normal(m_b, sigma_b)                    of each feature p in block b
    system       pure_s   ~ Bernoulli(PURE)                         all items of a system have the class of all its human labels
    truth        z_i      ~ Categorical(softmax_k(features[i, k] . theta))    if not pure_s
    human label  y_n | z_i = k  is k with probability 1 - epsilon, else another class

Judges may treat one system unlike the others, such as one that passes always. Coefficients of systems around a common mean
exclude that their rate is 1 or 0, and the statement that a system is *pure* does not: its human labels are then certain.

The verdicts are conditioned on, and not modelled: no assumption on how the errors of judges are correlated is needed. A posterior
that takes verdicts as independent given the true label is too certain. Unlabelled items enter by the features, in which judges
who agree with the others count more. Means and scales of the blocks are those of public panels (:data:`PRIORS`,
``benchmarks/judges.py``).

Draws of the posterior come in two steps. Laplace's method at each of :data:`POINTS` quasi-random points of the scales, weighted
by the marginal likelihood, gives first draws (:mod:`crowdppl.judges.model.laplace`). A Markov chain from each of them removes
the error of the approximation, which is large with few human labels (:mod:`crowdppl.judges.model.chains`). :func:`program` is the
same model in Pyro, against which this is tested by NUTS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, ndtri

from crowdppl.judges.model import chains
from crowdppl.judges.model.features import Block, Features
from crowdppl.judges.model.laplace import Mode, laplace

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
    "association": BlockPrior(1.0, 1.0, 0.5),
    "own_class": BlockPrior(0.0, 1.0, 1.0),
    "system_rate": BlockPrior(1.0, 0.7, 0.5),
    "system": BlockPrior(0.0, 0.15, 0.7),
    "question_rate": BlockPrior(0.5, 0.4, 0.5),
    "strength": BlockPrior(0.0, 0.25, 0.7),
    "score_consensus": BlockPrior(3.0, 2.0, 0.3),
    "score": BlockPrior(0.0, 0.3, 1.0),
    "length": BlockPrior(0.0, 0.5, 1.0),
    "position": BlockPrior(0.0, 0.3, 1.0),
    "abstained": BlockPrior(0.0, 0.5, 1.0),
    "unparseable": BlockPrior(0.0, 0.5, 1.0),
}
POINTS = 64  # of the scales
# Coefficients of a block above which those that human labels say nothing of are left to the prior.
LARGE = 100
# Prior probability that all items of a system have the class of all its human labels.
PURE = 0.02
# Systems with which as the only one of one class some chains start, at most.
FIRST = 8


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Posterior of the coefficients.

    Attributes:
        theta: draws, ``(D, P)``.
        scale: draws of the standard deviation of each block, ``(D, B)``.
        blocks: the blocks.
        pure: whether all items of each system have one class in a draw, ``(D, S)``.
        pure_class: which class that would be, ``(S,)``; -1 for systems that have several for sure.
    """

    theta: Array
    scale: Array
    blocks: tuple[Block, ...]
    pure: Array
    pure_class: Array

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

    def every(self, step: int) -> Calibration:
        """Return every so many draws."""
        return replace(self, theta=self.theta[::step], scale=self.scale[::step], pure=self.pure[::step])

    def probability(self, features: Array, system: Array | None = None) -> Array:
        """Return the class probabilities of items in each draw, ``(K, D, n)``.

        Args:
            features: of the items, ``(n, K, P)``.
            system: of the items, ``(n,)``, -1 for none. Defaults to none.
        """
        logit = np.stack([self.theta @ features[:, k].T for k in range(features.shape[1])])
        logit -= logit.max(0)
        np.exp(logit, out=logit)
        logit /= logit.sum(0)
        for s in np.flatnonzero(self.pure_class >= 0) if system is not None else ():
            cells = np.ix_(self.pure[:, s], np.flatnonzero(system == s))
            for k in range(len(logit)):
                logit[k][cells] = k == self.pure_class[s]
        return logit


def scales(blocks: tuple[Block, ...], priors: Mapping[str, BlockPrior] = PRIORS) -> Array:
    """Return quasi-random points of the scales of the blocks, drawn from their prior, ``(POINTS, B)``."""
    from scipy.stats import qmc  # here: slow to import

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
    every, blocks, features = of.blocks, of.blocks, of.rows(items)
    bases = _bases(features, blocks, priors)
    if bases:
        blocks = tuple(Block(b.name, bases[b.name].shape[1]) if b.name in bases else b for b in blocks)
        features = _turned(features, every, bases)
    used = [priors[b.name] for b in blocks]
    prior = chains.Prior(
        size=np.array([b.size for b in blocks]),
        mean=np.array([p.mean for p in used]),
        log_scale=np.log([p.scale for p in used]),
        spread=np.array([p.spread for p in used]),
    )
    points = scales(blocks, priors)
    pure_class, pure = _pure(of, items, log_human)
    modes, of_point = _modes(features, log_human, weight, prior, points, pure)
    # Systematic resampling: each point has its share of the draws, up to one.
    likelihood = chains.Likelihood(features, log_human, weight)
    C = chains.number_of_chains(likelihood, draws)
    point = np.searchsorted(of_point.cumsum(), (np.arange(C) + rng.random()) / C).clip(max=len(modes) - 1)
    theta = rng.standard_normal((C, int(prior.size.sum())))
    for c in np.unique(point):
        own = point == c
        theta[own] = modes[c].theta + solve_triangular(modes[c].factor, theta[own].T, trans="T", lower=True).T
    theta, log_scale, is_pure = chains.run(
        chains.Target(likelihood, prior, modes, pure),
        chains.Start(
            point, theta, np.log(points[point % POINTS]), np.arange(pure.units) == point[:, None] // POINTS - 1
        ),
        rng=rng,
        kept=-(-draws // C),
    )
    order = rng.permutation(len(theta))[:draws]
    theta, scale = theta[order], np.exp(log_scale[order])
    if bases:
        theta = _turned_back(theta, scale, every, bases, rng)
    of_system = np.zeros((len(order), len(pure_class)), dtype=bool)
    of_system[:, pure_class >= 0] = is_pure[order]
    return Calibration(theta, scale, every, of_system, pure_class)


def _modes(
    features: Array, log_human: Array, weight: Array, prior: chains.Prior, points: Array, pure: chains.Pure
) -> tuple[list[Mode], Array]:
    """Return the mode of the posterior at each point of the scales, and the share of each in the posterior.

    Chains start there: first where no unit is pure, then where one is.
    """
    mean = np.repeat(prior.mean, prior.size)

    def fitted(used: Array | slice) -> list[Mode]:
        """Return the mode at each point, given some of the labels."""
        out: list[Mode] = []
        for scale in points:
            precision = np.repeat(scale**-2.0, prior.size)
            start = out[-1].theta if out else mean
            out.append(laplace(features[used], log_human[used], weight[used], mean, precision, start))
        return out

    modes = fitted(slice(None))
    log_weight = [mode.log_marginal for mode in modes]
    for u in range(min(pure.units, FIRST)):
        alone = fitted(pure.unit != u)
        modes += alone
        log_weight += [mode.log_marginal + pure.log_odds for mode in alone]
    return modes, np.exp(np.array(log_weight) - logsumexp(log_weight))


def _pure(of: Features, items: Array, log_human: Array) -> tuple[Array, chains.Pure]:
    """Return the class that all labels of each system favour ``(S,)``, -1 without one, and which labels are of such systems."""
    favoured = log_human.argmax(1)
    code = np.full(of.systems if of.outcome is None else 0, -1)
    system = of.system[items]
    for s in range(len(code)):
        seen = np.unique(favoured[system == s])
        if len(seen) == 1:
            code[s] = seen[0]
    candidates = np.flatnonzero(code >= 0)
    place = np.full(len(code) + 1, -1)
    place[candidates] = np.arange(len(candidates))
    unit = place[system] if len(code) else np.full(len(items), -1)
    return code, chains.Pure(unit, len(candidates), math.log(PURE / (1 - PURE)))


def _bases(features: Array, blocks: tuple[Block, ...], priors: Mapping[str, BlockPrior]) -> dict[str, Array]:
    """Return a basis of the coefficients that human labels inform, for each block with many more coefficients than labels.

    The likelihood depends on the coefficients of a block in the span of its features alone. The prior of a block is the same in
    all directions if its mean is 0, so that the rest keeps its prior, exactly: time and memory are those of the labels.

    Args:
        features: of the labelled items, ``(n, K, P)``.
        blocks: of the coefficients.
        priors: by block.

    Returns:
        Orthonormal columns ``(size, n (K - 1))`` by name of the block.
    """
    n, K, _ = features.shape
    rows = n * (K - 1)
    out, first = {}, 0
    for block in blocks:
        own = features[:, :, first : first + block.size]
        first += block.size
        if block.size > max(rows, LARGE) and priors[block.name].mean == 0:
            between = (own[:, 1:] - own[:, :1]).reshape(rows, block.size)
            out[block.name] = np.linalg.qr(between.T)[0]
    return out


def _parts(values: Array, blocks: tuple[Block, ...]) -> list[Array]:
    """Return the parts of the last axis that belong to each block."""
    return np.split(values, np.cumsum([block.size for block in blocks])[:-1], axis=-1)


def _turned(features: Array, blocks: tuple[Block, ...], bases: Mapping[str, Array]) -> Array:
    """Return the features of coefficients in the bases of their blocks, ``(n, K, P')``."""
    parts = zip(blocks, _parts(features, blocks), strict=True)
    return np.concatenate([part @ bases[b.name] if b.name in bases else part for b, part in parts], -1)


def _turned_back(
    theta: Array, scale: Array, blocks: tuple[Block, ...], bases: Mapping[str, Array], rng: np.random.Generator
) -> Array:
    """Return all coefficients ``(D, P)`` from those in the bases ``(D, P')``: the rest is drawn from the prior."""
    reduced = tuple(Block(b.name, bases[b.name].shape[1]) if b.name in bases else b for b in blocks)
    out = []
    for n, (block, part) in enumerate(zip(blocks, _parts(theta, reduced), strict=True)):
        basis = bases.get(block.name)
        if basis is not None:
            free = rng.standard_normal((len(theta), block.size)) * scale[:, n : n + 1]
            part = free + (part - free @ basis) @ basis.T
        out.append(part)
    return np.concatenate(out, -1)


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
