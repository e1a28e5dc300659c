"""Verdicts of one meaning in two forms, and columns of human verdicts that are not used: notes, nothing more."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.table import label_forms, questions
from crowdppl.errors import listed
from crowdppl.judges.coding.table import Table

Array = npt.NDArray[Any]

# Names of columns with what people said, or with the true label of an item; a majority may be that of the judges.
_HUMAN = re.compile(
    r"(human|people|expert|gold|truth|ground_?truth|true|correct|expected|reference|annotator"
    r"|(human|expert|annotator)s?_(majority|consensus))"
    r"(_?(labels?|verdicts?|votes?|answers?|ratings?|scores?|class|annotations?|decisions?|preferences?))?"
)


def notes_on(table: Table, item: Array, judge: Array, label: Array, labels: Array, judges: Array) -> list[str]:
    """Return notes on classes that may be one, and on columns of human verdicts that are not used.

    Args:
        table: the verdicts.
        item: item of each row, ``(n,)``.
        judge: judge of each row, ``(n,)``.
        label: label of each row, ``(n,)``; -1 without one.
        labels: the classes, ``(K,)``.
        judges: names of the judges, ``(J,)``.
    """
    given = label >= 0
    notes = label_forms.notes_on(
        label[given],
        judge[given],
        item[given],
        labels,
        judges,
        table.where("verdict"),
        role="judges",
        fix="write them alike",
    )
    return notes + _of_people(table, item, labels)


def _of_people(table: Table, item: Array, labels: Array) -> list[str]:
    """Return a note on a column by a name of human or true labels, with one of the classes for each item."""
    taken = [column for column in table.columns.values() if column is not None]
    classes = {_text(name) for name in labels.tolist()}
    for column in questions.unused(table.frame, taken):
        if not _HUMAN.fullmatch(re.sub(r"\W+", "_", str(column).strip().lower())):
            continue
        cells = [None if _blank(cell) else _text(cell) for cell in table.frame[column].tolist()]
        pairs = {(one, cell) for one, cell in zip(item.tolist(), cells, strict=True) if cell is not None}
        of_item = np.unique([one for one, _ in pairs])
        if not pairs or len(of_item) < len(pairs) or not {cell for _, cell in pairs} <= classes:
            continue
        names = listed([str(table.columns["item"]), str(column)])
        return [
            f"{table.source}: the column {str(column)!r} has a verdict for each item and is not used; if people gave these, or "
            f"they are true labels, give the columns {names} as human labels (human=..., --human)"
        ]
    return []


def _blank(cell: Any) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())


def _text(value: Any) -> str:
    text = str(value).strip().casefold()
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text
