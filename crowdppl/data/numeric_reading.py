"""Tables whose labels are numbers: how they are told from classes, and what is read from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import torch

from crowdppl import arguments
from crowdppl.data.frames import to_pandas
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.table import names_in_doubt
from crowdppl.data.table.columns import item_column, reader_notes, three_columns
from crowdppl.data.table.identifier_checks import written_number
from crowdppl.data.table.identifiers import Coded, as_objects, coded, encode, kind_of, positions, rows_text
from crowdppl.data.table.missing_words import words_for_nothing
from crowdppl.data.table.numbers_in_doubt import notes_on_numbers
from crowdppl.data.table.repeats import Repeats, repeated, sort_by_item
from crowdppl.data.table.several import as_text
from crowdppl.data.table.truths import Truth, truth_columns
from crowdppl.errors import DataError, OptionError, listed

Array = npt.NDArray[Any]

# Whole numbers with more values than this may be numbers, grades or classes: the caller has to say.
MOST_VALUES = 20
ROLES = ("task", "worker")
_COMMA = re.compile(r"[+-]?\d+,\d+")


def looks_numeric(labels: pd.Series[Any], source: str) -> str | None:
    """Return a note where labels are numbers that are not all whole, so that they are read as numbers; else ``None``.

    Args:
        labels: a column of labels of which nobody said what they are.
        source: name of the table in messages.

    Raises:
        DataError: for whole numbers with more than ``MOST_VALUES`` values, which may be numbers, grades or classes.
    """
    # Codes of a few classes are the usual case: their range tells that they are few, at a third of the cost of finding them all.
    plain = isinstance(labels.dtype, np.dtype) and labels.dtype.kind in "iu" and len(labels) > 0
    if plain and int(labels.max()) - int(labels.min()) < MOST_VALUES:
        return None
    values = _distinct_numbers(labels)
    if values is None or len(values) < 2:
        return None
    whole = bool((values % 1 == 0).all())
    low, high = float(values.min()), float(values.max())
    if not whole:
        return (
            f"{source}: labels are numbers from {low:g} to {high:g}, some of them not whole, and are read as numbers; "
            f"kind='nominal' reads them as classes, kind='ordinal' as grades"
        )
    if len(values) <= MOST_VALUES:
        return None
    raise DataError(
        f"{source}: labels are {len(values):,} different whole numbers from {low:g} to {high:g}; say what they are with "
        f"kind='numeric' for numbers, kind='ordinal' for grades or kind='nominal' for classes"
    )


def _distinct_numbers(labels: pd.Series[Any]) -> Array | None:
    """Return the different numbers of a column, ``(n,)``; ``None`` if some label is not a number."""
    labels = _decoded(labels)
    stored = _stored(labels)
    if stored == "numbers":
        values = pd.to_numeric(pd.Series(labels.unique())).dropna().to_numpy(dtype=float)
        return values if np.isfinite(values).all() else None
    if stored != "text":
        return None
    # A few cells tell most columns of names, without a look at all rows.
    first = _objects(labels.iloc[: MOST_VALUES + 1]).dropna().tolist()
    if not any(isinstance(one, (str, int, float)) and written_number(str(one)) for one in first):
        return None
    try:
        names = coded(
            as_text(_text(labels) if pd.api.types.is_object_dtype(labels.dtype) else labels), "label", ""
        ).names.tolist()
    except DataError:  # it is reported where labels are read
        return None
    if any(isinstance(name, bool) for name in names):
        return None
    text = [str(name).strip() for name in names]
    nothing = words_for_nothing(text)[0]
    text = [one for one in text if one and one not in nothing]
    if not text or not all(map(written_number, text)):
        return None
    return np.unique(np.array(text, dtype=float))


def _decoded(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column without Arrow's dictionaries, as which files are read."""
    kind = column.dtype
    if not (isinstance(kind, pd.ArrowDtype) and pyarrow.types.is_dictionary(kind.pyarrow_dtype)):
        return column
    if pyarrow.types.is_nested(kind.pyarrow_dtype.value_type):  # no numbers, and without a cast
        return column
    values: Any = pyarrow.array(column.array)
    cast = values.cast(kind.pyarrow_dtype.value_type)
    return pd.Series(pd.arrays.ArrowExtensionArray(cast), index=column.index, name=column.name)


def _stored(column: pd.Series[Any]) -> Literal["numbers", "text", "booleans", "categories", "other"]:
    """Return how the cells of a column are stored; objects of any type count as text."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return "categories"
    if isinstance(kind, pd.ArrowDtype):  # of which pandas does not know all types
        own = kind.pyarrow_dtype
        if pyarrow.types.is_boolean(own):
            return "booleans"
        if pyarrow.types.is_integer(own) or pyarrow.types.is_floating(own):
            return "numbers"
        texts = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view)
        return "text" if any(test(own) for test in texts) else "other"
    if pd.api.types.is_bool_dtype(kind):
        return "booleans"
    if pd.api.types.is_integer_dtype(kind) or pd.api.types.is_float_dtype(kind):
        return "numbers"
    return "text" if pd.api.types.is_object_dtype(kind) or pd.api.types.is_string_dtype(kind) else "other"


def _objects(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with its cells as Python objects."""
    return as_objects(column) if isinstance(column.dtype, pd.ArrowDtype) else column.astype(object)


def numeric_annotations(
    frame: Any,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    truth: Truth = None,
    items: Iterable[Any] | None = None,
    workers: Iterable[Any] | None = None,
    repeats: Repeats = "keep",
    missing: Sequence[str] = (),
    scale: Sequence[float] | None = None,
    features: Any = None,
    source: str = "the frame",
    notes: Sequence[str] = (),
) -> NumericAnnotations:
    """Return annotations whose labels are numbers; arguments as of :meth:`crowdppl.Annotations.from_frame`.

    ``notes`` are sentences on how the kind of labels was recognised, and on the columns.

    Raises:
        DataError: if the table cannot be used; the message names the rows, the column and a fix.
        OptionError: for a scale that is not a pair of numbers.
    """
    bounds = _bounds(scale)
    frame = to_pandas(frame, source, ", or use from_arrays")
    names = three_columns(frame, (task, worker, label), source)
    if len(frame) == 0:
        raise DataError(f"{source}: no rows; at least one annotation is needed")
    where = [f"{source}, column {str(name)!r}" for name in names]
    notes = [*notes]
    value = values_of(frame[names[2]], where[2], missing, notes)
    columns = [coded(as_text(frame[name]), role, place) for name, role, place in zip(names, ROLES, where, strict=False)]
    for column, role, place in zip(columns, ROLES, where, strict=False):
        if column.missing.any():
            raise DataError(
                f"{place}, {rows_text(np.flatnonzero(column.missing))}: {role} missing; fill it in or drop the rows"
            )
    rows = np.flatnonzero(~np.isnan(value))
    if len(rows) == 0:
        raise DataError(f"{where[2]}: every label is missing; at least one annotation is needed")
    if len(rows) < len(value):
        empty = np.flatnonzero(np.isnan(value))
        names_in_doubt.add(
            notes, f"{where[2]}: dropped {len(empty):,} of {len(value):,} rows without a label ({rows_text(empty)})"
        )
        columns, value = [column.take(rows) for column in columns], value[rows]
    if bounds is not None and (value.min() < bounds[0] or value.max() > bounds[1]):
        outside = rows[(value < bounds[0]) | (value > bounds[1])]
        raise DataError(
            f"{where[2]}, {rows_text(outside)}: numbers outside of the scale from {bounds[0]:g} to {bounds[1]:g}; correct them, "
            f"or state another scale"
        )
    item, item_names = encode(columns[0], items, "task", where[0], rows=rows, ordered=False)
    by, worker_names = encode(columns[1], workers, "worker", where[1], rows=rows, ordered=False)
    for identifiers, role in ((item_names, "task"), (worker_names, "worker")):
        names_in_doubt.check_names(identifiers, role, source, notes)
    notes += notes_on_numbers(item, by, value, worker_names, source)
    order = sort_by_item(item, len(item_names))
    _, same = np.unique(value, return_inverse=True)
    kept = repeated(item, by, same, repeats, rows, source, notes)
    if kept is not None:
        order = np.flatnonzero(kept) if isinstance(order, slice) else order[kept[order]]
    known = known_numbers(truth_columns(frame, (names[0], names[2]), truth, source), item_names, source, notes)
    notes += reader_notes(frame, names, source)
    data = NumericAnnotations(
        item=torch.from_numpy(item[order]),
        worker=torch.from_numpy(by[order]),
        value=torch.from_numpy(value[order]),
        truth=torch.from_numpy(known),
        items=item_names,
        workers=worker_names,
        scale=bounds,
        notes=tuple(notes),
        item_column=item_column(names[0]),
        repeats=repeats,
    )
    return data.with_features(features)


def values_of(column: pd.Series[Any], where: str, missing: Sequence[str], notes: list[str]) -> Array:
    """Return a column as numbers, ``(A,)``, NaN where a cell is empty or stands for nothing.

    Args:
        column: the labels, or known true numbers.
        where: location of the column, for messages.
        missing: words that stand for no label, beside the usual ones.
        notes: sentences on what was changed, added to.

    Raises:
        DataError: for text that is not a number, and for numbers that are not finite; the message names rows.
    """
    column = _decoded(column)
    stored = _stored(column)
    if stored == "booleans":
        raise DataError(f"{where}: labels are True and False, not numbers; leave kind='numeric' out")
    if stored == "other":
        raise DataError(f"{where}: labels are of the type {column.dtype}, not numbers; convert them to numbers or text")
    if stored == "numbers":
        out = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        text = coded(_text(column), "label", where)
        out = _parsed(text, where, missing, notes)
    infinite = np.flatnonzero(np.isinf(out))
    if len(infinite):
        raise DataError(f"{where}, {rows_text(infinite)}: the number is infinite; correct the rows or leave them empty")
    return np.array(out)  # a copy: tables may be read-only


def _text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with its cells as text, as numbers beside words are one type only then."""
    filled = _objects(column)
    return filled.where(filled.isna(), filled.map(lambda one: one if isinstance(one, str) else str(one)))


def _parsed(text: Coded, where: str, missing: Sequence[str], notes: list[str]) -> Array:
    """Return the numbers that a column of text names, ``(A,)``."""
    names = [name.strip() for name in text.names.tolist()]
    nothing, unclear = words_for_nothing(names, missing)
    dropped = {*nothing, *unclear}  # words have no other meaning among numbers
    commas = [name for name in names if _COMMA.fullmatch(name)]
    # "1,250" may be a thousand: a comma is a decimal one where some number shows it.
    decimal = bool(commas) and any(len(name.partition(",")[2]) != 3 for name in commas)
    if commas and decimal and not any("." in name for name in names if name not in dropped):
        notes.append(f"{where}: numbers are written with a decimal comma ({listed(commas, 3)})")
        names = [name.replace(",", ".") if _COMMA.fullmatch(name) else name for name in names]
    wrong = [n for n, name in enumerate(names) if name not in dropped and not written_number(name)]
    if wrong:
        rows = np.flatnonzero(np.isin(text.codes, wrong))
        examples = [text.names[n] for n in wrong]
        raise DataError(
            f"{where}, {rows_text(rows)}: {listed(examples, 3)} {'is' if len(wrong) == 1 else 'are'} not a number; correct the "
            f"rows, or name words that stand for no label with missing=[...] (--missing)"
        )
    value = np.array([np.nan if name in dropped else float(name) for name in names] + [np.nan])
    return value[text.codes]


def known_numbers(truth: Any, items: Array, source: str, notes: list[str]) -> Array:
    """Return the known true number of each item, ``(N,)``, NaN if unknown.

    Args:
        truth: columns of items and of numbers, see :func:`crowdppl.data.table.truths.truth_columns`; ``None`` for none.
        items: identifiers of the items, ``(N,)``.
        source: name of the annotations in messages.
        notes: sentences on what was changed, added to.

    Raises:
        DataError: if an item has two true numbers, or a cell is none.
    """
    out = np.full(len(items), np.nan)
    if truth is None:
        return out
    (item_cells, where_item), (cells, where) = truth
    values = values_of(cells, where, (), notes)
    rows = np.flatnonzero(~np.isnan(values))
    names = coded(item_cells, "task", where_item)
    if names.missing[rows].any():
        raise DataError(
            f"{where_item}, {rows_text(rows[names.missing[rows]])}: task missing; fill it in or drop the rows"
        )
    table = pd.DataFrame({"item": names.codes[rows], "value": values[rows]}).drop_duplicates()
    twice = table["item"].duplicated(keep=False)
    if twice.any():
        double = names.names[table["item"][twice].unique()].tolist()
        raise DataError(f"{where}: two different true numbers for item {listed(double)}; keep one of them, or none")
    if len(table) and kind_of(names.names) != kind_of(items):
        raise DataError(
            f"{where_item}: tasks are {kind_of(names.names)} but in {source} they are {kind_of(items)}; write both as strings "
            f"or both as integers"
        )
    place = positions(names.names, items)[table["item"].to_numpy()]
    if (place < 0).any():
        lost = pd.Series(names.names[table["item"].to_numpy()[place < 0]]).tolist()
        names_in_doubt.add(
            notes,
            f"{source}: {len(lost):,} of {len(table):,} known truths are of items not in the annotations ({listed(lost, 3)}); "
            f"they are left out",
        )
    out[place[place >= 0]] = table["value"].to_numpy()[place >= 0]
    return out


def _bounds(scale: Sequence[float] | None) -> tuple[float, float] | None:
    """Check the ends of a scale.

    Raises:
        OptionError: if they are not a pair of numbers, the lower one first.
    """
    if scale is None:
        return None
    low, high = (float(one) for one in arguments.several(arguments.number(), 2)("scale", scale)[:2])
    if len(list(scale)) != 2 or low >= high:
        raise OptionError(
            f"scale={arguments.shown(list(scale))}; give the lowest and the highest number, such as (0, 100)"
        )
    return low, high
