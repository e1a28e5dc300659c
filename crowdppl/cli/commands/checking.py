"""Commands that check models and results: ``compare`` models, ``calibrate`` with known truths, ``check`` the labels given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main
from rich.markup import escape

from crowdppl.cli.again import as_fit
from crowdppl.cli.application import command, console, err, in_command, use_threads
from crowdppl.cli.options import (
    AnnotationsFile,
    Columns,
    KnownTruth,
    Level,
    ModelChoice,
    Reading,
    Results,
    Seed,
    Threads,
)
from crowdppl.errors import OptionError, silent
from crowdppl.inference.catalogue import GRADES, MODELS

if TYPE_CHECKING:
    from crowdppl.cli.display.comparison import Comparison


@command
def calibrate(
    context: typer.Context,
    file: AnnotationsFile,
    known: KnownTruth,
    how_read: Reading,
    choice: ModelChoice,
    columns: Columns,
    minimum: Annotated[
        int, typer.Option(help="Fewest annotations of items of known truth for a worker to be counted.")
    ] = 20,
    level: Level = None,
    threads: Threads = None,
) -> None:
    """How well calibrated are the intervals on my crowd? Fit without the known true labels, then compare with them."""
    from crowdppl import criticism
    from crowdppl.cli import inputs
    from crowdppl.cli.display.comparison import show_calibration, show_form
    from crowdppl.cli.display.shared import show_notes
    from crowdppl.data.numeric import NumericAnnotations
    from crowdppl.inference.fit import fit
    from crowdppl.posterior.workers import default_level

    use_threads(threads)
    probability = default_level(level)
    model = inputs.chosen_model(choice)
    fits: dict[str, Comparison] = {}
    notes: list[str] = []
    models: dict[str, None] = {}
    options: dict[str, Any] = {"method": choice.method, "seed": choice.seed, "progress": err.is_terminal}
    with silent():
        data, truth = inputs.annotations_and_truth(file, how_read, columns, known)
        if isinstance(data, NumericAnnotations):
            raise OptionError(
                "calibrate is about classes, and labels are numbers; give --truth-file to fit, whose intervals use it, or to "
                "compare"
            )
        if truth is None:
            raise OptionError(
                "no known truths to compare with; name their column with --truth, or a table of them with --truth-file"
            )
        for name, independent in (("published", True), ("correlated", False)):
            posterior = fit(data, model, independent=independent, **options)
            models.setdefault(f"{posterior.info['model']} by {posterior.info['method']}")
            with silent() as caught:
                fits[name] = (
                    criticism.calibration(posterior, truth, level=level),
                    criticism.coverage(posterior, truth, level=level, minimum=minimum),
                )
            # An alert of either fit comes first.
            notes[:0] = [posterior.alert] if posterior.alert else []
            notes += caught
    calibration, coverage = fits["correlated"]
    title = f"{' and '.join(models)} on {calibration.items:,} items of known truth"
    show_calibration(title, fits, probability)
    console.print(
        f"{len(coverage.workers):,} workers have at least {minimum} annotations of items of known truth.", style="dim"
    )
    mean, spread = calibration.crowd_logit_rho
    console.print(
        f"Given these true labels, annotations of one item are correlated by rho between {calibration.rho_low:.2g} and "
        f"{calibration.rho_high:.2g} ({probability:.0%}) on average of the crowd; logit rho: mean {mean:.2f}, sd {spread:.2f}."
    )
    show_form(fits)
    _advise(context, fits)
    show_notes(list(dict.fromkeys(notes)))


def _advise(context: typer.Context, fits: Mapping[str, Comparison]) -> None:
    """Print the command of the form of fit that suits the crowd, for its labels and its workers."""
    from crowdppl import criticism

    by_labels, by_workers = criticism.better_form(fits["published"], fits["correlated"])
    advised = (
        {by_labels: "", by_workers: ""}
        if by_labels == by_workers
        else {by_labels: " for labels", by_workers: " for workers"}
    )
    for form, purpose in advised.items():
        inform = "rho and the workers" if form == "correlated" else "the workers"
        console.print(f"Best for this crowd{purpose}: a fit with these true labels, which inform {inform}:")
        # On a line of its own and never wrapped, so that it can be pasted.
        console.print(escape(as_fit(context, ["--independent"] * (form == "published"))), soft_wrap=True)
    mean, spread = fits["correlated"][0].logit_rho
    console.print(
        f"Other annotations by this crowd, without true labels: add --rho={mean:.2f},{spread:.2f}, mean and sd of logit rho with "
        f"its differences within the crowd."
        if "correlated" in advised
        else "Other annotations by this crowd, without true labels: add --independent as well."
    )


@command
def compare(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="Annotations, a file as `fit` takes it; or the folder of an earlier result.")
    ],
    later: Annotated[
        Path | None, typer.Argument(help="Folder of a later result, to be compared with the earlier one.")
    ] = None,
    *,
    known: KnownTruth,
    how_read: Reading,
    columns: Columns,
    models: Annotated[
        str | None,
        typer.Option(
            help=f"Names from `crowdppl models`, at least two, separated by commas. (default: {','.join(MODELS)}; of grades "
            f"{GRADES} in place of one-coin)"
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="em, svi, gibbs or nuts, the same for all models.")] = "em",
    level: Level = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Where do several models differ on my labels? Or, given two folders of results: who and which labels changed?"""
    from crowdppl import criticism
    from crowdppl.cli import inputs
    from crowdppl.cli.display import numbers as display_numbers
    from crowdppl.cli.display.comparison import show_comparison

    use_threads(threads)
    if later is not None or (file / "posterior.nc").exists():
        _changes(context, file, later, level)
        return
    names = None if models is None else [name.strip() for name in models.split(",") if name.strip()]
    with silent():
        data, truth = inputs.annotations_and_truth(file, how_read, columns, known)
        result = criticism.compare(data, names, method=method, truth=truth, level=level, seed=seed)
    if isinstance(result, criticism.NumericComparison):
        display_numbers.show_comparison(result)
        return
    show_comparison(result, data.N)


def _changes(context: typer.Context, earlier: Path, later: Path | None, level: float | None) -> None:
    """Compare two folders of results.

    Raises:
        OptionError: without the later one, or with options on the fits of models.
    """
    from crowdppl import criticism
    from crowdppl.cli.display import changes as display_changes
    from crowdppl.cli.display import numbers as display_numbers
    from crowdppl.cli.display.shared import show_alert
    from crowdppl.export import results

    if later is None:
        raise OptionError(f"{earlier} is a result; name the later one, too: crowdppl compare {earlier} LATER")
    given = _given(context) - {"file", "later", "level", "threads"}
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(given))
        raise OptionError(f"{options}: two results are compared as they are; without options on how to fit models")
    posteriors = [results.opened(folder)[0] for folder in (earlier, later)]
    for posterior in posteriors:
        show_alert(posterior)
    result = criticism.changes(*posteriors, level=level)
    if isinstance(result, criticism.NumericChanges):
        display_numbers.show_changes(result)
    else:
        display_changes.show(result)


def _given(context: typer.Context) -> set[str]:
    """Return the names of the parameters that are on the command line."""
    names = [str(parameter.name) for parameter in context.command.params]
    sources = {name: context.get_parameter_source(name) for name in names}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


@command
def check(
    folder: Results = Path("results"),
    draws: Annotated[int, typer.Option(help="Data sets drawn from the fitted model.")] = 200,
    level: Level = None,
    threads: Threads = None,
) -> None:
    """Would the fitted model give labels like these? And can the numbers be relied on?"""
    from crowdppl import criticism
    from crowdppl.cli.display import numbers as display_numbers
    from crowdppl.cli.display.comparison import show_check
    from crowdppl.cli.display.grades import show_rater_fit
    from crowdppl.cli.display.shared import show_alert
    from crowdppl.export import results
    from crowdppl.posterior.workers import default_level

    use_threads(threads)
    posterior, _ = results.opened(folder)
    result = criticism.check(posterior, draws=draws, level=level)
    show_alert(posterior)
    if isinstance(result, criticism.NumericCheck):
        display_numbers.show_check(result, default_level(level))
        return
    for sentence in (*result.summary, *criticism.advice(posterior)):
        console.print(escape(in_command(sentence)))
    for sentence in result.sentences:
        console.print(f"[yellow]![/yellow] {escape(sentence)}")
    show_check(result, default_level(level))
    show_rater_fit(posterior, default_level(level))
