"""Spammers and adversaries: workers whose labels do not depend on the true label, and workers who avoid it.

Given the true labels of a draw, a worker's labels form a table of counts, ``counts[k, l]``. Three hypotheses are compared:

- *informed*: each class has its own distribution of labels, centred at the crowd's;
- *random*: one arbitrary distribution of labels for all classes;
- *adversarial*: the correct label is given less than half as often as by chance. The wrong label is either swapped (each
  class has its own distribution of wrong labels) or picked (one distribution for all classes), each with probability one half.

All marginal likelihoods are closed-form. With the expected shares of such workers in a crowd they give the probability of each
hypothesis; for workers with few annotations it stays near the expected shares.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# Prior share of random workers, and prior number of adversaries per random worker.
EXPECTED = 0.1
ADVERSARIES = 0.5
# Pseudo-counts per class of an informed worker, distributed like the labels of the crowd.
INFORMED_COUNTS = 4.0
# Pseudo-counts of each wrong label per class of an adversary who swaps labels.
SWAPPED_COUNTS = 0.5
# Maximum and minimum number of draws of the truth to average over; in between, the number is limited by the number of operations.
MAX_DRAWS, MIN_DRAWS = 200, 20
MAX_OPERATIONS = 2e8
# Cells of the tables of counts that are worked on at a time.
BLOCK = 2**17


@checked
def spammer_probability(
    posterior: PosteriorVariables, *, expected: Annotated[float, arguments.between(0, 0.6, EXPECTED)] = EXPECTED
) -> Array:
    """Return the probability that each worker's labels do not depend on the truth: ``(J,)``.

    Args:
        posterior: a result.
        expected: prior share of random workers.

    Raises:
        OptionError: for a share outside (0, .6).
    """
    return hypothesis_probabilities(posterior, expected=expected)[:, 1]


@checked
def hypothesis_probabilities(
    posterior: PosteriorVariables, *, expected: Annotated[float, arguments.between(0, 0.6, EXPECTED)] = EXPECTED
) -> Array:
    """Return the probability that each worker is informed, random or adversarial: ``(J, 3)``, rows sum to one.

    Args:
        posterior: a result.
        expected: prior share of random workers; that of adversaries is half of it.

    Raises:
        OptionError: for a share outside (0, .6).
    """
    total = np.zeros((len(posterior.worker_names()), 3))
    draws = 0
    operations = (
        len(posterior.annotation_index()[0]) + 10 * len(total) * len(posterior.labels) ** 2
    )  # a gamma function costs about ten additions
    tables = posterior.confusion_counts(int(np.clip(MAX_OPERATIONS / operations, MIN_DRAWS, MAX_DRAWS)))
    at_a_time = max(1, BLOCK // (len(total) * len(posterior.labels) ** 2))
    while block := list(islice(tables, at_a_time)):
        # Workers last, where they lie together in memory.
        counts = np.ascontiguousarray(np.moveaxis(np.stack(block), 1, -1), dtype=np.intp)
        total += _probability(counts, expected).sum(0).T
        draws += len(block)
    return total / draws


def _probability(counts: Array, expected: float) -> Array:
    """Return the probability of each hypothesis given whole counts ``(draw, K, K, J)``: ``(draw, 3, J)``."""
    K = counts.shape[1]
    prior = np.array([1 - (1 + ADVERSARIES) * expected, expected, ADVERSARIES * expected])
    crowd = counts.sum(-1) + np.eye(K) + 1 / K  # (draw, K, K); no row is empty
    crowd = crowd / crowd.sum(-1, keepdims=True)
    logs = np.stack(
        [
            _log_marginal(counts, INFORMED_COUNTS * crowd).sum(1),
            _log_marginal(counts.sum(1), np.ones(K)),
            _adversarial(counts),
        ],
        axis=1,
    )
    logs += np.log(prior)[:, None]
    weight = np.exp(logs - logs.max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True)


def _adversarial(counts: Array) -> Array:
    """Log-probability of labels ``(draw, K, K, J)`` under an adversary: ``(draw, J)``; minus infinity for a single class."""
    from scipy.special import betainc, betaln  # here: slow to import

    K = counts.shape[1]
    if K == 1:
        return np.where(counts.sum((1, 2)) > 0, -np.inf, 0.0)
    diagonal = counts[:, np.arange(K), np.arange(K)]  # (draw, K, J)
    by_class = counts.sum(2) - diagonal  # wrong labels
    correct, wrong = diagonal.sum(1), by_class.sum(1)
    # The probability of a correct label is uniform between 0 and half of chance.
    limit = 0.5 / K
    with np.errstate(divide="ignore"):  # underflows to zero for a mostly correct worker
        avoids = betaln(correct + 1, wrong + 1) + np.log(betainc(correct + 1, wrong + 1, limit)) - np.log(limit)
    # Of all labels, less those of the correct ones.
    each = np.asarray(SWAPPED_COUNTS)
    swaps = _log_rising(each, counts).sum((1, 2)) - _log_rising(each, diagonal).sum(1)
    swaps -= _log_rising((K - 1) * each, by_class).sum(1)
    # Picked from one distribution without the correct label: the normalising constants use its posterior mean.
    given = counts.sum(1) - diagonal  # (draw, K, J)
    share = (given + 1) / (given.sum(1, keepdims=True) + K)
    picks = _log_marginal(given, np.ones(K)) - (by_class * np.log1p(-share)).sum(1)
    return avoids + np.logaddexp(swaps, picks) - np.log(2)


def _log_marginal(counts: Array, prior: Array) -> Array:
    """Log-probability of a sequence of labels with these counts ``(..., K, J)`` under Dirichlet rows: ``(..., J)``."""
    return _log_rising(prior, counts).sum(-2) - _log_rising(np.asarray(prior.sum(-1)), counts.sum(-2))


def _log_rising(start: Array, counts: Array) -> Array:
    """Return ``log Gamma(start + counts) / Gamma(start)`` of whole counts ``(..., J)``, for starts that all workers share.

    Where workers are more than the largest count, it is computed once for each number and looked up.
    """
    from scipy.special import gammaln  # here: slow to import

    most, start = int(counts.max(initial=0)) + 1, start[..., None]
    first = gammaln(start)
    if start.size * most >= counts.size:
        return np.asarray(gammaln(start + counts) - first)
    table = gammaln(start + np.arange(most)) - first
    if start.size == 1:
        return np.asarray(table.reshape(-1).take(counts))
    return np.asarray(table.reshape(-1).take(counts + np.arange(start.size).reshape(start.shape) * most))
