"""Inspect's binary logs: archives of a header and a file for each sample."""

from __future__ import annotations

import json
import zipfile
from functools import cached_property
from pathlib import Path
from typing import Any

from crowdppl.data.readers.opening import READ_ERRORS
from crowdppl.errors import FileError
from crowdppl.judges.readers.content import Content

ENDING = ".eval"
# The header is written at the end; a log that was cut off has only its beginning.
_HEADERS = ("header.json", "_journal/start.json", "start.json")
_SAMPLES = "samples/"


class Archive(Content):
    """A binary log as the document that the same log in JSON is. It is never a table."""

    @cached_property
    def document(self) -> Any:
        """The log, with its samples.

        Raises:
            FileError: if it is damaged, larger than the limit, or compressed by a method that this Python does not have.
        """
        try:
            with zipfile.ZipFile(self.path) as archive:
                return self._log(archive)
        except NotImplementedError:  # Zstandard, before Python 3.14
            raise FileError(
                f"{self.name} is compressed by a method that this Python cannot read; convert it with: inspect log convert "
                f"{self.name} --to json --output-dir logs"
            ) from None
        except (RecursionError, KeyError, TypeError, *READ_ERRORS) as error:
            if isinstance(error, FileError):
                raise
            reason = " ".join(str(error).split())[:150]
            raise FileError(f"{self.name} cannot be read as Inspect's log: {reason}; download it again") from None

    def _log(self, archive: zipfile.ZipFile) -> Any:
        names = archive.namelist()
        header = next((name for name in _HEADERS if name in names), None)
        samples = [name for name in names if name.startswith(_SAMPLES) and name.endswith(".json")]
        if header is None:
            raise FileError(f"{self.name} has no {_HEADERS[0]}, and is not Inspect's log; name another format")
        size = sum(archive.getinfo(name).file_size for name in [header, *samples])
        if size > self.file.limit:
            raise FileError(f"{self.name} has {size:,} bytes once decompressed; raise limit= if this is intended")
        log = json.loads(archive.read(header))
        return {**log, "samples": [json.loads(archive.read(name)) for name in samples]}

    @cached_property
    def columns(self) -> list[str]:
        """No columns."""
        return []


def opened(path: Path, limit: int) -> Content:
    """Return the content of a file: of a binary log, or of any other file."""
    return Archive(path, limit) if path.suffix == ENDING else Content(path, limit)
