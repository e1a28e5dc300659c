"""The result of a fit: an xarray DataTree in the ArviZ schema, and tidy views of it.

Knows no engine and no model: whatever is in the tree is all there is, so that a loaded result is as good as a fresh one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import safetensors.torch
import torch
import xarray as xr

from crowdppl import arguments, workers
from crowdppl.arguments import checked
from crowdppl.errors import DataError, FileError, OptionError, listed, suggestion
from crowdppl.files import atomic, require_room
from crowdppl.identifiers import class_columns
from crowdppl.isolation import same_filters
from crowdppl.schema import validate
from crowdppl.workers import USUAL
from crowdppl.workers import measure as measure_of

Array = npt.NDArray[Any]

# Raised by one whenever a file written today could not be read by yesterday's code.
FORMAT = 1
RIGHT = ("share_right", "share_right_low", "share_right_high")
# Workers summarised at a time, in numbers of draws x cells: bounds the memory of the tables.
TABLE_CELLS = 2**24
# Bytes of a result's file beside its numbers.
HEADERS = 2**18
# Bytes of a text in a file beside its letters.
TEXT = 24
# Items whose entropies are computed in one go.
_PIECE = 2**15


class Posterior:
    """What is known after a fit.

    ``tree`` holds, with the caller's identifiers as coordinates ``item``, ``worker``, ``klass`` (the true class) and ``answer``
    (the label given; ArviZ keeps the name ``label`` for itself):

    - ``posterior``: parameters ``(chain, draw, ...)``, and ``confusion (chain, draw, worker, klass, answer)`` and ``prevalence
      (chain, draw, klass)`` for every model. For EM and SVI an approximation: ``how`` says which. Where truths and workers
      allow for judgements that err together (``correlation`` says so), these two follow the truths drawn, and ``rho (chain,
      draw)`` is the correlation drawn.
    - ``as_published``: there, the model's own ``confusion`` and ``prevalence``, where it has parameters of these names.
    - ``point``: the mode, for EM.
    - ``truth``: ``probability (item, klass)``, ``as_published`` where that differs, and ``draw_of (chain, draw, item)``, a truth
      drawn with each draw of the parameters (index into ``klass``).
    - ``log_likelihood``: ``labels (chain, draw, item)``, all labels of an item together, the truth summed out.
    - ``sample_stats``: ``lp (chain, draw)``, and the engine's trace of its objective.
    - ``annotation``: what a model says of single judgements, averaged over draws, where it says something.
    - ``networks``: the weights of networks in the safetensors format, see :attr:`networks`.
    - ``observed_data``, ``constant_data``: labels, items and workers of the judgements, known truths.

    Attributes:
        tree: the whole result, which ArviZ's functions take as it is.
    """

    def __init__(self, tree: xr.DataTree):
        if not isinstance(tree, xr.DataTree):
            raise DataError(f"tree is a {type(tree).__name__}; pass an xarray.DataTree, or use crowdppl.load")
        missing = {"posterior", "truth", "constant_data", "observed_data"} - set(tree.children)
        if missing or "crowdppl_format" not in tree.attrs:
            raise DataError(
                f"not a result of crowdppl: the tree lacks {', '.join(sorted(missing)) or 'its format number'}"
            )
        self.tree = tree

    # ------------------------------------------------------------------ what it is

    @property
    def info(self) -> dict[str, Any]:
        """Model, method, options, seed, versions and facts of the run."""
        return dict(json.loads(self.tree.attrs["run"]))

    @property
    def how(self) -> str:
        """Where the intervals come from, in a sentence."""
        return str(self.tree.attrs["how"])

    @property
    def correlation(self) -> str:
        """Whether truths and workers allow for judgements of one item that err together, and how, in a sentence."""
        return str(self.tree.attrs.get("correlation", ""))

    @property
    def coverage(self) -> str:
        """How often intervals like these held on real data, in a sentence: the footnote of every interval shown."""
        return str(self.tree.attrs.get("coverage", ""))

    @property
    def kind(self) -> str:
        """``posterior``, ``approximation`` or ``point``: what the draws are."""
        return str(self.tree.attrs["kind"])

    @property
    def warnings(self) -> list[str]:
        """What the user should know before relying on the result."""
        return list(json.loads(self.tree.attrs["warnings"]))

    @property
    def notes(self) -> list[str]:
        """What was dropped, merged or odd in the data."""
        return list(json.loads(self.tree.attrs["notes"]))

    @property
    def labels(self) -> Array:
        """The classes, in order."""
        return self._values("posterior", "klass")

    @property
    def item_column(self) -> str:
        """What tables call the column of items: ``"item"`` where the annotations' own column was called so, else ``"task"``."""
        return str(self.tree.attrs.get("item_column", "task"))

    def __repr__(self) -> str:
        sizes = self.tree["posterior"].sizes
        info = self.info
        return (
            f"Posterior({info['model']} by {info['method']}: {self.tree['truth'].sizes['item']:,} items, "
            f"{sizes['worker']:,} workers, {sizes['klass']} classes; "
            f"{sizes['chain']} x {sizes['draw']:,} draws, {self.kind})"
        )

    @property
    def networks(self) -> dict[str, torch.Tensor]:
        """Weights and buffers of the model's networks by name, empty where it has none; ``crowdppl.predict`` uses them.

        For a file of your own: ``safetensors.torch.save_file(posterior.networks, path)``.
        """
        if "networks" not in self.tree.children:
            return {}
        return dict(safetensors.torch.load(self._values("networks", "safetensors").astype(np.uint8).tobytes()))

    # ------------------------------------------------------------------ tidy views

    def truth(self) -> pd.DataFrame:
        """Return a row for each item.

        Columns: ``task`` (``item`` where the annotations' own column was called so, see :attr:`item_column`); ``label``, the
        most probable class (the first of equals); ``probability`` of it; ``entropy`` of the item's distribution in bits; and
        ``p_<class>`` for every class.
        """
        return truth_table(
            self._values("truth", "item"), self.labels, self._values("truth", "probability"), self.item_column
        )

    @arguments.checked(
        level=arguments.level,
        sort=arguments.text,
        minimum=arguments.whole(0),
        measures=arguments.several(arguments.text, 0),
        cost=arguments.anything,
    )
    def workers(
        self,
        *,
        level: float | None = None,
        sort: str | None = None,
        minimum: int = 0,
        measures: Iterable[str] = USUAL,
        cost: Any = None,
    ) -> pd.DataFrame:
        """Return a row for each worker, every quality with the ends of its interval.

        Columns: ``worker``; ``judgements``; ``share_right``, the share of the worker's own judgements that are right (by the
        truth of each draw); ``accuracy`` under the prevalence, that of judgements yet to come; ``sensitivity_<class>``, the
        probability of the right label in each class; ``informativeness`` in bits; each followed by ``_low`` and ``_high``. Then
        ``rank`` by accuracy with ``rank_low`` and ``rank_high``, and ``place``, the same in words, see
        :func:`crowdppl.workers.place`; ``spammer``, the probability of one whose labels do not depend on the truth;
        ``adversarial``, that of one who avoids the correct label; ``verdict``, see :func:`crowdppl.workers.verdicts`; and
        ``seconds``, the median of a judgement, where times are known.

        Args:
            level: probability of the intervals (equal-tailed); ArviZ's default, .89, where not given.
            sort: column to sort by, best first; the order of the data where not given. A column with an interval is sorted by
                its worse end, so that few judgements do not put a worker at the top.
            minimum: leave out workers with fewer judgements, who then have no rank.
            measures: what to show, names of :data:`crowdppl.workers.MEASURES`, ``sensitivity`` and ``specificity``.
            cost: of errors, for ``expected_cost`` and ``cost_quality``, see :func:`crowdppl.workers.expected_cost`.

        Raises:
            OptionError: for a level outside (0, 1), an unknown column or measure.
        """
        parts: dict[str, list[Array]] = {}
        accuracy = []
        for _, confusion, prevalence in self.by_workers():
            for name, draws in workers.qualities(confusion, prevalence, self.labels, measures, cost).items():
                for suffix, value in zip(("", "_low", "_high"), workers.interval(draws, level), strict=True):
                    parts.setdefault(name + suffix, []).append(value)
            accuracy.append(workers.accuracy(confusion, prevalence))
        right = dict(zip(RIGHT, workers.interval(self.shares_right(), level), strict=True))
        table = pd.DataFrame(
            {"worker": self.worker_names(), "judgements": self.judgements()}
            | right
            | {name: np.concatenate(values) for name, values in parts.items()}
        )
        enough = (table["judgements"] >= minimum).to_numpy()
        probabilities = workers.hypotheses(self)
        table["spammer"], table["adversarial"] = probabilities[:, 1], probabilities[:, 2]
        verdict = workers.verdicts(self, probabilities)
        if "seconds" in self.tree["constant_data"]:
            table["seconds"] = workers.seconds(self)
        table = table[enough].reset_index(drop=True)
        if len(table):
            ranks = workers.place(workers.rank(np.concatenate(accuracy, axis=1)[:, enough]), level)
            table = pd.concat([table, ranks], axis=1)
            table["verdict"] = verdict[enough]
        if sort is not None:
            table = _sorted(table, sort)
        return table

    @arguments.checked(by=arguments.text, workers=arguments.several(arguments.identifier), cost=arguments.anything)
    def measure(self, by: str = "accuracy", *, workers: Iterable[Any] | None = None, cost: Any = None) -> Array:
        """Return draws of a measure of workers, ``(S, J)``: what every comparison is made of.

        Args:
            by: a name of :data:`crowdppl.workers.MEASURES`.
            workers: of these only, in this order; all where not given.
            cost: see :func:`crowdppl.workers.expected_cost`.

        Raises:
            OptionError: for an unknown measure.
            DataError: for an unknown worker.
        """
        if workers is not None:
            chosen = np.array([self.worker_index(name) for name in workers])
            return measure_of(by, self.draws("confusion", worker=chosen), self.draws("prevalence"), cost)
        return np.concatenate([measure_of(by, c, p, cost) for _, c, p in self.by_workers()], axis=1)

    @arguments.checked(worker=arguments.identifier, level=arguments.level)
    def confusion(self, worker: Any = None, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each cell of a worker's confusion matrix, or of every worker's.

        Columns: ``worker`` (where all are asked for), ``truth``, ``label``, ``probability`` of that label under that truth, and
        the ends of its interval ``low`` and ``high``. ``.pivot(index="truth", columns="label", values="probability")`` is the
        matrix.

        Raises:
            DataError: for an unknown worker.
        """
        names = self.worker_names()
        if worker is not None:
            chosen = np.array([self.worker_index(worker)])
            parts = [workers.interval(self.draws("confusion", worker=chosen), level)]
        else:
            chosen = np.arange(len(names))
            parts = [workers.interval(confusion, level) for _, confusion, _ in self.by_workers()]
        mean, low, high = (np.concatenate(part).reshape(-1) for part in zip(*parts, strict=True))
        K = len(self.labels)
        table = pd.DataFrame(
            {
                "worker": np.repeat(names[chosen], K * K),
                "truth": np.tile(np.repeat(self.labels, K), len(chosen)),
                "label": np.tile(self.labels, K * len(chosen)),
                "probability": mean,
                "low": low,
                "high": high,
            }
        )
        return table if worker is None else table.drop(columns="worker")

    @arguments.checked(level=arguments.level)
    def prevalence(self, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each class: ``label``, ``share`` of items, ``low``, ``high``."""
        mean, low, high = workers.interval(self.draws("prevalence"), level)
        return pd.DataFrame({"label": self.labels, "share": mean, "low": low, "high": high})

    # ------------------------------------------------------------------ what tables are made of

    @arguments.checked(name=arguments.text, at=arguments.anything)
    def draws(self, name: str, **at: Any) -> Array:
        """Return draws of a variable of ``posterior`` chains end to end, ``(S, ...)``; ``at`` selects along its axes."""
        group = self.tree["posterior"].to_dataset()
        if name not in group.data_vars:
            known = [str(variable) for variable in group.data_vars]
            raise OptionError(
                f"name={name!r}: no such variable{suggestion(name, known)}; there are {listed(known, 20)}"
            )
        values = np.asarray(group[name].isel(at).values)
        return values.reshape(-1, *values.shape[2:])

    def truth_draws(self) -> Array:
        """Return the truths drawn, codes into ``labels``: ``(S, N)``."""
        truth = self._values("truth", "draw_of")
        return truth.reshape(-1, truth.shape[-1])

    def probability(self) -> Array:
        """Return the probability of each class for each item, ``(N, K)``."""
        return self._values("truth", "probability")

    def published(self) -> Array:
        """Return the probability of each class for each item by the model as published, ``(N, K)``."""
        name = "as_published" if "as_published" in self.tree["truth"].data_vars else "probability"
        return self._values("truth", name)

    def crowd(self) -> Array:
        """Return draws of the mean confusion of the crowd, workers taken by their numbers of judgements: ``(S, K, K)``."""
        share = self.judgements() / max(1, len(self.judged()[0]))
        parts = [np.einsum("j,sjkl->skl", share[part], confusion) for part, confusion, _ in self.by_workers()]
        return np.sum(parts, axis=0)

    def items(self) -> Array:
        """Return the items' identifiers, ``(N,)``."""
        return self._values("truth", "item")

    def worker_names(self) -> Array:
        """Return the workers' identifiers, ``(J,)``."""
        return self._values("posterior", "worker")

    @arguments.checked(worker=arguments.identifier)
    def worker_index(self, worker: Any) -> int:
        """Return the place of a worker.

        Raises:
            DataError: for an unknown one.
        """
        names = self.worker_names().tolist()
        for n, name in enumerate(names):
            if name == worker and isinstance(name, str) == isinstance(worker, str):
                return n
        raise DataError(f"no worker {worker!r} in this result{suggestion(worker, names)}")

    def judged(self) -> tuple[Array, Array, Array]:
        """Return item, worker and label of each judgement as codes, each ``(A,)``, sorted by item."""
        item, worker = (self._values("constant_data", f"{name}_index") for name in ("item", "worker"))
        return item, worker, self._values("observed_data", "labels")

    @arguments.checked(name=arguments.text)
    def per_judgement(self, name: str) -> Array:
        """Return what is known of each judgement besides, ``when`` or ``seconds``: ``(A,)``, NaN where unknown.

        Raises:
            OptionError: where the judgements were given without.
        """
        if name not in self.tree["constant_data"]:
            raise OptionError(f"the judgements carry no {name!r}; name its column with from_frame(..., {name}=...)")
        return self._values("constant_data", name)

    def known_truth(self) -> Array:
        """Return the classes the fit knew, codes ``(N,)``, -1 where it knew none."""
        return self._values("constant_data", "known_truth")

    def judgements(self) -> Array:
        """Return the number of each worker's judgements, ``(J,)``."""
        return np.bincount(self.judged()[1], minlength=len(self.worker_names()))

    def judgements_per_item(self) -> Array:
        """Return the number of judgements of each item, ``(N,)``."""
        return np.bincount(self.judged()[0], minlength=len(self.items()))

    def votes(self) -> Array:
        """Return how often each item was given each label, ``(N, K)``."""
        item, _, label = self.judged()
        return _table(item, label, len(self.items()), len(self.labels))

    def given(self) -> Array:
        """Return how often each worker gave each label, ``(J, K)``."""
        _, worker, label = self.judged()
        return _table(worker, label, len(self.worker_names()), len(self.labels))

    @arguments.checked(most=arguments.whole(1))
    def counts(self, most: int) -> Iterator[Array]:
        """Go through draws of the truth, at most ``most`` evenly spread, and count each worker's labels by it.

        Yields:
            How often each worker gave each label to items of each class, ``(J, K, K)`` as a confusion.
        """
        item, worker, label = self.judged()
        J, K = len(self.worker_names()), len(self.labels)
        truth = self.truth_draws()
        for s in np.unique(np.linspace(0, len(truth) - 1, min(most, len(truth))).astype(int)):
            cell = (worker * K + truth[s, item]) * K + label
            yield np.bincount(cell, minlength=J * K * K).reshape(J, K, K).astype(float)

    @arguments.checked(items=arguments.anything)
    def shares_right(self, items: Array | None = None) -> Array:
        """Return the share of each worker's own judgements that are right, by the truth of each draw: ``(S, J)``.

        NaN for a worker without judgements.

        Args:
            items: count judgements of these only, ``(N,)`` true or false; all where not given.
        """
        item, worker, label = self.judged()
        if items is not None:
            items = np.asarray(items)
            if items.shape != (len(self.items()),) or items.dtype.kind != "b":
                raise OptionError(
                    f"items={arguments.shown(items)}; it must be True or False for each of {len(self.items()):,} items"
                )
            kept = items[item]
            item, worker, label = item[kept], worker[kept], label[kept]
        J = len(self.worker_names())
        total = np.bincount(worker, minlength=J)
        right = np.stack([np.bincount(worker[state[item] == label], minlength=J) for state in self.truth_draws()])
        return np.where(total > 0, right / np.maximum(total, 1), np.nan)

    def by_workers(self) -> Iterator[tuple[slice, Array, Array]]:
        """Go through workers some at a time, so that memory stays bounded.

        Yields:
            Which workers, draws of their confusions ``(S, j, K, K)``, and of the prevalence ``(S, K)``.
        """
        prevalence = self.draws("prevalence")
        J, K = len(self.worker_names()), len(self.labels)
        step = max(1, TABLE_CELLS // (len(prevalence) * K * K))
        for start in range(0, J, step):
            part = slice(start, start + step)
            yield part, self.draws("confusion", worker=part), prevalence

    def _values(self, group: str, name: str) -> Array:
        return np.asarray(self.tree[group].to_dataset()[name].values)

    @arguments.checked(more=arguments.anything, options=arguments.anything)
    def update(self, more: Any, **options: Any) -> Posterior:
        """Return a fit to the judgements of this result and more, started from it: see :func:`crowdppl.updating.update`."""
        # The result itself knows no engine; who asks for a new fit has the library at hand.
        from crowdppl.updating import update

        return update(self, more, **options)

    # ------------------------------------------------------------------ files

    @arguments.checked(path=arguments.output_file)
    def save(self, path: str | Path) -> Path:
        """Write the whole result to one NetCDF file, in one go: an interruption leaves the old file or the new one.

        Raises:
            FileError: where the file cannot be written.
        """
        path = Path(path)
        # Whole numbers shrink to a tenth or so; the digits of draws hardly, and take most of the time.
        encoding = {
            f"/{group}": {
                name: {"zlib": True, "complevel": 1}
                for name, var in node.to_dataset(inherit=False).variables.items()
                if var.size > 1000 and var.dtype.kind in "iub"
            }
            for group, node in self.tree.children.items()
        }
        # HDF5 brings the whole process down where it cannot write: the room is made sure of first.
        require_room(path.parent, HEADERS + _size(self.tree), path.name)
        with atomic(path) as temporary:
            self.tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
        return path


def _size(tree: xr.DataTree) -> int:
    """Return how many bytes a file of a result has at most: its numbers, and its text, which arrays hold by reference."""
    total, texts = 0, dict[tuple[str, int], int]()
    for node in tree.subtree:
        for name, variable in node.to_dataset().variables.items():
            total += variable.nbytes
            if variable.dtype.kind == "O":
                kind = (str(name), variable.size)  # identifiers stand in several groups: looked at once
                if kind not in texts:
                    texts[kind] = len("".join(map(str, variable.values.ravel())).encode("utf-8", "replace"))
                total += texts[kind] + TEXT * variable.size
    return total


def _table(row: Array, column: Array, rows: int, columns: int) -> Array:
    return np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns)


def _sorted(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Sort workers by a column, best first, by the worse end of its interval where it has one; unknown ends come last."""
    if column not in table:
        raise OptionError(f"no column {column!r} to sort by{suggestion(column, table.columns)}")
    text = not pd.api.types.is_numeric_dtype(table[column])
    ascending = text or column in (*workers.LOWER_IS_BETTER, "rank", "spammer", "adversarial", "seconds")
    end = f"{column}_{'high' if ascending else 'low'}"
    keys = [key for key in (end, column) if key in table]
    return table.sort_values(keys, ascending=ascending, kind="stable").reset_index(drop=True)


@arguments.checked(
    items=arguments.a_list, labels=arguments.a_list, probability=arguments.anything, item_column=arguments.text
)
def truth_table(items: Array, labels: Array, probability: Array, item_column: str = "task") -> pd.DataFrame:
    """Return a row for each item from its class probabilities ``(N, K)``, as described in :meth:`Posterior.truth`."""
    best, bits = probability.argmax(-1), np.empty(len(probability), dtype=probability.dtype)
    for begin in range(0, len(bits), _PIECE):
        some = probability[begin : begin + _PIECE]
        # What is impossible adds nothing.
        logs = np.log2(some, out=np.zeros_like(some), where=some > 0)
        bits[begin : begin + _PIECE] = -np.einsum("nk,nk->n", some, logs)
    table = {
        item_column: items,
        "label": labels[best],
        "probability": probability[np.arange(len(best)), best],
        "entropy": np.maximum(bits, 0.0),
    }
    return pd.DataFrame(table | {name: probability[:, n] for n, name in enumerate(probability_columns(labels))})


def probability_columns(labels: Array) -> list[str]:
    """Return the columns of a table of truths that hold the probabilities of the classes."""
    return class_columns("p_", labels.tolist())


@checked(path=arguments.input_path)
def load(path: str | Path) -> Posterior:
    """Read a result written by :meth:`Posterior.save`, and check all of it, see :mod:`crowdppl.schema`.

    Raises:
        FileError: where the file is missing, damaged, of another kind, or of a later format.
    """
    path = Path(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file in it, such as {path / 'posterior.nc'}")
    if not path.is_file():
        raise FileError(f"no file {path}; check the name and the folder")
    try:
        # xarray adds to the filters of warnings at every file it reads.
        with same_filters(), xr.open_datatree(path, engine="h5netcdf") as opened:
            tree = opened.load()
            tree = tree.copy()
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        raise FileError(f"{path.name} is not a readable NetCDF file: {' '.join(str(error).split())[:120]}") from None
    written = tree.attrs.get("crowdppl_format")
    if written is None:
        raise FileError(f"{path.name} is a NetCDF file, but not one written by crowdppl")
    if not isinstance(written, (int, np.integer)):
        raise FileError(f"{path.name} is damaged or was changed: its format is {written!r}, not a number")
    if int(written) > FORMAT:
        raise FileError(f"{path.name} has format {written}, this crowdppl reads up to {FORMAT}; update crowdppl")
    try:
        validate(tree)
    except DataError as error:
        raise FileError(f"{path.name} is damaged or was changed: {error}; fit again, or take a copy of it") from None
    return Posterior(tree)
