"""The design effect of correlated errors on one item, for calibrated posteriors of true labels and workers.

Every published annotation model takes the annotations of an item as independent given its truth. They are not: errors are
correlated on hard items, and ``n`` annotations of an item are less informative than ``n`` independent ones. Survey statistics
calls this the *design effect*: ``n`` observations from one cluster with intra-cluster correlation ``rho`` are worth
``n / (1 + (n - 1) rho)`` independent ones (Kish 1965, Survey Sampling, section 5.4). Here clusters are items. The log posterior
of an item's class is divided by its design effect:

    p(truth_i = k | labels, parameters, rho)  proportional to  p(truth_i = k | labels, parameters) ^ (1 / (1 + (n_i - 1) rho))

The parameters are learned as published, and only the posteriors of true labels and workers are weighted (a *modular*, or *cut*,
posterior): weighting inside the sampler would let weak data move the classes. ``rho`` differs between crowds and is not known
without some known true labels; each posterior draw takes a value from its distribution over public data sets, so that all
intervals widen together. Known true labels inform that distribution (:mod:`crowdppl.inference.dependence.known_truths`). Worker
quality follows the true labels of the draw: every worker starts as an average member of the crowd, worth ``START`` annotations.
Given the true labels, annotations of different items by one worker are independent and count in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crowdppl.arguments import at_least_zero, number, share, shown
from crowdppl.data.annotations import Annotations
from crowdppl.errors import OptionError
from crowdppl.inference.dependence.class_weights import ClassWeights
from crowdppl.kernels.ops import sample_dirichlet

# Mean and standard deviation of logit rho over public data sets, estimated by benchmarks/calibration/design_effect.py.
POPULATION = (-1.0, 3.0)
# Pseudo-counts that every worker starts with, correct and incorrect in the proportions of the crowd.
START = 4.0
# Smallest number of values of rho to average probabilities over: quantile midpoints, whose mean is off by some 1e-4.
NODES, FEW_NODES = 64, 16
# Share of the variance of logit rho that is within crowds: known true labels tell the mean of a crowd, around which the intervals
# of its workers stay wide (docs/benchmarks/known-truths.md). The rest is between crowds, and what known true labels can move.
WITHIN = 0.9
# Where true labels are known: values of logit rho at which their likelihood is computed, values at which it is interpolated, and
# standard deviations of the prior that both extend to, those between crowds and all of them.
PLACES, FINE, SPREADS = 71, 4001, 6.0
# Standard deviations within a crowd that an average over it extends to, on either side.
WITHIN_SPREADS = 3.0
# Probability of the interval of rho in the sentence on it.
LEVEL = 0.89
_finite = number()
Array = npt.NDArray[Any]

PUBLISHED = "Truths and workers are taken from the model as published: annotations of one item count as independent."
WEIGHTED = (
    "Truths and workers allow for correlated errors on one item: log-likelihoods are divided by the design effect "
    "1 + (n - 1) rho, {rho}; independent=True gives the model as published."
)


@dataclass(frozen=True, eq=False)
class RhoLikelihood:
    """What known true labels say about ``rho``.

    Attributes:
        items: number of items with a known true label and at least two annotations.
        logit: values of the crowd's mean ``logit rho``, ascending, ``(G,)``.
        log_likelihood: log probability of these true labels at each, up to a constant, ``(G,)``: the probability of each item
            is averaged over ``rho`` within a crowd with this mean.
    """

    items: int
    logit: Array
    log_likelihood: Array


@dataclass(frozen=True)
class DesignEffect:
    """The correlation between annotations of one item beyond the model.

    Attributes:
        mean: of ``logit rho``, before any true label is known.
        spread: standard deviation of ``logit rho``, likewise; 0 for a known one.
        known: ``rho`` itself, in place of both.
        likelihood: what known true labels say; ``None`` without them.
        public: whether mean and spread are those over public crowds.
        classes: weights of the classes, estimated from known true labels; ``None`` without them.
    """

    mean: float = POPULATION[0]
    spread: float = POPULATION[1]
    known: float | None = None
    likelihood: RhoLikelihood | None = field(default=None, compare=False)
    public: bool = field(default=False, compare=False)
    classes: ClassWeights | None = field(default=None, compare=False)

    @classmethod
    def of_crowds(cls, residual: tuple[float, float] | None, annotations_per_item: float) -> DesignEffect:
        """Return the distribution over public crowds of what a model leaves unexplained.

        Args:
            residual: of the model, see :attr:`crowdppl.AnnotationModel.residual_rho`.
            annotations_per_item: mean over the items of this crowd.
        """
        if residual is None:
            return cls(*POPULATION, public=True)
        level, spread = residual
        return cls(round(level - math.log(max(annotations_per_item, 1.0)), 2), spread, public=True)

    @classmethod
    def of(
        cls,
        rho: float | tuple[float, float] | None,
        residual: tuple[float, float] | None,
        annotations_per_item: float,
    ) -> DesignEffect:
        """Return the design effect of an option: a known ``rho``, mean and sd of its logit, or the public crowds' for a model.

        Raises:
            OptionError: for a ``rho`` outside [0, 1] or a spread below 0.
        """
        if rho is None:
            return cls.of_crowds(residual, annotations_per_item)
        try:
            if isinstance(rho, (tuple, list)) and len(rho) == 2:
                return cls(_finite("rho", rho[0]), at_least_zero("rho", rho[1]))
            return cls(known=share("rho", rho))
        except OptionError:
            raise OptionError(
                f"rho={shown(rho)}; it must be a correlation from 0 to 1, or (mean, sd) of its logit, such as {POPULATION}"
            ) from None

    @property
    def fixed(self) -> bool:
        """Whether ``rho`` has one value, so that there is nothing to average over."""
        return self.known is not None or self.spread == 0

    def quantiles(self, u: Tensor) -> Tensor:
        """Return quantiles of ``rho`` at probabilities ``u``, in their shape."""
        if self.known is not None:
            return torch.full_like(u, self.known)
        if self.likelihood is None:
            return torch.sigmoid(self.mean + self.spread * torch.special.ndtri(u))
        logit, weight = self._drawn
        total = weight.cumsum() - weight / 2
        return torch.sigmoid(torch.from_numpy(np.interp(u.cpu().double().numpy(), total, logit)).to(u))

    def places(self) -> Array:
        """Return the values of ``logit rho`` at which a likelihood has to be known, ascending, ``(PLACES,)``."""
        return self.mean + self._between * np.linspace(-SPREADS, SPREADS, PLACES)

    def averages(self) -> tuple[Array, Array, Array]:
        """Return the places of the crowd's mean, and what averages over ``rho`` within the crowd at each of them.

        Returns:
            Places ``(PLACES,)``; values of ``logit rho`` with the same spacing that reach as far beyond the places as ``rho``
            differs within a crowd, ``(V,)``; and weights of the values at each place, ``(PLACES, V)``, with sum 1.
        """
        places, within = self.places(), math.sqrt(WITHIN) * self.spread
        spacing = float(places[1] - places[0])
        beyond = math.ceil(WITHIN_SPREADS * within / spacing)
        values = places[0] + spacing * np.arange(-beyond, PLACES + beyond)
        kernel = np.exp(-0.5 * ((values - places[:, None]) / within) ** 2)
        return places, values, kernel / kernel.sum(1, keepdims=True)

    @property
    def _between(self) -> float:
        """Standard deviation of the part of ``logit rho`` that differs between crowds."""
        return math.sqrt(1 - WITHIN) * self.spread

    def given(self, likelihood: RhoLikelihood) -> DesignEffect:
        """Return the posterior of ``rho`` given true labels, with this distribution as its prior."""
        return replace(self, likelihood=likelihood)

    def weighing(self, classes: ClassWeights) -> DesignEffect:
        """Return the same with weights of the classes."""
        return replace(self, classes=classes)

    @cached_property
    def _crowd(self) -> tuple[Array, Array]:
        """Evenly spaced values of ``logit rho``, and weights of the crowd's mean there, given the true labels: their sum is 1."""
        from scipy.interpolate import CubicSpline  # here: slow to import, and used only where true labels are known

        assert self.likelihood is not None
        logit = np.linspace(self.mean - SPREADS * self.spread, self.mean + SPREADS * self.spread, FINE)
        places = self.likelihood.logit
        # Beyond the places the prior leaves nothing.
        interpolated = CubicSpline(places, self.likelihood.log_likelihood)(logit.clip(places[0], places[-1]))
        density = interpolated - 0.5 * ((logit - self.mean) / self._between) ** 2
        weight = np.exp(density - density.max())
        return logit, weight / weight.sum()

    @property
    def log_score(self) -> float:
        """Log-probability of the known true labels, averaged over the prior of the crowd's mean."""
        assert self.likelihood is not None
        prior = -0.5 * ((self.likelihood.logit - self.mean) / self._between) ** 2
        both = prior + self.likelihood.log_likelihood
        return float(both.max() + np.log(np.exp(both - both.max()).sum()) - np.log(np.exp(prior).sum()))

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        """The same of the values that are drawn and averaged over: around the crowd's mean, as they differ within a crowd."""
        logit, weight = self._crowd
        within = math.sqrt(WITHIN) * self.spread
        weight = np.convolve(weight, np.exp(-0.5 * ((logit - self.mean) / within) ** 2), mode="same")
        return logit, weight / weight.sum()

    @property
    def mean_sd(self) -> tuple[float, float]:
        """Mean and standard deviation of the ``logit rho`` that is drawn: given the known true labels, if any."""
        return (self.mean, self.spread) if self.likelihood is None else _mean_sd(*self._drawn)

    @property
    def crowd_mean_sd(self) -> tuple[float, float]:
        """Mean and standard deviation of the crowd's mean ``logit rho``, given the known true labels, if any."""
        if self.likelihood is None:
            return self.mean, self._between
        return _mean_sd(*self._crowd)

    def crowd_interval(self, level: float) -> tuple[float, float]:
        """Return the ends of the central interval of ``rho`` at the crowd's mean, given the known true labels."""
        logit, weight = self._crowd
        ends = np.interp([(1 - level) / 2, (1 + level) / 2], weight.cumsum() - weight / 2, logit)
        low, high = (1 / (1 + np.exp(-ends))).tolist()
        return low, high

    def nodes(self, data: Annotations, few: bool = False) -> Tensor:
        """Return equally probable values of ``rho`` to average over, ``(Q,)``: midpoints of ``NODES`` quantile ranges.

        ``few`` of them, ``FEW_NODES``, where each costs a pass over sequences.
        """
        count = 1 if self.fixed else FEW_NODES if few else NODES
        u = (torch.arange(count, dtype=data.dtype, device=data.device) + 0.5) / count
        return self.quantiles(u)

    def draw(self, count: int, data: Annotations) -> tuple[Tensor, Tensor]:
        """Draw ``rho`` for each of ``count`` draws of the parameters.

        Draws are stratified: each takes a quantile range of its own. Where draws are few, each comes with several values to
        average probabilities over, so that a label's probability does not depend on the number of draws.

        Returns:
            ``rho (count,)``, and the values to average over, ``(count, Q)``, of which it is one.
        """
        each = 1 if self.fixed else max(1, -(-NODES // count))
        order = torch.randperm(count, device=data.device).unsqueeze(-1)  # (count, 1)
        u = (torch.arange(each, dtype=data.dtype, device=data.device) + (order + 0.5) / count) / each  # (count, Q)
        chosen = torch.randint(each, (count, 1), device=data.device)
        return self.quantiles(u.gather(-1, chosen).squeeze(-1)), self.quantiles(u)

    def say(self) -> str:
        """Return a description of ``rho`` and of where it is from, in words."""
        if self.known is not None:
            return f"rho = {self.known:g}, as given"
        if self.spread == 0:
            return f"rho = {1 / (1 + math.exp(-self.mean)):.2g}, as given"
        prior = f"logit rho normal with mean {self.mean:g} and sd {self.spread:g}"
        average = "average of public crowds" if self.public else "prior as given"
        weights = "" if self.classes is None else "; probabilities of classes are weighted as known true labels say"
        if self.likelihood is None:
            return f"rho drawn anew with every draw, {average}: {prior}{weights}"
        (low, high), (mean, spread) = self.crowd_interval(LEVEL), self.mean_sd
        count = f"{self.likelihood.items:,} known true label{'' if self.likelihood.items == 1 else 's'}"
        return (
            f"rho estimated from {count} of this crowd, at its mean {low:.2g} to {high:.2g} ({LEVEL:.0%}), and drawn anew with "
            f"every draw: logit rho with mean {mean:.2g} and sd {spread:.2g} ({average}: {self.mean:g} and {self.spread:g})"
            f"{weights}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the distribution as a result stores it: the prior, and its update by known true labels."""
        out: dict[str, Any] = {
            "mean": self.mean,
            "spread": self.spread,
            "known": self.known,
            "public": self.public,
            "truths": None,
        }
        if self.likelihood is not None:
            (mean, spread), (crowd_mean, crowd_spread) = self.mean_sd, self.crowd_mean_sd
            out["truths"] = {
                "items": self.likelihood.items,
                "mean": mean,
                "spread": spread,
                "crowd_mean": crowd_mean,
                "crowd_spread": crowd_spread,
            }
        if self.classes is not None:
            out["log_class_weights"] = self.classes.average.tolist()
        return out

    @property
    def given_as(self) -> float | tuple[float, float] | None:
        """The option ``rho`` of which :meth:`of` makes this distribution; ``None`` for that of public crowds."""
        if self.public:
            return None
        return self.known if self.known is not None else (self.mean, self.spread)

    @classmethod
    def of_json(cls, stored: dict[str, Any] | None) -> DesignEffect | None:
        """Return the prior that a result stores; ``None`` where annotations count as independent."""
        if stored is None:
            return None
        prior = cls(*(stored[name] for name in ("mean", "spread", "known")))
        return replace(prior, public=stored.get("public", prior == cls()))


def _mean_sd(value: Array, weight: Array) -> tuple[float, float]:
    """Return mean and standard deviation of values with weights that sum to one."""
    mean = float((weight * value).sum())
    return mean, math.sqrt(float((weight * (value - mean) ** 2).sum()))


def factors(rho: Tensor, data: Annotations) -> Tensor:
    """Return ``1 + (n_i - 1) rho`` for ``rho (...,)``: ``(..., N)``; 1 for items with one annotation or none.

    The annotations of an item with a weight count by it. Class scores count as one more: the classifier has learned from the same
    workers, and repeats the errors that they share (docs/benchmarks/features-coverage.md).
    """
    more = (data.sources_per_item - 1).clamp(min=0).to(rho.dtype)  # (N,)
    return 1 + more * rho.unsqueeze(-1)


def quality(
    truth: Tensor, data: Annotations, count: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Draw workers' confusion matrices and the prevalence given true labels.

    Args:
        truth: classes of the items, ``(C, N)``.
        data: the annotations.
        count: counts items of each class ``(C, K)``, and labels ``(C, J, K, K)``, by the true labels.

    Returns:
        Confusion matrices ``(C, J, K, K)`` and prevalences ``(C, K)``.
    """
    classes, counts = count(truth)
    classes = 1 + classes
    # The crowd's rows, with pseudo-counts for the correct label and for all labels in each, so that no row is empty.
    eye = torch.eye(data.K, dtype=data.dtype, device=data.device)
    crowd = counts.sum(-3) + eye + 1 / data.K
    crowd = crowd / crowd.sum(-1, keepdim=True)
    start = START * (classes / classes.sum(-1, keepdim=True)).unsqueeze(-1) * crowd  # (C, K, K)
    rows = sample_dirichlet(start.unsqueeze(-3) + counts)
    # No probability is zero; the effect on the sums of rows is below rounding.
    return rows.clamp_(min=torch.finfo(data.dtype).tiny), sample_dirichlet(classes)
