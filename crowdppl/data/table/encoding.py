"""From the columns of a table to the fields of :class:`crowdppl.Annotations`: cleaned, checked, coded and sorted by item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl.data.covariate_design import design
from crowdppl.data.covariates import Covariates, with_experience
from crowdppl.data.table import criteria as of_criteria
from crowdppl.data.table import label_forms, label_names, names_in_doubt
from crowdppl.data.table.columns import ROLES
from crowdppl.data.table.durations import durations
from crowdppl.data.table.identifiers import Coded, clean, coded, encode, kind_of, rows_text
from crowdppl.data.table.items_in_doubt import notes_on_exchange, notes_on_items, notes_on_names, notes_on_roles
from crowdppl.data.table.names_with_more import notes_on_accounts
from crowdppl.data.table.repeats import Repeats, repeated, sort_by_item
from crowdppl.data.table.rows_in_doubt import notes_on_rows
from crowdppl.data.table.scales_in_doubt import notes_on_scales
from crowdppl.data.table.several import as_text, one_each
from crowdppl.data.table.spellings import NearDuplicate, folded
from crowdppl.data.table.structured import Several
from crowdppl.data.table.summaries_in_doubt import notes_on_summaries
from crowdppl.data.table.timestamps import Dates, times
from crowdppl.data.table.truths import KnownTruths, TruthColumn, known_truths, known_without_codes, truth_codes
from crowdppl.errors import DataError, listed

Array = npt.NDArray[Any]


def encode_columns(
    item_column: pd.Series[Any],
    worker_column: pd.Series[Any],
    label_column: pd.Series[Any],
    *,
    truth: tuple[TruthColumn, TruthColumn] | None,
    names: tuple[Any, Any, Any],
    declared: tuple[Iterable[Any] | None, ...],
    repeats: Repeats,
    source: str,
    several: Several = "refuse",
    timings: Mapping[str, pd.Series[Any]] | None = None,
    dates: Dates | None = None,
    choices: label_names.LabelChoices = label_names.USUAL,
    covariates: Covariates | None = None,
    criteria: of_criteria.Criteria | None = None,
) -> dict[str, Any]:
    """Clean, check, code and sort three columns: the fields of :class:`crowdppl.Annotations`.

    Args:
        item_column: item of each annotation, ``(A,)``.
        worker_column: worker of each annotation, ``(A,)``.
        label_column: label of each annotation, ``(A,)``; rows without one are dropped.
        truth: known truths.
        names: names of the three columns in messages.
        declared: all items, workers and labels in order; ``None`` for those that occur.
        repeats: treatment of repeated annotations, see :meth:`crowdppl.Annotations.from_frame`.
        source: name of the table in messages.
        several: treatment of several labels in a cell, see :meth:`crowdppl.Annotations.from_frame`.
        timings: columns of numbers or times by field, ``(A,)`` each.
        dates: whether the day or the month comes first in timestamps, see :func:`crowdppl.data.table.timestamps.times`.
        choices: of the caller about names of labels.
        covariates: the table, and the formula of the covariates of its rows, if any.
        criteria: the column of the criteria of grades, if any.

    Raises:
        DataError: if the columns cannot be used.
    """
    if len(label_column) == 0:
        raise DataError(f"{source}: no rows; at least one annotation is needed")
    notes: list[str] = []
    where = [f"{source}, column {str(name)!r}" for name in names]
    series = (item_column, as_text(worker_column), as_text(label_column))
    columns = [coded(c, r, w) for c, r, w in zip(series, ROLES, where, strict=True)]
    columns, source_rows, classes = _with_classes(
        columns, label_column, declared[2], truth, several, choices, where, notes
    )
    columns, rows = _drop_unlabelled(columns, where[2], notes, classes.naming.nothing, choices.missing)
    if source_rows is not None:
        rows = source_rows if rows is None else source_rows[rows]
    item, items = encode(columns[0], declared[0], "task", where[0], rows=rows, ordered=False)
    worker, workers = encode(columns[1], declared[1], "worker", where[1], rows=rows, ordered=False)
    all_labels = _classes_in_order(classes, columns[2].names, where[2])
    label, labels = encode(columns[2], all_labels, "label", where[2], rows=rows, ordered=True)
    del columns
    doubts, misspelt = _notes_on_codes(
        (item, worker, label), (items, workers, labels), rows, classes, choices, where[2], source, notes
    )
    order = sort_by_item(item, len(items))
    # A rater who grades an item by another criterion does not repeat an annotation.
    graded_by = worker
    if criteria is not None:
        criterion, criteria_names = of_criteria.encoded(criteria, rows, source)
        graded_by = worker * len(criteria_names) + criterion
    timed, timed_notes = _timed(timings or {}, rows, dates, source)
    kept = repeated(item, graded_by, label, repeats, rows, source, notes, timed.get("timestamp"))
    if kept is not None:
        order = np.flatnonzero(kept) if isinstance(order, slice) else order[kept[order]]
    known_codes, truth_notes = truth_codes(classes.known, items, labels, source)
    result: dict[str, Any] = {
        "item": torch.from_numpy(item[order]),
        "worker": torch.from_numpy(worker[order]),
        "label": torch.from_numpy(label[order]),
        "truth": torch.from_numpy(known_codes),
        "items": items,
        "workers": workers,
        "labels": labels,
        "notes": (*notes, *truth_notes, *timed_notes),
        "doubts": tuple(doubts),
        "misspelt": tuple((one.label, one.meant) for one in misspelt),
    }
    if criteria is not None:
        result |= {"criterion": torch.from_numpy(criterion[order]), "criteria": criteria_names}
    result |= {field: torch.from_numpy(values[order]) for field, values in timed.items()}
    if covariates is not None:
        own = covariates.table.iloc[order if rows is None else rows[order]].reset_index(drop=True)
        time = result["timestamp"].numpy() if "timestamp" in result else None
        table = with_experience(own, result["worker"].numpy(), time, workers, covariates.earlier, covariates.time)
        result["covariates"] = design(covariates.formula, table, source, covariates.earlier)
    return result


class _Classes(NamedTuple):
    """What is decided on classes.

    Attributes:
        naming: of labels as written.
        declared: all classes, if they are known.
        of_categories: whether these are the categories of the column, not stated by the caller.
        known: known true labels, named likewise.
    """

    naming: label_names.Named
    declared: Any
    of_categories: bool
    known: KnownTruths


def _with_classes(
    columns: list[Coded],
    label_column: pd.Series[Any],
    declared: Any,
    truth: tuple[TruthColumn, TruthColumn] | None,
    several: Several,
    choices: label_names.LabelChoices,
    where: Sequence[str],
    notes: list[str],
) -> tuple[list[Coded], Array | None, _Classes]:
    """Return the columns with classes in place of labels as written, their rows in the table (``None`` for all), and the classes.

    Arguments as of :func:`encode_columns`; ``where`` is the location of each column, and ``notes`` are added to.
    """
    labels_declared, several = _stated_classes(declared, columns[2].names, several)
    written = columns[2].names
    columns, source_rows = one_each(columns, several, where, notes)
    of_categories = (
        labels_declared is None and isinstance(label_column.dtype, pd.CategoricalDtype) and columns[2].names is written
    )
    if of_categories:
        labels_declared = label_column.cat.categories
    known = known_truths(truth, several)
    naming = label_names.named(columns, known.label, labels_declared, choices, where[2])
    labelled = naming.apply(columns[2])
    _require_names(columns[:2], labelled, where, source_rows)
    notes += naming.unclear
    for sentence in naming.notes:
        names_in_doubt.add(notes, sentence)
    columns[2], known = labelled, known._replace(label=naming.apply(known.label)).without_blanks()
    if labels_declared is None or of_categories:
        # Categories come with a file or a program; those that do not occur are classes as well.
        classes = [*columns[2].names.tolist(), *(label_column.cat.categories if of_categories else ())]
        known, sentences = known_without_codes(known, classes)
        for sentence in sentences:
            names_in_doubt.add(notes, sentence)
    return columns, source_rows, _Classes(naming, labels_declared, of_categories, known)


def _notes_on_codes(
    codes: tuple[Array, Array, Array],
    names: tuple[Array, Array, Array],
    rows: Array | None,
    classes: _Classes,
    choices: label_names.LabelChoices,
    where: str,
    source: str,
    notes: list[str],
) -> tuple[list[str], list[NearDuplicate]]:
    """Add notes on items, workers and labels that may be meant otherwise.

    Args:
        codes: item, worker and label of each annotation, ``(A,)`` each.
        names: their names.
        rows: rows of the annotations in the table; ``None`` if they are the whole table.
        classes: what was decided on them.
        choices: of the caller.
        where: location of the column of labels.
        source: name of the table.
        notes: sentences, added to.

    Returns:
        Those of the notes that put the classes in doubt, and labels that are probably typing errors of others.
    """
    (item, worker, label), (items, workers, labels) = codes, names
    explicit = classes.declared is not None
    _check_classes(labels, source, notes, explicit=explicit)
    # Labels that look alike are one, or have a note of their own, unless the caller keeps them apart, or they are categories of a
    # column: programs make these of whatever a column holds.
    compared = [(labels, "label")] if classes.of_categories or not choices.fold else []
    for identifiers, role in ((items, "task"), (workers, "worker"), *compared):
        names_in_doubt.check_names(identifiers, role, source, notes)
    names_in_doubt.check_padding(labels, source, notes)
    doubts, misspelt = list(classes.naming.doubts), []
    if not explicit:
        names_in_doubt.check_numeric_labels(labels, source, notes, graded=choices.graded)
        notes += label_forms.notes_on(label, worker, item, labels, workers, where)
        notes += notes_on_scales(label, worker, item, labels, workers, where)
        notes += notes_on_rows((item, worker, label), (items, workers, labels), rows, source)
        misspelt = label_names.typing_errors(item, label, labels)
    notes += notes_on_items(item, worker, items, workers, source)
    notes += notes_on_roles((item, worker, label), (items, workers, labels), source)
    notes += notes_on_accounts(item, worker, workers, source)
    notes += notes_on_summaries(item, worker, label, (items, workers, labels), source)
    notes += notes_on_names(items, source) + notes_on_exchange((item, worker, label), (items, workers), labels, source)
    if misspelt:
        sentence, doubtful = label_names.of_typing_errors(misspelt, len(label), len(labels), where)
        names_in_doubt.add(notes, sentence)
        doubts += [sentence] * doubtful
    return doubts, misspelt


def _stated_classes(labels: Iterable[Any] | None, names: Array, several: Several) -> tuple[Any, Several]:
    """Return the classes that the caller declares, as a list, and how cells are read: declared ones are as they are written."""
    if labels is None or isinstance(labels, (str, bytes, set, frozenset)):
        return labels, several  # what is no list is refused later
    stated = list(labels) if isinstance(labels, Iterable) else labels
    return stated, "keep" if _all_declared(names, stated) else several


def _classes_in_order(classes: _Classes, occurring: Array, where: str) -> Iterable[Any] | None:
    """Return all classes in order; ``None`` for those that occur, as they are sorted.

    Args:
        classes: what was decided on them.
        occurring: those of the annotations.
        where: location of the column of labels, for messages.
    """
    naming, labels, _, known = classes
    declared = naming.declared(labels)
    if declared is None and len(known.item.names):
        # A class may occur in known truths only: declare the sorted union.
        declared = _all_classes(occurring, known, where)
    if labels is None and naming.order is not None:
        there = occurring.tolist() if declared is None else list(declared)
        declared = [name for name in naming.order if name in there]
    return declared


def _check_classes(labels: Array, source: str, notes: list[str], *, explicit: bool) -> None:
    """Warn of a single class.

    Raises:
        DataError: if it is the only one that the caller declares.
    """
    if len(labels) >= 2:
        return
    if explicit:
        raise DataError(f"{source}: only one class declared, {listed(labels.tolist())}; declare at least two")
    names_in_doubt.add(
        notes,
        f"{source}: every label is {listed(labels.tolist())}; declare labels=[...] if there are other classes. "
        f"With one class every label is correct by construction, and accuracy cannot be estimated",
    )


def _require_names(columns: Sequence[Coded], label: Coded, where: Sequence[str], source_rows: Array | None) -> None:
    """Refuse rows without an item or a worker; those without a label are left out anyway, blank ones among them.

    Args:
        columns: items and workers, ``A`` each.
        label: labels, ``A``, of which words for nothing are missing.
        where: location of each column, for messages.
        source_rows: rows of the annotations in the table; ``None`` if they are the whole table.

    Raises:
        DataError: naming the rows.
    """
    for column, role, column_name in zip(columns, ROLES[:2], where[:2], strict=True):
        rows = np.flatnonzero(column.missing & ~label.missing)
        if not len(rows):
            continue
        # As of merged cells, whose value stands in their first row.
        below = len(rows) > 1 and rows[0] > 0 and 4 * len(rows) >= len(label.codes)
        merged = "; if cells were merged, repeat their value in each row" if below else ""
        raise DataError(
            f"{column_name}, {rows_text(rows, of=source_rows)}: {role} missing; fill it in or drop the rows{merged}"
        )


def _timed(
    timings: Mapping[str, pd.Series[Any]], rows: Array | None, dates: Dates | None, source: str
) -> tuple[dict[str, Array], list[str]]:
    """Return times and durations of the annotations by field, ``(A,)`` each, and notes; ``rows`` as in :func:`repeated`."""
    timed, notes = {}, []
    for field, timing in timings.items():
        place = f"{source}, column {str(timing.name)!r}"
        if field == "timestamp":
            values, added = times(timing, place, dates=dates)
        else:
            values, added = durations(timing, place)
        notes += added
        timed[field] = values if rows is None else values[rows]
    return timed, notes


def _all_declared(names: Array, declared: Any) -> bool:
    return isinstance(declared, list) and set(map(str, names.tolist())) <= set(map(str, declared))


def _drop_unlabelled(
    columns: list[Coded], where: str, notes: list[str], nothing: Mapping[str, int], named: Iterable[str]
) -> tuple[list[Coded], Array | None]:
    """Drop rows without a label; return the columns and the rows kept, ``None`` for all."""
    unlabelled = columns[2].missing
    if unlabelled.all():
        raise DataError(f"{where}: every label is missing; at least one annotation is needed")
    if not unlabelled.any():
        return columns, None
    rows, dropped = np.flatnonzero(~unlabelled), np.flatnonzero(unlabelled)
    total = len(unlabelled)
    words = ", ".join(f"{count:,} {word!r}" for word, count in nothing.items())
    advice = f"; among them {words}" if words else ""
    if not {folded(word) for word in nothing} <= {folded(word) for word in named}:
        advice += "; keep_missing=True takes such words for classes"
    names_in_doubt.add(
        notes, f"{where}: dropped {len(dropped):,} of {total:,} rows without a label ({rows_text(dropped)}){advice}"
    )
    return [column.take(rows) for column in columns], rows


def _all_classes(labels: Array, known: KnownTruths, where: str) -> Array:
    """Return the classes of annotations, ``(n,)`` names, and of known truths, sorted."""
    if kind_of(labels) != kind_of(known.label.names):
        raise DataError(
            f"{where}: labels are {kind_of(labels)} but {known.where_label}: {kind_of(known.label.names)}; "
            f"write both as strings or both as integers"
        )
    both = [*labels.tolist(), *known.label.names.tolist()]
    # Cleaned again: large unsigned integers together with signed ones need a type that holds both.
    names, _ = clean(pd.Series(both, dtype=object), "label", where)
    return np.unique(names)
