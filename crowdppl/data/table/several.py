"""One label and one worker for each annotation, where the cells of a column hold lists or sets of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow

from crowdppl.data.table.cells import IDENTIFIERS, absent, is_structured, labels_of, parsed, people, person_key, plain
from crowdppl.data.table.identifiers import Coded, as_objects, rows_text
from crowdppl.data.table.structured import Several, single_labels
from crowdppl.errors import DataError, listed

Array = npt.NDArray[Any]

# Between names that are joined in a cell.
_SEPARATORS = (";", "|", ",")
# Services before the identifier of an account, as of auth0|111.
_SERVICE = re.compile(
    r"(auth0|google(-\w+)?|github|gitlab|facebook|twitter|linkedin|apple|windowslive|microsoft|azure\w*|waad|ad(fs)?|samlp?|oidc"
    r"|oauth2|email|sms|okta|mturk|prolific)",
    re.IGNORECASE,
)


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with its lists and objects written as JSON; columns without any are returned unchanged."""
    if isinstance(column.dtype, pd.ArrowDtype):
        kind = column.dtype.pyarrow_dtype
        if not (pyarrow.types.is_nested(kind)):
            return column
        column = as_objects(column)
    # The kind of a column of text, numbers or dates is found without a look at each object from Python.
    if column.dtype != object or pd.api.types.infer_dtype(column, skipna=True) != "mixed":
        return column
    values = column.tolist()
    if not any(map(is_structured, values)):
        return column
    written = [json.dumps(_jsonable(value), default=str) if is_structured(value) else value for value in values]
    return pd.Series(written, index=column.index, name=column.name, dtype=object)


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else value


def one_each(
    columns: Sequence[Coded], several: Several, where: Sequence[str], notes: list[str]
) -> tuple[list[Coded], Array | None]:
    """Return items, workers and labels with one worker and one label in each row.

    A list of several workers needs a list of as many labels, and becomes as many rows.

    Args:
        columns: items, workers and labels, ``A`` each.
        several: what is done with sets of labels.
        where: location of each column, for messages.
        notes: sentences are added on what was read.

    Returns:
        The columns, and the row of each annotation in the table; ``None`` if the rows are the same.

    Raises:
        DataError: for several workers without a label for each, and several labels that are to be refused.
    """
    item, worker, label = columns
    rows: Array | None = None
    example = None
    if several == "refuse":
        worker, label, example = _joined_lists(worker, label)
    names = worker.names.tolist()
    teams: dict[int, list[Any]] = {}
    for n, name in enumerate(names) if _text(worker) else ():
        if name.startswith(("[", "{")) and parsed(name) is not name:
            teams[n] = people(name)
    if teams:
        if any(len(team) > 1 for team in teams.values()):
            item, worker, label, rows = _paired(item, worker, label, teams, where, several)
            example = example or names[next(n for n, team in teams.items() if len(team) > 1)]
            notes.append(
                f"{where[1]}: lists of workers, such as {example!r}, are paired with the lists of labels; {len(rows):,} "
                f"annotations in all"
            )
        else:
            # An empty list names no worker.
            of_one = {n: str(plain(team[0])) if team else None for n, team in teams.items()}
            notes += _told_apart(of_one, item, worker, where[1])
            worker = renamed(worker, [of_one.get(n, name) for n, name in enumerate(names)])
            notes.append(f"{where[1]}: the worker is read from lists or objects, such as {names[next(iter(teams))]!r}")
    label, sentences = one_label(label, several, where[2])
    notes += sentences
    return [item, worker, label], rows


def _told_apart(of_one: dict[int, str | None], item: Coded, worker: Coded, where: str) -> list[str]:
    """Add the identifiers of objects to names that objects of several identifiers have, and return a note on them.

    Identifiers are those of people only if each has one name and several items; others number the annotations. An address or a
    login is one person whatever stands beside it.
    """
    names = worker.names.tolist()
    stated: dict[str | None, dict[str, list[int]]] = {}
    for n, name in of_one.items():
        person = parsed(names[n])
        if not isinstance(person, dict) or person_key(person) != "name":
            return []
        key = next((person[key] for key in IDENTIFIERS if key in person), None)
        if absent(key) or is_structured(key):
            return []
        stated.setdefault(name, {}).setdefault(str(plain(key)), []).append(n)
    shared = {name: keys for name, keys in stated.items() if len(keys) > 1}
    keyed = [key for keys in stated.values() for key in keys]
    if not shared or len(set(keyed)) < len(keyed):
        return []
    of_name = np.full(len(names) + 1, -1)
    for n, at in enumerate(at for keys in shared.values() for at in keys.values()):
        of_name[at] = n
    rows = np.flatnonzero(of_name[worker.codes] >= 0)
    pairs = np.unique(np.stack([of_name[worker.codes[rows]], item.codes[rows]]), axis=1)
    if (np.bincount(pairs[0]) < 2).any():
        return []
    for name, keys in shared.items():
        of_one |= {n: f"{name} ({key})" for key, at in keys.items() for n in at}
    name, keys = next(iter(shared.items()))
    return [
        f"{where}: {len(keys):,} workers have the name {name!r} and are told apart by their identifiers ({listed(keys, 3)})"
    ]


def _joined_lists(worker: Coded, label: Coded) -> tuple[Coded, Coded, str | None]:
    """Return workers and labels whose joined names, ``u;v`` and ``a;a``, are written as lists, and an example of workers.

    Otherwise the columns are the same, and there is no example. Every row has as many labels as workers, a label occurs twice in
    a row, so that they are no sets of labels, and names stand in several teams: see :func:`_are_teams`.
    """
    if not (_text(worker) and _text(label)):
        return worker, label, None
    written = worker.names.tolist()
    for separator in _SEPARATORS:
        if not any(separator in name for name in written):
            continue
        teams = [_split(name, separator) for name in written]
        # "Lee, Ann" is one name.
        if max(map(len, teams)) <= (2 if separator == "," else 1) or not _are_teams(teams):
            continue
        given = [_split(name, separator) for name in label.names.tolist()]
        if not any(len(set(one)) < len(one) for one in given):
            continue
        if not all(len(team) == len(set(team)) and all(team) for team in teams) or not all(map(all, given)):
            continue
        known = ~(worker.missing | label.missing)
        sizes, counts = (np.array(list(map(len, parts))) for parts in (teams, given))
        if (sizes[worker.codes[known]] == counts[label.codes[known]]).all():
            both = [[json.dumps(parts) if len(parts) > 1 else parts[0] for parts in one] for one in (teams, given)]
            example = next(name for name in written if separator in name)
            return renamed(worker, both[0]), renamed(label, both[1]), example
    return worker, label, None


def _are_teams(teams: Sequence[Sequence[str]]) -> bool:
    """Return whether joined names are those of people: one stands alone, too, or in different places of two teams.

    Where each place has names of its own, as in ``ann;uk`` and ``bob;us``, or a service is the first, they are parts of one name.
    """
    if all(_SERVICE.fullmatch(team[0]) for team in teams if len(team) > 1):
        return False
    place: dict[str, int] = {}
    for team in teams:
        for n, name in enumerate(team):
            if place.setdefault(name, n) != n:
                return True
    alone = {team[0] for team in teams if len(team) == 1}
    return not alone.isdisjoint(name for team in teams if len(team) > 1 for name in team)


def _split(name: str, separator: str) -> list[str]:
    return [part.strip() for part in name.split(separator)]


def one_label(column: Coded, several: Several, where: str) -> tuple[Coded, list[str]]:
    """Return a column with one label in each row, and notes on how lists and sets were read.

    Raises:
        DataError: for several labels that are to be refused.
    """
    if not _text(column):
        return column, []
    names = column.names.tolist()
    labels, notes = single_labels(names, several, partial(_location, where, column.codes), where)
    return column if labels == names else renamed(column, labels), notes


def _text(column: Coded) -> bool:
    return column.names.dtype == object


def _location(where: str, codes: Array, position: int) -> str:
    return f"{where}, {rows_text(np.flatnonzero(codes == position))}"


def renamed(column: Coded, names: list[Any]) -> Coded:
    """Return a column with new names for its distinct values; values of one name are one, and ``None`` is missing."""
    codes, distinct = pd.factorize(pd.Series(names, dtype=object))
    numbers = bool(len(distinct)) and all(isinstance(name, int) for name in distinct)
    values = np.array(distinct.tolist(), dtype=np.int64) if numbers else np.asarray(distinct, dtype=object)
    return Coded(np.append(codes, -1).astype(np.int64)[column.codes], values)


def _are_more(given: Any, several: Several) -> bool:
    """Return whether a label is a list of several and no set: sets are classes only where the caller says so."""
    answers = parsed(given) if several == "refuse" else None
    return isinstance(answers, list) and len(answers) > 1


def _paired(
    item: Coded, worker: Coded, label: Coded, teams: dict[int, list[Any]], where: Sequence[str], several: Several
) -> tuple[Coded, Coded, Coded, Array]:
    """Return a row for each worker of a list, with its label; the last value is the row of each in the table."""
    pair = worker.codes * (len(label.names) + 1) + label.codes + 1
    distinct, inverse = np.unique(pair, return_inverse=True)
    workers: list[Any] = []
    labels: list[Any] = []
    counts = np.ones(len(distinct), dtype=np.int64)
    for n, code in enumerate(distinct.tolist()):
        who, what = divmod(code, len(label.names) + 1)
        given = None if what == 0 else label.names[what - 1]
        team = teams.get(who)
        if team is None or (len(team) < 2 and not (team and _are_more(given, several))):
            workers.append((worker.names[who] if who >= 0 else None) if team is None else team[0] if team else None)
            labels.append(given)
            continue
        answers = parsed(given)
        if not isinstance(answers, list) or len(answers) != len(team):
            count = len(answers) if isinstance(answers, list) else 1
            as_set = "; if they are a set of one worker, several='join' reads it as a class" if len(team) == 1 else ""
            raise DataError(
                f"{where[1]}, {rows_text(np.flatnonzero(inverse == n))}: {len(team)} worker{'s' if len(team) > 1 else ''}, "
                f"{listed(team, 3)}, and {count} "
                f"labels in one row; write a row for each worker, or a label for each{as_set}"
            )
        workers += team
        labels += [json.dumps(labels_of(answer)) if is_structured(answer) else answer for answer in answers]
        counts[n] = len(team)
    starts = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(inverse)), counts[inverse])
    first = np.repeat(np.cumsum(counts[inverse]) - counts[inverse], counts[inverse])
    at = starts[inverse][rows] + np.arange(len(rows)) - first
    columns = [
        renamed(Coded(at, np.empty(0)), [None if v is None else str(plain(v)) for v in values])
        for values in (workers, labels)
    ]
    return item.take(rows), columns[0], columns[1], rows
