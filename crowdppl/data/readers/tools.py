"""Exports of annotation tools that are JSON: Label Studio, Prodigy, doccano, Argilla, SageMaker Ground Truth, peerannot."""

from __future__ import annotations

import json
from typing import Any

from crowdppl.data.readers.records import Choices, Records, Rows, aggregate, choose
from crowdppl.data.readers.source import Opened
from crowdppl.data.readers.tables import integers
from crowdppl.errors import DataError, FileError

# Results of Label Studio that are one label of the whole task, and where it stands.
CHOICES = {"choices": "choices", "rating": "rating", "number": "number", "taxonomy": "taxonomy", "pairwise": "selected"}


def is_label_studio(record: dict[str, Any]) -> bool:
    """Tasks with ``annotations`` that have a ``result``; or JSON-MIN, with ``annotator`` and ``annotation_id``."""
    nested = record.get("annotations", record.get("completions"))
    if isinstance(nested, list) and "data" in record:
        return True
    return {"annotator", "annotation_id"} <= set(record)


def label_studio(file: Opened, choices: Choices) -> Records:
    """Read Label Studio's JSON or JSON-MIN.

    Cancelled annotations are skips; those marked as ground truth are known truths, not annotations; regions (boxes, spans) are no
    label of a task and are left out.
    """
    if "annotations" not in file.records[0] and "completions" not in file.records[0]:
        return _label_studio_min(file, choices)
    found = []
    for n, task in enumerate(file.records, 1):
        for annotation in _list(task.get("annotations", task.get("completions")), file, f"task {n}"):
            for result in _list(annotation.get("result"), file, f"task {n}"):
                if result.get("type") in CHOICES and result.get("from_name") not in found:
                    found.append(str(result.get("from_name")))
    question = choose(found, choices, file.name)
    rows = Rows(file.name, choices)
    for n, task in enumerate(file.records, 1):
        key = task.get("id", n)
        for annotation in _list(task.get("annotations", task.get("completions")), file, f"task {n}"):
            by = annotation.get("completed_by")
            by = (by.get("email") or by.get("id")) if isinstance(by, dict) else by
            if annotation.get("was_cancelled"):
                rows.skip(key, by, "that were cancelled (skipped)")
                continue
            labels: list[Any] = []
            for result in _list(annotation.get("result"), file, f"task {n}"):
                if result.get("from_name") == question and result.get("type") in CHOICES:
                    value = result.get("value") or {}
                    got = value.get(CHOICES[result["type"]])
                    got = [" / ".join(map(str, path)) for path in got] if result["type"] == "taxonomy" and got else got
                    labels += got if isinstance(got, list) else [got]
            if annotation.get("ground_truth"):
                rows.known(key, labels, f"task {n}")
                rows.drop("marked as ground truth (taken as known truths)")
            else:
                rows.add(key, by, labels, annotation.get("created_at"), annotation.get("lead_time"), where=f"task {n}")
    return rows.done("Label Studio")


def _label_studio_min(file: Opened, choices: Choices) -> Records:
    told = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}
    names: list[str] = []
    for record in file.records:
        names += [key for key, value in record.items() if key not in told | set(names) and _label_of(value) is not None]
    # The task's own data stand beside the answers: what is the same for all annotators of a task is no answer.
    if choices.question is None and len(names) > 1:
        raise DataError(
            f"{file.name}: in JSON-MIN answers stand beside the task's data ({', '.join(names[:8])}); say which one is "
            f"the answer with question=..., or export JSON"
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
    return rows.done("Label Studio (JSON-MIN)")


def _label_of(value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("choices")
    return value if isinstance(value, (str, int, float, list)) else None


def is_prodigy(record: dict[str, Any]) -> bool:
    """``_task_hash`` or ``_input_hash``, and ``answer``."""
    return "answer" in record and ("_task_hash" in record or "_input_hash" in record)


def prodigy(file: Opened, choices: Choices) -> Records:
    """Read Prodigy's JSON Lines.

    With options to choose from, the options accepted are the labels, and a rejected task is left out. Without, the annotation is
    ``accept`` or ``reject`` of a suggestion. *Ignore* is a skip, never a reject.
    """
    rows = Rows(file.name, choices)
    for n, record in enumerate(file.records, 1):
        worker = record.get("_annotator_id") or record.get("_session_id")
        chosen = record.get("accept")
        key = record.get("_input_hash" if chosen is not None else "_task_hash", record.get("_input_hash"))
        if key is None:
            raise DataError(f"{file.name}, line {n}: no _input_hash or _task_hash says which task it is of")
        answer = record.get("answer")
        if answer == "ignore":
            rows.skip(key, worker, "that were ignored (skipped)")
        elif answer not in ("accept", "reject"):
            raise DataError(f"{file.name}, line {n}: the answer is {answer!r}; it must be accept, reject or ignore")
        elif chosen is not None and answer == "reject":
            rows.drop("of tasks that were rejected as a whole")
        else:
            rows.add(key, worker, answer if chosen is None else chosen, record.get("_timestamp"), where=f"line {n}")
    return rows.done("Prodigy")


def is_doccano(record: dict[str, Any]) -> bool:
    """``text`` or ``data``, and ``label`` as a list."""
    return "id" in record and isinstance(record.get("label", record.get("labels")), list) and "answer" not in record


def doccano(file: Opened, choices: Choices) -> Records:
    """Read doccano's JSON Lines: the annotator in each record, else the name of the file, one for each annotator."""
    rows = Rows(file.name, choices)
    for n, record in enumerate(file.records, 1):
        worker = next((record[key] for key in ("annotator", "user", "username") if record.get(key) is not None), None)
        labels = record.get("label", record.get("labels"))
        if any(isinstance(label, (list, dict)) for label in labels or []):
            raise DataError(
                f"{file.name}, line {n}: spans of text, not labels of the whole; export a classification project"
            )
        rows.add(
            record.get("id", n), file.path.name.split(".")[0] if worker is None else worker, labels, where=f"line {n}"
        )
    found = rows.done("doccano")
    if not any(key in record for record in file.records for key in ("annotator", "user", "username")):
        found.told.append(
            f"{file.name}: no annotator in the records, taken from the file's name; export one file for each"
        )
    return found


def is_argilla(record: dict[str, Any]) -> bool:
    """Keys such as ``<question>.responses``."""
    return any(key.endswith(".responses") for key in record)


def argilla(file: Opened, choices: Choices) -> Records:
    """Read Argilla's records, as JSON or as the rows of a Hugging Face data set: parallel lists of responses, users, status."""
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
                f"{file.name}, record {n}: {len(answers)} responses, {len(users)} users, {len(status)} states; export it again"
            )
        key = record.get("id") or record.get("external_id") or n
        for answer, user, state in zip(answers, users, status, strict=True):
            if state == "discarded":
                rows.skip(key, user, "that were discarded (skipped)")
            elif state == "draft":
                rows.drop("that are drafts")
            else:
                rows.add(key, user, answer.get("value") if isinstance(answer, dict) else answer, where=f"record {n}")
    return rows.done("Argilla")


def is_sagemaker(record: dict[str, Any]) -> bool:
    """Worker responses (``answers`` with ``workerId``, or ``annotations`` with ``annotationData``), or a manifest."""
    answers = _sagemaker_answers(record)
    if answers is not None:
        return bool(answers) and isinstance(answers[0], dict) and "workerId" in answers[0]
    return any(key.endswith("-metadata") for key in record) and any(key in record for key in ("source-ref", "source"))


def sagemaker(file: Opened, choices: Choices) -> Records:
    """Read SageMaker Ground Truth's worker responses, or the request to its consolidation; a manifest is refused."""
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
                    raise DataError(f"{file.name}, record {n}: the content of an answer is not JSON") from None
            if not isinstance(content, dict):
                raise DataError(f"{file.name}, record {n}: an answer without content")
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
    return rows.done("SageMaker Ground Truth")


def _sagemaker_answers(record: dict[str, Any]) -> list[Any] | None:
    for key in ("answers", "annotationsFromAllWorkers", "annotations"):
        if isinstance(record.get(key), list):
            return list(record[key])
    return None


def is_peerannot(document: Any) -> bool:
    """One object: task to worker to label."""
    return (
        isinstance(document, dict)
        and bool(document)
        and all(isinstance(answers, dict) for answers in document.values())
        and not any(isinstance(v, (dict, list)) for answers in document.values() for v in answers.values())
    )


def peerannot(file: Opened, choices: Choices) -> Records:
    """Read peerannot's ``answers.json``."""
    document = file.document
    if file.kind == "lines":  # one line is a document, too
        if len(document) != 1:
            raise FileError(f"{file.name}: {len(document):,} documents; answers.json is one object")
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
    return rows.done("peerannot")


def _list(value: Any, file: Opened, where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise FileError(f"{file.name}, {where}: annotations are not a list of objects; export it again as JSON")
    return value
