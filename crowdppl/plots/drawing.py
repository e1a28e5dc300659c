"""What plots share: colours, axes, names of rows, notes on intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from crowdppl.arguments import shown
from crowdppl.errors import OptionError
from crowdppl.posterior import workers
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]
BLUE, LIGHT, RED, GREY = "#1f5fa8", "#a9c7e8", "#b3372c", "#8a94a0"
# Maximum number of characters of a name.
LONGEST = 24


def require(given: Any, kind: type, name: str, example: str = "crowdppl.fit(...)") -> None:
    """Refuse an object of another kind than a function draws.

    Raises:
        OptionError: with an example of a call that returns such an object.
    """
    if not isinstance(given, kind):
        raise OptionError(
            f"plots.{name} draws a {kind.__name__}, not a {type(given).__name__}: plots.{name}({example})"
        )


def interval_note(posterior: Posterior | NumericPosterior, level: float | None) -> str:
    """Return a short description of the intervals."""
    if posterior.kind == "point":
        return "one point, no intervals"
    if isinstance(posterior, NumericPosterior):
        return f"{workers.default_level(level):.0%} intervals"
    errors = "allowing for correlated errors" if posterior.calibrated else "annotations of an item taken as independent"
    return f"{workers.default_level(level):.0%} intervals, {errors}"


def of_all(everybody: int, most: int) -> str:
    """Return how many of all workers are shown, if not all of them are."""
    return f", {most:,} of {everybody:,}" if everybody > most else ""


def name_rows(ax: Axes, names: list[str], what: str, size: float = 7) -> None:
    """Label the rows of a plot, without empty space above and below them."""
    ax.set_yticks(np.arange(len(names)), names, fontsize=size)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_ylabel(what, fontsize=8)
    ax.tick_params(axis="x", labelsize=8)


def legend_above(ax: Axes, columns: int) -> None:
    """Place the legend above the axes, at the right."""
    place = {"loc": "lower right", "bbox_to_anchor": (1.01, 0.99)}
    ax.legend(fontsize=7, ncols=columns, frameon=False, columnspacing=1, **place)


def panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with the given number of axes, at most three in a row."""
    columns = min(3, count)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.3 * columns, 0.5 + height * rows), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[count:]:
        ax.axis("off")
    return figure, list(axes.flat[:count])


def name_places(ax: Axes, names: Array, places: Array, order: Array) -> None:
    """Write names beside points in a given order, leaving out those that would overlap another name."""
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]  # fixes the layout
    taken: list[Any] = []
    for n in np.argsort(order, kind="stable")[:200]:
        text = ax.annotate(short_name(names[n]), places[n], fontsize=6, xytext=(4, 3), textcoords="offset points")
        box = text.get_window_extent()
        outside = box.x1 > ax.bbox.x1 or box.y1 > ax.bbox.y1
        if outside or any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


def chosen_workers(posterior: Posterior, which: Any, most: int) -> list[tuple[Any, str]]:
    """Return names of workers to draw, each with a title; ``None`` for the mean of the crowd.

    Raises:
        OptionError: for anything but ``"best"``, ``"worst"``, ``"average"`` and names.
    """
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


def axes_or_new(ax: Axes | None, size: tuple[float, float] = (5.5, 3.5)) -> Axes:
    """Return the axes given, or new ones of a size in inches."""
    if ax is not None:
        return ax
    _, axes = plt.subplots(figsize=size, layout="constrained")
    return axes


def short_name(text: Any, longest: int = LONGEST) -> str:
    """Return a name on one line, without mathematics for matplotlib, shortened in the middle if it is too long."""
    plain = " ".join(str(text).split())
    if len(plain) > longest:
        end = longest // 3
        plain = f"{plain[: longest - end - 1]}…{plain[-end:]}"
    return plain.replace("$", r"\$")
