"""Kinds of labels: classes without an order, grades, or numbers."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl.data.fields import AnnotationFields, Kind
from crowdppl.data.numeric_reading import looks_numeric
from crowdppl.data.sequences import Tags
from crowdppl.data.table import scale_words
from crowdppl.data.table.identifier_checks import numbers
from crowdppl.errors import DataError, OptionError, listed, warn

Array = npt.NDArray[Any]
KINDS: tuple[str, ...] = get_args(Kind)
Annotated = TypeVar("Annotated", bound=AnnotationFields)
# Numbers of consecutive whole numbers that look like grades.
FEWEST, MOST = 3, 20


def declared(
    kind: Kind | None, order: Iterable[Any] | None, labels: Iterable[Any] | None
) -> tuple[Kind | None, Iterable[Any] | None]:
    """Return the kind of labels, and all classes if they are stated, of what a caller says.

    Raises:
        OptionError: for statements that contradict each other.
    """
    if order is None:
        return kind, labels
    if kind in ("nominal", "numeric"):
        raise OptionError(f"order= is that of grades, and kind={kind!r} says that labels are none; leave one out")
    if labels is not None:
        raise OptionError("order= and labels= both name all grades; give order= alone, lowest first")
    return "ordinal", order


def numbers_note(
    kind: Kind | None, frame: pd.DataFrame, label: str, classes: Mapping[str, Any], source: str
) -> tuple[bool, str | None]:
    """Return whether labels are read as numbers, and a note where they were recognised as such.

    Args:
        kind: what the caller said.
        frame: the table.
        label: its column of labels.
        classes: arguments of the caller that are about classes, by name; those not given are ``None`` or empty.
        source: name of the table in messages.

    Raises:
        OptionError: for arguments about classes, of labels that the caller calls numbers.
        DataError: for whole numbers with many values, where the caller said nothing.
    """
    given = [n for n, v in classes.items() if v is not None and not (isinstance(v, (str, tuple, list)) and not v)]
    if kind == "numeric":
        if given:
            raise OptionError(
                f"{given[0]}= is about classes, and kind='numeric' says that labels are numbers; leave one out"
            )
        return True, None
    if kind is not None or given:
        return False, None
    note = looks_numeric(frame[label], source)
    if note is not None:
        warn(note)
    return note is not None, note


def of_numbers(labels: pd.Series[Any], options: Mapping[str, Any]) -> bool:
    """Return whether a column of labels is read as numbers with these options of :meth:`Annotations.from_frame`."""
    if options.get("kind") is not None or options.get("scale") is not None:
        return options.get("kind") in (None, "numeric")
    if any(options.get(name) is not None for name in ("labels", "order", "map", "other_labels")):
        return False
    try:
        return looks_numeric(labels, "") is not None
    except DataError:
        return False  # it is raised where the labels are read


def halves_as_text(frame: pd.DataFrame, columns: Iterable[str], kind: Kind | None) -> pd.DataFrame:
    """Return a table whose grades are text where they are numbers that are not whole, such as 3.5: labels are names."""
    if kind != "ordinal":
        return frame
    floats = [name for name in columns if pd.api.types.is_float_dtype(frame[name])]
    parts = {name: frame[name].map("{:.15g}".format, na_action="ignore").astype(object) for name in floats}
    return frame.assign(**parts) if any((frame[name].dropna() % 1 != 0).any() for name in floats) else frame


def graded(data: Annotated, source: str) -> Annotated:
    """Return the same annotations as grades: classes that are numbers in the order of these, others as stated.

    Raises:
        DataError: where the classes are words whose order nobody stated.
    """
    values = numbers(data.labels)
    if data.labels_declared or (values is not None and bool((np.diff(values) > 0).all())):
        return replace(data, kind="ordinal")
    if values is None or len(np.unique(values)) < data.K:
        raise DataError(
            f"{source}: the order of the grades {listed(data.labels.tolist(), 8)} is not known, and the alphabet has none; state "
            f"it, lowest first, with order=[...] (--order low,medium,high)"
        )
    place = np.argsort(values, kind="stable")
    number = torch.from_numpy(np.argsort(place)).to(data.device)
    truth = torch.where(data.truth >= 0, number[data.truth.clamp(min=0)], data.truth)
    return replace(data, label=number[data.label], truth=truth, labels=data.labels[place], kind="ordinal")


def question(labels: Array, kind: Kind | None, *, in_sequences: bool) -> str | None:
    """Return a sentence that asks whether classes are grades, or labels of tokens, where their names look like it."""
    if not in_sequences and (tags := Tags.of(labels)) is not None:
        label = labels[int((tags.continues >= 0).argmax())]
        return (
            f"labels such as {label} mark spans of tokens, and each item was taken by itself; name the columns of the "
            f"sequence and of the position with sequence=... and position=..."
        )
    if kind is not None or not FEWEST <= len(labels) <= MOST:
        return None
    if (words := scale_words.ordered(labels.tolist())) is not None:
        return (
            f"labels {listed(words, MOST)} were taken for classes without an order; if they are grades, state the order, lowest "
            f"first, with order={words!r} (--order {shlex.quote(','.join(words))}), or kind='nominal' if not"
        )
    values = numbers(labels)
    if values is None or values.min() not in (0, 1) or not bool((np.diff(np.sort(values)) == 1).all()):
        return None
    return (
        f"labels {labels[0]} to {labels[-1]} were taken for classes without an order; if they are grades, say so with "
        f"kind='ordinal' (--kind ordinal), or kind='nominal' if not"
    )
