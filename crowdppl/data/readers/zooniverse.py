"""Zooniverse's export of classifications: a table whose annotations are JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from crowdppl.data.readers.platforms import durations, rows_of
from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import PARTS, absent
from crowdppl.errors import DataError, listed

COLUMNS = frozenset(("annotations", "subject_ids", "user_name"))


def is_zooniverse(file: SourceFile) -> bool:
    """Recognise the columns ``annotations``, ``subject_ids`` and ``user_name``."""
    return set(file.columns) >= COLUMNS


def zooniverse(file: SourceFile, choices: Choices) -> Records:
    """Read classifications: the subject is the item, and each task of the workflow a question.

    With several workflows, questions are called ``<workflow> <task>``, since workflows number their tasks alike. Marks on a
    subject and texts are not labels of it; they are left out and counted. Classifications flagged as gold standard are known
    truths. The duration is that from the start of a classification to its end, over all its tasks.
    """
    table, records = rows_of(file)
    answers = [_answers(row["annotations"], f"{file.name}, row {n}") for n, row in enumerate(records, 1)]
    several = len({row.get("workflow_id") for row in records}) > 1
    names = [f"{row.get('workflow_id')} " if several else "" for row in records]
    questions: dict[str, None] = {}
    parts = 0
    for name, given in zip(names, answers, strict=True):
        for task, value in given.items():
            if _is_part(value):
                parts += 1
            else:
                questions[name + task] = None
    otherwise = f"its {parts:,} answers are marks on subjects, not labels of them" if parts else None
    question = choose(list(questions), choices, file.name, otherwise)
    metadata = [_object(row.get("metadata")) for row in records]
    details = [
        _details(row["annotations"], question.removeprefix(name)) for row, name in zip(records, names, strict=True)
    ]
    seconds = durations(metadata, "started_at", "finished_at")
    rows = Rows(file.name, choices, question)
    for n, (row, name, given) in enumerate(zip(records, names, answers, strict=True)):
        where, task = f"row {n + 1}", question.removeprefix(name)
        if (name + task) != question or task not in given:
            continue  # of another workflow, or not asked
        value = given[task]
        if _is_part(value):
            rows.drop("that are marks on a subject")
        elif str(row.get("gold_standard")).lower() in ("true", "t", "1"):
            rows.known(row["subject_ids"], value, where)
            rows.note("{} classifications are marked as gold standard: they are known truths, not labels of a worker")
        else:
            rows.add(
                row["subject_ids"], row["user_name"], value, row.get("created_at"), seconds[n], where=where, record=n
            )
    rows.note(
        "{} classifications have answers about a choice ({details}), which are not read".replace(
            "{details}", listed(sorted({one for names in details for one in names}), 3)
        ),
        sum(map(bool, details)),
    )
    if len(questions) > 1:
        rows.note(f"the answers to {len(questions) - 1} other questions are not read")
    subjects = [_subject(row.get("subject_data")) for row in records]
    shown = pd.DataFrame(
        {f"subject.{k}": [s.get(k) for s in subjects] for k in dict.fromkeys(k for s in subjects for k in s)}
    )
    table = pd.concat([table.drop(columns=["annotations", "metadata", "subject_data"], errors="ignore"), shown], axis=1)
    return rows.finish("Zooniverse", table, list(shown.columns), "subject_ids")


def _answers(cell: Any, where: str) -> dict[str, Any]:
    """Return the answer to each task of a classification; the parts of a combined task are tasks of their own."""
    if absent(cell):
        return {}
    try:
        entries = json.loads(cell)
    except (ValueError, RecursionError, TypeError):
        raise DataError(f"{where}: the annotations are not JSON; export the classifications again") from None
    given: dict[str, Any] = {}
    pending = entries if isinstance(entries, list) else [entries]
    while pending:
        entry, *pending = pending
        if not isinstance(entry, Mapping) or "task" not in entry:
            raise DataError(f"{where}: the annotations are not a list of tasks; export the classifications again")
        value = entry.get("value")
        if isinstance(value, list) and value and all(isinstance(part, Mapping) and "task" in part for part in value):
            pending = [*value, *pending]
        else:
            given[str(entry["task"])] = _labels(value)
    return given


def _labels(value: Any) -> Any:
    """Return the choices of surveys and drop-down lists as labels; other answers unchanged."""
    if isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        if all("choice" in part for part in value):  # what a survey asks of each choice has a note, see _details
            return [part["choice"] for part in value]
        if all("option" in part for part in value):
            return [part.get("label") or part.get("value") for part in value]
    return value


def _details(cell: Any, task: str) -> list[str]:
    """Return the names of the questions that a survey asks about a choice, and that were answered."""
    try:
        entries = json.loads(cell) if isinstance(cell, str) else []
    except (ValueError, RecursionError):
        return []
    values = [
        part
        for entry in (entries if isinstance(entries, list) else [entries])
        if isinstance(entry, Mapping) and str(entry.get("task")) == task
        for part in (entry["value"] if isinstance(entry.get("value"), list) else [])
        if isinstance(part, Mapping) and "choice" in part
    ]
    return [name for part in values for name, given in (part.get("answers") or {}).items() if given]


def _is_part(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return any(isinstance(part, Mapping) and not PARTS.isdisjoint(part) for part in parts)


def _object(cell: Any) -> dict[str, Any]:
    try:
        document = json.loads(cell) if isinstance(cell, str) else {}
    except (ValueError, RecursionError):
        document = {}
    return document if isinstance(document, dict) else {}


def _subject(cell: Any) -> dict[str, Any]:
    """Return the plain data of a subject, without what says how often it was classified."""
    data: Any = next(iter(_object(cell).values()), {})
    if not isinstance(data, dict):
        return {}
    own = ("retired", "id", "created_at", "updated_at", "classifications_count")
    return {key: value for key, value in data.items() if key not in own and isinstance(value, (str, int, float))}
