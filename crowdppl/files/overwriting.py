"""The rule by which commands replace files.

A command replaces a file that no command wrote only with ``--overwrite``, and never a file that it reads. Files that are
left of an earlier result are removed only if a command wrote them: if they are sealed and intact
(:mod:`crowdppl.files.digests`), or have the digest that is in ``run.json`` beside them.

The rule holds within :func:`guarded`, for every file that is written by :class:`crowdppl.files.atomic` and every folder of
results. Functions of the library replace files as those of other libraries do.
"""

from __future__ import annotations

import filecmp
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from crowdppl.errors import FileError
from crowdppl.files import digests

# The file of a folder of results that has the digests of the others, in its entry "files".
RECORD = "run.json"
_Identity = tuple[int, int]


@dataclass(frozen=True)
class _Rule:
    """What holds for a command.

    Attributes:
        files: identities of the files that it reads.
        folders: that it reads.
        overwrite: whether it may replace files of others.
    """

    files: frozenset[_Identity]
    folders: tuple[Path, ...]
    overwrite: bool


_RULE: ContextVar[_Rule | None] = ContextVar("rule", default=None)


@contextmanager
def guarded(inputs: Sequence[Path], *, overwrite: bool) -> Iterator[None]:
    """Apply the rule to all files that are written in a block.

    Args:
        inputs: files and folders that are read in the block, which need not exist; ``-`` is standard input.
        overwrite: whether existing files may be replaced.

    Raises:
        FileError: if the path of an input cannot be looked up.
    """
    files, folders = set(), []
    for path in inputs:
        status = _standard_input() if str(path) == "-" else status_of(path)
        if status is None:
            continue
        if stat.S_ISREG(status.st_mode):
            files.add((status.st_dev, status.st_ino))
        elif stat.S_ISDIR(status.st_mode):
            folders.append(path.resolve())
    token = _RULE.set(_Rule(frozenset(files), tuple(folders), overwrite))
    try:
        yield
    finally:
        _RULE.reset(token)


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of a file or folder, ``None`` where there is none.

    Raises:
        FileError: if the path cannot be looked up: a loop of links, a name that is too long, a folder that may not be searched.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileError(f"{path} cannot be looked up: {error.strerror}; name another path") from None
    except ValueError as error:  # a null character
        raise FileError(f"{str(path)!r} is not a path: {error}") from None


def _standard_input() -> os.stat_result | None:
    try:
        return os.fstat(sys.stdin.fileno()) if sys.stdin is not None else None
    except (OSError, ValueError):  # not a file
        return None


def refuse_input(path: Path) -> None:
    """Check that a file, or a folder of files, to be replaced is no input of the command.

    Raises:
        FileError: if it is one, whether or not files may be overwritten.
    """
    rule, status = _RULE.get(), status_of(path)
    if rule is None or status is None:
        return
    within = next((folder for folder in rule.folders if path.resolve().is_relative_to(folder)), None)
    if (status.st_dev, status.st_ino) in rule.files:
        raise FileError(f"{path} is the input, which is never replaced; write elsewhere with out=...")
    if within is not None and not is_own(path.parent, path.name):
        raise FileError(f"{path} is part of the input, which is never replaced; write elsewhere with out=...")


def permit(path: Path, new: Path) -> None:
    """Check that a file may be replaced by a new one, which is complete.

    Raises:
        FileError: if it may not.
    """
    refuse_input(path)
    rule = _RULE.get()
    if rule is None or rule.overwrite or not path.exists():
        return
    if not (is_own(path.parent, path.name) or filecmp.cmp(path, new, shallow=False)):
        raise FileError(f"{path} already exists; name another file with out=..., or replace it with overwrite=True")


def is_own(folder: Path, name: str) -> bool:
    """Return whether a file was written by a command and is still as it was.

    Args:
        folder: of results.
        name: of the file in it, or of a file in a folder of it, with slashes.
    """
    path = folder / name
    try:
        if not path.is_file():
            return False
        recorded = record(folder)
        if name == RECORD:
            return bool(recorded)
        if name in recorded and recorded[name] == digests.sha256(path):
            return True
        return digests.state(path) == "intact"
    except OSError:  # not readable: as good as a file of others
        return False


def record(folder: Path) -> dict[str, str]:
    """Return the digests of the files in a folder of results, by name; none where ``run.json`` has none."""
    try:
        files = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {str(name): str(digest) for name, digest in files.items()} if isinstance(files, dict) else {}


def digests_of(folder: Path) -> dict[str, str]:
    """Return the digests of all files in a folder and its folders, by name, as ``run.json`` holds them."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != RECORD)
    return {path.relative_to(folder).as_posix(): digests.sha256(path) for path in paths}
