"""Cells that hold lists and objects, written as JSON or Python: the labels that they state, and the workers that they name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import listed

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
IDENTIFIERS = ("worker_id", "workerId", "user_id", "id", "_id")
_PERSON = ("email", "username", "user_name", "user", "name", *IDENTIFIERS)

_SEVERAL = "holds several answers ({}); write the one to be read in a column of its own"

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<sign>[][{}(),:])|(?P<word>[^][\s{}(),:'"]+))""",
    re.DOTALL,
)
_WRAPPED = re.compile(r"(?P<kind>array|frozenset|set|Set|List|list|c)\((.*?)(?:,\s*dtype=[^()]*)?\)", re.DOTALL)
# One value as Python, NumPy and PyTorch write it: b'cat', np.int64(1), np.str_('cat'), tensor(1).
_SCALAR = re.compile(
    r"""(?:b(?P<bytes>'[^'\\]*'|"[^"\\]*")|(?:(?:np|numpy)\.\w+|tensor)\((?P<value>'[^'\\]*'|"[^"\\]*"|[^\s'"()\[\],]+)(?:,\s*\w+=[^()\[\]]*)?\))""",
)
# Lists as R writes them.
_OF_R = ("c", "list")
_QUOTE = re.compile("[\"']")
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None, "nan": None}
# The beginning of a list of texts, or of an object.
_BEGIN = re.compile(r"\s*[\[{]+\s*[\"']")
_SCALARS = ("b", "n", "t")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
BRACKETS = {"[": "]", "{": "}", "(": ")"}
# Nesting and length beyond which a text is not read as a list.
_DEEPEST, _LONGEST = 20, 2**20


class NoLabelError(ValueError):
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


def parsed(value: Any, *, of_r: bool = False) -> Any:
    """Return the list, object or text that a cell is written as, in JSON or Python; other values are returned unchanged.

    Args:
        value: the cell.
        of_r: whether R's ``c(...)`` and ``list(...)`` are lists whatever they hold; otherwise only with a member in quotes, since
            ``c(1)`` may be the name of a label.
    """
    if isinstance(value, str):
        text = value.strip()
        if text[:1] in _SCALARS and (scalar := _SCALAR.fullmatch(text)):
            inner = scalar["bytes"] or scalar["value"]
            return inner[1:-1] if inner[0] in "'\"" else _number(inner)
        if text[:1] not in ("[", "{", "(", '"', *"afsSLlc") or text[-1:] not in ("]", "}", ")", '"'):
            return value
        if len(text) > _LONGEST:
            return value
        wrapped = _WRAPPED.fullmatch(text)
        if wrapped is not None and wrapped["kind"] in _OF_R:  # without brackets
            if not of_r and not _QUOTE.search(wrapped[2]):
                return value
            text = f"[{wrapped[2]}]"
        elif wrapped is not None:
            text = wrapped[2].strip() or "[]"
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = _python(text)
        if text[:1] == "(" and not (
            _weighted(document)
            or (isinstance(document, list) and document and all(isinstance(v, str) for v in document))
        ):
            return value  # such as (1, 2] or (none)
        if isinstance(document, str) and document[:1] in ("[", "{") and document != value:
            return parsed(document)  # JSON that was written as JSON again
        return value if document is None else normal(document)
    return normal(value) if is_structured(value) else value


def parsed_column(values: Sequence[Any]) -> list[Any]:
    """Return the cells of a column as :func:`parsed` does; what is none by itself may be a list beside others.

    ``c(1)`` is a list where all cells are written so, and one of them has a comma or quotes. ``()`` is the
    empty one beside lists.
    """
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
    wrapped = [_WRAPPED.fullmatch(text) for text in texts if text[:1] in ("c", "l")]
    members = [match[2] for match in wrapped if match is not None and match["kind"] in _OF_R]
    of_r = 0 < len(members) == len(texts) and any("," in text or _QUOTE.search(text) for text in members)
    out = [parsed(value, of_r=of_r) for value in values]
    if "()" in texts and any(map(is_structured, out)):
        out = [[] if isinstance(value, str) and value.strip() == "()" else value for value in out]
    return out


def begins_as_list(text: str) -> bool:
    """Return whether a text begins as a list of texts or an object, and has no end."""
    return _BEGIN.match(text) is not None and text.rstrip()[-1:] not in ("]", "}")


def cut_off(text: str) -> bool:
    """Return whether a text begins as a list and has more opening brackets than closing ones: programs shorten long cells."""
    opening, closing = (sum(map(text.count, signs)) for signs in ("[{", "]}"))
    return begins_as_list(text) and opening > closing


def _weighted(value: Any) -> bool:
    """Return whether a value is a label with a number, such as its probability."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], float)
        and 0 <= value[1] <= 1
    )


def normal(value: Any) -> Any:
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
    except (NoLabelError, StopIteration):
        return None


def _number(text: str) -> Any:
    """Return a number, or another text as it is."""
    try:
        return float(text) if re.search("[.eE]", text) else int(text)
    except ValueError:
        return text


def _value(token: tuple[str, str], stream: Iterator[tuple[str, str]], depth: int) -> Any:
    kind, text = token
    if kind == "string":
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)
    if kind == "word":
        if text in _WORDS:
            return _WORDS[text]
        number = _number(text)
        if isinstance(number, str):
            raise NoLabelError
        return number
    if text not in BRACKETS or depth > _DEEPEST:
        raise NoLabelError
    items: list[Any] = []
    keys: list[Any] = []
    # Commas are optional, as NumPy writes arrays.
    while (token := next(stream))[1] != BRACKETS[text] or token[0] != "sign":
        if token == ("sign", ","):
            continue
        if token == ("sign", ":"):
            if text != "{" or len(keys) >= len(items):
                raise NoLabelError
            keys.append(items.pop())
            items.append(_value(next(stream), stream, depth + 1))
            continue
        items.append(_value(token, stream, depth + 1))
    if not keys:
        return {} if text == "{" and not items else items
    if len(keys) != len(items):
        raise NoLabelError
    return dict(zip(map(str, keys), items, strict=True))


def labels_of(value: Any, depth: int = 0) -> list[Any]:
    """Return the labels that a value states: a label, a list of labels, or an object such as ``{"choices": [...]}``.

    Args:
        value: the value of a cell, see :func:`parsed`.
        depth: number of lists and objects around it.

    Raises:
        NoLabelError: for spans, regions, texts, and answers to several questions.
    """
    value = normal(value)
    if depth > _DEEPEST:
        raise NoLabelError("is nested too deeply for a label")
    if isinstance(value, list):
        if _weighted(value):
            raise NoLabelError(
                "is a label with a number, such as its probability; write the label in a column of its own"
            )
        if any(isinstance(part, list) for part in value):
            raise NoLabelError("is a list of lists, such as spans of text, not a choice of classes")
        for key in _QUESTIONS:
            asked = {str(part[key]) for part in value if isinstance(part, dict) and key in part}
            if len(asked) > 1:
                raise NoLabelError(_SEVERAL.format(f"{key} {listed(sorted(asked), 6)}"))
        return [label for part in value for label in labels_of(part, depth + 1)]
    if not isinstance(value, dict):
        return [] if absent(value) else [value]
    if value and all(isinstance(chosen, bool) for chosen in value.values()):
        # A single box that is ticked or not.
        return [value["on"]] if list(value) == ["on"] else [name for name, chosen in value.items() if chosen]
    within = [key for key in value if key in PARTS]
    if within:
        raise NoLabelError(f"is an answer to a part of the item, such as a span or region (keys {listed(within, 3)})")
    answer = next((key for key in ANSWERS if key in value), None)
    if answer == "taxonomy":
        return [" / ".join(map(str, path)) if isinstance(path, list) else path for path in value[answer] or []]
    if answer is not None:
        return labels_of(value[answer], depth + 1)
    other = next((_NO_CLASSES[key] for key in value if key in _NO_CLASSES), None)
    if other is not None:
        raise NoLabelError(f"is {other}, not a choice of classes")
    if len(value) == 1:
        return labels_of(next(iter(value.values())), depth + 1)
    if not value:
        return []
    raise NoLabelError(_SEVERAL.format(f"keys {listed(value, 6)}"))


def people(value: Any, depth: int = 0) -> list[Any]:
    """Return the workers that a cell names: one, or those of a list; objects are replaced by what names them."""
    value = parsed(value)
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        return [person for part in value for person in people(part, depth + 1)]
    if isinstance(value, dict):
        return people(value.get(person_key(value)), depth + 1)
    return [] if absent(value) else [value]


def person_key(person: Mapping[str, Any]) -> str | None:
    """Return the key of an object that names a person, ``None`` if it has none."""
    return next((key for key in _PERSON if not absent(person.get(key))), None)


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
