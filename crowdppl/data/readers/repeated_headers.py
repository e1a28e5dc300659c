"""Headers that are repeated inside a table, where files were concatenated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import FileError, listed

# Frame attribute: the sentence about rows that repeat the header.
HEADER_ROWS = "crowdppl_header_rows"

Codes = npt.NDArray[Any]


def repeated_header(
    names: Sequence[str], sizes: Sequence[int], column: Callable[[int], tuple[Codes, Sequence[Any]]], source: str
) -> npt.NDArray[np.bool_] | None:
    """Return which rows repeat the header, ``(rows,)``; ``None`` for none.

    Capitals, white space, quotes and byte-order marks around a name do not matter. The work is in the distinct values of columns.

    Args:
        names: names of the columns.
        sizes: number of distinct values of each column.
        column: returns for the number of a column the code of each row, ``(rows,)`` and -1 for a missing value, and the distinct
            values. It is called for few columns where no header is repeated.
        source: name of the table in messages.

    Raises:
        FileError: if a row has the names of the columns in another order: the rows after it have other columns.
    """
    header = [_bare(name) for name in names]
    known = set(header) - {""}
    if len(known) < 2:
        return None
    # Few columns have a cell with the name of a column: the shortest list of values is looked at first.
    rows: npt.NDArray[np.bool_] | None = None
    for n in sorted(range(len(names)), key=sizes.__getitem__):
        codes, values = column(n)
        matching = [code for code, value in enumerate(values) if _bare(value) in known]
        here = np.isin(codes, [*matching, -1] if header[n] == "" else matching)
        rows = here if rows is None else rows & here
        if not rows.any():
            return None
    columns = [column(n) for n in range(len(names))]
    rows = np.zeros(0, dtype=bool) if rows is None else rows
    for row in np.flatnonzero(rows).tolist():
        cells = [_bare(values[codes[row]]) if codes[row] >= 0 else "" for codes, values in columns]
        if cells == header:
            continue
        if sorted(cells) == sorted(header):
            raise FileError(
                f"{source}, line {row + 2:,}: the names of the columns again, in another order ({listed(cells, 6)}); files with "
                f"different columns were joined: read them one by one"
            )
        rows[row] = False
    return rows if rows.any() else None


def header_note(rows: npt.NDArray[np.bool_], source: str) -> str:
    """Return the sentence about the rows that repeat the header."""
    at = np.flatnonzero(rows) + 2
    lines = f"{'line' if len(at) == 1 else 'lines'} {listed(at.tolist(), 3)}"
    what = "1 row that repeats" if len(at) == 1 else f"{len(at):,} rows that repeat"
    return f"{source}: {what} the header left out ({lines}), as in files that were joined"


def _bare(value: Any) -> str:
    return str(value).strip("\ufeff\u200b\u00a0 \t\r\n\"'").casefold()
