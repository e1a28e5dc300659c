"""Tables with two columns for each annotation of an item: who gave it, and its label (``rater1``, ``rating1``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from crowdppl.data.table.missing_words import is_for_nothing

_WHO = "(?:(?:crowd_?)?worker|annotator|rater|coder|labell?er|reviewer|reader|assessor|evaluator|screener)"
_OF_NAME = "(?:_?(?:id|name|code|email|initials))?"
_SURE = "(?:label|annotation|vote|decision|answer|class|category|choice|verdict)"
_LABEL = f"(?:{_SURE}|rating|score|grade)"
_NAME_OF = re.compile(rf"{_WHO}{_OF_NAME}_?(?P<number>\d{{1,2}}|[ab]){_OF_NAME}")
_LABEL_OF = re.compile(
    rf"(?:{_WHO}_?)?{_LABEL}_?(?P<number>\d{{1,2}}|[ab])|{_WHO}_?(?P<second>\d{{1,2}}|[ab])_{_LABEL}"
)
# Names of a column with the worker of each row.
_OF_ROW = re.compile(r"((crowd_?)?worker|annotator|rater|coder|labell?er)(_?(id|name|code))?")


@dataclass(frozen=True)
class Pair:
    """The columns of one annotation of each item, by position: who gave it, and the label."""

    worker: int
    label: int


def words(name: str) -> str:
    """Return the words of a name without its signs: ``confidence_ann`` for ``Confidence (ann)``."""
    return re.sub(r"[^\w%]+", "_", name.strip().lower()).strip("_")


def names_row(column: pd.Series[Any]) -> bool:
    """Return whether a column names the worker of each row, by its name, and by its values that they are several.

    A number beside columns of labels (``rater_number``) is that of the raters of an item.
    """
    return _OF_ROW.fullmatch(words(str(column.name))) is not None and len(set(_texts(column)) - {""}) > 1


def pairs_of(table: pd.DataFrame) -> list[Pair]:
    """Return the pairs of columns of a table; none where the names do not pair, or the first of each pair are no names of people.

    Of an item nobody gives two annotations: the first columns of the pairs never agree, and have no value of the second ones.

    Args:
        table: one row per item.
    """
    names = [words(str(name)) for name in table.columns]
    who = _numbered([(m["number"] if (m := _NAME_OF.fullmatch(name)) else None) for name in names])
    label = _numbered([((m["number"] or m["second"]) if (m := _LABEL_OF.fullmatch(name)) else None) for name in names])
    if who is None or label is None or set(who) != set(label) or len(who) < 2:
        return []
    pairs = [Pair(who[number], label[number]) for number in who]
    people = [_texts(table.iloc[:, pair.worker]) for pair in pairs]
    labels = {text for pair in pairs for text in _texts(table.iloc[:, pair.label]) if text}
    if any(text in labels for column in people for text in column):
        return []
    for row in zip(*people, strict=True):
        given = [text for text in row if text]
        if len(set(given)) < len(given):
            return []
    return pairs if any(map(any, people)) else []


def _numbered(numbers: Sequence[str | None]) -> dict[str, int] | None:
    """Return the position of each number, ``None`` if one occurs twice."""
    given = [number for number in numbers if number is not None]
    if len(set(given)) < len(given):
        return None
    return {number: n for n, number in enumerate(numbers) if number is not None}


def _texts(column: pd.Series[Any]) -> list[str]:
    """Return the cells as text, empty where there is none."""
    texts = ["" if pd.isna(cell) else str(cell).strip().casefold() for cell in column.astype(object).tolist()]
    return ["" if is_for_nothing(text) else text for text in texts]
