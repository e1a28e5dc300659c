"""The caller's identifiers: columns of any type in, integer codes and the distinct identifiers out.

Identifiers are never changed or merged: ``1`` and ``"1"`` are different, a column that mixes them is refused, and results report
identifiers as they were passed.
"""

from __future__ import annotations

import datetime
import enum
import re
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow

from crowdppl.errors import DataError, listed, suggestion

Array = npt.NDArray[Any]

# Identifiers of these types are converted to strings. The text of other objects (bytes, tuples, lists) is not a usable name: it
# may be long, ambiguous or a memory address.
CONVERTED_TO_STRINGS = (uuid.UUID, enum.Enum, datetime.date, datetime.time, datetime.timedelta, pd.Period, pd.Interval)


# Number of codes processed at a time: fits into the processor's caches.
_BLOCK = 2**15
# Halves of characters beyond the first 65,536, as broken JSON has them.
_HALVES = re.compile(r"[\ud800-\udfff]")
_NUMBERS = ("boolean", "integer", "floating", "mixed-integer-float", "decimal")
# Older versions of pandas compare strings up to their first NUL character only, and would merge two names.
_CUT_AT_NUL = len(pd.unique(np.array(["a", "a\0"], dtype=object))) == 1


def rows_text(rows: Array, most: int = 5, of: Array | None = None) -> str:
    """Return rows as text, numbered from 1 without the header.

    Args:
        rows: positions from 0.
        most: number of rows to list.
        of: rows of the table that the positions refer to. Defaults to all of them.
    """
    rows = rows if of is None else of[rows]
    return f"row{'s' if len(rows) > 1 else ''} {listed([int(r) + 1 for r in rows], most)}"


class Coded(NamedTuple):
    """A column of ``A`` identifiers as codes.

    Attributes:
        codes: index of each into ``names``, ``(A,)`` int64, -1 if missing.
        names: distinct identifiers in order of appearance, ``(n,)``: int64 (uint64 if needed), booleans, or ``str`` objects.
    """

    codes: npt.NDArray[np.int64]
    names: Array

    @property
    def missing(self) -> Array:
        """Mask of missing identifiers, ``(A,)``."""
        return self.codes < 0

    def take(self, rows: Array) -> Coded:
        """Return a subset of rows, with the names that occur in them."""
        return _in_order(self.codes[rows], self.names)


def coded(series: pd.Series[Any], what: str, where: str) -> Coded:
    """Convert a column to one type, integers, booleans or strings, and to codes.

    Categorical and Arrow columns create a Python object for each distinct name, not for each row.

    Args:
        series: the column, ``(A,)``.
        what: content of the column ("worker"), for messages.
        where: its location ("labels.csv, column 'worker'"), for messages.

    Raises:
        DataError: for fractional numbers, mixed strings and numbers, objects that are not names, and text that result files
            cannot store.
    """
    column = _coded(series, what, where)
    if column.names.dtype == object:
        _require_storable(column, what, where)
    return column


def _require_storable(column: Coded, what: str, where: str) -> None:
    """Refuse names that result files cannot store: with unpaired surrogates, as in broken JSON, or NUL characters."""
    names = column.names.tolist()
    try:
        text = "".join(names)
        text.encode()
        if "\0" not in text:
            return
    except UnicodeEncodeError:
        pass
    for code, name in enumerate(names):
        reason = unstorable(name)
        if reason is not None:
            raise DataError(f"{where}, {rows_text(np.flatnonzero(column.codes == code))}: the {what} {name!r} {reason}")


def storable(value: Any) -> Any:
    """Return a text with U+FFFD, as decoders write it, in place of half a character; other values as they are."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


def writable(text: str) -> str:
    """Return a text that every file can hold: without NUL characters, and with U+FFFD in place of half a character."""
    return str(storable(text.replace("\0", "")))


def text_of(column: pd.Series[Any]) -> pd.Series[str]:
    """Return values as text, with U+FFFD in place of half a character, which no string type of pandas holds."""
    return (column.map(storable) if column.dtype == object else column).astype(str)


def unstorable(text: str) -> str | None:
    """Return why result files cannot store a text; ``None`` if they can."""
    if "\0" in text:
        problem = "a NUL character"
    elif _HALVES.search(text):
        problem = "half a character (an unpaired surrogate)"
    else:
        return None
    return f"contains {problem}, which result files cannot store; remove it, or export the data again as UTF-8"


def _coded(series: pd.Series[Any], what: str, where: str) -> Coded:
    if isinstance(series.dtype, pd.CategoricalDtype):
        try:
            names = _plain(pd.Series(series.cat.categories), what, where).names
        except DataError:
            # Convert rows rather than categories: the message then names rows, and unused categories do no harm.
            return _plain(series.astype(object), what, where)
        return _in_order(series.cat.codes.to_numpy().astype(np.int64), names)
    if isinstance(series.dtype, pd.ArrowDtype):
        column = from_arrow(series)
        return _plain(as_objects(series), what, where) if column is None else column
    return _plain(series, what, where)


def as_objects(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return an Arrow column of any type, lists and records among them, as Python objects."""
    column: Any = pyarrow.array(series.array)
    return pd.Series(column.to_pylist(), dtype=object, index=series.index, name=series.name)


def _in_order(codes: npt.NDArray[np.int64], names: Array) -> Coded:
    """Renumber the names that occur in order of their first appearance."""
    if len(codes) == 0 or len(names) == 0:
        return Coded(codes, names[:0])
    # Most columns are in this order already, which is cheaper to detect than to establish.
    highest = _highest_in_order(codes)
    if highest is not None:
        return Coded(codes, names[: highest + 1])
    present = codes >= 0
    order, used = pd.factorize(codes if present.all() else codes[present])
    if len(order) == len(codes):
        return Coded(order.astype(np.int64), names[used])
    out = np.full(len(codes), -1, dtype=np.int64)
    out[present] = order
    return Coded(out, names[used])


def _highest_in_order(codes: npt.NDArray[Any]) -> int | None:
    """Return the highest code if each new code is one above all before it, otherwise ``None``; blockwise, in the caches."""
    highest = -1
    for begin in range(0, len(codes), _BLOCK):
        steps = np.maximum.accumulate(codes[begin : begin + _BLOCK])
        np.maximum(steps, highest, out=steps)
        if steps[0] > highest + 1 or (len(steps) > 1 and np.diff(steps).max() > 1):
            return None
        highest = int(steps[-1])
    return highest


def from_arrow(series: pd.Series[Any]) -> Coded | None:
    """Code an Arrow column of strings, integers, booleans or dictionaries of them; ``None`` for other types."""
    column: Any = pyarrow.array(series.array)
    if not isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.chunked_array([column])
    types = pyarrow.types
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind) or types.is_boolean(kind)):
        return None
    if len(column) == 0:
        return Coded(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    if types.is_dictionary(column.type) and column.num_chunks > 1:
        column = column.unify_dictionaries()
    indices, values = dictionary_parts(column)
    if indices.null_count:  # the type of indices may be unsigned
        indices = indices.cast(pyarrow.int64()).fill_null(-1)
    codes = indices.to_numpy().astype(np.int64)
    # Dictionaries from other programs may contain a value twice, or null.
    distinct = values.dictionary_encode()
    if len(distinct.dictionary) < len(values):
        position = distinct.indices.fill_null(-1).to_numpy()
        codes, values = np.where(codes >= 0, position[codes], -1).astype(np.int64), distinct.dictionary
    names = values.to_numpy(zero_copy_only=False)
    if types.is_integer(kind):
        names = names.astype(np.uint64 if len(names) and int(names.max()) >= 2**63 else np.int64)
    elif types.is_boolean(kind):
        names = names.astype(bool)
    return _in_order(codes, names)


def dictionary_parts(column: Any) -> tuple[Any, Any]:
    """Return the codes ``(A,)``, null if missing, and the distinct values of a chunked Arrow column.

    The chunks of a dictionary column must have one common dictionary.
    """
    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks == 0:
        return pyarrow.array([], pyarrow.int32()), pyarrow.array([], column.type.value_type)
    return pyarrow.concat_arrays([chunk.indices for chunk in column.chunks]), column.chunk(0).dictionary


def holds_integers(series: pd.Series[Any]) -> bool:
    """Return whether a column holds integers, also as an Arrow dictionary."""
    kind = series.dtype
    if isinstance(kind, pd.ArrowDtype) and pyarrow.types.is_dictionary(kind.pyarrow_dtype):
        return bool(pyarrow.types.is_integer(kind.pyarrow_dtype.value_type))
    return pd.api.types.is_integer_dtype(kind)


def clean(series: pd.Series[Any], what: str, where: str) -> tuple[Array, Array]:
    """Convert a column to one type, as :func:`coded` does, and return its identifiers row by row.

    Returns:
        The identifiers ``(A,)`` and a mask of missing ones ``(A,)``.
    """
    codes, names = coded(series, what, where)
    missing = codes < 0
    if len(names) == 0:
        return np.zeros(len(series), dtype=np.int64), missing
    return names[np.where(missing, 0, codes)], missing


def _plain(series: pd.Series[Any], what: str, where: str) -> Coded:
    """Code a column of a pandas type or of Python objects."""
    missing = series.isna().to_numpy(dtype=bool)
    present = series[~missing]
    if len(present) == 0:
        return Coded(np.full(len(series), -1, dtype=np.int64), np.zeros(0, dtype=np.int64))
    kind = pd.api.types.infer_dtype(present, skipna=False)
    values: Any
    if kind == "boolean":
        values = present.to_numpy(dtype=bool)
    elif kind == "integer":
        values = present.to_numpy(dtype=_width(int(present.min()), int(present.max()), what, where))
    elif kind in ("floating", "mixed-integer-float", "decimal"):
        number = np.zeros(len(series))
        number[~missing] = present.to_numpy(dtype=float)
        invalid = np.flatnonzero(~(np.isfinite(number) & (number == np.floor(number)) & (np.abs(number) < 2.0**53)))
        if len(invalid):
            raise DataError(
                f"{where}, {rows_text(invalid)}: {what} {number[invalid[0]]:g} is not a whole number below 2^53; "
                f"use integers or strings as {what} names"
            )
        values = number[~missing].astype(np.int64)
    elif kind == "string":
        values = present
    else:
        types = present.map(type).astype(object)
        counts = types.map(lambda t: t.__name__).value_counts()
        if types.nunique() > 1:
            rare = counts.index[-1]
            rows = np.flatnonzero(~missing)[types.map(lambda t: t.__name__ == rare).to_numpy(dtype=bool)]
            raise DataError(
                f"{where}: {what} names mix {' and '.join(counts.index)} ({rare} in {rows_text(rows, 3)}); "
                f"convert them all to strings or all to integers"
            )
        if not issubclass(types.iloc[0], CONVERTED_TO_STRINGS):
            raise DataError(f"{where}: {what} names are of type {counts.index[0]}; use integers or strings as names")
        values = pd.Series([str(v) for v in present], dtype=object)
    codes = np.full(len(series), -1, dtype=np.int64)
    codes[~missing], names = _factorized(values) if kind not in _NUMBERS else pd.factorize(values)
    # All string types of pandas become Python strings.
    return Coded(codes, np.asarray(names, dtype=object if kind not in _NUMBERS else None))


def _factorized(values: pd.Series[Any]) -> tuple[npt.NDArray[np.int64], Any]:
    """Return codes ``(A,)`` and distinct strings ``(n,)`` in order of first appearance, as Python compares them."""
    if _CUT_AT_NUL:
        texts = values.to_numpy(dtype=object)
        if any("\0" in "".join(texts[begin : begin + _BLOCK].tolist()) for begin in range(0, len(texts), _BLOCK)):
            seen: dict[str, int] = {}
            codes = [seen.setdefault(text, len(seen)) for text in texts.tolist()]
            return np.array(codes, dtype=np.int64), np.array(list(seen), dtype=object)
    return pd.factorize(values)


def _width(low: int, high: int, what: str, where: str) -> type[np.int64] | type[np.uint64]:
    """Return the integer type that holds ``low`` and ``high``; conversion itself would wrap around silently."""
    if low >= -(2**63) and high < 2**63:
        return np.int64
    if low >= 0 and high < 2**64:
        return np.uint64
    raise DataError(
        f"{where}: {what} numbers do not fit into 64 bits (63 bits if some are negative); pass them as strings"
    )


def encode(
    column: Coded, declared: Iterable[Any] | None, what: str, where: str, *, rows: Array | None, ordered: bool
) -> tuple[npt.NDArray[np.int64], Array]:
    """Number identifiers in the order of the data.

    Args:
        column: ``A`` identifiers, none missing; its codes are overwritten.
        declared: all identifiers in order, or ``None`` for those that occur.
        what: what they are, for messages.
        where: their location, for messages.
        rows: positions of the values in the caller's table ``(A,)``, for messages; ``None`` if they are the whole table.
        ordered: without ``declared``, sort the identifiers (labels) instead of keeping the order of appearance.

    Returns:
        Codes ``(A,)`` int64 and identifiers ``(n,)``.

    Raises:
        DataError: for a value that is not declared, or a declaration that is empty or has duplicates.
    """
    if declared is None:
        if not ordered:
            return column
        order = np.argsort(column.names, kind="stable")
        new_codes = np.empty(len(order), dtype=np.int64)
        new_codes[order] = np.arange(len(order))
        return _recode(column.codes, new_codes), column.names[order]
    names = _declared(declared, what)
    if len(column.codes) and kind_of(names) != kind_of(column.names):
        raise DataError(
            f"{where}: {what}s are {kind_of(column.names)} but the declared {what}s are {kind_of(names)}; "
            f"declare them as {kind_of(column.names)}"
        )
    new_codes = positions(column.names, names)
    if (new_codes < 0).any():
        unknown, unknown_rows = column.names[new_codes < 0].tolist(), np.flatnonzero(new_codes[column.codes] < 0)
        raise DataError(
            f"{where}, {rows_text(unknown_rows, of=rows)}: {what} {listed(unknown)} not among the declared {what}s "
            f"{listed(names.tolist(), 10)}{suggestion(unknown[0], names.tolist())}; declare it as well, or correct the rows"
        )
    return (_recode(column.codes, new_codes) if len(column.codes) else column.codes), names


def _recode(codes: npt.NDArray[np.int64], new_codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Replace each code in place, blockwise: no second array of the column's length is needed."""
    for begin in range(0, len(codes), _BLOCK):
        codes[begin : begin + _BLOCK] = new_codes[codes[begin : begin + _BLOCK]]
    return codes


def _declared(declared: Iterable[Any], what: str) -> Array:
    # A string would be split into letters, and the order of a set differs from run to run.
    if isinstance(declared, (str, bytes, set, frozenset)) or not isinstance(declared, Iterable):
        raise DataError(
            f"the declared {what}s are of type {type(declared).__name__}; pass a list of all {what}s, in order"
        )
    names, missing = clean(pd.Series(list(declared), dtype=object), what, f"the declared {what}s")
    if len(names) == 0:
        raise DataError(f"no {what}s declared; list all of them, or omit the declaration to use those that occur")
    if missing.any():
        raise DataError(f"the declared {what}s contain a missing value; remove it")
    repeated = pd.Index(names, dtype=names.dtype).duplicated()
    if repeated.any():
        twice = listed(pd.unique(names[repeated]).tolist())
        raise DataError(f"the declared {what}s contain {twice} more than once; list each once")
    return names


def positions(values: Array, names: Array) -> npt.NDArray[np.int64]:
    """Return the position of each value ``(A,)`` in ``names`` ``(n,)``, -1 if absent; both must be of one kind."""
    index = pd.Index(names, dtype=names.dtype).get_indexer(pd.Index(values, dtype=values.dtype))
    return index.astype(np.int64)


def kind_of(values: Array) -> str:
    """Return the kind of cleaned identifiers; those of different kinds are never equal: ``1`` is neither ``"1"`` nor true."""
    return "strings" if values.dtype == object else "booleans" if values.dtype == bool else "integers"


def class_columns(prefix: str, labels: Iterable[Any], suffixes: tuple[str, ...] = ("",)) -> list[str]:
    """Return a unique column name for each class, ``<prefix><class>``.

    A class is quoted if its column would have the name of another one: ``risk_low`` with a class ``risk`` and the suffix
    ``_low``, or the string ``"1"`` with the integer ``1``.

    Args:
        prefix: common prefix.
        labels: the classes.
        suffixes: suffixes of the columns of each class.
    """
    names = [str(label) for label in labels]
    taken: set[str] = set()
    # Shortest first: of two conflicting names, the longer one contains the suffix and is quoted.
    for n in sorted(range(len(names)), key=lambda n: len(names[n])):
        while taken & {names[n] + suffix for suffix in suffixes}:
            names[n] = f"'{names[n]}'"
        taken |= {names[n] + suffix for suffix in suffixes}
    return [prefix + name for name in names]
