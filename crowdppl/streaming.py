"""Judgements that do not fit in memory: a Parquet data set gone through from disk, some items at a time, by stepwise EM.

O. Cappe and E. Moulines (2009). On-line expectation-maximization algorithm for latent data models. JRSS B 71(3), 593-613;
P. Liang and D. Klein (2009). Online EM for unsupervised models. NAACL. The sums that an M step takes are a running average over
batches, each scaled up to all items, with weights ``(t + 2) ** -forget`` for the ``t``-th batch. One such pass does what several
of plain EM do, and leaves the noise of its last batches, which plain passes then take away. In memory are the workers' tables,
the names of workers, a number for each item, and one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet
import torch
from torch import Tensor

from crowdppl.annotations import Annotations
from crowdppl.draws import Report, positive, whole
from crowdppl.errors import DataError, FileError, ModelError, OptionError, suggestion
from crowdppl.files import atomic
from crowdppl.inference import named_model
from crowdppl.intake import ITEM_COLUMNS, LABEL_COLUMNS, WORKER_COLUMNS
from crowdppl.io.tables import BROKEN, unreadable_parquet
from crowdppl.model import AnnotationModel, Parameters, Sums, provides
from crowdppl.sweeps import Sweeps, plain, suits

Array = npt.NDArray[Any]
# Rows of a batch: the tables of all workers are gone through once a batch, which is to be little beside its judgements.
ROWS = 2_000_000


@dataclass(frozen=True)
class Streamed:
    """What was found without holding the judgements in memory: a point, no posterior.

    Attributes:
        parameters: of the model, by site.
        workers: a row for each: ``worker``, ``judgements``, ``accuracy`` (at the point).
        labels: the classes, ``(K,)``.
        log_posterior: at each pass, before its M step; in the first, parameters change on the way.
        items: how many there are.
        judgements: how many there are.
    """

    parameters: Parameters
    workers: pd.DataFrame
    labels: Array
    log_posterior: list[float]
    items: int
    judgements: int


def stream(
    path: str | Path,
    model: str | AnnotationModel = "dawid-skene",
    *,
    truth: str | Path | None = None,
    passes: int = 4,
    rows: int = ROWS,
    forget: float = 0.7,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    progress: Report | None = None,
) -> Streamed:
    """Fit a model to a Parquet file, or a folder of them, that need not fit in memory.

    Args:
        path: of the file or folder. The rows of an item must follow each other; they may be in any order otherwise.
        model: a name of the zoo or an instance, with an M step from sums over items (``m_step_from``).
        truth: Parquet file for the consensus, written as it is found: ``task``, ``label``, ``probability``.
        passes: over all judgements to learn from: the first by stepwise EM from a majority vote, the others by plain EM. One more
            writes ``truth``.
        rows: judgements of a batch, about.
        forget: how fast early batches are forgotten, above 0.5 and at most 1.
        task: column of the item, as in :meth:`Annotations.from_frame`.
        worker: likewise.
        label: likewise.
        progress: called with (step, steps, what).

    Raises:
        FileError: where nothing can be read or written.
        DataError: where a column or a name is missing, there is one class only, or the rows of an item are apart.
        ModelError: where the model needs more than sums over items.
        OptionError: for a value outside its range.
    """
    whole("passes", passes, 1)
    whole("rows", rows, 1)
    if not 0.5 < positive("forget", forget) <= 1:
        raise OptionError(f"forget={forget!r}; it must be above 0.5 and at most 1")
    chosen = named_model(model)
    if not provides(chosen, "m_step_from"):
        raise ModelError(f"{type(chosen).__name__} learns from more than sums over items; it cannot be streamed")
    source = _Source(path, (task, worker, label), rows)
    sizes = source.empty()
    steps, done = (passes + (truth is not None)) * source.rows, 0
    average: Sums | None = None
    parameters: Parameters = {}
    trace: list[float] = []
    t = 0
    with torch.no_grad():
        for number in range(passes):
            whole_pass, total = number > 0, 0.0
            learned: Sums | None = None
            for batch in source.batches():
                sums = _sums(chosen, parameters, batch)
                total += float(sums.log_likelihood)
                if whole_pass:
                    learned = sums if learned is None else Sums(*(a + b for a, b in zip(learned, sums, strict=True)))
                else:
                    scaled = Sums(sums.log_likelihood, *(part * (source.items / batch.N) for part in sums[1:]))
                    average = scaled if average is None else _mixed(average, scaled, (t + 2.0) ** -forget)
                    # The M step may keep the memory of what it is given.
                    parameters = chosen.m_step_from(Sums(*(part.clone() for part in average)), sizes)
                t, done = t + 1, done + batch.A
                if progress is not None:
                    progress(done, steps, f"pass {number + 1}")
            if learned is not None:
                parameters = chosen.m_step_from(learned, sizes)
            trace.append(total + float(chosen.log_prior(parameters, sizes)))
        if truth is not None:
            _write(Path(truth), chosen, parameters, source)
    confusion, prevalence = chosen.table(parameters), chosen.log_truth(parameters, sizes).exp()
    accuracy = torch.einsum("k,jkk->j", prevalence, confusion).numpy()
    table = pd.DataFrame({"worker": source.workers, "judgements": source.each, "accuracy": accuracy})
    return Streamed(parameters, table, source.labels, trace, source.items, source.rows)


def _mixed(average: Sums, found: Sums, weight: float) -> Sums:
    parts = (a.lerp(b, weight) for a, b in zip(average[1:], found[1:], strict=True))
    return Sums(found.log_likelihood, *parts)


def _sums(model: AnnotationModel, parameters: Parameters, batch: Annotations) -> Sums:
    """Return the sums of a batch at the parameters; without any, those of a majority vote."""
    quick = Sweeps(batch) if suits(batch, batch.K * model.states_per_class) else None
    if not parameters:
        share = model.starting(batch)
        nothing = torch.zeros((), dtype=torch.float64)
        found = quick.given(share) if quick else Sums(nothing, share.sum(0), batch.counts.expected(share))
        return found._replace(log_likelihood=nothing)
    table, prior = model.table(parameters), model.log_truth(parameters, batch).exp()
    return quick.expect(table, prior) if quick else plain(table, prior, batch)


def _probabilities(model: AnnotationModel, parameters: Parameters, batch: Annotations) -> Tensor:
    table, prior = model.table(parameters), model.log_truth(parameters, batch).exp()
    if not suits(batch, batch.K * model.states_per_class):
        return model.item_log_joint(parameters, batch).softmax(-1)
    out = torch.empty(batch.N, batch.K, dtype=batch.dtype)
    Sweeps(batch).expect(table, prior, None, out)
    return out


def _write(path: Path, model: AnnotationModel, parameters: Parameters, source: _Source) -> None:
    with atomic(path) as temporary:
        writer = None
        for batch in source.batches():
            top = _probabilities(model, parameters, batch).max(-1)
            table = pyarrow.table(
                {
                    "task": source.tasks(batch),
                    "label": pyarrow.array(source.labels[top.indices.numpy()]),
                    "probability": top.values.numpy(),
                }
            )
            writer = pyarrow.parquet.ParquetWriter(temporary, table.schema) if writer is None else writer
            writer.write_table(table)
        if writer is not None:
            writer.close()


class _Source:
    """A Parquet data set, gone through once for its names, then as often as asked for in batches of whole items.

    Attributes:
        workers: their names, ``(J,)``.
        labels: the classes, sorted, ``(K,)``.
        each: judgements of each worker, ``(J,)``.
        items: how many there are.
        rows: judgements.
    """

    def __init__(self, path: str | Path, columns: Sequence[str | None], rows: int):
        self.path, self.size = Path(path), rows
        if not self.path.exists():
            raise FileError(f"no file {path}; check the name and the folder")
        try:
            self.data = pyarrow.dataset.dataset(self.path, format="parquet")
            there = self.data.schema.names
        except BROKEN as error:
            raise unreadable_parquet(self.path, error) from None
        usual = (ITEM_COLUMNS, WORKER_COLUMNS, LABEL_COLUMNS)
        self.columns = [self._column(name, u, there) for name, u in zip(columns, usual, strict=True)]
        self._index()

    def _column(self, name: str | None, usual: tuple[str, ...], there: Sequence[str]) -> str:
        for wanted in (name,) if name is not None else usual:
            if wanted in there:
                return str(wanted)
        wanted = name or usual[0]
        raise DataError(
            f"{self.path.name}: no column {wanted!r}{suggestion(wanted, there)}; columns are {', '.join(there)}"
        )

    def _pieces(self) -> Iterator[list[Any]]:
        """Go through the columns, some rows at a time."""
        try:
            for piece in self.data.to_batches(
                columns=self.columns, batch_size=min(self.size, 2**20), batch_readahead=2
            ):
                if len(piece):
                    yield [_flat(piece.column(n)) for n in range(3)]
        except BROKEN as error:
            raise unreadable_parquet(self.path, error) from None

    def _index(self) -> None:
        """Learn the names of workers and classes, and that the rows of each item are together."""
        workers: list[Any] = []
        labels: list[Any] = []
        seen: list[Array] = []
        self.rows, last = 0, None
        for task, worker, label in self._pieces():
            for column, role in zip((task, worker, label), ("task", "worker", "label"), strict=True):
                if column.null_count:
                    raise DataError(
                        f"{self.path.name}, near row {self.rows + 1:,}: {role} missing; drop such rows before streaming"
                    )
            workers = [pyarrow.compute.unique(pyarrow.concat_arrays([*workers, worker.unique()]))]
            labels = [pyarrow.compute.unique(pyarrow.concat_arrays([*labels, label.unique()]))]
            first = _first_of_runs(task)
            if last is not None and task[0].as_py() == last:
                first = first[1:]
            # A number for each run: two runs of one item have the same.
            seen.append(pd.util.hash_array(task.take(pyarrow.array(first)).to_numpy(zero_copy_only=False)))
            self.rows, last = self.rows + len(task), task[-1].as_py()
        if not self.rows:
            raise DataError(f"{self.path.name}: no rows; at least one judgement is needed")
        runs = np.concatenate(seen)
        self.items = len(runs)
        if len(np.unique(runs)) < len(runs):
            raise DataError(
                f"{self.path.name}: the rows of an item are apart; sort the data by {self.columns[0]!r} before streaming"
            )
        self._workers = workers[0]
        self._labels = labels[0].take(pyarrow.compute.sort_indices(labels[0]))
        self.workers = self._workers.to_numpy(zero_copy_only=False)
        self.labels = self._labels.to_numpy(zero_copy_only=False)
        if len(self.labels) < 2:
            raise DataError(
                f"{self.path.name}: every label is {self.labels[0]!r}; two classes are needed to learn from"
            )
        self.each = np.zeros(len(self.workers), dtype=np.int64)
        for _, worker, _ in self._pieces():
            self.each += np.bincount(self._codes(worker, self._workers), minlength=len(self.each))

    def _codes(self, column: Any, names: Any) -> Array:
        return np.asarray(pyarrow.compute.index_in(column, value_set=names)).astype(np.int64)

    def batches(self) -> Iterator[Annotations]:
        """Go through the judgements, whole items at a time."""
        held: list[list[Any]] = []
        size = 0
        for piece in self._pieces():
            held.append(piece)
            size += len(piece[0])
            if size >= self.size:
                columns = [pyarrow.concat_arrays([p[n] for p in held]) for n in range(3)]
                # The last item may go on in the next piece.
                cut = int(_first_of_runs(columns[0])[-1])
                if cut == 0:
                    held, size = [columns], len(columns[0])
                    continue
                yield self._annotations([column.slice(0, cut) for column in columns])
                held = [[column.slice(cut) for column in columns]]
                size = len(held[0][0])
        if size:
            yield self._annotations([pyarrow.concat_arrays([p[n] for p in held]) for n in range(3)])

    def _annotations(self, columns: Sequence[Any]) -> Annotations:
        task, worker, label = columns
        first = _first_of_runs(task)
        run = np.zeros(len(task), dtype=np.int64)
        run[first[1:]] = 1
        return self._made(
            np.cumsum(run),
            self._codes(worker, self._workers),
            self._codes(label, self._labels),
            task.take(pyarrow.array(first)),
        )

    def _made(self, item: Array, worker: Array, label: Array, tasks: Any) -> Annotations:
        made = Annotations(
            item=torch.from_numpy(item),
            worker=torch.from_numpy(worker),
            label=torch.from_numpy(label),
            truth=torch.full((len(tasks),), -1),
            items=np.arange(len(tasks)),
            workers=self.workers,
            labels=self.labels,
        )
        self._tasks = tasks
        return made

    def tasks(self, batch: Annotations) -> Any:
        """Return the names of the items of the batch gone to last."""
        assert len(self._tasks) == batch.N
        return self._tasks

    def empty(self) -> Annotations:
        """Return data with these workers and classes and nothing else: sizes for an M step."""
        none = np.zeros(0, dtype=np.int64)
        return self._made(none, none, none, pyarrow.array([]))


def _flat(column: Any) -> Any:
    """Return a column without a dictionary, in one piece."""
    return column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column


def _first_of_runs(task: Any) -> Array:
    """Return where runs of equal values begin, ``(runs,)``."""
    if len(task) == 0:
        return np.zeros(0, dtype=np.int64)
    differs = pyarrow.compute.not_equal(task.slice(1), task.slice(0, len(task) - 1))
    return np.concatenate([[0], 1 + np.flatnonzero(np.asarray(differs))])
