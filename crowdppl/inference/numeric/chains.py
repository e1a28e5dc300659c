"""Gibbs chains of the linear Gaussian model, side by side: one sweep, every conditional in closed form or on a grid.

A sweep draws truths, then intercept and slope of each worker together, variances, and the crowd. Two moves follow that leave the
likelihood as it is, since without them truths and workers would move together only in small steps: all truths are shifted,
``z + c`` and ``b - g c`` (drawn exactly), and stretched, ``z d``, ``s d`` and ``g / d`` (Metropolis).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from crowdppl.inference.numeric.conditionals import SPREADS, Ends, draw_df, draw_spread, from_grid
from crowdppl.inference.numeric.mean_field import Loop
from crowdppl.inference.numeric.readings import Parameters, given_labels
from crowdppl.inference.numeric.regression import drawn, weights
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

# Step of the stretch, in standard deviations of what it would be with known workers.
STRETCH = 2.4
# Steps of EM from which chains start, and how far from each other they start, in standard deviations.
FIRST_STEPS, DISPERSED = 30, 2.0
# Draws of a variance below the floor before the floor is taken.
TRIES = 8


@dataclass
class Chains:
    """``C`` chains of the sampler. Attributes as in :class:`crowdppl.models.LinearGaussian`, on the standard scale."""

    model: LinearGaussian
    data: StandardLabels
    chains: int
    intercept: Tensor = field(init=False)
    slope: Tensor = field(init=False)
    variance: Tensor = field(init=False)
    mean: Tensor = field(init=False)
    truth_sd: Tensor = field(init=False)
    bias_sd: Tensor = field(init=False)
    slope_sd: Tensor = field(init=False)
    random_share: Tensor = field(init=False)
    at_random: Tensor = field(init=False)
    common: Tensor = field(init=False)
    df: Tensor = field(init=False)
    weight: Tensor | None = field(init=False, default=None)
    weight_sd: Tensor = field(init=False)

    def __post_init__(self) -> None:
        like, C, J = self.data.value, self.chains, self.data.columns
        state = Loop.after(self.model, self.data, FIRST_STEPS).state
        b, g, b_square, g_square, _ = state.overall()

        def apart(mean: Tensor, variance: Tensor) -> Tensor:
            """Return starts of the chains, farther from each other than draws of the posterior."""
            spread = DISPERSED * variance.clamp(min=0).sqrt() + 0.01
            return mean.unsqueeze(-1) + spread.unsqueeze(-1) * torch.randn(J, C).to(like)

        def around(value: float) -> Tensor:
            return value * (0.3 * torch.randn(C)).exp().to(like)

        self.intercept, self.slope = apart(b, b_square - b**2), torch.ones(J, C).to(like)
        if self.model.slopes:
            self.slope = apart(g, g_square - g**2)
        self.variance = (1 / state.weight).unsqueeze(-1) * (0.3 * torch.randn(J, C)).exp().to(like)
        self.variance = self.variance.clamp(min=self.data.floor)
        self.mean = torch.full((C,), state.mean).to(like)
        self.truth_sd, self.common = around(state.truth_sd), around(state.common)
        self.bias_sd, self.slope_sd = around(max(state.bias_sd, 0.02)), around(max(state.slope_sd, 0.02))
        self.df = torch.full((C,), state.df).to(like)
        self.random_share = torch.full((C,), 0.1).to(like)
        self.at_random = torch.zeros(J, C, dtype=torch.bool, device=like.device)
        self.ends = Ends(self.data, C) if self.data.ends is not None else None
        self.weight_sd = torch.full((C,), state.weight_sd).to(like)
        if self.data.features is not None:
            self._draw_weights()

    @property
    def parameters(self) -> Parameters:
        """The parameters of the chains."""
        return Parameters(self.intercept, self.slope, self.variance, self.mean, self.truth_sd, self.weight)

    def conditional(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the truths given all else, ``(N, C)`` each."""
        return given_labels(*self._by_item(), self.truth_sd, self.parameters.centre(self.data))

    def _by_item(self) -> tuple[Tensor, Tensor]:
        """Return what the labels say of each truth: its precision, and that times its mean, ``(N, C)`` each."""
        weight = 1 / self.variance
        precision, linear = self.data.tables.by_item(self.intercept, self.slope, weight)
        if self.ends is not None:
            linear = linear + self.ends.by_item(self.slope * weight)
        return precision, linear

    def sweep(self, mean: Tensor, variance: Tensor) -> None:
        """Draw everything once.

        Args:
            mean: of the truths given all else, see :meth:`conditional`.
            variance: likewise.
        """
        truth = mean + torch.randn_like(mean) * variance.sqrt()
        if self.ends is not None:
            self.ends.draw(truth, self.intercept, self.slope, self.variance)
        sums = self.data.tables.by_worker(truth, truth**2)
        if self.ends is not None:
            sums = self.ends.added(sums, truth)
        self._workers(sums)
        centre = self.parameters.centre(self.data)
        apart = truth if centre is None else truth - centre
        self._crowd(apart)
        self._shifted(apart)
        if self.model.slopes:
            self._stretched()
        if self.data.features is not None:
            self._draw_weights()

    def _draw_weights(self) -> None:
        """Draw the weights of features with the truths, which are drawn next, summed out; then the spread of the weights."""
        assert self.data.features is not None
        mean, root = weights(self.data.features, *self._by_item(), self.truth_sd, self.weight_sd)
        self.weight = drawn(mean, root, torch.randn_like(mean))
        self.weight_sd = draw_spread((self.weight**2).sum(0), self.data.width, self.model.feature_scale)

    def _of_workers(self, common: Tensor, reference: float) -> Tensor:
        """Return a quantity of the priors of workers, ``(J, C)``: ``common`` ``(C,)``, and a number for the reference worker."""
        out = common.expand(self.data.columns, -1)
        if self.data.has_reference:
            out = torch.cat([out[:-1], torch.full_like(out[:1], reference)])
        return out

    def _workers(self, sums: WorkerSums) -> None:
        """Draw intercepts and slopes together, then variances."""
        weight = 1 / self.variance
        prior_b = self._of_workers(self.bias_sd, self.model.reference_bias) ** -2
        # Precision of intercept and slope, and the linear term.
        bb, linear_b = sums.size * weight + prior_b, sums.label * weight + prior_b * self.mean
        if self.model.slopes:
            bg = sums.truth * weight
            # Precision and linear term of the slope from the labels, with the intercept summed out.
            of_labels = sums.truth_square * weight - bg**2 / bb, sums.product * weight - bg * linear_b / bb
            self._draw_random(*of_labels)
            prior_g, at = self._prior_of_slopes()
            left = of_labels[0] + prior_g
            centre = (of_labels[1] + at * prior_g) / left
            self.slope = centre + torch.randn_like(centre) / left.sqrt()
            self._interweave(*of_labels)
            linear_b = linear_b - bg * self.slope
        else:
            linear_b = linear_b - sums.truth * weight
        self.intercept = linear_b / bb + torch.randn_like(linear_b) / bb.sqrt()
        df, common = self._of_workers(self.df, REFERENCE_DF), self._of_workers(self.common, REFERENCE_VARIANCE)
        shape = (df + sums.size) / 2
        rate = (df * common + sums.squares(self.intercept, self.slope)) / 2
        drawn = rate / torch._standard_gamma(shape)
        for _ in range(TRIES):
            below = drawn < self.data.floor
            if not bool(below.any()):
                break
            drawn = torch.where(below, rate / torch._standard_gamma(shape), drawn)
        self.variance = drawn.clamp(min=self.data.floor)

    def _prior_of_slopes(self) -> tuple[Tensor, Tensor]:
        """Return precision and mean of the prior of slopes, ``(J, C)`` each."""
        spread = self._of_workers(self.slope_sd, self.model.reference_slope)
        return torch.where(self.at_random, RANDOM_SD, spread) ** -2, torch.where(self.at_random, 0.0, 1.0).to(spread)

    def _interweave(self, precision: Tensor, linear: Tensor) -> None:
        """Draw the spread of slopes once more with slopes on its scale, ``g = 1 + sigma u`` (Yu and Meng 2011).

        Given slopes alone a small spread hardly moves; given ``u`` it moves as the labels allow.

        Args:
            precision: of the slope from the labels alone, ``(J, C)``.
            linear: linear term likewise.
        """
        own = slice(0, self.data.workers)
        follows = ~self.at_random[own]
        scaled = torch.where(follows, (self.slope[own] - 1) / self.slope_sd, 0.0)
        square = (precision[own] * scaled**2).sum(0).unsqueeze(-1)
        single = ((linear - precision)[own] * scaled).sum(0).unsqueeze(-1)
        low, high, nodes = SPREADS
        log = torch.linspace(low, high, nodes).to(square)
        spread = log.exp()
        density = single * spread - square * spread**2 / 2 - spread**2 / (2 * self.model.slope_scale**2) + log
        drawn = from_grid(density, log)
        self.slope = torch.cat(
            [torch.where(follows, 1 + drawn * scaled, self.slope[own]), self.slope[self.data.workers :]]
        )
        self.slope_sd = drawn

    def _draw_random(self, precision: Tensor, linear: Tensor) -> None:
        """Draw which workers answer at random, with their intercepts and slopes summed out.

        Args:
            precision: of the slope from the labels alone, ``(J, C)``.
            linear: linear term likewise.
        """

        def log_marginal(spread: Tensor, at: float) -> Tensor:
            prior = spread**-2
            total = precision + prior
            return 0.5 * (prior.log() - total.log() - at**2 * prior + (linear + at * prior) ** 2 / total)

        spread = self.slope_sd.expand_as(precision)
        odds = log_marginal(torch.full_like(spread, RANDOM_SD), 0.0) - log_marginal(spread, 1.0)
        odds = odds + self.random_share.log() - (-self.random_share).log1p()
        self.at_random = torch.rand_like(odds) < odds.sigmoid()
        if self.data.has_reference:
            self.at_random[-1] = False
        count = self.at_random[: self.data.workers].sum(0)
        gammas = (
            torch._standard_gamma(base + size)
            for base, size in zip(RANDOM_SHARE, (count, self.data.workers - count), strict=True)
        )
        first, second = gammas
        self.random_share = (first / (first + second)).clamp(1e-9, 1 - 1e-9)

    def _crowd(self, apart: Tensor) -> None:
        """Draw what workers and truths have in common, given truths less what features make expect, ``(N, C)``."""
        own = slice(0, self.data.workers)
        intercept, slope, variance = self.intercept[own], self.slope[own], self.variance[own]
        J = len(intercept)
        precision = J / self.bias_sd**2 + MEAN_SCALE**-2
        linear = intercept.sum(0) / self.bias_sd**2
        if self.data.has_reference:
            precision = precision + self.model.reference_bias**-2
            linear = linear + self.intercept[-1] * self.model.reference_bias**-2
        self.mean = linear / precision + torch.randn_like(linear) / precision.sqrt()
        self.bias_sd = draw_spread(((intercept - self.mean) ** 2).sum(0), J, self.model.bias_scale)
        if self.model.slopes:
            own_scale = ~self.at_random[own]
            squares = ((slope - 1) ** 2 * own_scale).sum(0)
            self.slope_sd = draw_spread(squares, own_scale.sum(0), self.model.slope_scale)
        self.truth_sd = draw_spread((apart**2).sum(0), len(apart), self.model.truth_scale)
        shape, rate = J * self.df / 2 + COMMON, self.df * (1 / variance).sum(0) / 2 + COMMON
        self.common = torch._standard_gamma(shape) / rate
        self.df = draw_df(variance, self.common)

    def _shifted(self, apart: Tensor) -> None:
        """Shift all truths, which are drawn anew in the next sweep, and intercepts so that the likelihood stays."""
        spread = self._of_workers(self.bias_sd, self.model.reference_bias) ** -2
        precision = len(apart) / self.truth_sd**2 + (self.slope**2 * spread).sum(0)
        linear = -apart.sum(0) / self.truth_sd**2 + (self.slope * (self.intercept - self.mean) * spread).sum(0)
        shift = linear / precision + torch.randn_like(linear) / precision.sqrt()
        self.intercept = self.intercept - self.slope * shift

    def _stretched(self) -> None:
        """Stretch truths, their standard deviation and weights, and shrink slopes so that the likelihood stays."""
        spread, at = self._prior_of_slopes()

        def log_prior(slope: Tensor, factor: Tensor | float) -> Tensor:
            truth_sd = self.truth_sd * factor
            of_slopes = (-0.5 * spread * (slope - at) ** 2).sum(0)
            out = of_slopes - truth_sd**2 / (2 * self.model.truth_scale**2) + truth_sd.log()
            if self.weight is None:
                return out
            weight_sd = self.weight_sd * factor
            return out - weight_sd**2 / (2 * self.model.feature_scale**2) + weight_sd.log()

        J = self.data.columns
        factor = (STRETCH * self.slope_sd / J**0.5 * torch.randn_like(self.mean)).exp()
        slope = self.slope / factor
        ratio = log_prior(slope, factor) - log_prior(self.slope, 1.0) - J * factor.log()
        accepted = torch.rand_like(ratio).log() < ratio
        # The truths themselves are drawn anew in the next sweep, given all else.
        self.slope = torch.where(accepted, slope, self.slope)
        self.truth_sd = torch.where(accepted, self.truth_sd * factor, self.truth_sd)
        if self.weight is not None:  # drawn anew too
            self.weight_sd = torch.where(accepted, self.weight_sd * factor, self.weight_sd)

    def held(self) -> dict[str, Tensor]:
        """Return all that the next sweep starts from, by name, as it is."""
        names = [one.name for one in fields(self) if not one.init]
        out = {name: value for name in names if (value := getattr(self, name)) is not None}
        return out if self.ends is None else out | {"beyond": self.ends.beyond}

    def restore(self, held: dict[str, Tensor]) -> None:
        """Continue from what :meth:`held` has returned."""
        for name, value in held.items():
            setattr(self.ends if name == "beyond" else self, name, value)

    def state(self) -> dict[str, Tensor]:
        """Return the sites, each with the chain as its first axis."""
        own = slice(0, self.data.workers)
        out = {
            "mean": self.mean,
            "truth_sd": self.truth_sd,
            "bias_sd": self.bias_sd,
            "noise_variance": self.common,
            "noise_df": self.df,
            "intercept": self.intercept[own].T,
            "variance": self.variance[own].T,
        }
        if self.model.slopes:
            out |= {"slope_sd": self.slope_sd, "random_share": self.random_share, "slope": self.slope[own].T}
        if self.data.has_reference:
            names = ("intercept", "slope", "variance") if self.model.slopes else ("intercept", "variance")
            out |= {f"reference_{name}": getattr(self, name)[-1] for name in names}
        if self.weight is not None:
            out |= {"weight": self.weight.T, "weight_sd": self.weight_sd}
        return {name: value.clone() for name, value in out.items()}
