"""Label Studio's JSON and JSON-MIN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows, flat, items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.spans import Span, SpanRows
from crowdppl.data.table.cells import PARTS, absent
from crowdppl.errors import DataError, FileError, listed

# Result types that are a label of the whole task, and the key of the label.
CHOICES = {"choices": "choices", "rating": "rating", "number": "number", "taxonomy": "taxonomy", "pairwise": "selected"}
# Result types that are neither labels nor regions.
NO_CLASSES = ("textarea", "ranker", "datetime", "chat", "reactcode")
# What tasks hold beside annotations, and why it is not read.
_BESIDE = {
    "predictions": "predictions of models are not read: they are no annotations of a worker",
    "drafts": "drafts are not read: their annotators have not submitted them",
}
# Annotations that are not independent of another one, or of what a model said: what they were made from.
_ORIGINS = {
    "parent_annotation": "another annotation, and are not independent of it",
    "parent_prediction": "a prediction of a model, which their workers saw",
}
METADATA = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")


def is_label_studio(record: dict[str, Any]) -> bool:
    """Recognise tasks with ``annotations``, or JSON-MIN with ``annotator`` and ``annotation_id``."""
    nested = record.get("annotations", record.get("completions"))
    if isinstance(nested, list) and "data" in record:
        return True
    return {"annotator", "annotation_id"} <= set(record)


def label_studio(file: SourceFile, choices: Choices) -> Records:
    """Read Label Studio's JSON or JSON-MIN.

    Cancelled annotations are skips, and those whose last review rejects them are left out. Those marked as ground truth are known
    truths, not annotations. Regions (boxes, spans) and labels of regions are not labels of a task; they are left out and counted,
    as are drafts and predictions of models.
    """
    if "annotations" not in file.records[0] and "completions" not in file.records[0]:
        return _label_studio_min(file, choices)
    questions: dict[str, None] = {}
    others: Counter[str] = Counter()
    parts = 0
    for n, task in enumerate(file.records, 1):
        for annotation in annotations_of(task, file, n):
            for result, part in results_of(annotation, file, n):
                kind = str(result.get("type"))
                if part:
                    parts += 1
                elif kind in CHOICES:
                    questions[str(result.get("from_name"))] = None
                else:
                    others[kind] += 1
    if not questions and (marked := _marked(file)):
        return _spans(file, choose(marked, choices, file.name), choices)
    question = choose(list(questions), choices, file.name, _no_classes(others, parts) or _only_beside(file))
    tasks = items_of(file.records, ("id",), file.name, "task", within=file.within)
    rows, named = Rows(file.name, choices, question), people_by_number(file)
    for n, (task, key) in enumerate(zip(file.records, tasks, strict=True)):
        where = f"task {n + 1}"
        for annotation in annotations_of(task, file, n + 1):
            worker = person(annotation.get("completed_by"), named)
            if annotation.get("was_cancelled"):
                rows.skip(key, worker, "that were cancelled (skipped)", where=where, record=n)
                continue
            if _rejected(annotation) and not choices.rejected:
                rows.drop("that a reviewer rejected")
                continue
            labels: list[Any] = []
            results = parts_here = 0
            for result, part in results_of(annotation, file, n + 1):
                results += 1
                parts_here += part
                if not part and result.get("from_name") == question and result.get("type") in CHOICES:
                    labels += _labels(result)
            rows.note("{} regions and labels of regions left out: they are not labels of a task", parts_here)
            if annotation.get("ground_truth"):
                rows.known(key, labels, where)
                rows.note("{} annotations are marked as ground truth: they are known truths, not labels of a worker")
            elif not labels and results and results == parts_here:
                continue  # counted with its regions
            else:
                for origin, what in _ORIGINS.items():
                    rows.note(
                        f"{{}} annotations were begun as a copy of {what}", int(annotation.get(origin) is not None)
                    )
                created, seconds = annotation.get("created_at"), annotation.get("lead_time")
                rows.add(key, worker, labels, created, seconds, where=where, record=n)
        for name, reason in _BESIDE.items():
            rows.note(f"{{}} {reason}", _beside(task, name))
    table = flat(file.records, ("data", "meta"))
    return rows.finish("Label Studio", table, [name for name in table.columns if name.startswith("data.")], "id")


def _beside(task: dict[str, Any], name: str) -> int:
    """Return how many predictions or drafts a task holds."""
    held = task.get(name)
    return sum(isinstance(one, dict) for one in held) if isinstance(held, list) else 0


def _only_beside(file: SourceFile) -> str | None:
    """Return what a file without answers holds in their place, ``None`` for nothing."""
    counts = {name: sum(_beside(task, name) for task in file.records) for name in _BESIDE}
    held = [f"{count:,} {name}" for name, count in counts.items() if count]
    return f"it contains {' and '.join(held)}, and no answers; export the annotations, too" if held else None


def _rejected(annotation: dict[str, Any]) -> bool:
    """Return whether the last review of an annotation rejects it."""
    held = annotation.get("reviews")
    reviews = [one for one in held if isinstance(one, dict)] if isinstance(held, list) else []
    by_time = sorted(reviews, key=lambda one: str(one.get("created_at") or ""))
    return bool(by_time) and by_time[-1].get("accepted") is False


def people_by_number(file: SourceFile) -> dict[str, Any]:
    """Return the people that some annotations describe, by their number, which is all that others state."""
    described = (
        annotation.get("completed_by")
        for n, task in enumerate(file.records, 1)
        for annotation in annotations_of(task, file, n)
    )
    return {str(one["id"]): one for one in described if isinstance(one, dict) and not absent(one.get("id"))}


def person(completed_by: Any, named: dict[str, Any]) -> Any:
    """Return who completed an annotation, as described elsewhere in the file if only a number is stated."""
    return completed_by if isinstance(completed_by, dict) else named.get(str(completed_by), completed_by)


def is_span(result: dict[str, Any]) -> bool:
    """Recognise a labelled span of a text."""
    value = result.get("value")
    if result.get("type") != "labels" or not isinstance(value, dict):
        return False
    return isinstance(value.get("labels"), list) and all(isinstance(value.get(end), int) for end in ("start", "end"))


def _marked(file: SourceFile) -> list[str]:
    """Return the controls by which spans of texts were marked."""
    names = {
        str(result.get("from_name")): None
        for n, task in enumerate(file.records, 1)
        for annotation in annotations_of(task, file, n)
        for result, _ in results_of(annotation, file, n)
        if is_span(result)
    }
    return list(names)


def _spans(file: SourceFile, control: str | None, choices: Choices) -> Records:
    """Read the spans that were marked by a control."""
    rows, named = SpanRows(file.name, control), people_by_number(file)
    tasks, name = items_of(file.records, ("id",), file.name, "task", within=file.within), text_key(file)
    for n, (task, key) in enumerate(zip(file.records, tasks, strict=True)):
        where, text = f"task {n + 1}", (task.get("data") or {}).get(name)
        for annotation in annotations_of(task, file, n + 1):
            if annotation.get("was_cancelled"):
                rows.drop("that were cancelled (skipped)")
                continue
            if annotation.get("ground_truth"):
                rows.drop("that are marked as ground truth")
                continue
            if _rejected(annotation) and not choices.rejected:
                rows.drop("that a reviewer rejected")
                continue
            results = [one for one, _ in results_of(annotation, file, n + 1)]
            values = [one["value"] for one in results if is_span(one) and str(one.get("from_name")) == control]
            spans = [Span(one["start"], one["end"], str(kind)) for one in values for kind in one["labels"][:1]]
            rows.leave("further types of a span", sum(len(one["labels"][1:]) for one in values))
            rows.leave("spans without a type", sum(not one["labels"] for one in values))
            rows.leave("labels of regions, other regions and relations", len(results) - len(values))
            rows.add(key, person(annotation.get("completed_by"), named), text, spans, where)
    records = rows.finish("Label Studio")
    for name, reason in _BESIDE.items():
        count = sum(_beside(task, name) for task in file.records)
        records.notes += [f"{file.name}: {count:,} {reason}"] if count else []
    return records


def text_key(file: SourceFile) -> str | None:
    """Return the name of the text among the data of tasks: the one that marked spans quote, else ``text``, else the longest."""
    quoted: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    for n, task in enumerate(file.records, 1):
        content = {str(key): value for key, value in (task.get("data") or {}).items() if isinstance(value, str)}
        lengths.update({key: len(value) for key, value in content.items()})
        for annotation in annotations_of(task, file, n):
            for result, _ in results_of(annotation, file, n):
                if is_span(result):
                    value = result["value"]
                    quote = value.get("text")
                    quoted.update(key for key, text in content.items() if text[value["start"] : value["end"]] == quote)
    if quoted:
        return quoted.most_common(1)[0][0]
    return "text" if "text" in lengths else next((key for key, _ in lengths.most_common(1)), None)


def _labels(result: dict[str, Any]) -> list[Any]:
    value = result.get("value")
    label = value.get(CHOICES[result["type"]]) if isinstance(value, dict) else None
    if result["type"] == "taxonomy":
        paths = label if isinstance(label, list) else []
        return [" / ".join(map(str, path)) if isinstance(path, list) else path for path in paths]
    return label if isinstance(label, list) else [label]


def _no_classes(others: Counter[str], parts: int) -> str | None:
    """Return what a file without labels of tasks contains, ``None`` for nothing."""
    kinds = [kind for kind in others if kind in NO_CLASSES]
    regions = parts + sum(count for kind, count in others.items() if kind not in NO_CLASSES)
    content = [f"answers of type {listed(kinds)}"] if kinds else []
    content += [f"{regions:,} regions and labels of regions"] if regions else []
    if not content:
        return None
    return (
        f"it contains {' and '.join(content)}, which are not classes of a task; the types that are read are "
        f"{', '.join(CHOICES)}, of whole tasks"
    )


def annotations_of(task: dict[str, Any], file: SourceFile, n: int) -> list[dict[str, Any]]:
    """Return the annotations of the ``n``-th task."""
    return _list(task.get("annotations", task.get("completions")), file, f"task {n}")


def results_of(annotation: dict[str, Any], file: SourceFile, n: int) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the results of an annotation, and whether each is a region, or the label of one: both have one identifier."""
    results = _list(annotation.get("result"), file, f"task {n}")
    regions = {
        result.get("id")
        for result in results
        if result.get("type") not in CHOICES and result.get("type") not in NO_CLASSES and not absent(result.get("id"))
    }
    for result in results:
        value = result.get("value")
        kind = result.get("type")
        part = kind not in CHOICES and kind not in NO_CLASSES
        placed = isinstance(value, dict) and not PARTS.isdisjoint(value)
        yield result, part or placed or result.get("id") in regions or not absent(result.get("parentID"))


def _label_studio_min(file: SourceFile, choices: Choices) -> Records:
    names: dict[str, None] = {}
    for record in file.records:
        names |= {key: None for key, value in record.items() if key not in METADATA and not absent(value)}
    # JSON-MIN does not separate the data of a task from the answers.
    if choices.question is None and len(names) > 1:
        raise DataError(
            f"{file.name}: JSON-MIN mixes answers with the data of the task ({', '.join(list(names)[:8])}); name the "
            f"answer with question=..., or export JSON"
        )
    question = choose(list(names), choices, file.name)
    rows = Rows(file.name, choices, question)
    tasks = items_of(file.records, ("id",), file.name, within=file.within)
    for n, (record, key) in enumerate(zip(file.records, tasks, strict=True)):
        created, seconds = record.get("created_at"), record.get("lead_time")
        rows.add(
            key, record.get("annotator"), record.get(question), created, seconds, where=f"record {n + 1}", record=n
        )
    return rows.finish("Label Studio (JSON-MIN)", flat(file.records), (), "id")


def _list(value: Any, file: SourceFile, where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise FileError(f"{file.name}, {where}: annotations are not a list of objects; export it again as JSON")
    return value
