"""Tables of other libraries: anything that speaks Arrow's PyCapsule protocol or the dataframe interchange protocol."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow
import pyarrow.interchange

from crowdppl.data.identifiers import parts
from crowdppl.errors import DataError, listed

ACCEPTED = "pass a pandas DataFrame, or any table with Arrow's PyCapsule or the dataframe interchange protocol (Polars, PyArrow)"


def to_pandas(table: Any, what: str, otherwise: str = "") -> pd.DataFrame:
    """Return a table as a pandas frame; one of pandas as it is.

    Args:
        table: of any library with one of the two protocols.
        what: what it is, for messages.
        otherwise: added to the message where it is no table.

    Raises:
        DataError: where it is no table, or its columns cannot be taken over.
    """
    frame = maybe_pandas(table, what)
    if frame is None:
        collect = "; call its collect() first" if callable(getattr(table, "collect", None)) else ""
        raise DataError(f"{what} is a {type(table).__name__}; {ACCEPTED}{otherwise}{collect}")
    return frame


def maybe_pandas(table: Any, what: str) -> pd.DataFrame | None:
    """Return a table as :func:`to_pandas` does, or ``None`` where it speaks neither protocol."""
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
        told = " ".join(str(error).split())[:150]
        raise DataError(
            f"{what} is a {type(table).__name__} that cannot be read as a table ({told}); convert it to pandas first"
        ) from None
    columns = [_series(column) for column in arrow.columns]
    names = pd.Index(arrow.column_names, dtype=object)
    return pd.concat(columns, axis=1).set_axis(names, axis=1) if columns else pd.DataFrame()


def indexed(table: Any, usual: tuple[str, ...], what: str) -> Any:
    """Return a table of another library as a pandas frame with the column of identifiers as its index.

    What is of pandas, or no table, is returned as it is.

    Args:
        table: of any kind.
        usual: names of the column of identifiers; the first that is there is taken.
        what: what it is, for messages.

    Raises:
        DataError: where there is no such column.
    """
    if isinstance(table, pd.DataFrame):
        return table
    frame = maybe_pandas(table, what)
    if frame is None:
        return table
    found = next((name for name in usual if name in frame.columns), None)
    if found is None:
        raise DataError(
            f"{what}: no column {' or '.join(map(repr, usual))} says whose row it is; columns are "
            f"{listed(frame.columns.tolist(), 12)}; rename the one with the identifiers"
        )
    frame = frame.set_index(found)
    frame.index = pd.Index(frame.index.to_series().astype(object), name=found)
    return frame


def to_series(values: Any) -> Any:
    """Return a column of another library as a pandas Series; what speaks no protocol, and what is of pandas, as it is."""
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray, type)):
        return values
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        try:
            return _series(pyarrow.chunked_array(values))
        except (pyarrow.ArrowException, TypeError, ValueError):
            return values
    return values


def _series(column: Any) -> pd.Series[Any]:
    """Return an Arrow column as a Series: text as codes and names, dictionaries as categories, numbers with gaps as they are."""
    types = pyarrow.types
    kind = column.type
    if types.is_string_view(kind):
        column, kind = column.cast(pyarrow.large_string()), pyarrow.large_string()
    if types.is_dictionary(kind):
        if types.is_string_view(kind.value_type):
            column = column.cast(pyarrow.dictionary(kind.index_type, pyarrow.large_string(), kind.ordered))
        return column.to_pandas()
    if types.is_string(kind) or types.is_large_string(kind):
        column = pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(*parts(column))])
    elif not (types.is_integer(kind) or types.is_boolean(kind)):
        return column.to_pandas()
    return pd.Series(pd.arrays.ArrowExtensionArray(column))
