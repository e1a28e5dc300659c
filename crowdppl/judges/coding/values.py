"""Columns of a table of verdicts that are not names: numbers, times, the order of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import Coded, coded, rows_text
from crowdppl.data.table.questions import codes
from crowdppl.data.table.timestamps import EPOCH, since_1970
from crowdppl.errors import DataError, listed

Array = npt.NDArray[Any]

# Numbers above this are milliseconds since 1970: as seconds, they would be in the year 5138 or later.
_MILLISECONDS = 1e11
# The years that datetime64 in microseconds holds, and more than any data has.
_LATEST = 8e12
_SWAPPED = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "no": 0, "yes": 1}


def names(column: pd.Series[Any], what: str, where: str) -> Coded:
    """Return a column of names as codes; blank texts are missing, too.

    Raises:
        DataError: as :func:`crowdppl.data.table.identifiers.coded`.
    """
    every = coded(column, what, where)
    if every.names.dtype != object:
        return every
    blank = np.array([not name.strip() for name in every.names.tolist()], dtype=bool)
    if not blank.any():
        return every
    present = ~np.append(blank, True)[every.codes]
    codes = np.full(len(every.codes), -1, dtype=np.int64)
    rest = every.take(np.flatnonzero(present))
    codes[present] = rest.codes
    return Coded(codes, rest.names)


def named(names: Array, codes: Array) -> Array:
    """Return the name of each code, ``None`` for -1, ``(n,)``."""
    return np.append(names.astype(object), [None])[codes]


def constant(codes: Array, group: Array, count: int) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the code that each group has ``(count,)``, -1 without one, and the rows that contradict it.

    Args:
        codes: code of each row ``(n,)``, -1 if not stated.
        group: group of each row ``(n,)``.
        count: number of groups.
    """
    stated = np.flatnonzero(codes >= 0)
    out = np.full(count, -1, dtype=np.int64)
    out[group[stated[::-1]]] = codes[stated[::-1]]  # the first one of each group is assigned last
    return out, stated[codes[stated] != out[group[stated]]]


def numbers(column: pd.Series[Any], what: str, where: str, at_least: float | None = None) -> npt.NDArray[np.float64]:
    """Return a column of finite numbers as floats ``(n,)``, NaN if blank.

    Raises:
        DataError: for other values, and for numbers below ``at_least``.
    """
    values, blank = _stated(column)
    number = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    wrong = ~blank.to_numpy() & ~np.isfinite(number)
    _refuse(values, wrong, where, "is not a finite number; correct it or leave it blank")
    if at_least is not None:
        _refuse(values, number < at_least, where, f"is a {what} below {at_least:g}; correct it or leave it blank")
    return number


def times(column: pd.Series[Any], where: str, notes: list[str]) -> npt.NDArray[np.datetime64]:
    """Return dates, or numbers of seconds or milliseconds since 1970, as ``datetime64[us]`` in UTC, NaT if blank.

    Args:
        column: as in the table, ``(n,)``.
        where: location of the column, for messages.
        notes: receives how the times were read, where a convention decides.

    Raises:
        DataError: for other values.
    """
    values, blank = _stated(column)
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    seconds = np.full(len(column), np.nan)
    why = ""
    # Tools of one log may write numbers and dates, and seconds and milliseconds.
    for rows in (~np.isnan(numbers), np.isnan(numbers) & ~blank.to_numpy()):
        if rows.any():
            read, how = since_1970(column[rows])
            seconds[rows] = read.to_numpy(dtype=float)
            unread = np.isnan(seconds[rows]).any()
            notes += [f"{where}: {note}" for note in how if not unread]
            why = next((note.partition(" left out: ")[2] for note in how if unread and "first" in note), why)
    seconds = np.where(np.isnan(seconds) & (np.abs(numbers) >= EPOCH), numbers, seconds)
    seconds = np.where(np.abs(seconds) >= _MILLISECONDS, seconds / 1000, seconds)
    wrong = ~blank.to_numpy() & ~(np.abs(seconds) < _LATEST)
    if wrong.any() and why:  # the day or the month comes first
        advice = why.rpartition("write ")[2]
        raise DataError(f"{where}, {rows_text(np.flatnonzero(wrong))}: {why.partition(';')[0]}; write {advice}")
    _refuse(values, wrong, where, "is not a date, or a number of seconds since 1970; correct it or leave it blank")
    out = np.full(len(seconds), np.datetime64("NaT", "us"))
    present = np.isfinite(seconds)
    out[present] = np.round(seconds[present] * 1e6).astype(np.int64).astype("datetime64[us]")
    return out


def orders(column: pd.Series[Any], where: str) -> npt.NDArray[np.int8]:
    """Return whether the two answers of a pair were shown in reverse order, ``(n,)``: 1, 0, or -1 if blank.

    Raises:
        DataError: for other values.
    """
    values, blank = _stated(column)
    order = values.map(lambda value: _SWAPPED.get(str(value).strip().casefold(), -2))
    _refuse(
        values, (~blank & (order == -2)).to_numpy(), where, "is not true, false, 1 or 0; correct it or leave it blank"
    )
    return np.where(blank, -1, order).astype(np.int8)


def repeated_rows(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows equal an earlier one in every column, ``(n,)``."""
    columns = {n: codes(frame.iloc[:, n]) for n in range(frame.shape[1])}
    return pd.DataFrame(columns, index=range(len(frame))).duplicated().to_numpy()


def _stated(column: pd.Series[Any]) -> tuple[pd.Series[Any], pd.Series[bool]]:
    """Return a column of objects with ``None`` for blank values, and which are blank, ``(n,)`` each."""
    values = column.astype(object).copy()
    blank = values.isna() | values.map(lambda value: isinstance(value, str) and not value.strip()).astype(bool)
    values[blank] = None
    return values, blank


def _refuse(values: pd.Series[Any], wrong: Array, where: str, reason: str) -> None:
    if wrong.any():
        rows = np.flatnonzero(wrong)
        raise DataError(f"{where}, {rows_text(rows)}: {listed([values.iloc[rows[0]]])} {reason}")
