"""JSON in which the records of a known format stand deeper, under the names of items, or under those of workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crowdppl.data.readers import by_worker
from crowdppl.data.readers.joined_tables import PART_OF_DATA
from crowdppl.data.readers.json_tables import long_names
from crowdppl.data.readers.worker_columns import names_a_worker
from crowdppl.data.table.cells import absent, is_structured
from crowdppl.data.table.columns import ITEM_COLUMNS, LABEL_COLUMNS, WORKER_COLUMNS
from crowdppl.errors import listed

# Objects around a list at most, and records by which a form is recognised.
_DEEPEST, _FIRST = 4, 100
# Names of the item of an answer of a worker, of the label, and of the list or object of answers.
_ITEM = (*ITEM_COLUMNS, "task_id", "item_id", "id", "example_id", "image", "text_id")
_LABEL = (*LABEL_COLUMNS, "answer", "rating", "category", "response", "vote", "verdict")
_ANSWERS = ("labels", "answers", "annotations", "ratings", "responses", "votes")


class Records(NamedTuple):
    """The records of a document, and where they stand, in words; ``table`` says that each is one annotation."""

    records: list[Any]
    where: str
    table: bool = False


def records_in(document: Any) -> Iterator[Records]:
    """Yield what may be the records of a document that has none at the top, each in one of the forms of this module."""
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if isinstance(document, Mapping):
        yield from _deeper(document)
        yield from _under_items(document)
    yield from _of_workers(document)


def _deeper(document: Mapping[str, Any]) -> Iterator[Records]:
    """Yield the only list of objects in nested objects, and the rows of the viewer of Hugging Face."""
    lists = list(_lists(document, ()))
    if len(lists) != 1:
        return
    path, records = lists[0]
    where = f"records stand under {'.'.join(path)!r}"
    if all(isinstance(record.get("row"), Mapping) for record in records):
        records = [record["row"] for record in records]
    yield Records(records, where)


def _lists(value: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    for key, held in value.items():
        if isinstance(held, list) and held and all(isinstance(one, Mapping) for one in held):
            yield (*path, str(key)), held
        elif isinstance(held, Mapping) and len(path) < _DEEPEST:
            yield from _lists(held, (*path, str(key)))


def _under_items(document: Mapping[str, Any]) -> Iterator[Records]:
    """Yield objects under the names of items as records: ``{"a.jpg": {"votes": ...}}``."""
    if len(document) < 2 or not all(isinstance(one, Mapping) and one for one in document.values()):
        return
    if any(not absent(one.get("id")) for one in document.values()):
        return
    yield Records([{"id": key, **one} for key, one in document.items()], "the names of items are keys of an object")


def _of_workers(document: Any, around: str = "") -> Iterator[Records]:
    """Yield the answers of each worker as rows: under the name of the worker, or in an object that names one.

    Args:
        document: the document.
        around: the only key of the object around it.
    """
    if isinstance(document, Mapping):
        named = [(name, held) for name, held in document.items() if isinstance(held, list)]
        if len(named) == len(document) > 1 and _are_workers(document, around):
            said = f"the names of workers are keys of an object: {listed(document, 3)}"
            yield from _rows(named, said)
        if len(document) == 1:
            ((name, inner),) = document.items()
            yield from _of_workers(inner, str(name))
        return
    if not isinstance(document, list) or len(document) < 2 or not all(isinstance(one, Mapping) for one in document):
        return
    first = document[0]
    plain = [key for key, value in first.items() if not is_structured(value)]
    who = [key for key in plain if names_a_worker(str(key))]
    if not who and "name" in plain and _are_workers([one.get("name") for one in document], around):
        who = ["name"]
    held = [key for key in first if str(key).lower() in _ANSWERS and is_structured(first[key])]
    if len(who) == len(held) == 1 and not any(key in plain for key in _ITEM[:4]):
        yield from _rows(
            [(one.get(who[0]), one.get(held[0])) for one in document], f"each record is of a worker, {who[0]!r}"
        )


def _are_workers(names: Collection[Any], around: str) -> bool:
    """Return whether names are those of workers, by their form or by the name of the object around them.

    Other ones may be documents with numbered parts, items with scores of classes, or criteria.
    """
    return by_worker.name_people(names) or (by_worker.is_of_people(around) and by_worker.may_be_people(names))


def in_lists(document: Any) -> str | None:
    """Return what the keys of an object of lists with labels may be instead of workers, ``None`` for other documents."""
    if not isinstance(document, Mapping):
        return None
    if len(document) == 1 and isinstance(inner := next(iter(document.values())), Mapping):
        document = inner
    rows = [one for held in document.values() if isinstance(held, list) for one in held]
    if len(document) < 2 or not all(map(bool, document.values())) or not rows:
        return None
    if not all(isinstance(held, list) for held in document.values()) or not all(
        isinstance(one, Mapping) for one in rows
    ):
        return None
    if not any(key in rows[0] for key in _LABEL) or not any(key in rows[0] for key in _ITEM):
        return None
    return (
        f"lists of labels stand under the keys {listed(document, 4)}; if these are workers, items, classes or criteria, write a "
        f"table with the columns task, worker and label"
    )


def _rows(answers: list[tuple[Any, Any]], where: str) -> Iterator[Records]:
    """Yield a row for each answer of workers, in a list of objects or an object by item."""
    rows = []
    lists = []
    for worker, held in answers:
        if isinstance(held, Mapping) and not any(map(is_structured, held.values())):
            if by_worker.name_criteria(held):
                return
            held = [{"task": item, "label": label} for item, label in held.items() if not absent(label)]
        if absent(worker) or not isinstance(held, list):
            return
        rows += [(worker, one) for one in held]
        lists.append([one.get("id") for one in held if isinstance(one, Mapping)])
    if not rows or not all(isinstance(one, Mapping) for _, one in rows):
        return
    names = rows[0][1]
    item, label = (next((key for key in usual if key in names), None) for usual in (_ITEM, _LABEL))
    if item is None or label is None or long_names(names) or any(names_a_worker(str(key)) for key in names):
        return
    if item == "id" and _are_positions(lists):
        # They number the answers of a worker: another key names the items, or if workers have as many answers each, the position.
        others = [key for key in (*_ITEM, "text", "sentence") if key != "id" and key in names]
        if not others and len(set(map(len, lists))) > 1:
            return
        item = others[0] if others else item
    # Most items have several workers, and one worker gives them one label each, as parts of data have no items in common.
    workers: dict[str, set[str]] = defaultdict(set)
    for worker, one in rows:
        workers[str(one.get(item))].add(str(worker))
    names_of_parts = all(PART_OF_DATA.fullmatch(str(worker)) for worker, _ in answers)
    if names_of_parts or 2 * sum(len(one) > 1 for one in workers.values()) < len(workers):
        return
    others = [key for key in names if key not in (item, label, *ITEM_COLUMNS, *WORKER_COLUMNS, *LABEL_COLUMNS)]
    yield Records(
        [
            {"task": one.get(item), "worker": worker, "label": one.get(label), **{key: one.get(key) for key in others}}
            for worker, one in rows
        ],
        where,
        table=True,
    )


def _are_positions(lists: Sequence[Sequence[Any]]) -> bool:
    """Return whether identifiers are positions in lists, which start again in each."""
    numbers = [[str(one) for one in held] for held in lists]
    return any(all(held == [str(n + start) for n in range(len(held))] for held in numbers) for start in (0, 1))
