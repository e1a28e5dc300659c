"""How honest is a result? Its intervals and probabilities against true classes that were not given to the fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.inference.design_effect import POPULATION
from crowdppl.posterior import workers
from crowdppl.posterior.known_truth import codes
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

# Probabilities below this count as this in a log loss: one item of a million may be called impossible.
FLOOR = 1e-6
# Where rho is looked for, on the logit scale: from .0003 to .9997.
GRID = np.linspace(-8, 8, 161)


@dataclass(frozen=True)
class Coverage:
    """How often intervals of workers hold what the true classes say.

    Attributes:
        level: probability of the intervals.
        workers: a row for each worker with enough annotations of items of known truth: ``worker``; ``annotations`` of these;
            ``right``, the share of them that are right; ``share_correct`` and ``accuracy`` with the ends of their intervals, and
            whether these hold ``right``: ``share_correct_covers``, ``accuracy_covers``.
    """

    level: float
    workers: pd.DataFrame

    @property
    def share_correct(self) -> float:
        """Share of workers whose interval of the share of right annotations holds it; NaN without workers."""
        return float(self.workers["share_correct_covers"].mean()) if len(self.workers) else math.nan

    @property
    def accuracy(self) -> float:
        """Share of workers whose interval of the accuracy holds the share that is right; NaN without workers."""
        return float(self.workers["accuracy_covers"].mean()) if len(self.workers) else math.nan

    def __str__(self) -> str:
        if not len(self.workers):
            return "no worker has enough annotations of items of known truth"
        return (
            f"of {len(self.workers):,} workers, {self.level:.0%} intervals hold the share of right annotations for "
            f"{self.share_correct:.0%}, by the accuracy for {self.accuracy:.0%}"
        )


@dataclass(frozen=True)
class Calibration:
    """How far the truth's probabilities are what they say.

    Attributes:
        items: of known truth.
        accuracy: share of them whose most probable class is the true one.
        confidence: mean probability of the most probable class.
        log_loss: mean of minus log of the true class's probability, in nats, floored at a millionth.
        brier: mean squared distance of the probabilities from the true class's indicator.
        ece: expected calibration error over ten bins of confidence.
        bins: the reliability curve: ``low``, ``high``, ``items``, ``confidence``, ``accuracy``.
        rho: correlation of annotations of one item that fits these truths best, given its spread over public data.
        rho_low: lower end of its interval.
        rho_high: upper end.
        logit_rho: mean and standard deviation of its logit, to be given to ``fit(rho=...)``.
    """

    items: int
    accuracy: float
    confidence: float
    log_loss: float
    brier: float
    ece: float
    bins: pd.DataFrame
    rho: float
    rho_low: float
    rho_high: float
    logit_rho: tuple[float, float]

    def __str__(self) -> str:
        return (
            f"{self.items:,} items: accuracy {self.accuracy:.3f}, confidence {self.confidence:.3f}, "
            f"log loss {self.log_loss:.3f}, calibration error {self.ece:.3f}; "
            f"rho {self.rho:.2f} ({self.rho_low:.2f} to {self.rho_high:.2f})"
        )


@arguments.checked(
    posterior=arguments.posterior, truth=arguments.anything, level=arguments.level, minimum=arguments.whole(0)
)
def coverage(posterior: Posterior, truth: Any, *, level: float | None = None, minimum: int = 20) -> Coverage:
    """Compare intervals of workers with the share of their annotations that is right.

    Args:
        posterior: a result whose fit did not know these truths.
        truth: true classes of some items: a mapping or Series by item, or a frame with the item's and the label's column.
        level: probability of the intervals; ArviZ's default where not given.
        minimum: annotations of items of known truth that a worker must have.

    Raises:
        DataError: where no item of the truth is in the result, or a class is not one of its classes.
    """
    level = workers.default_level(level)
    known = codes(posterior, truth)
    item, worker, label = posterior.annotation_index()
    kept = known[item] >= 0
    J = len(posterior.worker_names())
    total = np.bincount(worker[kept], minlength=J)
    right = np.bincount(worker[kept], weights=known[item[kept]] == label[kept], minlength=J)
    enough = total >= max(1, minimum)
    share = workers.interval(posterior.share_correct_draws(known >= 0)[:, enough], level)
    table = posterior.workers(level=level)[enough].reset_index(drop=True)
    truly = right[enough] / np.maximum(total[enough], 1)
    out = pd.DataFrame({"worker": table["worker"], "annotations": total[enough], "right": truly})
    for name, (mean, low, high) in {
        "share_correct": share,
        "accuracy": tuple(table[f"accuracy{end}"].to_numpy() for end in ("", "_low", "_high")),
    }.items():
        out[name], out[f"{name}_low"], out[f"{name}_high"] = mean, low, high
        # A share is a fraction of whole annotations: equal up to rounding counts.
        out[f"{name}_covers"] = (low - 1e-9 <= truly) & (truly <= high + 1e-9)
    return Coverage(level, out)


@arguments.checked(posterior=arguments.posterior, truth=arguments.anything, level=arguments.level)
def calibration(posterior: Posterior, truth: Any, *, level: float | None = None) -> Calibration:
    """Compare the truth's probabilities with true classes; arguments and errors as of :func:`coverage`.

    ``rho`` is found from the probabilities of the model as published, averaged over draws and raised to powers, under the spread
    of ``rho`` over public data: with few truths it stays near that.
    """
    known = codes(posterior, truth)
    have = known >= 0
    probability = posterior.probability()[have]
    published = posterior.probability_as_published()[have]
    right, n = known[have], len(known[have])
    top, chosen = probability.max(1), probability.argmax(1)
    hit = chosen == right
    of_true = probability[np.arange(n), right]
    place = np.minimum((top * 10).astype(int), 9)
    rows = [(b / 10, (b + 1) / 10, int((place == b).sum()), top[place == b], hit[place == b]) for b in np.unique(place)]
    bins = pd.DataFrame(
        [(low, high, size, c.mean(), h.mean()) for low, high, size, c, h in rows],
        columns=["low", "high", "items", "confidence", "accuracy"],
    )
    judged = posterior.annotations_per_item()[have]
    weight = _rho(published, right, judged)
    mean = float((weight * GRID).sum())
    level = workers.default_level(level)
    ends = np.interp([(1 - level) / 2, (1 + level) / 2], weight.cumsum(), GRID)
    return Calibration(
        items=n,
        accuracy=float(hit.mean()),
        confidence=float(top.mean()),
        log_loss=float(-np.log(np.maximum(of_true, FLOOR)).mean()),
        brier=float(((probability - np.eye(probability.shape[1])[right]) ** 2).sum(1).mean()),
        ece=float((bins["items"] * (bins["confidence"] - bins["accuracy"]).abs()).sum() / n),
        bins=bins,
        rho=_sigmoid(mean),
        rho_low=_sigmoid(ends[0]),
        rho_high=_sigmoid(ends[1]),
        logit_rho=(mean, float(np.sqrt((weight * (GRID - mean) ** 2).sum()))),
    )


def _rho(published: Array, right: Array, judged: Array) -> Array:
    """Return the posterior of logit rho on the grid, summing to one."""
    logs = np.log(np.maximum(published, np.finfo(float).tiny))  # (n, K)
    likelihood = np.empty(len(GRID))
    for g, logit in enumerate(GRID):
        powered = logs / (1 + np.maximum(judged - 1, 0) * _sigmoid(logit))[:, None]
        powered -= powered.max(1, keepdims=True)
        likelihood[g] = (powered[np.arange(len(right)), right] - np.log(np.exp(powered).sum(1))).sum()
    prior = -0.5 * ((GRID - POPULATION[0]) / POPULATION[1]) ** 2
    weight = np.exp(likelihood + prior - (likelihood + prior).max())
    return weight / weight.sum()


def _sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))
