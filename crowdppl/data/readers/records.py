"""What a reader hands on: annotations as a long table, and what it took, dropped and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from crowdppl.data.identifiers import unwritable
from crowdppl.data.timestamps import since_1970
from crowdppl.errors import DataError, FileError, OptionError, listed, suggestion

# The label of annotations that were skipped, where that is to count as an answer.
SKIPPED = "(skipped)"
Skip = Literal["missing", "label"]


@dataclass(frozen=True)
class Choices:
    """What a person decides about an export.

    Attributes:
        question: which question, where a file holds answers to several.
        skip: an annotation that was skipped, ignored or said "cannot tell" by a button of its own: ``"missing"``, or an
            ``"label"`` in its own right, the label ``(skipped)``.
        several: an annotation with more than one label: ``"refuse"``, or ``"join"`` them with ``;`` (a set of labels).
        rejected: keep annotations that were rejected by a reviewer.
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
    """A row for each annotation, whatever the file was.

    Attributes:
        frame: ``task``, ``worker``, ``label``, and where known ``timestamp`` and ``seconds``.
        format: which kind of file it was.
        truth: known classes by item.
        told: what was taken, dropped and why, in sentences.
    """

    frame: pd.DataFrame
    format: str
    truth: dict[Any, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)


class Rows:
    """Collects annotations one by one and counts what is left out.

    Args:
        source: name of the file, for messages.
        choices: of the person.
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
        """Take an annotation; ``labels`` is one label or a list of them, empty for none."""
        if worker is None or worker == "":
            raise DataError(
                f"{self.source}, {where}: no annotator; export with annotators, or annotations cannot be told apart"
            )
        label = self.one(labels, where)
        if label is None:
            self.drop("without a label")
            return
        self._take(plain(task), plain(worker), label, timestamp, seconds, where=where)

    def _take(
        self, task: Any, worker: Any, label: Any, timestamp: Any = None, seconds: Any = None, *, where: str
    ) -> None:
        for value, what in ((task, "task"), (worker, "worker"), (label, "label")):
            self._require_text(value, what, where)
        self.rows.append((task, worker, label, timestamp, seconds))

    def _require_text(self, value: Any, what: str, where: str) -> None:
        why = unwritable(value) if isinstance(value, str) else None
        if why is not None:
            raise DataError(f"{self.source}, {where}: the {what} {value!r} {why}")

    def skip(self, task: Any, worker: Any, what: str) -> None:
        """Take an annotation that was skipped, as the person has chosen."""
        if self.choices.skip == "label" and worker not in (None, ""):
            self._take(plain(task), plain(worker), SKIPPED, where=f"annotation {len(self.rows) + 1:,}")
        else:
            self.drop(what)

    def known(self, task: Any, labels: Any, where: str) -> None:
        """Take a known truth."""
        label, task = self.one(labels, where), plain(task)
        if label is None:
            return
        self._require_text(label, "label", where)
        if self.truth.setdefault(task, label) != label:
            self.conflicts.add(task)

    def one(self, labels: Any, where: str) -> Any:
        """Return one label, or ``None`` where there is none."""
        values = [labels] if not isinstance(labels, (list, tuple)) else list(labels)
        values = [value for value in values if value is not None and value != ""]
        if not values:
            return None
        if len(values) == 1:
            return plain(values[0])
        if self.choices.several == "join":
            return ";".join(sorted(str(value) for value in values))
        raise DataError(
            f"{self.source}, {where}: {len(values)} labels in one annotation, {listed(values, 3)}; take sets of labels with "
            f"several='join' (--several join), then crowdppl.data.label_sets.pairs"
        )

    def drop(self, why: str) -> None:
        """Count an annotation that is left out."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def done(self, kind: str) -> Records:
        """Return what was collected.

        Raises:
            DataError: where nothing was.
        """
        told = [f"{self.source}: read as {kind}, {len(self.rows):,} annotations taken"]
        told += [f"{self.source}: {count:,} annotations {why} left out" for why, count in self.left_out.items()]
        for task in self.conflicts:
            self.truth.pop(task, None)
        if self.conflicts:
            told.append(
                f"{self.source}: {len(self.conflicts):,} items with contradicting known truths: none taken for them"
            )
        if self.truth:
            told.append(f"{self.source}: {len(self.truth):,} known truths")
        if not self.rows:
            left = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items()) or "there are none"
            raise DataError(f"{self.source}: no annotation in this {kind} export ({left})")
        frame = pd.DataFrame(self.rows, columns=["task", "worker", "label", "timestamp", "seconds"])
        for column in ("task", "worker", "label"):
            frame[column] = uniform(frame[column])
        frame["timestamp"] = moments(frame["timestamp"])
        frame["seconds"] = pd.to_numeric(frame["seconds"], errors="coerce").where(lambda took: took >= 0)
        for column in ("timestamp", "seconds"):
            if frame[column].isna().all():
                frame = frame.drop(columns=column)
        if frame["label"].dtype == object:
            self.truth = {task: str(label) for task, label in self.truth.items()}
        if frame["task"].dtype == object:
            self.truth = {str(task): label for task, label in self.truth.items()}
        return Records(frame, kind, self.truth, told)


def moments(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return moments as seconds since 1970, NaN where one cannot be read: they are a help, no reason to refuse a file."""
    numbers = pd.to_numeric(column, errors="coerce")
    if not bool((numbers.isna() & column.notna()).any()):
        return numbers.astype(float)
    return since_1970(column)


def plain(value: Any) -> Any:
    """Return an identifier or label as a number or text: whole floats are whole numbers, other things their text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (str, int)) else str(value)


def uniform(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of whole numbers or of strings: of strings where it holds both."""
    if all(isinstance(value, int) for value in column):
        return column.astype("int64") if column.map(lambda v: -(2**63) <= v < 2**63).all() else column.map(str)
    return column.map(str).astype(object)


def choose(questions: list[str], choices: Choices, source: str) -> str:
    """Return the question to read.

    Raises:
        DataError: where there is none, several, or not the one asked for.
    """
    if choices.question is not None:
        if choices.question not in questions:
            raise DataError(
                f"{source}: no question {choices.question!r}{suggestion(choices.question, questions)}; it has "
                f"{listed(questions, 12)}"
            )
        return choices.question
    if not questions:
        raise DataError(f"{source}: no question was answered in it")
    if len(questions) > 1:
        raise DataError(
            f"{source}: answers to {len(questions)} questions, {listed(questions, 12)}; choose one with question=..."
        )
    return questions[0]


def aggregate(source: str, what: str, needed: str) -> FileError:
    """Return the refusal of a file that holds a consensus and no votes."""
    return FileError(f"{source} is {what}: it holds a consensus, not who said what; {needed}")
