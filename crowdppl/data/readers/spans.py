"""Spans of characters that annotators marked in texts, turned into labels of tokens.

A token is a run of letters and digits, or any other character that is no white space. It is in a span if they have a character in
common: ``B-TYPE`` for the first token of a span, ``I-TYPE`` for the others, and ``O`` outside. Who annotated a text without
marking anything has said that there is no span.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pandas as pd

from crowdppl.data.readers.records import Records
from crowdppl.data.sequences import TOKEN
from crowdppl.data.table.cells import absent, people, plain
from crowdppl.errors import DataError

OUTSIDE = "O"
_PIECE = re.compile(r"\w+|[^\w\s]")


class Span(NamedTuple):
    """A span of characters: the first, the one after the last, and the type."""

    start: int
    end: int
    kind: str


def tokenised(text: str) -> list[tuple[int, int]]:
    """Return the tokens of a text: first character, and the one after the last."""
    return [piece.span() for piece in _PIECE.finditer(text)]


def labelled(tokens: list[tuple[int, int]], spans: list[Span]) -> tuple[list[str], int]:
    """Return the label of each token, and the number of spans that are left out: those without a token of their own.

    Of spans that overlap the one that begins first counts, of those that begin together the longest.
    """
    labels, left_out = [OUTSIDE] * len(tokens), 0
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        inside = [n for n, (start, end) in enumerate(tokens) if start < span.end and end > span.start]
        if not inside or any(labels[n] != OUTSIDE for n in inside):
            left_out += 1
            continue
        for n in inside:
            labels[n] = f"{'B' if n == inside[0] else 'I'}-{span.kind}"
    return labels, left_out


def record_of(text_id: Any, position: int) -> str:
    """Return the name of a token."""
    return f"{text_id}:{position}"


class SpanRows:
    """Collects the spans that annotators marked, text by text.

    Args:
        source: name of the file in messages.
        question: the question that the spans answer, by its name in the file.
    """

    def __init__(self, source: str, question: str | None = None):
        self.source, self.question = source, question
        self.texts: dict[Any, str] = {}
        self.given: list[tuple[Any, Any, list[Span]]] = []
        self.dropped: dict[str, int] = {}
        self.others: dict[str, int] = {}

    def add(self, text_id: Any, worker: Any, text: Any, spans: list[Span], where: str) -> None:
        """Add what an annotator marked in a text.

        Raises:
            DataError: without an identifier, an annotator or a text, for a text that differs from an earlier one with this
                identifier, and for a span outside of the text.
        """
        place = f"{self.source}, {where}"
        workers = people(worker)
        if len(workers) != 1:
            raise DataError(f"{place}: no annotator; export the file with annotator identifiers")
        if absent(text_id):
            raise DataError(f"{place}: no identifier of the text; export the file with identifiers")
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{place}: no text; spans need the text that they are in")
        text_id = plain(text_id)
        if self.texts.setdefault(text_id, text) != text:
            raise DataError(
                f"{place}: text {text_id!r} differs from an earlier one with this identifier; give each text an identifier of "
                f"its own"
            )
        for span in spans:
            if not 0 <= span.start < span.end <= len(text):
                raise DataError(
                    f"{place}: a span from {span.start} to {span.end} in a text of {len(text)} characters; export it again"
                )
        self.given.append((text_id, plain(workers[0]), spans))

    def drop(self, reason: str) -> None:
        """Count an annotation that is left out."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def leave(self, what: str, count: int = 1) -> None:
        """Count what annotations contain besides spans; ``what`` is a plural, such as ``relations``."""
        if count:
            self.others[what] = self.others.get(what, 0) + count

    def finish(self, kind: str) -> Records:
        """Return the labels of all tokens; ``kind`` is the format, for notes.

        Raises:
            DataError: if nobody marked anything.
        """
        if not any(spans for *_, spans in self.given):
            raise DataError(f"{self.source}: nobody marked a span; at least one is needed")
        tokens = {text_id: tokenised(text) for text_id, text in self.texts.items()}
        rows, overlapping = [], 0
        for text_id, worker, spans in self.given:
            labels, left_out = labelled(tokens[text_id], spans)
            overlapping += left_out
            text = self.texts[text_id]
            rows += [
                (record_of(text_id, n), worker, label, text_id, n, text[start:end])
                for n, ((start, end), label) in enumerate(zip(tokens[text_id], labels, strict=True))
            ]
        frame = pd.DataFrame(rows, columns=["task", "worker", "label", "sequence", "position", TOKEN])
        notes = [
            f"{self.source}: read as spans of {kind}, {len(self.given):,} annotations of {len(self.texts):,} texts with "
            f"{sum(map(len, tokens.values())):,} tokens"
        ]
        notes += [f"{self.source}: {count:,} annotations {reason} left out" for reason, count in self.dropped.items()]
        if self.others:
            parts = " and ".join(f"{count:,} {what}" for what, count in self.others.items())
            notes.append(f"{self.source}: {parts} left out: only the spans of one question are read")
        if overlapping:
            notes.append(
                f"{self.source}: {overlapping:,} spans left out that overlap another one of the same annotator, or have no token"
            )
        return Records(frame, "spans", notes=notes, places=("sequence", "position"), question=self.question)
