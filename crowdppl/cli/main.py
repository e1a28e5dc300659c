"""The command ``crowdppl``: a file of labels in, consensus and worker quality out."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crowdppl import acquisition, criticism, export, report
from crowdppl.cli.terminal import any_encoding
from crowdppl.cli.truths import Known, alike
from crowdppl.cli.wording import in_command, with_engine_options
from crowdppl.data import datasets, download
from crowdppl.data import read as reading
from crowdppl.data.columns import ITEM_COLUMNS, WORKER_COLUMNS, column_of, names_of
from crowdppl.data.readers import formats
from crowdppl.data.readers.arrow import let_go
from crowdppl.data.readers.records import Choices, Records
from crowdppl.data.readers.streams import local, source_name
from crowdppl.data.readers.tables import integers, read_table
from crowdppl.errors import CrowdpplError, OptionError, silent, suggestion
from crowdppl.export import results
from crowdppl.export.folders import replaced
from crowdppl.inference import distributed, streaming
from crowdppl.inference.fit import catalogue, fit, named_model
from crowdppl.inference.memory import result_bytes
from crowdppl.inference.progress import progress_bar
from crowdppl.inference.update import update
from crowdppl.model.base import AnnotationModel, provides
from crowdppl.model.hyperparameters import described, summary
from crowdppl.posterior.posterior import Posterior, probability_columns
from crowdppl.posterior.workers import NOTABLE, UNRELIABLE, VERDICTS, default_level

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)
err = Console(stderr=True, highlight=False)

SHOWN_ITEMS = 12
SHOWN_WORKERS = 20
SURE = 0.95
BAR = 10  # characters
# What stands before a verdict, also where there is no colour.
_MARKS = dict.fromkeys(NOTABLE, "!") | dict.fromkeys(UNRELIABLE, "x")

Out = Annotated[Path, typer.Option(help="Folder for the results.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results already in the folder.")]
Seed = Annotated[int, typer.Option(help="Of everything random: same seed, same result.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="Leave text in CSV as it is, even where a spreadsheet would run it as a formula.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="What the file is, see `crowdppl formats`. (default: found out)")
]
Question = Annotated[str | None, typer.Option(help="Which question, where the file holds answers to several.")]
Skip = Annotated[str, typer.Option(help="Skipped or ignored work: missing, or an answer of its own.")]
Several = Annotated[str, typer.Option(help="Several labels in an annotation: refuse, or join to a set.")]
KeepRejected = Annotated[bool, typer.Option("--keep-rejected", help="Keep work that a reviewer rejected.")]
Method = Annotated[
    str | None, typer.Option(help="em, svi, gibbs or nuts. (default: gibbs where the model allows it, else em)")
]
Prior = Annotated[list[str] | None, typer.Option(help="Hyperparameter of the model, NAME=VALUE; may be given again.")]
Task = Annotated[str | None, typer.Option("--task", "--item", help="Column of the item. (default: task, else item)")]
Worker = Annotated[str | None, typer.Option(help="Column of the worker. (default: worker)")]
Label = Annotated[str | None, typer.Option(help="Column of the label. (default: label)")]
Labels = Annotated[
    str | None, typer.Option(help="All classes in order, separated by commas. (default: those that occur)")
]
Repeats = Annotated[
    str, typer.Option(help="A worker judged an item again: keep each as evidence, keep the last, or refuse.")
]
TruthColumn = Annotated[
    str | None, typer.Option("--truth", help="Column of known truths in the annotations, blank where unknown.")
]
TruthFile = Annotated[
    Path | None, typer.Option(help="Table of known truths, with a column of items and one of classes.")
]
TruthItem = Annotated[
    str | None, typer.Option(help="Column of the item in --truth-file. (default: as in the annotations, task or item)")
]
TruthLabel = Annotated[
    str | None, typer.Option(help="Column of the class in --truth-file. (default: as in the annotations, or label)")
]
Results = Annotated[Path, typer.Argument(help="Folder that `crowdppl fit` has written.")]
Title = Annotated[str | None, typer.Option(help="Heading of the report. (default: name of the file)")]
TextColumn = Annotated[str | None, typer.Option(help="Column with the text of each item, for the report.")]
UrlColumn = Annotated[str | None, typer.Option(help="Column with a link to each item (http, https), for the report.")]
Cost = Annotated[float | None, typer.Option(help="Price of one annotation: what further ones cost is then shown.")]
Level = Annotated[float | None, typer.Option(help="Probability of the intervals. (default: 0.89)")]


def _version(asked: bool) -> None:
    if asked:
        console.print(f"crowdppl {version('crowdppl')}")
        raise typer.Exit


@app.callback()
def about(
    _: Annotated[bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Several people label the same things: what is true, who is good, and how sure is that?"""


@app.command("fit")
@with_engine_options
def fit_command(
    file: Annotated[
        Path, typer.Argument(help="Annotations: a table (CSV, also .gz; Parquet) with a row for each, or an export.")
    ],
    out: Out = Path("results"),
    format_: Format = None,
    question: Question = None,
    skip: Skip = "missing",
    several: Several = "refuse",
    keep_rejected: KeepRejected = False,
    model: Annotated[str, typer.Option(help="Name from `crowdppl models`.")] = "dawid-skene",
    method: Method = None,
    prior: Prior = None,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    truth: TruthColumn = None,
    truth_file: TruthFile = None,
    truth_item: TruthItem = None,
    truth_label: TruthLabel = None,
    features: Annotated[
        Path | None, typer.Option(help="Table of item features: the item's column, and numbers.")
    ] = None,
    worker_features: Annotated[
        Path | None, typer.Option(help="Table of worker features: the worker's column, and numbers.")
    ] = None,
    labels: Labels = None,
    repeats: Repeats = "keep",
    independent: Annotated[
        bool,
        typer.Option("--independent", help="The model as published: annotations of one item count as independent."),
    ] = False,
    rho: Annotated[
        float | None, typer.Option(help="Correlation of annotations of one item, 0 to 1. (default: as in public data)")
    ] = None,
    seed: Seed = 0,
    level: Level = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    timestamp: Annotated[
        str | None, typer.Option(help="Column of each annotation's moment, a number or a date.")
    ] = None,
    seconds: Annotated[str | None, typer.Option(help="Column of how long each annotation took.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for the state of a long fit: started again, it goes on from there.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two writes of it.")] = 60.0,
    with_report: Annotated[bool, typer.Option("--report", help="Write report.html, too.")] = False,
    title: Title = None,
    text_column: TextColumn = None,
    url_column: UrlColumn = None,
    cost: Cost = None,
    raw: Raw = False,
    overwrite: Overwrite = False,
    **engine: Any,
) -> None:
    """Fit a model to a file of labels and write consensus, workers and posterior."""
    with _plain_errors():
        gold = Known(truth, truth_file, truth_item, truth_label)
        default_level(level)
        report.price(cost)
        if checkpoint is None:
            _stage("nothing was written; with --checkpoint FOLDER a fit that is stopped can be continued")
        results.free(out, overwrite=overwrite)
        chosen = _with_prior(model, prior or [])
        began = time.perf_counter()
        with _silent():
            choices = Choices(question, skip, several, keep_rejected)  # type: ignore[arg-type]  # checked there
            found, digest = _taken(file, format_, choices)
            frame = found.frame
            known = gold.column if gold.file is None else gold.table(frame, task, label, source_name(file))
            data = reading.annotated(
                found,
                source_name(file),
                task=task,
                worker=worker,
                label=label,
                truth=known,
                labels=_classes(labels),
                repeats=repeats,
                features=_features(features, frame, ITEM_COLUMNS, task),
                worker_features=_features(worker_features, frame, WORKER_COLUMNS, worker),
                **{
                    name: column
                    for name, column in (("timestamp", timestamp), ("seconds", seconds))
                    if column is not None
                },
            )
            described = {}
            if text_column is not None or url_column is not None:
                items = column_of(
                    frame, task, ITEM_COLUMNS, source_name(file), "say which one holds the item with --task"
                )
                described = report.columns(frame, items, text=text_column, url=url_column, source=source_name(file))
            del found, frame  # the table is as large as the data
            let_go()
            read = time.perf_counter() - began
            err.print(
                f"[bold]{escape(source_name(file))}[/bold]: {data.A:,} annotations of {data.N:,} items by {data.J:,} workers"
            )
            results.free(
                out,
                overwrite=overwrite,
                size=result_bytes(data, engine.get("num_samples", 1000) * engine.get("chains", 4)),
            )
            options = engine | {"independent": independent, "rho": rho, "checkpoint": checkpoint, "every": every}
            options |= {"method": method, "seed": seed, "device": device, "progress": err.is_terminal}
            posterior = fit(data, chosen, **options)
        posterior = report.describe(posterior, **described) if described else posterior
        source = {"file": source_name(file), "sha256": digest, "rows": data.A}
        story = {"input": source, "timings": {"read": read}} | ({} if title is None else {"title": title})
        _finish(posterior, out, level, story, raw=raw, cost=cost)
        if with_report:
            _stage(f"the results are in {out}, but no report was written; for one: crowdppl report {out}")
            _report(out, out / "report.html", level, cost=cost)


@app.command("stream")
def stream_command(
    path: Annotated[
        Path, typer.Argument(help="Annotations: a Parquet file, or a folder of them; rows of an item together.")
    ],
    out: Out = Path("results"),
    model: Annotated[
        str, typer.Option(help="Name from `crowdppl models`, whose labels depend on worker and truth only.")
    ] = "dawid-skene",
    method: Annotated[
        str,
        typer.Option(
            help="em: a point; vb: with intervals, by variational Bayes; svi: by gradients, for other models."
        ),
    ] = "em",
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    truth: TruthColumn = None,
    passes: Annotated[int, typer.Option(help="Over the data to learn from; one more writes the consensus.")] = 4,
    rows: Annotated[int, typer.Option(help="Annotations held in memory at a time, about.")] = streaming.ROWS,
    seed: Seed = 0,
    level: Level = None,
    overwrite: Overwrite = False,
) -> None:
    """Fit a model to more annotations than memory holds, batch by batch from disk: consensus and workers, no posterior."""
    with _plain_errors():
        results.free(out, overwrite=overwrite, files=("truth.parquet", "workers.csv", "run.json"))
        began = time.perf_counter()
        written = partial(_stage, f"the results are in {out}")
        with (
            replaced(out, ("truth.parquet", "workers.csv", "run.json"), written) as staging,
            progress_bar(err.is_terminal, "stream") as told,
        ):
            found = streaming.stream(
                path,
                model,
                method=method,  # type: ignore[arg-type]  # checked there
                seed=seed,
                level=level,
                consensus=staging / "truth.parquet",
                passes=passes,
                rows=rows,
                task=task,
                worker=worker,
                label=label,
                truth=truth,
                progress=told,
            )
            export.write(found.workers, staging / "workers.csv")
            story = {
                "model": model,
                "method": method,
                "options": {"passes": passes, "rows": rows, "seed": seed, "truth": truth},
                "input": path.name,
                "interval_method": found.interval_method,
                "items": found.items,
                "annotations": found.annotations,
                "classes": len(found.labels),
                "objective": found.objective,
                "seconds": time.perf_counter() - began,
            }
            (staging / "run.json").write_text(json.dumps(story, indent=2) + "\n", encoding="utf-8")
        console.print(
            f"{found.annotations:,} annotations of {found.items:,} items by {len(found.workers):,} workers in "
            f"{story['seconds']:.1f} s."
        )
        console.print(f"By {found.interval_method}.")
        console.print(f"Wrote truth.parquet, workers.csv, run.json in [bold]{escape(str(out))}[/bold].")


@app.command()
def calibrate(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Annotations, a file as `fit` takes it.")],
    truth: TruthColumn = None,
    truth_file: TruthFile = None,
    truth_item: TruthItem = None,
    truth_label: TruthLabel = None,
    format_: Format = None,
    question: Question = None,
    skip: Skip = "missing",
    several: Several = "refuse",
    keep_rejected: KeepRejected = False,
    model: Annotated[str, typer.Option(help="Name from `crowdppl models`.")] = "dawid-skene",
    method: Method = None,
    prior: Prior = None,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    labels: Labels = None,
    repeats: Repeats = "keep",
    minimum: Annotated[int, typer.Option(help="Annotations of items of known truth that a worker must have.")] = 20,
    seed: Seed = 0,
    level: Level = None,
) -> None:
    """How honest are the intervals on my crowd? Fit without the true classes, then compare with them."""
    with _plain_errors():
        sure = default_level(level)
        known = Known(truth, truth_file, truth_item, truth_label)
        chosen = _with_prior(model, prior or [])
        with _silent():
            choices = Choices(question, skip, several, keep_rejected)  # type: ignore[arg-type]  # checked there
            read, _ = _taken(file, format_, choices)
            gold = known.table(read.frame, task, label, source_name(file)) if known.given else read.truth
            if gold is None or not len(gold):
                raise OptionError(
                    "no known truths to compare with; name their column with --truth, or a table of them with --truth-file"
                )
            # The fit must not know them, also where the export marks them.
            data = reading.annotated(
                dataclasses.replace(read, truth={}),
                source_name(file),
                task=task,
                worker=worker,
                label=label,
                labels=_classes(labels),
                repeats=repeats,
            )
            found = {}
            heard: list[str] = []
            options: dict[str, Any] = {"method": method, "seed": seed, "progress": err.is_terminal}
            for independent in (True, False):
                posterior = fit(data, chosen, independent=independent, **options)
                with silent() as caught:
                    both = (
                        criticism.calibration(posterior, gold, level=level),
                        criticism.coverage(posterior, gold, level=level, minimum=minimum),
                    )
                heard += caught
                found["published" if independent else "correlated"] = both
        info = posterior.info
        first, workers_told = found["correlated"]
        grid = Table(
            title=f"{info['model']} by {info['method']} on {first.items:,} items of known truth",
            title_justify="left",
            box=box.SIMPLE_HEAD,
        )
        for column in ("", *found):
            grid.add_column(column, justify="right" if column else "left")
        measures: dict[str, Any] = {
            "accuracy of the truth": lambda c, w: f"{c.accuracy:.3f}",
            "confidence, the mean probability of the chosen label": lambda c, w: f"{c.confidence:.3f}",
            "log loss": lambda c, w: f"{c.log_loss:.3f}",
            "calibration error": lambda c, w: f"{c.ece:.3f}",
        }
        if len(workers_told.workers):
            measures |= {
                f"workers with their share of right annotations in its {sure:.0%} interval": lambda c, w: (
                    f"{w.share_correct:.0%}"
                ),
                f"workers with it in the {sure:.0%} interval of their accuracy": lambda c, w: f"{w.accuracy:.0%}",
            }
        for name, measure in measures.items():
            grid.add_row(name, *(measure(*both) for both in found.values()))
        console.print(grid)
        console.print(
            f"{len(workers_told.workers):,} workers have at least {minimum} annotations of items of known truth.",
            style="dim",
        )
        console.print(
            f"Annotations of one item are correlated by rho = {first.rho:.2f} ({first.rho_low:.2f} to {first.rho_high:.2f}). "
            f"For this crowd:"
        )
        # On a line of its own and never wrapped, so that it can be pasted.
        console.print(escape(_as_fit(context, ["--rho", f"{first.rho:.2f}"])), soft_wrap=True)
        for sentence in dict.fromkeys(heard):
            console.print(f"[yellow]Note:[/yellow] {escape(sentence)}")


@app.command("report")
def report_command(
    folder: Results = Path("results"),
    out: Annotated[Path | None, typer.Option(help="The file. (default: report.html in the folder)")] = None,
    level: Level = None,
    title: Title = None,
    items: Annotated[
        Path | None, typer.Option(help="Table with texts or links of items. (default: those kept by `crowdppl fit`)")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "--item", help="Its column of the item. (default: task, else item)")
    ] = None,
    text_column: TextColumn = None,
    url_column: UrlColumn = None,
    cost: Cost = None,
) -> None:
    """Write one HTML file for people to read: what to do, workers, who confuses what, items to send out again, checks."""
    with _plain_errors():
        default_level(level)
        report.price(cost)
        described: dict[str, Any] = {}
        if items is not None:
            described = report.from_file(items, task, text=text_column, url=url_column)
        elif text_column is not None or url_column is not None:
            raise OptionError("--text-column and --url-column need the table of items here; name it with --items")
        path = folder / "report.html" if out is None else out
        _report(folder, path, level, title=title, cost=cost, show=True, **described)


@app.command("next")
def next_command(
    folder: Results = Path("results"),
    n: Annotated[int, typer.Option("-n", "--number", help="How many annotations to ask for.")] = 50,
    by: Annotated[
        str,
        typer.Option(help="entropy (where least is known), information or accuracy (where most is gained)."),
    ] = "entropy",
    pairs: Annotated[bool, typer.Option("--pairs", help="Choose the workers, too: by information.")] = False,
    sure: Annotated[
        float | None, typer.Option(help="Leave out items whose label is at least this probable, such as 0.99.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV for the batch. (default: next.csv in the folder)")] = None,
    raw: Raw = False,
) -> None:
    """Choose what to have labelled next, and write it as a batch."""
    with _plain_errors():
        posterior, _ = results.opened(folder)
        count = n if sure is None else len(posterior.items())
        if pairs:
            table = acquisition.next_pairs(posterior, count, by="information" if by == "entropy" else by)  # type: ignore[arg-type]
        else:
            table = acquisition.next_items(posterior, count, by=by)  # type: ignore[arg-type]  # checked there
        if sure is not None:
            settled = acquisition.settled(posterior, sure)
            done = settled.loc[settled["settled"], posterior.item_column]
            table = table[~table[posterior.item_column].isin(done)].head(n).reset_index(drop=True)
            err.print(f"{int(settled['settled'].sum()):,} of {len(settled):,} items are at least {sure:g} sure.")
        path = folder / "next.csv" if out is None else out
        if path.suffix not in export.SUFFIXES:
            raise OptionError(f"{path.name}: write to a file that ends in {', '.join(export.SUFFIXES)}")
        export.write(table, path, raw=raw)
        _stage(f"the batch is in {path}")
        if not len(table):
            console.print("Nothing to ask: every item is known, sure enough, or judged by everyone.")
        grid = Table(title=f"Next: {len(table):,} annotations", title_justify="left", box=box.SIMPLE_HEAD)
        for column in table.columns:
            grid.add_column(column, justify="left" if column in (*ITEM_COLUMNS, "worker", "label") else "right")
        for row in table.head(SHOWN_ITEMS).to_dict("records"):
            grid.add_row(
                *(f"{value:.3f}" if isinstance(value, float) else escape(str(value)) for value in row.values())
            )
        console.print(grid)
        console.print(f"Wrote {escape(str(path))} with {len(table):,} rows.")


@app.command("update")
def update_command(
    folder: Annotated[Path, typer.Argument(help="Folder that `crowdppl fit` has written.")],
    file: Annotated[Path, typer.Argument(help="Further annotations, a file as `fit` takes it.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the new results. (default: the same folder)")] = None,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    format_: Format = None,
    repeats: Annotated[
        str | None,
        typer.Option(help="A worker judged an item again: keep, last or refuse. (default: as in the fit)"),
    ] = None,
    level: Level = None,
    raw: Raw = False,
) -> None:
    """Add annotations to a result: fit again, starting from what is known."""
    with _plain_errors():
        default_level(level)
        posterior, run = results.opened(folder)
        place = folder if out is None else out
        results.free(place, overwrite=out is None)
        with _silent():
            taken, digest = _taken(file, format_, None)
            more = reading.annotated(taken, source_name(file), task=task, worker=worker, label=label)
            err.print(f"[bold]{escape(source_name(file))}[/bold]: {more.A:,} further annotations")
            found = report.carried(
                posterior, update(posterior, more, repeats=cast(Any, repeats), progress=err.is_terminal)
            )
        source = {"file": source_name(file), "sha256": digest, "rows": more.A, "added to": run.get("input", {})}
        titled = {name: run[name] for name in ("title",) if run.get(name)}
        _finish(found, place, level, {"input": source, "timings": {}} | titled, raw=raw)


@app.command("export")
def export_command(
    folder: Results = Path("results"),
    what: Annotated[str, typer.Option(help="truth, soft, weights (for training), workers or confusion.")] = "truth",
    out: Annotated[
        Path | None, typer.Option(help="File ending in .csv, .parquet or .jsonl. (default: WHAT.csv in the folder)")
    ] = None,
    level: Level = None,
    raw: Raw = False,
) -> None:
    """Write consensus labels, soft labels, training weights or workers for other programs."""
    with _plain_errors():
        posterior, _ = results.opened(folder)
        path = export.to_file(posterior, what, folder / f"{what}.csv" if out is None else out, level=level, raw=raw)
        _stage(f"the file is {path}")
        console.print(f"Wrote {escape(str(path))}.")


@app.command()
def check(
    folder: Results = Path("results"),
    draws: Annotated[int, typer.Option(help="Data sets drawn from the fitted model.")] = 200,
    level: Level = None,
) -> None:
    """Would the fitted model give labels like these? And can the numbers be relied on?"""
    with _plain_errors():
        posterior, _ = results.opened(folder)
        found = criticism.check(posterior, draws=draws, level=level)
        sure = default_level(level)
        for sentence in (*found.summary, *criticism.advice(posterior)):
            console.print(escape(in_command(sentence, app)))
        for sentence in found.sentences:
            console.print(f"[yellow]![/yellow] {escape(sentence)}")
        grid = Table(title="\nLabels given and labels of the model", title_justify="left", box=box.SIMPLE_HEAD)
        for column in ("", "statistic", "given", f"the model's ({sure:.0%})", "p-value"):
            grid.add_column(column, justify="left" if column in ("", "statistic") else "right")
        for row in found.table.dropna(subset=["observed"]).to_dict("records"):
            differs = row["p_value"] < criticism.NOTABLE
            told = (f"{row['observed']:.3f}", f"{row['low']:.3f}–{row['high']:.3f}", f"{row['p_value']:.3f}")
            mark = "! differs" if differs else ""
            grid.add_row(mark, escape(row["meaning"]), *told, style="yellow" if differs else None)
        console.print(grid)


@app.command()
def demo(out: Out = Path("demo-results"), seed: Seed = 0, level: Level = None, overwrite: Overwrite = False) -> None:
    """Fit Dawid and Skene's anaesthesia table, which comes with the library."""
    with _plain_errors():
        results.free(out, overwrite=overwrite)
        data = datasets.anaesthesia()
        err.print(
            "[bold]Dawid & Skene (1979), Table 1[/bold]: five anaesthetists judged 45 patients' fitness for general "
            "anaesthesia on a scale of 1 to 4, the first of them three times."
        )
        with _silent():
            posterior = fit(data, "dawid-skene", method="gibbs", seed=seed, progress=err.is_terminal)
        _finish(posterior, out, level, {"input": {"dataset": "anaesthesia", "rows": data.A}, "timings": {}})


@app.command("formats")
def formats_command() -> None:
    """List the kinds of files that are read."""
    table = Table(title="Formats", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("--format", no_wrap=True)
    table.add_column("what it is")
    table.add_column("found out")
    table.add_row("", "a table with a row for each annotation (CSV, Parquet)", "yes")
    for name, form in formats.FORMATS.items():
        told = form.table is not None or form.record is not None or name == "peerannot"
        table.add_row(name, escape(form.told), "yes" if told else "name it")
    console.print(table)


@app.command("datasets")
def datasets_command(
    fetch: Annotated[str | None, typer.Option(help="Fetch this one from its authors, into the cache.")] = None,
) -> None:
    """List public data sets: in the folder that CROWDPPL_DATA names, fetched, or to fetch; with citation and licence."""
    with _plain_errors():
        if fetch is not None:
            console.print(f"{fetch} is in {escape(str(download.fetch(fetch)))}")
            return
        table = Table(title="Public data sets", title_justify="left", show_lines=True)
        for column in ("name", "where", "annotations", "what; licence; citation"):
            table.add_column(column, no_wrap=column in ("name", "where"))
        for row in datasets.listing().to_dict("records"):
            table.add_row(row["name"], row["where"], _sizes(row), escape(_of(row)))
        console.print(table)


def _sizes(row: Mapping[Any, Any]) -> str:
    number = {
        key: "" if pd.isna(value) else f"{value:,.0f}" for key, value in row.items() if isinstance(value, (int, float))
    }
    if not number.get("annotations"):
        return ""
    known = f", {number['truths']} truths" if number.get("truths", "0") != "0" else ""
    return f"{number['annotations']} of {number.get('items')} items by {number.get('workers') or '?'} workers{known}"


def _of(row: Mapping[Any, Any]) -> str:
    return "; ".join(str(row[key]) for key in ("title", "licence", "citation") if row[key])


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="Explain this model and its hyperparameters.")] = None,
) -> None:
    """List the models with their engines; with a NAME, explain that model and its hyperparameters."""
    with _plain_errors():
        if name is not None:
            _explain(name)
            return
    table = Table(title="Models", title_justify="left", show_lines=True)
    for column in ("name", "what it assumes", "methods"):
        table.add_column(column, no_wrap=column == "name")
    for name, kind in catalogue().items():
        table.add_row(name, summary(kind), ", ".join(_methods(kind)))
    console.print(table)
    console.print("crowdppl models NAME explains a model and the hyperparameters that --prior sets.")


def _explain(name: str) -> None:
    """Print one model: what it assumes, its source, its engines, and each hyperparameter with its default and meaning."""
    kind = type(named_model(name))
    console.print(f"[bold]{name}[/bold]: {escape(summary(kind))}\n")
    for paragraph in inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "").replace("``", "").split("\n\n"):
        # A story is printed as it stands; the lines of prose are broken for the terminal.
        story = paragraph.startswith("    ")
        console.print(escape(paragraph if story else " ".join(paragraph.split())), soft_wrap=story)
        console.print()
    console.print(f"Methods: {', '.join(_methods(kind))}.")
    known = described(kind)
    settable = _settable(kind)
    if not settable:
        console.print("No hyperparameter that --prior sets.")
        return
    table = Table(title="Hyperparameters", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("--prior", "default", "meaning"):
        table.add_column(column, no_wrap=column != "meaning")
    for field in settable:
        default = "automatic" if field.default is None else str(field.default)
        table.add_row(f"{field.name}=", default, escape(known.get(field.name, "")))
    console.print(table)


def _methods(kind: type[AnnotationModel]) -> list[str]:
    every = ["em", "svi", "nuts"] + (["gibbs"] if provides(kind(), "gibbs_step") else [])
    return sorted(method for method in every if kind().unsuited(method) is None)


def main() -> None:
    """Run the command; of several processes the one that leads does, and the others help it."""
    any_encoding()
    try:
        with distributed.joined() as leads:
            if leads:
                app()
    except CrowdpplError as error:  # of a helper: the leader's commands say their own
        _say(error)
        sys.exit(2)


# ---------------------------------------------------------------------- what a person sees


def _finish(
    posterior: Posterior,
    folder: Path,
    level: float | None,
    run: dict[str, Any],
    *,
    raw: bool = False,
    cost: float | None = None,
) -> None:
    began = time.perf_counter()
    run["command"] = ["crowdppl", *sys.argv[1:]]
    run["timings"] |= {"fit": posterior.info["seconds"]}
    written = partial(_stage, f"the results are in {folder}")
    files, workers = results.write(posterior, folder, level=level, run=run, raw=raw, then=written)
    _show_actions(posterior, cost, workers)
    _show_truth(posterior)
    _show_workers(workers, default_level(level))
    info = posterior.info
    how = in_command(posterior.interval_method[0].upper() + posterior.interval_method[1:], app)
    console.print(f"{info['model']} by {info['method']} in {info['seconds']:.1f} s. {escape(how)}")
    facts = info["facts"]
    if "r_hat" in facts:
        rhat, ess = max(facts["r_hat"].values()), min(facts["ess"].values())
        console.print(
            f"Chains: R-hat at most {rhat:.3f} (1.01 or less is good), worth at least {ess:,.0f} independent draws."
        )
    console.print(escape(in_command(posterior.correlation, app)))
    console.print(escape(posterior.coverage), style="dim")
    for sentence in posterior.notes + posterior.warnings:
        console.print(f"[yellow]Note:[/yellow] {escape(in_command(sentence, app))}")
    names = ", ".join(path.name for path in files)
    console.print(f"Wrote {names} in [bold]{escape(str(folder))}[/bold] ({time.perf_counter() - began:.1f} s).")


def _report(folder: Path, path: Path, level: float | None, *, show: bool = False, **options: Any) -> None:
    posterior, run = results.opened(folder)
    report.write(posterior, path, run, level=level, **options)
    _stage(f"the report is in {path}")
    if show:
        _show_actions(posterior, options.get("cost"))
    console.print(f"Wrote {escape(str(path))} ({path.stat().st_size / 1e6:.1f} MB): open it in a browser.")


def _show_actions(posterior: Posterior, cost: float | None, workers: pd.DataFrame | None = None) -> None:
    """Say what to do, in a few lines: the same as the report's first screen."""
    console.print("\n[bold]What to do[/bold]")
    for line in report.lines(report.actions(posterior, cost=cost, table=workers), posterior):
        head, colon, rest = line.partition(": ")
        console.print(f"- [bold]{escape(head)}[/bold]{colon}{escape(rest)}" if colon else f"  {escape(line)}")


def _show_truth(posterior: Posterior) -> None:
    truth = posterior.truth()
    shares = posterior.prevalence()
    told = ", ".join(f"{escape(str(row.label))} {row.share:.0%}" for row in shares.head(8).itertuples())
    console.print(f"\nShare of each class: {told}{' ...' if len(shares) > 8 else ''}")
    unsure = truth[truth["probability"] < SURE].sort_values("probability", kind="stable")
    sure = len(truth) - len(unsure)
    console.print(f"{sure:,} of {len(truth):,} items have a label that is at least {SURE:.0%} probable.")
    shown = unsure.head(SHOWN_ITEMS)
    if len(shown) == 0:
        return
    table = Table(title="Truth: the least certain items", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("item", "label", "probability", "otherwise"):
        table.add_column(column, justify="right" if column == "probability" else "left")
    classes = list(zip(posterior.labels.tolist(), probability_columns(posterior.labels), strict=True))
    for row in shown.to_dict("records"):
        rest = sorted(((row[p], str(k)) for k, p in classes if k != row["label"]), reverse=True)
        others = ", ".join(f"{escape(k)} {p:.0%}" for p, k in rest[:3] if p >= 0.005)
        table.add_row(
            escape(str(row[posterior.item_column])), escape(str(row["label"])), f"{row['probability']:.2f}", others
        )
    console.print(table)
    if len(unsure) > len(shown):
        console.print(f"... and {len(unsure) - len(shown):,} more in truth.csv")


def _show_workers(workers: pd.DataFrame, level: float) -> None:
    table = workers.sort_values("annotations", ascending=False, kind="stable")
    shown = table.head(SHOWN_WORKERS)
    most = f", the {len(shown)} with most annotations" if len(shown) < len(table) else ""
    grid = Table(title=f"Workers{most} (intervals of {level:.0%})", title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("worker", overflow="ellipsis", no_wrap=True)
    grid.add_column("annotations", justify="right", no_wrap=True, min_width=10)
    grid.add_column("accuracy", justify="right", no_wrap=True, min_width=8)
    grid.add_column("interval", no_wrap=True, min_width=8)
    grid.add_column("0" + " " * (BAR - 2) + "1", no_wrap=True, min_width=BAR)
    grid.add_column("verdict", no_wrap=True, min_width=2 + max(map(len, VERDICTS)))
    for row in shown.to_dict("records"):
        value, low, high = (float(row[f"accuracy{end}"]) for end in ("", "_low", "_high"))
        grid.add_row(
            escape(str(row["worker"])),
            f"{row['annotations']:,}",
            f"{value:.0%}",
            f"{100 * low:.0f}–{high:.0%}" if pd.notna(low) else "none",
            _bar(value, low, high),
            f"{_MARKS.get(row['verdict'], ' ')} {row['verdict']}",
            style={"!": "yellow", "x": "red"}.get(_MARKS.get(row["verdict"], "")),
        )
    console.print(grid)
    console.print(
        "accuracy: probability that a further annotation is correct; x: not to be used unchecked; !: retrain",
        style="dim",
    )


def _bar(value: float, low: float, high: float, width: int = BAR) -> str:
    """Draw an interval on the scale from 0 to 1, as text."""
    if pd.isna(low):
        low = high = value
    cell = [min(width - 1, int(x * width)) for x in (low, value, high)]
    line = ["·"] * width
    line[cell[0] : cell[2] + 1] = ["─"] * (cell[2] - cell[0] + 1)
    line[cell[1]] = "●"
    return "".join(line)


# ---------------------------------------------------------------------- what a person says


def _with_prior(name: str, given: list[str]) -> AnnotationModel:
    model = named_model(name)
    known = {field.name: str(field.type) for field in _settable(type(model))}
    values: dict[str, float] = {}
    for text in given:
        key, _, value = text.partition("=")
        if key not in known:
            raise OptionError(
                f"{name} has no hyperparameter {key!r}{suggestion(key, known)}; it has {', '.join(sorted(known))}"
            )
        try:
            values[key] = int(value) if known[key] == "int" else float(value)
        except ValueError:
            kind = "whole number" if known[key] == "int" else "number"
            raise OptionError(f"--prior {text}: {value!r} is not a {kind}; write --prior {key}=2") from None
    return dataclasses.replace(model, **values) if values else model  # type: ignore[type-var]  # zoo models are dataclasses


def _settable(kind: type[AnnotationModel]) -> list[dataclasses.Field[Any]]:
    """Return the hyperparameters that a number sets (annotations are text: no class is looked up)."""
    return [f for f in dataclasses.fields(kind) if str(f.type).startswith(("float", "int"))]  # type: ignore[arg-type]


def _as_fit(context: typer.Context, more: list[str]) -> str:
    """Return a command as a `crowdppl fit` with the same input and options, and some more, to be pasted into a shell."""
    taken = {parameter.name for parameter in typer.main.get_command(app).commands["fit"].params}  # type: ignore[attr-defined]
    files, words = [], []
    for parameter in context.command.params:
        name = str(parameter.name)
        value, source = context.params.get(name), context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or value is None or name not in taken:
            continue
        if parameter.param_type_name == "argument":
            text = str(value)
            files.append(f"./{text}" if text.startswith("-") and text != "-" else text)
        elif getattr(parameter, "is_flag", False):
            words.append(parameter.opts[0])
        else:
            for single in map(str, value if isinstance(value, (list, tuple)) else [value]):
                # --option=value: a value may begin with a dash.
                words += [f"{parameter.opts[0]}={single}"] if single.startswith("-") else [parameter.opts[0], single]
    line = ["crowdppl", "fit", *files, *words, *more]
    return subprocess.list2cmdline(line) if os.name == "nt" else shlex.join(line)


def _taken(file: Path, format_: str | None, choices: Choices | None) -> tuple[Records, str]:
    """Read annotations, and return with them the SHA-256 of what was read; a stream is read once."""
    with local(file) as here:
        found = formats.read(here, format_, choices)
        return found, results.sha256(here)


def _features(file: Path | None, frame: pd.DataFrame, usual: tuple[str, ...], named: str | None) -> pd.DataFrame | None:
    """Read a table of features and put its identifiers into the index."""
    if file is None:
        return None
    table = read_table(file)
    column = column_of(
        table, None, names_of(named, usual), source_name(file), "name it as the annotations' column is named"
    )
    alike(frame, table, (named,) if named else usual, column)
    numbers = table.drop(columns=column).apply(pd.to_numeric, errors="coerce")
    return numbers.set_index(pd.Index(table[column].to_numpy()))


def _classes(text: str | None) -> list[Any] | None:
    """Read declared classes as the columns of a table are read: integers where all are written so."""
    return None if text is None else integers(text.split(","))


def _say(error: CrowdpplError) -> None:
    told = "; ".join([str(error), *getattr(error, "__notes__", [])])
    err.print(f"[red]error:[/red] {escape(in_command(told, app))}", soft_wrap=True)


# What Ctrl-C leaves: said where it is pressed.
_STAGE = ["nothing was written"]


def _stage(left: str) -> None:
    """Say what there is from now on where the command is stopped."""
    _STAGE[0] = left


@contextmanager
def _plain_errors() -> Iterator[None]:
    _stage("nothing was written")
    try:
        yield
    except CrowdpplError as error:
        _say(error)
        raise typer.Exit(2) from None
    except KeyboardInterrupt as stop:
        kept = f"; {stop}" if str(stop) else ""
        # What is known of the moment says more than the stage.
        there = "; ".join(getattr(stop, "__notes__", [])) or _STAGE[0]
        err.print(f"stopped: {escape(there + in_command(kept, app))}", soft_wrap=True)
        raise typer.Exit(130) from None


@contextmanager
def _silent() -> Iterator[None]:
    """Keep the library's warnings back: they stand in the result and are shown once, below it."""
    with silent():
        yield
