"""Plots of a result, in matplotlib.

Every function takes a result and returns the axes; those that draw into one set of axes accept ``ax=``. Intervals are the same as
in the tables of the same level; ``posterior.coverage`` gives the measured coverage of such intervals. ArviZ's plots accept
``posterior.tree``: ``arviz_plots.plot_trace(posterior.tree, var_names=["prevalence"])``. Always give ``var_names``: without them
ArviZ draws a panel for every number of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from crowdppl import acquisition
from crowdppl.arguments import Identifier, Level, PositiveInt, anything, checked, shown
from crowdppl.criticism import Calibration, Perspectives, PredictiveCheck
from crowdppl.criticism.predictive import NOTABLE
from crowdppl.errors import OptionError, suggestion
from crowdppl.judges.panel_table import Panel
from crowdppl.judges.result import JudgesResult
from crowdppl.posterior import viewed, workers
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "chains",
    "confusion",
    "curve",
    "entropy",
    "experience",
    "forest",
    "groups",
    "item",
    "judges",
    "load",
    "noise",
    "panel",
    "perspectives",
    "predictive",
    "ranks",
    "redundancy",
    "reliability",
    "simplex",
    "systems",
    "trace",
    "values",
    "workers_map",
    "wright_map",
]

Array = npt.NDArray[Any]

BLUE, LIGHT, RED, GREY = "#1f5fa8", "#a9c7e8", "#b3372c", "#8a94a0"
# Columns of the table of workers with intervals that are in it whatever measures are asked for.
NO_MEASURES = ("share_correct", "severity", "grade_correlation")
# Maximum number of characters of a name.
LONGEST = 24
# Maximum number of classes of a matrix with numbers in its cells, and with intervals.
NUMBERED, WITH_INTERVALS = 8, 5
# Minimum number of draws per chain for a plot of ranks.
RANKED = 4


def __dir__() -> list[str]:
    return __all__


@checked
def confusion(
    posterior: Annotated[Posterior, anything],
    which: Literal["best", "worst", "average"] | list[Any] | None = None,
    *,
    most: PositiveInt = 4,
    level: Level | None = None,
) -> Array:
    """Draw confusion matrices, with the interval of every cell if there is room for it.

    Args:
        posterior: a result.
        which: workers by name; or the ``"best"`` or ``"worst"`` by the lower end of their accuracy; or ``"average"``, the mean of
            the crowd weighted by numbers of annotations. Defaults to the best two and the worst two.
        most: number of workers, for the best or the worst.
        level: probability of the intervals.

    Returns:
        The axes, one for each matrix.
    """
    _require(posterior, Posterior, "confusion")
    names = _which(posterior, which, most)
    labels = [_name(k) for k in posterior.labels]
    K, longest = len(labels), max(len(k) for k in labels)
    cell = min(0.75 if K <= WITH_INTERVALS else 0.5, 7 / K)
    size = 8 if cell > 0.15 else 5
    written = 0.009 * size * longest  # approximate length of the longest label, inches
    figure, axes = plt.subplots(
        1,
        len(names),
        figsize=(max(3.2, 1 + written + (0.25 + cell * K) * len(names)), 1.2 + 0.7 * written + cell * K),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    shown = K <= WITH_INTERVALS and posterior.kind != "point"
    for ax, (name, title) in zip(axes[0], names, strict=True):
        one = None if name is None else posterior.worker_index(name)
        draws = posterior.mean_confusion() if one is None else posterior.draws("confusion", worker=one)
        mean, low, high = workers.interval(draws, level)
        ax.imshow(mean, cmap="Blues", vmin=0, vmax=1)
        for k, other in np.ndindex(K, K) if K <= NUMBERED else ():
            text = f"{mean[k, other]:.2f}"
            if shown and not np.isnan(low[k, other]):
                text += f"\n{low[k, other]:.2f}–{high[k, other]:.2f}"
            ink = "white" if mean[k, other] > 0.6 else "black"
            ax.text(other, k, text, ha="center", va="center", color=ink, fontsize=7)
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if written > 0.9 * cell else {}
        ax.set_xticks(range(K), labels, fontsize=size, **turned)
        ax.set_yticks(range(K), labels, fontsize=size)
        ax.set_xlabel("label given", fontsize=8)
        ax.set_title(_name(title, max(8, int(13 * cell * K))), fontsize=9)
    axes[0][0].set_ylabel("true label", fontsize=8)
    if shown:
        figure.supxlabel(_intervals(posterior, level), fontsize=7)
    return np.asarray(axes[0])


@checked
def forest(
    posterior: Annotated[Posterior, anything],
    *,
    by: str = "accuracy",
    most: PositiveInt = 40,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a measure of workers with intervals, best at the top. The size of a dot shows the number of annotations.

    Of labels that are numbers, the measure is ``bias`` (the default), ``slope``, ``sd`` or ``correlation``.
    """
    if isinstance(posterior, NumericPosterior):
        by = "bias" if by == "accuracy" else by
        if by not in ("bias", "slope", "sd", "correlation"):
            raise OptionError(f"by={by!r}; of labels that are numbers use 'bias', 'slope', 'sd' or 'correlation'")
        table = posterior.workers(level=level, sort=by)
    else:
        _require(posterior, Posterior, "forest")
        table = posterior.workers(level=level, sort=by, measures=["accuracy"] if by in NO_MEASURES else [by])
    everybody = len(table)
    table = table.head(most).iloc[::-1]
    ax = _axes(ax, (6, 1.1 + 0.2 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["verdict"].isin(workers.UNRELIABLE), RED, BLUE)
    ax.hlines(y, table[f"{by}_low"], table[f"{by}_high"], color=colour, alpha=0.6, lw=2)
    size = 12 + 60 * np.sqrt(table["annotations"] / max(1, table["annotations"].max()))
    ax.scatter(table[by], y, s=size, c=colour, zorder=3)
    names = [f"{_name(n)} ({j:,})" for n, j in zip(table["worker"], table["annotations"], strict=True)]
    _rows(ax, names, f"worker{_of(everybody, most)} (annotations)")
    ax.set_xlabel(f"{by.replace('_', ' ')}\n{_intervals(posterior, level)}", fontsize=8)
    return ax


@checked
def experience(
    posterior: Annotated[Posterior, anything], *, level: Level | None = None, ax: Axes | None = None
) -> Axes:
    """Draw each worker's accuracy with its interval against the number of annotations."""
    _require(posterior, Posterior, "experience")
    table = posterior.workers(level=level)
    ax = _axes(ax)
    ax.vlines(table["annotations"], table["accuracy_low"], table["accuracy_high"], color=LIGHT, lw=1)
    ax.scatter(table["annotations"], table["accuracy"], s=12, color=BLUE, zorder=3)
    ax.set_xscale("symlog", linthresh=1) if table["annotations"].min() == 0 else ax.set_xscale("log")
    # Only round numbers, few enough not to overlap.
    spread = max(1, table["annotations"].max()) / max(1, table["annotations"].min())
    ax.xaxis.set_major_locator(LogLocator(subs=(1,) if spread > 1000 else (1, 2, 5), numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(f"annotations of the worker\n{_intervals(posterior, level)}", fontsize=8)
    ax.set_ylabel("accuracy", fontsize=8)
    return ax


@checked
def ranks(
    posterior: Annotated[Posterior, anything],
    *,
    by: str = "accuracy",
    most: PositiveInt = 40,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the intervals of workers' ranks; grey if the rank is unknown."""
    _require(posterior, Posterior, "ranks")
    draws = workers.rank(posterior.measure(by), lower_is_better=by in workers.LOWER_IS_BETTER)
    table = workers.summarise_ranks(draws, level).assign(worker=posterior.worker_names())
    everybody = len(table)
    table = table.sort_values(["rank", "rank_high"], kind="stable").head(most).iloc[::-1]
    ax = _axes(ax, (6, 1.1 + 0.2 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["rank_high"] - table["rank_low"] + 1 > len(table) / 2, GREY, BLUE)
    ax.hlines(y, table["rank_low"], table["rank_high"], color=colour, lw=3, alpha=0.6)
    ax.scatter(table["rank"], y, c=colour, s=16, zorder=3)
    _rows(ax, [_name(name) for name in table["worker"]], f"worker{_of(everybody, most)}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    words = f"rank by {by.replace('_', ' ')} (grey: interval wider than half of the crowd)"
    ax.set_xlabel(f"{words}\n{_intervals(posterior, level)}", fontsize=8)
    return ax


@checked
def item(posterior: Annotated[Posterior, anything], task: Identifier, *, ax: Axes | None = None) -> Axes:
    """Draw the probability of each class of one item, beside the share of each label given.

    Raises:
        OptionError: for an unknown item.
    """
    _require(posterior, Posterior, "item")
    names = posterior.items().tolist()
    if task not in names:
        raise OptionError(f"no item {task!r} in this result{suggestion(task, names)}")
    i = names.index(task)
    K = len(posterior.labels)
    ax = _axes(ax, (5.5, 1.1 + max(0.35, 0.55 - 0.02 * K) * K))
    place, votes = np.arange(K), posterior.votes()[i]
    ax.barh(place - 0.2, posterior.probability()[i], 0.4, color=BLUE, label="probability")
    ax.barh(place + 0.2, votes / max(1, votes.sum()), 0.4, color=LIGHT, label=f"share of {votes.sum():,} annotations")
    _rows(ax, [_name(k) for k in posterior.labels], "", size=8)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    # Above the axes, where there are no bars: the name on the left, the legend on the right.
    ax.set_title(_name(task), fontsize=9, loc="left")
    ax.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1.01, 0.99), ncols=2, frameon=False, columnspacing=1)
    return ax


@checked
def simplex(posterior: Annotated[Posterior, anything], *, ax: Axes | None = None) -> Axes:
    """Draw the items of a result with three classes as points in the triangle of class probabilities.

    Raises:
        OptionError: for another number of classes.
    """
    _require(posterior, Posterior, "simplex")
    if len(posterior.labels) != 3:
        raise OptionError(
            f"a triangle has three corners, this result has {len(posterior.labels)} classes; use plots.item"
        )
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    ax = _axes(ax, (4.5, 4))
    ax.plot(*corners[[0, 1, 2, 0]].T, color=GREY, lw=1)
    place = posterior.probability() @ corners  # (N, 2)
    ax.scatter(place[:, 0], place[:, 1], s=14, color=BLUE, alpha=0.4, lw=0)
    for corner, label, side in zip(corners, posterior.labels, (-1, -1, 1), strict=True):
        ax.annotate(
            _name(label),
            corner,
            xytext=(0, 4 * side),
            textcoords="offset points",
            ha="center",
            va="bottom" if side > 0 else "top",
            fontsize=8,
        )
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


@checked
def entropy(posterior: Annotated[Posterior, anything], *, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the items' entropy in bits; 0 is a certain label."""
    _require(posterior, Posterior, "entropy")
    ax = _axes(ax)
    ax.hist(posterior.truth()["entropy"], bins=30, range=(0, np.log2(len(posterior.labels))), color=BLUE)
    ax.set_xlabel("entropy of the true label, bits", fontsize=8)
    ax.set_ylabel("items", fontsize=8)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


@checked
def load(posterior: Annotated[Posterior, anything]) -> Array:
    """Draw the numbers of annotations per item and per worker, in two axes."""
    _require(posterior, Posterior, "load")
    _, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    values, counts = np.unique(posterior.annotations_per_item(), return_counts=True)
    axes[0].bar(values, counts, color=BLUE)
    axes[0].set_xlim(values[0] - 1, values[-1] + 1)
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_xlabel("annotations of an item", fontsize=8)
    axes[0].set_ylabel("items", fontsize=8)
    each = np.sort(posterior.annotations_per_worker())[::-1]
    axes[1].plot(np.arange(len(each) + 1), np.append(0, each.cumsum()) / each.sum(), color=BLUE)
    axes[1].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[1].set_xlabel("workers, by number of annotations", fontsize=8)
    axes[1].set_ylabel("share of all annotations", fontsize=8)
    axes[1].set_ylim(0, 1.02)
    return np.asarray(axes)


@checked
def reliability(calibration: Calibration, *, ax: Axes | None = None) -> Axes:
    """Draw the reliability curve of :func:`crowdppl.criticism.calibration`: accuracy against confidence.

    The size of a dot shows the number of items.
    """
    _require(calibration, Calibration, "reliability", "criticism.calibration(posterior, truth)")
    ax = _axes(ax, (4, 4))
    bins = calibration.bins
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    ax.plot(bins["confidence"], bins["accuracy"], color=BLUE, lw=1)
    size = 10 + 150 * bins["items"] / bins["items"].max()
    ax.scatter(bins["confidence"], bins["accuracy"], s=size, color=BLUE, alpha=0.7, clip_on=False, zorder=3)
    ax.set_xlabel("probability of the label", fontsize=8)
    ax.set_ylabel("share correct", fontsize=8)
    ax.set_title(f"calibration error {calibration.ece:.3f}, {calibration.items:,} items", fontsize=9)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(0, 1.02)
    return ax


@checked
def redundancy(
    posterior: Annotated[Posterior, anything],
    most: PositiveInt = 20,
    *,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the effective number of independent annotations against the number of annotations of an item."""
    _require(posterior, Posterior, "redundancy")
    table = acquisition.redundancy(posterior, most, level=level)
    ax = _axes(ax)
    ax.plot(table["annotations"], table["annotations"], color=GREY, lw=1, ls="--")
    ax.fill_between(table["annotations"], table["low"], table["high"], color=LIGHT, alpha=0.6, lw=0)
    ax.plot(table["annotations"], table["independent"], color=BLUE)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("annotations of an item", fontsize=8)
    ax.set_ylabel("effective number of independent annotations", fontsize=8)
    ax.set_title(acquisition.redundancy_source(posterior), fontsize=9)
    return ax


@checked
def curve(expected: acquisition.Curve, *, ax: Axes | None = None) -> Axes:
    """Draw the expected accuracy after further annotations, see :func:`crowdppl.acquisition.curve`."""
    _require(expected, acquisition.Curve, "curve", "acquisition.curve(posterior)")
    ax = _axes(ax)
    table = expected.table
    ax.fill_between(table["annotations"], table["low"], table["high"], color=LIGHT, alpha=0.6, lw=0)
    ax.plot(table["annotations"], table["accuracy"], color=BLUE)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("further annotations", fontsize=8)
    ax.set_ylabel(f"expected accuracy, {expected.level:.0%} band", fontsize=8)
    return ax


@checked
def trace(posterior: Annotated[Posterior, anything], *, ax: Axes | None = None) -> Axes:
    """Draw the course of a fit: the objective at each iteration, or the log posterior of the draws, a line for each chain."""
    _require(posterior, Posterior, "trace")
    stats = posterior.tree["sample_stats"].to_dataset()
    ax = _axes(ax)
    steps = [name for name in stats.data_vars if stats[name].dims == ("iteration",)]
    if steps:
        for name in steps:
            ax.plot(stats[name].values, label=str(name).replace("_", " "), color=BLUE if name == steps[0] else GREY)
        ax.set_xlabel("iteration", fontsize=8)
        ax.set_ylabel(str(steps[0]).replace("_", " ") if len(steps) == 1 else "", fontsize=8)
    else:
        for n, line in enumerate(stats["lp"].values):
            ax.plot(line, lw=0.6, alpha=0.8, label=f"chain {n + 1}")
        ax.set_xlabel("draw", fontsize=8)
        ax.set_ylabel("log posterior density", fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if 1 < len(ax.lines) <= 10:
        ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return ax


@checked
def chains(posterior: Annotated[Posterior, anything], *, most: PositiveInt = 12) -> Figure:
    """Draw the agreement of chains: the ranks of the draws of each chain among the draws of all chains.

    For each chain a line shows the excess share of its draws below each rank, relative to chains of the same distribution. If the
    chains have mixed, lines stay in the grey band (95% of them, for independent draws). Panels: the log posterior and the
    prevalence of the most frequent classes, of the model as published.

    Args:
        posterior: a result with several chains.
        most: maximum number of panels.

    Raises:
        OptionError: for a result with one chain, or too few draws.
    """
    _require(posterior, Posterior, "chains")
    group = posterior.tree["posterior"].to_dataset()
    count, size = group.sizes["chain"], group.sizes["draw"]
    if size < RANKED:
        raise OptionError("too few draws to compare chains by their ranks; fit again with a larger num_samples")
    if count < 2:
        raise OptionError(
            "this result has one chain, and ranks compare chains; fit with method='gibbs' or 'nuts' and chains=4"
        )
    quantities = {"log posterior": posterior.tree["sample_stats"].to_dataset()["lp"].values}
    prevalence = group["prevalence"].values  # (C, S, K)
    for k in np.argsort(-prevalence.mean((0, 1)), kind="stable"):
        quantities[f"prevalence of {_name(posterior.labels[k])}"] = prevalence[:, :, k]
    quantities = dict(list(quantities.items())[:most])
    figure, axes = _panels(len(quantities), 1.7)
    # Kolmogorov-Smirnov bound for one chain against all chains.
    band = 1.358 * np.sqrt((1 - 1 / count) / size)
    places = np.linspace(0, 1, min(size * count, 200) + 1)
    for ax, (name, values) in zip(axes, quantities.items(), strict=True):
        order = values.reshape(-1).argsort(kind="stable").argsort(kind="stable").reshape(values.shape)
        rank = (order + 0.5) / values.size
        ax.axhspan(-band, band, color=GREY, alpha=0.2, lw=0)
        for n, mine in enumerate(rank):
            share = np.searchsorted(np.sort(mine), places) / size
            ax.plot(places, share - places, lw=1, label=f"chain {n + 1}")
        ax.set_title(name, fontsize=8)
        ax.set_ylim(*(np.array([-1, 1]) * max(2 * band, 1.1 * max(np.abs(x.get_ydata()).max() for x in ax.lines))))
        ax.tick_params(labelsize=7)
    if count <= 10:
        figure.legend(*axes[0].get_legend_handles_labels(), fontsize=7, loc="outside right upper", frameon=False)
    figure.supxlabel("rank among all draws, as a share", fontsize=8)
    figure.supylabel("excess share of draws below", fontsize=8)
    return figure


@checked
def predictive(check: PredictiveCheck) -> Figure:
    """Draw the statistics of a predictive check: replicates as histograms, the observed value as a line.

    The line is red if fewer than one replicate in a hundred is as extreme.
    """
    _require(check, PredictiveCheck, "predictive", "criticism.check(posterior)")
    table = check.table.dropna(subset=["observed"])
    figure, axes = _panels(len(table), 1.6)
    for ax, row in zip(axes, table.to_dict("records"), strict=True):
        ax.hist(check.draws[row["statistic"]], bins=20, color=LIGHT)
        ax.axvline(row["observed"], color=RED if row["p_value"] < NOTABLE else BLUE, lw=2)
        words = str(row["statistic"]).replace("_", " ")
        if str(row["statistic"]).startswith("label_"):
            words = f"share of {_name(str(row['meaning']).removeprefix('share of the label '))}"
        ax.set_title(f"{words} (p {row['p_value']:.3f})", fontsize=8)
        ax.set_yticks([])
        ax.tick_params(labelsize=7)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    return figure


@checked
def workers_map(posterior: Annotated[Posterior, anything], *, ax: Axes | None = None) -> Axes:
    """Draw workers in the plane, coloured by accuracy; those with similar labels are near each other.

    The axes are the first two principal components of the workers' embeddings, if the model has them, else of their mean
    confusion matrices, with classes weighted by the square root of their prevalence. Names are shown where there is room, those
    of workers with most annotations first.
    """
    _require(posterior, Posterior, "workers_map")
    posterior_group = posterior.tree["posterior"].to_dataset()
    point = posterior.tree["point"].to_dataset() if "point" in posterior.tree.children else None
    where = next((g for g in (point, posterior_group) if g is not None and "worker_embedding" in g), None)
    if where is not None:
        embedding = where["worker_embedding"]
        embedding = embedding.mean([axis for axis in ("chain", "draw") if axis in embedding.dims])
        space = np.asarray(embedding.values).reshape(len(posterior.worker_names()), -1)
        what = "embedding"
    else:
        prevalence = posterior.draws("prevalence").mean(0)
        mean = np.concatenate([c.mean(0) for _, c, _ in posterior.worker_blocks()])
        space = (mean * np.sqrt(prevalence)[:, None]).reshape(len(mean), -1)
        what = "confusion"
    centred = space - space.mean(0)
    _, _, axes_of = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ axes_of[:2].T
    if plane.shape[1] < 2:
        plane = np.column_stack([plane[:, 0], np.zeros(len(plane))])
    ax = _axes(ax, (6, 4.5))
    accuracy = np.concatenate([workers.accuracy(c, p).mean(0) for _, c, p in posterior.worker_blocks()])
    size = 15 + 85 * np.sqrt(posterior.annotations_per_worker() / max(1, posterior.annotations_per_worker().max()))
    drawn = ax.scatter(plane[:, 0], plane[:, 1], c=accuracy, s=size, cmap="viridis", vmin=0, vmax=1)
    ax.margins(0.12)
    ax.figure.colorbar(drawn, ax=ax, label="accuracy")
    ax.set_xlabel(f"{what}: first axis", fontsize=8)
    ax.set_ylabel("second axis", fontsize=8)
    _name_places(ax, posterior.worker_names(), plane, -posterior.annotations_per_worker())
    return ax


@checked
def wright_map(
    posterior: Annotated[Posterior, anything],
    *,
    most: PositiveInt = 40,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw items and raters of grades on one scale: a Wright map.

    Above, how many items have which expected true grade. Below, the grade that each rater gives in the mean over all items,
    with the interval of the severity; the most severe rater is at the top. The raters with most annotations are shown.

    Raises:
        DataError: if the labels are not grades.
    """
    _require(posterior, Posterior, "wright_map")
    grades, table = posterior.grades(level=level), posterior.severity(level=level)
    everybody, centre = len(table), float(grades["grade"].mean())
    table = table.sort_values("annotations", ascending=False, kind="stable").head(most)
    table = table.sort_values("severity", ascending=True, kind="stable")
    ax = _axes(ax, (6, 2.2 + 0.2 * len(table)))
    y = np.arange(len(table))
    ax.hlines(y, centre - table["severity_high"], centre - table["severity_low"], color=BLUE, alpha=0.6, lw=2)
    ax.scatter(centre - table["severity"], y, s=24, c=BLUE, zorder=3)
    ax.axvline(centre, color=GREY, lw=0.8)
    counts, edges = np.histogram(grades["grade"], bins=30)
    base, height = len(table) + 0.3, max(3.0, 0.25 * len(table))
    ax.bar(edges[:-1], height * counts / max(1, counts.max()), np.diff(edges), bottom=base, align="edge", color=LIGHT)
    names = [f"{_name(n)} ({j:,})" for n, j in zip(table["worker"], table["annotations"], strict=True)]
    _rows(ax, names, f"rater{_of(everybody, most)} (annotations)")
    ax.set_ylim(-0.7, base + height + 0.3)
    ax.text(edges[0], base + height, f"{len(grades):,} items", fontsize=8, va="top", color=GREY)
    ax.set_xlabel(f"grade of an item; mean grade that a rater gives\n{_intervals(posterior, level)}", fontsize=8)
    return ax


@checked
def perspectives(result: Annotated[Perspectives, anything], *, most: PositiveInt = 20, ax: Axes | None = None) -> Axes:
    """Draw what each group of raters says of the items that groups see most differently, with intervals.

    Items are in the order of the mean grade, the highest at the top. How far groups differ in the mean over all items is
    severity: items are chosen by what is left without it. The title says what places of groups gain over one place for all.
    """
    _require(result, Perspectives, "perspectives", "crowdppl.criticism.perspectives(...)")
    item = result.grades.columns[0]
    places = result.places
    apart = places - places.mean()
    chosen = (apart.max(axis=1) - apart.min(axis=1)).sort_values(ascending=False, kind="stable").index[:most]
    order = places.loc[chosen].mean(axis=1).sort_values(kind="stable").index
    ax = _axes(ax, (6, 1.5 + 0.25 * len(order)))
    groups = places.columns.tolist()
    for g, name in enumerate(groups):
        part = result.grades[result.grades["group"] == name].set_index(item).loc[order]
        y = np.arange(len(order)) + 0.5 * (g - (len(groups) - 1) / 2) / len(groups)
        colour = plt.get_cmap("tab10")(g % 10)
        ax.hlines(y, part["low"], part["high"], color=colour, alpha=0.4, lw=2)
        ax.scatter(part["grade"], y, s=18, color=colour, label=_name(name), zorder=3)
    _rows(ax, [_name(name) for name in order], f"item{_of(len(places), most)}")
    gain, se = result.scores[["gain", "se"]].iloc[-1]
    ax.set_title(f"places of groups gain {gain:+.4f} nats an annotation (standard error {se:.4f})", fontsize=8)
    ax.set_xlabel(f"mean grade that a rater of the group gives, from 0 (intervals of {result.level:.0%})", fontsize=8)
    ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return ax


@checked
def noise(
    posterior: Annotated[Posterior, anything],
    *,
    most: PositiveInt = 40,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of each worker's annotations with common noise, for a model that separates it from individual noise.

    Raises:
        OptionError: for another model.
    """
    _require(posterior, Posterior, "noise")
    if not viewed.has(posterior.tree, "common_share", "worker"):
        models = viewed.models_with("common_share")
        raise OptionError(
            f"{posterior.info['model']} does not separate common from individual noise; fit model={models}"
        )
    mean, low, high = workers.interval(posterior.draws("common_share"), level)
    order = np.argsort(-posterior.annotations_per_worker(), kind="stable")[:most]
    order = order[np.argsort(mean[order], kind="stable")]
    ax = _axes(ax, (6, 1.1 + 0.2 * len(order)))
    y = np.arange(len(order))
    ax.hlines(y, low[order], high[order], color=LIGHT, lw=3)
    ax.scatter(mean[order], y, color=BLUE, s=14, zorder=3)
    _rows(ax, [_name(name) for name in posterior.worker_names()[order]], f"worker{_of(len(mean), most)}")
    ax.set_xlim(0, 1)
    ax.set_xlabel(f"share of annotations with common noise\n{_intervals(posterior, level)}", fontsize=8)
    return ax


@checked
def groups(posterior: Annotated[Posterior, anything], *, most: PositiveInt = 60, ax: Axes | None = None) -> Axes:
    """Draw the probability that each worker belongs to each group, for a model with groups.

    Raises:
        OptionError: for a model without groups.
    """
    _require(posterior, Posterior, "groups")
    if not viewed.has(posterior.tree, "membership", "worker"):
        models = viewed.models_with("membership")
        raise OptionError(f"{posterior.info['model']} has no groups; fit model={models}")
    membership = posterior.draws("membership").mean(0)  # (J, M)
    order = np.argsort(-posterior.annotations_per_worker(), kind="stable")[:most]
    order = order[np.lexsort((-membership[order].max(1), membership[order].argmax(1)))]
    ax = _axes(ax, (6, 1.3 + 0.2 * len(order)))
    left = np.zeros(len(order))
    for m in range(membership.shape[1]):
        ax.barh(
            np.arange(len(order)),
            membership[order, m],
            left=left,
            label=f"group {m + 1}",
            color=plt.get_cmap("tab10")(m % 10),
        )
        left += membership[order, m]
    _rows(ax, [_name(name) for name in posterior.worker_names()[order]], f"worker{_of(len(membership), most)}")
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability", fontsize=8)
    ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return ax


@checked
def values(
    posterior: Annotated[NumericPosterior, anything],
    *,
    most: PositiveInt = 40,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw items of numbers by value: dots with intervals, and rings at the means of the labels given.

    With more than ``most`` items, as many of them, evenly spaced from the lowest to the highest.
    """
    _require(posterior, NumericPosterior, "values")
    table = posterior.truth(level=level).sort_values("value", kind="stable")
    everybody = len(table)
    table = table.iloc[np.unique(np.linspace(0, everybody - 1, min(most, everybody)).round().astype(int))]
    ax = _axes(ax, (6, 1.1 + 0.2 * len(table)))
    y = np.arange(len(table))
    ax.hlines(y, table["low"], table["high"], color=BLUE, alpha=0.6, lw=2)
    ax.scatter(table["value"], y, s=24, c=BLUE, zorder=3, label=posterior.reading.replace("_", " "))
    ax.scatter(table["mean_label"], y, s=24, facecolors="none", edgecolors=RED, zorder=3, label="mean label")
    _rows(ax, [_name(name) for name in table[posterior.item_column]], f"item{_of(everybody, most)}")
    ax.legend(fontsize=7, frameon=False)
    ax.set_xlabel(f"value\n{_intervals(posterior, level)}", fontsize=8)
    return ax


@checked
def systems(result: Annotated[JudgesResult, anything], *, most: PositiveInt = 40, ax: Axes | None = None) -> Axes:
    """Draw the corrected rate of each system with its interval beside the uncorrected one, the best at the top.

    Systems without human labels, whose correction is transported, are grey.

    Args:
        result: of :func:`crowdppl.judges.fit`.
        most: maximum number of systems.
        ax: axes to draw into.
    """
    _require(result, JudgesResult, "systems", "crowdppl.judges.fit(...)")
    table = result.systems()
    everybody = len(table)
    table = table.head(most).iloc[::-1]
    ax = _axes(ax, (6, 1.3 + 0.25 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["transported"], GREY, BLUE)
    ax.hlines(y, table["corrected_low"], table["corrected_high"], color=colour, alpha=0.6, lw=3)
    ax.scatter(table["corrected"], y, s=24, c=colour, zorder=3, label="corrected")
    ax.scatter(table["uncorrected"], y, s=28, facecolors="white", edgecolors=RED, zorder=2, label="uncorrected")
    _rows(ax, [_name(name) for name in table["system"]], f"system{_of(everybody, most)}", size=8)
    grey = " (grey: no human labels)" if table["transported"].any() else ""
    ax.set_xlabel(f"rate{grey}\n{result.level:.0%} intervals", fontsize=8)
    ax.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1.01, 0.99), ncols=2, frameon=False, columnspacing=1)
    return ax


@checked
def judges(result: Annotated[JudgesResult, anything], *, most: PositiveInt = 40, ax: Axes | None = None) -> Axes:
    """Draw the accuracy of judges with intervals, the best at the top; with two classes also sensitivity and specificity.

    Args:
        result: of :func:`crowdppl.judges.fit`.
        most: maximum number of judges.
        ax: axes to draw into.
    """
    _require(result, JudgesResult, "judges", "crowdppl.judges.fit(...)")
    table = result.judges()
    everybody = len(table)
    table = table.head(most).iloc[::-1]
    measures = [name for name in ("accuracy", "sensitivity", "specificity") if name in table]
    ax = _axes(ax, (6, 1.3 + 0.09 * (1 + len(measures)) * len(table)))
    for n, (name, colour) in enumerate(zip(measures, (BLUE, RED, GREY), strict=False)):
        y = np.arange(len(table)) + 0.22 * ((len(measures) - 1) / 2 - n)
        ax.hlines(y, table[f"{name}_low"], table[f"{name}_high"], color=colour, alpha=0.6, lw=2)
        ax.scatter(table[name], y, s=14, color=colour, zorder=3, label=name)
    _rows(ax, [_name(name) for name in table["judge"]], f"judge{_of(everybody, most)}", size=8)
    ax.set_xlabel(f"probability\n{result.level:.0%} intervals", fontsize=8)
    if len(measures) > 1:
        ax.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1.01, 0.99), ncols=3, frameon=False, columnspacing=1)
    return ax


@checked
def panel(result: JudgesResult | Panel, *, ax: Axes | None = None) -> Axes:
    """Draw the correlation of the errors of each pair of judges, those of a family side by side.

    Red cells are pairs of judges that are wrong about the same items. Lines separate families, and numbers are shown where there
    is room. The title has the effective number of judges.

    Args:
        result: of :func:`crowdppl.judges.fit`, or its ``panel()``.
        ax: axes to draw into.
    """
    if isinstance(result, JudgesResult):
        result = result.panel()
    _require(result, Panel, "panel", "crowdppl.judges.fit(...)")
    family = result.adds.set_index("judge")["family"]
    names = family.sort_values(kind="stable").index.tolist()
    cells = result.correlation.loc[names, names].to_numpy(copy=True)
    np.fill_diagonal(cells, np.nan)
    J = len(names)
    cell = min(0.45, 7 / J)
    ax = _axes(ax, (2.6 + cell * J, 1.9 + cell * J))
    image = ax.imshow(cells, cmap="RdBu_r", vmin=-1, vmax=1)
    of = family[names].to_numpy()
    for edge in np.flatnonzero(of[1:] != of[:-1]) + 0.5 if len(set(of.tolist())) < J else ():
        ax.axhline(edge, color="black", lw=0.8)
        ax.axvline(edge, color="black", lw=0.8)
    for k, other in np.ndindex(J, J) if cell > 0.36 else ():
        if np.isfinite(cells[k, other]):
            ink = "white" if abs(cells[k, other]) > 0.6 else "black"
            ax.text(other, k, f"{cells[k, other]:.2f}", ha="center", va="center", color=ink, fontsize=7)
    size = 8 if cell > 0.15 else 5
    ax.set_xticks(range(J), [_name(name) for name in names], fontsize=size, rotation=90)
    ax.set_yticks(range(J), [_name(name) for name in names], fontsize=size)
    mean, low, high = result.effective
    ax.set_title(f"{J} judges are worth {mean:.1f} ({low:.1f} to {high:.1f})", fontsize=9)
    ax.figure.colorbar(image, ax=ax, label="correlation of errors", shrink=0.8)
    return ax


def _require(given: Any, kind: type, name: str, example: str = "crowdppl.fit(...)") -> None:
    """Refuse an object of another kind than a function draws.

    Raises:
        OptionError: with an example of a call that returns such an object.
    """
    if not isinstance(given, kind):
        raise OptionError(
            f"plots.{name} draws a {kind.__name__}, not a {type(given).__name__}: plots.{name}({example})"
        )


def _intervals(posterior: Posterior | NumericPosterior, level: float | None) -> str:
    """Return a short description of the intervals."""
    if posterior.kind == "point":
        return "one point, no intervals"
    if isinstance(posterior, NumericPosterior):
        return f"{workers.default_level(level):.0%} intervals"
    errors = "allowing for correlated errors" if posterior.calibrated else "annotations of an item taken as independent"
    return f"{workers.default_level(level):.0%} intervals, {errors}"


def _of(everybody: int, most: int) -> str:
    """Return how many of all workers are shown, if not all of them are."""
    return f", {most:,} of {everybody:,}" if everybody > most else ""


def _rows(ax: Axes, names: list[str], what: str, size: float = 7) -> None:
    """Label the rows of a plot, without empty space above and below them."""
    ax.set_yticks(np.arange(len(names)), names, fontsize=size)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_ylabel(what, fontsize=8)
    ax.tick_params(axis="x", labelsize=8)


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with the given number of axes, at most three in a row."""
    columns = min(3, count)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.3 * columns, 0.5 + height * rows), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[count:]:
        ax.axis("off")
    return figure, list(axes.flat[:count])


def _name_places(ax: Axes, names: Array, places: Array, order: Array) -> None:
    """Write names beside points in a given order, leaving out those that would overlap another name."""
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]  # fixes the layout
    taken: list[Any] = []
    for n in np.argsort(order, kind="stable")[:200]:
        text = ax.annotate(_name(names[n]), places[n], fontsize=6, xytext=(4, 3), textcoords="offset points")
        box = text.get_window_extent()
        outside = box.x1 > ax.bbox.x1 or box.y1 > ax.bbox.y1
        if outside or any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


def _which(posterior: Posterior, which: Any, most: int) -> list[tuple[Any, str]]:
    if (which is not None and not isinstance(which, (str, list))) or (isinstance(which, list) and not which):
        raise OptionError(f"which={shown(which)}; use 'best', 'worst', 'average' or a list of workers")
    if which == "average":
        return [(None, "mean of the crowd")]
    if isinstance(which, (list, tuple, np.ndarray)) and len(which):
        return [(name, f"{name}") for name in which]
    order = posterior.workers(sort="accuracy")["worker"].tolist()
    if which == "best":
        return [(name, f"{name}") for name in order[:most]]
    if which == "worst":
        return [(name, f"{name}") for name in order[::-1][:most]]
    if which is None:
        both = order if len(order) <= 4 else order[:2] + order[-2:]
        return [(name, f"{name}") for name in both]
    raise OptionError(f"which={which!r}; use 'best', 'worst', 'average' or a list of workers")


def _axes(ax: Axes | None, size: tuple[float, float] = (5.5, 3.5)) -> Axes:
    if ax is not None:
        return ax
    _, axes = plt.subplots(figsize=size, layout="constrained")
    return axes


def _name(text: Any, longest: int = LONGEST) -> str:
    """Return a name on one line, without mathematics for matplotlib, shortened in the middle if it is too long."""
    plain = " ".join(str(text).split())
    if len(plain) > longest:
        end = longest // 3
        plain = f"{plain[: longest - end - 1]}…{plain[-end:]}"
    return plain.replace("$", r"\$")
