"""Calibration of a result: its intervals and probabilities compared with true labels that the fit did not know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl import arguments
from crowdppl.arguments import Level, NonNegativeInt, checked
from crowdppl.errors import OptionError
from crowdppl.inference.catalogue import catalogue
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.dependence.known_truths import rho_likelihood
from crowdppl.model.class_scores import NAME
from crowdppl.posterior import workers
from crowdppl.posterior.intervals import jeffreys
from crowdppl.posterior.known_truth import truth_indices
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

_CALIBRATION = arguments.instance("crowdppl.criticism.calibration", "Calibration", "a result of criticism.calibration")
# Lower bound of probabilities in the log loss: a single wrong certainty does not make it infinite.
FLOOR = 1e-6
# A difference of log losses is clear from this number of standard errors.
CLEAR = 2


@dataclass(frozen=True)
class Coverage:
    """Coverage of workers' intervals, given true labels.

    Attributes:
        level: probability of the intervals.
        workers: one row per worker with enough annotations of items with true labels: ``worker``; ``annotations`` of these items;
            ``correct``, the share that is correct; ``share_correct`` and ``accuracy`` with the ends of their intervals, and
            whether these contain ``correct``: ``share_correct_covers``, ``accuracy_covers``.
    """

    level: float
    workers: pd.DataFrame

    @property
    def share_correct(self) -> float:
        """Share of workers whose interval of the share of correct annotations contains it; NaN without workers."""
        return float(self.workers["share_correct_covers"].mean()) if len(self.workers) else math.nan

    @property
    def accuracy(self) -> float:
        """Share of workers whose interval of the accuracy contains the share of correct annotations; NaN without workers."""
        return float(self.workers["accuracy_covers"].mean()) if len(self.workers) else math.nan

    @property
    def share_correct_range(self) -> tuple[float, float]:
        """The 95% interval of :attr:`share_correct`, given the number of workers; NaN without workers."""
        n, held = len(self.workers), int(self.workers["share_correct_covers"].sum())
        low, high = map(float, jeffreys(held, n - held, 0.95))
        return (low, high) if n else (math.nan, math.nan)

    @property
    def too_narrow(self) -> bool:
        """Whether the intervals of the share of correct annotations hold for fewer workers than they should, not by chance."""
        return self.share_correct_range[1] < self.level

    @property
    def summary(self) -> str:
        """How the share of intervals that hold compares with their probability, given the number of workers, in a sentence."""
        n = len(self.workers)
        if not n:
            return "No worker has enough annotations of items with true labels to check intervals."
        low, high = self.share_correct_range
        judged = (
            "they are too narrow" if self.too_narrow else "they are too wide" if low > self.level else "as they should"
        )
        return (
            f"{self.level:.0%} intervals of the share of correct annotations held for {self.share_correct:.0%} of {n:,} "
            f"worker{'' if n == 1 else 's'} ({low:.0%} to {high:.0%} given their number): {judged}."
        )

    def __str__(self) -> str:
        if not len(self.workers):
            return "no worker has enough annotations of items with true labels"
        return (
            f"of {len(self.workers):,} workers, {self.level:.0%} intervals contain the share of correct annotations for "
            f"{self.share_correct:.0%}, intervals of the accuracy for {self.accuracy:.0%}"
        )


@dataclass(frozen=True)
class Calibration:
    """Calibration of the class probabilities of items.

    Attributes:
        items: number of items with true labels.
        accuracy: share of items whose most probable class is the true one.
        confidence: mean probability of the most probable class.
        log_loss: mean of minus log of the true class's probability, in nats, floored at a millionth.
        brier: mean squared distance of the probabilities from the true class's indicator.
        ece: expected calibration error over ten bins of confidence.
        bins: the reliability curve: ``low``, ``high``, ``items``, ``confidence``, ``accuracy``.
        rho_low: lower end of the interval of the correlation of annotations of one item, given these truths: of its mean over
            the crowd on the logit scale.
        rho_high: upper end.
        crowd_logit_rho: mean and standard deviation of the logit of the same.
        logit_rho: mean and standard deviation of the logit as posteriors need it, which differs within the crowd: for
            ``fit(rho=...)`` of other annotations of this crowd. With these truths, give them to the fit instead.
        losses: minus log of the true class's probability of each item, ``(items,)``, whose mean is ``log_loss``.
    """

    items: int
    accuracy: float
    confidence: float
    log_loss: float
    brier: float
    ece: float
    bins: pd.DataFrame
    rho_low: float
    rho_high: float
    crowd_logit_rho: tuple[float, float]
    logit_rho: tuple[float, float]
    losses: Array

    def __str__(self) -> str:
        return (
            f"{self.items:,} items: accuracy {self.accuracy:.3f}, confidence {self.confidence:.3f}, "
            f"log loss {self.log_loss:.3f}, calibration error {self.ece:.3f}; "
            f"rho between {self.rho_low:.2g} and {self.rho_high:.2g}"
        )


@checked
def coverage(posterior: Posterior, truth: Any, *, level: Level | None = None, minimum: NonNegativeInt = 20) -> Coverage:
    """Compare intervals of workers with the share of their annotations that is correct.

    Args:
        posterior: a result whose fit did not know these truths.
        truth: true labels of some items: a mapping or Series by item, or a frame with an item and a label column.
        level: probability of the intervals. Defaults to ArviZ's default, .89.
        minimum: minimum number of a worker's annotations of these items.

    Raises:
        DataError: if none of the items is in the result, or a class is not one of its classes.
    """
    level = workers.default_level(level)
    known = truth_indices(posterior, truth)
    item, worker, label = posterior.annotation_index()
    kept = known[item] >= 0
    J = len(posterior.worker_names())
    total = np.bincount(worker[kept], minlength=J)
    correct = np.bincount(worker[kept], weights=known[item[kept]] == label[kept], minlength=J)
    enough = total >= max(1, minimum)
    share = workers.interval(posterior.share_correct_draws(known >= 0)[:, enough], level)
    table = posterior.workers(level=level)[enough].reset_index(drop=True)
    observed = correct[enough] / np.maximum(total[enough], 1)
    out = pd.DataFrame({"worker": table["worker"], "annotations": total[enough], "correct": observed})
    for name, (mean, low, high) in {
        "share_correct": share,
        "accuracy": tuple(table[f"accuracy{end}"].to_numpy() for end in ("", "_low", "_high")),
    }.items():
        out[name], out[f"{name}_low"], out[f"{name}_high"] = mean, low, high
        # Tolerance for rounding: shares are fractions of integers and often coincide with an end.
        out[f"{name}_covers"] = (low - 1e-9 <= observed) & (observed <= high + 1e-9)
    return Coverage(level, out)


@checked
def calibration(posterior: Posterior, truth: Any, *, level: Level | None = None) -> Calibration:
    """Compare class probabilities with true labels; arguments and errors as in :func:`coverage`.

    ``rho`` is estimated from the probabilities of the model as published, averaged over draws and raised to powers, by the truths
    that the fit did not know. Its prior is that of the result, or its distribution over public data where the result has a
    fixed one or none: with few truths it stays near that.
    """
    known = truth_indices(posterior, truth)
    have = known >= 0
    probability = posterior.probability()[have]
    truth_index, n = known[have], len(known[have])
    top, chosen = probability.max(1), probability.argmax(1)
    hit = chosen == truth_index
    p_true = probability[np.arange(n), truth_index]
    bin_index = np.minimum((top * 10).astype(int), 9)
    rows = [
        (b / 10, (b + 1) / 10, int((bin_index == b).sum()), top[bin_index == b], hit[bin_index == b])
        for b in np.unique(bin_index)
    ]
    bins = pd.DataFrame(
        [(low, high, size, c.mean(), h.mean()) for low, high, size, c, h in rows],
        columns=["low", "high", "items", "confidence", "accuracy"],
    )
    effect = _rho_posterior(posterior, known)
    low, high = effect.crowd_interval(workers.default_level(level))
    losses = -np.log(np.maximum(p_true, FLOOR))
    return Calibration(
        items=n,
        accuracy=float(hit.mean()),
        confidence=float(top.mean()),
        log_loss=float(losses.mean()),
        brier=float(((probability - np.eye(probability.shape[1])[truth_index]) ** 2).sum(1).mean()),
        ece=float((bins["items"] * (bins["confidence"] - bins["accuracy"]).abs()).sum() / n),
        bins=bins,
        rho_low=low,
        rho_high=high,
        crowd_logit_rho=effect.crowd_mean_sd,
        logit_rho=effect.mean_sd,
        losses=losses,
    )


@checked
def loss_difference(
    first: Annotated[Calibration, _CALIBRATION], second: Annotated[Calibration, _CALIBRATION]
) -> tuple[float, float]:
    """Return the log loss of one result minus that of another, on the same items, and the standard error of this difference.

    Args:
        first: calibration of a result.
        second: calibration of another, with the same true labels.

    Raises:
        OptionError: if they are of different numbers of items.
    """
    if first.items != second.items:
        raise OptionError(
            f"first is of {first.items:,} items and second of {second.items:,}; pass the same true labels to both"
        )
    difference = first.losses - second.losses
    error = float(difference.std(ddof=1) / math.sqrt(first.items)) if first.items > 1 else math.inf
    return float(difference.mean()), error


def _form(name: str, value: Any) -> tuple[Calibration, Coverage]:
    """Accept calibration and coverage of one result."""
    if not isinstance(value, tuple) or [type(part) for part in value] != [Calibration, Coverage]:
        raise arguments.refuse(name, value, "results of criticism.calibration and criticism.coverage")
    return value


@checked
def better_form(
    published: Annotated[tuple[Calibration, Coverage], _form],
    correlated: Annotated[tuple[Calibration, Coverage], _form],
) -> tuple[str, str]:
    """Return which form of a model is better for this crowd, ``"published"`` or ``"correlated"``: for labels, and for workers.

    The published form is better for labels if its log loss is lower by :data:`CLEAR` standard errors, and then also for workers
    unless its intervals are too narrow and those of the correlated form are not. Otherwise the correlated form is, the default.

    Args:
        published: calibration and coverage of the model as published.
        correlated: those of the form that allows for correlated errors.
    """
    difference, error = loss_difference(published[0], correlated[0])
    if difference >= -CLEAR * error:
        return "correlated", "correlated"
    return "published", "correlated" if published[1].too_narrow and not correlated[1].too_narrow else "published"


def _residual_rho(info: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the attribute of the model of a result. Earlier results have only the model's name, of a user's own unknown here."""
    if "residual_rho" in info:
        return None if info["residual_rho"] is None else tuple(info["residual_rho"])
    return getattr(catalogue().get(info["model"]), "residual_rho", None)


def _sources_per_item(posterior: Posterior) -> Array:
    """Return the number of annotations of each item, ``(N,)``, one more where the fit had class scores that are not 0.

    Those of tokens are no part of what a design effect divides.
    """
    weights = posterior.networks.get(f"{NAME}.weights")
    of_tokens = "sequence_index" in posterior.tree["constant_data"]
    return posterior.annotations_per_item() + int(weights is not None and not of_tokens and bool((weights != 0).any()))


def _rho_posterior(posterior: Posterior, known: Array) -> DesignEffect:
    """Return the posterior of ``rho`` given true classes ``(N,)``, -1 where unknown."""
    prior = DesignEffect.of_json(posterior.info["rho"])
    if prior is None or prior.fixed:
        prior = DesignEffect.of_crowds(_residual_rho(posterior.info), float(posterior.annotations_per_item().mean()))
    new = np.flatnonzero((known >= 0) & (posterior.known_truth() < 0))
    published = posterior.probability_as_published()[new].astype(float)
    logs = torch.from_numpy(np.log(np.maximum(published, np.finfo(float).tiny))).unsqueeze(0)  # (1, n, K)
    truth, annotations = (
        torch.from_numpy(part[new].astype(np.int64)) for part in (known, _sources_per_item(posterior))
    )
    return prior.given(rho_likelihood(prior, logs, truth, annotations))
