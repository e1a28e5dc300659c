"""Commands that list what is available: ``formats``, ``datasets`` and ``models``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from crowdppl.cli.application import command, console

if TYPE_CHECKING:
    from crowdppl.model.base import AnnotationModel


@command
def formats_command() -> None:
    """List the file formats that are read."""
    from crowdppl.cli.display.shared import grid
    from crowdppl.data.readers import formats

    table = grid("Formats")
    table.add_column("--format", no_wrap=True)
    table.add_column("what it is")
    table.add_column("detected")
    table.add_row("", "a table with a row for each annotation (CSV, Parquet)", "yes")
    for name, form in formats.FORMATS.items():
        detected = form.table is not None or form.record is not None or name == "peerannot"
        table.add_row(name, escape(form.description), "yes" if detected else "name it")
    console.print(table)


@command
def datasets_command(
    fetch: Annotated[str | None, typer.Option(help="Download this one from its authors, into the cache.")] = None,
) -> None:
    """List public data sets: in the folder that CROWDPPL_DATA names, in the cache, or to download; with citation and licence."""
    from crowdppl.data import datasets, download

    if fetch is not None:
        console.print(f"{fetch} is in {escape(str(download.fetch(fetch)))}")
        return
    table = Table(title="Public data sets", title_justify="left", show_lines=True)
    for column in ("name", "where", "annotations", "what; licence; citation"):
        table.add_column(column, no_wrap=column in ("name", "where"))
    for row in datasets.listing().to_dict("records"):
        source = "; ".join(str(row[key]) for key in ("title", "licence", "citation") if row[key])
        table.add_row(row["name"], row["where"], _sizes(row), escape(source))
    console.print(table)


def _sizes(row: Mapping[Any, Any]) -> str:
    """Return the numbers of annotations, items, workers and known true labels of a data set, as far as they are known."""
    import pandas as pd

    number = {
        key: "" if pd.isna(value) else f"{value:,.0f}" for key, value in row.items() if isinstance(value, (int, float))
    }
    if not number.get("annotations"):
        return ""
    known = f", {number['truths']} truths" if number.get("truths", "0") != "0" else ""
    return f"{number['annotations']} of {number.get('items')} items by {number.get('workers') or '?'} workers{known}"


@command
def models_command(
    name: Annotated[str | None, typer.Argument(help="Explain this model and its hyperparameters.")] = None,
) -> None:
    """List the models with their engines; with a NAME, explain that model and its hyperparameters."""
    if name is not None:
        _explain(name)
        return
    from crowdppl.inference.catalogue import catalogue
    from crowdppl.inference.options import OPTIONS
    from crowdppl.model.hyperparameters import summary
    from crowdppl.models import NUMERIC

    table = Table(title="Models", title_justify="left", show_lines=True)
    for column in ("name", "what it assumes", "methods"):
        table.add_column(column, no_wrap=column == "name")
    for name, kind in catalogue().items():
        table.add_row(name, summary(kind), ", ".join(_methods(kind)))
    for name, numeric in NUMERIC.items():
        table.add_row(name, summary(numeric), ", ".join(OPTIONS))
    console.print(table)
    from crowdppl.learning import METHODS

    table = Table(title="Methods without a generative story, in Python", title_justify="left", show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("what it does")
    for method in METHODS:
        first = (method.__doc__ or "").partition("\n")[0]
        table.add_row(f"crowdppl.learning.{method.__name__}", escape(first))
    console.print(table)
    console.print("crowdppl models NAME explains a model and the hyperparameters that --prior sets.")


def _explain(name: str) -> None:
    """Print one model: what it assumes, its source, its engines, and each hyperparameter with its default and meaning."""
    from crowdppl.cli.display.shared import grid
    from crowdppl.cli.inputs import numeric_fields
    from crowdppl.inference.catalogue import named_model
    from crowdppl.inference.options import OPTIONS
    from crowdppl.model.hyperparameters import described, summary
    from crowdppl.models import NUMERIC

    kind: type[Any] = NUMERIC[name] if name in NUMERIC else type(named_model(name))
    console.print(f"[bold]{name}[/bold]: {escape(summary(kind))}\n")
    for paragraph in inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "").replace("``", "").split("\n\n"):
        # A generative story is printed line by line; prose is wrapped for the terminal.
        story = paragraph.startswith("    ")
        text = paragraph if story else " ".join(paragraph.split()).replace("::", ":")
        console.print(escape(text), soft_wrap=story)
        console.print()
    methods = list(OPTIONS) if name in NUMERIC else _methods(kind)
    by_gradients = "gibbs" not in methods and kind().check_method("gibbs") is None
    also = "; gibbs, which moves parameters by gradients" if by_gradients else ""
    console.print(f"Methods: {', '.join(methods)}{also}.")
    meanings = described(kind)
    fields = numeric_fields(kind)
    if not fields:
        console.print("No hyperparameter that --prior sets.")
        return
    table = grid("Hyperparameters")
    for column in ("--prior", "default", "meaning"):
        table.add_column(column, no_wrap=column != "meaning")
    for field in fields:
        default = "automatic" if field.default is None else str(field.default)
        table.add_row(f"{field.name}=", default, escape(meanings.get(field.name, "")))
    console.print(table)


def _methods(kind: type[AnnotationModel]) -> list[str]:
    """Return the engines that fit a model."""
    from crowdppl.model.base import has_gibbs

    every = ["em", "svi", "nuts"] + (["gibbs"] if has_gibbs(kind()) else [])
    return sorted(method for method in every if kind().check_method(method) is None)
