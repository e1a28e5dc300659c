"""Tables with one column per worker, and tables with probabilities instead of labels."""

from __future__ import annotations

import csv
import re

import numpy as np
import pandas as pd

from crowdppl.data.columns import item_column
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.tables import whole_numbers
from crowdppl.errors import DataError, FileError, listed

# Names of the item column of a wide table; otherwise it is the first column.
ITEM_NAMES = ("task", "item", "id", "example_id", "index", "")
NO_LABEL = ("", "-1", "nan", "NaN", "NA", "N/A", "None", "?")


def wide(file: SourceFile, choices: Choices) -> Records:
    """Read a table with one row per item and one column per worker, blank or -1 without a label (cleanlab, snorkel)."""
    table = file.table
    names = [str(name) for name in table.columns]
    first = next((n for n, name in enumerate(names) if name.strip().lower() in ITEM_NAMES), 0)
    tasks = table.iloc[:, first]
    return _melted(tasks, table.drop(columns=table.columns[first]), file, "a table of items and workers")


def mace(file: SourceFile, choices: Choices) -> Records:
    """Read MACE's table: no header, one line per item, one column per annotator, blank without a label.

    Items are numbered by line from 1, as in MACE: a blank line is an item without annotations.
    """
    try:
        rows = list(csv.reader(re.split("\r\n|\r|\n", file.text), delimiter=file.separator))
    except csv.Error as error:
        raise FileError(f"{file.name} cannot be read as CSV: {error}; fix that line or save it again") from None
    while rows and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise FileError(f"{file.name} is empty; it needs one line per item")
    filled = {n: row for n, row in enumerate(rows, 1) if any(cell.strip() for cell in row)}
    width = max(map(len, filled.values()))
    short = [n for n, row in filled.items() if len(row) != width]
    if short:
        raise DataError(
            f"{file.name}, line {listed(short)}: {len(filled[short[0]])} columns, other lines have {width}; each line needs "
            f"one column per annotator"
        )
    body = pd.DataFrame(list(filled.values()), columns=[f"{n + 1}" for n in range(width)], dtype=object)
    records = _melted(pd.Series(list(filled)), body, file, "MACE's table")
    if len(filled) < len(rows):
        records.notes.append(f"{file.name}: {len(rows) - len(filled):,} blank lines are items without annotations")
    return records


def _melted(tasks: pd.Series, labels: pd.DataFrame, file: SourceFile, kind: str) -> Records:
    if labels.shape[1] == 0:
        raise DataError(f"{file.name}: only one column; one column per worker is needed")
    if tasks.duplicated().any():
        twice = tasks[tasks.duplicated()].tolist()
        raise DataError(f"{file.name}: item {listed(twice, 3)} repeated; keep one row per item")
    text = labels.astype(object).map(lambda value: "" if pd.isna(value) else str(value).strip())
    given = ~text.isin(NO_LABEL).to_numpy()
    item, worker = given.nonzero()
    if len(item) == 0:
        raise DataError(f"{file.name}: no annotation in {kind}; fill in the labels")
    label = pd.Series(text.to_numpy()[item, worker], dtype=object)
    # Integers in columns with blanks: spreadsheets and pandas write them as 1.0.
    label = whole_numbers(label.str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True))
    names = whole_numbers(pd.Series([str(c) for c in labels.columns], dtype=object))
    frame = pd.DataFrame(
        {
            item_column(tasks.name): tasks.to_numpy()[item],
            "worker": names.to_numpy(dtype=object)[worker],
            "label": label.to_numpy(dtype=object),
        }
    )
    notes = [
        f"{file.name}: read as {kind}, {len(frame):,} annotations of {labels.shape[0]:,} items by {labels.shape[1]:,} workers, "
        f"{int((~given).sum()):,} cells empty"
    ]
    return Records(frame, kind, {}, notes)


def soft(file: SourceFile, choices: Choices) -> Records:
    """Read soft labels: ``task``, ``worker`` and one column of probabilities per class; the most probable class is used."""
    table = file.table
    names = [str(name) for name in table.columns]
    task = next((n for n in ("task", "item") if n in names), None)
    if task is None or "worker" not in names:
        raise DataError(f"{file.name}: soft labels need the columns 'task' and 'worker', and one column per class")
    classes = [n for n in names if n not in (task, "worker")]
    if len(classes) < 2:
        raise DataError(f"{file.name}: {len(classes)} columns of probabilities; at least two classes are needed")
    p = table[classes].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    invalid = ~(np.isfinite(p).all(1) & (p >= 0).all(1) & (np.abs(p.sum(1) - 1) < 1e-3))
    if invalid.any():
        rows = (np.flatnonzero(invalid)[:3] + 1).tolist()
        raise DataError(f"{file.name}, row {listed(rows)}: probabilities must be at least 0 and sum to one")
    top = p.max(1, keepdims=True)
    tied = (np.abs(p - top) < 1e-9).sum(1) > 1
    labels = [name.removeprefix("p_") for name in classes]
    frame = pd.DataFrame({task: table[task], "worker": table["worker"], "label": [labels[k] for k in p.argmax(1)]})[
        ~tied
    ].reset_index(drop=True)
    notes = [
        f"{file.name}: read as soft labels: the most probable class of {len(frame):,} annotations (mean probability "
        f"{p.max(1)[~tied].mean():.2f})"
    ]
    if tied.any():
        notes.append(f"{file.name}: {int(tied.sum()):,} annotations with tied most probable classes left out")
    return Records(frame, "soft labels", {}, notes)
