"""Annotations collected one by one by a reader, with the items of its records and notes on what they were shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import pandas as pd

from crowdppl.data.readers.records import SKIPPED, Choices, NothingError, Records, uniform
from crowdppl.data.table.cells import absent, is_structured, parsed, people, plain
from crowdppl.data.table.identifiers import unstorable
from crowdppl.data.table.structured import single_labels
from crowdppl.data.table.timestamps import since_1970
from crowdppl.errors import DataError, listed

# Columns of annotations; columns of files with these names are not added to them.
CORE = ("task", "worker", "label", "timestamp", "seconds")


class Rows:
    """Collects annotations one by one and counts those that are left out.

    Args:
        source: name of the file in messages.
        choices: choices of the user.
        question: the question that is read, by its name in the file.
    """

    def __init__(self, source: str, choices: Choices, question: str | None = None):
        self.source, self.choices, self.question = source, choices, question
        self.rows: list[tuple[Any, Any, Any, Any, Any]] = []
        self.places: list[tuple[str, int]] = []
        self.known_labels: list[tuple[Any, Any, str]] = []
        self.left_out: dict[str, int] = {}
        self.notes: dict[str, int] = {}

    def add(
        self,
        task: Any,
        worker: Any,
        labels: Any,
        timestamp: Any = None,
        seconds: Any = None,
        *,
        where: str,
        record: int = 0,
    ) -> None:
        """Add an annotation.

        Args:
            task: the item.
            worker: the worker, or a list of workers with a list of as many labels.
            labels: a label, or a list or object that states labels, which may be empty.
            timestamp: time of the annotation.
            seconds: its duration.
            where: place in the file, for messages.
            record: number of the record or row of the file, from 0.

        Raises:
            DataError: if the task or the worker is missing.
        """
        workers = people(worker)
        if not workers:
            raise DataError(f"{self.source}, {where}: no annotator; export the file with annotator identifiers")
        if len(workers) > 1:
            answers = parsed(labels)
            if not isinstance(answers, list) or len(answers) != len(workers):
                raise DataError(
                    f"{self.source}, {where}: {len(workers)} annotators, {listed(workers, 3)}, without a label for each; "
                    f"export a record for each annotator"
                )
            self.note("{} records with several annotators: the labels are taken in their order")
            for one, answer in zip(workers, answers, strict=True):
                self.add(task, one, answer, timestamp, seconds, where=where, record=record)
        elif absent(labels) or (is_structured(labels) and not len(labels) and self.choices.several != "sets"):
            self.drop("without a label")
        else:
            self._append(task, workers[0], labels, timestamp, seconds, where=where, record=record)

    def _append(
        self, task: Any, worker: Any, labels: Any, timestamp: Any, seconds: Any, *, where: str, record: int
    ) -> None:
        task = self.item(task, where)
        self._require_storable(plain(worker), "worker", where)
        self.rows.append((task, plain(worker), labels, timestamp, seconds))
        self.places.append((where, record))

    def item(self, task: Any, where: str) -> Any:
        """Return the identifier of an item as an integer or text.

        Raises:
            DataError: if it is missing.
        """
        if absent(task):
            raise DataError(f"{self.source}, {where}: no identifier of the task; export the file with identifiers")
        task = plain(task)
        self._require_storable(task, "task", where)
        return task

    def _require_storable(self, value: Any, what: str, where: str) -> None:
        reason = unstorable(value) if isinstance(value, str) else None
        if reason is not None:
            raise DataError(f"{self.source}, {where}: the {what} {value!r} {reason}")

    def skip(self, task: Any, worker: Any, what: str, *, where: str = "", record: int = 0) -> None:
        """Add or drop a skipped annotation, as the user has chosen."""
        workers = people(worker)
        if self.choices.skip == "label" and len(workers) == 1:
            self._append(task, workers[0], SKIPPED, None, None, where=where, record=record)
        else:
            self.drop(what)

    def known(self, task: Any, labels: Any, where: str) -> None:
        """Add a known truth: a label, or a list or object that states one."""
        if not absent(labels):
            for label in labels if isinstance(labels, list) else [labels]:
                self._require_storable(label, "label", where)
            self.known_labels.append((self.item(task, where), labels, where))

    def drop(self, reason: str, count: int = 1) -> None:
        """Count annotations that are left out."""
        self.left_out[reason] = self.left_out.get(reason, 0) + count

    def note(self, sentence: str, count: int = 1) -> None:
        """Add a sentence to the notes; ``{}`` in it stands for the sum of the counts."""
        if count:
            self.notes[sentence] = self.notes.get(sentence, 0) + count

    def finish(
        self, kind: str, table: pd.DataFrame | None = None, inputs: Sequence[str] = (), item_name: str = "task"
    ) -> Records:
        """Return the collected annotations.

        Args:
            kind: the format, for notes.
            table: columns of the file, a row for each record; they follow those of the annotations.
            inputs: names of its columns with what the annotators were shown.
            item_name: name of the identifier of items in the file.

        Raises:
            DataError: if there are none, or labels cannot be read.
        """
        if not self.rows:
            raise self._nothing(kind)
        frame = pd.DataFrame(self.rows, columns=list(CORE))
        labels, truth, notes = self._labels(frame["label"].tolist())
        given = [label is not None for label in labels]
        if not all(given):
            self.drop("without a label", given.count(False))
            if not any(given):
                raise self._nothing(kind)
        frame = frame.assign(label=pd.Series(labels, dtype=object))[given].reset_index(drop=True)
        if table is not None:
            records = [record for (_, record), stated in zip(self.places, given, strict=True) if stated]
            added = table[[name for name in table.columns if name not in CORE]]
            added = added.loc[:, ~added.columns.duplicated()]
            frame = pd.concat([frame, added.iloc[records].reset_index(drop=True)], axis=1)
        heading = [f"{self.source}: read as {kind}, {len(frame):,} annotations"]
        heading += [
            f"{self.source}: {count:,} annotations {reason} left out" for reason, count in self.left_out.items()
        ]
        heading += [
            f"{self.source}: {sentence.replace('{}', f'{count:,}', 1)}" for sentence, count in self.notes.items()
        ]
        known, conflicts = _agreed(truth)
        if conflicts:
            heading.append(f"{self.source}: {conflicts:,} items with contradictory known truths, which are ignored")
        for column in ("task", "worker", "label"):
            notes += _two_types(frame[column], f"{self.source}, {column}")
            frame[column] = uniform(frame[column])
        frame["timestamp"], unread = since_1970(frame["timestamp"])
        notes += [f"{self.source}: {sentence}" for sentence in unread]
        frame["seconds"] = pd.to_numeric(frame["seconds"], errors="coerce").where(lambda seconds: seconds >= 0)
        frame = frame.drop(columns=[name for name in ("timestamp", "seconds") if frame[name].isna().all()])
        if frame["label"].dtype == object:
            known = {task: str(label) for task, label in known.items()}
        if frame["task"].dtype == object:
            known = {str(task): label for task, label in known.items()}
        if known:
            heading.append(f"{self.source}: {len(known):,} known truths")
        present = tuple(name for name in inputs if name in frame and not frame[name].isna().all())
        return Records(
            frame,
            kind,
            known,
            heading + notes,
            self.choices.several,
            present,
            item_name,
            question=self.question,
        )

    def _labels(self, labels: list[Any]) -> tuple[list[Any], list[tuple[Any, Any]], list[str]]:
        """Return the label of each annotation, the items and labels of known truths, and notes; ``None`` for no label.

        Truths are read together with the labels, so that a set is one in both.
        """
        cells = [*labels, *(label for _, label, _ in self.known_labels)]
        places = [*(where for where, _ in self.places), *(where for _, _, where in self.known_labels)]
        position: dict[Any, int] = {}
        codes = [position.setdefault(_key(cell), len(position)) for cell in cells]
        first = {code: n for n, code in reversed(list(enumerate(codes)))}
        names = [cells[first[code]] for code in range(len(first))]

        def locate(code: int) -> str:
            return ", ".join(filter(None, (self.source, places[first[code]])))

        read, notes = single_labels(names, self.choices.several, locate, f"{self.source}, column 'label'")
        for code, label in enumerate(read):
            self._require_storable(label, "label", places[first[code]])
        values = [plain(read[code]) if read[code] is not None else None for code in codes]
        truth = zip((task for task, _, _ in self.known_labels), values[len(labels) :], strict=True)
        return values[: len(labels)], [(task, label) for task, label in truth if label is not None], notes

    def _nothing(self, kind: str) -> NothingError:
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        dropped = f" (left out: {left_out})" if left_out else ""
        return NothingError(f"{self.source}: no annotation in this {kind} export{dropped}; export the annotations, too")


def _key(value: Any) -> Any:
    """Return a hashable key of a cell; true, 1 and 1.0 are different."""
    return ("json", json.dumps(value, default=str)) if is_structured(value) else (type(value), value)


def _agreed(truth: list[tuple[Any, Any]]) -> tuple[dict[Any, Any], int]:
    """Return the known truth of each item, and the number of items with several."""
    known: dict[Any, Any] = {}
    conflicts = {task for task, label in truth if known.setdefault(task, label) != label}
    return {task: label for task, label in known.items() if task not in conflicts}, len(conflicts)


def _two_types(column: pd.Series[Any], where: str) -> list[str]:
    """Return a note where names are written both as a number and as text: they are one name."""
    distinct = column.drop_duplicates().tolist()
    both = {str(name) for name in distinct if isinstance(name, int)} & {n for n in distinct if isinstance(n, str)}
    if not both:
        return []
    return [
        f"{where}: {len(both):,} names are written as a number and as text ({listed(sorted(both), 3)}); they are one name"
    ]


def items_of(
    records: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    source: str,
    unit: str = "record",
    first: int = 1,
    within: PurePath | None = None,
) -> list[Any]:
    """Return the item of each record: what the first of several keys that all records state says, or the record's number.

    0 and false are identifiers; null and blank are none.

    Args:
        records: the records of a file.
        names: keys that may hold the identifier, the first preferred.
        source: name of the file in messages.
        unit: what a record is called in messages.
        first: number of the first record.
        within: path of the file, where it is one of several: numbers of records are then no identifiers.

    Raises:
        DataError: if some records have an identifier and others have none.
    """
    for name in names:
        identifiers = [record.get(name) for record in records]
        if not any(map(absent, identifiers)):
            return identifiers
    for name in names:
        missing = [n for n, record in enumerate(records, 1) if absent(record.get(name))]
        if len(missing) < len(records):
            raise DataError(
                f"{source}, {unit} {missing[0]}: no {name!r}, which {len(records) - len(missing):,} of {len(records):,} "
                f"{unit}s have; without it, the item is unknown: add it, or drop those {unit}s"
            )
    numbers = range(first, len(records) + first)
    return list(numbers) if within is None else [f"{within} {unit} {number}" for number in numbers]


def flat(records: Sequence[Mapping[str, Any]], nested: Sequence[str] = ()) -> pd.DataFrame:
    """Return the plain values of records as columns; those of nested objects are named ``<key>.<name>``.

    Args:
        records: the records of a file.
        nested: keys of objects whose values become columns, too.
    """
    rows = []
    for record in records:
        parts = [("", record), *((f"{key}.", record[key]) for key in nested if isinstance(record.get(key), Mapping))]
        rows.append({f"{start}{k}": v for start, part in parts for k, v in part.items() if not is_structured(v)})
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    return pd.DataFrame(columns, index=range(len(rows)))


def inputs_of(records: Records, source: str) -> list[str]:
    """Return notes where one input stands under several identifiers, and where one identifier stands for several inputs.

    Args:
        records: annotations with the columns of the file.
        source: name of the file in messages.
    """
    if not records.inputs:
        return []
    inputs = list(records.inputs)
    shown = records.frame[["task", *inputs]].drop_duplicates()
    tasks = shown.drop_duplicates("task")
    notes = []
    differing = len(shown["task"][shown["task"].duplicated()].drop_duplicates())
    if differing:
        notes.append(
            f"{source}: {differing:,} items ({records.item_name}) have different inputs in different rows ({listed(inputs, 3)}); "
            f"they are one item each: if identifiers were used twice, choose the item with task='...'"
        )
    distinct = tasks.groupby(inputs, dropna=False, sort=False).ngroups
    # A column with few values, such as a category, does not identify the input.
    if distinct < len(tasks) <= 20 * distinct:
        column = next((name for name in inputs if tasks[name].nunique(dropna=False) == distinct), None)
        advice = "" if column is None else f"; task={column!r} joins them"
        notes.append(
            f"{source}: {len(tasks):,} items ({records.item_name}) have {distinct:,} different inputs: one input stands under "
            f"several identifiers{advice}"
        )
    return notes
