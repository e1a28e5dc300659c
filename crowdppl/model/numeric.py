"""What a model of numbers consists of: its labels on a standard scale, and the distributions of its Pyro program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from crowdppl.data.numeric import NumericAnnotations
from crowdppl.kernels.linear_gaussian import ValueTables
from crowdppl.kernels.ops import sum_by


@dataclass(frozen=True, eq=False)
class StandardLabels:
    """Labels with mean 0 and standard deviation 1, with known true numbers as the labels of one more worker.

    Attributes:
        item: item of each label, ``(A,)``.
        worker: worker of each label, ``(A,)``; the reference worker comes last, with number ``workers``.
        value: the labels, ``(A,)``.
        items: number of items.
        workers: number of workers, without the reference.
        has_reference: whether there are known true numbers.
        centre: mean of the labels as given.
        unit: their standard deviation.
        floor: least variance of a worker, that of rounding.
        ends: lowest and highest label of a bounded scale, on the standard scale; ``None`` for an unbounded one.
        features: of the items, each with mean 0 and standard deviation 1 over them, or all 0; ``(N, D)``, or ``None``.
        feature_mean: their means as given, ``(D,)``.
        feature_sd: their standard deviations, likewise; 1 for a feature that does not vary.
    """

    item: Tensor
    worker: Tensor
    value: Tensor
    items: int
    workers: int
    has_reference: bool
    centre: float
    unit: float
    floor: float
    ends: tuple[float, float] | None = None
    features: Tensor | None = None
    feature_mean: Tensor | None = None
    feature_sd: Tensor | None = None

    @classmethod
    def of(cls, data: NumericAnnotations) -> StandardLabels:
        """Return the labels of annotations on the standard scale."""
        centre = float(data.value.mean())
        spread = float(data.value.std(correction=0)) if data.A > 1 else 0.0
        unit = spread if spread > 1e-12 * max(1.0, abs(centre)) else 1.0
        known = data.known.nonzero().squeeze(-1)
        features: dict[str, Tensor] = {}
        if data.features is not None:
            mean, sd = data.features.mean(0), data.features.std(0, correction=0)
            sd = torch.where(sd > 1e-12 * mean.abs().clamp(min=1e-300), sd, 1.0)
            features = {"features": (data.features - mean) / sd, "feature_mean": mean, "feature_sd": sd}
        reference = torch.full_like(known, data.J)
        value = torch.cat([data.value, data.truth[known]])
        return cls(
            item=torch.cat([data.item, known]),
            worker=torch.cat([data.worker, reference]),
            value=(value - centre) / unit,
            items=data.N,
            workers=data.J,
            has_reference=bool(len(known)),
            centre=centre,
            unit=unit,
            floor=max((data.spacing / unit) ** 2 / 12, LEAST_VARIANCE),
            ends=None if data.scale is None else tuple((end - centre) / unit for end in data.scale),  # type: ignore[arg-type]
            **features,
        )

    def without_reference(self) -> StandardLabels:
        """Return the labels of the workers alone."""
        if not self.has_reference:
            return self
        own = self.worker < self.workers
        parts = {name: getattr(self, name)[own] for name in ("item", "worker", "value")}
        return replace(self, **parts, has_reference=False)

    @property
    def width(self) -> int:
        """Number of features of an item."""
        return 0 if self.features is None else self.features.shape[-1]

    @property
    def columns(self) -> int:
        """Number of workers, the reference included."""
        return self.workers + self.has_reference

    @cached_property
    def tables(self) -> ValueTables:
        """Sparse tables of all labels."""
        return ValueTables(self.item, self.worker, self.value, (self.items, self.columns))

    @cached_property
    def per_item(self) -> Tensor:
        """Number of labels of each item, ``(N, 1)``."""
        return torch.bincount(self.item, minlength=self.items).to(self.value).unsqueeze(-1)


# The least variance of a worker whose numbers are not rounded.
LEAST_VARIANCE = 1e-8


class NumericModel(ABC):
    """A model of labels that are numbers, see :class:`crowdppl.models.LinearGaussian`.

    Attributes:
        name: in the catalogue.
        engine_defaults: defaults of options of engines that differ from those of the engines, by engine.
    """

    name: ClassVar[str] = ""
    engine_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @abstractmethod
    def program(self, data: StandardLabels) -> None:
        """State the model as a Pyro program, with the truths integrated out."""

    @abstractmethod
    def hyperparameters(self) -> Mapping[str, Any]:
        """Return the hyperparameters by name."""


class FlooredInverseGamma(TorchDistribution):  # type: ignore[misc]
    """An inverse gamma distribution above a floor. Its density is not normalised, since the floor is far in its tail.

    Args:
        concentration: shape.
        rate: scale of the variance.
        floor: the least value.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive, "rate": constraints.positive}
    has_rsample = True

    def __init__(self, concentration: Tensor, rate: Tensor, floor: float):
        self.base = dist.InverseGamma(concentration, rate, validate_args=False)
        self.concentration, self.rate, self.floor = concentration, rate, floor
        super().__init__(self.base.batch_shape, validate_args=False)

    @property
    def support(self) -> Any:
        """Variances above the floor."""
        return constraints.greater_than(self.floor)

    def expand(self, batch_shape: Any, _instance: Any = None) -> FlooredInverseGamma:
        """Return the distribution with another batch shape."""
        return FlooredInverseGamma(self.concentration.expand(batch_shape), self.rate.expand(batch_shape), self.floor)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw variances."""
        drawn: Tensor = self.base.rsample(torch.Size(sample_shape))
        return drawn.clamp(min=self.floor)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        out: Tensor = self.base.log_prob(value)
        return out


class LinearGaussianLabels(TorchDistribution):  # type: ignore[misc]
    """Labels ``(A,)`` of normal truths, which are integrated out exactly.

    Args:
        intercept: of each worker, ``(..., J)``.
        slope: likewise.
        variance: likewise.
        truth_sd: standard deviation of the truths, ``(...)``.
        data: which worker labels which item.
        centre: expected truth of each item, ``(..., N)``; 0 where it is not given.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.real_vector

    def __init__(
        self,
        intercept: Tensor,
        slope: Tensor,
        variance: Tensor,
        truth_sd: Tensor,
        data: StandardLabels,
        centre: Tensor | None = None,
    ):
        self.intercept, self.slope, self.noise, self.truth_sd, self.data = intercept, slope, variance, truth_sd, data
        self.centre = centre
        super().__init__(truth_sd.shape, torch.Size([len(data.item)]), validate_args=False)

    def _per_label(self, of_worker: Tensor) -> Tensor:
        return of_worker[..., self.data.worker]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw truths, and labels of them."""
        shape = (*sample_shape, *self.truth_sd.shape)
        truth = torch.randn(*shape, self.data.items).to(self.truth_sd) * self.truth_sd.unsqueeze(-1)
        truth = truth if self.centre is None else truth + self.centre
        noise = torch.randn(*shape, len(self.data.item)).to(truth) * self._per_label(self.noise).sqrt()
        return self._per_label(self.intercept) + self._per_label(self.slope) * truth[..., self.data.item] + noise

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density of all labels, ``(...)``."""
        residual = value - self._per_label(self.intercept)
        slope, weight = self._per_label(self.slope), 1 / self._per_label(self.noise)
        if self.centre is not None:
            residual = residual - slope * self.centre[..., self.data.item]
        terms = torch.stack([slope**2 * weight, slope * residual * weight], 0)  # (2, ..., A)
        sums = sum_by(self.data.item, terms.movedim(-1, 0), self.data.items).movedim(0, -1)  # (2, ..., N)
        precision = sums[0] + self.truth_sd.unsqueeze(-1) ** -2
        of_labels = (residual**2 * weight - weight.log() + LOG_TWO_PI).sum(-1)
        of_items = (precision.log() - sums[1] ** 2 / precision).sum(-1) + 2 * self.data.items * self.truth_sd.log()
        return -0.5 * (of_labels + of_items)


LOG_TWO_PI = float(torch.log(torch.tensor(2 * torch.pi, dtype=torch.float64)))
