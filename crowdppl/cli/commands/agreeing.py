"""The command ``agreement``: how far workers agree, without a model."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state
from crowdppl.cli.options import AnnotationsFile, Columns, KnownTruth, Level, OverwriteFile, Raw, Reading, TableFile
from crowdppl.errors import silent


@command
def agreement_command(
    file: AnnotationsFile,
    how_read: Reading,
    columns: Columns,
    weights: Annotated[
        str | None,
        typer.Option(
            help="nominal (labels agree or do not); for ordered labels: ordinal, or linear or quadratic in their distance. Words "
            "need their order, such as --labels low,medium,high. (default: nominal; of grades "
            "their coefficients, each in its form)"
        ),
    ] = None,
    minimum: Annotated[
        int | None,
        typer.Option(
            help="Fewest common items of a pair of workers. (default: 20, or the most of any pair if that is fewer)"
        ),
    ] = None,
    level: Level = None,
    out: TableFile = None,
    overwrite: OverwriteFile = False,  # applied by `command`
    raw: Raw = False,
) -> None:
    """How far do workers agree? Alpha, kappas and correlations of all workers and of each pair; the F measure of spans."""
    from crowdppl import export, metrics
    from crowdppl.cli import inputs
    from crowdppl.cli.display import agreement as display_agreement
    from crowdppl.cli.display.shared import show_notes
    from crowdppl.data.numeric import NumericAnnotations
    from crowdppl.data.sequences import Tags
    from crowdppl.data.table.identifier_checks import numbers
    from crowdppl.export.tables import require_suffix
    from crowdppl.posterior.workers import default_level

    if out is not None:
        require_suffix(out)
    spans = None
    with silent() as notes:
        data, _ = inputs.annotations_and_truth(file, how_read, columns, KnownTruth())
        if isinstance(data, NumericAnnotations):
            # Labels that are numbers hardly ever agree: correlations are all that is left.
            tables, pairs, weights = [metrics.intraclass_correlation(data, level=level)], None, "numbers"
        elif weights is None and data.kind == "ordinal":
            tables, weights = [metrics.graded_agreement(data, level=level)], "grades"
            pairs = metrics.pairwise_agreement(data, minimum=minimum, weights="quadratic", level=level)
        else:
            weights = "nominal" if weights is None else weights
            tables = [metrics.agreement(data, weights=weights, level=level)]  # type: ignore[arg-type]  # checked there
            # Numbers may be names of classes: they are scores where the caller says that they are ordered.
            if weights != "nominal" and numbers(data.labels) is not None:
                tables.append(metrics.intraclass_correlation(data, level=level))
            if data.sequence is not None and Tags.of(data.labels) is not None:
                spans = metrics.span_agreement(data, level=level)
            pairs = metrics.pairwise_agreement(data, minimum=minimum, weights=weights, level=level)  # type: ignore[arg-type]
    name = escape(file.name)
    err.print(f"[bold]{name}[/bold]: {data.A:,} annotations of {data.N:,} items by {data.J:,} workers")
    display_agreement.show(tables, pairs, weights, default_level(level), spans)
    show_notes(list(dict.fromkeys([*data.notes, *notes])))
    if out is not None:
        rows = display_agreement.rows(tables, pairs, spans)
        export.write(rows, out, raw=raw)
        set_state(f"the table is in {out}")
        console.print(f"Wrote {escape(str(out))} with {len(rows):,} rows.")
