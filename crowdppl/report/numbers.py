"""What the report of labels that are numbers shows, and the sentences on what to do, which the terminal shows too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.data.html import Markup, element, joined
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.numbers import NumericPosterior

Array = npt.NDArray[Any]
# Rows of the tables, and of the figures.
ROWS, DRAWN = 25, 40
# Workers named in a sentence.
NAMED = 5
WORDS = {
    "consensus": "the consensus, which is free of biases of workers",
    "true_number": "the true number, on the scale of the known ones",
}


@arguments.checked(
    posterior=arguments.numeric_posterior,
    level=arguments.level,
    workers=arguments.table_of("posterior.workers()", "worker", "annotations", "bias", "verdict"),
)
def number_actions(
    posterior: NumericPosterior, *, level: float | None = None, workers: pd.DataFrame | None = None
) -> list[str]:
    """Return what to do, a sentence each, the most important first.

    Args:
        posterior: a result.
        level: probability of the intervals.
        workers: ``posterior.workers(level=level)``, if already computed.
    """
    table = posterior.workers(level=level) if workers is None else workers
    by = {verdict: rows for verdict, rows in table.groupby("verdict", sort=False)}
    out = []
    if "random" in by:
        out.append(
            f"Leave out or ask {_names(by['random'])}: the labels hardly follow those of the others. They count for almost "
            f"nothing already."
        )
    if "noisy" in by:
        out.append(f"Check {_names(by['noisy'])}: the noise is more than twice that of the typical worker.")
    middle = float(table.loc[table["annotations"] > 0, "bias"].mean())
    for verdict, word in (("high", "higher"), ("low", "lower")):
        for row in by[verdict].head(NAMED).to_dict("records") if verdict in by else []:
            out.append(
                f"{row['worker']} gives numbers {shown(abs(row['bias'] - middle))} {word} than the mean worker on the same "
                f"items. Nothing is to be corrected: the values of items allow for it."
            )
        rest = len(by.get(verdict, ())) - NAMED
        if rest > 0:
            out.append(
                f"{rest:,} more workers give {word} numbers than the mean worker; the table of workers has them."
            )
    truth = posterior.truth(level=level)
    width = truth["high"] - truth["low"]
    wide = int((width > 2 * width.median()).sum())
    if wide:
        out.append(
            f"{wide:,} items have an interval more than twice as wide as the median ({shown(float(width.median()))}): "
            f"crowdppl next lists those that need further labels most."
        )
    if posterior.reading == "consensus":
        out.append(
            "Whether all workers are too high together cannot be known without known true numbers. Differences between items do "
            "not depend on it."
        )
    return out


def _names(rows: pd.DataFrame) -> str:
    names = [str(name) for name in rows["worker"].tolist()]
    listed = ", ".join(names[:NAMED])
    return listed if len(names) <= NAMED else f"{listed} and {len(names) - NAMED:,} more"


def shown(value: float) -> str:
    """Return a number with three significant digits, and a proper minus sign."""
    if not np.isfinite(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{digits}f}".replace("-", "−")


@arguments.checked(
    posterior=arguments.numeric_posterior, run=arguments.mapping, level=arguments.level, title=arguments.text
)
def numbers_content(
    posterior: NumericPosterior,
    run: Mapping[str, Any] | None = None,
    *,
    level: float | None = None,
    title: str | None = None,
) -> tuple[dict[str, Any], dict[str, Markup]]:
    """Return the data of the page, and the markup of its places.

    Args:
        posterior: a result.
        run: how the result was computed: input, command.
        level: probability of the intervals.
        title: heading of the page. Defaults to the name of the input.
    """
    level = default_level(level)
    run = {} if run is None else run
    info = posterior.info
    counts = info["counts"]
    source = run.get("input", {}).get("file", "")
    heading = title or run.get("title") or (Path(str(source)).name if source else "Numbers from several workers")
    truth, workers = posterior.truth(level=level), posterior.workers(level=level)
    known = counts.get("known", 0)
    lead = (
        f"{counts['workers']:,} workers gave {counts['annotations']:,} numbers for {counts['items']:,} items"
        f"{f', of which the true number of {known:,} is known' if known else ''}."
    )
    todo = number_actions(posterior, level=level, workers=workers)
    intervals = f"Intervals contain the value with probability {level:.0%}."
    markup = {
        "WHAT": joined(lead),
        "TODO": _list(todo),
        "ITEMSNOTE": joined(
            f"The value of an item is {WORDS[posterior.reading]}. {intervals} A ring is the mean of the labels given. The table "
            f"has the {min(ROWS, len(truth)):,} items with the widest intervals; truth.csv has all."
        ),
        "ITEMSFIGURE": _items_figure(truth, posterior.item_column),
        "ITEMSTABLE": _items_table(truth, posterior.item_column),
        "WORKERSNOTE": joined(
            f"Bias is by how much labels exceed the value of the average item; slope, by how much they rise where the value "
            f"rises by 1; noise, the standard deviation of what remains. {intervals} The "
            f"{min(ROWS, len(workers)):,} workers with most labels; workers.csv has all."
        ),
        "WORKERSFIGURE": _workers_figure(workers),
        "WORKERSTABLE": _workers_table(workers),
        "NOTES": _list([*posterior.warnings, *posterior.notes]) if posterior.warnings or posterior.notes else joined(),
        "METHOD": joined(
            f"Model {info['model']} by {info['method']}, seed {info['seed']}: {posterior.interval_method}. Each label is the "
            f"value of its item, changed by bias and slope of its worker, and normal noise. Workers with few labels are close to "
            f"the crowd."
        ),
        "FOOTNOTE": joined(f"Versions: {', '.join(f'{name} {number}' for name, number in info['versions'].items())}."),
    }
    return {"title": heading, "level": level}, markup


def _list(sentences: Sequence[str]) -> Markup:
    return element("ul", *(element("li", sentence[0].upper() + sentence[1:]) for sentence in sentences))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> Markup:
    """Return a table whose first ``words`` columns are text and the others numbers."""
    head = element(
        "tr", *(element("th", name, scope="col", class_=None if n < words else "num") for n, name in enumerate(columns))
    )
    body = [
        element("tr", *(element("td", cell, class_=None if n < words else "num") for n, cell in enumerate(row)))
        for row in rows
    ]
    return element("table", element("thead", head), element("tbody", *body))


def _items_table(truth: pd.DataFrame, column: str) -> Markup:
    order = truth["sd"].sort_values(ascending=False, kind="stable").index[:ROWS]
    rows = [
        [
            str(row[column]),
            shown(row["value"]),
            f"{shown(row['low'])} to {shown(row['high'])}",
            shown(row["mean_label"]),
            f"{row['annotations']:,}",
        ]
        for row in truth.loc[order].to_dict("records")
    ]
    return _table(["item", "value", "interval", "mean label", "labels"], rows)


def _workers_table(workers: pd.DataFrame) -> Markup:
    order = workers["annotations"].sort_values(ascending=False, kind="stable").index[:ROWS]
    rows = [
        [
            str(row["worker"]),
            str(row["verdict"]),
            f"{row['annotations']:,}",
            *(
                f"{shown(row[name])} ({shown(row[f'{name}_low'])} to {shown(row[f'{name}_high'])})"
                for name in ("bias", "slope", "sd")
            ),
            shown(row["correlation"]),
        ]
        for row in workers.loc[order].to_dict("records")
    ]
    return _table(["worker", "verdict", "labels", "bias", "slope", "noise", "correlation"], rows, words=2)


# ---------------------------------------------------------------------- figures


def _items_figure(truth: pd.DataFrame, column: str) -> Markup:
    """Return dots with intervals of items over the whole range, by value, with the mean labels as rings."""
    ordered = truth.sort_values("value", kind="stable").reset_index(drop=True)
    picked = np.unique(np.linspace(0, len(ordered) - 1, min(DRAWN, len(ordered))).round().astype(int))
    part = ordered.loc[picked]
    names = [str(name) for name in part[column]]
    mean, low, high, rings = (part[name].to_numpy() for name in ("value", "low", "high", "mean_label"))
    return dots(names, mean, low, high, rings, "Items by value")


def _workers_figure(workers: pd.DataFrame) -> Markup:
    """Return dots with intervals of the biases of the busiest workers."""
    part = (
        workers.sort_values("annotations", ascending=False, kind="stable")
        .head(DRAWN)
        .sort_values("bias", kind="stable")
    )
    names = [str(name) for name in part["worker"]]
    mean, low, high = (part[f"bias{end}"].to_numpy() for end in ("", "_low", "_high"))
    return dots(names, mean, low, high, None, "Bias of workers", zero=True)


def dots(
    names: Sequence[str], mean: Array, low: Array, high: Array, rings: Array | None, title: str, *, zero: bool = False
) -> Markup:
    """Return a figure with a row for each name: an interval, a dot at its mean and, if given, a ring.

    Args:
        names: of the rows, ``(n,)``.
        mean: places of the dots, ``(n,)``.
        low: lower ends of the intervals.
        high: upper ends.
        rings: places of the rings, NaN for none; ``None`` for no rings.
        title: of the figure.
        zero: whether a line marks zero.
    """
    places = [mean, low, high] if rings is None else [mean, low, high, rings]
    values = np.concatenate([np.asarray(one, dtype=float) for one in places])
    values = values[np.isfinite(values)]
    if not len(values):
        return joined()
    least, most = float(values.min()), float(values.max())
    if zero:
        least, most = min(least, 0.0), max(most, 0.0)
    span = (most - least) or 1.0
    left, width, row, top = 170, 560, 18, 22
    height = top + row * len(names) + 24

    def x(value: float) -> str:
        return f"{left + (value - least) / span * width:.1f}"

    parts: list[Markup] = []
    for tick in ticks(least, most):
        at = x(tick)
        parts.append(
            element("line", x1=at, x2=at, y1=str(top - 6), y2=str(height - 20), stroke="currentColor", opacity="0.15")
        )
        parts.append(
            element(
                "text",
                f"{tick:g}".replace("-", "−"),
                x=at,
                y=str(height - 6),
                text_anchor="middle",
                font_size="12",
                fill="currentColor",
            )
        )
    if zero:
        parts.append(
            element(
                "line", x1=x(0), x2=x(0), y1=str(top - 6), y2=str(height - 20), stroke="currentColor", opacity="0.5"
            )
        )
    for n, name in enumerate(names):
        y = str(top + row * n + row // 2)
        short = name if len(name) <= 24 else name[:23] + "…"
        parts.append(
            element(
                "text",
                short,
                x=str(left - 10),
                y=str(int(y) + 4),
                text_anchor="end",
                font_size="12",
                fill="currentColor",
            )
        )
        if np.isfinite(low[n]) and np.isfinite(high[n]):
            parts.append(
                element(
                    "line",
                    x1=x(low[n]),
                    x2=x(high[n]),
                    y1=y,
                    y2=y,
                    stroke="currentColor",
                    stroke_width="2",
                    opacity="0.45",
                )
            )
        parts.append(element("circle", cx=x(mean[n]), cy=y, r="4", fill="#1f77b4"))
        if rings is not None and np.isfinite(rings[n]):
            parts.append(
                element("circle", cx=x(rings[n]), cy=y, r="4", fill="none", stroke="#d95f02", stroke_width="1.5")
            )
    # Attributes of SVG keep their capitals: escaped text in the markup is all that is needed.
    box = f"0 0 {left + width + 20} {height}"
    body = joined(*parts)
    caption = element("figcaption", title)
    drawing = Markup(f'<svg viewBox="{box}" role="img" aria-label="{title}" width="100%">{body}</svg>')
    return joined(caption, drawing)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two numbers, at most about ``most`` of them."""
    span = (high - low) or 1.0
    step = 10 ** np.floor(np.log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (factor * step) <= most)
    first = np.ceil(low / step - 1e-9)
    return [float(np.round((first + n) * step, 12)) for n in range(int((high - first * step) / step + 1e-9) + 1)]
