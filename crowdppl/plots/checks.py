"""Plots of how far a result can be trusted, and of what more annotations would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import MaxNLocator

from crowdppl import acquisition
from crowdppl.arguments import Level, PositiveInt, anything, checked
from crowdppl.criticism import Calibration, PredictiveCheck
from crowdppl.criticism.predictive import NOTABLE
from crowdppl.errors import OptionError
from crowdppl.plots.drawing import BLUE, GREY, LIGHT, RED, axes_or_new, panels, require, short_name
from crowdppl.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]
# Minimum number of draws per chain for a plot of ranks.
RANKED = 4


@checked
def reliability(calibration: Calibration, *, ax: Axes | None = None) -> Axes:
    """Draw the reliability curve of :func:`crowdppl.criticism.calibration`: accuracy against confidence.

    The size of a dot shows the number of items.
    """
    require(calibration, Calibration, "reliability", "criticism.calibration(posterior, truth)")
    ax = axes_or_new(ax, (4, 4))
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
def predictive(check: PredictiveCheck) -> Figure:
    """Draw the statistics of a predictive check: replicates as histograms, the observed value as a line.

    The line is red if fewer than one replicate in a hundred is as extreme.
    """
    require(check, PredictiveCheck, "predictive", "criticism.check(posterior)")
    table = check.table.dropna(subset=["observed"])
    figure, axes = panels(len(table), 1.6)
    for ax, row in zip(axes, table.to_dict("records"), strict=True):
        ax.hist(check.draws[row["statistic"]], bins=20, color=LIGHT)
        ax.axvline(row["observed"], color=RED if row["p_value"] < NOTABLE else BLUE, lw=2)
        words = str(row["statistic"]).replace("_", " ")
        if str(row["statistic"]).startswith("label_"):
            words = f"share of {short_name(str(row['meaning']).removeprefix('share of the label '))}"
        ax.set_title(f"{words} (p {row['p_value']:.3f})", fontsize=8)
        ax.set_yticks([])
        ax.tick_params(labelsize=7)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    return figure


@checked
def trace(posterior: Annotated[Posterior, anything], *, ax: Axes | None = None) -> Axes:
    """Draw the course of a fit: the objective at each iteration, or the log posterior of the draws, a line for each chain."""
    require(posterior, Posterior, "trace")
    stats = posterior.tree["sample_stats"].to_dataset()
    ax = axes_or_new(ax)
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
    require(posterior, Posterior, "chains")
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
        quantities[f"prevalence of {short_name(posterior.labels[k])}"] = prevalence[:, :, k]
    quantities = dict(list(quantities.items())[:most])
    figure, axes = panels(len(quantities), 1.7)
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
def redundancy(
    posterior: Annotated[Posterior, anything],
    most: PositiveInt = 20,
    *,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the effective number of independent annotations against the number of annotations of an item."""
    require(posterior, Posterior, "redundancy")
    table = acquisition.redundancy(posterior, most, level=level)
    ax = axes_or_new(ax)
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
    require(expected, acquisition.Curve, "curve", "acquisition.curve(posterior)")
    ax = axes_or_new(ax)
    table = expected.table
    ax.fill_between(table["annotations"], table["low"], table["high"], color=LIGHT, alpha=0.6, lw=0)
    ax.plot(table["annotations"], table["accuracy"], color=BLUE)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("further annotations", fontsize=8)
    ax.set_ylabel(f"expected accuracy, {expected.level:.0%} band", fontsize=8)
    return ax
