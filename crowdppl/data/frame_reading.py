"""Steps of reading a table of annotations: which columns are meant, and what is said of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from crowdppl.arguments import Column
from crowdppl.data.additions import AnnotationAdditions
from crowdppl.data.covariate_design import columns_of, formula_of
from crowdppl.data.covariates import EXPERIENCE, Covariates
from crowdppl.data.fields import Kind
from crowdppl.data.table import places_in_doubt
from crowdppl.data.table.columns import column_of
from crowdppl.data.table.questions import criterion_of_grades, notes_on_several
from crowdppl.data.table.rows_in_doubt import notes_on_columns
from crowdppl.errors import DataError, OptionError, listed


def criterion_column(
    frame: pd.DataFrame,
    criterion: Column | None,
    others: tuple[Column, Column, Column],
    kind: Kind | None,
    source: str,
) -> tuple[Column | None, list[str]]:
    """Return the column of the criteria of grades, if there is one, and a note where nobody named it.

    Args:
        frame: the table.
        criterion: the column that the caller names, if any.
        others: columns of items, workers and labels.
        kind: of the labels.
        source: name of the table in messages.

    Raises:
        DataError: if there is none of this name, or it is one of the others.
    """
    if criterion is None:
        usual = criterion_of_grades(frame, others) if kind == "ordinal" else None
        if usual is None:
            return None, []
        return usual, [
            f"{source}: column {str(usual)!r} tells grades of an item by one rater apart and is read as criteria"
        ]
    name = column_of(frame, criterion, (), source, "", "criterion")
    if name in others:
        raise DataError(f"{source}: criterion={name!r} is the column of the items, workers or labels; name another one")
    return name, []


def notes_on_table(
    frame: pd.DataFrame,
    names: tuple[Column, Column, Column],
    columns: Mapping[str, Any],
    named: Collection[str],
    source: str,
    *,
    truth_given: bool,
) -> tuple[str, ...]:
    """Return notes on columns of a table that were not read, and on what may tell repeated annotations apart.

    Args:
        frame: the table.
        names: of its columns of items, workers and labels.
        columns: these as they were read, with the notes so far.
        named: further columns that the caller names.
        source: name of the table in messages.
        truth_given: whether there are known true labels.
    """
    notes = notes_on_columns(frame, names, source, set(named), truth_given)
    if any("repeated annotations" in note for note in (*columns["notes"], *notes)):
        notes = [*notes, *notes_on_several(frame, names, source, set(named))]
    codes = columns["item"].numpy(), columns["label"].numpy()
    further = places_in_doubt.notes_on(frame, names, codes, named, source)
    # One column has one note.
    return (*notes, *(note for note in further if not any("tells apart" in other for other in notes)))


def refuse_for_numbers(**unread: Any) -> None:
    """Refuse arguments that say nothing of labels that are numbers.

    Raises:
        OptionError: for the first that is given.
    """
    if named := [name for name, value in unread.items() if value is not None]:
        raise OptionError(
            f"{named[0]}= is not used for labels that are numbers; leave it out, or read grades or classes"
        )


def has_order(labels: pd.Series) -> bool:
    """Tell whether a column states an order of its labels: by categories that are ordered, or not as pandas would sort them."""
    if not isinstance(labels.dtype, pd.CategoricalDtype):
        return False
    return bool(labels.cat.ordered) or not labels.cat.categories.is_monotonic_increasing


def covariates_of(
    frame: pd.DataFrame, covariates: Any, labels: tuple[Any, Any], time: Any, source: str
) -> Covariates | None:
    """Return the covariates that a caller asks for, if any.

    Raises:
        OptionError: if the label or the known true label is among them: accuracy would depend on what is to be explained.
    """
    if covariates is None:
        return None
    formula = formula_of(covariates)
    taken = {str(name) for name in labels if isinstance(name, str)} & set(columns_of(formula, source))
    if taken:
        raise OptionError(f"covariates={formula!r} has the column {listed(sorted(taken))} of labels; leave it out")
    earlier = covariates._earlier() if isinstance(covariates, AnnotationAdditions) else None
    return Covariates(frame, formula, earlier, "" if time is None else str(time))


def needed_columns(options: Mapping[str, Any]) -> list[Any] | None:
    """Return the columns named by options of :meth:`Annotations.from_frame`; ``None`` if a required one is not named."""
    named = [options.get(name) for name in ("task", "worker", "label")]
    optional = [
        options[name]
        for name in ("truth", "timestamp", "seconds", "sequence", "position", "criterion")
        if isinstance(options.get(name), str)
    ]
    if options.get("covariates") is not None:
        optional += columns_of(formula_of(options["covariates"]), "covariates")
        if EXPERIENCE in optional:
            return None  # it is counted only where there is no such column
    return None if None in named else [*named, *optional]
