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
# Rows by which columns are compared; items from which they are; and the z score of equal labels from which items are the same.
_ROWS, _ENOUGH, _SAME = 100_000, 10, 2.0
# Places for each item and worker, on the mean, from which few repeated annotations do not explain them.
_SEVERAL = 1.1
# Columns with at most so many different values may hold labels.
_CLASSES = 50


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
    plain = {column: re.sub(r"[\s.-]+", "_", str(column).strip().lower()) for column in unused}
    places = [column for column in unused if PLACE.fullmatch(plain[column])]
    parts = [column for column in unused if PART.fullmatch(plain[column])]
    head = frame.iloc[:_ROWS]
    notes = _of_places(head, places, used, source) if places else []
    notes += _of_parts(head, parts, used, source) if parts else []
    return notes + _of_true_labels(head, unused, used, codes, source)


def _of_places(frame: pd.DataFrame, places: Sequence[Any], used: Sequence[Any], source: str) -> list[str]:
    """Return a note where a worker has annotations at several places of an item."""
    who = questions.joint_codes(frame, used[:2])
    for column in places:
        edge = PLACE.fullmatch(re.sub(r"[\s.-]+", "_", str(column).strip().lower()))
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
    items = text_of(frame[used[0]]).to_numpy()
    label = questions.codes(frame[used[2]])
    for column in parts:
        part = questions.codes(frame[column])
        count = int(part.max(initial=-1)) + 1
        if not 1 < count <= questions.MOST:
            continue
        groups = [(items[part == n], label[part == n]) for n in range(count)]
        if numbered_again(groups):
            names = pd.unique(frame[column].dropna()).tolist()
            return [
                f"{source}: items have the same numbers for several values of the column {str(column)!r} ({listed(names, 2)}), "
                f"and items of one number are one item; if each counts its own, write {column} and item into one column and "
                f"name it with task=..."
            ]
    return []


def numbered_again(groups: Sequence[tuple[Array, Array]]) -> bool:
    """Return whether each part of the data numbers its items from the first on, and labels do not show that they are the same.

    Args:
        groups: items as text and codes of labels, -1 if missing, of each part.
    """
    firsts: dict[str, list[int]] = {}
    for items, label in groups:
        distinct, at = np.unique(items, return_index=True)
        if len(distinct) < 2 or not _from_the_first(distinct):
            return False
        for name, n in zip(distinct.tolist(), at.tolist(), strict=True):
            firsts.setdefault(name, []).append(int(label[n]))
    pairs = np.array([said[:2] for said in firsts.values() if len(said) > 1 and min(said[:2]) >= 0], dtype=np.int64)
    if len(pairs) < 2:
        return False
    return not _agree(pairs)


def _agree(pairs: Array) -> bool:
    """Return whether pairs of labels, ``(n, 2)``, are equal more often than by chance."""
    classes = int(pairs.max()) + 1
    shares = [np.bincount(pairs[:, n], minlength=classes) / len(pairs) for n in (0, 1)]
    chance = float((shares[0] * shares[1]).sum())
    equal = float((pairs[:, 0] == pairs[:, 1]).mean())
    return equal == 1 or equal - chance >= _SAME * (chance * (1 - chance) / len(pairs)) ** 0.5


def _from_the_first(names: Array) -> bool:
    """Return whether names of items are all numbers from 0 or 1 on."""
    if not all(name.isascii() and name.isdigit() for name in names.tolist()):
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
    labels = text_of(frame[used[2]])
    known = {name: n for n, name in enumerate(pd.unique(labels[frame[used[2]].notna()]).tolist())}
    # Several annotations of most items, of several classes.
    if len(known) < 2 or 2 * len(np.unique(item)) > len(item):
        return []
    of_item = questions.codes(frame[used[0]])
    for column in unused:
        other = questions.codes(frame[column])
        texts = text_of(frame[column])
        if not 1 < int(other.max(initial=-1)) + 1 <= _CLASSES or not set(texts[other >= 0]) <= set(known):
            continue
        rows = (other >= 0) & frame[used[2]].notna().to_numpy()
        pairs = np.stack([part[rows].map(known).to_numpy(dtype=np.int64) for part in (labels, texts)], axis=1)
        if not _constant(of_item[rows], other[rows]) and _agree(pairs):
            return [
                f"{source}: all workers have one label for an item by the column {str(used[2])!r}, and they differ in "
                f"{str(column)!r}, which is not used; if that is what they gave, name it with label={str(column)!r}, and "
                f"truth={str(used[2])!r}"
            ]
    return []


def _constant(item: Array, label: Array) -> bool:
    """Return whether all annotations of an item have one label."""
    first = np.zeros(int(item.max(initial=0)) + 1, dtype=label.dtype)
    first[item] = label
    return bool((first[item] == label).all())
