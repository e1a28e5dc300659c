"""Text that a spreadsheet would run as a formula, written so that it does not, and read back as it was.

A cell is opened as a formula where it begins with ``=``, ``+``, ``-`` or ``@`` (or a wide form of these), also after blanks.
Where a spreadsheet takes semicolons, tabs or ends of lines for separators, so is what follows one of them inside a cell.
At each such place a quote is inserted. Quotes that stand there already get one more, so that removing one at each place
gives back the text.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute as pc

SIGNS = frozenset("=+-@＝＋－＠﹦﹢﹣﹫")
SEPARATORS = frozenset(";\t\r\n")
# At the beginning of a cell these are dropped by some programs, whatever follows.
LEADING = frozenset("\t\r\n")
# These readers would take for a missing value.
MISSING = frozenset(("nan", "NaN"))
QUOTE = "'"
# Holds for every text that has such a place, and for some others: most texts are looked at by this only.
MAYBE = r"(?:^|[;\t\r\n])[^A-Za-z0-9_]*[" + re.escape("".join(sorted(SIGNS))) + r"]|^'*(?:[\t\r\n]|(?:nan|NaN)$)"


def protected(text: str) -> str:
    """Return the text with a quote at each place where a formula would begin."""
    places = _places(text)
    if not places:
        return text
    edges = [0, *places, len(text)]
    return QUOTE.join(text[begin:end] for begin, end in itertools.pairwise(edges))


def protected_values(values: Sequence[Any]) -> list[Any] | None:
    """Return values with every text among them protected, or ``None`` where none has to be."""
    at = [n for n in _maybe([value if isinstance(value, str) else None for value in values]) if _places(values[n])]
    if not at:
        return None
    out = list(values)
    for n in at:
        out[n] = protected(values[n])
    return out


def restored(names: Sequence[str]) -> list[str] | None:
    """Return the names of a column as they were before :func:`protected`, or ``None`` where nothing was changed.

    A column that was protected has no place where a formula would begin: one that has such a place was written by something else,
    and its quotes belong to its names.

    Args:
        names: of a column, each once.
    """
    if not any(QUOTE in name for name in names):
        return None
    places = {n: found for n in _maybe(names) if (found := _places(names[n]))}
    if not places or any(names[n][place] != QUOTE for n, found in places.items() for place in found):
        return None
    out = list(names)
    for n, found in places.items():
        out[n] = _without(names[n], found)
    return out


def _maybe(texts: Sequence[str | None]) -> list[int]:
    """Return which texts may have a place where a formula would begin."""
    mask = pc.match_substring_regex(pyarrow.array(texts, pyarrow.large_string()), MAYBE).fill_null(False)
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()


def _without(text: str, places: Sequence[int]) -> str:
    dropped = set(places)
    return "".join(letter for place, letter in enumerate(text) if place not in dropped)


def _places(text: str) -> list[int]:
    """Return where a formula would begin, quotes passed over: the first letter of the text or the one after a separator."""
    bare = text.lstrip(QUOTE)
    if bare in MISSING:
        return [0]
    found = []
    leads = False  # a sign follows, with nothing but blanks and quotes before it
    for place in range(len(text) - 1, -1, -1):
        letter = text[place]
        leads = letter in SIGNS or (leads and (letter == QUOTE or _blank(letter)))
        if leads and (place == 0 or text[place - 1] in SEPARATORS):
            found.append(place)
    if bare[:1] in LEADING and bare and (not found or found[-1] != 0):
        found.append(0)
    return found[::-1]


def _blank(letter: str) -> bool:
    return letter.isspace() or unicodedata.category(letter) in ("Cc", "Cf")
