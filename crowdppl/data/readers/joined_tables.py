"""Tables with a row for each annotation in several files: the workers that names of files state, and columns of some files."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd

from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import SourceFile
from crowdppl.data.readers.worker_columns import names_a_worker
from crowdppl.data.table.columns import ITEM_COLUMNS, LABEL_COLUMNS, WORKER_COLUMNS
from crowdppl.errors import DataError, listed

# Names of files with parts of the data.
_PART = re.compile(
    r"(train(ing)?|test(ing)?|dev|val(id(ation)?)?|eval|batch|part|teil|split|fold|chunk|shard|data(set)?|annotations?|labels?"
    r"|results?|export|output|file|sheet|round|pool|(sub)?set|pilot|week)[\W_]*\d*",
    re.IGNORECASE,
)
# What programs and people add to the name of a copy or a further version.
_AGAIN = re.compile(r"(.+?)(?: ?\(\d+\)|[ _-]+(?:copy|kopie|v\d+|new|final)(?: ?\(?\d+\)?)?)", re.IGNORECASE)


def with_workers(parts: Sequence[Records], files: Sequence[SourceFile], source: str, choices: Choices) -> list[str]:
    """Add the worker to tables that have none, a file or a folder for each worker, and return a note on it.

    Tables with a column of workers by its name are left as they are: the column is to be named.

    Raises:
        DataError: where it is not clear that names of files or folders are those of workers.
    """
    if choices.worker is not None or any(name in part.frame for part in parts for name in WORKER_COLUMNS):
        return []
    items = [_items(part.frame, choices) for part in parts]
    if _column_of_workers(parts, choices):
        return []
    workers, what = _workers(files, items, source)
    for part, worker in zip(parts, workers, strict=True):
        part.frame.insert(0, WORKER_COLUMNS[0], worker)
    notes = [f"{source}: no column {WORKER_COLUMNS[0]!r}, the names of the {what} are the workers"]
    again = [(name, m[1]) for name in dict.fromkeys(workers) if (m := _AGAIN.fullmatch(name)) and m[1] in workers]
    if again:
        notes.append(
            f"{source}: {listed([name for name, _ in again], 3)} {'is' if len(again) == 1 else 'are'} taken for another worker "
            f"than {again[0][1]!r}; if it is a copy, remove it, and if it is by the same worker, join the files"
        )
    return notes


def _items(frame: pd.DataFrame, choices: Choices) -> set[str]:
    """Return the items of a table; empty where its column of items is not known."""
    names = ITEM_COLUMNS if choices.task is None else (choices.task,)
    name = next((name for name in names if name in frame), None)
    return set() if name is None else set(frame[name].dropna().astype(str).unique())


def _column_of_workers(parts: Sequence[Records], choices: Choices) -> bool:
    """Return whether tables have a column of workers by its name; one that has one value for each item is of the item."""
    item = choices.task or next((name for name in ITEM_COLUMNS if all(name in part.frame for part in parts)), None)
    names = {str(name) for part in parts for name in part.frame.columns if names_a_worker(str(name))}
    for name in names - {item}:
        if item is None or not all(name in part.frame and item in part.frame for part in parts):
            return True
        pairs = pd.concat([part.frame[[item, name]].astype(str) for part in parts], ignore_index=True)
        size, distinct = len(pairs), pairs.drop_duplicates()
        of_items = not distinct[item].duplicated().any() and len(distinct) < size
        if not of_items:
            return True
    return False


def _workers(files: Sequence[SourceFile], items: Sequence[set[str]], source: str) -> tuple[list[str], str]:
    """Return the worker of each file: its name, or that of its folder where files of one name are of different workers.

    Raises:
        DataError: where this is not clear, or names are those of parts of the data.
    """
    stems = [file.stem for file in files]
    folders = [str(file.within.parent) if file.within is not None else "" for file in files]
    if len(set(stems)) < len(set(zip(stems, folders, strict=True))) and len(set(stems)) > 1:
        of_folders, of_names = _in_common(stems, folders, items), _in_common(folders, stems, items)
        if of_folders == of_names:
            at = next(n for n, stem in enumerate(stems) if stems.index(stem) < n)
            first, second = (
                file.name.removeprefix(f"{source}: ") for file in (files[stems.index(stems[at])], files[at])
            )
            raise DataError(
                f"{source}: files of one name lie in several folders ({first!r}, {second!r}), so that either their names or the "
                f"folders may be the workers; add a column {WORKER_COLUMNS[0]!r} to all of them"
            )
        if of_folders:
            return [file.within.parent.name if file.within is not None else file.stem for file in files], "folders"
    disjoint = sum(map(len, items)) == len(set().union(*items))
    if all(map(_PART.fullmatch, stems)) and disjoint:
        raise DataError(
            f"{source}: no column {WORKER_COLUMNS[0]!r}, and the names of the files, {listed(dict.fromkeys(stems), 3)}, are "
            f"those of parts of the data, no workers; add this column, or name it with worker=..."
        )
    return stems, "files"


def _in_common(same: Sequence[str], other: Sequence[str], items: Sequence[set[str]]) -> bool:
    """Return whether two files that are equal in one name and differ in another have items in common."""
    groups: dict[str, list[int]] = defaultdict(list)
    for n, name in enumerate(same):
        groups[name].append(n)
    pairs = (pair for group in groups.values() for pair in itertools.combinations(group[:50], 2))
    return any(other[a] != other[b] and not items[a].isdisjoint(items[b]) for a, b in pairs)


def with_equal_columns(
    parts: Sequence[Records], files: Sequence[SourceFile], source: str, choices: Choices
) -> list[str]:
    """Check that all tables have the columns of items, workers and labels, and return a note on columns that some lack.

    Raises:
        DataError: if one lacks a column that plays such a part in others.
    """
    expected = set(parts[0].frame.columns)
    roles = {*choices.columns, *ITEM_COLUMNS, *WORKER_COLUMNS, *LABEL_COLUMNS}
    stated = choices.worker is not None or all(set(WORKER_COLUMNS) & set(part.frame.columns) for part in parts)
    some: dict[Any, str] = {}
    for part, file in zip(parts, files, strict=True):
        differing = expected ^ set(part.frame.columns)
        if any(_plays(name, roles) or (names_a_worker(str(name)) and not stated) for name in differing):
            raise DataError(
                f"{file.name}: its columns differ from those of {files[0].name} ({listed(sorted(map(str, differing)))}); give "
                f"all files the same columns, or read them one by one"
            )
        some |= dict.fromkeys(differing, "")
    if not some:
        return []
    which = "a column that is not in all files is" if len(some) == 1 else "columns that are not in all files are"
    return [f"{source}: {which} blank in the others: {listed(sorted(map(str, some)), 4)}"]


def _plays(name: Any, roles: set[str]) -> bool:
    plain = str(name).strip().casefold()
    return plain in {role.casefold() for role in roles}
