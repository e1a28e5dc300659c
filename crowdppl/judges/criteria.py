"""Tables on several criteria: which column states what was judged, and the rows of each criterion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.columns import column_of
from crowdppl.data.identifiers import rows_text
from crowdppl.errors import DataError, listed
from crowdppl.judges import values

# Names of columns that state what was judged, compared without capitals.
USUAL = ("criterion", "criteria", "metric", "scorer", "rubric", "dimension", "aspect")
# Names of columns that number the calls of a judge on one answer.
RUNS = ("run", "run_id", "replicate", "repetition", "trial", "call", "attempt")
# A column with more values is not one of criteria, unless the caller names it.
MOST = 50
# Columns that tell whose answer a row is on, and who gave it.
_WHO = ("item", "judge", "annotator", "system", "opponent", "answer", "run")


def column_of_criteria(frame: pd.DataFrame, name: Any, columns: Mapping[str, Any], source: str) -> Any:
    """Return the column that states the criterion of each row, ``None`` without one.

    Without a name, it is a column of a usual name (:data:`USUAL`) with several values for one judge and answer: such verdicts
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
    usual = [column for column in _unused(frame, columns) if str(column).strip().lower() in USUAL]
    return next((column for column in usual if _tells_apart(frame, column, columns)), None)


def unnamed(frame: pd.DataFrame, columns: Mapping[str, Any]) -> list[Any]:
    """Return columns of another name that tell the verdicts of a judge on one answer apart, and may state criteria.

    Each judge has a verdict on each answer for each value. Numbers, which may count runs, are left out.
    """
    if columns.get("run") is not None:
        return []
    out = []
    for column in _unused(frame, columns):
        name = str(column).strip().lower()
        if name in USUAL or name in RUNS or pd.api.types.is_numeric_dtype(frame[column].dtype):
            continue
        if _tells_apart(frame, column, columns, all_of_them=True):
            out.append(column)
    return out


def by_criterion(frame: pd.DataFrame, column: Any, source: str) -> dict[Any, pd.DataFrame]:
    """Return the rows of each criterion without the column, criteria in the order in which they occur.

    Raises:
        DataError: if the criterion of a row is blank.
    """
    where = f"{source}, column {str(column)!r}"
    names = values.names(frame[column], "criterion", where)
    if names.missing.any():
        rows = rows_text(np.flatnonzero(names.missing))
        raise DataError(f"{where}, {rows}: criterion missing; fill it in or drop the rows")
    rest = frame.drop(columns=[column])
    order = pd.unique(names.codes)
    return {names.names.tolist()[n]: rest[names.codes == n].reset_index(drop=True) for n in order.tolist()}


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
            f"{source}, column {str(column)!r}: {len(names):,} criteria ({listed(names)}), each with true labels of "
            "its own; keep "
            f"the rows of one, or {others}"
        )


def _unused(frame: pd.DataFrame, columns: Mapping[str, Any]) -> list[Any]:
    """Return the columns without a role, those of equal names left out."""
    taken = {str(column) for column in columns.values() if column is not None}
    names = [str(column) for column in frame.columns]
    return [c for c in frame.columns if str(c) not in taken and names.count(str(c)) == 1]


def _tells_apart(frame: pd.DataFrame, column: Any, columns: Mapping[str, Any], all_of_them: bool = False) -> bool:
    """Return whether a column has several values for one judge and answer; or, if asked, all its values for each, once."""
    value = values.codes(frame[column])
    distinct = len(np.unique(value[value >= 0]))
    if not 1 < distinct <= MOST or (all_of_them and ((value < 0).any() or len(frame) % distinct)):
        return False
    roles = [columns[role] for role in _WHO if columns.get(role) is not None]
    who = pd.DataFrame({n: values.codes(frame[role]) for n, role in enumerate(roles)})
    keys = list(who.columns)
    stated = who.assign(value=value)[value >= 0]
    if not all_of_them:
        return bool(stated.drop_duplicates().duplicated(keys).any())
    once = not stated.duplicated().any()
    return bool(once and (stated.groupby(keys, sort=False).size() == distinct).all())
