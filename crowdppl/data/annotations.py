"""Annotations: the caller's identifiers in, sorted index tensors and sparse counts out.

Everything after this file speaks in integers: item ``0..N-1``, worker ``0..J-1``, class ``0..K-1``. The identifiers wait
in ``items``, ``workers`` and ``labels`` until a :class:`crowdppl.Posterior` hands them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.data.columns import (
    ITEM_COLUMNS,
    WORKER_COLUMNS,
    Repeats,
    Truth,
    column_of,
    fields,
    item_column,
    series,
    three_columns,
    truth_columns,
    unquoted,
)
from crowdppl.data.features import count_table, matrix
from crowdppl.data.frames import indexed, to_pandas
from crowdppl.data.identifiers import clean, coded, encode
from crowdppl.data.readers.arrow import let_go, long_csv, long_parquet
from crowdppl.data.readers.streams import source_name
from crowdppl.errors import DataError, listed
from crowdppl.kernels.ops import WorkerCounts, sum_by

# The worker of label counts, where nobody knows who gave which label.
CROWD = "crowd"
# Annotations whose votes are counted in one go.
_PIECE = 2**17

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Annotations:
    """Annotations of ``N`` items by ``J`` workers in ``K`` classes, ``A`` annotations in all.

    Made by :meth:`from_frame`, :meth:`from_arrays`, :meth:`from_csv` or :meth:`from_parquet`; not meant to be filled by
    hand. Annotations are sorted by item, within an item they keep the order they came in.

    Attributes:
        item: item of each annotation, ``(A,)`` int64, ascending.
        worker: worker of each annotation, ``(A,)`` int64.
        label: label of each annotation, ``(A,)`` int64.
        truth: class of the items whose truth is known, ``(N,)`` int64, -1 where it is not.
        items: the caller's item identifiers, ``(N,)``.
        workers: the caller's worker identifiers, ``(J,)``.
        labels: the caller's class identifiers, ``(K,)``.
        dtype: floating type of all statistics made from the data.
        notes: what was dropped, merged or odd, in plain sentences.
        features: of the items, ``(N, D)``, or ``None``.
        worker_features: of the workers, ``(J, P)``, or ``None``.
        multiplicity: how often each item stands in the data, ``(N,)``; ``None`` for once each.
        weight: the power that the evidence of each item is raised to, ``(N,)``, see :meth:`with_weights`; ``None`` for one.
        timestamp: moment of each annotation, ``(A,)``, NaN where unknown; only its order matters. ``None`` where not given.
        seconds: how long each annotation took, ``(A,)``, likewise.
        start: probabilities of the classes that engines start from, ``(N, K)``; ``None`` for their own start.
        item_column: what tables call the column of items, ``"item"`` where the input did, else ``"task"``.
        repeats: what was done where a worker annotated an item more than once; an update of the result does the same.
        parent_item: in the expanded layouts of :meth:`item_label_cells` and :meth:`per_annotation`, the original item of each row,
            ``(N,)``; ``features`` then has one row for each original item. ``None`` otherwise.
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
    features: Tensor | None = None
    worker_features: Tensor | None = None
    multiplicity: Tensor | None = None
    weight: Tensor | None = None
    timestamp: Tensor | None = None
    seconds: Tensor | None = None
    start: Tensor | None = None
    parent_item: Tensor | None = None
    item_column: str = "task"
    repeats: Repeats = "keep"

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
        """Number of annotations."""
        return len(self.item)

    @property
    def D(self) -> int:
        """Number of item features, 0 where there are none."""
        return 0 if self.features is None else self.features.shape[-1]

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.item.device

    @cached_property
    def counts(self) -> WorkerCounts:
        """The sparse ``(N, J*K)`` count matrix, for evidence and expected counts; rows of items times their weights."""
        return WorkerCounts(self.item, self.worker, self.label, (self.N, self.J, self.K), self.dtype, self.weight)

    @cached_property
    def votes(self) -> Tensor:
        """Number of annotations per item and label, ``(N, K)``."""
        return self._counted_votes()

    def _counted_votes(self) -> Tensor:
        out = torch.zeros(self.N * self.K, dtype=self.dtype, device=self.device)
        # Items ascend: those of a piece are neighbours, and nothing is as long as the annotations. A GPU would wait at each.
        step = _PIECE if self.device.type == "cpu" else max(1, self.A)
        for begin in range(0, self.A, step):
            item, label = (part[begin : begin + step] for part in (self.item, self.label))
            first = int(item[0]) * self.K
            found = torch.bincount(item * self.K + label - first)
            out[first : first + len(found)] += found
        return out.view(self.N, self.K)

    @property
    def weighted_votes(self) -> Tensor:
        """Votes as evidence, ``(N, K)``: those of an item times its weight."""
        return self.votes if self.weight is None else self.votes * self.weight.unsqueeze(-1)

    @arguments.checked(values=arguments.tensor)
    def weighted(self, values: Tensor) -> Tensor:
        """Multiply ``(A, ...)`` by the weight of each annotation's item: what is summed as evidence goes through this."""
        if self.weight is None:
            return values
        weight = self.weight[self.item].view(-1, *[1] * (values.dim() - 1))
        # What counts for nothing may be impossible: 0 times minus infinity is nothing, too.
        return torch.where(weight > 0, values * weight, 0.0)

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
    def annotations_per_worker(self) -> Tensor:
        """Number of annotations of each worker, ``(J,)`` int64."""
        return torch.bincount(self.worker, minlength=self.J)

    @cached_property
    def annotations_per_item(self) -> Tensor:
        """Number of annotations of each item, ``(N,)`` int64."""
        return torch.bincount(self.item, minlength=self.N)

    def majority(self) -> Tensor:
        """Share of votes per class, ``(N, K)``; uniform where nobody judged, one-hot where the truth is known."""
        share = self._counted_votes()  # not those that are kept: a fit may need them this once
        total = share.sum(-1, keepdim=True)
        share.div_(total.clamp(min=1)).masked_fill_(total == 0, 1 / self.K)
        known = self.truth >= 0
        share[known] = torch.nn.functional.one_hot(self.truth[known], self.K).to(self.dtype)
        return share

    @arguments.checked(values=arguments.tensor)
    def mean_by_worker(self, values: Tensor) -> Tensor:
        """Average ``(A, ...)`` over each worker's annotations, ``(J, ...)``; 0 for workers without any."""
        total = sum_by(self.worker, values, self.J)
        size = self.annotations_per_worker.clamp(min=1).to(values.dtype)
        return total / size.view(-1, *[1] * (values.dim() - 1))

    # ------------------------------------------------------------------ parts and places

    @arguments.checked(device=arguments.place, dtype=arguments.floating)
    def to(self, device: str | torch.device | None = None, dtype: torch.dtype | None = None) -> Annotations:
        """Return the same data on a device and with a floating type for statistics.

        Raises:
            OptionError: for a type that is not floating.
        """
        device = self.device if device is None else torch.device(device)
        dtype = self.dtype if dtype is None else dtype
        if device == self.device and dtype == self.dtype:
            return self
        moved = {name: getattr(self, name).to(device) for name in ("item", "worker", "label", "truth")}
        if self.parent_item is not None:
            moved["parent_item"] = self.parent_item.to(device)
        for name in ("features", "worker_features", "multiplicity", "weight", "timestamp", "seconds", "start"):
            value = getattr(self, name)
            moved[name] = None if value is None else value.to(device, dtype)
        return replace(self, dtype=dtype, **moved)

    @arguments.checked(features=arguments.anything, workers=arguments.anything)
    def with_features(self, features: Any = None, *, workers: Any = None) -> Annotations:
        """Return the same annotations with numbers known of the items, and of the workers.

        Args:
            features: a frame of numbers whose index holds the tasks, in any order (rows of other tasks are left out), a table of
                another library with the tasks in a column ``task`` or ``item``, or an array ``(N, D)`` in the order of ``items``.
            workers: likewise of the workers, ``(J, P)``.

        Raises:
            DataError: names the rows that are missing, repeated or not finite, or the columns that are not numbers.
        """
        changed: dict[str, Any] = {}
        features = indexed(features, ITEM_COLUMNS, "features")
        workers = indexed(workers, WORKER_COLUMNS, "worker features")
        if features is not None:
            changed["features"] = matrix(features, self.items, "task", "features")
        if workers is not None:
            changed["worker_features"] = matrix(workers, self.workers, "worker", "worker features")
        placed: dict[str, Any] = {
            name: torch.from_numpy(value).to(self.device, self.dtype) for name, value in changed.items()
        }
        return replace(self, **placed)

    @arguments.checked(weights=arguments.anything)
    def with_weights(self, weights: Any) -> Annotations:
        """Return the same annotations, the evidence of each item raised to a power.

        ``log p(truth_i = k) + weight_i * log p(labels of i | truth = k)`` is then the item log joint of every engine, and counts
        of workers' answers are counted with the weight of the item. With ``weight = 1 / (1 + (n - 1) rho)`` the ``n`` annotations
        of an item, correlated by ``rho``, say as much as that many independent ones (the design effect of survey sampling).

        Args:
            weights: a Series or mapping by task, or numbers ``(N,)`` in the order of ``items``; ``None`` takes them away.

        Raises:
            DataError: where a weight is missing, negative or not finite.
        """
        if weights is None:
            return replace(self, weight=None)
        if isinstance(weights, Mapping):
            weights = pd.Series(weights)
        if isinstance(weights, pd.Series):
            column = matrix(weights.to_frame("weight"), self.items, "task", "weights")
        else:
            weights = arguments.array("item")("weights", weights)
            column = matrix(torch.as_tensor(weights).reshape(-1, 1), self.items, "task", "weights")
        if (column < 0).any():
            negative = self.items[(column < 0)[:, 0]].tolist()
            raise DataError(f"weights: task {listed(negative, 3)} has a negative one; weights are powers of at least 0")
        return replace(self, weight=torch.from_numpy(column[:, 0]).to(self.device, self.dtype))

    def item_label_cells(self) -> Annotations:
        """Return the global setting: each label an item got is an item of its own, as often as it was given.

        Who gave it is left out. ``C`` cells have ``label (C,)``, ``multiplicity (C,)`` and ``parent_item (C,)``; nothing in them grows
        with the number of workers.
        """
        cell = self.votes.reshape(-1).nonzero().squeeze(-1)  # (C,)
        owner = torch.div(cell, self.K, rounding_mode="floor")
        often = self.votes.reshape(-1)[cell]
        if self.multiplicity is not None:
            often = often * self.multiplicity[owner]
        return self._owned(owner, torch.zeros_like(owner), cell % self.K, often)

    def per_annotation(self) -> Annotations:
        """Return each annotation as an item of its own: ``N = A``, with ``parent_item`` the item judged."""
        often = None if self.multiplicity is None else self.multiplicity[self.item]
        return self._owned(self.item, self.worker, self.label, often)

    @arguments.checked(features=arguments.anything, items=arguments.a_list, workers=arguments.anything)
    def unseen(self, features: Any = None, *, items: Any = None, workers: Any = None) -> Annotations:
        """Return new items without an annotation, and maybe new workers, with the classes of these data: what to predict for.

        Args:
            features: of the new items, ``(n, D)`` or a frame whose index names them.
            items: names of the new items; the frame's index, else ``0..n-1``, where not given.
            workers: features of new workers, a frame whose index names them or ``(m, P)``; the workers stay as they are where
                not given.

        Raises:
            DataError: where the features are not of the kind these data have.
        """
        features = indexed(features, ITEM_COLUMNS, "features")
        workers = indexed(workers, WORKER_COLUMNS, "worker features")
        names = self.items if features is None else _names(features, items)
        crowd = self.workers if workers is None else _names(workers, None)
        nothing = torch.zeros(0, dtype=torch.int64, device=self.device)
        empty = replace(
            self,
            item=nothing,
            worker=nothing,
            label=nothing,
            truth=torch.full((len(names),), -1, device=self.device),
            items=names,
            workers=crowd,
            multiplicity=None,
            weight=None,
            timestamp=None,
            seconds=None,
            start=None,
            parent_item=None,
            notes=(),
            features=self.features if features is None else None,
            worker_features=self.worker_features if workers is None else None,
        )
        made = empty.with_features(features, workers=workers)
        for name, what in (("features", "item"), ("worker_features", "worker")):
            here, there = (getattr(data, name) for data in (made, self))
            if here is not None and (there is None or there.shape[-1] != here.shape[-1]):
                wanted = "no" if there is None else f"{there.shape[-1]:,}"
                raise DataError(f"{here.shape[-1]:,} {what} features; the model was fitted to {wanted} of them")
        return made

    def paired(self) -> Annotations:
        """Return every item with every worker, ``A = N * J``, labels not yet given (code 0): a design to ask about."""
        items, workers = torch.arange(self.N, device=self.device), torch.arange(self.J, device=self.device)
        item = items.repeat_interleave(self.J)
        return replace(
            self, item=item, worker=workers.repeat(self.N), label=torch.zeros_like(item), timestamp=None, seconds=None
        )

    @arguments.checked(labels=arguments.a_list, what=arguments.text)
    def code(self, labels: Any, what: str) -> Tensor:
        """Return class identifiers ``(n,)`` as codes ``0..K-1``.

        Raises:
            DataError: for one that is not a class of these data.
        """
        values = coded(pd.Series(labels).reset_index(drop=True), "label", what)
        if values.missing.any():
            raise DataError(f"{what}: {int(values.missing.sum()):,} labels are missing; drop their rows")
        codes, _ = encode(values, self.labels, "label", what, rows=None, ordered=True)
        return torch.from_numpy(codes).to(self.device)

    def _owned(self, owner: Tensor, worker: Tensor, label: Tensor, multiplicity: Tensor | None) -> Annotations:
        return replace(
            self,
            item=torch.arange(len(owner), device=self.device),
            worker=worker,
            label=label,
            truth=self.truth[owner],
            items=self.items[owner.cpu().numpy()],
            multiplicity=multiplicity,
            weight=None if self.weight is None else self.weight[owner],
            timestamp=None,
            seconds=None,
            start=None if self.start is None else self.start[owner],
            parent_item=owner,
        )

    @arguments.checked(index=arguments.positions)
    def batch(self, index: Tensor) -> Annotations:
        """Return the annotations of the items ``index`` ``(B,)``, renumbered ``0..B-1``; workers and classes stay."""
        ends = self.annotations_per_item.cumsum(0)
        size = self.annotations_per_item[index]  # (B,)
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
            features=None
            if self.features is None
            else self.features[index if self.parent_item is None else self.parent_item[index]],
            multiplicity=None if self.multiplicity is None else self.multiplicity[index],
            weight=None if self.weight is None else self.weight[index],
            timestamp=None if self.timestamp is None else self.timestamp[row],
            seconds=None if self.seconds is None else self.seconds[row],
            start=None if self.start is None else self.start[index],
            parent_item=None,
        )

    @arguments.checked(annotations=arguments.mask)
    def keep(self, annotations: Tensor) -> Annotations:
        """Return the same items and workers with some of the annotations only.

        Args:
            annotations: ``(A,)``, true where kept.
        """
        picked = annotations.to(self.device)
        parts = {name: getattr(self, name)[picked] for name in ("item", "worker", "label")}
        for name in ("timestamp", "seconds"):
            value = getattr(self, name)
            parts[name] = None if value is None else value[picked]
        return replace(self, notes=(), **parts)

    def __repr__(self) -> str:
        known = int((self.truth >= 0).sum())
        return (
            f"Annotations({self.A:,} annotations of {self.N:,} items by {self.J:,} workers in {self.K:,} classes"
            f"{f', truth of {known:,} items known' if known else ''})"
        )

    # ------------------------------------------------------------------ ways in

    @classmethod
    @arguments.checked(
        frame=arguments.anything,
        task=arguments.anything,
        worker=arguments.anything,
        label=arguments.anything,
        truth=arguments.anything,
        labels=arguments.anything,
        items=arguments.anything,
        workers=arguments.anything,
        repeats=arguments.choice("keep", "last", "refuse"),
        features=arguments.anything,
        worker_features=arguments.anything,
        timestamp=arguments.anything,
        seconds=arguments.anything,
        source=arguments.text,
    )
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        truth: Truth = None,
        labels: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        workers: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
        features: Any = None,
        worker_features: Any = None,
        timestamp: str | None = None,
        seconds: str | None = None,
        source: str = "the frame",
    ) -> Annotations:
        """Take annotations from a table with a row for each.

        Args:
            frame: the table: of pandas, or of any library that speaks Arrow's PyCapsule protocol or the dataframe interchange
                protocol (Polars, PyArrow, DuckDB).
            task: column of the item's identifier; ``"task"``, else ``"item"``, where not given.
            worker: column of the worker's identifier; ``"worker"`` where not given.
            label: column of the label; ``"label"`` where not given. A row without a label is dropped and counted.
            truth: known truths, which clamp their items in every engine: a column of the table (blank where unknown),
                a mapping or Series from item to class, or a frame with the item's and the label's column, called as in the
                table or by their usual names.
            labels: all classes in the order wanted; those that occur, sorted, where not given. A categorical label
                column declares its categories.
            items: all items, should some have no annotation; those that occur, in order of appearance, where not given.
            workers: likewise all workers.
            repeats: what to do where a worker judged an item more than once: ``"keep"`` each as evidence of its own,
                keep the ``"last"``, or ``"refuse"``.
            features: numbers known of the items, see :meth:`with_features`.
            worker_features: numbers known of the workers.
            timestamp: column of each annotation's moment, a number or a date; blank where unknown. For change over time.
            seconds: column of how long each annotation took; blank where unknown.
            source: name of the table, for messages.

        Raises:
            DataError: says what is wrong, in which rows and column, and how to mend it.
            OptionError: for an unknown ``repeats``.
        """
        frame = to_pandas(frame, source, ", or use from_arrays")
        task, worker, label = three_columns(frame, (task, worker, label), source)
        if labels is None and isinstance(frame[label].dtype, pd.CategoricalDtype):
            labels = frame[label].cat.categories
        made = fields(
            frame[task],
            frame[worker],
            frame[label],
            truth=truth_columns(frame, (task, label), truth, source),
            names=(task, worker, label),
            declared=(items, workers, labels),
            repeats=repeats,
            source=source,
            timings={
                field: frame[column_of(frame, name, (), source, "", field)]
                for field, name in (("timestamp", timestamp), ("seconds", seconds))
                if name is not None
            },
        )
        made["notes"] += unquoted(frame, (task, worker, label), source)
        return cls(**made, item_column=item_column(task), repeats=repeats).with_features(
            features, workers=worker_features
        )

    @classmethod
    @arguments.checked(
        frame=arguments.anything,
        task=arguments.anything,
        labels=arguments.a_list,
        truth=arguments.anything,
        features=arguments.anything,
        source=arguments.text,
    )
    def from_counts(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        labels: Iterable[Any] | None = None,
        truth: Truth = None,
        features: Any = None,
        source: str = "the counts",
    ) -> Annotations:
        """Take label counts per item, the *global* setting: nobody knows who gave which label.

        All annotations are ascribed to one worker, ``"crowd"``: models that ask who is good see a crowd, not its members.

        Args:
            frame: a row for each item, a column of counts for each class; a table of any kind as in :meth:`from_frame`.
            task: column of the item's identifier; ``"task"``, else ``"item"``, else the frame's index, where not given.
            labels: names of the classes, in the order of the count columns; the columns' own names where not given.
            truth: known truths, a mapping or Series from item to class.
            features: numbers known of the items, see :meth:`with_features`.
            source: name of the table, for messages.

        Raises:
            DataError: where a count is missing, negative or not a whole number.
        """
        frame = to_pandas(frame, source, ", with a row for each item")
        items, classes, counts = count_table(frame, task, labels, source)
        row, column = counts.nonzero()
        often = counts[row, column]
        named = task if task is not None else next((c for c in ITEM_COLUMNS if c in frame.columns), frame.index.name)
        made = cls.from_frame(
            pd.DataFrame(
                {
                    "task": items[row.repeat(often)],
                    "worker": pd.Series([CROWD], dtype=object).repeat(int(often.sum())).to_numpy(),
                    "label": classes[column.repeat(often)],
                }
            ),
            items=items,
            labels=classes,
            truth=truth,
            features=features,
            source=source,
        )
        # Of a crowd's counts repeats are the point.
        notes = tuple(note for note in made.notes if "repeated annotations" not in note)
        return replace(made, notes=notes, item_column=item_column(named))

    @classmethod
    @arguments.checked(
        task=arguments.anything,
        worker=arguments.anything,
        label=arguments.anything,
        truth=arguments.anything,
        labels=arguments.anything,
        items=arguments.anything,
        workers=arguments.anything,
        repeats=arguments.choice("keep", "last", "refuse"),
        features=arguments.anything,
        worker_features=arguments.anything,
    )
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
        features: Any = None,
        worker_features: Any = None,
    ) -> Annotations:
        """Take annotations from three arrays of one length ``(A,)``; the rest as in :meth:`from_frame`."""
        columns = {name: series(v, name) for name, v in {"task": task, "worker": worker, "label": label}.items()}
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
            raise DataError(f"the arrays differ in length: {told}; pass one of each for every annotation")
        if isinstance(truth, str):
            raise DataError("truth names a column, but from_arrays has none; pass a mapping from item to class")
        return cls.from_frame(
            pd.DataFrame(columns),
            truth=truth,
            labels=labels,
            items=items,
            workers=workers,
            repeats=repeats,
            features=features,
            worker_features=worker_features,
            source="the arrays",
        )

    @classmethod
    @arguments.checked(path=arguments.input_path, options=arguments.anything)
    def from_csv(cls, path: str | Path, **options: Any) -> Annotations:
        """Read a CSV file (plain or compressed); options as in :meth:`from_frame`.

        Identifiers stay as written: ``007`` is a string, a column is taken as integers only where every one of its
        values is written as an integer would be. Only blank cells, ``nan`` and ``NaN`` are missing: ``NA`` may be a class.

        Raises:
            FileError: where the file cannot be read as CSV.
            DataError: as :meth:`from_frame`, naming the file.
        """
        return cls._from_long(long_csv, path, options)

    @classmethod
    @arguments.checked(path=arguments.input_path, options=arguments.anything)
    def from_parquet(cls, path: str | Path, **options: Any) -> Annotations:
        """Read a Parquet file; options as in :meth:`from_frame`, errors as in :meth:`from_csv`."""
        return cls._from_long(long_parquet, path, options)

    @classmethod
    def _from_long(cls, read: Callable[..., pd.DataFrame], path: str | Path, options: Mapping[str, Any]) -> Annotations:
        made = cls.from_frame(read(path, columns=_needed(options)), source=source_name(path), **options)
        let_go()
        return made


def _needed(options: Mapping[str, Any]) -> list[Any] | None:
    """Return the columns that the options of :meth:`Annotations.from_frame` name; ``None`` where they leave some to be found."""
    named = [options.get(name) for name in ("task", "worker", "label")]
    also = [options[name] for name in ("truth", "timestamp", "seconds") if isinstance(options.get(name), str)]
    return None if None in named else [*named, *also]


def _names(features: Any, names: Any) -> Array:
    if not hasattr(features, "__len__") or getattr(features, "ndim", 1) == 0:
        raise DataError(
            f"features={arguments.shown(features)}; it must be a frame or an array of numbers, a row for each"
        )
    if names is None:
        names = features.index if isinstance(features, pd.DataFrame) else np.arange(len(features))
    return clean(pd.Series(names).reset_index(drop=True), "name", "the new rows")[0]
