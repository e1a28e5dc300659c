"""Items and workers that may not be what they seem, by the annotations that they have."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import listed

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
_FIRST, _BETWEEN, _SIGNS = 1_000, tuple("-_:/|. #@"), re.compile(r"[\W_]+")
# A row that is a comment, and the share of items that may be some; a row with a sum below those of an item.
_COMMENT, _COMMENTS = re.compile(r"(?:#|//)\s*(?P<name>\w.*)", re.DOTALL), 0.1
# What is before a run of signs ends in another sign, so that a run is looked at once.
_SUM = re.compile(
    r"(?P<before>.*?[^ _-])[ _-]+(?:sub|grand ?)?(?:total|sum|summe|result|ergebnis|count|anzahl|average|mean|mittelwert)"
    r"|(?:sub ?)?total[ :_-]+(?P<behind>.+)",
    re.IGNORECASE | re.DOTALL,
)
# Part of each such name, and names that are looked at.
_OF_SUM, _MOST = ("total", "sum", "result", "ergebnis", "count", "anzahl", "average", "mean", "mittelwert"), 100_000
# Workers for an item from which items and workers may be exchanged, items at most, and annotations and the difference between
# two shares of pairs that agree from which this is no chance.
_TIMES, _ITEMS, _ENOUGH, _DIFFERENCE = 5, 20, 60, 0.15


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
    if len(workers) == len(item) >= 2 * len(items) and all(
        str(items[i]) in str(workers[j]) for i, j in zip(item[:_FIRST].tolist(), worker[:_FIRST].tolist(), strict=True)
    ):
        return [
            f"{source}: each annotation has a worker of its own, such as {str(workers[worker[0]])!r}, with the item in the name; "
            f"if the column names annotations or sessions, name that of workers with worker=..."
        ]
    if within := _within_names(item, label, items, labels):
        return [f"{source}: {within}"]
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


def _within_names(item: Array, label: Array, items: Array, labels: Array) -> str:
    """Return where names of items have the labels in them, or labels the names of items, of all annotations; empty if nowhere."""
    if len(labels) < 2 or labels.dtype.kind not in "OU":
        return ""
    if _of_labels(item, label, items, labels):
        return (
            f"items such as {str(items[item[0]])!r} have the label in their name, {str(labels[label[0]])!r}, in all annotations, "
            f"and labels of one item never differ; if these names were written with the label, name the column of items with "
            f"task=..."
        )
    if len(labels) < len(items) or not _begins(str(labels[label[0]]), str(items[item[0]])):
        return ""
    for pair in np.unique(item * np.int64(len(labels)) + label).tolist():
        n, one = divmod(pair, len(labels))
        if not _begins(str(labels[one]), str(items[n])):
            return ""
    return (
        f"labels such as {str(labels[label[0]])!r} begin with the names of the items, so that one label is several classes; "
        f"leave the names out"
    )


def _begins(label: str, name: str) -> bool:
    return label.startswith(name) and label[len(name) :][:1] in _BETWEEN and len(label) >= len(name) + 2


def _of_labels(item: Array, label: Array, items: Array, labels: Array) -> bool:
    """Return whether each item has one label, which is in its name as no other label is, and most have several annotations.

    Names with several labels in them, such as those of two systems that are compared, name what can be chosen.
    """
    first = np.full(len(items), -1)
    first[item] = label
    if (
        first.min() < 0
        or (first[item] != label).any()
        or 2 * (np.bincount(item, minlength=len(items)) > 1).sum() < len(items)
    ):
        return False
    words = [str(name).casefold() for name in labels.tolist()]
    known = set(words)
    return len(set(first.tolist())) > 1 and all(
        known.intersection(_SIGNS.split(str(name).casefold())) == {words[one]} and str(name).casefold() != words[one]
        for name, one in zip(items.tolist(), first.tolist(), strict=True)
    )


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


def notes_on_names(items: Array, source: str) -> list[str]:
    """Return notes on items that are probably rows of a comment, or sums below the rows of an item.

    Args:
        items: names of items.
        source: name of the table.
    """
    if items.dtype.kind != "O":
        return []
    names = [str(name) for name in items[:_MOST].tolist()]
    notes = []
    matching = [(name, match["name"]) for name in names if name[:1] in "#/" and (match := _COMMENT.fullmatch(name))]
    if 0 < len(matching) <= _COMMENTS * len(names):
        forms = {_form(name) for name in names if name[:1] not in "#/"}
        commented = [name for name, rest in matching if any(map(str.isdigit, rest)) and _form(rest) in forms]
        if commented:
            it, they = ("it is", "a comment") if len(commented) == 1 else ("they are", "comments")
            notes.append(
                f"{source}: task names such as {commented[0]!r} begin as comments do, and are read; if {it} {they}, delete the "
                f"rows"
            )
    # The expression alone would take long to search all names.
    lower = "\n".join(names).lower()
    parts, known = [part for part in _OF_SUM if part in lower], set(names)
    some = re.compile("|".join(parts))
    sums = [
        name
        for name in (names if parts else ())
        if some.search(name.lower())
        and (match := _SUM.fullmatch(name))
        and (match["before"] or match["behind"]).strip() in known
    ]
    if sums:
        notes.append(
            f"{source}: {len(sums):,} task names, such as {listed(sums, 2)}, are those of a sum or a mean of another item by "
            f"their names, and are read as items; if they are none, delete the rows"
        )
    return notes


def _form(name: str) -> str:
    """Return a name with every number as 0."""
    return re.sub(r"\d+", "0", name)


def notes_on_exchange(
    codes: tuple[Array, Array, Array], names: tuple[Array, Array], labels: Array, source: str
) -> list[str]:
    """Return a note where few items have many workers, and annotations of a worker agree far more than those of an item.

    Args:
        codes: item, worker and label of each annotation, ``(A,)`` each.
        names: of items and workers.
        labels: the classes.
        source: name of the table.
    """
    item, worker, label = codes
    items, workers = names
    if not 1 < len(items) <= _ITEMS or len(workers) < _TIMES * len(items) or len(item) < _ENOUGH:
        return []
    of_item, of_worker = (_agreement(of, label, len(labels)) for of in (item, worker))
    if of_item is None or of_worker is None or of_worker - of_item < _DIFFERENCE:
        return []
    return [
        f"{source}: {len(items):,} items have {len(workers):,} workers, and {of_worker:.0%} of the pairs of labels of one worker "
        f"are equal, but {of_item:.0%} of those of one item; if the columns of items and workers are exchanged, name them with "
        f"task=... and worker=..."
    ]


def _agreement(of: Array, label: Array, classes: int) -> float | None:
    """Return the share of pairs of annotations with equal labels among those of one item or worker; ``None`` without any."""
    sizes = np.bincount(of).astype(float)
    # Labels may be texts of which each is its own: a count for each pair that is given, not for each that may be.
    equal = np.unique(of.astype(np.int64) * classes + label, return_counts=True)[1].astype(float)
    pairs = float((sizes * (sizes - 1)).sum())
    return float((equal * (equal - 1)).sum()) / pairs if pairs else None
