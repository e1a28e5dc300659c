"""Lengths of the judged answers: which column states them, and the length of each item."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.identifiers import Coded
from crowdppl.errors import DataError
from crowdppl.judges.coding import values
from crowdppl.judges.coding.table import Table

Array = npt.NDArray[Any]
# Names of the column of lengths. "output_tokens" and "completion_tokens" are left out: they may be those of the judge.
LENGTHS = (
    "length",
    "answer_length",
    "response_length",
    "output_length",
    "answer_tokens",
    "response_tokens",
    "tokens",
    "answer_characters",
    "response_characters",
    "characters",
)
OPPONENT_LENGTHS = tuple(f"opponent_{name}" for name in LENGTHS)


class Lengths(NamedTuple):
    """Length of the answer of each item, and of the opponent's answer, ``(N,)``, NaN if not stated; ``(0,)`` if none is."""

    first: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]


def lengths(table: Table, item: Coded, turned: Array, *, stated: bool, notes: list[str]) -> Lengths:
    """Return the length of each item's answer, or of its two answers.

    A column that is recognised by its name, and has several values for one answer, is not used: tokens may be those of the
    judge's reply. A note says so.

    Args:
        table: the verdicts, with the roles ``length`` and ``opponent_length``.
        item: item of each row, ``(n,)``.
        turned: whether a row states the two systems of its item in the other order, ``(n,)``.
        stated: whether the caller names the column.
        notes: receives which column is used, or why it is not.

    Raises:
        DataError: for a length that is no number of at least 0; and, where the caller names the column, for an answer with
            several lengths, and for pairs of answers without lengths of the second.
    """
    N = len(item.names)
    none = np.zeros(0)
    if table.columns["length"] is None:
        return Lengths(none, none)
    if table.columns["opponent"] is not None and table.columns["opponent_length"] is None:
        lack = f"{table.where('length')}: lengths of the first answer of each pair only"
        fix = "name the column of those of the second with opponent_length=..."
        if stated:
            raise DataError(f"{lack}; {fix}")
        notes.append(f"{lack}, which are not used; {fix}")
        return Lengths(none, none)
    first, second = table.numbers("length", 0), table.numbers("opponent_length", 0)
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    out = []
    for role, rows in (("length", first), ("opponent_length", second)):
        known = np.unique(rows[np.isfinite(rows)])
        codes = np.where(np.isfinite(rows), np.searchsorted(known, rows), -1)
        if not stated and len(values.constant(codes, item.codes, N)[1]):
            notes.append(
                f"{table.where(role)}: several values for one answer, so that it is not the length of the answer, and not used; "
                f"if it is, state one for each answer and name it with length=..."
            )
            return Lengths(none, none)
        names = known.astype(np.int64) if (known % 1 == 0).all() else known
        code = table.one_per(Coded(codes, names), role.replace("_", "'s "), item, "item")
        out.append(np.append(known, np.nan)[code] if len(known) else none)
    if not stated and str(table.columns["length"]) != "length":
        notes.append(
            f"{table.where('length')}: read as the length of each answer; for another column, state length=..."
        )
    return Lengths(*out)


def contrast(first: Array, second: Array, paired: bool) -> npt.NDArray[np.float64]:
    """Return how long each answer is, as the log of its length, or of the ratio to the opponent's; NaN where not known, ``(N,)``.

    Args:
        first: length of each answer, ``(N,)``; ``(0,)`` if none is stated.
        second: length of the opponent's answer, ``(N,)``; ``(0,)`` if none is stated.
        paired: whether items are pairs of answers.

    Returns:
        ``(0,)`` if lengths are not stated.
    """
    if paired and not len(second):
        return first[:0]
    log = np.log1p(first)
    return np.asarray(log - np.log1p(second) if paired else log)
