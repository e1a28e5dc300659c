"""Labels of tokens in sequences: which token follows which, what each worker said before, and spans in BIO form.

A token is an item, and its label a class. ``B-PER`` begins a span of the type ``PER``, ``I-PER`` continues it, and any label of
another form, such as ``O``, is outside of spans (L. A. Ramshaw and M. P. Marcus 1995, Text chunking using transformation-based
learning). Where no class begins with ``B``, neighbours with the same ``I`` label are one span.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.columns import ITEM_COLUMNS
from crowdppl.data.table.identifiers import coded, rows_text
from crowdppl.errors import DataError, OptionError, listed

Array = npt.NDArray[Any]
# The column of tokens' names that are made of sequence and position.
TOKEN = "token"
_TAG = re.compile(r"([BI])[-_](.+)", re.DOTALL)


# ---------------------------------------------------------------------- which token follows which


def tokens(frame: pd.DataFrame, names: Sequence[str | None], source: str) -> pd.DataFrame:
    """Return the tokens of a table, in order: sequences as they appear, and tokens by their position.

    Args:
        frame: one row for each annotation, or for each token.
        names: columns of the sequence, of the position in it, and of the token's own identifier; without the last, tokens are
            called ``sequence:position``.
        source: name of the table in messages.

    Returns:
        Columns ``item``, ``sequence`` and ``position`` (whole numbers), one row for each token.

    Raises:
        DataError: where a cell is missing, a position is no whole number, or tokens and positions do not correspond.
    """
    by, place, own = names
    for name in (by, place):
        if name not in frame.columns:
            raise DataError(f"{source}: no column {name!r}; columns are {listed(frame.columns.tolist(), 8)}")
    sequence = coded(frame[by], "sequence", f"{source}, column {by!r}")
    number = pd.to_numeric(frame[place], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    for wrong, what in (
        (sequence.missing, f"column {by!r}: sequence missing"),
        (~(number == np.floor(number)), f"column {place!r}: position missing, or no whole number"),
    ):
        if wrong.any():
            raise DataError(f"{source}, {rows_text(np.flatnonzero(wrong))}: {what}; correct the cells or drop the rows")
    named = sequence.names[sequence.codes]
    table = pd.DataFrame({"code": sequence.codes, "sequence": named, "position": number.astype(np.int64)})
    if own is None:
        text = table["sequence"].astype(str) + ":" + table["position"].astype(str)
        table["item"] = text.to_numpy(dtype=object)
    else:
        task = coded(frame[own], "task", f"{source}, column {own!r}")
        if task.missing.any():
            raise DataError(
                f"{source}, column {own!r}, {rows_text(np.flatnonzero(task.missing))}: task missing; fill it in or drop the rows"
            )
        table["item"] = task.names[task.codes]
    table = table.drop_duplicates(["code", "position", "item"])
    for keys, what in ((["code", "position"], "position"), (["item"], "task")):
        twice = table.duplicated(keys, keep=False).to_numpy()
        if twice.any():
            one = table[twice].iloc[0]
            raise DataError(
                f"{source}: sequence {one['sequence']!r} has more than one task at position {one['position']}; number the tokens "
                f"of each sequence"
                if what == "position"
                else f"{source}: task {one['item']!r} is at more than one place of the sequences; give each token a name of its "
                f"own, or leave task= out"
            )
    order = table["code"].map({code: n for n, code in enumerate(pd.unique(table["code"]))})
    table = table.assign(order=order).sort_values(["order", "position"], kind="stable", ignore_index=True)
    return table[["item", "sequence", "position"]]


def in_sequences(
    frame: pd.DataFrame, task: str | None, sequence: str | None, position: str | None, kind: str | None, source: str
) -> tuple[pd.DataFrame, str, pd.DataFrame]:
    """Return a table of annotations with a column that names the tokens, this column, and the :func:`tokens`.

    Without ``task`` a column of the usual name identifies the tokens where each of them has one name.

    Raises:
        DataError: as :func:`tokens`, and where labels are grades or numbers.
        OptionError: where one of the two columns is not named.
    """
    if sequence is None or position is None:
        raise OptionError(
            "sequence= and position= belong together: name the column of the sequence and that of the position"
        )
    if kind in ("ordinal", "numeric"):
        raise DataError(f"{source}: labels of tokens are classes; leave kind={kind!r} or sequence= out")
    own = task
    usual = [name for name in ITEM_COLUMNS if name in frame.columns and name not in (sequence, position)][:1]
    if own is None and usual and {sequence, position} <= {*frame.columns}:
        places = frame[[*usual, sequence, position]].drop_duplicates()
        own = None if places[usual[0]].duplicated().any() else usual[0]
    table = tokens(frame, (sequence, position, own), source)
    if own is not None:
        return frame, own, table
    if TOKEN in frame.columns:
        raise DataError(f"{source}: a column is called {TOKEN!r}, which names the tokens here; rename it")
    place = pd.MultiIndex.from_frame(table[["sequence", "position"]])
    given = coded(frame[sequence], "sequence", source)
    rows = place.get_indexer(
        pd.MultiIndex.from_arrays([given.names[given.codes], pd.to_numeric(frame[position]).astype(np.int64)])
    )
    return frame.assign(**{TOKEN: table["item"].to_numpy()[rows]}), TOKEN, table


def follows(sequence: Array, position: Array) -> Array:
    """Tell of each item ``(N,)`` whether it is the token after the item before it."""
    if len(sequence) == 0:
        return np.zeros(0, dtype=bool)
    return np.concatenate([[False], (np.diff(sequence) == 0) & (np.diff(position) == 1)])


def previous_labels(item: Array, worker: Array, label: Array, following: Array, classes: int) -> Array:
    """Return what the worker of each annotation said of the token before, ``(A,)``; ``classes`` where they said nothing.

    Of several labels of a token by one worker, the last one counts.

    Args:
        item: of each annotation, ascending, ``(A,)``.
        worker: likewise.
        label: likewise.
        following: of each item, whether it is the token after the item before it, ``(N,)``.
        classes: number of classes ``K``.
    """
    size = len(following)
    place = worker * size + item
    order = np.argsort(place, kind="stable")
    last, said = place[order], label[order]
    wanted = place - 1
    at = np.searchsorted(last, wanted, side="right") - 1
    there = (at >= 0) & following[item]
    there[there] = last[at[there]] == wanted[there]
    return np.where(there, said[np.maximum(at, 0)], classes)


# ---------------------------------------------------------------------- spans


@dataclass(frozen=True, eq=False)
class Tags:
    """What labels say about spans.

    Attributes:
        types: types of spans, in the order of their first class.
        begins: type whose span a label begins, ``(K,)``; -1 for none.
        continues: likewise, that it continues.
    """

    types: tuple[str, ...]
    begins: Array
    continues: Array

    @classmethod
    def of(cls, labels: Sequence[Any] | Array) -> Tags | None:
        """Read the labels; ``None`` where no label continues a span."""
        parts = [_TAG.fullmatch(str(label)) for label in labels]
        types = tuple(dict.fromkeys(part[2] for part in parts if part is not None))
        begins, continues = (
            np.array([types.index(part[2]) if part is not None and part[1] == kind else -1 for part in parts])
            for kind in "BI"
        )
        return cls(types, begins, continues) if (continues >= 0).any() else None

    @property
    def inside(self) -> Array:
        """Type of the span that a label is in, ``(K,)``; -1 outside of spans."""
        return np.maximum(self.begins, self.continues)

    @property
    def first(self) -> Array:
        """Whether a token with this label may be the first of its sequence, ``(K,)``."""
        return ~np.isin(self.continues, self.begins[self.begins >= 0])

    @property
    def allowed(self) -> Array:
        """Whether a label ``(K, K)`` = (before, after) may follow another one."""
        same = self.inside[:, None] == self.continues[None, :]
        return self.first[None, :] | same

    def spans(self, label: Array, following: Array) -> Array:
        """Return the spans of labels ``(N,)``: rows (first item, item after the last, type), ``(M, 3)``.

        A label that continues a span of another type, or none, begins one.
        """
        inside, goes_on = self.inside[label], self.continues[label]
        before = np.concatenate([[-1], inside[:-1]])
        before[~following] = -1
        on = (goes_on >= 0) & (before == inside)
        start = (inside >= 0) & ~on
        first = np.flatnonzero(start)
        # The span ends at the next token that does not continue it.
        stops = np.append(np.flatnonzero(~on), len(label))
        end = stops[np.searchsorted(stops, first, side="right")]
        return np.stack([first, end, inside[first]], -1)


def all_chosen(chosen: Array, begin: Array, end: Array, items: int) -> Array:
    """Tell of each span ``(M,)`` whether all of its items are among the chosen ones.

    Args:
        chosen: numbers of items, each once or more.
        begin: first item of each span, ``(M,)``.
        end: the item after its last.
        items: number of items ``N``.
    """
    return number_chosen(chosen, begin, end, items) == end - begin


def number_chosen(chosen: Array, begin: Array, end: Array, items: int) -> Array:
    """Return how many items of each span ``(M,)`` are among the chosen ones; arguments as of :func:`all_chosen`."""
    before = np.zeros(items + 1, dtype=np.int64)
    before[1 + chosen] = 1
    before = before.cumsum()
    return before[end] - before[begin]


def given_spans(tags: Tags, item: Array, worker: Array, label: Array, following: Array) -> Array:
    """Return the spans that workers marked: rows (worker, first item, item after the last, type), ``(M, 4)``.

    Of several labels of a token by one worker, the last one counts. A token that the worker did not label ends a span.
    """
    order = np.lexsort((np.arange(len(item)), item, worker))
    item, worker, label = item[order], worker[order], label[order]
    last = np.concatenate([(np.diff(item) != 0) | (np.diff(worker) != 0), [True]])[: len(item)]
    item, worker, label = item[last], worker[last], label[last]
    on = np.concatenate([[False], (np.diff(item) == 1) & (np.diff(worker) == 0)])[: len(item)] & following[item]
    places = tags.spans(label, on)
    begin, end = places[:, 0], places[:, 1]
    return np.stack([worker[begin], item[begin], item[end - 1] + 1, places[:, 2]], -1)
