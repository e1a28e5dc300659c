"""Plots of workers: confusion matrices, accuracies, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from crowdppl.arguments import Level, PositiveInt, anything, checked
from crowdppl.errors import OptionError
from crowdppl.plots.drawing import (
    BLUE,
    GREY,
    LIGHT,
    RED,
    axes_or_new,
    chosen_workers,
    interval_note,
    name_places,
    name_rows,
    of_all,
    require,
    short_name,
)
from crowdppl.posterior import viewed, workers
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]
# Maximum number of classes of a matrix with numbers in its cells, and with intervals.
NUMBERED, WITH_INTERVALS = 8, 5


# Columns of the table of workers with intervals that are in it whatever measures are asked for.
NO_MEASURES = ("share_correct", "severity", "grade_correlation")


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
    require(posterior, Posterior, "confusion")
    names = chosen_workers(posterior, which, most)
    labels = [short_name(k) for k in posterior.labels]
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
        ax.set_title(short_name(title, max(8, int(13 * cell * K))), fontsize=9)
    axes[0][0].set_ylabel("true label", fontsize=8)
    if shown:
        figure.supxlabel(interval_note(posterior, level), fontsize=7)
    return np.asarray(axes[0])


@checked
def forest(
    posterior: Annotated[Posterior, anything],
    *,
    by: str | None = None,
    most: PositiveInt = 40,
    level: Level | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a measure of workers with intervals, best at the top. The size of a dot shows the number of annotations.

    The measure is accuracy by default, severity of raters of grades, and ``bias`` of labels that are numbers, of which there are
    ``slope``, ``sd`` and ``correlation``, too.
    """
    if isinstance(posterior, NumericPosterior):
        by = "bias" if by in (None, "accuracy") else by
        if by not in ("bias", "slope", "sd", "correlation"):
            raise OptionError(f"by={by!r}; of labels that are numbers use 'bias', 'slope', 'sd' or 'correlation'")
        table = posterior.workers(level=level, sort=by)
    else:
        require(posterior, Posterior, "forest")
        by = by or ("severity" if posterior.graded else "accuracy")
        table = posterior.workers(level=level, sort=by, measures=["accuracy"] if by in NO_MEASURES else [by])
    everybody = len(table)
    table = table.head(most).iloc[::-1]
    ax = axes_or_new(ax, (6, 1.1 + 0.2 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["verdict"].isin(workers.UNRELIABLE), RED, BLUE)
    ax.hlines(y, table[f"{by}_low"], table[f"{by}_high"], color=colour, alpha=0.6, lw=2)
    size = 12 + 60 * np.sqrt(table["annotations"] / max(1, table["annotations"].max()))
    ax.scatter(table[by], y, s=size, c=colour, zorder=3)
    names = [f"{short_name(n)} ({j:,})" for n, j in zip(table["worker"], table["annotations"], strict=True)]
    name_rows(ax, names, f"worker{of_all(everybody, most)} (annotations)")
    ax.set_xlabel(f"{by.replace('_', ' ')}\n{interval_note(posterior, level)}", fontsize=8)
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
    require(posterior, Posterior, "ranks")
    draws = workers.rank(posterior.measure(by), lower_is_better=by in workers.LOWER_IS_BETTER)
    table = workers.summarise_ranks(draws, level).assign(worker=posterior.worker_names())
    everybody = len(table)
    table = table.sort_values(["rank", "rank_high"], kind="stable").head(most).iloc[::-1]
    ax = axes_or_new(ax, (6, 1.1 + 0.2 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["rank_high"] - table["rank_low"] + 1 > len(table) / 2, GREY, BLUE)
    ax.hlines(y, table["rank_low"], table["rank_high"], color=colour, lw=3, alpha=0.6)
    ax.scatter(table["rank"], y, c=colour, s=16, zorder=3)
    name_rows(ax, [short_name(name) for name in table["worker"]], f"worker{of_all(everybody, most)}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    words = f"rank by {by.replace('_', ' ')} (grey: interval wider than half of the crowd)"
    ax.set_xlabel(f"{words}\n{interval_note(posterior, level)}", fontsize=8)
    return ax


@checked
def experience(
    posterior: Annotated[Posterior, anything], *, level: Level | None = None, ax: Axes | None = None
) -> Axes:
    """Draw each worker's accuracy with its interval against the number of annotations."""
    require(posterior, Posterior, "experience")
    table = posterior.workers(level=level)
    ax = axes_or_new(ax)
    ax.vlines(table["annotations"], table["accuracy_low"], table["accuracy_high"], color=LIGHT, lw=1)
    ax.scatter(table["annotations"], table["accuracy"], s=12, color=BLUE, zorder=3)
    ax.set_xscale("symlog", linthresh=1) if table["annotations"].min() == 0 else ax.set_xscale("log")
    # Only round numbers, few enough not to overlap.
    spread = max(1, table["annotations"].max()) / max(1, table["annotations"].min())
    ax.xaxis.set_major_locator(LogLocator(subs=(1,) if spread > 1000 else (1, 2, 5), numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(f"annotations of the worker\n{interval_note(posterior, level)}", fontsize=8)
    ax.set_ylabel("accuracy", fontsize=8)
    return ax


@checked
def workers_map(posterior: Annotated[Posterior, anything], *, ax: Axes | None = None) -> Axes:
    """Draw workers in the plane, coloured by accuracy; those with similar labels are near each other.

    The axes are the first two principal components of the workers' embeddings, if the model has them, else of their mean
    confusion matrices, with classes weighted by the square root of their prevalence. Names are shown where there is room, those
    of workers with most annotations first.
    """
    require(posterior, Posterior, "workers_map")
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
    ax = axes_or_new(ax, (6, 4.5))
    accuracy = np.concatenate([workers.accuracy(c, p).mean(0) for _, c, p in posterior.worker_blocks()])
    size = 15 + 85 * np.sqrt(posterior.annotations_per_worker() / max(1, posterior.annotations_per_worker().max()))
    drawn = ax.scatter(plane[:, 0], plane[:, 1], c=accuracy, s=size, cmap="viridis", vmin=0, vmax=1)
    ax.margins(0.12)
    ax.figure.colorbar(drawn, ax=ax, label="accuracy")
    ax.set_xlabel(f"{what}: first axis", fontsize=8)
    ax.set_ylabel("second axis", fontsize=8)
    name_places(ax, posterior.worker_names(), plane, -posterior.annotations_per_worker())
    return ax


@checked
def groups(posterior: Annotated[Posterior, anything], *, most: PositiveInt = 60, ax: Axes | None = None) -> Axes:
    """Draw the probability that each worker belongs to each group, for a model with groups.

    Raises:
        OptionError: for a model without groups.
    """
    require(posterior, Posterior, "groups")
    if not viewed.has(posterior.tree, "membership", "worker"):
        models = viewed.models_with("membership")
        raise OptionError(f"{posterior.info['model']} has no groups; fit model={models}")
    membership = posterior.draws("membership").mean(0)  # (J, M)
    order = np.argsort(-posterior.annotations_per_worker(), kind="stable")[:most]
    order = order[np.lexsort((-membership[order].max(1), membership[order].argmax(1)))]
    ax = axes_or_new(ax, (6, 1.3 + 0.2 * len(order)))
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
    name_rows(
        ax, [short_name(name) for name in posterior.worker_names()[order]], f"worker{of_all(len(membership), most)}"
    )
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability", fontsize=8)
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
    require(posterior, Posterior, "noise")
    if not viewed.has(posterior.tree, "common_share", "worker"):
        models = viewed.models_with("common_share")
        raise OptionError(
            f"{posterior.info['model']} does not separate common from individual noise; fit model={models}"
        )
    mean, low, high = workers.interval(posterior.draws("common_share"), level)
    order = np.argsort(-posterior.annotations_per_worker(), kind="stable")[:most]
    order = order[np.argsort(mean[order], kind="stable")]
    ax = axes_or_new(ax, (6, 1.1 + 0.2 * len(order)))
    y = np.arange(len(order))
    ax.hlines(y, low[order], high[order], color=LIGHT, lw=3)
    ax.scatter(mean[order], y, color=BLUE, s=14, zorder=3)
    name_rows(ax, [short_name(name) for name in posterior.worker_names()[order]], f"worker{of_all(len(mean), most)}")
    ax.set_xlim(0, 1)
    ax.set_xlabel(f"share of annotations with common noise\n{interval_note(posterior, level)}", fontsize=8)
    return ax
