"""Reading a table with a row for each item and two columns for each annotation: who gave it, and its label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.tables import whole_numbers
from crowdppl.data.readers.worker_columns import ITEM_NAMES
from crowdppl.data.readers.worker_pairs import Pair
from crowdppl.data.table.columns import item_column
from crowdppl.data.table.identifiers import rows_text
from crowdppl.data.table.missing_words import is_for_nothing
from crowdppl.errors import DataError, listed


def item_of(table: pd.DataFrame, pairs: Sequence[Pair], source: str) -> int:
    """Return the position of the column of items: one of a usual name, else the first that is in no pair.

    Raises:
        DataError: if all columns are in pairs.
    """
    names = [str(name).strip() for name in table.columns]
    used = {n for pair in pairs for n in (pair.worker, pair.label)}
    rest = [n for n in range(len(names)) if n not in used]
    if not rest:
        raise DataError(f"{source}: no column of items beside {listed(names, 4)}; add one")
    return next((n for n in rest if names[n].lower() in ITEM_NAMES), rest[0])


def paired(
    table: pd.DataFrame, item: int, pairs: Sequence[Pair], notes: list[str], choices: Choices, source: str
) -> Records:
    """Return the annotations of a table with a column of workers and one of labels for each annotation of an item.

    Args:
        table: one row per item.
        item: position of the column of items.
        pairs: the columns of each annotation.
        notes: sentences on the table.
        choices: choices of the user.
        source: name of the table in messages.
    """
    names = [str(name).strip() for name in table.columns]
    used = {item, *(n for pair in pairs for n in (pair.worker, pair.label))}
    rows = np.tile(np.arange(len(table)), len(pairs))
    worker = _text(pd.concat([table.iloc[:, pair.worker] for pair in pairs], ignore_index=True))
    label = _text(pd.concat([table.iloc[:, pair.label] for pair in pairs], ignore_index=True))
    _refuse_nameless(rows, [names[pair.worker] for pair in pairs], worker, label, source)
    filled = (worker.notna() & label.notna()).to_numpy()
    blank = int((worker.notna() & label.isna()).sum())
    # In the order of the items.
    order = np.flatnonzero(filled)[np.argsort(rows[filled], kind="stable")]
    tasks = table.iloc[:, item]
    frame = pd.DataFrame(
        {
            item_column(tasks.name): tasks.to_numpy()[rows[order]],
            "worker": _objects(whole_numbers(worker))[order],
            "label": _objects(whole_numbers(label))[order],
        }
    )
    read = (
        f"{source}: read as a table of items with {len(pairs)} columns of workers and of their labels, such as "
        f"{names[pairs[0].worker]!r} and {names[pairs[0].label]!r}: {len(frame):,} annotations of {len(table):,} items"
        + (f", {blank:,} of workers without a label left out" if blank else "")
    )
    records = Records(frame, "a table of items, workers and labels", {}, [read, *notes], choices.several)
    others = [n for n in range(len(names)) if n not in used and names[n]]
    records.keep({names[n]: table.iloc[:, n].to_numpy(dtype=object)[rows[order]] for n in others})
    if others:
        records.notes.append(
            f"{source}: neither workers nor labels, by their names: {listed([names[n] for n in others], 6)}; truth=... may name "
            f"one with true labels"
        )
    return records


def _refuse_nameless(
    rows: npt.NDArray[np.int64], names: Sequence[str], worker: pd.Series[Any], label: pd.Series[Any], source: str
) -> None:
    """Refuse labels whose worker is missing, words for nothing aside.

    Raises:
        DataError: with the columns and the rows of the table.
    """
    given = np.array([text is not None and not is_for_nothing(text) for text in label.tolist()], dtype=bool)
    nameless = np.unique(rows[worker.isna().to_numpy() & given])
    if len(nameless):
        raise DataError(
            f"{source}, columns {listed(names, 4)}, {rows_text(nameless)}: worker of a label missing; fill it in or delete the "
            f"label"
        )


def _text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as text, whole numbers without decimals: in columns with blanks they have some."""
    cells = [None if pd.isna(cell) or not str(cell).strip() else str(cell).strip() for cell in column.tolist()]
    return pd.Series([None if c is None else re.sub(r"^(-?\d+)\.0+$", r"\1", c) for c in cells], dtype=object)


def _objects(column: pd.Series[Any]) -> npt.NDArray[np.object_]:
    """Return the values of a column, ``None`` where there is none."""
    out = np.array(column.astype(object), dtype=object)
    out[column.isna().to_numpy()] = None
    return out
