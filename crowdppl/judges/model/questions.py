"""What the verdicts on other answers to the same question say about an answer: how hard the question is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# Correlation of two answers to a question at most: of a small table it may be estimated as 1.
LARGEST = 0.9
# A question's share of a class is this part of the mean share at least, and rare classes have a share more.
LEAST, RARE = 0.25, 0.05


def mean_shares(around: Array, rates: Array, asked: Array) -> Array:
    """Return the share of each class in the verdicts on each answer, ``(N, K)``, as if all judges had seen all answers.

    Args:
        around: shares of the labels in the verdicts of each judge, around the judge's own, 0 without verdicts, ``(N, J, K)``.
        rates: shares of the labels in all verdicts of each judge, ``(J, K)``.
        asked: whether the judge gave a verdict, ``(N, J)``.
    """
    there = asked.any(0)
    overall = rates[there].mean(0) if there.any() else np.zeros(rates.shape[1])
    return np.asarray(overall + around.sum(1) / np.maximum(asked.sum(1), 1)[:, None])


def question_rates(share: Array, judged: Array, system: Array, question: Array) -> Array:
    """Return the log share of each class in the verdicts on other systems' answers to the question, relative to all, ``(N, K)``.

    Answers of several systems to a hard question fail together. With ``e_i`` the shares of the classes in the verdicts on answer
    ``i`` around the mean of its system, and ``rho`` the correlation of ``e`` of two systems' answers to a question, the best
    linear prediction of ``e_i`` by ``m`` answers of others is their sum times ``rho / (1 + (m - 1) rho)``. One standard error is
    taken off ``rho``: where answers to a question are not told to be alike, all log ratios are near 0, or 0.

    Further answers of the system itself do not count: :mod:`crowdppl.judges.tables.several_answers` takes these as alike.

    Args:
        share: of each class in the verdicts on each answer, each judge's relative to its own mean, ``(N, K)``.
        judged: which answers have verdicts, ``(N,)``.
        system: of each answer, ``(N,)``; -1 for none.
        question: of each answer, ``(N,)``; -1 for none.

    Returns:
        Log ratios, 0 where no other system answered; ``(N, 0)`` where no question has answers of two systems.
    """
    N, K = share.shape
    used = np.flatnonzero(judged & (question >= 0) & (system >= 0))
    of = np.unique(question[used], return_inverse=True)[1]
    # Answers of one system to one question.
    own = np.unique(np.stack([of, system[used]], 1), axis=0, return_inverse=True)[1].ravel()
    others = _number(of) - _number(own)
    if not others.any():
        return np.zeros((N, 0))
    mean = share[judged].mean(0)
    around = share[used] - _sums(share[used], system[used]) / _number(system[used])[:, None]
    theirs = _sums(around, of) - _sums(around, own)
    rho = _correlation(around, theirs, of, others)
    predicted = theirs * (rho / (1 + np.maximum(others - 1, 0) * rho))[:, None]
    out = np.zeros((N, K))
    out[used] = np.log((np.maximum(mean + predicted, LEAST * mean) + RARE) / (mean + RARE))
    return out


def _number(group: Array) -> Array:
    """Return for each row the number of rows of its group, ``(n,)``."""
    return np.asarray(np.bincount(group)[group])


def _sums(values: Array, group: Array) -> Array:
    """Return for each row of ``(n, K)`` the sum over the rows of its group."""
    total = np.zeros((group.max() + 1, values.shape[1]))
    np.add.at(total, group, values)
    return np.asarray(total[group])


def _correlation(around: Array, theirs: Array, question: Array, others: Array) -> float:
    """Return the correlation of answers of two systems to a question, less its standard error; from 0 to :data:`LARGEST`.

    Args:
        around: values around the mean of the system, ``(n, K)``.
        theirs: sums of them over the answers of other systems to the question, ``(n, K)``.
        question: of each answer, ``(n,)``.
        others: number of these answers of other systems, ``(n,)``.
    """
    variance = (around**2).sum(1).mean()
    if variance <= 0:
        return 0.0
    pairs = np.bincount(question, others) / 2  # (Q,)
    products = np.bincount(question, (around * theirs).sum(1)) / (2 * variance)
    rho = products.sum() / pairs.sum()
    # Few questions that happen to be alike: at least the error of pairs that are independent.
    error = np.sqrt(max(((products - rho * pairs) ** 2).sum() / pairs.sum() ** 2, 1 / pairs.sum()))
    return float(np.clip(rho - error, 0.0, LARGEST))
