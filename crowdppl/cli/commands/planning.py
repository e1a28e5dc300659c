"""The command ``plan``: how many items, and how many workers for each, by simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state, use_threads
from crowdppl.cli.options import Level, OverwriteFile, Raw, Seed, TableFile, Threads
from crowdppl.errors import OptionError

if TYPE_CHECKING:
    from crowdppl.criticism import Crowd
    from crowdppl.posterior.posterior import Posterior


@command
def plan_command(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of a pilot, written by `crowdppl fit`. (default: --workers and --classes say it)"),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="Wished width of the intervals of severity, in grades, or of accuracy, such as 0.1."),
    ] = None,
    items: Annotated[str, typer.Option(help="Numbers of items to simulate, separated by commas.")] = "50,100,200,400",
    per_item: Annotated[
        str | None,
        typer.Option(
            help="Numbers of workers for each item, separated by commas. (default: 2,3,5, with enough workers)"
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of workers. (default: that of the pilot)")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes or grades, without a pilot.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="nominal (classes) or ordinal (grades), without a pilot. (default: nominal)")
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            help="Without a pilot: standard deviation over workers of severity, in grades (default: 0.3), or of accuracy "
            "(default: 0.1)."
        ),
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Without a pilot: mean accuracy of workers, of classes. (default: 0.75)")
    ] = None,
    slope: Annotated[
        float | None,
        typer.Option(help="Without a pilot: how closely grades follow the items, 1 loosely, 4 closely. (default: 2)"),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Simulated studies for each design.")] = 5,
    independent: Annotated[
        bool, typer.Option("--independent", help="Fit as `crowdppl fit --independent` does. (default: as the pilot)")
    ] = False,
    level: Level = None,
    seed: Seed = 0,
    out: TableFile = None,
    overwrite: OverwriteFile = False,  # applied by `command`
    raw: Raw = False,
    threads: Threads = None,
) -> None:
    """How many items, and how many workers for each, for intervals as narrow as wished? Simulated, with or without a pilot."""
    from crowdppl import criticism, export
    from crowdppl.cli.display import plan as display_plan
    from crowdppl.cli.display.shared import show_alert
    from crowdppl.export.tables import require_suffix

    use_threads(threads)
    if out is not None:
        require_suffix(out)
    numbers = {"classes": classes, "kind": kind, "spread": spread, "accuracy": accuracy, "slope": slope}
    pilot: Posterior | Crowd
    if folder is None:
        pilot = _crowd(workers, numbers)
    else:
        pilot = _pilot(folder, [name for name, value in numbers.items() if value is not None])
        show_alert(pilot)
    result = criticism.plan(
        pilot,
        width=width,
        items=_whole("items", items),
        per_item=None if per_item is None else _whole("per-item", per_item),
        workers=workers,
        replicates=replicates,
        independent=True if independent else None,
        level=level,
        seed=seed,
        progress=err.is_terminal,
    )
    display_plan.show(result)
    if out is not None:
        export.write(result.table, out, raw=raw)
        set_state(f"the table is in {out}")
        console.print(f"Wrote {escape(str(out))} with {len(result.table):,} rows.")


def _crowd(workers: int | None, numbers: Mapping[str, object]) -> Crowd:
    """Return the crowd that the options describe.

    Raises:
        OptionError: without the number of workers or of classes, or for numbers that are no crowd.
    """
    from crowdppl import criticism

    if workers is None or numbers["classes"] is None:
        raise OptionError("plan needs the folder of a pilot, or --workers and --classes with --kind nominal or ordinal")
    stated: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    return criticism.Crowd(workers=workers, **stated)


def _pilot(folder: Path, stated: list[str]) -> Posterior:
    """Return the result of a pilot.

    Raises:
        OptionError: if numbers are stated besides, or labels are numbers.
    """
    from crowdppl.export import results
    from crowdppl.posterior.numbers import NumericPosterior

    if stated:
        raise OptionError(f"--{stated[0]} describes a crowd without a pilot; leave it out, or the folder")
    posterior, _ = results.opened(folder)
    if isinstance(posterior, NumericPosterior):
        raise OptionError("plan is about classes and grades, and the labels of this result are numbers")
    return posterior


def _whole(name: str, written: str) -> list[int]:
    """Return whole numbers that are separated by commas.

    Raises:
        OptionError: for anything else.
    """
    parts = [part.strip() for part in written.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise OptionError(f"--{name} {written}: whole numbers from 1, separated by commas, such as 50,100,200")
    return [int(part) for part in parts]
