"""Which of several answers of a system a person labelled, by the text of the answer in the table of human labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from crowdppl.judges.coding.column_words import OF_LABELS, OF_MEASURES, OF_PEOPLE, words_of
from crowdppl.judges.coding.units import ANSWERS
from crowdppl.judges.human import USUAL
from crowdppl.judges.verdicts import Verdicts

# Share of the rows of a column whose texts are answers to their questions, from which it is the column of answers.
SHARE = 0.5
# Words of columns of answers, and of columns of other texts or of something else.
_OUTPUTS = frozenset(("output", "outputs", "response", "responses", "answer", "completion", "generation", "reply"))
_OTHERS = OF_LABELS | OF_PEOPLE | OF_MEASURES | {"expected", "ideal", "target", "ground", "best"}
_ROLES = frozenset(name for role, names in USUAL.items() if role != "answer" for name in names)


def numbered(
    frame: pd.DataFrame, items: Any, parts: Sequence[Verdicts], source: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table of human labels with the number of each answer in a column ``answer``, and what was read, in a sentence.

    A column named for answers (``output``, ``response``, ...) is preferred. In others all texts must have several words and be
    answers to one question only: a label or the name of a person may be the same as a short answer. Columns of labels, people,
    measurements and references are never read so.

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
    places = Counter(text for texts in known.values() for text in texts)
    # Columns are known by their positions: several may have one name.
    read: dict[int, list[int | None]] = {}
    for n, column in enumerate(frame.columns):
        if column == items or str(column) in _ROLES or words_of(column) & _OTHERS:
            continue
        if str(column) in ANSWERS and _counts(frame.iloc[:, n]):
            continue  # numbers of answers, also where an answer is such a number
        cells = [_text(cell) for cell in frame.iloc[:, n]]
        codes = [known.get(key, {}).get(cell) for key, cell in zip(keys, cells, strict=True)]
        if not _named(column):
            plain = [" " in cell and places[cell] == 1 for cell in cells]
            codes = [code if own else None for code, own in zip(codes, plain, strict=True)]
            if any(cell and code is None for cell, code in zip(cells, codes, strict=True)):
                continue
        read[n] = codes
    matches = [n for n, codes in read.items() if sum(c is not None for c in codes) >= SHARE * len(frame)]
    matches = [n for n in matches if _named(frame.columns[n])] or matches
    others = [n for n, column in enumerate(frame.columns) if str(column) in ANSWERS and n not in matches]
    if len(matches) != 1 or any(_counts(frame.iloc[:, n]) for n in others):
        return frame, ()
    name, left = str(frame.columns[matches[0]]), [n for n in range(frame.shape[1]) if n not in others]
    frame = frame.iloc[:, left].assign(answer=pd.Series(read[matches[0]], index=frame.index, dtype=object))
    return frame, (f"{source}: column {name!r} tells by its text which answer of a system a label is of",)


def _numbers(parts: Sequence[Verdicts], *, systems: bool) -> Mapping[tuple[str, str], Mapping[str, int]]:
    """Return the numbers of answers by their text, by question and system; without systems, where one text has one number."""
    out: dict[tuple[str, str], dict[str, int]] = {}
    twice = set()
    for part in parts:
        for (item, system), texts in part.outputs.items():
            key = (_text(item), _text(system) if systems else "")
            for text, number in texts.items():
                if _text(text) and out.setdefault(key, {}).setdefault(_text(text), number) != number:
                    twice.add((key, _text(text)))
    for key, text in twice:
        del out[key][text]
    return out


def _named(column: Any) -> bool:
    """Return whether the name of a column is one of answers."""
    return bool(words_of(column) & _OUTPUTS)


def _counts(column: pd.Series[Any]) -> bool:
    """Return whether a column has whole numbers, such as those of answers."""
    values = column.dropna().astype(object).map(str)
    return bool(len(values)) and bool(values.str.fullmatch(r"\d+(\.0+)?").all())


def _text(value: Any) -> str:
    """Return the text of a cell, which may be an array; of a missing one, nothing."""
    return "" if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)) else str(value).strip()
