"""Files that are whole or not there."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
import zlib
from functools import cache
from pathlib import Path

from crowdppl.errors import CrowdpplError, FileError


class atomic:  # noqa: N801 - reads as a verb in a with statement
    """Write a file under another name and put it in place when it is complete."""

    def __init__(self, path: Path):
        self.path = path.resolve() if path.is_symlink() else path  # a link stays, its target changes

    def __enter__(self) -> Path:
        if self.path.is_dir():
            raise FileError(f"cannot write {self.path}: it is a folder; name a file in it")
        if self.path.exists() and not self.path.is_file():
            raise FileError(f"cannot write {self.path}: it is a device or a pipe; name a file")
        try:
            for left in abandoned_parts(self.path):
                if left.is_file():
                    left.unlink(missing_ok=True)
            self.temporary = temporary_path(self.path)
            os.close(os.open(self.temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror}") from None
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        release(self.temporary)
        if kind is not None:
            self.temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and not isinstance(error, CrowdpplError):
                raise FileError(f"cannot write {self.path}: {error.strerror or error}") from error
            return
        try:
            with self.temporary.open("rb+") as file:
                os.fsync(file.fileno())
            self.temporary.replace(self.path)
        except OSError as failed:
            self.temporary.unlink(missing_ok=True)
            raise FileError(f"cannot write {self.path}: {failed.strerror or failed}") from failed


# What this process is writing under another name.
_WRITING: set[str] = set()
_PART = re.compile(r"\.part-(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}")
# Seconds after which a part of another machine counts as abandoned.
OLD = 24 * 3600.0


def temporary_path(path: Path) -> Path:
    """Return a hidden name beside a path, for what is to get the path's name when it is complete."""
    mark = f"part-{_host()}-{os.getpid()}-{secrets.token_hex(4)}"
    part = path.with_name(f".{_short(path.name)}.{mark}")
    _WRITING.add(str(part))
    return part


def _short(name: str) -> str:
    """Cut a name such that a mark fits behind it: file systems count bytes."""
    return os.fsencode(name)[:100].decode("utf-8", "ignore")


def release(part: Path) -> None:
    """Say that a part is no longer written."""
    _WRITING.discard(str(part))


def abandoned_parts(path: Path) -> list[Path]:
    """Return the parts of a path that were left by processes that were killed."""
    begin = f".{path.name[:100]}."
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(begin)]
    except OSError:  # not there, or not to be listed
        return []
    parts = [(path.with_name(name), _PART.fullmatch(name[len(begin) - 1 :])) for name in names]
    return [part for part, match in parts if match is not None and not _written(part, match)]


def _written(part: Path, match: re.Match[str]) -> bool:
    """Tell whether somebody may still be writing a part."""
    process = int(match["process"])
    if match["host"] != _host() or sys.platform == "win32":
        try:
            return time.time() - part.stat().st_mtime < OLD
        except FileNotFoundError:
            return True
    if process == os.getpid():
        return str(part) in _WRITING
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


@cache
def _host() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def require_disk_space(folder: Path, size: int, what: str) -> None:
    """Refuse to begin what the disk, a quota or a limit on files has no room for.

    Some libraries do not survive a write that fails, and an hour of work should not end with one.

    Args:
        folder: where to; it need not be there yet.
        size: bytes at most.
        what: is to be written, for the message.

    Raises:
        FileError: where there is no room.
    """
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(there).free
    if size > free:
        raise FileError(
            f"{what} may take {_megabytes(size)} and {there} has {_megabytes(free)} left; free some, or write elsewhere"
        )
    if hasattr(os, "posix_fallocate"):
        try:
            with tempfile.TemporaryFile(dir=there) as file:
                os.posix_fallocate(file.fileno(), 0, max(1, size))
        except OSError as error:
            raise FileError(
                f"{what} may take {_megabytes(size)}; cannot write that in {there}: {error.strerror}"
            ) from None


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
