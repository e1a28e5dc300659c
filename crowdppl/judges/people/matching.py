"""Names of people's labels and of judges' verdicts made comparable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from crowdppl.data.table.identifiers import kind_of, positions
from crowdppl.data.table.label_names import respelled
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding import winners
from crowdppl.judges.coding.passing import polarity
from crowdppl.judges.verdicts import Verdicts

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]

# Grades that are written as text, such as 3 and 3.0.
_WHOLE = re.compile(r"([+-]?\d{1,15})(\.0*)?", re.ASCII)
# Texts of booleans; 1 and 0 are those of integers.
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def alike(names: Array, target: Array, what: str, notes: list[str]) -> Array:
    """Return names in the type of other names: ``1`` for ``"1"`` and the reverse, ``True`` for ``1`` and ``"true"``.

    Args:
        names: names of people's labels ``(n,)``.
        target: names of the verdicts ``(k,)``.
        what: what they are, for messages.
        notes: receives a sentence if the type changes.

    Raises:
        DataError: if a name has no equivalent of the other type, or none is among the other names.
    """
    if kind_of(names) == kind_of(target):
        return names
    known = {str(name).strip().casefold(): name for name in target.tolist()}
    out = [_converted(name, kind_of(target), known) for name in names.tolist()]
    wrong = [name for name, value in zip(names.tolist(), out, strict=True) if value is None]
    # Without a common name the types do not differ by accident.
    if wrong or len(set(out)) < len(out) or not set(out) & set(target.tolist()):
        advice = _proposal(names, target) if what == "label" else "write them alike"
        raise DataError(
            f"{what}s are {kind_of(target)} in the verdicts ({listed(target.tolist(), 3)}), but {kind_of(names)} in the human "
            f"labels ({listed(wrong or names.tolist(), 3)}); {advice}"
        )
    notes.append(
        f"{what}s of the human labels are {kind_of(names)}, read as {kind_of(target)} like those of the verdicts"
    )
    return np.array(out, dtype=object) if kind_of(target) == "strings" else np.array(out)


def text_grades(names: Array) -> Array | None:
    """Return texts such as ``"3"`` and ``"3.0"`` as whole numbers ``(n,)``; ``None`` if one of the names is no such text."""
    if not len(names) or kind_of(names) != "strings":
        return None
    parts = [_WHOLE.fullmatch(str(name).strip()) for name in names.tolist()]
    return None if None in parts else np.array([int(part[1]) for part in parts if part], dtype=np.int64)


def same_numbers(names: Array, code: Codes, target: Array) -> tuple[Array, Codes]:
    """Return people's labels, and codes ``(m,)``, with grades such as ``"3.0"`` as whole numbers, if that makes them match.

    Where a name of the verdicts, ``target`` ``(k,)``, is written in the same way, names stay as they are.
    """
    numbers = text_grades(names) if any("." in str(name) for name in names.tolist()) else None
    if numbers is None or set(names.tolist()) & set(target.tolist()):
        return names, code
    grades, place = np.unique(numbers, return_inverse=True)
    return grades, np.where(code >= 0, place[code], -1)


def same_spelling(names: Array, target: Array, notes: list[str]) -> Array:
    """Return people's labels ``(n,)`` in the spelling of the verdicts ``(k,)``, where there is one of a name only."""
    if kind_of(names) != "strings" or kind_of(target) != "strings":
        return names
    spelled = respelled(names.tolist(), target.tolist())
    out = [spelled[name] for name in names.tolist()]
    changed = [f"{a!r} as {b!r}" for a, b in zip(names.tolist(), out, strict=True) if a != b]
    if changed:
        notes.append(f"labels of people are read in the spelling of the judges: {', '.join(changed[:5])}")
    return np.array(out, dtype=object)


def renamed(names: Array, code: Array, to: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return names of classes, and codes ``(n,)``, with some classes renamed; those of one name become one class.

    Args:
        names: names of the classes, ``(K,)``.
        code: codes, -1 for none, ``(n,)``.
        to: new names by old ones as text.
    """
    new = [to.get(str(name), name) for name in names.tolist()]
    if len({type(name) for name in new}) > 1:
        new = [str(name) for name in new]
    kept = list(dict.fromkeys(new))
    place = np.array([*(kept.index(name) for name in new), -1], dtype=np.int64)
    kinds = {bool: np.dtype(bool), int: np.dtype(np.int64)}
    return np.array(kept, dtype=kinds.get(type(kept[0]), np.dtype(object)) if kept else object), place[code]


def require_common(names: Array, target: Array) -> None:
    """Refuse labels of people none of which is among the classes of the judges.

    Raises:
        DataError: with the labels that probably correspond.
    """
    if len(target) < 2 or not len(names) or set(names.tolist()) & set(target.tolist()):
        return
    raise DataError(
        f"no human label is among the classes of the judges: people gave {listed(names.tolist(), 6)}, judges "
        f"{listed(target.tolist(), 6)}; {_proposal(names, target)}"
    )


def require_one_vocabulary(verdicts: Verdicts) -> None:
    """Refuse judges who use words of their own for the classes, such as C and I, beside others who use pass and fail.

    Raises:
        DataError: if the classes fall into several parts of two classes or more, of which each judge uses one.
    """
    K, given = len(verdicts.labels), verdicts.label >= 0
    used = np.zeros((len(verdicts.judges), K), dtype=bool)
    used[verdicts.judge[given], verdicts.label[given]] = True
    part = connected_components(used.T.astype(int) @ used.astype(int), directed=False)[1]
    several = [p for p in np.unique(part) if (part == p).sum() > 1]
    if len(several) < 2:
        return
    words = [verdicts.labels[part == p] for p in several[:2]]
    who = [verdicts.judges[used[:, part == p].any(1)].tolist() for p in several[:2]]
    raise DataError(
        f"judges use different words for the classes: {listed(who[0], 2)} {listed(words[0].tolist(), 4)}, {listed(who[1], 2)} "
        f"{listed(words[1].tolist(), 4)}; {_proposal(words[1], words[0])}"
    )


def _proposal(names: Array, target: Array) -> str:
    by_sign = {sign: [name for name in target.tolist() if polarity(name) == sign] for sign in (1, -1)}
    pairs = {name: by_sign.get(polarity(name), []) for name in names.tolist()}
    if all(len(partners) == 1 for partners in pairs.values()):
        return f"state which correspond with map={ {b[0]: a for a, b in pairs.items()} }"
    sides = winners.proposal(names, target)
    if sides is not None:
        return f"state which correspond with map={sides}, if that is meant"
    return "state which correspond with map={...}, or declare all classes with labels=[...] if both are meant"


def _converted(name: Any, kind: str, known: dict[str, Any]) -> Any:
    """Return a name as one of another kind, ``None`` if there is no equivalent."""
    text = str(name).strip().casefold()
    if text in known:
        return known[text]
    if kind == "booleans":
        return _BOOLEANS.get(text)
    if kind == "integers":
        if isinstance(name, bool):
            return int(name)
        return int(text) if text.removeprefix("-").isdecimal() and text.isascii() else None
    if isinstance(name, bool):  # texts such as "1" for true
        return known.get(str(int(name)), str(name))
    return str(name)


def union(names: Array, others: Array, used: Array) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return all classes: sorted if the first ones are, otherwise the new ones at the end.

    Args:
        names: the classes of the verdicts ``(K,)``.
        others: classes of the same type ``(k,)``.
        used: those of ``others`` that occur.

    Returns:
        All classes, the position of each of ``names`` ``(K,)``, and that of each of ``others`` ``(k,)``, -1 if unused.
    """
    known = names.tolist()
    new = sorted(set(used.tolist()) - set(known))
    every = [*known, *new]
    if known == sorted(known):
        every = sorted(every)
    both = np.array(every, dtype=object) if kind_of(others) == "strings" else np.array(every, dtype=others.dtype)
    old = positions(names, both) if len(names) else np.zeros(0, dtype=np.int64)
    return both, old, positions(others, both)
