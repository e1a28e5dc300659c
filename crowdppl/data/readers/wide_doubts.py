"""What a table with a column for each worker may be instead: columns of classes, of items, or a legend, or a title above it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.readers.worker_columns import labels_of, names_an_item
from crowdppl.data.readers.worker_pairs import CLASSES, names_row, words
from crowdppl.data.table.identifier_checks import written_number
from crowdppl.errors import DataError, listed

# Rows and columns from which equal sums of all rows are no chance.
_ROWS, _COLUMNS = 6, 3
# Columns from which a header with a single name is a title.
_WIDTH = 3
# Names of columns with labels of a test that decides, or of a person who decides where others differ; they may be workers, too.
_DECIDES = re.compile(
    r"(patholog(y|ist)|histo(patho)?log(y|ist)|biops(y|ies)|autopsy|cultures?|pcr|surgery|outcome|follow_?up|(final_?)?diagnosis"
    r"|gs|adj|adjudicat(or|ion|ed)|arbit(er|rator|ration)|tie_?break(er)?|third_?(reader|reviewer|rater|annotator|coder|opinion))"
    r"(_?(results?|labels?|diagnos[ie]s|decisions?|class|findings?|status|proven|confirmed))?"
)
# Initials, among which those of a gold standard are some.
_INITIALS = re.compile(r"[^\W\d_]{2}")
# Names of columns with a number for a class.
_NUMBER_OF = re.compile(r"(votes?|counts?|n|num|number|is|prob|share|label)_(?P<name>[^\W\d]\w*)")
# Names of a column of labels.
_LABELS = re.compile(r"(label|class|category|answer|rating|code|response|choice|verdict|value)s?(_?name)?")
# Rounds of one worker; numbers alone are those of workers behind what workers are.
_ROUND = re.compile(r"[a-z]+|(r|t|round|time|pass|phase|session|wave|visit)?_?\d")
_ROLES = re.compile(
    r"(worker|annotator|rater|coder|labell?er|user|judge|participant|respondent|reviewer|assessor|evaluator|person|expert|novice"
    r"|student|crowd(worker)?|turker|doctor|reader|observer|nurse|physician|resident|team|group|site|lab|model|human|llm"
    r"|[a-z])s?"
)
_NUMBERED = re.compile(r"([a-z]+)\d{1,2}")
_ITEM_NUMBER = re.compile(r"[iq]_?\d+", re.IGNORECASE)
# First and last names of people.
_PERSON = re.compile(r"[^\W\d_]\. ?\w+|[A-Z][a-z]+ [A-Z][a-z]+")
# Rows at the end of a table that may be no items, and rows above them.
_LAST_ROWS, _MANY_ROWS = 5, 3
# Rows with a label, and without one, from which a worker with labels only where others differ is no chance.
_DECIDED = 3


def refuse_title(table: pd.DataFrame, source: str) -> None:
    """Refuse a table whose header has a single name for many columns.

    Raises:
        DataError: saying which lines to delete.
    """
    names = [str(name).strip() for name in table.columns]
    filled = [name for name in names if name and not name.startswith("Unnamed:")]
    if len(names) >= _WIDTH and len(filled) == 1 and names[0] == filled[0]:
        raise DataError(
            f"{source}: the first line has a single name, {filled[0]!r}, for {len(names)} columns, as a title has; delete the "
            f"lines above the names of the columns"
        )


def without_blank_rows(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return a table without rows in which all cells are blank, and a note on them."""
    left = np.arange(len(table))
    for n in range(table.shape[1]):
        column = table.iloc[left, n]
        # Cells may be lists, which are compared with a text element by element.
        empty = [isinstance(value, str) and not value for value in column]
        left = left[column.isna().to_numpy(dtype=bool) | np.array(empty, dtype=bool)]
    if len(left) in (0, len(table)):
        return table, []
    blank = np.zeros(len(table), dtype=bool)
    blank[left] = True
    count = int(blank.sum())
    return table[~blank].reset_index(drop=True), [
        f"{source}: {count:,} blank {'row is' if count == 1 else 'rows are'} left out"
    ]


def notes_on_workers(table: pd.DataFrame, item: str, at: Sequence[int], source: str) -> list[str]:
    """Return notes on columns that are taken for workers and may be classes, items or another table.

    Args:
        table: one row per item.
        item: name of the column of items.
        at: positions of the columns of workers.
        source: name of the table in messages.
    """
    names = [str(table.columns[n]).strip() for n in at]
    sums = _of_sums(table, names, at, source) or _of_classes(table, names, at, source)
    sums += _of_counts(table, names, at, source) + _of_labels(table, item, at, source)
    first = next((n for n in range(table.shape[1]) if str(table.columns[n]).strip() == item), 0)
    turned = _of_items(item, table.iloc[:, first].tolist(), names, source)
    notes = [*sums, *_of_rows(table, at, source), *turned, *_beyond(table, names, at, source)]
    decide = _decide(table, names, at)
    if decide:
        read = "is read as a worker" if len(decide) == 1 else "are read as workers"
        notes.append(
            f"{source}: {listed(decide, 3)} {read}, but may state the true label, or decide where others differ; if so, name the "
            f"workers with workers=[...], and truth={decide[0]!r}"
        )
    crossed = _crossed(names)
    if crossed:
        notes.append(
            f"{source}: the columns {listed(names, 4)} are read as workers, each its own; their names combine "
            f"{listed(crossed[0], 3)} with {listed(crossed[1], 3)}: if these are rounds or questions of one worker, name the "
            f"columns of one round or question with workers=[...]"
        )
    return notes


def notes_on_last_rows(items: Sequence[Any], source: str) -> list[str]:
    """Return a note on rows at the end of a table that have words where all others have numbers, such as ages of workers.

    Args:
        items: the identifiers of the rows, in order.
        source: name of the table in messages.
    """
    names = [str(name).strip() for name in items]
    size = next((n for n, name in enumerate(reversed(names)) if written_number(name)), len(names))
    above = names[: len(names) - size]
    if not 0 < size <= _LAST_ROWS or len(above) < max(_MANY_ROWS, size) or not all(map(written_number, above)):
        return []
    return [
        f"{source}: {listed(names[-size:], 3)} at the end {'is' if size == 1 else 'are'} read as items, though all others are "
        f"numbers; if {'this is no item' if size == 1 else 'these are no items'}, such as a description of the workers, delete "
        f"{'it' if size == 1 else 'them'}"
    ]


def _of_sums(table: pd.DataFrame, names: list[str], at: Sequence[int], source: str) -> list[str]:
    """Return a note where the numbers of each row have the same sum, as numbers of votes for each class.

    A class without a vote is a column of zeros, which is not among those of workers.
    """
    zero = [n for n in range(table.shape[1]) if n not in at and _is_zero(table.iloc[:, n])]
    names, at = [*names, *(str(table.columns[n]).strip() for n in zero)], [*at, *zero]
    if len(at) < _COLUMNS or len(table) < _ROWS:
        return []
    numbers = table.iloc[:, list(at)].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    sums = numbers.sum(1)
    if (
        not np.isfinite(numbers).all()
        or (numbers < 0).any()
        or np.ptp(sums) > 0
        or ((np.ptp(numbers, axis=0) == 0) & (numbers[0] != 0)).any()
        or sums[0] == 0
    ):
        return []
    what = "a 1 for the class of an item" if sums[0] == 1 else f"{sums[0]:g} votes for classes"
    return [
        f"{source}: the numbers of each row have the sum {sums[0]:g}, as where columns are classes with {what}; if "
        f"{listed(names, 3)} are classes and no workers, this is no table of workers: use Annotations.from_counts"
    ]


def _is_zero(column: pd.Series[Any]) -> bool:
    # Of nullable columns, what is no number is missing, and all() would pass over it.
    return bool((pd.to_numeric(column, errors="coerce") == 0).fillna(False).all())


def _of_items(item: str, rows: Sequence[Any], names: list[str], source: str) -> list[str]:
    """Return a note where the columns are items by their names, and the first column is not.

    Numbers behind i or q are those of items where the rows have names without numbers; d1 or s1 may be a doctor or a student.
    """
    unnamed = not item or item.startswith("Unnamed:")
    if unnamed and len(names) > len(rows) > 1 and not any(any(map(str.isdigit, str(row))) for row in rows):
        items = [name for name in names if names_an_item(name) or _ITEM_NUMBER.fullmatch(name.strip())]
    else:
        items = [name for name in names if names_an_item(name)]
    if len(names) < 2 or 2 * len(items) <= len(names):
        return []
    return [
        f"{source}: columns {listed(items, 3)} are read as workers, and {item!r} as the column of items, though these look like "
        f"items; if each row is of a worker, transpose the table"
    ]


def _beyond(table: pd.DataFrame, names: list[str], at: Sequence[int], source: str) -> list[str]:
    """Return a note on columns to the right of one without a name and a value, as a legend beside a table."""
    empty: list[Any] = [
        n for n, name in enumerate(table.columns) if not str(name).strip() and bool(table.iloc[:, n].isna().all())
    ]
    right = [name for n, name in zip(at, names, strict=True) if empty and n > empty[0]]
    if not right or len(right) == len(names):
        return []
    return [
        f"{source}: {listed(right, 4)} to the right of a blank column {'is' if len(right) == 1 else 'are'} read as workers; "
        f"if this is another table, such as a legend, delete it, or name the workers with workers=[...]"
    ]


def _of_classes(table: pd.DataFrame, names: list[str], at: Sequence[int], source: str) -> list[str]:
    """Return a note where columns of numbers have names of classes, such as ``pos`` and ``neg``, or ``n_cat`` and ``n_dog``."""
    plain = [words(name) for name in names]
    matching = [_NUMBER_OF.fullmatch(name) for name in plain]
    starts = {match[1] for match in matching if match}
    if len(names) < 2 or not (CLASSES.issuperset(plain) or (all(matching) and len(starts) == 1)):
        return []
    labels = {label for n in at for label in labels_of(table.iloc[:, n]).labels}
    if not all(map(written_number, labels)):
        return []
    # A number for a class is often none, and of the classes of an item, one has a 1.
    if not CLASSES.issuperset(plain) and ("0" not in labels or (starts == {"label"} and not _one_of_each(table, at))):
        return []
    return [
        f"{source}: {listed(names, 3)} are read as workers, but may be classes by their names, with numbers of votes or a 1 for "
        f"the class of an item; if so, this is no table of workers: use Annotations.from_counts, or write a row for each "
        f"annotation"
    ]


def _of_counts(table: pd.DataFrame, names: list[str], at: Sequence[int], source: str) -> list[str]:
    """Return a note on columns of numbers that are named after labels of other columns: ``n_pos`` beside ``ann``."""
    matching = {n: match for n, name in zip(at, names, strict=True) if (match := _NUMBER_OF.fullmatch(words(name)))}
    if not 0 < len(matching) < len(names):
        return []
    others = [n for n in at if n not in matching]
    labels = {words(label) for n in others for label in labels_of(table.iloc[:, n]).labels}
    counts = [
        str(table.columns[n]).strip()
        for n, match in matching.items()
        if match["name"] in labels and all(map(written_number, labels_of(table.iloc[:, n]).labels))
    ]
    if not counts or all(map(written_number, labels)):
        return []
    return [
        f"{source}: {listed(counts, 3)} {'is' if len(counts) == 1 else 'are'} read as workers, but may be numbers of votes, as "
        f"the names are those of labels; if so, name the workers with workers=[...]"
    ]


def _of_labels(table: pd.DataFrame, item: str, at: Sequence[int], source: str) -> list[str]:
    """Return a note where the column of items is one of labels by its name, and the columns hold numbers of them."""
    labels = {label for n in at for label in labels_of(table.iloc[:, n]).labels}
    if not _LABELS.fullmatch(words(item)) or not labels or not all(map(str.isdecimal, labels)):
        return []
    return [
        f"{source}: the column of items, {item!r}, is one of labels by its name: if the numbers are how often each worker gave a "
        f"label, this is no table of items and workers: write a row for each annotation"
    ]


def _one_of_each(table: pd.DataFrame, at: Sequence[int]) -> bool:
    """Return whether each row has the sum 1."""
    numbers = table.iloc[:, list(at)].apply(pd.to_numeric, errors="coerce")
    return bool((numbers.sum(axis=1) == 1).all())


def _of_rows(table: pd.DataFrame, at: Sequence[int], source: str) -> list[str]:
    """Return a note where a column that is no worker names the worker of each row."""
    rest = [n for n in range(table.shape[1]) if n not in at]
    named = next((str(table.columns[n]).strip() for n in rest if names_row(table.iloc[:, n])), None)
    if named is None:
        return []
    return [
        f"{source}: the column {named!r} names a worker for each row by its name: if so, this is no table with a column for each "
        f"worker: write a row for each annotation, with the columns task, worker and label"
    ]


def _decide(table: pd.DataFrame, names: list[str], at: Sequence[int]) -> list[str]:
    """Return the columns that by their names decide, or have a label exactly where others differ."""
    initials = sum(_INITIALS.fullmatch(name) is not None for name in names) > 1
    out = [name for name in names if _DECIDES.fullmatch(words(name)) and not (initials and _INITIALS.fullmatch(name))]
    if len(names) < _COLUMNS or len(table) < _MANY_ROWS:
        return out if 2 * len(out) < len(names) else []
    codes = {}
    position: dict[str, int] = {}
    for n in at:
        column = labels_of(table.iloc[:, n])
        known = np.array([*(position.setdefault(label.casefold(), len(position)) for label in column.labels), -1])
        codes[n] = known[column.codes]
    labels, filled = np.stack([codes[n] for n in at]), np.stack([codes[n] for n in at]) >= 0
    row = np.broadcast_to(np.arange(len(table)), labels.shape)[filled]
    pairs, place, times = np.unique(row * len(position) + labels[filled], return_inverse=True, return_counts=True)
    distinct = np.bincount(pairs // max(len(position), 1), minlength=len(table))
    # The labels of others are those of the row, without the own one where nobody else gave it.
    own = np.zeros(labels.shape, dtype=bool)
    own[filled] = (times == 1)[place.reshape(-1)]
    for name, alone, given in zip(names, own, filled, strict=True):
        differ = distinct - alone > 1
        enough = min(int(given.sum()), int((~given).sum())) >= _DECIDED
        if name not in out and enough and bool((given == differ).all()):
            out.append(name)
    return out if 2 * len(out) < len(names) else []


def _crossed(names: list[str]) -> tuple[list[str], list[str]] | None:
    """Return the two sets of words of which the names are all combinations, such as workers and questions."""
    parts = [words(name).partition("_") for name in names]
    # People are written with initials, and with capitals.
    people = all(_PERSON.fullmatch(name.strip()) for name in names)
    if len(names) < 4 or people or not all(between for _, between, _ in parts):
        return None
    first, last = (list(dict.fromkeys(part[n] for part in parts)) for n in (0, 2))
    if min(len(first), len(last)) < 2 or len(first) * len(last) != len(names) or len(set(parts)) < len(parts):
        return None
    if not all(_ROUND.fullmatch(part) or _is_numbered(part) for part in (*first, *last)):
        return None
    numbered = all(map(str.isdigit, last))
    return None if numbered and any(map(_ROLES.fullmatch, first)) else (first, last)


def _is_numbered(part: str) -> bool:
    """Return whether a part of a name is a number behind a word that is no role of people, such as ``q1``."""
    match = _NUMBERED.fullmatch(part)
    return match is not None and (match[1] == "q" or not _ROLES.fullmatch(match[1]))
