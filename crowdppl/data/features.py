"""Features of items and workers, and tables of label counts: checked and put in the order of the identifiers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from torch import Tensor

from crowdppl.data.table.columns import ITEM_COLUMNS, column_of
from crowdppl.data.table.identifiers import clean, coded, encode, kind_of, positions, rows_text
from crowdppl.errors import DataError, listed

Array = npt.NDArray[Any]


def matrix(values: Any, names: Array, what: str, where: str) -> npt.NDArray[np.float64]:
    """Return features as an array ``(len(names), D)`` in the order of ``names``.

    Args:
        values: a frame with identifiers as its index, or an array ``(len(names), D)``.
        names: identifiers of the items or workers.
        what: ``"task"`` or ``"worker"``, for messages.
        where: name of the values in messages.

    Raises:
        DataError: if rows are missing, repeated, not numeric or not finite.
    """
    if isinstance(values, pd.DataFrame):
        columns = [str(c) for c, kind in values.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
        if columns:
            raise DataError(
                f"{where}: columns {listed(columns)} are not numeric; drop or encode them, and keep the {what} as the index"
            )
        index, missing = clean(values.index.to_series(), what, f"{where}, index")
        if missing.any():
            raise DataError(
                f"{where}, {rows_text(np.flatnonzero(missing))}: {what} missing in the index; fill it in or drop the rows"
            )
        if kind_of(index) != kind_of(names):
            raise DataError(
                f"{where}: the index contains {kind_of(index)}, but the {what}s are {kind_of(names)}; write both as strings or "
                f"both as integers"
            )
        twice = pd.Series(index).duplicated().to_numpy()
        if twice.any():
            raise DataError(
                f"{where}, {rows_text(np.flatnonzero(twice))}: {what} {listed(index[twice].tolist(), 3)} repeated; keep one row "
                "each"
            )
        row = positions(names, index)
        if (row < 0).any():
            lacking = names[row < 0].tolist()
            raise DataError(
                f"{where}: no row for {len(lacking):,} {what}s ({listed(lacking, 3)}); add these rows, or drop the annotations"
            )
        table = values.to_numpy(dtype=np.float64, na_value=np.nan)[row]
    else:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        if array.ndim != 2 or array.dtype.kind not in "fiub" or len(array) != len(names):
            raise DataError(
                f"{where} are of type {type(values).__name__} and shape {array.shape}; pass a frame with the {what}s as its "
                f"index, or an array of shape ({len(names):,}, D) in the order of the data's {what}s"
            )
        table = array.astype(np.float64)
    if table.shape[1] == 0:
        raise DataError(f"{where}: no columns; at least one feature is needed")
    invalid = ~np.isfinite(table).all(1)
    if invalid.any():
        raise DataError(
            f"{where}: {what} {listed(names[invalid].tolist(), 3)} has values that are missing or not finite; fill them in"
        )
    return table


def column_names(values: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of features; ``None`` for arrays, and frames whose columns are only numbered."""
    if not isinstance(values, pd.DataFrame) or isinstance(values.columns, pd.RangeIndex):
        return None
    names = tuple(str(name) for name in values.columns)
    return names if len(set(names)) == len(names) else None


def in_order(values: Any, names: tuple[str, ...] | None, where: str) -> Any:
    """Return features with their columns in the order of ``names``; unchanged if either has no names.

    Raises:
        DataError: for columns that are missing, or that are not among the names.
    """
    given = column_names(values)
    if names is None or given is None or given == names:
        return values
    missing = [name for name in names if name not in given]
    further = [name for name in given if name not in names]
    if missing or further:
        faults = [(f"no column {listed(missing, 3)}", missing), (f"unknown column {listed(further, 3)}", further)]
        raise DataError(
            f"{where}: {', '.join(text for text, columns in faults if columns)}; the features of the fit are {listed(names, 8)}"
        )
    return values.iloc[:, [given.index(name) for name in names]]


def in_order_of(classes: Any, names: Array) -> Any:
    """Return classes in the order of ``names`` if they are a Series whose index has exactly these names, otherwise unchanged."""
    if not isinstance(classes, pd.Series) or classes.index.has_duplicates or len(classes) != len(names):
        return classes
    row = classes.index.get_indexer(pd.Index(names))
    return classes if (row < 0).any() else classes.iloc[row]


def count_table(
    frame: pd.DataFrame, task: str | None, labels: Iterable[Any] | None, source: str
) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """Return items ``(N,)``, classes ``(K,)`` and counts ``(N, K)`` of a table of label counts.

    Raises:
        DataError: if items are missing or repeated, or counts are not whole numbers.
    """
    item_column = next((c for c in ITEM_COLUMNS if c in frame.columns), None) if task is None else task
    if item_column is None:
        ids, columns, where = frame.index.to_series(), frame, f"{source}, index"
    else:
        column = column_of(frame, item_column, (), source, "name the task column with task=...", "task")
        ids, columns, where = frame[column], frame.drop(columns=column), f"{source}, column {str(column)!r}"
    items, missing = clean(ids, "task", where)
    if missing.any():
        raise DataError(f"{where}, {rows_text(np.flatnonzero(missing))}: task missing; fill it in or drop the rows")
    twice = pd.Series(items).duplicated().to_numpy()
    if twice.any():
        raise DataError(
            f"{where}, {rows_text(np.flatnonzero(twice))}: task {listed(items[twice].tolist(), 3)} repeated; add up its rows"
        )
    names = list(columns.columns if labels is None else labels)
    if len(names) != columns.shape[1]:
        raise DataError(
            f"{source}: {columns.shape[1]} columns of counts, but {len(names)} labels; pass one label for each column"
        )
    if len(names) < 2:
        raise DataError(f"{source}: {len(names)} columns of counts; at least two classes are needed")
    label_names = coded(pd.Series(names, dtype=object), "label", f"{source}, labels")
    _, classes = encode(label_names, names, "label", f"{source}, labels", rows=None, ordered=True)
    try:
        counts = columns.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise DataError(f"{source}: the counts are not all numbers; keep the count columns only") from None
    invalid = ~((counts >= 0) & (counts == np.floor(counts))).all(1)
    if invalid.any():
        raise DataError(f"{source}, {rows_text(np.flatnonzero(invalid))}: counts must be whole numbers of at least 0")
    return items, classes, counts.astype(np.int64)
