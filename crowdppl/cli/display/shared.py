"""Parts of several tables, and sentences, on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich import box
from rich.markup import escape
from rich.table import Table

from crowdppl.cli.application import console, in_command
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import NOTABLE, UNRELIABLE

if TYPE_CHECKING:
    from crowdppl.posterior.numbers import NumericPosterior

SHOWN_ITEMS = 12
SHOWN_WORKERS = 20
BAR = 10  # characters
# Marks before verdicts, so that they are also visible without colour.
MARKS = dict.fromkeys(NOTABLE, "!") | dict.fromkeys(UNRELIABLE, "x")
COLOURS = {"!": "yellow", "x": "red"}


def grid(
    title: str,
    columns: Iterable[str] = (),
    *,
    left: Container[str] = (),
    name: str | None = None,
    no_wrap: bool = False,
) -> Table:
    """Return a table without rows.

    Args:
        title: above it.
        columns: their headings; numbers stand on the right.
        left: those of them that have words.
        name: heading of a column before them, of names, which are cut where the terminal is narrow.
        no_wrap: whether the columns keep to one line.
    """
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    if name is not None:
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=no_wrap)
    return table


def show_alert(posterior: Posterior | NumericPosterior) -> None:
    """Print first of all that the chains have not converged, or that classes were lost, if so."""
    if posterior.alert:
        console.print(f"[bold red]{escape(in_command(posterior.alert))}[/bold red]")


def show_notes(sentences: Sequence[str]) -> None:
    """Print sentences as notes."""
    for sentence in sentences:
        console.print(f"[yellow]Note:[/yellow] {escape(in_command(sentence))}")


def legend(sentence: str) -> None:
    """Print what columns of a table mean."""
    console.print(sentence, style="dim")


def and_more(rows: Sized, shown: int, what: str) -> None:
    """Say how many rows a table has beyond those that are shown.

    Args:
        rows: all of them.
        shown: how many are shown at most.
        what: what the others are, and where.
    """
    if len(rows) > shown:
        legend(f"... and {len(rows) - shown:,} more {what}")


def show_report(path: Path) -> None:
    """Print where the report is."""
    console.print(f"Wrote {escape(str(path))} ({path.stat().st_size / 1e6:.1f} MB): open it in a browser.")


def show_first(
    rows: pd.DataFrame,
    title: str,
    columns: Sequence[str],
    numbers: Collection[str],
    written: Callable[[dict[Any, Any]], list[str]],
    file: str,
) -> None:
    """Print the first rows, the least certain ones, if there are any.

    Args:
        rows: in this order.
        title: of the table.
        columns: its columns.
        numbers: those of them that are numbers.
        written: the parts of a row.
        file: that has all rows.
    """
    shown = rows.head(SHOWN_ITEMS)
    if len(shown) == 0:
        return
    table = grid(title, columns, left=set(columns) - set(numbers))
    for row in shown.to_dict("records"):
        table.add_row(*map(escape, written(row)))
    console.print(table)
    if len(rows) > len(shown):
        console.print(f"... and {len(rows) - len(shown):,} more in {file}")


def interval_bar(mean: float, low: float, high: float, ring: float = math.nan, width: int = BAR) -> str:
    """Draw an interval and its mean on the scale from 0 to 1, as text, perhaps with a ring at another value."""
    if pd.isna(low):
        low = high = mean

    def cell(x: float) -> int:
        return max(0, min(width - 1, int(x * width)))

    line = ["·"] * width
    line[cell(low) : cell(high) + 1] = ["─"] * (cell(high) - cell(low) + 1)
    if pd.notna(ring):
        line[cell(ring)] = "○"
    line[cell(mean)] = "●"
    return "".join(line)
