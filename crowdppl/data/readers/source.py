"""Lazy access to an input file: its kind (table, JSON or JSON Lines) and its content, within a size limit."""

from __future__ import annotations

import csv
import io
import json
import lzma
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from crowdppl.data.readers.arrow import long_table
from crowdppl.data.readers.streams import existing
from crowdppl.data.readers.tables import COMPRESSED, LIMIT, columns_of_parquet, decompressed, read_csv, read_parquet
from crowdppl.errors import FileError

# Endings of files of annotations.
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".manifest", ".parquet", ".pq", ".xlsx")
# Bytes read to recognise the kind of a file.
_HEAD = 2**16


class SourceFile:
    """An input file, read on demand.

    Args:
        path: path of the file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
        limit: maximum size of the decompressed content in bytes.
        within: its path in the folder or archive that is read, ``None`` for a file of its own.

    Raises:
        FileError: if the file does not exist.
    """

    def __init__(self, path: str | Path, limit: int = LIMIT, within: PurePath | None = None):
        self.path, self.limit, self.within = existing(path), limit, within
        self.name, self.stem = self.path.name, stem(self.path.name)

    @cached_property
    def suffix(self) -> str:
        """The ending, without that of compression."""
        endings = [ending.lower() for ending in self.path.suffixes]
        return next((e for e in reversed(endings) if e not in COMPRESSED), "")

    @cached_property
    def head(self) -> str:
        """The beginning of the text."""
        return self._read(_HEAD, whole=False).decode("utf-8-sig", errors="replace").lstrip()

    @cached_property
    def text(self) -> str:
        """The whole text.

        Raises:
            FileError: if it is not UTF-8, damaged, or larger than the limit.
        """
        content = self._read(self.limit, whole=True)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileError(
                f"{self.name} is not UTF-8 text (it contains the byte 0x{content[error.start]:02x}); save it as UTF-8"
            ) from None

    def _read(self, limit: int, *, whole: bool) -> bytes:
        try:
            with decompressed(self.path) as file:
                content = file.read(limit + 1 if whole else limit)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise FileError(
                f"{self.name} cannot be read: {' '.join(str(error).split())[:150]}; download it again"
            ) from None
        if whole and len(content) > limit:
            raise FileError(
                f"{self.name} has more than {limit:,} bytes once decompressed; raise limit= if this is intended"
            )
        return content

    @cached_property
    def kind(self) -> str:
        """``table``, ``json`` or ``lines``.

        Raises:
            FileError: if it is a web page.
        """
        if self.suffix in (".parquet", ".pq"):
            return "table"
        start = self.head[:200].lower()
        if start.startswith(("<!doctype", "<html", "<?xml")):
            raise FileError(
                f"{self.name} is a web page, not data: it was downloaded without signing in, or from the wrong address"
            )
        if self.head[:1] not in ("[", "{"):
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
        if self.kind != "lines":
            return self._parsed(self.text, "")
        lines = [(n, line) for n, line in enumerate(self.text.split("\n"), 1) if line.strip()]
        return [self._parsed(line, f", line {n}") for n, line in lines]

    def _parsed(self, text: str, where: str) -> Any:
        try:
            return json.loads(text)
        except RecursionError:
            raise FileError(
                f"{self.name}{where}: the JSON is nested too deeply for an export of annotations; export it again"
            ) from None
        except ValueError as error:
            reason = " ".join(str(error).split())[:120]
            raise FileError(f"{self.name}{where} is not JSON: {reason}; export it again") from None

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
    def table(self) -> pd.DataFrame:
        """The table: Parquet, or CSV separated by commas, tabs or semicolons; identifiers are kept as written."""
        if self.suffix in (".parquet", ".pq"):
            return read_parquet(self.path)
        return read_csv(self.path, separator=self.separator, limit=self.limit)

    @cached_property
    def long_table(self) -> pd.DataFrame:
        """The table with Arrow columns, which is faster for many rows; see :mod:`crowdppl.data.readers.arrow`."""
        return long_table(self.path, separator=self.separator, limit=self.limit)

    @cached_property
    def separator(self) -> str:
        """The column separator: a comma, a tab, or the semicolon of spreadsheets with decimal commas."""
        first = self.head.split("\n", 1)[0]
        return max(",\t;", key=first.count)

    @cached_property
    def columns(self) -> list[str]:
        """The column names of the table, read without the rest."""
        if self.suffix in (".parquet", ".pq"):
            return columns_of_parquet(self.path)
        try:
            first = next(csv.reader(io.StringIO(self.head, newline=""), delimiter=self.separator), [])
        except csv.Error as error:
            raise FileError(f"{self.name}: the header cannot be read: {error}; save it again as CSV") from None
        return [name.strip() for name in first]


def stem(name: str) -> str:
    """Return the name of a file without the endings of compression and of its kind: other dots belong to the name."""
    for endings in (tuple(COMPRESSED), ENDINGS):
        if name.lower().endswith(endings):
            name = name[: name.rindex(".")]
    return name


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
