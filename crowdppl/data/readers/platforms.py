"""Exports of annotation platforms as tables: Toloka, Mechanical Turk, Appen, Label Studio (CSV)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from crowdppl.data.readers.records import Choices, Records, Rows, aggregate, choose
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.timestamps import since_1970
from crowdppl.errors import DataError

TRUE, FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off", ""}


def is_toloka(file: SourceFile) -> bool:
    """Recognise columns such as ``INPUT:image``, ``OUTPUT:result``, ``ASSIGNMENT:worker_id``."""
    return any(c.startswith("OUTPUT:") for c in file.columns)


def toloka(file: SourceFile, choices: Choices) -> Records:
    """Read Toloka's table of assignments.

    A task is identified by ``ASSIGNMENT:task_id``, or by its input. ``GOLDEN:`` columns are known truths. Rejected assignments
    are left out unless kept; skipped and expired ones are skips.
    """
    columns = file.columns
    if "ASSIGNMENT:worker_id" not in columns:
        raise aggregate(
            file.name, "an aggregated file of Toloka", "download the assignments, with ASSIGNMENT:worker_id"
        )
    question = choose([c.removeprefix("OUTPUT:") for c in columns if c.startswith("OUTPUT:")], choices, file.name)
    inputs = [c for c in columns if c.startswith("INPUT:")]
    key = ["ASSIGNMENT:task_id"] if "ASSIGNMENT:task_id" in columns else inputs
    if not key:
        raise DataError(f"{file.name}: no column ASSIGNMENT:task_id or INPUT: identifies the task; export one of them")
    rows = Rows(file.name, choices)
    records = _records(file)
    seconds = _durations(records, "ASSIGNMENT:started", "ASSIGNMENT:submitted")
    for n, (row, duration) in enumerate(zip(records, seconds, strict=True), 1):
        task = row[key[0]] if len(key) == 1 else " | ".join(str(row[c]) for c in key)
        if task is None:
            continue  # Toloka separates suites by an empty line
        status = str(row.get("ASSIGNMENT:status") or "").upper()
        worker = row["ASSIGNMENT:worker_id"]
        golden = row.get(f"GOLDEN:{question}")
        if golden is not None:
            rows.known(task, golden, f"row {n}")
        if status == "REJECTED" and not choices.rejected:
            rows.drop("that were rejected")
        elif status in ("SKIPPED", "EXPIRED"):
            rows.skip(task, worker, f"that were {status.lower()}")
        else:
            rows.add(
                task, worker, row[f"OUTPUT:{question}"], row.get("ASSIGNMENT:submitted"), duration, where=f"row {n}"
            )
    return rows.finish("Toloka")


def is_mturk(file: SourceFile) -> bool:
    """Recognise columns ``HITId`` and ``Answer.…``."""
    return "HITId" in file.columns and any(c.startswith("Answer.") for c in file.columns)


def mturk(file: SourceFile, choices: Choices) -> Records:
    """Read Mechanical Turk's batch results.

    Columns ``Answer.<question>.<option>`` with true and false are one question with these options. Rejected assignments are left
    out unless kept. The time worked is in seconds.
    """
    if "WorkerId" not in file.columns:
        raise aggregate(file.name, "a batch file without workers", "download the results with the column WorkerId")
    records = _records(file)
    answers = [c for c in file.columns if c.startswith("Answer.")]
    options: dict[str, dict[str, str]] = {}
    for column in answers:
        name, _, option = column.removeprefix("Answer.").partition(".")
        values = {str(row[column]).lower() for row in records if row[column] is not None}
        if option and values and values <= TRUE | FALSE:
            options.setdefault(name, {})[option.removesuffix(".on")] = column
    single = [c.removeprefix("Answer.") for c in answers if c not in {x for o in options.values() for x in o.values()}]
    question = choose([*single, *options], choices, file.name)
    rows = Rows(file.name, choices)
    for n, row in enumerate(records, 1):
        if str(row.get("AssignmentStatus") or "").lower() == "rejected" and not choices.rejected:
            rows.drop("that were rejected")
            continue
        if question in options:
            label: Any = [o for o, column in options[question].items() if str(row[column] or "").lower() in TRUE]
        else:
            label = row[f"Answer.{question}"]
        rows.add(row["HITId"], row["WorkerId"], label, None, _number(row.get("WorkTimeInSeconds")), where=f"row {n}")
    return rows.finish("Mechanical Turk")


def is_appen(file: SourceFile) -> bool:
    """Recognise a column ``_unit_id``."""
    return "_unit_id" in file.columns


def appen(file: SourceFile, choices: Choices) -> Records:
    """Read Appen's (CrowdFlower's) full report; ``<question>_gold`` are known truths."""
    columns = file.columns
    if "_worker_id" not in columns:
        raise aggregate(
            file.name, "an aggregated report of Appen", "download the full report, with the column _worker_id"
        )
    unit_columns = {c for c in columns if c.startswith("_")}
    gold = {c.removesuffix("_gold") for c in columns if c.endswith("_gold")}
    answered = sorted(c for c in columns if c in gold and c not in unit_columns)
    if choices.question is not None:
        answered = [c for c in columns if c not in unit_columns]
    question = choose(answered, choices, file.name)
    rows = Rows(file.name, choices)
    records = _records(file)
    seconds = _durations(records, "_started_at", "_created_at")
    for n, (row, duration) in enumerate(zip(records, seconds, strict=True), 1):
        known = row.get(f"{question}_gold")
        if known is not None:
            rows.known(row["_unit_id"], str(known).split("\n"), f"row {n}")
        if not choices.rejected and (_true(row.get("_tainted")) or _true(row.get("_rejected"))):
            rows.drop("of tainted or rejected work")
            continue
        label = row[question]
        labels = str(label).split("\n") if isinstance(label, str) else label
        rows.add(row["_unit_id"], row["_worker_id"], labels, row.get("_created_at"), duration, where=f"row {n}")
    return rows.finish("Appen")


def is_label_studio_table(file: SourceFile) -> bool:
    """Recognise columns ``annotation_id`` and ``annotator``."""
    return {"annotation_id", "annotator"} <= set(file.columns)


def label_studio_table(file: SourceFile, choices: Choices) -> Records:
    """Read Label Studio's CSV."""
    metadata = {"id", "annotation_id", "annotator", "created_at", "updated_at", "lead_time"}
    names = [c for c in file.columns if c not in metadata]
    question = choose(names, choices, file.name)
    rows = Rows(file.name, choices)
    for n, row in enumerate(_records(file), 1):
        rows.add(
            row["id"],
            row["annotator"],
            row[question],
            row.get("created_at"),
            _number(row.get("lead_time")),
            where=f"row {n}",
        )
    return rows.finish("Label Studio (CSV)")


def _records(file: SourceFile) -> list[dict[str, Any]]:
    table = file.table
    names = [str(name).strip() for name in table.columns]
    # Column by column: DataFrame.to_dict would convert integers in columns with blanks to floats.
    values = [table.iloc[:, n].astype(object).where(table.iloc[:, n].notna(), None).tolist() for n in range(len(names))]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _true(value: Any) -> bool:
    return str(value).lower() in TRUE


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _durations(records: list[dict[str, Any]], start: str, end: str) -> list[float | None]:
    """Return the seconds between two timestamps of each record, ``None`` if one is unknown; vectorised over records."""
    first, last = (
        since_1970(pd.Series([None if row.get(name) is None else str(row[name]) for row in records], dtype=object))
        for name in (start, end)
    )
    return [seconds if seconds >= 0 else None for seconds in (last - first).tolist()]
