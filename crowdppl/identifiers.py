"""The caller's identifiers: columns of any kind in, integer codes and the identifiers themselves out.

Nothing here guesses: ``1`` and ``"1"`` are never merged, a column that mixes them is refused, and what was handed in is
what is given back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.errors import DataError, listed, suggestion

Array = npt.NDArray[Any]


def rows_text(mask: Array, most: int = 5) -> str:
    """Name the rows (counted from 1, the header not counted) at which a mask is true."""
    rows = np.flatnonzero(mask) + 1
    return f"row{'s' if len(rows) > 1 else ''} {listed([int(r) for r in rows], most)}"


def clean(values: Any, what: str, where: str) -> tuple[Array, Array]:
    """Bring a column to one type: integers, booleans or strings.

    Args:
        values: the column, ``(A,)``: anything :class:`pandas.Series` takes.
        what: what the column holds ("worker"), for the messages.
        where: where it stands ("labels.csv, column 'worker'"), for the messages.

    Returns:
        The identifiers ``(A,)`` (integers, booleans or ``str`` objects) and a mask ``(A,)``, true where missing.

    Raises:
        DataError: for numbers that are not whole, and for strings and numbers in one column.
    """
    series = values if isinstance(values, pd.Series) else pd.Series(values)
    missing = series.isna().to_numpy(dtype=bool)
    if isinstance(series.dtype, pd.CategoricalDtype):
        names, _ = clean(pd.Series(series.cat.categories), what, where)
        codes = series.cat.codes.to_numpy()
        if len(names) == 0:
            return np.zeros(len(series), dtype=np.int64), missing
        return names[np.where(missing, 0, codes)], missing
    present = series[~missing]
    kind = pd.api.types.infer_dtype(present, skipna=False)
    if kind == "empty":
        return np.zeros(len(series), dtype=np.int64), missing
    if kind == "boolean":
        out = np.zeros(len(series), dtype=bool)
        out[~missing] = present.to_numpy(dtype=bool)
    elif kind == "integer":
        try:
            whole = present.to_numpy(dtype=np.int64)
        except OverflowError:
            whole = _unsigned(present, what, where)
        out = np.zeros(len(series), dtype=whole.dtype)
        out[~missing] = whole
    elif kind in ("floating", "mixed-integer-float"):
        number = series.to_numpy(dtype=float, na_value=np.nan)
        broken = ~missing & ~(np.isfinite(number) & (number == np.floor(number)) & (np.abs(number) < 2.0**53))
        if broken.any():
            first = number[broken][0]
            raise DataError(
                f"{where}, {rows_text(broken)}: {what} {first:g} is not a whole number; "
                f"use integers or strings as {what} names"
            )
        out = np.where(missing, 0, number).astype(np.int64)
    elif kind == "string":
        out = np.empty(len(series), dtype=object)
        out[~missing] = present.to_numpy(dtype=object)
    else:
        types = present.map(lambda v: type(v).__name__)
        if types.nunique() > 1:
            counts = types.value_counts()
            rare = counts.index[-1]
            mask = np.zeros(len(series), dtype=bool)
            mask[~missing] = (types == rare).to_numpy()
            raise DataError(
                f"{where}: {what} names mix {' and '.join(counts.index)} ({rare} in {rows_text(mask, 3)}); "
                f"make them all strings or all integers"
            )
        out = np.empty(len(series), dtype=object)
        out[~missing] = present.map(str).to_numpy(dtype=object)
    return out, missing


def _unsigned(present: pd.Series[Any], what: str, where: str) -> Array:
    try:
        return present.to_numpy(dtype=np.uint64)
    except OverflowError:
        raise DataError(
            f"{where}: {what} numbers beyond 64 bits, or beyond 63 bits beside negative ones; pass them as strings"
        ) from None


def encode(
    values: Array, declared: Iterable[Any] | None, what: str, where: str, *, ordered: bool
) -> tuple[Array, Array]:
    """Code identifiers as ``0 .. n-1``.

    Args:
        values: cleaned identifiers ``(A,)``, none missing.
        declared: the whole set in the order wanted, or ``None`` to take those that occur.
        what: what they are, for messages.
        where: where they stand, for messages.
        ordered: without ``declared``, sort the identifiers (labels) instead of keeping the order of appearance.

    Returns:
        Codes ``(A,)`` int64 and identifiers ``(n,)``.

    Raises:
        DataError: for a value outside the declared set, or a set that names something twice.
    """
    if declared is None:
        codes, names = pd.factorize(values, sort=ordered)
        return codes.astype(np.int64), np.asarray(names)
    names, missing = clean(list(declared), what, f"the declared {what}s")
    if missing.any():
        raise DataError(f"the declared {what}s hold a missing value; leave it out")
    if len(np.unique(names)) != len(names):
        twice = pd.Series(names)[pd.Series(names).duplicated()].tolist()
        raise DataError(f"the declared {what}s name {listed(twice)} twice")
    if len(values) and (names.dtype == object) != (values.dtype == object):
        raise DataError(
            f"{where}: {what}s are {_kind(values)} but the declared {what}s are {_kind(names)}; "
            f"declare them as {_kind(values)}"
        )
    index = pd.Index(names)
    codes = index.get_indexer(pd.Index(values))
    if (codes < 0).any():
        unknown = pd.unique(values[codes < 0]).tolist()
        raise DataError(
            f"{where}, {rows_text(codes < 0)}: {what} {listed(unknown)} not among the declared {what}s "
            f"{listed(names.tolist(), 10)}{suggestion(unknown[0], names.tolist())}"
        )
    return codes.astype(np.int64), names


def _kind(values: Array) -> str:
    return "strings" if values.dtype == object else "booleans" if values.dtype == bool else "integers"


def spaced(names: Array) -> list[str]:
    """Return the string identifiers that begin or end with white space."""
    if names.dtype != object:
        return []
    return [n for n in names.tolist() if n != n.strip()]
