"""JSON exports of annotation tools: Prodigy, doccano, SageMaker Ground Truth, peerannot."""

from __future__ import annotations

import json
from typing import Any

from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.records import Choices, Records, aggregate, choose
from crowdppl.data.readers.rows import Rows, flat, items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.spans import Span, SpanRows
from crowdppl.data.readers.tables import integers
from crowdppl.data.table.cells import absent, is_structured
from crowdppl.errors import DataError, FileError

# Interfaces of Prodigy in which the answer concerns parts of a task, or a text.
PRODIGY_PARTS = ("relations", "text_input", "dep", "llm_io")


def is_prodigy(record: dict[str, Any]) -> bool:
    """Recognise ``answer`` with ``_task_hash`` or ``_input_hash``."""
    return "answer" in record and ("_task_hash" in record or "_input_hash" in record)


def prodigy(file: SourceFile, choices: Choices) -> Records:
    """Read Prodigy's JSON Lines.

    With options, the accepted options are the labels, and rejected tasks are left out. Without options, the label is ``accept``
    or ``reject``. *Ignore* is a skip.
    """
    if any(_marks_text(record) for record in file.records):
        return _prodigy_spans(file)
    rows = Rows(file.name, choices)
    hashes = set()
    for n, record in enumerate(file.records):
        where = f"line {n + 1}"
        worker = next((record[key] for key in ("_annotator_id", "_session_id") if not absent(record.get(key))), None)
        options = record.get("accept")
        name = "_task_hash" if options is None and not absent(record.get("_task_hash")) else "_input_hash"
        key, answer = record.get(name), record.get("answer")
        if absent(key):
            raise DataError(
                f"{file.name}, {where}: no _input_hash or _task_hash; export the data set with Prodigy's db-out"
            )
        if answer not in ("accept", "reject", "ignore"):
            raise DataError(f"{file.name}, {where}: the answer is {answer!r}; it must be accept, reject or ignore")
        view = str(record.get("_view_id"))
        if view in PRODIGY_PARTS or view.endswith("_manual"):
            rows.drop(f"of spans, regions or texts ({view})")
        elif answer == "ignore":
            rows.skip(key, worker, "that were ignored (skipped)", where=where, record=n)
        elif options is not None and answer == "reject":
            rows.drop("of tasks that were rejected as a whole")
        else:
            labels = answer if options is None else options
            rows.add(key, worker, labels, record.get("_timestamp"), where=where, record=n)
            hashes.add(name)
            reviewed = record.get("versions") if view == "review" else None
            if isinstance(reviewed, list):
                rows.note(
                    "{} records are of a review and hold one decision; the answers that were reviewed are not read: export the "
                    "data sets of the annotators"
                )
    inputs = ["text", "image", "audio", "video", "html"] if hashes == {"_input_hash"} else []
    return rows.finish("Prodigy", flat(file.records, ("meta",)), inputs, "_input_hash")


def _marks_text(record: dict[str, Any]) -> bool:
    """Recognise records in which annotators marked spans of a text."""
    view = str(record.get("_view_id"))
    return isinstance(record.get("text"), str) and view in ("ner_manual", "spans_manual", "ner", "spans")


def _prodigy_spans(file: SourceFile) -> Records:
    """Read the spans that annotators marked; rejected texts are left out, and ignored ones are skips."""
    rows = SpanRows(file.name)
    for n, record in enumerate(file.records):
        where, answer = f"line {n + 1}", record.get("answer")
        if answer not in ("accept", "reject", "ignore"):
            raise DataError(f"{file.name}, {where}: the answer is {answer!r}; it must be accept, reject or ignore")
        if not _marks_text(record):
            rows.drop("of other views than spans of texts")
        elif answer != "accept":
            rows.drop("of texts that were rejected" if answer == "reject" else "of texts that were ignored (skipped)")
        else:
            worker = next(
                (record[key] for key in ("_annotator_id", "_session_id") if not absent(record.get(key))), None
            )
            spans = []
            for span in record.get("spans") or []:
                start, end, kind = (span.get(name) for name in ("start", "end", "label"))
                if not isinstance(start, int) or not isinstance(end, int) or absent(kind):
                    raise DataError(f"{file.name}, {where}: a span without start, end and label; export it with db-out")
                spans.append(Span(start, end, str(kind)))
            for key, what in (("relations", "relations"), ("accept", "chosen options")):
                rows.leave(what, len(record.get(key) or ()))
            rows.add(record.get("_input_hash"), worker, record["text"], spans, where)
    return rows.finish("Prodigy")


# Keys under which records name their annotator.
ANNOTATOR = (
    *("annotator", "user", "username", "worker", "annotators", "workers", "users"),
    *("annotator_id", "worker_id", "user_id", "annotator_ids", "worker_ids", "user_ids"),
)


def is_doccano(record: dict[str, Any]) -> bool:
    """Recognise ``id`` with a list of labels or spans under ``label``, ``labels`` or ``entities``, or the first version."""
    if _is_first_doccano(record):
        return True
    if "id" in record and isinstance(record.get("entities"), list) and "text" in record:
        return True
    labels = record.get("label", record.get("labels"))
    if "id" not in record or not isinstance(labels, list) or "answer" in record or long_names(record):
        return False
    return all("start_offset" in label for label in labels if isinstance(label, dict))


def _is_first_doccano(record: dict[str, Any]) -> bool:
    """Recognise ``annotations`` with the numbers of a label and a user, as the first version wrote them beside a text."""
    given = record.get("annotations")
    if not isinstance(given, list) or not {"id", "text"} <= set(record) or {"data", "answer"} & set(record):
        return False
    if not given:
        return "annotation_approver" in record
    # Users are numbers of the project, not objects.
    return all(
        isinstance(one, dict) and {"label", "user"} <= set(one) and not is_structured(one["user"]) for one in given
    )


def _first_doccano(file: SourceFile, choices: Choices) -> Records:
    """Read records of doccano's first version: each annotation has its user, and labels and users are numbers of the project."""
    tasks = items_of(file.records, ("id",), file.name, "line", within=file.within)
    rows, spans = Rows(file.name, choices), SpanRows(file.name)
    given = [one for record in file.records for one in record.get("annotations") or []]
    marked = any("start_offset" in one for one in given)
    for n, (record, task) in enumerate(zip(file.records, tasks, strict=True)):
        where = f"line {n + 1}"
        by_user: dict[Any, list[Any]] = {}
        for one in record.get("annotations") or []:
            by_user.setdefault(one.get("user"), []).append(one)
        for user, marks in by_user.items():
            if marked:
                spans.add(task, user, record["text"], _doccano_spans(marks, file, where), where)
            else:
                labels = [one.get("label", one.get("text")) for one in marks]
                rows.add(task, user, labels, marks[0].get("created_at"), where=where, record=n)
    if marked:
        return spans.finish("doccano")
    numbers = [one["label"] for one in given if isinstance(one.get("label"), int)]
    if numbers and len(numbers) == len(given):
        rows.note(f"labels are numbers of doccano's project, such as {min(numbers)}; map={{...}} names them")
    return rows.finish("doccano", flat(file.records, ("meta",)), ["text"], "id")


def doccano(file: SourceFile, choices: Choices) -> Records:
    """Read doccano's JSON Lines; the annotator is in each record, or is the name of the file (one file per annotator).

    Records of the first version have a list of annotations, each with the number of its user.
    """
    if any(map(_is_first_doccano, file.records)):
        return _first_doccano(file, choices)
    rows = Rows(file.name, choices)
    workers = [next((r[key] for key in ANNOTATOR if not absent(r.get(key))), None) for r in file.records]
    if all(map(absent, workers)):
        rows.note("no annotator in the records, the file name is used; export one file per annotator")
        workers = [file.stem] * len(workers)
    tasks = items_of(file.records, ("id", "example_id"), file.name, "line", within=file.within)
    marked = [record.get("entities", record.get("label", record.get("labels"))) or [] for record in file.records]
    if any(isinstance(label, (list, dict)) for labels in marked for label in labels):
        spans = SpanRows(file.name)
        for n, (record, task, worker, labels) in enumerate(zip(file.records, tasks, workers, marked, strict=True)):
            where = f"line {n + 1}"
            for key, what in (("relations", "relations"), ("cats", "labels of whole texts")):
                spans.leave(what, len(record.get(key) or ()))
            spans.add(task, worker, record.get("text", record.get("data")), _doccano_spans(labels, file, where), where)
        spans_read = spans.finish("doccano")
        spans_read.notes += [f"{file.name}: {sentence}" for sentence in rows.notes]
        return spans_read
    for n, (record, task, worker) in enumerate(zip(file.records, tasks, workers, strict=True)):
        labels = record.get("label", record.get("labels"))
        rows.add(task, worker, labels, where=f"line {n + 1}", record=n)
    return rows.finish("doccano", flat(file.records, ("meta",)), ["text", "filename", "data"], "id")


def _doccano_spans(labels: list[Any], file: SourceFile, where: str) -> list[Span]:
    """Return the spans of a text: lists of start, end and type, or objects with offsets."""
    out = []
    for label in labels:
        if isinstance(label, dict):
            parts: list[Any] = [label.get(name) for name in ("start_offset", "end_offset", "label")]
        else:
            parts = list(label) if isinstance(label, list) else []
        if len(parts) != 3 or not all(isinstance(part, int) for part in parts[:2]) or absent(parts[2]):
            raise DataError(f"{file.name}, {where}: {label!r} is no span; it must be a start, an end and a type")
        out.append(Span(parts[0], parts[1], str(parts[2])))
    return out


def is_sagemaker(record: dict[str, Any]) -> bool:
    """Recognise worker responses (lists of answers with ``workerId``) and output manifests."""
    answers = _sagemaker_answers(record)
    if answers is not None:
        return bool(answers) and isinstance(answers[0], dict) and "workerId" in answers[0]
    return any(key.endswith("-metadata") for key in record) and any(key in record for key in ("source-ref", "source"))


def sagemaker(file: SourceFile, choices: Choices) -> Records:
    """Read SageMaker Ground Truth's worker responses, or its consolidation request; output manifests are refused."""
    if _sagemaker_answers(file.records[0]) is None:
        raise aggregate(
            file.name, "an output manifest of SageMaker Ground Truth", "use the worker responses of the job"
        )
    contents: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
    for n, record in enumerate(file.records):
        for answer in _sagemaker_answers(record) or []:
            content = answer.get("answerContent", (answer.get("annotationData") or {}).get("content"))
            contents.append((n, answer, _sagemaker_content(content, f"{file.name}, record {n + 1}")))
    question = choose(list(dict.fromkeys(name for _, _, content in contents for name in content)), choices, file.name)
    if file.within is not None:
        tasks: list[Any] = [_sagemaker_item(file)] * len(file.records)
    else:
        names = ("datasetObjectId", "source-ref", "itemId", "humanLoopName")
        tasks = items_of(file.records, names, file.name, first=0)  # Ground Truth numbers objects from 0
    rows = Rows(file.name, choices, question)
    for n, answer, content in contents:
        submitted, seconds = answer.get("submissionTime"), answer.get("timeSpentInSeconds")
        label = content.get(question)
        rows.add(tasks[n], answer.get("workerId"), label, submitted, seconds, where=f"record {n + 1}", record=n)
    table = flat(file.records, ("dataObject", "inputContent"))
    return rows.finish("SageMaker Ground Truth", table, ["dataObject.content", "dataObject.s3Uri"], "datasetObjectId")


def _sagemaker_content(content: Any, where: str) -> dict[str, Any]:
    """Return the answers to each question of a form."""
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            raise DataError(
                f"{where}: the content of an answer is not JSON; download the worker responses again"
            ) from None
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if not isinstance(content, dict):
        raise DataError(f"{where}: an answer has no content; download the worker responses again")
    return content


def _sagemaker_item(file: SourceFile) -> str:
    """Return the number of the object: the folder of its worker responses, or the name of the file."""
    parts = file.within.parts if file.within is not None else ()
    return parts[-2] if len(parts) > 1 and parts[-2].isdecimal() else file.stem


def _sagemaker_answers(record: dict[str, Any]) -> list[Any] | None:
    for key in ("answers", "annotationsFromAllWorkers", "humanAnswers", "annotations"):
        if isinstance(record.get(key), list):
            return list(record[key])
    return None


def is_peerannot(document: Any) -> bool:
    """Recognise one object that maps tasks to workers to labels."""
    return (
        isinstance(document, dict)
        and bool(document)
        and all(isinstance(answers, dict) for answers in document.values())
        and not any(isinstance(v, (dict, list)) for answers in document.values() for v in answers.values())
    )


def peerannot(file: SourceFile, choices: Choices) -> Records:
    """Read peerannot's ``answers.json``."""
    document = file.document
    if file.kind == "lines":  # a document on a single line
        if len(document) != 1:
            raise FileError(f"{file.name}: {len(document):,} documents; answers.json must be one object")
        document = document[0]
    if not is_peerannot(document):
        raise FileError(f"{file.name}: not an object of tasks, each an object of workers and their labels")
    tasks, workers = list(document), sorted({worker for answers in document.values() for worker in answers})
    task_of = dict(zip(tasks, integers(tasks), strict=True))
    worker_of = dict(zip(workers, integers(workers), strict=True))
    rows = Rows(file.name, choices)
    for task, answers in document.items():
        for worker, label in answers.items():
            rows.add(task_of[task], worker_of[worker], label, where=f"task {task!r}")
    return rows.finish("peerannot")
