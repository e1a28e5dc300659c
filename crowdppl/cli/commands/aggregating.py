"""The command ``aggregate``: labels by votes, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state
from crowdppl.cli.options import AnnotationsFile, Columns, KnownTruth, OverwriteFile, Raw, Reading, Seed
from crowdppl.errors import OptionError, silent, suggestion

METHODS = ("majority", "shares", "wawa")


@command
def aggregate_command(
    file: AnnotationsFile,
    how_read: Reading,
    columns: Columns,
    known: KnownTruth,
    method: Annotated[
        str,
        typer.Option(
            help="majority (the most frequent label), shares (of the labels, as probabilities), wawa (votes weighted by each "
            "worker's agreement with the majority)."
        ),
    ] = "majority",
    ties: Annotated[
        str, typer.Option(help="Of the majority vote: split (equal probabilities), first (class) or random.")
    ] = "split",
    out: Annotated[Path, typer.Option(help="File ending in .csv, .parquet or .jsonl.")] = Path("aggregate.csv"),
    overwrite: OverwriteFile = False,  # applied by `command`
    seed: Seed = 0,
    raw: Raw = False,
) -> None:
    """Aggregate labels by votes, without a model: a quick answer, and what to compare a model with."""
    from crowdppl import aggregate, export
    from crowdppl.cli import inputs
    from crowdppl.cli.display.shared import show_notes
    from crowdppl.cli.display.truth import show_labels
    from crowdppl.export.tables import require_suffix

    if method not in METHODS:
        raise OptionError(f"--method {method!r}{suggestion(method, METHODS)}; use {', '.join(METHODS)}")
    require_suffix(out)
    with silent() as notes:
        data, truth = inputs.annotations_and_truth(file, how_read, columns, known)
        if method == "majority":
            result = aggregate.majority(data, ties=ties, seed=seed)  # type: ignore[arg-type]  # checked there
        elif method == "shares":
            result = aggregate.vote_shares(data)
        else:
            result = aggregate.wawa(data, ties="random" if ties == "random" else "first", seed=seed)
    name = escape(file.name)
    err.print(f"[bold]{name}[/bold]: {data.A:,} annotations of {data.N:,} items by {data.J:,} workers")
    table = result.truth()
    export.write(table, out, raw=raw)
    set_state(f"the labels are in {out}")
    show_labels(table, result.method)
    if truth is not None:
        accuracy, items = result.accuracy(truth)
        console.print(f"Accuracy: {accuracy:.1%} of {items:,} items of known truth; tied classes count in part.")
    show_notes(list(dict.fromkeys([*data.notes, *notes])))
    console.print(f"Wrote {escape(str(out))} with {len(table):,} rows.")
