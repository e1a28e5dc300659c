"""Exports of several files: a folder or a zip archive, read as one set of annotations."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import pandas as pd
import pyarrow

from crowdppl.data.readers.brat import STANDOFF, TEXT
from crowdppl.data.readers.copied_files import copies_among
from crowdppl.data.readers.file_kinds import other_kind
from crowdppl.data.readers.joined_tables import numbered_again, with_equal_columns, with_workers
from crowdppl.data.readers.members import left_out, name_by_folders
from crowdppl.data.readers.opening import COMPRESSED, READ_ERRORS, first_bytes
from crowdppl.data.readers.records import Choices, Records, uniform
from crowdppl.data.readers.source import ENDINGS, SourceFile
from crowdppl.data.readers.streams import local, source_name
from crowdppl.data.table.rows_in_doubt import NOTED
from crowdppl.errors import DataError, FileError, listed
from crowdppl.files import digests

# Number of files that are read as one.
MOST = 200_000
# Notes of single files that are shown.
_MOST_NOTES = 12
# Bytes by which the kind of a file is recognised, and bytes copied at a time.
_START = 2**12
_BLOCK = 2**20
# Names of texts about data, which are no data, and of files that programs keep beside an open one.
_ABOUT = re.compile(
    r"(readme|read_me|licen[cs]e|copying|changelog|notice|citation|authors|contributing)\b.*\.txt(\.\w+)?", re.I
)
_LOCKS = ("~$", ".~lock")
# Endings of archives, which are not opened in others.
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".7z", ".rar")
# Members by which office documents, which are archives too, are recognised.
_DOCUMENTS = ("[Content_Types].xml", "mimetype")


@contextmanager
def sources(path: str | Path, limit: int) -> Iterator[list[SourceFile]]:
    """Yield the files of an input: one, or those of a folder or an archive.

    Args:
        path: path of a file, a stream, a folder or a zip archive.
        limit: maximum size in bytes, decompressed, of each file and of all files of an archive or a folder.

    Raises:
        FileError: if the path does not exist, or it is a folder or an archive without data or that is too large.
    """
    if isinstance(path, (str, os.PathLike)) and Path(path).is_dir():
        yield _of_folder(Path(path), limit)
        return
    with local(path) as file:
        if not _is_archive(file):
            yield [SourceFile(file, limit)]
            return
        with tempfile.TemporaryDirectory(prefix="crowdppl-") as folder:
            yield _of_archive(file, Path(folder), limit)


def _is_archive(path: Path) -> bool:
    if path.suffix.lower() != ".zip" or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return not any(name in _DOCUMENTS for name in archive.namelist())
    except READ_ERRORS:
        return False  # reported when it is read


def _is_data(within: PurePath, known: Sequence[str] = ENDINGS) -> bool:
    """Return whether a member may hold annotations, by its ending; hidden files do not."""
    if any(part.startswith((".", "__MACOSX")) and part != ".." for part in within.parts):
        return False
    if within.name.startswith(_LOCKS) or (_ABOUT.fullmatch(within.name) and STANDOFF not in known):
        return False
    endings = [ending.lower() for ending in within.suffixes]
    while endings and endings[-1] in COMPRESSED:
        endings.pop()
    return bool(endings) and endings[-1] in known


def _chosen(names: list[PurePath], source: str, start: Callable[[PurePath], bytes]) -> list[PurePath]:
    """Return the members with data, in order.

    Args:
        names: the members.
        source: name of the folder or archive.
        start: returns the first bytes of a member.

    Raises:
        FileError: if there are none, or too many.
    """
    standoff = any(_is_data(name, (STANDOFF,)) for name in names)
    chosen = sorted((name for name in names if _is_data(name, (STANDOFF, TEXT) if standoff else ENDINGS)), key=_natural)
    if not chosen:
        others = f"; it has {listed(map(str, names), 3)}" if names else ""
        kind = other_kind(start(names[0]), Path(names[0])) if names else None
        others += f"; {names[0].name} is {kind}" if kind else ""
        raise FileError(f"{source} contains no file of annotations ({', '.join(ENDINGS)}){others}")
    if len(chosen) > MOST:
        raise FileError(f"{source} contains {len(chosen):,} files; at most {MOST:,} are read as one")
    return chosen


def _first_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.flag_bits & 1:
        return b""
    with archive.open(member) as stream:
        return stream.read(_START)


def _archives(names: Sequence[PurePath], source: str) -> list[str]:
    """Return a note on archives in a folder or an archive, which are not opened."""
    within = [name for name in names if name.name.lower().endswith(_ARCHIVES) and not name.name.startswith(".")]
    within = [name for name in within if "__MACOSX" not in name.parts]
    if not within:
        return []
    which = "an archive that is" if len(within) == 1 else f"{len(within):,} archives that are"
    return [
        f"{source}: it contains {which} not opened, {listed(map(str, within), 3)}; if annotations are in there, unpack it"
    ]


def _natural(path: PurePath) -> list[tuple[int, int, str]]:
    """Return a key that sorts 2 before 10."""
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _of_folder(folder: Path, limit: int) -> list[SourceFile]:
    source = source_name(folder)
    paths = [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]
    chosen = _chosen(
        [path.relative_to(folder) for path in paths], source, lambda name: first_bytes(folder / name, _START)
    )
    size = sum((folder / name).stat().st_size for name in chosen)
    if size > limit:
        raise FileError(f"{source} has {size:,} bytes in {len(chosen):,} files; raise limit= if this is intended")
    beside = _archives([path.relative_to(folder) for path in paths], source)
    return _named([(folder / name, name) for name in chosen], source, limit, beside)


def _of_archive(path: Path, folder: Path, limit: int) -> list[SourceFile]:
    source = source_name(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                (PurePosixPath(info.filename.replace("\\", "/")), info)
                for info in archive.infolist()
                if not info.is_dir()
            ]
            infos: dict[PurePath, zipfile.ZipInfo] = dict(members)
            kept = set(_chosen([name for name, _ in members], source, lambda name: _first_of(archive, infos[name])))
            beside = _archives([name for name, _ in members if name not in kept], source)
            members = [(name, info) for name, info in members if name in kept]
            if any(info.flag_bits & 1 for _, info in members):
                raise FileError(f"{source} is encrypted; unpack it, and read the folder")
            left = limit
            copies = []
            for n, (name, info) in enumerate(sorted(members, key=lambda member: _natural(member[0]))):
                place = folder / str(n)
                place.mkdir()
                copy = place / name.name
                with archive.open(info) as stream, copy.open("wb") as file:
                    while block := stream.read(_BLOCK):
                        left -= len(block)
                        if left < 0:
                            raise FileError(
                                f"{source} has more than {limit:,} bytes once decompressed; raise limit= if this is intended"
                            )
                        file.write(block)
                copies.append((copy, name))
    except (RuntimeError, NotImplementedError, *READ_ERRORS) as error:
        if isinstance(error, FileError):
            raise
        reason = " ".join(str(error).split())[:150]
        raise FileError(f"{source} cannot be unpacked: {reason}; download it again") from None
    return _named(copies, source, limit, beside)


def _named(
    files: Sequence[tuple[Path, PurePath]], source: str, limit: int, beside: Sequence[str] = ()
) -> list[SourceFile]:
    """Return the files under their names in the folder or archive; the first one has the notes on what is beside them."""
    out = [SourceFile(path, limit, within) for path, within in files]
    for file, (_, within) in zip(out, files, strict=True):
        file.name = f"{source}: {within}"
    out[0].beside += beside
    name_by_folders(out)
    return out


def merged(
    parts: Sequence[Records], files: Sequence[SourceFile], source: str, choices: Choices, *, tables: bool
) -> Records:
    """Return the annotations of several files of one format.

    Args:
        parts: annotations of each file.
        files: the files.
        source: name of the folder or archive.
        choices: choices of the user.
        tables: whether they are tables with a row for each annotation, whose columns are not known yet.

    Raises:
        DataError: if tables have different columns.
    """
    notes = [f"{source}: {len(parts):,} files are read as one"] if len(parts) > 1 else []
    bare = [file for part, file in zip(parts, files, strict=True) if not len(part.frame)]
    if bare and len(parts) > len(bare):
        notes.append(left_out(bare, source, "without a row"))
    if tables and len(parts) > 1:
        notes += with_workers(parts, files, source, choices)
        notes += with_equal_columns(parts, files, source, choices)
    first = parts[0]
    if len(parts) == 1:
        return first
    _require_one_question(parts, files)
    notes += copies_among(parts, files, source)
    notes += numbered_again(parts, files, source, choices)
    names = dict.fromkeys(name for part in parts for name in part.frame.columns)
    columns = [_joined([_column(part.frame, name) for part in parts]) for name in names]
    frame = pd.concat(columns, axis=1).set_axis(pd.Index(list(names), dtype=object), axis=1)
    frame.attrs[NOTED] = list(dict.fromkeys(name for part in parts for name in part.frame.attrs.get(NOTED, ())))
    for name in ("task", "worker", "label") if not tables else ():
        frame[name] = uniform(frame[name].astype(object))
    truth: dict[Any, Any] = {}
    conflicts = set()
    text = not tables and frame["task"].dtype == object
    for part in parts:
        for item, label in part.truth.items():
            item = str(item) if text else item
            label = str(label) if frame["label"].dtype == object else label
            if truth.setdefault(item, label) != label:
                conflicts.add(item)
    if conflicts:
        notes.append(f"{source}: {len(conflicts):,} items with contradictory known truths, which are ignored")
    truth = {item: label for item, label in truth.items() if item not in conflicts}
    inputs = tuple(dict.fromkeys(name for part in parts for name in part.inputs))
    notes += _summed(parts, files, source)
    return Records(
        frame, first.format, truth, notes, first.several, inputs, first.item_name, first.places, first.question
    )


def _column(frame: pd.DataFrame, name: str) -> Any:
    """Return a column of a frame, blank where it has none of this name."""
    return frame[name] if name in frame else pd.Series([None] * len(frame), dtype=object)


def _joined(columns: list[Any]) -> Any:
    """Return a column of several files below each other: text where it is text in one of them, as it is written."""
    kinds = {column.dtype for column in columns}
    if all(isinstance(kind, pd.ArrowDtype) for kind in kinds):
        arrays = [pyarrow.chunked_array(pyarrow.array(column.array)) for column in columns]
        plain = [
            array.cast(array.type.value_type) if pyarrow.types.is_dictionary(array.type) else array for array in arrays
        ]
        types = {array.type for array in plain}
        if len(types) > 1:
            plain = [array.cast(pyarrow.string()) for array in plain]
        whole = pyarrow.chunked_array([chunk for array in plain for chunk in array.chunks], plain[0].type)
        return pd.Series(pd.arrays.ArrowExtensionArray(whole.dictionary_encode().unify_dictionaries()))
    if len(kinds) > 1:
        both = [column.astype(object).where(column.notna(), None) for column in columns]
        if {type(value) for column in both for value in column if value is not None} == {int, str}:
            both = [column.map(str, na_action="ignore") for column in both]
        columns = both
    return pd.concat(columns, ignore_index=True)


def _require_one_question(parts: Sequence[Records], files: Sequence[SourceFile]) -> None:
    """Refuse files whose answers are to different questions.

    Raises:
        DataError: naming a file for each of two questions.
    """
    asked: dict[str, str] = {}
    for part, file in zip(parts, files, strict=True):
        if part.question is not None:
            asked.setdefault(part.question, file.name)
    if len(asked) > 1:
        (first, name), (second, other), *_ = asked.items()
        raise DataError(
            f"{name} has answers to {first!r} and {other} to {second!r}; choose one with question=..., or give both the same "
            f"name if they are one question"
        )


def _summed(parts: Sequence[Records], files: Sequence[SourceFile], source: str) -> list[str]:
    """Return the notes of all files, those that differ in one number added up."""
    totals: dict[str, int] = {}
    for part, file in zip(parts, files, strict=True):
        for note in part.notes:
            text = note.removeprefix(f"{file.name}: ")
            numbers = re.findall(r"(?<![\w'.])\d[\d,]*(?![\w'.])", text)
            once = len(numbers) == 1
            key = text.replace(numbers[0], "\0", 1) if once else text
            if len(numbers) > 1:  # they have no sum that is true of all files: the file is named
                key = f"{file.name.removeprefix(f'{source}: ')}: {text}"
            totals[key] = totals.get(key, 0) + (int(numbers[0].replace(",", "")) if once else 1)
    notes = [f"{source}: {key.replace(chr(0), f'{total:,}')}" for key, total in totals.items()]
    if len(notes) <= _MOST_NOTES:
        return notes
    return [*notes[:_MOST_NOTES], f"{source}: and {len(notes) - _MOST_NOTES:,} further notes on single files"]


def same_format(names: Sequence[str], files: Sequence[SourceFile], source: str) -> str:
    """Return the format that all files have.

    Raises:
        FileError: if they have several.
    """
    first = {
        name: file.name.removeprefix(f"{source}: ") for name, file in reversed(list(zip(names, files, strict=True)))
    }
    if len(first) > 1:
        each = ", ".join(f"{file!r} is {name!r}" for name, file in sorted(first.items())[:4])
        raise FileError(f"{source}: its files have different formats ({each}); read those of each format by themselves")
    return names[0]


def digest(folder: Path) -> str:
    """Return a SHA-256 of the names and contents of the files of a folder."""
    total = hashlib.sha256()
    for file in _of_folder(folder, 2**63):
        total.update(f"{file.within}\0{digests.sha256(file.path)}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()
