"""A command that is printed, to be run next: the same input and options with others added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
import typer.main

from crowdppl.cli.application import app


def as_fit(context: typer.Context, more: Sequence[str], *, without: Sequence[str] = ()) -> str:
    """Return a command as a `crowdppl fit` with the same input and options, to be pasted into a shell.

    Args:
        context: of the command.
        more: further words.
        without: names of options that are left out.
    """
    from crowdppl.report.plan import shell_line

    group: Any = typer.main.get_command(app)
    shared = {parameter.name for parameter in group.commands["fit"].params}
    files, words = [], []
    for parameter in context.command.params:
        name = str(parameter.name)
        value, source = context.params.get(name), context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or value is None or name not in shared or name in without:
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
    return shell_line(["crowdppl", "fit", *files, *words, *more])
