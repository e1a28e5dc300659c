"""brat's standoff files: a folder of each annotator, with ``.ann`` files beside the ``.txt`` files they speak of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.spans import Span, SpanRows
from crowdppl.errors import DataError, FileError, listed

# The ending of standoff files, and that of the texts.
STANDOFF, TEXT = ".ann", ".txt"
# "T1<tab>PERSON 0 5<tab>Alice"; the places of a span in pieces are apart by semicolons.
_SPAN = re.compile(r"T\S*\t(?P<kind>\S+) (?P<places>\d+ \d+(?:;\d+ \d+)*)(?:\t|$)")
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
    places = {_place(file): file for file in files if _ending(file) == TEXT}
    standoff = [file for file in files if _ending(file) == STANDOFF]
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
        spans, more, left_out = _spans(file)
        pieces, others = pieces + more, others + left_out
        rows.add(text_id.as_posix(), worker, text.text, spans, str(file.within))
    records = rows.finish("brat")
    if not records.frame[["sequence", "worker"]].drop_duplicates()["sequence"].duplicated().any():
        names = listed(sorted(set(records.frame["worker"])), 3)
        records.notes.append(
            f"{source}: no text has spans of two annotators; the folders {names} were taken for annotators: read the folder "
            f"above if they contain the texts of one"
        )
    if pieces:
        records.notes.append(f"{source}: {pieces:,} spans in pieces; each piece is a span")
    if others:
        records.notes.append(f"{source}: {others:,} relations, events, attributes and notes are left out")
    records.format = "brat"
    return records


def _spans(file: SourceFile) -> tuple[list[Span], int, int]:
    """Return the spans of a standoff file, and the numbers of spans in pieces and of other annotations."""
    spans, pieces, others = [], 0, 0
    for number, line in enumerate(file.text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        match = _SPAN.match(line)
        if match:
            parts = [part.split(" ") for part in match["places"].split(";")]
            spans += [Span(int(start), int(end), match["kind"]) for start, end in parts]
            pieces += len(parts) > 1
        elif _OTHERS.match(line):
            others += 1
        else:
            raise DataError(
                f"{file.name}, line {number}: {line[:40]!r} is no annotation of brat; spans are like 'T1<tab>TYPE 0 5<tab>text'"
            )
    return spans, pieces, others


def _ending(file: SourceFile) -> str:
    return "" if file.within is None else file.within.suffix.lower()


def _place(file: SourceFile) -> PurePath:
    """Return the path of a file without its ending."""
    assert file.within is not None
    return PurePath(*file.within.with_suffix("").parts)


def _depth(standoff: Sequence[SourceFile]) -> int | None:
    """Return which folder of the paths is the annotator: the first that differs; ``None`` where there is none."""
    folders = [_place(file).parts[:-1] for file in standoff]
    for depth in range(min(map(len, folders))):
        if len({parts[depth] for parts in folders}) > 1:
            return depth
    return None
