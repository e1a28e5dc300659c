"""A Parquet data set that need not fit in memory: read once for names and codes, then gone through in batches of whole items."""

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

from crowdppl.data.annotations import Annotations
from crowdppl.data.readers.opening import READ_ERRORS
from crowdppl.data.readers.parquet import PIECE, Table, codes_of
from crowdppl.data.readers.tables import unreadable_parquet
from crowdppl.errors import DataError, listed
from crowdppl.inference.memory import ROWS
from crowdppl.inference.scale.streaming.codes import Codes

Array = npt.NDArray[Any]


class Stored(Table):
    """Annotations in a Parquet file, or a folder of them, the rows of each item together.

    In memory are the names of workers and classes, a number for each item while they are learned, and one batch; the codes of
    all annotations lie in temporary files.

    Args:
        path: of the file or folder.
        columns: of the item, the worker and the label; the usual names where ``None``.
        truth: column of known truths, if any: blank where unknown, given once or repeatedly in the rows of an item.
        rows: annotations of a batch, about.

    Attributes:
        workers: their names, ``(J,)``, in the order they first come in.
        labels: the classes, sorted, ``(K,)``.
        each: annotations of each worker, ``(J,)``.
        items: how many there are.
        annotations: likewise.

    Raises:
        FileError: where nothing can be read, or there is no room for the codes.
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
        super().__init__(path, columns, truth)
        self.rows = rows
        self._learn(self.size)

    def _pieces(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Go through some of the columns, some rows at a time, small row groups together."""
        held: list[list[Any]] = []
        size = rows = 0
        for piece in self._groups(names):
            held.append([self.plain(column, name, rows) for column, name in zip(piece, names, strict=True)])
            size, rows = size + len(held[-1][0]), rows + len(held[-1][0])
            if size >= PIECE:
                yield _together(held)
                held, size = [], 0
        if size:
            yield _together(held)

    def _groups(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Read row group by row group: Arrow's scanner would fetch ahead of slower work, in the end the whole file."""
        options = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
        try:
            for file in self.files:
                # Known truths may be a column that is read already.
                there = [name for name in dict.fromkeys(names) if name in file.physical_schema.names]
                for group in file.split_by_row_group():
                    for batch in group.to_batches(columns=there, batch_size=PIECE, fragment_scan_options=options):
                        if len(batch):
                            yield [batch.column(n) if n in there else pyarrow.nulls(len(batch)) for n in names]
        except READ_ERRORS as error:
            raise unreadable_parquet(self.path, error) from None

    def _learn(self, rows: int) -> None:
        """Learn names and numbers, and that the rows of each item are together; write codes down."""
        workers: Any = None
        labels: Any = None
        seen: list[Array] = []
        self.each = np.zeros(0, dtype=np.int64)
        fields = ["worker", "label", "first", "known"][: len(self.columns)]
        self.codes, last = Codes(rows, fields), None
        for task, worker, label, *truth in self._pieces(self.columns):
            workers, of_worker = _more(workers, worker)
            labels, of_label = _more(labels, label)
            parts = {"worker": of_worker, "label": of_label, "first": _begins(task, last)}
            for column in truth:  # a class that only known truths show is a class
                labels, _ = _more(labels, column.drop_null())
                parts["known"] = codes_of(column, labels)
            self.each = np.pad(self.each, (0, len(workers) - len(self.each)))
            self.each += np.bincount(of_worker, minlength=len(workers))
            # A number for each run: two runs of one item have the same.
            names = task.filter(pyarrow.array(parts["first"])).to_numpy(zero_copy_only=False)
            seen.append(pd.util.hash_array(names, categorize=False))
            self.codes.add(**parts)
            last = task[-1]
        self.annotations = self.codes.annotations
        if not self.annotations:
            raise DataError(f"{self.path.name}: no rows; at least one annotation is needed")
        runs = np.concatenate(seen)
        self.items = len(runs)
        runs.sort()
        if (runs[1:] == runs[:-1]).any():
            raise DataError(
                f"{self.path.name}: the rows of an item are apart; sort the data by {self.columns[0]!r} before streaming"
            )
        order = pyarrow.compute.sort_indices(labels)
        # Labels were numbered as they came; the last place is for -1, no known truth.
        self._place = np.append(np.argsort(order.to_numpy()), -1)
        self.workers, self.labels = (part.to_numpy(zero_copy_only=False) for part in (workers, labels.take(order)))
        if len(self.labels) < 2:
            raise DataError(
                f"{self.path.name}: every label is {self.labels[0]!r}; two classes are needed to learn from"
            )

    def batches(self) -> Iterator[Annotations]:
        """Go through the annotations, whole items at a time."""
        for begin, codes in self.codes.batches(self.rows):
            first = np.flatnonzero(codes["first"])
            known = np.full(len(first), -1)
            if "known" in codes:
                known = self._known(self._place[codes["known"]], first, begin)
            item = np.cumsum(codes["first"]) - 1
            yield self._annotations(item, codes["worker"].astype(np.int64), self._place[codes["label"]], known)

    def named(self) -> Iterator[tuple[Annotations, Any]]:
        """Go through the annotations, with the names of the items of each batch ``(N,)``."""
        pieces = self._tasks()
        held = next(pieces)
        for batch in self.batches():
            while len(held) < batch.N:
                held = pyarrow.concat_arrays([held, next(pieces)])
            yield batch, held.slice(0, batch.N)
            held = held.slice(batch.N)

    def _tasks(self) -> Iterator[Any]:
        """Go through the names of the items, some at a time."""
        last = None
        for (task,) in self._pieces(self.columns[:1]):
            yield task.filter(pyarrow.array(_begins(task, last)))
            last = task[-1]

    def empty(self) -> Annotations:
        """Return data with these workers and classes and nothing else: sizes for an M step."""
        none = np.zeros(0, dtype=np.int64)
        return self._annotations(none, none, none, none)

    def _known(self, codes: Array, first: Array, begin: int) -> Array:
        """Return the known truth of each item, -1 where there is none, from those of its rows; ``begin`` is the first of them."""
        highest = np.maximum.reduceat(codes, first)
        lowest = np.minimum.reduceat(np.where(codes < 0, len(self.labels), codes), first)
        clash = np.flatnonzero((highest >= 0) & (highest != lowest))
        if len(clash):
            clashing = self.labels[[lowest[clash[0]], highest[clash[0]]]]
            raise DataError(
                f"{self.path.name}: the item of row {begin + first[clash[0]] + 1:,} has two known truths, "
                f"{listed(clashing.tolist())}; leave one, or none"
            )
        return highest

    def _annotations(self, item: Array, worker: Array, label: Array, truth: Array) -> Annotations:
        return Annotations(
            item=torch.from_numpy(item),
            worker=torch.from_numpy(worker),
            label=torch.from_numpy(label),
            truth=torch.from_numpy(truth),
            items=np.arange(len(truth)),
            workers=self.workers,
            labels=self.labels,
        )


def _together(pieces: list[list[Any]]) -> list[Any]:
    """Concatenate pieces of several columns; a single piece, a large row group, is not copied."""
    return pieces[0] if len(pieces) == 1 else [pyarrow.concat_arrays(column) for column in zip(*pieces, strict=True)]


def _more(names: Any, column: Any) -> tuple[Any, Array]:
    """Return the known names followed by new ones, and the place of each value of a column in them."""
    coded = column.dictionary_encode()
    values, rows = coded.dictionary, np.asarray(coded.indices)
    if names is None:
        return values, rows
    place = codes_of(values, names)
    new = np.flatnonzero(place < 0)
    if len(new):
        place[new] = len(names) + np.arange(len(new))
        names = pyarrow.concat_arrays([names, values.take(pyarrow.array(new))])
    return names, place[rows]


def _begins(task: Any, last: Any) -> Array:
    """Tell which rows begin a run of equal values, ``(n,)``, after a last value before them."""
    begins = np.empty(len(task), dtype=bool)
    begins[0] = last is None or task[0] != last
    begins[1:] = np.asarray(pyarrow.compute.not_equal(task.slice(1), task.slice(0, len(task) - 1)))
    return begins
