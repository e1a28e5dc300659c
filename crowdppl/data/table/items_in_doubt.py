"""Items and workers that may not be what they seem, by the annotations that they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Annotations from which items are looked at, and from which an only item is no small example.
_FEWEST, _MANY = 4, 10
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
