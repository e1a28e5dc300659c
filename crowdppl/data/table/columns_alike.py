"""Columns with nearly the name of one that is read, such as ``Label`` or ``labels`` beside ``label``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import listed

# A name that programs give to a second column of the same name.
_AGAIN = re.compile(r".+\.[1-9]", re.DOTALL)
# Names of a column of workers, and rows by which two of them are compared.
_PEOPLE, _ROWS = re.compile(r"(worker|annotator|rater|coder|labell?er)(_?(id|name))?"), 100_000


def notes_on_names(frame: pd.DataFrame, used: Sequence[Any], source: str) -> list[str]:
    """Return notes on columns with nearly the name of one that is read: of programs that write it in several ways.

    Args:
        frame: the table.
        used: names of the columns of item, worker and label.
        source: name of the table.
    """
    notes = []
    for name in used:
        for other in frame.columns:
            if other in used or not isinstance(other, str):
                continue
            again = _AGAIN.fullmatch(other) is not None and other.rpartition(".")[0] == str(name)
            if not again and _plain(other) != _plain(str(name)):
                continue
            read, beside = frame[name], frame[other]
            if isinstance(read, pd.DataFrame) or isinstance(beside, pd.DataFrame):
                continue
            size = int((read.isna() & beside.notna()).sum())
            same_word = _letters(other) == _letters(str(name))
            if size:
                rows = "1 row has" if size == 1 else f"{size:,} rows have"
                notes.append(
                    f"{source}: {rows} a value in the column {other!r} and none in {str(name)!r}, which is read; if they are "
                    f"one, join the columns"
                )
            elif again and not _equal(read, beside):
                notes.append(
                    f"{source}: the column {other!r} is probably a second one named {str(name)!r}, which is read; {other!r} has "
                    f"other values and is not used"
                )
            elif same_word and not beside.isna().all():
                notes.append(
                    f"{source}: the columns {listed([str(name), other])} differ in capitals or signs only, and {str(name)!r} is "
                    f"read; {other!r} is not used"
                )
    return notes


def notes_on_people(frame: pd.DataFrame, used: Sequence[Any], source: str) -> list[str]:
    """Return a note where a worker by the column that is read is several people by another column of workers.

    Numbers of the annotations of an item, from 1 on, are no people.

    Args:
        frame: the table.
        used: names of the columns of item, worker and label.
        source: name of the table.
    """
    role = _PEOPLE.fullmatch(str(used[1]).lower())
    if role is None:
        return []
    for other in frame.columns:
        plain = _PEOPLE.fullmatch(str(other).lower())
        if plain is None or plain[1] == role[1] or other in used:
            continue
        columns = [frame[name] for name in (*used[:2], other)]
        if not any(isinstance(column, pd.DataFrame) for column in columns) and _several_people(*columns):
            return [
                f"{source}: the columns {str(used[1])!r} and {str(other)!r} differ, and {str(used[1])!r} names the workers; if "
                f"they are in {str(other)!r}, name it with worker={str(other)!r}"
            ]
    return []


def _several_people(item: pd.Series[Any], worker: pd.Series[Any], other: pd.Series[Any]) -> bool:
    """Return whether a worker has several values of another column that does not number the rows of each item."""
    try:
        codes = [pd.factorize(column.iloc[:_ROWS])[0] for column in (item, worker, other)]
    except (TypeError, NotImplementedError):  # lists, objects, and types that Arrow does not compare
        return False
    rows = pd.DataFrame(dict(zip(("item", "worker", "other"), codes, strict=True)))
    rows["number"] = pd.to_numeric(other.iloc[:_ROWS], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    rows = rows[(rows[["item", "worker", "other"]] >= 0).all(axis=1)]
    if not rows[["worker", "other"]].drop_duplicates().duplicated("worker").any():
        return False
    numbers = rows.groupby("item")["number"].agg(["min", "max", "size"])
    first = numbers["min"].iloc[0]
    from_first = (numbers["min"] == first) & (numbers["max"] - first + 1 == numbers["size"])
    return not (first in (0, 1) and bool(from_first.all()))


def _equal(one: pd.Series[Any], other: pd.Series[Any]) -> bool:
    """Return whether two columns have the same texts and numbers, where the other one has any."""
    pairs = pd.DataFrame({"one": _texts(one), "other": _texts(other)}).drop_duplicates()
    return all(not second or first == second or _number(first) == _number(second) for first, second in pairs.to_numpy())


def _texts(column: pd.Series[Any]) -> list[str]:
    """Return the cells of a column as texts without white space around them; blank where there is none."""
    blank = column.isna().tolist()
    return ["" if empty else str(cell).strip() for cell, empty in zip(column.tolist(), blank, strict=True)]


def _number(text: str) -> float:
    """Return the number in a text; of others NaN, which equals nothing."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def _plain(name: str) -> str:
    return _letters(name).removesuffix("s")
