"""The command ``perspectives``: do groups of raters see the same items differently?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state
from crowdppl.cli.options import Columns, KnownTruth, Level, OverwriteFile, Raw, Reading, Seed
from crowdppl.errors import DataError, OptionError, listed, silent

if TYPE_CHECKING:
    import pandas as pd

    from crowdppl.criticism import Perspectives

# Items shown, those of which groups say the most different things.
SHOWN_ITEMS = 8


@command
def perspectives_command(
    file: Annotated[Path, typer.Argument(help="Grades, or labels of two classes, in a file as `fit` takes it.")],
    how_read: Reading,
    columns: Columns,
    group: Annotated[
        str, typer.Option(help="Column with the group of the rater, or a number of groups to look for in the labels.")
    ],
    splits: Annotated[int, typer.Option(help="How often a fifth of the annotations is held out.")] = 3,
    level: Level = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="File for what each group says of each item: .csv, .parquet or .jsonl. (default: none)"),
    ] = None,
    overwrite: OverwriteFile = False,  # applied by `command`
    raw: Raw = False,
) -> None:
    """Do groups of raters see the same items differently? Held-out labels by one truth, one place, and a place for each group."""
    from crowdppl import criticism, export
    from crowdppl.cli import inputs
    from crowdppl.cli.display.shared import show_notes
    from crowdppl.data.numeric import NumericAnnotations
    from crowdppl.export.tables import require_suffix

    if out is not None:
        require_suffix(out)
    with silent() as notes:
        data, _ = inputs.annotations_and_truth(file, how_read, columns, KnownTruth())
        if isinstance(data, NumericAnnotations):
            raise OptionError(
                "perspectives are of grades, or of two classes, and labels are numbers; give --kind ordinal"
            )
        groups = int(group) if group.isdecimal() else _of_column(file, how_read, columns, group)
        result = criticism.perspectives(data, groups, splits=splits, level=level, seed=seed)
    err.print(f"[bold]{escape(file.name)}[/bold]: {data.A:,} annotations of {data.N:,} items by {data.J:,} workers")
    _show(result, data.item_column)
    show_notes(list(dict.fromkeys([*data.notes, *notes])))
    if out is not None:
        export.write(result.grades, out, raw=raw)
        set_state(f"what each group says is in {out}")
        console.print(f"Wrote {escape(str(out))} with {len(result.grades):,} rows.")


def _of_column(file: Path, how_read: Reading, columns: Columns, name: str) -> pd.DataFrame:
    """Return the worker and the group of each row.

    Raises:
        DataError: if there is no such column.
    """
    from crowdppl.cli import inputs
    from crowdppl.data.readers.streams import source_name
    from crowdppl.data.table.columns import WORKER_COLUMNS, column_of

    frame, source = (
        inputs.read_annotations(file, how_read.format, how_read.choices(columns))[0].frame,
        source_name(file),
    )
    if name not in frame.columns:
        raise DataError(
            f"{source}: no column {name!r} with the group; it has {listed(frame.columns.tolist(), 12)}, and "
            f"--group 2 looks for two groups in the labels"
        )
    worker = column_of(frame, columns.worker, WORKER_COLUMNS, source, "name the worker column with --worker")
    return frame[[worker, name]].dropna().drop_duplicates().rename(columns={worker: "worker", name: "group"})


def _show(result: Perspectives, item: str) -> None:
    """Print the accounts with their gains, the groups, and the items of which they say the most different things."""
    from crowdppl.cli.display.shared import grid

    table = grid(
        "Held-out annotations (nats an annotation)",
        ("account", "log score", "gain", "standard error"),
        left=("account",),
        no_wrap=True,
    )
    for row in result.scores.to_dict("records"):
        gain = ["", ""] if row["gain"] != row["gain"] else [f"{row['gain']:+.4f}", f"{row['se']:.4f}"]
        table.add_row(row["account"], f"{row['log_score']:.4f}", *gain)
    console.print(table)
    places = result.places
    mean = places.mean()
    table = grid("Groups", ("group", "raters", "annotations", "mean grade"), left=("group",), no_wrap=True)
    for row in result.groups.to_dict("records"):
        shown = f"{mean[row['group']]:.2f}"
        table.add_row(escape(str(row["group"])), f"{row['raters']:,}", f"{row['annotations']:,}", shown)
    console.print(table)
    console.print(f"{escape(str(result))}.")
    if not result.differ:
        return
    apart = (places - mean).max(axis=1) - (places - mean).min(axis=1)
    most = apart.sort_values(ascending=False, kind="stable").index[:SHOWN_ITEMS]
    by_item = result.grades.set_index([item, "group"])
    table = grid(
        f"Items that groups see most differently (grade from 0, intervals of {result.level:.0%})",
        (escape(str(name)) for name in places.columns),
        name="item",
        no_wrap=True,
    )
    for one in most:
        cells = [by_item.loc[(one, name)] for name in places.columns]
        table.add_row(escape(str(one)), *(f"{c['grade']:.2f} ({c['low']:.2f}–{c['high']:.2f})" for c in cells))
    console.print(table)
    console.print("mean grades apart, which is severity; --out writes all items", style="dim")
