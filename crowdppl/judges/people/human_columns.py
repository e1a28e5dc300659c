"""Which columns of a table of human labels are which, where their names are not the usual ones, by the names in the verdicts.

Evaluation tools name items and systems in words of their own (``sample_id``, ``question``, ``model``, ``provider``), and people
write their labels beside these. A column whose values are names of judged items is that of the items, whatever it is called.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.frames import maybe_pandas, to_pandas
from crowdppl.data.table.columns import column_of, usual_column
from crowdppl.data.table.questions import CRITERIA, codes, named, unused
from crowdppl.errors import DataError
from crowdppl.judges.coding.column_words import (
    OF_ITEMS,
    OF_LABELS,
    OF_MEASURES,
    OF_PEOPLE,
    first_of_two,
    last_word,
    words_of,
)
from crowdppl.judges.coding.units import turn_of, unit_name
from crowdppl.judges.human import USUAL, HumanLabels
from crowdppl.judges.people.outputs import numbered
from crowdppl.judges.verdicts import Verdicts

# Share of the values of a column that are names of a kind, from which it is the column of these.
SHARE = 0.5
# Share of whole numbers, which match by chance, from which a column of these is that of the items.
NEARLY_ALL = 0.9
# Different labels that people give, at most: other columns may hold what was answered.
MOST = 20
_LABELS = (*USUAL["verdict"], "score")
# Columns of these names keep their meaning.
_TAKEN = [*(name for names in USUAL.values() for name in names), "score"]
_WORDS = {"item": "items", "system": "systems", "opponent": "second systems", "verdict": "labels"}


def labelled(
    human: Any, verdicts: Verdicts, source: str = "the human labels", stated: Mapping[str, Any] | None = None
) -> HumanLabels:
    """Return human labels of a table, a mapping or a Series, the columns found as by :func:`with_usual_names`.

    Args:
        human: the labels, as :meth:`HumanLabels.from_frame` takes them.
        verdicts: the verdicts.
        source: name of the table in messages.
        stated: names of columns by role, where the caller knows them.

    Raises:
        DataError: as :meth:`HumanLabels.from_frame`.
    """
    frame = maybe_pandas(human, source)
    notes: tuple[str, ...] = ()
    if frame is not None:
        human, notes = with_usual_names(frame, {None: verdicts}, source, stated)
    with _naming(notes):
        return _noted(HumanLabels.from_frame(human, source=source), notes)


def labelled_by_criterion(
    human: Any,
    parts: Mapping[Any, Verdicts],
    criterion: Any = None,
    source: str = "the human labels",
    stated: Mapping[str, Any] | None = None,
) -> dict[Any, HumanLabels]:
    """Return human labels of a table by criterion, the columns found as by :func:`with_usual_names`.

    Args:
        human: a table of labels.
        parts: the verdicts by criterion.
        criterion: column of criteria, as of :meth:`HumanLabels.by_criterion`.
        source: name of the table in messages.
        stated: names of columns by role, where the caller knows them.

    Raises:
        DataError: as :meth:`HumanLabels.by_criterion`.
    """
    frame, notes = with_usual_names(to_pandas(human, source), parts, source, stated, criterion)
    with _naming(notes):
        each = HumanLabels.by_criterion(frame, criterion, source=source)
    return {name: _noted(labels, notes) for name, labels in each.items()}


@contextmanager
def _naming(notes: tuple[str, ...]) -> Iterator[None]:
    """Add to errors which columns were recognised: their messages name columns by role, and the table has other names."""
    try:
        yield
    except DataError as error:
        if not notes:
            raise
        raise DataError("; ".join([str(error), *notes])) from error


def _noted(labels: HumanLabels, notes: tuple[str, ...]) -> HumanLabels:
    """Return labels with further notes, before their own."""
    return dataclasses.replace(labels, notes=(*notes, *labels.notes))


def with_usual_names(
    frame: pd.DataFrame,
    parts: Mapping[Any, Verdicts],
    source: str,
    stated: Mapping[str, Any] | None = None,
    criterion: Any = None,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table of human labels whose columns have the usual names, and what was recognised, in a sentence.

    Items are a column whose values are names of judged items, or of questions. Systems are looked for only where the items are
    questions: a column of their names that gives, with the questions, items that were judged. The labels are a column whose
    values are classes of the judges, or whose name is a word for labels. Where several columns could be meant, none is taken.
    Labels on verdicts by criterion have a column of these; without one, and where no item was judged on two criteria, each label
    is of the criterion of its item.

    Args:
        frame: the table.
        parts: the verdicts by criterion; of one, by any name.
        source: name of the table in messages.
        stated: names of columns by role, where the caller knows them.
        criterion: column of criteria, where the caller knows it.

    Raises:
        DataError: if no column has the items, or none the labels.
    """
    every = list(parts.values())
    known = {role: column for role, column in (stated or {}).items() if column in frame.columns}
    by_role = dict(known)
    paired = any((part.opponent >= 0).any() for part in every)

    def there(*names: str) -> bool:
        return bool(set(names) & {str(column) for column in frame.columns})

    def usual(role: str) -> Any:
        # As the table is read afterwards, also in another spelling.
        columns = [str(column) for column in frame.columns]
        name = next((one for one in USUAL[role] if one in columns), None) or usual_column(columns, USUAL[role])
        return None if name is None else frame.columns[columns.index(name)]

    def free() -> list[Any]:
        kept = [column for column in frame.columns if str(column) in (*_TAKEN, criterion)]
        kept += [usual(role) for role in ("item", "verdict")]
        return unused(frame, [*by_role.values(), *kept, *named(frame, (), CRITERIA)])

    given = frame
    if not known and usual("item") is None and there("turn"):
        frame = _with_turns(frame, free(), _names(every, "items", "questions"))
    if "item" not in by_role and usual("item") is None:
        by_role |= _only("item", _items(frame, free(), _names(every, "items", "questions")))
    items = by_role.get("item", usual("item"))
    labels_named = there("score") or usual("verdict") is not None
    if "system" not in by_role and not there("system") and list(frame.columns).count(items) == 1:
        by_role |= _systems(frame, items, free(), every, paired and not there("opponent"), labels_named)
    if "verdict" not in by_role and not labels_named:
        by_role |= _labels(frame, free(), every)
    for role in ("item", "verdict"):
        if role not in by_role and usual(role) is None and not (role == "verdict" and labels_named):
            # Below, columns have other names than the caller knows.
            column_of(given, None, USUAL[role], source, f"name the column of the {role} with {role}=...", role)
    by_role = {role: column for role, column in by_role.items() if str(column) != role}
    said = [f"{str(column)!r} has the {_WORDS[role]}" for role, column in by_role.items() if role not in known]
    notes: tuple[str, ...] = (f"{source}: by the names in the verdicts, column {', '.join(said)}",) if said else ()
    old = [
        role for role in by_role if there(role)
    ]  # columns of another meaning, where the caller names the column of this one
    frame = frame.drop(columns=old).rename(columns={column: role for role, column in by_role.items()})
    frame, read = numbered(frame, usual("item"), every, source)
    notes += read
    return _with_criteria(frame, parts, criterion), notes


def _only(role: str, columns: Sequence[Any]) -> dict[str, Any]:
    """Return the column of a role if there is one candidate."""
    return {role: columns[0]} if len(columns) == 1 else {}


def _names(parts: Iterable[Verdicts], *fields: str) -> set[str]:
    """Return the names in some arrays of all verdicts, as text."""
    return {str(name) for part in parts for field in fields for name in getattr(part, field).tolist()}


def _of_names(frame: pd.DataFrame, columns: Iterable[Any], names: Collection[str]) -> list[Any]:
    """Return the columns whose values are mostly among some names."""
    return [column for column in columns if _share(frame[column], names) >= SHARE]


def _share(column: pd.Series[Any], names: Collection[str]) -> float:
    """Return the share of the values of a column that are among some names."""
    values = column.dropna().astype(object).map(str)
    return float(values.isin(names).mean()) if len(values) else 0.0


def _whole(column: pd.Series[Any]) -> bool:
    """Return whether all values of a column are whole numbers, as numbers or as text."""
    values = column.dropna().astype(object).map(str)
    return bool(len(values)) and bool(values.str.fullmatch(r"[+-]?\d+(\.0+)?").all())


def _structured(column: pd.Series[Any]) -> bool:
    """Return whether a column has lists, objects or arrays, which are no labels."""
    return any(isinstance(cell, (list, tuple, set, dict, np.ndarray)) for cell in column.tolist())


def _items(frame: pd.DataFrame, columns: Sequence[Any], names: Collection[str]) -> list[Any]:
    """Return the columns that may be those of the items.

    Whole numbers match by chance. They are items if nearly all match, and by the name of the column, or because each row has
    another one and no other column has the name of items.
    """
    own = [column for column in columns if words_of(column) & OF_ITEMS and not words_of(column) & OF_MEASURES]
    out = []
    for column in _of_names(frame, columns, names):
        values = frame[column].dropna()
        if _whole(values):
            by_name = column in own
            each = len(set(codes(values).tolist())) >= NEARLY_ALL * len(values) and not own
            if words_of(column) & OF_MEASURES or _share(values, names) < NEARLY_ALL or not (by_name or each):
                continue
        out.append(column)
    return out


def _labels(frame: pd.DataFrame, columns: Sequence[Any], parts: Sequence[Verdicts]) -> dict[str, Any]:
    """Return the column of labels: by its values and its name if one has both, otherwise by one of these if no other column.

    Columns of people, of measurements and of a judge's own verdicts are none, nor are whole numbers without a word for labels.
    """
    judges, classes = _names(parts, "judges"), _names(parts, "labels")
    plain = [column for column in columns if str(column) not in judges and not _structured(frame[column])]
    by_name = [
        column
        for column in plain
        if words_of(column) & OF_LABELS
        and not words_of(column) & OF_MEASURES
        and (not words_of(column) & OF_ITEMS or last_word(column) in OF_LABELS)
        and len(set(codes(frame[column]).tolist())) <= MOST
    ]
    by_value = [
        column
        for column in _of_names(frame, plain, classes)
        if column in by_name or not (words_of(column) & (OF_PEOPLE | OF_MEASURES) or _whole(frame[column]))
    ]
    both = [column for column in by_value if column in by_name]
    return _only("verdict", both or list(dict.fromkeys([*by_value, *by_name])))


def _systems(
    frame: pd.DataFrame, items: Any, columns: list[Any], parts: Sequence[Verdicts], paired: bool, labelled: bool
) -> dict[str, Any]:
    """Return the column of systems, and of pairs that of the second ones: in the order of the table if names do not tell.

    Args:
        frame: the table.
        items: its column of items.
        columns: columns that may be meant.
        parts: the verdicts.
        paired: whether two columns are wanted.
        labelled: whether the labels have a usual name. Where they have, items that were judged need no system.
    """
    alone = _share(frame[items], _names(parts, "items")) >= SHARE
    if (alone and (labelled or not paired)) or not any(part.pairs or paired for part in parts):
        return {}
    plain = [column for column in columns if not words_of(column) & (OF_PEOPLE | OF_LABELS)]
    both = _of_names(frame, plain, _names(parts, "systems"))
    if len(both) != (2 if paired else 1) or _share(_joined(frame, [items, *both]), _judged(parts, paired)) < SHARE:
        return {}
    if not paired:
        return {"system": both[0]}
    if (one_of_two := first_of_two(both)) is not None:
        return {"system": one_of_two, "opponent": next(column for column in both if column != one_of_two)}
    first = {str(part.systems[code]) for part in parts for code in np.unique(part.system) if code >= 0}
    one, other = (set(frame[column].dropna().map(str)) <= first for column in both)
    return dict(zip(("system", "opponent"), both[::-1] if other and not one else both, strict=True))


def _joined(frame: pd.DataFrame, columns: Sequence[Any]) -> pd.Series[Any]:
    """Return the names of some columns in each row, as one text; that of the second systems after that of the first."""
    rows = zip(*(frame[column].tolist() for column in columns), strict=True)
    return pd.Series([unit_name(*row) for row in rows], dtype=object)


def _judged(parts: Iterable[Verdicts], paired: bool) -> set[str]:
    """Return the names of question and system that were judged, or of question and two systems, in either order."""
    out = set()
    for part in parts:
        for item, system, opponent, question in zip(part.items, part.system, part.opponent, part.question, strict=True):
            asked = item if question < 0 else part.questions[question]
            one, other = (None if code < 0 else part.systems[code] for code in (system, opponent))
            if paired and one is not None and other is not None:
                out |= {unit_name(asked, one, other), unit_name(asked, other, one)}
            elif not paired:
                out |= {unit_name(asked, each) for each in (one, other) if each is not None}
    return out


def _with_turns(frame: pd.DataFrame, columns: Iterable[Any], names: Collection[str]) -> pd.DataFrame:
    """Return a table whose items are turns of questions, as MT-bench has them, if judged items are named so."""
    for column in columns:
        turns = [turn_of(question, turn) for question, turn in zip(frame[column], frame["turn"], strict=True)]
        if pd.Series(turns, dtype=object).isin(names).mean() >= SHARE:
            return frame.assign(item=turns).drop(columns=[column, "turn"])
    return frame


def _with_criteria(frame: pd.DataFrame, parts: Mapping[Any, Verdicts], column: Any) -> pd.DataFrame:
    """Return a table with the criterion of each label, where none is stated and the items of the criteria differ."""
    if len(parts) < 2 or "item" not in frame or column in frame or named(frame, (), CRITERIA):
        return frame
    criteria: dict[str, Any] = {}
    for name, part in parts.items():
        own = _names([part], "items", "questions")
        if own & set(criteria):
            return frame
        criteria |= dict.fromkeys(own, name)
    of_item = frame["item"].map(lambda item: criteria.get(str(item)))
    return frame.assign(**{str(column or "criterion"): of_item}) if of_item.notna().all() else frame
