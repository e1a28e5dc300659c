"""Annotations that are sets of labels: each task becomes as many items as there are labels, with classes 0 and 1.

A table of sets is read as any other, with each set as a class of its own; so names are cleaned, repeats treated and known truths
matched in one place. The classes are then taken apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from crowdppl.data.cells import absent, is_structured, parsed
from crowdppl.data.frames import maybe_pandas
from crowdppl.data.identifiers import as_objects
from crowdppl.data.layouts import NO_SEQUENCES, AnnotationLayouts
from crowdppl.data.spellings import KEYS, alike
from crowdppl.data.structured import EMPTY, SEPARATOR
from crowdppl.errors import DataError, OptionError, listed

Data = TypeVar("Data", bound=AnnotationLayouts)
# Between the task and the label in the name of an item.
BETWEEN = "|"
# How sentences on sets as classes begin, which say nothing of sets as sets.
_ON_CLASSES = ("sets of several labels are classes", "every label is")


def refuse_others(**options: Any) -> None:
    """Refuse options that are not for sets of labels.

    Raises:
        OptionError: where one is given.
    """
    given = [
        name
        for name, value in options.items()
        if value is not None and not (isinstance(value, (list, tuple)) and not value)
    ]
    if given:
        advice = "; crowdppl.data.label_sets.pairs gives features to pairs" if given[0] == "features" else ""
        raise OptionError(f"{given[0]}= is not used for sets of labels; leave it out{advice}")


def with_empty_sets(column: pd.Series[Any], where: str) -> tuple[pd.Series[Any], list[str]]:
    """Return a column in which empty sets are named, and notes on cells without a value.

    An empty list or text is the empty set. So is a cell without a value, unless the column has empty lists or texts: then it is
    missing.
    """
    values = as_objects(column) if isinstance(column.dtype, pd.ArrowDtype) else column.astype(object)
    cells = values.tolist()
    empty = np.array([_is_empty(cell) for cell in cells], dtype=bool)
    blank = (
        np.array([not is_structured(cell) and (cell is pd.NA or absent(cell)) for cell in cells], dtype=bool) & ~empty
    )
    notes = []
    if blank.any() and not empty.any():
        notes.append(f"{where}: {int(blank.sum()):,} blank cells are read as sets without a label")
        empty = blank
    if not empty.any():
        return column, notes
    values = values.copy()
    values[empty] = EMPTY
    return values, notes


def _is_empty(cell: Any) -> bool:
    if isinstance(cell, str):
        return not cell.strip() or (cell.strip()[:1] in "[{(" and parsed(cell) in ([], {}))
    return is_structured(cell) and len(cell) == 0


def truth_of_sets(truth: Any) -> Any:
    """Return known truths in which sets that are written as empty are named; a blank cell is no known truth."""
    if isinstance(truth, pd.Series):
        return truth.map(_named_if_empty)
    if isinstance(truth, Mapping):
        return {name: _named_if_empty(cell) for name, cell in truth.items()}
    table = None if truth is None or isinstance(truth, str) else maybe_pandas(truth, "the known truths")
    if table is None:
        return truth
    return table.apply(lambda column: column.map(_named_if_empty) if column.dtype == object else column)


def _named_if_empty(cell: Any) -> Any:
    blank = isinstance(cell, str) and not cell.strip()
    return EMPTY if not blank and _is_empty(cell) else cell


def in_sets(
    data: Data,
    labels: Iterable[Any] | None,
    fold: bool,
    names_of: Mapping[Any, Any] | None,
    notes: Iterable[str],
    source: str,
) -> Data:
    """Return annotations whose classes are sets, joined to text, as annotations of pairs of a task and a label.

    Args:
        data: as read with each set as a class.
        labels: all labels of the sets, in order. Defaults to those that occur, sorted.
        fold: whether labels that differ in capitals, white space or look-alike letters only are one.
        notes: sentences to add.
        names_of: names of labels by label; ``None`` for a label that is none.
        source: name of the table in messages.

    Raises:
        DataError: if a set has a label that is not declared, or no set has a label.
    """
    renamed = {str(label): None if name is None else str(name) for label, name in (names_of or {}).items()}
    members = [
        {name for own in _members(label) if (name := renamed.get(own, own)) is not None}
        for label in data.labels.tolist()
    ]
    often: Counter[str] = Counter()
    for own, count in zip(members, data.votes.sum(0).tolist(), strict=True):
        often.update(dict.fromkeys(own, int(count) + 1))
    declared = None if labels is None else [str(label) for label in labels]
    same, merged = _spelt_alike(often, declared) if fold else ({}, [])
    members = [{same.get(name, name) for name in own} for own in members]
    used = sorted(set().union(*members))
    names = used if declared is None else declared
    number = {name: n for n, name in enumerate(names)}
    if unknown := [name for name in used if name not in number]:
        raise DataError(f"{source}: labels {listed(unknown)} are not among the declared ones; add or correct them")
    if not names:
        raise DataError(f"{source}: every set is empty; list the labels with labels=[...]")
    contains = torch.zeros(len(members), len(names), dtype=torch.int64)  # (sets, L)
    for row, own in enumerate(members):
        contains[row, [number[name] for name in own]] = 1
    kept = [note for note in data.notes if not any(part in note for part in _ON_CLASSES)]
    known = torch.where((data.truth >= 0).unsqueeze(-1), contains[data.truth.clamp(min=0)], -1)
    return replace(
        _pairs(data, contains[data.label], known, names),
        misspelt=(),
        doubts=(),
        notes=(*kept, *notes, *merged, _sizes(data, contains, names)),
    )


def _members(label: Any) -> set[str]:
    return set() if label == EMPTY else {part for part in str(label).split(SEPARATOR) if part}


def _spelt_alike(often: Counter[str], declared: list[str] | None) -> tuple[dict[str, str], list[str]]:
    """Return the name that stands for each other spelling, the most frequent one, and a note."""
    apart = set(declared or [])
    same: dict[str, str] = {}
    for key in KEYS:
        for group in alike([name for name in often if name not in same], key):
            kept = next((name for name in group if name in apart), max(group, key=lambda name: (often[name], name)))
            same |= {name: kept for name in group if name != kept and name not in apart}
    if not same:
        return same, []
    shown = ", ".join(f"{name!r} as {kept!r}" for name, kept in list(same.items())[:3]) + (
        " ..." if len(same) > 3 else ""
    )
    return same, [
        f"labels that differ in capitals, white space or look-alike letters only are one: {shown}; fold=False keeps them apart"
    ]


def _sizes(data: AnnotationLayouts, contains: torch.Tensor, names: list[str]) -> str:
    """Return a sentence on the sets."""
    size = contains.sum(-1)[data.label.cpu()]
    return (
        f"labels are read as sets: {len(names):,} labels, {float(size.double().mean()):.2f} in the mean set, "
        f"{int((size == 0).sum()):,} of {data.A:,} sets are empty"
    )


def _pairs(data: Data, chosen: torch.Tensor, known: torch.Tensor, names: Iterable[Any]) -> Data:
    """Return annotations of pairs of a task and a label, one task after the other.

    Args:
        data: with tasks as items, and one answer for each annotation.
        chosen: which labels are in the set of each annotation, ``(A, L)``.
        known: which are in the true set of each task, ``(G, L)``, -1 where it is not known.
        names: of the labels.
    """
    labels = np.array(list(names), dtype=object)
    L = len(labels)
    item = (data.item.unsqueeze(-1) * L + torch.arange(L)).flatten()
    order = item.argsort(stable=True)
    annotation = torch.div(order, L, rounding_mode="floor")
    timings = {
        name: value[annotation] for name in ("timestamp", "seconds") if (value := getattr(data, name)) is not None
    }
    pairs = replace(
        data,
        item=item[order],
        worker=data.worker[annotation],
        label=chosen.flatten()[order],
        truth=known.flatten(),
        items=np.array([f"{task}{BETWEEN}{label}" for task in data.items.tolist() for label in labels], dtype=object),
        labels=np.array([0, 1]),
        labels_declared=True,
        kind=None,
        **timings,
    )
    return pairs._in_sets(np.repeat(data.items, L), np.tile(np.arange(L), data.N), labels)


def of_labels(data: Data, labels: Any) -> Data:
    """Return annotations of sets as sets of other labels, all of theirs and more.

    Raises:
        DataError: if they have a label that is not among them.
    """
    assert data.set_labels is not None
    number = {name: n for n, name in enumerate(list(labels))}
    if unknown := [name for name in data.set_labels.tolist() if name not in number]:
        raise DataError(
            f"the further annotations have labels that the result does not have, {listed(unknown)}; its labels are "
            f"{listed(list(number))}. Fit anew to add a label"
        )
    if data.set_labels.tolist() == list(number):
        return data
    own = torch.tensor([number[name] for name in data.set_labels.tolist()])
    answers, tasks = _answers(data), data.truth.view(-1, len(own))
    chosen = torch.zeros(len(answers), len(number), dtype=torch.int64).index_copy(1, own, answers)
    known = torch.where((tasks[:, :1] < 0).expand(-1, len(number)), -1, 0).index_copy(1, own, tasks)
    return _pairs(whole(data), chosen, known, number)


def _answers(data: AnnotationLayouts) -> torch.Tensor:
    """Return which labels are in the set of each annotation, ``(A / L, L)``."""
    assert data.set_labels is not None
    # Each label of a task has the same annotations in the same order.
    number = data.set_label[data.item]
    return data.label[number.argsort(stable=True)].view(len(data.set_labels), -1).mT


def whole(data: Data) -> Data:
    """Return annotations of sets with the tasks as items and each distinct set as a class: one answer for each annotation."""
    if data.set_labels is None or data.sequence is None or data.sequences is None:
        return data
    distinct, code = torch.unique(_answers(data), dim=0, return_inverse=True)
    first = data.set_label[data.item] == 0
    return replace(
        data,
        item=data.sequence[data.item[first]],
        worker=data.worker[first],
        label=code,
        truth=torch.full((len(data.sequences),), -1, dtype=torch.int64, device=data.device),
        items=data.sequences,
        labels=np.arange(len(distinct)),
        timestamp=None if data.timestamp is None else data.timestamp[first],
        seconds=None if data.seconds is None else data.seconds[first],
        weight=None,
        features=None,
        start=None,
        **NO_SEQUENCES,
    )
