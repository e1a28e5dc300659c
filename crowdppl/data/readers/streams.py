"""Input that can be read only once (standard input, pipes, ``<(...)``, named pipes): copied to a temporary file first.

Readers open a file several times: for its kind, header, size, content and digest.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Concatenate, ParamSpec, TypeVar, cast

from crowdppl.errors import FileError

P = ParamSpec("P")
T = TypeVar("T")

# Maximum size of a stream in bytes.
LIMIT = 8 * 2**30
STANDARD_INPUT = "-"
# Signatures at the beginning of files, and the endings by which readers recognise the formats.
SIGNATURES = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"PK\x03\x04": ".zip",
    b"PAR1": ".parquet",
}
# Bytes copied at a time.
_BLOCK = 2**20


def existing(path: str | Path) -> Path:
    """Return the path of an existing file.

    Raises:
        FileError: if it does not exist, or is a folder.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise FileError(f"a {type(path).__name__} is not the path of a file; pass a string or a Path")
    if address := re.match(r"(https?|ftp|s3|gs|hdfs|abfss?):/+(.+)", str(path), flags=re.IGNORECASE):
        raise FileError(
            f"{address[1]}://{address[2]} is an address, not a file; download it first, for example with curl -LO, and name "
            f"the file"
        )
    path = Path(path)
    if not path.exists():
        raise FileError(f"no file {path}; check the name and the folder")
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file in it")
    return path


def source_name(path: str | Path) -> str:
    """Return the name of an input in messages and results: that of the file, or a description of the stream."""
    path = Path(path)
    if str(path) in (STANDARD_INPUT, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        return "standard input"
    name = f"pipe {path.name}" if _descriptor(path) else path.name or path.resolve().name
    # File names need not be valid text, but results must be.
    return os.fsencode(name).decode("utf-8", "replace")


def is_stream(path: str | Path) -> bool:
    """Return whether an input can be read only once, or is a file descriptor."""
    path = Path(path)
    if str(path) in (STANDARD_INPUT, "/dev/stdin") or _descriptor(path):
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: Path) -> bool:
    parent = str(path.parent)
    return path.name.isdecimal() and (parent == "/dev/fd" or (parent.startswith("/proc/") and parent.endswith("/fd")))


@contextmanager
def local(path: str | Path, limit: int = LIMIT) -> Iterator[Path]:
    """Yield the path of a file with the content of an input: the file itself, or a temporary copy of a stream.

    Args:
        path: path of a file or a stream; ``-`` is standard input.
        limit: maximum size of a stream in bytes.

    Raises:
        FileError: if the file does not exist or is a folder, or a stream is empty, unreadable or too large.
    """
    if isinstance(path, (str, os.PathLike)) and is_stream(path):
        with tempfile.TemporaryDirectory(prefix="crowdppl-") as folder:
            yield _copied(Path(path), Path(folder), limit)
    else:
        yield existing(path)


def _copied(path: Path, folder: Path, limit: int) -> Path:
    name = source_name(path)
    copy = folder / name
    try:
        with _opened(path) as stream, copy.open("wb") as file:
            size = 0
            while block := stream.read(_BLOCK):
                size += len(block)
                if size > limit:
                    raise FileError(f"{name} has more than {limit:,} bytes; write it to a file, or raise limit=")
                file.write(block)
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror or error}; write it to a file first") from None
    if not size:
        raise FileError(f"{name} is empty: no data came through it (a stream can be read only once)")
    with copy.open("rb") as file:
        start = file.read(8)
    ending = next((ending for signature, ending in SIGNATURES.items() if start.startswith(signature)), "")
    return copy if name.lower().endswith(ending) else copy.rename(folder / f"{name}{ending}")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    if str(path) != STANDARD_INPUT:
        with path.open("rb") as stream:
            yield stream
    elif sys.stdin is None:
        raise FileError("there is no standard input; name a file")
    else:
        yield cast("IO[bytes]", getattr(sys.stdin, "buffer", sys.stdin))


def streamed(read: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[str | Path, P], T]:
    """Extend a reader of files to streams: the reader is always called with the path of a regular file."""

    @functools.wraps(read)
    def call(path: str | Path, *args: P.args, **options: P.kwargs) -> T:
        with local(path) as file:
            return read(file, *args, **options)

    return cast("Callable[Concatenate[str | Path, P], T]", call)
