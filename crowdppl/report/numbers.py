"""What the report of labels that are numbers shows, and the sentences on what to do, which the terminal shows too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Level, checked
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.report.rendering import Table

Array = npt.NDArray[Any]
# Rows of the tables, and of the figures.
ROWS, DRAWN = 25, 40
# Pixels of the figures: left of the intervals, their width, each row, and above the rows.
LEFT, WIDTH, ROW, TOP = 170, 560, 18, 22
# Height of a histogram above the rows.
BARS = 70
# Workers named in a sentence.
NAMED = 5
WORDS = {
    "consensus": "the consensus, which is free of biases of workers",
    "true_number": "the true number, on the scale of the known ones",
}


@checked
def number_actions(
    posterior: NumericPosterior,
    *,
    level: Level | None = None,
    workers: Annotated[
        pd.DataFrame, arguments.table_of("posterior.workers()", "worker", "annotations", "bias", "verdict")
    ]
    | None = None,
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


@checked
def numbers_content(
    posterior: NumericPosterior,
    run: Annotated[Mapping[str, Any], arguments.mapping] | None = None,
    *,
    level: Level | None = None,
    title: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data of the page, and the variables of ``numbers.html``.

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
    shown_items, shown_workers = _top(truth, "sd"), _top(workers, "annotations")
    context = {
        "lead": lead,
        "todo": todo,
        "value": WORDS[posterior.reading],
        "intervals": intervals,
        "items": _items_table(shown_items, posterior.item_column),
        "items_figure": _items_figure(truth, posterior.item_column),
        "workers": _workers_table(shown_workers),
        "workers_figure": _workers_figure(workers),
        "features": _features_table(posterior, level),
        "notes": [*posterior.warnings, *posterior.notes],
        "method": f"Model {info['model']} by {info['method']}, seed {info['seed']}: {posterior.interval_method}.",
        "versions": ", ".join(f"{name} {number}" for name, number in info["versions"].items()),
    }
    return {"title": heading, "level": level}, context


def _top(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows with the largest values of a column."""
    return table.loc[table[column].sort_values(ascending=False, kind="stable").index[:ROWS]]


def _items_table(rows: pd.DataFrame, column: str) -> Table:
    cells = [
        [
            str(row[column]),
            shown(row["value"]),
            f"{shown(row['low'])} to {shown(row['high'])}",
            shown(row["mean_label"]),
            f"{row['annotations']:,}",
        ]
        for row in rows.to_dict("records")
    ]
    return Table(["item", "value", "interval", "mean label", "labels"], cells, (1, 2, 3, 4))


def _workers_table(rows: pd.DataFrame) -> Table:
    cells = [
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
        for row in rows.to_dict("records")
    ]
    return Table(["worker", "verdict", "labels", "bias", "slope", "noise", "correlation"], cells, (2, 3, 4, 5, 6))


def _features_table(posterior: NumericPosterior, level: float) -> Table | None:
    """Return the features with the largest effects, or ``None`` without any."""
    if "weight" not in posterior.tree["posterior"]:
        return None
    table = posterior.features(level=level)
    rows = _top(table.assign(size=table["effect"].abs()), "size")
    cells = [
        [str(row["feature"]), shown(row["effect"]), f"{shown(row['low'])} to {shown(row['high'])}", shown(row["sd"])]
        for row in rows.to_dict("records")
    ]
    return Table(["feature", "effect", "interval", "standard deviation"], cells, (1, 2, 3))


# ---------------------------------------------------------------------- figures


def _items_figure(truth: pd.DataFrame, column: str) -> dict[str, Any]:
    """Return dots with intervals of items over the whole range, by value, with the mean labels as rings."""
    ordered = truth.sort_values("value", kind="stable").reset_index(drop=True)
    picked = np.unique(np.linspace(0, len(ordered) - 1, min(DRAWN, len(ordered))).round().astype(int))
    part = ordered.loc[picked]
    names = [str(name) for name in part[column]]
    mean, low, high, rings = (part[name].to_numpy() for name in ("value", "low", "high", "mean_label"))
    return dots(names, mean, low, high, rings, "Items by value")


def _workers_figure(workers: pd.DataFrame) -> dict[str, Any]:
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
    names: Sequence[str],
    mean: Array,
    low: Array,
    high: Array,
    rings: Array | None,
    title: str,
    *,
    zero: bool = False,
    above: Array | None = None,
) -> dict[str, Any]:
    """Return what the macro ``dots`` of the templates draws: a row for each name, with an interval, a dot and perhaps a ring.

    Args:
        names: of the rows, ``(n,)``.
        mean: places of the dots, ``(n,)``.
        low: lower ends of the intervals.
        high: upper ends.
        rings: places of the rings, NaN for none; ``None`` for no rings.
        title: of the figure.
        zero: whether a line marks zero.
        above: values whose histogram stands above the rows.

    Returns:
        The places in pixels; nothing but the title where no value is finite.
    """
    places = [mean, low, high, *(values for values in (rings, above) if values is not None)]
    values = np.concatenate([np.asarray(one, dtype=float) for one in places])
    values = values[np.isfinite(values)]
    if not len(values):
        return {"title": title, "rows": []}
    least, most = float(values.min()), float(values.max())
    if zero:
        least, most = min(least, 0.0), max(most, 0.0)
    span = (most - least) or 1.0

    def x(value: float) -> str | None:
        return f"{LEFT + (value - least) / span * WIDTH:.1f}" if np.isfinite(value) else None

    top = TOP if above is None else TOP + BARS
    rows = [
        {
            "name": name if len(name) <= 24 else name[:23] + "…",
            "y": top + ROW * n + ROW // 2,
            "mean": x(mean[n]),
            "ends": None if x(low[n]) is None or x(high[n]) is None else (x(low[n]), x(high[n])),
            "ring": None if rings is None else x(rings[n]),
        }
        for n, name in enumerate(names)
    ]
    return {
        "title": title,
        "rows": rows,
        "ticks": [(x(tick), f"{tick:g}".replace("-", "−")) for tick in ticks(least, most)],
        "zero": x(0.0) if zero else None,
        "bars": [] if above is None else _bars(above, least, span),
        "left": LEFT,
        "top": top,
        "width": LEFT + WIDTH + 20,
        "height": top + ROW * len(names) + 24,
    }


def _bars(values: Array, least: float, span: float) -> list[tuple[str, str, str, str]]:
    """Return the bars of a histogram over the rows of :func:`dots`: left, upper end, width and height of each, in pixels."""
    counts, edges = np.histogram(values[np.isfinite(values)], bins=30, range=(least, least + span))
    heights = BARS * counts / max(1, counts.max())
    lefts = LEFT + (edges - least) / span * WIDTH
    return [
        (
            f"{lefts[n]:.1f}",
            f"{TOP + BARS - 8 - height:.1f}",
            f"{max(lefts[n + 1] - lefts[n] - 1, 1):.1f}",
            f"{height:.1f}",
        )
        for n, height in enumerate(heights.tolist())
        if height > 0
    ]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two numbers, at most about ``most`` of them."""
    span = (high - low) or 1.0
    step = 10 ** np.floor(np.log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (factor * step) <= most)
    first = np.ceil(low / step - 1e-9)
    return [float(np.round((first + n) * step, 12)) for n in range(int((high - first * step) / step + 1e-9) + 1)]
