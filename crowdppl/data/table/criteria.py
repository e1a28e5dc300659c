"""Grades by several criteria: the column that says by which each was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import shown
from crowdppl.data.table.identifiers import coded, encode, rows_text
from crowdppl.errors import DataError, OptionError

Array = npt.NDArray[Any]

# A column with more values is not one of criteria.
MOST = 50
# Between the name of an item and that of a criterion, where both together are an item.
BETWEEN = "|"


class Criteria(NamedTuple):
    """The column of criteria of a table, and all criteria in order; ``None`` for those that occur."""

    column: pd.Series[Any]
    declared: Iterable[Any] | None = None


def require_grades(criterion: str | None, kind: str | None) -> None:
    """Refuse criteria of labels that are not grades.

    Raises:
        OptionError: saying how grades are stated.
    """
    if criterion is not None and kind != "ordinal":
        raise OptionError(
            f"criterion={shown(criterion)} is that of grades; say that labels are grades with kind='ordinal' or order=[...] "
            f"(--kind ordinal, --order), or read the criteria as items of their own"
        )


def encoded(criteria: Criteria, rows: Array | None, source: str) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the criterion of each annotation as a number, ``(A,)``, and the criteria, ``(L,)``.

    Args:
        criteria: of the rows of a table.
        rows: of the annotations, ``(A,)``; ``None`` for all.
        source: name of the table in messages.

    Raises:
        DataError: if a row has no criterion, or there are too many of them.
    """
    column, declared = criteria
    where = f"{source}, column {str(column.name)!r}"
    if declared is None and isinstance(column.dtype, pd.CategoricalDtype):
        declared = [name for name in column.cat.categories.tolist() if bool((column == name).any())]
    # Codes that are shared with the table would be written over.
    values = coded(column if rows is None else column.iloc[rows].reset_index(drop=True), "criterion", where)
    if values.missing.any():
        at = np.flatnonzero(values.missing)
        raise DataError(f"{where}, {rows_text(at, of=rows)}: criterion missing; fill it in or drop the rows")
    code, names = encode(values, declared, "criterion", where, rows=rows, ordered=False)[:2]
    if len(names) > MOST:
        raise DataError(
            f"{where} has {len(names):,} values, more than {MOST} criteria; name another column with criterion=... (--criterion)"
        )
    return code, names
