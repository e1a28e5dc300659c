"""The command ``distribute``: a fit of which each process reads and holds its share."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state
from crowdppl.cli.commands import large
from crowdppl.cli.options import Checkpoints, Columns, Output, Seed, Status, TruthColumn
from crowdppl.cli.statuses import NOT_CONVERGED
from crowdppl.errors import FileError, silent
from crowdppl.files import overwriting

FILES = ("truth", "workers.csv", "run.json")


@command
def distribute_command(
    *,
    path: Annotated[Path, typer.Argument(help="Annotations: a Parquet file, or a folder of them, in any order.")],
    output: Output,
    columns: Columns,
    model: Annotated[
        str, typer.Option(help="dawid-skene, one-coin or class-conditional; others need all data in one process.")
    ] = "dawid-skene",
    method: Annotated[str, typer.Option(help="em: point estimates; gibbs: with intervals.")] = "em",
    truth: TruthColumn = None,
    max_iter: Annotated[int, typer.Option(help="em: most E steps.")] = 2000,
    tol: Annotated[
        float, typer.Option(help="em: stop where the log posterior rises by less than this fraction of itself.")
    ] = 1e-9,
    chains: Annotated[int, typer.Option(help="gibbs: number of chains.")] = 4,
    warmup: Annotated[int, typer.Option(help="gibbs: sweeps discarded in each chain.")] = 100,
    num_samples: Annotated[int, typer.Option(help="gibbs: sweeps that count in each chain.")] = 250,
    seed: Seed = 0,
    checkpoints: Checkpoints,
    status: Status = None,
) -> None:
    """Fit a model in several processes, started by torchrun, each of which reads and holds its share of the data.

    Exit status: 0; 2 after an error, with nothing written; 3 if the fit has not converged (results are written); 130 if stopped.
    Under torchrun 2 and 3 become 0, since it takes any other status for a crash; --status keeps them.
    """
    del status  # written as the program ends, see crowdppl.cli.statuses
    from crowdppl.export import results
    from crowdppl.export.folders import replaced
    from crowdppl.inference.progress import progress_bar
    from crowdppl.inference.scale.sharded import distribute

    results.free(output.out, overwrite=output.overwrite, files=FILES)
    _require_own_parts(output.out)
    start = time.perf_counter()
    then = partial(set_state, f"the results are in {output.out}")
    options = {
        "em": {"max_iter": max_iter, "tol": tol},
        "gibbs": {"chains": chains, "warmup": warmup, "num_samples": num_samples},
    }
    with (
        silent() as warnings,
        replaced(output.out, FILES, then) as staging,
        progress_bar(err.is_terminal, "distribute") as progress,
    ):
        result = distribute(
            path,
            model,
            method=method,  # type: ignore[arg-type]  # checked there
            consensus=staging / "truth",
            max_iter=max_iter,
            tol=tol,
            chains=chains,
            warmup=warmup,
            num_samples=num_samples,
            level=output.level,
            seed=seed,
            **checkpoints.options(),
            **vars(columns),
            truth=truth,
            progress=progress,
        )
        asked = {"model": model, "method": method, "options": options[method]}
        asked |= {"seed": seed, "truth": truth, "input": path.name}
        seconds = large.written(result, staging, start, asked, {"facts": result.facts, "warnings": warnings})
    large.show(result, seconds, f"; the largest share had {result.facts['largest_share']:,} annotations")
    for warning in warnings:
        err.print(f"[yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)
    console.print(f"Wrote truth/, workers.csv, run.json in [bold]{escape(str(output.out))}[/bold].")
    if not result.facts["converged"]:
        raise typer.Exit(NOT_CONVERGED)


def _require_own_parts(out: Path) -> None:
    """Check that the folder of true labels has no Parquet files of others, which would be read as parts of the result.

    Raises:
        FileError: if it has.
    """
    for path in sorted((out / "truth").glob("*.parquet")):
        if not overwriting.is_own(out, f"truth/{path.name}"):
            raise FileError(
                f"{path} was not written by crowdppl, or was changed since; move it, or name another folder"
            )
