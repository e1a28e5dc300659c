"""Files of a folder or an archive that hold annotations, and those that are left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath

from crowdppl.data.readers.brat import STANDOFF
from crowdppl.data.readers.opening import READ_ERRORS, decompressed
from crowdppl.data.readers.services import POTATO, is_potato
from crowdppl.data.readers.source import SourceFile, folder_names, stem
from crowdppl.errors import listed

# A larger file is not blank; and the bytes of blank ones, with byte-order marks.
_SMALL, _BLANKS = 2**12, b" \t\r\n\0\xef\xbb\xbf\xff\xfe"
# The longest line from which a format is recognised.
_LINE = 2**24


def name_by_folders(files: Sequence[SourceFile]) -> None:
    """Name files of one name in folders of workers by their folders: these are the workers."""
    places = [PurePath(file.name) if file.within is None else file.within for file in files]
    if len(files) < 2 or len({stem(within.name) for within in places}) > 1:
        return
    inner = [(file, within.parent) for file, within in zip(files, places, strict=True) if len(within.parts) > 1]
    for (file, _), name in zip(inner, folder_names([parent for _, parent in inner]), strict=True):
        file.stem = name


def with_content(files: list[SourceFile], source: str) -> tuple[list[SourceFile], list[str]]:
    """Return the files with annotations, and notes on those left out: blank ones, and what Potato writes beside annotations.

    Standoff files may be blank, and so may all files.
    """
    if len(files) < 2 or any(file.suffix == STANDOFF for file in files):
        return files, []
    files, notes = _without_logs(files, source)
    blank = [file for file in files if file.path.stat().st_size < _SMALL and not beginning_of(file).strip(_BLANKS)]
    if len(files) < 2 or not blank or len(blank) == len(files):
        return files, notes
    return [file for file in files if file not in blank], [*notes, left_out(blank, source, "blank")]


def _without_logs(files: list[SourceFile], source: str) -> tuple[list[SourceFile], list[str]]:
    """Return the files without those that Potato writes beside the annotations of each person, and a note on them."""
    of_people = [file for file in files if file.within is not None and _of_potato(file)]
    folders = {file.within.parent for file in of_people if file.within is not None}
    logs = [f for f in files if f.within is not None and f.within.parent in folders and f not in of_people]
    if not logs:
        return files, []
    kept = [file for file in files if file not in logs]
    name_by_folders(kept)
    return kept, [left_out(logs, source, "beside Potato's annotations")]


def _of_potato(file: SourceFile) -> bool:
    """Return whether a file has Potato's name, is JSON Lines, and begins with a record of Potato's."""
    if file.within is None or stem(file.within.name) != POTATO or file.suffix not in (".jsonl", ".ndjson"):
        return False
    try:
        with decompressed(file.path) as stream:
            record = json.loads(stream.readline(_LINE))
    except (ValueError, RecursionError, *READ_ERRORS):
        return False  # reported when it is read
    return isinstance(record, dict) and is_potato(record)


def beginning_of(file: SourceFile) -> bytes:
    """Return the first bytes of a file, decompressed; some bytes that are not blank where they cannot be read."""
    try:
        with decompressed(file.path) as stream:
            return stream.read(_SMALL)
    except READ_ERRORS:
        return b"?"  # reported when it is read


def left_out(files: Sequence[SourceFile], source: str, why: str) -> str:
    """Return the note on files that are left out."""
    names = listed([file.name.removeprefix(f"{source}: ") for file in files], 5)
    return f"{source}: {len(files):,} {'file is' if len(files) == 1 else 'files are'} {why} and left out: {names}"
