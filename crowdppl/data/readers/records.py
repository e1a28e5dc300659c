"""Result of a reader: annotations as a long table, with notes on what was read and what was dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.table.structured import CHOICES_OF_SEVERAL, Several
from crowdppl.errors import DataError, FileError, OptionError, listed, suggestion

# Label of skipped annotations with skip="label".
SKIPPED = "(skipped)"
Skip = Literal["missing", "label"]


class NothingError(DataError):
    """A file of a known format without an annotation: of several, others may have some.

    Attributes:
        why: what it has not, for a note that it is left out.
    """

    why = "without an annotation"


@dataclass(frozen=True)
class Choices:
    """Choices of the user about an export.

    Attributes:
        question: the question to read, if a file contains answers to several.
        skip: treatment of annotations that were skipped, ignored or marked as undecidable: ``"missing"``, or ``"label"``, which
            gives them the label ``(skipped)``.
        several: treatment of annotations with several labels: ``"refuse"``, ``"join"`` them with ``;`` to a set of labels in one
            order, or ``"keep"`` them as they are written.
        rejected: whether to keep annotations that were rejected by a reviewer.
        workers: names of the columns of workers in a table with a column for each worker. Defaults to those that the names and
            values show.
        labels: all classes, if the caller has declared them.
        columns: names of the columns of items, workers and labels that the caller gave.
        task: name of the column of items that the caller gave.
        worker: likewise of workers.
    """

    question: str | None = None
    skip: Skip = "missing"
    several: Several = "refuse"
    rejected: bool = False
    workers: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    task: str | None = None
    worker: str | None = None

    def __post_init__(self) -> None:
        if self.skip not in ("missing", "label"):
            raise OptionError(f"skip={self.skip!r}; use 'missing' or 'label'")
        if self.several not in CHOICES_OF_SEVERAL:
            raise OptionError(f"several={self.several!r}; use 'refuse', 'join', 'sets' or 'keep'")

    def names_columns_of(self, table: Sequence[Any]) -> bool:
        """Tell whether the caller named at least two columns, all of which a table has."""
        return len(self.columns) > 1 and set(self.columns) <= set(map(str, table))

    def complete(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a row has an item, a worker and a label: plain values of the columns named, or columns of usual names."""
        names = set(row)
        if not set(self.columns) <= names or any(isinstance(row[name], (dict, list)) for name in self.columns):
            return False
        named = [role for role, name in (("task", self.task), ("worker", self.worker)) if name is not None]
        return long_names({*names, *named, *(["label"] if len(self.columns) > len(named) else [])})


@dataclass
class Records:
    """Annotations of a file, one row each.

    Attributes:
        frame: columns ``task``, ``worker``, ``label`` and, if known, ``timestamp`` and ``seconds``; then the columns of the file.
        format: format of the file.
        truth: known true labels by item.
        notes: what was read, what was dropped and why, in sentences.
        several: treatment of annotations with several labels.
        inputs: names of the columns of the frame with what the annotators were shown.
        item_name: name of the identifier of items in the file.
        places: columns of the sequence and of the position of tokens; ``None`` where items are no tokens.
        question: the question that was read, by its name in the file; ``None`` where the format has no questions.
        renamed: columns of the file by whose names the frame has other ones, and their names in the frame.
    """

    frame: pd.DataFrame
    format: str
    truth: dict[Any, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    several: Several = "refuse"
    inputs: tuple[str, ...] = ()
    item_name: str = "task"
    places: tuple[str, str] | None = None
    question: str | None = None
    renamed: dict[str, str] = field(default_factory=dict)

    def keep(self, columns: Mapping[str, Any]) -> None:
        """Add columns of the file to the frame, under another name where the frame has one of their name."""
        for name, values in columns.items():
            if name in self.frame:
                self.renamed[name] = f"{name} (column of the file)"
            self.frame[self.renamed.get(name, name)] = values

    def truth_by(self, column: Any) -> dict[Any, Any]:
        """Return the known true labels by another column of items, without those on which its items disagree."""
        if column in (None, "task") or column not in self.frame or not self.truth:
            return self.truth
        pairs = self.frame[["task", column]].drop_duplicates()
        truth: dict[Any, set[Any]] = {}
        for task, item in zip(pairs["task"].tolist(), pairs[column].tolist(), strict=True):
            if task in self.truth:
                truth.setdefault(item, set()).add(self.truth[task])
        return {item: labels.pop() for item, labels in truth.items() if len(labels) == 1}


def uniform(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of integers or of strings; a column with both becomes strings."""
    if all(isinstance(value, int) for value in column):
        return column.astype("int64") if column.map(lambda v: -(2**63) <= v < 2**63).all() else column.map(str)
    return column.map(str).astype(object)


def choose(questions: Sequence[str], choices: Choices, source: str, otherwise: str | None = None) -> str:
    """Return the question to read.

    Args:
        questions: those of the file.
        choices: choices of the user.
        source: name of the file in messages.
        otherwise: what the file contains where it has no question.

    Raises:
        DataError: if there is none, or several without a choice, or not the chosen one.
    """
    if not questions:
        raise NothingError(f"{source}: {otherwise or 'it contains no answers; export the annotations, too'}")
    if choices.question is not None:
        if choices.question not in questions:
            other = NothingError(
                f"{source}: no question {choices.question!r}{suggestion(choices.question, questions)}; its questions are "
                f"{listed(questions, 12)}"
            )
            other.why = f"without an answer to the question {choices.question!r}"
            raise other
        return choices.question
    if len(questions) > 1:
        raise DataError(
            f"{source}: answers to {len(questions)} questions, {listed(questions, 12)}; choose one with question=..."
        )
    return questions[0]


def aggregate(source: str, what: str, needed: str) -> FileError:
    """Return the error for a file that contains a consensus and no individual labels."""
    return FileError(f"{source} is {what}: it contains a consensus, not the labels of each worker; {needed}")
