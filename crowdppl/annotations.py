"""Annotations: the caller's identifiers in, sorted index tensors and sparse counts out.

Everything after this file speaks in integers: item ``0..N-1``, worker ``0..J-1``, class ``0..K-1``. The identifiers wait
in ``items``, ``workers`` and ``labels`` until a :class:`crowdppl.Posterior` hands them back.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl.errors import CrowdpplWarning, DataError, OptionError, listed, suggestion
from crowdppl.identifiers import clean, encode, kind_of, lookalikes, positions, rows_text, spaced
from crowdppl.io.tables import read_csv, read_parquet
from crowdppl.kernels import WorkerCounts, sum_by

Array = npt.NDArray[Any]
Repeats = Literal["keep", "last", "refuse"]
Truth: TypeAlias = "str | Mapping[Any, Any] | pd.Series[Any] | pd.DataFrame | None"

# The first column of these that a table has is taken where the caller names none.
ITEM_COLUMNS = ("task", "item")
WORKER_COLUMNS = ("worker",)
LABEL_COLUMNS = ("label",)


@dataclass(frozen=True, eq=False)
class Annotations:
    """Judgements of ``N`` items by ``J`` workers in ``K`` classes, ``A`` judgements in all.

    Made by :meth:`from_frame`, :meth:`from_arrays`, :meth:`from_csv` or :meth:`from_parquet`; not meant to be filled by
    hand. Judgements are sorted by item, within an item they keep the order they came in.

    Attributes:
        item: item of each judgement, ``(A,)`` int64, ascending.
        worker: worker of each judgement, ``(A,)`` int64.
        label: label of each judgement, ``(A,)`` int64.
        truth: class of the items whose truth is known, ``(N,)`` int64, -1 where it is not.
        items: the caller's item identifiers, ``(N,)``.
        workers: the caller's worker identifiers, ``(J,)``.
        labels: the caller's class identifiers, ``(K,)``.
        dtype: floating type of all statistics made from the data.
        notes: what was dropped, merged or odd, in plain sentences.
    """

    item: Tensor
    worker: Tensor
    label: Tensor
    truth: Tensor
    items: Array
    workers: Array
    labels: Array
    dtype: torch.dtype = torch.float64
    notes: tuple[str, ...] = ()

    # ------------------------------------------------------------------ sizes and statistics

    @property
    def N(self) -> int:
        """Number of items (in this batch)."""
        return len(self.truth)

    @property
    def J(self) -> int:
        """Number of workers."""
        return len(self.workers)

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.labels)

    @property
    def A(self) -> int:
        """Number of judgements."""
        return len(self.item)

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.item.device

    @cached_property
    def counts(self) -> WorkerCounts:
        """The sparse ``(N, J*K)`` count matrix, for evidence and expected counts."""
        return WorkerCounts(self.item, self.worker, self.label, (self.N, self.J, self.K), self.dtype)

    @cached_property
    def votes(self) -> Tensor:
        """Number of judgements per item and label, ``(N, K)``."""
        flat = torch.bincount(self.item * self.K + self.label, minlength=self.N * self.K)
        return flat.view(self.N, self.K).to(self.dtype)

    @cached_property
    def clamp(self) -> Tensor | None:
        """Log of what known truths allow, ``(N, K)``: 0 or minus infinity; ``None`` where no truth is known."""
        known = self.truth >= 0
        if not bool(known.any()):
            return None
        allowed = torch.zeros(self.N, self.K, dtype=self.dtype, device=self.device)
        allowed[known] = -torch.inf
        allowed[known, self.truth[known]] = 0.0
        return allowed

    @cached_property
    def judgements_per_worker(self) -> Tensor:
        """Number of judgements of each worker, ``(J,)`` int64."""
        return torch.bincount(self.worker, minlength=self.J)

    @cached_property
    def judgements_per_item(self) -> Tensor:
        """Number of judgements of each item, ``(N,)`` int64."""
        return torch.bincount(self.item, minlength=self.N)

    def majority(self) -> Tensor:
        """Share of votes per class, ``(N, K)``; uniform where nobody judged, one-hot where the truth is known."""
        total = self.votes.sum(-1, keepdim=True)
        share = torch.where(total > 0, self.votes / total.clamp(min=1), 1 / self.K)
        known = self.truth >= 0
        share[known] = torch.nn.functional.one_hot(self.truth[known], self.K).to(self.dtype)
        return share

    def mean_by_worker(self, values: Tensor) -> Tensor:
        """Average ``(A, ...)`` over each worker's judgements, ``(J, ...)``; 0 for workers without any."""
        total = sum_by(self.worker, values, self.J)
        size = self.judgements_per_worker.clamp(min=1).to(values.dtype)
        return total / size.view(-1, *[1] * (values.dim() - 1))

    # ------------------------------------------------------------------ parts and places

    def to(self, device: str | torch.device | None = None, dtype: torch.dtype | None = None) -> Annotations:
        """Return the same data on a device and with a floating type for statistics.

        Raises:
            OptionError: for a type that is not floating.
        """
        if dtype is not None and not dtype.is_floating_point:
            raise OptionError(f"dtype={dtype} is not a floating type; use torch.float64 or torch.float32")
        device = self.device if device is None else torch.device(device)
        dtype = self.dtype if dtype is None else dtype
        if device == self.device and dtype == self.dtype:
            return self
        moved = {name: getattr(self, name).to(device) for name in ("item", "worker", "label", "truth")}
        return replace(self, dtype=dtype, **moved)

    def batch(self, index: Tensor) -> Annotations:
        """Return the judgements of the items ``index`` ``(B,)``, renumbered ``0..B-1``; workers and classes stay."""
        ends = self.judgements_per_item.cumsum(0)
        size = self.judgements_per_item[index]  # (B,)
        start = ends[index] - size
        offset = torch.arange(int(size.sum()), device=self.device) - (size.cumsum(0) - size).repeat_interleave(size)
        row = start.repeat_interleave(size) + offset  # (A of the batch,)
        item = torch.arange(len(index), device=self.device).repeat_interleave(size)
        return replace(
            self,
            item=item,
            worker=self.worker[row],
            label=self.label[row],
            truth=self.truth[index],
            items=self.items[index.cpu().numpy()],
        )

    def __repr__(self) -> str:
        known = int((self.truth >= 0).sum())
        return (
            f"Annotations({self.A:,} judgements of {self.N:,} items by {self.J:,} workers in {self.K:,} classes"
            f"{f', truth of {known:,} items known' if known else ''})"
        )

    # ------------------------------------------------------------------ ways in

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        truth: Truth = None,
        labels: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        workers: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
        source: str = "the frame",
    ) -> Annotations:
        """Take judgements from a table with a row for each.

        Args:
            frame: the table.
            task: column of the item's identifier; ``"task"``, else ``"item"``, where not given.
            worker: column of the worker's identifier; ``"worker"`` where not given.
            label: column of the label; ``"label"`` where not given. A row without a label is dropped and counted.
            truth: known truths, which clamp their items in every engine: a column of the table (blank where unknown),
                a mapping or Series from item to class, or a frame with the item's and the label's column.
            labels: all classes in the order wanted; those that occur, sorted, where not given. A categorical label
                column declares its categories.
            items: all items, should some have no judgement; those that occur, in order of appearance, where not given.
            workers: likewise all workers.
            repeats: what to do where a worker judged an item more than once: ``"keep"`` each as evidence of its own,
                keep the ``"last"``, or ``"refuse"``.
            source: name of the table, for messages.

        Raises:
            DataError: says what is wrong, in which rows and column, and how to mend it.
            OptionError: for an unknown ``repeats``.
        """
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"{source} is a {type(frame).__name__}; pass a pandas DataFrame, or use from_arrays")
        if repeats not in get_args(Repeats):
            raise OptionError(
                f"repeats={repeats!r}; use 'keep', 'last' or 'refuse'{suggestion(repeats, get_args(Repeats))}"
            )
        task = _column(frame, task, ITEM_COLUMNS, source, "say which one holds the task with task=...")
        worker = _column(frame, worker, WORKER_COLUMNS, source, "say which one holds the worker with worker=...")
        label = _column(frame, label, LABEL_COLUMNS, source, "say which one holds the label with label=...")
        if len({task, worker, label}) < 3:
            raise DataError(
                f"{source}: task, worker and label must be three columns, not {task!r}, {worker!r}, {label!r}"
            )
        if labels is None and isinstance(frame[label].dtype, pd.CategoricalDtype):
            labels = frame[label].cat.categories
        return _build(
            frame[task],
            frame[worker],
            frame[label],
            truth=_truth_columns(frame, task, truth, source),
            names=(task, worker, label),
            declared=(items, workers, labels),
            repeats=repeats,
            source=source,
        )

    @classmethod
    def from_arrays(
        cls,
        task: Any,
        worker: Any,
        label: Any,
        *,
        truth: Truth = None,
        labels: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        workers: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
    ) -> Annotations:
        """Take judgements from three arrays of one length ``(A,)``; the rest as in :meth:`from_frame`."""
        columns = {name: _series(v, name) for name, v in {"task": task, "worker": worker, "label": label}.items()}
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
            raise DataError(f"the arrays differ in length: {told}; pass one of each for every judgement")
        if isinstance(truth, str):
            raise DataError("truth names a column, but from_arrays has none; pass a mapping from item to class")
        return cls.from_frame(
            pd.DataFrame(columns),
            truth=truth,
            labels=labels,
            items=items,
            workers=workers,
            repeats=repeats,
            source="the arrays",
        )

    @classmethod
    def from_csv(cls, path: str | Path, **options: Any) -> Annotations:
        """Read a CSV file (plain or compressed); options as in :meth:`from_frame`.

        Identifiers stay as written: ``007`` is a string, a column is taken as integers only where every one of its
        values is written as an integer would be. Only blank cells and ``nan`` are missing: ``NA`` may be a class.

        Raises:
            FileError: where the file cannot be read as CSV.
            DataError: as :meth:`from_frame`, naming the file.
        """
        return cls.from_frame(read_csv(path), source=Path(path).name, **options)

    @classmethod
    def from_parquet(cls, path: str | Path, **options: Any) -> Annotations:
        """Read a Parquet file; options as in :meth:`from_frame`, errors as in :meth:`from_csv`."""
        return cls.from_frame(read_parquet(path), source=Path(path).name, **options)


def _series(values: Any, name: str) -> pd.Series[Any]:
    """Take one of the caller's arrays as a column; NumPy would make strings of numbers that stand beside strings."""
    shape = tuple(getattr(values, "shape", (0,)))
    if isinstance(values, (str, bytes, set, frozenset, Mapping)) or not isinstance(values, Iterable) or len(shape) != 1:
        kind = f"has shape {shape}" if len(shape) != 1 else f"is of type {type(values).__name__}"
        raise DataError(f"{name} {kind}; pass three arrays of one dimension and one length")
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if hasattr(values, "dtype"):
        return pd.Series(values).reset_index(drop=True)
    return pd.Series(list(values), dtype=object)


def _column(frame: pd.DataFrame, name: Any, usual: tuple[str, ...], source: str, mend: str) -> Any:
    """Find a column by the text of its name and return the name itself, which may be a number."""
    columns = [str(c) for c in frame.columns]
    wanted = (str(name),) if name is not None else usual
    found = next((w for w in wanted if w in columns), None)
    if found is None:
        told = " or ".join(repr(w) for w in wanted)
        raise DataError(
            f"{source}: no column {told}{suggestion(wanted[0], columns)}; columns are {listed(columns, 12)}; {mend}"
        )
    if columns.count(found) > 1:
        raise DataError(f"{source}: {columns.count(found)} columns are named {found!r}; rename or drop all but one")
    return frame.columns[columns.index(found)]


class _Column(NamedTuple):
    """A column of known truths and how messages call it."""

    values: pd.Series[Any]
    where: str


def _truth_columns(frame: pd.DataFrame, task: Any, truth: Truth, source: str) -> tuple[_Column, _Column] | None:
    """Bring known truths in any of their forms to a column of items and one of classes."""
    if truth is None:
        return None
    if isinstance(truth, str):
        name = _column(frame, truth, (), source, "say which one holds the known truths with truth=...")
        of_item, of_label = (_Column(frame[c], f"{source}, column {str(c)!r}") for c in (task, name))
        return of_item, of_label
    where = "the known truths"
    if isinstance(truth, pd.DataFrame):
        item = _column(truth, None, ITEM_COLUMNS, where, "rename the one that holds the task")
        label = _column(truth, None, LABEL_COLUMNS, where, "rename the one that holds the class")
        of_item, of_label = (_Column(truth[c], f"{where}, column {str(c)!r}") for c in (item, label))
        return of_item, of_label
    if isinstance(truth, pd.Series):
        return _Column(truth.index.to_series(), f"{where}, index"), _Column(truth, where)
    if isinstance(truth, Mapping):
        items, classes = (pd.Series(list(part), dtype=object) for part in (truth.keys(), truth.values()))
        return _Column(items, where), _Column(classes, where)
    raise DataError(
        f"truth is a {type(truth).__name__}; pass a column name, a mapping or Series from item to class, or a frame"
    )


def _build(
    item_column: pd.Series[Any],
    worker_column: pd.Series[Any],
    label_column: pd.Series[Any],
    *,
    truth: tuple[_Column, _Column] | None,
    names: tuple[Any, Any, Any],
    declared: tuple[Iterable[Any] | None, ...],
    repeats: Repeats,
    source: str,
) -> Annotations:
    """Clean, check, code and sort the three columns; every way in ends here."""
    if len(label_column) == 0:
        raise DataError(f"{source}: no rows; at least one judgement is needed")
    told: list[str] = []
    where = [f"{source}, column {str(name)!r}" for name in names]
    roles = ("task", "worker", "label")
    columns, masks = zip(
        *(clean(c, r, w) for c, r, w in zip((item_column, worker_column, label_column), roles, where, strict=True)),
        strict=True,
    )
    for mask, role, place in zip(masks[:2], roles[:2], where[:2], strict=True):
        if mask.any():
            raise DataError(f"{place}, {rows_text(np.flatnonzero(mask))}: {role} missing; fill it in or drop the rows")
    rows = np.flatnonzero(~masks[2])
    if len(rows) == 0:
        raise DataError(f"{where[2]}: every label is missing; at least one judgement is needed")
    if len(rows) < len(masks[2]):
        dropped = np.flatnonzero(masks[2])
        _tell(
            told,
            f"{where[2]}: dropped {len(dropped):,} of {len(masks[2]):,} rows without a label ({rows_text(dropped)})",
        )
        columns = tuple(column[rows] for column in columns)

    known = _known(truth)
    items_declared, workers_declared, labels_declared = declared
    item, items = encode(columns[0], items_declared, "task", where[0], rows=rows, ordered=False)
    worker, workers = encode(columns[1], workers_declared, "worker", where[1], rows=rows, ordered=False)
    if labels_declared is None and len(known.labels):
        # A class that only known truths show is a class: declare all that occur, sorted.
        labels_declared = _union(columns[2], known, where[2])
    label, labels = encode(columns[2], labels_declared, "label", where[2], rows=rows, ordered=True)
    if len(labels) < 2:
        if declared[2] is not None:
            raise DataError(f"{source}: only one class declared, {listed(labels.tolist())}; declare at least two")
        _tell(
            told, f"{source}: every label is {listed(labels.tolist())}; declare labels=[...] if there are other classes"
        )
    for ids, role in ((items, "task"), (workers, "worker"), (labels, "label")):
        odd, alike = spaced(ids), lookalikes(ids)
        if odd:
            _tell(
                told,
                f"{source}: {len(odd):,} {role} names with white space around them, kept as they are: {listed(odd)}",
            )
        if alike:
            _tell(
                told, f"{source}: {len(alike):,} {role} names differ from others in Unicode form only: {listed(alike)}"
            )

    chosen = _resolve_repeats(item, worker, label, repeats, rows, source, told)
    order = chosen[np.argsort(item[chosen], kind="stable")]
    return Annotations(
        item=torch.from_numpy(item[order]),
        worker=torch.from_numpy(worker[order]),
        label=torch.from_numpy(label[order]),
        truth=torch.from_numpy(_known_codes(known, items, labels, source, told)),
        items=items,
        workers=workers,
        labels=labels,
        notes=tuple(told),
    )


def _tell(told: list[str], sentence: str) -> None:
    told.append(sentence)
    # Point at the caller's own line, through however many of the library's functions the call came.
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("crowdppl."):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, CrowdpplWarning, stacklevel=level)


def _union(labels: Array, known: _Known, where: str) -> Array:
    if kind_of(labels) != kind_of(known.labels):
        raise DataError(
            f"{where}: labels are {kind_of(labels)} but {known.where_label}: {kind_of(known.labels)}; "
            f"write both as strings or both as integers"
        )
    both = [*pd.unique(labels).tolist(), *pd.unique(known.labels).tolist()]
    # Cleaned again: large unsigned integers beside others need a type that holds both.
    names, _ = clean(pd.Series(both, dtype=object), "label", where)
    return np.unique(names)


def _resolve_repeats(
    item: Array, worker: Array, label: Array, repeats: Repeats, rows: Array, source: str, told: list[str]
) -> Array:
    """Return the positions to keep, in order, under the policy for repeated judgements."""
    pair = pd.Series(item * (worker.max() + 1) + worker)
    again = pair.duplicated(keep="first").to_numpy()
    if not again.any():
        return np.arange(len(item))
    if repeats == "refuse":
        raise DataError(
            f"{source}, {rows_text(rows[again])}: a worker judged the same item again; drop the rows, or choose "
            f"repeats='keep' (each is evidence) or repeats='last'"
        )
    if repeats == "last":
        keep = ~pair.duplicated(keep="last").to_numpy()
        told.append(f"{source}: kept the last of repeated judgements, {int((~keep).sum()):,} earlier ones dropped")
        return np.flatnonzero(keep)
    repeated = pair.duplicated(keep=False).to_numpy()
    differing = pd.Series(label[repeated]).groupby(pair.to_numpy()[repeated]).nunique()
    told.append(
        f"{source}: {int(again.sum()):,} repeated judgements of an item by the same worker kept as evidence "
        f"({int((differing > 1).sum()):,} worker-item pairs contradict themselves)"
    )
    return np.arange(len(item))


class _Known(NamedTuple):
    """Known truths: items ``(T,)``, their classes ``(T,)`` and rows ``(T,)``, and how messages call both."""

    items: Array
    labels: Array
    rows: Array
    where_item: str
    where_label: str


def _known(truth: tuple[_Column, _Column] | None) -> _Known:
    """Clean known truths and leave out those that are blank."""
    if truth is None:
        none = np.zeros(0, dtype=np.int64)
        return _Known(none, none, none, "", "")
    (item_column, where_item), (label_column, where_label) = truth
    labels, blank = clean(label_column, "label", where_label)
    items, missing = clean(item_column, "task", where_item)
    nameless = np.flatnonzero(missing & ~blank)
    if len(nameless):
        raise DataError(f"{where_item}, {rows_text(nameless)}: task missing; fill it in or drop the rows")
    rows = np.flatnonzero(~blank)
    # Coded first: what is compared are small integers, whatever the identifiers are.
    both = pd.DataFrame(
        {"task": pd.factorize(items[rows])[0], "label": pd.factorize(labels[rows])[0]}
    ).drop_duplicates()
    rows = rows[both.index.to_numpy()]
    clash = both["task"].duplicated(keep=False).to_numpy()
    if clash.any():
        raise DataError(
            f"{where_label}, {rows_text(rows[clash])}: two different truths for "
            f"item {listed(pd.unique(items[rows[clash]]).tolist())}; leave one, or none"
        )
    return _Known(items[rows], labels[rows], rows, where_item, where_label)


def _known_codes(known: _Known, items: Array, labels: Array, source: str, told: list[str]) -> npt.NDArray[np.int64]:
    out = np.full(len(items), -1, dtype=np.int64)
    if len(known.items) == 0:
        return out
    if kind_of(known.items) != kind_of(items):
        raise DataError(
            f"{known.where_item}: tasks are {kind_of(known.items)} but in {source} they are {kind_of(items)}; "
            f"write both as strings or both as integers"
        )
    place = positions(known.items, items)
    here = place >= 0
    if not here.all():
        strange = known.items[~here].tolist()
        _tell(
            told,
            f"{source}: {len(strange):,} known truths of items without a judgement left out ({listed(strange, 3)})",
        )
    code, _ = encode(known.labels[here], labels, "label", known.where_label, rows=known.rows[here], ordered=True)
    out[place[here]] = code
    return out
