"""Which columns of a table of human labels are which, where their names are not the usual ones, by the names in the verdicts.

Evaluation tools name items and systems in words of their own (``sample_id``, ``question``, ``model``, ``provider``), and people
write their labels beside these. A column whose values are names of judged items is that of the items, whatever it is called.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.frames import maybe_pandas, to_pandas
from crowdppl.data.table.questions import CRITERIA, named, unused
from crowdppl.judges.human import USUAL, HumanLabels
from crowdppl.judges.units import turn_of
from crowdppl.judges.verdicts import Verdicts

# Share of the values of a column that are names of a kind, from which it is the column of these.
SHARE = 0.5
# Different labels that people give, at most: other columns may hold what was answered.
MOST = 20
# Columns of these names keep their meaning.
_LABELS = (*USUAL["verdict"], "score")
_TAKEN = [name for role, names in USUAL.items() if role != "verdict" for name in names]
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
    each = HumanLabels.by_criterion(frame, criterion, source=source)
    return {name: _noted(labels, notes) for name, labels in each.items()}


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

    Items and systems are columns whose values are names of judged items, or of questions, and of systems. The labels are the one
    column of few different values that is left, or the one whose values are classes of the judges. Where several columns could be
    meant, none is taken.
    Labels on verdicts by criterion have a column of these; without one, and where no item was judged on two criteria, each label
    is of the criterion of its item.

    Args:
        frame: the table.
        parts: the verdicts by criterion; of one, by any name.
        source: name of the table in messages.
        stated: names of columns by role, where the caller knows them.
        criterion: column of criteria, where the caller knows it.
    """
    every = list(parts.values())
    known = {role: column for role, column in (stated or {}).items() if column in frame.columns}
    by_role = dict(known)
    paired = any((part.opponent >= 0).any() for part in every)

    def there(*names: str) -> bool:
        return bool(set(names) & {str(column) for column in frame.columns})

    def free() -> list[Any]:
        kept = [column for column in frame.columns if str(column) in (*_TAKEN, criterion)]
        return unused(frame, [*by_role.values(), *kept, *named(frame, (), CRITERIA)])

    if not known and not there("item") and there("turn"):
        frame = _with_turns(frame, free(), _names(every, "items", "questions"))
    if "item" not in by_role and not there("item"):
        by_role |= _only("item", _of_names(frame, free(), _names(every, "items", "questions")))
    if "system" not in by_role and not there("system") and any(part.pairs or paired for part in every):
        by_role |= _systems(frame, free(), every, paired and not there("opponent"))
    if "verdict" not in by_role and not there(*_LABELS):
        left = free()
        few = [column for column in left if frame[column].nunique() <= MOST]
        by_role |= _only("verdict", few if len(few) == 1 else _of_names(frame, left, _names(every, "labels")))
    by_role = {role: column for role, column in by_role.items() if str(column) != role}
    said = [f"{str(column)!r} has the {_WORDS[role]}" for role, column in by_role.items() if role not in known]
    notes = (f"{source}: by the names in the verdicts, column {', '.join(said)}",) if said else ()
    old = [
        role for role in by_role if there(role)
    ]  # columns of another meaning, where the caller names the column of this one
    frame = frame.drop(columns=old).rename(columns={column: role for role, column in by_role.items()})
    return _with_criteria(frame, parts, criterion), notes


def _only(role: str, columns: Sequence[Any]) -> dict[str, Any]:
    """Return the column of a role if there is one candidate."""
    return {role: columns[0]} if len(columns) == 1 else {}


def _names(parts: Iterable[Verdicts], *fields: str) -> set[str]:
    """Return the names in some arrays of all verdicts, as text."""
    return {str(name) for part in parts for field in fields for name in getattr(part, field).tolist()}


def _of_names(frame: pd.DataFrame, columns: Iterable[Any], names: Collection[str]) -> list[Any]:
    """Return the columns whose values are mostly among some names."""
    out = []
    for column in columns:
        values = frame[column].dropna().astype(object).map(str)
        if len(values) and values.isin(names).mean() >= SHARE:
            out.append(column)
    return out


def _systems(frame: pd.DataFrame, columns: list[Any], parts: Iterable[Verdicts], paired: bool) -> dict[str, Any]:
    """Return the column of systems, and of pairs that of the second ones: in the order of the table if names do not tell."""
    both = _of_names(frame, columns, _names(parts, "systems"))
    if not paired:
        return _only("system", both)
    if len(both) != 2:
        return {}
    first = {str(part.systems[code]) for part in parts for code in np.unique(part.system) if code >= 0}
    one, other = (set(frame[column].dropna().map(str)) <= first for column in both)
    return dict(zip(("system", "opponent"), both[::-1] if other and not one else both, strict=True))


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
