"""Tables on disk: CSV and Parquet, with identifiers kept as they are written."""

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

# Bytes a file may have once it is decompressed; a bomb is small and unpacks to far more.
LIMIT = streams.LIMIT
COMPRESSED: dict[str, tuple[Any, int]] = {
    ".gz": (gzip.open, 1_100),
    ".bz2": (bz2.open, 50_000),
    ".xz": (lzma.open, 10_000),
}
# Attribute of a frame: the names, by column, that were read without the quote that protected them from spreadsheets.
UNQUOTED = "crowdppl_unquoted"
MISSING = ["", "nan", "NaN"]
_INTEGER = re.compile(r"-?[1-9][0-9]{0,19}|0")

# What the readers throw at files that are cut off, damaged or something else (ImportError: no way to decompress it).
BROKEN = (
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
    """Read a CSV file, plain or compressed, without guessing at identifiers.

    A column becomes integers only where every value present is written as an integer would be (no leading zeros, no plus
    sign), else it stays strings: ``007`` is not ``7``. Blank cells, ``nan`` and ``NaN`` are missing, nothing else is. Columns of
    one name all keep it.

    Args:
        path: of the file.
        separator: between cells.
        limit: bytes that a compressed file may unpack to.

    Raises:
        FileError: where there is no such file, or it is empty, broken, a web page or not CSV.
    """
    path = existing(path)
    within(path, LIMIT if limit is None else limit)
    try:
        # The header is read as a row like the others: else pandas renames columns of one name, and takes the first cells
        # of longer rows for an index, without a word.
        # utf-8-sig: spreadsheets write a byte-order mark, which must not become part of the first column's name.
        frame = pd.read_csv(
            path, sep=separator, header=None, dtype=str, keep_default_na=False, na_values=MISSING, encoding="utf-8-sig"
        )
    except pd.errors.EmptyDataError:
        raise FileError(f"{path.name} is empty; it needs a header and a row for each annotation") from None
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise FileError(f"{path.name} is not UTF-8 text (it holds the byte 0x{wrong:02x}); save it as UTF-8") from None
    except BROKEN as error:
        told = _one_line(error).removeprefix("Error tokenizing data. C error: ")
        raise FileError(f"{path.name} cannot be read as CSV: {told}; mend those lines or save it again") from None
    if web_page(str(frame.iloc[0, 0])):
        raise FileError(
            f"{path.name} is a web page, not CSV: it was fetched without signing in, or from the wrong address"
        )
    header = frame.iloc[0].fillna("")
    body = frame.iloc[1:].reset_index(drop=True)
    # Column by column, by position: names may repeat.
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
    """Return the names of columns as they were before they were protected from spreadsheets."""
    plain = restored(names)
    return names if plain is None else plain


def changed(texts: list[str], plain: list[str]) -> list[str]:
    """Return those of a column's texts that were changed, as they stand in the file."""
    return [before for before, after in zip(texts, plain, strict=True) if before != after]


@streamed
def read_parquet(path: str | Path) -> pd.DataFrame:
    """Read a Parquet file; an index that pandas wrote into it is a column like the others.

    Raises:
        FileError: where there is no such file or it is not Parquet.
    """
    path = existing(path)
    try:
        table = pyarrow.parquet.read_table(path)
        # Integers beside missing values stay integers: floats would round the long ones.
        return table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    except BROKEN as error:
        raise unreadable_parquet(path, error) from None


def columns_of_parquet(path: Path) -> list[str]:
    """Return the names of the columns, from the end of the file.

    Raises:
        FileError: where it is not Parquet.
    """
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except BROKEN as error:
        raise unreadable_parquet(path, error) from None


def unreadable_parquet(path: Path, error: BaseException) -> FileError:
    """Say that a file is not Parquet, or damaged."""
    return FileError(f"{path.name} cannot be read as Parquet: {_one_line(error)}; write it again")


def web_page(start: str) -> bool:
    """Tell whether a text begins as web pages do."""
    return re.match(r"\s*<(!doctype|html|\?xml)", start, flags=re.IGNORECASE) is not None


@streamed
def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table by its ending: ``.parquet`` or ``.pq``, else CSV."""
    path = existing(path)
    return read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else read_csv(path)


def whole_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of strings as integers of 64 bits where all are written as such; else as it is."""
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
    # A missing value has the code -1: it takes some number, which the mask hides.
    return pd.Series(pd.arrays.IntegerArray(values[codes], codes < 0), index=column.index, name=column.name)


def decompressed(path: Path) -> IO[bytes]:
    """Open a file to read its bytes, decompressed where its ending says that it is."""
    opener: Any = COMPRESSED.get(path.suffix.lower(), (open, 1))[0]
    return cast("IO[bytes]", opener(path, "rb"))


def within(path: Path, limit: int) -> None:
    """Refuse a compressed file that unpacks to more than the limit: it is read once and thrown away, in small pieces."""
    suffix = path.suffix.lower()
    if suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                size = sum(member.file_size for member in archive.infolist())
        except BROKEN:
            return  # told where it is read
        if size > limit:
            raise FileError(f"{path.name} has {size:,} bytes once decompressed; raise limit= if that is meant")
    # A small file cannot hold a bomb: the most these pack is about so many to one.
    if suffix not in COMPRESSED or path.stat().st_size * COMPRESSED[suffix][1] <= limit:
        return
    size = 0
    try:
        with decompressed(path) as file:
            while piece := file.read(2**20):
                size += len(piece)
                if size > limit:
                    raise FileError(
                        f"{path.name} has more than {limit:,} bytes once decompressed; raise limit= if that is meant"
                    )
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise FileError(f"{path.name} cannot be read as CSV: {_one_line(error)}; fetch it again") from None


def integers(values: list[Any]) -> list[Any]:
    """Return texts as integers where all are written as such."""
    return whole_numbers(pd.Series(values, dtype=object)).tolist()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
