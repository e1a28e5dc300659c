"""Cells of a table that hold whole lines of it, where a quotation mark was left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow
import pyarrow.compute as pc

from crowdppl.errors import FileError

# Tables with fewer columns have lines like those of any text; of so many cells with such lines, one is enough.
_COLUMNS, _MOST = 3, 20


def require_closed(
    header: Sequence[str], values: Sequence[Any], row_of: Callable[[int, str], int], separator: str, source: str
) -> None:
    """Refuse a table in which a cell has lines with as many separators as the table, and cells of the table between these.

    Such lines became a part of the cell because a quotation mark before them is not closed, and their annotations are lost.

    Args:
        header: names of the columns.
        values: distinct values of each column, text as an array of Arrow; ``None`` for a column that is not read.
        row_of: returns the number of the first row with a value in a column.
        separator: separator of the columns.
        source: name of the table in messages.

    Raises:
        FileError: naming the row, the column and a line in the cell.
    """
    if len(header) < _COLUMNS:
        return
    sign = f"\\x{ord(separator):02x}"
    pattern = rf"\n[^\n{sign}]*({sign}[^\n{sign}]*){{{len(header) - 1}}}(\n|$)"
    for n, texts in enumerate(values):
        if texts is None or not (pyarrow.types.is_string(texts.type) or pyarrow.types.is_large_string(texts.type)):
            continue
        for cell in texts.filter(pc.match_substring_regex(texts, pattern)).slice(0, _MOST).to_pylist():
            first, *lines = cell.replace("\r", "").split("\n")
            # The rest of the row in which the cell begins, and the beginning of that in which it ends: a text with lines like
            # those of the table that is quoted as it should be has neither.
            if first.count(separator) != len(header) - 1 - n or lines[-1].count(separator) != n:
                continue
            line = next((line for line in lines if _is_row(line.split(separator), values, n)), None)
            if line is not None:
                raise FileError(
                    f"{source}, row {row_of(n, cell) + 1:,}, column {header[n]!r}: the cell holds whole lines of the table, "
                    f"such as {line!r}, since a quotation mark before them is not closed; close it, or write it twice if it is "
                    f"part of the text"
                )


def _is_row(cells: Sequence[str], values: Sequence[Any], at: int) -> bool:
    """Return whether most cells of a line are values of their columns, that of the cell with this line left out."""
    if len(cells) != len(values):
        return False
    pairs = enumerate(zip(cells, values, strict=True))
    others = [(cell, texts) for n, (cell, texts) in pairs if n != at and texts is not None]
    known = sum(
        bool(cell) and bool(pc.any(pc.equal(texts.cast(pyarrow.large_string()), cell)).as_py())
        for cell, texts in others
    )
    return len(others) > 1 and 2 * known >= len(others)
