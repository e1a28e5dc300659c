"""Exports of annotation platforms as tables: Toloka, Mechanical Turk, Appen, Label Studio (CSV)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from crowdppl.data.readers.records import Choices, Records, aggregate, choose
from crowdppl.data.readers.rows import Rows
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import absent, parsed
from crowdppl.data.table.missing_words import is_for_nothing
from crowdppl.data.table.timestamps import since_1970
from crowdppl.errors import DataError, listed

GOLD = ("_gold", "_gold_reason")
TRUE, FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off", ""}
# What people write in the column of rejections for an assignment that they accept.
_ACCEPTED = FALSE | {"0.0", "n", "f", "-", "--", "na", "none"}


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
    rows = Rows(file.name, choices, question)
    table, records = rows_of(file)
    # Toloka separates suites by an empty line.
    filled = [not all(absent(row[c]) for c in key) for row in records]
    seconds = durations(records, "ASSIGNMENT:started", "ASSIGNMENT:submitted")
    page = ("ASSIGNMENT:assignment_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:started", "ASSIGNMENT:submitted")
    seconds = _of_one_row(records, seconds, page, filled, rows)
    for n, (row, duration) in enumerate(zip(records, seconds, strict=True)):
        if not filled[n]:
            continue
        where = f"row {n + 1}"
        task = row[key[0]] if len(key) == 1 else " | ".join("" if row[c] is None else str(row[c]) for c in key)
        status = str(row.get("ASSIGNMENT:status") or "").upper()
        worker = row["ASSIGNMENT:worker_id"]
        rows.known(task, row.get(f"GOLDEN:{question}"), where)
        if status == "REJECTED" and not choices.rejected:
            rows.drop("that were rejected")
        elif status != "APPROVED" and str(row.get("ACCEPT:verdict") or "").strip() == "-" and not choices.rejected:
            rows.drop("that a review file rejects (ACCEPT:verdict)")
        elif status in ("SKIPPED", "EXPIRED"):
            rows.skip(task, worker, f"that were {status.lower()}", where=where, record=n)
        else:
            submitted = row.get("ASSIGNMENT:submitted")
            rows.add(task, worker, row[f"OUTPUT:{question}"], submitted, duration, where=where, record=n)
    return rows.finish("Toloka", table, inputs if key[0].startswith("ASSIGNMENT") else (), " | ".join(key))


def is_mturk(file: SourceFile) -> bool:
    """Recognise columns ``HITId`` and ``Answer.…``; the command line tools write ``hitid``."""
    names = _mturk_names(file.columns)
    return "HITId" in names and any(c.startswith("Answer.") for c in names)


def _mturk_names(columns: list[str]) -> list[str]:
    """Return names of columns as Mechanical Turk's pages write them; a column is renamed where it alone has such a name."""
    usual = {name.lower(): name for name in ("HITId", "WorkerId", "AssignmentStatus", "WorkTimeInSeconds", "Reject")}
    counts = Counter(name.lower() for name in columns)
    return [usual.get(name.lower(), name) if counts[name.lower()] == 1 else name for name in columns]


def mturk(file: SourceFile, choices: Choices) -> Records:
    """Read Mechanical Turk's batch results.

    Columns ``Answer.<question>.<option>`` with true and false are one question with these options. Rejected assignments are left
    out unless kept. The time worked is in seconds.
    """
    columns = _mturk_names(file.columns)
    if "WorkerId" not in columns:
        raise aggregate(file.name, "a batch file without workers", "download the results with the column WorkerId")
    table, records = rows_of(file, columns)
    answers: dict[str, list[Any]] = {
        c.removeprefix("Answer."): [row[c] for row in records] for c in columns if c.startswith("Answer.")
    }
    options: dict[str, dict[str, list[Any]]] = {}
    for column, values in list(answers.items()):
        name, _, option = column.partition(".")
        if (
            option
            and (given := {str(value).lower() for value in values if value is not None})
            and given <= TRUE | FALSE
        ):
            options.setdefault(name, {})[option.removesuffix(".on")] = answers.pop(column)
    for name, boxes in options.items():
        answers[name] = [
            {option: None if values[n] is None else _true(values[n]) for option, values in boxes.items()}
            for n in range(len(records))
        ]
    for column in [name for name, values in answers.items() if name not in options and _is_form(values)]:
        answers |= _form_answers([parsed(value) for value in answers.pop(column)])
    question = choose(list(answers), choices, file.name)
    rows = Rows(file.name, choices, question)
    for n, (row, label) in enumerate(zip(records, answers[question], strict=True)):
        status = str(row.get("AssignmentStatus") or "").lower()
        if status == "rejected" and not choices.rejected:
            rows.drop("that were rejected")
            continue
        if status != "approved" and _is_rejection(row.get("Reject")) and not choices.rejected:
            rows.drop("that a review file rejects (column Reject)")
            continue
        where, seconds = f"row {n + 1}", _number(row.get("WorkTimeInSeconds"))
        rows.add(row["HITId"], row["WorkerId"], _chosen(label), None, seconds, where=where, record=n)
    inputs = [c for c in columns if c.startswith("Input.")]
    return rows.finish("Mechanical Turk", table, inputs, "HITId")


def _is_rejection(cell: Any) -> bool:
    """Return whether a cell of a review file rejects an assignment: it has a mark or a reason, not a word for no."""
    text = "" if absent(cell) else str(cell).strip()
    return not is_for_nothing(text) and text.casefold() not in _ACCEPTED


def _is_form(values: list[Any]) -> bool:
    """Return whether cells hold all answers of a form as JSON: ``[{"animal": {...}, "mood": ...}]``."""
    first = next((parsed(value) for value in values if value is not None), None)
    return isinstance(first, list) and len(first) == 1 and isinstance(first[0], dict)


def _form_answers(forms: list[Any]) -> dict[str, list[Any]]:
    """Return the answers to each question of a form."""
    objects = [form[0] if isinstance(form, list) and form and isinstance(form[0], dict) else {} for form in forms]
    return {
        name: [form.get(name) for form in objects] for name in dict.fromkeys(key for form in objects for key in form)
    }


def _chosen(label: Any) -> Any:
    """Return boxes without those whose state is unknown."""
    return {k: v for k, v in label.items() if v is not None} if isinstance(label, dict) else label


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
    table, records = rows_of(file)
    own = [c for c in columns if not c.startswith("_") and not c.startswith("orig_") and not c.endswith(GOLD)]
    answered = sorted(c for c in own if f"{c}_gold" in columns)
    if choices.question is not None:
        answered = own
    if not answered and own:
        raise _unmarked(
            f"{file.name}: no column ends in _gold, as in jobs without test questions", own, records, "_unit_id"
        )
    question = choose(answered, choices, file.name)
    rows = Rows(file.name, choices, question)
    seconds = durations(records, "_started_at", "_created_at")
    seconds = _of_one_row(
        records, seconds, (None, "_worker_id", "_started_at", "_created_at"), [True] * len(records), rows
    )
    # Several lines are a set where workers choose several labels, and otherwise the answers that are accepted.
    sets = any(isinstance(row[question], str) and "\n" in row[question].strip() for row in records)
    accepted: set[Any] = set()
    for n, (row, duration) in enumerate(zip(records, seconds, strict=True)):
        where, known = f"row {n + 1}", _lines(row.get(f"{question}_gold"))
        if isinstance(known, list) and len(known) > 1 and not sets:
            accepted.add(row["_unit_id"])
        else:
            rows.known(row["_unit_id"], known, where)
        if not choices.rejected and (_true(row.get("_tainted")) or _true(row.get("_rejected"))):
            rows.drop("of tainted or rejected work")
            continue
        created = row.get("_created_at")
        rows.add(row["_unit_id"], row["_worker_id"], _lines(row[question]), created, duration, where=where, record=n)
    rows.note("{} test questions accept several answers; their true label is left unknown", len(accepted))
    inputs = [c for c in own if c != question and f"{c}_gold" not in columns and not _varies(records, "_unit_id", c)]
    return rows.finish("Appen", table, inputs, "_unit_id")


def _lines(cell: Any) -> Any:
    """Return the labels of a cell with one in each line, as Appen writes several."""
    lines = [line.strip() for line in cell.split("\n") if line.strip()] if isinstance(cell, str) else []
    return lines if len(lines) > 1 else cell


def _varies(records: list[dict[str, Any]], item: str, column: str) -> bool:
    """Return whether rows of one item differ in a column, as answers do and data of the item do not."""
    seen: dict[Any, Any] = {}
    return any(seen.setdefault(row[item], row[column]) != row[column] for row in records)


def _unmarked(reason: str, columns: list[str], records: list[dict[str, Any]], item: str) -> DataError:
    """Return the error for a table that does not show which column is the question; those that differ within items first."""
    names = sorted(columns, key=lambda name: not _varies(records, item, name))
    return DataError(f"{reason}: name the question with question=..., one of {listed(names, 12)}")


def is_label_studio_table(file: SourceFile) -> bool:
    """Recognise columns ``annotation_id`` and ``annotator``."""
    return {"annotation_id", "annotator"} <= set(file.columns)


def label_studio_table(file: SourceFile, choices: Choices) -> Records:
    """Read Label Studio's CSV."""
    metadata = {"id", "annotation_id", "annotator", "created_at", "updated_at", "lead_time"}
    names = [c for c in file.columns if c not in metadata]
    table, records = rows_of(file)
    if choices.question is None and len(names) > 1:
        raise _unmarked(f"{file.name}: answers stand beside the data of the tasks", names, records, "id")
    question = choose(names, choices, file.name)
    rows = Rows(file.name, choices, question)
    for n, row in enumerate(records):
        seconds, where = _number(row.get("lead_time")), f"row {n + 1}"
        rows.add(row["id"], row["annotator"], row[question], row.get("created_at"), seconds, where=where, record=n)
    inputs = [c for c in names if c != question and not _varies(records, "id", c)]
    return rows.finish("Label Studio (CSV)", table, inputs, "id")


def rows_of(file: SourceFile, names: list[str] | None = None) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Return the table, and its rows by column name; ``names`` replace those of the file."""
    table = file.table
    names = [str(name).strip() for name in table.columns] if names is None else names
    # Column by column: DataFrame.to_dict would convert integers in columns with blanks to floats.
    values = [table.iloc[:, n].astype(object).where(table.iloc[:, n].notna(), None).tolist() for n in range(len(names))]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    return table.set_axis(pd.Index(names, dtype=object), axis=1), rows


def _true(value: Any) -> bool:
    return str(value).lower() in TRUE


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def durations(records: list[dict[str, Any]], start: str, end: str) -> list[float | None]:
    """Return the seconds between two timestamps of each record, ``None`` if one is unknown; vectorised over records."""
    first, last = (
        since_1970(pd.Series([None if row.get(name) is None else str(row[name]) for row in records], dtype=object))[0]
        for name in (start, end)
    )
    return [seconds if seconds >= 0 else None for seconds in (last - first).tolist()]


def _of_one_row(
    records: list[dict[str, Any]],
    seconds: list[float | None],
    columns: tuple[str | None, str, str, str],
    counted: list[bool],
    rows: Rows,
) -> list[float | None]:
    """Return the duration of each row, where those of the file are of a page with several.

    Args:
        records: the rows.
        seconds: duration of the page of each row.
        columns: column that identifies the page, if there is one; otherwise worker, start and end do.
        counted: whether a row is an annotation.
        rows: where a note is added.
    """
    identifier, *others = columns
    key = [identifier] if identifier is not None and identifier in (records[0] if records else {}) else others
    pages = [tuple(row.get(name) for name in key) for row in records]
    sizes = Counter(page for page, one in zip(pages, counted, strict=True) if one)
    if any(duration is not None and sizes[page] > 1 for page, duration in zip(pages, seconds, strict=True)):
        rows.note("durations are of pages with several tasks, and divided by their number")
    return [
        None if duration is None or not sizes[page] else duration / sizes[page]
        for page, duration in zip(pages, seconds, strict=True)
    ]
