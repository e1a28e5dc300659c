"""Mean-field EM for numbers, step by step: truths, workers and their variances have distributions, the crowd has its mode.

A mean-field approximation (M. J. Beal 2003, Variational algorithms for approximate Bayesian inference, chapter 2): truths
``q(z_i)`` are normal, intercept and slope of a worker ``q(b_j, g_j)`` are a mixture of two joint normals, one for a worker
who answers at random, and the variance ``q(v_j)`` is inverse gamma. With many labels of a worker it is EM with the truth
integrated out exactly; with few, parameters of workers are integrated and not maximised, so that the spreads of the crowd do
not collapse to zero. Every step raises the evidence lower bound (apart from variances at their floor).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from crowdppl.inference.numeric.conditionals import best_df, best_spread
from crowdppl.inference.numeric.regression import Truths
from crowdppl.kernels.linear_gaussian import WorkerSums
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import (
    COMMON,
    MEAN_SCALE,
    RANDOM_SD,
    RANDOM_SHARE,
    REFERENCE_DF,
    REFERENCE_VARIANCE,
    LinearGaussian,
)

# A step is the last one where no truth moves by more than this, in standard deviations of the labels.
STILL = 1e-6
# The least share of workers who answer at random.
LEAST_SHARE = 1e-4


@dataclass
class State:
    """What the distributions are at a step.

    ``P`` parts of a mixture: workers whose slopes are around 1, and where workers differ in slope those who answer at random.

    Attributes:
        intercept: mean of ``b`` in each part, ``(P, J)``.
        slope: mean of ``g``, likewise.
        var_b: variance of ``b``, likewise.
        var_g: variance of ``g``, likewise.
        cov: their covariance, likewise.
        part: probability of each part, ``(P, J)``.
        shape: of the inverse gamma distribution of ``v``, ``(J,)``.
        rate: likewise.
        weight: expected ``1 / v``, likewise.
        mean: of the crowd, a number; likewise ``truth_sd``, ``bias_sd``, ``slope_sd``, ``random_share``, ``common``,
            ``df`` and, for features, ``weight_sd``.
    """

    intercept: Tensor
    slope: Tensor
    var_b: Tensor
    var_g: Tensor
    cov: Tensor
    part: Tensor
    shape: Tensor
    rate: Tensor
    weight: Tensor
    mean: float
    truth_sd: float
    bias_sd: float
    slope_sd: float
    random_share: float
    common: float
    df: float
    weight_sd: float

    def expected(self, of_parts: Tensor) -> Tensor:
        """Return the mean over parts of a quantity ``(P, J)``: ``(J,)``."""
        return (self.part * of_parts).sum(0)

    def overall(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the means of ``b``, ``g``, ``b^2``, ``g^2`` and ``b g``, ``(J,)`` each."""
        b, g = self.intercept, self.slope
        every = (b, g, b**2 + self.var_b, g**2 + self.var_g, b * g + self.cov)
        return tuple(self.expected(one) for one in every)  # type: ignore[return-value]


class Loop:
    """The steps of EM."""

    def __init__(self, model: LinearGaussian, data: StandardLabels):
        self.model, self.data = model, data
        like, J = data.value, data.columns
        one = torch.ones(J).to(like)
        parts = 2 if model.slopes else 1
        both = one.expand(parts, J)
        self.state = State(
            intercept=0 * both,
            slope=both.clone(),
            var_b=0 * both,
            var_g=0 * both,
            cov=0 * both,
            part=torch.eye(parts).to(like)[0].unsqueeze(-1).expand(parts, J),
            shape=one,
            rate=one,
            weight=2 * one,
            mean=0.0,
            truth_sd=0.7,
            bias_sd=0.3,
            slope_sd=0.3,
            random_share=0.1,
            common=0.4,
            df=5.0,
            weight_sd=0.3,
        )
        self.expectation()

    @classmethod
    def after(cls, model: LinearGaussian, data: StandardLabels, steps: int, still: float = 0.0) -> Loop:
        """Return a loop after so many steps, or fewer where a step moves truths by less than ``still``."""
        loop = cls(model, data)
        for _ in range(steps):
            if loop.step() < still:
                break
        return loop

    # -- truths

    def expectation(self, slopes: tuple[Tensor, Tensor, Tensor] | None = None) -> None:
        """Renew the distribution of the truths, and of the weights of features; arguments as of :meth:`said`."""
        state = self.state
        self.truths = Truths.of(self.data.features, *self.said(slopes), state.truth_sd, state.weight_sd)
        self._sums: WorkerSums | None = None

    def said(self, slopes: tuple[Tensor, Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return what labels say of the truths: the precision, and precision times mean, ``(N, 1)`` each.

        Args:
            slopes: means of ``g^2``, ``g`` and ``b g``, ``(J,)`` each; those of the state by default.
        """
        if slopes is None:
            _, slope, _, slope_square, product = self.state.overall()
            slopes = slope_square, slope, product
        return self.data.tables.by_item_terms(*((part * self.state.weight).unsqueeze(-1) for part in slopes))

    # -- workers

    def sums(self) -> WorkerSums:
        """Return the expected sums over each worker's annotations, ``(J,)`` each; computed once for the same truths."""
        if self._sums is None:
            truths = self.truths
            columns = (truths.mean.unsqueeze(-1), (truths.mean**2 + truths.variance).unsqueeze(-1))
            self._sums = WorkerSums(*(part.squeeze(-1) for part in self.data.tables.by_worker(*columns)))
        return self._sums

    def _of_workers(self, common: float, reference: float) -> Tensor:
        out = self.data.value.new_full((self.data.columns,), common)  # in single precision the bound would be noisy
        if self.data.has_reference:
            out[-1] = reference
        return out

    def maximisation(self) -> None:
        """Renew the distributions of workers given those of the truths, then the crowd."""
        state, model = self.state, self.model
        sums = self.sums()
        prior_b = self._of_workers(state.bias_sd, model.reference_bias) ** -2
        bb, linear_b = sums.size * state.weight + prior_b, sums.label * state.weight + prior_b * state.mean
        if model.slopes:
            spread, at = self._slope_priors()
            prior_g = spread**-2
            bg, gg = sums.truth * state.weight, sums.truth_square * state.weight + prior_g
            linear_g = sums.product * state.weight + at * prior_g
            determinant = bb * gg - bg**2
            state.intercept = (gg * linear_b - bg * linear_g) / determinant
            state.slope = (bb * linear_g - bg * linear_b) / determinant
            state.var_b, state.var_g, state.cov = gg / determinant, (bb / determinant).expand_as(gg), -bg / determinant
            # Log marginal likelihood of each part, with intercept and slope summed out.
            fit = state.intercept * linear_b + state.slope * linear_g
            marginal = 0.5 * (prior_g.log() - determinant.log() + fit - at**2 * prior_g) + self._log_shares()
            state.part = marginal.softmax(0)
        else:
            state.intercept, state.var_b = (
                ((linear_b - sums.truth * state.weight) / bb).unsqueeze(0),
                (1 / bb).unsqueeze(0),
            )
        squares = self._squares(sums)
        df, common = self._of_workers(state.df, REFERENCE_DF), self._of_workers(state.common, REFERENCE_VARIANCE)
        state.shape, state.rate = (df + sums.size) / 2, (df * common + squares) / 2
        state.weight = (state.shape / state.rate).clamp(max=1 / self.data.floor)
        self._crowd()
        self._shift()
        if model.slopes:
            self._stretch()

    def _slope_priors(self) -> tuple[Tensor, Tensor]:
        """Return standard deviation and mean of the slope in each part, ``(2, J)`` each."""
        spread = self._of_workers(self.state.slope_sd, self.model.reference_slope)
        both = torch.stack([spread, torch.full_like(spread, RANDOM_SD)])
        return both, torch.tensor([[1.0], [0.0]]).to(both).expand_as(both)

    def _log_shares(self) -> Tensor:
        """Return the log prior probability of each part, ``(2, J)``; the reference does not answer at random."""
        share = self._of_workers(self.state.random_share, 0.0)
        return torch.stack([1 - share, share]).log()

    def _squares(self, sums: WorkerSums) -> Tensor:
        """Return the expected sum of squared residuals of each worker, ``(J,)``."""
        b, g, b_square, g_square, product = self.state.overall()
        squares = sums.squares(b, g)
        squares = squares + sums.size * (b_square - b**2) + 2 * sums.truth * (product - b * g)
        return squares + sums.truth_square * (g_square - g**2)

    def _crowd(self) -> None:
        """Renew what workers and truths have in common: modes, given the distributions of both."""
        state, model, own = self.state, self.model, slice(0, self.data.workers)
        J = self.data.workers
        prior = self._of_workers(state.bias_sd, model.reference_bias) ** -2
        state.mean = float((prior * state.expected(state.intercept)).sum() / (prior.sum() + MEAN_SCALE**-2))
        squares = state.expected((state.intercept - state.mean) ** 2 + state.var_b)[own].sum()
        state.bias_sd = best_spread(float(squares), J, model.bias_scale)
        if model.slopes:
            follow, random = (float(part.sum()) for part in state.part[:, own])
            squares = (state.part[0] * ((state.slope[0] - 1) ** 2 + state.var_g[0]))[own].sum()
            state.slope_sd = best_spread(float(squares), follow, model.slope_scale)
            first, second = RANDOM_SHARE
            state.random_share = max((random + first - 1) / (J + first + second - 2), LEAST_SHARE)
        truths = float((self.truths.apart**2 + self.truths.apart_variance).sum())
        state.truth_sd = best_spread(truths, self.data.items, model.truth_scale)
        if self.data.features is not None:
            state.weight_sd = best_spread(float(self.truths.weight_square()), self.data.width, model.feature_scale)
        weights = float(state.weight[own].sum())
        state.common = max((J * state.df / 2 + COMMON - 1) / (state.df * weights / 2 + COMMON), self.data.floor)
        # Expected log of the variances, of the inverse gamma distributions.
        logs = float((state.rate.log() - state.shape.digamma())[own].sum())
        state.df = best_df(math.log(state.common) + 1 - (logs + state.common * weights) / J, state.df)

    def _shift(self) -> None:
        """Shift truths, and intercepts so that the likelihood stays, to the best place under the priors."""
        state = self.state
        prior = self._of_workers(state.bias_sd, self.model.reference_bias) ** -2
        _, slope, _, slope_square, product = state.overall()
        precision = self.data.items / state.truth_sd**2 + float((prior * slope_square).sum())
        apart = product - state.mean * slope
        shift = (float((prior * apart).sum()) - float(self.truths.apart.sum()) / state.truth_sd**2) / precision
        self._sums = self.sums().moved(shift)
        self.truths.shift(shift)
        # b - g c: a linear map of a normal vector.
        state.var_b = state.var_b - 2 * shift * state.cov + shift**2 * state.var_g
        state.cov = state.cov - shift * state.var_g
        state.intercept = state.intercept - shift * state.slope

    def _stretch(self) -> None:
        """Stretch truths with their standard deviation and weights, and shrink slopes, to the best scale under the priors."""
        state, model = self.state, self.model
        spread, at = self._slope_priors()
        prior = spread**-2
        square = float(state.expected(prior * (state.slope**2 + state.var_g)).sum())
        single = float(state.expected(at * prior * state.slope).sum())
        J = self.data.columns

        def objective(shrunk: float) -> float:
            of_slopes = J * math.log(shrunk) - (square * shrunk**2 - 2 * single * shrunk) / 2
            of_spreads = (state.truth_sd / shrunk) ** 2 / (2 * model.truth_scale**2)
            if self.data.features is not None:
                of_spreads += (state.weight_sd / shrunk) ** 2 / (2 * model.feature_scale**2)
            return of_slopes - of_spreads

        shrunk = (single + math.sqrt(single**2 + 4 * square * J)) / (2 * square)
        if objective(shrunk) <= objective(1.0):
            return
        self._sums = self.sums().moved(shrunk=shrunk)
        self.truths.stretch(shrunk)
        state.truth_sd /= shrunk
        state.weight_sd /= shrunk
        state.slope, state.var_g, state.cov = state.slope * shrunk, state.var_g * shrunk**2, state.cov * shrunk

    # -- the bound

    def bound(self) -> float:
        """Return the evidence lower bound with the log priors of the crowd, up to a constant."""
        state, model = self.state, self.model
        sums = self.sums()
        squares = self._squares(sums)
        logs = state.rate.log() - state.shape.digamma()
        labels = -0.5 * (sums.size * logs + squares * state.weight).sum()
        own = self.truths
        truths = -0.5 * ((own.apart**2 + own.apart_variance).sum() / state.truth_sd**2 - own.given.log().sum())
        truths = truths - self.data.items * math.log(state.truth_sd)
        if own.root is not None:
            truths = truths - own.weight_square() / (2 * state.weight_sd**2) - own.root.diagonal().log().sum()
            truths = truths - self.data.width * math.log(state.weight_sd)
        spread_b = self._of_workers(state.bias_sd, model.reference_bias)
        near = ((state.intercept - state.mean) ** 2 + state.var_b) / spread_b**2
        workers = state.expected(-0.5 * near).sum() - spread_b.log().sum()
        if model.slopes:
            spread_g, at = self._slope_priors()
            near = ((state.slope - at) ** 2 + state.var_g) / spread_g**2
            entropy = 0.5 * (state.var_b * state.var_g - state.cov**2).log()
            parts = torch.where(state.part > 0, self._log_shares() - state.part.clamp(min=1e-300).log(), 0.0)
            workers = workers + state.expected(-0.5 * near - spread_g.log() + entropy + parts).sum()
        else:
            workers = workers + 0.5 * state.var_b.log().sum()
        half = self._of_workers(state.df, REFERENCE_DF) / 2
        rate = half * self._of_workers(state.common, REFERENCE_VARIANCE)
        variances = (half * rate.log() - half.lgamma() - (half + 1) * logs - rate * state.weight).sum()
        own_entropy = state.shape + state.rate.log() + state.shape.lgamma() - (1 + state.shape) * state.shape.digamma()
        crowd = -(state.mean**2) / (2 * MEAN_SCALE**2) - state.truth_sd**2 / (2 * model.truth_scale**2)
        crowd -= state.bias_sd**2 / (2 * model.bias_scale**2)
        if self.data.features is not None:
            crowd -= state.weight_sd**2 / (2 * model.feature_scale**2)
        crowd += (COMMON - 1) * math.log(state.common) - COMMON * state.common
        if model.slopes:
            crowd -= state.slope_sd**2 / (2 * model.slope_scale**2)
            first, second = RANDOM_SHARE
            crowd += (first - 1) * math.log(state.random_share) + (second - 1) * math.log1p(-state.random_share)
        return float(labels + truths + workers + variances + own_entropy.sum()) + crowd

    def step(self) -> float:
        """Take one step; return by how much truths have moved at most, relative to the mean one."""
        before = self.truths.mean
        self.maximisation()
        self.expectation()
        return moved(before, self.truths.mean)


def moved(before: Tensor, after: Tensor) -> float:
    """Return by how much truths ``(N,)`` have moved at most, relative to the mean one, and by how much that one has."""
    move = after - before
    mean = move.mean()
    return float((move - mean).abs().max() + mean.abs())
