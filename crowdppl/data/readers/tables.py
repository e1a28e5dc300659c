"""Readers of CSV and Parquet tables that keep identifiers as written."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.parquet

from crowdppl.data.readers import streams
from crowdppl.data.readers.spreadsheets import restored
from crowdppl.data.readers.streams import existing, streamed
from crowdppl.errors import FileError

# Maximum size of a decompressed file in bytes: a defence against decompression bombs.
LIMIT = streams.LIMIT
# Functions that open compressed files, and upper bounds of their compression ratios.
COMPRESSED: dict[str, tuple[Any, int]] = {
    ".gz": (gzip.open, 1_100),
    ".bz2": (bz2.open, 50_000),
    ".xz": (lzma.open, 10_000),
}
# Frame attribute: by column, the names from which a quote that protects against spreadsheet formulas was removed.
UNQUOTED = "crowdppl_unquoted"
MISSING = ["", "nan", "NaN"]
_INTEGER = re.compile(r"-?[1-9][0-9]{0,19}|0")

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


@streamed
def read_csv(path: str | Path, *, separator: str = ",", limit: int | None = None) -> pd.DataFrame:
    """Read a CSV file, plain or compressed, and keep identifiers as written.

    A column becomes integers only if every value is written as an integer (no leading zeros, no plus sign); otherwise it stays
    strings: ``007`` is not ``7``. Only blank cells, ``nan`` and ``NaN`` are missing values. Duplicate column names are kept.

    Args:
        path: path of the file.
        separator: column separator.
        limit: maximum size of a compressed file in bytes, decompressed.

    Raises:
        FileError: if the file does not exist, or is empty, damaged, a web page or not CSV.
    """
    path = existing(path)
    require_size_within(path, LIMIT if limit is None else limit)
    try:
        # The header is read as a normal row: otherwise pandas renames duplicate columns and silently uses the first cells of
        # longer rows as an index. utf-8-sig removes the byte-order mark that spreadsheets write.
        frame = pd.read_csv(
            path, sep=separator, header=None, dtype=str, keep_default_na=False, na_values=MISSING, encoding="utf-8-sig"
        )
    except pd.errors.EmptyDataError:
        raise FileError(f"{path.name} is empty; it needs a header and one row per annotation") from None
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise FileError(
            f"{path.name} is not UTF-8 text (it contains the byte 0x{wrong:02x}); save it as UTF-8"
        ) from None
    except READ_ERRORS as error:
        reason = _one_line(error).removeprefix("Error tokenizing data. C error: ")
        raise FileError(f"{path.name} cannot be read as CSV: {reason}; fix those lines or save it again") from None
    if web_page(str(frame.iloc[0, 0])):
        raise FileError(
            f"{path.name} is a web page, not CSV: it was downloaded without signing in, or from the wrong address"
        )
    header = frame.iloc[0].fillna("")
    body = frame.iloc[1:].reset_index(drop=True)
    # By position: column names may not be unique.
    names = unprotected(header.tolist())
    columns, unquoted = [], {}
    for j, name in enumerate(names):
        column = body.iloc[:, j]
        codes, texts = pd.factorize(column)
        plain = restored(texts.tolist())
        if plain is not None:
            unquoted[name] = changed(texts.tolist(), plain)
            column = pd.Series([*plain, None], dtype=object).iloc[codes].set_axis(column.index)
        columns.append(whole_numbers(column))
    frame = pd.concat(columns, axis=1).set_axis(pd.Index(names, dtype=object), axis=1)
    if unquoted:
        frame.attrs[UNQUOTED] = unquoted
    return frame


def unprotected(names: list[str]) -> list[str]:
    """Return column names without the quotes that protect against spreadsheet formulas."""
    plain = restored(names)
    return names if plain is None else plain


def changed(texts: list[str], plain: list[str]) -> list[str]:
    """Return the texts of a column that were changed, as written in the file."""
    return [before for before, after in zip(texts, plain, strict=True) if before != after]


@streamed
def read_parquet(path: str | Path) -> pd.DataFrame:
    """Read a Parquet file; a stored pandas index becomes a normal column.

    Raises:
        FileError: if the file does not exist or is not Parquet.
    """
    path = existing(path)
    try:
        table = pyarrow.parquet.read_table(path)
        # Integers in columns with missing values stay integers: floats would round large ones.
        return table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    except READ_ERRORS as error:
        raise unreadable_parquet(path, error) from None


def columns_of_parquet(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file.

    Raises:
        FileError: if it is not Parquet.
    """
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except READ_ERRORS as error:
        raise unreadable_parquet(path, error) from None


def unreadable_parquet(path: Path, error: BaseException) -> FileError:
    """Return the error for a file that is damaged or not Parquet."""
    return FileError(f"{path.name} cannot be read as Parquet: {_one_line(error)}; write it again")


def web_page(start: str) -> bool:
    """Return whether a text begins like a web page."""
    return re.match(r"\s*<(!doctype|html|\?xml)", start, flags=re.IGNORECASE) is not None


@streamed
def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table: Parquet with the ending ``.parquet`` or ``.pq``, otherwise CSV."""
    path = existing(path)
    return read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else read_csv(path)


def whole_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of strings as 64-bit integers if all values are written as such, otherwise unchanged."""
    codes, names = pd.factorize(column)
    if len(names) == 0 or not all(map(_INTEGER.fullmatch, names)):
        return column
    numbers = [int(n) for n in names]
    low, high = min(numbers), max(numbers)
    if low >= -(2**63) and high < 2**63:
        values: npt.NDArray[Any] = np.array(numbers, dtype=np.int64)
    elif low >= 0 and high < 2**64:
        values = np.array(numbers, dtype=np.uint64)
    else:
        return column
    # Missing values have the code -1, which selects an arbitrary number; the mask hides it.
    return pd.Series(pd.arrays.IntegerArray(values[codes], codes < 0), index=column.index, name=column.name)


def decompressed(path: Path) -> IO[bytes]:
    """Open a file for reading bytes, decompressed according to its ending."""
    opener: Any = COMPRESSED.get(path.suffix.lower(), (open, 1))[0]
    return cast("IO[bytes]", opener(path, "rb"))


def require_size_within(path: Path, limit: int) -> None:
    """Refuse a compressed file whose decompressed size exceeds the limit; determined by a streaming read.

    Raises:
        FileError: if it is larger, or damaged.
    """
    suffix = path.suffix.lower()
    if suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                size = sum(member.file_size for member in archive.infolist())
        except READ_ERRORS:
            return  # reported when it is read
        if size > limit:
            raise FileError(f"{path.name} has {size:,} bytes once decompressed; raise limit= if this is intended")
    # The size of a small file is bounded by the maximum compression ratio.
    if suffix not in COMPRESSED or path.stat().st_size * COMPRESSED[suffix][1] <= limit:
        return
    size = 0
    try:
        with decompressed(path) as file:
            while block := file.read(2**20):
                size += len(block)
                if size > limit:
                    raise FileError(
                        f"{path.name} has more than {limit:,} bytes once decompressed; raise limit= if this is intended"
                    )
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise FileError(f"{path.name} cannot be read as CSV: {_one_line(error)}; download it again") from None


def integers(values: list[Any]) -> list[Any]:
    """Return texts as integers if all are written as such, otherwise unchanged."""
    return whole_numbers(pd.Series(values, dtype=object)).tolist()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
