"""What commands do with results whose labels are numbers; the commands themselves choose."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from crowdppl.cli.application import console, set_state
from crowdppl.errors import OptionError

if TYPE_CHECKING:
    from crowdppl.cli.options import Output, ReportOptions
    from crowdppl.posterior.numbers import NumericPosterior


def finish(
    posterior: NumericPosterior,
    folder: Path,
    level: float | None,
    run: dict[str, Any],
    *,
    raw: bool = False,
    verbose: bool = False,
) -> dict[str, Any]:
    """Write a result to its folder and show it; return the content of ``run.json``."""
    from crowdppl import report
    from crowdppl.cli.display import numbers as display_numbers
    from crowdppl.export import results
    from crowdppl.posterior.measures import default_level

    start = time.perf_counter()
    run["command"] = ["crowdppl", *sys.argv[1:]]
    run["timings"] |= {"fit": posterior.info["seconds"]}
    then = partial(set_state, f"the results are in {folder}")
    written = results.write(posterior, folder, level=level, run=run, raw=raw, then=then)
    actions = report.number_actions(posterior, level=level, workers=written.workers)
    display_numbers.show_result(posterior, written.workers, actions, default_level(level), verbose=verbose)
    names = ", ".join(path.name for path in written.files)
    console.print(f"Wrote {names} in [bold]{escape(str(folder))}[/bold] ({time.perf_counter() - start:.1f} s).")
    return written.run


def finish_fit(
    posterior: NumericPosterior,
    output: Output,
    run: dict[str, Any],
    options: ReportOptions,
    *,
    raw: bool,
    with_report: bool,
    verbose: bool = False,
) -> None:
    """Write and show the result of a fit, and its report if that is asked for.

    Raises:
        OptionError: for texts, links and prices, which the report of numbers does not show.
    """
    if options.title is not None:
        run["title"] = options.title
    story = finish(posterior, output.out, output.level, run, raw=raw, verbose=verbose)
    if with_report:
        report(posterior, output.out / "report.html", story, output.level, options.title)


def refuse_unused(options: ReportOptions) -> None:
    """Refuse options of reports that the one of numbers does not use.

    Raises:
        OptionError: for texts, links and prices.
    """
    for name in ("text_column", "url_column", "cost"):
        if getattr(options, name) is not None:
            raise OptionError(f"--{name.replace('_', '-')} is not used for labels that are numbers; leave it out")


def report(
    posterior: NumericPosterior, path: Path, run: dict[str, Any], level: float | None, title: str | None
) -> None:
    """Write the report of a result."""
    from crowdppl import report as reports
    from crowdppl.cli.display.shared import show_report

    reports.write_numbers(posterior, path, run, level=level, title=title)
    set_state(f"the report is in {path}")
    show_report(path)
