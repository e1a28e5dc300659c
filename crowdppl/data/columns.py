"""The way in: columns of a table to the fields of :class:`crowdppl.Annotations`, checked, coded and sorted once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from crowdppl.data.frames import maybe_pandas, to_series
from crowdppl.data.identifiers import (
    Coded,
    clean,
    coded,
    encode,
    equal_numbers,
    fractions,
    from_arrow,
    kind_of,
    lookalikes,
    positions,
    rows_text,
    spaced,
    variants,
)
from crowdppl.data.readers.tables import UNQUOTED
from crowdppl.data.timestamps import since_1970
from crowdppl.errors import DataError, listed, suggestion, warn

Array = npt.NDArray[Any]
Repeats = Literal["keep", "last", "refuse"]
Truth: TypeAlias = "str | Mapping[Any, Any] | pd.Series[Any] | pd.DataFrame | Any | None"

# The first column of these that a table has is taken where the caller names none.
ITEM_COLUMNS = ("task", "item")
WORKER_COLUMNS = ("worker",)
LABEL_COLUMNS = ("label",)
# What names a file and no column.
FILE_ENDINGS = (".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".parquet", ".pq", ".json", ".jsonl", ".xlsx")
ROLES = ("task", "worker", "label")


def series(values: Any, name: str) -> pd.Series[Any]:
    """Take one of the caller's arrays as a column; NumPy would make strings of numbers that stand beside strings."""
    values = to_series(values)
    shape = tuple(getattr(values, "shape", (0,)))
    if isinstance(values, (str, bytes, set, frozenset, Mapping)) or not isinstance(values, Iterable) or len(shape) != 1:
        kind = f"has shape {shape}" if len(shape) != 1 else f"is of type {type(values).__name__}"
        raise DataError(f"{name} {kind}; pass three arrays of one dimension and one length")
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if hasattr(values, "dtype"):
        return pd.Series(values).reset_index(drop=True)
    return pd.Series(list(values), dtype=object)


def column_of(
    frame: pd.DataFrame, name: Any, usual: tuple[str, ...], source: str, mend: str, argument: str | None = None
) -> Any:
    """Find a column by the text of its name and return the name itself, which may be a number.

    Args:
        frame: the table.
        name: as the caller gave it; ``None`` for the first of ``usual`` that is there.
        usual: names that are looked for.
        source: name of the table, for messages.
        mend: what to do where no usual name is there.
        argument: that the caller named the column with.
    """
    columns = [str(c) for c in frame.columns]
    wanted = (str(name),) if name is not None else usual
    found = next((w for w in wanted if w in columns), None)
    if found is None:
        told = f"{' or '.join(repr(w) for w in wanted)}{suggestion(wanted[0], columns)}"
        if name is not None and argument is not None:
            raise DataError(
                f"{source}: no column {told}, which {argument}=... names; columns are {listed(columns, 12)}"
            )
        raise DataError(f"{source}: no column {told}; columns are {listed(columns, 12)}; {mend}")
    if columns.count(found) > 1:
        raise DataError(f"{source}: {columns.count(found)} columns are named {found!r}; rename or drop all but one")
    return frame.columns[columns.index(found)]


def item_column(name: Any) -> str:
    """Return what tables of a result call the column of items, by the name of the column they came from."""
    return "item" if str(name) == "item" else "task"


def three_columns(frame: pd.DataFrame, given: Sequence[Any], source: str) -> list[Any]:
    """Find the columns of task, worker and label: those given, or where ``None`` by their usual names."""
    usual = (ITEM_COLUMNS, WORKER_COLUMNS, LABEL_COLUMNS)
    found = [
        column_of(frame, name, names, source, f"say which one holds the {role} with {role}=...", role)
        for name, names, role in zip(given, usual, ROLES, strict=True)
    ]
    if len(set(found)) < len(found):
        raise DataError(f"{source}: task, worker and label must be three columns, not {listed(found)}")
    return found


def unquoted(frame: pd.DataFrame, columns: Sequence[Any], source: str) -> tuple[str, ...]:
    """Say which names a reader took without the quote that protected them from spreadsheets."""
    read = frame.attrs.get(UNQUOTED, {})
    return tuple(
        f"{source}, column {column!r}: {len(read[column]):,} names read without the quote that keeps spreadsheets from running "
        f"them ({listed(read[column], 3)})"
        for column in columns
        if column in read
    )


class _Column(NamedTuple):
    """A column of known truths and how messages call it."""

    values: pd.Series[Any]
    where: str


def truth_columns(
    frame: pd.DataFrame | None, columns: Sequence[Any], truth: Truth, source: str
) -> tuple[_Column, _Column] | None:
    """Bring known truths in any of their forms to a column of items and one of classes.

    Args:
        frame: of the annotations, where a column of it may hold the known truths.
        columns: of the item and the label there: a table of known truths may call its columns the same, or by their usual names.
        truth: the known truths.
        source: name of the frame, for messages.
    """
    if truth is None:
        return None
    if isinstance(truth, str) and frame is not None:
        name = truth_column(frame, truth, source)
        of_item, of_label = (_Column(frame[c], f"{source}, column {str(c)!r}") for c in (columns[0], name))
        return of_item, of_label
    where = "the known truths"
    if isinstance(truth, pd.Series):
        return _Column(truth.index.to_series(), f"{where}, index"), _Column(truth, where)
    if isinstance(truth, Mapping):
        items, classes = (pd.Series(list(part), dtype=object) for part in (truth.keys(), truth.values()))
        return _Column(items, where), _Column(classes, where)
    table = maybe_pandas(truth, where)
    if table is not None:
        item = column_of(table, None, names_of(columns[0], ITEM_COLUMNS), where, "rename the one that holds the task")
        label = column_of(
            table, None, names_of(columns[1], LABEL_COLUMNS), where, "rename the one that holds the class"
        )
        of_item, of_label = (_Column(table[c], f"{where}, column {str(c)!r}") for c in (item, label))
        return of_item, of_label
    column_too = "a column name, " if frame is not None else ""
    raise DataError(
        f"truth is a {type(truth).__name__}; pass {column_too}a mapping or Series from item to class, or a frame"
    )


def truth_column(frame: pd.DataFrame, name: str, source: str) -> Any:
    """Find the column of known truths.

    Raises:
        DataError: where there is none; the name of a file is told to be one.
    """
    looks_like_a_file = Path(name).suffix.lower() in FILE_ENDINGS or Path(name).is_file()
    if looks_like_a_file and name not in [str(column) for column in frame.columns]:
        raise DataError(
            f"{source}: no column {name!r}, which looks like a file: truth=... names a column of the annotations; a "
            f"table of known truths is passed as a frame (at the command line, --truth-file {name})"
        )
    return column_of(frame, name, (), source, "", "truth")


def names_of(named: Any, usual: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that a column may have: the one given, where one is, then the usual ones."""
    return usual if named is None else tuple(dict.fromkeys((str(named), *usual)))


def fields(
    item_column: pd.Series[Any],
    worker_column: pd.Series[Any],
    label_column: pd.Series[Any],
    *,
    truth: tuple[_Column, _Column] | None,
    names: tuple[Any, Any, Any],
    declared: tuple[Iterable[Any] | None, ...],
    repeats: Repeats,
    source: str,
    timings: Mapping[str, pd.Series[Any]] | None = None,
) -> dict[str, Any]:
    """Clean, check, code and sort the three columns: the fields of :class:`crowdppl.Annotations`.

    ``timings`` go with them, columns of numbers or times, by field.
    """
    if len(label_column) == 0:
        raise DataError(f"{source}: no rows; at least one annotation is needed")
    told: list[str] = []
    where = [f"{source}, column {str(name)!r}" for name in names]
    roles = ("task", "worker", "label")
    columns = [coded(c, r, w) for c, r, w in zip((item_column, worker_column, label_column), roles, where, strict=True)]
    for column, role, place in zip(columns[:2], roles[:2], where[:2], strict=True):
        if column.missing.any():
            raise DataError(
                f"{place}, {rows_text(np.flatnonzero(column.missing))}: {role} missing; fill it in or drop the rows"
            )
    unlabelled, rows = columns[2].missing, None
    if unlabelled.all():
        raise DataError(f"{where[2]}: every label is missing; at least one annotation is needed")
    if unlabelled.any():
        rows, dropped = np.flatnonzero(~unlabelled), np.flatnonzero(unlabelled)
        _tell(
            told,
            f"{where[2]}: dropped {len(dropped):,} of {len(unlabelled):,} rows without a label ({rows_text(dropped)})",
        )
        columns = [column.take(rows) for column in columns]

    known = known_truths(truth)
    items_declared, workers_declared, labels_declared = declared
    item, items = encode(columns[0], items_declared, "task", where[0], rows=rows, ordered=False)
    worker, workers = encode(columns[1], workers_declared, "worker", where[1], rows=rows, ordered=False)
    if labels_declared is None and len(known.item.names):
        # A class that only known truths show is a class: declare all that occur, sorted.
        labels_declared = _union(columns[2].names, known, where[2])
    label, labels = encode(columns[2], labels_declared, "label", where[2], rows=rows, ordered=True)
    del columns
    if len(labels) < 2:
        if declared[2] is not None:
            raise DataError(f"{source}: only one class declared, {listed(labels.tolist())}; declare at least two")
        _tell(
            told,
            f"{source}: every label is {listed(labels.tolist())}; declare labels=[...] if there are other classes. "
            f"With one class every label is correct by construction: accuracy cannot be judged",
        )
    for ids, role in ((items, "task"), (workers, "worker"), (labels, "label")):
        alike = lookalikes(ids)
        cases = [(name, other) for name, other in variants(ids) if name not in alike]
        named = {name for pair in cases for name in pair}
        odd = [name for name in spaced(ids) if name not in named]
        if cases:
            _tell(
                told,
                f"{source}: {_differ(role, len(cases))} in capitals or white space only: {beside(cases, 2)}. Each is taken as a "
                f"{role} of its own; write them alike if they are the same",
            )
        if odd:
            _tell(
                told,
                f"{source}: white space stands around {role} names, which are kept as they are: {listed(odd, 2)}",
            )
        if alike:
            _tell(told, f"{source}: {_differ(role, len(alike))} in Unicode form only: {listed(alike, 2)}")

    if declared[2] is None:
        _odd_numbers(labels, source, told)
    order = by_item(item, len(items))
    kept = _resolve_repeats(item, worker, label, repeats, rows, source, told)
    if kept is not None:
        order = np.flatnonzero(kept) if isinstance(order, slice) else order[kept[order]]
    return {
        "item": torch.from_numpy(item[order]),
        "worker": torch.from_numpy(worker[order]),
        "label": torch.from_numpy(label[order]),
        "truth": torch.from_numpy(_known_codes(known, items, labels, source, told)),
        "items": items,
        "workers": workers,
        "labels": labels,
        "notes": tuple(told),
    } | {
        name: torch.from_numpy(
            _timing(column, f"{source}, column {str(column.name)!r}", moment=name == "timestamp")[
                order if rows is None else rows[order]
            ]
        )
        for name, column in (timings or {}).items()
    }


def beside(pairs: Sequence[tuple[str, str]], most: int = 5) -> str:
    """Return names beside others as readable text, with a count of those left out."""
    text = ", ".join(f"{name!r} beside {other!r}" for name, other in pairs[:most])
    return text if len(pairs) <= most else f"{text} and {len(pairs) - most:,} more"


def _differ(role: str, count: int) -> str:
    return f"1 {role} name differs from another" if count == 1 else f"{count:,} {role} names differ from others"


def _odd_numbers(labels: Array, source: str, told: list[str]) -> None:
    """Tell of labels that look like scores, and of one number written in two ways."""
    scores, again = fractions(labels), equal_numbers(labels)
    if scores:
        _tell(
            told,
            f"{source}: labels are numbers, some of them not whole ({listed(scores)}), and are taken as {len(labels):,} classes "
            f"without order; if they are scores, round them or cut them into ranges first",
        )
    if again:
        _tell(
            told,
            f"{source}: {len(again):,} labels are the same number as others and are taken as classes of their own: "
            f"{beside(again)}; write them alike if they are the same",
        )


def _timing(column: pd.Series[Any], where: str, *, moment: bool) -> Array:
    """Read moments (numbers, or dates as seconds since 1970) or durations as floats ``(A,)``, NaN where blank."""
    found = from_arrow(column) if isinstance(column.dtype, pd.ArrowDtype) else None
    codes, names = pd.factorize(column) if found is None else found
    # Each value is read once, however many rows have it.
    texts = pd.Series(names)
    blank = texts.isna() | (texts.astype(str).str.strip() == "")
    numbers = pd.to_numeric(texts.where(~blank), errors="coerce")
    if pd.api.types.is_datetime64_any_dtype(texts.dtype) or (moment and bool((numbers.isna() & ~blank).any())):
        numbers = since_1970(texts.where(~blank))
    values = numbers.to_numpy(dtype=float, na_value=np.nan)

    def refuse(wrong: Array, why: str) -> None:
        if wrong.any():
            rows = np.flatnonzero(np.append(wrong, False)[codes])
            raise DataError(f"{where}, {rows_text(rows)}: {why}; mend it or leave it blank")

    bad = (np.isnan(values) & ~blank.to_numpy()) | np.isinf(values)
    shown = str(texts[bad].iloc[0]) if bad.any() else ""
    refuse(bad, f"{shown!r} is not {'a number or a date' if moment else 'a number'}")
    if not moment:
        refuse(values < 0, "a duration below 0")
    # A missing value has the code -1: the one put at the end.
    return np.append(values, np.nan)[codes]


def _tell(told: list[str], sentence: str) -> None:
    told.append(sentence)
    warn(sentence)


def _union(labels: Array, known: _Known, where: str) -> Array:
    """Return the classes of annotations, ``(n,)`` names, and of known truths, sorted."""
    if kind_of(labels) != kind_of(known.label.names):
        raise DataError(
            f"{where}: labels are {kind_of(labels)} but {known.where_label}: {kind_of(known.label.names)}; "
            f"write both as strings or both as integers"
        )
    both = [*labels.tolist(), *known.label.names.tolist()]
    # Cleaned again: large unsigned integers beside others need a type that holds both.
    names, _ = clean(pd.Series(both, dtype=object), "label", where)
    return np.unique(names)


def by_item(item: npt.NDArray[np.int64], items: int) -> Array | slice:
    """Return the order ``(A,)`` that sorts annotations by their item and keeps those of an item as they came, or all of them."""
    if bool((item[1:] >= item[:-1]).all()):
        return slice(None)
    # A row of positions for each item is what compressed rows are: they are made by counting, in linear time.
    position = np.arange(len(item))
    rows = scipy.sparse.coo_array((np.ones(len(item), dtype=np.int8), (item, position)), shape=(items, len(item)))
    return rows.tocsr().indices


def _resolve_repeats(
    item: Array, worker: Array, label: Array, repeats: Repeats, rows: Array | None, source: str, told: list[str]
) -> Array | None:
    """Tell which annotations ``(A,)`` the policy for repeated ones keeps; ``None`` for all."""

    def pairs() -> Array:
        key = item * (int(worker.max()) + 1)
        key += worker
        return key

    key = pairs()
    key.sort()
    twice = key[1:][key[1:] == key[:-1]]
    if len(twice) == 0:
        return None
    key = pairs()
    # Repeats are few: they are looked at by themselves.
    at = np.flatnonzero(pd.Index(key, copy=False).isin(pd.unique(twice)))
    pair = pd.Series(key[at])
    again = pair.duplicated(keep="first").to_numpy()
    if repeats == "refuse":
        raise DataError(
            f"{source}, {rows_text(at[again], of=rows)}: a worker judged the same item again; drop the rows, or choose "
            f"repeats='keep' (each is evidence) or repeats='last'"
        )
    if repeats == "last":
        dropped = at[pair.duplicated(keep="last").to_numpy()]
        told.append(f"{source}: kept the last of repeated annotations, {len(dropped):,} earlier ones dropped")
        keep = np.ones(len(key), dtype=bool)
        keep[dropped] = False
        return keep
    # Each pair once more for each further label that it was given: a pair with more than one contradicts itself.
    labels = pd.DataFrame({"pair": pair, "label": label[at]}).drop_duplicates()
    differing = labels["pair"].duplicated().to_numpy()
    told.append(
        f"{source}: {int(again.sum()):,} repeated annotations of an item by the same worker kept as evidence "
        f"({labels['pair'][differing].nunique():,} worker-item pairs contradict themselves)"
    )
    return None


class _Known(NamedTuple):
    """Known truths: items and classes of ``T`` rows, the rows ``(T,)``, and how messages call both."""

    item: Coded
    label: Coded
    rows: Array
    where_item: str
    where_label: str


def known_truths(truth: tuple[_Column, _Column] | None) -> _Known:
    """Code known truths and leave out those that are blank or told before."""
    if truth is None:
        none = np.zeros(0, dtype=np.int64)
        return _Known(Coded(none, none), Coded(none, none), none, "", "")
    (item_column, where_item), (label_column, where_label) = truth
    labels = coded(label_column, "label", where_label)
    items = coded(item_column, "task", where_item)
    nameless = np.flatnonzero(items.missing & ~labels.missing)
    if len(nameless):
        raise DataError(f"{where_item}, {rows_text(nameless)}: task missing; fill it in or drop the rows")
    rows = np.flatnonzero(~labels.missing)
    both = pd.DataFrame({"task": items.codes[rows], "label": labels.codes[rows]}).drop_duplicates()
    rows = rows[both.index.to_numpy()]
    items, labels = items.take(rows), labels.take(rows)
    clash = pd.Series(items.codes).duplicated(keep=False).to_numpy()
    if clash.any():
        raise DataError(
            f"{where_label}, {rows_text(rows[clash])}: two different truths for "
            f"item {listed(items.names[pd.unique(items.codes[clash])].tolist())}; leave one, or none"
        )
    return _Known(items, labels, rows, where_item, where_label)


def _known_codes(known: _Known, items: Array, labels: Array, source: str, told: list[str]) -> npt.NDArray[np.int64]:
    out = np.full(len(items), -1, dtype=np.int64)
    if len(known.rows) == 0:
        return out
    if kind_of(known.item.names) != kind_of(items):
        raise DataError(
            f"{known.where_item}: tasks are {kind_of(known.item.names)} but in {source} they are {kind_of(items)}; "
            f"write both as strings or both as integers"
        )
    place = positions(known.item.names, items)[known.item.codes]
    here = np.flatnonzero(place >= 0)
    if len(here) < len(place):
        _tell(told, f"{source}: {unmatched(known, place, items, 'the annotations')}; they are left out")
    code, _ = encode(known.label.take(here), labels, "label", known.where_label, rows=known.rows[here], ordered=True)
    out[place[here]] = code
    return out


def unmatched(known: _Known, place: Array, items: Array, where: str) -> str:
    """Say how many known truths are of items that are not there, with some of them.

    Args:
        known: truths of ``T`` items.
        place: of each among ``items``, ``(T,)``, -1 where it is not there.
        items: names of the items ``(N,)``.
        where: what has no such items, for the sentence.
    """
    strange = known.item.names[known.item.codes[place < 0]].tolist()
    total = len(place)
    told = f"{len(strange):,} of {total:,} known truths are of items not in {where} ({listed(strange, 3)}"
    return told + (f"; its items are like {listed(items.tolist(), 3)})" if len(strange) == total else ")")
