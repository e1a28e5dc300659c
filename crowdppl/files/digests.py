"""Digests of files: which file was read, and whether a file is still as it was written.

A sealed file ends in a line with the SHA-256 of all bytes before it. Readers of HTML take the line for a comment, and readers of
NetCDF ignore what follows the data.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import IO, Any, Literal

_SEAL = "\n<!-- crowdppl sha256 {} -->\n"
_PATTERN = re.compile(re.escape(_SEAL.format("@")).replace("@", "([0-9a-f]{64})").encode())
_LENGTH = len(_SEAL.format("0" * 64))
# Bytes read at a time.
_BLOCK = 2**20


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(path: Path) -> None:
    """Append the digest of a file to it.

    Raises:
        OSError: if it cannot be written.
    """
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, 2)
        file.write(_SEAL.format(digest).encode())


def state(path: Path) -> Literal["intact", "changed", "unsealed"]:
    """Return whether a file is as it was when it was sealed.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        end = file.seek(0, 2) - _LENGTH
        if end < 0:
            return "unsealed"
        file.seek(end)
        seal_line = _PATTERN.fullmatch(file.read())
        if seal_line is None:
            return "unsealed"
        file.seek(0)
        return "intact" if _begin(file, end) == seal_line[1].decode() else "changed"


def _begin(file: IO[Any], size: int) -> str:
    """Return the SHA-256 of the first bytes of an open file, in hex."""
    total = hashlib.sha256()
    while size > 0 and (block := file.read(min(_BLOCK, size))):
        total.update(block)
        size -= len(block)
    return total.hexdigest()
