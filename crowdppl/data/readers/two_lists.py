"""Records with a list of workers beside a list of their labels, in one order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crowdppl.data.readers.records import Choices
from crowdppl.data.readers.rows import Rows
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.table.cells import absent, parsed, people
from crowdppl.errors import DataError


def of_two_lists(file: SourceFile, choices: Choices, tasks: Sequence[Any], keys: tuple[str, str]) -> Rows:
    """Return the annotations of records with a list of workers and one of their labels, which are paired by position.

    A worker who is null is left out and counted, and so is a record with neither workers nor labels.

    Args:
        file: the file.
        choices: choices of the user.
        tasks: the item of each record.
        keys: of the list of workers and of that of labels.

    Raises:
        DataError: if the lists have different lengths.
    """
    rows = Rows(file.name, choices)
    for n, (record, task) in enumerate(zip(file.records, tasks, strict=True)):
        where = f"record {n + 1}"
        workers, labels = (parsed(record.get(key)) for key in keys)
        if _is_blank(workers) and _is_blank(labels):
            rows.note("{} records have neither workers nor labels")
            continue
        if not isinstance(workers, list):
            rows.add(task, workers, record.get(keys[1]), where=where, record=n)
            continue
        answers = labels if isinstance(labels, list) and labels else [record.get(keys[1])]
        if len(answers) != len(workers):
            given = len(answers) if not _is_blank(labels) else 0
            raise DataError(
                f"{file.name}, {where}: {len(workers):,} workers in {keys[0]!r}, but {given:,} labels in {keys[1]!r}; export one "
                f"label for each worker, null for none"
            )
        for worker, answer in zip(workers, answers, strict=True):
            if people(worker):
                rows.add(task, worker, answer, where=where, record=n)
            elif not absent(answer):
                rows.drop("without a worker")
    rows.note(f"workers stand in {keys[0]!r}, and their labels in {keys[1]!r}, in one order")
    return rows


def _is_blank(value: Any) -> bool:
    """Return whether nobody, or nothing, is stated: by a missing value, or by a list with none but such."""
    return all(map(absent, value)) if isinstance(value, list) else absent(value)
