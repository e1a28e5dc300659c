"""A table of verdicts, column by column: from names and numbers to the codes that :class:`Verdicts` holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.data.frames import to_pandas
from crowdppl.data.table.identifiers import Coded, rows_text
from crowdppl.data.table.names_in_doubt import check_names
from crowdppl.errors import DataError
from crowdppl.judges.coding import criteria, doubts, model_names, values
from crowdppl.judges.coding.families import families_of
from crowdppl.judges.coding.labelled import Labelled, labelled, with_scores
from crowdppl.judges.coding.lengths import LENGTHS, OPPONENT_LENGTHS, lengths
from crowdppl.judges.coding.states import State, state_words
from crowdppl.judges.coding.table import OF_CALLS, Table
from crowdppl.judges.coding.units import ANSWERS, Units, units
from crowdppl.judges.model import pairwise

Array = npt.NDArray[Any]


# Arguments of Verdicts.from_frame that name a column, and the default names of these columns.
ROLES = (
    *("item", "judge", "verdict", "system", "opponent", "question", "cluster", "answer", "run"),
    *OF_CALLS,
    *("length", "opponent_length"),
)
_USUAL = {role: (role,) for role in ROLES} | {
    "answer": ANSWERS,
    "run": criteria.RUNS,
    "length": LENGTHS,
    "opponent_length": OPPONENT_LENGTHS,
}


def fields_of(
    table: Table,
    words: tuple[Iterable[str] | None, Iterable[str] | None],
    labels: Iterable[Any] | None,
    ordered: bool | None,
    families: Mapping[Any, str] | None,
    *,
    length_stated: bool,
) -> dict[str, Any]:
    """Return the fields of :class:`Verdicts` that a table of verdicts on one criterion fills.

    Args:
        table: the table, see :func:`table_of`.
        words: texts for *unparseable* and for *abstained*, see :meth:`Verdicts.from_frame`; so are the others.
        labels: all classes, in order.
        ordered: whether they are ordered.
        families: families by judge.
        length_stated: whether the caller named the column of lengths.

    Raises:
        DataError: if the table cannot be used; the message names the rows, the column and a fix.
    """
    notes = criteria.perhaps(table.frame, table.columns, table.source)
    judges = table.required("judge")
    unit = units(table)
    for role, named in (("judge", judges.names), ("item", unit.items)):
        check_names(named, role, table.source, notes)
    notes += model_names.notes_on(judges.names.tolist(), notes, table.source)
    clusters, of_item = _clusters(table, unit)
    long = lengths(table, Coded(unit.item, unit.items), unit.turned, stated=length_stated, notes=notes)
    kept = ~_copies(table, notes)
    scores, costs, seconds = table.numbers("score"), table.numbers("cost", 0), table.numbers("seconds", 0)
    times, orders, versions = table.times("when", notes), table.orders("swapped"), table.names("version")
    classes = None if labels is None else list(arguments.a_list("labels", labels))
    verdicts = labelled(table, judges.codes, state_words(*words, classes), classes, ordered, notes)
    if labels is None:
        notes += doubts.notes_on(table, unit.item, judges.codes, verdicts.label, verdicts.labels, judges.names)
    label, orders = _in_order(table, unit, verdicts, scores, orders, notes)
    state = with_scores(judges.codes, verdicts, scores)
    if not (state == State.GIVEN).any():
        raise DataError(f"{table.source}: no judge gave a verdict or a score; at least one is needed")
    family, family_names = families_of(table, judges, families, notes)
    of_calls = {"item": unit.item, "judge": judges.codes, "label": label, "state": state, "swapped": orders}
    of_calls |= {"score": scores, "cost": costs, "seconds": seconds, "when": times, "version": versions.codes}
    of_units = {
        name: getattr(unit, name) for name in ("items", "systems", "questions", "system", "opponent", "question")
    }
    return {
        **{name: values[kept] for name, values in of_calls.items()},
        **of_units,
        "judges": judges.names,
        "labels": verdicts.labels,
        "ordered": verdicts.ordered,
        "families": family_names,
        "family": family,
        "versions": versions.names,
        "pairs": unit.pairs,
        "asked": "" if table.columns["verdict"] is None else str(table.columns["verdict"]),
        "notes": (*notes, *unit.notes),
        "clusters": clusters,
        "cluster": of_item,
        "length": long.first,
        "opponent_length": long.second,
    }


def _clusters(table: Table, unit: Units) -> tuple[Array, Array]:
    """Return the names of the clusters, and the cluster of each item, ``(N,)``; nothing where none is stated.

    All answers to a question are of one cluster; items without a question are questions of their own.
    """
    clusters = table.names("cluster")
    asked = np.where(unit.question >= 0, unit.question, len(unit.questions) + np.arange(len(unit.items)))
    names = np.array([*unit.questions.tolist(), *unit.items.tolist()], dtype=object)
    of_item = table.one_per(clusters, "cluster", Coded(asked[unit.item], names), "question")[asked]
    return clusters.names, of_item if len(clusters.names) else of_item[:0]


def _in_order(
    table: Table, unit: Units, verdicts: Labelled, scores: Array, orders: Array, notes: list[str]
) -> tuple[Array, Array]:
    """Return labels and orders of pairs, ``(n,)``, as of the first row of each item: those of other rows are turned.

    Raises:
        DataError: where such a row has a score.
    """
    if not unit.turned.any():
        return verdicts.label, orders
    rows = np.flatnonzero(unit.turned)
    if np.isfinite(scores[rows]).any():
        raise DataError(
            f"{table.where('opponent')}, {rows_text(rows)}: two systems in the other order than in a row before, with a "
            f"score; state each pair in one order, so that scores can be compared"
        )
    notes.append(
        f"{table.source}: {len(rows):,} rows state two systems in the other order than a row before on the same item "
        f"({rows_text(rows)}); verdict and order are read for the order of the first row"
    )
    label = np.where(unit.turned, pairwise.turned(verdicts.labels)[verdicts.label], verdicts.label)
    return label, np.where(unit.turned & (orders >= 0), 1 - orders, orders).astype(np.int8)


def table_of(frame: Any, stated: Mapping[str, Any], source: str) -> Table:
    """Return a table of verdicts with its columns by role.

    Args:
        frame: a table of any library, see :meth:`Verdicts.from_frame`.
        stated: names of columns by role; what is no role is not used.
        source: name of the table in messages.
    """
    given = {role: stated.get(role) for role in ROLES}
    return Table.of(to_pandas(frame, source), given, _USUAL, ("item", "judge"), source)


def _copies(table: Table, notes: list[str]) -> npt.NDArray[np.bool_]:
    """Return which rows are copies of earlier ones, ``(n,)``, and note their number.

    A judge who was called several times on an answer often gives equal verdicts, in rows that are equal if nothing numbers the
    calls. Without them the judge would seem to contradict itself always. Rows that differ in the verdict alone show such calls.
    """
    equal = values.repeated_rows(table.frame)
    if not equal.any():
        return equal
    given = [table.columns[role] for role in ("verdict", "score") if table.columns[role] is not None]
    rows = np.flatnonzero(equal)
    which = f"{len(rows):,} of {len(equal):,} rows that equal another in all columns ({rows_text(rows)})"
    if (values.repeated_rows(table.frame.drop(columns=given)) & ~equal).any():
        notes.append(
            f"{table.source}: {which} are kept as repeated calls of a judge, since other rows differ in the verdict alone"
        )
        return np.zeros(len(equal), dtype=bool)
    notes.append(
        f"{table.source}: dropped {which}; if they are repeated calls of a judge, number these in a column 'run'"
    )
    return equal
