"""A file looked into: is it a table, a JSON document or JSON Lines, and what stands in it? Within limits."""

from __future__ import annotations

import csv
import io
import json
import lzma
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.data.readers.arrow import long_table
from crowdppl.data.readers.streams import existing
from crowdppl.data.readers.tables import COMPRESSED, LIMIT, columns_of_parquet, decompressed, read_csv, read_parquet
from crowdppl.errors import FileError

_HEAD = 2**16


class Opened:
    """A file, read as far as is asked for.

    Args:
        path: of the file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
        limit: bytes of decompressed content.

    Raises:
        FileError: where there is none.
    """

    def __init__(self, path: str | Path, limit: int = LIMIT):
        self.path, self.limit = existing(path), limit
        self.name = self.path.name

    @cached_property
    def suffix(self) -> str:
        """The ending, that of compression left out."""
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
            FileError: where it is not UTF-8, broken, or larger than the limit.
        """
        content = self._read(self.limit, whole=True)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileError(
                f"{self.name} is not UTF-8 text (it holds the byte 0x{content[error.start]:02x}); save it as UTF-8"
            ) from None

    def _read(self, most: int, *, whole: bool) -> bytes:
        try:
            with decompressed(self.path) as file:
                content = file.read(most + 1 if whole else most)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise FileError(
                f"{self.name} cannot be read: {' '.join(str(error).split())[:150]}; fetch it again"
            ) from None
        if whole and len(content) > most:
            raise FileError(
                f"{self.name} has more than {most:,} bytes once decompressed; raise limit= if that is meant"
            )
        return content

    @cached_property
    def kind(self) -> str:
        """``table``, ``json`` or ``lines``.

        Raises:
            FileError: for a web page.
        """
        if self.suffix in (".parquet", ".pq"):
            return "table"
        start = self.head[:200].lower()
        if start.startswith(("<!doctype", "<html", "<?xml")):
            raise FileError(
                f"{self.name} is a web page, not data: it was fetched without signing in, or from the wrong address"
            )
        if self.head[:1] not in ("[", "{"):
            return "table"
        first = self.head.split("\n", 1)[0].strip()
        if self.head[:1] == "{" and (self.suffix in (".jsonl", ".ndjson", ".manifest") or _complete(first)):
            return "lines"
        return "json"

    @cached_property
    def document(self) -> Any:
        """The JSON document, or the list of the lines'.

        Raises:
            FileError: where it is not JSON, or nested too deeply.
        """
        if self.kind != "lines":
            return self._parsed(self.text, "")
        lines = [(n, line) for n, line in enumerate(self.text.split("\n"), 1) if line.strip()]
        return [self._parsed(line, f", line {n}") for n, line in lines]

    def _parsed(self, text: str, where: str) -> Any:
        try:
            return json.loads(text)
        except RecursionError:
            raise FileError(f"{self.name}{where}: JSON nested too deeply to be an export") from None
        except ValueError as error:
            told = " ".join(str(error).split())[:120]
            raise FileError(f"{self.name}{where} is not JSON: {told}; export it again") from None

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records of a JSON file: its lines, or the items of its list.

        Raises:
            FileError: where it holds something else.
        """
        document = self.document
        if isinstance(document, dict):
            document = [document]
        if not isinstance(document, list) or not all(isinstance(record, dict) for record in document):
            raise FileError(f"{self.name}: not a list of records; export it as JSON or JSON Lines")
        if not document:
            raise FileError(f"{self.name} is empty: it holds no record")
        return document

    @cached_property
    def table(self) -> pd.DataFrame:
        """The table: CSV, separated by commas, tabs or semicolons, or Parquet; identifiers as they are written."""
        if self.suffix in (".parquet", ".pq"):
            return read_parquet(self.path)
        return read_csv(self.path, separator=self.separator, limit=self.limit)

    @cached_property
    def long_table(self) -> pd.DataFrame:
        """The same with Arrow's columns, for tables of many rows, see :mod:`crowdppl.data.readers.arrow`."""
        return long_table(self.path, separator=self.separator, limit=self.limit)

    @cached_property
    def separator(self) -> str:
        """What separates columns: a comma, a tab, or the semicolon of spreadsheets where the comma is for decimals."""
        first = self.head.split("\n", 1)[0]
        return max(",\t;", key=first.count)

    @cached_property
    def columns(self) -> list[str]:
        """Names of the table's columns, without reading the rest."""
        if self.suffix in (".parquet", ".pq"):
            return columns_of_parquet(self.path)
        try:
            first = next(csv.reader(io.StringIO(self.head, newline=""), delimiter=self.separator), [])
        except csv.Error as error:
            raise FileError(f"{self.name}: the header cannot be read: {error}; save it again as CSV") from None
        return [name.strip() for name in first]


def _complete(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
