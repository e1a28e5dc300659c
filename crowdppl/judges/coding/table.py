"""A table of verdicts or human labels: its columns by role, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.columns import column_of
from crowdppl.data.table.identifiers import Coded, rows_text
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding import values

Array = npt.NDArray[Any]
# What a row may state of a call of a judge besides its verdict, each in a column of the name of the role.
OF_CALLS = ("swapped", "score", "family", "version", "cost", "seconds", "when", "status")


@dataclass(frozen=True)
class Table:
    """A table of ``n`` rows with known columns. A column that is not there reads as *not stated* in every row.

    Attributes:
        frame: the table.
        columns: name of the column of each role, ``None`` without one.
        source: name of the table in messages.
    """

    frame: pd.DataFrame
    columns: Mapping[str, Any]
    source: str

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        given: Mapping[str, Any],
        defaults: Mapping[str, tuple[str, ...]],
        required: tuple[str, ...],
        source: str,
    ) -> Self:
        """Find the columns of a table.

        Args:
            frame: the table.
            given: names of columns by role as the caller states them, ``None`` for the default.
            defaults: default names of columns by role.
            required: roles without which the table cannot be used.
            source: name of the table in messages.

        Raises:
            DataError: if a column is missing, is there twice or has two roles, or the table has no rows.
        """
        taken = [str(name) for name in given.values() if name is not None]
        columns: dict[str, Any] = {}
        for role, name in given.items():
            # A column that the caller gives another role has not the role of its name.
            free = tuple(default for default in defaults[role] if name is not None or default not in taken)
            fix = f"name the column of the {role} with {role}=..."
            if role in required:
                columns[role] = column_of(frame, name, free or defaults[role], source, fix, role)
            elif name is not None or set(free) & {str(column) for column in frame.columns}:
                columns[role] = column_of(frame, name, free, source, fix, role)
            else:
                columns[role] = None
        roles: dict[Any, str] = {}
        for role, column in columns.items():
            if column is not None and roles.setdefault(column, role) != role:
                raise DataError(
                    f"{source}: column {str(column)!r} is both {roles[column]} and {role}; name two different columns"
                )
        if not len(frame):
            raise DataError(f"{source}: no rows; at least one is needed")
        return cls(frame.reset_index(drop=True), columns, source)

    def where(self, role: str) -> str:
        """Return the location of a column for messages."""
        column = self.columns[role]
        return self.source if column is None else f"{self.source}, column {str(column)!r}"

    def column(self, role: str) -> pd.Series[Any] | None:
        """Return a column, ``None`` if there is none."""
        return None if self.columns[role] is None else self.frame[self.columns[role]]

    def names(self, role: str) -> Coded:
        """Return a column of names as codes, -1 if blank."""
        column = self.column(role)
        if column is None:
            return Coded(np.full(len(self.frame), -1, dtype=np.int64), np.zeros(0, dtype=object))
        return values.names(column, role, self.where(role))

    def required(self, role: str) -> Coded:
        """Return a column of names as codes.

        Raises:
            DataError: if one is blank.
        """
        names = self.names(role)
        if names.missing.any():
            rows = rows_text(np.flatnonzero(names.missing))
            raise DataError(f"{self.where(role)}, {rows}: {role} missing; fill it in or drop the rows")
        return names

    def numbers(self, role: str, at_least: float | None = None) -> npt.NDArray[np.float64]:
        """Return a column of numbers ``(n,)``, NaN if blank."""
        column = self.column(role)
        if column is None:
            return np.full(len(self.frame), np.nan)
        return values.numbers(column, role, self.where(role), at_least)

    def times(self, role: str, notes: list[str]) -> npt.NDArray[np.datetime64]:
        """Return a column of times ``(n,)``, NaT if blank; ``notes`` receives how they were read."""
        column = self.column(role)
        if column is None:
            return np.full(len(self.frame), np.datetime64("NaT", "us"))
        return values.times(column, self.where(role), notes)

    def orders(self, role: str) -> npt.NDArray[np.int8]:
        """Return a column of true and false ``(n,)``: 1, 0, -1 if blank."""
        column = self.column(role)
        if column is None:
            return np.full(len(self.frame), -1, dtype=np.int8)
        return values.orders(column, self.where(role))

    def one_per(self, names: Coded, role: str, group: Coded, what: str) -> npt.NDArray[np.int64]:
        """Return the code that each group has, -1 without one.

        Args:
            names: a column of names.
            role: its role.
            group: groups of rows.
            what: what a group is, for messages.

        Raises:
            DataError: if a group has two.
        """
        first, wrong = values.constant(names.codes, group.codes, len(group.names))
        if len(wrong):
            at = group.codes[wrong[0]]
            here, before = names.names[names.codes[wrong[0]]], names.names[first[at]]
            raise DataError(
                f"{self.where(role)}, {rows_text(wrong)}: {what} {listed([group.names[at]])} has the {role} {listed([here])}, "
                f"but {listed([before])} in a row before; state one {role} for each {what}"
            )
        return first
