"""The result of a fit to labels that are numbers: tables of true numbers and of workers, and the file that holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from scipy.special import ndtri

from crowdppl.arguments import Identifier, Level, NonNegativeInt, OutputFile, checked
from crowdppl.data import html
from crowdppl.errors import DataError, OptionError, listed, suggestion
from crowdppl.posterior import io
from crowdppl.posterior.measures import ENDS, default_level, interval
from crowdppl.posterior.recorded import ALERTS, Recorded

if TYPE_CHECKING:
    from crowdppl.data.numeric import NumericAnnotations

Array = npt.NDArray[Any]
Reading = Literal["consensus", "fair_average", "true_number"]

# A worker with fewer annotations is not judged.
MIN_ANNOTATIONS = 10
# A worker is high or low by this share of the standard deviation of items, and noisy where the noise, on the scale of the
# truth, is this multiple of the typical one. CLEAR is the probability that a verdict needs, RANDOM that of random labels.
NOTICED, NOISY, CLEAR, RANDOM = 0.5, 2.0, 0.95, 0.9
# Labels whose correlation with the truth is nearer to zero are random as well.
UNRELATED = 0.2
# The beginning of the warning of workers with correlated errors.
SHARED_ERRORS = "workers with correlated errors"


class NumericPosterior(Recorded):
    """The result of a fit to labels that are numbers.

    ``tree`` has the coordinates ``item`` and ``worker`` with the caller's identifiers, and these groups, all in units of the
    labels:

    - ``posterior``: draws ``(chain, draw, ...)`` of ``mean``, ``truth_sd``, ``bias_sd``, ``slope_sd``, ``noise_sd`` and
      ``noise_df``, and of each worker's ``bias``, ``slope`` and ``sd (chain, draw, worker)``: a label is
      ``x + bias + (slope - 1) (x - mean)`` and noise of this ``sd``, for the consensus ``x``. Where workers differ in slope also
      ``random_share``, and ``at_random (chain, draw, worker)``, the probability that a worker answers at random given the draw.
      Where items have features ``weight (chain, draw, feature)``, of features with standard deviation 1, and ``weight_sd``.
    - ``truth``: ``consensus``, ``fair_average`` and, where true numbers are known, ``true_number (item)``, each with ``_sd``,
      ``_relative`` (less the mean of all items) and ``_relative_sd``.
    - ``log_likelihood``: ``labels (chain, draw, item)``, with the truth integrated out, of some draws where there are many items.
    - ``observed_data``, ``constant_data``: labels, items and workers of the annotations, known true numbers.
    """

    _alerts: ClassVar[tuple[str, ...]] = (*ALERTS, SHARED_ERRORS)

    def __init__(self, tree: xr.DataTree):
        self.tree = tree

    @property
    def _attrs(self) -> Mapping[Any, Any]:
        return self.tree.attrs

    @property
    def scale(self) -> tuple[float, float] | None:
        """Lowest and highest number of a bounded scale; ``None`` for an unbounded one."""
        ends = json.loads(self.tree.attrs.get("scale", "null"))
        return None if ends is None else (float(ends[0]), float(ends[1]))

    # -- arrays

    def items(self) -> Array:
        """Return the item identifiers, ``(N,)``."""
        return _names(self.tree["truth"]["item"])

    def worker_names(self) -> Array:
        """Return the worker identifiers, ``(J,)``."""
        return _names(self.tree["posterior"]["worker"])

    def known_truth(self) -> Array:
        """Return the known true number of each item, ``(N,)``, NaN if unknown."""
        return self.tree["constant_data"]["known_truth"].to_numpy()

    @checked
    def draws(self, name: str) -> Array:
        """Return the draws of a variable of the group ``posterior``, ``(S, ...)``, chains one after the other.

        Raises:
            OptionError: for an unknown name.
        """
        group = self.tree["posterior"]
        if name not in group.data_vars:
            raise OptionError(f"no variable {name!r}; the result has {listed(map(str, group.data_vars), 20)}")
        values = group[name].to_numpy()
        return values.reshape(-1, *values.shape[2:])

    def data(self) -> NumericAnnotations:
        """Return the annotations of the fit."""
        import torch  # here: slow to import, and no table needs it

        from crowdppl.data.numeric import NumericAnnotations

        constant = self.tree["constant_data"]
        item, worker = (torch.from_numpy(np.array(constant[name])) for name in ("item_index", "worker_index"))
        return NumericAnnotations(
            item=item,
            worker=worker,
            value=torch.from_numpy(np.array(self.tree["observed_data"]["labels"], dtype=float)),
            truth=torch.from_numpy(np.array(self.known_truth(), dtype=float)),
            items=self.items(),
            workers=self.worker_names(),
            scale=self.scale,
            item_column=self.item_column,
            repeats=self.tree.attrs["repeats"],
        )

    def _means(self, of: Literal["item", "worker"]) -> tuple[Array, Array]:
        """Return the mean of the labels of each item or worker, NaN without any, and their number."""
        index = self.tree["constant_data"][f"{of}_index"].to_numpy()
        size = len(self.items() if of == "item" else self.worker_names())
        count = np.bincount(index, minlength=size)
        total = np.bincount(index, weights=self.tree["observed_data"]["labels"].to_numpy(), minlength=size)
        return np.divide(total, count, out=np.full(size, np.nan), where=count > 0), count

    # -- tables

    @property
    def reading(self) -> Reading:
        """The reading that tables show: the true number where some are known, else the consensus."""
        return "true_number" if "true_number" in self.tree["truth"] else "consensus"

    @checked
    def truth(
        self, *, level: Level | None = None, reading: Reading | None = None, relative: bool = False
    ) -> pd.DataFrame:
        """Return a table with one row per item.

        Columns: ``task`` (or ``item``); ``value``, the expected number; ``low`` and ``high``, the ends of its interval;
            ``sd``, its
        standard deviation; ``annotations``; ``mean_label``, the mean of the labels given; ``fair_average``, what a worker drawn
        from the annotations of this crowd would say; and ``known``, whether the true number was given.

        Args:
            level: probability of the intervals. Defaults to ArviZ's default, .89.
            reading: ``"consensus"``, free of bias; ``"fair_average"``; or ``"true_number"``, where some true numbers are known,
                with the error of known numbers around what the crowd says. Defaults to the last if it is there, else to the
                first.
            relative: less the mean of all items. All workers may be too high together, which only known true numbers tell:
                intervals of differences between items are therefore narrower.

        Raises:
            OptionError: for a level outside (0, 1), and for true numbers where none are known.
        """
        name = self.reading if reading is None else reading
        group = self.tree["truth"]
        if name not in group:
            raise OptionError(
                "reading='true_number' needs known true numbers, which this result has none of; give truth=..."
            )
        part = "_relative" if relative else ""
        value, sd = (group[f"{name}{part}{end}"].to_numpy().astype(float) for end in ("", "_sd"))
        half = float(ndtri((1 + default_level(level)) / 2)) * sd
        low, high = value - half, value + half
        known, fair = self.known_truth(), group["fair_average"].to_numpy()
        if not relative:
            if name == "true_number":
                given = ~np.isnan(known)
                value, low, high = (np.where(given, known, one) for one in (value, low, high))
                sd = np.where(given, 0.0, sd)
            if self.scale is not None:
                value, low, high, fair = (np.clip(one, *self.scale) for one in (value, low, high, fair))
        mean, count = self._means("item")
        return pd.DataFrame(
            {
                self.item_column: self.items(),
                "value": value,
                "low": low,
                "high": high,
                "sd": sd,
                "annotations": count,
                "mean_label": mean,
                "fair_average": fair,
                "known": ~np.isnan(known),
            }
        )

    @checked
    def workers(
        self, *, level: Level | None = None, sort: str | None = None, minimum: NonNegativeInt = 0
    ) -> pd.DataFrame:
        """Return a table with one row per worker.

        Columns: ``worker``; ``annotations``; ``mean_label``; ``bias``, by how much the labels exceed the truth of the average
            item
        (the true number where some are known, else the consensus); ``slope``, by how much they rise where the truth rises by 1;
        ``sd``, the standard deviation of their noise; ``correlation`` with the truth over all items; each of these four with
        ``_low`` and ``_high``; ``rank`` by correlation; and ``verdict``: ``random``, ``noisy``, ``high``, ``low``, ``reliable``,
        ``unclear`` or ``too few annotations``. High, low and noisy are by comparison with the other workers.

        There is no accuracy: no number is exactly right.

        Args:
            level: probability of the equal-tailed intervals. Defaults to ArviZ's default, .89.
            sort: column to sort by, best first. Defaults to the order of the data.
            minimum: leave out workers with fewer annotations.

        Raises:
            OptionError: for a level outside (0, 1), or an unknown column.
        """
        bias, slope, sd = self.draws("bias"), self.draws("slope"), self.draws("sd")
        truth_sd = self.draws("truth_sd")[:, None]
        correlation = slope * truth_sd / np.sqrt(slope**2 * truth_sd**2 + sd**2)
        verdicts = self._verdicts(bias, sd / np.maximum(abs(slope), 1e-9), correlation, truth_sd)
        if self.reading == "true_number":
            # Of the true number, on whose scale the mean item has the consensus mean + bias of the reference.
            steep = self.draws("reference_slope")[:, None]
            bias, slope = bias - self.draws("reference_bias")[:, None], slope / steep
        mean, count = self._means("worker")
        table: dict[str, Any] = {"worker": self.worker_names(), "annotations": count, "mean_label": mean}
        for name, draws in (("bias", bias), ("slope", slope), ("sd", sd), ("correlation", correlation)):
            table |= {name + end: part for end, part in zip(ENDS, interval(draws, level), strict=True)}
        out = pd.DataFrame(table)
        out["rank"] = out["correlation"].rank(ascending=False, method="min").astype(int)
        out["verdict"] = verdicts
        if sort is not None and sort not in out.columns:
            raise OptionError(
                f"sort={sort!r} is no column{suggestion(sort, map(str, out.columns))}; use {listed(map(str, out.columns), 30)}"
            )
        out = out[out["annotations"] >= minimum]
        if sort is not None:
            best_first = sort not in ("worker", "sd", "sd_low", "sd_high", "rank", "verdict")
            out = out.sort_values(sort, ascending=not best_first, kind="stable")
        return out.reset_index(drop=True)

    def _verdicts(self, bias: Array, noise: Array, correlation: Array, truth_sd: Array) -> list[str]:
        """Return a word on each worker, of draws ``(S, J)``."""
        count = self._means("worker")[1]
        active = count > 0
        if len(bias) < 2:
            return ["unclear" if enough else "too few annotations" for enough in count >= MIN_ANNOTATIONS]
        apart = (bias - bias[:, active].mean(1, keepdims=True)) / truth_sd
        typical = np.median(noise[:, active], axis=1, keepdims=True)
        tests = (
            ("random", (abs(correlation) < UNRELATED).mean(0)),
            ("noisy", (noise > NOISY * typical).mean(0)),
            ("high", (apart > NOTICED).mean(0)),
            ("low", (apart < -NOTICED).mean(0)),
            ("reliable", ((noise < NOISY * typical) & (abs(apart) < NOTICED)).mean(0)),
        )
        random = self.draws("at_random").mean(0) if "at_random" in self.tree["posterior"] else np.zeros(len(count))

        def verdict(j: int) -> str:
            if count[j] < MIN_ANNOTATIONS:
                return "too few annotations"
            if random[j] >= RANDOM:
                return "random"
            return next((word for word, p in tests if p[j] >= CLEAR), "unclear")

        return [verdict(j) for j in range(len(count))]

    @checked
    def bias(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per pair of workers: by how much the labels of one exceed those of the other.

        Columns: ``worker``, ``other``, ``difference`` on the average item, the ends ``low`` and ``high`` of its interval, and
        ``probability``, that the first one is higher.

        Raises:
            DataError: for more than 100,000 pairs.
        """
        names, bias = self.worker_names(), self.draws("bias")
        if len(names) * (len(names) - 1) // 2 > 100_000:
            raise DataError(f"{len(names):,} workers have too many pairs for a table; workers() has a row for each")
        one, other = np.triu_indices(len(names), 1)
        apart = bias[:, one] - bias[:, other]
        mean, low, high = interval(apart, level)
        columns = {"worker": names[one], "other": names[other], "difference": mean, "low": low, "high": high}
        return pd.DataFrame(columns | {"probability": (apart > 0).mean(0)})

    @checked
    def features(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per feature of items: by how much the number rises with it, others held.

        Columns: ``feature``; ``effect``, the rise where the feature is higher by one standard deviation; ``low`` and ``high``,
        the ends of its interval; ``probability``, that it is above 0; and ``sd``, the standard deviation of the feature.

        Raises:
            DataError: where the fit had no features.
        """
        group = self.tree["posterior"]
        if "weight" not in group:
            raise DataError(
                "the result was fitted without features of items; give features=... where annotations are read"
            )
        weight = self.draws("weight")
        if self.reading == "true_number":
            weight = weight * self.draws("reference_slope")[:, None]
        mean, low, high = interval(weight, level)
        columns = {"feature": group["feature"].to_numpy(), "effect": mean, "low": low, "high": high}
        columns |= {"probability": (weight > 0).mean(0), "sd": self.tree["constant_data"]["feature_sd"].to_numpy()}
        return pd.DataFrame(columns)

    @checked
    def confusion(self, worker: Identifier = None, *, level: Level | None = None) -> pd.DataFrame:
        """Refuse: numbers have no confusion matrix.

        Raises:
            DataError: always.
        """
        del worker, level
        raise DataError(
            "labels that are numbers have no confusion matrix; workers() has bias, slope and noise of each worker"
        )

    @checked
    def save(self, path: OutputFile, *, keep: Literal["small", "full"] = "small") -> Path:
        """Write the result to one NetCDF file, atomically; :func:`crowdppl.load` reads it.

        Args:
            path: of the file.
            keep: accepted as by :meth:`crowdppl.Posterior.save`; results for numbers are small and kept in full.

        Raises:
            FileError: if the file cannot be written.
        """
        del keep
        io.write(self.tree, Path(path), "full")
        return Path(path)

    def __repr__(self) -> str:
        counts = self.info["counts"]
        return (
            f"NumericPosterior({self.info['model']} by {self.info['method']}: {counts['annotations']:,} numbers of "
            f"{counts['items']:,} items by {counts['workers']:,} workers)"
        )

    def _repr_html_(self) -> str:
        """Return what comes first of a result, for notebooks."""
        table = self.truth()[[self.item_column, "value", "low", "high"]]
        return html.view(repr(self), *self.alerts, html.table(table), "More: .workers(), .bias(), .tree")


def _names(coordinate: Any) -> Array:
    """Return identifiers as annotations hold them: whole numbers, or text as objects."""
    values = coordinate.to_numpy()
    return values if values.dtype.kind in "iub" else values.astype(object)
