"""Label Studio's JSON and JSON-MIN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from crowdppl.data.cells import PARTS, absent
from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows, flat, items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.errors import DataError, FileError, listed

# Result types that are a label of the whole task, and the key of the label.
CHOICES = {"choices": "choices", "rating": "rating", "number": "number", "taxonomy": "taxonomy", "pairwise": "selected"}
# Result types that are neither labels nor regions.
NO_CLASSES = ("textarea", "ranker", "datetime", "chat", "reactcode")
METADATA = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")


def is_label_studio(record: dict[str, Any]) -> bool:
    """Recognise tasks with ``annotations``, or JSON-MIN with ``annotator`` and ``annotation_id``."""
    nested = record.get("annotations", record.get("completions"))
    if isinstance(nested, list) and "data" in record:
        return True
    return {"annotator", "annotation_id"} <= set(record)


def label_studio(file: SourceFile, choices: Choices) -> Records:
    """Read Label Studio's JSON or JSON-MIN.

    Cancelled annotations are skips. Those marked as ground truth are known truths, not annotations. Regions (boxes, spans) and
    labels of regions are not labels of a task; they are left out and counted.
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
    question = choose(list(questions), choices, file.name, _no_classes(others, parts))
    tasks = items_of(file.records, ("id",), file.name, "task", within=file.within)
    rows = Rows(file.name, choices)
    for n, (task, key) in enumerate(zip(file.records, tasks, strict=True)):
        where = f"task {n + 1}"
        for annotation in annotations_of(task, file, n + 1):
            worker = annotation.get("completed_by")
            if annotation.get("was_cancelled"):
                rows.skip(key, worker, "that were cancelled (skipped)", where=where, record=n)
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
                created, seconds = annotation.get("created_at"), annotation.get("lead_time")
                rows.add(key, worker, labels, created, seconds, where=where, record=n)
    table = flat(file.records, ("data", "meta"))
    return rows.finish("Label Studio", table, [name for name in table.columns if name.startswith("data.")], "id")


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
    rows = Rows(file.name, choices)
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
