"""Verdicts as judges reply: in JSON, in bold, with a full stop or a word before them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.cells import absent, is_structured, parsed, plain
from crowdppl.data.identifiers import rows_text
from crowdppl.data.missing_words import PROGRAMS
from crowdppl.data.spellings import folded
from crowdppl.errors import DataError

# Keys of a reply that hold the verdict, the most specific first.
_KEYS = re.compile(
    r"verdict|judge?ment|grade|winner|label|rating|choice|decision|classification|answer|result|score", re.IGNORECASE
)
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
# Marks around a verdict, and words before it.
_AROUND = (("**", "**"), ("__", "__"), ("`", "`"), ("[[", "]]"), ('"', '"'), ("'", "'"))
_BEFORE = re.compile(
    r"(?:final |my |overall )?(?:verdict|judge?ment|rating|answer|grade|decision|score)\s*(?:is)?\s*:\s*(?=\S)",
    re.IGNORECASE,
)


def bare(text: str) -> str:
    """Return the key of verdicts that differ in capitals, white space, marks around them, and the words before them only."""
    key, before = folded(text), None
    while key != before:
        before = key
        key = _BEFORE.sub("", key, count=1) if _BEFORE.match(key) else key
        for start, end in _AROUND:
            if len(key) > len(start + end) and key.startswith(start) and key.endswith(end):
                key = key[len(start) : -len(end)].strip()
        if len(key) > 2 and key[-1] in ".!":
            key = key[:-1].rstrip()
    return key


def verdicts_in(column: pd.Series[Any], where: str, notes: list[str]) -> pd.Series[Any]:
    """Return a column of verdicts with the verdict of each reply in JSON: ``{"verdict": "pass", "reason": ...}``.

    Args:
        column: as in the table, ``(n,)``.
        where: location of the column, for messages.
        notes: receives what was read.

    Raises:
        DataError: for JSON in which no key holds a verdict.
    """
    if column.dtype.kind in "biuf":
        return column
    values = column.astype(object).to_numpy()
    replies: dict[str, Any] = {}
    at: dict[str, list[int]] = {}
    for n, value in enumerate(values):
        if is_structured(value) or (
            isinstance(value, str) and value.lstrip()[:1] in ("{", "[", "`") and value.strip() not in PROGRAMS
        ):
            key = value if isinstance(value, str) else json.dumps(value, default=str)
            at.setdefault(key, []).append(n)
            replies.setdefault(key, value)
    out = values.copy()
    alone = sum(map(len, at.values())) == int(column.notna().sum())
    examples = []
    for key, value in replies.items():
        fenced = _FENCE.fullmatch(value.strip()) if isinstance(value, str) else None
        document = parsed(fenced[1] if fenced else value)
        if not is_structured(document):
            verdict: Any = document
        else:
            verdict = _verdict(document)
            if absent(verdict):
                shown = key if len(key) <= 60 else f"{key[:57]}..."
                raise DataError(
                    f"{where}, {rows_text(np.array(at[key]))}: {shown!r} is a list or object without a verdict; write the "
                    f"verdict in a column of its own"
                )
        if verdict is not value:
            out[at[key]] = verdict if alone else str(verdict)
            examples.append(f"{key if len(key) <= 40 else key[:37] + '...'!r} as {verdict!r}")
    if not examples:
        return column
    notes.append(f"{where}: {len(examples):,} different replies in JSON are read as verdicts, such as {examples[0]}")
    return pd.Series(out, dtype=object, index=column.index, name=column.name)


def _verdict(document: Any) -> Any:
    """Return the verdict of a reply, ``None`` without one."""
    if isinstance(document, list):
        return _verdict(document[0]) if len(document) == 1 and is_structured(document[0]) else _single(document)
    keys = [key for key in document if _KEYS.fullmatch(str(key))]
    keys.sort(key=lambda key: _KEYS.pattern.find(str(key).lower()))
    return next((one for key in keys if (one := _single(document[key])) is not None), None)


def _single(value: Any) -> Any:
    """Return a verdict as a text, a number or a boolean; that of a list of one, and ``None`` for others."""
    if isinstance(value, list) and len(value) == 1:
        return _single(value[0])
    if is_structured(value) or isinstance(value, Mapping):
        return None
    return None if absent(value) else value if isinstance(value, bool) else plain(value)
