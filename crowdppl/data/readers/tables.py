"""Readers of CSV and Parquet tables that keep identifiers as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.parquet

from crowdppl.data.readers.open_quotes import require_closed
from crowdppl.data.readers.opening import (
    LIMIT,
    READ_ERRORS,
    TABLE_FACTOR,
    Allowance,
    beginning,
    declared_separator,
    decompressed,
    encoding,
    first_bytes,
    one_line,
    text_of,
)
from crowdppl.data.readers.repeated_headers import HEADER_ROWS, header_note, repeated_header
from crowdppl.data.readers.spreadsheets import restored
from crowdppl.data.readers.streams import existing, streamed
from crowdppl.errors import FileError

# Frame attribute: by column, the names from which a quote that protects against spreadsheet formulas was removed.
UNQUOTED = "crowdppl_unquoted"
MISSING = ["", "nan", "NaN"]
_INTEGER = re.compile(r"-?[1-9][0-9]{0,19}|0")


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
    start = beginning(path)
    Allowance(LIMIT if limit is None else limit, TABLE_FACTOR).require(path)
    declared = declared_separator(text_of(start))
    try:
        # The header is read as a normal row: otherwise pandas renames duplicate columns and silently uses the first cells of
        # longer rows as an index. The encoding removes the byte-order mark that spreadsheets write.
        with decompressed(path) as file:
            frame = pd.read_csv(
                file,
                sep=declared or separator,
                skiprows=0 if declared is None else 1,
                header=None,
                dtype=str,
                keep_default_na=False,
                na_values=MISSING,
                encoding=encoding(start),
            )
    except pd.errors.EmptyDataError:
        raise FileError(f"{path.name} is empty; it needs a header and one row per annotation") from None
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise FileError(
            f"{path.name} is not UTF-8 text (it contains the byte 0x{wrong:02x}); save it as UTF-8"
        ) from None
    except READ_ERRORS as error:
        reason = one_line(error).removeprefix("Error tokenizing data. C error: ")
        if "out of memory" in reason:
            raise MemoryError from None
        raise FileError(f"{path.name} cannot be read as CSV: {_explained(reason)}") from None
    header = [str(name) for name in frame.iloc[0].fillna("").tolist()]
    values = [pyarrow.array(frame[n].iloc[1:].dropna().unique(), pyarrow.large_string()) for n in frame.columns]
    require_closed(
        header, values, lambda n, value: int((frame[n].iloc[1:] == value).argmax()), declared or separator, path.name
    )
    return table_of_rows(frame, path.name)


def _explained(reason: str) -> str:
    """Return what pandas says of a file that is not CSV, and how to fix it."""
    uneven = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason)
    opened = re.search(r"EOF inside string starting at row (\d+)", reason)
    if opened:
        return (
            f"a quotation mark opened in row {int(opened[1]) + 1} of the file is not closed, so that what follows is one cell; "
            f"close it, or write it twice if it is part of the text"
        )
    if uneven is None:
        return f"{reason}; fix those lines or save it again"
    expected, line, seen = map(int, uneven.groups())
    if expected == 1:
        return (
            f"{reason}; if the lines above are a title or comments, delete them, as the names of the columns come first; "
            f"otherwise fix those lines"
        )
    if line == 2 and seen == expected + 1:
        return f"{reason}; if the first column has no name, as in tables that R writes, add one to the header"
    return f"{reason}; to fix it, put cells that contain the separator in quotation marks, or delete those that are too many"


def table_of_rows(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return a table of text of which the first row is the header; see :func:`read_csv`.

    Args:
        rows: the cells, as text or missing.
        source: name of the file in messages.
    """
    body = rows.iloc[1:].reset_index(drop=True)
    # By position: column names may not be unique.
    names = unprotected(rows.iloc[0].fillna("").tolist())
    parts = [pd.factorize(body.iloc[:, j]) for j in range(len(names))]
    repeated = repeated_header(
        names, [len(texts) for _, texts in parts], lambda n: (parts[n][0], parts[n][1].tolist()), source
    )
    columns, unquoted = [], {}
    for j, (name, (codes, texts)) in enumerate(zip(names, parts, strict=True)):
        column, kept = body.iloc[:, j], codes if repeated is None else codes[~repeated]
        plain = restored(texts.tolist())
        if plain is not None:
            unquoted[name] = changed(texts.tolist(), plain)
        if plain is not None or repeated is not None:
            column = pd.Series([*(texts if plain is None else plain), None], dtype=object).iloc[kept]
        columns.append(whole_numbers(column.reset_index(drop=True)))
    frame = pd.concat(columns, axis=1).set_axis(pd.Index(names, dtype=object), axis=1)
    if unquoted:
        frame.attrs[UNQUOTED] = unquoted
    if repeated is not None:
        frame.attrs[HEADER_ROWS] = header_note(repeated, source)
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


def first_of_parquet(path: Path) -> dict[str, Any] | None:
    """Return the first row of a Parquet file with lists or objects in its columns as a record; ``None`` for other files.

    Raises:
        FileError: if it is not Parquet.
    """
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if not any(map(pyarrow.types.is_nested, file.schema_arrow.types)):
                return None
            batch = next(file.iter_batches(batch_size=1), None)
            return None if batch is None or not len(batch) else dict(batch.slice(0, 1).to_pylist()[0])
    except READ_ERRORS as error:
        raise unreadable_parquet(path, error) from None


def records_of_parquet(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file as records.

    Raises:
        FileError: if it is not Parquet.
    """
    try:
        return list(pyarrow.parquet.read_table(path).to_pylist())
    except READ_ERRORS as error:
        raise unreadable_parquet(path, error) from None


def unreadable_parquet(path: Path, error: BaseException) -> FileError:
    """Return the error for a file that is damaged or not Parquet."""
    return FileError(f"{path.name} cannot be read as Parquet: {one_line(error)}; write it again")


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet, by its first bytes or its ending."""
    return path.suffix.lower() in (".parquet", ".pq") or first_bytes(path).startswith(b"PAR1")


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


def integers(values: list[Any]) -> list[Any]:
    """Return texts as integers if all are written as such, otherwise unchanged."""
    return whole_numbers(pd.Series(values, dtype=object)).tolist()
