"""The rate of each system, as the judges state it and corrected, from draws of the true labels."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.judges.model import pairwise
from crowdppl.judges.model.draws import DIFFERENCE, TruthDraws

Array = npt.NDArray[Any]
Target = Literal["items", "population"]
# Clusters of questions at least, from which their variance is learned; and the least weight, where all of a system are small.
FEWEST, TINY = 5, 1e-12


def systems(draws: TruthDraws, target: Target) -> pd.DataFrame:
    """Return a row for each system, the best first; one row, ``all``, without systems.

    Columns:

    - ``items`` and ``labelled``: number of judged items, and of those with human labels;
    - ``uncorrected``: the rate by the majority of the judges, ties split;
    - ``corrected`` with its interval: the rate of the true labels;
    - for pairs of answers, both are the probability that the system's answer is better than that of another system, ties counted
      half, in the mean over the other systems, by the model of Davidson (1970) fitted to each draw of the true labels; and
      ``strength`` with its interval is the system's strength there, as log odds, of mean 0, and ``elo`` the same in the units of
      Elo's ratings (:func:`crowdppl.judges.model.pairwise.elo`);
    - ``best``: probability that no system is better; ``rank`` with its interval, 1 for the best;
    - ``transported``: no item of the system has a human label. Its correction rests on judges who treat it as they treat other
      systems, and its interval contains how much that varies between systems.
    """
    names, code = draws.rated
    davidson = _strengths(draws, target) if draws.paired else None
    rate = rates(draws, target) if davidson is None else pairwise.against_others(*davidson)
    rank = (rate[:, None, :] > rate[:, :, None]).sum(2) + 1.0  # (D, S)
    own = draws.member != 0
    labelled = own[draws.labelled].sum(0)
    frame: dict[str, Any] = {
        "system": names,
        "items": own.sum(0),
        "labelled": labelled,
        "uncorrected": _paired_uncorrected(draws) if draws.paired else _uncorrected(draws, code, len(names)),
    }
    frame |= draws.columns("corrected", rate)
    frame["best"] = (rank == 1).mean(0)
    frame |= draws.columns("rank", rank) | {"rank": np.median(rank, axis=0)}
    if davidson is not None:
        frame |= draws.columns("strength", davidson[0])
        frame |= draws.columns("elo", pairwise.elo(davidson[0]))
    frame["transported"] = labelled == 0
    return pd.DataFrame(frame).sort_values("corrected", ascending=False, kind="stable", ignore_index=True)


def comparisons(draws: TruthDraws, target: Target) -> pd.DataFrame:
    """Return a row for each pair of systems: the difference of their rates, and the probability that the first is better.

    Rates of both systems follow the same draw of true labels, and with ``target="population"`` the same draw of questions, so
    that systems that answered the same questions are compared question by question. For pairs of answers also ``wins`` with its
    interval: the probability that the answer of the first system is better than that of the second, ties counted half.
    """
    v = draws.verdicts
    davidson = _strengths(draws, target) if draws.paired else None
    rate = rates(draws, target) if davidson is None else pairwise.against_others(*davidson)
    order = rate.mean(0).argsort()[::-1] if len(v.systems) else []
    rows = []
    for a, b in combinations(order, 2):
        row = {"system_a": v.systems[a], "system_b": v.systems[b]} | draws.difference(rate[:, a] - rate[:, b])
        if davidson is not None:
            row |= draws.columns("wins", pairwise.preference(davidson[0][:, [a, b]], davidson[1])[:, 0, 1])
        rows.append(row)
    names = ["system_a", "system_b", *DIFFERENCE]
    return pd.DataFrame(rows, columns=[*names, *(["wins", "wins_low", "wins_high"] if draws.paired else [])])


def rates(draws: TruthDraws, target: Target) -> Array:
    """Return draws of the rate of each system, ``(D, S)``; of all items together without systems.

    For a population of questions, each draw weights questions by a draw of the Bayesian bootstrap (Rubin 1981), the same for all
    systems; or clusters of them, where these are stated. Rates in pairs of answers are those of :func:`systems`.
    """
    if draws.paired:
        return pairwise.against_others(*_strengths(draws, target))
    value, weight = draws.value[draws.truth], question_weights(draws, target)  # (D, N)
    return np.asarray(((value * weight) @ draws.member) / (weight @ draws.member))


def clustered(draws: TruthDraws) -> bool:
    """Return whether enough clusters of questions are stated to tell how much they differ."""
    return len(draws.verdicts.clusters) >= FEWEST


def further(draws: TruthDraws) -> bool:
    """Return whether rates on further questions are worth a table: with clusters, and of pairs that people judged, all of them.

    These have no error of judges, so that rates on the judged pairs have no interval.
    """
    return clustered(draws) or (draws.paired and bool(draws.labelled.all()))


def question_weights(draws: TruthDraws, target: Target) -> Array:
    """Return the weight of each item in the rates of each draw, ``(D, N)``, or ``(1, N)`` if it is the same in all.

    For a population of questions the weights are those of the Bayesian bootstrap (Rubin 1981). If clusters of questions are
    stated, such as the questions on one document, a cluster has one weight: intervals then contain how much clusters differ
    (Miller 2024, "Adding error bars to evals"). Weights of ``C`` clusters are Gamma variables of shape ``(C - 2) / C``, with
    which the variance of a mean over clusters of equal size is the unbiased one, ``s^2 / C``; with shape 1 it is smaller by the
    factor ``(C - 1) / (C + 1)``.
    """
    v = draws.verdicts
    D, N = draws.truth.shape
    if target != "population":
        return np.ones((1, N))
    unit = np.arange(N)
    if len(v.questions):
        unit = np.where(v.question >= 0, v.question, len(v.questions) + np.arange(N))
    rng = np.random.default_rng(3)
    if not clustered(draws):
        return rng.standard_exponential((D, unit.max() + 1))[:, unit]
    unit = np.unique(np.where(v.cluster >= 0, v.cluster, len(v.clusters) + unit), return_inverse=True)[1]
    C = int(unit.max()) + 1
    return np.maximum(rng.standard_gamma((C - 2) / C, (D, C)), TINY)[:, unit]


def _strengths(draws: TruthDraws, target: Target) -> tuple[Array, Array]:
    """Return draws of the strengths of systems ``(D, S)``, and of Davidson's log nu ``(D,)``, by the true labels of each draw."""
    assert draws.features.outcome is not None
    v, outcome = draws.verdicts, draws.features.outcome[draws.truth]  # (D, N)
    pairs = pairwise.distinct(v.system, v.opponent, len(v.systems))
    weight = np.broadcast_to(question_weights(draws, target), outcome.shape)
    every = np.arange(len(v.items))
    counts = np.stack([pairwise.tally(pairs, every, one, w) for one, w in zip(outcome, weight, strict=True)])
    return pairwise.strengths(counts, pairs)


def _paired_uncorrected(draws: TruthDraws) -> Array:
    """Return the rate of each system by the majority of the judges, ties split, ``(S,)``; NaN without verdicts."""
    assert draws.features.outcome is not None
    v = draws.verdicts
    top, judged = _majority(draws)
    pairs = pairwise.distinct(v.system, v.opponent, len(v.systems))
    share = top / top.sum(1, keepdims=True)
    item, label = np.nonzero(top & judged[:, None])
    counts = pairwise.tally(pairs, item, draws.features.outcome[label], share[item, label])
    rate = pairwise.against_others(*pairwise.strengths(counts[None], pairs))[0]
    return np.where((draws.member[judged] != 0).any(0), rate, np.nan)


def _uncorrected(draws: TruthDraws, code: Array, S: int) -> Array:
    """Return the mean value of each system's items by the majority of the judges, ties split; items without verdicts left out."""
    top, judged = _majority(draws)
    value = (top * draws.value).sum(1) / top.sum(1)
    used = judged & (code >= 0)
    number = np.bincount(code[used], minlength=S)
    total = np.bincount(code[used], value[used], S)
    return np.divide(total, number, out=np.full(S, np.nan), where=number > 0)


def _majority(draws: TruthDraws) -> tuple[Array, Array]:
    """Return the labels that most judges gave to each item, several if tied, ``(N, K)``, and which were judged, ``(N,)``."""
    votes = draws.features.votes.sum(1)
    judged = (draws.features.votes != 0).any((1, 2))
    return votes >= votes.max(1, keepdims=True) - 1e-6, judged
