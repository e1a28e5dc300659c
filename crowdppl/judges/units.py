"""The items that are judged: single answers, or pairs of a question and a system."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.identifiers import rows_text
from crowdppl.errors import DataError, listed
from crowdppl.judges import values
from crowdppl.judges.table import Table

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]

SEPARATOR = " / "


class Units(NamedTuple):
    """Items, their systems and questions; fields as in :class:`crowdppl.judges.Verdicts`."""

    items: Array
    item: Codes
    systems: Array
    system: Codes
    questions: Array
    question: Codes
    pairs: bool
    notes: tuple[str, ...]


def unit_name(question: object, system: object) -> str:
    """Return the name of the answer of a system to a question."""
    return f"{question}{SEPARATOR}{system}"


def units(table: Table) -> Units:
    """Return the items of a table.

    An identifier that occurs with several systems names a question, and an item is then the pair of both. With a column of
    questions, each identifier names one answer of one system.

    Raises:
        DataError: if a system or question is not clear.
    """
    item, system, question = table.required("item"), table.names("system"), table.names("question")
    N = len(item.names)
    first, several = values.constant(system.codes, item.codes, N)
    if len(several) and table.columns["question"] is not None:
        at = item.codes[several[0]]
        here, before = system.names[system.codes[several[0]]], system.names[first[at]]
        raise DataError(
            f"{table.where('system')}, {rows_text(several)}: item {listed([item.names[at]])} is an answer of {listed([here])}, "
            f"but of {listed([before])} in a row before; give each answer an item of its own, or drop the column of questions if "
            f"items are questions"
        )
    if not len(several):
        asked = table.one_per(question, "question", item, "item")
        return Units(item.names, item.codes, system.names, first, question.names, asked, False, ())
    if system.missing.any():
        raise DataError(
            f"{table.where('system')}, {rows_text(np.flatnonzero(system.missing))}: system missing, where other rows have "
            f"several systems for one item; fill it in or drop the rows"
        )
    M = len(system.names)
    codes, pairs = pd.factorize(item.codes * M + system.codes)
    names = [unit_name(item.names[pair // M], system.names[pair % M]) for pair in pairs]
    if len(set(names)) < len(names):
        twice = next(name for n, name in enumerate(names) if name in names[:n])
        raise DataError(
            f"{table.source}: {twice!r} is the name of two pairs of item and system; rename an item or a system without "
            f"{SEPARATOR!r}"
        )
    note = (
        f"{table.source}: items occur with several systems, so what is judged is a pair of item and system: {len(names):,} pairs "
        f"of {N:,} items and {M:,} systems"
    )
    return Units(
        np.array(names, dtype=object),
        codes.astype(np.int64),
        system.names,
        np.asarray(pairs % M, dtype=np.int64),
        item.names,
        np.asarray(pairs // M, dtype=np.int64),
        True,
        (note,),
    )
