"""JSON of no tool in particular: items with a list of annotations each, every one with a worker and a label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows, flat, items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import absent, is_structured

# Last words of keys of workers and of labels, without an ending of identifiers and of a plural.
_WORKERS = frozenset(
    (
        *(
            "worker",
            "annotator",
            "rater",
            "coder",
            "user",
            "username",
            "labeler",
            "labeller",
            "reviewer",
            "contributor",
        ),
        *("author", "participant", "email"),
    )
)
_LABELS = frozenset(
    (
        *(
            "label",
            "annotation",
            "category",
            "class",
            "rating",
            "answer",
            "response",
            "choice",
            "verdict",
            "score",
            "vote",
        ),
        *("value", "decision", "grade"),
    )
)
# Words behind the name of what has an identifier, and keys of an annotation of a part of an item, or of another text.
_ENDINGS = frozenset(("id", "ids", "name", "names"))
_PARTS = frozenset(
    (
        *("start", "end", "begin", "offset", "start_offset", "end_offset", "span", "bbox", "box", "points"),
        *("text", "content", "tokens", "message"),
    )
)
_ITEMS = (
    *("task", "item", "id", "task_id", "item_id", "example_id", "uid", "uuid", "_id", "external_id", "key", "text"),
    *("question", "sentence", "prompt", "document", "title", "image", "url", "file", "filename"),
)
_TIMES = ("timestamp", "created_at", "submitted_at", "updated_at", "time", "date")
# Records among which one with annotations is looked for.
_FIRST = 100
# Marks of work that is not to count.
_TAINTED = ("tainted", "rejected")


class _Place(NamedTuple):
    """Where annotations stand in a record: ``path`` to the list, and keys of an annotation's worker and label.

    ``labels`` is empty where labels are in an object with a key for each question, at ``answers``.
    """

    path: tuple[str, ...]
    worker: str
    labels: tuple[str, ...]
    answers: str = ""


def is_nested(record: Mapping[str, Any]) -> bool:
    """Recognise a record with one list of annotations, or with a list of workers beside one of labels."""
    # Without an item it is an object around the records of a table.
    if long_names(record) or not any(name in record and not is_structured(record[name]) for name in _ITEMS):
        return False
    return len(_places(record)) == 1 or _parallel(record) is not None


def sample(records: Sequence[Any]) -> dict[str, Any] | None:
    """Return the first record with annotations among the first ones, as some items may have none; ``None`` without one."""
    return next((record for record in records[:_FIRST] if isinstance(record, dict) and is_nested(record)), None)


def nested(file: SourceFile, choices: Choices) -> Records:
    """Read records with a list of annotations each, or with a list of workers beside a list of their labels.

    The item is the identifier of the record, otherwise its number.
    """
    records = file.records
    first = sample(records) or records[0]
    names = [name for name in _ITEMS if name in first]
    tasks = items_of(records, names, file.name, within=file.within)
    parallel = _parallel(first)
    if parallel is not None:
        rows = Rows(file.name, choices)
        workers, labels = parallel
        for n, (record, task) in enumerate(zip(records, tasks, strict=True)):
            rows.add(task, record.get(workers), record.get(labels), where=f"record {n + 1}", record=n)
        rows.notes.clear()
        rows.note(f"workers stand in {workers!r}, and their labels in {labels!r}, in one order")
    else:
        rows = _of_lists(file, choices, tasks, next(iter(_places(first))))
    table = flat(records, ("data", "meta", "metadata"))
    return rows.finish("items with annotations", table, ["text"], [*names, "record"][0])


def _of_lists(file: SourceFile, choices: Choices, tasks: Sequence[Any], place: _Place) -> Rows:
    every = [annotation for record in file.records for annotation in _annotations(record, place.path)]
    question = None
    if place.answers:
        asked = dict.fromkeys(str(key) for one in every for key in _mapping(one.get(place.answers)))
        question = choose(list(asked), choices, file.name)
    elif choices.question is not None or len(place.labels) > 1:
        question = choose(list(place.labels), choices, file.name)
    rows = Rows(file.name, choices, question)
    under = ".".join(place.path)
    for n, (record, task) in enumerate(zip(file.records, tasks, strict=True)):
        for k, annotation in enumerate(_annotations(record, place.path)):
            mark = next((mark for mark in _TAINTED if annotation.get(mark) is True), None)
            if mark is not None and not choices.rejected:
                rows.drop(f"that are marked as {mark}")
                continue
            label = (
                _mapping(annotation.get(place.answers)).get(question or "")
                if place.answers
                else annotation.get(question or place.labels[0])
            )
            when = next((annotation[key] for key in _TIMES if not absent(annotation.get(key))), None)
            where = f"record {n + 1}, {under} {k + 1}"
            rows.add(task, _name(annotation.get(place.worker)), label, when, where=where, record=n)
    said = f"{place.answers}.{question}" if place.answers else question or place.labels[0]
    rows.note(f"annotations stand under {under!r}, with their workers in {place.worker!r} and their labels in {said!r}")
    return rows


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _name(worker: Any) -> Any:
    """Return the name of a worker, which may be an object with an identifier."""
    if not isinstance(worker, Mapping):
        return worker
    return next((worker[key] for key in ("id", "username", "email", "name") if not absent(worker.get(key))), None)


def _annotations(record: Mapping[str, Any], path: Sequence[str]) -> list[Mapping[str, Any]]:
    value: Any = record
    for key in path:
        value = _mapping(value).get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _places(record: Mapping[str, Any]) -> list[_Place]:
    """Return where annotations stand in a record."""
    out = []
    for path in _lists(record):
        annotations = _annotations(record, path)
        keys = dict.fromkeys(key for one in annotations for key in one)
        workers = [
            key for key in keys if _last(key) in _WORKERS and any(map(_name, (one.get(key) for one in annotations)))
        ]
        if len(workers) != 1 or long_names(keys) or {str(key).lower() for key in keys} & _PARTS:
            continue
        said = [key for key in keys if _is_label(key) and key not in workers and not _is_time(key)]
        plain = [key for key in said if not any(isinstance(one.get(key), Mapping) for one in annotations)]
        exact = [key for key in plain if str(key).lower() in ("label", "labels")]
        objects = [
            key
            for key in keys
            if key not in workers and all(_mapping(one.get(key)) and _flat(one[key]) for one in annotations)
        ]
        if plain:
            out.append(_Place(path, workers[0], tuple(exact or plain)))
        elif len(objects) == 1:
            out.append(_Place(path, workers[0], (), objects[0]))
    return out


def _lists(record: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the paths to lists of objects in a record, and in the objects in it."""
    for key, value in record.items():
        if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            yield (key,)
        elif isinstance(value, Mapping):
            yield from (
                (key, inner)
                for inner, held in value.items()
                if isinstance(held, list) and held and all(isinstance(one, Mapping) for one in held)
            )


def _parallel(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the keys of a list of different workers and of a list of as many labels, if there is one of each."""
    lists = {
        key: value
        for key, value in record.items()
        if isinstance(value, list) and len(value) > 1 and not any(map(is_structured, value))
    }
    workers = [
        key for key, value in lists.items() if _last(key) in _WORKERS and len(set(map(str, value))) == len(value)
    ]
    labels = [key for key in lists if _is_label(key)]
    if len(workers) != 1 or len(labels) != 1 or len(lists[workers[0]]) != len(lists[labels[0]]):
        return None
    return workers[0], labels[0]


def _flat(value: Mapping[str, Any]) -> bool:
    return not any(map(is_structured, value.values()))


def _is_time(key: str) -> bool:
    return str(key).lower() in _TIMES


def _is_label(key: Any) -> bool:
    last = _last(key)
    return last in _LABELS or re.fullmatch(r"judge?ment", last) is not None


def _last(key: Any) -> str:
    """Return the last word of a key in the singular, without an ending of identifiers."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(key))
    words = [word for word in re.findall(r"[^\W\d_]+", apart.lower()) if word not in _ENDINGS]
    return words[-1].removesuffix("s") if words and words[-1] != "class" else words[-1] if words else ""
