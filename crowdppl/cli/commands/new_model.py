"""The command ``new-model``: a working model to start from, and its rows in the catalogue and the tests of a checkout."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from crowdppl.cli.application import command, console
from crowdppl.errors import FileError, OptionError

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@command
def new_model_command(
    name: Annotated[str, typer.Argument(help="Name of the model, in lower case with hyphens: my-model.")],
    out: Annotated[
        Path, typer.Option(help="Folder to write to; a checkout of crowdppl also gets the rows of the catalogue.")
    ] = Path(),
) -> None:
    """Write a working model file as a template for your own model."""
    from crowdppl.inference.catalogue import catalogue

    if not NAME.fullmatch(name):
        raise OptionError(
            f"{name!r} is not a valid model name; use lower-case letters, digits and hyphens, such as my-model"
        )
    if name in catalogue():
        raise OptionError(f"{name} is already a model; use another name")
    module, class_name = name.replace("-", "_"), "".join(part.capitalize() for part in name.split("-"))
    text = Template(resources.files("crowdppl.cli.commands").joinpath("new_model.txt").read_text(encoding="utf-8"))
    zoo, tests = out / "models" / "__init__.py", out / "tests" / "catalog.py"
    in_checkout = zoo.is_file() and tests.is_file()
    path = (out / "models" if in_checkout else out) / f"{module}.py"
    if path.exists():
        raise FileError(f"{path} already exists; use another name or remove it")
    if not path.parent.is_dir():
        raise FileError(f"{path.parent} is not a folder")
    path.write_text(text.substitute(class_name=class_name), encoding="utf-8")
    console.print(f"Wrote {path}.", soft_wrap=True)
    if not in_checkout:
        console.print(f"Use it: from {module} import {class_name}; crowdppl.fit(data, {class_name}())", soft_wrap=True)
        return
    rows = zoo.read_text(encoding="utf-8")
    rows = insert(rows, f"from crowdppl.models.{module} import {class_name}", r"from crowdppl\.models\.\w+ import \w+")
    rows = rows.replace("\n}\n", f'\n    "{name}": {class_name},\n}}\n', 1)
    rows = insert(rows, f'    "{class_name}",', r'    "[A-Z]\w*[a-z]\w*",')
    zoo.write_text(rows, encoding="utf-8")
    cases = tests.read_text(encoding="utf-8")
    cases = insert(cases, f"    {class_name},", r"    [A-Z]\w*[a-z]\w*,")
    cases = cases.replace("\nCASES = [\n", f'\nCASES = [\n    Case("{name}", {class_name}(), ALL),\n', 1)
    tests.write_text(cases, encoding="utf-8")
    console.print(f"Added {name} to {zoo} and to {tests}. CONTRIBUTING.md lists the next steps.", soft_wrap=True)


def insert(text: str, line: str, alike: str) -> str:
    """Insert a line among consecutive lines that match a pattern and are sorted, at its place."""
    lines = text.split("\n")
    block = [number for number, other in enumerate(lines) if re.fullmatch(alike, other)]
    later = [number for number in block if lines[number] > line]
    lines.insert(later[0] if later else block[-1] + 1, line)
    return "\n".join(lines)
