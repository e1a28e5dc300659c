"""Plots of items: probabilities of their classes, or their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.ticker import MaxNLocator

from crowdppl.arguments import Identifier, Level, PositiveInt, anything, checked
from crowdppl.errors import OptionError, suggestion
from crowdppl.plots.drawing import (
    BLUE,
    GREY,
    LIGHT,
    RED,
    axes_or_new,
    interval_note,
    legend_above,
    name_rows,
    of_all,
    require,
    short_name,
)
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]


@checked
def item(posterior: Annotated[Posterior, anything], task: Identifier, *, ax: Axes | None = None) -> Axes:
    """Draw the probability of each class of one item, beside the share of each label given.

    Raises:
        OptionError: for an unknown item.
    """
    require(posterior, Posterior, "item")
    names = posterior.items().tolist()
    if task not in names:
        raise OptionError(f"no item {task!r} in this result{suggestion(task, names)}")
    i = names.index(task)
    K = len(posterior.labels)
    ax = axes_or_new(ax, (5.5, 1.1 + max(0.35, 0.55 - 0.02 * K) * K))
    place, votes = np.arange(K), posterior.votes()[i]
    ax.barh(place - 0.2, posterior.probability()[i], 0.4, color=BLUE, label="probability")
    ax.barh(place + 0.2, votes / max(1, votes.sum()), 0.4, color=LIGHT, label=f"share of {votes.sum():,} annotations")
    name_rows(ax, [short_name(k) for k in posterior.labels], "", size=8)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    # Above the axes, where there are no bars: the name on the left, the legend on the right.
    ax.set_title(short_name(task), fontsize=9, loc="left")
    legend_above(ax, 2)
    return ax


@checked
def simplex(posterior: Annotated[Posterior, anything], *, ax: Axes | None = None) -> Axes:
    """Draw the items of a result with three classes as points in the triangle of class probabilities.

    Raises:
        OptionError: for another number of classes.
    """
    require(posterior, Posterior, "simplex")
    if len(posterior.labels) != 3:
        raise OptionError(
            f"a triangle has three corners, this result has {len(posterior.labels)} classes; use plots.item"
        )
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    ax = axes_or_new(ax, (4.5, 4))
    ax.plot(*corners[[0, 1, 2, 0]].T, color=GREY, lw=1)
    place = posterior.probability() @ corners  # (N, 2)
    ax.scatter(place[:, 0], place[:, 1], s=14, color=BLUE, alpha=0.4, lw=0)
    for corner, label, side in zip(corners, posterior.labels, (-1, -1, 1), strict=True):
        ax.annotate(
            short_name(label),
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
    require(posterior, Posterior, "entropy")
    ax = axes_or_new(ax)
    ax.hist(posterior.truth()["entropy"], bins=30, range=(0, np.log2(len(posterior.labels))), color=BLUE)
    ax.set_xlabel("entropy of the true label, bits", fontsize=8)
    ax.set_ylabel("items", fontsize=8)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


@checked
def load(posterior: Annotated[Posterior, anything]) -> Array:
    """Draw the numbers of annotations per item and per worker, in two axes."""
    require(posterior, Posterior, "load")
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
    require(posterior, NumericPosterior, "values")
    table = posterior.truth(level=level).sort_values("value", kind="stable")
    everybody = len(table)
    table = table.iloc[np.unique(np.linspace(0, everybody - 1, min(most, everybody)).round().astype(int))]
    ax = axes_or_new(ax, (6, 1.1 + 0.2 * len(table)))
    y = np.arange(len(table))
    ax.hlines(y, table["low"], table["high"], color=BLUE, alpha=0.6, lw=2)
    ax.scatter(table["value"], y, s=24, c=BLUE, zorder=3, label=posterior.reading.replace("_", " "))
    ax.scatter(table["mean_label"], y, s=24, facecolors="none", edgecolors=RED, zorder=3, label="mean label")
    name_rows(ax, [short_name(name) for name in table[posterior.item_column]], f"item{of_all(everybody, most)}")
    ax.legend(fontsize=7, frameon=False)
    ax.set_xlabel(f"value\n{interval_note(posterior, level)}", fontsize=8)
    return ax
