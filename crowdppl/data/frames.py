"""Tables of other libraries, by Arrow's PyCapsule protocol or the dataframe interchange protocol."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow
import pyarrow.interchange

from crowdppl.data.identifiers import dictionary_parts
from crowdppl.errors import DataError, listed

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
        raise DataError(f"{what} is a {type(table).__name__}; {ACCEPTED}{otherwise}{collect}")
    return frame


def maybe_pandas(table: Any, what: str) -> pd.DataFrame | None:
    """Return a table as :func:`to_pandas` does, or ``None`` if it supports neither protocol."""
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, (type, pd.Series, pd.Index)):
        return None
    try:
        if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            arrow = pyarrow.table(table)
        elif hasattr(table, "__dataframe__"):
            arrow = pyarrow.interchange.from_dataframe(table)
        else:
            return None
    except (pyarrow.ArrowException, TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:150]
        raise DataError(
            f"{what} is a {type(table).__name__} that cannot be read as a table ({reason}); convert it to pandas first"
        ) from None
    columns = [_series(column) for column in arrow.columns]
    names = pd.Index(arrow.column_names, dtype=object)
    return pd.concat(columns, axis=1).set_axis(names, axis=1) if columns else pd.DataFrame()


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
    """Return an Arrow column as a Series: text dictionary-encoded, dictionaries as categories, integers with gaps as integers."""
    types = pyarrow.types
    kind = column.type
    if types.is_string_view(kind):
        column, kind = column.cast(pyarrow.large_string()), pyarrow.large_string()
    if types.is_dictionary(kind):
        if types.is_string_view(kind.value_type):
            column = column.cast(pyarrow.dictionary(kind.index_type, pyarrow.large_string(), kind.ordered))
        return column.to_pandas()
    if types.is_string(kind) or types.is_large_string(kind):
        column = pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(*dictionary_parts(column))])
    elif not (types.is_integer(kind) or types.is_boolean(kind)):
        return column.to_pandas()
    return pd.Series(pd.arrays.ArrowExtensionArray(column))
