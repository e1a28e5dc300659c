"""Commands that compute results: ``fit``, ``update`` and ``demo``."""

from __future__ import annotations

import dataclasses
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer
from rich.markup import escape

from crowdppl.cli.again import as_fit
from crowdppl.cli.application import command, console, err, leave, set_state, use_threads
from crowdppl.cli.options import (
    Checkpoints,
    Columns,
    Correlation,
    Covariates,
    DemoOutput,
    Format,
    Keep,
    KnownTruth,
    Level,
    ModelChoice,
    Output,
    Overwrite,
    PositionColumn,
    Raw,
    Reading,
    ReportOptions,
    Seed,
    SequenceColumn,
    Status,
    Threads,
    Verbose,
)
from crowdppl.errors import silent

if TYPE_CHECKING:
    import pandas as pd

    from crowdppl import report
    from crowdppl.data.annotations import Annotations
    from crowdppl.posterior.posterior import Posterior


@command
def fit_command(
    context: typer.Context,
    *,
    file: Annotated[
        Path, typer.Argument(help="Annotations: a table (CSV, also .gz; Parquet) with a row for each, or an export.")
    ],
    output: Output,
    how_read: Reading,
    choice: ModelChoice,
    columns: Columns,
    known: KnownTruth,
    covariates: Covariates,
    correlation: Correlation,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    checkpoints: Checkpoints,
    with_report: Annotated[bool, typer.Option("--report", help="Also write report.html.")] = False,
    report_options: ReportOptions,
    raw: Raw = False,
    keep: Keep = "small",
    verbose: Verbose = False,
    threads: Threads = None,
    status: Status = None,
    **engine: Any,
) -> None:
    """Fit a model to a file of labels and write consensus, workers and posterior.

    Exit status: 0; 2 after an error, with nothing written; 3 if the chains have not converged: the results are written, but
    do not use their intervals; 130 if stopped. Under torchrun 2 and 3 become 0, and --status keeps them.
    """
    del status  # written as the program ends, see crowdppl.cli.statuses
    from crowdppl import report
    from crowdppl.cli import inputs
    from crowdppl.cli.commands import numbers
    from crowdppl.data.numeric import NumericAnnotations
    from crowdppl.export import results
    from crowdppl.inference.fit import fit
    from crowdppl.inference.memory import most_draws, result_bytes
    from crowdppl.model.base import AnnotationModel
    from crowdppl.models import NUMERIC
    from crowdppl.posterior.numbers import NumericPosterior
    from crowdppl.posterior.workers import default_level

    use_threads(threads)
    default_level(output.level)
    kept = results.kept(keep)
    report.price(report_options.cost)
    if checkpoints.checkpoint is None:
        set_state("nothing was written; with --checkpoint FOLDER a fit that is stopped can be continued")
    files = (*results.FILES, *results.DERIVED) if with_report else results.FILES
    results.free(output.out, overwrite=output.overwrite, files=files)
    model = inputs.chosen_model(choice)
    with silent():  # notes and warnings are in the result and shown once, below it
        start = time.perf_counter()
        if how_read.kind is None and choice.model in NUMERIC:
            how_read = dataclasses.replace(how_read, kind="numeric")
        data, texts, source = _read(file, how_read, columns, known, covariates, report_options)
        seconds = time.perf_counter() - start
        name = escape(source["file"])
        err.print(f"[bold]{name}[/bold]: {data.A:,} annotations of {data.N:,} items by {data.J:,} workers")
        numeric = isinstance(data, NumericAnnotations)
        if numeric:
            numbers.refuse_unused(report_options)
        # A model that leaves the choice to the fit gets Gibbs sampling or EM, which keeps no more draws.
        method = choice.method or ("em" if not isinstance(model, AnnotationModel) else model.default_method or "gibbs")
        size = 8 * 2**20 if numeric else result_bytes(data, most_draws(method, engine), kept)
        results.free(output.out, overwrite=output.overwrite, size=size)
        options = engine | correlation.options() | checkpoints.options()
        options |= {"method": choice.method, "seed": choice.seed, "device": device, "progress": err.is_terminal}
        posterior = fit(data, model, **options)
    if isinstance(posterior, NumericPosterior):
        story = {"input": source, "timings": {"read": seconds}}
        numbers.finish_fit(posterior, output, story, report_options, raw=raw, with_report=with_report, verbose=verbose)
        leave(posterior)
        return
    if texts:
        posterior = report.describe(posterior, **texts)
    run: dict[str, Any] = {"input": source, "timings": {"read": seconds}}
    if report_options.title is not None:
        run["title"] = report_options.title
    finished = _finish(
        posterior, output.out, output.level, run, raw=raw, keep=kept, cost=report_options.cost, verbose=verbose
    )
    if with_report:
        _report(posterior, output, report_options, finished)
    if data.misspelt:
        _propose_names(context, data, how_read, output.out)
    leave(posterior)


def _propose_names(context: typer.Context, data: Annotations, how_read: Reading, folder: Path) -> None:
    """Write names for labels that are probably typing errors, and print the command that reads them."""
    import pandas as pd

    from crowdppl import export
    from crowdppl.cli import inputs

    earlier = {} if how_read.map is None else inputs.read_map(how_read.map)
    names = earlier | dict(data.misspelt)
    path = folder / "label-map.csv"
    number = 1
    while how_read.map is not None and path.exists() and path.samefile(how_read.map):
        number += 1
        path = folder / f"label-map-{number}.csv"
    table = pd.DataFrame(list(names.items()), columns=list(inputs.MAP_COLUMNS))
    export.write(table, path, raw=True)
    again = as_fit(context, ["--map", str(path), "--overwrite"], without=("map", "overwrite"))
    console.print(
        f"\n[bold]Next[/bold]: look through {escape(str(path))}, where each of {len(data.misspelt):,} labels that are probably "
        f"typing errors has the label that was probably meant; delete the rows that are wrong. Then run"
    )
    console.print(escape(again), soft_wrap=True)


def _read(
    file: Path,
    how_read: Reading,
    columns: Columns,
    known: KnownTruth,
    covariates: Covariates,
    texts: ReportOptions,
) -> tuple[Annotations, dict[str, Any], dict[str, Any]]:
    """Read all input of a fit: the annotations, texts and links of items, and what identifies the file."""
    from crowdppl import report
    from crowdppl.cli import inputs
    from crowdppl.data import read as reading
    from crowdppl.data.readers.arrow import release_memory
    from crowdppl.data.readers.streams import source_name
    from crowdppl.data.sequences import TOKEN, in_sequences
    from crowdppl.data.table.columns import ITEM_COLUMNS, WORKER_COLUMNS

    source = source_name(file)
    records, digest = inputs.read_annotations(file, how_read.format, how_read.choices(columns))
    frame = records.frame
    truth = known.truth if known.truth_file is None else inputs.known_truth(known, frame, columns, source)
    # Exports have timestamps and seconds of their own: only columns that are named replace them.
    times = {"timestamp": covariates.timestamp, "seconds": covariates.seconds, "dates": covariates.dates}
    times |= {"covariates": covariates.covariates}
    data = reading.to_annotations(
        records,
        source,
        **vars(columns),
        truth=truth,
        **inputs.naming(how_read),
        labels=inputs.declared_classes(how_read.labels),
        repeats=how_read.repeats,
        features=inputs.feature_table(covariates.features, frame, ITEM_COLUMNS, columns.task),
        worker_features=inputs.feature_table(covariates.worker_features, frame, WORKER_COLUMNS, columns.worker),
        **{name: column for name, column in times.items() if column is not None},
    )
    described = {}
    text_column = texts.text_column
    if text_column is None and records.places is not None:
        text_column = TOKEN  # the words of a format of tokens
    if text_column is not None or texts.url_column is not None:
        if how_read.sequence is not None:
            place = (how_read.sequence, how_read.position)
            frame, item, _ = in_sequences(frame, columns.task, *place, None, source)
        else:
            item = inputs.item_column(frame, columns, source)
        described = report.columns(frame, item, text=text_column, url=texts.url_column, source=source)
    del records, frame  # the table is as large as the data
    release_memory()
    return data, described, {"file": source, "sha256": digest, "rows": data.A}


class _Finished(NamedTuple):
    """What was computed to write and show a result; the report uses it again."""

    run: dict[str, Any]
    workers: pd.DataFrame
    actions: report.Actions


def _finish(
    posterior: Posterior,
    folder: Path,
    level: float | None,
    run: dict[str, Any],
    *,
    raw: bool = False,
    keep: Literal["small", "full"] = "small",
    cost: float | None = None,
    verbose: bool = False,
) -> _Finished:
    """Write a result to its folder and show it."""
    from crowdppl import report
    from crowdppl.cli.display.computation import show_actions, show_computation
    from crowdppl.cli.display.grades import show_criteria
    from crowdppl.cli.display.shared import show_alert
    from crowdppl.cli.display.truth import show_truth
    from crowdppl.cli.display.workers import show_effects, show_workers
    from crowdppl.export import results
    from crowdppl.posterior.workers import default_level

    start = time.perf_counter()
    run["command"] = ["crowdppl", *sys.argv[1:]]
    run["timings"] |= {"fit": posterior.info["seconds"]}
    then = partial(set_state, f"the results are in {folder}")
    written = results.write(posterior, folder, level=level, run=run, raw=raw, keep=keep, then=then)
    actions = report.actions(posterior, cost=cost, worker_table=written.workers)
    show_alert(posterior)
    show_actions(actions, posterior)
    if not posterior.labels_unclear:
        show_truth(posterior, default_level(level))
        show_workers(written.workers, default_level(level))
        show_effects(posterior, default_level(level))
        show_criteria(posterior, default_level(level))
    show_computation(posterior, verbose=verbose)
    names = ", ".join(path.name for path in written.files)
    console.print(f"Wrote {names} in [bold]{escape(str(folder))}[/bold] ({time.perf_counter() - start:.1f} s).")
    return _Finished(written.run, written.workers, actions)


def _report(posterior: Posterior, output: Output, options: ReportOptions, finished: _Finished) -> None:
    """Write the report of a result that has just been written and shown."""
    from crowdppl import report
    from crowdppl.cli.display.shared import show_report

    folder, path = output.out, output.out / "report.html"
    set_state(f"the results are in {folder}, but no report was written; for one: crowdppl report {folder}")
    report.write(
        posterior,
        path,
        finished.run,
        level=output.level,
        cost=options.cost,
        folder=folder,
        worker_table=finished.workers,
        actions=finished.actions,
    )
    set_state(f"the report is in {path}")
    show_report(path)


@command
def update_command(
    result: Annotated[Path, typer.Argument(help="Folder written by `crowdppl fit`.")],
    file: Annotated[Path, typer.Argument(help="Further annotations, a file as `fit` takes it.")],
    columns: Columns,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the new results. (default: the same folder, with --overwrite)")
    ] = None,
    overwrite: Overwrite = False,
    format: Format = None,
    sequence: SequenceColumn = None,
    position: PositionColumn = None,
    names: Annotated[
        str | None, typer.Option(help="Names of classes by label, such as 0=none,1=spam, as they were given to fit.")
    ] = None,
    repeats: Annotated[
        str | None,
        typer.Option(
            help="Repeated annotations of an item by one worker: keep, last or refuse. (default: as in the fit)"
        ),
    ] = None,
    level: Level = None,
    raw: Raw = False,
    keep: Keep = "small",
    verbose: Verbose = False,
    threads: Threads = None,
) -> None:
    """Add annotations to a result: fit again, starting from the earlier result."""
    from crowdppl import report
    from crowdppl.cli import inputs
    from crowdppl.cli.commands import numbers
    from crowdppl.data import read as reading
    from crowdppl.data.readers.records import Choices
    from crowdppl.data.readers.streams import source_name
    from crowdppl.export import results
    from crowdppl.inference.update import update
    from crowdppl.posterior.numbers import NumericPosterior
    from crowdppl.posterior.workers import default_level

    use_threads(threads)
    default_level(level)
    kept = results.kept(keep)
    target = result if out is None else out
    results.free(target, overwrite=overwrite)
    earlier, run = results.opened(result)
    numeric = isinstance(earlier, NumericPosterior)
    with silent():
        options = {"kind": "numeric"} if isinstance(earlier, NumericPosterior) else _as_earlier(earlier)
        records, digest = inputs.read_annotations(
            file, format, Choices(several="sets") if "labels" in options else None
        )
        options |= {"sequence": sequence, "position": position} if sequence or position else {}
        options |= {"map": inputs.names_by_label(names)} if names else {}
        more = reading.to_annotations(records, source_name(file), **vars(columns), **options)
        err.print(f"[bold]{escape(source_name(file))}[/bold]: {more.A:,} further annotations")
        later = update(earlier, more, repeats=cast(Any, repeats), progress=err.is_terminal)
        later = later if numeric else report.carried(earlier, later)
    source = {"file": source_name(file), "sha256": digest, "rows": more.A, "added to": run.get("input", {})}
    title = {"title": run["title"]} if run.get("title") else {}
    if isinstance(later, NumericPosterior):
        numbers.finish(later, target, level, {"input": source, "timings": {}} | title, raw=raw)
        leave(later)
        return
    _finish(later, target, level, {"input": source, "timings": {}} | title, raw=raw, keep=kept, verbose=verbose)
    leave(later)


def _as_earlier(earlier: Posterior) -> dict[str, Any]:
    """Return options to read further annotations like those of a result: classes of sets, covariates and criteria, if any."""
    from crowdppl.data.joining import as_criteria
    from crowdppl.inference.stored import data_of, reads_covariates

    labels = earlier.set_labels()
    options: dict[str, Any] = {} if labels is None else {"labels": labels.tolist()}
    if reads_covariates(earlier):
        options["covariates"] = data_of(earlier, aside=True)
    if "criterion" in earlier.tree["constant_data"].coords:
        options |= as_criteria(data_of(earlier))
    return options


@command
def demo_command(output: DemoOutput, seed: Seed = 0, verbose: Verbose = False, threads: Threads = None) -> None:
    """Fit Dawid and Skene's anaesthesia table, which comes with the library."""
    from crowdppl.data import datasets
    from crowdppl.export import results
    from crowdppl.inference.fit import fit

    use_threads(threads)
    results.free(output.out, overwrite=output.overwrite)
    data = datasets.anaesthesia()
    err.print(
        "[bold]Dawid & Skene (1979), Table 1[/bold]: five anaesthetists rated 45 patients' fitness for general "
        "anaesthesia on a scale of 1 to 4, the first of them three times."
    )
    with silent():
        posterior = fit(data, "dawid-skene", method="gibbs", seed=seed, progress=err.is_terminal)
    run = {"input": {"dataset": "anaesthesia", "rows": data.A}, "timings": {}}
    _finish(posterior, output.out, output.level, run, verbose=verbose)
    leave(posterior)
