"""Numbers beside the annotations: features of items and workers, and tables of label counts, checked and put in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from torch import Tensor

from crowdppl.data.columns import ITEM_COLUMNS, column_of
from crowdppl.data.identifiers import clean, coded, encode, kind_of, positions, rows_text
from crowdppl.errors import DataError, listed

Array = npt.NDArray[Any]


def matrix(values: Any, names: Array, what: str, where: str) -> npt.NDArray[np.float64]:
    """Bring features to an array in the order of ``names``.

    Args:
        values: a frame whose index holds identifiers, or an array ``(len(names), D)``.
        names: identifiers of the items or workers.
        what: ``"task"`` or ``"worker"``, for messages.
        where: what the values are called in messages.

    Raises:
        DataError: where rows are missing, repeated, not numbers or not finite.
    """
    if isinstance(values, pd.DataFrame):
        columns = [str(c) for c, kind in values.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
        if columns:
            raise DataError(
                f"{where}: columns {listed(columns)} are not numbers; drop or encode them, and keep the {what} as index"
            )
        index, missing = clean(values.index.to_series(), what, f"{where}, index")
        if missing.any():
            raise DataError(f"{where}, {rows_text(np.flatnonzero(missing))}: {what} missing in the index")
        if kind_of(index) != kind_of(names):
            raise DataError(
                f"{where}: the index holds {kind_of(index)}, but the {what}s are {kind_of(names)}; write both as strings or both "
                f"as integers"
            )
        twice = pd.Series(index).duplicated().to_numpy()
        if twice.any():
            raise DataError(
                f"{where}, {rows_text(np.flatnonzero(twice))}: {what} {listed(index[twice].tolist(), 3)} again; keep one row each"
            )
        place = positions(names, index)
        if (place < 0).any():
            lacking = names[place < 0].tolist()
            raise DataError(
                f"{where}: no row for {len(lacking):,} {what}s ({listed(lacking, 3)}); add them, or drop their annotations"
            )
        table = values.to_numpy(dtype=np.float64, na_value=np.nan)[place]
    else:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        if array.ndim != 2 or array.dtype.kind not in "fiub" or len(array) != len(names):
            raise DataError(
                f"{where} of type {type(values).__name__} and shape {array.shape}; pass a frame with the {what}s as index, or "
                f"numbers of shape ({len(names):,}, D) in the order of the data's {what}s"
            )
        table = array.astype(np.float64)
    if table.shape[1] == 0:
        raise DataError(f"{where}: no columns; at least one number for each {what} is needed")
    bad = ~np.isfinite(table).all(1)
    if bad.any():
        raise DataError(
            f"{where}: {what} {listed(names[bad].tolist(), 3)} has values that are missing or not finite; fill them in"
        )
    return table


def count_table(
    frame: pd.DataFrame, task: str | None, labels: Iterable[Any] | None, source: str
) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """Take a table of label counts apart: items ``(N,)``, classes ``(K,)`` and counts ``(N, K)``."""
    usual = next((c for c in ITEM_COLUMNS if c in frame.columns), None) if task is None else task
    if usual is None:
        ids, columns, where = frame.index.to_series(), frame, f"{source}, index"
    else:
        column = column_of(frame, usual, (), source, "say which one holds the task with task=...", "task")
        ids, columns, where = frame[column], frame.drop(columns=column), f"{source}, column {str(column)!r}"
    items, missing = clean(ids, "task", where)
    if missing.any():
        raise DataError(f"{where}, {rows_text(np.flatnonzero(missing))}: task missing; fill it in or drop the rows")
    twice = pd.Series(items).duplicated().to_numpy()
    if twice.any():
        raise DataError(
            f"{where}, {rows_text(np.flatnonzero(twice))}: task {listed(items[twice].tolist(), 3)} again; add its rows up"
        )
    names = list(columns.columns if labels is None else labels)
    if len(names) != columns.shape[1]:
        raise DataError(f"{source}: {columns.shape[1]} columns of counts, but {len(names)} labels; name each")
    if len(names) < 2:
        raise DataError(f"{source}: {len(names)} columns of counts; at least two classes are needed")
    named = coded(pd.Series(names, dtype=object), "label", f"{source}, labels")
    _, classes = encode(named, names, "label", f"{source}, labels", rows=None, ordered=True)
    try:
        counts = columns.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise DataError(
            f"{source}: the counts are not all numbers; keep a column of counts for each class only"
        ) from None
    bad = ~((counts >= 0) & (counts == np.floor(counts))).all(1)
    if bad.any():
        raise DataError(f"{source}, {rows_text(np.flatnonzero(bad))}: counts must be whole numbers of at least 0")
    return items, classes, counts.astype(np.int64)
