"""Markov chains of the weights of verdicts, started from draws of Laplace's approximation of the posterior.

With few human labels the posterior of the weights is skewed: panels that separate the labelled items well may have any large
weight. Laplace's approximation misses this, and the chains correct it. A sweep consists of

- the coefficients given the scales: elliptical slice sampling (Murray, Adams and MacKay 2010) with a Gaussian approximation of
  the posterior in the place of the prior, and what remains as likelihood (Nishihara, Murray and Adams 2014). The Gaussian is
  the prior times the likelihood to second order around the mode of Laplace's method;
- which systems have one class alone, given the coefficients;
- the scale of each block given its coefficients, by a Metropolis step; and the scales of a block in turn together with its
  coefficients, which stay the same in units of the scale (interweaving, Yu and Meng 2011).

Each step leaves the posterior invariant. The mode is that of the point of the scales where the chain starts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from crowdppl.judges.model.laplace import Mode

Array = npt.NDArray[Any]
SWEEPS = 8
# Chains at least, where there are too many coefficients for one for each draw, and operations for which this begins.
FEWEST, OPERATIONS = 50, 5e10
# Standard deviation of a proposal for the log of a scale.
STEP = 0.7
# Logits, and entries of precision matrices, that are held at a time.
PIECE = 2**20
LARGEST_LOGIT = 700.0


class Prior(NamedTuple):
    """Prior of the coefficients in ``B`` blocks.

    Attributes:
        size: number of coefficients of each block, ``(B,)``.
        mean: of the coefficients of each block, ``(B,)``.
        log_scale: mean of the log of their standard deviation, ``(B,)``.
        spread: standard deviation of it, ``(B,)``.
    """

    size: Array
    mean: Array
    log_scale: Array
    spread: Array


class Likelihood:
    """The log likelihood of coefficients.

    Attributes:
        rows: features of the classes of each item relative to the class that its human labels favour, ``(n (K - 1), P)``.

    Args:
        features: of the labelled items, ``(n, K, P)``.
        log_human: log probability of their human labels given the class, ``(n, K)``.
        weight: of each item, ``(n,)``.
    """

    def __init__(self, features: Array, log_human: Array, weight: Array) -> None:
        n, K, P = features.shape
        favoured = log_human.argmax(1)
        others = np.arange(K) != favoured[:, None]
        self.rows = (features - features[np.arange(n), favoured][:, None])[others].reshape(n * (K - 1), P)
        # Probability of the human labels given each other class, relative to the favoured one.
        relative = (log_human - log_human.max(1, keepdims=True))[others].reshape(n, K - 1, 1)
        self.odds = None if np.isneginf(relative).all() else np.exp(relative)
        self.weight = weight
        self.others = K - 1

    def __call__(self, logits: Array, used: Array | None = None) -> Array:
        """Return the log likelihood, up to a constant, ``(d,)``.

        Args:
            logits: ``rows @ coefficients``, ``(n (K - 1), d)``.
            used: whether an item counts, ``(n, d)``. Defaults to all.
        """
        value = self.of_items(logits)
        return np.asarray(self.weight @ value if used is None else self.weight @ (value * used))

    def of_items(self, logits: Array) -> Array:
        """Return the log likelihood of each item, ``(n, d)``: 0 where its class is the one that its labels favour."""
        shape = (len(self.weight), self.others, logits.shape[1])
        ratio = np.exp(np.minimum(logits, LARGEST_LOGIT)).reshape(shape)
        value = -np.log1p(ratio.sum(1))
        if self.odds is not None:
            value += np.log1p((ratio * self.odds).sum(1))
        return np.asarray(value)


class Pure(NamedTuple):
    """Units, such as systems, all of whose labels favour one class, and which may have this class alone.

    Attributes:
        unit: such a unit of each labelled item, ``(n,)``, -1 for the items of others.
        units: their number ``U``.
        log_odds: prior log odds that all items of such a unit have one class.
    """

    unit: Array
    units: int
    log_odds: float


class Target(NamedTuple):
    """The posterior that chains sample.

    Attributes:
        likelihood: of the coefficients.
        prior: of coefficients and scales.
        modes: of the posterior at some points of the scales.
        pure: units that may have one class alone.
    """

    likelihood: Likelihood
    prior: Prior
    modes: list[Mode]
    pure: Pure


class Start(NamedTuple):
    """Where ``D`` chains start.

    Attributes:
        point: the point of the scales that each starts from, ``(D,)``.
        theta: coefficients, ``(D, P)``.
        log_scale: log scales, ``(D, B)``.
        is_pure: which units have one class alone, ``(D, U)``.
    """

    point: Array
    theta: Array
    log_scale: Array
    is_pure: Array

    def part(self, chains: slice) -> Start:
        """Return where some of the chains start, as copies: chains change them in place."""
        return Start(*(values[chains].copy() for values in self))


def run(
    target: Target,
    start: Start,
    *,
    rng: np.random.Generator,
    sweeps: int = SWEEPS,
    kept: int = 1,
) -> tuple[Array, Array, Array]:
    """Return coefficients ``(kept D, P)``, log scales ``(kept D, B)`` and pure units ``(kept D, U)`` of ``D`` chains.

    Args:
        target: the posterior.
        start: where the chains start.
        rng: source of random numbers.
        sweeps: their number.
        kept: number of the last sweeps whose states are returned, in no order.
    """
    blocks = len(target.prior.size)
    states: list[tuple[Array, Array, Array]] = []
    length = max(PIECE // max(len(target.likelihood.rows), start.theta.shape[1] ** 2), 1)
    for first in range(0, len(start.theta), length):
        chains = _Chains(target, start.part(slice(first, first + length)))
        for sweep in range(sweeps + kept - 1):
            chains.slice_coefficients(rng)
            chains.draw_pure(rng)
            for block in range(blocks):
                chains.propose_scale(block, rng)
            chains.propose_rescaling(sweep % blocks, rng)
            if sweep >= sweeps - 1:
                states.append((chains.theta.copy(), chains.log_scale.copy(), chains.is_pure.copy()))
    coefficients, scales, units = zip(*states, strict=True)
    return np.concatenate(coefficients), np.concatenate(scales), np.concatenate(units)


def number_of_chains(likelihood: Likelihood, draws: int) -> int:
    """Return how many chains give some draws: one for each, unless that takes too long."""
    rows, P = likelihood.rows.shape
    sweep = max(float(min(rows, P) ** 2) * P, 1.0)  # operations of a chain
    affordable = OPERATIONS / sweep
    if affordable >= SWEEPS * draws:
        return draws
    return int(min(draws, max(FEWEST, (affordable - draws) / SWEEPS)))


class _Chains:
    """The state of ``d`` chains, changed in place: ``theta`` ``(d, P)``, ``log_scale`` ``(d, B)``, ``is_pure`` ``(d, U)``."""

    def __init__(self, target: Target, start: Start):
        self.likelihood, self.prior, modes, self.pure = target
        point, self.theta, self.log_scale, self.is_pure = start
        prior, pure = self.prior, self.pure
        self.block = np.repeat(np.arange(len(prior.size)), prior.size)
        self.mean = prior.mean[self.block]
        self.of_unit = (pure.unit == np.arange(pure.units)[:, None]).astype(float)  # (U, n)
        self.points = [(modes[c], np.flatnonzero(point == c)) for c in np.unique(point)]
        self.logits: Array = self.likelihood.rows @ self.theta.T
        self.used = self._used()
        self.value: Array = self.likelihood(self.logits, self.used)  # (d,)

    def _used(self) -> Array | None:
        """Return whether the labels of each item say something of the coefficients, ``(n, d)``; ``None`` if all always do."""
        return 1.0 - self.of_unit.T @ self.is_pure.T if self.pure.units else None

    def draw_pure(self, rng: np.random.Generator) -> None:
        """Draw which units have one class alone; their labels then say nothing of the coefficients."""
        if not self.pure.units:
            return
        value = self.likelihood.weight[:, None] * self.likelihood.of_items(self.logits)  # (n, d)
        self.is_pure = rng.logistic(size=self.is_pure.shape) < self.pure.log_odds - (self.of_unit @ value).T
        self.used = self._used()
        self.value = (value * self.used).sum(0)

    def slice_coefficients(self, rng: np.random.Generator) -> None:
        """Move the coefficients along an ellipse through them and a draw of the Gaussian, around its mean."""
        d, P = self.theta.shape
        variance = np.exp(2 * self.log_scale)[:, self.block]  # of the prior
        middle, direction, form = np.empty((d, P)), np.empty((d, P)), np.empty((d, 3, 3))
        for mode, own in self.points:
            middle[own], direction[own] = self._gaussian(mode, variance[own], rng)
            # The second-order log likelihood is a quadratic form of (1, cos, sin) on the ellipse.
            three = np.stack([middle[own] - mode.theta, self.theta[own] - middle[own], direction[own]], 1)
            image = three @ mode.root.T  # (m, 3, R)
            form[own] = -0.5 * image @ image.transpose(0, 2, 1)
            form[own, 0] += three @ mode.gradient
        deviation = self.theta - middle
        rows = self.likelihood.rows
        at_middle, of_direction = rows @ middle.T, rows @ direction.T
        of_deviation = self.logits - at_middle

        moving = np.arange(d)
        height = self.value - form[:, :2, :2].sum((1, 2)) + np.log(rng.random(d))
        angle: Array = np.asarray(rng.uniform(0, 2 * np.pi, d))
        low, high = angle - 2 * np.pi, angle.copy()
        while len(moving):
            at = np.stack([np.ones(len(moving)), np.cos(angle[moving]), np.sin(angle[moving])])
            logits = at_middle[:, moving] + of_deviation[:, moving] * at[1] + of_direction[:, moving] * at[2]
            value = self.likelihood(logits, None if self.used is None else self.used[:, moving])
            inside = value - np.einsum("am,mab,bm->m", at, form[moving], at) > height[moving]
            arrived = moving[inside]
            self.value[arrived], self.logits[:, arrived] = value[inside], logits[:, inside]
            moving = moving[~inside]
            back = angle[moving] < 0
            low[moving[back]], high[moving[~back]] = angle[moving[back]], angle[moving[~back]]
            angle[moving] = rng.uniform(low[moving], high[moving])
        self.theta[:] = middle + deviation * np.cos(angle)[:, None] + direction * np.sin(angle)[:, None]

    def _gaussian(self, mode: Mode, variance: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return the mean of the Gaussian of some chains with one mode ``(m, P)``, and a draw around it ``(m, P)``.

        The precision is ``1 / variance`` on the diagonal and ``root.T @ root``. If the root has fewer rows than columns,
        equations of its number of rows are solved (Bhattacharya, Chakraborty and Mallick 2016).
        """
        m, P = variance.shape
        root = mode.root
        linear = mode.gradient + (root @ mode.theta) @ root + self.mean / variance  # precision times mean
        first, second = rng.standard_normal((m, P)), rng.standard_normal((m, len(root)))
        if len(root) < P:
            wide = root * variance[:, None]  # (m, R, P)
            inner = wide @ root.T
            inner[:, np.arange(len(root)), np.arange(len(root))] += 1
            start = np.stack([variance * linear, np.sqrt(variance) * first])  # (2, m, P)
            image = start @ root.T
            image[1] += second
            solved = np.linalg.solve(inner, np.moveaxis(image, 0, 2))  # (m, R, 2)
            middle, direction = start - np.moveaxis(solved.transpose(0, 2, 1) @ wide, 1, 0)
            return middle, direction
        precision = np.broadcast_to(root.T @ root, (m, P, P)).copy()
        precision[:, np.arange(P), np.arange(P)] += 1 / variance
        right = np.stack([linear, first / np.sqrt(variance) + second @ root], 2)  # (m, P, 2)
        middle, direction = np.moveaxis(np.linalg.solve(precision, right), 2, 0)
        return middle, direction

    def propose_scale(self, b: int, rng: np.random.Generator) -> None:
        """Propose another scale of a block, the coefficients unchanged."""
        square = ((self.theta[:, self.block == b] - self.prior.mean[b]) ** 2).sum(1)

        def log_density(log_scale: Array) -> Array:
            return np.asarray(
                self._log_prior(log_scale, b) - self.prior.size[b] * log_scale - 0.5 * square * np.exp(-2 * log_scale)
            )

        now = self.log_scale[:, b]
        new = now + STEP * rng.standard_normal(len(now))
        accepted = np.log(rng.random(len(now))) < log_density(new) - log_density(now)
        self.log_scale[accepted, b] = new[accepted]

    def propose_rescaling(self, b: int, rng: np.random.Generator) -> None:
        """Propose another scale of a block, with the coefficients around their mean in proportion."""
        own = self.block == b
        now = self.log_scale[:, b]
        new = now + STEP * rng.standard_normal(len(now))
        deviation, ratio = self.theta[:, own] - self.prior.mean[b], np.exp(new - now)
        logits = self.logits + (self.likelihood.rows[:, own] @ deviation.T) * (ratio - 1)
        value = self.likelihood(logits, self.used)
        gain = value - self.value + self._log_prior(new, b) - self._log_prior(now, b)
        accepted = np.log(rng.random(len(now))) < gain
        self.log_scale[accepted, b] = new[accepted]
        self.theta[np.ix_(accepted, own)] = self.prior.mean[b] + deviation[accepted] * ratio[accepted, None]
        self.logits[:, accepted], self.value[accepted] = logits[:, accepted], value[accepted]

    def _log_prior(self, log_scale: Array, b: int) -> Array:
        return np.asarray(-0.5 * ((log_scale - self.prior.log_scale[b]) / self.prior.spread[b]) ** 2)
