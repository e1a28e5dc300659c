"""The variables of a result: an xarray DataTree in the ArviZ schema, and arrays computed from it.

Only the tree is used, no engine or model, so a loaded result is equivalent to a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from crowdppl import arguments
from crowdppl.arguments import Identifier, PositiveInt, checked
from crowdppl.data.alerts import LABELS_UNCLEAR
from crowdppl.errors import DataError, OptionError, listed, suggestion
from crowdppl.isolation import Threads
from crowdppl.posterior.beginning import Beginning
from crowdppl.posterior.measures import measure as measure_of
from crowdppl.posterior.recorded import ALERTS, Recorded
from crowdppl.posterior.schema import dropped

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[Any]
T = TypeVar("T")

# Number of draws x cells of confusion matrices processed at a time: bounds memory.
BLOCK_CELLS = 2**23
# What a design effect replaces in reports.
QUALITY = ("confusion", "prevalence")


class PosteriorVariables(Recorded):
    """The content of a result as arrays; :class:`~crowdppl.Posterior` adds the tables.

    :class:`~crowdppl.Posterior` documents the groups of ``tree``.

    Args:
        tree: the whole result, or what is known of it before its draws.
        complete: returns the whole result, and counts of correct labels as ``_correct`` holds them, where ``tree`` is only its
            beginning; called when something else is asked for.

    Raises:
        DataError: if ``tree`` is no result.
    """

    # Counts of each worker's correct labels by draw, (S, J), where the fit has made them.
    _correct: Array | None = None

    def __init__(
        self,
        tree: xr.DataTree | Beginning,
        complete: Callable[[], tuple[xr.DataTree, Array | None]] | None = None,
    ):
        if not isinstance(tree, xr.DataTree) and (complete is None or not isinstance(tree, Beginning)):
            raise DataError(f"tree is a {type(tree).__name__}; pass an xarray.DataTree, or use crowdppl.load")
        missing = {"posterior", "truth", "constant_data", "observed_data"} - set(tree.children)
        if missing or "crowdppl_format" not in tree.attrs:
            raise DataError(
                f"not a result of crowdppl: the tree lacks {', '.join(sorted(missing)) or 'its format number'}"
            )
        self._known: Any = tree
        self._complete = complete

    @property
    def tree(self) -> xr.DataTree:
        """The whole result; ArviZ's functions accept it directly.

        Where draws are still to be made, as after EM, they are made now: with the seed of the fit, so that they do not depend
        on when, or in which order, anything is asked for.
        """
        if self._complete is not None:
            self._known, self._correct = self._complete()
            self._complete = None
        tree: xr.DataTree = self._known
        return tree

    def __getstate__(self) -> dict[str, Any]:
        return {"_known": self.tree.load(), "_complete": None}

    @property
    def _attrs(self) -> Mapping[Any, Any]:
        attrs: Mapping[Any, Any] = self._known.attrs
        return attrs

    @property
    def correlation(self) -> str:
        """Whether and how truths and workers allow for correlated errors of annotations of one item, in a sentence."""
        return str(self._known.attrs.get("correlation", ""))

    @property
    def coverage(self) -> str:
        """Measured coverage of such intervals on real data, in a sentence: the footnote of every interval shown."""
        return str(self._known.attrs.get("coverage", ""))

    @property
    def calibrated(self) -> bool:
        """Whether truths and workers allow for correlated errors: the tree then has the group ``calibrated``."""
        return "calibrated" in self._known.children

    @property
    def graded(self) -> bool:
        """Whether the labels are grades."""
        return self._known.attrs.get("labels_kind") == "ordinal"

    @property
    def labels_unclear(self) -> bool:
        """Whether labels are to be cleaned first: typing errors count as classes of their own, for example."""
        return any(sentence.startswith(LABELS_UNCLEAR) for sentence in self.warnings)

    @property
    def labels(self) -> Array:
        """The classes, in order."""
        return self._values("posterior", "true_label")

    def __repr__(self) -> str:
        sizes = self._known["posterior"].sizes
        info = self.info
        alert = "".join(f"{start}; " for start in ALERTS if start in self.alert)
        return (
            f"Posterior({alert}{info['model']} by {info['method']}: {self._known['truth'].sizes['item']:,} items, "
            f"{sizes['worker']:,} workers, {sizes['true_label']} classes; "
            f"{sizes['chain']} x {sizes['draw']:,} draws, {self.kind})"
        )

    @property
    def networks(self) -> dict[str, torch.Tensor]:
        """Weights and buffers of the model's networks by name, empty without networks; ``crowdppl.predict`` uses them.

        To write them to a file: ``safetensors.torch.save_file(posterior.networks, path)``.
        """
        if "networks" not in self._known.children:
            return {}
        import safetensors.torch  # here: slow to import

        return dict(safetensors.torch.load(self._values("networks", "safetensors").astype(np.uint8).tobytes()))

    # ------------------------------------------------------------------ arrays

    @checked
    def variable(self, name: str, *, published: bool = False) -> xr.DataArray:
        """Return draws of a variable with its axes and coordinates, ``(chain, draw, ...)``.

        Args:
            name: of a variable of ``posterior``; or ``"rho"``, or ``"class_weight"`` where known true labels weigh the classes.
            published: take ``confusion`` and ``prevalence`` from the model as published, also where the result has calibrated
                ones, which are the default.

        Raises:
            OptionError: for an unknown variable, or one that a small file has left out.
        """
        own = self.tree["posterior"].to_dataset()
        better = self.tree["calibrated"].to_dataset() if self.calibrated else own
        if name in QUALITY and not published:
            return better[name]
        beside = [extra for extra in ("rho", "class_weight") if self.calibrated and extra in better]
        if name in beside:
            return better[name]
        if name not in own.data_vars:
            if f"posterior/{name}" in dropped(self._known):
                raise OptionError(
                    f"name={name!r}: this result was loaded from a small file, which has no draws of it; fit again and save "
                    f"with keep='full' (--keep full)"
                )
            known = [str(variable) for variable in own.data_vars] + beside
            raise OptionError(
                f"name={name!r}: no such variable{suggestion(name, known)}; use one of {listed(known, 20)}"
            )
        return own[name]

    @checked
    def draws(self, name: str, **at: Any) -> Array:
        """Return draws of a variable as views report it, chains concatenated, ``(S, ...)``, see :meth:`variable`.

        Args:
            name: name of the variable.
            **at: positions along its axes, such as ``worker=0``.

        Raises:
            OptionError: for an unknown variable.
        """
        values = np.asarray(self.variable(name).isel(at).values)
        return values.reshape(-1, *values.shape[2:])

    @checked
    def measure(
        self,
        by: str = "accuracy",
        *,
        workers: Annotated[Iterable[Any], arguments.several(arguments.identifier)] | None = None,
        cost: Any = None,
    ) -> Array:
        """Return draws of a measure of workers, ``(S, J)``, the basis of all comparisons.

        Args:
            by: a name of :data:`crowdppl.posterior.workers.MEASURES`.
            workers: the workers, in order. Defaults to all.
            cost: cost matrix, see :func:`crowdppl.posterior.workers.expected_cost`.

        Raises:
            OptionError: for an unknown measure.
            DataError: for an unknown worker.
        """
        if workers is not None:
            chosen = np.array([self.worker_index(name) for name in workers])
            return measure_of(by, self.draws("confusion", worker=chosen), self.draws("prevalence"), cost)
        return np.concatenate(self.by_block(lambda c, p: measure_of(by, c, p, cost)), axis=1)

    def truth_draws(self) -> Array:
        """Return draws of the true labels as indices into ``labels``, ``(S, N)``."""
        truth = self._values(self._truths, "draw_of")
        return truth.reshape(-1, truth.shape[-1])

    def probability(self) -> Array:
        """Return the probability of each class for each item, ``(N, K)``."""
        return self._values(self._truths, "probability")

    def probability_as_published(self) -> Array:
        """Return the probability of each class for each item under the model as published, ``(N, K)``."""
        return self._values("truth", "probability")

    def mean_confusion(self) -> Array:
        """Return draws of the mean confusion matrix, workers weighted by their numbers of annotations: ``(S, K, K)``."""
        share = self.annotations_per_worker() / max(1, self.annotations_per_worker().sum())
        parts = [np.einsum("j,sjkl->skl", share[part], confusion) for part, confusion, _ in self.worker_blocks()]
        return np.sum(parts, axis=0)

    def items(self) -> Array:
        """Return the items' identifiers, ``(N,)``."""
        return self._values("truth", "item")

    def worker_names(self) -> Array:
        """Return the workers' identifiers, ``(J,)``."""
        return self._values("posterior", "worker")

    @checked
    def worker_index(self, worker: Identifier) -> int:
        """Return the index of a worker.

        Raises:
            DataError: for an unknown worker.
        """
        names = self.worker_names().tolist()
        for n, name in enumerate(names):
            if name == worker and isinstance(name, str) == isinstance(worker, str):
                return n
        raise DataError(f"no worker {worker!r} in this result{suggestion(worker, names)}")

    def annotation_index(self) -> tuple[Array, Array, Array]:
        """Return the item, worker and label index of each annotation, each ``(A,)``, sorted by item."""
        item, worker = (self._values("constant_data", f"{name}_index") for name in ("item", "worker"))
        return item, worker, self._values("observed_data", "labels")

    @checked
    def annotation_metadata(self, name: str) -> Array:
        """Return the ``timestamp`` or duration in ``seconds`` of each annotation, ``(A,)``, NaN if unknown.

        Raises:
            OptionError: if the annotations do not have it.
        """
        if name not in self._known["constant_data"]:
            raise OptionError(f"the annotations have no {name!r}; name its column with from_frame(..., {name}=...)")
        return self._values("constant_data", name)

    def known_truth(self) -> Array:
        """Return the true labels known to the fit as indices ``(N,)``, -1 if unknown."""
        return self._values("constant_data", "known_truth")

    def annotations_per_worker(self) -> Array:
        """Return the number of annotations of each worker, ``(J,)``, with those of copies that the fit set aside."""
        workers = len(self.worker_names())
        counted = np.bincount(self.annotation_index()[1], minlength=workers)
        if not self.info["counts"].get("set_aside"):
            return counted
        return counted + np.bincount(self._values("constant_data", "aside_worker"), minlength=workers)

    def annotations_per_item(self) -> Array:
        """Return the number of annotations of each item, ``(N,)``."""
        return np.bincount(self.annotation_index()[0], minlength=len(self.items()))

    def votes(self) -> Array:
        """Return the number of annotations per item and label, ``(N, K)``."""
        item, _, label = self.annotation_index()
        return _count_table(item, label, len(self.items()), len(self.labels))

    def label_counts_by_worker(self) -> Array:
        """Return the number of annotations per worker and label, ``(J, K)``."""
        _, worker, label = self.annotation_index()
        return _count_table(worker, label, len(self.worker_names()), len(self.labels))

    @checked
    def confusion_counts(self, max_draws: PositiveInt) -> Iterator[Array]:
        """Iterate over at most ``max_draws`` evenly spaced draws of the true labels and count labels by worker and true label.

        Yields:
            Counts ``(J, K, K)``: worker, true label, given label.
        """
        item, worker, label = self.annotation_index()
        J, K = len(self.worker_names()), len(self.labels)
        truth = self.truth_draws()
        own = worker * (K * K) + label
        for s in np.unique(np.linspace(0, len(truth) - 1, min(max_draws, len(truth))).astype(int)):
            cell = own + (truth[s].astype(np.int64) * K)[item]
            yield np.bincount(cell, minlength=J * K * K).reshape(J, K, K).astype(float)

    @checked
    def share_correct_draws(self, items: Annotated[Array, arguments.anything] | None = None) -> Array:
        """Return draws of the share of each worker's annotations that are correct, ``(S, J)``; NaN without annotations.

        Args:
            items: mask of the items to count, ``(N,)``. Defaults to all.
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
        J, truth = len(self.worker_names()), self.truth_draws()
        total = np.bincount(worker, minlength=J)
        if items is None and self._correct is not None:
            correct = self._correct
        else:
            correct = np.stack([np.bincount(worker[state[item] == label], minlength=J) for state in truth])
        return np.where(total > 0, correct / np.maximum(total, 1), np.nan)

    def worker_blocks(self) -> Iterator[tuple[slice, Array, Array]]:
        """Iterate over blocks of workers, with bounded memory.

        Yields:
            The slice of workers, draws of their confusion matrices ``(S, j, K, K)``, and of the prevalence ``(S, K)``.
        """
        prevalence = self.draws("prevalence")
        for part in self._blocks(len(prevalence)):
            yield part, self.draws("confusion", worker=part), prevalence

    @checked
    def by_block(self, function: Annotated[Callable[[Array, Array], T], arguments.function]) -> list[T]:
        """Return what a function returns for each block of workers, computed in threads, with bounded memory.

        Args:
            function: of draws of confusion matrices ``(S, j, K, K)`` and of the prevalence ``(S, K)``.
        """
        prevalence = self.draws("prevalence")

        def one(part: slice) -> T:
            return function(self.draws("confusion", worker=part), prevalence)

        tasks = [partial(one, part) for part in self._blocks(len(prevalence))]
        with closing(Threads(len(tasks))) as threads:
            return threads.all(tasks)

    def _blocks(self, draws: int) -> list[slice]:
        """Return blocks of workers whose confusion matrices have at most ``BLOCK_CELLS`` cells in so many draws."""
        J, K = len(self.worker_names()), len(self.labels)
        step = max(1, BLOCK_CELLS // (draws * K * K))
        return [slice(start, start + step) for start in range(0, J, step)]

    @property
    def _truths(self) -> str:
        return "calibrated" if self.calibrated else "truth"

    def _values(self, group: str, name: str) -> Array:
        known = self._known[group] if group in self._known.children else {}
        if name not in known:
            known = self.tree[group]
        # A node of a tree makes a variable with the coordinates of the whole tree.
        return np.asarray((known.to_dataset() if isinstance(known, xr.DataTree) else known)[name].values)


def _count_table(row: Array, column: Array, rows: int, columns: int) -> Array:
    return np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns)
