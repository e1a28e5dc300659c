"""How good each judge is, from draws of the true labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.judges.coding.model_names import family_of, makers_of
from crowdppl.judges.coding.states import State
from crowdppl.judges.model.draws import DIFFERENCE, TruthDraws
from crowdppl.judges.model.features import by_judge
from crowdppl.judges.tables import length_bias
from crowdppl.judges.tables.panel_table import COMMON, Correlations
from crowdppl.judges.tables.system_table import question_weights
from crowdppl.judges.verdicts import Verdicts
from crowdppl.posterior.intervals import jeffreys

Array = npt.NDArray[Any]
# Pseudo-verdicts of a judge, spread evenly over the cells of the table of true and given labels (Perks 1947).
PSEUDO_VERDICTS = 1.0
# Draws of which pairs of judges are compared; of many judges fewer, but so many at least; and numbers that are then held.
DRAWS, FEWEST, LARGE = 400, 25, 50_000_000


def judges(draws: TruthDraws) -> pd.DataFrame:
    """Return a row for each judge, the most accurate first.

    Columns, those of quality with intervals:

    - ``share_correct``: share of the judge's verdicts on these items that are correct;
    - ``accuracy``: the probability that a verdict on another item of this kind is correct;
    - ``sensitivity`` and ``specificity``: with two classes, probability of passing an item that should pass, and of failing one
      that should fail;
    - ``kappa``: agreement with the true label beyond chance (Cohen 1960);
    - ``position_bias``: accuracy where the correct answer is shown first, minus that where it is shown second, for pairs;
      ``inconsistent``: share of pairs, seen in both orders, on which the judge gave two verdicts;
    - ``self_preference``: how much more often the judge passes systems of its own family than others with the same true labels;
    - ``length_bias``: how much more often the judge passes an answer as long as the upper quartile of the lengths than one as
      long as the lower quartile, with the same true label (:mod:`crowdppl.judges.tables.length_bias`);
    - ``consistency``: where a judge has several verdicts on an item, with the same order of two answers and the same version: the
      share of pairs of such verdicts that agree; 1 minus it is the noise of repeated calls;
    - ``unparseable_rate`` and ``abstention_rate``: of the requests, with Jeffreys intervals;
    - ``weight``: log odds that a verdict adds to its label, beside those of the others (of scores: per standard
      deviation); ``panel_share``: its share of the sum;
    - ``cost`` of all requests, and ``cost_per_effective_verdict``: it, divided by the judge's share of the panel's effective
      number of verdicts.
    """
    v = draws.verdicts
    J, K = len(v.judges), len(v.labels)
    counts = draws.counts()
    table = _joint(counts, np.random.default_rng(0))  # (D, J, K, K)
    given = counts.sum((2, 3))
    frame: dict[str, Any] = {"judge": v.judges, "family": v.families[v.family], "verdicts": given[0].astype(int)}
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.trace(counts, axis1=2, axis2=3) / given
    frame |= draws.columns("share_correct", share)
    accuracy = np.where(given > 0, np.trace(table, axis1=2, axis2=3), np.nan)
    frame |= draws.columns("accuracy", accuracy)
    if K == 2:
        passing = int(draws.value.argmax())
        row = table.sum(3)
        frame |= draws.columns("sensitivity", table[:, :, passing, passing] / row[:, :, passing])
        frame |= draws.columns("specificity", table[:, :, 1 - passing, 1 - passing] / row[:, :, 1 - passing])
    chance = (table.sum(3) * table.sum(2)).sum(2)
    frame |= draws.columns("kappa", (accuracy - chance) / (1 - chance))
    if (v.swapped >= 0).any():
        frame |= draws.columns("position_bias", _position_bias(draws))
        frame["inconsistent"] = _inconsistent(draws)
    own = _self_preference(draws)
    if own is not None:
        frame |= draws.columns("self_preference", own)
    long = length_bias.length_bias(draws)
    if long is not None:
        frame |= draws.columns("length_bias", long)
    consistency = _consistency(v)
    if np.isfinite(consistency).any():
        frame["consistency"] = consistency
    frame |= _rates(draws)
    weight = weights(draws)
    positive = np.maximum(weight.mean(0), 0)
    frame |= draws.columns("weight", weight)
    frame["panel_share"] = positive / positive.sum() if positive.sum() > 0 else np.full(J, np.nan)
    if np.isfinite(v.cost).any():
        cost = np.bincount(v.judge, np.nan_to_num(v.cost), J)
        verdicts = Correlations.of(draws).number.mean() * len(v.items) * frame["panel_share"]
        frame["cost"] = cost
        frame["cost_per_effective_verdict"] = np.divide(cost, verdicts, out=np.full(J, np.nan), where=verdicts > 0)
    return pd.DataFrame(frame).sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)


def comparisons(draws: TruthDraws) -> pd.DataFrame:
    """Return a row for each pair of judges with items in common: the difference of their accuracies on these.

    Columns ``judge_a``, ``judge_b``, ``items``, ``difference`` (a minus b) with its interval, and ``probability_better``. Both
    follow the same draw of true labels, and each draw weights questions by the Bayesian bootstrap (Rubin 1981): intervals are
    those of further items of the kind. The more accurate judge is the first.
    """
    v = draws.verdicts
    J, used = len(v.judges), v.label >= 0
    number = by_judge(v, used).astype(float)
    seen = (number > 0).astype(float)
    common = (seen.T @ seen).astype(int)
    # Fewer draws of many judges, so that memory does not grow with their square.
    every = max(len(draws.truth) // min(DRAWS, max(LARGE // max(J, 1) ** 2, FEWEST)), 1)
    truth, weight = draws.truth[::every], question_weights(draws, "population")[::every]
    difference = np.full((len(truth), J, J), np.nan)
    for d, z in enumerate(truth):
        correct = by_judge(v, used, (v.label == z[v.item]).astype(float)) / np.maximum(number, 1)
        weighted = weight[d][:, None] * seen
        total = (weighted * correct).T @ seen  # of the first judge over common items
        np.divide(total - total.T, weighted.T @ seen, out=difference[d], where=common > 0)
    rows = []
    for a, b in zip(*np.nonzero(np.triu(common >= COMMON, 1)), strict=True):
        own = difference[:, a, b]
        first, second = (a, b) if own.mean() >= 0 else (b, a)
        row = {"judge_a": v.judges[first], "judge_b": v.judges[second], "items": common[a, b]}
        rows.append(row | draws.difference(difference[:, first, second]))
    table = pd.DataFrame(rows, columns=["judge_a", "judge_b", "items", *DIFFERENCE])
    return table.sort_values("probability_better", ascending=False, kind="stable", ignore_index=True)


def versions(draws: TruthDraws) -> pd.DataFrame:
    """Return a row for each pair of versions of a judge: the difference of their shares of correct verdicts on common items.

    Columns ``judge``, ``version_a``, ``version_b``, ``items``, and ``difference`` (b minus a) with its interval and
    ``probability_better``. Empty without versions.
    """
    v = draws.verdicts
    rows = []
    for j in range(len(v.judges)):
        own = np.flatnonzero((v.judge == j) & (v.version >= 0) & (v.label >= 0))
        present = np.unique(v.version[own])
        for n, a in enumerate(present):
            for b in present[n + 1 :]:
                first, second = own[v.version[own] == a], own[v.version[own] == b]
                common = np.intersect1d(v.item[first], v.item[second])
                if not len(common):
                    continue
                shares = []
                for side in (first, second):
                    side = side[np.isin(v.item[side], common)]
                    number = np.bincount(v.item[side], minlength=len(v.items))[v.item[side]]
                    right = draws.truth[:, v.item[side]] == v.label[side]
                    shares.append((right / number).sum(1) / len(common))
                row = {
                    "judge": v.judges[j],
                    "version_a": v.versions[a],
                    "version_b": v.versions[b],
                    "items": len(common),
                }
                rows.append(row | draws.difference(shares[1] - shares[0]))
    return pd.DataFrame(rows, columns=["judge", "version_a", "version_b", "items", *DIFFERENCE])


def _joint(counts: Array, rng: np.random.Generator) -> Array:
    """Draw the probabilities of true and given label of each judge, ``(D, J, K, K)``, given counts of both."""
    K = counts.shape[-1]
    drawn = rng.standard_gamma(counts + PSEUDO_VERDICTS / K**2)
    return np.asarray(drawn / np.maximum(drawn.sum((2, 3), keepdims=True), 1e-300))


def weights(draws: TruthDraws) -> Array:
    """Return what the verdict of each judge adds to the log odds of its label, ``(D, J)``."""
    f, c = draws.features, draws.calibration
    J = len(draws.verdicts.judges)
    panel, families, consensus, judge, family = (
        c.block(name) for name in ("panel", "families", "consensus", "judge", "family")
    )
    assert panel is not None
    assert families is not None
    assert consensus is not None
    assert judge is not None
    weight = panel / J + families * f.share_of_family + consensus * f.consensus / J + judge
    if family is not None:
        weight = weight + family[:, f.family]
    common, score = c.block("score_consensus"), c.block("score")
    if common is not None and score is not None:
        weight[:, f.scored] = common * f.score_consensus / len(f.score_consensus) + score
    return weight


def _position_bias(draws: TruthDraws) -> Array:
    """Return the difference of accuracies by position of the correct answer, ``(D, J)``; NaN for judges without known orders."""
    v = draws.verdicts
    accuracy = []
    rng = np.random.default_rng(1)
    by_order = [draws.counts(v.swapped == order) for order in (0, 1)]
    # Classes for which the first and the second answer of a pair are correct, where the order is not swapped.
    outcome = draws.features.outcome
    sides = (0, 1) if outcome is None else (int(outcome.argmax()), int(outcome.argmin()))
    for one, other in (sides, sides[::-1]):  # the correct answer is the first one shown, then the second
        right = by_order[0][:, :, one, one] + by_order[1][:, :, other, other]
        all_verdicts = by_order[0][:, :, one, :].sum(-1) + by_order[1][:, :, other, :].sum(-1)
        wrong = all_verdicts - right
        drawn = rng.beta(right + 0.5, wrong + 0.5)
        accuracy.append(np.where(all_verdicts > 0, drawn, np.nan))
    return accuracy[0] - accuracy[1]


def _inconsistent(draws: TruthDraws) -> Array:
    """Return the share of items, seen in both orders, on which each judge gave different verdicts, ``(J,)``."""
    v = draws.verdicts
    J, N, K = len(v.judges), len(v.items), len(v.labels)
    used = (v.label >= 0) & (v.swapped >= 0)
    cell = v.judge[used] * N + v.item[used]
    key, where = np.unique(cell, return_inverse=True)
    order = np.zeros((len(key), 2), dtype=bool)
    order[where, v.swapped[used]] = True
    label = np.zeros((len(key), K), dtype=bool)
    label[where, v.label[used]] = True
    both = order.all(1)
    seen = np.bincount(key[both] // N, minlength=J)
    differ = np.bincount(key[both] // N, (label[both].sum(1) > 1).astype(float), J)
    return np.divide(differ, seen, out=np.full(J, np.nan), where=seen > 0)


def _consistency(v: Verdicts) -> Array:
    """Return the share of pairs of verdicts of each judge on one item that agree, ``(J,)``; NaN without such pairs."""
    rows = pd.DataFrame({"judge": v.judge, "item": v.item, "order": v.swapped, "version": v.version, "label": v.label})
    rows = rows[rows["label"] >= 0]
    call = ["judge", "item", "order", "version"]

    def pairs(keys: list[str]) -> Array:
        size = rows.groupby(keys).size()
        number = (size * (size - 1) / 2).groupby("judge").sum()
        return number.reindex(range(len(v.judges)), fill_value=0).to_numpy(float)

    every = pairs(call)
    return np.divide(pairs([*call, "label"]), every, out=np.full(len(every), np.nan), where=every > 0)


def _self_preference(draws: TruthDraws) -> Array | None:
    """Return the excess of passing verdicts for systems of the judge's family, ``(D, J)``; ``None`` if there are no such systems.

    The reference is what the judge gives to items of other systems with the same true label. Of pairs of answers, those count of
    which one is of the family.
    """
    v = draws.verdicts
    if not len(v.systems):
        return None
    makers = makers_of(v.judges.tolist())
    of_system = np.append(np.array([family_of(s, makers) for s in v.systems], dtype=object), [None])
    own_family = v.families[v.family][v.judge]  # of each row
    first = of_system[v.system][v.item] == own_family
    second = of_system[v.opponent][v.item] == own_family
    if not (first ^ second).any():
        return None
    passing = (draws.value - draws.value.min()) / max(np.ptp(draws.value), 1e-12)  # (K,)
    others = draws.counts(~first & ~second & (v.system[v.item] >= 0))
    rng = np.random.default_rng(2)
    drawn = rng.standard_gamma(others + 1 / others.shape[-1])
    expected = drawn / drawn.sum(3, keepdims=True)  # (D, J, K, K)
    total: Array = np.zeros(others.shape[:2])
    excess: Array = np.zeros(others.shape[:2])
    # Of a pair, the own family's answer may be either; an opponent passes where the first system does not.
    for rows, preferred in ((first & ~second, passing), (second & ~first, 1 - passing)):
        if rows.any():
            own = draws.counts(rows)
            drawn = rng.standard_gamma(own + 1 / own.shape[-1])
            observed = drawn / drawn.sum(3, keepdims=True)
            number = own.sum(3)  # (D, J, K)
            excess += (((observed - expected) @ preferred) * number).sum(2)
            total += number.sum(2)
    known = (total.max(0) > 0) & (others.sum((2, 3)).max(0) > 0)
    return np.where(known, excess / np.maximum(total, 1), np.nan)


def _rates(draws: TruthDraws) -> dict[str, Array]:
    """Return rates of states of missing verdicts among requests, with Jeffreys intervals."""
    v = draws.verdicts
    J = len(v.judges)
    requests = np.bincount(v.judge, minlength=J)
    columns = {}
    for state, name in ((State.UNPARSEABLE, "unparseable_rate"), (State.ABSTAINED, "abstention_rate")):
        number = np.bincount(v.judge[v.state == state], minlength=J)
        low, high = jeffreys(number, requests - number, draws.level)
        columns[name] = number / requests
        columns[f"{name}_low"] = np.where(number > 0, low, 0.0)
        columns[f"{name}_high"] = np.where(number < requests, high, 1.0)
    return columns
