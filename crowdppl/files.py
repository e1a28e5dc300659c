"""Files that are whole or not there."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from crowdppl.errors import CrowdpplError, FileError


class atomic:  # noqa: N801 - reads as a verb in a with statement
    """Write a file under another name and put it in place when it is complete."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> Path:
        if self.path.is_dir():
            raise FileError(f"cannot write {self.path}: it is a folder; name a file in it")
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror}") from None
        os.close(handle)
        self.temporary = Path(name)
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None:
            self.temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and not isinstance(error, CrowdpplError):
                raise FileError(f"cannot write {self.path}: {error.strerror or error}") from error
            return
        umask = os.umask(0)
        os.umask(umask)
        try:
            self.temporary.chmod(0o666 & ~umask)
            with self.temporary.open("rb+") as file:
                os.fsync(file.fileno())
            self.temporary.replace(self.path)
        except OSError as failed:
            self.temporary.unlink(missing_ok=True)
            raise FileError(f"cannot write {self.path}: {failed.strerror or failed}") from failed


def require_room(folder: Path, size: int, what: str) -> None:
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
