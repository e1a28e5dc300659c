"""Tables with answers to several questions, or on several answers: the column that tells them apart, and the rows of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import Coded, rows_text, text_of
from crowdppl.errors import DataError, listed, suggestion, warn

# Names of columns that state what was asked, compared without capitals; and of those that state what was looked at.
CRITERIA = ("criterion", "criteria", "metric", "scorer", "rubric", "dimension", "aspect")
OF_TABLES = ("variable", "trait", "facet", "construct", "label_name", "question_text", "question_name")
USUAL = (*CRITERIA, *OF_TABLES, "question", "question_id", "attribute", "subtask", "field", "system", "model")
# Names of columns that tell repetitions of one question apart, as in tests of retest reliability.
_AGAIN = re.compile(
    r"((test_?)?re_?test|round|run|trial|seed|session|repeat|repetition|replicate|replication|rep|attempt|iteration|date"
    r"|timestamp)(_?(id|no|nr|num|number|index))?"
)
# Numbers that are classes.
_YES_OR_NO = frozenset(("0", "1", "0.0", "1.0"))
# A column with more values is none of these, unless the caller names it.
MOST = 50
# Share of the pairs of item and person with several values, from which a column tells them apart.
SHARE = 0.01


def codes(column: pd.Series[Any]) -> npt.NDArray[np.int64]:
    """Return equal values of a column as equal codes, ``(n,)``; -1 if missing."""
    try:
        return np.asarray(pd.factorize(column)[0])
    except (TypeError, NotImplementedError):  # lists, dictionaries, and types that pandas does not compare
        return np.asarray(pd.factorize(np.array([str(cell) for cell in column.tolist()], dtype=object))[0])


def unused(frame: pd.DataFrame, taken: Iterable[Any]) -> list[Any]:
    """Return the columns that are not taken, those of equal names left out."""
    used = {str(column) for column in taken if column is not None}
    names = [str(column) for column in frame.columns]
    return [column for column in frame.columns if str(column) not in used and names.count(str(column)) == 1]


def named(frame: pd.DataFrame, taken: Iterable[Any], usual: Collection[str]) -> list[Any]:
    """Return the columns that are not taken and have a usual name."""
    return [column for column in unused(frame, taken) if str(column).strip().lower() in usual]


def joint_codes(frame: pd.DataFrame, columns: Iterable[Any]) -> npt.NDArray[np.int64]:
    """Return equal rows of some columns as equal codes, ``(n,)``."""
    out = np.zeros(len(frame), dtype=np.int64)
    for column in columns:
        of_column = codes(frame[column])
        out = np.asarray(pd.factorize(out * (of_column.max(initial=0) + 2) + of_column + 1)[0])
    return out


def tells_apart(column: pd.Series[Any], who: npt.NDArray[np.int64], every: bool = False) -> bool:
    """Return whether a column has several values for one person and item.

    Args:
        column: the column, ``(n,)``.
        who: codes of item, person and whatever else tells what a row is on, ``(n,)``, see :func:`joint_codes`.
        every: whether each person and item must have every value, once.
    """
    value = codes(column)
    distinct = int(value.max(initial=-1)) + 1
    if not 1 < distinct <= MOST or (every and ((value < 0).any() or len(value) % distinct)):
        return False
    stated = value >= 0
    pairs = np.unique(who[stated] * distinct + value[stated])
    of_person = np.unique(pairs // distinct, return_counts=True)[1]
    if every:
        return bool(len(pairs) == len(value) and (of_person == distinct).all())
    return bool(len(pairs) - len(of_person) > SHARE * len(of_person))


def names_the_label(frame: pd.DataFrame, column: Any, label: Any) -> bool:
    """Return whether a column states the label in another way: one value for each label, and one label for each value.

    Several labels may share a value only where the column is named ``label_name``: a question has labels of its own, too.
    """
    stated = pd.DataFrame({"value": codes(frame[column]), "label": codes(frame[label])})
    pairs = stated[(stated >= 0).all(axis=1)].drop_duplicates()
    one_label = str(column).strip().lower() == "label_name" or not pairs["value"].duplicated().any()
    return one_label and not pairs["label"].duplicated().any()


def by_value(frame: pd.DataFrame, column: Any, names: Coded, what: str, where: str) -> dict[Any, pd.DataFrame]:
    """Return the rows of each value of a column without the column, in the order in which values occur.

    Args:
        frame: the table.
        column: the column.
        names: it, as codes.
        what: what it states, for messages.
        where: its location, for messages.

    Raises:
        DataError: if a value is missing.
    """
    if names.missing.any():
        rows = rows_text(np.flatnonzero(names.missing))
        raise DataError(f"{where}, {rows}: {what} missing; fill it in or drop the rows")
    rest = frame.drop(columns=[column])
    order = pd.unique(names.codes).tolist()
    return {names.names.tolist()[n]: rest[names.codes == n].reset_index(drop=True) for n in order}


def criterion_of_grades(frame: pd.DataFrame, columns: Sequence[Any]) -> Any:
    """Return the column of a usual name (:data:`CRITERIA`) that tells the grades of an item by one rater apart, or ``None``.

    Args:
        frame: the table.
        columns: its columns of tasks, workers and labels.
    """
    usual = named(frame, columns, CRITERIA)
    if not usual:
        return None
    who = joint_codes(frame, columns[:2])
    # A blank is no criterion: nobody said that this is the column of criteria.
    stated = (one for one in usual if not frame[one].isna().any() and not (text_of(frame[one]).str.strip() == "").any())
    telling = (one for one in stated if tells_apart(frame[one], who) and not names_the_label(frame, one, columns[2]))
    return next(telling, None)


def refuse_several(
    frame: pd.DataFrame, columns: Sequence[Any], source: str, criterion: Any = None, *, numbers: bool = False
) -> list[str]:
    """Refuse annotations of several questions, or of the answers of several systems, which are not repeated annotations.

    Of grades and other numbers, several criteria may be of one quality, as in many-facet Rasch models: these have a warning,
    which is returned, too, as a note.

    Args:
        frame: the table.
        columns: its columns of tasks, workers and labels.
        source: name of the table in messages.
        criterion: the column of criteria, where the caller names one: grades by several are then no repeats.
        numbers: whether the caller says that labels are numbers or grades.

    Raises:
        DataError: if a column of a usual name (:data:`USUAL`) tells annotations of an item by one worker apart.
    """
    usual = [column for column in named(frame, columns, USUAL) if column != criterion]
    if not usual:
        return []
    who = joint_codes(frame, [*columns[:2], *([] if criterion is None else [criterion])])
    for column in usual:
        if tells_apart(frame[column], who) and not names_the_label(frame, column, columns[2]):
            values = pd.unique(frame[column].dropna()).tolist()
            several = (
                f"{source}: workers have several annotations of an item, which column {str(column)!r} tells apart "
                f"({listed(values)})"
            )
            if numbers or _are_numbers(frame[columns[2]]):
                note = (
                    f"{several}; they are read as repeated annotations of one number or grade; if they are grades by several "
                    f"criteria, say so with criterion={str(column)!r} and kind='ordinal'; if each "
                    f"has a truth of its own, keep the rows of one, or write item and {column} into one column and name it with "
                    f"task=..."
                )
                warn(note)
                return [note]
            raise DataError(
                f"{several}; they are not of one true label: keep the rows of one, as question={str(values[0])!r} does "
                f"where a file is read; or write item and {column} into one column and name it with task=...; or drop the column "
                f"if the annotations are repeated ones"
            )
    return []


def notes_on_several(
    frame: pd.DataFrame, columns: Sequence[Any], source: str, taken: Collection[Any] = ()
) -> list[str]:
    """Return a note on a column that has each of its values once for every worker and item, as that of questions has.

    Columns that by their names count or date the repetitions of one question have no note. Columns of a usual name
    (:data:`USUAL`) are those of :func:`refuse_several`.

    Args:
        frame: the table, with repeated annotations.
        columns: its columns of tasks, workers and labels.
        source: name of the table in messages.
        taken: further columns that the caller named.
    """
    who = joint_codes(frame, columns[:2])
    for column in unused(frame, [*columns, *taken]):
        plain = re.sub(r"[\s.-]+", "_", str(column).strip().lower())
        if plain in USUAL or _AGAIN.fullmatch(plain) or not tells_apart(frame[column], who, every=True):
            continue
        if names_the_label(frame, column, columns[2]):
            continue
        values = pd.unique(frame[column].dropna().astype(object)).tolist()
        return [
            f"{source}: workers have several annotations of an item, which column {str(column)!r} tells apart "
            f"({listed(values, 3)}); they are read as repeated annotations of one true label: if each has one of its own, keep "
            f"the rows of one, or write item and {column} into one column and name it with task=..."
        ]
    return []


def _are_numbers(labels: pd.Series[Any]) -> bool:
    """Return whether all labels are numbers, or texts of numbers; true and false are none, nor are 0 and 1 alone."""
    texts = list({str(value) for value in labels.dropna().tolist()})
    return not {*texts} <= _YES_OR_NO and bool(
        pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").notna().all()
    )


def of_question(frame: pd.DataFrame, question: str, source: str) -> pd.DataFrame | None:
    """Return the rows of one question without the column that states it; ``None`` if there is no such column.

    Raises:
        DataError: if no row is of this question.
    """
    candidates = named(frame, (), USUAL)
    if not candidates:
        return None
    column = next((one for one in candidates if (text_of(frame[one]) == question).any()), candidates[0])
    return only(frame, column, [question], source)


def only(frame: pd.DataFrame, column: Any, wanted: Collection[str], source: str) -> pd.DataFrame:
    """Return the rows with some values in a column, without the column if there is one value.

    Args:
        frame: the table.
        column: the column.
        wanted: the values, as text.
        source: name of the table in messages.

    Raises:
        DataError: for a value that does not occur.
    """
    text = text_of(frame[column])
    unknown = sorted(set(wanted) - set(text))
    if unknown:
        known = [str(value) for value in pd.unique(frame[column].dropna()).tolist()]
        raise DataError(
            f"{source}, column {str(column)!r}: no {unknown[0]!r}{suggestion(unknown[0], known)}; it has {listed(known, 12)}"
        )
    rows = frame[text.isin(list(wanted))].reset_index(drop=True)
    rows.attrs = dict(frame.attrs)
    return rows.drop(columns=[column]) if len(set(wanted)) == 1 else rows
