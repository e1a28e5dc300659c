"""Tables with two columns for each annotation of an item: who gave it, and its label (``rater1``, ``rating1``)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from crowdppl.data.table.missing_words import is_for_nothing
from crowdppl.errors import listed

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
# Names of classes, which are no names of workers.
_CLASSES = (
    "positive negative neutral pos neg neu yes no maybe unsure mixed toxic benign malignant relevant "
    "irrelevant include exclude included excluded spam ham none other true false normal abnormal hate offensive"
)
CLASSES = frozenset(_CLASSES.split())
# Rows from which raters of whom each row has all are no labels on which two never agree.
_FEW_ROWS = 8


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
    Most names occur in several rows, and most are none of classes.

    Args:
        table: one row per item.
    """
    who, label = _numbered(table)
    columns = (*who.values(), *label.values())
    if set(who) != set(label) or len(who) < 2 or any(len(at) > 1 for at in columns):
        return []
    pairs = [Pair(who[number][0], label[number][0]) for number in who]
    people = [_texts(table.iloc[:, pair.worker]) for pair in pairs]
    labels = {text for pair in pairs for text in _texts(table.iloc[:, pair.label]) if text}
    if any(text in labels for column in people for text in column):
        return []
    for row in zip(*people, strict=True):
        given = [text for text in row if text]
        if len(set(given)) < len(given):
            return []
    counts = Counter(text for column in people for text in column if text)
    recurring = sum(count for count in counts.values() if count > 1)
    of_classes = sum(text in CLASSES for text in counts)
    return pairs if 2 * recurring >= counts.total() > 0 and 2 * of_classes < len(counts) else []


def doubt_of_labels(table: pd.DataFrame, pairs: Sequence[Pair], source: str) -> list[str]:
    """Return a note where the workers of pairs may be labels: few rows have all of them, in several orders.

    Args:
        table: one row per item.
        pairs: the columns of each annotation.
        source: name of the table in messages.
    """
    people = [_texts(table.iloc[:, pair.worker]) for pair in pairs]
    names = [str(table.columns[pair.worker]).strip() for pair in pairs]
    distinct = list(dict.fromkeys(text for column in people for text in column if text))
    if len(distinct) > len(pairs) or len(table) >= _FEW_ROWS or all(len(set(column) - {""}) < 2 for column in people):
        return []
    return [
        f"{source}: {listed(distinct, 3)} in the columns {listed(names, 3)} are read as names of workers; if they are labels, "
        f"name the columns with the labels of one question with workers=[...]"
    ]


def doubt_of_pairs(table: pd.DataFrame, at: Collection[int], source: str) -> list[str]:
    """Return a note where columns taken for workers have the names of pairs, and are none by their values.

    Args:
        table: one row per item.
        at: positions of the columns of workers.
        source: name of the table in messages.
    """
    who, label = _numbered(table)
    if len(who) < 2 or not set(who) <= set(label):
        return []
    both = [(n, m) for number in who for n in who[number] for m in label[number] if n in at and m in at]
    if not both:
        return []
    first, second = (str(table.columns[n]).strip() for n in both[0])
    return [
        f"{source}: {first!r} and {second!r} are read as two workers, though their names pair; if both are of one worker, name "
        f"the columns with the labels of one question with workers=[...]; if {first!r} names the worker of {second!r}, write a "
        f"row for each annotation, with the columns task, worker and label"
    ]


def _numbered(table: pd.DataFrame) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return the positions of the columns that name workers, and of those of labels, by the numbers in their names."""
    who: dict[str, list[int]] = defaultdict(list)
    label: dict[str, list[int]] = defaultdict(list)
    for n, name in enumerate(words(str(column)) for column in table.columns):
        if m := _NAME_OF.fullmatch(name):
            who[m["number"]].append(n)
        if m := _LABEL_OF.fullmatch(name):
            label[m["number"] or m["second"]].append(n)
    return who, label


def _texts(column: pd.Series[Any]) -> list[str]:
    """Return the cells as text, empty where there is none."""
    texts = ["" if pd.isna(cell) else str(cell).strip().casefold() for cell in column.astype(object).tolist()]
    return ["" if is_for_nothing(text) else text for text in texts]
