"""The caller's identifiers: columns of any kind in, integer codes and the identifiers themselves out.

Nothing here guesses: ``1`` and ``"1"`` are never merged, a column that mixes them is refused, and what was handed in is
what is given back.
"""

from __future__ import annotations

import datetime
import enum
import re
import unicodedata
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.compute as pc

from crowdppl.errors import DataError, listed, suggestion

Array = npt.NDArray[Any]

# Names of these types are told apart by how they are written, and stand as strings from there on. Of others (bytes,
# tuples, lists, any object) the text is not a name: it may be long, ambiguous or the place in memory.
WRITTEN = (uuid.UUID, enum.Enum, datetime.date, datetime.time, datetime.timedelta, pd.Period, pd.Interval)


# Names from which on a quick look comes before one at each of them.
_MANY = 20_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
# Codes looked at in one go.
_PIECE = 2**15
_NUMBERS = ("boolean", "integer", "floating", "mixed-integer-float", "decimal")


def rows_text(rows: Array, most: int = 5, of: Array | None = None) -> str:
    """Name rows, given by their positions from 0, as a person counts them: from 1, the header not counted.

    Where positions are among some rows of a table, those are ``of``.
    """
    rows = rows if of is None else of[rows]
    return f"row{'s' if len(rows) > 1 else ''} {listed([int(r) + 1 for r in rows], most)}"


class Coded(NamedTuple):
    """A column of ``A`` identifiers as codes.

    Attributes:
        codes: place of each in ``names``, ``(A,)`` int64, -1 where missing.
        names: ``(n,)``, each once, in order of appearance: int64 (uint64 where that is too small), booleans, or ``str`` objects.
    """

    codes: npt.NDArray[np.int64]
    names: Array

    @property
    def missing(self) -> Array:
        """True where there is none, ``(A,)``."""
        return self.codes < 0

    def take(self, rows: Array) -> Coded:
        """Return some rows, with the names that occur in them."""
        return _in_order(self.codes[rows], self.names)


def coded(series: pd.Series[Any], what: str, where: str) -> Coded:
    """Bring a column to one type, integers, booleans or strings, and to codes.

    Columns of categories and of Arrow's types make a Python object for each name, not for each row.

    Args:
        series: the column, ``(A,)``.
        what: what the column holds ("worker"), for the messages.
        where: where it stands ("labels.csv, column 'worker'"), for the messages.

    Raises:
        DataError: for numbers that are not whole, for strings and numbers in one column, for what is no name, and for text that
            files of results cannot hold.
    """
    found = _coded(series, what, where)
    if found.names.dtype == object:
        _require_text(found, what, where)
    return found


def _require_text(column: Coded, what: str, where: str) -> None:
    """Refuse names that no file of results can hold: with halves of surrogate pairs, as broken JSON has them, or with NUL."""
    names = column.names.tolist()
    try:
        whole = "".join(names)
        whole.encode()
        if "\0" not in whole:
            return
    except UnicodeEncodeError:
        pass
    for code, name in enumerate(names):
        why = unwritable(name)
        if why is not None:
            raise DataError(f"{where}, {rows_text(np.flatnonzero(column.codes == code))}: the {what} {name!r} {why}")


def unwritable(text: str) -> str | None:
    """Say why no file of results can hold a text; ``None`` where one can."""
    if "\0" in text:
        broken = "a NUL character"
    elif any("\ud800" <= letter <= "\udfff" for letter in text):
        broken = "half a character (one of a surrogate pair)"
    else:
        return None
    return f"holds {broken}, which files of results cannot hold; remove it, or export the data again as UTF-8"


def _coded(series: pd.Series[Any], what: str, where: str) -> Coded:
    if isinstance(series.dtype, pd.CategoricalDtype):
        try:
            names = _plain(pd.Series(series.cat.categories), what, where).names
        except DataError:
            # Tell of rows, not of categories; and a category that no row has does no harm.
            return _plain(series.astype(object), what, where)
        return _in_order(series.cat.codes.to_numpy().astype(np.int64), names)
    if isinstance(series.dtype, pd.ArrowDtype):
        found = from_arrow(series)
        return _plain(series.astype(object), what, where) if found is None else found
    return _plain(series, what, where)


def _in_order(codes: npt.NDArray[np.int64], names: Array) -> Coded:
    """Number the names that occur in the order of their first appearance."""
    if len(codes) == 0 or len(names) == 0:
        return Coded(codes, names[:0])
    # Most columns are numbered so: that is cheaper to see than to do.
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
    """Return the highest code where none is more than one above all before it, else ``None``; piece by piece, in the caches."""
    highest = -1
    for begin in range(0, len(codes), _PIECE):
        steps = np.maximum.accumulate(codes[begin : begin + _PIECE])
        np.maximum(steps, highest, out=steps)
        if steps[0] > highest + 1 or (len(steps) > 1 and np.diff(steps).max() > 1):
            return None
        highest = int(steps[-1])
    return highest


def from_arrow(series: pd.Series[Any]) -> Coded | None:
    """Code a column of Arrow's strings, integers, booleans or dictionaries of them; ``None`` for other types."""
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
    indices, values = parts(column)
    if indices.null_count:  # those of some have no sign
        indices = indices.cast(pyarrow.int64()).fill_null(-1)
    codes = indices.to_numpy().astype(np.int64)
    # A dictionary of others' making may hold a value twice, or none.
    each = values.dictionary_encode()
    if len(each.dictionary) < len(values):
        place = each.indices.fill_null(-1).to_numpy()
        codes, values = np.where(codes >= 0, place[codes], -1).astype(np.int64), each.dictionary
    names = values.to_numpy(zero_copy_only=False)
    if types.is_integer(kind):
        names = names.astype(np.uint64 if len(names) and int(names.max()) >= 2**63 else np.int64)
    elif types.is_boolean(kind):
        names = names.astype(bool)
    return _in_order(codes, names)


def parts(column: Any) -> tuple[Any, Any]:
    """Return the codes ``(A,)``, null where missing, and the names of a chunked column of Arrow's.

    A column of dictionaries must have one in common.
    """
    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks == 0:
        return pyarrow.array([], pyarrow.int32()), pyarrow.array([], column.type.value_type)
    return pyarrow.concat_arrays([part.indices for part in column.chunks]), column.chunk(0).dictionary


def holds_integers(series: pd.Series[Any]) -> bool:
    """Tell whether a column is of integers, also as codes of Arrow's."""
    kind = series.dtype
    if isinstance(kind, pd.ArrowDtype) and pyarrow.types.is_dictionary(kind.pyarrow_dtype):
        return bool(pyarrow.types.is_integer(kind.pyarrow_dtype.value_type))
    return pd.api.types.is_integer_dtype(kind)


def clean(series: pd.Series[Any], what: str, where: str) -> tuple[Array, Array]:
    """Bring a column to one type, as :func:`coded` does, and return its identifiers row by row.

    Returns:
        The identifiers ``(A,)`` and a mask ``(A,)``, true where missing.
    """
    codes, names = coded(series, what, where)
    missing = codes < 0
    if len(names) == 0:
        return np.zeros(len(series), dtype=np.int64), missing
    return names[np.where(missing, 0, codes)], missing


def _plain(series: pd.Series[Any], what: str, where: str) -> Coded:
    """Code a column of pandas' own or of Python objects."""
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
        broken = np.flatnonzero(~(np.isfinite(number) & (number == np.floor(number)) & (np.abs(number) < 2.0**53)))
        if len(broken):
            raise DataError(
                f"{where}, {rows_text(broken)}: {what} {number[broken[0]]:g} is not a whole number below 2^53; "
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
                f"make them all strings or all integers"
            )
        if not issubclass(types.iloc[0], WRITTEN):
            raise DataError(f"{where}: {what} names are of type {counts.index[0]}; use integers or strings as names")
        values = pd.Series([str(v) for v in present], dtype=object)
    codes = np.full(len(series), -1, dtype=np.int64)
    codes[~missing], names = pd.factorize(values)
    # Strings of whatever kind pandas holds them in are Python's from here on.
    return Coded(codes, np.asarray(names, dtype=object if kind not in _NUMBERS else None))


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
    column: Coded, declared: Iterable[Any] | None, what: str, where: str, *, rows: Array | None, ordered: bool
) -> tuple[npt.NDArray[np.int64], Array]:
    """Number identifiers as the data will.

    Args:
        column: ``A`` identifiers, none missing; its codes are written over.
        declared: the whole set in the order wanted, or ``None`` to take those that occur.
        what: what they are, for messages.
        where: where they stand, for messages.
        rows: positions of the values in the caller's table ``(A,)``, for messages; ``None`` where they are all of it.
        ordered: without ``declared``, sort the identifiers (labels) instead of keeping the order of appearance.

    Returns:
        Codes ``(A,)`` int64 and identifiers ``(n,)``.

    Raises:
        DataError: for a value outside the declared set, or a set that is empty or names something twice.
    """
    if declared is None:
        if not ordered:
            return column
        order = np.argsort(column.names, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return _replaced(column.codes, place), column.names[order]
    names = _declared(declared, what)
    if len(column.codes) and kind_of(names) != kind_of(column.names):
        raise DataError(
            f"{where}: {what}s are {kind_of(column.names)} but the declared {what}s are {kind_of(names)}; "
            f"declare them as {kind_of(column.names)}"
        )
    place = positions(column.names, names)
    if (place < 0).any():
        unknown, strange = column.names[place < 0].tolist(), np.flatnonzero(place[column.codes] < 0)
        raise DataError(
            f"{where}, {rows_text(strange, of=rows)}: {what} {listed(unknown)} not among the declared {what}s "
            f"{listed(names.tolist(), 10)}{suggestion(unknown[0], names.tolist())}; declare it too, or mend the rows"
        )
    return (_replaced(column.codes, place) if len(column.codes) else column.codes), names


def _replaced(codes: npt.NDArray[np.int64], place: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Write the place of each code over it, piece by piece: no further array is as long as the column."""
    for begin in range(0, len(codes), _PIECE):
        codes[begin : begin + _PIECE] = place[codes[begin : begin + _PIECE]]
    return codes


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
    given = names.tolist()
    stripped = list(map(str.strip, given))
    # Most tables have none: then this is all, with no step of Python's for each name.
    return [] if stripped == given else [n for n, s in zip(given, stripped, strict=True) if n != s]


def variants(names: Array) -> list[tuple[str, str]]:
    """Return the string identifiers that differ from an earlier one in capitals or white space only, each with that one."""
    if names.dtype != object or _distinct(names):
        return []
    first: dict[str, str] = {}
    out = []
    for name in names.tolist():
        earlier = first.setdefault(" ".join(name.split()).casefold(), name)
        if earlier != name:
            out.append((name, earlier))
    return out


def _distinct(names: Array) -> bool:
    """Tell of many names, quickly, that no two are the same in small letters and without white space."""
    if len(names) < _MANY:
        return False
    bare = pc.utf8_lower(pc.replace_substring_regex(pyarrow.array(names, pyarrow.large_string()), r"\s+", ""))
    return bool(pc.count_distinct(bare).as_py() == len(names))


def fractions(names: Array) -> list[str]:
    """Return the string identifiers that are numbers with a fraction, where all of them are numbers."""
    if names.dtype != object or not all(map(_NUMBER.fullmatch, names.tolist())):
        return []
    return [name for name in names.tolist() if not float(name).is_integer()]


def equal_numbers(names: Array) -> list[tuple[str, str]]:
    """Return the string identifiers that are the same number as an earlier one, each with that one: 1.0 and 1, not 01 and 1."""
    first: dict[float, str] = {}
    out = []
    for name in names.tolist() if names.dtype == object else []:
        if _NUMBER.fullmatch(name):
            earlier = first.setdefault(float(name), name)
            if earlier != name and not (name.isdecimal() and earlier.isdecimal()):
                out.append((name, earlier))
    return out


def lookalikes(names: Array) -> list[str]:
    """Return the string identifiers that Unicode holds equal to an earlier one, such as two ways to write an accent."""
    if names.dtype != object:
        return []
    if all(map(str.isascii, names.tolist())):
        return []
    forms = [unicodedata.normalize("NFC", n) for n in names.tolist()]
    if len(set(forms)) == len(forms):
        return []
    return names[pd.Series(forms, dtype=object).duplicated().to_numpy()].tolist()


def class_columns(prefix: str, labels: Iterable[Any], suffixes: tuple[str, ...] = ("",)) -> list[str]:
    """Return a column name for each class, ``<prefix><class>``, such that no two columns of a table are called the same.

    A class that is called as another with a suffix, as ``risk_low`` beside ``risk``, or as another once it is written, as ``"1"``
    beside ``1``, stands in quotes.

    Args:
        prefix: of all names.
        labels: the classes.
        suffixes: that columns of each class have.
    """
    names = [str(label) for label in labels]
    taken: set[str] = set()
    # From the shortest on: it is the longer of two names that holds a suffix.
    for n in sorted(range(len(names)), key=lambda n: len(names[n])):
        while taken & {names[n] + suffix for suffix in suffixes}:
            names[n] = f"'{names[n]}'"
        taken |= {names[n] + suffix for suffix in suffixes}
    return [prefix + name for name in names]
