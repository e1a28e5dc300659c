"""Tables on several criteria: which column states what was judged, and the rows of each criterion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table import questions
from crowdppl.data.table.columns import column_of
from crowdppl.data.table.questions import CRITERIA
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding import values

# What the note on several metrics of a tool's file says, which are judges of one thing until they are said to be criteria.
SEVERAL_METRICS = "each a judge; if they do not measure the same"
# Names of columns that number the calls of a judge on one answer.
RUNS = ("run", "run_id", "replicate", "repetition", "trial", "call", "attempt")
# Names of columns that may number the answers of a system as well, or say how it gave them.
_PERHAPS_ANSWERS = (
    *(
        "attempt",
        "trial",
        "repetition",
        "replicate",
        "iteration",
        "seed",
        "temperature",
        "rollout",
        "generation",
        "completion",
    ),
    *("sample", "sample_id", "sample_index", "try", "k", "draw", "response", "response_id", "output_id"),
)
# The same names with the word for a number behind them, and those of places in a conversation.
_NUMBERED = re.compile(
    rf"({'|'.join(_PERHAPS_ANSWERS)}|turn|answer|output|epoch|repeat)_?(id|idx|index|no|nr|num|number|n)?"
)
# Columns that tell whose answer a row is on, and who gave it.
_WHO = ("item", "judge", "annotator", "system", "opponent", "answer", "run")


def column_of_criteria(frame: pd.DataFrame, name: Any, columns: Mapping[str, Any], source: str) -> Any:
    """Return the column that states the criterion of each row, ``None`` without one.

    Without a name, it is a column of a usual name (:data:`CRITERIA`) with several values for one judge and answer: such verdicts
    have not one true label in common. A column that goes with the judge (the metric that each judge is) or with the item (its
    topic) is none.

    Args:
        frame: the table.
        name: name of the column as the caller states it.
        columns: columns of the other roles, ``None`` without one.
        source: name of the table in messages.

    Raises:
        DataError: if there is no column of this name.
    """
    if name is not None:
        return column_of(frame, name, (), source, "", "criterion")
    usual = questions.named(frame, columns.values(), CRITERIA)
    who = questions.joint_codes(frame, _who(columns))
    return next((column for column in usual if questions.tells_apart(frame[column], who)), None)


def perhaps(frame: pd.DataFrame, columns: Mapping[str, Any], source: str) -> list[str]:
    """Return notes on columns that may state criteria, and were not used.

    Of a usual name are those whose values differ on an item, but not for one judge. Of another name are those for which each
    judge has a verdict on each answer under each value; numbers may count answers, or runs.
    """
    notes = []
    who, item = (questions.joint_codes(frame, of) for of in (_who(columns), [columns["item"]]))
    for column in questions.named(frame, columns.values(), CRITERIA):
        if questions.tells_apart(frame[column], item) and not questions.tells_apart(frame[column], who):
            notes.append(
                f"{source}: column {str(column)!r} has several values on an item, each by other judges, and is not used; if each "
                f"is a criterion with true labels of its own, name it with criterion=..."
            )
    notes += _perhaps_answers(frame, columns, source)
    if columns.get("run") is not None:
        return notes
    for column in questions.unused(frame, columns.values()):
        usual = str(column).strip().lower() in (*CRITERIA, *RUNS)
        if usual or pd.api.types.is_numeric_dtype(frame[column].dtype):
            continue
        if questions.tells_apart(frame[column], who, every=True):
            notes.append(
                f"{source}: judges have several verdicts on an item, which column {str(column)!r} tells apart; they are read as "
                f"repeated calls on one question; if the column states what was judged, name it with criterion=..."
            )
            break
    # Pairs are judged in both orders, and items by several versions of a judge.
    more = [columns[role] for role in ("swapped", "version") if columns.get(role) is not None]
    return notes or _untold(frame, questions.joint_codes(frame, [*_who(columns), *more]), source)


def _untold(frame: pd.DataFrame, who: npt.NDArray[np.int64], source: str) -> list[str]:
    """Return a note where a judge has several verdicts on an answer and no column says why; rows that are copies are none."""
    rows = ~pd.Series(who).duplicated(keep=False).to_numpy()
    if rows.all():
        return []
    again = np.flatnonzero(~rows)
    again = again[~values.repeated_rows(frame.iloc[again])]
    counts = np.unique(who[again], return_counts=True)[1]
    if not (counts > 1).any():
        return []
    return [
        f"{source}: {int((counts > 1).sum()):,} pairs of judge and item have several verdicts, which no column that is read "
        f"tells apart; they are taken for repeated calls of a judge on one answer; if they are on several answers of a system, "
        f"number these in a column 'answer'"
    ]


def _perhaps_answers(frame: pd.DataFrame, columns: Mapping[str, Any], source: str) -> list[str]:
    """Return a note where the verdicts of a judge on an item are on several attempts, which may be those of the system."""
    if columns.get("answer") is not None or columns.get("question") is not None:
        return []
    of_judge = [columns[role] for role in _WHO if role != "run" and columns.get(role) is not None]
    who = questions.joint_codes(frame, of_judge)
    for column in (columns.get("run"), *questions.unused(frame, columns.values())):
        plain = str(column).strip().lower().replace(" ", "_")
        if column is None:
            continue
        # Of pairs, other numbers may say which answer was first.
        counts = column != columns.get("run") and columns.get("opponent") is None
        counts &= pd.api.types.is_numeric_dtype(frame[column].dtype)
        named = bool(_NUMBERED.fullmatch(plain)) and questions.tells_apart(frame[column], who)
        if named or (counts and plain not in RUNS and questions.tells_apart(frame[column], who, every=True)):
            return [
                f"{source}: judges have several verdicts on an item, which column {str(column)!r} tells apart; they are read as "
                f"repeated calls of a judge on one answer; if they are on several answers of a system, name it with "
                f"answer={str(column)!r}"
            ]
    return []


def by_criterion(frame: pd.DataFrame, column: Any, source: str) -> dict[Any, pd.DataFrame]:
    """Return the rows of each criterion without the column, criteria in the order in which they occur.

    Raises:
        DataError: if the criterion of a row is blank.
    """
    where = f"{source}, column {str(column)!r}"
    return questions.by_value(frame, column, values.names(frame[column], "criterion", where), "criterion", where)


def refuse_several(frame: pd.DataFrame, column: Any, source: str, others: str) -> None:
    """Refuse rows on several criteria.

    Args:
        frame: the table.
        column: its column of criteria, ``None`` without one.
        source: name of the table in messages.
        others: what to do in order to use all of them.

    Raises:
        DataError: if there are several.
    """
    if column is None:
        return
    names = list(by_criterion(frame, column, source))
    if len(names) > 1:
        raise DataError(
            f"{source}, column {str(column)!r}: {len(names):,} criteria ({listed(names)}), each with true labels of its own; "
            f"keep the rows of one, or {others}"
        )


def _who(columns: Mapping[str, Any]) -> list[Any]:
    return [columns[role] for role in _WHO if columns.get(role) is not None]
