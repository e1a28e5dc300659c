"""A column of a table with a column for each worker that is named unlike all others and agrees better: true labels, perhaps."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from crowdppl.data.readers.worker_columns import labels_of
from crowdppl.data.readers.worker_pairs import words

# Columns of a numbered series, rows, and classes beyond which columns are not compared.
_SERIES, _ROWS, _CLASSES = 2, 10, 50
# Columns of the series that are compared: the time grows with the square of their number.
_COMPARED = 50
# Standard errors by which a column agrees better with the others than the best of these does.
_STANDARD_ERRORS = 2.0
# A name with a number or a letter that counts; and names of models, which are workers of their own.
_NUMBERED = re.compile(r"(?P<stem>\D*?)_?(?P<number>\d{1,3}|(?<=_)[a-z])")
_MODEL = re.compile(
    r".*(gpt|llm|llama|claude|gemini|mistral|qwen|deepseek|bert|model|machine|auto|classifier|ai$|^ai)", re.DOTALL
)


def note_on_odd_worker(table: pd.DataFrame, at: Sequence[int], source: str) -> list[str]:
    """Return a note where all columns but one are a numbered series, and that one agrees better with them than each of them.

    Args:
        table: one row per item.
        at: positions of the columns of workers.
        source: name of the table in messages.
    """
    names = [str(table.columns[n]).strip() for n in at]
    stems = [match["stem"] if (match := _NUMBERED.fullmatch(words(name))) else None for name in names]
    odd = [n for n, stem in enumerate(stems) if stem is None]
    if len(odd) != 1 or len(names) <= _SERIES or len({stem for stem in stems if stem is not None}) != 1:
        return []
    if _MODEL.match(words(names[odd[0]])):
        return []
    labels: dict[str, int] = {}
    codes = []
    compared = [n for n in range(len(names)) if n != odd[0]][:_COMPARED]
    for n in (at[odd[0]], *(at[k] for k in compared)):
        column = labels_of(table.iloc[:, n])
        known = np.array([*(labels.setdefault(label.casefold(), len(labels)) for label in column.labels), -1])
        codes.append(known[column.codes])
    given = np.stack(codes)
    if len(labels) > _CLASSES or not _agrees_best(given, 0):
        return []
    name = names[odd[0]]
    return [
        f"{source}: {name!r} is read as a worker, but is named unlike all others ({names[odd[0] - 1]!r}, ...) and agrees with "
        f"them better than they do with each other; if it states the true label, truth={name!r} uses it as known truths"
    ]


def _agrees_best(given: np.ndarray, odd: int) -> bool:
    """Return whether a row of codes ``(J, I)`` agrees with the others more often than each of these does, by a margin.

    Each of the others is compared on the items that it, the row and at least one more worker labelled.
    """
    rest = [n for n in range(len(given)) if n != odd]
    for one in rest:
        others = [n for n in rest if n != one]
        both = (given[odd] >= 0) & (given[one] >= 0)
        counted = (given[others] >= 0) & both
        size = counted.sum(0)
        rows = size > 0
        if rows.sum() < _ROWS:
            return False
        shares = [((given[others] == given[n]) & counted).sum(0)[rows] / size[rows] for n in (odd, one)]
        gain = shares[0] - shares[1]
        if gain.mean() <= _STANDARD_ERRORS * gain.std() / np.sqrt(len(gain)):
            return False
    return True
