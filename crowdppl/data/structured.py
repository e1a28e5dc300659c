"""Cells that hold more than one plain label: lists and objects written as JSON or Python, and sets joined by a separator.

Each distinct value of a column is read once. The order in which the labels of a set are written never makes a class.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.errors import DataError, listed

Several = Literal["refuse", "join", "keep"]
CHOICES_OF_SEVERAL = ("refuse", "join", "keep")
# Separator of the labels of a set in results.
SEPARATOR = ";"
# Separators of sets in files. Two labels with the same parts in another order show that a separator is one. The first three also
# are where sets are read on request.
SEPARATORS = (";", "|", "\n", ",", "/", "+", "&")
_ALWAYS = SEPARATORS[:3]

# Keys under which tools write the answer of a choice, the most specific first.
ANSWERS = (
    *(
        "choices",
        "choice",
        "labels",
        "label",
        "rating",
        "number",
        "taxonomy",
        "selected",
        "category",
        "class",
        "option",
    ),
    *("answer", "value", "name"),
)
# Keys that name the question of an answer, where a list holds answers to several.
_QUESTIONS = ("task", "from_name", "question", "question_name", "key")
# Keys that place an answer within an item: it is a label of a span or a region, not of the item.
PARTS = frozenset(
    (
        *("start", "end", "startOffset", "endOffset", "globalOffsets", "start_offset", "end_offset", "begin", "offset"),
        *(
            "x",
            "y",
            "width",
            "height",
            "radiusX",
            "radiusY",
            "top",
            "left",
            "points",
            "vertices",
            "rle",
            "bbox",
            "mask",
        ),
        *(
            "sequence",
            "ranges",
            "instant",
            "item_index",
            "frame",
            "tool",
            "spans",
            "entities",
            "boundingBoxes",
            "polygons",
        ),
        *("keypoints", "polylines", "labeledImage", "inputImageProperties"),
    )
)
# Keys of answers that are not classes.
_NO_CLASSES = {"text": "a text", "ranker": "a ranking", "rank": "a ranking", "datetime": "a date", "box": "a region"}
# Keys that name a person, the most readable first.
_PERSON = ("email", "username", "user_name", "user", "name", "worker_id", "workerId", "user_id", "id", "_id")

_SEVERAL = "holds several answers ({}); write the one to be read in a column of its own"

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<sign>[][{}(),:])|(?P<word>[^][\s{}(),:'"]+))""",
    re.DOTALL,
)
_WRAPPED = re.compile(r"(?:array|frozenset|set|Set|List)\((.*?)(?:,\s*dtype=[^()]*)?\)", re.DOTALL)
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None, "nan": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CLOSING = {"[": "]", "{": "}", "(": ")"}
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_NUMBER = re.compile(r"-?[0-9]+([.,][0-9]+)?")
# Nesting and length beyond which a text is not read as a list.
_DEEPEST, _LONGEST = 20, 2**20


class _NoLabelError(ValueError):
    """A cell that is no choice of classes; the message completes a sentence that begins with the cell."""


def absent(value: Any) -> bool:
    """Return whether an identifier or label is not stated: null, NaN, or blank. 0 and false are stated."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def plain(value: Any) -> Any:
    """Return an identifier or label as an integer or text: whole floats become integers, other objects their text."""
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (str, int)) else str(value)


def is_structured(value: Any) -> bool:
    """Return whether a value is a list, set, array or object."""
    return isinstance(value, (list, tuple, set, frozenset, np.ndarray, Mapping))


def parsed(value: Any) -> Any:
    """Return the list, object or text that a cell is written as, in JSON or Python; other values are returned unchanged."""
    if isinstance(value, str):
        text = value.strip()
        if text[:1] not in ("[", "{", "(", '"', "a", "f", "s", "S", "L") or text[-1:] not in ("]", "}", ")", '"'):
            return value
        if len(text) > _LONGEST:
            return value
        wrapped = _WRAPPED.fullmatch(text)
        text = text if wrapped is None else wrapped[1].strip() or "[]"
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = _python(text)
        if text[:1] == "(" and not (
            isinstance(document, list) and document and all(isinstance(v, str) for v in document)
        ):
            return value  # such as (1, 2] or (none)
        return value if document is None else _normal(document)
    return _normal(value) if is_structured(value) else value


def _normal(value: Any) -> Any:
    """Return arrays, tuples and sets as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _python(text: str) -> Any:
    """Return a list, set, tuple or dict of Python or NumPy as lists and dicts, ``None`` for other text. Nothing is executed."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        tokens.append((str(match.lastgroup), match[match.lastgroup or 0]))
        at = match.end()
    stream = iter([*tokens, ("end", "")])
    try:
        value = _value(next(stream), stream, 0)
        return value if next(stream)[0] == "end" else None
    except (_NoLabelError, StopIteration):
        return None


def _value(token: tuple[str, str], stream: Iterator[tuple[str, str]], depth: int) -> Any:
    kind, text = token
    if kind == "string":
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)
    if kind == "word":
        if text in _WORDS:
            return _WORDS[text]
        try:
            return float(text) if re.search("[.eE]", text) else int(text)
        except ValueError:
            raise _NoLabelError from None
    if text not in _CLOSING or depth > _DEEPEST:
        raise _NoLabelError
    items: list[Any] = []
    keys: list[Any] = []
    # Commas are optional, as NumPy writes arrays.
    while (token := next(stream))[1] != _CLOSING[text] or token[0] != "sign":
        if token == ("sign", ","):
            continue
        if token == ("sign", ":"):
            if text != "{" or len(keys) >= len(items):
                raise _NoLabelError
            keys.append(items.pop())
            items.append(_value(next(stream), stream, depth + 1))
            continue
        items.append(_value(token, stream, depth + 1))
    if not keys:
        return {} if text == "{" and not items else items
    if len(keys) != len(items):
        raise _NoLabelError
    return dict(zip(map(str, keys), items, strict=True))


def labels_of(value: Any, depth: int = 0) -> list[Any]:
    """Return the labels that a value states: a label, a list of labels, or an object such as ``{"choices": [...]}``.

    Args:
        value: the value of a cell, see :func:`parsed`.
        depth: number of lists and objects around it.

    Raises:
        _NoLabelError: for spans, regions, texts, and answers to several questions.
    """
    value = _normal(value)
    if depth > _DEEPEST:
        raise _NoLabelError("is nested too deeply for a label")
    if isinstance(value, list):
        if any(isinstance(part, list) for part in value):
            raise _NoLabelError("is a list of lists, such as spans of text, not a choice of classes")
        for key in _QUESTIONS:
            asked = {str(part[key]) for part in value if isinstance(part, dict) and key in part}
            if len(asked) > 1:
                raise _NoLabelError(_SEVERAL.format(f"{key} {listed(sorted(asked), 6)}"))
        return [label for part in value for label in labels_of(part, depth + 1)]
    if not isinstance(value, dict):
        return [] if absent(value) else [value]
    if value and all(isinstance(chosen, bool) for chosen in value.values()):
        # A single box that is ticked or not.
        return [value["on"]] if list(value) == ["on"] else [name for name, chosen in value.items() if chosen]
    within = [key for key in value if key in PARTS]
    if within:
        raise _NoLabelError(f"is an answer to a part of the item, such as a span or region (keys {listed(within, 3)})")
    answer = next((key for key in ANSWERS if key in value), None)
    if answer == "taxonomy":
        return [" / ".join(map(str, path)) if isinstance(path, list) else path for path in value[answer] or []]
    if answer is not None:
        return labels_of(value[answer], depth + 1)
    other = next((_NO_CLASSES[key] for key in value if key in _NO_CLASSES), None)
    if other is not None:
        raise _NoLabelError(f"is {other}, not a choice of classes")
    if len(value) == 1:
        return labels_of(next(iter(value.values())), depth + 1)
    if not value:
        return []
    raise _NoLabelError(_SEVERAL.format(f"keys {listed(value, 6)}"))


def people(value: Any, depth: int = 0) -> list[Any]:
    """Return the workers that a cell names: one, or those of a list; objects are replaced by what names them."""
    value = parsed(value)
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        return [person for part in value for person in people(part, depth + 1)]
    if isinstance(value, dict):
        return people(next((value[key] for key in _PERSON if not absent(value.get(key))), None), depth + 1)
    return [] if absent(value) else [value]


def set_of(value: Any, separator: str) -> list[str] | None:
    """Return the labels of a cell that holds a set, a list or labels joined by a separator; ``None`` for a missing cell.

    Raises:
        ValueError: for objects that are no choice of classes; the message completes a sentence that begins with the cell.
    """
    document = parsed(value)
    if is_structured(document):
        return list(dict.fromkeys(str(plain(label)).strip() for label in labels_of(document)))
    if isinstance(document, str):
        return list(dict.fromkeys(part.strip() for part in document.split(separator) if part.strip()))
    return None if absent(document) or document is pd.NA else [str(plain(document))]


def single_labels(
    names: Sequence[Any], several: Several, locate: Callable[[int], str], source: str
) -> tuple[list[Any], list[str]]:
    """Return the label that each distinct value of a column states, ``None`` for none, and notes on how they were read.

    Args:
        names: distinct values: text, numbers, lists or objects.
        several: what is done with sets of labels: ``"refuse"``, ``"join"`` or ``"keep"`` their text as it is.
        locate: returns where a value occurs, by its position in ``names``.
        source: name of the column in notes.

    Raises:
        DataError: for several labels that are to be refused, and for objects that are no choice of classes.
    """
    if several == "keep":
        return [_kept(name) for name in names], []
    values = [parsed(name) for name in names]
    written = [n for n, value in enumerate(values) if is_structured(value) or value is not names[n]]
    notes: list[str] = []
    if several == "refuse" and written and all(isinstance(names[n], str) and _is_interval(values[n]) for n in written):
        notes.append(
            f"{source}: labels such as {names[written[0]]!r} are read as names of ranges; several='join' reads them as sets"
        )
        values, written = list(names), []
    sets: list[list[Any]] = []
    for n, value in enumerate(values):
        try:
            sets.append(labels_of(value))
        except _NoLabelError as reason:
            raise DataError(f"{locate(n)}: {_short(names[n])} {reason}") from None
    separators = _separators(sets, several)
    if several == "refuse":
        for separator, (first, second) in separators.items():
            raise DataError(
                f"{locate(sets.index([first]))}: {len(_split(first, separator))} labels in one annotation: {first!r} and "
                f"{second!r} are the same set. To read sets of labels, use several='join', then "
                f"crowdppl.data.label_sets.pairs; where the order matters, several='keep' leaves the text as it is"
            )
    for separator, (first, _) in separators.items():
        # Where sets are in brackets, single labels may be, too.
        clean = _bare if _bare(first) != first else str
        sets = [
            [part for label in labels for part in _split(clean(label) if isinstance(label, str) else label, separator)]
            for labels in sets
        ]
    labels = [_one(found, several, partial(locate, n)) for n, found in enumerate(sets)]
    if several == "refuse":
        notes += _possible_sets(labels, source)
    if not written and not separators:
        return list(names), notes
    examples = [f"{_short(names[n])} as {labels[n]!r}" for n in written if labels[n] is not None][:2]
    if examples:
        notes.append(
            f"{source}: {len(written):,} different lists or objects are read as labels ({', '.join(examples)})"
        )
    joined = {str(label) for label, found in zip(labels, sets, strict=True) if len(set(map(str, found))) > 1}
    if joined:
        notes.append(
            f"{source}: {len(joined):,} sets of several labels are classes, such as {listed(sorted(joined), 3)}"
        )
    return _of_one_type(labels), notes


def _one(found: list[Any], several: Several, locate: Callable[[], str]) -> Any:
    found = list(dict.fromkeys(plain(label) for label in found))
    if len(found) < 2:
        return found[0] if found else None
    if several == "refuse":
        raise DataError(
            f"{locate()}: {len(found)} labels in one annotation, {listed(found, 3)}; to read sets of labels, use "
            f"several='join', then crowdppl.data.label_sets.pairs"
        )
    return joined_set(found, locate)


def joined_set(labels: Sequence[Any], locate: Callable[[], str]) -> str:
    """Return a set of labels as one text, sorted.

    Raises:
        DataError: if a label contains the separator.
    """
    texts = sorted(str(label) for label in labels)
    ambiguous = [text for text in texts if SEPARATOR in text]
    if ambiguous:
        raise DataError(
            f"{locate()}: the label {ambiguous[0]!r} contains {SEPARATOR!r}, which separates sets; rename it"
        )
    return SEPARATOR.join(texts)


def _kept(name: Any) -> Any:
    """Return a list as text in its own order, other values unchanged."""
    if not is_structured(name):
        return name
    try:
        found = [str(plain(label)) for label in labels_of(name)]
    except _NoLabelError:
        return json.dumps(_normal(name), default=str, ensure_ascii=False)
    return SEPARATOR.join(found) or None


def _is_interval(value: Any) -> bool:
    """Return whether a value is two ascending numbers, as in ``[0, 10]``, the name of a range."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in value) and value[0] < value[1]


def _bare(label: str) -> str:
    """Return a text without the brackets around a list of words."""
    text = label.strip()
    return text[1:-1] if text[:1] in _CLOSING and text[-1:] == _CLOSING[text[:1]] else text


def _split(label: Any, separator: str) -> list[Any]:
    if not isinstance(label, str) or separator not in label:
        return [label]
    return [part.strip() for part in _bare(label).split(separator) if part.strip()]


def _separators(sets: list[list[Any]], several: Several) -> dict[str, tuple[str, str]]:
    """Return the separators of sets in a column, each with two labels that show it."""
    texts = [labels[0] for labels in sets if len(labels) == 1 and isinstance(labels[0], str)]
    shown: dict[str, tuple[str, str]] = {}
    for separator in SEPARATORS:
        composed = [text for text in texts if separator in text and len(_split(text, separator)) > 1]
        if separator in (",", "/"):  # decimals, fractions, dates
            composed = [text for text in composed if not all(map(_NUMBER.fullmatch, _split(text, separator)))]
        seen: dict[tuple[str, ...], str] = {}
        for text in composed:
            other = seen.setdefault(tuple(sorted(_split(text, separator))), text)
            if other != text:
                shown[separator] = (other, text)
                break
        alone = separator in _ALWAYS or set(texts).issuperset(p for text in composed for p in _split(text, separator))
        if several == "join" and composed and alone:
            shown.setdefault(separator, (composed[0], composed[0]))
    return shown


def _possible_sets(labels: list[Any], source: str) -> list[str]:
    """Return a note where labels are composed of other labels."""
    texts = {label for label in labels if isinstance(label, str)}
    for separator in SEPARATORS[:4]:
        composed = [text for text in sorted(texts) if len(_split(text, separator)) > 1]
        parts = set(itertools.chain.from_iterable(_split(text, separator) for text in composed))
        if composed and parts <= texts:
            return [
                f"{source}: labels that consist of other labels are classes of their own ({listed(composed, 3)}); "
                f"several='join' reads them as sets"
            ]
    return []


def _of_one_type(labels: list[Any]) -> list[Any]:
    """Return labels as integers if all are written as such, otherwise as text; ``None`` stays."""
    given = [label for label in labels if label is not None]
    if all(isinstance(label, int) and -(2**63) <= label < 2**63 for label in given):
        return labels
    if any(isinstance(label, int) for label in given) and all(_INTEGER.fullmatch(str(label)) for label in given):
        return [None if label is None else int(label) for label in labels]
    return [None if label is None else str(label) for label in labels]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(_normal(value), default=str, ensure_ascii=False)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
