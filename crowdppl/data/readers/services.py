"""Exports of services with a record for each item and a list of what each person said of it: Labelbox, Kili, Potato, Rayyan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.platforms import rows_of
from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows, flat
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import absent
from crowdppl.errors import DataError

# Name of Potato's file in the folder of each annotator.
POTATO = "annotated_instances"
# A column with what reviewers decided, and a decision in it, as Rayyan writes them.
_NOTES, _INCLUSION = "notes", "RAYYAN-INCLUSION:"
_DECISIONS = re.compile(rf"{_INCLUSION}\s*\{{(.*?)\}}(?=\s*(\||$))", re.DOTALL)
_DECISION = re.compile(r'"((?:[^"\\]|\\.)*)"\s*=>\s*"([^"]*)"')
# Kinds of Kili's labels that are no work of an annotator.
_NO_WORK = {
    "AUTOSAVE": "that were not submitted (AUTOSAVE)",
    "PREDICTION": "of a model (PREDICTION)",
    "INFERENCE": "of a model (INFERENCE)",
    "REVIEW": "of a reviewer, who saw the others (REVIEW)",
}
# Names of Potato's fields that hold a text or a number, and of its points of a scale.
_FIELDS, _POINT = ("text_box", "textbox_input", "slider", "number"), re.compile(r"scale_\d+")


def is_labelbox(record: dict[str, Any]) -> bool:
    """Recognise ``data_row`` with ``projects``, or the first version's ``DataRow ID`` with ``Label``."""
    if isinstance(record.get("data_row"), Mapping) and isinstance(record.get("projects"), Mapping):
        return not long_names(record)
    return "DataRow ID" in record and isinstance(record.get("Label"), Mapping) and not long_names(record)


def labelbox(file: SourceFile, choices: Choices) -> Records:
    """Read the classifications of Labelbox's labels; objects such as boxes, and texts, are left out.

    The item is ``data_row.id``, the worker ``label_details.created_by``, and the question the name of the classification.
    """
    given: list[tuple[int, Any, Any, Any, Mapping[str, Any]]] = []
    for n, record in enumerate(file.records):
        if "data_row" in record:
            for project in record["projects"].values():
                for label in project.get("labels") or ():
                    about, times = label.get("label_details") or {}, label.get("performance_details") or {}
                    given.append(
                        (n, about.get("created_by"), about.get("created_at"), times, label.get("annotations") or {})
                    )
        else:
            times = {"seconds_to_create": record.get("Seconds to Label"), "skipped": record.get("Skipped")}
            given.append((n, record.get("Created By"), record.get("Created At"), times, record["Label"]))
    asked = dict.fromkeys(_title(one) for *_, answers in given for one in answers.get("classifications") or ())
    question = choose(list(asked), choices, file.name)
    rows = Rows(file.name, choices, question)
    for n, who, when, times, answers in given:
        record, where = file.records[n], f"record {n + 1}"
        task = record["data_row"].get("id") if "data_row" in record else record["DataRow ID"]
        labels = [_chosen(one) for one in answers.get("classifications") or () if _title(one) == question]
        rows.note("{} objects, such as boxes, are not read", len(answers.get("objects") or ()))
        if times.get("skipped"):
            rows.skip(task, who, "that were skipped", where=where, record=n)
        elif labels and labels[0] is None:
            rows.drop("of texts")
        else:
            label = labels[0] if labels else None
            rows.add(task, who, label, when, times.get("seconds_to_create"), where=where, record=n)
    return rows.finish(
        "Labelbox",
        flat(file.records, ("data_row",)),
        ["data_row.row_data", "Labeled Data"],
        "data_row.id",
    )


def _title(answer: Mapping[str, Any]) -> str:
    return str(answer.get("name", answer.get("title")))


def _chosen(answer: Mapping[str, Any]) -> Any:
    """Return the option or the options of a classification, ``None`` for a text."""
    one = answer.get("radio_answer", answer.get("answer"))
    several = answer.get("checklist_answers", answer.get("answers"))
    if isinstance(one, Mapping):
        return _title(one)
    if isinstance(one, list) or isinstance(several, list):
        return [_title(option) for option in (one if isinstance(one, list) else several)]
    return None


def is_kili(record: dict[str, Any]) -> bool:
    """Recognise ``externalId`` with a list of labels that have ``jsonResponse``."""
    labels = record.get("labels")
    stated = "externalId" in record and isinstance(labels, list) and not long_names(record)
    return stated and all(map(_of_kili, record["labels"]))


def _of_kili(label: Any) -> bool:
    return isinstance(label, Mapping) and ("jsonResponse" in label or "author" in label)


def kili(file: SourceFile, choices: Choices) -> Records:
    """Read the categories of Kili's labels, the latest of each person; reviews, predictions and drafts are left out.

    The item is ``externalId``, the worker the e-mail address of ``author``, and the question the name of the job.
    """
    asked = dict.fromkeys(
        job
        for record in file.records
        for label in record.get("labels") or ()
        for job, answer in (label.get("jsonResponse") or {}).items()
        if isinstance(answer, Mapping) and "categories" in answer
    )
    question = choose(list(asked), choices, file.name)
    rows = Rows(file.name, choices, question)
    for n, record in enumerate(file.records):
        for label in record.get("labels") or ():
            where, kind = f"record {n + 1}", str(label.get("labelType") or "DEFAULT").upper()
            answers = label.get("jsonResponse") or {}
            if kind in _NO_WORK:
                rows.drop(_NO_WORK[kind])
            elif label.get("isLatestLabelForUser") is False:
                rows.drop("that a later one of the same person replaces")
            else:
                answer = answers.get(question)
                chosen = answer.get("categories") if isinstance(answer, Mapping) else None
                names = [one.get("name") for one in chosen or () if isinstance(one, Mapping)]
                rows.add(
                    record.get("externalId"),
                    label.get("author"),
                    names,
                    label.get("createdAt"),
                    label.get("secondsToLabel"),
                    where=where,
                    record=n,
                )
    return rows.finish("Kili", flat(file.records, ("jsonMetadata",)), ["content"], "externalId")


def is_potato(record: dict[str, Any]) -> bool:
    """Recognise ``label_annotations`` with ``span_annotations``, as in Potato's ``annotated_instances.jsonl``."""
    stated = "id" in record and "span_annotations" in record and not long_names(record)
    return stated and isinstance(record.get("label_annotations"), Mapping)


def potato(file: SourceFile, choices: Choices) -> Records:
    """Read the schemes of Potato's annotations; the annotator is the name of the folder.

    Texts, numbers and spans are left out.
    """
    asked: dict[str, None] = dict.fromkeys(name for record in file.records for name in record["label_annotations"])
    question = choose(list(asked), choices, file.name)
    worker = file.stem
    if worker == POTATO:
        worker = (file.path.resolve() if file.within is None else file.within).parent.name
    rows = Rows(file.name, choices, question)
    rows.note(f"the worker is the folder, {worker!r}", int(file.within is None))
    for n, record in enumerate(file.records):
        where, answers = f"line {n + 1}", record["label_annotations"].get(question)
        rows.note("{} spans are not read", len(record.get("span_annotations") or ()))
        if isinstance(answers, Mapping) and answers and set(answers) <= set(_FIELDS):
            rows.drop("of texts and numbers")
            continue
        labels = list(_ticked(answers)) if isinstance(answers, Mapping) else answers
        rows.add(record["id"], worker, labels, where=where, record=n)
    return rows.finish("Potato", flat(file.records), ["displayed_text"], "id")


def _ticked(answers: Mapping[str, Any]) -> Iterable[Any]:
    """Yield the labels that were chosen: names of boxes, and numbers of the points of a scale."""
    for name, value in answers.items():
        if name not in _FIELDS and value not in (False, None, "", "false"):
            yield value if _POINT.fullmatch(name) and not absent(value) else name


def is_rayyan(file: SourceFile) -> bool:
    """Recognise a column ``notes`` with ``RAYYAN-INCLUSION`` in it."""
    return not file.parquet and {_NOTES, "title"} <= set(file.columns) and _INCLUSION in file.head


def rayyan(file: SourceFile, choices: Choices) -> Records:
    """Read what each reviewer decided on each reference, of the column ``notes``: ``Included``, ``Excluded``, ``Maybe``."""
    table, records = rows_of(file)
    rows = Rows(file.name, choices)
    name = "key" if "key" in table.columns else "title"
    for n, row in enumerate(records):
        stated = _DECISIONS.search(str(row[_NOTES] or ""))
        if stated is None:
            rows.note("{} references without a decision")
            continue
        decisions = _DECISION.findall(stated[1])
        if not decisions and stated[1].strip():
            raise DataError(
                f"{file.name}, row {n + 1}: the decisions {stated[0][:60]!r} cannot be read; export the review again"
            )
        for who, decision in decisions:
            rows.add(row[name], who, decision, where=f"row {n + 1}", record=n)
    return rows.finish("Rayyan", table, ["title", "abstract"], name)
