"""What the other workers say of a worker's labels: quality that the worker's own labels have no part in.

The true labels of a result follow a worker's own labels in part, so that a worker looks better by them than he is, and a change
over time looks smaller. Here the class of each annotated item is judged by the labels of the other workers and their mean
confusion matrices, as in the model of Dawid and Skene (1979), whatever the model of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# Cells of the tables of classes by annotation, and of accuracies by annotation, that are worked on at a time.
BLOCK = 2**22
# Accuracies at which densities are evaluated: equal steps of the arcsine of the root, where Jeffreys' prior is uniform.
GRID = np.sin((np.arange(128) + 0.5) * np.pi / 256) ** 2
# Power of the likelihood of an accuracy: the quality of the other workers is estimated, too, and may change. Without it 89%
# intervals of the change of 392 simulated workers who had not changed left out zero in 14%.
POWER = 0.8
# Points of a lattice in the unit square: quantiles of two independent accuracies together.
POINTS = 1024


def class_by_others(posterior: PosteriorVariables, confusion: Array | None = None) -> tuple[Array, Array]:
    """Return how well the classes fit to annotations given the other workers' labels and known true labels.

    Args:
        posterior: a result.
        confusion: mean confusion matrices, ``(J, K, K)``. Computed by default.

    Returns:
        The probability that each annotation is correct, ``(A,)``, and its probability under the mean confusion matrix of its
        worker, ``(A,)``, both given the labels of the item by others.
    """
    item, worker, label = posterior.annotation_index()
    known = posterior.known_truth()
    N, K = len(known), len(posterior.labels)
    if confusion is None:
        confusion = np.concatenate(posterior.by_block(lambda draws, _: draws.mean(0)))
    prior = np.log(np.maximum(posterior.draws("prevalence").mean(0), np.finfo(float).tiny))
    correct, fitting = np.zeros(len(item)), np.zeros(len(item))
    ends = np.searchsorted(item, np.arange(N + 1))
    step = max(1, BLOCK // K)
    begin = 0
    while begin < N:
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + step, side="right")) - 1)
        part = slice(int(ends[begin]), int(ends[end]))
        rows = np.arange(part.stop - part.start)
        own = confusion[worker[part], :, label[part]]  # (a, K)
        logs = np.log(np.maximum(own, np.finfo(float).tiny))
        total = np.zeros((end - begin, K))
        np.add.at(total, item[part] - begin, logs)
        rest = prior + total[item[part] - begin] - logs
        given = known[item[part]]
        rest[given >= 0] = -np.inf
        rest[rows[given >= 0], given[given >= 0]] = 0.0
        share = np.exp(rest - rest.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        correct[part], fitting[part] = share[rows, label[part]], (share * own).sum(1)
        begin = end
    return correct, fitting


def accuracy_density(correct: Array, group: Array, groups: int, K: int) -> Array:
    """Return the posterior of the accuracy in groups of annotations, at the points of ``GRID``: ``(groups, len(GRID))``.

    A label is correct with the accuracy, and otherwise any other class with equal probability. The prior is Jeffreys'.

    Args:
        correct: probability that each label is correct given the other workers', ``(n,)``.
        group: group of each, ascending, ``(n,)``.
        groups: number of groups.
        K: number of classes.
    """
    logs = np.zeros((groups, len(GRID)))
    step = BLOCK // len(GRID)
    for begin in range(0, len(correct), step):
        p, of = correct[begin : begin + step, None], group[begin : begin + step]
        each = np.log(np.maximum(p * GRID + (1 - p) * (1 - GRID) / max(1, K - 1), np.finfo(float).tiny))
        first = np.flatnonzero(np.diff(of, prepend=-1))
        logs[of[first]] += np.add.reduceat(each, first, axis=0)
    density = np.exp(POWER * (logs - logs.max(1, keepdims=True)))
    return np.asarray(density / density.sum(1, keepdims=True))


def quantiles(density: Array, probability: Array) -> Array:
    """Return quantiles of densities at the points of ``GRID``: ``(groups, n)`` for ``(groups, len(GRID))`` and ``(n,)``."""
    edges = np.sin(np.arange(len(GRID) + 1) * np.pi / (2 * len(GRID))) ** 2
    below = np.concatenate([np.zeros((len(density), 1)), np.cumsum(density, axis=1)], axis=1)
    return (
        np.stack([np.interp(probability, row, edges) for row in below])
        if len(density)
        else np.zeros((0, len(probability)))
    )


def differences(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the difference of two independent accuracies, second minus first, of densities ``(groups, len(GRID))`` each.

    Returns:
        Equally probable values ``(groups, POINTS)``, and the probability that the second is lower ``(groups,)``.
    """
    even = (np.arange(POINTS) + 0.5) / POINTS
    scattered = np.modf(even[0] + np.arange(POINTS) * (np.sqrt(5) - 1) / 2)[0]
    values = quantiles(second, scattered) - quantiles(first, even)
    higher = 1 - np.cumsum(first, axis=1) + first / 2
    return values, (second * higher).sum(1)
