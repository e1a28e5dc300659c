"""Tables with one column per worker, and tables with probabilities instead of labels."""

from __future__ import annotations

import csv
import re
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.readers.odd_worker import note_on_odd_worker
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.tables import whole_numbers
from crowdppl.data.readers.wide_doubts import (
    notes_on_last_rows,
    notes_on_workers,
    refuse_title,
    without_blank_rows,
)
from crowdppl.data.readers.wide_pairs import item_of, paired
from crowdppl.data.readers.worker_columns import (
    ITEM_NAMES,
    Cells,
    Layout,
    before_totals,
    labels_of,
    layout,
    look_like_items,
    names_workers,
    renamed_copies,
    unsure,
)
from crowdppl.data.readers.worker_pairs import doubt_of_labels, doubt_of_pairs, pairs_of
from crowdppl.data.table.columns import item_column
from crowdppl.data.table.identifier_checks import written_number
from crowdppl.data.table.rows_in_doubt import NOTED
from crowdppl.errors import DataError, FileError, listed

# Frame attribute: the row of the table that each annotation is in.
_ROWS = "crowdppl_rows"


def wide(file: SourceFile, choices: Choices) -> Records:
    """Read a table with one row per item and one column per worker, blank or -1 without a label (cleanlab, snorkel).

    Columns that are no workers are left out of the annotations and kept in the frame, so that they can be named as known truths
    or texts. -1 is a label where cells are blank, where it is declared, or where the labels say so, see :func:`_minus_one`.
    """
    refuse_title(file.table, file.name)
    table, blank = without_blank_rows(file.table, file.name)
    if choices.workers is None and (pairs := pairs_of(table)):
        item = item_of(table, pairs, file.name)
        table, totals = _without_totals(table, item, file.name)
        _refuse_items(table.iloc[:, item], [labels_of(table.iloc[:, pair.label]) for pair in pairs], file.name)
        doubts = doubt_of_labels(table, pairs, file.name)
        return paired(table, item, pairs, [*blank, *totals, *doubts], choices, file.name)
    parts = layout(table, file.name, choices.workers)
    if not parts.workers and (left := [str(table.columns[n]).strip() for n in sorted((*parts.answers, *parts.others))]):
        raise DataError(
            f"{file.name}: no column is taken for a worker: {_columns(left)} not, by their names; name those of workers with "
            f"workers=[...]"
        )
    workers = [str(table.columns[n]).strip() for n in parts.workers]
    first = str(table.columns[parts.item]).strip()
    table, totals = _without_totals(table, parts.item, file.name)
    doubts = [] if choices.workers is not None else _turned(first, workers, len(table), file.name)
    records = _melted(
        table.iloc[:, parts.item],
        workers,
        [labels_of(table.iloc[:, n]) for n in parts.workers],
        file.name,
        "a table of items and workers",
        choices,
    )
    _keep_others(records, table, parts, file.name)
    doubts += _doubts(records, first, workers, choices, file.name)
    if choices.workers is None:
        doubts += notes_on_workers(table, first, parts.workers, file.name)
        if not any("truth=" in note for note in doubts):
            doubts += note_on_odd_worker(table, parts.workers, file.name)
        doubts += doubt_of_pairs(table, parts.workers, file.name)
        doubts += notes_on_last_rows(table.iloc[:, parts.item].tolist(), file.name)
    records.notes += [*blank, *totals, *doubts, *_first_row(table, parts, file.name)]
    return records


def _first_row(table: pd.DataFrame, parts: Layout, source: str) -> list[str]:
    """Return a note where the first row may be a second header: it has a word among numbers of items, and labels of its own."""
    items = table.iloc[:, parts.item].astype(str).tolist()
    if len(items) < 3 or written_number(items[0]) or not all(map(written_number, items[1:])):
        return []
    cells = [labels_of(table.iloc[:, n]) for n in parts.workers]
    first = {cell.labels[cell.codes[0]] for cell in cells if cell.codes[0] >= 0}
    others = {cell.labels[n] for cell in cells for n in np.unique(cell.codes[1:]).tolist() if n >= 0}
    if not first or first & others:
        return []
    return [
        f"{source}: the first row, {items[0]!r}, has labels that no other row has ({listed(sorted(first), 3)}); if it is a "
        f"second header, delete it"
    ]


def _turned(first: str, workers: list[str], rows: int, source: str) -> list[str]:
    """Return a note where the first column may name workers.

    Raises:
        DataError: if it does and the other columns look like items.
    """
    if not names_workers(first, workers):
        return []
    if look_like_items(workers, rows):
        raise DataError(
            f"{source}: the rows are workers by the name of their column, {first!r}, and the columns look like items "
            f"({listed(workers, 3)}); transpose the table, or name the columns of workers with workers=[...] if they are"
        )
    return [
        f"{source}: the column {first!r} is read as that of items, and {_columns(workers)} read as workers; if the rows are "
        f"workers, transpose the table"
    ]


def _doubts(records: Records, first: str, workers: list[str], choices: Choices, source: str) -> list[str]:
    """Return notes on columns that are read as workers and may be none."""
    if choices.workers is not None:
        return []
    notes = []
    labels = set(map(str, records.frame["label"].unique()))
    numbered = workers == [str(n) for n in range(1, len(workers) + 1)]
    if len(workers) > 1 and labels.issuperset(workers) and not numbered and first.lower() not in ITEM_NAMES:
        notes.append(
            f"{source}: the names of the workers, {listed(workers, 3)}, are labels: the table probably has no header, and "
            f"its first row was read as one; add a line with names"
        )
    if others := unsure(workers):
        notes.append(
            f"{source}: {_columns(others)} read as workers; if they are answers of a model that is not to count, or say "
            f"something of the items, name the workers with workers=[...]"
        )
    if copies := renamed_copies(workers):
        notes.append(
            f"{source}: {_columns(copies)} read as workers of their own, though programs give such a name to a second column of "
            f"one name; rename them, or name the workers with workers=[...]"
        )
    return notes


def _without_totals(table: pd.DataFrame, item: int, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the table without rows of sums and means at its end, as spreadsheets have them, and a note on them."""
    names = table.iloc[:, item].tolist()
    last = before_totals(names)
    if last == len(names):
        return table, []
    return table.iloc[:last], [
        f"{source}: {listed(names[last:], 3)} at the end {'is' if last == len(names) - 1 else 'are'} left out, as a row of "
        f"sums or means; if it is an item, move it up or rename it"
    ]


def _keep_others(records: Records, table: pd.DataFrame, parts: Layout, source: str) -> None:
    """Add the columns that are no workers to the frame of annotations, and notes on them."""
    names = {n: str(table.columns[n]).strip() for n in (*parts.answers, *parts.others)}
    items = records.frame.attrs.pop(_ROWS)
    records.keep({name: table.iloc[:, n].to_numpy(dtype=object)[items] for n, name in names.items() if name})
    if parts.answers:
        first = names[parts.answers[0]]
        records.frame.attrs[NOTED] = [names[n] for n in parts.answers]
        records.notes.append(
            f"{source}: {_columns([names[n] for n in parts.answers])} not taken for workers, by their names; if these are true "
            f"labels, truth={first!r} uses them as known truths"
        )
    if parts.others:
        records.notes.append(
            f"{source}: {_columns([names[n] for n in parts.others])} not taken for workers, by their names or because no other "
            f"column has their values; name the columns of workers with workers=[...] if they are"
        )


def _columns(names: list[str]) -> str:
    return f"{'column' if len(names) == 1 else 'columns'} {listed(names, 6)} {'is' if len(names) == 1 else 'are'}"


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
    columns = [labels_of(body[name]) for name in body.columns]
    records = _melted(pd.Series(list(filled)), list(body.columns), columns, file.name, "MACE's table", choices)
    del records.frame.attrs[_ROWS]
    if len(filled) < len(rows):
        records.notes.append(f"{file.name}: {len(rows) - len(filled):,} blank lines are items without annotations")
    return records


def _melted(
    tasks: pd.Series[Any], workers: list[str], columns: list[Cells], source: str, kind: str, choices: Choices
) -> Records:
    """Return the annotations in columns of workers, by item."""
    if not workers:
        raise DataError(f"{source}: only one column; one column per worker is needed")
    _refuse_items(tasks, columns, source)
    columns, sentence = _minus_one(columns, choices, source)
    codes = np.stack([column.codes for column in columns], axis=1)
    item, worker = (codes >= 0).nonzero()
    if len(item) == 0:
        raise DataError(f"{source}: no annotation in {kind}; fill in the labels")
    labels = list(dict.fromkeys(label for column in columns for label in column.labels))
    position = {label: n for n, label in enumerate(labels)}
    starts = np.cumsum([0, *(len(column.labels) for column in columns)])
    shared = np.array([position[label] for column in columns for label in column.labels])
    label = whole_numbers(pd.Series(labels, dtype=object)).to_numpy(dtype=object)
    names = whole_numbers(pd.Series(workers, dtype=object)).to_numpy(dtype=object)
    frame = pd.DataFrame(
        {
            item_column(tasks.name): tasks.to_numpy()[item],
            "worker": names[worker],
            "label": label[shared[starts[worker] + codes[item, worker]]],
        }
    )
    frame.attrs[_ROWS] = item
    notes = [
        f"{source}: read as {kind}, {len(frame):,} annotations of {len(tasks):,} items by {len(workers):,} workers, "
        f"{int((codes < 0).sum()):,} cells empty"
    ]
    return Records(frame, kind, {}, notes + ([sentence] if sentence else []), choices.several)


def _refuse_items(tasks: pd.Series[Any], columns: list[Cells], source: str) -> None:
    """Refuse missing and repeated items."""
    if tasks.isna().any():
        rows = (np.flatnonzero(tasks.isna())[:3] + 1).tolist()
        raise DataError(
            f"{source}, column {str(tasks.name)!r}, row {listed(rows)}: item missing; fill it in or drop the rows"
        )
    if tasks.duplicated().any():
        twice = tasks[tasks.duplicated()].tolist()
        shown = {label for column in columns for label in column.labels}
        advice = "keep one row per item, or join the columns that identify an item together to one"
        if shown.issuperset(labels_of(tasks).labels):
            advice += (
                f"; if {str(tasks.name)!r}, the first column, is that of a worker, add a column with the number of each row "
                f"before it"
            )
        raise DataError(f"{source}: item {listed(twice, 3)} repeated; {advice}")


def _minus_one(columns: list[Cells], choices: Choices, source: str) -> tuple[list[Cells], str | None]:
    """Return the cells with -1 as no label, unless it is a label, and a sentence on what was chosen.

    It is a label if it is declared, if cells are blank, if other labels are negative, or if there is only one other label.
    """
    given = {label for column in columns for label in column.labels}
    count = sum(int(column.counts[column.labels.index("-1")]) for column in columns if "-1" in column.labels)
    if not count:
        return columns, None
    reason = None
    if choices.labels is not None:
        reason = "since it is declared" if "-1" in map(str, choices.labels) else None
    elif any((column.codes < 0).any() for column in columns):
        reason = "since other cells are blank"
    elif any(re.fullmatch(r"-\d.*", label) for label in given - {"-1"}):
        reason = "since other labels are negative"
    elif len(given) <= 2:
        reason = f"since {listed(sorted(given - {'-1'}))} is the only other label"
    if reason is not None:
        return (
            columns,
            f"{source}: -1 in {count:,} cells is read as a label, {reason}; leave the cells blank if it is none",
        )
    sentence = (
        f"{source}: -1 in {count:,} cells is read as no label; if it is a class, declare all classes with labels=[...]"
    )
    return [_without(column, "-1") for column in columns], sentence


def _without(column: Cells, label: str) -> Cells:
    """Return a column in which a label is missing."""
    if label not in column.labels:
        return column
    at = column.labels.index(label)
    codes = np.where(column.codes == at, -1, column.codes - (column.codes > at))
    return Cells(codes, [other for other in column.labels if other != label])


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
