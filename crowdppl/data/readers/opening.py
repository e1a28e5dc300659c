"""Opening of files by their content: compression, encoding, and the limits of size and memory."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyarrow

from crowdppl.data.readers import streams
from crowdppl.data.readers.file_kinds import other_kind
from crowdppl.errors import FileError, listed
from crowdppl.isolation.memory import available_bytes

# Maximum size of a decompressed file in bytes: a defence against decompression bombs.
LIMIT = streams.LIMIT
# Endings of compressed files.
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
# By the first bytes of a compressed file: the function that opens it, an upper bound of its compression ratio, and Arrow's name.
_OPENERS: dict[bytes, tuple[Any, int, str | None]] = {
    b"\x1f\x8b": (gzip.open, 1_100, "gzip"),
    b"BZh": (bz2.open, 50_000, "bz2"),
    b"\xfd7zXZ\0": (lzma.open, 10_000, None),
}
_ZIP = b"PK\x03\x04"
# Bytes of memory that reading takes for each byte of a file, about: Arrow's columns and codes, and Python's objects for JSON.
TABLE_FACTOR, JSON_FACTOR = 2, 6
# Bytes that show what a file is.
HEAD = 2**16
# Lines of a table by which its separator is judged.
LOOKED_AT = 50
_BLOCK = 2**20

# Exceptions of the parsers for truncated, damaged or other files (ImportError: missing decompressor).
READ_ERRORS = (
    ValueError,
    OSError,
    EOFError,
    ImportError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    pyarrow.ArrowException,
)


def decompressed(path: Path) -> IO[bytes]:
    """Open a file for reading bytes, decompressed if its first bytes say that it is compressed.

    Raises:
        FileError: if it is a zip archive of several files, or of none.
    """
    start = first_bytes(path)
    if start.startswith(_ZIP):
        return _member(path)
    opener = next((form[0] for magic, form in _OPENERS.items() if start.startswith(magic)), open)
    return cast("IO[bytes]", opener(path, "rb"))


def arrow_compression(path: Path) -> str | None:
    """Return Arrow's name of the compression of a file; ``None`` if it is not compressed.

    Raises:
        ValueError: if Arrow does not read it.
    """
    start = first_bytes(path)
    form = next((form for magic, form in _OPENERS.items() if start.startswith(magic)), None)
    if start.startswith(_ZIP) or (form is not None and form[2] is None):
        raise ValueError(f"{path.name} is compressed in a way that Arrow does not read")
    return None if form is None else form[2]


def first_bytes(path: Path, count: int = 8) -> bytes:
    """Return the first bytes of a file as they are on disk.

    Raises:
        FileError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise FileError(f"{path.name} cannot be read: {error.strerror or error}; check its permissions") from None


def _member(path: Path) -> IO[bytes]:
    archive = zipfile.ZipFile(path)
    members = content_of(archive)
    if len(members) != 1:
        archive.close()
        names = f", {listed((member.filename for member in members), 4)}" if members else ""
        raise FileError(
            f"{path.name} cannot be read as one file: the archive holds {len(members):,} files{names}; unpack it and name one"
        )
    return archive.open(members[0])


def content_of(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files of an archive, without folders and what operating systems add."""
    return [
        member
        for member in archive.infolist()
        if not member.is_dir()
        and not re.search(r"(^|/)(__MACOSX/|\.(?!\.?/)|Thumbs\.db$|desktop\.ini$)", member.filename)
    ]


# The beginnings of gzip, bzip2 and xz.
_TWICE = (b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0")


def beginning(path: Path, count: int = HEAD) -> bytes:
    """Return the first bytes of a file, decompressed.

    Raises:
        FileError: if it is damaged, of a kind that is not read, or blank.
    """
    refuse_other_kinds(path, first_bytes(path, 512))
    try:
        with decompressed(path) as file:
            start = file.read(count)
    except FileError:
        raise
    except (*READ_ERRORS, RuntimeError, NotImplementedError) as error:  # the last two: encrypted or unknown archives
        raise damaged(path, error) from None
    if start.startswith(_TWICE):
        raise FileError(f"{path.name} is compressed twice: decompress it once, and read the result")
    refuse_other_kinds(path, start)
    if len(start) == count >= HEAD and not start.strip(b" \t\r\n\0"):
        raise FileError(f"{path.name} begins with {count:,} blank characters and is no table; export it again")
    return start


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Refuse a file whose first bytes say that it is something else than text or Parquet.

    Raises:
        FileError: naming what it is and what to do.
    """
    kind = other_kind(start, path)
    if kind is not None:
        raise FileError(f"{path.name} is {kind}")


def damaged(path: Path, error: BaseException) -> FileError:
    """Return the error for a file that cannot be read or decompressed."""
    return FileError(f"{path.name} cannot be read: {one_line(error)[:150]}; download it again")


def one_line(error: BaseException) -> str:
    """Return the message of an exception on one line."""
    return " ".join(str(error).split())[:200]


def encoding(start: bytes) -> str:
    """Return the encoding of a text by its first bytes: UTF-16 and UTF-32 with a byte-order mark, otherwise UTF-8."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig"


def text_of(start: bytes) -> str:
    """Return the beginning of a text; it may end within a character."""
    return start.decode(encoding(start), errors="replace")


def declared_separator(text: str) -> str | None:
    """Return the separator that the first line declares for Excel, ``sep=;``; ``None`` without such a line."""
    match = re.match(r"\"?sep=(.)\"?\r?\n", text, flags=re.IGNORECASE)
    return match[1] if match else None


def likely_separator(text: str) -> str:
    """Return the separator of a table by its beginning: that of most columns of those by which all rows have as many.

    Where there is none, the one that occurs most in the first line. Names may contain the other separators: the header
    ``item,"p_a;b;c"`` has two columns.
    """
    lines = text.splitlines(keepends=True)
    first = lines[0] if lines else ""
    whole = len(lines) < LOOKED_AT and len(text) < HEAD
    lines = lines[:LOOKED_AT]

    def columns(separator: str) -> tuple[bool, int]:
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            return False, first.count(separator)
        widths = {len(row) for row in (rows if whole else rows[:1] + rows[1:-1])}  # the last may be a part of a row
        same = len(widths) == 1 and max(widths) > 1
        return same, max(widths) if same else first.count(separator)

    return max(",\t;", key=columns)


class Allowance:
    """How many bytes of a file may be read: the caller's limit, and what the memory at hand allows.

    Args:
        limit: maximum size in bytes.
        factor: bytes of memory for each byte of the file.
    """

    def __init__(self, limit: int, factor: int):
        self.limit, self.factor, self.memory = limit, factor, available_bytes()
        self.most = min(limit, self.memory // factor)

    def error(self, name: str) -> FileError:
        """Return the error for a file with more than ``most`` bytes."""
        if self.most < self.limit:
            return FileError(
                f"{name} has more than {self.most:,} bytes once decompressed, too many for the {self.memory / 2**30:.1f} GiB of "
                f"memory that are free; read it on a machine with more, or write it as Parquet and use crowdppl stream"
            )
        return FileError(
            f"{name} has more than {self.limit:,} bytes once decompressed; raise limit= if this is intended"
        )

    def read(self, path: Path) -> bytes:
        """Return the whole content of a file, decompressed, read in blocks.

        Raises:
            FileError: if it is larger than allowed, or damaged.
        """
        with within_memory(path.name):
            return b"".join(self._blocks(path))

    def require(self, path: Path) -> None:
        """Refuse a file that is larger than allowed; the size of a compressed one is determined by a streaming read.

        Raises:
            FileError: if it is larger, or damaged.
        """
        size, start = path.stat().st_size, first_bytes(path)
        ratio = next((form[1] for magic, form in _OPENERS.items() if start.startswith(magic)), 1)
        if start.startswith(_ZIP):
            try:
                with zipfile.ZipFile(path) as archive:
                    size = sum(member.file_size for member in archive.infolist())
            except READ_ERRORS as error:
                raise damaged(path, error) from None
        elif ratio == 1 and self.most == self.limit:
            return  # the limit is one of decompressed content
        if size * ratio <= self.most:  # the size of a small file is bounded by the maximum compression ratio
            return
        if ratio == 1:
            raise self.error(path.name)
        for _ in self._blocks(path):
            pass

    def _blocks(self, path: Path) -> Iterator[bytes]:
        size = 0
        try:
            with decompressed(path) as file:
                while block := file.read(_BLOCK):
                    size += len(block)
                    if size > self.most:
                        raise self.error(path.name)
                    yield block
        except FileError:
            raise
        except (*READ_ERRORS, RuntimeError, NotImplementedError) as error:
            raise damaged(path, error) from None


@contextmanager
def within_memory(name: str) -> Iterator[None]:
    """Turn exhausted memory into an error of one line.

    Args:
        name: of the input, for the message.

    Raises:
        FileError: if memory runs out in the block.
    """
    try:
        yield
    except MemoryError:
        error = FileError(
            f"{name} needs more memory than this process may use ({available_bytes() / 2**30:.1f} GiB are free); read it on a "
            f"machine with more, or write it as Parquet and use crowdppl stream"
        )
        raise error from None
