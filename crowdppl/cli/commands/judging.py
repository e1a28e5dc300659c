"""The command ``judges``: verdicts of language models in, corrected scores of systems and the quality of judges out."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
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

    from crowdppl.judges.criteria_result import CriteriaResult
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
    human_error: Annotated[
        str | None,
        typer.Option(
            help="Probability that a human label is incorrect, or of some people, such as ann=0.02,bob=0.1. (default: from "
            "contradictions between people)"
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option("--names", "--map", help="Names of classes by label of judges or people, such as C=pass,I=fail."),
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
    pass_at: Annotated[
        list[int] | None,
        typer.Option(
            help="Number k of answers to a question for pass@k; may be given several times. (default: powers of 2, where systems "
            "gave several answers)"
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report. (default: name of the file)")] = None,
    raw: Raw = False,
) -> None:
    """How good is each language model as a judge, what is the panel worth, and what is the corrected score of every system?

    A table has a row for each verdict, with columns item, judge, verdict, and optionally system, opponent, question, cluster,
    family, score, swapped, version, cost, seconds, when, run and status. With verdicts on several criteria, in a column
    criterion or metric, each has true labels of its own.
    """
    arguments.level("level", level)
    arguments.whole(1)("next", next_)
    if width is not None:
        arguments.positive("width", width)
    from crowdppl.cli import inputs
    from crowdppl.cli.display import judges as display_judges
    from crowdppl.cli.display.shared import show_notes
    from crowdppl.export import judges as folder
    from crowdppl.export import results
    from crowdppl.judges.criteria_result import fit_criteria
    from crowdppl.judges.fit import fit

    if out is not None:
        results.free(out, overwrite=overwrite, files=folder.FILES)
    errors = inputs.errors_by_person(human_error)
    with silent() as notes:
        verdicts, labels, source = _read(file, human, how_read)
        for name, part in verdicts.items():
            criterion = "" if name is None else f", {escape(str(name))}"
            err.print(f"[bold]{escape(source['file'])}[/bold]{criterion}: {_size(part)}")
        classes = {"positive": positive or None, "map": inputs.names_by_label(names) or None}
        stated: dict[str, Any] = {"seed": seed, "level": level, "human_error": errors} | classes
        start = time.perf_counter()
        several = None if None in verdicts else fit_criteria(verdicts, labels, **stated)
        if several is None:
            alone = fit(verdicts[None], labels, **stated)
            result: JudgesResult | CriteriaResult = alone
            parts: dict[Any, JudgesResult] = {None: alone}
        else:
            result, parts = several, dict(several)
            display_judges.show_criteria(several)
        seconds = time.perf_counter() - start
        computed = []
        for name, one in parts.items():
            if name is not None:
                console.rule(escape(str(name)))
            more = _further_tables(one, next_, pass_at, width)
            computed.append(display_judges.show(one, more, width) | more)
    show_notes(list(dict.fromkeys([*(note for one in parts.values() for note in one.notes), *notes])))
    if out is None:
        console.print("Add --out FOLDER to write the tables and a report.", style="dim")
    else:
        run = {"input": source, "command": ["crowdppl", *sys.argv[1:]], "seed": seed, "seconds": seconds}
        every = {name: folder.tables(one, own) for (name, one), own in zip(parts.items(), computed, strict=True)}
        contents = folder.together(several, every) if several else every[None]
        _write(result, out, contents, width, run, title=title, raw=raw)


def _read(file: Path, human: Path | None, how_read: JudgeReading) -> tuple[dict[Any, Verdicts], Any, dict[str, Any]]:
    """Read verdicts and human labels.

    Returns:
        The verdicts by criterion, of which there is one, ``None``, if the file does not have several; the human labels, likewise
        by criterion if there are several, ``None`` without a file; and what identifies the input.
    """
    from crowdppl.cli import inputs
    from crowdppl.data.readers.streams import local, source_name
    from crowdppl.data.table.questions import CRITERIA, only
    from crowdppl.data.table.questions import named as named_columns
    from crowdppl.judges.people.human_columns import labelled, labelled_by_criterion
    from crowdppl.judges.readers.formats import people_of, read_each

    stated = how_read.given()
    several, column = stated.pop("criteria", False), stated.pop("criterion", None)
    if "labels" in stated:
        stated["labels"] = inputs.declared_classes(stated["labels"])
    name = source_name(file)
    source: dict[str, Any] = {"file": name}
    table: pd.DataFrame | None = None
    columns: list[Any] = []
    if human is not None:
        with local(human) as path:
            table = people_of(path)
            source |= {"human labels": source_name(human), "sha256 of the human labels": digests.sha256(path)}
        columns = named_columns(table, (), CRITERIA)
    with local(file) if not file.is_dir() else nullcontext(file) as path:
        own = {} if table is None else _columns_of_people(path, table, how_read, stated)
        named = {} if file.is_dir() else {"source": name}
        criteria = table[columns[0]].dropna().unique().tolist() if table is not None and columns else []
        verdicts = read_each(path, **named | stated, criterion=column, each_metric=several, labelled=criteria)
        if not file.is_dir():
            source["sha256"] = digests.sha256(path)
    source["rows"] = sum(map(len, verdicts.values()))
    if table is None:
        return verdicts, None, source
    name = str(source["human labels"])
    if how_read.metric and columns:  # labels of other metrics are not of these verdicts
        table = only(table, columns[0], how_read.metric, name)
    if None in verdicts:
        return verdicts, labelled(table, verdicts[None], name, own), source
    return verdicts, labelled_by_criterion(table, verdicts, column, name, own), source


def _columns_of_people(
    path: Path, table: pd.DataFrame, how_read: JudgeReading, stated: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns that the caller names, by role, of the table of human labels, where it has no usual ones.

    A log of an evaluation tool has no columns to name. Those that are named are then of the human labels, and are taken out of
    what is ``stated`` of the verdicts.
    """
    from crowdppl.judges.human import USUAL
    from crowdppl.judges.readers.formats import is_log

    columns = set(map(str, table.columns))
    roles = {role: value for role in ("item", "judge", "verdict", "system") if (value := getattr(how_read, role))}
    if (
        not roles
        or "judge" in roles
        or how_read.format is not None
        or not set(roles.values()) <= columns
        or not is_log(path)
    ):
        return {
            role: value for role, value in roles.items() if value in columns and not columns & set(USUAL.get(role, ()))
        }
    for role in (*roles, "format"):
        stated.pop(role, None)
    return roles


def _further_tables(
    result: JudgesResult, proposed: int, pass_at: list[int] | None, width: float | None
) -> dict[str, pd.DataFrame]:
    """Return the tables, by file, that depend on options of the command, or on what systems did.

    Args:
        result: of one criterion.
        proposed: number of items to propose for human labels.
        pass_at: numbers of answers to a question, if stated.
        width: of intervals that are asked for, if stated.
    """
    from crowdppl.cli.display.panel import panels_in_words
    from crowdppl.judges.smaller_panels import smaller_panels
    from crowdppl.judges.tables import several_answers, system_table

    tables = {"next.csv": result.next(proposed)}
    if pass_at or several_answers.several(result):
        tables["pass_at_k.csv"] = result.pass_at(pass_at or None)
    if system_table.further(result):
        tables["systems_population.csv"] = result.systems("population")
    if width is not None:
        tables["labels_needed.csv"] = result.labels_needed(width)
        tables["smaller_panels.csv"] = panels_in_words(smaller_panels(result, width))
    return tables


def _size(verdicts: Verdicts) -> str:
    """Return the numbers of verdicts, judges, items and systems in words."""
    systems = f", of {len(verdicts.systems):,} systems" if len(verdicts.systems) else ""
    counts = (
        f"{len(names):,} {what}{'s' * (len(names) != 1)}"
        for names, what in ((verdicts.judges, "judge"), (verdicts.items, "item"))
    )
    return f"{len(verdicts):,} verdicts by {' on '.join(counts)}{systems}"


def _write(
    result: JudgesResult | CriteriaResult,
    out: Path,
    contents: dict[str, pd.DataFrame],
    width: float | None,
    run: dict[str, Any],
    *,
    title: str | None,
    raw: bool,
) -> None:
    """Write tables and report."""
    from crowdppl import report
    from crowdppl.cli.display.shared import show_report
    from crowdppl.export import judges as folder

    page = partial(
        report.write_judges,
        result,
        run=run,
        title=title,
        items=contents.get("next.csv"),
        needed=contents.get("labels_needed.csv"),
        pass_at=contents.get("pass_at_k.csv"),
        width=width,
    )
    written = folder.write(out, contents, page, run, raw=raw, then=partial(set_state, f"the results are in {out}"))
    console.print(f"Wrote {', '.join(path.name for path in written[:-1])} in [bold]{escape(str(out))}[/bold].")
    show_report(written[-1])
