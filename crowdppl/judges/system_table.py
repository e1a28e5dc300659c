"""The rate of each system, as the judges state it and corrected, from draws of the true labels."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.judges.draws import TruthDraws

Array = npt.NDArray[Any]


def systems(draws: TruthDraws, target: str) -> pd.DataFrame:
    """Return a row for each system, the best first; one row, ``all``, without systems.

    Columns:

    - ``items`` and ``labelled``: number of judged items, and of those with human labels;
    - ``uncorrected``: the rate by the majority of the judges, ties split;
    - ``corrected`` with its interval: the rate of the true labels;
    - ``best``: probability that no system is better; ``rank`` with its interval, 1 for the best;
    - ``transported``: no item of the system has a human label. Its correction rests on judges who treat it as they treat other
      systems, and its interval contains how much that varies between systems.
    """
    names, code = draws.rated
    rate = rates(draws, target)
    rank = (rate[:, None, :] > rate[:, :, None]).sum(2) + 1.0  # (D, S)
    S = len(names)
    items = np.bincount(code[code >= 0], minlength=S)
    labelled = np.bincount(code[(code >= 0) & draws.labelled], minlength=S)
    frame: dict[str, Any] = {
        "system": names,
        "items": items,
        "labelled": labelled,
        "uncorrected": _uncorrected(draws, code, S),
    }
    frame |= draws.columns("corrected", rate)
    frame["best"] = (rank == 1).mean(0)
    frame |= draws.columns("rank", rank) | {"rank": np.median(rank, axis=0)}
    frame["transported"] = labelled == 0
    return pd.DataFrame(frame).sort_values("corrected", ascending=False, kind="stable", ignore_index=True)


def comparisons(draws: TruthDraws, target: str) -> pd.DataFrame:
    """Return a row for each pair of systems: the difference of their rates, and the probability that the first is better.

    Rates of both systems follow the same draw of true labels, and with ``target="population"`` the same draw of questions, so
    that systems that answered the same questions are compared question by question.
    """
    v = draws.verdicts
    rate = rates(draws, target)
    order = rate.mean(0).argsort()[::-1] if len(v.systems) else []
    rows = []
    for a, b in combinations(order, 2):
        difference = rate[:, a] - rate[:, b]
        low, high = draws.ends(difference)
        rows.append((v.systems[a], v.systems[b], difference.mean(), low, high, draws.above_zero(difference)))
    names = ["system_a", "system_b", "difference", "difference_low", "difference_high", "probability_better"]
    return pd.DataFrame(rows, columns=names)


def rates(draws: TruthDraws, target: str) -> Array:
    """Return draws of the rate of each system, ``(D, S)``; of all items together without systems.

    For a population of questions, each draw weights questions by a draw of the Bayesian bootstrap (Rubin 1981), the same for all
    systems.
    """
    v = draws.verdicts
    D, N = draws.truth.shape
    names, code = draws.rated
    value = draws.value[draws.truth]  # (D, N)
    if target == "population":
        unit = np.arange(N)
        if len(v.questions):
            unit = np.where(v.question >= 0, v.question, len(v.questions) + np.arange(N))
        weight = np.random.default_rng(3).standard_exponential((D, unit.max() + 1))[:, unit]
    else:
        weight = np.ones((1, N))
    member = (code[:, None] == np.arange(len(names))).astype(float)  # (N, S)
    return np.asarray(((value * weight) @ member) / (weight @ member))


def _uncorrected(draws: TruthDraws, code: Array, S: int) -> Array:
    """Return the mean value of each system's items by the majority of the judges, ties split; items without verdicts left out."""
    votes = draws.features.votes.sum(1)  # (N, K)
    judged = (draws.features.votes != 0).any((1, 2))
    top = votes >= votes.max(1, keepdims=True) - 1e-6
    value = (top * draws.value).sum(1) / top.sum(1)
    used = judged & (code >= 0)
    number = np.bincount(code[used], minlength=S)
    total = np.bincount(code[used], value[used], S)
    return np.divide(total, number, out=np.full(S, np.nan), where=number > 0)
