"""JSON of no tool in particular: items with annotations each, in a list, in two lists, or in an object of workers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crowdppl.data.readers import by_worker
from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.records import Choices, Records, choose
from crowdppl.data.readers.rows import Rows, flat, items_of
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.two_lists import of_two_lists
from crowdppl.data.table.cells import absent, is_structured
from crowdppl.errors import listed

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
        *("participant", "email"),
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
# Names of lists of texts with their writers: a value or a score of one is no label of a worker.
_TEXTS = frozenset(
    ("message", "comment", "reply", "replie", "post", "turn", "conversation", "history", "chat", "dialog", "dialogue")
)
# Words of an answer that is a text, at least.
_WORDS = 8
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
# Those of them that may be identifiers of annotations.
_OWN, _IDENTIFIER = ("id", "uid", "uuid", "_id", "key"), re.compile(r"(?:\b|_)(?:id|ID)$|(?<=[a-z])I[dD]$")
_TIMES = ("timestamp", "created_at", "submitted_at", "updated_at", "time", "date")
# Records with lists among which one with annotations is looked for.
_FIRST = 1_000
# Marks of work that is not to count, by keys of their own or as a status, and their values.
_TAINTED, _SKIPPED = ("tainted", "rejected"), ("skipped",)
_STATUS, _YES = ("status", "state"), ("true", "yes", "1")


class _Place(NamedTuple):
    """Where annotations stand in a record: ``path`` to the list, and keys of an annotation's worker and label.

    ``labels`` is empty where labels are in an object with a key for each question, at ``answers``. ``keys`` says that workers
    are the keys of an object.
    """

    path: tuple[str, ...]
    worker: str
    labels: tuple[str, ...]
    answers: str = ""
    keys: bool = False


def is_nested(record: Mapping[str, Any]) -> bool:
    """Recognise a record with one list of annotations, a list of workers beside one of labels, or an object of both."""
    if not _is_item(record):
        return False
    places = _places(record)
    if len(places) == 1:
        return not _names_items(_annotations(record, places[0].path), False)
    return _parallel(record) is not None or by_workers([record], sure=False) is not None


def _is_item(record: Mapping[str, Any]) -> bool:
    """Return whether a record is one of an item: without one it is an object around a table, with a label a row of one."""
    plain = [key for key, value in record.items() if not is_structured(value)]
    if long_names(record) or not any(name in plain for name in _ITEMS):
        return False
    return not (any(_last(key) in _WORKERS for key in plain) and any(map(_is_label, plain)))


def by_workers(records: Sequence[Any], *, sure: bool = True) -> tuple[str, ...] | None:
    """Return the path to the objects of workers and their labels in records of items, ``None`` if there are none.

    Args:
        records: the records of a file.
        sure: whether the keys are surely workers, see :func:`crowdppl.data.readers.by_worker.doubt`.
    """
    first = next((record for record in records[:_FIRST] if isinstance(record, dict) and _paths(record)), None)
    if first is None or not _is_item(first) or len(paths := _paths(first)) != 1:
        return None
    return paths[0] if not sure or by_worker.doubt(records, paths[0]) is None else None


def _paths(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the paths to objects that are named as labels or workers, and hold a label for each key."""
    return [
        path
        for path, held in by_worker.objects(record)
        if (_is_label(path[-1]) or (by_worker.is_of_people(path[-1]) and not any(map(_is_plain_label, record.items()))))
        and not by_worker.ABOUT_ONE.intersection(str(key).lower() for key in held)
        and not any(_in_words(one) for one in held.values())
        and (not _objects(held) or any(map(_is_label, next(iter(held.values())))))
    ]


def _is_plain_label(field: tuple[str, Any]) -> bool:
    return _is_label(field[0]) and not is_structured(field[1])


def _objects(held: Mapping[str, Any]) -> bool:
    return all(isinstance(one, Mapping) for one in held.values())


def sample(records: Sequence[Any], columns: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the first record with annotations, as some items may have none; ``None`` without one.

    An only record may be an object around the records of a table. It is one if these have identifiers of their own, or the
    columns that the caller named.

    Args:
        records: the records of a file.
        columns: names of columns that the caller gave.
    """
    listing = itertools.islice(
        (record for record in records if isinstance(record, dict) and _has_lists(record)), _FIRST
    )
    first = next(filter(is_nested, listing), None)
    if first is not None and not _places(first) and _parallel(first) is None:
        return first if by_workers(records) is not None else None
    if first is None or len(records) > 1 or not (places := _places(first)):
        return first
    annotations = _annotations(first, places[0].path)
    keys = {str(key) for one in annotations for key in one}
    of_table = _names_items(annotations, True) or (columns and set(columns) <= keys)
    return None if of_table else first


def _has_lists(record: Mapping[str, Any]) -> bool:
    """Return whether a record may have annotations by what is in it: an object, a list of objects, or two lists."""
    lists = 0
    for value in record.values():
        if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], (dict, tuple))):
            return True
        lists += isinstance(value, list) and bool(value)
    return lists > 1


def with_annotations(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the first record that has annotations, where the caller knows that some have; without one an empty one."""
    first = next((record for record in records if len(_places(record)) == 1 or _parallel(record) is not None), {})
    path = None if first else by_workers(records, sure=False)
    return next(record for record in records if by_worker.at(record, path)) if path else first


def nested(file: SourceFile, choices: Choices) -> Records:
    """Read records with a list of annotations each, a list of workers beside a list of labels, or an object of workers.

    The item is the identifier of the record, otherwise its number.
    """
    records = file.records
    first = with_annotations(records)
    names = [name for name in _ITEMS if name in first]
    tasks = items_of(records, names, file.name, within=file.within)
    parallel = _parallel(first)
    if parallel is not None:
        rows = of_two_lists(file, choices, tasks, parallel)
    elif places := _places(first):
        rows = _of_lists(file.name, records, choices, tasks, places[0])
    else:
        (path,) = _paths(first)
        lists = [by_worker.as_list(record, path) for record in records]
        keys = dict.fromkeys(key for one in _annotations(by_worker.as_list(first, path), path) for key in one)
        said = tuple(key for key in keys if key != by_worker.WHO and _is_label(key) and not _is_time(key))
        rows = _of_lists(file.name, lists, choices, tasks, _Place(path, by_worker.WHO, said, keys=True))
    table = flat(records, ("data", "meta", "metadata"))
    return rows.finish("items with annotations", table, ["text"], [*names, "record"][0])


def _of_lists(
    source: str, records: Sequence[Mapping[str, Any]], choices: Choices, tasks: Sequence[Any], place: _Place
) -> Rows:
    every = [annotation for record in records for annotation in _annotations(record, place.path)]
    question = None
    if place.answers:
        asked = dict.fromkeys(str(key) for one in every for key in _mapping(one.get(place.answers)))
        question = choose(list(asked), choices, source)
    elif choices.question is not None or len(place.labels) > 1:
        question = choose(list(place.labels), choices, source)
    rows = Rows(source, choices, question)
    under = ".".join(place.path)
    for n, (record, task) in enumerate(zip(records, tasks, strict=True)):
        held = _at(record, place.path)
        if not isinstance(held, list):
            kind = "object" if place.keys else "list"
            rows.note(f"{{}} records have no {kind} under {under!r}, and no annotations")
            continue
        for k, annotation in enumerate(held):
            if not isinstance(annotation, Mapping):
                rows.drop("that are no objects")
                continue
            marks = _marks(annotation)
            mark = next((mark for mark in _TAINTED if mark in marks), None)
            if mark is not None and not choices.rejected:
                rows.drop(f"that are marked as {mark}")
                continue
            if marks.intersection(_SKIPPED):
                rows.skip(
                    task, _name(annotation.get(place.worker)), "that were skipped", where=f"record {n + 1}", record=n
                )
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
    if place.keys:
        keys = dict.fromkeys(str(one[place.worker]) for one in every)
        # Forms of names say that they are of people; other ones may be of anything that varies.
        advice = "" if by_worker.name_people(keys) else "; if they are criteria or items, write a table"
        rows.note(
            f"annotations stand under {under!r}, objects whose keys, {listed(keys, 3)}, are read as workers{advice}"
        )
        return rows
    rows.note(f"annotations stand under {under!r}, with their workers in {place.worker!r} and their labels in {said!r}")
    return rows


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _name(worker: Any) -> Any:
    """Return the name of a worker, which may be an object with an identifier."""
    if not isinstance(worker, Mapping):
        return worker
    return next((worker[key] for key in ("id", "username", "email", "name") if not absent(worker.get(key))), None)


def _marks(annotation: Mapping[str, Any]) -> set[str]:
    """Return the marks of an annotation that is not to count, of keys that are true, or of its status."""
    out = {str(annotation[key]).strip().lower() for key in _STATUS if key in annotation}
    return out | {
        mark for mark in (*_TAINTED, *_SKIPPED) if mark in annotation and str(annotation[mark]).strip().lower() in _YES
    }


def _at(record: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = record
    for key in path:
        value = _mapping(value).get(key)
    return value


def _names_items(annotations: Sequence[Mapping[str, Any]], alone: bool) -> bool:
    """Return whether annotations have different items by a key of their own, as the rows of a table have.

    Args:
        annotations: those of a record.
        alone: whether no other record has any; otherwise identifiers may be those of annotations.
    """
    for key in dict.fromkeys(key for one in annotations for key in one):
        of_item = str(key).lower() in _ITEMS and (alone or key not in _OWN)
        identifier = alone and _IDENTIFIER.search(str(key)) is not None and _last(key) not in _WORKERS
        if (of_item or identifier) and len({str(one.get(key)) for one in annotations}) > 1:
            return True
    return False


def _annotations(record: Mapping[str, Any], path: Sequence[str]) -> list[Mapping[str, Any]]:
    value = _at(record, path)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _places(record: Mapping[str, Any]) -> list[_Place]:
    """Return where annotations stand in a record."""
    out = []
    for path in _lists(record):
        if _last(path[-1]) in _TEXTS:
            continue
        annotations = _annotations(record, path)
        keys = dict.fromkeys(key for one in annotations for key in one)
        workers = [
            key
            for key in keys
            if _last(key) in _WORKERS and not all(absent(_name(one.get(key))) for one in annotations)
        ]
        if len(workers) != 1 or long_names(keys) or {str(key).lower() for key in keys} & _PARTS:
            continue
        said = [key for key in keys if _is_label(key) and key not in workers and not _is_time(key)]
        said = [key for key in said if not any(_in_words(one.get(key)) for one in annotations)]
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


def _in_words(answer: Any) -> bool:
    """Return whether an answer is a text of its own rather than a class."""
    return isinstance(answer, str) and len(answer.split()) >= _WORDS


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
