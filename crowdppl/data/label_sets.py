"""Multi-label annotations: each pair of an item and a label becomes an item of its own, with classes 0 and 1."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.features import matrix
from crowdppl.data.frames import indexed, to_pandas
from crowdppl.data.table.cells import set_of
from crowdppl.data.table.columns import ITEM_COLUMNS, item_column, three_columns
from crowdppl.data.table.identifiers import clean, rows_text
from crowdppl.data.table.structured import SEPARATOR
from crowdppl.errors import DataError, OptionError, listed


def pairs(
    frame: Any,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    separator: str = SEPARATOR,
    relations: Iterable[str] | None = None,
    features: Any = None,
    blank: Literal["none", "missing"] = "none",
    source: str = "the frame",
) -> Annotations:
    """Convert annotations that are sets of labels to annotations of (item, label) pairs: chosen (1) or not (0).

    Args:
        frame: one row per annotation, its labels a list or joined by ``separator``; an empty list or text is the empty set.
        task: column of item identifiers. Defaults to ``"task"``, or ``"item"``.
        worker: column of worker identifiers. Defaults to ``"worker"``.
        label: column of label sets. Defaults to ``"label"``.
        separator: separator of the labels of a set.
        relations: all labels, in order. Defaults to those that occur, sorted.
        features: item features, see :meth:`Annotations.with_features`; the number of the relation is appended.
        blank: what cells without a value mean: ``"none"`` of the labels was chosen, or the set is ``"missing"`` and the row left
            out. In a column that also has empty lists or texts, they are missing.
        source: name of the table in messages.

    Returns:
        Items named ``item|relation``, classes 0 and 1, and features ``(N, D + 1)``.

    Raises:
        DataError: if a set has a label that is not among ``relations``, a cell holds no set, or an item or worker is missing.
        OptionError: for an unknown ``blank``.
    """
    frame = to_pandas(frame, source)
    task, worker, label = three_columns(frame, (task, worker, label), source)
    items, no_item = clean(frame[task], "task", f"{source}, column {task!r}")
    workers, no_worker = clean(frame[worker], "worker", f"{source}, column {worker!r}")
    for missing, what in ((no_item, "task"), (no_worker, "worker")):
        if missing.any():
            raise DataError(
                f"{source}, {rows_text(np.flatnonzero(missing))}: {what} missing; fill it in or drop the rows"
            )
    cells, notes = _sets(frame[label], separator, blank, f"{source}, column {label!r}")
    kept = np.array([members is not None for members in cells], dtype=bool)
    items, workers = items[kept], workers[kept]
    sets = [members for members in cells if members is not None]
    used = set(itertools.chain.from_iterable(sets))
    names = sorted(used) if relations is None else [str(r) for r in relations]
    unknown = sorted(used - set(names))
    if unknown:
        raise DataError(
            f"{source}, column {label!r}: labels {listed(unknown)} are not among the relations; add or correct them"
        )
    if not names:
        raise DataError(f"{source}, column {label!r}: every set is empty; list the labels with relations=[...]")
    R = len(names)
    number = {name: r for r, name in enumerate(names)}
    chosen = np.zeros((len(sets), R), dtype=np.int64)  # (annotations, R)
    for n, members in enumerate(sets):
        chosen[n, [number[name] for name in members]] = 1
    unique, code = np.unique(items, return_inverse=True)
    relation = np.tile(np.arange(R), len(items))
    pair = np.char.add(np.char.add(unique.astype(str)[code].repeat(R), "|"), np.array(names)[relation])
    data = Annotations.from_arrays(pair, workers.repeat(R), chosen.reshape(-1), labels=[0, 1])
    data = replace(data, item_column=item_column(task), notes=(*notes, *data.notes))
    pair_number = {f"{item}|{name}": (i, r) for i, item in enumerate(unique) for r, name in enumerate(names)}
    item_relation = np.array([pair_number[name] for name in data.items.tolist()])  # (N, 2)
    features = indexed(features, ITEM_COLUMNS, "features")
    item_features = np.zeros((len(unique), 0)) if features is None else matrix(features, unique, "task", "features")
    return data.with_features(np.column_stack([item_features[item_relation[:, 0]], item_relation[:, 1]]))


def _sets(column: pd.Series[Any], separator: str, blank: str, where: str) -> tuple[list[list[str] | None], list[str]]:
    """Return the set of each cell, ``None`` for rows to leave out, and notes on cells without a value."""
    if blank not in ("none", "missing"):
        raise OptionError(f"blank={blank!r}; use 'none' or 'missing'")
    cells = column.astype(object).tolist()
    read: dict[Any, list[str] | None] = {}
    sets = []
    for n, cell in enumerate(cells):
        key = cell if isinstance(cell, str) else repr(cell)
        if key not in read:
            try:
                read[key] = set_of(cell, separator)
            except ValueError as reason:
                raise DataError(f"{where}, {rows_text(np.array([n]))}: {str(cell)[:60]!r} {reason}") from None
        sets.append(read[key])
    without = sum(members is None for members in sets)
    if not without:
        return sets, []
    if blank == "missing" or any(members == [] for members in sets):
        if without == len(sets):
            raise DataError(f"{where}: every set is missing; blank='none' reads them as sets without a label")
        return sets, [f"{where}: {without:,} rows without a set left out"]
    note = f"{where}: {without:,} blank cells are read as sets without a label; blank='missing' leaves them out"
    return [[] if members is None else members for members in sets], [note]
