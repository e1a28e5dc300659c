"""Verdicts on pairs that name the system that is better, and what people call the two sides."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.spellings import folded
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding.marks import unmarked
from crowdppl.judges.coding.states import State, normalised
from crowdppl.judges.model import pairwise

Array = npt.NDArray[Any]
FIRST, SECOND = "first", "second"
_SIDES = frozenset((*pairwise.FIRST, *pairwise.SECOND))
# Names that stand for a side as well as for a system.
_UNCLEAR = _SIDES | {"0", "1", "2", "-1"}
_TIES = frozenset(pairwise.TIES)
# Ends of names that number the two sides of a pair, such as output_1 and output_2, and what may stand before them.
_ENDS = {FIRST: ("1", "a", "first", "left"), SECOND: ("2", "b", "second", "right")}
_BEFORE_ENDS = " _-"
# Share of the verdicts that name a system of their row, from which a note says why they are not read by their side.
_MOSTLY = 0.5
# Longer texts are no names with marks around them.
_LONGEST = 1_000


def by_side(
    column: pd.Series[Any], first: Array, second: Array, words: dict[str, State], where: str, notes: list[str]
) -> pd.Series[Any]:
    """Return verdicts that name the better of two systems as ``first`` and ``second``, in the order of their row.

    They are names of systems if each is one of the two of its row, apart from ties and states, and if they cannot be the names of
    the two sides: they name three systems or more, or some system stands on either side. Names of two systems in one order are
    classes as they are. Where all names also stand for a side, such as ``a`` or ``1`` for the first one, they are kept.

    Args:
        column: verdicts, ``(n,)``.
        first: name of the first system of each row as text, ``(n,)``.
        second: likewise of the second one.
        words: normalised texts that stand for states.
        where: location of the column, for messages.
        notes: receives what was read.
    """
    keys: dict[Any, str] = {}
    one, other = (
        [keys[name] if name in keys else keys.setdefault(name, folded(str(name))) for name in names.tolist()]
        for names in (first, second)
    )
    known = {*one, *other, *_TIES}
    values = column.astype(object).to_numpy()
    if any(isinstance(value, bool) for value in values):
        return column
    codes, given = pd.factorize(values)
    empty = [normalised(str(value)) in ("", *words) for value in given.tolist()]
    texts = [_key(value, known) for value in given.tolist()]
    out = values.copy()
    named: dict[str, str] = {}  # as they are written
    odd, rows = None, 0
    for n, code in enumerate(codes.tolist()):
        if code < 0 or empty[code]:
            continue
        if texts[code] in (one[n], other[n]):
            out[n] = FIRST if texts[code] == one[n] else SECOND
            named.setdefault(texts[code], str(values[n]))
            rows += 1
        elif texts[code] not in _TIES:
            odd = (n, values[n]) if odd is None else odd
    either = set(one) & set(other)
    several = len(named) > 2 or (bool(either) and (len(named) == 2 or set(named) <= either))
    if not set(named) - _UNCLEAR - _TIES or (not several and odd is None):
        return column
    if odd is not None:
        if rows >= _MOSTLY * len(column):
            notes.append(
                f"{where}: {rows:,} of {len(column):,} verdicts name the system that is better, such as "
                f"{listed([*named.values()], 2)}, but {listed([odd[1]])} in row {odd[0] + 1:,} is neither a system of its row "
                f"nor a tie; all are read as classes as they are"
            )
        return column
    notes.append(
        f"{where}: verdicts such as {listed(sorted(named.values()), 2)} name the system that is better, and are read as "
        f"{FIRST!r} and {SECOND!r}"
    )
    return pd.Series(out, dtype=object, index=column.index, name=column.name)


def of_pairs(names: Array, code: Array, pair: tuple[Array, Array], labels: Array) -> Array | None:
    """Return people's labels that name the better of two systems as classes of the judges, ``(m,)`` names.

    Args:
        names: of people's labels, ``(k,)``.
        code: label of each row, ``(m,)``.
        pair: the first and the second system of each row as text, ``(m,)`` each, ``None`` where they are not known.
        labels: classes of the judges, ``(K,)``.

    Returns:
        ``None`` if the labels are no names of systems, are classes of the judges, or cannot be named in the type of these.

    Raises:
        DataError: if a label names a system that is not one of the two of its row, or is something else beside names of systems.
    """
    classes = {folded(str(name)) for name in labels.tolist()}
    systems = {folded(str(name)) for side in pair for name in side.tolist() if name is not None}
    texts = [_key(name, classes | systems | _TIES) for name in names.tolist()]
    used = {texts[c] for c in np.unique(code).tolist()}
    named = (used & systems) - classes - _UNCLEAR
    if not named:
        return None
    try:
        outcome = pairwise.outcomes(labels)
    except DataError:
        return None
    odd = used - systems - classes - _TIES
    if odd:
        raise DataError(
            f"human labels such as {_written(names, texts, named)} name the better system, but "
            f"{_written(names, texts, odd)} is neither a judged system nor a tie; write the better system or 'tie', or leave the "
            f"label blank"
        )
    if labels.dtype != object and used - systems:
        return None  # classes that are numbers, beside texts
    better, worse = labels[outcome.argmax()], labels[outcome.argmin()]
    out = np.array([names[c] for c in code.tolist()], dtype=object)
    for n, (one, other) in enumerate(zip(*(side.tolist() for side in pair), strict=True)):
        text = texts[code[n]]
        if text not in systems or one is None:
            continue
        if text not in (folded(one), folded(other)):
            raise DataError(
                f"a human label says that {listed([names[code[n]]])} is better, of the pair {listed([one, other])}; write one of "
                f"these two, or 'tie'"
            )
        out[n] = better if text == folded(one) else worse
    return out


def _key(name: Any, known: Collection[str]) -> str:
    """Return a name without capitals, and without marks around it and words before it where that is a known name."""
    text = folded(str(name))
    if text in known or len(text) > _LONGEST:
        return text
    plain = unmarked(text)
    return plain if plain in known else text


def _written(names: Array, texts: list[str], keys: Collection[str]) -> str:
    """Return the first name with one of some keys, as it is written."""
    return listed([next(name for name, text in zip(names.tolist(), texts, strict=True) if text in keys)])


def proposal(names: Array, labels: Array) -> dict[Any, Any] | None:
    """Return which class of the judges each of people's names for the two sides of a pair stands for; ``None`` if unclear.

    Names are those of sides (:data:`crowdppl.judges.model.pairwise.FIRST`), or alike but for their ends, such as 1 and 2.
    """
    try:
        outcome = pairwise.outcomes(labels)
    except DataError:
        return None
    if not {folded(str(name)) for name in labels[outcome != 0].tolist()} <= _SIDES:
        return None
    classes = {side: labels[outcome == value].tolist() for side, value in ((FIRST, 1), (SECOND, -1), ("tie", 0))}
    out: dict[Any, Any] = {}
    stems = set()
    for name in names.tolist():
        text = folded(str(name))
        ends = [(side, end) for side, ends in _ENDS.items() for end in ends if text.endswith(end)]
        side = "tie" if text in pairwise.TIES else next((side for side, _ in ends), None)
        side = FIRST if text in pairwise.FIRST else SECOND if text in pairwise.SECOND else side
        if side is None or len(classes[side]) != 1:
            return None
        stems |= {text.removesuffix(end).rstrip(_BEFORE_ENDS) for _, end in ends}
        out[name] = classes[side][0]
    order = [name for side in classes.values() for name in side]
    out = dict(sorted(out.items(), key=lambda pair: order.index(pair[1])))
    return out if len(stems) <= 1 and len(set(out.values())) == len(out) > 1 else None
