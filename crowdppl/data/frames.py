"""Tables of other libraries, by Arrow's PyCapsule protocol or the dataframe interchange protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.interchange

from crowdppl.data.table.identifiers import dictionary_parts
from crowdppl.errors import DataError, listed

# Exceptions of libraries and of Arrow for tables that cannot be exchanged.
_UNREADABLE = (pyarrow.ArrowException, TypeError, ValueError, RuntimeError, NotImplementedError)
ACCEPTED = (
    "pass a pandas DataFrame, or a table that supports Arrow's PyCapsule or the dataframe interchange protocol (Polars, "
    "PyArrow)"
)


def to_pandas(table: Any, what: str, otherwise: str = "") -> pd.DataFrame:
    """Return a table as a pandas frame; pandas frames are returned unchanged.

    Args:
        table: of any library that supports one of the two protocols.
        what: its name in messages.
        otherwise: addition to the message if it is not a table.

    Raises:
        DataError: if it is not a table, or its columns cannot be converted.
    """
    frame = maybe_pandas(table, what)
    if frame is None:
        collect = "; call its collect() first" if callable(getattr(table, "collect", None)) else ""
        raise DataError(f"{what} is a {type(table).__name__}; {ACCEPTED}{otherwise}{collect}{_as_frame(table)}")
    return frame


def _as_frame(table: Any) -> str:
    """Return how to make a frame of an object that often stands for one, for messages."""
    if isinstance(table, pd.Series) and any(name is not None for name in table.index.names):
        return "; pass its reset_index()"
    if isinstance(table, dict) or (isinstance(table, list) and table and isinstance(table[0], dict)):
        return "; pass pandas.DataFrame(...) of it"
    return (
        "; pass pandas.DataFrame.from_records(...) of it"
        if getattr(getattr(table, "dtype", None), "names", None)
        else ""
    )


def maybe_pandas(table: Any, what: str) -> pd.DataFrame | None:
    """Return a table as :func:`to_pandas` does, or ``None`` if it supports neither protocol."""
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, (type, pd.Series, pd.Index)):
        return None
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        read: Callable[[Any], Any] = pyarrow.table
    elif hasattr(table, "__dataframe__"):
        read = pyarrow.interchange.from_dataframe
    else:
        return None
    try:
        arrow = read(table)
    except _UNREADABLE as error:
        arrow = _by_columns(table, read)
        if arrow is None:
            reason = " ".join(str(error).split())[:150]
            raise DataError(
                f"{what} is a {type(table).__name__} that cannot be read as a table ({reason}); convert it to pandas first"
            ) from None
    columns = [_series(column) for column in arrow.columns]
    names = pd.Index(arrow.column_names, dtype=object)
    return pd.concat(columns, axis=1).set_axis(names, axis=1) if columns else pd.DataFrame()


def _by_columns(table: Any, read: Callable[[Any], Any]) -> Any:
    """Return a table column by column, without those that its library cannot hand on; ``None`` if there are none at all."""
    select = getattr(table, "select", None)
    if not callable(select):
        try:
            table = table.__dataframe__()
        except (AttributeError, *_UNREADABLE):
            return None
        select = table.select_columns_by_name
    names = getattr(table, "columns", None) if not hasattr(table, "column_names") else table.column_names()
    columns = {}
    for name in names or ():
        try:
            columns[name] = read(select([name])).column(0)
        except _UNREADABLE:
            continue  # an error follows where the column is needed: it is not among the columns
    return pyarrow.table(columns) if columns else None


def indexed(table: Any, defaults: tuple[str, ...], what: str) -> Any:
    """Return a table of another library as a pandas frame with the column of identifiers as its index.

    Pandas objects, and objects that are not tables, are returned unchanged.

    Args:
        table: any object.
        defaults: names of the column of identifiers; the first that exists is used.
        what: name of the table in messages.

    Raises:
        DataError: if there is no such column.
    """
    if isinstance(table, pd.DataFrame):
        return table
    frame = maybe_pandas(table, what)
    if frame is None:
        return table
    identifiers = next((name for name in defaults if name in frame.columns), None)
    if identifiers is None:
        raise DataError(
            f"{what}: no column {' or '.join(map(repr, defaults))} with identifiers; columns are "
            f"{listed(frame.columns.tolist(), 12)}; rename the column with the identifiers"
        )
    frame = frame.set_index(identifiers)
    frame.index = pd.Index(frame.index.to_series().astype(object), name=identifiers)
    return frame


def _storage(column: Any) -> Any:
    """Return a chunked column of an extension type as the values that it stores."""
    return pyarrow.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)


def to_series(values: Any) -> Any:
    """Return a column of another library as a pandas Series; pandas objects and objects without a protocol are unchanged."""
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray, type)):
        return values
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        try:
            return _series(pyarrow.chunked_array(values))
        except (pyarrow.ArrowException, TypeError, ValueError):
            return values
    return values


def _series(column: Any) -> pd.Series[Any]:
    """Return an Arrow column as a Series: text dictionary-encoded, dictionaries as categories, integers with gaps as integers.

    Columns of lists, records and other types that are no identifiers stay Arrow's: an error follows only where one is used.
    """
    types = pyarrow.types
    kind = column.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        column, kind = _storage(column), kind.storage_type
    if types.is_string_view(kind):
        column, kind = column.cast(pyarrow.large_string()), pyarrow.large_string()
    if types.is_dictionary(kind):
        if types.is_string_view(kind.value_type):
            column = column.cast(pyarrow.dictionary(kind.index_type, pyarrow.large_string(), kind.ordered))
        if any(chunk.dictionary.null_count for chunk in column.chunks):  # a missing value is none of the categories
            column = column.cast(column.type.value_type).dictionary_encode()
        try:
            return column.to_pandas()
        except (pyarrow.ArrowException, TypeError):
            return pd.Series(pd.arrays.ArrowExtensionArray(column))
    if types.is_string(kind) or types.is_large_string(kind):
        column = pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(*dictionary_parts(column))])
    elif types.is_floating(kind) or types.is_temporal(kind) or types.is_decimal(kind) or types.is_null(kind):
        return column.to_pandas()
    return pd.Series(pd.arrays.ArrowExtensionArray(column))
