"""Columns with several labels in a cell, lists or sets joined by a separator: the one label of each distinct value.

The order in which the labels of a set are written never makes a class.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from crowdppl.data.table.cells import (
    BRACKETS,
    NoLabelError,
    absent,
    begins_as_list,
    cut_off,
    is_structured,
    labels_of,
    normal,
    parsed_column,
    plain,
)
from crowdppl.errors import DataError, listed

Several = Literal["refuse", "join", "keep", "sets"]
CHOICES_OF_SEVERAL = ("refuse", "join", "keep", "sets")
# The empty set, as a class.
EMPTY = "(none)"
# Separator of the labels of a set in results.
SEPARATOR = ";"
# Separators of sets in files: two labels with the same parts in another order show that one is used. Sets that are to be joined
# are split by the first three anyway.
SEPARATORS = (";", "|", "\n", ",", "/", "+", "&")
_ALWAYS = SEPARATORS[:3]
# Words between the labels of a set: they may be part of a label, and are asked about.
_AND = (" and ", " und ", " et ")
# What stands for separators within a label, while sets are joined to text: characters for private use.
_PROTECTED = {ord(separator): chr(0xE000 + n) for n, separator in enumerate(SEPARATORS)}
_RESTORED = {ord(own): chr(separator) for separator, own in _PROTECTED.items()}
# By how much rounded probabilities may not sum to one.
_ROUNDED = 0.02
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_NUMBER = re.compile(r"-?[0-9]+([.,][0-9]+)?")


def protected(label: Any) -> str:
    """Return a label of a list as text that is not split where sets are joined; :func:`restored` undoes it."""
    return str(plain(label)).strip().translate(_PROTECTED)


def restored(label: str) -> str:
    """Return the label that :func:`protected` has changed."""
    return label.translate(_RESTORED)


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
    as_sets = several == "sets"
    several = "join" if as_sets else several
    values = _ticked(parsed_column(names))
    notes = _begun(names, values, locate, source)
    written = [n for n, value in enumerate(values) if is_structured(value) or value is not names[n]]
    refuse_vectors(values, locate)
    if several == "refuse" and written and all(isinstance(names[n], str) and _is_interval(values[n]) for n in written):
        notes.append(
            f"{source}: labels such as {names[written[0]]!r} are read as names of ranges; several='sets' reads them as sets"
        )
        values, written = list(names), []
    sets: list[list[Any]] = []
    for n, value in enumerate(values):
        try:
            sets.append(labels_of(value))
        except NoLabelError as reason:
            raise DataError(f"{locate(n)}: {_short(names[n])} {reason}") from None
    if as_sets:  # the labels of lists are not cut
        for n in written:
            sets[n] = [protected(label) for label in sets[n]]
    separators = _separators(sets, several)
    if several == "refuse":
        for separator, (first, second) in separators.items():
            raise DataError(
                f"{locate(sets.index([first]))}: {len(_split(first, separator))} labels in one annotation: {first!r} and "
                f"{second!r} are the same set. To read sets of labels, use several='sets'; "
                f"where the order matters, several='keep' leaves the text as it is"
            )
    for separator, (first, _) in separators.items():
        # Where sets are in brackets, single labels may be, too.
        clean = _bare if _bare(first) != first else str
        sets = [
            [part for label in labels for part in _split(clean(label) if isinstance(label, str) else label, separator)]
            for labels in sets
        ]
    labels = [_one(members, several, partial(locate, n)) for n, members in enumerate(sets)]
    if as_sets:
        labels = [
            EMPTY if is_structured(value) and label is None else label
            for value, label in zip(values, labels, strict=True)
        ]
    if several == "refuse":
        notes += _possible_sets(labels, source)
    if not written and not separators:
        return list(names), notes
    return _of_one_type(labels), [*notes, *_as_read(names, written, labels, sets, source, as_sets=as_sets)]


def _as_read(
    names: Sequence[Any],
    written: Sequence[int],
    labels: Sequence[Any],
    sets: Sequence[Sequence[Any]],
    source: str,
    *,
    as_sets: bool,
) -> list[str]:
    """Return notes on lists and objects that were read as labels, and on sets that are classes.

    Args:
        names: distinct values of the column.
        written: positions of those with lists or objects.
        labels: what each is read as.
        sets: the labels that each names.
        source: name of the column.
        as_sets: whether sets are no classes.
    """
    notes = []
    # Lists of JSON files are what they are; text that is read as a list is mentioned.
    texts = [n for n in written if isinstance(names[n], str) and labels[n] is not None]
    if texts:
        examples = ", ".join(f"{_short(names[n])} as {labels[n]!r}" for n in texts[:2])
        notes.append(f"{source}: {len(texts):,} different lists or objects are read as labels ({examples})")
    joined = {str(label) for label, members in zip(labels, sets, strict=True) if len(set(map(str, members))) > 1}
    if joined and not as_sets:
        notes.append(
            f"{source}: {len(joined):,} sets of several labels are classes, such as {listed(sorted(joined), 3)}"
        )
    return notes


def _begun(names: Sequence[Any], values: Sequence[Any], locate: Callable[[int], str], source: str) -> list[str]:
    """Return a note on labels that begin as lists and are none, such as ``["Cats" the musical``.

    Raises:
        DataError: if one was cut off, and other labels of the column are lists or objects.
    """
    begun = [n for n, value in enumerate(values) if isinstance(value, str) and begins_as_list(value)]
    if not begun:
        return []
    cut = next((n for n in begun if cut_off(values[n])), None)
    if cut is not None and any(isinstance(names[n], str) and is_structured(value) for n, value in enumerate(values)):
        raise DataError(
            f"{locate(cut)}: {_short(names[cut])} begins a list or an object and has no end, and other labels are whole ones: it "
            f"was cut off; export it again, or use several='keep', which leaves all text as it is"
        )
    return [
        f"{source}: {_short(names[begun[0]])} begins as a list does and is read as the name of a label; if it was cut off, "
        f"export it again; several='keep' leaves all text as it is"
    ]


def _ticked(values: list[Any]) -> list[Any]:
    """Return values with the boxes of forms as truth values: a box that is ticked has the value "on", others are absent."""
    forms = [value for value in values if isinstance(value, dict)]
    keys = {key for value in forms for key in value}
    if len(keys) < 2 or {chosen for value in forms for chosen in map(str, value.values())} != {"on"}:
        return values
    return [dict.fromkeys(value, True) if isinstance(value, dict) else value for value in values]


def _one(members: list[Any], several: Several, locate: Callable[[], str]) -> Any:
    members = list(dict.fromkeys(plain(label) for label in members))
    if len(members) < 2:
        return members[0] if members else None
    if several == "refuse":
        raise DataError(
            f"{locate()}: {len(members)} labels in one annotation, {listed(members, 3)}; to read sets of labels, use "
            f"several='sets'"
        )
    return joined_set(members, locate)


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
        members = [str(plain(label)) for label in labels_of(name)]
    except NoLabelError:
        return json.dumps(normal(name), default=str, ensure_ascii=False)
    return SEPARATOR.join(members) or None


def _is_interval(value: Any) -> bool:
    """Return whether a value is two ascending numbers, as in ``[0, 10]``, the name of a range."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in value) and value[0] < value[1]


def refuse_vectors(values: Sequence[Any], locate: Callable[[int], str]) -> None:
    """Refuse a column of which all lists have a number for each class: as sets they would all have the labels 0 and 1.

    Args:
        values: distinct values, see :func:`crowdppl.data.table.cells.parsed`.
        locate: returns where a value occurs, by its position.

    Raises:
        DataError: for lists of one length with numbers from 0 to 1, of which two or more sum to one or each has three or more.
    """
    at = [n for n, value in enumerate(values) if is_structured(value)]
    lists = [values[n] for n in at if isinstance(values[n], list)]
    scalars = any(not is_structured(value) and not absent(value) for value in values)
    if scalars or not at or len(lists) < len(at) or len({len(one) for one in lists}) > 1 or len(lists[0]) < 2:
        return
    if not all(isinstance(part, (int, float)) and 0 <= part <= 1 for one in lists for part in one):
        return
    fractions = not all(float(part).is_integer() for part in lists[0])
    summing = all(abs(sum(one) - 1) <= _ROUNDED for one in lists)
    if len(lists[0]) > 2 or (summing and (fractions or len(lists) > 1)):
        raise DataError(
            f"{locate(at[0])}: {_short(values[at[0]])} has a number for each class, such as a probability; write the label, "
            f"or a column of numbers for each class and name format='soft'"
        )


def _bare(label: str) -> str:
    """Return a text without the brackets around a list of words."""
    text = label.strip()
    return text[1:-1] if text[:1] in BRACKETS and text[-1:] == BRACKETS[text[:1]] else text


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
                f"several='sets' reads them as sets"
            ]
    for word in _AND:
        composed = [text for text in sorted(texts) if len(_split(text, word)) > 1]
        seen = {tuple(sorted(_split(text, word))) for text in composed}
        if composed and (len(seen) < len(composed) or texts.issuperset(part for parts in seen for part in parts)):
            return [
                f"{source}: labels that consist of other labels are classes of their own ({listed(composed, 3)}); to read them "
                f"as sets, write {SEPARATOR!r} for {word.strip()!r}, and use several='sets'"
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
    text = value if isinstance(value, str) else json.dumps(normal(value), default=str, ensure_ascii=False)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
