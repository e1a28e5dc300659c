"""Workers on the terminal, and what their accuracy depends on."""

from __future__ import annotations

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console
from crowdppl.cli.display.grades import show_raters
from crowdppl.cli.display.shared import BAR, COLOURS, MARKS, SHOWN_WORKERS, grid, interval_bar, legend
from crowdppl.posterior.effects import has_effects
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.spans import MEASURES as SPAN_MEASURES
from crowdppl.posterior.workers import VERDICTS


def show_workers(workers: pd.DataFrame, level: float) -> None:
    """Print the workers with most annotations: accuracy, interval and verdict; of grades severity in place of accuracy."""
    ordered = workers.sort_values("annotations", ascending=False, kind="stable")
    shown = ordered.head(SHOWN_WORKERS)
    most = f", the {len(shown)} with most annotations" if len(shown) < len(ordered) else ""
    title = f"Workers{most} (intervals of {level:.0%})"
    if "severity" in workers:
        show_raters(shown, title)
        return
    if SPAN_MEASURES[0] in workers:
        _show_markers(shown, title)
        return
    table = grid(title)
    table.add_column("worker", overflow="ellipsis", no_wrap=True)
    table.add_column("annotations", justify="right", no_wrap=True, min_width=10)
    table.add_column("accuracy", justify="right", no_wrap=True, min_width=8)
    table.add_column("interval", no_wrap=True, min_width=8)
    table.add_column("0" + " " * (BAR - 2) + "1", no_wrap=True, min_width=BAR)
    table.add_column("verdict", no_wrap=True, min_width=2 + max(map(len, VERDICTS)))
    for row in shown.to_dict("records"):
        mean, low, high = (float(row[f"accuracy{end}"]) for end in ("", "_low", "_high"))
        mark = MARKS.get(row["verdict"], " ")
        table.add_row(
            escape(str(row["worker"])),
            f"{row['annotations']:,}",
            f"{mean:.0%}",
            f"{100 * low:.0f}–{high:.0%}" if pd.notna(low) else "none",
            interval_bar(mean, low, high),
            f"{mark} {row['verdict']}",
            style=COLOURS.get(mark, ""),
        )
    console.print(table)
    legend("accuracy: probability that a further annotation is correct; x: do not use unchecked; !: retrain")


def _show_markers(workers: pd.DataFrame, title: str) -> None:
    """Print workers who mark spans: how many, and which share of theirs, and of those that are there, is right."""
    table = grid(title)
    table.add_column("worker", overflow="ellipsis", no_wrap=True)
    for column in ("spans", "precision", "interval", "recall", "interval", "ends", "type"):
        table.add_column(column, justify="right", no_wrap=True, min_width=min(8, len(column)))
    for row in workers.to_dict("records"):
        cells = [f"{row['spans']:,}"]
        for name in SPAN_MEASURES:
            mean, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
            cells += ["", ""] if pd.isna(mean) else [f"{mean:.0%}", f"{100 * low:.0f}–{high:.0%}"]
        errors = [row["boundary_errors"], row["type_errors"]]
        table.add_row(escape(str(row["worker"])), *cells, *("" if pd.isna(part) else f"{part:.0%}" for part in errors))
    console.print(table)
    legend(
        "precision: share of the worker's spans that are right; recall: share of the spans there that the worker marked; ends, "
        "type: share of the worker's spans with wrong ends, or with a wrong type"
    )


def show_effects(posterior: Posterior, level: float) -> None:
    """Print what accuracy depends on, if the model has effects of covariates."""
    if not has_effects(posterior):
        return
    table = grid(
        "What accuracy depends on",
        ("accuracy, points", "interval", "log odds", "positive"),
        name="covariate",
        no_wrap=True,
    )
    rows = posterior.effects(level=level)
    for row in rows.head(SHOWN_WORKERS).to_dict("records"):
        change, low, high = (100 * float(row[f"accuracy_change{end}"]) for end in ("", "_low", "_high"))
        cells = [f"{change:+.1f}", f"{low:+.1f} to {high:+.1f}", f"{row['effect']:+.3g}"]
        table.add_row(escape(str(row["covariate"])), *cells, f"{row['probability_positive']:.0%}")
    console.print(table)
    console.print("points of accuracy for one unit more, or for a level in place of the baseline; all in effects.csv")
