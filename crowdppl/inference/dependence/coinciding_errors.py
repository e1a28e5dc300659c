"""Whether errors are independent, of crowds with too few annotations for a matrix of each worker.

Ten classes and forty workers have 3,600 free numbers in their matrices, more than most crowds have annotations. There Dawid
and Skene's model explains what is not there, and :mod:`crowdppl.inference.dependence.independence` cannot compare with it. The
model of one coin for each worker (:mod:`crowdppl.models.one_coin`) has a number for each, and spreads errors evenly. Three
statistics of the annotations are compared with those of data sets simulated from it, in standard deviations:

- ``z``, of how agreement varies from item to item, as there: items that are hard for all;
- ``errors``, of pairs of equal wrong labels of an item, ``sum over i and k of pairs[i, k] (1 - r[i, k])``, with ``r`` the
  probabilities of the classes: workers who give one wrong label, since they misunderstand one item or confuse the same classes;
- ``own``, of pairs of equal errors of a worker, ``sum over j and k != l of n[j, k, l] (n[j, k, l] - 1) / 2``, with ``n`` the
  labels by most probable class: workers who each confuse classes in their own way.

Even errors of independent workers seldom coincide where classes are several. In every public crowd of three classes or more,
``z`` or ``errors`` is far from 0 (docs/benchmarks/many-classes.md); classes that are harder than others, or confused with each
other, raise them, too, although errors may be independent then: such crowds are left to the default. So are those in which
workers repeat errors of their own, and those of which the model says more than is there: far below 0, or workers who know little.

    p(independent | z, errors)  proportional to  what z says, where less than 0 counts as 0, and
                                                 N(errors; 0, NULL^2)
    p(correlated | z, errors)   proportional to  the same, and the density of N(0, 1) plus Exponential(mean MEAN sqrt(N))

Of few classes, or few items, ``z`` near 0 says nothing for independence: hard items hardly raise it there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
# Smallest share of a class.
LEAST = 1e-12
# Most annotations, and most probabilities of classes, for which data sets are simulated, and how many are.
MOST, CELLS, SIMULATED = 50_000, 500_000, 40
# Coincidence of a worker's own errors from which one number does not describe it; least of ``z`` and ``errors`` below which the
# model says more than is there; and least mean accuracy.
OWN, LOWEST_Z, LOWEST, KNOWS = 2.5, -4.0, -2.0, 0.5
# Up to so many classes, and with fewer items, hard ones hardly raise ``z``.
FEW_CLASSES, FEW_ITEMS = 5, 400
# In most crowds many errors coincide. With so few data sets, simulated from votes or from what the default says of items and
# workers, more than so many standard deviations are enough to tell; and up to so many errors seem to be spread evenly.
FIRST, MANY, EVEN = 8, 8.0, 3.0


def comparable(data: Annotations) -> bool:
    """Tell whether there are enough annotations for one number of each worker, and not too many to simulate."""
    return data.A >= EACH_ITEM * data.N and data.A >= EACH_WORKER * data.J and _simulated(data)


def are_even(data: Annotations) -> bool:
    """Tell whether errors seem to be spread evenly by votes; where there is nothing to tell it from, they are not."""
    if not _simulated(data):
        return False
    scores = _of_labels(data, data.majority())
    return LOWEST <= scores.errors <= EVEN and scores.own <= OWN


def many_coincide(data: Annotations, probability: Tensor) -> bool:
    """Tell whether so many errors coincide that no model need be fitted.

    Args:
        data: the annotations.
        probability: of the classes by the default model, ``(N, K)``.
    """
    return _of_labels(data, probability).errors > MANY


def _simulated(data: Annotations) -> bool:
    given = int((torch.bincount(data.label, minlength=data.K) > 0).sum())
    return given >= CLASSES and data.A <= MOST and data.N * data.K <= CELLS


def _of_labels(data: Annotations, probability: Tensor) -> Scores:
    """Return the scores where the most probable classes are taken to be true."""
    label = probability.argmax(-1)
    number = data.annotations_per_worker.double()
    correct = torch.bincount(data.worker, (data.label == label[data.item]).double(), minlength=data.J)
    prior = OneCoin()
    accuracy = (correct + prior.prior_correct) / (number + prior.prior_correct + prior.prior_incorrect)
    share = (label.bincount(minlength=data.K) + 1).double()
    return Coincidence(data, {"accuracy": accuracy, "prevalence": share / share.sum()}).scores(FIRST)


class Scores(NamedTuple):
    """The three statistics, in standard deviations of simulated data sets from their mean."""

    z: float
    errors: float
    own: float


def describes(data: Annotations, point: Parameters, scores: Scores) -> bool:
    """Tell whether one number may describe each worker, at the point of the model and by the scores there."""
    number = data.annotations_per_worker.double()
    mean = float((number * point["accuracy"].double()).sum() / number.sum())
    return mean >= KNOWS and scores.z >= LOWEST_Z and scores.errors >= LOWEST and scores.own <= OWN


def shows_hard_items(data: Annotations) -> bool:
    """Tell whether hard items would raise ``z``, so that a low one speaks for independence."""
    return data.K > FEW_CLASSES and data.N >= FEW_ITEMS


def log_odds(errors: float, items: int) -> float:
    """Return what the coincidence of errors adds to the log odds of independence, of so many items with several annotations."""
    null = -0.5 * (errors / NULL) ** 2 - math.log(NULL * math.sqrt(2 * math.pi))
    mean = MEAN * math.sqrt(items)
    correlated = 1 / (2 * mean**2) - errors / mean + float(log_ndtr(errors - 1 / mean)) - math.log(mean)
    return null - correlated


class Coincidence:
    """The statistics of the data: of data sets simulated with a fixed seed from a point of the model of one coin.

    Classes that nobody gives are left out: errors would be spread over them.

    Args:
        data: the annotations.
        point: of the model's parameters, ``accuracy (J,)`` and ``prevalence (K,)``.
    """

    def __init__(self, data: Annotations, point: Parameters):
        self.item, self.worker = data.item.cpu().numpy(), data.worker.cpu().numpy()
        given, self.label = np.unique(data.label.cpu().numpy(), return_inverse=True)
        self.N, self.J, self.K = data.N, data.J, len(given)
        size = data.annotations_per_item.cpu().numpy().astype(float)
        pairs = size * (size - 1.0) / 2
        self.some = pairs > 0
        self.pairs = pairs[self.some]
        self.accuracy = point["accuracy"].double().cpu().numpy().clip(1e-6, 1 - 1e-6)
        shares = np.maximum(point["prevalence"].double().cpu().numpy()[given], LEAST)
        self.shares = shares / shares.sum()
        # What a label adds to the log odds of its class, (A,).
        self.odds = np.log(self.accuracy * (self.K - 1) / (1 - self.accuracy))[self.worker]
        self.rng = np.random.default_rng(0)

    def scores(self, number: int = SIMULATED) -> Scores:
        """Return the scores, from so many data sets."""
        simulated = np.array([self._statistics(self._labels()) for _ in range(number)])
        spread = np.maximum(simulated.std(0), 1e-9)
        z, errors, own = ((self._statistics(self.label) - simulated.mean(0)) / spread).tolist()
        return Scores(z, errors, own)

    def _labels(self) -> npt.NDArray[np.int64]:
        """Draw labels ``(A,)``."""
        truth = self.rng.choice(self.K, self.N, p=self.shares)[self.item]
        wrong = (truth + self.rng.integers(1, self.K, len(truth))) % self.K
        return np.where(self.rng.random(len(truth)) < self.accuracy[self.worker], truth, wrong)

    def _statistics(self, label: npt.NDArray[np.int64]) -> Array:
        """Return the mean of ``a_i^2 / p_i`` over items, and pairs of equal errors, of labels ``(A,)``."""
        place, shape = self.item * self.K + label, (self.N, self.K)
        count = np.bincount(place, minlength=self.N * self.K).reshape(shape)
        equal = count * (count - 1.0) / 2
        joint = np.bincount(place, self.odds, minlength=self.N * self.K).reshape(shape) + np.log(self.shares)
        truth = joint.argmax(1)[self.item]
        joint -= joint.max(1, keepdims=True)
        r = np.exp(joint, out=joint)
        wrong = equal.sum() - float((equal * r).sum(1) @ (1 / r.sum(1)))
        varied = (equal.sum(1)[self.some] ** 2 / self.pairs).mean()
        errs = label != truth
        # By worker, class and label: as many places as errors at most.
        own = np.unique((self.worker[errs] * self.K + truth[errs]) * self.K + label[errs], return_counts=True)[1]
        return np.array([varied, wrong, (own * (own - 1.0)).sum() / 2])
