"""Fast readers of long tables: strings are dictionary-encoded, without a Python object for each row.

The frames have Arrow columns (dictionaries of strings or of integers), which :class:`crowdppl.Annotations` uses directly. Files
that need special treatment are left to :func:`crowdppl.data.readers.tables.read_csv`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from crowdppl.data.readers.open_quotes import require_closed
from crowdppl.data.readers.opening import (
    LIMIT,
    READ_ERRORS,
    TABLE_FACTOR,
    Allowance,
    arrow_compression,
    beginning,
    declared_separator,
)
from crowdppl.data.readers.repeated_headers import HEADER_ROWS, header_note, repeated_header
from crowdppl.data.readers.spreadsheets import restored
from crowdppl.data.readers.streams import existing, streamed
from crowdppl.data.readers.tables import (
    MISSING,
    UNQUOTED,
    changed,
    is_parquet,
    read_csv,
    read_parquet,
    unprotected,
    unreadable_parquet,
)
from crowdppl.data.table.identifiers import dictionary_parts
from crowdppl.data.table.rows_in_doubt import tells
from crowdppl.errors import FileError
from crowdppl.isolation import limited_arrow

# Bytes of text read at a time: each block has its own dictionary; the dictionaries are unified at the end.
_BLOCK = 2**22
# Bytes up to which all columns of a file are read: any of them may tell annotations of a worker apart.
_SMALL = 2**26
_WHOLE = r"^(-?[1-9][0-9]{0,19}|0)$"


@streamed
def long_table(
    path: str | Path, *, separator: str = ",", limit: int = LIMIT, columns: Sequence[Any] | None = None
) -> pd.DataFrame:
    """Read a long table: Parquet with the ending ``.parquet`` or ``.pq``, otherwise CSV.

    Args:
        path: path of the file.
        separator: separator of a CSV file.
        limit: maximum size of a compressed file in bytes, decompressed.
        columns: names of the columns needed; of a large file others are skipped, unless they may say that rows are no
            annotations of one true label each (``rows_in_doubt.tells``). Defaults to all columns, which are also read if one of
            the names does not exist.

    Raises:
        FileError: as in :func:`crowdppl.data.readers.tables.read_table`.
    """
    path = existing(path)
    if is_parquet(path):
        return long_parquet(path, columns=columns)
    return long_csv(path, separator=separator, limit=limit, columns=columns)


@streamed
def long_csv(
    path: str | Path, *, separator: str = ",", limit: int = LIMIT, columns: Sequence[Any] | None = None
) -> pd.DataFrame:
    """Read CSV; arguments and errors as in :func:`long_table`."""
    path = existing(path)
    start = beginning(path)
    Allowance(limit, TABLE_FACTOR).require(path)
    frame = _csv(path, start, separator, columns)
    return read_csv(path, separator=separator, limit=limit) if frame is None else frame


@streamed
def long_parquet(path: str | Path, *, columns: Sequence[Any] | None = None) -> pd.DataFrame:
    """Read Parquet; arguments and errors as in :func:`long_table`."""
    path = existing(path)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = file.schema_arrow.names
        selected = _selected(names, columns, path) or names
        if len(set(names)) < len(names):
            return read_parquet(path)
        # Each thread reads one column with its own reader and releases the text once it is encoded. (Unifying the dictionaries
        # stored in the file, row group by row group, takes longer than encoding the text.)
        with limited_arrow() as count, ThreadPoolExecutor(count) as pool:
            series = list(pool.map(partial(_parquet_column, path), selected))
    except READ_ERRORS as error:
        raise unreadable_parquet(path, error) from None
    return pd.concat(series, axis=1).set_axis(pd.Index(selected, dtype=object), axis=1) if series else pd.DataFrame()


def release_memory() -> None:
    """Return unused memory to the system: Arrow would keep about the size of the last table for later ones."""
    pyarrow.default_memory_pool().release_unused()


def _parquet_column(path: Path, name: str) -> pd.Series[Any]:
    return _series(pyarrow.parquet.ParquetFile(path).read(columns=[name]).column(0))


def _csv(path: Path, start: bytes, separator: str, needed: Sequence[Any] | None) -> pd.DataFrame | None:
    """Read CSV; ``None`` if the file needs special treatment."""
    header = _header(start, separator)
    if header is None:
        return None
    names = [f"f{n}" for n in range(len(header))]
    selected = _selected(header, needed, path)
    keep = [n for n, name in enumerate(header) if selected is None or name in selected]
    try:
        compression = arrow_compression(path)
        with limited_arrow() as count, pyarrow.input_stream(str(path), compression=compression) as stream:
            table = pyarrow.csv.read_csv(
                stream,
                # The header was read separately: skip its row.
                read_options=pyarrow.csv.ReadOptions(
                    use_threads=count > 1,
                    column_names=names,
                    skip_rows_after_names=1,
                    block_size=_BLOCK,
                    encoding="utf8",
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pyarrow.string()),
                    include_columns=[names[n] for n in keep],
                    null_values=MISSING,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
        last = table.slice(max(len(table) - 1, 0)).to_pylist()
        if last and any("\n" in (cell or "") for cell in last[0].values()):
            return None  # a quotation mark may be open, as Arrow takes all that follows it for a cell: pandas says so
        # The text of each column is released once it is encoded.
        unread = table.columns
        del table
        with ThreadPoolExecutor(count) as pool:
            futures = [pool.submit(dictionary_parts, unread.pop(0)) for _ in range(len(unread))]
        release_memory()
        parts = [future.result() for future in futures]
        chosen = [header[n] for n in keep]
        distinct: list[Any] = [None] * len(header)
        for n, (_, texts) in zip(keep, parts, strict=True):
            distinct[n] = texts
        require_closed(header, distinct, lambda n, text: _first_row(*parts[keep.index(n)], text), separator, path.name)
        repeated = repeated_header(
            chosen,
            [len(names) for _, names in parts],
            lambda n: (parts[n][0].fill_null(-1).to_numpy(zero_copy_only=False), parts[n][1].to_pylist()),
            path.name,
        )
        if repeated is not None:
            kept = pyarrow.array(~repeated)
            parts = [dictionary_parts(_rows(*part, kept)) for part in parts]
        columns = [_whole_numbers(*part) for part in parts]
        series = [pd.Series(pd.arrays.ArrowExtensionArray(column)) for column, _ in columns]
    except (FileError, MemoryError):
        raise
    except (*READ_ERRORS, pyarrow.ArrowException):
        return None
    frame = pd.concat(series, axis=1).set_axis(pd.Index(chosen, dtype=object), axis=1)
    unquoted = {name: names for name, (_, names) in zip(chosen, columns, strict=True) if names}
    if unquoted:
        frame.attrs[UNQUOTED] = unquoted
    if repeated is not None:
        frame.attrs[HEADER_ROWS] = header_note(repeated, path.name)
    return frame


def _first_row(codes: Any, names: Any, text: str) -> int:
    """Return the first row with a text."""
    code = pyarrow.compute.index(names, pyarrow.scalar(text, names.type)).as_py()
    return int(pyarrow.compute.index(codes, pyarrow.scalar(code, codes.type)).as_py())


def _rows(codes: Any, names: Any, kept: Any) -> Any:
    """Return the text of the rows to keep, so that names of other rows are no longer in the dictionary."""
    return pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(codes.filter(kept), names).dictionary_decode()])


def _series(column: Any) -> pd.Series[Any]:
    """Return text dictionary-encoded in one chunk, dictionaries of the file as categories, and other columns unchanged."""
    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        return column.to_pandas()
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        column = pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(*dictionary_parts(column))])
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


def _header(start: bytes, separator: str) -> list[str] | None:
    """Return the names of the columns; ``None`` if the first bytes do not show them unambiguously, in UTF-8."""
    # Keep the first line only: the bytes read may end within a multi-byte character.
    line = start.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)
    if (
        len(line) < 2
        or not line[0].strip()
        or line[0].count(b'"') % 2
        or b"\r" in line[0].rstrip(b"\r")
        or b"\0" in start
    ):
        return None
    try:
        text = line[0].rstrip(b"\r").decode()
        names = next(csv.reader(io.StringIO(text), delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error):
        return None
    if declared_separator(f"{text}\n") is not None:
        return None
    return unprotected([("" if name in MISSING else name) for name in names]) or None


def _selected(existing_names: Sequence[str], needed: Sequence[Any] | None, path: Path) -> list[str] | None:
    names = set(map(str, needed or ()))
    if not names or not names <= set(existing_names) or (path.is_file() and path.stat().st_size <= _SMALL):
        return None
    return [name for name in existing_names if name in names or tells(name)]


def _whole_numbers(codes: Any, names: Any) -> tuple[Any, list[str]]:
    """Return a column of text, as integers if every name is written as one (the rule of ``tables.whole_numbers``).

    The second value lists the names from which a quote that protects against spreadsheet formulas was removed.
    """
    unquoted: list[str] = []
    if pyarrow.compute.any(pyarrow.compute.match_substring(names, "'")).as_py():
        texts = names.to_pylist()
        plain = restored(texts)
        if plain is not None:
            unquoted = changed(texts, plain)
            names = pyarrow.array(plain, names.type)
    if len(names) and pyarrow.compute.all(pyarrow.compute.match_substring_regex(names, _WHOLE)).as_py():
        for kind in (pyarrow.int64(), pyarrow.uint64()):
            try:
                names = names.cast(kind)
                break
            except pyarrow.ArrowInvalid:
                continue
    return pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(codes, names)]), unquoted
