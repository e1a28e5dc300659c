"""Annotations that are sets of labels: each label of each item becomes a question of its own, answered yes or no."""

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
    """Turn annotations that are sets of labels into annotations of (item, label) pairs: chosen (1) or not (0).

    Args:
        frame: a row for each annotation, its labels joined by ``separator``; blank for the empty set.
        task: column of the item's identifier.
        worker: column of the worker's.
        label: column of the sets.
        separator: between the labels of a set.
        relations: all labels, in order; those that occur, sorted, where not given.
        features: numbers known of the items, see :meth:`Annotations.with_features`; the relation's number is added to them.
        source: name of the table, for messages.

    Returns:
        Items named ``item|relation``, classes 0 and 1, and features ``(N, D + 1)``.

    Raises:
        DataError: where a set has a label that is not among ``relations``, or an item or worker is missing.
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
    strange = sorted(set(sets.columns) - set(names))
    if strange:
        raise DataError(
            f"{source}, column {label!r}: labels {listed(strange)} are not among the relations; add or mend them"
        )
    if not names:
        raise DataError(f"{source}, column {label!r}: every set is empty; name the relations with relations=[...]")
    chosen = sets.reindex(columns=names, fill_value=0).to_numpy()  # (annotations, R)
    R = len(names)
    unique, code = np.unique(items, return_inverse=True)
    relation = np.tile(np.arange(R), len(items))
    pair = np.char.add(np.char.add(unique.astype(str)[code].repeat(R), "|"), np.array(names)[relation])
    made = Annotations.from_arrays(pair, workers.repeat(R), chosen.reshape(-1), labels=[0, 1])
    made = replace(made, item_column=item_column(task))
    number = {f"{item}|{name}": (i, r) for i, item in enumerate(unique) for r, name in enumerate(names)}
    place = np.array([number[name] for name in made.items.tolist()])  # (N, 2)
    features = indexed(features, ITEM_COLUMNS, "features")
    of_items = np.zeros((len(unique), 0)) if features is None else matrix(features, unique, "task", "features")
    return made.with_features(np.column_stack([of_items[place[:, 0]], place[:, 1]]))
