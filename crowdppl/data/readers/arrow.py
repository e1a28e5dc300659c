"""Long tables of many rows: strings come as codes and one string for each name, with no Python object for each row.

The frames made here hold Arrow's columns (dictionaries of strings or of integers), which :class:`crowdppl.Annotations` takes
as they are. What these readers do not take as :func:`crowdppl.data.readers.tables.read_csv` would, they leave to it.
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

from crowdppl.data.identifiers import parts
from crowdppl.data.readers.spreadsheets import restored
from crowdppl.data.readers.streams import existing, streamed
from crowdppl.data.readers.tables import (
    BROKEN,
    COMPRESSED,
    LIMIT,
    MISSING,
    UNQUOTED,
    changed,
    decompressed,
    read_csv,
    read_parquet,
    unprotected,
    unreadable_parquet,
    web_page,
    within,
)

_HEAD = 2**16
# Bytes of text read at a time: each piece has a dictionary of its own, and all are put together in the end.
_BLOCK = 2**22
_WHOLE = r"^(-?[1-9][0-9]{0,19}|0)$"


@streamed
def long_table(
    path: str | Path, *, separator: str = ",", limit: int = LIMIT, columns: Sequence[Any] | None = None
) -> pd.DataFrame:
    """Read a long table by its ending: ``.parquet`` or ``.pq``, else CSV.

    Args:
        path: of the file.
        separator: between cells of a CSV file.
        limit: bytes that a compressed file may unpack to.
        columns: names of those needed; others may be left out. All where not given, or where one is not there.

    Raises:
        FileError: as :func:`crowdppl.data.readers.tables.read_table`.
    """
    path = existing(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return long_parquet(path, columns=columns)
    return long_csv(path, separator=separator, limit=limit, columns=columns)


@streamed
def long_csv(
    path: str | Path, *, separator: str = ",", limit: int = LIMIT, columns: Sequence[Any] | None = None
) -> pd.DataFrame:
    """Read CSV; as :func:`long_table`."""
    path = existing(path)
    within(path, limit)
    found = _csv(path, separator, columns)
    return read_csv(path, separator=separator, limit=limit) if found is None else found


@streamed
def long_parquet(path: str | Path, *, columns: Sequence[Any] | None = None) -> pd.DataFrame:
    """Read Parquet; as :func:`long_table`."""
    path = existing(path)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = file.schema_arrow.names
        chosen = _chosen(names, columns) or names
        if len(set(names)) < len(names):
            return read_parquet(path)
        # Each thread takes a column, whose text is let go when it is coded, with a reader of its own. (Dictionaries as they stand
        # in the file would have to be united piece by piece, which takes longer than to code the text.)
        with _threads() as pool:
            series = list(pool.map(partial(_parquet_column, path), chosen))
    except BROKEN as error:
        raise unreadable_parquet(path, error) from None
    return pd.concat(series, axis=1).set_axis(pd.Index(chosen, dtype=object), axis=1) if series else pd.DataFrame()


def _threads() -> ThreadPoolExecutor:
    """Return threads to handle columns by: Arrow works on one column with one."""
    return ThreadPoolExecutor(max(1, pyarrow.cpu_count()))


def let_go() -> None:
    """Return memory to the system that tables no longer use: Arrow would keep it for more tables, as much as a table's size."""
    pyarrow.default_memory_pool().release_unused()


def _parquet_column(path: Path, name: str) -> pd.Series[Any]:
    return _series(pyarrow.parquet.ParquetFile(path).read(columns=[name]).column(0))


def _csv(path: Path, separator: str, needed: Sequence[Any] | None) -> pd.DataFrame | None:
    """Read CSV; ``None`` where anything about it is out of the ordinary."""
    header = _header(path, separator)
    if header is None or web_page(header[0]):
        return None
    names = [f"f{n}" for n in range(len(header))]
    chosen = _chosen(header, needed)
    keep = [n for n, name in enumerate(header) if chosen is None or name in chosen]
    compression = {".gz": "gzip", ".bz2": "bz2"}.get(path.suffix.lower())
    try:
        with pyarrow.input_stream(str(path), compression=compression) as stream:
            table = pyarrow.csv.read_csv(
                stream,
                # The header was read apart: here it is a row to pass over.
                read_options=pyarrow.csv.ReadOptions(
                    column_names=names, skip_rows_after_names=1, block_size=_BLOCK, encoding="utf8"
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
        # The text of each column is let go when it is coded.
        texts = table.columns
        del table
        with _threads() as pool:
            coded = [pool.submit(_whole_numbers, texts.pop(0)) for _ in range(len(texts))]
        let_go()
        found = [column.result() for column in coded]
        series = [pd.Series(pd.arrays.ArrowExtensionArray(column)) for column, _ in found]
    except (*BROKEN, pyarrow.ArrowException):
        return None
    frame = pd.concat(series, axis=1).set_axis(pd.Index([header[n] for n in keep], dtype=object), axis=1)
    unquoted = {header[n]: names for n, (_, names) in zip(keep, found, strict=True) if names}
    if unquoted:
        frame.attrs[UNQUOTED] = unquoted
    return frame


def _series(column: Any) -> pd.Series[Any]:
    """Return text as codes and names in one piece, a dictionary of the file's own as categories, others as they are."""
    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        return column.to_pandas()
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        column = pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(*parts(column))])
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


def _header(path: Path, separator: str) -> list[str] | None:
    """Return the names of the columns; ``None`` where they are not plain to see in the first bytes."""
    if path.suffix.lower() not in (*COMPRESSED, ".csv", ".tsv", ".txt", ""):
        return None
    try:
        with decompressed(path) as file:
            start = file.read(_HEAD)
    except BROKEN:
        return None
    # Cut off where the first line ends: what follows may end within a letter.
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
        names = next(csv.reader(io.StringIO(line[0].rstrip(b"\r").decode()), delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error):
        return None
    return unprotected([("" if name in MISSING else name) for name in names]) or None


def _chosen(there: Sequence[str], needed: Sequence[Any] | None) -> list[str] | None:
    wanted = set(map(str, needed or ()))
    return [name for name in there if name in wanted] if wanted and wanted <= set(there) else None


def _whole_numbers(column: Any) -> tuple[Any, list[str]]:
    """Return a column of text as integers where every name is written as one; the rule of ``tables.whole_numbers``.

    With it those names that were read without the quote that protected them from spreadsheets.
    """
    codes, names = parts(column)
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
