"""Tables for other programs: CSV, Parquet and JSON Lines. Text in CSV that a spreadsheet would run as a formula is quoted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Level, OutputFile, checked
from crowdppl.data.readers.spreadsheets import protected, protected_values
from crowdppl.errors import OptionError, suggestion
from crowdppl.export import delimited
from crowdppl.files import atomic
from crowdppl.posterior.descriptions import descriptions
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior, probability_columns

__all__ = [
    "SUFFIXES",
    "TABLES",
    "confusion",
    "neutral",
    "soft",
    "spans",
    "to_file",
    "truth",
    "weights",
    "workers",
    "write",
]

SUFFIXES = (".csv", ".parquet", ".jsonl")
# Classes less probable than this are left out of the weights for training.
LEAST = 1e-4


def __dir__() -> list[str]:
    return __all__


@checked
def truth(posterior: Posterior) -> pd.DataFrame:
    """Consensus labels: ``task``, ``label``, ``probability``, ``annotations``, ``known`` (whether the true label was given).

    A result that keeps texts or links of its items has the columns ``text`` and ``url``, too.
    """
    table = posterior.truth()[[posterior.item_column, "label", "probability"]]
    table = table.assign(annotations=posterior.annotations_per_item(), known=posterior.known_truth() >= 0)
    for name, values in zip(("text", "url"), descriptions(posterior), strict=True):
        if values is not None and name != posterior.item_column:
            table[name] = values
    return table


@checked
def soft(posterior: Posterior) -> pd.DataFrame:
    """Soft labels: ``task``, and ``p_<class>`` for every class."""
    table = posterior.truth()
    return table[[posterior.item_column, *probability_columns(posterior.labels)]]


@checked
def weights(posterior: Posterior) -> pd.DataFrame:
    """Weights for training: ``task``, ``label``, ``weight``, a row for each class that an item may have.

    Each item has a row for every class of probability 1e-4 or more, with weights that sum to one. A classifier that accepts
    example weights thus learns from the labels and from their uncertainty.
    """
    probability = posterior.probability()
    kept = probability >= LEAST
    share = probability * kept
    share = share / share.sum(1, keepdims=True)
    item, true_label = kept.nonzero()
    return pd.DataFrame(
        {
            posterior.item_column: posterior.items()[item],
            "label": posterior.labels[true_label],
            "weight": share[item, true_label],
        }
    )


@checked
def workers(posterior: Posterior, level: Level | None = None) -> pd.DataFrame:
    """The table of workers, see :meth:`Posterior.workers`."""
    return posterior.workers(level=level)


@checked
def confusion(posterior: Posterior, level: Level | None = None) -> pd.DataFrame:
    """Confusion matrices of all workers, a row for each cell, see :meth:`Posterior.confusion`."""
    return posterior.confusion(level=level)


@checked
def spans(posterior: Posterior) -> pd.DataFrame:
    """Spans of sequences with their probabilities, see :meth:`Posterior.spans`."""
    return posterior.spans()


@checked
def sets(posterior: Posterior) -> pd.DataFrame:
    """Sets of labels with their probabilities, see :meth:`Posterior.sets`."""
    return posterior.sets()


TABLES: dict[str, Callable[..., pd.DataFrame]] = {
    "truth": truth,
    "soft": soft,
    "weights": weights,
    "workers": workers,
    "confusion": confusion,
}
# Of tokens in sequences, and of sets of labels.
PARTS: dict[str, Callable[[Posterior], pd.DataFrame]] = {"spans": spans, "sets": sets}


@checked
def to_file(
    posterior: Annotated[Posterior, arguments.any_posterior],
    what: str,
    path: OutputFile,
    *,
    level: Level | None = None,
    raw: bool = False,
) -> Path:
    """Write a table of a result to a file, atomically.

    Args:
        posterior: a result.
        what: ``"truth"``, ``"soft"``, ``"weights"``, ``"workers"``, ``"confusion"``, ``"spans"`` or ``"sets"``.
        path: of the file. Its suffix is the format: ``.csv``, ``.parquet`` or ``.jsonl``.
        level: probability of the intervals, for workers and confusion.
        raw: leave text in CSV as it is. Otherwise text that a spreadsheet would read as a formula gets a leading quote, which the
            readers of this library remove.

    Raises:
        OptionError: for an unknown table or suffix.
        FileError: if the file cannot be written.
    """
    if isinstance(posterior, NumericPosterior):
        if what not in ("truth", "workers"):
            raise OptionError(f"no table {what!r} of labels that are numbers; use one of truth, workers")
        table = posterior.truth(level=level) if what == "truth" else posterior.workers(level=level)
        return _written(table, Path(path), raw)
    if what in PARTS:
        return _written(PARTS[what](posterior), Path(path), raw)
    if what not in TABLES:
        names = (*TABLES, *PARTS)
        raise OptionError(f"no table {what!r}{suggestion(what, names)}; use one of {', '.join(names)}")
    table = TABLES[what](posterior, level) if what in ("workers", "confusion") else TABLES[what](posterior)
    return _written(table, Path(path), raw)


def require_suffix(path: Path) -> None:
    """Refuse a file for a table whose name ends otherwise than in one of ``SUFFIXES``.

    Raises:
        OptionError: for such a file.
    """
    if path.suffix not in SUFFIXES:
        raise OptionError(f"{path.name}: write to a file that ends in {', '.join(SUFFIXES)}")


def _written(table: pd.DataFrame, path: Path, raw: bool) -> Path:
    require_suffix(path)
    write(table, path, raw=raw)
    return path


@checked
def write(table: pd.DataFrame, path: Annotated[Path, arguments.output_file], *, raw: bool = False) -> None:
    """Write a table in the format of the path's suffix; see :func:`to_file`."""
    with atomic(path) as temporary:
        if path.suffix == ".parquet":
            # Parquet keeps types, so that integer identifiers stay integers.
            table.to_parquet(temporary, index=False)
        elif path.suffix == ".jsonl":
            plain = table.astype(object).where(table.notna(), None)
            with temporary.open("w", encoding="utf-8") as file:
                for record in plain.to_dict("records"):
                    file.write(json.dumps(record, ensure_ascii=False, default=_plain, allow_nan=False) + "\n")
        else:
            delimited.write(table if raw else neutral(table), temporary)


@checked
def neutral(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a leading quote in every cell and column name that a spreadsheet would run as a formula.

    The readers of this library remove the quotes again, see :mod:`crowdppl.data.readers.spreadsheets`.
    """
    out = table.rename(columns=lambda name: protected(str(name)))
    for n in range(out.shape[1]):
        column = out.iloc[:, n]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            safe = protected_values(column.tolist())
            if safe is not None:
                out.isetitem(n, np.array(safe, dtype=object))
    return out


def _plain(value: object) -> object:
    """Return a NumPy number as a Python number, anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)
