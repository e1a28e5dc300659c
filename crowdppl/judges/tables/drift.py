"""Whether judges have changed: between versions, and over time.

A judge has changed if its verdicts on items of the same true label have. Verdicts are compared within strata, in which only the
version, or the time, differs:

- the item itself, where the judge gave verdicts on it before and after; no true label is needed;
- otherwise the system and the true label by people. Items without human labels are not used: their true labels are learned from
  verdicts, as if no judge had changed.

With ``x`` what a verdict adds to the rate (or whether it is correct), ``z`` 1 after and 0 before, and sums of squares and
products within the strata, the change is ``Sxz / Szz``. Its variance under no change is that of Cochran, Mantel and Haenszel,
``Sxx Szz / (n - 1)`` in a stratum, or the one that is robust to items of one question, whichever is larger. With items as strata
this is McNemar's test. As Agresti and Min (2005) propose, half a pair is added to each kind of discordant pairs, so that few
verdicts that all agree do not give an interval of width zero.

N. Mantel (1963), Chi-square tests with one degree of freedom: extensions of the Mantel-Haenszel procedure, JASA 58, 690-700.
A. Agresti and Y. Min (2005), Simple improved confidence intervals for comparing matched proportions, Statistics in Medicine 24,
729-740.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.errors import listed
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.people.human_likelihood import counts_by_item

Array = npt.NDArray[Any]
# Days at which a change is looked for, at most, and draws from which the largest difference is known.
DAYS, DRAWS = 9, 10_000
# Degrees of freedom below which nothing is compared.
FEWEST = 5
COLUMNS = (
    "judge",
    "by",
    "before",
    "after",
    "measure",
    "verdicts",
    "change",
    "change_low",
    "change_high",
    "p_value",
    "changed",
)


class Units(NamedTuple):
    """Verdicts of a judge, the mean where it gave several on an item under one ``z``.

    Attributes:
        x: what is compared, ``(n,)``.
        z: 1 after and 0 before, at each of ``C`` points, ``(n, C)``.
        stratum: within which they are compared, ``(n,)``.
        group: the question, where questions have several items, on which errors may be correlated, ``(n,)``; otherwise ``(0,)``.
    """

    x: Array
    z: Array
    stratum: Array
    group: Array


def drift(draws: TruthDraws) -> pd.DataFrame:
    """Return whether each judge has changed, a row for each comparison and measure; empty without versions and days.

    Versions of a judge are compared with the next one, in the order of their times, otherwise of their names. Verdicts of one
    version on several days are compared before and after each of up to :data:`DAYS` days, and the row has the day with the
    clearest difference. Its interval and p value are of the largest of these differences, so that looking at several days does
    not raise the rate of false alarms.

    Columns:

    - ``judge``; ``by``: ``version`` or ``time``;
    - ``before`` and ``after``: the versions, or the last day before the change and the first after it;
    - ``measure``: ``passing``, the mean of what verdicts add to the rate at equal true labels, or ``accuracy``, the share of
      correct verdicts; of judges who give scores only ``score``, their mean at equal true labels;
    - ``verdicts``: how many are compared, 0 where none can be;
    - ``change``: after minus before, with its interval, and ``p_value``;
    - ``changed``: whether the p value is below ``1 - level`` after Holm's (1979) correction for all rows. If no judge has
      changed, the probability that any row says so is at most ``1 - level``.
    """
    v = draws.verdicts
    days = v.when.astype("datetime64[D]")
    # Judges who give scores only are compared by these.
    scored = np.bincount(v.judge, v.label >= 0, len(v.judges)) == 0
    given = np.where(scored[v.judge], np.isfinite(v.score), v.label >= 0)
    human = _human(draws)
    rows: list[list[Any]] = []
    if (v.version[given] >= 0).any() or len(np.unique(days[given & ~np.isnat(days)])) > 1:
        order = np.argsort(v.judge, kind="stable")
        first = np.searchsorted(v.judge[order], np.arange(len(v.judges) + 1))
        for j, name in enumerate(v.judges.tolist()):
            own = order[first[j] : first[j + 1]]
            own = own[given[own]]
            for by, before, after, compared, z in _comparisons(draws, own, days):
                for measure in ("score",) if scored[j] else ("passing", "accuracy"):
                    units = _units(draws, compared, z, human, by, measure)
                    clearest = _clearest(units, draws.level)
                    if clearest is None:
                        rows.append([name, by, before[0], after[0], measure, 0, *[np.nan] * 4])
                    else:
                        at, *numbers = clearest
                        rows.append([name, by, before[at], after[at], measure, *numbers])
    table = pd.DataFrame(rows, columns=list(COLUMNS[:-1]))
    table["changed"] = _holm(table["p_value"].to_numpy(float)) < 1 - draws.level
    return table


def sentences(draws: TruthDraws, table: pd.DataFrame) -> list[str]:
    """Return what has changed, in sentences, and of which judges it cannot be known.

    Args:
        draws: the result.
        table: of :func:`drift`.
    """
    passing = ("prefers the first system more", "prefers the first system less")
    words = {
        "passing": passing if draws.features.outcome is not None else ("is more lenient", "is stricter"),
        "accuracy": ("is more often correct", "is less often correct"),
        "score": ("gives higher scores", "gives lower scores"),
    }
    out = []
    for row in table[table["changed"]].to_dict("records"):
        when = f"from version {row['before']} to {row['after']}" if row["by"] == "version" else f"since {row['after']}"
        out.append(
            f"{listed([row['judge']])} {words[row['measure']][row['change'] < 0]} at equal true labels {when}: by "
            f"{row['change']:+.2f} ({row['change_low']:+.2f} to {row['change_high']:+.2f}). Rates before and after are not "
            f"comparable; give the judge two names to have each corrected by itself."
        )
    if out:
        out.append(f"If no judge had changed, at most {1 - draws.level:.0%} of such tables would say that one has.")
    blind = table[(table["by"] == "version") & (table["measure"] != "accuracy") & (table["verdicts"] == 0)]
    if len(blind):
        out.append(
            f"Whether {listed(blind['judge'].unique().tolist())} changed between versions cannot be known: too few items were "
            f"judged by both, or have human labels in both. Judge some items with both versions."
        )
    return out


def _human(draws: TruthDraws) -> Array:
    """Return the label that most people gave to each item, ``(N,)``; -1 without labels, and where people are divided."""
    out = np.full(len(draws.verdicts.items), -1)
    if draws.human is not None:
        items, counts = counts_by_item(draws.human, len(draws.verdicts.labels))
        one = (counts == counts.max(1, keepdims=True)).sum(1) == 1
        out[items[one]] = counts[one].argmax(1)
    return out


def _comparisons(
    draws: TruthDraws, own: Array, days: Array
) -> Iterator[tuple[str, list[str], list[str], Array, Array]]:
    """Yield what is compared of the verdicts of a judge: by what, names of before and after, rows ``(m,)``, and z ``(m, C)``."""
    v = draws.verdicts
    timed = ~np.isnat(days[own])
    versions = np.unique(v.version[own][v.version[own] >= 0])
    versions = np.array(sorted(versions, key=lambda n: _natural(str(v.versions[n]))), dtype=np.int64)
    if np.isin(versions, v.version[own][timed]).all():
        of_version = [v.when[own[timed & (v.version[own] == n)]].astype(np.int64) for n in versions]
        versions = versions[np.argsort([np.median(times) for times in of_version], kind="stable")]
    for a, b in itertools.pairwise(versions):
        rows = own[np.isin(v.version[own], (a, b))]
        yield "version", [str(v.versions[a])], [str(v.versions[b])], rows, (v.version[rows] == b)[:, None].astype(float)
    rows = own[timed]
    every = np.unique(days[rows])
    if len(every) > 1:
        # As many verdicts between two points, as far as days allow.
        places = np.quantile(days[rows].astype(np.int64), np.arange(1, DAYS + 1) / (DAYS + 1), method="higher")
        points = np.unique(np.clip(places, every[1].astype(np.int64), None)).astype("datetime64[D]")
        before = [str(every[every < point].max()) for point in points]
        yield "time", before, [str(p) for p in points], rows, (days[rows][:, None] >= points).astype(float)


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts v2 before v10."""
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.findall(r"\d+|\D+", name)]


def _units(draws: TruthDraws, rows: Array, z: Array, human: Array, by: str, measure: str) -> Units:
    """Return the verdicts to compare: on items with verdicts before and after, and on those that people labelled."""
    v = draws.verdicts
    item = v.item[rows]
    x = v.score[rows] if measure == "score" else draws.value[v.label[rows]].astype(float)
    if measure == "accuracy":
        known = human[item] >= 0
        rows, z, item = rows[known], z[known], item[known]
        x = (v.label[rows] == human[item]).astype(float)
    # Over time, verdicts of one version are compared. The points that lie before a verdict tell its period.
    version = v.version[rows] if by == "time" else np.full(len(rows), -1)
    keys = pd.DataFrame({"item": item, "period": z.sum(1).astype(np.int64), "version": version})
    at, first, count = _groups(keys)
    mean = np.bincount(at, x, len(first)) / count
    item, version, z = item[first], version[first], z[first]
    both = pd.DataFrame({"item": item, "version": version})
    same, _, times = _groups(both)
    paired = times[same] > 1
    kept = paired | (human[item] >= 0)
    item, version, z, mean, paired, same = item[kept], version[kept], z[kept], mean[kept], paired[kept], same[kept]
    other = {"label": human[item], "system": v.system[item], "opponent": v.opponent[item], "version": version}
    alone = {name: np.where(paired, -2, code) for name, code in other.items()}
    stratum, _, _ = _groups(pd.DataFrame({"item": np.where(paired, same, -1), **alone}))
    group = np.where(v.question[item] >= 0, v.question[item], len(v.questions) + item)
    if len(np.unique(group)) == len(np.unique(item)):
        group = group[:0]
    return Units(mean, z, stratum, np.unique(group, return_inverse=True)[1])


def _groups(keys: pd.DataFrame) -> tuple[Array, Array, Array]:
    """Return the group of each row ``(n,)``, and of each group the first row and the number of rows."""
    at = keys.groupby(list(keys.columns), sort=True).ngroup().to_numpy()
    _, first, count = np.unique(at, return_index=True, return_counts=True)
    return at, first, count


def _clearest(units: Units, level: float) -> tuple[int, int, float, float, float, float] | None:
    """Return the point of the clearest change, the number of verdicts compared, the change, its interval and p value.

    ``None`` if nothing can be compared. Where errors on items of one question are correlated, questions are what is counted: the
    degrees of freedom are one less than their number.
    """
    from scipy.stats import t as student  # here: slow to import

    S = int(units.stratum.max()) + 1 if len(units.stratum) else 0
    size = np.bincount(units.stratum, minlength=S)

    def centred(a: Array) -> Array:
        mean = np.stack([np.bincount(units.stratum, column, S) for column in a.T], 1) / size[:, None]
        return np.asarray(a - mean[units.stratum])

    if not S or not (size > 1).any():
        return None
    x, z = centred(units.x[:, None])[:, 0], centred(units.z)  # (n,), (n, C)
    varies = np.bincount(units.stratum, (z**2).sum(1), S) > 0
    used = varies[units.stratum]
    freedom = int(used.sum() - varies.sum())
    szz = (z**2).sum(0)
    points = np.flatnonzero(szz > 0)
    if freedom < FEWEST or not len(points):
        return None
    z, szz = z[:, points], szz[points]
    sxx = np.bincount(units.stratum, x**2, S) / np.maximum(size - 1, 1)
    covariance = z.T @ (z * sxx[units.stratum, None])  # of Sxz under no change, (C, C)
    variance = np.diag(covariance)
    if len(units.group):
        by_group = np.stack([np.bincount(units.group, column) for column in (x[:, None] * z).T], 1)
        robust = (by_group**2).sum(0)
        if (robust > variance).any():
            freedom = min(freedom, len(np.unique(units.group[used])) - 1)
        variance = np.maximum(variance, robust)
    spread = np.ptp(units.x) if np.ptp(units.x) > 0 else 1.0
    variance = variance + spread**2 / 4
    change, error = (x @ z) / szz, np.sqrt(variance) / szz
    ratio = np.abs(change) / error
    at = int(ratio.argmax())
    # Draws of the largest ratio of several points under no change; one point is a Student variable.
    if len(points) == 1:
        limit = float(student.ppf((1 + level) / 2, freedom))
        p = float(2 * student.sf(ratio[at], freedom))
    else:
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        correlation = covariance / np.outer(scale, scale)
        np.fill_diagonal(correlation, 1.0 + 1e-9)
        rng = np.random.default_rng(0)
        normal = rng.standard_normal((DRAWS, len(points))) @ np.linalg.cholesky(correlation).T
        largest = np.abs(normal).max(1) / np.sqrt(rng.chisquare(freedom, DRAWS) / freedom)
        limit, p = float(np.quantile(largest, level)), float(((largest >= ratio[at]).sum() + 1) / (DRAWS + 1))
        # Beyond all draws, p is below what their number can show; Bonferroni's bound says how small it is.
        if ratio[at] > largest.max():
            p = min(p, float(2 * len(points) * student.sf(ratio[at], freedom)))
    ends = (change[at] - limit * error[at], change[at] + limit * error[at])
    return int(points[at]), int(used.sum()), float(change[at]), float(ends[0]), float(ends[1]), p


def _holm(p: Array) -> Array:
    """Return p values corrected by Holm's (1979) method, ``(n,)``; 1 where there is none."""
    out = np.ones(len(p))
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return out
