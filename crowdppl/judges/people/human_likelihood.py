"""What human labels say about true labels: their likelihood, with an error of people who disagree, and weights of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.judges.human import HumanLabels

Array = npt.NDArray[Any]
# A pseudo-item of which this share of pairs of people agree.
AGREEMENT = 0.95


def counts_by_item(human: HumanLabels, classes: int) -> tuple[Array, Array]:
    """Return the labelled items, ascending, ``(n,)``, and the number of their labels of each class ``(n, K)``."""
    items, row = np.unique(human.item, return_inverse=True)
    counts = np.zeros((len(items), classes))
    np.add.at(counts, (row, human.label), 1.0)
    return items, counts


def error_of_people(counts: Array) -> float:
    """Return the probability that a person gives another label than the true one, from how often two labels of an item agree.

    With an error ``e``, each incorrect label equally likely, two labels agree with probability ``(1 - e)^2 + e^2 / (K - 1)``. One
    pseudo-item enters the observed share. Without items on which people disagree the error is 0: human labels count as correct.

    Args:
        counts: labels of each item by class, ``(n, K)``.
    """
    K = counts.shape[1]
    total = counts.sum(1)
    pairs = total * (total - 1) / 2
    agreeing = (counts * (counts - 1) / 2).sum(1)
    if (agreeing == pairs).all():
        return 0.0
    several = pairs > 0
    share = ((agreeing[several] / pairs[several]).sum() + AGREEMENT) / (several.sum() + 1)
    largest = (K - 1) / K  # the error of people who guess
    return float(largest * (1 - np.sqrt(max(1 - (1 - share) / largest, 0.0))))


def log_likelihood(counts: Array, error: float) -> Array:
    """Return the log probability of the labels of each item given its class, ``(n, K)``."""
    total = counts.sum(1, keepdims=True)
    if error == 0:
        with np.errstate(divide="ignore"):
            return np.log(counts / total)
    return counts * np.log1p(-error) + (total - counts) * np.log(error / (counts.shape[1] - 1))


def sample_weights(human: HumanLabels, items: Array) -> Array:
    """Return the weight of each labelled item in the likelihood, ``(n,)``: 1 for a random sample.

    Items that were chosen with known, unequal probabilities are weighted by their inverse. The sum of the weights is the
    effective sample size ``(sum w)^2 / sum w^2`` (Kish 1965, Survey Sampling, section 11.7).
    """
    probability = np.full(len(items), np.nan)
    probability[np.searchsorted(items, human.item)] = human.probability
    if np.isnan(probability).any():
        return np.ones(len(items))
    inverse = 1 / probability
    return inverse * inverse.sum() / (inverse**2).sum()
