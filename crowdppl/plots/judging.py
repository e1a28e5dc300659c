"""Plots of judges and of the systems that they judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from crowdppl.arguments import PositiveInt, anything, checked
from crowdppl.judges.result import JudgesResult
from crowdppl.judges.tables.panel_table import Panel
from crowdppl.plots.drawing import BLUE, GREY, RED, axes_or_new, legend_above, name_rows, of_all, require, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]


@checked
def systems(result: Annotated[JudgesResult, anything], *, most: PositiveInt = 40, ax: Axes | None = None) -> Axes:
    """Draw the corrected rate of each system with its interval beside the uncorrected one, the best at the top.

    Systems without human labels, whose correction is transported, are grey.

    Args:
        result: of :func:`crowdppl.judges.fit`.
        most: maximum number of systems.
        ax: axes to draw into.
    """
    require(result, JudgesResult, "systems", "crowdppl.judges.fit(...)")
    table = result.systems()
    everybody = len(table)
    table = table.head(most).iloc[::-1]
    ax = axes_or_new(ax, (6, 1.3 + 0.25 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["transported"], GREY, BLUE)
    ax.hlines(y, table["corrected_low"], table["corrected_high"], color=colour, alpha=0.6, lw=3)
    ax.scatter(table["corrected"], y, s=24, c=colour, zorder=3, label="corrected")
    ax.scatter(table["uncorrected"], y, s=28, facecolors="white", edgecolors=RED, zorder=2, label="uncorrected")
    name_rows(ax, [short_name(name) for name in table["system"]], f"system{of_all(everybody, most)}", size=8)
    grey = " (grey: no human labels)" if table["transported"].any() else ""
    ax.set_xlabel(f"rate{grey}\n{result.level:.0%} intervals", fontsize=8)
    legend_above(ax, 2)
    return ax


@checked
def judges(result: Annotated[JudgesResult, anything], *, most: PositiveInt = 40, ax: Axes | None = None) -> Axes:
    """Draw the accuracy of judges with intervals, the best at the top; with two classes also sensitivity and specificity.

    Args:
        result: of :func:`crowdppl.judges.fit`.
        most: maximum number of judges.
        ax: axes to draw into.
    """
    require(result, JudgesResult, "judges", "crowdppl.judges.fit(...)")
    table = result.judges()
    everybody = len(table)
    table = table.head(most).iloc[::-1]
    measures = [name for name in ("accuracy", "sensitivity", "specificity") if name in table]
    ax = axes_or_new(ax, (6, 1.3 + 0.09 * (1 + len(measures)) * len(table)))
    for n, (name, colour) in enumerate(zip(measures, (BLUE, RED, GREY), strict=False)):
        y = np.arange(len(table)) + 0.22 * ((len(measures) - 1) / 2 - n)
        ax.hlines(y, table[f"{name}_low"], table[f"{name}_high"], color=colour, alpha=0.6, lw=2)
        ax.scatter(table[name], y, s=14, color=colour, zorder=3, label=name)
    name_rows(ax, [short_name(name) for name in table["judge"]], f"judge{of_all(everybody, most)}", size=8)
    ax.set_xlabel(f"probability\n{result.level:.0%} intervals", fontsize=8)
    if len(measures) > 1:
        legend_above(ax, 3)
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
    require(result, Panel, "panel", "crowdppl.judges.fit(...)")
    family = result.adds.set_index("judge")["family"]
    names = family.sort_values(kind="stable").index.tolist()
    cells = result.correlation.loc[names, names].to_numpy(copy=True)
    np.fill_diagonal(cells, np.nan)
    J = len(names)
    cell = min(0.45, 7 / J)
    ax = axes_or_new(ax, (2.6 + cell * J, 1.9 + cell * J))
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
    ax.set_xticks(range(J), [short_name(name) for name in names], fontsize=size, rotation=90)
    ax.set_yticks(range(J), [short_name(name) for name in names], fontsize=size)
    mean, low, high = result.effective
    ax.set_title(f"{J} judges are worth {mean:.1f} ({low:.1f} to {high:.1f})", fontsize=9)
    ax.figure.colorbar(image, ax=ax, label="correlation of errors", shrink=0.8)
    return ax
