"""Grades on the terminal: items, raters, criteria and the fit of raters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console
from crowdppl.cli.display.shared import COLOURS, MARKS, SHOWN_ITEMS, SHOWN_WORKERS, grid, legend
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import VERDICTS
from crowdppl.posterior.workers.grading import has_criteria


def show_grades(posterior: Posterior, level: float) -> None:
    """Print the share of each grade, and the items whose mean grade is farthest from the expected true one."""
    shares = posterior.prevalence()
    listed = ", ".join(f"{escape(str(row.label))} {row.share:.0%}" for row in shares.head(8).itertuples())
    console.print(f"\nShare of each true grade: {listed}{' ...' if len(shares) > 8 else ''}")
    grades = posterior.grades(level=level)
    apart = (grades["mean_grade"] - grades["grade"]).abs()
    shown = grades.loc[apart.sort_values(ascending=False, kind="stable").index[:SHOWN_ITEMS]]
    table = grid(
        f"Items whose mean grade is farthest from the expected true grade (intervals of at least {level:.0%})",
        ("item", "annotations", "mean", "true grade", "interval"),
        left=("item", "interval"),
    )
    for row in shown.to_dict("records"):
        table.add_row(
            escape(str(row[posterior.item_column])),
            f"{row['annotations']:,}",
            "none" if pd.isna(row["mean_grade"]) else f"{row['mean_grade']:.2f}",
            f"{row['grade']:.2f}",
            escape(" to ".join(dict.fromkeys(str(row[f"grade_{end}"]) for end in ("low", "high")))),
        )
    console.print(table)
    if len(grades) > len(shown):
        console.print(f"... and {len(grades) - len(shown):,} more in truth.csv")


def show_raters(shown: pd.DataFrame, title: str) -> None:
    """Print raters of grades: severity, interval, correlation and verdict."""
    table = grid(title)
    table.add_column("worker", overflow="ellipsis", no_wrap=True)
    for column in ("grades", "mean", "severity"):
        table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    table.add_column("interval", no_wrap=True, min_width=14)
    table.add_column("corr.", justify="right", no_wrap=True, min_width=5)
    table.add_column("verdict", no_wrap=True, min_width=2 + max(map(len, VERDICTS)))
    for row in shown.to_dict("records"):
        mark = MARKS.get(row["verdict"], " ")
        table.add_row(
            escape(str(row["worker"])),
            *_among_others(row, "severity"),
            f"{row['grade_correlation']:.2f}",
            f"{mark} {row['verdict']}",
            style=COLOURS.get(mark, ""),
        )
    console.print(table)
    legend(
        "severity: by how many grades lower than the mean rater, on the same items; corr.: correlation of the grades with the "
        "true ones; x: do not use unchecked; !: talk to them"
    )


def _among_others(row: Mapping[Any, Any], quantity: str) -> list[str]:
    """Return the parts of a row on grades: their number and mean, and a quantity relative to the mean, with its interval."""
    low, high = row[f"{quantity}_low"], row[f"{quantity}_high"]
    return [
        f"{row['annotations']:,}",
        "none" if pd.isna(row["mean_grade"]) else f"{row['mean_grade']:.2f}",
        f"{row[quantity]:+.2f}",
        f"{low:+.2f} to {high:+.2f}" if pd.notna(low) else "none",
    ]


def show_criteria(posterior: Posterior, level: float) -> None:
    """Print how difficult each criterion is, if grades are by several."""
    if not has_criteria(posterior):
        return
    table = grid(
        f"Criteria, the most difficult ones first (intervals of {level:.0%})",
        ("grades", "mean", "difficulty", "interval"),
        name="criterion",
        no_wrap=True,
    )
    rows = posterior.criteria(level=level).sort_values("difficulty", ascending=False, kind="stable")
    for row in rows.head(SHOWN_WORKERS).to_dict("records"):
        table.add_row(escape(str(row["criterion"])), *_among_others(row, "difficulty"))
    console.print(table)
    legend(
        "difficulty: by how many grades lower than by the mean criterion, of the same items by the same raters; all in "
        "criteria.csv"
    )


def show_rater_fit(posterior: Posterior, level: float) -> None:
    """Print agreement on grades, and infit and outfit of raters, those first that are farthest from what is usual."""
    from crowdppl.report import grades  # here: slow to import

    content = grades.grades(posterior, level)
    if content is None:
        return
    if content["agreement"]:
        table = grid(
            f"Agreement of the raters (intervals of {level:.0%})",
            ("measure", "value", "interval", "items"),
            left=("measure", "interval"),
        )
        for row in content["agreement"]:
            table.add_row(*map(escape, row))
        console.print(table)
    if content["fit"] is None:
        return
    table = grid(
        f"Fit of raters, beside what is usual ({level:.0%}) if they differed in severity alone",
        ("grades", "infit", "usual", "p", "outfit", "usual", "p"),
        name="worker",
        no_wrap=True,
    )
    for row in content["fit"][:SHOWN_WORKERS]:
        table.add_row(*map(escape, row))
    console.print(table)
    console.print(escape(content["sentence"]))
    legend(
        "infit, outfit: mean squared residuals of a rater's grades given the others; above the usual range: grades follow the "
        "items more loosely than the crowd's"
    )
