"""Exports of services with a record for each item and a list of what each person said of it: Labelbox, Kili, Potato, Rayyan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.platforms import rows_of
from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows, flat
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import absent, parsed
from crowdppl.data.table.columns import LABEL_COLUMNS, WORKER_COLUMNS
from crowdppl.errors import DataError, FileError, listed

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


def _object(value: Any, what: str, where: str) -> Mapping[str, Any]:
    """Return an object, also one that is written as text; a blank value has nothing in it.

    Raises:
        FileError: for another value.
    """
    value = {} if absent(value) else parsed(value)
    if not isinstance(value, Mapping):
        raise FileError(f"{where}: {what} is {str(value)[:40]!r}, not an object; export the file again as it is")
    return value


def _objects(value: Any, what: str, where: str) -> list[Mapping[str, Any]]:
    """Return a list of objects, also one that is written as text; a blank value has nothing in it.

    Raises:
        FileError: for another value.
    """
    value = [] if absent(value) else parsed(value)
    odd = value if not isinstance(value, list) else next((one for one in value if not isinstance(one, Mapping)), value)
    if odd is not value or not isinstance(value, list):
        raise FileError(
            f"{where}: {what} has {str(odd)[:40]!r}, where objects are expected; export the file again as it is"
        )
    return value


def _require(record: Mapping[str, Any], known: bool, names: Sequence[str], where: str) -> None:
    """Refuse a record that is not as the first one.

    Raises:
        FileError: if it is not known.
    """
    if not known:
        raise FileError(
            f"{where}: a record with {listed(record, 4)}, where {' and '.join(map(repr, names))} are expected, as in the first; "
            f"export the file again as it is"
        )


def is_labelbox(record: dict[str, Any]) -> bool:
    """Recognise ``data_row`` with ``projects``, or the first version's ``DataRow ID`` with ``Label``."""
    if isinstance(record.get("data_row"), Mapping) and isinstance(record.get("projects"), Mapping):
        return not long_names(record)
    return "DataRow ID" in record and isinstance(record.get("Label"), Mapping) and not long_names(record)


def labelbox(file: SourceFile, choices: Choices) -> Records:
    """Read the classifications of Labelbox's labels; objects such as boxes, and texts, are left out.

    The item is ``data_row.id``, the worker ``label_details.created_by``, and the question the name of the classification.
    """
    given = [(n, *label) for n, record in enumerate(file.records) for label in _labels_of(record, file.name, n)]
    asked = dict.fromkeys(_title(one) for *_, answers, _ in given for one in answers)
    question = choose(list(asked), choices, file.name)
    rows = Rows(file.name, choices, question)
    projects: dict[tuple[int, str], str] = {}
    for n, project, who, when, times, answers, objects in given:
        record, where = file.records[n], f"record {n + 1}"
        task = record["data_row"].get("id") if isinstance(record.get("data_row"), Mapping) else record["DataRow ID"]
        labels = [_chosen(one) for one in answers if _title(one) == question]
        # Answers of one person in two projects are to two questions, though these have one name.
        if labels and projects.setdefault((n, str(who)), project) != project:
            raise DataError(
                f"{file.name}, {where}: {who!r} answered {question!r} in two projects, {projects[n, str(who)]!r} and "
                f"{project!r}; export each project by itself"
            )
        rows.note("{} objects, such as boxes, are not read", objects)
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


def _labels_of(
    record: Mapping[str, Any], source: str, n: int
) -> Iterable[tuple[str, Any, Any, Mapping[str, Any], list[Mapping[str, Any]], int]]:
    """Yield the project, worker, time, durations, answers and number of objects of each label of one of Labelbox's records."""
    where = f"{source}, record {n + 1}"
    if isinstance(record.get("data_row"), Mapping) and isinstance(record.get("projects"), Mapping):
        for project, content in record["projects"].items():
            for label in _objects(_object(content, f"the project {project!r}", where).get("labels"), "'labels'", where):
                about = _object(label.get("label_details"), "'label_details'", where)
                times = _object(label.get("performance_details"), "'performance_details'", where)
                answers, objects = _answers(label.get("annotations"), "'annotations'", where)
                yield project, about.get("created_by"), about.get("created_at"), times, answers, objects
    else:
        _require(record, "DataRow ID" in record and "Label" in record, ("data_row", "projects"), where)
        times = {"seconds_to_create": record.get("Seconds to Label"), "skipped": record.get("Skipped")}
        answers, objects = _answers(record["Label"], "'Label'", where)
        project = str(record.get("Project Name", ""))
        yield project, record.get("Created By"), record.get("Created At"), times, answers, objects


def _answers(given: Any, what: str, where: str) -> tuple[list[Mapping[str, Any]], int]:
    """Return the classifications of a label, and the number of its objects."""
    content = _object(given, what, where)
    objects = _objects(content.get("objects"), "'objects'", where)
    return _objects(content.get("classifications"), "'classifications'", where), len(objects)


def _title(answer: Mapping[str, Any]) -> str:
    return str(answer.get("name", answer.get("title")))


def _chosen(answer: Mapping[str, Any]) -> Any:
    """Return the option or the options of a classification, ``None`` for a text."""
    one = answer.get("radio_answer", answer.get("answer"))
    several = answer.get("checklist_answers", answer.get("answers"))
    if isinstance(one, Mapping):
        return _title(one)
    if isinstance(one, list) or isinstance(several, list):
        options = one if isinstance(one, list) else several
        return [_title(option) if isinstance(option, Mapping) else str(option) for option in options]
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
    given = []
    for n, record in enumerate(file.records):
        where = f"{file.name}, record {n + 1}"
        _require(record, "externalId" in record and "labels" in record, ("externalId", "labels"), where)
        for label in _objects(record["labels"], "'labels'", where):
            given.append((n, label, _object(label.get("jsonResponse"), "'jsonResponse'", where)))
    asked = dict.fromkeys(
        job
        for *_, answers in given
        for job, answer in answers.items()
        if isinstance(answer, Mapping) and "categories" in answer
    )
    question = choose(list(asked), choices, file.name)
    rows = Rows(file.name, choices, question)
    for n, label, answers in given:
        record, where, kind = file.records[n], f"record {n + 1}", str(label.get("labelType") or "DEFAULT").upper()
        if kind in _NO_WORK:
            rows.drop(_NO_WORK[kind])
        elif label.get("isLatestLabelForUser") is False:
            rows.drop("that a later one of the same person replaces")
        else:
            answer = answers.get(question)
            chosen = answer.get("categories") if isinstance(answer, Mapping) else None
            names = [one.get("name") for one in _objects(chosen, "'categories'", f"{file.name}, {where}")]
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
    with_spans = isinstance(record.get("span_annotations"), (Mapping, list, str, type(None)))
    return stated and with_spans and isinstance(record.get("label_annotations"), Mapping)


def potato(file: SourceFile, choices: Choices) -> Records:
    """Read the schemes of Potato's annotations; the annotator is the name of the folder.

    Texts, numbers and spans are left out.
    """
    for n, record in enumerate(file.records):
        _require(
            record, is_potato(record), ("id", "label_annotations", "span_annotations"), f"{file.name}, line {n + 1}"
        )
    asked: dict[str, None] = dict.fromkeys(name for record in file.records for name in record["label_annotations"])
    question = choose(list(asked), choices, file.name)
    worker = file.stem
    if worker == POTATO:
        worker = (file.path.resolve() if file.within is None else file.within).parent.name
    rows = Rows(file.name, choices, question)
    rows.note(f"the worker is the folder, {worker!r}", int(file.within is None))
    for n, record in enumerate(file.records):
        where, answers = f"line {n + 1}", record["label_annotations"].get(question)
        spans = record["span_annotations"]
        rows.note("{} spans are not read", len(spans) if isinstance(spans, (list, Mapping)) else 0)
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
    """Recognise a column ``notes`` with ``RAYYAN-INCLUSION`` in it, unless columns of workers and labels stand beside it."""
    columns = {str(name).casefold() for name in file.columns}
    long = all(any(name in columns for name in usual) for usual in (WORKER_COLUMNS, LABEL_COLUMNS))
    return not file.parquet and not long and {_NOTES, "title"} <= set(file.columns) and _INCLUSION in file.head


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
