"""The variables of a result: an xarray DataTree in the ArviZ schema, and arrays read off it.

Knows no engine and no model: whatever is in the tree is all there is, so that a loaded result is as good as a fresh one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
import xarray as xr

from crowdppl import arguments
from crowdppl.errors import DataError, OptionError, listed, suggestion
from crowdppl.posterior.measures import measure as measure_of

Array = npt.NDArray[Any]

# Workers summarised at a time, in numbers of draws x cells: bounds the memory of the tables.
TABLE_CELLS = 2**24


class PosteriorVariables:
    """What a result holds, as arrays; :class:`~crowdppl.Posterior` adds the tables.

    ``tree`` holds, with the caller's identifiers as coordinates ``item``, ``worker``, ``true_label`` (the true class) and ``given_label``
    (the label given; ArviZ keeps the name ``label`` for itself):

    - ``posterior``: parameters ``(chain, draw, ...)``, and ``confusion (chain, draw, worker, true_label, answer)`` and ``prevalence
      (chain, draw, true_label)`` for every model. For EM and SVI an approximation: ``interval_method`` says which. Where truths and workers
      allow for annotations that err together (``correlation`` says so), these two follow the truths drawn, and ``rho (chain,
      draw)`` is the correlation drawn.
    - ``as_published``: there, the model's own ``confusion`` and ``prevalence``, where it has parameters of these names.
    - ``point``: the mode, for EM.
    - ``truth``: ``probability (item, true_label)``, ``as_published`` where that differs, and ``draw_of (chain, draw, item)``, a truth
      drawn with each draw of the parameters (index into ``true_label``).
    - ``log_likelihood``: ``labels (chain, draw, item)``, all labels of an item together, the truth summed out.
    - ``sample_stats``: ``lp (chain, draw)``, and the engine's trace of its objective.
    - ``annotation``: what a model says of single annotations, averaged over draws, where it says something.
    - ``networks``: the weights of networks in the safetensors format, see :attr:`networks`.
    - ``observed_data``, ``constant_data``: labels, items and workers of the annotations, known truths.

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

    @property
    def info(self) -> dict[str, Any]:
        """Model, method, options, seed, versions and facts of the run."""
        return dict(json.loads(self.tree.attrs["run"]))

    @property
    def interval_method(self) -> str:
        """Where the intervals come from, in a sentence."""
        return str(self.tree.attrs["interval_method"])

    @property
    def correlation(self) -> str:
        """Whether truths and workers allow for annotations of one item that err together, and how, in a sentence."""
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
        return self._values("posterior", "true_label")

    @property
    def item_column(self) -> str:
        """What tables call the column of items: ``"item"`` where the annotations' own column was called so, else ``"task"``."""
        return str(self.tree.attrs.get("item_column", "task"))

    def __repr__(self) -> str:
        sizes = self.tree["posterior"].sizes
        info = self.info
        return (
            f"Posterior({info['model']} by {info['method']}: {self.tree['truth'].sizes['item']:,} items, "
            f"{sizes['worker']:,} workers, {sizes['true_label']} classes; "
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

    @arguments.checked(by=arguments.text, workers=arguments.several(arguments.identifier), cost=arguments.anything)
    def measure(self, by: str = "accuracy", *, workers: Iterable[Any] | None = None, cost: Any = None) -> Array:
        """Return draws of a measure of workers, ``(S, J)``: what every comparison is made of.

        Args:
            by: a name of :data:`crowdppl.posterior.workers.MEASURES`.
            workers: of these only, in this order; all where not given.
            cost: see :func:`crowdppl.posterior.workers.expected_cost`.

        Raises:
            OptionError: for an unknown measure.
            DataError: for an unknown worker.
        """
        if workers is not None:
            chosen = np.array([self.worker_index(name) for name in workers])
            return measure_of(by, self.draws("confusion", worker=chosen), self.draws("prevalence"), cost)
        return np.concatenate([measure_of(by, c, p, cost) for _, c, p in self.worker_blocks()], axis=1)

    def truth_draws(self) -> Array:
        """Return the truths drawn, codes into ``labels``: ``(S, N)``."""
        truth = self._values("truth", "draw_of")
        return truth.reshape(-1, truth.shape[-1])

    def probability(self) -> Array:
        """Return the probability of each class for each item, ``(N, K)``."""
        return self._values("truth", "probability")

    def probability_as_published(self) -> Array:
        """Return the probability of each class for each item by the model as published, ``(N, K)``."""
        name = "as_published" if "as_published" in self.tree["truth"].data_vars else "probability"
        return self._values("truth", name)

    def mean_confusion(self) -> Array:
        """Return draws of the mean confusion of the crowd, workers taken by their numbers of annotations: ``(S, K, K)``."""
        share = self.annotations_per_worker() / max(1, len(self.annotation_index()[0]))
        parts = [np.einsum("j,sjkl->skl", share[part], confusion) for part, confusion, _ in self.worker_blocks()]
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

    def annotation_index(self) -> tuple[Array, Array, Array]:
        """Return item, worker and label of each annotation as codes, each ``(A,)``, sorted by item."""
        item, worker = (self._values("constant_data", f"{name}_index") for name in ("item", "worker"))
        return item, worker, self._values("observed_data", "labels")

    @arguments.checked(name=arguments.text)
    def annotation_metadata(self, name: str) -> Array:
        """Return what is known of each annotation besides, ``timestamp`` or ``seconds``: ``(A,)``, NaN where unknown.

        Raises:
            OptionError: where the annotations were given without.
        """
        if name not in self.tree["constant_data"]:
            raise OptionError(f"the annotations carry no {name!r}; name its column with from_frame(..., {name}=...)")
        return self._values("constant_data", name)

    def known_truth(self) -> Array:
        """Return the classes the fit knew, codes ``(N,)``, -1 where it knew none."""
        return self._values("constant_data", "known_truth")

    def annotations_per_worker(self) -> Array:
        """Return the number of each worker's annotations, ``(J,)``."""
        return np.bincount(self.annotation_index()[1], minlength=len(self.worker_names()))

    def annotations_per_item(self) -> Array:
        """Return the number of annotations of each item, ``(N,)``."""
        return np.bincount(self.annotation_index()[0], minlength=len(self.items()))

    def votes(self) -> Array:
        """Return how often each item was given each label, ``(N, K)``."""
        item, _, label = self.annotation_index()
        return _table(item, label, len(self.items()), len(self.labels))

    def label_counts_by_worker(self) -> Array:
        """Return how often each worker gave each label, ``(J, K)``."""
        _, worker, label = self.annotation_index()
        return _table(worker, label, len(self.worker_names()), len(self.labels))

    @arguments.checked(most=arguments.whole(1))
    def confusion_counts(self, most: int) -> Iterator[Array]:
        """Go through draws of the truth, at most ``most`` evenly spread, and count each worker's labels by it.

        Yields:
            How often each worker gave each label to items of each class, ``(J, K, K)`` as a confusion.
        """
        item, worker, label = self.annotation_index()
        J, K = len(self.worker_names()), len(self.labels)
        truth = self.truth_draws()
        for s in np.unique(np.linspace(0, len(truth) - 1, min(most, len(truth))).astype(int)):
            cell = (worker * K + truth[s, item]) * K + label
            yield np.bincount(cell, minlength=J * K * K).reshape(J, K, K).astype(float)

    @arguments.checked(items=arguments.anything)
    def share_correct_draws(self, items: Array | None = None) -> Array:
        """Return the share of each worker's own annotations that are right, by the truth of each draw: ``(S, J)``.

        NaN for a worker without annotations.

        Args:
            items: count annotations of these only, ``(N,)`` true or false; all where not given.
        """
        item, worker, label = self.annotation_index()
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

    def worker_blocks(self) -> Iterator[tuple[slice, Array, Array]]:
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


def _table(row: Array, column: Array, rows: int, columns: int) -> Array:
    return np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns)
