"""What a table with a column for each worker may be instead: columns of classes, of items, or a legend, or a title above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.readers.worker_columns import names_an_item
from crowdppl.errors import DataError, listed

# Rows and columns from which equal sums of all rows are no chance.
_ROWS, _COLUMNS = 6, 3
# Columns from which a header with a single name is a title.
_WIDTH = 3


def refuse_title(table: pd.DataFrame, source: str) -> None:
    """Refuse a table whose header has a single name for many columns.

    Raises:
        DataError: saying which lines to delete.
    """
    names = [str(name).strip() for name in table.columns]
    filled = [name for name in names if name and not name.startswith("Unnamed:")]
    if len(names) >= _WIDTH and len(filled) == 1 and names[0] == filled[0]:
        raise DataError(
            f"{source}: the first line has a single name, {filled[0]!r}, for {len(names)} columns, as a title has; delete the "
            f"lines above the names of the columns"
        )


def without_blank_rows(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return a table without rows in which all cells are blank, and a note on them."""
    left = np.arange(len(table))
    for n in range(table.shape[1]):
        column = table.iloc[left, n]
        # Cells may be lists, which are compared with a text element by element.
        empty = [isinstance(value, str) and not value for value in column]
        left = left[column.isna().to_numpy(dtype=bool) | np.array(empty, dtype=bool)]
    if len(left) in (0, len(table)):
        return table, []
    blank = np.zeros(len(table), dtype=bool)
    blank[left] = True
    count = int(blank.sum())
    return table[~blank].reset_index(drop=True), [
        f"{source}: {count:,} blank {'row is' if count == 1 else 'rows are'} left out"
    ]


def notes_on_workers(table: pd.DataFrame, item: str, at: Sequence[int], source: str) -> list[str]:
    """Return notes on columns that are taken for workers and may be classes, items or another table.

    Args:
        table: one row per item.
        item: name of the column of items.
        at: positions of the columns of workers.
        source: name of the table in messages.
    """
    names = [str(table.columns[n]).strip() for n in at]
    return [*_of_sums(table, names, at, source), *_of_items(item, names, source), *_beyond(table, names, at, source)]


def _of_sums(table: pd.DataFrame, names: list[str], at: Sequence[int], source: str) -> list[str]:
    """Return a note where the numbers of each row have the same sum, as numbers of votes for each class.

    A class without a vote is a column of zeros, which is not among those of workers.
    """
    zero = [n for n in range(table.shape[1]) if n not in at and _is_zero(table.iloc[:, n])]
    names, at = [*names, *(str(table.columns[n]).strip() for n in zero)], [*at, *zero]
    if len(at) < _COLUMNS or len(table) < _ROWS:
        return []
    numbers = table.iloc[:, list(at)].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    sums = numbers.sum(1)
    if (
        not np.isfinite(numbers).all()
        or (numbers < 0).any()
        or np.ptp(sums) > 0
        or ((np.ptp(numbers, axis=0) == 0) & (numbers[0] != 0)).any()
        or sums[0] == 0
    ):
        return []
    what = "a 1 for the class of an item" if sums[0] == 1 else f"{sums[0]:g} votes for classes"
    return [
        f"{source}: the numbers of each row have the sum {sums[0]:g}, as where columns are classes with {what}; if "
        f"{listed(names, 3)} are classes and no workers, this is no table of workers: use Annotations.from_counts"
    ]


def _is_zero(column: pd.Series[Any]) -> bool:
    return bool((pd.to_numeric(column, errors="coerce") == 0).all())


def _of_items(item: str, names: list[str], source: str) -> list[str]:
    """Return a note where the columns are items by their names, and the first column is not."""
    items = [name for name in names if names_an_item(name)]
    if len(names) < 2 or 2 * len(items) <= len(names):
        return []
    return [
        f"{source}: columns {listed(items, 3)} are read as workers, and {item!r} as the column of items, though these look like "
        f"items; if each row is of a worker, transpose the table"
    ]


def _beyond(table: pd.DataFrame, names: list[str], at: Sequence[int], source: str) -> list[str]:
    """Return a note on columns to the right of one without a name and a value, as a legend beside a table."""
    empty: list[Any] = [
        n for n, name in enumerate(table.columns) if not str(name).strip() and bool(table.iloc[:, n].isna().all())
    ]
    right = [name for n, name in zip(at, names, strict=True) if empty and n > empty[0]]
    if not right or len(right) == len(names):
        return []
    return [
        f"{source}: {listed(right, 4)} to the right of a blank column {'is' if len(right) == 1 else 'are'} read as workers; "
        f"if this is another table, such as a legend, delete it, or name the workers with workers=[...]"
    ]
