"""Tables as JSON: lists of records, the orientations of pandas, and a list of records inside an object."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from crowdppl.data.table.columns import ITEM_COLUMNS, LABEL_COLUMNS, WORKER_COLUMNS

# Keys of an object under which a list of records may stand.
_LISTS = ("data", "records", "rows", "items", "results", "annotations", "labels", "tasks", "examples", "entries")
# What stands before JSON that a page calls or assigns, and lines in which it is looked for.
_BEFORE = re.compile(r"(?:[\w.$]+\s*\(|(?:(?:var|let|const)\s+)?[\w.$]+\s*=|\)\]\}',?)[\s\[{]*[\[{]\s*\"[^\"\n]*\"\s*:")
_LINES = 5
_LONG = (ITEM_COLUMNS, WORKER_COLUMNS, LABEL_COLUMNS)


def before_json(head: str, suffix: str) -> str | None:
    """Return the beginning of a text that has JSON further on, such as a comment, a call or an assignment; ``None`` otherwise.

    A table may have JSON in its cells. So files named as tables are none of these, nor are those whose lines have columns, unless
    a call or an assignment comes first.

    Args:
        head: the beginning of the text, which does not begin with a bracket.
        suffix: ending of the name of the file.
    """
    if suffix in (".csv", ".tsv"):
        return None
    lines = head.split("\n", _LINES)[:_LINES]
    first = lines[0].strip()[:30]
    if head.startswith(('"[{', '"{\\"')) or _BEFORE.match(head):
        return first
    named = suffix in (".json", ".jsonl", ".ndjson") and any(re.search(r"[\[{]\s*\"", line) for line in lines)
    if not (named or any(re.match(r"[\[{]+\s*\"\w+\"\s*:", line) for line in lines)):
        return None
    return None if any(_has_columns(head, separator) for separator in ",\t;") else first


def _has_columns(head: str, separator: str) -> bool:
    """Return whether a text is read as a table: with two columns or more, no line having more cells than the first."""
    if head.startswith(("//", "/*")):
        return False
    try:
        rows = [row for row in csv.reader(head.splitlines(keepends=True), delimiter=separator) if row]
    except csv.Error:
        return False
    return len(rows) > 1 and len(rows[0]) > 1 and all(len(row) <= len(rows[0]) for row in rows)


def extended(name: str, value: Any) -> Any:
    """Return the value of an object of one key with a dollar sign, as MongoDB writes numbers, dates and identifiers."""
    if name in ("$oid", "$date", "$uuid", "$symbol"):
        return value
    try:
        if name in ("$numberInt", "$numberLong"):
            return int(value)
        if name in ("$numberDouble", "$numberDecimal"):
            return float(value)
    except (TypeError, ValueError):
        pass
    return {name: value}


def further_pages(document: Mapping[str, Any]) -> str | None:
    """Return that a document is one page of several, as interfaces answer; ``None`` if it is not."""
    listed_here = next((document[key] for key in _LISTS if isinstance(document.get(key), list)), None)
    if listed_here is None:
        return None
    here = len(listed_here)
    for key in ("count", "total", "total_count", "num_rows_total", "totalCount"):
        total = document.get(key)
        if isinstance(total, int) and not isinstance(total, bool) and total > here:
            return f"it has {here:,} of {total:,} records, by its {key!r}"
    following = document.get("next")
    return f"it is one page of records, as 'next' names another: {str(following)[:80]!r}" if following else None


def frame_of(document: Any) -> pd.DataFrame | None:
    """Return the table in a JSON document, ``None`` if it holds none.

    Cells that are lists or objects become JSON text. A column is of integers if all its values are, otherwise of text.

    Args:
        document: the document, or the list of documents of JSON Lines.
    """
    single = document[0] if isinstance(document, list) and len(document) == 1 else document
    if isinstance(single, Mapping):
        columns = _of_object(single)
        if columns is not None:
            return _frame(columns)
    if isinstance(document, list) and _are_records(document):
        return _frame(_of_records(document))
    return None


def frame_of_records(document: Any) -> pd.DataFrame | None:
    """Return a list of records with any columns as a table, where the caller knows that it is one, such as known true labels.

    Args:
        document: the document, or the list of documents of JSON Lines.
    """
    records = (
        isinstance(document, list) and bool(document) and all(isinstance(row, Mapping) and row for row in document)
    )
    return _frame(_of_records(document)) if records else None


def long_names(names: Collection[Any]) -> bool:
    """Return whether names of columns are those of a table with a row for each annotation."""
    return all(any(name in names for name in usual) for usual in _LONG)


def _are_records(values: Sequence[Any]) -> bool:
    """Return whether values are records of a table: objects with the usual columns, or with three plain values at least."""
    if not values or not all(isinstance(record, Mapping) for record in values):
        return False
    first = values[0]
    plain = [name for name, value in first.items() if not isinstance(value, (dict, list))]
    return long_names(first) or (len(values) > 1 and len(plain) >= 3)


def _of_object(document: Mapping[str, Any]) -> dict[Any, list[Any]] | None:
    """Return the columns of a table that is written as one object."""
    data, names = document.get("data"), document.get("columns")
    if isinstance(names, list) and isinstance(data, list):  # orientation "split" or "tight"
        if all(isinstance(row, list) and len(row) == len(names) for row in data):
            return {name: [row[n] for row in data] for n, name in enumerate(map(str, names))}
        return None
    values = list(document.values())
    lists = all(isinstance(value, list) for value in values) and len({len(value) for value in values}) == 1
    if lists and (long_names(document) or (len(values) >= 3 and not _nested(values))):
        return {name: list(value) for name, value in document.items()}  # a list for each column
    if values and all(isinstance(value, Mapping) for value in values):
        return _of_objects(document)
    schema = document.get("schema")
    if isinstance(schema, Mapping) and schema.get("primaryKey") == ["index"] and isinstance(data, list):
        # Orientation "table", with the index that pandas gives to rows.
        data = [{k: v for k, v in row.items() if k != "index"} if isinstance(row, Mapping) else row for row in data]
        return _of_records(data) if data and all(isinstance(row, Mapping) for row in data) else None
    for key in _LISTS:  # answers of interfaces
        records = document.get(key)
        if isinstance(records, list) and _are_records(records):
            return _of_records(records)
        if isinstance(records, list) and records and all(isinstance(r, Mapping) and set(r) >= {"row"} for r in records):
            inner = [record["row"] for record in records]  # rows of the viewer of Hugging Face
            if _are_records(inner):
                return _of_records(inner)
    return None


def _of_objects(document: Mapping[str, Mapping[str, Any]]) -> dict[Any, list[Any]] | None:
    """Return the columns of the orientations "index" and "columns": objects with the same keys in all of them."""
    rows = list(document.values())
    keys = list(rows[0])
    if not keys or any(set(row) != set(keys) for row in rows):
        return None
    if _nested([row.values() for row in rows]):
        return None
    if long_names(keys) or (numbered(document) and not _numbers(keys)):
        return _of_records(rows)
    if long_names(document) or (numbered(keys) and not _numbers(document)):
        return {name: [row[key] for key in keys] for name, row in document.items()}
    return None


def _nested(rows: Iterable[Iterable[Any]]) -> bool:
    return any(isinstance(value, (dict, list)) for row in rows for value in row)


def numbered(keys: Any) -> bool:
    """Return whether keys are 0, 1, 2, ..., the index that pandas gives to rows."""
    return list(keys) == [str(n) for n in range(len(keys))]


def _numbers(keys: Any) -> bool:
    return all(str(key).removeprefix("-").isdecimal() for key in keys)


def _of_records(records: Sequence[Mapping[str, Any]]) -> dict[Any, list[Any]]:
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _frame(columns: Mapping[Any, Sequence[Any]]) -> pd.DataFrame:
    return pd.DataFrame({str(name): _column(values) for name, values in columns.items()})


def _column(values: Sequence[Any]) -> pd.Series[Any]:
    """Return values as a column of integers or of text; missing where the JSON has null, NaN or a blank."""
    cells = [_cell(value) for value in values]
    # Beyond 2**53 several numbers are one decimal: it stays as it is, unless the same number is written as a whole one.
    if large := {value for value in values if isinstance(value, float) and value.is_integer() and abs(value) >= 2**53}:
        large -= {value for value in values if isinstance(value, int) and value in large}
        cells = [
            repr(value) if isinstance(value, float) and value in large else cell
            for cell, value in zip(cells, values, strict=True)
        ]
    given = [cell for cell in cells if cell is not None]
    if given and all(isinstance(cell, int) and -(2**63) <= cell < 2**63 for cell in given):
        return pd.Series(cells, dtype="Int64")
    return pd.Series([None if cell is None else str(cell) for cell in cells], dtype=object)


def _cell(value: Any) -> Any:
    if value is None or value == "" or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
