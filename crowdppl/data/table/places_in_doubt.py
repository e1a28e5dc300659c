"""Annotations of one item that may be of several: of places in it, of items that are numbered again, or of true labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table import questions
from crowdppl.data.table.identifiers import text_of
from crowdppl.data.table.timestamps import EPOCH
from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Columns that say where in an item a label is: spans, boxes, tokens, turns.
PLACE = re.compile(
    r"(?P<edge>(char|token|span|word|segment|region)?_?(start|end|begin|offset|onset)(_?(char|token|offset))?)"
    r"|(x|y)_?(min|max|1|2)?|b(ounding_?)?box|polygon|points|coordinates"
    r"|(region|span|segment|sentence|token|word|turn|utterance|message|frame|slice|page|line|paragraph|chunk|tile|crop|object"
    r"|entity|mention)(_?(id|no|nr|num|number|index|idx|text))?"
)
# Columns with parts of the data, in which items may be numbered again.
PART = re.compile(
    r"(data_?set|corpus|batch|split|fold|pool|campaign|project|job|file|file_?name|shard|partition|part|study|wave|site|collection)"
    r"(_?(id|no|nr|num|number|name|index))?"
)
# Rows by which columns are compared; items from which they are; and the z score of bounds.
_ROWS, _ENOUGH, _SAME = 100_000, 10, 2.0
# Share of the agreement within parts, below which that of two parts is of other items.
_BELOW = 0.7
# Labels of parts and items that are compared at once.
_LARGEST = 2_000_000
# Places for each item and worker, on the mean, from which few repeated annotations do not explain them.
_SEVERAL = 1.1
# Columns with at most so many different values may hold labels, and rows that show most of those that do not.
_CLASSES, _FIRST = 50, 1_000
# Words in the name of a column of labels that workers gave, and of one that has the same values for another purpose.
_GIVEN = re.compile(
    r"(answer|response|repl(y|ies)|label|annotation|choice|selection|selected|vote|verdict|judge?ment|class|category|rating|grade)"
    r"(ed|s|es)?(id|code|value|name)?"
)
_OTHERWISE = re.compile(
    r"conf(idence|ident)?|cert(ain|ainty)?|sure(ness)?|difficulty|first|initial|prev(ious)?|prior|before|old|earlier|original|draft"
    r"|preliminary|suggest(ed|ion)?|second|alternative|next|final|consensus|true|truth|gold|correct|expected|expert|model|predicted"
    r"|prediction|machine|auto|quality|time|count|num|number|self|peer|other"
)
_TOKEN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
# Agreement above chance of workers with true labels, as a share of what is possible.
_ABOVE_CHANCE = 0.2


def notes_on(
    frame: pd.DataFrame, used: Sequence[Any], codes: tuple[Array, Array], named: Collection[str], source: str
) -> list[str]:
    """Return notes on columns that are not used and say that annotations of one item are of several.

    Args:
        frame: the table.
        used: names of its columns of items, workers and labels.
        codes: item and label of each annotation, ``(A,)`` each.
        named: further columns that the caller named.
        source: name of the table.
    """
    unused = questions.unused(frame, [*used, *named])
    places = [column for column in unused if PLACE.fullmatch(_plain(column))]
    parts = [column for column in unused if PART.fullmatch(_plain(column))]
    head = frame.iloc[:_ROWS]
    notes = _of_places(head, places, used, source) if places else []
    notes += _of_parts(head, parts, used, source) if parts else []
    return notes + _of_true_labels(head, unused, used, codes, source)


def _plain(column: Any) -> str:
    """Return the name of a column in lower case with one sign between its words."""
    return re.sub(r"[\s.-]+", "_", str(column).strip().lower())


def _of_places(frame: pd.DataFrame, places: Sequence[Any], used: Sequence[Any], source: str) -> list[str]:
    """Return a note where a worker has annotations at several places of an item."""
    who = questions.joint_codes(frame, used[:2])
    for column in places:
        edge = PLACE.fullmatch(_plain(column))
        numbers = pd.to_numeric(frame[column], errors="coerce") if edge and edge["edge"] else None
        # Of others, the times when a worker began and ended.
        if numbers is not None and ((numbers.isna() & frame[column].notna()).any() or (numbers >= EPOCH).any()):
            continue
        place = questions.codes(frame[column])
        stated = place >= 0
        pairs = np.unique(who[stated] * (int(place.max(initial=0)) + 1) + place[stated])
        if len(pairs) > _SEVERAL * len(np.unique(who[stated])):
            return [
                f"{source}: workers have annotations at several places of an item by the column {str(column)!r}, and they are "
                f"read as repeated annotations of one true label; if each place has one of its own, write item and place "
                f"into one column and name it with task=..."
            ]
    return []


def _of_parts(frame: pd.DataFrame, parts: Sequence[Any], used: Sequence[Any], source: str) -> list[str]:
    """Return a note where items are numbered from the first on in each part, and labels of two parts do not agree."""
    items = text_of(frame[used[0]]).where(frame[used[0]].notna())
    rows = pd.DataFrame(
        {"item": items, "worker": questions.codes(frame[used[1]]), "label": questions.codes(frame[used[2]])}
    )
    for column in parts:
        part = questions.codes(frame[column])
        count = int(part.max(initial=-1)) + 1
        if 1 < count <= questions.MOST and numbered_again(rows.assign(part=part)):
            first = np.unique(part[part >= 0], return_index=True)[1]
            names = frame[column].iloc[np.flatnonzero(part >= 0)[first]].map(str).tolist()
            return [
                f"{source}: items have the same numbers for several values of the column {str(column)!r} ({listed(names, 2)}), "
                f"and items of one number are one item; if each counts its own, write {column} and item into one column and "
                f"name it with task=..."
            ]
    return []


def numbered_again(rows: pd.DataFrame) -> bool:
    """Return whether each part of the data numbers its items from the first on, and labels show that they are others.

    Each part has several workers. Labels of one item from two parts agree no more than by chance, where those of two workers
    within a part do.

    Args:
        rows: ``item`` as text, codes of ``part``, ``worker`` and ``label`` (-1 if missing) of each annotation.
    """
    rows = rows[(rows[["part", "worker", "label"]] >= 0).all(axis=1) & rows["item"].notna()]
    # Whole numbers are decimals where a cell of their column is blank.
    rows = rows.assign(item=rows["item"].str.strip().str.removesuffix(".0"))
    rows = rows[rows["item"] != ""].drop_duplicates(["part", "item", "worker"])
    by_part = rows.groupby("part")
    if len(by_part) < 2 or (by_part["worker"].nunique() < 2).any():
        return False
    if not all(_from_the_first(names.to_numpy(dtype=object)) for names in by_part["item"].unique().map(pd.Series)):
        return False
    between, within = _agreement(rows)
    if len(between) < _ENOUGH:
        return False
    return _mean_bounds(between - _BELOW * within)[1] < 0 < _mean_bounds(within)[0]


def _agreement(rows: pd.DataFrame) -> tuple[Array, Array]:
    """Return how far labels of each item agree above chance, of two parts and within the one that agrees least, ``(n,)``."""
    part, item, label = (pd.factorize(rows[name])[0] for name in ("part", "item", "label"))
    shape = [int(codes.max()) + 1 for codes in (part, item, label)]
    shape[1] = min(shape[1], max(_LARGEST // (shape[0] * shape[2]), 1))
    kept = item < shape[1]
    at = np.ravel_multi_index((part[kept], item[kept], label[kept]), shape)
    counts = np.bincount(at, minlength=int(np.prod(shape))).reshape(shape).astype(float)
    annotations = counts.sum(axis=2)
    share = counts.sum(axis=1, keepdims=True) / annotations.sum(axis=1)[:, None, None]
    sums = counts - annotations[..., None] * share
    squares = (counts * (1 - 2 * share + (share**2).sum(axis=2, keepdims=True))).sum(axis=2)
    pairs = annotations * (annotations - 1)
    means = sums / np.maximum(annotations, 1)[..., None]
    of_part = ((sums**2).sum(axis=2) - squares) / np.maximum(pairs, 1)
    several, parts = pairs > 0, (annotations > 0).sum(axis=0)
    # Experts agree more than a crowd does, which agrees less with them.
    weakest = int(np.argmin((of_part * several).sum(axis=1) / np.maximum(several.sum(axis=1), 1)))
    used = several[weakest] & (parts > 1)
    between = (means.sum(axis=0) ** 2).sum(axis=1) - (means**2).sum(axis=(0, 2))
    return between[used] / (parts * (parts - 1))[used], of_part[weakest][used]


def _mean_bounds(values: Array) -> tuple[float, float]:
    """Return bounds of the mean of independent values."""
    mean, error = float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5
    return mean - _SAME * error, mean + _SAME * error


def _from_the_first(names: Array) -> bool:
    """Return whether names of items are all numbers from 0 or 1 on, and several."""
    if len(names) < 2 or not all(name.isascii() and name.isdigit() for name in names.tolist()):
        return False
    numbers = names.astype(float)
    return bool(numbers.min() <= 1 and numbers.max() - numbers.min() + 1 == len(names))


def _of_true_labels(
    frame: pd.DataFrame, unused: Sequence[Any], used: Sequence[Any], codes: tuple[Array, Array], source: str
) -> list[str]:
    """Return a note where workers never differ on an item, and do in another column of the same classes that agrees with it."""
    item, label = codes
    # Most tables end here.
    if len(item) < 2 * _ENOUGH or not unused or not _constant(item, label):
        return []
    candidates = [column for column in unused if _may_be_given(str(column))]
    if not candidates:
        return []
    labels = text_of(frame[used[2]])
    known = {name: n for n, name in enumerate(pd.unique(labels[frame[used[2]].notna()]).tolist())}
    # Several annotations of most items, of several classes.
    if len(known) < 2 or 2 * len(np.unique(item)) > len(item):
        return []
    of_item = questions.codes(frame[used[0]])
    for column in candidates:
        head = frame[column].iloc[:_FIRST]
        if not set(text_of(head)[questions.codes(head) >= 0]) <= set(known):
            continue
        other = questions.codes(frame[column])
        texts = text_of(frame[column])
        if not 1 < int(other.max(initial=-1)) + 1 <= _CLASSES or not set(texts[other >= 0]) <= set(known):
            continue
        rows = (other >= 0) & frame[used[2]].notna().to_numpy() & (of_item >= 0)
        pairs = np.stack([part[rows].map(known).to_numpy(dtype=np.int64) for part in (labels, texts)], axis=1)
        if not _constant(of_item[rows], other[rows]) and _agree(pairs):
            return [
                f"{source}: all workers have one label for an item by the column {str(used[2])!r}, and they differ in "
                f"{str(column)!r}, which is not used; if that is what they gave, name it with label={str(column)!r}, and "
                f"truth={str(used[2])!r}"
            ]
    return []


def _may_be_given(name: str) -> bool:
    """Return whether a column has labels of workers by its name, and not their confidence, or what they said before."""
    words = [word.lower() for word in _TOKEN.findall(name)]
    return any(map(_GIVEN.fullmatch, words)) and not any(map(_OTHERWISE.fullmatch, words))


def _agree(pairs: Array) -> bool:
    """Return whether pairs of labels, ``(n, 2)``, are equal far more often than by chance."""
    classes = int(pairs.max()) + 1
    shares = [np.bincount(pairs[:, n], minlength=classes) / len(pairs) for n in (0, 1)]
    chance = float((shares[0] * shares[1]).sum())
    above = float((pairs[:, 0] == pairs[:, 1]).mean()) - chance
    return above >= max(_SAME * (chance * (1 - chance) / len(pairs)) ** 0.5, _ABOVE_CHANCE * (1 - chance))


def _constant(item: Array, label: Array) -> bool:
    """Return whether all annotations of an item have one label."""
    first = np.zeros(int(item.max(initial=0)) + 1, dtype=label.dtype)
    first[item] = label
    return bool((first[item] == label).all())
