"""Verdicts as judges reply: in JSON, in bold, with a full stop or a word before them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.cells import absent, is_structured, plain
from crowdppl.data.table.identifiers import rows_text
from crowdppl.data.table.missing_words import PROGRAMS
from crowdppl.errors import DataError
from crowdppl.judges.coding.passing import BAD, polarity
from crowdppl.judges.coding.states import State, normalised
from crowdppl.judges.coding.thoughts import FEW, LONG, as_document, shown, without_thoughts

Array = npt.NDArray[Any]

# Keys of a reply that hold the verdict, in lower case without signs, the most specific first. What is judged may stand under the
# last ones.
_CORRECT = re.compile(r"(is)?correct|(is)?pass|passed|passes|ispassing|success|isvalid|isacceptable")
_KEYS = (
    *map(re.compile, (r"(final|overall)?verdict", r"(final|overall)?label", r"(final|overall)?judge?ment")),
    *map(re.compile, (r"(final)?decision", r"classification", r"(final|overall)?grade", r"winner")),
    _CORRECT,
    *map(
        re.compile,
        (r"(final|overall)?rating", r"(final|overall)?score", r"(final)?choice", r"result", r"(final)?answer"),
    ),
)
_LAST = len(_KEYS) - 3
_FRACTION = re.compile(r"-?\d*\.\d+")


def verdicts_in(
    column: pd.Series[Any], where: str, notes: list[str], words: dict[str, State], labels: Iterable[Any] = ()
) -> tuple[pd.Series[Any], dict[str, State]]:
    """Return a column of verdicts with the verdict of each reply in JSON: ``{"verdict": "pass", "reason": ...}``.

    Args:
        column: as in the table, ``(n,)``.
        where: location of the column, for messages.
        notes: receives what was read.
        words: normalised texts that stand for states; replies that are among them are kept as they are.
        labels: declared classes, kept as they are.

    Returns:
        The column, and ``words`` with the replies without a verdict as ``UNPARSEABLE``. If no row has a verdict, the replies are
        classes.

    Raises:
        DataError: if no row has a verdict, and the replies are objects or mostly different, so that they are no classes.
    """
    if column.dtype.kind in "biuf":
        return column, words
    column, words = without_thoughts(column, where, notes, words, labels)
    values = column.astype(object).to_numpy()
    at, replies = _replies(values)
    declared = {*words, *(normalised(label) for label in labels if isinstance(label, str))}
    stated = {key for key in replies if normalised(key) in declared}
    verdicts = _verdicts(
        {key: as_document(value) for key, value in replies.items() if key not in stated},
        {key: len(rows) for key, rows in at.items()},
    )
    if not verdicts and all(isinstance(replies[key], str) for key in stated):
        return column, words
    unread = [key for key, verdict in verdicts.items() if verdict is None]
    others = np.setdiff1d(np.flatnonzero(column.notna()), np.concatenate([*at.values()]))
    alone = not len(others)
    if len(unread) == len(verdicts) > 0 and all(_is_state(value, words) for value in [*values[others], *stated]):
        _require_classes({key: at[key] for key in unread}, replies, where, notes)
        return column, words
    out = values.copy()
    examples = []
    for key, rows in at.items():
        verdict = verdicts.get(key)
        if verdict is None:
            for row in rows:
                out[row] = key
        elif verdict is not replies[key]:
            out[rows] = verdict if alone else str(verdict)
            examples.append(f"{shown(key)!r} as {verdict!r}")
    if examples:
        notes.append(
            f"{where}: {len(examples):,} different replies in JSON are read as verdicts, such as {examples[0]}"
        )
    if unread:
        rows = sorted(row for key in unread for row in at[key])
        notes.append(
            f"{where}, {rows_text(np.array(rows))}: {len(rows):,} replies such as {shown(unread[0])!r} are lists or objects "
            f"without a verdict, and unparseable"
        )
    words = {**words, **{normalised(key): State.UNPARSEABLE for key in unread}}
    return pd.Series(out, dtype=object, index=column.index, name=column.name), words


def _is_state(value: Any, words: dict[str, State]) -> bool:
    return isinstance(value, str) and normalised(value) in ("", *words)


def _replies(values: Array) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Return the rows and the value of each different list or object, by its text."""
    at: dict[str, list[int]] = {}
    replies: dict[str, Any] = {}
    for n, value in enumerate(values):
        if is_structured(value) or (
            isinstance(value, str) and value.lstrip()[:1] in ("{", "[", "`") and value.strip() not in PROGRAMS
        ):
            key = value if isinstance(value, str) else json.dumps(value, default=str)
            at.setdefault(key, []).append(n)
            replies.setdefault(key, value)
    return at, replies


def _verdicts(documents: dict[str, Any], rows: dict[str, int]) -> dict[str, Any]:
    """Return the verdict of each reply, ``None`` without one.

    Args:
        documents: what each different reply holds.
        rows: number of rows with it.
    """
    objects = {reply: document for reply, document in documents.items() if isinstance(document, Mapping)}
    held = {reply: _held(document) for reply, document in objects.items()}
    places = _places(held, rows)
    booleans = {reply: _booleans(document) for reply, document in objects.items()}
    only = {keys[0] for keys in booleans.values() if len(keys) == 1}
    # A boolean under another key, if no reply has a key of verdicts, and they agree on it.
    boolean = only.pop() if len(only) == 1 and not any(held.values()) else None
    # Beside lists of several classes, a list of one is a set of classes, too.
    sets = any(isinstance(document, list) and len(document) > 1 for document in documents.values())
    out: dict[str, Any] = {}
    for reply, document in documents.items():
        if reply in objects:
            verdict = next((one for place in places if (one := held[reply].get(place)) is not None), None)
            out[reply] = _ticked(boolean, document[boolean]) if booleans[reply] == [boolean] else verdict
        elif isinstance(document, list):
            out[reply] = reply if sets and document else _single(document)
        else:
            out[reply] = document
    return out


def _held(document: Mapping[Any, Any]) -> dict[int, Any]:
    """Return the values of the keys of verdicts by the place of the key in :data:`_KEYS`, ``None`` where there is no verdict."""
    out: dict[int, Any] = {}
    for key, value in document.items():
        name = re.sub(r"[\s_-]", "", str(key).lower())
        place = next((n for n, pattern in enumerate(_KEYS) if pattern.fullmatch(name)), None)
        if place is not None and out.get(place) is None:
            one = _single(value)
            out[place] = one if _KEYS[place] is not _CORRECT or isinstance(one, bool) or polarity(one) else None
    return out


def _places(held: dict[str, dict[int, Any]], rows: dict[str, int]) -> list[int]:
    """Return the places in :data:`_KEYS` of the keys that hold verdicts, the most specific first.

    Texts that are long and mostly different are reasons, and a fraction beside another key is a score. A key that stands beside a
    more specific one in some reply holds something else, such as the answer that was judged, also where the other one is blank.
    """
    places: list[int] = []
    blank: set[int] = set()
    for place in range(len(_KEYS)):
        stated = {reply: keys[place] for reply, keys in held.items() if keys.get(place) is not None}
        long = [reply for reply, value in stated.items() if isinstance(value, str) and len(value) > LONG]
        different = len({stated[reply] for reply in long})
        count = sum(rows[reply] for reply in long)
        prose = different > 1 and 2 * count > sum(rows[reply] for reply in stated) and 2 * different > count
        fraction = any(isinstance(value, str) and _FRACTION.fullmatch(value) for value in stated.values())
        others = any(set(held[reply]) - {place} for reply in stated)
        before = {*places, *(blank if place >= _LAST else ())}
        beside = any(place in keys and before & set(keys) for keys in held.values())
        if not stated:
            blank.add(place)
        elif not (prose or beside or (fraction and others)):
            places.append(place)
    return places


def _booleans(document: Mapping[Any, Any]) -> list[Any]:
    return [key for key, value in document.items() if isinstance(value, bool)]


def _ticked(key: Any, value: bool) -> Any:
    """Return the verdict of a boolean: with its key, where the key names something bad, so that true does not pass."""
    return f"{key}: {value}".lower() if polarity(key) < 0 or BAD.search(str(key)) else value


def _require_classes(at: dict[str, list[int]], replies: dict[str, Any], where: str, notes: list[str]) -> None:
    """Refuse replies without verdicts that are no classes: objects, and texts that are mostly different."""
    rows = sum(map(len, at.values()))
    few = 2 * len(at) <= rows or (len(at) <= FEW and all(len(key) <= LONG for key in at))
    key = next(iter(at))
    if not few or not all(isinstance(replies[key], str) for key in at):
        raise DataError(
            f"{where}, {rows_text(np.array(at[key]))}: {shown(key)!r} is a list or object without a verdict, as are all others; "
            f"write the verdict in a column of its own"
        )
    notes.append(f"{where}: no list or object has a verdict, such as {shown(key)!r}; each different one is a class")


def _single(value: Any) -> Any:
    """Return a verdict as a text, a number or a boolean; that of a list of one, and ``None`` for others."""
    if isinstance(value, list) and len(value) == 1:
        return _single(value[0])
    if is_structured(value) or absent(value):
        return None
    return value if isinstance(value, bool) else plain(value)
