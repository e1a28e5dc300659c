"""The caller's identifiers: columns of any kind in, integer codes and the identifiers themselves out.

Nothing here guesses: ``1`` and ``"1"`` are never merged, a column that mixes them is refused, and what was handed in is
what is given back.
"""

from __future__ import annotations

import datetime
import enum
import unicodedata
import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.errors import DataError, listed, suggestion

Array = npt.NDArray[Any]

# Names of these types are told apart by how they are written, and stand as strings from there on. Of others (bytes,
# tuples, lists, any object) the text is not a name: it may be long, ambiguous or the place in memory.
WRITTEN = (uuid.UUID, enum.Enum, datetime.date, datetime.time, datetime.timedelta, pd.Period, pd.Interval)


def rows_text(rows: Array, most: int = 5) -> str:
    """Name rows, given by their positions from 0, as a person counts them: from 1, the header not counted."""
    return f"row{'s' if len(rows) > 1 else ''} {listed([int(r) + 1 for r in rows], most)}"


def clean(series: pd.Series[Any], what: str, where: str) -> tuple[Array, Array]:
    """Bring a column to one type: integers, booleans or strings.

    Args:
        series: the column, ``(A,)``.
        what: what the column holds ("worker"), for the messages.
        where: where it stands ("labels.csv, column 'worker'"), for the messages.

    Returns:
        The identifiers ``(A,)`` (int64, uint64 where that is too small, booleans, or ``str`` objects) and a mask
        ``(A,)``, true where missing.

    Raises:
        DataError: for numbers that are not whole, for strings and numbers in one column, and for what is no name.
    """
    missing = series.isna().to_numpy(dtype=bool)
    if isinstance(series.dtype, pd.CategoricalDtype):
        try:
            names, _ = clean(pd.Series(series.cat.categories), what, where)
        except DataError:
            # Tell of rows, not of categories; and a category that no row has does no harm.
            return clean(series.astype(object), what, where)
        codes = series.cat.codes.to_numpy()
        if len(names) == 0:
            return np.zeros(len(series), dtype=np.int64), missing
        return names[np.where(missing, 0, codes)], missing
    present = series[~missing]
    if len(present) == 0:
        return np.zeros(len(series), dtype=np.int64), missing
    kind = pd.api.types.infer_dtype(present, skipna=False)
    if kind == "boolean":
        out = np.zeros(len(series), dtype=bool)
        out[~missing] = present.to_numpy(dtype=bool)
    elif kind == "integer":
        dtype = _width(int(present.min()), int(present.max()), what, where)
        out = np.zeros(len(series), dtype=dtype)
        out[~missing] = present.to_numpy(dtype=dtype)
    elif kind in ("floating", "mixed-integer-float", "decimal"):
        number = np.zeros(len(series))
        number[~missing] = present.to_numpy(dtype=float)
        broken = np.flatnonzero(~(np.isfinite(number) & (number == np.floor(number)) & (np.abs(number) < 2.0**53)))
        if len(broken):
            raise DataError(
                f"{where}, {rows_text(broken)}: {what} {number[broken[0]]:g} is not a whole number below 2^53; "
                f"use integers or strings as {what} names"
            )
        out = number.astype(np.int64)
    elif kind == "string":
        out = np.empty(len(series), dtype=object)
        # One string object for each name instead of each row: faster to make, and to compare from there on.
        codes, written = pd.factorize(present)
        out[~missing] = np.asarray(written, dtype=object)[codes]
    else:
        types = present.map(type).astype(object)
        counts = types.map(lambda t: t.__name__).value_counts()
        if types.nunique() > 1:
            rare = counts.index[-1]
            rows = np.flatnonzero(~missing)[types.map(lambda t: t.__name__ == rare).to_numpy(dtype=bool)]
            raise DataError(
                f"{where}: {what} names mix {' and '.join(counts.index)} ({rare} in {rows_text(rows, 3)}); "
                f"make them all strings or all integers"
            )
        if not issubclass(types.iloc[0], WRITTEN):
            raise DataError(f"{where}: {what} names are of type {counts.index[0]}; use integers or strings as names")
        out = np.empty(len(series), dtype=object)
        out[~missing] = [str(v) for v in present]
    return out, missing


def _width(low: int, high: int, what: str, where: str) -> type[np.int64] | type[np.uint64]:
    """Choose the integers that hold ``low`` and ``high``; conversion itself would wrap around without a word."""
    if low >= -(2**63) and high < 2**63:
        return np.int64
    if low >= 0 and high < 2**64:
        return np.uint64
    raise DataError(
        f"{where}: {what} numbers beyond 64 bits, or beyond 63 bits beside negative ones; pass them as strings"
    )


def encode(
    values: Array, declared: Iterable[Any] | None, what: str, where: str, *, rows: Array, ordered: bool
) -> tuple[Array, Array]:
    """Code identifiers as ``0 .. n-1``.

    Args:
        values: cleaned identifiers ``(A,)``, none missing.
        declared: the whole set in the order wanted, or ``None`` to take those that occur.
        what: what they are, for messages.
        where: where they stand, for messages.
        rows: positions of the values in the caller's table ``(A,)``, for messages.
        ordered: without ``declared``, sort the identifiers (labels) instead of keeping the order of appearance.

    Returns:
        Codes ``(A,)`` int64 and identifiers ``(n,)``.

    Raises:
        DataError: for a value outside the declared set, or a set that is empty or names something twice.
    """
    if declared is None:
        codes, names = pd.factorize(values, sort=ordered)
        return codes.astype(np.int64), np.asarray(names)
    names = _declared(declared, what)
    if len(values) and kind_of(names) != kind_of(values):
        raise DataError(
            f"{where}: {what}s are {kind_of(values)} but the declared {what}s are {kind_of(names)}; "
            f"declare them as {kind_of(values)}"
        )
    codes = positions(values, names)
    if (codes < 0).any():
        unknown = pd.unique(values[codes < 0]).tolist()
        raise DataError(
            f"{where}, {rows_text(rows[codes < 0])}: {what} {listed(unknown)} not among the declared {what}s "
            f"{listed(names.tolist(), 10)}{suggestion(unknown[0], names.tolist())}; declare it too, or mend the rows"
        )
    return codes, names


def _declared(declared: Iterable[Any], what: str) -> Array:
    # A string would be taken letter by letter, and a set has another order at every run.
    if isinstance(declared, (str, bytes, set, frozenset)) or not isinstance(declared, Iterable):
        raise DataError(
            f"the declared {what}s are of type {type(declared).__name__}; pass a list of all {what}s, in the order wanted"
        )
    names, missing = clean(pd.Series(list(declared), dtype=object), what, f"the declared {what}s")
    if len(names) == 0:
        raise DataError(f"no {what}s declared; list them all, or declare none to take those that occur")
    if missing.any():
        raise DataError(f"the declared {what}s hold a missing value; leave it out")
    again = pd.Index(names, dtype=names.dtype).duplicated()
    if again.any():
        raise DataError(f"the declared {what}s name {listed(pd.unique(names[again]).tolist())} twice; name each once")
    return names


def positions(values: Array, names: Array) -> npt.NDArray[np.int64]:
    """Return where each value ``(A,)`` stands in ``names`` ``(n,)``, -1 where it does not; both of one kind."""
    found = pd.Index(names, dtype=names.dtype).get_indexer(pd.Index(values, dtype=values.dtype))
    return found.astype(np.int64)


def kind_of(values: Array) -> str:
    """Tell what cleaned identifiers are; those of two kinds are never the same, ``1`` is neither ``"1"`` nor true."""
    return "strings" if values.dtype == object else "booleans" if values.dtype == bool else "integers"


def spaced(names: Array) -> list[str]:
    """Return the string identifiers that begin or end with white space."""
    if names.dtype != object:
        return []
    return [n for n in names.tolist() if n != n.strip()]


def case_variants(names: Array) -> list[str]:
    """Return the string identifiers that differ from an earlier one in capital letters only."""
    if names.dtype != object:
        return []
    forms = pd.Series([n.casefold() for n in names.tolist()], dtype=object)
    return names[forms.duplicated().to_numpy()].tolist()


def lookalikes(names: Array) -> list[str]:
    """Return the string identifiers that Unicode holds equal to an earlier one, such as two ways to write an accent."""
    if names.dtype != object:
        return []
    forms = [unicodedata.normalize("NFC", n) for n in names.tolist()]
    if len(set(forms)) == len(forms):
        return []
    return names[pd.Series(forms, dtype=object).duplicated().to_numpy()].tolist()
