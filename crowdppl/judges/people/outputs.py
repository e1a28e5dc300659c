"""Which of several answers of a system a person labelled, by the text of the answer in the table of human labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from crowdppl.judges.coding.units import ANSWERS
from crowdppl.judges.verdicts import Verdicts

# Share of the rows of a column whose texts are answers to their questions, from which it is the column of answers.
SHARE = 0.5


def numbered(
    frame: pd.DataFrame, items: Any, parts: Sequence[Verdicts], source: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table of human labels with the number of each answer in a column ``answer``, and what was read, in a sentence.

    Nothing changes where a system gave one answer to each question, where the table states numbers of answers, and where no
    column, or several, have texts of answers.

    Args:
        frame: the table, with a column ``system`` if systems are known.
        items: its column of items.
        parts: the verdicts.
        source: name of the table in messages.
    """
    known = _numbers(parts, systems="system" in frame)
    if not known or list(frame.columns).count(items) != 1:
        return frame, ()
    who = frame["system"] if "system" in frame else [None] * len(frame)
    keys = [(_text(item), _text(system)) for item, system in zip(frame[items], who, strict=True)]
    read: dict[Any, list[int | None]] = {}
    for n, column in enumerate(frame.columns):
        if column in (items, "system"):
            continue
        cells = zip(keys, frame.iloc[:, n], strict=True)
        read[column] = [known.get(key, {}).get(_text(cell)) for key, cell in cells]
    matches = [column for column, codes in read.items() if sum(c is not None for c in codes) >= SHARE * len(frame)]
    others = [column for column in frame.columns if str(column) in ANSWERS and column not in matches]
    if len(matches) != 1 or any(_counts(frame[one]) for one in others):
        return frame, ()
    frame = frame.drop(columns=others).assign(answer=pd.Series(read[matches[0]], index=frame.index, dtype=object))
    return frame, (f"{source}: column {str(matches[0])!r} tells by its text which answer of a system a label is of",)


def _numbers(parts: Sequence[Verdicts], *, systems: bool) -> Mapping[tuple[str, str], Mapping[str, int]]:
    """Return the numbers of answers by their text, by question and system; without systems, where one text has one number."""
    out: dict[tuple[str, str], dict[str, int]] = {}
    twice = set()
    for part in parts:
        for (item, system), texts in part.outputs.items():
            key = (_text(item), _text(system) if systems else "")
            for text, number in texts.items():
                if out.setdefault(key, {}).setdefault(_text(text), number) != number:
                    twice.add((key, _text(text)))
    for key, text in twice:
        del out[key][text]
    return out


def _counts(column: pd.Series[Any]) -> bool:
    """Return whether a column has whole numbers, such as those of answers."""
    values = column.dropna().astype(object).map(str)
    return bool(len(values)) and bool(values.str.fullmatch(r"\d+(\.0+)?").all())


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value).strip()
