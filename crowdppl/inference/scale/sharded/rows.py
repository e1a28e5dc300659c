"""Each rank reads its row groups, and sends the rows of items that are not its own to the ranks that they belong to."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from crowdppl.data.readers.opening import READ_ERRORS
from crowdppl.data.readers.parquet import codes_of
from crowdppl.data.readers.tables import unreadable_parquet
from crowdppl.errors import CrowdpplError, DataError
from crowdppl.inference.backends.coded import Coded
from crowdppl.inference.distributed.group import Alone, ProcessGroup
from crowdppl.inference.scale.sharded.collect import BLOCK, Collector
from crowdppl.inference.scale.sharded.plan import Plan
from crowdppl.isolation import on_signal

Array = npt.NDArray[Any]
Group = ProcessGroup | Alone
# What a rank says beside the rows that it sends: there may be more; these are the last; it has failed.
MORE, LAST, FAILED = 0, 1, 2
# Bytes of a file that are read at once.
BUFFER = 2**20


class StoppedError(CrowdpplError):
    """Ctrl-C was pressed while rows were read."""


@dataclass
class Names:
    """Names on which all ranks agree, each sorted.

    Attributes:
        workers: Arrow array ``(J,)``.
        labels: the classes, Arrow array ``(K,)``.
    """

    workers: Any
    labels: Any


@dataclass
class Rows:
    """What one rank holds.

    Attributes:
        data: annotations of its items.
        items: their names, Arrow array ``(N,)``.
    """

    data: Coded
    items: Any


def agree(group: Group, error: CrowdpplError | None) -> None:
    """Raise on all ranks the first error that any of them has met."""
    met = [one for one in group.gather(None if error is None else (type(error), str(error))) if one is not None]
    if met:
        kind, text = met[0]
        raise kind(text)


def names(group: Group, plan: Plan) -> Names:
    """Return the workers and classes of all ranks.

    Raises:
        DataError: if a value is missing or of another kind, or there is one class only.
        FileError: if a file cannot be read, or is another one on the machine of some rank.
    """
    columns = plan.columns.columns
    here: list[Any] = [None, None]
    failed = None
    try:
        plan.check(group.rank)
        for worker, *labels in _pieces(plan, group.rank, columns[1:]):
            here[0] = _distinct([here[0], worker])
            here[1] = _distinct([here[1], *labels])
    except CrowdpplError as error:
        failed = error
    agree(group, failed)
    everywhere = group.gather(here)
    workers, labels = (_distinct([part[n] for part in everywhere]) for n in (0, 1))
    name = plan.columns.path.name
    if workers is None:
        raise DataError(f"{name}: no rows; at least one annotation is needed")
    workers, labels = (part.take(pyarrow.compute.sort_indices(part)) for part in (workers, labels))
    J, K = len(workers), len(labels)
    if K < 2:
        raise DataError(f"{name}: every label is {labels[0].as_py()!r}; two classes are needed to learn from")
    if np.iinfo(np.int16).max < K or J * K >= 2**32:
        raise DataError(f"{name}: {J:,} workers and {K:,} classes; merge rare classes, or fit a part of the workers")
    return Names(workers, labels)


def rows(group: Group, plan: Plan, known: Names) -> Rows:
    """Return the annotations of this rank's items.

    Raises:
        DataError: if a value is missing or of another kind, or an item has two truths.
        FileError: if a file cannot be read.
        StoppedError: if Ctrl-C was pressed.
    """
    even = plan.size / group.size
    collector = Collector(plan.size if group.size == 1 else int(1.3 * even) + BLOCK)
    pieces = _pieces(plan, group.rank, plan.columns.columns)
    failed: CrowdpplError | None = None
    pressed: list[int] = []
    with ExitStack() as stack:
        if group.rank == 0:
            stack.enter_context(on_signal(signal.SIGINT, lambda number, frame: pressed.append(number)))
        note = MORE
        while True:
            parcels = [b""] * group.size
            try:
                if pressed:
                    raise StoppedError("stopped while rows were read")
                piece = next(pieces, None) if note == MORE else None
                if piece is None:
                    note = LAST
                else:
                    parcels = _sorted_by_owner(group.rank, plan, known, piece, collector)
            except CrowdpplError as error:
                failed, note = error, FAILED
            received, notes = group.exchange(parcels, note)
            if FAILED in notes:
                break
            for parcel in received:
                if len(parcel):
                    collector.add(*_opened(parcel))
            del received
            if min(notes) == LAST:
                break
    agree(group, failed)
    labels = known.labels.to_numpy(zero_copy_only=False)
    try:
        finished = collector.finish(len(known.workers), len(labels), plan.columns.path.name, labels)
    except DataError as error:
        failed = error
    agree(group, failed)
    return Rows(*finished)


def _pieces(plan: Plan, rank: int, wanted: Sequence[str]) -> Iterator[list[Any]]:
    """Go through some columns of a rank's row groups, some rows at a time."""
    columns = plan.columns
    try:
        for group in plan.groups[rank]:
            before = group.before
            with pyarrow.parquet.ParquetFile(group.file, buffer_size=BUFFER, pre_buffer=False) as file:
                there = [name for name in dict.fromkeys(wanted) if name in file.schema_arrow.names]
                options = {"batch_size": BLOCK, "row_groups": [group.number], "columns": there, "use_threads": False}
                for batch in file.iter_batches(**options):
                    parts = [batch.column(n) if n in there else pyarrow.nulls(len(batch)) for n in wanted]
                    yield [columns.plain(part, name, before) for part, name in zip(parts, wanted, strict=True)]
                    before += len(batch)
    except CrowdpplError:
        raise
    except READ_ERRORS as error:
        raise unreadable_parquet(columns.path, error) from None


def _distinct(parts: Sequence[Any]) -> Any:
    """Return the values that occur, without missing ones; ``None`` without any part."""
    there = [part.unique().drop_null() for part in parts if part is not None]
    if not there:
        return None
    return there[0] if len(there) == 1 else pyarrow.concat_arrays(there).unique()


def _sorted_by_owner(rank: int, plan: Plan, known: Names, piece: list[Any], collector: Collector) -> list[bytes]:
    """Return the rows for each other rank; this one's own go to the collector."""
    task, worker, label, *truth = piece
    coded = task.dictionary_encode()
    items, item = coded.dictionary, np.asarray(coded.indices)
    K = len(known.labels)
    column = (codes_of(worker, known.workers) * K + codes_of(label, known.labels)).astype(np.uint32)
    truths = codes_of(truth[0], known.labels).astype(np.int16) if truth else None
    parcels = [b""] * len(plan.groups)
    if len(parcels) == 1:
        collector.add(items, item, column, truths)
        return parcels
    rank_of = plan.owners(items)
    of_row = rank_of[item]
    order = np.argsort(of_row, kind="stable")
    ends = np.cumsum(np.bincount(of_row, minlength=len(parcels)))
    for other in np.unique(rank_of).tolist():
        mine = rank_of == other
        place = np.cumsum(mine) - 1
        part = order[ends[other - 1] if other else 0 : ends[other]]
        theirs = items.filter(pyarrow.array(mine))
        arrays = place[item[part]].astype(np.int32), column[part], None if truths is None else truths[part]
        if other == rank:
            collector.add(theirs, *arrays)
        else:
            parcels[other] = _packed(theirs, *arrays)
    return parcels


def _packed(items: Any, item: Array, column: Array, truths: Array | None) -> bytes:
    """Return rows as bytes."""
    sink = pyarrow.BufferOutputStream()
    batch = pyarrow.record_batch([items], names=["item"])
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    text = sink.getvalue()
    head = np.array([len(text), len(item), truths is not None], dtype=np.int64)
    # Numbers before the text: each kind begins at a multiple of its size.
    parts = [head, item, column] + ([] if truths is None else [truths])
    return b"".join([*(part.tobytes() for part in parts), text.to_pybytes()])


def _opened(parcel: memoryview) -> tuple[Any, Array, Array, Array | None]:
    """Return the arguments of :meth:`Collector.add` from bytes."""
    _, count, with_truths = np.frombuffer(parcel[:24], dtype=np.int64).tolist()
    at = 24
    item = np.frombuffer(parcel[at : at + 4 * count], dtype=np.int32)
    column = np.frombuffer(parcel[at + 4 * count : at + 8 * count], dtype=np.uint32)
    at += 8 * count
    truths = np.frombuffer(parcel[at : at + 2 * count], dtype=np.int16) if with_truths else None
    at += 2 * count * with_truths
    with pyarrow.ipc.open_stream(pyarrow.py_buffer(bytes(parcel[at:]))) as stream:  # a copy: names outlive the parcel
        items = stream.read_next_batch().column(0)
    return items, item, column, truths
