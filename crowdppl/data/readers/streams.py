"""Input that can be read once only: standard input, pipes, ``<(...)`` and named pipes are copied to a temporary file first.

Readers look into a file several times: for its kind, its header, its size, its content and its digest.
"""

from __future__ import annotations

import functools
import os
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

# Bytes that a stream may have.
LIMIT = 8 * 2**30
STANDARD_INPUT = "-"
# What files of these kinds begin with, and the ending by which readers know them.
SIGNATURES = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"PK\x03\x04": ".zip",
    b"PAR1": ".parquet",
}
_PIECE = 2**20


def existing(path: str | Path) -> Path:
    """Return the path of a file that is there.

    Raises:
        FileError: where it is not, or is a folder.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise FileError(f"a {type(path).__name__} is not the path of a file; pass a string or a Path")
    path = Path(path)
    if not path.exists():
        raise FileError(f"no file {path}; check the name and the folder")
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file in it")
    return path


def source_name(path: str | Path) -> str:
    """Return what messages and results call an input: the name of a file, and that of a stream in words."""
    place = Path(path)
    if str(place) in (STANDARD_INPUT, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        return "standard input"
    name = f"pipe {place.name}" if _descriptor(place) else place.name
    # Names of files need not be text, and what is written down is.
    return os.fsencode(name).decode("utf-8", "replace")


def is_stream(path: str | Path) -> bool:
    """Tell whether an input can be read once only, or stands for an open file."""
    place = Path(path)
    if str(place) in (STANDARD_INPUT, "/dev/stdin") or _descriptor(place):
        return True
    try:
        mode = place.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(place: Path) -> bool:
    parent = str(place.parent)
    return place.name.isdecimal() and (parent == "/dev/fd" or (parent.startswith("/proc/") and parent.endswith("/fd")))


@contextmanager
def local(path: str | Path, limit: int = LIMIT) -> Iterator[Path]:
    """Yield the path of a file with the content of an input: its own, or that of a copy of a stream, gone afterwards.

    Args:
        path: of a file or a stream; ``-`` is standard input.
        limit: bytes that a stream may have.

    Raises:
        FileError: where there is no such file, it is a folder, nothing comes through a stream, or more than there is room for.
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
            while piece := stream.read(_PIECE):
                size += len(piece)
                if size > limit:
                    raise FileError(f"{name} has more than {limit:,} bytes; write it to a file, or raise limit=")
                file.write(piece)
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror or error}; write it to a file first") from None
    if not size:
        raise FileError(f"{name} is empty: nothing came through it (a stream can be read once)")
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
    """Let a reader of files take streams, too: it is called with the path of a file in any case."""

    @functools.wraps(read)
    def call(path: str | Path, *args: P.args, **options: P.kwargs) -> T:
        with local(path) as file:
            return read(file, *args, **options)

    return cast("Callable[Concatenate[str | Path, P], T]", call)
