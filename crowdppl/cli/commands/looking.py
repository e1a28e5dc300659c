"""The command ``look``: what a file is and which commands work on it, without a fit."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, in_command
from crowdppl.cli.options import Columns, Format
from crowdppl.errors import CrowdpplError, silent

# Labels shown with their numbers.
SHOWN = 12


@command
def look_command(
    file: Annotated[Path, typer.Argument(help="Any file of labels or of verdicts of judges, a folder or an archive.")],
    columns: Columns,
    format: Format = None,
    question: Annotated[str | None, typer.Option(help="Which question, where the file holds several.")] = None,
) -> None:
    """What is this file? Its format, the part of each column, what is odd, and the commands that work on it."""
    from crowdppl.data.look import commands, look
    from crowdppl.data.readers.streams import local
    from crowdppl.report.plan import shell_line

    given = {name: value for name, value in (vars(columns) | {"question": question}).items() if value is not None}
    with nullcontext(file) if file.is_dir() else local(file) as path:  # a stream can be read only once
        judged = _judged(path) if not given and format is None else None
        if judged is None:
            with silent():
                seen = look(path, format, **given)
            _show(seen)
            works = commands(seen, str(file))
            if seen.annotations is None:
                console.print(f"\n[bold]It cannot be read as annotations[/bold]: {escape(in_command(seen.reason))}")
        else:
            for name, verdicts in judged.items():
                if name is not None:
                    console.print(f"[bold]Criterion {escape(str(name))}[/bold]")
                _show_verdicts(verdicts)
            works = [(["crowdppl", "judges", str(file), "--out", "judged"], "systems and judges")]
    if works:
        console.print("\n[bold]Commands that work on it[/bold]")
    for words, what in works:
        console.print(f"{escape(shell_line(words))}   [dim]# {what}[/dim]", soft_wrap=True)


def _show(seen: Any) -> None:
    from crowdppl.cli.display.shared import grid, show_notes
    from crowdppl.data.look import guessed
    from crowdppl.data.numeric import NumericAnnotations

    name = escape(seen.source)
    option = f" (--format {seen.format})" if seen.format != "long" else ""
    console.print(f"[bold]{name}[/bold] is read as {escape(seen.description)}{option}")
    data = seen.annotations
    if isinstance(data, NumericAnnotations):
        low, high = float(data.value.min()), float(data.value.max())
        console.print(
            f"{data.A:,} numbers from {low:g} to {high:g}, of {data.N:,} items by {data.J:,} workers"
            + (f", true numbers of {int(data.known.sum()):,} items" if bool(data.known.any()) else "")
        )
    elif data is not None:
        known = int((data.truth >= 0).sum())
        console.print(
            f"{data.A:,} annotations of {data.N:,} items by {data.J:,} workers in {data.K:,} classes"
            + (f", true labels of {known:,} items" if known else "")
        )
        sizes = data.votes.sum(0)
        order = sizes.argsort(descending=True, stable=True)[:SHOWN].tolist()
        more = f", and {data.K - SHOWN:,} more" if data.K > SHOWN else ""
        console.print("Labels: " + ", ".join(f"{escape(str(data.labels[k]))} {int(sizes[k]):,}" for k in order) + more)
        if guessed(seen):
            console.print(f"Columns {escape(guessed(seen))}")
    table = grid("Columns")
    for column in ("column", "part", "values"):
        table.add_column(column, overflow="fold")
    for column in ("different", "blank"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in seen.columns.to_dict("records"):
        texts = [escape(str(row[name])) for name in ("column", "part", "values")]
        table.add_row(*texts, f"{row['different']:,}", f"{row['blank']:,}")
    console.print(table)
    show_notes(seen.odd)


def _judged(file: Path) -> dict[Any, Any] | None:
    """Return the verdicts in a file by criterion, ``None`` for the only one; ``None`` where it has no verdicts."""
    from crowdppl import judges
    from crowdppl.data.readers.source import SourceFile
    from crowdppl.judges.readers.formats import read_each

    try:
        with silent():
            if judges.read_frame(file).format == "table":
                # Every table of annotations can be read as one of verdicts: only its names tell.
                names = {name.lower() for name in SourceFile(file).columns}
                if not names & {"judge", "verdict"}:
                    return None
            return dict(read_each(file))
    except CrowdpplError:
        return None  # the file is then read as annotations, and what is wrong with it is said there


def _show_verdicts(verdicts: Any) -> None:
    from crowdppl.cli.display.shared import show_notes

    systems = f" of {len(verdicts.systems):,} systems" if len(verdicts.systems) else ""
    console.print(
        f"Verdicts: {len(verdicts):,} by {len(verdicts.judges):,} judges on {len(verdicts.items):,} items{systems}; classes "
        f"{escape(', '.join(map(str, verdicts.labels.tolist()[:SHOWN])))}"
    )
    show_notes(list(verdicts.notes))
