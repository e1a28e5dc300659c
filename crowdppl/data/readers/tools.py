"""JSON exports of annotation tools: Label Studio, Prodigy, doccano, Argilla, SageMaker Ground Truth, peerannot."""

from __future__ import annotations

import json
from typing import Any

from crowdppl.data.readers.records import Choices, Records, Rows, aggregate, choose
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.tables import integers
from crowdppl.errors import DataError, FileError

# Result types of Label Studio that are a label of the whole task, and the key of the label.
CHOICES = {"choices": "choices", "rating": "rating", "number": "number", "taxonomy": "taxonomy", "pairwise": "selected"}


def is_label_studio(record: dict[str, Any]) -> bool:
    """Recognise tasks with ``annotations``, or JSON-MIN with ``annotator`` and ``annotation_id``."""
    nested = record.get("annotations", record.get("completions"))
    if isinstance(nested, list) and "data" in record:
        return True
    return {"annotator", "annotation_id"} <= set(record)


def label_studio(file: SourceFile, choices: Choices) -> Records:
    """Read Label Studio's JSON or JSON-MIN.

    Cancelled annotations are skips. Those marked as ground truth are known truths, not annotations. Regions (boxes, spans) are
    not labels of a task and are left out.
    """
    if "annotations" not in file.records[0] and "completions" not in file.records[0]:
        return _label_studio_min(file, choices)
    questions = []
    for n, task in enumerate(file.records, 1):
        for annotation in _list(task.get("annotations", task.get("completions")), file, f"task {n}"):
            for result in _list(annotation.get("result"), file, f"task {n}"):
                if result.get("type") in CHOICES and result.get("from_name") not in questions:
                    questions.append(str(result.get("from_name")))
    question = choose(questions, choices, file.name)
    rows = Rows(file.name, choices)
    for n, task in enumerate(file.records, 1):
        key = task.get("id", n)
        for annotation in _list(task.get("annotations", task.get("completions")), file, f"task {n}"):
            worker = annotation.get("completed_by")
            worker = (worker.get("email") or worker.get("id")) if isinstance(worker, dict) else worker
            if annotation.get("was_cancelled"):
                rows.skip(key, worker, "that were cancelled (skipped)")
                continue
            labels: list[Any] = []
            for result in _list(annotation.get("result"), file, f"task {n}"):
                if result.get("from_name") == question and result.get("type") in CHOICES:
                    value = result.get("value") or {}
                    label = value.get(CHOICES[result["type"]])
                    if result["type"] == "taxonomy" and label:
                        label = [" / ".join(map(str, path)) for path in label]
                    labels += label if isinstance(label, list) else [label]
            if annotation.get("ground_truth"):
                rows.known(key, labels, f"task {n}")
                rows.drop("marked as ground truth (used as known truths)")
            else:
                created, duration = annotation.get("created_at"), annotation.get("lead_time")
                rows.add(key, worker, labels, created, duration, where=f"task {n}")
    return rows.finish("Label Studio")


def _label_studio_min(file: SourceFile, choices: Choices) -> Records:
    metadata = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}
    names: list[str] = []
    for record in file.records:
        known = metadata | set(names)
        names += [key for key, value in record.items() if key not in known and _label_of(value) is not None]
    # JSON-MIN does not separate the data of a task from the answers.
    if choices.question is None and len(names) > 1:
        raise DataError(
            f"{file.name}: JSON-MIN mixes answers with the data of the task ({', '.join(names[:8])}); name the "
            f"answer with question=..., or export JSON"
        )
    question = choose(names, choices, file.name)
    rows = Rows(file.name, choices)
    for n, record in enumerate(file.records, 1):
        rows.add(
            record.get("id", n),
            record.get("annotator"),
            _label_of(record.get(question)),
            record.get("created_at"),
            record.get("lead_time"),
            where=f"record {n}",
        )
    return rows.finish("Label Studio (JSON-MIN)")


def _label_of(value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("choices")
    return value if isinstance(value, (str, int, float, list)) else None


def is_prodigy(record: dict[str, Any]) -> bool:
    """Recognise ``answer`` with ``_task_hash`` or ``_input_hash``."""
    return "answer" in record and ("_task_hash" in record or "_input_hash" in record)


def prodigy(file: SourceFile, choices: Choices) -> Records:
    """Read Prodigy's JSON Lines.

    With options, the accepted options are the labels, and rejected tasks are left out. Without options, the label is ``accept``
    or ``reject``. *Ignore* is a skip.
    """
    rows = Rows(file.name, choices)
    for n, record in enumerate(file.records, 1):
        worker = record.get("_annotator_id") or record.get("_session_id")
        options = record.get("accept")
        key = record.get("_input_hash" if options is not None else "_task_hash", record.get("_input_hash"))
        if key is None:
            raise DataError(
                f"{file.name}, line {n}: no _input_hash or _task_hash; export the data set with Prodigy's db-out"
            )
        answer = record.get("answer")
        if answer == "ignore":
            rows.skip(key, worker, "that were ignored (skipped)")
        elif answer not in ("accept", "reject"):
            raise DataError(f"{file.name}, line {n}: the answer is {answer!r}; it must be accept, reject or ignore")
        elif options is not None and answer == "reject":
            rows.drop("of tasks that were rejected as a whole")
        else:
            rows.add(key, worker, answer if options is None else options, record.get("_timestamp"), where=f"line {n}")
    return rows.finish("Prodigy")


def is_doccano(record: dict[str, Any]) -> bool:
    """Recognise ``id`` with ``label`` or ``labels`` as a list."""
    return "id" in record and isinstance(record.get("label", record.get("labels")), list) and "answer" not in record


def doccano(file: SourceFile, choices: Choices) -> Records:
    """Read doccano's JSON Lines; the annotator is in each record, or is the name of the file (one file per annotator)."""
    rows = Rows(file.name, choices)
    for n, record in enumerate(file.records, 1):
        worker = next((record[key] for key in ("annotator", "user", "username") if record.get(key) is not None), None)
        labels = record.get("label", record.get("labels"))
        if any(isinstance(label, (list, dict)) for label in labels or []):
            raise DataError(
                f"{file.name}, line {n}: spans of text, not labels of whole texts; export a classification project"
            )
        rows.add(
            record.get("id", n), file.path.name.split(".")[0] if worker is None else worker, labels, where=f"line {n}"
        )
    records = rows.finish("doccano")
    if not any(key in record for record in file.records for key in ("annotator", "user", "username")):
        records.notes.append(
            f"{file.name}: no annotator in the records, the file name is used; export one file per annotator"
        )
    return records


def is_argilla(record: dict[str, Any]) -> bool:
    """Recognise keys such as ``<question>.responses``."""
    return any(key.endswith(".responses") for key in record)


def argilla(file: SourceFile, choices: Choices) -> Records:
    """Read Argilla's records, JSON or rows of a Hugging Face data set: parallel lists of responses, users and statuses."""
    keys = {key for record in file.records for key in record if key.endswith(".responses")}
    question = choose(sorted(key.removesuffix(".responses") for key in keys), choices, file.name)
    rows = Rows(file.name, choices)
    for n, record in enumerate(file.records, 1):
        answers = record.get(f"{question}.responses")
        users = record.get(f"{question}.responses.users")
        status = record.get(f"{question}.responses.status")
        answers = [] if answers is None else list(answers)
        users, status = ([None] * len(answers) if values is None else list(values) for values in (users, status))
        if not len(answers) == len(users) == len(status):
            raise DataError(
                f"{file.name}, record {n}: {len(answers)} responses, {len(users)} users, {len(status)} statuses; export it again"
            )
        key = record.get("id") or record.get("external_id") or n
        for answer, user, state in zip(answers, users, status, strict=True):
            if state == "discarded":
                rows.skip(key, user, "that were discarded (skipped)")
            elif state == "draft":
                rows.drop("that are drafts")
            else:
                rows.add(key, user, answer.get("value") if isinstance(answer, dict) else answer, where=f"record {n}")
    return rows.finish("Argilla")


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
    contents: list[tuple[int, Any, dict[str, Any], dict[str, Any]]] = []
    for n, record in enumerate(file.records, 1):
        key = record.get("datasetObjectId", record.get("source-ref", record.get("itemId", n - 1)))
        for answer in _sagemaker_answers(record) or []:
            content = answer.get("answerContent", (answer.get("annotationData") or {}).get("content"))
            if isinstance(content, str):
                try:
                    content = json.loads(content)
                except (ValueError, RecursionError):
                    raise DataError(
                        f"{file.name}, record {n}: the content of an answer is not JSON; download the worker responses again"
                    ) from None
            if not isinstance(content, dict):
                raise DataError(
                    f"{file.name}, record {n}: an answer has no content; download the worker responses again"
                )
            contents.append((n, key, answer, content))
    names: list[str] = []
    for _, _, _, content in contents:
        names += [name for name in content if name not in names]
    question = choose(names, choices, file.name)
    rows = Rows(file.name, choices)
    for n, key, answer, content in contents:
        value = content.get(question)
        label = value.get("label", value.get("labels")) if isinstance(value, dict) else value
        rows.add(
            key,
            answer.get("workerId"),
            label,
            answer.get("submissionTime"),
            answer.get("timeSpentInSeconds"),
            where=f"record {n}",
        )
    return rows.finish("SageMaker Ground Truth")


def _sagemaker_answers(record: dict[str, Any]) -> list[Any] | None:
    for key in ("answers", "annotationsFromAllWorkers", "annotations"):
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


def _list(value: Any, file: SourceFile, where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise FileError(f"{file.name}, {where}: annotations are not a list of objects; export it again as JSON")
    return value
