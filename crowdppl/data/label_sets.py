"""Multi-label annotations: each pair of an item and a label becomes an item of its own, with classes 0 and 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.data.columns import ITEM_COLUMNS, item_column, three_columns
from crowdppl.data.features import matrix
from crowdppl.data.frames import indexed, to_pandas
from crowdppl.data.identifiers import clean, rows_text
from crowdppl.errors import DataError, listed

SEPARATOR = ";"


def pairs(
    frame: Any,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    separator: str = SEPARATOR,
    relations: Iterable[str] | None = None,
    features: Any = None,
    source: str = "the frame",
) -> Annotations:
    """Convert annotations that are sets of labels to annotations of (item, label) pairs: chosen (1) or not (0).

    Args:
        frame: one row per annotation, its labels joined by ``separator``; blank for the empty set.
        task: column of item identifiers. Defaults to ``"task"``, or ``"item"``.
        worker: column of worker identifiers. Defaults to ``"worker"``.
        label: column of label sets. Defaults to ``"label"``.
        separator: separator of the labels of a set.
        relations: all labels, in order. Defaults to those that occur, sorted.
        features: item features, see :meth:`Annotations.with_features`; the number of the relation is appended.
        source: name of the table in messages.

    Returns:
        Items named ``item|relation``, classes 0 and 1, and features ``(N, D + 1)``.

    Raises:
        DataError: if a set has a label that is not among ``relations``, or an item or worker is missing.
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
    sets = frame[label].fillna("").astype(str).str.get_dummies(sep=separator)
    sets.columns = [str(c).strip() for c in sets.columns]
    sets = sets.drop(columns="", errors="ignore")
    names = sorted(sets.columns) if relations is None else [str(r) for r in relations]
    unknown = sorted(set(sets.columns) - set(names))
    if unknown:
        raise DataError(
            f"{source}, column {label!r}: labels {listed(unknown)} are not among the relations; add or correct them"
        )
    if not names:
        raise DataError(f"{source}, column {label!r}: every set is empty; list the labels with relations=[...]")
    chosen = sets.reindex(columns=names, fill_value=0).to_numpy()  # (annotations, R)
    R = len(names)
    unique, code = np.unique(items, return_inverse=True)
    relation = np.tile(np.arange(R), len(items))
    pair = np.char.add(np.char.add(unique.astype(str)[code].repeat(R), "|"), np.array(names)[relation])
    data = Annotations.from_arrays(pair, workers.repeat(R), chosen.reshape(-1), labels=[0, 1])
    data = replace(data, item_column=item_column(task))
    pair_number = {f"{item}|{name}": (i, r) for i, item in enumerate(unique) for r, name in enumerate(names)}
    item_relation = np.array([pair_number[name] for name in data.items.tolist()])  # (N, 2)
    features = indexed(features, ITEM_COLUMNS, "features")
    item_features = np.zeros((len(unique), 0)) if features is None else matrix(features, unique, "task", "features")
    return data.with_features(np.column_stack([item_features[item_relation[:, 0]], item_relation[:, 1]]))
