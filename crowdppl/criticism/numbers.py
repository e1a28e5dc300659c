"""Model criticism where labels are numbers: replicated labels, models and algorithms compared, two results compared."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import ndtri

from crowdppl.arguments import Level, Seed, TwoOrMore, checked
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.numeric_reading import known_numbers
from crowdppl.data.table.truths import truth_columns
from crowdppl.errors import DataError, OptionError, listed, silent
from crowdppl.inference.fit import fit
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.posterior.measures import default_level, interval
from crowdppl.posterior.numbers import NumericPosterior

Array = npt.NDArray[Any]
# A statistic is notable where its probability under the model is below this on either side.
NOTABLE = 0.025
# Parts of the labels, each of which is predicted from the others.
FOLDS = 5


@dataclass(frozen=True)
class NumericCheck:
    """Labels as given beside labels drawn from the fitted model.

    Attributes:
        table: one row per statistic: ``statistic``, ``observed``, ``low``, ``high``, the interval of the draws, and ``p``,
            the share of draws above what was observed.
        level: probability of the intervals.
    """

    table: pd.DataFrame
    level: float

    @property
    def notable(self) -> pd.DataFrame:
        """The statistics that the model does not reproduce."""
        return self.table[(self.table["p"] < NOTABLE) | (self.table["p"] > 1 - NOTABLE)]

    @property
    def summary(self) -> list[str]:
        """What the check says, in plain words."""
        bad, size = self.notable, len(self.table)
        if not len(bad):
            return [f"Labels drawn from the fitted model are like these in all of {size} statistics."]
        first = [f"Labels drawn from the fitted model differ from these in {len(bad)} of {size} statistics:"]
        return first + [
            f"{row['statistic']}: {row['observed']:.3g}, where the model gives {row['low']:.3g} to {row['high']:.3g} "
            f"({MEANING[row['statistic']]})"
            for row in bad.to_dict("records")
        ]


MEANING = {
    "standard deviation of labels": "the spread of labels",
    "spread within items": "how far labels of one item are apart",
    "correlation of two labels of an item": "how far workers agree",
    "skewness of residuals": "errors lean to one side",
    "kurtosis of residuals": "far outliers are more or less frequent than a normal distribution has them",
    "correlation of size of residual and truth": "errors are larger at one end of the scale",
    "share of the most frequent label": "labels heap at one number",
}


def _statistics(value: Array, data: NumericAnnotations, expected: Array, truth: Array) -> dict[str, float]:
    item = data.item.numpy()
    count = np.bincount(item, minlength=data.N)
    mean = np.bincount(item, weights=value, minlength=data.N) / np.maximum(count, 1)
    within = value - mean[item]
    several = count[item] > 1
    residual = value - expected
    scaled = (residual - residual.mean()) / (residual.std() or 1.0)
    total = value.var() or 1.0
    free = float(np.maximum(count - 1, 0).sum())
    inner = float((within**2).sum() / free) if free else 0.0
    spacing = data.spacing or total**0.5 / 1000
    _, heaps = np.unique(np.round(value / spacing), return_counts=True)
    size = abs(residual)
    out = {
        "standard deviation of labels": float(total**0.5),
        "skewness of residuals": float((scaled**3).mean()),
        "kurtosis of residuals": float((scaled**4).mean()),
        "share of the most frequent label": float(heaps.max() / len(value)),
    }
    if truth.std() > 0 and size.std() > 0:
        out["correlation of size of residual and truth"] = float(np.corrcoef(size, truth[item])[0, 1])
    if several.any():
        out |= {"spread within items": inner**0.5, "correlation of two labels of an item": 1 - inner / total}
    return out


@checked
def check_numbers(
    posterior: NumericPosterior, *, draws: TwoOrMore = 200, level: Level | None = None, seed: Seed = 0
) -> NumericCheck:
    """Compare labels with labels drawn from the fitted model, each with truths and workers of one draw of the posterior.

    Args:
        posterior: a result.
        draws: data sets drawn.
        level: probability of the intervals of the statistics. Defaults to ArviZ's default, .89.
        seed: of the draws.
    """
    level = default_level(level)
    rng = np.random.default_rng(seed)
    data = posterior.data()
    item, worker = data.item.numpy(), data.worker.numpy()
    group = posterior.tree["truth"]
    truth, sd = group["consensus_relative"].to_numpy(), group["consensus_relative_sd"].to_numpy()
    parts = {name: posterior.draws(name) for name in ("mean", "bias", "slope", "sd")}
    size = len(parts["mean"])
    centre = float(group["consensus"].mean())

    def expected(n: int, x: Array) -> Array:
        bias, slope = (parts[name][n][worker] for name in ("bias", "slope"))
        # Bias and mean move together: their sum is what labels tell.
        return np.asarray(parts["mean"][n] + bias + slope * x[item])

    offset = centre - float(np.mean(parts["mean"]))  # of the mean truth from the mean of the crowd
    rows: dict[str, list[tuple[float, float]]] = {}
    for n in rng.integers(size, size=draws):
        drawn_truth = truth + offset + sd * rng.standard_normal(data.N)
        of_draw = expected(n, drawn_truth)
        value = of_draw + parts["sd"][n][worker] * rng.standard_normal(data.A)
        if data.spacing:
            value = np.round(value / data.spacing) * data.spacing
        if data.scale is not None:
            value = np.clip(value, *data.scale)
        # Both are compared with the same truths and workers (Gelman, Meng and Stern 1996, realised discrepancies).
        given, replicated = (_statistics(y, data, of_draw, drawn_truth) for y in (data.value.numpy(), value))
        for name in given:
            rows.setdefault(name, []).append((given[name], replicated[name]))
    table = []
    for name, pairs in rows.items():
        observed, drawn = np.array(pairs).T
        _, low, high = interval(drawn, level)
        p = float((drawn > observed).mean() + (drawn == observed).mean() / 2)
        table.append(
            {"statistic": name, "observed": float(observed.mean()), "low": float(low), "high": float(high), "p": p}
        )
    return NumericCheck(pd.DataFrame(table), level)


# ---------------------------------------------------------------------- models compared


@dataclass(frozen=True)
class NumericComparison:
    """Models of numbers on the same annotations.

    Attributes:
        models: one row per model: ``model``; ``seconds``; ``error``, the root mean squared error of labels predicted from the
            other labels, each from a fit without a fifth of them; ``log_density`` of these labels in nats, the mean; with
            known true numbers ``rmse`` and ``rmse_relative`` of them, the latter with the means of both taken away.
        known: number of known true numbers.
        items: one row per item: the item and the value of each model.
    """

    models: pd.DataFrame
    known: int
    items: pd.DataFrame

    @property
    def summary(self) -> list[str]:
        """What the comparison says, in plain words."""
        first = self.models.sort_values("error", kind="stable").iloc[0]["model"]
        out = [f"{first} predicts labels of workers from those of the others best."]
        if self.known:
            best = self.models.sort_values("rmse", kind="stable").iloc[0]
            out.append(
                f"On {self.known:,} known true numbers {best['model']} has the smallest error ({best['rmse']:.4g})."
            )
        return out


CANDIDATES: dict[str, LinearGaussian | None] = {
    "linear-gaussian": LinearGaussian(),
    "without slopes": LinearGaussian(slopes=False),
    "without features": LinearGaussian(),
    "mean": None,
}


def _predicted(data: NumericAnnotations, held: Array, model: LinearGaussian | None) -> tuple[Array, Array]:
    """Return mean and standard deviation of held-out labels, ``(n,)`` each, from a fit to the others."""
    kept = torch.from_numpy(~held)
    rest = replace(data, item=data.item[kept], worker=data.worker[kept], value=data.value[kept], scale=None)
    item, worker = data.item.numpy()[held], data.worker.numpy()[held]
    if model is None:
        mean, _ = rest.means()
        overall = float(rest.value.mean())
        mean = np.where(np.isnan(mean), overall, mean)
        spread = float((rest.value.numpy() - mean[rest.item.numpy()]).std()) or 1e-9
        return mean[item], np.full(len(item), spread)
    with silent():
        posterior = fit(rest, model, method="em", seed=0)
    group = posterior.tree["truth"]
    x, sd = group["consensus_relative"].to_numpy(), group["consensus_relative_sd"].to_numpy()
    parts = {name: np.asarray(posterior.draws(name)) for name in ("mean", "bias", "slope", "sd")}
    offset = float(group["consensus"].mean()) - parts["mean"].mean()
    level = (parts["mean"][:, None] + parts["bias"]).mean(0)
    slope, noise = parts["slope"].mean(0), (parts["sd"] ** 2).mean(0)
    mean = level[worker] + slope[worker] * (x[item] + offset)
    return mean, np.sqrt(noise[worker] + slope[worker] ** 2 * sd[item] ** 2)


@checked
def compare_numbers(data: NumericAnnotations, *, truth: Any = None, seed: Seed = 0) -> NumericComparison:
    """Compare models of numbers, and the mean, by how well they predict held-out labels and, if given, true numbers.

    Args:
        data: the annotations, without known true numbers.
        truth: true numbers of some items, a mapping or Series by item, or a frame with an item and a label column; no fit knows
            them.
        seed: of the parts that are held out.

    Raises:
        DataError: for fewer than ten annotations, or no true number of an item of the annotations.
        OptionError: for true numbers within the annotations.
    """
    if bool(data.known.any()):
        raise OptionError("the annotations have known true numbers; read them without, and pass truth=...")
    if data.A < 2 * FOLDS:
        raise DataError(f"{data.A:,} annotations are too few to compare models; at least {2 * FOLDS} are needed")
    known = None
    if truth is not None:
        known = known_numbers(
            truth_columns(None, (data.item_column, None), truth, "the truth"), data.items, "the data", []
        )
        if np.isnan(known).all():
            raise DataError(f"truth=... has no number of the items {listed(data.items.tolist(), 3)}")
    fold = np.random.default_rng(seed).permutation(data.A) % FOLDS
    value = data.value.numpy()
    rows, items = [], pd.DataFrame({data.item_column: data.items})
    for name, model in CANDIDATES.items():
        if name == "without features" and not data.D:
            continue
        own = data.with_features(None) if name == "without features" else data
        began = time.perf_counter()
        if model is None:
            x = data.means()[0]
        else:
            with silent():
                x = fit(own, model, seed=seed).truth()["value"].to_numpy()
        seconds = time.perf_counter() - began
        items[name] = x
        predicted = np.zeros((2, data.A))
        for part in range(FOLDS):
            predicted[:, fold == part] = _predicted(own, fold == part, model)
        mean, spread = predicted
        density = -0.5 * np.log(2 * np.pi * spread**2) - (value - mean) ** 2 / (2 * spread**2)
        row = {"model": name, "seconds": seconds, "error": _root(value - mean), "log_density": float(density.mean())}
        if known is not None:
            apart = (x - known)[~np.isnan(known) & ~np.isnan(x)]
            row |= {"rmse": _root(apart), "rmse_relative": _root(apart - apart.mean())}
        rows.append(row)
    size = 0 if known is None else int((~np.isnan(known)).sum())
    return NumericComparison(pd.DataFrame(rows), size, items)


def _root(error: Array) -> float:
    return float(np.sqrt((error**2).mean()))


# ---------------------------------------------------------------------- two results


@dataclass(frozen=True)
class NumericChanges:
    """Two results on the same task.

    Attributes:
        items: one row per common item: the item, ``before``, ``after``, ``change``, the ends ``low`` and ``high`` of its
            interval.
        workers: one row per common worker: ``worker``, ``bias_before``, ``bias_after``, ``change``, ``low``, ``high``.
        new: number of items that only the later result has.
        gone: number of items that only the earlier one has.
        level: probability of the intervals.
    """

    items: pd.DataFrame
    workers: pd.DataFrame
    new: int
    gone: int
    level: float

    @property
    def summary(self) -> list[str]:
        """What has changed, in plain words."""
        sure = [(table["low"] > 0) | (table["high"] < 0) for table in (self.items, self.workers)]
        return [
            f"{len(self.items):,} items are in both results; the interval of the change leaves out zero for "
            f"{int(sure[0].sum()):,}.",
            f"{len(self.workers):,} workers are in both; the bias of {int(sure[1].sum()):,} has changed by more than chance.",
            f"{self.new:,} items are new, {self.gone:,} are gone.",
        ]


@checked
def number_changes(earlier: NumericPosterior, later: NumericPosterior, *, level: Level | None = None) -> NumericChanges:
    """Compare a result with a later one; the two are taken as independent of each other.

    Raises:
        DataError: if the results share neither items nor workers.
    """
    level = default_level(level)
    column = earlier.item_column
    tables = [one.truth(level=level).set_index(one.item_column) for one in (earlier, later)]
    common = tables[0].index.intersection(tables[1].index, sort=False)
    names = [pd.Index(one.worker_names()) for one in (earlier, later)]
    both = names[0].intersection(names[1], sort=False)
    if not len(common) and not len(both):
        raise DataError("the results share neither items nor workers")
    before, after = (table.loc[common] for table in tables)
    half = _quantile(level) * np.sqrt(before["sd"] ** 2 + after["sd"] ** 2)
    change = after["value"] - before["value"]
    items = pd.DataFrame(
        {
            column: common,
            "before": before["value"].to_numpy(),
            "after": after["value"].to_numpy(),
            "change": change.to_numpy(),
            "low": (change - half).to_numpy(),
            "high": (change + half).to_numpy(),
        }
    )
    biases = [one.draws("bias")[:, index.get_indexer(both)] for one, index in zip((earlier, later), names, strict=True)]
    mean = [one.mean(0) for one in biases]
    spread = _quantile(level) * np.sqrt(sum(one.var(0) for one in biases))
    workers = pd.DataFrame(
        {
            "worker": both,
            "bias_before": mean[0],
            "bias_after": mean[1],
            "change": mean[1] - mean[0],
            "low": mean[1] - mean[0] - spread,
            "high": mean[1] - mean[0] + spread,
        }
    )
    order = abs(items["change"]).sort_values(ascending=False, kind="stable").index
    return NumericChanges(
        items.loc[order].reset_index(drop=True),
        workers,
        len(tables[1].index.difference(common)),
        len(tables[0].index.difference(common)),
        level,
    )


def _quantile(level: float) -> float:
    return float(ndtri((1 + level) / 2))
