"""Messages of the library in the terms of the command.

Messages of the library name arguments as a Python call writes them, ``task=...``. At a terminal they are options of the command,
``--task ...``. Messages are translated here, so that the code that raises them need not know who reads them.
"""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Mapping
from typing import Any

import typer
import typer.main

# Text in quotes is a name or a value of the caller's and stays as it is.
_QUOTED = r"(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)" + "|" + r'(?<!\w)"(?:[^"\\]|\\.)*"(?!\w)'
_VALUE = (
    r"'(?:[^'\\]|\\.)*'"
    + "|"
    + r'"(?:[^"\\]|\\.)*"'
    + r"|\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|\.\.\.|[^\s,;:()'\"]*[^\s,;:.()'\"]"
)
_WORD = re.compile(r"^['\"]([\w.-]+)['\"]$")
_LIST = re.compile(r"\['[^'\\,]*'(?:, '[^'\\,]*')*\]")
_TWICE = re.compile(r"(--[a-z-]+(?: (?:'[^']*'|[^\s()']+))?) \(\1\)")
_ARGUMENT = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?<![\w.-])(?P<name>[a-z]\w*)(?:=(?!=)(?P<value>{_VALUE})?|(?=[^\w=]|$))"
)


def for_command(message: str, flags: Mapping[str, str]) -> str:
    """Return a message with the arguments it names written as options of the command.

    Args:
        message: of the library, such as ``name the worker column with worker=...``.
        flags: option by argument, such as ``{"worker": "--worker"}``. Other arguments stay as they are.
    """

    def as_option(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if value == "False" and f"no_{name}" in flags:
            return flags[f"no_{name}"]
        if name not in flags:
            return match[0]
        assigned = match[0] != name
        before, after = message[: match.start()][-1:], message[match.end() :][:2]
        if before in ("/", "\\") or after[:1] in ("/", "\\") or (after[:1] == "." and after[1:].isalnum()):
            return match[0]  # part of a path or a file name
        if value and value[0] not in "'\"([" and "/" in value:
            return match[0]  # a folder of partitioned data
        if not assigned:  # an ordinary word may have the name of an option, but not with an underscore
            return flags[name] if "_" in name else match[0]
        if value is None or value == "True":
            return flags[name]
        if value == "False":
            return f"without {flags[name]}"
        if value[0] == "{" and name == "map":  # names of labels, which have an option for a few
            if value == "{...}":
                return f"{flags['names']} LABEL=NAME,..."
            pairs = ast.literal_eval(value).items()
            return f"{flags['names']} {shlex.quote(','.join(f'{label}={new}' for label, new in pairs))}"
        if value[0] == "[" and _LIST.fullmatch(value):  # names, which an option takes with commas
            return f"{flags[name]} {shlex.quote(','.join(ast.literal_eval(value)))}"
        word = _WORD.match(value)
        return f"{flags[name]} {word[1] if word else value}"

    # A message for both readers names the option in parentheses after the argument.
    return _TWICE.sub(r"\1", _ARGUMENT.sub(as_option, message))


@functools.cache
def flags_of(app: typer.Typer) -> dict[str, str]:
    """Return the options of all commands of an application by the names of their parameters."""
    # Typer has its own copy of Click or uses the installed one, so its classes cannot be named here.
    group: Any = typer.main.get_command(app)
    options = [p for command in group.commands.values() for p in command.params if p.param_type_name == "option"]
    return {option.name.rstrip("_"): max(option.opts, key=len) for option in options}


def in_command(message: str, app: typer.Typer) -> str:
    """Return a message of the library as the commands of an application show it."""
    return for_command(message, flags_of(app))
