"""A Parquet data set that need not fit in memory: gone through once for its names, then in batches of whole items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import torch

from crowdppl.annotations import Annotations
from crowdppl.errors import DataError, FileError, listed
from crowdppl.intake import ITEM_COLUMNS, LABEL_COLUMNS, WORKER_COLUMNS, column_of
from crowdppl.io.tables import BROKEN, unreadable_parquet

Array = npt.NDArray[Any]
ROLES = ("task", "worker", "label")
# Rows of a batch: the tables of all workers are gone through once a batch, which is to be little beside its judgements.
ROWS = 2_000_000
# Rows read at once; a batch is put together of several.
PIECE = 2**20


class Stored:
    """Judgements in a Parquet file, or a folder of them, the rows of each item together.

    In memory are the names of workers and classes, a number for each item while they are learned, and one batch.

    Args:
        path: of the file or folder.
        columns: of the item, the worker and the label; the usual names where ``None``.
        truth: column of known truths, where there is one: blank where unknown, told once or again in the rows of an item.
        rows: judgements of a batch, about.

    Attributes:
        workers: their names, ``(J,)``, in the order they first come in.
        labels: the classes, sorted, ``(K,)``.
        each: judgements of each worker, ``(J,)``.
        items: how many there are.
        judgements: likewise.

    Raises:
        FileError: where nothing can be read.
        DataError: where a column or a name is missing, there is one class only, the rows of an item are apart, or an item has
            two truths.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str | None] = (None, None, None),
        rows: int = ROWS,
        truth: str | None = None,
    ):
        self.path, self.rows = Path(path), rows
        if not self.path.exists():
            raise FileError(f"no file {path}; check the name and the folder")
        try:
            self.data = pyarrow.dataset.dataset(self.path, format="parquet")
            header = pd.DataFrame(columns=self.data.schema.names)
        except BROKEN as error:
            raise unreadable_parquet(self.path, error) from None
        usual = (ITEM_COLUMNS, WORKER_COLUMNS, LABEL_COLUMNS)
        self.columns = [
            column_of(header, name, names, self.path.name, f"say which one holds it with {role}=...")
            for name, names, role in zip(columns, usual, ROLES, strict=True)
        ]
        if truth is not None:
            self.columns.append(column_of(header, truth, (), self.path.name, "say which one holds it with truth=..."))
            kinds = [_kind(self.data.schema.field(name).type) for name in self.columns[2:]]
            if kinds[0] != kinds[1]:
                raise DataError(
                    f"{self.path.name}: labels are {kinds[0]} but known truths are {kinds[1]}; write both as strings or both as "
                    f"integers"
                )
        self._learn()

    def _pieces(self) -> Iterator[list[Any]]:
        """Go through the columns, some rows at a time."""
        try:
            for piece in self._groups():
                if len(piece):
                    columns = [_flat(piece.column(n)) for n in range(len(self.columns))]
                    yield [*columns[:3], *(self._as_labels(column, columns[2].type) for column in columns[3:])]
        except BROKEN as error:
            raise unreadable_parquet(self.path, error) from None

    def _as_labels(self, column: Any, kind: Any) -> Any:
        """Bring known truths to the type of the labels: numbers of which some are missing are often written as floats."""
        try:
            return column.cast(kind)
        except pyarrow.ArrowInvalid as error:
            raise DataError(
                f"{self.path.name}, column {self.columns[3]!r}: not a class in every row: {error}"
            ) from None

    def _groups(self) -> Iterator[Any]:
        """Read row group by row group: Arrow's scanner would fetch ahead of slower work, in the end the whole file."""
        options = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
        for file in self.data.get_fragments():
            for group in file.split_by_row_group():
                yield from group.to_batches(
                    columns=self.columns,
                    schema=self.data.schema,
                    batch_size=min(self.rows, PIECE),
                    fragment_scan_options=options,
                )

    def _learn(self) -> None:
        """Learn names and numbers, and that the rows of each item are together."""
        workers: Any = None
        labels: Any = None
        seen: list[Array] = []
        self.each = np.zeros(0, dtype=np.int64)
        self.judgements, last = 0, None
        for task, worker, label, *truth in self._pieces():
            for column, role in zip((task, worker, label), ROLES, strict=True):
                if column.null_count:
                    raise DataError(
                        f"{self.path.name}, near row {self.judgements + 1:,}: {role} missing; drop such rows before streaming"
                    )
            for column in (label, *truth):  # a class that only known truths show is a class
                labels, _ = _more(labels, column.drop_null())
            workers, rows = _more(workers, worker)
            self.each = np.pad(self.each, (0, len(workers) - len(self.each)))
            self.each += np.bincount(rows, minlength=len(workers))
            first = _first_of_runs(task)
            if last is not None and task[0].as_py() == last:
                first = first[1:]
            # A number for each run: two runs of one item have the same.
            names = task.take(pyarrow.array(first)).to_numpy(zero_copy_only=False)
            seen.append(pd.util.hash_array(names, categorize=False))
            self.judgements, last = self.judgements + len(task), task[-1].as_py()
        if not self.judgements:
            raise DataError(f"{self.path.name}: no rows; at least one judgement is needed")
        runs = np.concatenate(seen)
        self.items = len(runs)
        runs.sort()
        if (runs[1:] == runs[:-1]).any():
            raise DataError(
                f"{self.path.name}: the rows of an item are apart; sort the data by {self.columns[0]!r} before streaming"
            )
        self._workers = workers
        self._labels = labels.take(pyarrow.compute.sort_indices(labels))
        self.workers = self._workers.to_numpy(zero_copy_only=False)
        self.labels = self._labels.to_numpy(zero_copy_only=False)
        if len(self.labels) < 2:
            raise DataError(
                f"{self.path.name}: every label is {self.labels[0]!r}; two classes are needed to learn from"
            )

    def batches(self) -> Iterator[tuple[Annotations, Any]]:
        """Go through the judgements, whole items at a time: judgements, and the names of their items ``(N,)``."""
        held: list[list[Any]] = []
        size = 0
        for piece in self._pieces():
            held.append(piece)
            size += len(piece[0])
            if size >= self.rows:
                columns = _together(held)
                # The last item may go on in the next piece.
                cut = int(_first_of_runs(columns[0])[-1])
                if cut == 0:
                    held, size = [columns], len(columns[0])
                    continue
                yield self._annotations([column.slice(0, cut) for column in columns])
                held = [[column.slice(cut) for column in columns]]
                size = len(held[0][0])
        if size:
            yield self._annotations(_together(held))

    def empty(self) -> Annotations:
        """Return data with these workers and classes and nothing else: sizes for an M step."""
        none = np.zeros(0, dtype=np.int64)
        return self._made(none, none, none, none)

    def _annotations(self, columns: Sequence[Any]) -> tuple[Annotations, Any]:
        task, worker, label, *truth = columns
        first = _first_of_runs(task)
        begins = np.zeros(len(task), dtype=np.int64)
        begins[first[1:]] = 1
        codes = np.cumsum(begins), _codes(worker, self._workers), _codes(label, self._labels)
        known = np.full(len(first), -1)
        for column in truth:
            known = self._known(_codes(column, self._labels), first, task)
        return self._made(*codes, known), task.take(pyarrow.array(first))

    def _known(self, codes: Array, first: Array, task: Any) -> Array:
        """Return the known truth of each item, -1 where there is none, from the codes of its rows."""
        highest = np.maximum.reduceat(codes, first)
        lowest = np.minimum.reduceat(np.where(codes < 0, len(self.labels), codes), first)
        clash = np.flatnonzero((highest >= 0) & (highest != lowest))
        if len(clash):
            name, told = task[int(first[clash[0]])].as_py(), (lowest[clash[0]], highest[clash[0]])
            raise DataError(
                f"{self.path.name}: item {name!r} has two known truths, {listed(self.labels[list(told)].tolist())}; leave one, "
                f"or none"
            )
        return highest

    def _made(self, item: Array, worker: Array, label: Array, truth: Array) -> Annotations:
        return Annotations(
            item=torch.from_numpy(item),
            worker=torch.from_numpy(worker),
            label=torch.from_numpy(label),
            truth=torch.from_numpy(truth),
            items=np.arange(len(truth)),
            workers=self.workers,
            labels=self.labels,
        )


def _flat(column: Any) -> Any:
    """Return a column without a dictionary, in one piece."""
    return column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column


def _kind(kind: Any) -> str:
    """Say what a column's values are, however they are stored."""
    types = pyarrow.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(kind) or types.is_large_string(kind):
        return "strings"
    return "numbers" if types.is_integer(kind) or types.is_floating(kind) else str(kind)


def _together(pieces: Sequence[Sequence[Any]]) -> list[Any]:
    """Put pieces of several columns together, column by column."""
    return [pyarrow.concat_arrays(column) for column in zip(*pieces, strict=True)]


def _more(names: Any, column: Any) -> tuple[Any, Array]:
    """Return the names that are known with those that are new after them, and the place of each value of a column there."""
    coded = column.dictionary_encode()
    found, rows = coded.dictionary, np.asarray(coded.indices)
    if names is None:
        return found, rows
    place = _codes(found, names)
    new = np.flatnonzero(place < 0)
    if len(new):
        place[new] = len(names) + np.arange(len(new))
        names = pyarrow.concat_arrays([names, found.take(pyarrow.array(new))])
    return names, place[rows]


def _codes(column: Any, names: Any) -> Array:
    """Return the place of each name, -1 where there is none."""
    places = pyarrow.compute.index_in(column, value_set=names)
    return np.asarray(places.fill_null(-1)).astype(np.int64)


def _first_of_runs(task: Any) -> Array:
    """Return where runs of equal values begin, ``(runs,)``."""
    if len(task) == 0:
        return np.zeros(0, dtype=np.int64)
    differs = pyarrow.compute.not_equal(task.slice(1), task.slice(0, len(task) - 1))
    return np.concatenate([[0], 1 + np.flatnonzero(np.asarray(differs))])
