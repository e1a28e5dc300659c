"""Commands that write files from a result: ``report``, ``next`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state
from crowdppl.cli.options import Level, OverwriteFile, Raw, ReportOptions, Results
from crowdppl.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd

    from crowdppl.posterior.posterior import Posterior


@command
def report_command(
    options: ReportOptions,
    folder: Results = Path("results"),
    out: Annotated[Path | None, typer.Option(help="The file. (default: report.html in the folder)")] = None,
    overwrite: OverwriteFile = False,  # applied by `command`
    level: Level = None,
    items: Annotated[
        Path | None, typer.Option(help="Table with texts or links of items. (default: those kept by `crowdppl fit`)")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", "--item", help="Column of the item in that table. (default: task, else item)"),
    ] = None,
) -> None:
    """Write one HTML file for people to read: what to do, workers, who confuses what, items to send out again, checks."""
    from crowdppl import report
    from crowdppl.cli.commands import numbers
    from crowdppl.cli.display.computation import show_actions
    from crowdppl.cli.display.shared import show_alert, show_report
    from crowdppl.export import results
    from crowdppl.posterior.numbers import NumericPosterior
    from crowdppl.posterior.workers import default_level

    default_level(level)
    report.price(options.cost)
    texts: dict[str, Any] = {}
    if items is not None:
        texts = report.from_file(items, task, text=options.text_column, url=options.url_column)
    elif options.text_column is not None or options.url_column is not None:
        raise OptionError("--text-column and --url-column need the table of items here; name it with --items")
    path = folder / "report.html" if out is None else out
    posterior, run = results.opened(folder)
    if isinstance(posterior, NumericPosterior):
        numbers.refuse_unused(options)
        numbers.report(posterior, path, run, level, options.title)
        return
    workers = posterior.workers(level=level)
    actions = report.actions(posterior, cost=options.cost, worker_table=workers)
    report.write(
        posterior,
        path,
        run,
        level=level,
        title=options.title,
        cost=options.cost,
        folder=folder,
        worker_table=workers,
        actions=actions,
        **texts,
    )
    set_state(f"the report is in {path}")
    show_alert(posterior)
    show_actions(actions, posterior)
    show_report(path)


@command
def next_command(
    folder: Results = Path("results"),
    n: Annotated[int, typer.Option("-n", "--number", help="Number of annotations to request.")] = 50,
    by: Annotated[
        str,
        typer.Option(help="entropy (where least is known), information or accuracy (where most is gained)."),
    ] = "entropy",
    pairs: Annotated[bool, typer.Option("--pairs", help="Also choose the workers: by information.")] = False,
    known: Annotated[
        bool, typer.Option("--known", help="Items whose true label to find out, for `crowdppl fit --truth-file`.")
    ] = False,
    sure: Annotated[
        float | None, typer.Option(help="Leave out items whose label is at least this probable, such as 0.99.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw of --known: same seed, same items.")] = 0,
    out: Annotated[Path | None, typer.Option(help="CSV for the batch. (default: next.csv in the folder)")] = None,
    overwrite: OverwriteFile = False,  # applied by `command`
    raw: Raw = False,
) -> None:
    """Choose what to have labelled next, and write it as a batch."""
    from crowdppl import acquisition, export
    from crowdppl.cli.display.shared import show_alert
    from crowdppl.cli.display.truth import show_batch
    from crowdppl.export import results
    from crowdppl.export.tables import require_suffix

    posterior, _ = results.opened(folder)
    if known and (by != "entropy" or pairs or sure is not None):
        raise OptionError("--known chooses items at random by their entropy; leave --by, --pairs and --sure out")
    if seed and not known:
        raise OptionError("--seed belongs to --known: other items are not drawn at random")
    batch = acquisition.next_known(posterior, n, seed=seed) if known else _batch(posterior, n, by, pairs, sure)
    path = folder / "next.csv" if out is None else out
    require_suffix(path)
    export.write(batch, path, raw=raw)
    set_state(f"the batch is in {path}")
    show_alert(posterior)
    show_batch(batch, "true labels" if known else "annotations")
    console.print(f"Wrote {escape(str(path))} with {len(batch):,} rows.")


def _batch(posterior: Posterior, n: int, by: Any, pairs: bool, sure: float | None) -> pd.DataFrame:
    """Return the items, or pairs of an item and a worker, to be annotated next, without those that are sure enough."""
    from crowdppl import acquisition

    count = n if sure is None else len(posterior.items())
    if pairs:
        batch = acquisition.next_pairs(posterior, count, by="information" if by == "entropy" else by)
    else:
        batch = acquisition.next_items(posterior, count, by=by)
    if sure is None:
        return batch
    finished = acquisition.finished(posterior, sure)
    name = finished.columns[0]
    done = finished.loc[finished["finished"], name]
    kinds = {"tokens": "sequences have labels that are each", "labels": "sets are"}
    what = next((words for column, words in kinds.items() if column in finished), "items have a label that is")
    err.print(f"{len(done):,} of {len(finished):,} {what} at least {sure:.4g} probable.")
    return batch[~batch[name].isin(done)].head(n).reset_index(drop=True)


@command
def export_command(
    folder: Results = Path("results"),
    what: Annotated[
        str,
        typer.Option(
            help="truth, soft, weights (for training), workers, confusion, spans, sets, conll (tokens with their labels), or "
            "predictions (for Label Studio)."
        ),
    ] = "truth",
    out: Annotated[
        Path | None, typer.Option(help="File ending in .csv, .parquet or .jsonl. (default: WHAT.csv in the folder)")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="predictions: the project's export in the format JSON, whose tasks they join; conll: the annotations in this "
            "format, for the words."
        ),
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="predictions: the control (from_name) that was fitted, if there are several.")
    ] = None,
    overwrite: OverwriteFile = False,  # applied by `command`
    level: Level = None,
    raw: Raw = False,
) -> None:
    """Write consensus labels, soft labels, training weights or workers for other programs."""
    from crowdppl import export
    from crowdppl.cli.display.shared import show_alert
    from crowdppl.export import results

    if question is not None and what != "predictions":
        raise OptionError("--question belongs to --what predictions")
    if source is not None and what not in ("predictions", "conll"):
        raise OptionError("--source belongs to --what predictions, or --what conll")
    if what == "predictions" and source is None:
        raise OptionError("--what predictions needs --source: the project's export in the format JSON that was fitted")
    posterior, _ = results.opened(folder)
    if what == "conll":
        words = None if source is None else export.words_of(source)
        path = export.conll(posterior, folder / "tokens.conll" if out is None else out, words=words)
    elif source is not None:
        path = folder / "predictions.json" if out is None else out
        path = export.predictions(posterior, source, path, question=question)
    else:
        path = export.to_file(posterior, what, folder / f"{what}.csv" if out is None else out, level=level, raw=raw)
    set_state(f"the file is {path}")
    show_alert(posterior)
    console.print(f"Wrote {escape(str(path))}.")
