"""Result of a reader: annotations as a long table, with notes on what was read and what was dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from crowdppl.data.identifiers import unstorable
from crowdppl.data.timestamps import since_1970
from crowdppl.errors import DataError, FileError, OptionError, listed, suggestion

# Label of skipped annotations with skip="label".
SKIPPED = "(skipped)"
Skip = Literal["missing", "label"]


@dataclass(frozen=True)
class Choices:
    """Choices of the user about an export.

    Attributes:
        question: the question to read, if a file contains answers to several.
        skip: treatment of annotations that were skipped, ignored or marked as undecidable: ``"missing"``, or ``"label"``, which
            gives them the label ``(skipped)``.
        several: treatment of annotations with several labels: ``"refuse"``, or ``"join"`` them with ``;`` to a set of labels.
        rejected: whether to keep annotations that were rejected by a reviewer.
    """

    question: str | None = None
    skip: Skip = "missing"
    several: Literal["refuse", "join"] = "refuse"
    rejected: bool = False

    def __post_init__(self) -> None:
        if self.skip not in ("missing", "label"):
            raise OptionError(f"skip={self.skip!r}; use 'missing' or 'label'")
        if self.several not in ("refuse", "join"):
            raise OptionError(f"several={self.several!r}; use 'refuse' or 'join'")


@dataclass
class Records:
    """Annotations of a file, one row each.

    Attributes:
        frame: columns ``task``, ``worker``, ``label`` and, if known, ``timestamp`` and ``seconds``.
        format: format of the file.
        truth: known true labels by item.
        notes: what was read, what was dropped and why, in sentences.
    """

    frame: pd.DataFrame
    format: str
    truth: dict[Any, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Rows:
    """Collects annotations one by one and counts those that are left out.

    Args:
        source: name of the file in messages.
        choices: choices of the user.
    """

    def __init__(self, source: str, choices: Choices):
        self.source, self.choices = source, choices
        self.rows: list[tuple[Any, Any, Any, Any, Any]] = []
        self.truth: dict[Any, Any] = {}
        self.left_out: dict[str, int] = {}
        self.conflicts: set[Any] = set()

    def add(
        self, task: Any, worker: Any, labels: Any, timestamp: Any = None, seconds: Any = None, *, where: str
    ) -> None:
        """Add an annotation; ``labels`` is one label or a list of labels, which may be empty."""
        if worker is None or worker == "":
            raise DataError(f"{self.source}, {where}: no annotator; export the file with annotator identifiers")
        label = self.one(labels, where)
        if label is None:
            self.drop("without a label")
            return
        self._append(plain(task), plain(worker), label, timestamp, seconds, where=where)

    def _append(
        self, task: Any, worker: Any, label: Any, timestamp: Any = None, seconds: Any = None, *, where: str
    ) -> None:
        for value, what in ((task, "task"), (worker, "worker"), (label, "label")):
            self._require_storable(value, what, where)
        self.rows.append((task, worker, label, timestamp, seconds))

    def _require_storable(self, value: Any, what: str, where: str) -> None:
        reason = unstorable(value) if isinstance(value, str) else None
        if reason is not None:
            raise DataError(f"{self.source}, {where}: the {what} {value!r} {reason}")

    def skip(self, task: Any, worker: Any, what: str) -> None:
        """Add or drop a skipped annotation, as the user has chosen."""
        if self.choices.skip == "label" and worker not in (None, ""):
            self._append(plain(task), plain(worker), SKIPPED, where=f"annotation {len(self.rows) + 1:,}")
        else:
            self.drop(what)

    def known(self, task: Any, labels: Any, where: str) -> None:
        """Add a known truth."""
        label, task = self.one(labels, where), plain(task)
        if label is None:
            return
        self._require_storable(label, "label", where)
        if self.truth.setdefault(task, label) != label:
            self.conflicts.add(task)

    def one(self, labels: Any, where: str) -> Any:
        """Return a single label, or ``None`` if there is none.

        Raises:
            DataError: if there are several and they are to be refused.
        """
        values = [labels] if not isinstance(labels, (list, tuple)) else list(labels)
        values = [value for value in values if value is not None and value != ""]
        if not values:
            return None
        if len(values) == 1:
            return plain(values[0])
        if self.choices.several == "join":
            return ";".join(sorted(str(value) for value in values))
        raise DataError(
            f"{self.source}, {where}: {len(values)} labels in one annotation, {listed(values, 3)}; to read sets of labels, use "
            f"several='join' (--several join), then crowdppl.data.label_sets.pairs"
        )

    def drop(self, reason: str) -> None:
        """Count an annotation that is left out."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def finish(self, kind: str) -> Records:
        """Return the collected annotations.

        Raises:
            DataError: if there are none.
        """
        notes = [f"{self.source}: read as {kind}, {len(self.rows):,} annotations"]
        notes += [f"{self.source}: {count:,} annotations {reason} left out" for reason, count in self.left_out.items()]
        for task in self.conflicts:
            self.truth.pop(task, None)
        if self.conflicts:
            notes.append(
                f"{self.source}: {len(self.conflicts):,} items with contradictory known truths, which are ignored"
            )
        if self.truth:
            notes.append(f"{self.source}: {len(self.truth):,} known truths")
        if not self.rows:
            left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
            dropped = f" (left out: {left_out})" if left_out else ""
            raise DataError(f"{self.source}: no annotation in this {kind} export{dropped}; export the annotations, too")
        frame = pd.DataFrame(self.rows, columns=["task", "worker", "label", "timestamp", "seconds"])
        for column in ("task", "worker", "label"):
            frame[column] = uniform(frame[column])
        frame["timestamp"] = timestamps(frame["timestamp"])
        frame["seconds"] = pd.to_numeric(frame["seconds"], errors="coerce").where(lambda seconds: seconds >= 0)
        for column in ("timestamp", "seconds"):
            if frame[column].isna().all():
                frame = frame.drop(columns=column)
        if frame["label"].dtype == object:
            self.truth = {task: str(label) for task, label in self.truth.items()}
        if frame["task"].dtype == object:
            self.truth = {str(task): label for task, label in self.truth.items()}
        return Records(frame, kind, self.truth, notes)


def timestamps(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return timestamps as seconds since 1970, NaN if unreadable: they are optional and no reason to refuse a file."""
    numbers = pd.to_numeric(column, errors="coerce")
    if not bool((numbers.isna() & column.notna()).any()):
        return numbers.astype(float)
    return since_1970(column)


def plain(value: Any) -> Any:
    """Return an identifier or label as an integer or text: whole floats become integers, other objects their text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (str, int)) else str(value)


def uniform(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of integers or of strings; a column with both becomes strings."""
    if all(isinstance(value, int) for value in column):
        return column.astype("int64") if column.map(lambda v: -(2**63) <= v < 2**63).all() else column.map(str)
    return column.map(str).astype(object)


def choose(questions: list[str], choices: Choices, source: str) -> str:
    """Return the question to read.

    Raises:
        DataError: if there is none, or several without a choice, or not the chosen one.
    """
    if choices.question is not None:
        if choices.question not in questions:
            raise DataError(
                f"{source}: no question {choices.question!r}{suggestion(choices.question, questions)}; its questions are "
                f"{listed(questions, 12)}"
            )
        return choices.question
    if not questions:
        raise DataError(f"{source}: it contains no answers; export the annotations, too")
    if len(questions) > 1:
        raise DataError(
            f"{source}: answers to {len(questions)} questions, {listed(questions, 12)}; choose one with question=..."
        )
    return questions[0]


def aggregate(source: str, what: str, needed: str) -> FileError:
    """Return the error for a file that contains a consensus and no individual labels."""
    return FileError(f"{source} is {what}: it contains a consensus, not the labels of each worker; {needed}")
