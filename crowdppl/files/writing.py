"""Atomic writes of files, and checks of disk space."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
import zlib
from functools import cache
from pathlib import Path

from crowdppl.errors import CrowdpplError, FileError
from crowdppl.files import overwriting


class atomic:  # noqa: N801 - reads as a verb in a with statement
    """Write a file under a temporary name and rename it when it is complete.

    Args:
        path: of the file. The target of a link is replaced, and the link stays.
        again: replace the file also where :mod:`crowdppl.files.overwriting` would not, for files that are written repeatedly.

    Raises:
        FileError: if the file cannot be written, or may not be replaced.
    """

    def __init__(self, path: Path, *, again: bool = False):
        self.path, self.again = path, again

    def __enter__(self) -> Path:
        status = overwriting.status_of(self.path)
        if self.path.is_symlink():
            self.path = self.path.resolve()
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise FileError(f"cannot write {self.path}: it is a folder; name a file in it")
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise FileError(f"cannot write {self.path}: it is a device or a pipe; name a file")
        overwriting.refuse_input(self.path)
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
            if not self.again:
                overwriting.permit(self.path, self.temporary)
            self.temporary.replace(self.path)
        except FileError:
            self.temporary.unlink(missing_ok=True)
            raise
        except OSError as failed:
            self.temporary.unlink(missing_ok=True)
            raise FileError(f"cannot write {self.path}: {failed.strerror or failed}") from failed


# Temporary files that this process is writing.
_WRITING: set[str] = set()
_PART = re.compile(r"\.part-(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}")
# Bytes of a name that a temporary name keeps.
_LONGEST = 100
# Age in seconds from which a temporary file of another host counts as abandoned.
MAX_AGE = 24 * 3600.0


def temporary_path(path: Path) -> Path:
    """Return a hidden name in the same folder, under which a file is written before it is renamed to the path."""
    mark = f"part-{_host()}-{os.getpid()}-{secrets.token_hex(4)}"
    part = path.with_name(f".{_short(path.name)}.{mark}")
    _WRITING.add(str(part))
    return part


def _short(name: str) -> str:
    """Shorten a name so that a suffix fits into the limit of the file system, which counts bytes.

    Names that begin alike stay different, and a character is not cut.
    """
    if len(os.fsencode(name)) <= _LONGEST:
        return name
    digest = f"~{zlib.crc32(os.fsencode(name)):08x}"
    while len(os.fsencode(name)) > _LONGEST - len(digest):
        name = name[:-1]
    return name + digest


def release(part: Path) -> None:
    """Mark a temporary file as no longer being written."""
    _WRITING.discard(str(part))


def abandoned_parts(path: Path) -> list[Path]:
    """Return the temporary files of a path that were left by killed processes."""
    begin = f".{_short(path.name)}."
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(begin)]
    except OSError:  # missing or unreadable folder
        return []
    candidates = [(path.with_name(name), _PART.fullmatch(name[len(begin) - 1 :])) for name in names]
    return [part for part, match in candidates if match is not None and not _written(part, match)]


def _written(part: Path, match: re.Match[str]) -> bool:
    """Return whether a temporary file may still be in use."""
    process = int(match["process"])
    if match["host"] != _host() or sys.platform == "win32":
        try:
            return time.time() - part.stat().st_mtime < MAX_AGE
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
    """Check for disk space before a computation or a write, including quotas and limits on file sizes.

    A failed write crashes some libraries, and would lose the result of a long computation.

    Args:
        folder: target folder, which need not exist.
        size: maximum size in bytes.
        what: name of the file in messages.

    Raises:
        FileError: if there is not enough space.
    """
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(existing).free
    if size > free:
        raise FileError(
            f"{what} may take {_megabytes(size)} and {existing} has {_megabytes(free)} left; free some space, or write elsewhere"
        )
    if hasattr(os, "posix_fallocate"):
        try:
            with tempfile.TemporaryFile(dir=existing) as file:
                os.posix_fallocate(file.fileno(), 0, max(1, size))
        except OSError as error:
            raise FileError(
                f"{what} may take {_megabytes(size)}; cannot write that in {existing}: {error.strerror}"
            ) from None


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
