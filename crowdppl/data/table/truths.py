"""Known true labels: found in a column, mapping, Series or table, checked, and matched with the items of the annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.frames import maybe_pandas
from crowdppl.data.table.columns import ITEM_COLUMNS, LABEL_COLUMNS, candidate_names, column_of
from crowdppl.data.table.identifiers import Coded, coded, encode, kind_of, positions, rows_text
from crowdppl.data.table.several import as_text, one_label
from crowdppl.data.table.structured import Several
from crowdppl.errors import DataError, listed, warn

Array = npt.NDArray[Any]
Truth: TypeAlias = "str | Mapping[Any, Any] | pd.Series[Any] | pd.DataFrame | Any | None"

# Endings by which a name is recognised as that of a file rather than of a column.
FILE_ENDINGS = (".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".parquet", ".pq", ".json", ".jsonl", ".xlsx")


class TruthColumn(NamedTuple):
    """A column of known truths, and its name in messages."""

    values: pd.Series[Any]
    where: str


class KnownTruths(NamedTuple):
    """Items and classes of ``T`` known truths, their rows ``(T,)``, and the names of both columns in messages."""

    item: Coded
    label: Coded
    rows: Array
    where_item: str
    where_label: str

    def without_blanks(self) -> KnownTruths:
        """Return them without those whose label stands for nothing."""
        kept = np.flatnonzero(~self.label.missing)
        if len(kept) == len(self.rows):
            return self
        return self._replace(item=self.item.take(kept), label=self.label.take(kept), rows=self.rows[kept])


def notes_on_unknown(known: Array, given: Array, labels: Array, source: str) -> list[str]:
    """Return a note on known truths that are labels which no worker gives: they may be written otherwise.

    Args:
        known: class of each item, -1 if unknown, ``(N,)``.
        given: label of each annotation, ``(A,)``.
        labels: names of the classes, ``(K,)``.
        source: name of the table in messages.
    """
    counts = np.bincount(known[known >= 0], minlength=len(labels))
    unknown = np.flatnonzero((counts > 0) & (np.bincount(given, minlength=len(labels)) == 0))
    if not len(unknown):
        return []
    names = listed([labels[n] for n in unknown.tolist()], 3)
    return [
        f"{source}: {int(counts[unknown].sum()):,} of {int(counts.sum()):,} known truths are labels that no worker gives "
        f"({names}); if they are written otherwise, write truths and labels alike"
    ]


def known_without_codes(known: KnownTruths, labels: Sequence[Any]) -> tuple[KnownTruths, list[str]]:
    """Return known truths without -1, as programs write it for unknown, and a note; labels that workers give stay.

    Args:
        known: the known truths.
        labels: the labels of workers, and others that are classes. Where one of them is a negative number, -1 is a class.
    """
    given = [str(name) for name in labels]
    at = [n for n, name in enumerate(known.label.names.tolist()) if str(name) in ("-1", "-1.0")]
    if not at or any(name.startswith("-") for name in given):
        return known, []
    unknown = np.isin(known.label.codes, at)
    items = known.item.names[np.unique(known.item.codes[unknown])].tolist()
    label = Coded(np.where(unknown, -1, known.label.codes), known.label.names)
    sentence = (
        f"{known.where_label}: -1 as the known truth of {listed(items, 3)}, which no worker gives, is read as unknown; if it is "
        f"a class, declare all classes with labels=[...]"
    )
    return known._replace(label=label).without_blanks(), [sentence]


def truth_columns(
    frame: pd.DataFrame | None, columns: Sequence[Any], truth: Truth, source: str
) -> tuple[TruthColumn, TruthColumn] | None:
    """Convert known truths of any supported form to a column of items and a column of classes.

    Args:
        frame: table of the annotations, which may have a column of known truths.
        columns: its item and label columns; a table of known truths may use the same names, or the default names.
        truth: the known truths.
        source: name of the frame in messages.

    Raises:
        DataError: if the form is not supported, or a column is missing.
    """
    if truth is None:
        return None
    if isinstance(truth, str) and frame is not None:
        name = truth_column(frame, truth, source)
        items, labels = (TruthColumn(frame[c], f"{source}, column {str(c)!r}") for c in (columns[0], name))
        return items, labels
    where = "the known truths"
    if isinstance(truth, pd.Series):
        return TruthColumn(truth.index.to_series(), f"{where}, index"), TruthColumn(truth, where)
    if isinstance(truth, Mapping):
        keys, values = (pd.Series(list(part), dtype=object) for part in (truth.keys(), truth.values()))
        return TruthColumn(keys, where), TruthColumn(values, where)
    table = maybe_pandas(truth, where)
    if table is not None:
        item_names, label_names = (
            candidate_names(given, defaults)
            for given, defaults in zip(columns, (ITEM_COLUMNS, LABEL_COLUMNS), strict=True)
        )
        item = column_of(table, None, item_names, where, "rename the column that holds the task")
        label = column_of(table, None, label_names, where, "rename the column that holds the class")
        items, labels = (TruthColumn(table[c], f"{where}, column {str(c)!r}") for c in (item, label))
        return items, labels
    or_column = "a column name, " if frame is not None else ""
    raise DataError(
        f"truth is a {type(truth).__name__}; pass {or_column}a mapping or Series from item to class, or a frame"
    )


def truth_column(frame: pd.DataFrame, name: str, source: str) -> Any:
    """Find the column of known truths.

    Raises:
        DataError: if there is none; the message differs if the name looks like that of a file.
    """
    looks_like_a_file = Path(name).suffix.lower() in FILE_ENDINGS or Path(name).is_file()
    if looks_like_a_file and name not in [str(column) for column in frame.columns]:
        raise DataError(
            f"{source}: no column {name!r}, which looks like a file: truth=... names a column of the annotations; pass a "
            f"table of known truths as a frame (at the command line, --truth-file {name})"
        )
    return column_of(frame, name, (), source, "", "truth")


def known_truths(truth: tuple[TruthColumn, TruthColumn] | None, several: Several = "refuse") -> KnownTruths:
    """Code known truths, without blank and repeated rows.

    Args:
        truth: columns of items and classes.
        several: treatment of several classes in a cell, as of several labels.

    Raises:
        DataError: if a truth has no item, or an item has two truths.
    """
    if truth is None:
        none = np.zeros(0, dtype=np.int64)
        return KnownTruths(Coded(none, none), Coded(none, none), none, "", "")
    (item_column, where_item), (label_column, where_label) = truth
    labels = one_label(coded(as_text(label_column), "label", where_label), several, where_label)[0]
    items = coded(item_column, "task", where_item)
    without_item = np.flatnonzero(items.missing & ~labels.missing)
    if len(without_item):
        raise DataError(f"{where_item}, {rows_text(without_item)}: task missing; fill it in or drop the rows")
    rows = np.flatnonzero(~labels.missing)
    both = pd.DataFrame({"task": items.codes[rows], "label": labels.codes[rows]}).drop_duplicates()
    rows = rows[both.index.to_numpy()]
    items, labels = items.take(rows), labels.take(rows)
    conflict = pd.Series(items.codes).duplicated(keep=False).to_numpy()
    if conflict.any():
        raise DataError(
            f"{where_label}, {rows_text(rows[conflict])}: two different truths for "
            f"item {listed(items.names[pd.unique(items.codes[conflict])].tolist())}; keep one of them, or none"
        )
    return KnownTruths(items, labels, rows, where_item, where_label)


def truth_codes(
    known: KnownTruths, items: Array, labels: Array, source: str
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the known class of each item as codes ``(N,)``, -1 if unknown, and notes on truths that were left out.

    Raises:
        DataError: if items are strings in one place and integers in the other, or a class is not declared.
    """
    out = np.full(len(items), -1, dtype=np.int64)
    if len(known.rows) == 0:
        return out, []
    if kind_of(known.item.names) != kind_of(items):
        raise DataError(
            f"{known.where_item}: tasks are {kind_of(known.item.names)} but in {source} they are {kind_of(items)}; "
            f"write both as strings or both as integers"
        )
    notes = []
    item = positions(known.item.names, items)[known.item.codes]
    present = np.flatnonzero(item >= 0)
    if len(present) < len(item):
        notes.append(f"{source}: {unmatched(known, item, items, 'the annotations')}; they are left out")
        warn(notes[0])
    rows = known.rows[present]
    code, _ = encode(known.label.take(present), labels, "label", known.where_label, rows=rows, ordered=True)
    out[item[present]] = code
    return out, notes


def unmatched(known: KnownTruths, position: Array, items: Array, where: str) -> str:
    """Return a sentence on how many known truths are of unknown items, with examples.

    Args:
        known: truths of ``T`` items.
        position: position of each among ``items``, ``(T,)``, -1 if it is not one of them.
        items: names of the items, ``(N,)``.
        where: name of the data that have these items.
    """
    unknown = known.item.names[known.item.codes[position < 0]].tolist()
    total = len(position)
    sentence = f"{len(unknown):,} of {total:,} known truths are of items not in {where} ({listed(unknown, 3)}"
    return sentence + (f"; its items are like {listed(items.tolist(), 3)})" if len(unknown) == total else ")")
