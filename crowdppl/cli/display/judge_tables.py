"""Parts of the tables of judges on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console
from crowdppl.cli.display.shared import SHOWN_WORKERS, and_more, grid

BAR = 12  # characters of a bar, with a ring
# Characters of a name that are shown at least, if other columns can be left out for it.
NAME = 16


def show_table(
    title: str,
    rows: list[dict[str, str]],
    names: set[str],
    styles: list[str | None] | None = None,
    spare: tuple[str, ...] = (),
) -> None:
    """Print a table. Where the terminal is narrow, names are shortened and some columns are left out, but numbers are complete.

    Args:
        title: above it.
        rows: cells by heading.
        names: headings of the columns of names.
        styles: of the rows.
        spare: columns that are left out where names would be shortened to less than ``NAME`` characters, in order.
    """
    widths = {heading: max(len(heading), *(len(row[heading]) for row in rows)) for heading in rows[0]}
    kept, left = list(widths), list(spare)
    while True:
        # A character of the box and a blank at either side, and three between columns.
        room = console.width - 3 * len(kept) - 1 - sum(widths[heading] for heading in kept if heading not in names)
        each = room // sum(heading in names for heading in kept)
        if each >= min(NAME, max(widths[heading] for heading in kept if heading in names)) or not left:
            break
        dropped = left.pop(0)
        kept = [heading for heading in kept if heading != dropped]
    table = grid(f"\n{escape(title)}")
    for heading in kept:
        if heading in names:
            table.add_column(heading, overflow="ellipsis", no_wrap=True, max_width=max(each, 1))
        else:
            table.add_column(heading, justify="right", no_wrap=True, min_width=widths[heading])
    for row, style in zip(rows, styles or [None] * len(rows), strict=True):
        table.add_row(*(escape(row[heading]) for heading in kept), style=style)
    console.print(table)


def show_rows(
    title: str,
    table: pd.DataFrame,
    cells: Callable[[dict[Any, Any]], dict[str, str]],
    names: set[str],
    more: str,
    *,
    spare: tuple[str, ...] = (),
    style: Callable[[dict[str, str]], str | None] | None = None,
) -> None:
    """Print the first rows of a table, and how many more it has.

    Args:
        title: above it.
        table: with one row at least.
        cells: of a row, by heading.
        names: headings of the columns of names.
        more: what further rows are, and the file that has all.
        spare: as for :func:`show_table`.
        style: of a row, by its cells.
    """
    rows = [cells(row) for row in table.head(SHOWN_WORKERS).to_dict("records")]
    show_table(title, rows, names, [style(row) for row in rows] if style else None, spare)
    and_more(table, SHOWN_WORKERS, more)


def rate(value: float, share: bool) -> str:
    """Return a rate, as a percentage if it is a share."""
    return "none" if pd.isna(value) else f"{value:.1%}" if share else f"{value:.2f}"


def change(row: dict[Any, Any], name: str) -> str:
    """Return a signed difference with its interval."""
    return f"{row[name]:+.3f} ({row[f'{name}_low']:+.3f} to {row[f'{name}_high']:+.3f})"


def between(low: float, high: float, share: bool) -> str:
    """Return an interval in parentheses."""
    return f"({100 * low:.1f}–{100 * high:.1f})" if share else f"({low:.2f}–{high:.2f})"


def ranks(low: float, high: float) -> str:
    """Return a range of ranks, or the only one."""
    return f"{low:.0f}" if low == high else f"{low:.0f}–{high:.0f}"


def number(value: Any, signed: bool) -> str:
    """Return a number with two decimals, with its sign if it is a difference."""
    return "none" if pd.isna(value) else f"{value:+.2f}" if signed else f"{value:.2f}"
