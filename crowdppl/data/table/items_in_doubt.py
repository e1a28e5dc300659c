"""Items and workers that may not be what they seem, by the annotations that they have."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Annotations from which items are looked at, and from which an only item is no small example.
_FEWEST, _MANY = 4, 10
# Digits of the number of a row at most, and the numbers of rows for each that is left, where some were left out.
_DIGITS, _GAPS = 12, 1.1
# A name of a file.
_FILE = re.compile(
    r"(?:.*[\w)-])\.(?:jpe?g|png|gif|bmp|tiff?|webp|wav|mp3|mp4|txt|html?|pdf)", re.IGNORECASE | re.DOTALL
)
# Annotations by which names of items are judged, and signs between the name of an item and that of a worker.
_FIRST, _BETWEEN = 1_000, tuple("-_:/|. #@")


def notes_on_items(item: Array, worker: Array, items: Array, workers: Array, source: str) -> list[str]:
    """Return a note where items or workers are one, or where each item has one annotation and the worker in its name.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        items: names of items.
        workers: names of workers.
        source: name of the table.
    """
    if len(item) < _FEWEST or len(items) < len(item) or len(workers) < 2:
        return _of_one(item, worker, items, workers, source)
    names = [str(name) for name in workers.tolist()]
    for n, of_worker in zip(item[:_FIRST].tolist(), worker[:_FIRST].tolist(), strict=True):
        name, who = str(items[n]), names[of_worker]
        behind = name.endswith(who) and name[: -len(who)][-1:] in _BETWEEN
        before = name.startswith(who) and name[len(who) :][:1] in _BETWEEN
        if not (behind or before) or name == who:
            return []
    return [
        f"{source}: each item has one annotation, and items such as {str(items[item[0]])!r} have the name of the worker in them, "
        f"so that no two workers share one: leave it out, or name the column of items with task=..."
    ]


def notes_on_roles(codes: tuple[Array, Array, Array], names: tuple[Array, Array, Array], source: str) -> list[str]:
    """Return a note where columns probably have another part: files or rows as workers, labels that name items or workers.

    Args:
        codes: item, worker and label of each annotation, ``(A,)`` each.
        names: of items, workers and labels.
        source: name of the table.
    """
    item, worker, label = codes
    items, workers, labels = names
    files = [str(name) for name in workers[:_FIRST].tolist() if _FILE.fullmatch(str(name))]
    if len(files) == min(len(workers), _FIRST) > 1 and not any(_FILE.fullmatch(str(name)) for name in items[:_FIRST]):
        return [
            f"{source}: all workers are names of files, such as {files[0]!r}, and no item is one; if the two columns are "
            f"exchanged, name them with task=... and worker=..."
        ]
    if len(item) < _MANY:
        return []
    if len(workers) == len(item) > len(items) and _number_rows(workers[worker]):
        return [
            f"{source}: each annotation has a worker of its own, numbered from {workers[worker[0]]} to {workers[worker[-1]]}; if "
            f"these are numbers of rows, name the column of workers with worker=..."
        ]
    if _MANY <= len(labels) == len(items) < len(item) and _one_each(item, label, len(items)):
        return [
            f"{source}: each item has a label of its own, on which all its annotations agree, such as {str(labels[label[0]])!r}; "
            f"if the labels name the items, name the column of labels with label=..."
        ]
    if len(workers) > 1 and [str(name) for name in workers[worker[:_FIRST]]] == [
        str(name) for name in labels[label[:_FIRST]]
    ]:
        return [
            f"{source}: each label is the name of its worker, such as {str(labels[label[0]])!r}; name the column of labels with "
            f"label=..."
        ]
    return []


def _number_rows(names: Array) -> bool:
    """Return whether names of workers number the rows up or down, but for few rows that were left out."""
    if names.dtype.kind != "i":
        if not str(names[0]).isdigit():
            return False
        texts = [str(name) for name in names.tolist()]
        if not all(len(name) <= _DIGITS and name.isascii() and name.isdigit() for name in texts):
            return False
        names = np.array(texts, dtype=np.int64)
    steps = np.diff(names)
    steps = -steps if steps[0] < 0 else steps
    return bool((steps > 0).all() and int(steps.sum()) + 1 <= _GAPS * len(names))


def _one_each(item: Array, label: Array, count: int) -> bool:
    """Return whether each item has one label, and each label one item."""
    pairs = np.unique(item.astype(np.int64) * count + label)
    return len(pairs) == count and len(np.unique(pairs % count)) == count


def _of_one(item: Array, worker: Array, items: Array, workers: Array, source: str) -> list[str]:
    """Return a note where all annotations are of one item, or one worker gave each item several."""
    if len(items) == 1 and len(item) >= _MANY:
        return [
            f"{source}: all {len(item):,} annotations are of one item, {str(items[0])!r}; if there are several, name their "
            f"column with task=..."
        ]
    # A rater who labels all items again gives each two.
    if len(workers) == 1 and len(items) > 1 and int(np.bincount(item).min()) > 2:
        return [
            f"{source}: all annotations are by one worker, {str(workers[0])!r}, who gave each item several; if they are of "
            f"several people, name their column with worker=..."
        ]
    return []
