"""brat's standoff files: a folder of each annotator, with ``.ann`` files beside the ``.txt`` files they speak of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from crowdppl.data.readers.opening import COMPRESSED
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.spans import Span, SpanRows
from crowdppl.errors import DataError, FileError, listed

# The ending of standoff files, and that of the texts.
STANDOFF, TEXT = ".ann", ".txt"
# "T1<tab>PERSON 0 5<tab>Alice"; the places of a span in pieces are apart by semicolons.
_SPAN = re.compile(r"T\S*\t(?P<kind>\S+) (?P<places>\d+ \d+(?:;\d+ \d+)*)(?:\t(?P<words>.*))?$")
# Relations, events, attributes, equivalences, normalizations and notes, which say nothing of single tokens.
_OTHERS = re.compile(r"(?:[REAMN]\d+|\*|#\S*)\t")


def brat(files: Sequence[SourceFile], choices: Choices, source: str) -> Records:
    """Read the spans of several annotators.

    The folder of a standoff file is its annotator, and its path in this folder the text. The text lies beside it, or once for all
    annotators in a folder above. A text without a standoff file was not annotated; an empty one says that there is no span.

    Args:
        files: standoff files and texts.
        choices: not used: the format has none.
        source: name of the folder or archive in messages.

    Raises:
        DataError: for a line that is no annotation, and as :class:`SpanRows` does.
        FileError: without annotators' folders, or without the text of a standoff file.
    """
    places = {_place(file): file for file in files if file.suffix == TEXT}
    standoff = [file for file in files if file.suffix == STANDOFF]
    depth = _depth(standoff)
    if depth is None:
        raise FileError(
            f"{source}: the annotators cannot be told apart; give each of them a folder with their .ann files, and read the "
            f"folder that contains these folders"
        )
    rows, pieces, others = SpanRows(source), 0, 0
    for file in standoff:
        place = _place(file)
        worker, text_id = place.parts[depth], PurePath(*place.parts[depth + 1 :])
        beside = (place, PurePath(*place.parts[:depth], text_id), text_id, PurePath(text_id.name))
        text = next((places[one] for one in beside if one in places), None)
        if text is None:
            raise FileError(
                f"{file.name}: its text {place.name}{TEXT} is not beside it; put the texts and .ann files together"
            )
        spans, more, left_out = _spans(file, text.text)
        pieces, others = pieces + more, others + left_out
        rows.add(text_id.as_posix(), worker, text.text, spans, str(file.within))
    records = rows.finish("brat")
    workers = listed(sorted(set(records.frame["worker"])), 5)
    records.notes.append(
        f"{source}: the folders of the annotators are {workers}, with texts such as {next(iter(rows.texts))!r}"
    )
    if not records.frame[["sequence", "worker"]].drop_duplicates()["sequence"].duplicated().any():
        records.notes.append(
            f"{source}: no text has spans of two annotators; if these folders contain the texts of one, read the folder above"
        )
    if pieces:
        records.notes.append(f"{source}: {pieces:,} spans in pieces; each piece is a span")
    if others:
        records.notes.append(f"{source}: {others:,} relations, events, attributes and notes are left out")
    records.format = "brat"
    return records


def _spans(file: SourceFile, text: str) -> tuple[list[Span], int, int]:
    """Return the spans of a standoff file, and the numbers of spans in pieces and of other annotations.

    Raises:
        DataError: for a line that is no annotation, and for a span whose words are not those of the text at its place.
    """
    spans, pieces, others = [], 0, 0
    for number, line in enumerate(file.text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        match = _SPAN.match(line)
        if match:
            parts = [part.split(" ") for part in match["places"].split(";")]
            here = [Span(int(start), int(end), match["kind"]) for start, end in parts]
            words, given = " ".join(text[one.start : one.end] for one in here).split(), (match["words"] or "").split()
            if given and given != words and all(one.end <= len(text) for one in here):
                raise DataError(
                    f"{file.name}, line {number}: the span is {' '.join(given)[:40]!r}, and the text has "
                    f"{' '.join(words)[:40]!r} there; use the text that was annotated, with its line ends and encoding"
                )
            spans += here
            pieces += len(parts) > 1
        elif _OTHERS.match(line):
            others += 1
        else:
            raise DataError(
                f"{file.name}, line {number}: {line[:40]!r} is no annotation of brat; spans are like 'T1<tab>TYPE 0 5<tab>text'"
            )
    return spans, pieces, others


def _place(file: SourceFile) -> PurePath:
    """Return the path of a file in its folder or archive, without its endings."""
    within = PurePath(file.path.name) if file.within is None else PurePath(*file.within.parts)
    if within.suffix.lower() in COMPRESSED:
        within = within.with_suffix("")
    return within.with_suffix("")


def _depth(standoff: Sequence[SourceFile]) -> int | None:
    """Return which folder of the paths is the annotator: the first that differs; ``None`` where there is none."""
    folders = [_place(file).parts[:-1] for file in standoff]
    for depth in range(min(map(len, folders), default=0)):
        if len({parts[depth] for parts in folders}) > 1:
            return depth
    return None
