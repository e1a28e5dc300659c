"""Finding the columns of a table: by the names that the caller gives, or by default names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from crowdppl.data.frames import to_series
from crowdppl.data.readers.repeated_headers import HEADER_ROWS
from crowdppl.data.readers.table_kinds import kind_of
from crowdppl.data.readers.tables import UNQUOTED
from crowdppl.data.readers.worker_columns import looks_wide
from crowdppl.errors import DataError, listed, suggestion

# Default names of the columns; the first one that a table has is used.
ITEM_COLUMNS = ("task", "item")
WORKER_COLUMNS = ("worker",)
LABEL_COLUMNS = ("label",)
ROLES = ("task", "worker", "label")
# Rows in which the name of a column is looked for among its values.
_ROWS = 1_000
# Lines below the first one in which a header is looked for, for messages.
_TITLE = 20


def series(values: Any, name: str) -> pd.Series[Any]:
    """Return an array of the caller as a column; lists become objects, since NumPy would turn mixed numbers into strings.

    Raises:
        DataError: if it is not a one-dimensional array.
    """
    values = to_series(values)
    shape = tuple(getattr(values, "shape", (0,)))
    if isinstance(values, (str, bytes, set, frozenset, Mapping)) or not isinstance(values, Iterable) or len(shape) != 1:
        kind = f"has shape {shape}" if len(shape) != 1 else f"is of type {type(values).__name__}"
        raise DataError(f"{name} {kind}; pass three one-dimensional arrays of equal length")
    torch = sys.modules.get("torch")  # without it there is no tensor, and it is slow to import
    if torch is not None and isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    if hasattr(values, "dtype"):
        if getattr(values.dtype, "kind", "") == "V":
            fields = f" with the fields {listed(values.dtype.names)}" if values.dtype.names else ""
            raise DataError(f"{name} is an array of records{fields}; pass one of its columns, or all as a frame")
        try:
            return pd.Series(values).reset_index(drop=True)
        except (TypeError, ValueError):
            raise DataError(f"{name} is of the type {values.dtype}; pass integers or strings") from None
    return pd.Series(list(values), dtype=object)


def column_of(
    frame: pd.DataFrame, name: Any, defaults: tuple[str, ...], source: str, fix: str, argument: str | None = None
) -> Any:
    """Find a column by its name as text and return the name itself, which may be a number.

    Args:
        frame: the table.
        name: name given by the caller; ``None`` for the first of ``defaults`` that exists.
        defaults: default names.
        source: name of the table in messages.
        fix: what to do if no default name exists, for the message.
        argument: argument with which the caller named the column.

    Raises:
        DataError: if there is no such column, or more than one.
    """
    columns = [str(c) for c in frame.columns]
    candidates = (str(name),) if name is not None else defaults
    match = next((candidate for candidate in candidates if candidate in columns), None)
    if match is None and name is None:
        match = usual_column(columns, defaults)
    if match is None:
        missing = f"{' or '.join(map(repr, candidates))}{suggestion(candidates[0], columns)}"
        if name is not None and argument is not None:
            raise DataError(
                f"{source}: no column {missing}, which {argument}=... names; columns are {listed(columns, 12)}"
            )
        raise DataError(f"{source}: no column {missing}; columns are {listed(columns, 12)}; {fix}")
    if columns.count(match) > 1:
        raise DataError(f"{source}: {columns.count(match)} columns are named {match!r}; rename or drop all but one")
    return frame.columns[columns.index(match)]


def usual_column(columns: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the column with a usual name, which may differ in capitals and in white space around it where only one does."""
    exact = next((name for name in usual if name in columns), None)
    alike = [name for name in columns if name.strip("\ufeff\u200b\u00a0 \t\r\n").lower() in usual]
    return exact if exact is not None or len(alike) != 1 else alike[0]


def item_column(name: Any) -> str:
    """Return the name of the item column in tables of results, given its name in the input."""
    return "item" if str(name).strip().lower() == "item" else "task"


def three_columns(frame: pd.DataFrame, given: Sequence[Any], source: str) -> list[Any]:
    """Find the columns of task, worker and label: those given, or by default names where ``None``.

    Raises:
        DataError: if one is missing, or two are the same column.
    """
    defaults = (ITEM_COLUMNS, WORKER_COLUMNS, LABEL_COLUMNS)
    find = partial(column_of, frame, source=source)
    named = {
        role: find(name, names, fix="", argument=role)
        for name, names, role in zip(given, defaults, ROLES, strict=True)
        if name is not None
    }
    _require_usual_columns(frame, given, source)
    columns = [
        named[role] if role in named else find(None, names, fix="") for names, role in zip(defaults, ROLES, strict=True)
    ]
    if len(set(columns)) < len(columns):
        raise DataError(f"{source}: task, worker and label must be three different columns, not {listed(columns)}")
    return columns


def _require_usual_columns(frame: pd.DataFrame, given: Sequence[Any], source: str) -> None:
    """Check that a table has the usual columns where the caller named none, and name all that it lacks in one error.

    Raises:
        DataError: if one is missing; it names the format of tables with a column for each worker where the table seems to be one.
    """
    names = [str(name) for name in frame.columns]
    lacking = {
        role: usual
        for role, name, usual in zip(ROLES, given, (ITEM_COLUMNS, WORKER_COLUMNS, LABEL_COLUMNS), strict=True)
        if name is None and usual_column(names, usual) is None
    }
    if not lacking:
        return
    missing = ", ".join(
        # A default name is short, and the caller has not written it: only what is much the same is meant.
        f"no column {' or '.join(map(repr, usual))}{suggestion(usual[0], names, 0.7)}"
        for usual in lacking.values()
    )
    fix = kind_of(frame) if "worker" in lacking else ""
    fix = fix or _elsewhere(frame, names, {name for usual in lacking.values() for name in usual}, len(lacking))
    if not fix:
        fix = "name " + ", ".join(f"the {role} column with {role}=..." for role in lacking)
        fix += "; if each worker has a column, name format='wide'" if looks_wide(frame) else ""
    raise DataError(f"{source}: {missing}; columns are {listed(names, 12)}; {fix}")


def _elsewhere(frame: pd.DataFrame, names: Sequence[str], wanted: set[str], count: int) -> str:
    """Return where the names of ``count`` missing columns are otherwise: in the index, below a title, or in a single cell."""
    indexed = [str(name) for name in frame.index.names if name is not None and str(name) in wanted]
    if indexed:
        return f"{listed(indexed)} {'is' if len(indexed) == 1 else 'are'} in the index of the frame: pass frame.reset_index()"
    for n in range(min(len(frame), _TITLE)):
        cells = {str(cell).strip() for cell in frame.iloc[n].tolist()}
        if len(cells & wanted) >= count and len(cells) > 1:
            return f"row {n + 1} has the names of the columns: delete the lines above it"
    if any("\0" in name for name in names):
        return "the file is text in UTF-16 without a byte-order mark: save it as UTF-8"
    if len(named_as_values(frame, frame.columns)) >= 3:
        return "the first line seems to be an annotation: add a line with the names of the columns above it"
    lines = [names[0], *map(str, frame.iloc[:_TITLE, 0].tolist())] if len(names) == 1 else []
    parts = [{part.strip(" \"'") for part in re.split(r"[|,;:\t]|\s+", line)} for line in lines]
    if any(len(wanted & one) >= count for one in parts):
        return "the file has a single column: separate columns by commas, tabs or semicolons, without other lines"
    return ""


def named_as_values(frame: pd.DataFrame, columns: Iterable[Any]) -> list[str]:
    """Return the columns whose name is a value in them, as in tables without a header, of which the first row is lost.

    Names that are numbers are those of an array, which has none.
    """
    out = []
    for column in columns:
        if not isinstance(column, str):
            continue
        values = frame[column]
        if not isinstance(values, pd.DataFrame) and str(column).strip():
            # One by one: older pandas cannot write lists of Arrow as text.
            out += [column] if any(str(value) == column for value in values.iloc[:_ROWS].tolist()) else []
    return out


def reader_notes(frame: pd.DataFrame, columns: Sequence[Any], source: str) -> tuple[str, ...]:
    """Return notes on what a reader changed: repeated headers left out, and quotes that protect against formulas removed."""
    restored = frame.attrs.get(UNQUOTED, {})
    headers = (frame.attrs[HEADER_ROWS],) if HEADER_ROWS in frame.attrs else ()
    return headers + tuple(
        f"{source}, column {column!r}: {len(restored[column]):,} names read without the quote that keeps spreadsheets from "
        f"running them ({listed(restored[column], 3)})"
        for column in columns
        if column in restored
    )


def candidate_names(given: Any, defaults: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that a column may have: the given one, if any, then the default ones."""
    return defaults if given is None else tuple(dict.fromkeys((str(given), *defaults)))
