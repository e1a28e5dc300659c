"""What models think before they reply, such as ``<think>...</think>PASS``: no part of a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.cells import is_structured, normal, parsed
from crowdppl.data.table.identifiers import rows_text
from crowdppl.judges.coding.marks import bare
from crowdppl.judges.coding.passing import polarity
from crowdppl.judges.coding.states import State, normalised

Array = npt.NDArray[Any]

# Characters beyond which a text is rather a reason than a verdict, and number of different ones that may all be classes.
LONG, FEW = 40, 10
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_TAG = "(?:think|thinking|thought|reasoning|analysis|scratchpad)>"
_OPEN, _CLOSE = (re.compile(f"<{sign}{_TAG}", re.IGNORECASE) for sign in ("", "/"))


class Reply(NamedTuple):
    """A reply that begins with a thought: what follows it, and otherwise what the last thought holds, each blank without one."""

    rest: str
    content: str


def shown(text: str) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= LONG else f"{text[: LONG - 3]}..."


def as_document(value: Any) -> Any:
    """Return what a reply is written as: an object, a list, or the text itself."""
    fenced = _FENCE.fullmatch(value.strip()) if isinstance(value, str) else None
    content = parsed(fenced[1] if fenced else value)
    while isinstance(content, list) and len(content) == 1 and is_structured(content[0]):
        content = normal(content[0])
    return content


def split(text: str) -> Reply | None:
    """Return a reply without its thoughts; ``None`` if it does not begin with one.

    Some templates put the tag that opens a thought into the prompt, so that the reply has the closing one only. Thoughts may
    follow one another, or hold tags themselves: the reply is behind the last one, or a document behind an earlier one.
    """
    begins = _OPEN.match(text.lstrip())
    ends = [match.end() for match in _CLOSE.finditer(text)]
    if not begins:
        opened = _OPEN.search(text)
        if not ends or (opened and opened.start() < ends[0]) or is_structured(as_document(text)):
            return None
    if not ends:  # it was cut off
        return Reply("", "")
    behind = next((text[end:] for end in ends if is_structured(as_document(text[end:]))), text[ends[-1] :])
    if _OPEN.match(behind.lstrip()):  # a further thought was cut off
        return Reply("", "")
    if behind.strip():
        return Reply(behind.strip(), "")
    closing = [match.start() for match in _CLOSE.finditer(text)][-1]
    opening = max((match.end() for match in _OPEN.finditer(text, 0, closing)), default=0)
    return Reply("", text[opening:closing].strip())


def without_thoughts(
    column: pd.Series[Any], where: str, notes: list[str], words: dict[str, State], labels: Iterable[Any]
) -> tuple[pd.Series[Any], dict[str, State]]:
    """Return a column without what models thought before their replies, and ``words`` with the replies that have nothing else.

    Those are unparseable, unless the thought is a verdict itself. A column of other texts is returned as it is.

    Args:
        column: verdicts as in the table, ``(n,)``.
        where: location of the column, for messages.
        notes: receives what was left out.
        words: normalised texts that stand for states, kept as they are.
        labels: declared classes, kept as they are.
    """
    values = column.astype(object).to_numpy()
    kept = {*words, *(normalised(label) for label in labels if isinstance(label, str))}
    replies = {
        n: reply
        for n, value in enumerate(values)
        if isinstance(value, str) and "<" in value and normalised(value) not in kept and (reply := split(value))
    }
    if not replies:
        return column, words
    others = {text for n, text in enumerate(values) if n not in replies and isinstance(text, str)}
    others |= {reply.rest for reply in replies.values()}
    verdicts = {bare(text) for text in others if text.strip() and normalised(text) not in words}
    verdicts |= {bare(label) for label in labels if isinstance(label, str)}
    held = _verdicts_held({n: reply.content for n, reply in replies.items() if reply.content}, verdicts)
    out = values.copy()
    for n, reply in replies.items():
        out[n] = reply.rest or held.get(n, values[n])
    before = [n for n, reply in replies.items() if reply.rest]
    if before:
        notes.append(
            f"{where}: what {len(before):,} replies think before a verdict is left out, as in {shown(values[before[0]])!r}"
        )
    if held:
        n = next(iter(held))
        notes.append(
            f"{where}: {len(held):,} replies have nothing behind their thoughts and are read as what is in these, such as "
            f"{shown(values[n])!r} as {shown(held[n])!r}"
        )
    ended = [n for n, reply in replies.items() if not reply.rest and n not in held]
    if ended:
        notes.append(
            f"{where}, {rows_text(np.array(ended))}: {len(ended):,} replies end with a thought, and are unparseable"
        )
    words = {**words, **{normalised(values[n]): State.UNPARSEABLE for n in ended}}
    return pd.Series(out, dtype=object, index=column.index, name=column.name), words


def _verdicts_held(contents: dict[int, str], verdicts: set[str]) -> dict[int, str]:
    """Return the thoughts that are verdicts themselves, by row.

    They are those that other replies give or the caller declares, names of classes that pass or fail, and documents; and where no
    reply has a verdict elsewhere, a few short texts that occur again.

    Args:
        contents: thought of each row with nothing behind it.
        verdicts: keys of other verdicts, see :func:`crowdppl.judges.coding.marks.bare`.
    """
    distinct = set(contents.values())
    short = all(len(text) <= LONG for text in distinct)
    classes = not verdicts and short and len(distinct) <= FEW and 2 * len(distinct) <= len(contents)
    return {
        n: text
        for n, text in contents.items()
        if classes or bare(text) in verdicts or polarity(bare(text)) or is_structured(as_document(text))
    }
