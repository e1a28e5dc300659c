"""Annotations that are sets of labels: each task becomes as many items as there are labels, with classes 0 and 1.

A table of sets is read as any other, with each set as a class of its own; so names are cleaned, repeats treated and known truths
matched in one place. The classes are then taken apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from crowdppl.data.additions import AnnotationAdditions
from crowdppl.data.frames import maybe_pandas
from crowdppl.data.layouts import NO_COVARIATES, NO_SEQUENCES
from crowdppl.data.table.cells import NoLabelError, absent, is_structured, labels_of, parsed, plain
from crowdppl.data.table.columns import LABEL_COLUMNS
from crowdppl.data.table.identifiers import as_objects
from crowdppl.data.table.spellings import KEYS, alike
from crowdppl.data.table.structured import EMPTY, SEPARATOR, protected, refuse_vectors, restored
from crowdppl.errors import DataError, OptionError, listed

Data = TypeVar("Data", bound=AnnotationAdditions)
# Between the task and the label in the name of an item.
BETWEEN = "|"
# What a note says of a class that may stand for nothing.
_NOTHING = re.compile(r"if it stands for no label, add missing=('[^']*')")
# How sentences on sets as classes begin, which say nothing of sets as sets.
_ON_CLASSES = ("sets of several labels are classes", "every label is", "is treated as a different label")


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


def as_texts(column: pd.Series[Any], where: str) -> tuple[pd.Series[Any], list[str]]:
    """Return a column of sets as text, and notes on cells without a value.

    An empty list or text is the empty set. So is a cell without a value, unless the column has empty lists or texts: then it is
    missing.
    """
    cells = _objects(column).tolist()
    first: dict[str, int] = {}
    for n, cell in enumerate(cells):
        if is_structured(cell) or isinstance(cell, str):
            first.setdefault(str(cell), n)
    rows = list(first.values())
    refuse_vectors([parsed(cells[row]) for row in rows], lambda n: f"{where}, row {rows[n] + 1}")
    texts = [_text(cell) for cell in cells]
    empty = [text == "" or text == EMPTY for text in texts]
    blank = sum(text is None for text in texts)
    notes = []
    if blank and not any(empty):
        counted = "1 blank cell is read as a set" if blank == 1 else f"{blank:,} blank cells are read as sets"
        notes.append(f"{where}: {counted} without a label")
        texts = [EMPTY if text is None else text for text in texts]
    return pd.Series(
        [EMPTY if text == "" else text for text in texts], column.index, dtype=object, name=column.name
    ), notes


def truth_of_sets(truth: Any, label: Any) -> Any:
    """Return known true sets as text; a blank cell is no known truth. ``label`` is the column that a table may have them in."""
    if isinstance(truth, pd.Series):
        return pd.Series(
            [_truth(cell) for cell in _objects(truth).tolist()], truth.index, dtype=object, name=truth.name
        )
    if isinstance(truth, Mapping):
        return {name: _truth(cell) for name, cell in truth.items()}
    table = None if truth is None or isinstance(truth, str) else maybe_pandas(truth, "the known truths")
    if table is None:
        return truth
    names = [name for name in table.columns if name == label or name in LABEL_COLUMNS]
    return table.assign(**{name: truth_of_sets(table[name], label) for name in names})


def _objects(column: pd.Series[Any]) -> pd.Series[Any]:
    return as_objects(column) if isinstance(column.dtype, pd.ArrowDtype) else column.astype(object)


def _truth(cell: Any) -> Any:
    text = _text(cell)
    return None if text == "" else text


def _text(cell: Any) -> Any:
    """Return a cell as text, the labels of a list joined: blank for a blank text, ``None`` for a missing cell."""
    if cell is pd.NA or (not is_structured(cell) and not isinstance(cell, str) and absent(cell)):
        return None
    value = parsed(cell)
    if not is_structured(value):
        return value.strip() if isinstance(value, str) else str(plain(value))
    try:
        members = [protected(label) for label in labels_of(value)]
    except NoLabelError:
        return cell  # refused where the column is read, with its place
    return SEPARATOR.join(members) or EMPTY


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
        names_of: names of labels by label; ``None`` for a label that is none.
        notes: sentences to add.
        source: name of the table in messages.

    Raises:
        DataError: if a set has a label that is not declared, no set has a label, or names are given to labels that do not occur.
    """
    renamed = {str(label): None if name is None else str(name) for label, name in (names_of or {}).items()}
    declared = None if labels is None else _declared(labels, source)
    every = set().union(*(_members(label) for label in data.labels.tolist()))
    if unused := [label for label in renamed if label not in every]:
        raise DataError(
            f"{source}: map names labels that do not occur, {listed(unused, 3)}; those that do are {listed(sorted(every), 8)}"
        )
    members = [
        {name for own in _members(label) if (name := renamed.get(own, own)) is not None}
        for label in data.labels.tolist()
    ]
    often: Counter[str] = Counter()
    for own, count in zip(members, data.votes.sum(0).tolist(), strict=True):
        often.update(dict.fromkeys(own, int(count) + 1))
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
    kept = [_NOTHING.sub(r"if it says that no label applies, add map={\1: None}", note) for note in kept]
    known = torch.where((data.truth >= 0).unsqueeze(-1), contains[data.truth.clamp(min=0)], -1)
    return replace(
        _pairs(data, contains[data.label], known, names),
        misspelt=(),
        doubts=(),
        notes=(*kept, *notes, *merged, _sizes(data, contains, names)),
    )


def _declared(labels: Iterable[Any], source: str) -> list[str]:
    """Return the declared labels.

    Raises:
        DataError: for text in place of a list, and for a label that is named twice.
    """
    if isinstance(labels, (str, bytes)):
        raise DataError(f"{source}: labels={labels!r} is text; pass a list of labels")
    names = [str(plain(label)) for label in labels]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{source}: label {listed(twice, 3)} is declared twice")
    return names


def _members(label: Any) -> set[str]:
    return set() if label == EMPTY else {restored(part) for part in str(label).split(SEPARATOR) if part}


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


def _sizes(data: AnnotationAdditions, contains: torch.Tensor, names: list[str]) -> str:
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


def _answers(data: AnnotationAdditions) -> torch.Tensor:
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
        **NO_COVARIATES,
        weight=None,
        features=None,
        start=None,
        **NO_SEQUENCES,
    )
