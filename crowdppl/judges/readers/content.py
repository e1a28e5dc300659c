"""The content of a file in the two forms that readers need: a JSON document, or a table of its records."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.data.readers.opening import LIMIT
from crowdppl.data.readers.source import SourceFile

# Keys under which the answers of interfaces hold their records.
_LISTS = ("data", "scores", "annotations", "events", "traces")
# Nested objects that become columns "<key>.<name>".
_NESTED = ("result", "metadata", "context")


class Content:
    """A file as a document and as a table.

    Args:
        path: path of the file.
        limit: maximum size of the decompressed content in bytes.

    Raises:
        FileError: if the file cannot be read.
    """

    def __init__(self, path: str | Path, limit: int = LIMIT):
        self.file = SourceFile(path, limit)
        self.name, self.path = self.file.name, self.file.path

    @cached_property
    def document(self) -> Any:
        """The JSON document, ``None`` for a table; a document on one line is not taken for a line of records."""
        if self.file.kind == "table":
            return None
        document = self.file.document
        return document[0] if self.file.kind == "lines" and len(document) == 1 else document

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records of JSON Lines, of a list, or of an object with one list; empty for other documents."""
        document = self.document
        if isinstance(document, Mapping):
            names, split = document.get("columns"), document.get("data")
            if isinstance(names, list) and isinstance(split, list):  # a table as MLflow stores it
                return [dict(zip(map(str, names), row, strict=False)) for row in split if isinstance(row, list)]
            held = next((document[key] for key in _LISTS if isinstance(document.get(key), list)), None)
            document = [document] if held is None else held
        if not isinstance(document, list) or not all(isinstance(record, dict) for record in document):
            return []
        return document

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns of the table."""
        if self.file.kind == "table":
            return self.file.columns
        return list(dict.fromkeys(name for record in self.records[:100] for name in _flat(record)))

    @cached_property
    def table(self) -> pd.DataFrame:
        """The table: that of the file, or of its records."""
        if self.file.kind == "table":
            return self.file.table.rename(columns=lambda name: str(name).strip())
        rows = [_flat(record) for record in self.records]
        names = dict.fromkeys(name for row in rows for name in row)
        return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the table, as objects."""
        columns = [self.table.iloc[:, n].astype(object).tolist() for n in range(self.table.shape[1])]
        names = [str(name) for name in self.table.columns]
        for values in zip(*columns, strict=True):
            yield {
                name: None if isinstance(one, float) and one != one else one
                for name, one in zip(names, values, strict=True)
            }

    @property
    def keys(self) -> list[str]:
        """The keys or columns that describe the content, for messages."""
        return list(map(str, self.document)) if isinstance(self.document, Mapping) else self.columns


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with one level of nested objects as columns."""
    out: dict[str, Any] = {}
    for name, value in record.items():
        if name in _NESTED and isinstance(value, Mapping):
            out |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            out[name] = value
    return out


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, empty if the value is something else: exports omit what is not known."""
    return value if isinstance(value, Mapping) else {}


def parsed(value: Any) -> Mapping[str, Any]:
    """Return an object that tables hold as JSON or as Python writes it; empty for anything else."""
    if not isinstance(value, str):
        return mapping(value)
    for parse in (json.loads, ast.literal_eval):
        try:
            return mapping(parse(value))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return {}


def numbers_or_texts(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column, as numbers if all of them are, ``None`` where blank."""
    blank = (None, "")
    values = [value.strip() if isinstance(value, str) else value for value in column.astype(object).tolist()]
    values = [None if isinstance(one, float) and one != one else one for one in values]
    try:
        return [None if isinstance(one, (str, type(None))) and one in blank else float(one) for one in values]
    except (TypeError, ValueError, OverflowError):
        return [None if isinstance(one, str) and one in blank else one for one in values]


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list, empty if the value is something else."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def first(value: Mapping[str, Any], *names: str) -> Any:
    """Return the value of the first of several keys that is there, ``None`` without one."""
    return next((value[name] for name in names if value.get(name) is not None), None)


def characters(text: Any) -> int | None:
    """Return the length of an answer in characters, ``None`` if it is no text."""
    return len(text) if isinstance(text, str) else None


def asked_name(asked: Any) -> Any:
    """Return the name of what was asked: of the variables of a test the value of the only one, otherwise all of them as JSON."""
    if isinstance(asked, Mapping) and len(asked) == 1:
        (only,) = asked.values()
        asked = only if isinstance(only, (str, int)) else asked
    return asked if isinstance(asked, (str, int)) else json.dumps(asked, sort_keys=True, ensure_ascii=False)
