"""The JSON of the shared tasks "Learning With Disagreements" (Le-Wi-Di, SemEval 2021 and 2023, NLPerspectives 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdppl.data.readers.json_kinds import is_shared_task
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.rows import Rows
from crowdppl.data.readers.source import SourceFile
from crowdppl.errors import DataError, FileError


def lewidi(file: SourceFile, choices: Choices) -> Records:
    """Read items with ``annotators``, such as ``"Ann1,Ann2"``, and ``annotations``, such as ``"0,1"``.

    The hard label of a file is the vote of its annotators, and no known truth.
    """
    document = file.document
    if file.kind == "lines" and len(document) == 1:
        document = document[0]
    if not is_shared_task(document):
        raise FileError(f"{file.name}: not an object of items with annotators and annotations; name another format")
    rows = Rows(file.name, choices)
    for item, record in document.items():
        where = f"item {item!r}"
        if not isinstance(record, Mapping):
            raise DataError(f"{file.name}, {where}: not an object with annotators and annotations")
        given = record.get("annotations")
        if isinstance(given, Mapping):  # the edition of 2025
            pairs = list(given.items())
        else:
            workers, labels = _list(record.get("annotators")), _list(given)
            if len(workers) != len(labels):
                raise DataError(
                    f"{file.name}, {where}: {len(workers)} annotators and {len(labels)} annotations; each annotator needs one"
                )
            pairs = list(zip(workers, labels, strict=True))
        for worker, label in pairs:
            rows.add(item, worker, _whole(label), where=where)
    return rows.finish("Le-Wi-Di")


def _list(value: Any) -> list[Any]:
    """Return a list that may be written as text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")] if value.strip() else []
    return list(value) if isinstance(value, list) else []


def _whole(label: Any) -> Any:
    """Return a label as an integer if it is written as one, so that all labels of a file are integers where they can be."""
    text = str(label).strip()
    return int(text) if text.removeprefix("-").isdecimal() and str(int(text)) == text else label
