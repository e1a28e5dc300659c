"""True labels on the terminal: classes, spans and sets, and lists of labels and of items to label next."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console
from crowdppl.cli.display.grades import show_grades
from crowdppl.cli.display.shared import SHOWN_ITEMS, SHOWN_WORKERS, grid, show_first
from crowdppl.data.table.columns import ITEM_COLUMNS
from crowdppl.posterior.posterior import Posterior, probability_columns
from crowdppl.posterior.sets import has_sets, shares
from crowdppl.posterior.spans import has_spans
from crowdppl.posterior.workers import other_rates

# An item whose label is less probable is listed among the least certain.
CERTAIN = 0.95


def show_truth(posterior: Posterior, level: float) -> None:
    """Print the share of each class and the least certain items; of grades the items whose mean misleads most."""
    if posterior.graded:
        show_grades(posterior, level)
        return
    if has_spans(posterior):
        show_spans(posterior)
        return
    if has_sets(posterior):
        show_sets(posterior)
        return
    truth = posterior.truth()
    shares = posterior.prevalence()
    listed = ", ".join(f"{escape(str(row.label))} {row.share:.0%}" for row in shares.head(8).itertuples())
    console.print(f"\nShare of each class: {listed}{' ...' if len(shares) > 8 else ''}")
    for sentence in other_rates.sentences(posterior):
        console.print(escape(sentence))
    uncertain = truth[truth["probability"] < CERTAIN].sort_values("probability", kind="stable")
    certain = len(truth) - len(uncertain)
    console.print(f"{certain:,} of {len(truth):,} items have a label that is at least {CERTAIN:.0%} probable.")
    classes = list(zip(posterior.labels.tolist(), probability_columns(posterior.labels), strict=True))

    def written(row: dict[Any, Any]) -> list[str]:
        rest = sorted(((row[p], str(k)) for k, p in classes if k != row["label"]), reverse=True)
        others = ", ".join(f"{k} {p:.0%}" for p, k in rest[:3] if p >= 0.005)
        return [str(row[posterior.item_column]), str(row["label"]), f"{row['probability']:.2f}", others]

    title, columns = "True labels: the least certain items", ("item", "label", "probability", "otherwise")
    show_first(uncertain, title, columns, {"probability"}, written, "truth.csv")


def show_spans(posterior: Posterior) -> None:
    """Print how many spans of each type there are, and the least certain ones."""
    spans = posterior.spans(every=True)
    chosen = spans[spans["chosen"]]
    expected = spans.groupby("type", sort=False)["probability"].sum()
    counts = [(str(kind), int(count)) for kind, count in chosen["type"].value_counts().items()]
    kinds = ", ".join(f"{escape(kind)} {count:,} (about {expected[kind]:,.0f} expected)" for kind, count in counts)
    console.print(f"\nSpans in the most probable labels: {kinds or 'none'}.")
    certain = int((chosen["probability"] >= CERTAIN).sum())
    console.print(f"{certain:,} of {len(chosen):,} spans are at least {CERTAIN:.0%} probable.")
    uncertain = chosen[chosen["probability"] < CERTAIN].sort_values("probability", kind="stable")

    def written(row: dict[Any, Any]) -> list[str]:
        place = [str(row[name]) for name in ("sequence", "first", "last", "type")]
        return [*place, f"{row['probability']:.2f}", f"{row['workers']} of {row['of_workers']}"]

    title, columns = "Spans: the least certain ones", ("sequence", "from", "to", "type", "probability", "workers")
    show_first(uncertain, title, columns, {"from", "to", "probability", "workers"}, written, "spans.csv")


def show_sets(posterior: Posterior) -> None:
    """Print how often each label is in a set, and the least certain sets."""
    table = grid("Labels", ("label", "in true sets", "chosen"), left=("label",))
    each = shares(posterior).sort_values("share", ascending=False, kind="stable")
    for row in each.head(SHOWN_WORKERS).to_dict("records"):
        table.add_row(escape(str(row["label"])), f"{row['share']:.0%}", f"{row['chosen']:.0%}")
    console.print(table)
    if len(each) > SHOWN_WORKERS:
        console.print(f"... and {len(each) - SHOWN_WORKERS:,} more labels")
    sets = posterior.sets()
    sure = int((sets["probability"] >= CERTAIN).sum())
    console.print(f"{sure:,} of {len(sets):,} tasks have a set that is at least {CERTAIN:.0%} probable.")
    uncertain = sets[sets["probability"] < CERTAIN].sort_values("probability", kind="stable")

    def written(row: dict[Any, Any]) -> list[str]:
        names = [str(row[name]) for name in (posterior.item_column, "labels")]
        return [*names, f"{row['probability']:.2f}", f"{row['annotations']:,}"]

    title, columns = "Sets: the least certain tasks", (posterior.item_column, "labels", "probability", "annotations")
    show_first(uncertain, title, columns, {"probability", "annotations"}, written, "sets.csv")


def show_labels(table: pd.DataFrame, title: str) -> None:
    """Print the first labels of a table of true labels."""
    columns = list(table.columns[:3])
    shown = grid(f"{title.capitalize()}: {len(table):,} items", columns, left={*columns} - {"probability"})
    for row in table.iloc[:SHOWN_ITEMS, :3].itertuples(index=False):
        shown.add_row(*(f"{value:.3f}" if isinstance(value, float) else escape(str(value)) for value in row))
    console.print(shown)


def show_batch(batch: pd.DataFrame, what: str = "annotations") -> None:
    """Print the first rows of what to label next, or of the true labels to find out."""
    if not len(batch):
        console.print("No annotation to request: every item is known, certain enough, or annotated by everyone.")
    names = (*ITEM_COLUMNS, "worker", "label", "labels", "sequence")
    table = grid(f"Next: {len(batch):,} {what}", batch.columns, left=names)
    for row in batch.head(SHOWN_ITEMS).to_dict("records"):
        cells: list[Any] = list(row.values())
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else escape(str(value)) for value in cells))
    console.print(table)
