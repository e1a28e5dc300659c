"""Annotations: the caller's identifiers in, sorted index tensors and sparse counts out.

Everything after this file speaks in integers: item ``0..N-1``, worker ``0..J-1``, class ``0..K-1``. The identifiers wait
in ``items``, ``workers`` and ``labels`` until a :class:`crowdppl.Posterior` hands them back.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl.errors import CrowdpplWarning, DataError, OptionError, listed, suggestion
from crowdppl.identifiers import clean, encode, rows_text, spaced
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
        """Return the same data on a device and with a floating type for statistics."""
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
        task = _column(frame, task, ITEM_COLUMNS, "task", source)
        worker = _column(frame, worker, WORKER_COLUMNS, "worker", source)
        label = _column(frame, label, LABEL_COLUMNS, "label", source)
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
            truth=_column_truth(frame, task, truth, source) if isinstance(truth, str) else truth,
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
        columns = {"task": task, "worker": worker, "label": label}
        columns = {name: v.cpu().numpy() if isinstance(v, Tensor) else np.asarray(v) for name, v in columns.items()}
        for name, column in columns.items():
            if column.ndim != 1:
                raise DataError(f"{name} has shape {column.shape}; pass three arrays of one dimension and one length")
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise DataError(f"the arrays differ in length: {told}")
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


def _column(frame: pd.DataFrame, name: str | None, usual: tuple[str, ...], role: str, source: str) -> str:
    columns = [str(c) for c in frame.columns]
    wanted = (name,) if name is not None else usual
    found = next((w for w in wanted if w in columns), None)
    if found is None:
        told = " or ".join(repr(w) for w in wanted)
        raise DataError(
            f"{source}: no column {told}{suggestion(wanted[0], columns)}; columns are {listed(columns, 12)}; "
            f"say which one holds the {role} with {role}=..."
        )
    if columns.count(found) > 1:
        raise DataError(f"{source}: {columns.count(found)} columns are named {found!r}; rename or drop all but one")
    return found


def _column_truth(frame: pd.DataFrame, task: str, truth: str, source: str) -> pd.DataFrame:
    column = _column(frame, truth, (), "truth", source)
    return frame.loc[frame[column].notna(), [task, column]].set_axis(["task", "label"], axis=1)


def _build(
    item_column: pd.Series[Any],
    worker_column: pd.Series[Any],
    label_column: pd.Series[Any],
    *,
    truth: Any,
    names: tuple[str, str, str],
    declared: tuple[Iterable[Any] | None, ...],
    repeats: Repeats,
    source: str,
) -> Annotations:
    """Clean, check, code and sort the three columns; every way in ends here."""
    if len(label_column) == 0:
        raise DataError(f"{source} has no rows; at least one judgement is needed")
    told: list[str] = []
    where = [f"{source}, column {name!r}" for name in names]
    roles = ("task", "worker", "label")
    columns, masks = zip(
        *(clean(c, r, w) for c, r, w in zip((item_column, worker_column, label_column), roles, where, strict=True)),
        strict=True,
    )
    for mask, role, place in zip(masks[:2], roles[:2], where[:2], strict=True):
        if mask.any():
            raise DataError(f"{place}, {rows_text(mask)}: {role} missing; fill it in or drop the rows")
    keep = ~masks[2]
    if not keep.all():
        if not keep.any():
            raise DataError(f"{where[2]}: every label is missing")
        _tell(
            told, f"{source}: dropped {int((~keep).sum()):,} of {len(keep):,} rows without a label ({rows_text(~keep)})"
        )
    for column, role in zip(columns, roles, strict=True):
        odd = spaced(pd.unique(column[keep]))
        if odd:
            _tell(
                told,
                f"{source}: {len(odd)} {role} name(s) with white space around them, kept as they are: {listed(odd)}",
            )

    truth_items, truth_labels = _known(truth, source)
    items_declared, workers_declared, labels_declared = declared
    item, items = encode(columns[0][keep], items_declared, "task", where[0], ordered=False)
    worker, workers = encode(columns[1][keep], workers_declared, "worker", where[1], ordered=False)
    if labels_declared is None and len(truth_labels):
        # A class that only known truths show is a class: declare all that occur, sorted.
        labels_declared = _union(columns[2][keep], truth_labels, where[2])
    label, labels = encode(columns[2][keep], labels_declared, "label", where[2], ordered=True)
    if len(labels) < 2:
        if declared[2] is not None:
            raise DataError(f"{source}: only one class declared, {listed(labels.tolist())}; declare at least two")
        _tell(told, f"{source}: every label is {labels[0]!r}; declare labels=[...] if there are other classes")

    chosen = _resolve_repeats(item, worker, label, repeats, np.flatnonzero(keep), source, told)
    order = chosen[np.argsort(item[chosen], kind="stable")]
    return Annotations(
        item=torch.from_numpy(item[order]),
        worker=torch.from_numpy(worker[order]),
        label=torch.from_numpy(label[order]),
        truth=torch.from_numpy(_known_codes(truth_items, truth_labels, items, labels, source, told)),
        items=items,
        workers=workers,
        labels=labels,
        notes=tuple(told),
    )


def _tell(told: list[str], sentence: str) -> None:
    told.append(sentence)
    warnings.warn(sentence, CrowdpplWarning, stacklevel=5)


def _union(labels: Array, truths: Array, where: str) -> Array:
    if (labels.dtype == object) != (truths.dtype == object):
        raise DataError(
            f"{where}: labels and known truths are of two types ({labels[0]!r} and {truths[0]!r}); "
            f"write both as strings or both as integers"
        )
    return np.asarray(pd.Series(np.concatenate([pd.unique(labels), pd.unique(truths)])).drop_duplicates().sort_values())


def _resolve_repeats(
    item: Array, worker: Array, label: Array, repeats: Repeats, rows: Array, source: str, told: list[str]
) -> Array:
    """Return the positions to keep, in order, under the policy for repeated judgements."""
    pair = pd.Series(item * (worker.max() + 1) + worker)
    again = pair.duplicated(keep="first").to_numpy()
    if not again.any():
        return np.arange(len(item))
    if repeats == "refuse":
        where = np.zeros(rows.max() + 1, dtype=bool)
        where[rows[again]] = True
        raise DataError(
            f"{source}, {rows_text(where)}: a worker judged the same item again; drop the rows, or choose "
            f"repeats='keep' (each is evidence) or repeats='last'"
        )
    if repeats == "last":
        keep = ~pair.duplicated(keep="last").to_numpy()
        told.append(f"{source}: kept the last of repeated judgements, {int((~keep).sum()):,} earlier ones dropped")
        return np.flatnonzero(keep)
    differing = pd.DataFrame({"pair": pair, "label": label}).groupby("pair")["label"].nunique()
    told.append(
        f"{source}: {int(again.sum()):,} repeated judgements of an item by the same worker kept as evidence "
        f"({int((differing > 1).sum()):,} worker-item pairs contradict themselves)"
    )
    return np.arange(len(item))


def _known(truth: Any, source: str) -> tuple[Array, Array]:
    """Bring known truths in any of their forms to items ``(T,)`` and classes ``(T,)``."""
    empty = np.zeros(0, dtype=np.int64)
    if truth is None:
        return empty, empty
    if isinstance(truth, pd.DataFrame):
        task = _column(truth, None, ITEM_COLUMNS, "task", "the known truths")
        truth = truth.set_index(task)[_column(truth, None, LABEL_COLUMNS, "label", "the known truths")]
    elif isinstance(truth, Mapping):
        truth = pd.Series(dict(truth))
    elif not isinstance(truth, pd.Series):
        raise DataError(
            f"truth is a {type(truth).__name__}; pass a column name, a mapping or Series from item to class, or a frame"
        )
    truth = truth[truth.notna()]
    if len(truth) == 0:
        return empty, empty
    items, missing = clean(pd.Series(truth.index), "task", "the known truths, task")
    if missing.any():
        raise DataError(f"the known truths, {rows_text(missing)}: task missing; fill it in or drop the rows")
    labels, _ = clean(truth.reset_index(drop=True), "label", "the known truths, label")
    both = pd.DataFrame({"task": items, "label": labels}).drop_duplicates()
    clash = both.loc[both["task"].duplicated(), "task"].unique().tolist()
    if clash:
        raise DataError(f"{source}: two different truths for item {listed(clash)}; leave one, or none")
    return both["task"].to_numpy(), both["label"].to_numpy()


def _known_codes(
    truth_items: Array, truth_labels: Array, items: Array, labels: Array, source: str, told: list[str]
) -> npt.NDArray[np.int64]:
    out = np.full(len(items), -1, dtype=np.int64)
    if len(truth_items) == 0:
        return out
    if (truth_items.dtype == object) != (items.dtype == object):
        raise DataError(
            f"the known truths name items as {truth_items[0]!r}, {source} as {items[0]!r}; "
            f"write both as strings or both as integers"
        )
    position = pd.Index(items).get_indexer(pd.Index(truth_items))
    here = position >= 0
    if not here.all():
        strange = truth_items[~here].tolist()
        _tell(
            told,
            f"{source}: {len(strange):,} known truths of items without a judgement left out ({listed(strange, 3)})",
        )
    code, _ = encode(truth_labels[here], labels, "label", "the known truths", ordered=True)
    out[position[here]] = code
    return out
