"""Verdicts on pairs that name the system that is better, and what people call the two sides."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.spellings import folded
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding.states import State, normalised
from crowdppl.judges.model import pairwise

Array = npt.NDArray[Any]
FIRST, SECOND = "first", "second"
_SIDES = frozenset((*pairwise.FIRST, *pairwise.SECOND))
# Ends of names that number the two sides of a pair, such as output_1 and output_2.
_ENDS = (
    (re.compile(r"(.*?)[\s_-]*(1|a|first|left)"), "first"),
    (re.compile(r"(.*?)[\s_-]*(2|b|second|right)"), "second"),
)


def by_side(
    column: pd.Series[Any], first: Array, second: Array, words: dict[str, State], where: str, notes: list[str]
) -> pd.Series[Any]:
    """Return verdicts that name the better of two systems as ``first`` and ``second``, in the order of their row.

    They are names of systems if each is one of the two of its row, apart from ties and states, and if some system stands on
    either side: names of two systems in one order are classes as they are. Where all names also stand for a side, such as ``a``
    for the first one, they are kept.

    Args:
        column: verdicts, ``(n,)``.
        first: name of the first system of each row as text, ``(n,)``.
        second: likewise of the second one.
        words: normalised texts that stand for states.
        where: location of the column, for messages.
        notes: receives what was read.
    """
    one, other = ([folded(str(name)) for name in names.tolist()] for names in (first, second))
    if not set(one) & set(other):
        return column
    out = column.astype(object).to_numpy().copy()
    named = set()
    for n, value in enumerate(out):
        if not isinstance(value, str) or normalised(value) in ("", *words):
            continue
        text = folded(value)
        if text in (one[n], other[n]):
            out[n] = FIRST if text == one[n] else SECOND
            named.add(text)
        elif text not in pairwise.TIES:
            return column
    if len(named) < 2 or not named - _SIDES - set(pairwise.TIES):
        return column
    notes.append(
        f"{where}: verdicts such as {listed(sorted(named), 2)} name the system that is better, and are read as {FIRST!r} and "
        f"{SECOND!r}"
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
        ``None`` if the labels are no names of systems, or are classes of the judges.

    Raises:
        DataError: if a label names a system that is not one of the two of its row.
    """
    texts = [folded(str(name)) for name in names.tolist()]
    used = {texts[c] for c in np.unique(code).tolist()}
    classes = {folded(str(name)) for name in labels.tolist()}
    systems = {folded(str(name)) for side in pair for name in side.tolist() if name is not None}
    if not used <= systems | classes | set(pairwise.TIES) or not (used & systems) - classes - _SIDES:
        return None
    try:
        outcome = pairwise.outcomes(labels)
    except DataError:
        return None
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


def proposal(names: Array, labels: Array) -> dict[Any, Any] | None:
    """Return which class of the judges each of people's names for the two sides of a pair stands for; ``None`` if unclear.

    Names are those of sides (:data:`crowdppl.judges.pairwise.FIRST`), or alike but for their ends, such as 1 and 2.
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
        side = "tie" if text in pairwise.TIES else next((end for form, end in _ENDS if form.fullmatch(text)), None)
        side = FIRST if text in pairwise.FIRST else SECOND if text in pairwise.SECOND else side
        if side is None or len(classes[side]) != 1:
            return None
        stems |= {match[1] for form, _ in _ENDS if (match := form.fullmatch(text))}
        out[name] = classes[side][0]
    order = [name for side in classes.values() for name in side]
    out = dict(sorted(out.items(), key=lambda pair: order.index(pair[1])))
    return out if len(stems) <= 1 and len(set(out.values())) == len(out) > 1 else None
