"""The result of a fit: an xarray DataTree in the ArviZ schema, and tidy views of it.

Knows no engine and no model: whatever is in the tree is all there is, so that a loaded result is as good as a fresh one.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import safetensors.torch
import torch
import xarray as xr

from crowdppl import workers
from crowdppl.errors import CrowdpplError, DataError, FileError, OptionError, suggestion

Array = npt.NDArray[Any]

# Raised by one whenever a file written today could not be read by yesterday's code.
FORMAT = 1
RIGHT = ("share_right", "share_right_low", "share_right_high")
# Workers summarised at a time, in numbers of draws x cells: bounds the memory of the tables.
TABLE_CELLS = 2**24


class Posterior:
    """What is known after a fit.

    ``tree`` holds, with the caller's identifiers as coordinates ``item``, ``worker``, ``klass`` (the true class) and ``answer``
    (the label given; ArviZ keeps the name ``label`` for itself):

    - ``posterior``: parameters ``(chain, draw, ...)``, and ``confusion (chain, draw, worker, klass, answer)`` and ``prevalence
      (chain, draw, klass)`` for every model. For EM and SVI an approximation: ``how`` says which. Where truths and workers
      allow for judgements that err together (``correlation`` says so), these two follow the truths drawn, and ``rho (chain,
      draw)`` is the correlation drawn.
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

        Columns: ``task``; ``label``, the most probable class (the first of equals); ``probability`` of it; ``entropy`` of the
        item's distribution in bits; and ``p_<class>`` for every class.
        """
        return truth_table(self._values("truth", "item"), self.labels, self._values("truth", "probability"))

    def workers(self, *, level: float | None = None, sort: str | None = None, minimum: int = 0) -> pd.DataFrame:
        """Return a row for each worker, every quality with the ends of its interval.

        Columns: ``worker``; ``judgements``; ``share_right``, the share of the worker's own judgements that are right (by the
        truth of each draw); ``accuracy`` under the prevalence, that of judgements yet to come; ``sensitivity_<class>``, the
        probability of the right label in each class; ``informativeness`` in bits; each followed by ``_low`` and ``_high``.

        Args:
            level: probability of the intervals (equal-tailed); ArviZ's default, .89, where not given.
            sort: column to sort by, highest first; the order of the data where not given.
            minimum: leave out workers with fewer judgements.

        Raises:
            OptionError: for a level outside (0, 1) or an unknown column.
        """
        parts: dict[str, list[Array]] = {}
        for _, confusion, prevalence in self._by_workers():
            for name, draws in workers.qualities(confusion, prevalence, self.labels).items():
                for suffix, value in zip(("", "_low", "_high"), workers.interval(draws, level), strict=True):
                    parts.setdefault(name + suffix, []).append(value)
        right = dict(zip(RIGHT, workers.interval(self.shares_right(), level), strict=True))
        table = pd.DataFrame(
            {"worker": self._values("posterior", "worker"), "judgements": self._judgements()}
            | right
            | {name: np.concatenate(values) for name, values in parts.items()}
        )
        if sort is not None:
            if sort not in table:
                raise OptionError(f"no column {sort!r} to sort by{suggestion(sort, table.columns)}")
            table = table.sort_values(sort, ascending=False, kind="stable")
        return table[table["judgements"] >= minimum].reset_index(drop=True)

    def confusion(self, worker: Any = None, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each cell of a worker's confusion matrix, or of every worker's.

        Columns: ``worker`` (where all are asked for), ``truth``, ``label``, ``probability`` of that label under that truth, and
        the ends of its interval ``low`` and ``high``. ``.pivot(index="truth", columns="label", values="probability")`` is the
        matrix.

        Raises:
            DataError: for an unknown worker.
        """
        names = self._values("posterior", "worker")
        if worker is not None:
            found = [
                n
                for n, name in enumerate(names.tolist())
                if name == worker and isinstance(name, str) == isinstance(worker, str)
            ]
            if not found:
                raise DataError(f"no worker {worker!r} in this result{suggestion(worker, names.tolist())}")
            chosen = np.array(found)
            parts = [workers.interval(self._draws("confusion", worker=chosen), level)]
        else:
            chosen = np.arange(len(names))
            parts = [workers.interval(confusion, level) for _, confusion, _ in self._by_workers()]
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

    def prevalence(self, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each class: ``label``, ``share`` of items, ``low``, ``high``."""
        mean, low, high = workers.interval(self._draws("prevalence"), level)
        return pd.DataFrame({"label": self.labels, "share": mean, "low": low, "high": high})

    def _draws(self, name: str, **at: Any) -> Array:
        """Return draws of a variable with chains laid end to end, ``(S, ...)``."""
        values = np.asarray(self.tree["posterior"].to_dataset()[name].isel(at).values)
        return values.reshape(-1, *values.shape[2:])

    def _values(self, group: str, name: str) -> Array:
        return np.asarray(self.tree[group].to_dataset()[name].values)

    def shares_right(self, items: Array | None = None) -> Array:
        """Return the share of each worker's own judgements that are right, by the truth of each draw: ``(S, J)``.

        NaN for a worker without judgements.

        Args:
            items: count judgements of these only, ``(N,)`` true or false; all where not given.
        """
        item, worker = (self._values("constant_data", f"{name}_index") for name in ("item", "worker"))
        label = self._values("observed_data", "labels")
        if items is not None:
            kept = np.asarray(items)[item]
            item, worker, label = item[kept], worker[kept], label[kept]
        truth = np.asarray(self.tree["truth"]["draw_of"].values)
        truth = truth.reshape(-1, truth.shape[-1])  # (S, N)
        J = self.tree["posterior"].sizes["worker"]
        total = np.bincount(worker, minlength=J)
        right = np.stack([np.bincount(worker[state[item] == label], minlength=J) for state in truth])
        return np.where(total > 0, right / np.maximum(total, 1), np.nan)

    def _by_workers(self) -> Iterator[tuple[slice, Array, Array]]:
        prevalence = self._draws("prevalence")
        J, K = self.tree["posterior"].sizes["worker"], len(self.labels)
        step = max(1, TABLE_CELLS // (len(prevalence) * K * K))
        for start in range(0, J, step):
            part = slice(start, start + step)
            yield part, self._draws("confusion", worker=part), prevalence

    def _judgements(self) -> Array:
        index = self._values("constant_data", "worker_index")
        return np.bincount(index, minlength=self.tree["posterior"].sizes["worker"])

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> Path:
        """Write the whole result to one NetCDF file, in one go: an interruption leaves the old file or the new one.

        Raises:
            FileError: where the file cannot be written.
        """
        path = Path(path)
        encoding = {
            f"/{group}": {
                name: {"zlib": True, "complevel": 1} for name, var in node.data_vars.items() if var.size > 1000
            }
            for group, node in self.tree.children.items()
        }
        with atomic(path) as temporary:
            self.tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
        return path


def truth_table(items: Array, labels: Array, probability: Array) -> pd.DataFrame:
    """Return a row for each item from its class probabilities ``(N, K)``, as :meth:`Posterior.truth` tells."""
    best = probability.argmax(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -np.where(probability > 0, probability * np.log2(probability), 0.0).sum(-1)
    table = {
        "task": items,
        "label": labels[best],
        "probability": probability[np.arange(len(best)), best],
        "entropy": np.maximum(bits, 0.0),
    }
    return pd.DataFrame(table | {f"p_{k}": probability[:, n] for n, k in enumerate(labels)})


class atomic:  # noqa: N801 - reads as a verb in a with statement
    """Write a file under another name and put it in place when it is complete."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> Path:
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror}") from None
        os.close(handle)
        self.temporary = Path(name)
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None:
            self.temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and not isinstance(error, CrowdpplError):
                raise FileError(f"cannot write {self.path}: {error.strerror or error}") from error
            return
        umask = os.umask(0)
        os.umask(umask)
        self.temporary.chmod(0o666 & ~umask)
        with self.temporary.open("rb+") as file:
            os.fsync(file.fileno())
        self.temporary.replace(self.path)


def load(path: str | Path) -> Posterior:
    """Read a result written by :meth:`Posterior.save`.

    Raises:
        FileError: where the file is missing, damaged, of another kind, or of a later format.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"no file {path}; check the name and the folder")
    try:
        # xarray adds to the filters of warnings at every file it reads.
        with warnings.catch_warnings(), xr.open_datatree(path, engine="h5netcdf") as opened:
            tree = opened.load()
            tree = tree.copy()
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        raise FileError(f"{path.name} is not a readable NetCDF file: {' '.join(str(error).split())[:120]}") from None
    written = tree.attrs.get("crowdppl_format")
    if written is None:
        raise FileError(f"{path.name} is a NetCDF file, but not one written by crowdppl")
    if int(written) > FORMAT:
        raise FileError(f"{path.name} has format {written}, this crowdppl reads up to {FORMAT}; update crowdppl")
    try:
        return Posterior(tree)
    except DataError as error:
        raise FileError(f"{path.name}: {error}") from None
