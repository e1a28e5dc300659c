"""Agreement of workers on the terminal, and as one table for a file."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console
from crowdppl.cli.display.shared import SHOWN_WORKERS, grid, interval_bar

NAMES = {
    "agreement": "share of pairs that agree",
    "krippendorff_alpha": "Krippendorff's alpha",
    "fleiss_kappa": "Fleiss' kappa",
    "gwet_ac": "Gwet's AC",
    "intra_rater": "workers with their own repeats",
    "icc_1": "ICC(1)",
    "icc_a_1": "ICC(A,1)",
    "icc_a_k": "ICC(A,k)",
}


def show(
    tables: Sequence[pd.DataFrame], pairs: pd.DataFrame | None, weights: str, level: float, spans: pd.DataFrame | None
) -> None:
    """Print agreement of all workers, and of the pairs with most common items.

    Args:
        tables: of :func:`crowdppl.metrics.agreement` and :func:`crowdppl.metrics.intraclass_correlation`.
        pairs: of :func:`crowdppl.metrics.pairwise_agreement`; ``None`` for labels that are numbers.
        weights: how far two labels agree.
        level: probability of the intervals.
        spans: of :func:`crowdppl.metrics.span_agreement`; ``None`` without spans.
    """
    if spans is not None:
        _show_spans(spans, level)
    table = grid(f"Agreement of the workers ({weights}; intervals of {level:.0%})")
    for column in ("measure", "value", "interval", "0        1", "items"):
        table.add_column(column, justify="right" if column in ("value", "items") else "left", no_wrap=True)
    for row in _one(tables).to_dict("records"):
        low, high, value = row["low"], row["high"], row["value"]
        bar = "" if pd.isna(low) else interval_bar(max(value, 0.0), max(low, 0.0), max(high, 0.0))
        table.add_row(
            row.get("name") or NAMES[row["measure"]], _number(value), _interval(low, high), bar, f"{row['items']:,}"
        )
    console.print(table)
    if pairs is None or not len(pairs):
        return
    most = pairs.sort_values("items", ascending=False, kind="stable").head(SHOWN_WORKERS)
    some = f", the {len(most)} of {len(pairs):,} with most items" if len(most) < len(pairs) else ""
    table = grid(f"Pairs of workers{some}")
    for column in ("first", "second"):
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    kappa = "weighted kappa" if weights == "grades" else "Cohen's kappa"
    for column in ("items", "agree", kappa):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    for row in most.to_dict("records"):
        table.add_row(
            escape(str(row["first"])),
            escape(str(row["second"])),
            f"{row['items']:,}",
            f"{row['agreement']:.0%}",
            _number(row["cohen_kappa"]),
            _interval(row["low"], row["high"]),
        )
    console.print(table)


def _show_spans(spans: pd.DataFrame, level: float) -> None:
    """Print how often another worker marks the same span."""
    table = grid(
        f"Agreement on spans (F measure; intervals of {level:.0%})",
        ("type", "spans", "same span", "interval", "overlap", "interval"),
        left=("type", "interval"),
        no_wrap=True,
    )
    for row in spans.to_dict("records"):
        cells = [escape(str(row["type"])), f"{row['spans']:,}"]
        for name in ("exact", "overlap"):
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            cells += [_number(row[name]), "none" if pd.isna(low) else f"{low:.2f} to {high:.2f}"]
        table.add_row(*cells)
    console.print(table)


def rows(tables: Sequence[pd.DataFrame], pairs: pd.DataFrame | None, spans: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return all measures as one table.

    Columns: ``measure``, of spans with their type; ``first`` and ``second``, the workers of a pair, blank for all; ``value``,
    ``low``, ``high``; ``items``, of spans their number.
    """
    names = {
        "agreement": ("agreement", "agreement_low", "agreement_high"),
        "cohen_kappa": ("cohen_kappa", "low", "high"),
    }
    of_pairs = (
        []
        if pairs is None
        else [
            pairs[["first", "second", "items"]].assign(
                measure=measure,
                **{to: pairs[column] for to, column in zip(("value", "low", "high"), columns, strict=True)},
            )
            for measure, columns in names.items()
        ]
    )
    # Names may be numbers, and are blank for all workers.
    parts = [part.astype({"first": object, "second": object}) for part in of_pairs if len(part)]
    whole = _one(tables).assign(first=None, second=None)
    if spans is not None:
        for kind in ("exact", "overlap"):
            columns = {kind: "value", f"{kind}_low": "low", f"{kind}_high": "high", "spans": "items"}
            named = spans.rename(columns=columns).assign(
                measure=f"span_{kind}: " + spans["type"], first=None, second=None
            )
            parts.append(named[[*columns.values(), "measure", "first", "second"]])
    table = pd.concat([whole, *parts], ignore_index=True)
    return table[["measure", "first", "second", "value", "low", "high", "items"]]


def _one(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True)


def _number(value: float) -> str:
    return "undefined" if pd.isna(value) else f"{value:.3f}"


def _interval(low: float, high: float) -> str:
    return "none" if pd.isna(low) else f"{low:.3f} to {high:.3f}"
