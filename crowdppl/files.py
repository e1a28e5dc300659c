"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from crowdppl.errors import CrowdpplError, FileError


class atomic:  # noqa: N801 - reads as a verb in a with statement
    """Write a file under another name and put it in place when it is complete."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> Path:
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
        self.temporary.chmod(0o666 & ~umask)
        with self.temporary.open("rb+") as file:
            os.fsync(file.fileno())
        self.temporary.replace(self.path)
