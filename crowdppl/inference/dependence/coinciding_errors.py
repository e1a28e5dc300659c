"""Whether errors are independent, of crowds with too few annotations for a matrix of each worker.

Ten classes and forty workers have 3,600 free numbers in their matrices, more than most crowds have annotations. There Dawid
and Skene's model explains what is not there, and :mod:`crowdppl.inference.dependence.independence` cannot compare with it. The
model of one coin for each worker (:mod:`crowdppl.models.one_coin`) has a number for each, and spreads errors evenly. Two
statistics of the annotations are compared with those of data sets simulated from it, in standard deviations:

- ``z``, of how agreement varies from item to item, as there: items that are hard for all;
- ``errors``, of pairs of equal labels that are wrong, ``sum over items and classes of pairs[i, k] (1 - r[i, k])``, with ``r`` the
  probabilities of the classes: workers who give one wrong label, since they misunderstand one item or confuse the same classes.

Even errors of independent workers seldom coincide where classes are several. In every public crowd of three classes or more,
one of the two is far from 0 (docs/benchmarks/textbook-crowds.md); classes that are harder than others, or confused with each
other, raise them, too, although errors may be independent then: such crowds are left to the default.

    p(independent | z, errors)  proportional to  what z says, where less than 0 counts as 0, and
                                                 N(errors; 0, NULL^2)
    p(correlated | z, errors)   proportional to  the same, and the density of N(0, 1) plus Exponential(mean MEAN sqrt(N))
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_ndtr
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.model.base import Parameters
from crowdppl.models.one_coin import OneCoin

Array = npt.NDArray[np.float64]
# Standard deviation of the coincidence of errors where they are independent, and its mean over public crowds for each root of the
# number of items with several annotations.
NULL, MEAN = 1.1, 0.8
# Fewest classes: with two, all errors coincide. Fewest annotations of an item, in the mean, and of a worker: of three labels of
# an item, two equal ones are seldom wrong by the model itself.
CLASSES, EACH_ITEM, EACH_WORKER = 3, 4.5, 20.0
# Most annotations, and most probabilities of classes, for which data sets are simulated, and how many are.
MOST, CELLS, SIMULATED = 50_000, 500_000, 40
# In most crowds many errors coincide. With so few data sets, simulated from votes or from what the default says of items and
# workers, more than so many standard deviations are enough to tell; and up to so many errors seem to be spread evenly.
FIRST, MANY, EVEN = 8, 8.0, 3.0


def comparable(data: Annotations) -> bool:
    """Tell whether there are enough annotations for one number of each worker, and not too many to simulate."""
    return data.A >= EACH_ITEM * data.N and data.A >= EACH_WORKER * data.J and _simulated(data)


def are_even(data: Annotations) -> bool:
    """Tell whether errors seem to be spread evenly by votes; where there is nothing to tell it from, they are not."""
    return _simulated(data) and _of_labels(data, data.majority()) <= EVEN


def many_coincide(data: Annotations, probability: Tensor) -> bool:
    """Tell whether so many errors coincide that no model need be fitted.

    Args:
        data: the annotations.
        probability: of the classes by the default model, ``(N, K)``.
    """
    return _of_labels(data, probability) > MANY


def _simulated(data: Annotations) -> bool:
    return data.K >= CLASSES and data.A <= MOST and data.N * data.K <= CELLS


def _of_labels(data: Annotations, probability: Tensor) -> float:
    """Return how many errors coincide where the most probable classes are taken to be true."""
    label = probability.argmax(-1)
    number = data.annotations_per_worker.double()
    correct = torch.bincount(data.worker, (data.label == label[data.item]).double(), minlength=data.J)
    prior = OneCoin()
    accuracy = (correct + prior.prior_correct) / (number + prior.prior_correct + prior.prior_incorrect)
    share = (label.bincount(minlength=data.K) + 1).double()
    return Coincidence(data, {"accuracy": accuracy, "prevalence": share / share.sum()}).scores(FIRST)[1]


def log_odds(errors: float, items: int) -> float:
    """Return what the coincidence of errors adds to the log odds of independence, of so many items with several annotations."""
    null = -0.5 * (errors / NULL) ** 2 - math.log(NULL * math.sqrt(2 * math.pi))
    mean = MEAN * math.sqrt(items)
    correlated = 1 / (2 * mean**2) - errors / mean + float(log_ndtr(errors - 1 / mean)) - math.log(mean)
    return null - correlated


class Coincidence:
    """Both statistics of the data: of data sets simulated with a fixed seed from a point of the model of one coin.

    Args:
        data: the annotations.
        point: of the model's parameters, ``accuracy (J,)`` and ``prevalence (K,)``.
    """

    def __init__(self, data: Annotations, point: Parameters):
        self.item, self.worker, self.label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
        self.N, self.K = data.N, data.K
        size = data.annotations_per_item.cpu().numpy().astype(float)
        pairs = size * (size - 1.0) / 2
        self.some = pairs > 0
        self.pairs = pairs[self.some]
        self.accuracy = point["accuracy"].double().cpu().numpy().clip(1e-6, 1 - 1e-6)
        shares = point["prevalence"].double().cpu().numpy()
        self.shares = shares / shares.sum()
        # What a label adds to the log odds of its class, (A,).
        self.odds = np.log(self.accuracy * (self.K - 1) / (1 - self.accuracy))[self.worker]
        self.rng = np.random.default_rng(0)

    def scores(self, number: int = SIMULATED) -> tuple[float, float]:
        """Return ``z`` and ``errors``, from so many data sets."""
        simulated = np.array([self._statistics(self._labels()) for _ in range(number)])
        spread = np.maximum(simulated.std(0), 1e-9)
        z, errors = (self._statistics(self.label) - simulated.mean(0)) / spread
        return float(z), float(errors)

    def _labels(self) -> npt.NDArray[np.int64]:
        """Draw labels ``(A,)``."""
        truth = self.rng.choice(self.K, self.N, p=self.shares)[self.item]
        wrong = (truth + self.rng.integers(1, self.K, len(truth))) % self.K
        return np.where(self.rng.random(len(truth)) < self.accuracy[self.worker], truth, wrong)

    def _statistics(self, label: npt.NDArray[np.int64]) -> Array:
        """Return the mean of ``a_i^2 / p_i`` over items, and the pairs of equal wrong labels, for labels ``(A,)``."""
        place, shape = self.item * self.K + label, (self.N, self.K)
        count = np.bincount(place, minlength=self.N * self.K).reshape(shape)
        equal = count * (count - 1.0) / 2
        joint = np.bincount(place, self.odds, minlength=self.N * self.K).reshape(shape) + np.log(self.shares)
        joint -= joint.max(1, keepdims=True)
        r = np.exp(joint, out=joint)
        wrong = equal.sum() - float((equal * r).sum(1) @ (1 / r.sum(1)))
        varied = (equal.sum(1)[self.some] ** 2 / self.pairs).mean()
        return np.array([varied, wrong])
