"""The command ``stream``: a fit to data that need not fit in memory."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state, use_threads
from crowdppl.cli.commands import large
from crowdppl.cli.options import Columns, Output, Seed, Threads, TruthColumn
from crowdppl.inference.memory import ROWS

FILES = ("truth.parquet", "workers.csv", "run.json")


@command
def stream_command(
    path: Annotated[
        Path, typer.Argument(help="Annotations: a Parquet file, or a folder of them; rows of an item together.")
    ],
    output: Output,
    columns: Columns,
    model: Annotated[
        str, typer.Option(help="Name from `crowdppl models`, whose labels depend on worker and truth only.")
    ] = "dawid-skene",
    method: Annotated[
        str,
        typer.Option(
            help="em: point estimates; vb: with intervals, by variational Bayes; svi: by gradients, for other models."
        ),
    ] = "em",
    truth: TruthColumn = None,
    passes: Annotated[int, typer.Option(help="Passes over the data to learn from; one more writes the consensus.")] = 4,
    rows: Annotated[int, typer.Option(help="Annotations held in memory at a time, about.")] = ROWS,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Fit a model to more annotations than memory holds, batch by batch from disk: consensus and workers, no posterior."""
    from crowdppl.export import results
    from crowdppl.export.folders import replaced
    from crowdppl.inference.progress import progress_bar
    from crowdppl.inference.scale import streaming

    use_threads(threads)
    results.free(output.out, overwrite=output.overwrite, files=FILES)
    start = time.perf_counter()
    then = partial(set_state, f"the results are in {output.out}")
    with (
        replaced(output.out, FILES, then) as staging,
        progress_bar(err.is_terminal, "stream") as progress,
    ):
        result = streaming.stream(
            path,
            model,
            method=method,  # type: ignore[arg-type]  # checked there
            seed=seed,
            level=output.level,
            consensus=staging / "truth.parquet",
            passes=passes,
            rows=rows,
            **vars(columns),
            truth=truth,
            progress=progress,
        )
        options = {"passes": passes, "rows": rows, "seed": seed, "truth": truth}
        asked = {"model": model, "method": method, "options": options, "input": path.name}
        seconds = large.written(result, staging, start, asked, {"objective": result.facts["objective"]})
    large.show(result, seconds)
    console.print(f"Wrote {', '.join(FILES)} in [bold]{escape(str(output.out))}[/bold].")
