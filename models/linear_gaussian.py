"""Linear Gaussian: numbers from workers with a bias, a slope and a precision of their own.

The error model of measuring instruments that are compared without a standard (F. E. Grubbs 1948, On estimating precision of
measuring instruments and product variability, Journal of the American Statistical Association 43; J. L. Jaech 1985, Statistical
Analysis of Measurement Errors), and with slope one the one of workers who give numbers (V. C. Raykar et al. 2010, Learning
from crowds, Journal of Machine Learning Research 11), with all workers around those of the crowd.

Model, for labels with mean 0 and standard deviation 1 over all annotations::

    item        z_i                ~ Normal(0, s),            s       ~ HalfNormal(truth_scale)
    crowd       m                  ~ Normal(0, 10)
    worker      b_j                ~ Normal(m, sigma_b),      sigma_b ~ HalfNormal(bias_scale)
                g_j                ~ (1 - pi) Normal(1, sigma_g) + pi Normal(0, .15)
                                     sigma_g ~ HalfNormal(slope_scale),  pi ~ Beta(1, 9)
                v_j                ~ ScaledInverseChi2(nu, t), t ~ Gamma(1/2, 1/2), 1 / nu ~ Uniform(1 / 60, 1 / 2)
    label       y_n                ~ Normal(b_j + g_j z_i, v_j)

Where items have features ``x_i``, each with mean 0 and standard deviation 1, the truth depends on them::

    item        z_i                ~ Normal(w' x_i, s)
    feature     w_d                ~ Normal(0, sigma_w),      sigma_w ~ HalfNormal(feature_scale)

With ``feature_model="network"`` a score by networks is one feature more, see :mod:`crowdppl.inference.numeric.network`.

``v_j`` is at least the variance of rounding, ``width^2 / 12``. The bias of a worker is ``b_j - m``. Only products of slopes
and truths are identified: the scale is that on which slopes are around 1. The second part of the mixture is for workers who
answer at random: in one normal distribution for all slopes they would pull the mean down, and stretch the scale of the
truths.

Three readings of a truth. The *consensus* ``m + z_i`` is free of bias. The *fair average* is what a worker drawn from the
annotations of this crowd would say. Where some true numbers are known, the *truth* is what a reference worker says, who is
one more worker, with wide priors of its own (``reference_*``), whose labels are the known true numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import pyro
import torch
from pyro.distributions import Beta, Categorical, Gamma, HalfNormal, MixtureSameFamily, Normal, Uniform, constraints
from torch import Tensor

from crowdppl.arguments import shown
from crowdppl.errors import ModelError
from crowdppl.model.hyperparameters import require_positive, require_whole
from crowdppl.model.numeric import FlooredInverseGamma, LinearGaussianLabels, NumericModel, StandardLabels

# Bounds of the degrees of freedom of the variances: with fewer, single workers with few labels get variances near zero.
FEWEST_DF, MOST_DF = 2.0, 60.0
# Standard deviation of the crowd's mean, in those of labels.
MEAN_SCALE = 10.0
# Shape and rate of the common variance.
COMMON = 0.5
# Standard deviation of slopes of workers who answer at random, and the prior of the share of these workers.
RANDOM_SD, RANDOM_SHARE = 0.15, (1.0, 9.0)
# Degrees of freedom and scale of the variance of the reference worker.
REFERENCE_DF, REFERENCE_VARIANCE = 1.0, 0.1


class Slopes(MixtureSameFamily):  # type: ignore[misc]
    """The distribution of a worker's slope.

    Args:
        slope_sd: standard deviation around 1, ``(...)``.
        random_share: share of workers who answer at random, ``(...)``.
    """

    support = constraints.real  # that of the base class has no transform

    def __init__(self, slope_sd: Tensor, random_share: Tensor):
        share = torch.stack([1 - random_share, random_share], -1)
        spread = torch.stack([slope_sd, torch.full_like(slope_sd, RANDOM_SD)], -1)
        centre = torch.tensor([1.0, 0.0]).to(spread).expand_as(spread)
        self.parts = (slope_sd, random_share)
        super().__init__(Categorical(share), Normal(centre, spread), validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Slopes:
        """Return the distribution with another batch shape."""
        return Slopes(*(part.expand(batch_shape) for part in self.parts))


def random_probability(slope: Tensor, slope_sd: Tensor, random_share: Tensor) -> Tensor:
    """Return the probability that workers answer at random given their slopes, ``(..., J)``.

    Args:
        slope: ``(..., J)``.
        slope_sd: ``(...)``.
        random_share: ``(...)``.
    """
    spread, share = slope_sd.unsqueeze(-1), random_share.unsqueeze(-1)
    at_random = share.log() - (slope / RANDOM_SD) ** 2 / 2 - math.log(RANDOM_SD)
    other = (1 - share).log() - ((slope - 1) / spread) ** 2 / 2 - spread.log()
    return (at_random - other).sigmoid()


@final
@dataclass(frozen=True)
class LinearGaussian(NumericModel):
    """Numbers by workers with bias, slope and precision of their own.

    Scales are in standard deviations of all labels.

    Attributes:
        slopes: whether workers differ in slope; without, all slopes are 1.
        truth_scale: prior scale of the standard deviation of items.
        bias_scale: prior scale of the spread of biases.
        slope_scale: prior scale of the spread of slopes, of workers who do not answer at random.
        feature_scale: prior scale of the spread of weights of features, where items have any.
        feature_model: ``"linear"``, or ``"network"`` for networks of the features beside their linear effects.
        hidden: number of hidden units of a network.
        reference_bias: prior standard deviation of the bias of the reference worker.
        reference_slope: prior standard deviation of the slope of the reference worker.

    Raises:
        ModelError: for a scale that is not a positive number, or an unknown form of features.
    """

    slopes: bool = True
    truth_scale: float = 2.0
    bias_scale: float = 1.0
    slope_scale: float = 0.5
    feature_scale: float = 1.0
    reference_bias: float = 1.0
    reference_slope: float = 0.5
    feature_model: Literal["linear", "network"] = "linear"
    hidden: int = 32

    name: ClassVar[str] = "linear-gaussian"
    # Chains start from the end of EM.
    engine_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"gibbs": {"warmup": 200}}

    def __post_init__(self) -> None:
        require_positive(self, *(name for name in vars(self) if name.endswith(("_scale", "_bias", "_slope"))))
        require_whole(self, "hidden", least=1)
        if self.feature_model not in ("linear", "network"):
            raise ModelError(
                f"LinearGaussian: feature_model is {shown(self.feature_model)}; it must be 'linear' or 'network'"
            )

    def program(self, data: StandardLabels) -> None:
        """State the model as a Pyro program, with the truths integrated out."""
        mean = pyro.sample("mean", Normal(0.0, MEAN_SCALE))
        truth_sd = pyro.sample("truth_sd", HalfNormal(self.truth_scale))
        bias_sd = pyro.sample("bias_sd", HalfNormal(self.bias_scale))
        of_slopes = None
        if self.slopes:
            slope_sd = pyro.sample("slope_sd", HalfNormal(self.slope_scale))
            of_slopes = Slopes(slope_sd, pyro.sample("random_share", Beta(*RANDOM_SHARE)))
        common = pyro.sample("noise_variance", Gamma(COMMON, COMMON))
        df = 1 / pyro.sample("inverse_noise_df", Uniform(1 / MOST_DF, 1 / FEWEST_DF))
        centre = None
        if data.features is not None:
            spread = pyro.sample("weight_sd", HalfNormal(self.feature_scale))
            weight = pyro.sample("weight", Normal(0.0, spread.unsqueeze(-1).expand(data.width)).to_event(1))
            centre = data.features @ weight
        with pyro.plate("worker", data.workers):
            intercept = pyro.sample("intercept", Normal(mean, bias_sd))
            slope = torch.ones_like(intercept)
            if of_slopes is not None:
                slope = pyro.sample("slope", of_slopes)
            variance = pyro.sample("variance", FlooredInverseGamma(df / 2, df * common / 2, data.floor))
        if data.has_reference:
            pairs = zip((intercept, slope, variance), self._reference(mean, data.floor), strict=True)
            intercept, slope, variance = (torch.cat([own, other.unsqueeze(-1)], -1) for own, other in pairs)
        pyro.sample("labels", LinearGaussianLabels(intercept, slope, variance, truth_sd, data, centre), obs=data.value)

    def _reference(self, mean: Tensor, floor: float) -> list[Tensor]:
        """Return intercept, slope and variance of the reference worker."""
        intercept = pyro.sample("reference_intercept", Normal(mean, self.reference_bias))
        slope = torch.ones_like(intercept)
        if self.slopes:
            slope = pyro.sample("reference_slope", Normal(1.0, self.reference_slope))
        df, variance = torch.tensor(REFERENCE_DF), REFERENCE_VARIANCE
        drawn = pyro.sample("reference_variance", FlooredInverseGamma(df / 2, df * variance / 2, floor))
        return [intercept, slope, drawn]

    def hyperparameters(self) -> Mapping[str, Any]:
        """Return the hyperparameters by name."""
        return dict(vars(self))
