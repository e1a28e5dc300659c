"""The comparison of two results on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console
from crowdppl.cli.display.shared import SHOWN_ITEMS, SHOWN_WORKERS, and_more, grid, legend

if TYPE_CHECKING:
    from crowdppl import criticism


def show(changes: criticism.Changes) -> None:
    """Print what changed between two results: sentences, then items and workers, the surest changes first."""
    console.print("[bold]What changed[/bold]")
    for sentence in changes.summary:
        console.print(f"- {escape(sentence)}")
    if len(changes.items):
        _show_items(changes.items, "grade" if changes.measure == "severity" else "label")
    if len(changes.workers):
        _show_workers(changes.workers, changes.level, changes.measure)


def _show_items(items: pd.DataFrame, what: str) -> None:
    table = grid(f"\nItems with another {what}")
    table.add_column("item", max_width=22, overflow="ellipsis", no_wrap=True)
    table.add_column("earlier", max_width=20, overflow="ellipsis", no_wrap=True)
    table.add_column("later", max_width=20, overflow="ellipsis", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in items.head(SHOWN_ITEMS).to_dict("records"):
        cells = (
            str(row[items.columns[0]]),
            *(_label(row[end], row[f"probability_{end}"]) for end in ("earlier", "later")),
        )
        table.add_row(*map(escape, cells), "changed" if row["sure"] else "undecided")
    console.print(table)
    and_more(items, SHOWN_ITEMS, "items")


def _label(label: object, probability: float, width: int = 14) -> str:
    """Return a label, cut where it is long, with its probability."""
    text = str(label)
    return f"{text if len(text) <= width else text[: width - 1] + '…'} {probability:.0%}"


def _show_workers(workers: pd.DataFrame, level: float, measure: str) -> None:
    severity = measure == "severity"
    table = grid(f"\n{measure.capitalize()} of workers of both results (intervals of {level:.0%})")
    table.add_column("worker", max_width=20, overflow="ellipsis", no_wrap=True)
    for name in ("earlier", "later", "difference", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in workers.head(SHOWN_WORKERS).to_dict("records"):
        known = pd.notna(row["difference"])
        before, after = (f"{row[end]:+.2f}" if severity else f"{row[end]:.0%}" for end in ("earlier", "later"))
        difference, low, high = (
            f"{row[name]:+.2f}" if severity else f"{100 * row[name]:+.0f}" if known else "–"
            for name in ("difference", "low", "high")
        )
        table.add_row(
            escape(str(row["worker"])),
            before,
            after,
            difference if known else "–",
            f"{low} to {high}" if known else "–",
            "changed" if row["changed"] else "may be noise",
            style=None if row["changed"] else "dim",
        )
    console.print(table)
    and_more(workers, SHOWN_WORKERS, "workers")
    unit = (
        "grades, by how many those of a rater are lower than those of the mean rater of both results"
        if severity
        else "percentage points"
    )
    legend(f"Differences are in {unit}.")
