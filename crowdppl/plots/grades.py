"""Plots of raters and items on one line: severities, places of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from crowdppl.arguments import Level, PositiveInt, anything, checked
from crowdppl.criticism import Perspectives
from crowdppl.plots.drawing import BLUE, GREY, LIGHT, axes_or_new, interval_note, name_rows, of_all, require, short_name
from crowdppl.posterior.measures import interval
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers.grading import mean_grades

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]


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
    with its interval; the most severe rater is at the top. The raters with most annotations are shown.

    Raises:
        DataError: if the labels are not grades.
    """
    require(posterior, Posterior, "wright_map")
    grades, table = posterior.grades(level=level), posterior.severity(level=level)
    table["mean"], table["low"], table["high"] = interval(mean_grades(posterior), level)
    everybody, centre = len(table), float(grades["grade"].mean())
    table = table.sort_values("annotations", ascending=False, kind="stable").head(most)
    table = table.sort_values("severity", ascending=True, kind="stable")
    ax = axes_or_new(ax, (6, 2.2 + 0.2 * len(table)))
    y = np.arange(len(table))
    ax.hlines(y, table["low"], table["high"], color=BLUE, alpha=0.6, lw=2)
    ax.scatter(table["mean"], y, s=24, c=BLUE, zorder=3)
    ax.axvline(centre, color=GREY, lw=0.8)
    counts, edges = np.histogram(grades["grade"], bins=30)
    base, height = len(table) + 0.3, max(3.0, 0.25 * len(table))
    ax.bar(edges[:-1], height * counts / max(1, counts.max()), np.diff(edges), bottom=base, align="edge", color=LIGHT)
    names = [f"{short_name(n)} ({j:,})" for n, j in zip(table["worker"], table["annotations"], strict=True)]
    name_rows(ax, names, f"rater{of_all(everybody, most)} (annotations)")
    ax.set_ylim(-0.7, base + height + 0.3)
    ax.text(edges[0], base + height, f"{len(grades):,} items", fontsize=8, va="top", color=GREY)
    ax.set_xlabel(f"grade of an item; mean grade that a rater gives\n{interval_note(posterior, level)}", fontsize=8)
    return ax


@checked
def perspectives(result: Annotated[Perspectives, anything], *, most: PositiveInt = 20, ax: Axes | None = None) -> Axes:
    """Draw what each group of raters says of the items that groups see most differently, with intervals.

    Items are in the order of the mean grade, the highest at the top. How far groups differ in the mean over all items is
    severity: items are chosen by what is left without it. The title says what places of groups gain over one place for all.
    """
    require(result, Perspectives, "perspectives", "crowdppl.criticism.perspectives(...)")
    item = result.grades.columns[0]
    places = result.places
    apart = places - places.mean()
    chosen = (apart.max(axis=1) - apart.min(axis=1)).sort_values(ascending=False, kind="stable").index[:most]
    order = places.loc[chosen].mean(axis=1).sort_values(kind="stable").index
    ax = axes_or_new(ax, (6, 1.5 + 0.25 * len(order)))
    groups = places.columns.tolist()
    for g, name in enumerate(groups):
        part = result.grades[result.grades["group"] == name].set_index(item).loc[order]
        y = np.arange(len(order)) + 0.5 * (g - (len(groups) - 1) / 2) / len(groups)
        colour = plt.get_cmap("tab10")(g % 10)
        ax.hlines(y, part["low"], part["high"], color=colour, alpha=0.4, lw=2)
        ax.scatter(part["grade"], y, s=18, color=colour, label=short_name(name), zorder=3)
    name_rows(ax, [short_name(name) for name in order], f"item{of_all(len(places), most)}")
    gain, se = result.scores[["gain", "se"]].iloc[-1]
    ax.set_title(f"places of groups gain {gain:+.4f} nats an annotation (standard error {se:.4f})", fontsize=8)
    ax.set_xlabel(f"mean grade that a rater of the group gives, from 0 (intervals of {result.level:.0%})", fontsize=8)
    ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return ax
