"""Lazy access to an input file: its kind (table, JSON or JSON Lines) and its content, within a size limit."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from crowdppl.data.readers.arrow import long_table
from crowdppl.data.readers.json_tables import before_json, extended, frame_of, frame_of_records, further_pages
from crowdppl.data.readers.opening import (
    COMPRESSED,
    JSON_FACTOR,
    LIMIT,
    Allowance,
    beginning,
    declared_separator,
    encoding,
    likely_separator,
    text_of,
    within_memory,
)
from crowdppl.data.readers.streams import existing, streamed
from crowdppl.data.readers.tables import (
    columns_of_parquet,
    first_of_parquet,
    is_parquet,
    read_csv,
    read_parquet,
    records_of_parquet,
)
from crowdppl.data.readers.workbooks import is_workbook, to_csv
from crowdppl.errors import FileError, listed

# Endings of files of annotations.
ENDINGS = (
    ".csv",
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".ndjson",
    ".manifest",
    ".parquet",
    ".pq",
    ".xlsx",
    ".xls",
    ".ods",
)


class SourceFile:
    """An input file, read on demand.

    Args:
        path: path of the file; compressed files (gzip, bzip2, xz, zip archives of one file) are decompressed. The sheet of a
            workbook is read as CSV.
        limit: maximum size of the decompressed content in bytes.
        within: its path in the folder or archive that is read, ``None`` for a file of its own.

    Raises:
        FileError: if the file does not exist.
    """

    def __init__(self, path: str | Path, limit: int = LIMIT, within: PurePath | None = None):
        self.path, self.limit, self.within = existing(path), limit, within
        self.name, self.stem = self.path.name, stem(self.path.name)
        self.repeated_keys: list[str] = []
        self.wrapper: dict[str, Any] | None = None
        self.lists: list[str] = []
        self.beside: list[str] = []
        if is_workbook(self.path):
            folder = Path(tempfile.mkdtemp(prefix="crowdppl-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.path, self.beside = to_csv(self.path, folder, limit)

    @cached_property
    def suffix(self) -> str:
        """The ending, without that of compression."""
        endings = [ending.lower() for ending in self.path.suffixes]
        return next((e for e in reversed(endings) if e not in COMPRESSED), "")

    @cached_property
    def parquet(self) -> bool:
        """Whether the file is Parquet."""
        return is_parquet(self.path)

    @cached_property
    def head(self) -> str:
        """The beginning of the text.

        Raises:
            FileError: if the file is damaged, blank or neither a table nor JSON.
        """
        return text_of(beginning(self.path)).lstrip()

    @cached_property
    def text(self) -> str:
        """The whole text.

        Raises:
            FileError: if it is not UTF-8 or UTF-16, damaged, or larger than the limit or the memory at hand allow.
        """
        content = Allowance(self.limit, JSON_FACTOR).read(self.path)
        try:
            with within_memory(self.name):
                return content.decode(encoding(content[:4]))
        except UnicodeDecodeError as error:
            raise FileError(
                f"{self.name} is not UTF-8 text (it contains the byte 0x{content[error.start]:02x}); save it as UTF-8"
            ) from None

    @cached_property
    def kind(self) -> str:
        """``table``, ``json`` or ``lines``.

        Raises:
            FileError: if it is something else, such as a web page.
        """
        if self.parquet:
            return "table"
        if {"\0"} in (set(self.head[1:41:2]), set(self.head[:40:2])):  # one of the two bytes of each Latin character
            raise FileError(f"{self.name} is text in UTF-16 without a byte-order mark; save it as UTF-8")
        if self.head[:1] not in ("[", "{"):
            before = None if declared_separator(self.head) else before_json(self.head, self.suffix)
            if before is not None:
                raise FileError(
                    f"{self.name} is not JSON: it begins with {before!r}; delete all that is not in the brackets of the data, or "
                    f"export it again"
                )
            return "table"
        first = self.head.split("\n", 1)[0].strip()
        if self.head[:1] == "{" and (self.suffix in (".jsonl", ".ndjson", ".manifest") or _is_json(first)):
            return "lines"
        return "json"

    @cached_property
    def document(self) -> Any:
        """The JSON document, or the list of documents of JSON Lines.

        Raises:
            FileError: if it is not JSON, or nested too deeply.
        """
        decoder = json.JSONDecoder(object_pairs_hook=self._object)  # one for all lines, as making it takes long
        if self.kind != "lines":
            return self._parsed(decoder, self.text, "")
        with within_memory(self.name):
            lines = [(n, line) for n, line in enumerate(self.text.split("\n"), 1) if line.strip()]
            return [self._parsed(decoder, line, f", line {n}") for n, line in lines]

    def _parsed(self, decoder: json.JSONDecoder, text: str, where: str) -> Any:
        try:
            with within_memory(self.name):
                return decoder.decode(text)
        except RecursionError:
            raise FileError(
                f"{self.name}{where}: the JSON is nested too deeply for an export of annotations; export it again"
            ) from None
        except ValueError as error:
            reason = " ".join(str(error).split())[:120]
            advice = "export it again"
            if reason.startswith("Extra data"):
                advice = (
                    "write one list of all records, or each record in a line of its own, without commas between them"
                )
            raise FileError(f"{self.name}{where} is not JSON: {reason}; {advice}") from None

    def _object(self, pairs: list[tuple[str, Any]]) -> Any:
        """Return an object; the types that MongoDB writes as objects become their value, and repeated keys are remembered."""
        if len(pairs) == 1 and pairs[0][0][:1] == "$":
            return extended(*pairs[0])
        document = dict(pairs)
        if len(document) < len(pairs):
            self.repeated_keys += [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        return document

    @property
    def doubts(self) -> list[str]:
        """Notes on what is hidden in a workbook or beside a file, and on what a JSON file may lack, once it was read."""
        if "document" not in vars(self):
            return self.beside
        notes = [*self.beside]
        if len(self.lists) > 1:
            notes.append(f"{self.name}: the {len(self.lists)} lists {listed(self.lists, 4)} are read as one")
        if self.repeated_keys:
            names = listed(dict.fromkeys(self.repeated_keys), 3)
            where = "an object has" if len(self.repeated_keys) == 1 else f"{len(self.repeated_keys):,} objects have"
            notes.append(
                f"{self.name}: {where} a key twice ({names}), of which only the last value is read, so that annotations may be "
                f"lost; export it again, with a list of values"
            )
        single = self._single if self.wrapper is None else self.wrapper
        left = further_pages(single) if isinstance(single, dict) else None
        return notes if left is None else [*notes, f"{self.name}: {left}; export all of them"]

    @property
    def _single(self) -> Any:
        """The document, or the only one of a file of lines."""
        return self.document[0] if isinstance(self.document, list) and len(self.document) == 1 else self.document

    def unwrap(self, recognised: Callable[[dict[str, Any]], bool]) -> None:
        """Take the records in place of an object in which they are lists, such as the answer of an interface, or parts of data.

        A list that is equal to an earlier one is the same data under two names.
        """
        single = self._single
        if not isinstance(single, dict) or recognised(single):
            return
        lists: dict[str, list[Any]] = {}
        for name, value in single.items():
            if isinstance(value, list) and value and isinstance(value[0], dict) and recognised(value[0]):
                lists |= {} if value in lists.values() else {name: value}
        if lists:
            self.wrapper, self.lists = single, list(lists)
            self.document = [record for value in lists.values() for record in value]

    def take_records(self, recognised: Callable[[dict[str, Any]], bool]) -> None:
        """Take the rows of a Parquet file with lists or objects in its columns as records, if they are of a tool."""
        if not self.parquet:
            return
        first = first_of_parquet(self.path)
        if first is not None and recognised(first):
            self.document, self.kind, self.parquet = records_of_parquet(self.path), "json", False

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records of a JSON file: its lines, or the elements of its list.

        Raises:
            FileError: if it has other content.
        """
        document = self.document
        if isinstance(document, dict):
            document = [document]
        if not isinstance(document, list) or not all(isinstance(record, dict) for record in document):
            raise FileError(f"{self.name}: not a list of records; export it as JSON or JSON Lines")
        if not document:
            raise FileError(f"{self.name} contains no record; export it again")
        return document

    @cached_property
    def json_table(self) -> pd.DataFrame | None:
        """The table that a JSON file holds, ``None`` if it holds something else."""
        return None if self.kind == "table" else frame_of(self.document)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The table: Parquet, JSON, or CSV separated by commas, tabs or semicolons; identifiers are kept as written.

        Raises:
            FileError: if it cannot be read, or the JSON is no table.
        """
        if self.parquet:
            return read_parquet(self.path)
        if self.kind != "table":
            frame = frame_of_records(self.document) if self.json_table is None else self.json_table
            if frame is None:
                raise FileError(
                    f"{self.name}: this JSON is no table; export a list of records with one value for each column"
                )
            return frame
        return read_csv(self.path, separator=self.separator, limit=self.limit)

    @cached_property
    def long_table(self) -> pd.DataFrame:
        """The table with Arrow columns, which is faster for many rows; see :mod:`crowdppl.data.readers.arrow`."""
        if self.kind != "table":
            return self.table
        return long_table(self.path, separator=self.separator, limit=self.limit)

    @cached_property
    def separator(self) -> str:
        """The column separator: a comma, a tab, or the semicolon of spreadsheets with decimal commas."""
        return declared_separator(self.head) or likely_separator(self.head)

    @cached_property
    def columns(self) -> list[str]:
        """The column names of the table, read without the rest; those of JSON are read with it."""
        if self.parquet:
            return columns_of_parquet(self.path)
        if self.kind != "table":
            return list(map(str, self.table.columns))
        text = self.head if declared_separator(self.head) is None else self.head.split("\n", 1)[1]
        try:
            first = next(csv.reader(io.StringIO(text, newline=""), delimiter=self.separator), [])
        except csv.Error as error:
            raise FileError(f"{self.name}: the header cannot be read: {error}; save it again as CSV") from None
        return [name.strip() for name in first]


def stem(name: str) -> str:
    """Return the name of a file without the endings of compression and of its kind: other dots belong to the name."""
    for endings in (tuple(COMPRESSED), ENDINGS):
        if name.lower().endswith(endings):
            name = name[: name.rindex(".")]
    return name


def folder_names(folders: Sequence[PurePath]) -> list[str]:
    """Return the names of folders, empty for the top folder.

    Where all end in one name, those of a higher level are: ``ann`` and ``bob`` for ``ann/labels`` and ``bob/labels``.
    """
    parts = [folder.parts for folder in folders]
    while len(set(parts)) > 1 and all(len(one) > 1 for one in parts) and len({one[-1] for one in parts}) == 1:
        parts = [one[:-1] for one in parts]
    return [one[-1] if one else "" for one in parts]


@streamed
def read_table(path: str | Path, limit: int = LIMIT) -> pd.DataFrame:
    """Read a table of any kind: Parquet, CSV with any separator, or JSON.

    Args:
        path: path of the file.
        limit: maximum size of the file in bytes, decompressed.

    Raises:
        FileError: if it cannot be read, or is no table.
    """
    return SourceFile(path, limit).table


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
