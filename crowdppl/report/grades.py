"""Grades in the report: severities, the grades that each rater gives, agreement, and how far raters differ in severity alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from crowdppl.criticism import NOTABLE, mean_squares
from crowdppl.errors import DataError, ModelError, silent
from crowdppl.inference.stored import data_of
from crowdppl.metrics import graded_agreement
from crowdppl.posterior.measures import interval
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers.grading import has_criteria, mean_grades
from crowdppl.report.numbers import DRAWN, dots
from crowdppl.report.rendering import percent

# Above so many annotations mean squares take too long for a report, and replicated data sets that they are compared with.
MOST, DRAWS = 50_000, 200
# Raters that are listed, those first that are farthest from what is usual.
RATERS = 50
# Grades above which a table of how often each is given would be too wide.
MOST_GRADES = 12


def grades(posterior: Posterior, level: float) -> dict[str, Any] | None:
    """Return criteria, agreement and fit of raters, as text; ``None`` where labels are no grades."""
    if not posterior.graded:
        return None
    with silent():
        try:
            agreed = agreement_rows(graded_agreement(data_of(posterior), level=level))
        except DataError:  # too few items with two raters, or one grade alone: there is no agreement to show
            agreed = []
        fit = rater_fit(posterior, level)
    criteria = criterion_rows(posterior.criteria(level=level)) if has_criteria(posterior) else []
    return {"criteria": criteria, "agreement": agreed, "fit": None if fit is None else fit_rows(fit[:RATERS])} | (
        {"sentence": "", "left": 0} if fit is None else {"sentence": fit_sentence(fit), "left": len(fit[RATERS:])}
    )


def severities(posterior: Posterior, table: pd.DataFrame, level: float) -> dict[str, Any]:
    """Return figures of severities and items, and which grades each rater gives.

    Args:
        posterior: a result, of grades.
        table: of its workers.
        level: probability of the intervals.
    """
    figures = {"severity": severity_figure(table), "wright": wright_figure(posterior, table, level)}
    return figures | {"use": use_rows(posterior)}


def severity_figure(table: pd.DataFrame) -> dict[str, Any]:
    """Return severities with intervals of the raters with most grades, the most severe first."""
    part = _busiest(table)
    mean, low, high = (part[f"severity{end}"].to_numpy(float) for end in ("", "_low", "_high"))
    return dots(
        [str(name) for name in part["worker"]], mean, low, high, None, "Severity of raters, in grades", zero=True
    )


def wright_figure(posterior: Posterior, table: pd.DataFrame, level: float) -> dict[str, Any]:
    """Return a Wright map: how many items have which true grade, above the grade that each rater gives in the mean over items."""
    true = posterior.grades()["grade"].to_numpy(float)
    part = _busiest(table)
    mean, low, high = interval(mean_grades(posterior)[:, part.index.to_numpy()], level)
    title = "Wright map: true grades of items (above), and the mean grade that each rater gives to all of them"
    return dots([str(name) for name in part["worker"]], mean, low, high, None, title, above=true)


def _busiest(table: pd.DataFrame) -> pd.DataFrame:
    """Return the raters with most grades, the most severe first, with their positions as index; none without grades."""
    active = table.reset_index(drop=True)
    most = active[active["annotations"] > 0].sort_values("annotations", ascending=False, kind="stable").head(DRAWN)
    return most.sort_values("severity", ascending=False, kind="stable")


def use_rows(posterior: Posterior) -> list[list[str]]:
    """Return how often each rater gives each grade, all raters first, then those with most grades; none with many grades."""
    given = posterior.label_counts_by_worker()
    if given.shape[1] > MOST_GRADES:
        return []
    total = given.sum(1)
    order = np.argsort(-total, kind="stable")[:RATERS]
    names = posterior.worker_names()
    rows = [("all raters", given.sum(0)), *((str(names[j]), given[j]) for j in order.tolist() if total[j])]
    return [
        [name, f"{int(count.sum()):,}", *(percent(share) for share in (count / max(1, count.sum())).tolist())]
        for name, count in rows
    ]


def ends(low: Any, high: Any) -> str:
    """Return the grades between which a true one lies, one of them where they are equal."""
    return " to ".join(dict.fromkeys((str(low), str(high))))


def rater_fit(posterior: Posterior, level: float) -> pd.DataFrame | None:
    """Return mean squares of the raters, those first that are farthest from what is usual; ``None`` where there are none.

    With so many annotations that they would take long, or of models other than graded facets.
    """
    if len(posterior.annotation_index()[0]) > MOST:
        return None
    try:
        table = mean_squares(posterior, draws=DRAWS, level=level)
    except ModelError:  # of models without slopes, of which these are no mean squares
        return None
    order = table.assign(p=table[["infit_p", "outfit_p"]].min(axis=1), off=(table["infit"] - 1).abs())
    return table.loc[order.sort_values(["p", "off"], ascending=[True, False], kind="stable").index]


def fit_sentence(table: pd.DataFrame) -> str:
    """Return how many raters are not as others, in plain words."""
    p = table[["infit_p", "outfit_p"]].to_numpy(float)
    notable = p.min(axis=1) < NOTABLE
    # Above or below what is usual, by the statistic that is farther from it: the other one may be on its other side.
    off = np.stack([table[kind] - (table[f"{kind}_from"] + table[f"{kind}_to"]) / 2 for kind in ("infit", "outfit")], 1)
    above = off[np.arange(len(table)), p.argmin(axis=1)] > 0
    high = int((notable & above).sum())
    low = int(notable.sum()) - high
    if not notable.any():
        return "No rater is less predictable, or more, than raters who differ in severity alone."
    parts = [
        f"{count:,} rater{' is' if count == 1 else 's are'} {way} predictable"
        for count, way in ((high, "less"), (low, "more"))
        if count
    ]
    # Two statistics of each rater; their p-values are at most too large, so that this is an upper bound.
    chance = 2 * NOTABLE * len(table)
    return (
        f"{' and '.join(parts)} than raters who differ in severity alone, with p below {NOTABLE:g} of infit or outfit. Up to "
        f"{chance:.2g} of {len(table):,} rater{'' if len(table) == 1 else 's'} would be by chance."
    )


def agreement_rows(table: pd.DataFrame) -> list[list[str]]:
    """Return name, value, interval and number of items of each measure."""
    return [
        [row["name"], _number(row["value"]), _range(row["low"], row["high"]), f"{row['items']:,}"]
        for row in table.to_dict("records")
    ]


def criterion_rows(table: pd.DataFrame) -> list[list[str]]:
    """Return name, grades, mean grade and difficulty of each criterion, the most difficult first."""
    return [
        [
            str(row["criterion"]),
            f"{row['annotations']:,}",
            _number(row["mean_grade"]),
            f"{row['difficulty']:+.2f}",
            _range(row["difficulty_low"], row["difficulty_high"]),
        ]
        for row in table.sort_values("difficulty", ascending=False, kind="stable").to_dict("records")
    ]


def fit_rows(table: pd.DataFrame) -> list[list[str]]:
    """Return name, grades, and infit and outfit with what is usual and the p-value of each rater."""
    return [
        [str(row["worker"]), f"{row['annotations']:,}"]
        + [
            text
            for kind in ("infit", "outfit")
            for text in (
                f"{row[kind]:.2f}",
                f"{row[f'{kind}_from']:.2f} to {row[f'{kind}_to']:.2f}",
                f"{row[f'{kind}_p']:.2f}",
            )
        ]
        for row in table.to_dict("records")
    ]


def _number(value: float) -> str:
    return "undefined" if pd.isna(value) else f"{value:.2f}"


def _range(low: float, high: float) -> str:
    return "none" if pd.isna(low) else f"{low:.2f} to {high:.2f}"
