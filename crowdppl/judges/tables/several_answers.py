"""Several answers of a system to a question: whether one of k passes, or all do, and what the judges' pick of k is worth.

An answer that is drawn at random is compared with k that are drawn without replacement from the ``n`` answers of a system to a
question. With the answers in the order of their values, the one of rank ``r`` is the best of the ``k`` with probability
``C(n - r, k - 1) / C(n, k)``. For answers that pass or fail, the expected best is ``1 - C(n - c, k) / C(n, k)`` with ``c``
answers that pass, the unbiased estimator of pass@k of Chen et al. (2021, "Evaluating large language models trained on code",
equation 1). It is computed from every posterior draw of the true labels, so that errors of the judges enter the intervals.

**Answers to one question are alike.** Where judges leave the labels of several answers open, these labels are not independent:
the question may be easy or hard. Independent draws would find one that passes among them too often. The labels are therefore
drawn jointly, with a rate ``pi_q`` of each system and question::

    pi_q ~ Beta(m s, (1 - m) s)      m the rate of the system in the draw, s uniform over CONCENTRATIONS
    z_i  ~ Bernoulli, with odds pi_q / (1 - pi_q) times the odds of the verdicts, which are the posterior odds over those of m

This takes the errors of judges on answers to one question as independent given the true labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array
from scipy.special import betaln, comb, expit, logit

from crowdppl.errors import DataError
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.tables.system_table import Target, question_weights

Array = npt.NDArray[Any]
CONCENTRATIONS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0])
# Draws, Gibbs sweeps of each, and the least and largest probability of an open label.
DRAWS, SWEEPS, OPEN = 500, 15, 1e-6


def pass_at(draws: TruthDraws, k: Iterable[int] | None, target: Target) -> pd.DataFrame:
    """Return a row for each system and ``k``, the number of answers to a question.

    Columns:

    - ``questions``: number of questions with at least ``k`` answers of the system, which alone are used;
    - ``pass_at_k`` with its interval: probability that one of ``k`` answers passes; of numeric grades, the expected best grade;
    - ``all_pass`` with its interval: probability that all of them pass; of numeric grades, the expected worst one;
    - ``picked`` with its interval: probability that the one with the best verdicts passes, ties split; of grades, its grade.

    Raises:
        DataError: for pairs of answers, if no system gave several answers to a question, or none as many as ``k``.
    """
    group, system, answers, unit = _groups(draws)
    most = int(answers.max(initial=0))
    wanted = [2**n for n in range(most.bit_length())] if k is None else sorted(set(k))
    if wanted[-1] > most:
        raise DataError(
            f"k: no system has {wanted[-1]:,} answers to a question, the most are {most:,}; state smaller ones"
        )
    names, _ = draws.rated
    step = max(len(draws.truth) // DRAWS, 1)
    value = _joint(draws, group, system, step)  # (D, N)
    weight = np.broadcast_to(question_weights(draws, target), draws.truth.shape)[::step][:, unit]  # (D, G)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(len(answers)))
    score = _score(draws)
    rows = []
    for one in wanted:
        per_group = np.full((3, len(value), len(answers)), np.nan)
        for n in np.unique(answers[answers >= one]).tolist():
            own = np.flatnonzero(answers == n)
            item = order[first[own][:, None] + np.arange(n)]  # (g, n)
            rank = comb(n - np.arange(1, n + 1), one - 1) / comb(n, one)
            ascending = np.sort(value[:, item], axis=2)
            per_group[0][:, own] = ascending[:, :, ::-1] @ rank
            per_group[1][:, own] = ascending @ rank
            per_group[2][:, own] = (value[:, item] * _picked(score[item], rank)).sum(2)
        for s, name in enumerate(names.tolist()):
            own = np.flatnonzero((system == s) & (answers >= one))
            if not len(own):
                continue
            share = weight[:, own] / weight[:, own].sum(1, keepdims=True)
            row: dict[str, Any] = {"system": name, "k": one, "questions": len(own)}
            for what, values in zip(("pass_at_k", "all_pass", "picked"), per_group, strict=True):
                drawn = (values[:, own] * share).sum(1)
                row |= {column: float(x[0]) for column, x in draws.columns(what, drawn[:, None]).items()}
            rows.append(row)
    return pd.DataFrame(rows)


def several(draws: TruthDraws) -> bool:
    """Return whether a system gave several answers to a question."""
    return not draws.paired and bool(_by_question(draws)[2].max(initial=0) > 1)


def _groups(draws: TruthDraws) -> tuple[Array, Array, Array, Array]:
    """Return the groups of answers, see :func:`_by_question`.

    Raises:
        DataError: if there are none with several answers.
    """
    if draws.paired:
        raise DataError("the items are pairs of answers of two systems; pass@k needs verdicts on single answers")
    if not several(draws):
        raise DataError(
            "no system gave several answers to a question; number them in a column 'answer' ('epoch', 'repeat'), or state the "
            "question of each item in a column 'question'"
        )
    return _by_question(draws)


def _by_question(draws: TruthDraws) -> tuple[Array, Array, Array, Array]:
    """Return the group of each item ``(N,)``; and system, number of answers and an item of each group, each ``(G,)``."""
    v, (names, code) = draws.verdicts, draws.rated
    N = len(v.items)
    question = np.where(v.question >= 0, v.question, len(v.questions) + np.arange(N))
    _, first, group, number = np.unique(
        question * (len(names) + 1) + code, return_index=True, return_inverse=True, return_counts=True
    )
    return group, code[first], number, first


def _picked(score: Array, rank: Array) -> Array:
    """Return with which probability each answer is that of the best score among some, ties split, ``(g, n)``.

    Args:
        score: of the answers, ``(g, n)``.
        rank: probability by rank, ``(n,)``.
    """
    order = np.argsort(-score, axis=1, kind="stable")
    by_rank = np.take_along_axis(score, order, 1)
    out = np.empty(score.shape)
    for g, row in enumerate(by_rank):
        tied = np.unique(-row, return_inverse=True)[1]
        out[g, order[g]] = (np.bincount(tied, rank) / np.bincount(tied))[tied]
    return out


def _score(draws: TruthDraws) -> Array:
    """Return the mean value of the verdicts on each item, ``(N,)``; without verdicts the middle of the scale."""
    votes, K = draws.features.votes, len(draws.value)
    asked = (votes != 0).any(2).sum(1)
    share = (votes.sum(1) + asked[:, None] / K) / np.maximum(asked, 1)[:, None]
    return np.where(asked > 0, np.round(share @ draws.value, 6), draws.value.mean())


def _joint(draws: TruthDraws, group: Array, system: Array, step: int) -> Array:
    """Return draws of the value of each answer, ``(D, N)``, jointly for the answers to a question if they pass or fail."""
    if not np.isin(draws.value, (0.0, 1.0)).all():
        return np.asarray(draws.value[draws.truth[::step]])
    rng = np.random.default_rng(4)
    expected = draws.expected(step).astype(float)
    D, N = expected.shape
    passes = draws.value[draws.truth[::step]]
    # Human labels count as in the fit: they are certain, or the draws have their uncertainty.
    fixed = draws.labelled
    p = np.clip(expected, OPEN, 1 - OPEN)
    G, S = len(system), len(draws.rated[0])
    of_group = csr_array((np.ones(N), (np.arange(N), group)), shape=(N, G))
    number = np.bincount(group, minlength=G)
    of_system = (system[:, None] == np.arange(S)).astype(float)
    place = rng.integers(len(CONCENTRATIONS), size=(D, S))
    mean = expected @ of_group @ of_system / np.maximum(number @ of_system, 1)
    middle = np.clip(mean, 0.01, 0.99)[:, system]  # (D, G)
    odds = logit(p) - logit(middle)[:, group]
    for _ in range(SWEEPS):
        count = passes @ of_group
        s = CONCENTRATIONS[place][:, system]
        rate = np.clip(rng.beta(middle * s + count, (1 - middle) * s + number - count), OPEN, 1 - OPEN)
        drawn = rng.random((D, N)) < expit(odds + logit(rate)[:, group])
        passes = np.where(fixed, passes, drawn)
        count = passes @ of_group
        log_density = np.empty((D, S, len(CONCENTRATIONS)))
        for c, concentration in enumerate(CONCENTRATIONS):
            a, b = middle * concentration, (1 - middle) * concentration
            log_density[:, :, c] = (betaln(a + count, b + number - count) - betaln(a, b)) @ of_system
        place = (log_density + rng.gumbel(size=log_density.shape)).argmax(2)
    return np.asarray(passes, dtype=float)
