"""Simulated designs on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from crowdppl.cli.application import console
from crowdppl.cli.display.shared import grid, legend

if TYPE_CHECKING:
    from crowdppl import criticism

COLUMNS = {
    "items": "items",
    "per_item": "per item",
    "annotations": "total",
    "per_worker": "per worker",
    "width": "width",
    "widest": "widest",
    "accuracy": "accuracy",
    "mae": "error",
    "correlation": "corr.",
}
WHOLE = ("items", "per_item", "annotations", "per_worker")


def show(plan: criticism.Plan) -> None:
    """Print the designs, a mark before the smallest one that is enough, and what follows."""
    unit = "severity, in grades" if plan.measure == "severity" else "accuracy"
    table = grid(
        f"{plan.workers:,} workers: width of {plan.level:.0%} intervals of {unit} ({plan.model}, {plan.replicates} simulations "
        f"each)"
    )
    shown = [name for name in COLUMNS if name in plan.table]
    table.add_column("")
    for name in shown:
        table.add_column(COLUMNS[name], justify="right", no_wrap=True)
    smallest = plan.smallest
    for row in plan.table.to_dict("records"):
        chosen = smallest is not None and all(row[name] == smallest[name] for name in ("items", "per_item"))
        cells = [f"{row[name]:,.0f}" if name in WHOLE else f"{row[name]:.2f}" for name in shown]
        table.add_row(">" if chosen else "", *cells, style="green" if chosen else None)
    console.print(table)
    meaning = "total: annotations; width, widest: mean interval, and that of the least known worker; "
    meaning += (
        "error, corr.: mean distance of grades from the true ones, and their correlation"
        if "mae" in plan.table
        else "accuracy: share of the labels that are right"
    )
    legend(meaning)
    for sentence in plan.sentences:
        console.print(escape(sentence))
