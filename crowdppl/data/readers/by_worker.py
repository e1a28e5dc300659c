"""Records with an object of workers and their labels each, such as ``{"id": 1, "votes": {"w1": "x", "w2": "y"}}``."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from crowdppl.data.readers.json_kinds import in_common
from crowdppl.data.readers.worker_columns import names_a_worker, names_an_item
from crowdppl.data.readers.worker_pairs import CLASSES, words
from crowdppl.data.table.cells import absent, is_structured
from crowdppl.errors import listed

# Records by which the keys of an object are judged, and the share of keys that name workers.
_FIRST, _MOST = 1_000, 0.8
# People by their role. Students and participants may be those whose answers are labelled, and persons those in an image.
_ROLE = "(worker|annotator|ann(o|ot)?|rater|coder|labell?er|user|reviewer|reader|expert|turker|judge|crowd)"
_ROLES = re.compile(
    "(worker|annotator|rater|coder|labell?er|user|reviewer|reader|expert|turker|judge|contributor|participant|student)s"
)
# Names of workers that say so: by a role and a number, an address, or an identifier of Mechanical Turk.
_OF_ROLE = re.compile(
    rf"(?i:{_ROLE}s?[ _.:#-]?(id)?[ _.:#-]?\d+|(?!ann(o|ot)?[ _.:#-]){_ROLE}[ _.:#-](id)?[ _.:#-]?[a-z])|[^\s@]+@[^\s@]+\.[^\s@]+"
    r"|A(?=[A-Z]*\d)[0-9A-Z]{10,14}"
)
_NAMED = re.compile(rf"{_OF_ROLE.pattern}|[wW][_-]?\d+|[uU][_-]?\d+")
# Identifiers of anything, of workers where the name of the object says so.
_IDENTIFIER = re.compile(r"[+-]?\d+|(?=\w*\d)[0-9a-f]{16,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TEXT = re.compile(r"\s|://|\.(jpe?g|png|gif|txt|wav|mp[34]|pdf|json|html?)$", re.IGNORECASE)
# What is known of one worker: keys of an object that is no table of workers.
_ABOUT_ONE = (
    "id _id uid uuid name names username user_name screen_name login email role type country age gender sex language lang "
    "verified url avatar affiliation nationality education ethnicity occupation label labels"
)
ABOUT_ONE = frozenset(_ABOUT_ONE.split())
# Aspects, criteria, languages and states of an item, by which its labels may be told apart, and its parts and rounds.
_CRITERIA = re.compile(
    r"fluency|coherence|relevance|consistency|clarity|novelty|helpfulness|harmlessness|correctness|truthfulness|quality"
    r"|grammar|style|tone|accuracy|adequacy|sentiment|topic|stance|target|emotion|intent|toxicity|insult|threat|obscene|sarcasm"
    r"|humou?r|food|service|price|ambien[ct]e|location|staff|cleanliness|battery|screen|weather|scene|hair|eyes|colou?r|shape|size"
    r"|trust|fairness|safety|usability|original|revised|before|after|pre|post|old|new|first|second|third|coarse|fine|gold|truth"
    r"|pred|predicted|prediction|model|human|machine|majority|mean|min|max|count|total|en|de|fr|es|it|zh|ja|ru|pt|nl|ar|hi|ko"
    r"|english|german|french|spanish|chinese|(is|has)_\w+"
)
_PARTS = re.compile(
    r"(round|phase|stage|step|pass|version|wave|turn|run|attempt|session|part|page|line|para(graph)?|token|sent|span|aspect"
    r"|criterion|dimension|class|category|option|choice|answer|response|system|model|doc(ument)?|question|item|task)(_?\w{1,3})?"
)
# Answers by question, of one person, vary as workers do.
_OF_SURVEYS = re.compile("(answer|response)s?$")
# Keys of the item of a record, and those of a label in the object of a worker.
_IDS = ("id", "_id", "uid", "task", "item", "key", "task_id", "item_id", "name")
_SAID = re.compile("(label|value|answer|rating|category|class|vote|choice|decision|verdict|score|grade|response)s?")
# Records in which workers are seen to vary, different sets of them, and the share with the usual number of workers.
_SEVERAL, _SETS, _USUAL = 4, 3, 0.8
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
    """Return a record with a list of annotations in place of the object of workers, none in place of anything else.

    A worker with null gave no annotation.
    """
    listed_here = [
        {**value, WHO: worker} if isinstance(value, Mapping) else {WHO: worker, SAID: value}
        for worker, value in at(record, path).items()
        if isinstance(value, Mapping) or not absent(value)
    ]
    around = record if len(path) == 1 else as_object(record.get(path[0])) or {}
    held = around.get(path[-1])
    # An object of nulls, and an empty one, in Parquet an empty list, are those of an item without annotations.
    new = listed_here if isinstance(held, Mapping) or as_object(held) is not None or held == [] else None
    return {**record, path[0]: new if len(path) == 1 else {**around, path[1]: new}}


def name_people(keys: Iterable[Any]) -> bool:
    """Return whether most names are those of workers by their form: ``worker_3``, an address, or one of Mechanical Turk."""
    return _mostly(_NAMED, list(keys))


def is_of_people(name: str) -> bool:
    """Return whether a name is that of several workers: ``raters``."""
    return _ROLES.fullmatch(words(name).rpartition("_")[2]) is not None


def may_be_people(keys: Iterable[Any]) -> bool:
    """Return whether none of some names is that of an item, a class, a criterion or of what is known of one worker."""
    names = [str(key) for key in keys]
    plain = [words(name) for name in names]
    return not (
        any(map(names_an_item, names))
        or CLASSES.intersection(plain)
        or ABOUT_ONE.intersection(plain)
        or any(_CRITERIA.fullmatch(name) or _PARTS.fullmatch(name) for name in plain)
    )


def name_criteria(keys: Iterable[Any]) -> bool:
    """Return whether any of some names is that of a criterion, an aspect, a language or a state of an item, or of a class."""
    plain = [words(str(key)) for key in keys]
    return bool(CLASSES.intersection(plain)) or any(map(_CRITERIA.fullmatch, plain))


def doubt(records: Sequence[Any], path: Sequence[str]) -> str | None:
    """Return what the keys of objects may be instead of workers, ``None`` where they surely are workers.

    They are where most of them are names of workers by their form. Otherwise the labels are words that several keys have and
    several items receive, and either the name of the object says that it is of workers, or the keys vary from item to item as
    workers do. Numbers may be those of votes, and keys that all records have may be criteria, questions, languages or rounds.
    In a record for each worker the keys are items.

    Args:
        records: the records of a file.
        path: to the object.
    """
    listing = [record for record in itertools.islice(records, _FIRST) if isinstance(record, Mapping)]
    every = [held for record in listing if (held := at(record, path))]
    keys = list(dict.fromkeys(str(key) for held in every for key in held))
    if _are_workers(listing, every, keys, path[-1]):
        return None
    return (
        f"objects with the keys {listed(keys, 4)} stand under {'.'.join(path)!r}; if these are workers, name format='nested'; "
        f"if they are classes, criteria, questions or items, write a table with the columns task, worker and label"
    )


def _are_workers(
    records: Sequence[Mapping[str, Any]], every: Sequence[Mapping[str, Any]], keys: Sequence[str], name: str
) -> bool:
    ids = [[record[key] for record in records if not absent(record.get(key))] for key in _IDS]
    if _mostly(_NAMED, keys):
        return not any(_mostly(_OF_ROLE, values) for values in ids)
    if any(_mostly(_NAMED, values) for values in ids) or not may_be_people(keys) or not _share_words(every):
        return False
    if is_of_people(name):
        return True
    if any(_TEXT.search(key) or _IDENTIFIER.fullmatch(key) for key in keys):
        return False
    of_one = any(names_a_worker(str(key)) and not is_structured(value) for one in records for key, value in one.items())
    return not of_one and _OF_SURVEYS.search(words(name)) is None and _vary(every)


def _mostly(form: re.Pattern[str], names: Sequence[Any]) -> bool:
    return bool(names) and sum(form.fullmatch(str(name)) is not None for name in names) >= _MOST * len(names)


def _share_words(every: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether labels are words, none of them a key, that several keys have and several items receive."""
    answers = [(n, str(key), _said(one)) for n, held in enumerate(every) for key, one in held.items()]
    given = [(n, key, label) for n, key, label in answers if not absent(label)]
    if not all(isinstance(label, str) for *_, label in given) or all(_is_number(label) for *_, label in given):
        return False
    if {words(label) for *_, label in given}.intersection(words(key) for _, key, _ in given):
        return False
    return in_common([(key, label) for _, key, label in given]) and in_common([(str(n), said) for n, _, said in given])


def _said(value: Any) -> Any:
    """Return the label of a worker, which may stand in an object; without one the object, which is no word."""
    if not isinstance(value, Mapping):
        return value
    return next((one for key, one in value.items() if _SAID.fullmatch(words(str(key)).rpartition("_")[2])), value)


def _vary(every: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether keys vary as workers do: most items have as many, of more, and there are no more of them than items."""
    sets = [frozenset(str(key) for key, one in held.items() if not absent(one)) for held in every]
    (usual, times), *_ = Counter(map(len, sets)).most_common(1)
    different = len(frozenset().union(*sets))
    return (
        len(sets) >= _SEVERAL
        and len(set(sets)) >= _SETS
        and times >= _USUAL * len(sets)
        and 1 < usual < different <= len(sets)
    )


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+([.,]\d+)?\s*%?", text) is not None
