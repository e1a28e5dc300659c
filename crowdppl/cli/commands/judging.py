"""The command ``judges``: verdicts of language models in, corrected scores of systems and the quality of judges out."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from crowdppl import arguments
from crowdppl.cli.application import command, console, err, set_state
from crowdppl.cli.options import JudgeReading, Overwrite, Raw, Seed
from crowdppl.errors import silent
from crowdppl.files import digests

if TYPE_CHECKING:
    import pandas as pd

    from crowdppl.judges.result import JudgesResult
    from crowdppl.judges.verdicts import Verdicts


@command
def judges_command(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            help="Verdicts: a table with a row for each, or a log of an evaluation tool, or a folder of logs."
        ),
    ],
    human: Annotated[
        Path | None, typer.Option(help="Table of human labels, with columns item and verdict. (default: those in FILE)")
    ] = None,
    how_read: JudgeReading,
    positive: Annotated[
        list[str] | None,
        typer.Option(
            help="Label that passes; may be given several times. (default: the one named pass, correct, yes, 1)"
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables and report. (default: nothing is written)")
    ] = None,
    overwrite: Overwrite = False,
    next_: Annotated[int, typer.Option("--next", help="Number of items to propose for human labels.")] = 10,
    width: Annotated[
        float | None,
        typer.Option(help="Also say how many labels, and how few judges, give every system an interval of this width."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report. (default: name of the file)")] = None,
    raw: Raw = False,
) -> None:
    """How good is each language model as a judge, what is the panel worth, and what is the corrected score of every system?

    A table has a row for each verdict, with columns item, judge, verdict, and optionally system, opponent, question, family,
    score, swapped, version, cost, seconds, when and status.
    """
    arguments.level("level", level)
    arguments.whole(1)("next", next_)
    if width is not None:
        arguments.positive("width", width)
    from crowdppl.cli import display, display_judges
    from crowdppl.export import judges as folder
    from crowdppl.export import results
    from crowdppl.judges.fit import fit
    from crowdppl.judges.smaller_panels import smaller_panels

    if out is not None:
        results.free(out, overwrite=overwrite, files=folder.FILES)
    with silent() as notes:
        verdicts, labels, source = _read(file, human, how_read)
        err.print(f"[bold]{escape(source['file'])}[/bold]: {_size(verdicts)}")
        start = time.perf_counter()
        result = fit(verdicts, labels, seed=seed, level=level, positive=positive or None)
        seconds = time.perf_counter() - start
        more = {"next.csv": result.next(next_)}
        if width is not None:
            more["labels_needed.csv"] = result.labels_needed(width)
            more["smaller_panels.csv"] = display_judges.panels_in_words(smaller_panels(result, width))
        shown = display_judges.show(result, more, width)
    display.show_notes(list(dict.fromkeys([*result.notes, *notes])))
    if out is None:
        console.print("Add --out FOLDER to write the tables and a report.", style="dim")
    else:
        run: dict[str, Any] = {
            "input": source,
            "command": ["crowdppl", *sys.argv[1:]],
            "seed": seed,
            "seconds": seconds,
        }
        _write(result, out, shown | more, width, run, title=title, raw=raw)


def _read(file: Path, human: Path | None, how_read: JudgeReading) -> tuple[Verdicts, Any, dict[str, Any]]:
    """Read verdicts and human labels; return both, the latter ``None`` without a file, and what identifies the input."""
    from crowdppl.cli import inputs
    from crowdppl.data.readers.source import read_table
    from crowdppl.data.readers.streams import local, source_name
    from crowdppl.judges.human import HumanLabels
    from crowdppl.judges.readers.formats import read

    stated = how_read.given()
    if "labels" in stated:
        stated["labels"] = inputs.declared_classes(stated["labels"])
    name = source_name(file)
    source: dict[str, Any] = {"file": name}
    if file.is_dir():
        verdicts = read(file, **stated)
    else:
        with local(file) as path:
            verdicts = read(path, **{"source": name} | stated)
            source["sha256"] = digests.sha256(path)
    source["rows"] = len(verdicts)
    if human is None:
        return verdicts, None, source
    with local(human) as path:
        labels = HumanLabels.from_frame(read_table(path), source=source_name(human))
        source |= {"human labels": source_name(human), "sha256 of the human labels": digests.sha256(path)}
    return verdicts, labels, source


def _size(verdicts: Verdicts) -> str:
    """Return the numbers of verdicts, judges, items and systems in words."""
    systems = f", of {len(verdicts.systems):,} systems" if len(verdicts.systems) else ""
    return f"{len(verdicts):,} verdicts by {len(verdicts.judges):,} judges on {len(verdicts.items):,} items{systems}"


def _write(
    result: JudgesResult,
    out: Path,
    computed: dict[str, pd.DataFrame],
    width: float | None,
    run: dict[str, Any],
    *,
    title: str | None,
    raw: bool,
) -> None:
    """Write tables and report."""
    from crowdppl import report
    from crowdppl.cli import display
    from crowdppl.export import judges as folder

    page = partial(
        report.write_judges,
        result,
        run=run,
        title=title,
        items=computed["next.csv"],
        needed=computed.get("labels_needed.csv"),
        width=width,
    )
    contents = folder.tables(result, computed)
    written = folder.write(out, contents, page, run, raw=raw, then=partial(set_state, f"the results are in {out}"))
    console.print(f"Wrote {', '.join(path.name for path in written[:-1])} in [bold]{escape(str(out))}[/bold].")
    display.show_report(written[-1])
