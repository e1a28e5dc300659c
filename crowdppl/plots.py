"""Pictures of a result, in matplotlib; what ArviZ draws already (chains, ranks of draws, comparisons) is drawn by ArviZ.

Every function takes a result and, where it draws into one set of axes, ``ax=``; it returns the axes. Intervals are those of the
tables of the same level, and come from the same posterior.
"""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from crowdppl import acquisition, workers
from crowdppl.criticism import Calibration, PredictiveCheck
from crowdppl.errors import OptionError
from crowdppl.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

BLUE, LIGHT, RED, GREY = "#1f5fa8", "#a9c7e8", "#b3372c", "#8a94a0"


def confusion(
    posterior: Posterior,
    which: Literal["best", "worst", "average"] | list[Any] | None = None,
    *,
    most: int = 4,
    level: float | None = None,
) -> Array:
    """Draw confusion matrices, with the interval of every cell where there is room for it.

    Args:
        posterior: a result.
        which: workers by name; or the ``"best"`` or ``"worst"`` by the worse end of their accuracy; or ``"average"``, the mean of
            the crowd by numbers of judgements. The best and the worst two where not given.
        most: of the best or the worst, how many.
        level: probability of the intervals.

    Returns:
        The axes, one for each matrix.
    """
    names = _which(posterior, which, most)
    K = len(posterior.labels)
    figure, axes = plt.subplots(
        1,
        len(names),
        figsize=(0.6 + (1.3 + 0.55 * K) * len(names), 2.0 + 0.55 * K),
        squeeze=False,
        layout="constrained",
    )
    for ax, (name, title) in zip(axes[0], names, strict=True):
        one = None if name is None else posterior.worker_index(name)
        draws = posterior.crowd() if one is None else posterior.draws("confusion", worker=one)
        mean, low, high = workers.interval(draws, level)
        ax.imshow(mean, cmap="Blues", vmin=0, vmax=1)
        if K <= 8:
            for k in range(K):
                for other in range(K):
                    text = f"{mean[k, other]:.2f}"
                    if not np.isnan(low[k, other]) and K <= 5:
                        text += f"\n{low[k, other]:.2f}–{high[k, other]:.2f}"
                    ink = "white" if mean[k, other] > 0.6 else "black"
                    ax.text(other, k, text, ha="center", va="center", color=ink, fontsize=7)
        ax.set_xticks(range(K), [_name(k) for k in posterior.labels], rotation=45, ha="right")
        ax.set_yticks(range(K), [_name(k) for k in posterior.labels])
        ax.set_xlabel("label")
        ax.set_title(_name(title), fontsize=9)
    axes[0][0].set_ylabel("truth")
    told = f"{workers.default_level(level):.0%} intervals. {posterior.correlation} {posterior.coverage}"
    figure.supxlabel(fill(told, int(17 * figure.get_figwidth())), fontsize=6, x=0.01, ha="left")
    return np.asarray(axes[0])


def forest(
    posterior: Posterior, *, by: str = "accuracy", most: int = 40, level: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a measure of workers with intervals, best at the top; the size of a dot tells the number of judgements."""
    table = posterior.workers(level=level, sort=by, measures=[by] if by != "share_right" else ["accuracy"])
    table = table.head(most).iloc[::-1]
    ax = _axes(ax, (6, 1 + 0.22 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["verdict"].isin(["guesses", "always", "contrary"]), RED, BLUE)
    ax.hlines(y, table[f"{by}_low"], table[f"{by}_high"], color=colour, alpha=0.6, lw=2)
    size = 12 + 60 * np.sqrt(table["judgements"] / max(1, table["judgements"].max()))
    ax.scatter(table[by], y, s=size, c=colour, zorder=3)
    ax.set_yticks(
        y, [f"{_name(n)} ({j:,})" for n, j in zip(table["worker"], table["judgements"], strict=True)], fontsize=7
    )
    words = f"{by.replace('_', ' ')}, {workers.default_level(level):.0%} intervals (judgements in brackets)"
    _footnote(ax, words, posterior)
    return ax


def experience(posterior: Posterior, *, level: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw each worker's accuracy with its interval against the number of judgements."""
    table = posterior.workers(level=level)
    ax = _axes(ax)
    ax.vlines(table["judgements"], table["accuracy_low"], table["accuracy_high"], color=LIGHT, lw=1)
    ax.scatter(table["judgements"], table["accuracy"], s=12, color=BLUE, zorder=3)
    ax.set_xscale("log")
    _footnote(ax, "judgements", posterior)
    ax.set_ylabel(f"accuracy, {workers.default_level(level):.0%} intervals")
    return ax


def ranks(
    posterior: Posterior, *, by: str = "accuracy", most: int = 40, level: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the intervals of workers' ranks; grey where the rank is unknown."""
    found = workers.rank(posterior.measure(by), lower_is_better=by in workers.LOWER_IS_BETTER)
    table = workers.place(found, level).assign(worker=posterior.worker_names())
    table = table.sort_values(["rank", "rank_high"], kind="stable").head(most).iloc[::-1]
    ax = _axes(ax, (6, 1 + 0.22 * len(table)))
    y = np.arange(len(table))
    colour = np.where(table["place"] == "unknown", GREY, BLUE)
    ax.hlines(y, table["rank_low"], table["rank_high"], color=colour, lw=3, alpha=0.6)
    ax.scatter(table["rank"], y, c=colour, s=16, zorder=3)
    ax.set_yticks(y, [_name(name) for name in table["worker"]], fontsize=7)
    words = f"rank by {by.replace('_', ' ')}, {workers.default_level(level):.0%} intervals; grey: unknown"
    _footnote(ax, words, posterior)
    return ax


def item(posterior: Posterior, task: Any, *, ax: Axes | None = None) -> Axes:
    """Draw what is believed of one item: the probability of each class, beside the share of the labels given.

    Raises:
        OptionError: for an unknown item.
    """
    names = posterior.items().tolist()
    if task not in names:
        raise OptionError(f"no item {task!r} in this result")
    i = names.index(task)
    ax = _axes(ax)
    place, votes = np.arange(len(posterior.labels)), posterior.votes()[i]
    ax.bar(place - 0.2, posterior.probability()[i], 0.4, color=BLUE, label="probability")
    ax.bar(place + 0.2, votes / max(1, votes.sum()), 0.4, color=LIGHT, label=f"share of {votes.sum():,} labels")
    ax.set_xticks(place, [_name(k) for k in posterior.labels])
    ax.set_ylim(0, 1)
    ax.set_title(_name(task), fontsize=9)
    ax.legend(fontsize=8)
    return ax


def simplex(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw the items of a result with three classes in the triangle of their probabilities.

    Raises:
        OptionError: for another number of classes.
    """
    if len(posterior.labels) != 3:
        raise OptionError(f"a triangle has three corners, this result {len(posterior.labels)} classes; use plots.item")
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    ax = _axes(ax, (4.5, 4))
    ax.plot(*corners[[0, 1, 2, 0]].T, color=GREY, lw=1)
    place = posterior.probability() @ corners  # (N, 2)
    ax.scatter(place[:, 0], place[:, 1], s=14, color=BLUE, alpha=0.4, lw=0)
    for corner, label, side in zip(corners, posterior.labels, ("top", "top", "bottom"), strict=True):
        ax.text(corner[0], corner[1], f" {_name(label)} ", ha="center", va=side)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def entropy(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the items' entropy in bits: 0 is known for sure."""
    ax = _axes(ax)
    ax.hist(posterior.truth()["entropy"], bins=30, range=(0, np.log2(len(posterior.labels))), color=BLUE)
    ax.set_xlabel("entropy of the truth, bits")
    ax.set_ylabel("items")
    return ax


def load(posterior: Posterior) -> Array:
    """Draw judgements per item, and per worker from the busiest down: two axes."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3))
    values, counts = np.unique(posterior.judgements_per_item(), return_counts=True)
    axes[0].bar(values, counts, color=BLUE)
    axes[0].set_xlabel("judgements of an item")
    axes[0].set_ylabel("items")
    each = np.sort(posterior.judgements())[::-1]
    axes[1].plot(np.arange(1, len(each) + 1), each.cumsum() / each.sum(), color=BLUE)
    axes[1].set_xlabel("workers, from the busiest")
    axes[1].set_ylabel("share of all judgements")
    axes[1].set_ylim(0, 1.02)
    figure.tight_layout()
    return np.asarray(axes)


def reliability(calibration: Calibration, *, ax: Axes | None = None) -> Axes:
    """Draw the reliability curve of :func:`crowdppl.criticism.calibration`: accuracy against confidence, dots by items."""
    ax = _axes(ax, (4, 4))
    bins = calibration.bins
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    ax.plot(bins["confidence"], bins["accuracy"], color=BLUE, lw=1)
    ax.scatter(
        bins["confidence"], bins["accuracy"], s=10 + 150 * bins["items"] / bins["items"].max(), color=BLUE, alpha=0.7
    )
    ax.set_xlabel("probability of the label")
    ax.set_ylabel("share that is right")
    ax.set_title(f"calibration error {calibration.ece:.3f}, {calibration.items:,} items", fontsize=9)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(0, 1.02)
    return ax


def redundancy(posterior: Posterior, most: int = 20, *, level: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw how many independent judgements ``n`` of one item are worth."""
    table = acquisition.redundancy(posterior, most, level=level)
    ax = _axes(ax)
    ax.plot(table["judgements"], table["judgements"], color=GREY, lw=1, ls="--")
    ax.fill_between(table["judgements"], table["low"], table["high"], color=LIGHT, alpha=0.6, lw=0)
    ax.plot(table["judgements"], table["independent"], color=BLUE)
    ax.set_xlabel("judgements of an item")
    ax.set_ylabel("independent ones they are worth")
    return ax


def curve(found: acquisition.Curve, *, ax: Axes | None = None) -> Axes:
    """Draw the accuracy to be expected after more judgements, see :func:`crowdppl.acquisition.curve`."""
    ax = _axes(ax)
    table = found.table
    ax.fill_between(table["judgements"], table["low"], table["high"], color=LIGHT, alpha=0.6, lw=0)
    ax.plot(table["judgements"], table["accuracy"], color=BLUE)
    ax.set_xlabel("further judgements")
    ax.set_ylabel(f"accuracy expected, {found.level:.0%} band")
    return ax


def trace(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw how the fit went: objective or loss of the iterations, or the log posterior of the draws, a line for each chain."""
    stats = posterior.tree["sample_stats"].to_dataset()
    ax = _axes(ax)
    steps = [name for name in stats.data_vars if stats[name].dims == ("iteration",)]
    if steps:
        for name in steps:
            ax.plot(stats[name].values, label=str(name).replace("_", " "), color=BLUE if name == steps[0] else GREY)
        ax.set_xlabel("iteration")
        ax.legend(fontsize=8)
    else:
        ax.plot(stats["lp"].values.T, lw=0.6, alpha=0.8)
        ax.set_xlabel("draw")
        ax.set_ylabel("log posterior density")
    return ax


def chains(posterior: Posterior) -> Any:
    """Draw ranks of the draws of the prevalence by chain, which are uniform where chains agree: ArviZ's ``plot_rank``."""
    import arviz_plots

    if posterior.tree["posterior"].sizes["draw"] < 4:
        raise OptionError("too few draws to compare chains by their ranks; fit again with a larger num_samples")
    return arviz_plots.plot_rank(posterior.tree, var_names=["prevalence"], backend="matplotlib")


def predictive(check: PredictiveCheck) -> Figure:
    """Draw the statistics of a predictive check: replicates as histograms, what was given as a line."""
    table = check.table.dropna(subset=["observed"])
    columns = 3
    rows = -(-len(table) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(10, 1.9 * rows), squeeze=False)
    for ax, row in zip(axes.flat, table.to_dict("records"), strict=False):
        ax.hist(check.draws[row["statistic"]], bins=20, color=LIGHT)
        ax.axvline(row["observed"], color=RED if row["p_value"] < 0.01 else BLUE, lw=2)
        ax.set_title(f"{row['statistic'].replace('_', ' ')} (p {row['p_value']:.3f})", fontsize=8)
        ax.set_yticks([])
        ax.tick_params(labelsize=7)
    for ax in axes.flat[len(table) :]:
        ax.axis("off")
    figure.tight_layout()
    return figure


def workers_map(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw workers in the plane such that those who label alike lie near each other, coloured by accuracy.

    The two main axes of what the model knows workers by, where it has such a thing (the embeddings of LIA), else of their mean
    confusions, classes weighted by the root of their prevalence.
    """
    posterior_group = posterior.tree["posterior"].to_dataset()
    point = posterior.tree["point"].to_dataset() if "point" in posterior.tree.children else None
    where = next((g for g in (point, posterior_group) if g is not None and "worker_embedding" in g), None)
    if where is not None:
        known = where["worker_embedding"]
        known = known.mean([axis for axis in ("chain", "draw") if axis in known.dims])
        space = np.asarray(known.values).reshape(len(posterior.worker_names()), -1)
        what = "embedding"
    else:
        prevalence = posterior.draws("prevalence").mean(0)
        mean = np.concatenate([c.mean(0) for _, c, _ in posterior.by_workers()])
        space = (mean * np.sqrt(prevalence)[:, None]).reshape(len(mean), -1)
        what = "confusion"
    centred = space - space.mean(0)
    _, _, axes_of = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ axes_of[:2].T
    if plane.shape[1] < 2:
        plane = np.column_stack([plane[:, 0], np.zeros(len(plane))])
    ax = _axes(ax, (5.5, 4.5))
    accuracy = np.concatenate([workers.accuracy(c, p).mean(0) for _, c, p in posterior.by_workers()])
    size = 15 + 85 * np.sqrt(posterior.judgements() / max(1, posterior.judgements().max()))
    drawn = ax.scatter(plane[:, 0], plane[:, 1], c=accuracy, s=size, cmap="viridis", vmin=0, vmax=1)
    if len(plane) <= 40:
        for name, place in zip(posterior.worker_names(), plane, strict=True):
            ax.annotate(_name(name), place, fontsize=6, xytext=(3, 3), textcoords="offset points")
    plt.colorbar(drawn, ax=ax, label="accuracy")
    ax.set_xlabel(f"{what}: first axis")
    ax.set_ylabel("second axis")
    return ax


def noise(posterior: Posterior, *, most: int = 40, level: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw the share of each worker's judgements that follow the common noise, of a model that tells it from their own (CoNAL).

    Raises:
        OptionError: for a model that does not.
    """
    if "common_share" not in posterior.tree["posterior"]:
        raise OptionError(f"{posterior.info['model']} does not tell common from individual noise; fit model='conal'")
    mean, low, high = workers.interval(posterior.draws("common_share"), level)
    order = np.argsort(-posterior.judgements(), kind="stable")[:most]
    order = order[np.argsort(mean[order], kind="stable")]
    ax = _axes(ax, (6, 1 + 0.22 * len(order)))
    y = np.arange(len(order))
    ax.hlines(y, low[order], high[order], color=LIGHT, lw=3)
    ax.scatter(mean[order], y, color=BLUE, s=14, zorder=3)
    ax.set_yticks(y, [_name(name) for name in posterior.worker_names()[order]], fontsize=7)
    ax.set_xlim(0, 1)
    ax.set_xlabel("share of judgements from common noise; the rest is the worker's own")
    return ax


def groups(posterior: Posterior, *, most: int = 60, ax: Axes | None = None) -> Axes:
    """Draw which group each worker belongs to, how probably, of a model of groups.

    Raises:
        OptionError: for a model without.
    """
    if "membership" not in posterior.tree["posterior"]:
        raise OptionError(f"{posterior.info['model']} has no groups; fit model='worker-groups' or 'crowd-mixture'")
    membership = posterior.draws("membership").mean(0)  # (J, M)
    order = np.argsort(-posterior.judgements(), kind="stable")[:most]
    order = order[np.lexsort((-membership[order].max(1), membership[order].argmax(1)))]
    ax = _axes(ax, (6, 1 + 0.2 * len(order)))
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
    ax.set_yticks(np.arange(len(order)), [_name(name) for name in posterior.worker_names()[order]], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability")
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax


def _footnote(ax: Axes, words: str, posterior: Posterior) -> None:
    """Label the axis, and say under it where the intervals come from and how often such ones held."""
    ax.set_xlabel(f"{words}\n{fill(f'{posterior.correlation} {posterior.coverage}', 110)}", fontsize=6, loc="left")


def _which(posterior: Posterior, which: Any, most: int) -> list[tuple[Any, str]]:
    if which == "average":
        return [(None, "mean of the crowd")]
    if isinstance(which, list):
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
    _, made = plt.subplots(figsize=size, layout="constrained")
    return made


def _name(text: Any) -> str:
    """Write a name so that matplotlib does not read mathematics into it, and no longer than there is room."""
    plain = str(text).replace("$", r"\$")
    return plain if len(plain) <= 24 else plain[:23] + "…"
