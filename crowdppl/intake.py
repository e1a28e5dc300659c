"""The way in: columns of a table to the fields of :class:`crowdppl.Annotations`, checked, coded and sorted once."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl.errors import CrowdpplWarning, DataError, listed, suggestion
from crowdppl.identifiers import case_variants, clean, encode, kind_of, lookalikes, positions, rows_text, spaced
from crowdppl.moments import since_1970

Array = npt.NDArray[Any]
Repeats = Literal["keep", "last", "refuse"]
Truth: TypeAlias = "str | Mapping[Any, Any] | pd.Series[Any] | pd.DataFrame | None"

# The first column of these that a table has is taken where the caller names none.
ITEM_COLUMNS = ("task", "item")
WORKER_COLUMNS = ("worker",)
LABEL_COLUMNS = ("label",)


def series(values: Any, name: str) -> pd.Series[Any]:
    """Take one of the caller's arrays as a column; NumPy would make strings of numbers that stand beside strings."""
    shape = tuple(getattr(values, "shape", (0,)))
    if isinstance(values, (str, bytes, set, frozenset, Mapping)) or not isinstance(values, Iterable) or len(shape) != 1:
        kind = f"has shape {shape}" if len(shape) != 1 else f"is of type {type(values).__name__}"
        raise DataError(f"{name} {kind}; pass three arrays of one dimension and one length")
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if hasattr(values, "dtype"):
        return pd.Series(values).reset_index(drop=True)
    return pd.Series(list(values), dtype=object)


def column_of(frame: pd.DataFrame, name: Any, usual: tuple[str, ...], source: str, mend: str) -> Any:
    """Find a column by the text of its name and return the name itself, which may be a number."""
    columns = [str(c) for c in frame.columns]
    wanted = (str(name),) if name is not None else usual
    found = next((w for w in wanted if w in columns), None)
    if found is None:
        told = " or ".join(repr(w) for w in wanted)
        raise DataError(
            f"{source}: no column {told}{suggestion(wanted[0], columns)}; columns are {listed(columns, 12)}; {mend}"
        )
    if columns.count(found) > 1:
        raise DataError(f"{source}: {columns.count(found)} columns are named {found!r}; rename or drop all but one")
    return frame.columns[columns.index(found)]


class _Column(NamedTuple):
    """A column of known truths and how messages call it."""

    values: pd.Series[Any]
    where: str


def truth_columns(frame: pd.DataFrame, task: Any, truth: Truth, source: str) -> tuple[_Column, _Column] | None:
    """Bring known truths in any of their forms to a column of items and one of classes."""
    if truth is None:
        return None
    if isinstance(truth, str):
        name = column_of(frame, truth, (), source, "say which one holds the known truths with truth=...")
        of_item, of_label = (_Column(frame[c], f"{source}, column {str(c)!r}") for c in (task, name))
        return of_item, of_label
    where = "the known truths"
    if isinstance(truth, pd.DataFrame):
        item = column_of(truth, None, ITEM_COLUMNS, where, "rename the one that holds the task")
        label = column_of(truth, None, LABEL_COLUMNS, where, "rename the one that holds the class")
        of_item, of_label = (_Column(truth[c], f"{where}, column {str(c)!r}") for c in (item, label))
        return of_item, of_label
    if isinstance(truth, pd.Series):
        return _Column(truth.index.to_series(), f"{where}, index"), _Column(truth, where)
    if isinstance(truth, Mapping):
        items, classes = (pd.Series(list(part), dtype=object) for part in (truth.keys(), truth.values()))
        return _Column(items, where), _Column(classes, where)
    raise DataError(
        f"truth is a {type(truth).__name__}; pass a column name, a mapping or Series from item to class, or a frame"
    )


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
        raise DataError(f"{source}: no rows; at least one judgement is needed")
    told: list[str] = []
    where = [f"{source}, column {str(name)!r}" for name in names]
    roles = ("task", "worker", "label")
    columns, masks = zip(
        *(clean(c, r, w) for c, r, w in zip((item_column, worker_column, label_column), roles, where, strict=True)),
        strict=True,
    )
    for mask, role, place in zip(masks[:2], roles[:2], where[:2], strict=True):
        if mask.any():
            raise DataError(f"{place}, {rows_text(np.flatnonzero(mask))}: {role} missing; fill it in or drop the rows")
    rows = np.flatnonzero(~masks[2])
    if len(rows) == 0:
        raise DataError(f"{where[2]}: every label is missing; at least one judgement is needed")
    if len(rows) < len(masks[2]):
        dropped = np.flatnonzero(masks[2])
        _tell(
            told,
            f"{where[2]}: dropped {len(dropped):,} of {len(masks[2]):,} rows without a label ({rows_text(dropped)})",
        )
        columns = tuple(column[rows] for column in columns)

    known = _known(truth)
    items_declared, workers_declared, labels_declared = declared
    item, items = encode(columns[0], items_declared, "task", where[0], rows=rows, ordered=False)
    worker, workers = encode(columns[1], workers_declared, "worker", where[1], rows=rows, ordered=False)
    if labels_declared is None and len(known.labels):
        # A class that only known truths show is a class: declare all that occur, sorted.
        labels_declared = _union(columns[2], known, where[2])
    label, labels = encode(columns[2], labels_declared, "label", where[2], rows=rows, ordered=True)
    if len(labels) < 2:
        if declared[2] is not None:
            raise DataError(f"{source}: only one class declared, {listed(labels.tolist())}; declare at least two")
        _tell(
            told, f"{source}: every label is {listed(labels.tolist())}; declare labels=[...] if there are other classes"
        )
    for ids, role in ((items, "task"), (workers, "worker"), (labels, "label")):
        odd, alike = spaced(ids), lookalikes(ids)
        # Items are many, and their names are rarely typed.
        cases = [] if role == "task" else [name for name in case_variants(ids) if name not in alike]
        if cases:
            _tell(
                told,
                f"{source}: {len(cases):,} {role} names differ from others in capitals only, and are taken as "
                f"{role}s of their own: {listed(cases)}; write them alike if they are the same",
            )
        if odd:
            _tell(
                told,
                f"{source}: {len(odd):,} {role} names with white space around them, kept as they are: {listed(odd)}",
            )
        if alike:
            _tell(
                told, f"{source}: {len(alike):,} {role} names differ from others in Unicode form only: {listed(alike)}"
            )

    chosen = _resolve_repeats(item, worker, label, repeats, rows, source, told)
    order = chosen[np.argsort(item[chosen], kind="stable")]
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
            _timing(column, f"{source}, column {str(column.name)!r}", moment=name == "when")[rows[order]]
        )
        for name, column in (timings or {}).items()
    }


def _timing(column: pd.Series[Any], where: str, *, moment: bool) -> Array:
    """Read moments (numbers, or dates as seconds since 1970) or durations as floats, NaN where blank."""
    blank = column.isna() | (column.astype(str).str.strip() == "")
    numbers = pd.to_numeric(column.where(~blank), errors="coerce")
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or (moment and bool((numbers.isna() & ~blank).any())):
        numbers = since_1970(column.where(~blank))
    values = numbers.to_numpy(dtype=float, na_value=np.nan)
    bad = np.flatnonzero((np.isnan(values) & ~blank.to_numpy()) | np.isinf(values))
    if len(bad):
        kind = "a number or a date" if moment else "a number"
        raise DataError(
            f"{where}, {rows_text(bad)}: {str(column.iloc[bad[0]])!r} is not {kind}; mend it or leave it blank"
        )
    if not moment and bool((values < 0).any()):
        raise DataError(
            f"{where}, {rows_text(np.flatnonzero(values < 0))}: a duration below 0; mend it or leave it blank"
        )
    return values


def _tell(told: list[str], sentence: str) -> None:
    told.append(sentence)
    # Point at the caller's own line, through however many of the library's functions the call came.
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("crowdppl."):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, CrowdpplWarning, stacklevel=level)


def _union(labels: Array, known: _Known, where: str) -> Array:
    if kind_of(labels) != kind_of(known.labels):
        raise DataError(
            f"{where}: labels are {kind_of(labels)} but {known.where_label}: {kind_of(known.labels)}; "
            f"write both as strings or both as integers"
        )
    both = [*pd.unique(labels).tolist(), *pd.unique(known.labels).tolist()]
    # Cleaned again: large unsigned integers beside others need a type that holds both.
    names, _ = clean(pd.Series(both, dtype=object), "label", where)
    return np.unique(names)


def _resolve_repeats(
    item: Array, worker: Array, label: Array, repeats: Repeats, rows: Array, source: str, told: list[str]
) -> Array:
    """Return the positions to keep, in order, under the policy for repeated judgements."""
    pair = pd.Series(item * (worker.max() + 1) + worker)
    again = pair.duplicated(keep="first").to_numpy()
    if not again.any():
        return np.arange(len(item))
    if repeats == "refuse":
        raise DataError(
            f"{source}, {rows_text(rows[again])}: a worker judged the same item again; drop the rows, or choose "
            f"repeats='keep' (each is evidence) or repeats='last'"
        )
    if repeats == "last":
        keep = ~pair.duplicated(keep="last").to_numpy()
        told.append(f"{source}: kept the last of repeated judgements, {int((~keep).sum()):,} earlier ones dropped")
        return np.flatnonzero(keep)
    repeated = pair.duplicated(keep=False).to_numpy()
    differing = pd.Series(label[repeated]).groupby(pair.to_numpy()[repeated]).nunique()
    told.append(
        f"{source}: {int(again.sum()):,} repeated judgements of an item by the same worker kept as evidence "
        f"({int((differing > 1).sum()):,} worker-item pairs contradict themselves)"
    )
    return np.arange(len(item))


class _Known(NamedTuple):
    """Known truths: items ``(T,)``, their classes ``(T,)`` and rows ``(T,)``, and how messages call both."""

    items: Array
    labels: Array
    rows: Array
    where_item: str
    where_label: str


def _known(truth: tuple[_Column, _Column] | None) -> _Known:
    """Clean known truths and leave out those that are blank."""
    if truth is None:
        none = np.zeros(0, dtype=np.int64)
        return _Known(none, none, none, "", "")
    (item_column, where_item), (label_column, where_label) = truth
    labels, blank = clean(label_column, "label", where_label)
    items, missing = clean(item_column, "task", where_item)
    nameless = np.flatnonzero(missing & ~blank)
    if len(nameless):
        raise DataError(f"{where_item}, {rows_text(nameless)}: task missing; fill it in or drop the rows")
    rows = np.flatnonzero(~blank)
    # Coded first: what is compared are small integers, whatever the identifiers are.
    both = pd.DataFrame(
        {"task": pd.factorize(items[rows])[0], "label": pd.factorize(labels[rows])[0]}
    ).drop_duplicates()
    rows = rows[both.index.to_numpy()]
    clash = both["task"].duplicated(keep=False).to_numpy()
    if clash.any():
        raise DataError(
            f"{where_label}, {rows_text(rows[clash])}: two different truths for "
            f"item {listed(pd.unique(items[rows[clash]]).tolist())}; leave one, or none"
        )
    return _Known(items[rows], labels[rows], rows, where_item, where_label)


def _known_codes(known: _Known, items: Array, labels: Array, source: str, told: list[str]) -> npt.NDArray[np.int64]:
    out = np.full(len(items), -1, dtype=np.int64)
    if len(known.items) == 0:
        return out
    if kind_of(known.items) != kind_of(items):
        raise DataError(
            f"{known.where_item}: tasks are {kind_of(known.items)} but in {source} they are {kind_of(items)}; "
            f"write both as strings or both as integers"
        )
    place = positions(known.items, items)
    here = place >= 0
    if not here.all():
        strange = known.items[~here].tolist()
        _tell(
            told,
            f"{source}: {len(strange):,} known truths of items without a judgement left out ({listed(strange, 3)})",
        )
    code, _ = encode(known.labels[here], labels, "label", known.where_label, rows=known.rows[here], ordered=True)
    out[place[here]] = code
    return out
