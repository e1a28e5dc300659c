"""Known truths for a command: a column of the annotations, or a table of their own, read in one way for all commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.data.columns import ITEM_COLUMNS, LABEL_COLUMNS, column_of, names_of, truth_column
from crowdppl.data.identifiers import holds_integers
from crowdppl.data.readers.streams import source_name
from crowdppl.data.readers.tables import read_table
from crowdppl.errors import OptionError


@dataclass(frozen=True)
class Known:
    """Where known truths are.

    Attributes:
        column: of the annotations, blank where unknown.
        file: a table with a column of items and one of classes.
        item: name of the item's column in that table; that of the annotations, else a usual name, where ``None``.
        label: likewise of the class.
    """

    column: str | None = None
    file: Path | None = None
    item: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if self.column is not None and self.file is not None:
            raise OptionError("--truth and --truth-file both given; known truths come from one of them")
        if self.file is None and (self.item, self.label) != (None, None):
            raise OptionError("--truth-item and --truth-label name columns of a --truth-file, and none is given")

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return self.column is not None or self.file is not None

    def table(self, frame: pd.DataFrame, task: str | None, label: str | None, source: str) -> pd.DataFrame | None:
        """Return known truths with columns ``task`` and ``label``, a row for each; ``None`` where none are given.

        Args:
            frame: the annotations; identifiers that are integers in one file and text in the other become text in both.
            task: name of the item's column there; a usual name where ``None``.
            label: likewise of the label's.
            source: name of the annotations, for messages.

        Raises:
            DataError: where a column is missing.
            FileError: where the table cannot be read.
        """
        if self.column is not None:
            of_item = column_of(frame, task, ITEM_COLUMNS, source, "say which one holds the item with --task")
            rows = frame[[of_item, truth_column(frame, self.column, source)]]
            return rows.set_axis(["task", "label"], axis=1).dropna().drop_duplicates().reset_index(drop=True)
        if self.file is None:
            return None
        table = read_table(self.file)
        chosen = []
        for own, named, usual, option in (
            (self.item, task, ITEM_COLUMNS, "--truth-item"),
            (self.label, label, LABEL_COLUMNS, "--truth-label"),
        ):
            what = f"say which one holds {'the item' if usual is ITEM_COLUMNS else 'the class'} with {option}"
            chosen.append(column_of(table, own, names_of(named, usual), source_name(self.file), what))
        out = table[chosen].set_axis(["task", "label"], axis=1)
        for name, named, usual in (("task", task, ITEM_COLUMNS), ("label", label, LABEL_COLUMNS)):
            alike(frame, out, names_of(named, usual)[:1] if named else usual, name)
        return out.dropna(subset=["label"]).reset_index(drop=True)


def alike(frame: pd.DataFrame, other: pd.DataFrame, usual: Sequence[str], column: Any) -> None:
    """Bring a column that two files share to text in both where it is text in one, in place.

    Each file is read by itself, and one stray name makes a column text.

    Args:
        frame: the annotations.
        other: the other table.
        usual: names of the column in ``frame``; the first that is there is taken.
        column: its name in ``other``.
    """
    here = next((name for name in usual if name in frame), None)
    if here is None or column not in other:
        return  # told where the columns are looked up
    both = ((frame, here), (other, column))
    if len({holds_integers(table[name]) for table, name in both}) > 1:
        for table, name in both:
            table[name] = table[name].map(str, na_action="ignore").astype(object)
