"""Tables with a row for each annotation in several files: the workers that names of files state, and columns of some files."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd

from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.source import SourceFile, folder_names
from crowdppl.data.readers.worker_columns import names_a_worker
from crowdppl.data.table import places_in_doubt, questions
from crowdppl.data.table.columns import ITEM_COLUMNS, LABEL_COLUMNS, WORKER_COLUMNS, usual_column
from crowdppl.data.table.identifiers import text_of
from crowdppl.errors import DataError, listed

# Names of files with parts of the data.
PART_OF_DATA = re.compile(
    r"(train(ing)?|test(ing)?|dev|val(id(ation)?)?|eval|batch|part|teil|split|fold|chunk|shard|data(set)?|annotations?|labels?"
    r"|results?|export|output|file|sheet|round|pool|(sub)?set|pilot|week)[\W_]*\d*",
    re.IGNORECASE,
)
# Names of workers that authors of items have, too, and the share of distinct values from which a column is one of authors.
_AUTHOR = re.compile(r"user|reviewer|person|participant|respondent", re.IGNORECASE)
_AUTHORS = 0.5
# How much larger the share of items in common is for files or folders of several workers.
_CLEARLY = 2
# What programs and people add to the name of a copy or a further version.
_AGAIN = re.compile(
    r"(?:copy of |kopie von |copie de )?(.+?)"
    r"(?: ?\(\d+\)|[ _-]+(?:copy|kopie|copie|copia|v\d+|new|final|old|backup|bak)(?: ?\(?\d+\)?)?"
    r"| ?\([^()]*conflicted copy[^()]*\))?",
    re.IGNORECASE,
)
_DATE = re.compile(r"(?:(?:annotations?|labels?|export|data|results?|session|batch)[-_ ])?[12]\d{3}-[01]\d-[0-3]\d")
# Folders and files by the value of a column, as programs for large data write them.
_OF_COLUMN = re.compile(r"\w+=(?=.)")


def with_workers(parts: Sequence[Records], files: Sequence[SourceFile], source: str, choices: Choices) -> list[str]:
    """Add the worker to tables that have none, a file or a folder for each worker, and return a note on it.

    Tables with a column of workers by its name are left as they are: the column is to be named.

    Raises:
        DataError: where it is not clear that names of files or folders are those of workers.
    """
    if choices.worker is not None or any(_usual(part.frame, WORKER_COLUMNS) is not None for part in parts):
        return []
    items = [_items(part.frame, choices) for part in parts]
    named = [name for name in dict.fromkeys(name for part in parts for name in part.frame) if names_a_worker(str(name))]
    others: list[Any] = []
    for name in named:
        if None in items or not all(name in part.frame for part in parts):
            return []
        others += [name] if _may_be_of_items(parts, name, choices, source) else []
    workers, what = _workers(files, items, source)
    keys = [_OF_COLUMN.match(name) for name in workers]
    if all(keys) and len({match[0] for match in keys if match}) == 1:
        workers = [_OF_COLUMN.sub("", name, count=1) for name in workers]
    for part, worker in zip(parts, workers, strict=True):
        part.frame.insert(0, WORKER_COLUMNS[0], worker)
    notes = [f"{source}: no column {WORKER_COLUMNS[0]!r}, the names of the {what} are the workers"]
    if others:
        notes.append(
            f"{source}: the column {str(others[0])!r} is not taken for the workers, as it has one value for each item or each "
            f"file; if it names them, worker={str(others[0])!r} uses it"
        )
    if all(map(_DATE.fullmatch, workers)):
        notes.append(
            f"{source}: the names of the {what} are dates, such as {workers[0]!r}: if these are days of work and no people, "
            f"add a column {WORKER_COLUMNS[0]!r} to all of them"
        )
    return notes + _of_copies(list(dict.fromkeys(workers)), source)


def _of_copies(workers: Sequence[str], source: str) -> list[str]:
    """Return a note on names of workers that are one but for what is added to a copy or a further version."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in workers:
        match = _AGAIN.fullmatch(name)
        groups[match[1] if match else name].append(name)
    again = []
    for plain, group in groups.items():
        # Without a file of the plain name, model_v2 and model_v3 are two.
        again += [(name, plain) for name in group if name != plain and plain in group]
    if not again:
        return []
    return [
        f"{source}: {listed([name for name, _ in again], 3)} {'is' if len(again) == 1 else 'are'} taken for another worker "
        f"than {again[0][1]!r}; if it is a copy, remove it, and if it is by the same worker, join the files"
    ]


def numbered_again(parts: Sequence[Records], files: Sequence[SourceFile], source: str, choices: Choices) -> list[str]:
    """Return a note where several files, each of several workers, number their items from the first on, so that they are one."""
    groups = []
    for n, part in enumerate(parts):
        item, label = _item_column(part.frame, choices), _usual(part.frame, LABEL_COLUMNS)
        worker = choices.worker if choices.worker in part.frame else _usual(part.frame, WORKER_COLUMNS)
        if item is None or label is None or worker is None:
            return []
        columns = {"item": item, "worker": worker, "label": label}
        texts = {name: text_of(part.frame[at]).where(part.frame[at].notna()) for name, at in columns.items()}
        groups.append(pd.DataFrame(texts).assign(part=n))
    rows = pd.concat(groups, ignore_index=True)
    coded = rows.assign(**{name: questions.codes(rows[name]) for name in ("worker", "label")})
    if not places_in_doubt.numbered_again(coded):
        return []
    names = [file.name.removeprefix(f"{source}: ") for file in files]
    return [
        f"{source}: the files have items of the same numbers ({listed(names, 2)}), and items of one number are one item; if each "
        f"file counts its own, make the numbers unique"
    ]


def _usual(frame: pd.DataFrame, names: tuple[str, ...]) -> Any:
    """Return the column with a usual name, ``None`` where there is none."""
    columns = list(map(str, frame.columns))
    name = usual_column(columns, names)
    return None if name is None else frame.columns[columns.index(name)]


def _item_column(frame: pd.DataFrame, choices: Choices) -> Any:
    """Return the column of items, ``None`` where it is not known."""
    if choices.task is None:
        return _usual(frame, ITEM_COLUMNS)
    return choices.task if choices.task in frame else None


def _items(frame: pd.DataFrame, choices: Choices) -> set[str] | None:
    """Return the items of a table, ``None`` where its column of items is not known."""
    name = _item_column(frame, choices)
    return None if name is None else set(text_of(frame[name].dropna()).unique())


def _may_be_of_items(parts: Sequence[Records], name: Any, choices: Choices, source: str) -> bool:
    """Tell whether a column with a name of workers is of the item, such as the author of a text, or repeats the file.

    Where each item has one row, this shows in the values: those of authors hardly repeat, and a worker has several items.

    Raises:
        DataError: if it names workers, so that the caller is to name it.
    """
    tables = [part.frame[[_item_column(part.frame, choices), name]].apply(text_of) for part in parts]
    if all(table[name].nunique() == 1 for table in tables) and len({table[name].iloc[0] for table in tables}) == len(
        tables
    ):
        return True
    pairs = pd.concat([table.set_axis(["item", "value"], axis=1) for table in tables], ignore_index=True)
    distinct = pairs.drop_duplicates()
    if not distinct["item"].duplicated().any() and (
        len(distinct) < len(pairs)
        or (_AUTHOR.search(str(name)) is not None and distinct["value"].nunique() > _AUTHORS * len(distinct))
    ):
        return True
    raise DataError(
        f"{source}: no column {WORKER_COLUMNS[0]!r}, and the column {str(name)!r} seems to name workers: name the worker column "
        f"with worker={str(name)!r}; if the names of the files are the workers, rename it"
    )


def _workers(files: Sequence[SourceFile], known: Sequence[set[str] | None], source: str) -> tuple[list[str], str]:
    """Return the worker of each file: its name, or that of its folder where files of one name are of different workers.

    Raises:
        DataError: where this is not clear, or names are those of parts of the data.
    """
    stems = [file.stem for file in files]
    if None in known:
        return stems, "files"  # the column of items is asked for first
    items = [one or set() for one in known]
    folders = [str(file.within.parent) if file.within is not None else "" for file in files]
    if len(set(stems)) < len(set(zip(stems, folders, strict=True))) and len(set(stems)) > 1:
        of_folders, of_names = _in_common(stems, folders, items), _in_common(folders, stems, items)
        names = folder_names([file.within.parent for file in files if file.within is not None])
        at = next(n for n, stem in enumerate(stems) if stems.index(stem) < n)
        first, second = (file.name.removeprefix(f"{source}: ") for file in (files[stems.index(stems[at])], files[at]))
        clear = max(of_folders, of_names) > _CLEARLY * min(of_folders, of_names)
        # A folder that is no folder of a worker, or folders of one name at different places.
        unnamed = "" in names or len(set(names)) < len(set(folders))
        if not clear or (of_folders > of_names and unnamed):
            raise DataError(
                f"{source}: files of one name lie in several folders ({first!r}, {second!r}), so that either their names or the "
                f"folders may be the workers; add a column {WORKER_COLUMNS[0]!r} to all of them"
            )
        if of_folders > of_names:
            return names, "folders"
    disjoint = sum(map(len, items)) == len(set().union(*items))
    if all(map(PART_OF_DATA.fullmatch, stems)) and disjoint:
        raise DataError(
            f"{source}: no column {WORKER_COLUMNS[0]!r}, and the names of the files, {listed(dict.fromkeys(stems), 3)}, are "
            f"those of parts of the data, no workers; add this column, or name it with worker=..."
        )
    return stems, "files"


def _in_common(same: Sequence[str], other: Sequence[str], items: Sequence[set[str]]) -> float:
    """Return the mean share of items in common of two files that are equal in one name and differ in another.

    It is a share of the smaller file: items that a worker labels again are few, and those of several workers are most of them.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for n, name in enumerate(same):
        groups[name].append(n)
    shares = [
        len(items[a] & items[b]) / max(min(len(items[a]), len(items[b])), 1)
        for group in groups.values()
        for a, b in itertools.combinations(group[:50], 2)
        if other[a] != other[b]
    ]
    return sum(shares) / max(len(shares), 1)


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
