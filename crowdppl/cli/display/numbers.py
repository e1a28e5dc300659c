"""What the command shows of results whose labels are numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console, in_command
from crowdppl.cli.display.computation import show_chains
from crowdppl.cli.display.shared import SHOWN_ITEMS, SHOWN_WORKERS, grid, legend, show_alert, show_notes
from crowdppl.criticism import NumericChanges, NumericCheck, NumericComparison
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.report.numbers import shown


def show_result(
    posterior: NumericPosterior, workers: pd.DataFrame, actions: Sequence[str], level: float, *, verbose: bool = False
) -> None:
    """Print alerts, what to do, the items whose mean misleads most, workers, and how all was computed; in full if ``verbose``."""
    show_alert(posterior)
    show_todo(actions)
    _items(posterior, level)
    _workers(workers, level)
    if "weight" in posterior.tree["posterior"]:
        _features(posterior, level)
    show_notes(posterior.notes + [one for one in posterior.warnings if one not in posterior.alerts])
    info = posterior.info
    legend(f"{info['model']} by {info['method']} in {info['seconds']:.1f} s: {escape(posterior.interval_method)}.")
    if verbose:
        facts = info["facts"]
        show_chains(facts)
        if "iterations" in facts:
            console.print(f"{facts['iterations']:,} steps, {'converged' if facts['converged'] else 'not converged'}.")


def show_todo(actions: Sequence[str]) -> None:
    """Print what to do."""
    console.print("\n[bold]What to do[/bold]")
    for sentence in actions or ["No worker stands out."]:
        console.print(f"- {escape(in_command(sentence))}")


def _items(posterior: NumericPosterior, level: float) -> None:
    truth = posterior.truth(level=level)
    apart = (truth["value"] - truth["mean_label"]).abs().sort_values(ascending=False, kind="stable")
    table = grid(
        f"Items whose mean label is farthest from the {posterior.reading.replace('_', ' ')} (intervals of {level:.0%})",
        ("item", "value", "interval", "mean label", "labels"),
        left=("item",),
    )
    for row in truth.loc[apart.index[:SHOWN_ITEMS]].to_dict("records"):
        table.add_row(
            escape(str(row[posterior.item_column])),
            shown(row["value"]),
            f"{shown(row['low'])} to {shown(row['high'])}",
            shown(row["mean_label"]),
            f"{row['annotations']:,}",
        )
    console.print(table)


def _workers(workers: pd.DataFrame, level: float) -> None:
    ordered = workers.sort_values("annotations", ascending=False, kind="stable")
    part = ordered.head(SHOWN_WORKERS)
    most = f", the {len(part)} with most labels" if len(part) < len(ordered) else ""
    columns = ("labels", "bias", "interval", "slope", "noise", "verdict")
    title = f"Workers{most} (intervals of {level:.0%})"
    table = grid(title, columns, left=("verdict",), name="worker", no_wrap=True)
    for row in part.to_dict("records"):
        table.add_row(
            escape(str(row["worker"])),
            f"{row['annotations']:,}",
            shown(row["bias"]),
            f"{shown(row['bias_low'])} to {shown(row['bias_high'])}",
            shown(row["slope"]),
            shown(row["sd"]),
            str(row["verdict"]),
        )
    console.print(table)
    legend("bias: above the value of the average item; slope: rise with the value; noise: standard deviation")


def _features(posterior: NumericPosterior, level: float) -> None:
    every = posterior.features(level=level)
    part = every.loc[every["effect"].abs().sort_values(ascending=False, kind="stable").index[:SHOWN_ITEMS]]
    most = f", the {len(part)} with the largest effects of {len(every):,}" if len(part) < len(every) else ""
    table = grid(
        f"Features of items{most} (intervals of {level:.0%})",
        ("effect of one standard deviation", "interval"),
        name="feature",
    )
    for row in part.to_dict("records"):
        table.add_row(escape(str(row["feature"])), shown(row["effect"]), f"{shown(row['low'])} to {shown(row['high'])}")
    console.print(table)


def show_comparison(result: NumericComparison) -> None:
    """Print models compared."""
    table = grid("Models", map(str, result.models.columns), left=("model",))
    for row in result.models.to_dict("records"):
        table.add_row(*(escape(value) if isinstance(value, str) else shown(value) for value in row.values()))
    console.print(table)
    for sentence in result.summary:
        console.print(escape(sentence))


def show_changes(result: NumericChanges) -> None:
    """Print what has changed between two results."""
    for sentence in result.summary:
        console.print(escape(sentence))
    for title, part in (("Items that changed most", result.items), ("Workers", result.workers)):
        table = grid(title, map(str, part.columns))
        for row in part.head(SHOWN_ITEMS).to_dict("records"):
            table.add_row(*(shown(value) if isinstance(value, float) else escape(str(value)) for value in row.values()))
        console.print(table)


def show_check(result: NumericCheck, level: float) -> None:
    """Print labels beside those drawn from the fitted model."""
    for sentence in result.summary:
        console.print(escape(sentence))
    table = grid(
        f"Statistics of labels (intervals of {level:.0%} of draws from the model)",
        ("statistic", "labels", "model"),
        left=("statistic",),
    )
    for row in result.table.to_dict("records"):
        table.add_row(row["statistic"], shown(row["observed"]), f"{shown(row['low'])} to {shown(row['high'])}")
    console.print(table)
