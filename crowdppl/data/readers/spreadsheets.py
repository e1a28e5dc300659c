"""Protection of text that a spreadsheet would run as a formula, and its exact inverse.

A spreadsheet treats a cell as a formula if it begins with ``=``, ``+``, ``-`` or ``@`` (or a full-width form of these), also
after blanks. If it splits cells at semicolons, tabs or line ends, the same holds for the text after each of them. A quote is
inserted at each such position. Existing quotes there get one more, so that removing one quote at each position restores the text.
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
# Some programs remove these at the beginning of a cell.
LEADING = frozenset("\t\r\n")
# Text that readers would take for a missing value.
MISSING = frozenset(("nan", "NaN"))
QUOTE = "'"
# Matches every text with such a position, and some others: a fast filter that excludes most texts.
CANDIDATE = r"(?:^|[;\t\r\n])[^A-Za-z0-9_]*[" + re.escape("".join(sorted(SIGNS))) + r"]|^'*(?:[\t\r\n]|(?:nan|NaN)$)"


def protected(text: str) -> str:
    """Return the text with a quote at each position where a formula would begin."""
    positions = _positions(text)
    if not positions:
        return text
    edges = [0, *positions, len(text)]
    return QUOTE.join(text[begin:end] for begin, end in itertools.pairwise(edges))


def protected_values(values: Sequence[Any]) -> list[Any] | None:
    """Return values with all text protected, or ``None`` if no text needs protection."""
    at = [n for n in _candidates([v if isinstance(v, str) else None for v in values]) if _positions(values[n])]
    if not at:
        return None
    out = list(values)
    for n in at:
        out[n] = protected(values[n])
    return out


def restored(names: Sequence[str]) -> list[str] | None:
    """Return the names of a column as they were before :func:`protected`, or ``None`` if they are unchanged.

    A protected column has a quote at every position where a formula would begin. A column without one was written by another
    program, and its quotes belong to its names.

    Args:
        names: distinct names of a column.
    """
    if not any(QUOTE in name for name in names):
        return None
    positions = {n: at for n in _candidates(names) if (at := _positions(names[n]))}
    if not positions or any(names[n][position] != QUOTE for n, at in positions.items() for position in at):
        return None
    out = list(names)
    for n, at in positions.items():
        out[n] = _without(names[n], at)
    return out


def _candidates(texts: Sequence[str | None]) -> list[int]:
    """Return the indices of texts that may have a position where a formula would begin."""
    mask = pc.match_substring_regex(pyarrow.array(texts, pyarrow.large_string()), CANDIDATE).fill_null(False)
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()


def _without(text: str, positions: Sequence[int]) -> str:
    dropped = set(positions)
    return "".join(letter for position, letter in enumerate(text) if position not in dropped)


def _positions(text: str) -> list[int]:
    """Return the positions where a formula would begin, ignoring quotes: at the start of the text or after a separator."""
    bare = text.lstrip(QUOTE)
    if bare in MISSING:
        return [0]
    positions = []
    before_sign = False  # a sign follows, preceded by blanks and quotes only
    for position in range(len(text) - 1, -1, -1):
        letter = text[position]
        before_sign = letter in SIGNS or (before_sign and (letter == QUOTE or _blank(letter)))
        if before_sign and (position == 0 or text[position - 1] in SEPARATORS):
            positions.append(position)
    if bare[:1] in LEADING and bare and (not positions or positions[-1] != 0):
        positions.append(0)
    return positions[::-1]


def _blank(letter: str) -> bool:
    return letter.isspace() or unicodedata.category(letter) in ("Cc", "Cf")
