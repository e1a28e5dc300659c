"""Comparisons of models, calibration and checks on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console, in_command
from crowdppl.cli.display.shared import SHOWN_ITEMS, and_more, grid, legend, show_notes

if TYPE_CHECKING:
    from crowdppl import criticism

    Comparison = tuple[criticism.Calibration, criticism.Coverage]


def show_calibration(title: str, fits: Mapping[str, Comparison], level: float) -> None:
    """Print how well probabilities and intervals of several fits agree with known true labels.

    Args:
        title: of the table.
        fits: calibration and coverage by the name of the fit.
        level: probability of the intervals.
    """
    table = grid(title, ("", *fits), left=("",))
    rows = {
        "accuracy of the labels": [f"{truth.accuracy:.3f}" for truth, _ in fits.values()],
        "confidence, the mean probability of the chosen label": [
            f"{truth.confidence:.3f}" for truth, _ in fits.values()
        ],
        "log loss": [f"{truth.log_loss:.3f}" for truth, _ in fits.values()],
        "calibration error": [f"{truth.ece:.3f}" for truth, _ in fits.values()],
    }
    if all(len(workers.workers) for _, workers in fits.values()):
        rows |= {
            f"workers with their share of correct annotations in its {level:.0%} interval": [
                f"{workers.share_correct:.0%}" for _, workers in fits.values()
            ],
            f"workers with it in the {level:.0%} interval of their accuracy": [
                f"{workers.accuracy:.0%}" for _, workers in fits.values()
            ],
        }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console.print(table)


def show_form(fits: Mapping[str, Comparison]) -> None:
    """Print how the intervals and log losses of two forms of a model compare, with the uncertainty of the figures."""
    from crowdppl import criticism  # here: slow to import

    for name, (_, covered) in fits.items():
        console.print(f"{name.capitalize()}: {covered.summary}")
    difference, error = criticism.loss_difference(*(truth for truth, _ in fits.values()))
    first, second = fits
    clear = abs(difference) > criticism.CLEAR * error
    console.print(
        f"Log loss, {first} less {second}: {difference:+.3f} with a standard error of {error:.3f}; "
        + (
            f"{first if difference < 0 else second} is better for the labels."
            if clear
            else "these items do not tell which is better."
        )
    )


def show_comparison(comparison: criticism.Comparison, items: int) -> None:
    """Print a comparison of models: disagreements, shares of classes, predictive scores and known truths.

    Args:
        comparison: of the models.
        items: number of items.
    """
    rows = comparison.models.to_dict("records")
    names = [row["model"] for row in rows]
    _show_disagreements(names, comparison, items)
    _show_shares(names, comparison.shares)
    table = grid(
        f"\nPredictive score of {len(names)} models by {rows[0]['method']}",
        ("model", "seconds", "elpd", "difference", "unreliable"),
        left=("model",),
        no_wrap=True,
    )
    for row in rows:
        gap = "best" if row["difference"] == 0 else f"{row['difference']:,.1f} ± {row['se_difference']:,.1f}"
        score = ("none", "") if pd.isna(row["elpd"]) else (f"{row['elpd']:,.1f}", gap)
        table.add_row(row["model"], f"{row['seconds']:.1f}", *score, f"{row['unreliable']:,}")
    console.print(table)
    legend(
        "elpd: expected log predictive density of all labels of an item left out, summed over items, in nats; "
        "unreliable: items for which importance sampling fails (Pareto k above .7)"
    )
    if comparison.known:
        _show_scores(rows, comparison)
    console.print("\n[bold]Which model?[/bold]")
    for sentence in comparison.summary:
        console.print(f"- {escape(in_command(sentence))}")
    show_notes(comparison.notes)


def _show_scores(rows: Sequence[dict[Any, Any]], comparison: criticism.Comparison) -> None:
    table = grid(
        f"\nOn {comparison.known:,} items of known truth, which no fit knew",
        ("model", "accuracy", f"interval ({comparison.level:.0%})", "log loss", "most accurate"),
        left=("model",),
        no_wrap=True,
    )
    for row in rows:
        interval = f"{row['low']:.3f}–{row['high']:.3f}"
        table.add_row(row["model"], f"{row['accuracy']:.3f}", interval, f"{row['log_loss']:.3f}", f"{row['best']:.0%}")
    console.print(table)
    legend("most accurate: probability, given these items, that no other model is more accurate")


def _show_disagreements(names: Sequence[str], comparison: criticism.Comparison, items: int) -> None:
    count = {(row["first"], row["second"]): int(row["items"]) for row in comparison.pairs.to_dict("records")}
    table = grid(f"Items with different labels, of {items:,}", ("", *names[1:]), left=("",), no_wrap=True)
    for name in names[:-1]:
        table.add_row(name, *(f"{count[name, other]:,}" if (name, other) in count else "" for other in names[1:]))
    console.print(table)
    if not len(comparison.items):
        return
    shown = comparison.items.head(SHOWN_ITEMS)
    table = grid("\nThe greatest disagreements: label and probability by each model")
    table.add_column(str(shown.columns[0]), no_wrap=True, max_width=24)
    for name in names:
        table.add_column(name, no_wrap=True, max_width=20)
    for row in shown.to_dict("records"):
        cells = [f"{_short(row[f'label_{name}'])} {float(row[f'probability_{name}']):.2f}" for name in names]
        table.add_row(escape(str(row[shown.columns[0]])), *map(escape, cells))
    console.print(table)
    and_more(comparison.items, len(shown), "items")


def _short(label: Any, width: int = 14) -> str:
    """Return a class in few characters, so that its probability stays visible."""
    text = str(label)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _show_shares(names: Sequence[str], shares: pd.DataFrame) -> None:
    table = grid("\nExpected share of items of each class")
    table.add_column("class", no_wrap=True, max_width=24)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    # The classes about which the models differ most, in their own order.
    spread = shares[list(names)].max(axis=1) - shares[list(names)].min(axis=1)
    kept = spread.sort_values(ascending=False, kind="stable").index[:SHOWN_ITEMS]
    for row in shares.loc[sorted(kept)].to_dict("records"):
        table.add_row(escape(str(row["label"])), *(f"{row[name]:.1%}" for name in names))
    console.print(table)
    and_more(shares, len(kept), "classes, on which they differ less")


def show_check(check: criticism.PredictiveCheck, level: float) -> None:
    """Print a posterior predictive check: statistics of the labels given beside those of replicated data."""
    from crowdppl import criticism  # here: slow to import

    table = grid(
        "\nLabels given and labels of the model",
        ("", "statistic", "given", f"the model's ({level:.0%})", "p-value"),
        left=("", "statistic"),
    )
    for row in check.table.dropna(subset=["observed"]).to_dict("records"):
        differs = row["p_value"] < criticism.NOTABLE
        table.add_row(
            "! differs" if differs else "",
            escape(row["meaning"]),
            f"{row['observed']:.3f}",
            f"{row['low']:.3f}–{row['high']:.3f}",
            f"{row['p_value']:.3f}",
            style="yellow" if differs else None,
        )
    console.print(table)
