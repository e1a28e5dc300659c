"""Records with an object of workers and their labels each, such as ``{"id": 1, "votes": {"ann": "x", "bob": "y"}}``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crowdppl.data.readers.json_kinds import in_common
from crowdppl.data.readers.worker_columns import names_an_item
from crowdppl.data.readers.worker_pairs import CLASSES, words
from crowdppl.data.table.cells import absent, is_structured
from crowdppl.errors import listed

# Records by which the keys of an object are judged, and the share of keys that name workers.
_FIRST, _MOST = 1_000, 0.8
# Names of workers that say so: by a role and a number, an address, or an identifier of Mechanical Turk.
_ROLE = (
    "(worker|annotator|rater|coder|labell?er|user|reviewer|reader|expert|person|participant|turker|judge|student|crowd)"
)
_NAMED = re.compile(
    rf"{_ROLE}s?[ _.:#-]?(id)?[ _.:#-]?(\d+|[a-z])|[wu][_-]?\d+|[^\s@]+@[^\s@]+|A[0-9A-Z]{{10,14}}", re.IGNORECASE
)
_WORKER = re.compile(_ROLE)
# Keys of an answer in the object of a worker, and the name under which a worker is read.
WHO, SAID = "worker", "label"


def objects(record: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the paths to objects of plain values, or of objects of plain values, in a record and in the objects in it."""
    for key, value in record.items():
        held = as_object(value)
        if held is None:
            continue
        if _is_flat(held) or all(isinstance(one, Mapping) and _is_flat(one) for one in held.values()):
            yield (key,), held
        for inner, one in held.items():
            below = as_object(one)
            if below is not None and _is_flat(below):
                yield (key, inner), below


def as_object(value: Any) -> Mapping[str, Any] | None:
    """Return a value as an object with content; pairs of a map in Parquet are one."""
    if isinstance(value, list) and value and all(isinstance(one, tuple) and len(one) == 2 for one in value):
        value = {str(key): held for key, held in value}
    return value if isinstance(value, Mapping) and any(not absent(held) for held in value.values()) else None


def _is_flat(value: Mapping[str, Any]) -> bool:
    return not any(map(is_structured, value.values()))


def at(record: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    """Return the object at a path, empty if there is none."""
    value: Any = record
    for key in path:
        value = (as_object(value) or {}).get(key)
    return as_object(value) or {}


def as_list(record: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return a record with a list of annotations in place of the object of workers; null is no annotation."""
    listed_here = [
        {**value, WHO: worker} if isinstance(value, Mapping) else {WHO: worker, SAID: value}
        for worker, value in at(record, path).items()
        if isinstance(value, Mapping) or not absent(value)
    ]
    if len(path) == 1:
        return {**record, path[0]: listed_here}
    return {**record, path[0]: {**(as_object(record.get(path[0])) or {}), path[1]: listed_here}}


def doubt(records: Sequence[Mapping[str, Any]], path: Sequence[str]) -> str | None:
    """Return what the keys of objects may be instead of workers, ``None`` where they surely are workers.

    They are where the name of the object says so, where most of them are names of workers, or where the labels are words that
    several of them give, and that several items receive. Numbers may be those of votes, or grades by several criteria.

    Args:
        records: the records of a file.
        path: to the object.
    """
    every = [held for record in itertools.islice(records, _FIRST) if (held := at(record, path))]
    keys = list(dict.fromkeys(str(key) for held in every for key in held))
    if _WORKER.search(words(path[-1])) or sum(map(bool, map(_NAMED.fullmatch, keys))) >= _MOST * len(keys):
        return None
    values = [one for held in every for one in held.values() if not absent(one)]
    if all(isinstance(one, Mapping) for one in values) and not CLASSES.issuperset(map(words, keys)):
        return None
    cells = [(n, str(key), one) for n, held in enumerate(every) for key, one in held.items() if isinstance(one, str)]
    of_words = len(cells) == len(values) and not all(_is_number(label) for *_, label in cells)
    others = CLASSES.union(words(label) for *_, label in cells) if of_words else CLASSES
    if (
        of_words
        and not others.intersection(map(words, keys))
        and not any(map(names_an_item, keys))
        and in_common([(key, label) for _, key, label in cells])
        and in_common([(str(n), label) for n, _, label in cells])
    ):
        return None
    return (
        f"objects with the keys {listed(keys, 4)} stand under {'.'.join(path)!r}; if these are workers, name format='nested'; "
        f"if they are classes, criteria or questions, write a table with the columns task, worker and label"
    )


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+([.,]\d+)?\s*%?", text) is not None
