"""Labels that people gave to some of the judged items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Identifier, checked
from crowdppl.data.frames import to_pandas
from crowdppl.data.table.identifiers import Coded, rows_text
from crowdppl.data.table.questions import CRITERIA, codes, named
from crowdppl.errors import DataError, listed
from crowdppl.judges.coding import criteria
from crowdppl.judges.coding.table import Table
from crowdppl.judges.coding.units import ANSWERS, two_systems
from crowdppl.judges.people.alignment import AlignableLabels

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]

# Usual names of the column of each role.
USUAL = {
    "item": ("item",),
    "verdict": ("verdict", "label"),
    "system": ("system",),
    "opponent": ("opponent",),
    "annotator": ("annotator",),
    "probability": ("probability",),
    "stratum": ("stratum",),
    "stratum_size": ("stratum_size", "stratum_count"),
    "answer": ANSWERS,
}


class HumanLabels(AlignableLabels):
    """Labels of items by people, ``m`` of them. Several people may label an item, and may contradict each other.

    Create them with :meth:`from_frame`; :meth:`align` gives items and labels the codes of :class:`Verdicts`.

    Attributes:
        items: names of the items, ``(N,)``; after :meth:`align` those of the verdicts.
        labels: names of the classes, ``(K,)``; after :meth:`align` those of the verdicts.
        annotators: names of the people, ``(P,)``.
        strata: names of the strata, ``(S,)``.
        systems: names of the systems, ``(M,)``.
        item: item of each label, ``(m,)`` int64.
        label: label, ``(m,)`` int64.
        annotator: person, ``(m,)`` int64, -1 if not stated.
        probability: probability with which the item was chosen to be labelled, ``(m,)``, NaN if not stated.
        stratum: stratum of the item, ``(m,)`` int64, -1 if not stated.
        system: system whose answer was labelled, ``(m,)`` int64, -1 if not stated.
        opponent: second system of a pair, ``(m,)`` int64, -1 if not stated.
        notes: what was dropped or unusual, in sentences.
        answers: names of the answers of a system to a question, where it gave several, ``(B,)``.
        answer: answer that was labelled, ``(m,)`` int64, -1 if not stated; ``(0,)`` if none is.
    """

    @classmethod
    @checked
    def from_frame(
        cls,
        data: Any,
        *,
        item: Identifier = None,
        verdict: Identifier = None,
        system: Identifier = None,
        opponent: Identifier = None,
        annotator: Identifier = None,
        probability: Identifier = None,
        stratum: Identifier = None,
        stratum_size: Identifier = None,
        answer: Identifier = None,
        criterion: Identifier = None,
        source: str = "the human labels",
    ) -> Self:
        """Return the labels of a table with a row for each label, or of a mapping or Series from item to label.

        A column is used if the table has one of the argument's name, or under the name that the argument states. The column of
        labels may be called ``verdict`` or ``label``. Rows without a label are dropped and counted.

        Args:
            data: a table of any library that :meth:`Verdicts.from_frame` accepts, a mapping or a Series.
            item: column of item identifiers.
            verdict: column of labels: booleans, whole numbers or strings, not mixed.
            system: column of systems; needed if the verdicts' items are pairs of question and system.
            opponent: column of second systems; needed if they are pairs of question and two systems.
            annotator: column of the people.
            probability: column of the probability with which the item was chosen to be labelled, above 0 and at most 1. Defaults
                to a random sample.
            stratum: column of the stratum from which the item was drawn at random, such as complaints and others.
            stratum_size: column of the number of judged items in the stratum. The probability of being chosen is then the share
                of these that people labelled; a column of probabilities takes precedence.
            answer: column of answers, such as epochs; needed if the verdicts are on several answers of a system to a question.
            criterion: column of what people judged. Labels on several criteria are refused, see :meth:`by_criterion`.
            source: name of the table in messages.

        Raises:
            DataError: if the table cannot be used; the message names the rows, the column and a fix.
        """
        given = {
            "item": item,
            "verdict": verdict,
            "system": system,
            "opponent": opponent,
            "annotator": annotator,
            "probability": probability,
            "stratum": stratum,
            "stratum_size": stratum_size,
            "answer": answer,
        }
        frame = _as_frame(data, source)
        if verdict is None and "score" in frame and not {"verdict", "label"} & set(map(str, frame.columns)):
            given["verdict"] = "score"
        table = Table.of(frame, given, USUAL, ("item", "verdict"), source)
        table.frame[table.columns["verdict"]] = _grades(table)
        criteria.refuse_several(
            table.frame,
            criteria.column_of_criteria(table.frame, criterion, table.columns, source),
            source,
            "fit all criteria with crowdppl.judges.fit_criteria",
        )
        return cls(**_fields_of(table))

    @classmethod
    @checked
    def by_criterion(
        cls, data: Any, criterion: Identifier = None, *, source: str = "the human labels", **options: Any
    ) -> dict[Any, Self]:
        """Return the labels on each criterion of a table, for :func:`crowdppl.judges.fit_criteria`.

        Args:
            data: a table with a column of criteria.
            criterion: its column. Defaults to the first of a usual name: ``criterion``, ``metric``, ``scorer``, ``rubric``,
                ``dimension``, ``aspect``.
            source: name of the table in messages.
            **options: of :meth:`from_frame`.

        Raises:
            DataError: if there is no column of criteria, or the labels on one cannot be used.
        """
        frame = to_pandas(data, source)
        usual = named(frame, (), CRITERIA)
        if criterion is None and not usual:
            raise DataError(
                f"{source}: the verdicts are on several criteria, and no column states that of a label; add a column 'criterion'"
            )
        column = usual[0] if criterion is None else criteria.column_of_criteria(frame, criterion, {}, source)
        parts = criteria.by_criterion(frame, column, source)
        return {name: cls.from_frame(part, source=f"{source}, {name}", **options) for name, part in parts.items()}

    def __repr__(self) -> str:
        return f"HumanLabels({len(self):,} labels of {len(np.unique(self.item)):,} items, {len(self.labels):,} classes)"


def _fields_of(table: Table) -> dict[str, Any]:
    """Return the fields of :class:`HumanLabels` that a table of labels on one criterion fills.

    Raises:
        DataError: if the table cannot be used; the message names the rows, the column and a fix.
    """
    notes = _notes_on_criteria(table)
    items, labels = table.required("item"), table.names("verdict")
    people, strata, answered = table.names("annotator"), table.names("stratum"), table.names("answer")
    systems, first, second = two_systems(table)
    chances = table.numbers("probability")
    if not (labels.codes >= 0).any():
        raise DataError(f"{table.where('verdict')}: every label is missing; at least one is needed")
    blank = labels.missing
    if blank.any():
        notes.append(
            f"{table.where('verdict')}: dropped {int(blank.sum()):,} of {len(blank):,} rows without a label "
            f"({rows_text(np.flatnonzero(blank))})"
        )
    _require_sample(table, chances, strata, blank)
    key = {
        "item": items.codes,
        "label": labels.codes,
        "annotator": people.codes,
        "system": first,
        "opponent": second,
        "answer": answered.codes,
    }
    chances = _of_strata(table, chances, strata, pd.DataFrame(key).drop(columns=["label", "annotator"]), blank, notes)
    # Without an annotator, equal rows may be two people who agree.
    twice = pd.DataFrame(key).duplicated().to_numpy() & ~people.missing & ~blank
    if twice.any():
        notes.append(
            f"{table.source}: dropped {int(twice.sum()):,} rows that repeat the label of an annotator for an item "
            f"({rows_text(np.flatnonzero(twice))})"
        )
    kept = ~blank & ~twice
    return {
        "items": items.names,
        "labels": labels.names,
        "annotators": people.names,
        "strata": strata.names,
        "systems": systems,
        "item": items.codes[kept],
        "label": labels.codes[kept],
        "annotator": people.codes[kept],
        "probability": chances[kept],
        "stratum": strata.codes[kept],
        "system": first[kept],
        "opponent": second[kept],
        "notes": tuple(notes),
        "answers": answered.names,
        "answer": answered.codes[kept],
    }


def _as_frame(data: Any, source: str) -> pd.DataFrame:
    """Return a table; that of a mapping or Series has the columns ``item`` and ``verdict``."""
    if isinstance(data, pd.Series):
        return pd.DataFrame({"item": data.index.to_series().to_numpy(), "verdict": data.to_numpy()})
    if isinstance(data, Mapping):
        columns = {"item": list(data.keys()), "verdict": list(data.values())}
        return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    return to_pandas(data, source, ", or a mapping from item to label")


def _notes_on_criteria(table: Table) -> list[str]:
    """Return a sentence for each unused column of criteria with several values."""
    return [
        f"{table.source}: column {str(column)!r} has several values and is not used; if people judged several criteria, keep the "
        f"rows of one, or fit all with crowdppl.judges.fit_criteria"
        for column in named(table.frame, table.columns.values(), CRITERIA)
        if codes(table.frame[column]).max(initial=-1) > 0
    ]


def _require_sample(table: Table, chances: Array, strata: Coded, blank: npt.NDArray[np.bool_]) -> None:
    """Refuse labels that do not say how their items were chosen, where others do, and chances that are no probabilities."""
    _require_all(table, "probability", np.isfinite(chances) | blank)
    _require_all(table, "stratum", ~strata.missing | blank)
    outside = ~blank & ((chances <= 0) | (chances > 1))
    if outside.any():
        rows = np.flatnonzero(outside)
        raise DataError(
            f"{table.where('probability')}, {rows_text(rows)}: {chances[rows[0]]:g} is not a probability of being chosen; "
            f"it must be above 0 and at most 1"
        )


def _of_strata(
    table: Table, chances: Array, strata: Coded, unit: pd.DataFrame, blank: npt.NDArray[np.bool_], notes: list[str]
) -> Array:
    """Return the probability with which each item was chosen, ``(m,)``: the share of its stratum that people labelled.

    Args:
        table: the labels.
        chances: the probabilities that the table states, ``(m,)``, NaN if not stated; they take precedence.
        strata: stratum of each label, ``(m,)``.
        unit: columns that identify the item of each label.
        blank: rows without a label, ``(m,)``.
        notes: receives what was computed.

    Raises:
        DataError: if the size of a stratum is not clear, or smaller than the number of its labelled items.
    """
    size = table.numbers("stratum_size", 0)
    if table.columns["stratum_size"] is None or not np.isfinite(size).any():
        return chances
    if table.columns["stratum"] is None:
        raise DataError(f"{table.where('stratum_size')}: sizes of strata without strata; add a column 'stratum'")
    if np.isfinite(chances).any():
        notes.append(f"{table.source}: probabilities are used, and sizes of strata are not")
        return chances
    _require_all(table, "stratum_size", np.isfinite(size) | blank)
    out = chances.copy()
    for s, name in enumerate(strata.names.tolist()):
        own = (strata.codes == s) & ~blank
        if not own.any():
            continue
        labelled, stated = len(unit[own].drop_duplicates()), np.unique(size[own])
        where = f"{table.where('stratum_size')}: stratum {listed([name])}"
        if len(stated) > 1:
            raise DataError(f"{where} has the sizes {stated[0]:g} and {stated[1]:g}; state one for each stratum")
        if stated[0] < labelled:
            raise DataError(
                f"{where} has size {stated[0]:g}, but {labelled:,} of its items have labels; state the number of all its items"
            )
        out[own] = labelled / stated[0]
    return out


def _grades(table: Table) -> pd.Series[Any]:
    """Return the column of labels, with numbers such as ``3.0`` as whole numbers where some are text and others are not.

    Those that are all text stay as they are until they are aligned: verdicts may be written in the same way.

    Raises:
        DataError: for numbers with fractions, which are no classes.
    """
    column = table.frame[table.columns["verdict"]]
    if not (
        pd.api.types.is_float_dtype(column.dtype)
        or column.dtype == object
        or pd.api.types.is_string_dtype(column.dtype)
    ):
        return column
    text = column.astype(object).map(lambda value: isinstance(value, str))
    blank = column.isna() | column.astype(object).map(
        lambda value: isinstance(value, str) and not value.strip()
    ).astype(bool)
    numbers = pd.to_numeric(column.where(~blank), errors="coerce").astype(float)
    booleans = column.astype(object).map(lambda value: isinstance(value, (bool, np.bool_))).any()
    if booleans or blank.all() or not np.isfinite(numbers[~blank]).all():
        return column
    fractions = np.flatnonzero(~blank & (numbers % 1 != 0))
    if len(fractions):
        raise DataError(
            f"{table.where('verdict')}, {rows_text(fractions)}: {numbers.iloc[fractions[0]]:g} is a score, and labels of people "
            f"are classes; round them to the grades that judges give, or write pass and fail by a threshold"
        )
    if (
        text[~blank].all()
        or not (text & column.astype(str).str.contains(".", regex=False)).any()
        or numbers.abs().max() >= 2**53
    ):
        return column
    return numbers.astype("Int64")


def _require_all(table: Table, role: str, stated: npt.NDArray[np.bool_]) -> None:
    """Refuse gaps in a column: labels that were chosen in a known and in an unknown way cannot be weighted together."""
    if table.columns[role] is not None and not stated.all():
        rows = rows_text(np.flatnonzero(~stated))
        raise DataError(f"{table.where(role)}, {rows}: {role} missing; state it for every label, or drop the column")
