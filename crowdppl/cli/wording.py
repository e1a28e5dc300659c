"""How the command shows what the library says in Python's terms: its options, and messages that name arguments.

Messages of the library name arguments as a call writes them, ``task=...``. To a person at a terminal they are options of the
command, ``--task ...``. The translation is made here, for every message and every option: no message has to know who reads it.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
import typer.main

from crowdppl.inference import options

# Text in quotes is a name or a value of the caller's, and stays as it is.
_QUOTED = r"(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)" + "|" + r'(?<!\w)"(?:[^"\\]|\\.)*"(?!\w)'
_VALUE = (
    r"'(?:[^'\\]|\\.)*'" + "|" + r'"(?:[^"\\]|\\.)*"' + r"|\([^()]*\)|\[[^][]*\]|\.\.\.|[^\s,;:()'\"]*[^\s,;:.()'\"]"
)
_WORD = re.compile(r"^['\"]([\w.-]+)['\"]$")
_ARGUMENT = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?<![\w.-])(?P<name>[a-z]\w*)(?:=(?!=)(?P<value>{_VALUE})?|(?=[^\w=]|$))"
)


def for_command(message: str, flags: Mapping[str, str]) -> str:
    """Return a message with the arguments it names written as options of the command.

    Args:
        message: of the library, such as ``say which one holds the worker with worker=...``.
        flags: option by argument, such as ``{"worker": "--worker"}``. What is not in it stays as it is.
    """

    def written(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name not in flags:
            return found[0]
        assigned = found[0] != name
        before, after = message[: found.start()][-1:], message[found.end() :][:2]
        if before in ("/", "\\") or after[:1] in ("/", "\\") or (after[:1] == "." and after[1:].isalnum()):
            return found[0]  # part of a path or a file's name
        if value and value[0] not in "'\"([" and "/" in value:
            return found[0]  # a folder of partitioned data
        if not assigned:  # a word of prose may be called as an option is, but not with an underscore
            return flags[name] if "_" in name else found[0]
        if value is None or value == "True":
            return flags[name]
        if value == "False":
            return f"without {flags[name]}"
        word = _WORD.match(value)
        return f"{flags[name]} {word[1] if word else value}"

    return _ARGUMENT.sub(written, message)


@functools.cache
def flags_of(app: typer.Typer) -> dict[str, str]:
    """Return the options of all commands of an application by the names of their parameters."""
    # Typer brings a copy of Click of its own, or uses the installed one: what it returns is used as it is.
    group: Any = typer.main.get_command(app)
    options = [p for command in group.commands.values() for p in command.params if p.param_type_name == "option"]
    return {option.name.rstrip("_"): max(option.opts, key=len) for option in options}


def in_command(message: str, app: typer.Typer) -> str:
    """Return a message of the library as the commands of an application show it."""
    return for_command(message, flags_of(app))


def with_engine_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options of the engines, which it takes as ``**engine``; those not given are left out."""
    signature = inspect.signature(function, eval_str=True)
    plain = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind, typer.Option(help=options.told(name), rich_help_panel="Options of the engines")],
        )
        for name in options.names()
        if (kind := _typed(name)) is not None
    ]

    @functools.wraps(function)
    def call(**given: Any) -> None:
        chosen = {p.name: given.pop(p.name) for p in more}
        function(**given, **{name: value for name, value in chosen.items() if value is not None})

    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in plain]
    call.__signature__ = signature.replace(parameters=[*keyword, *more])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [*plain, *more]} | {"return": None}
    return call


def _typed(name: str) -> Any:
    """Return the type of an option of the command, ``None`` for what cannot be typed at a terminal."""
    kinds = {kind for kind in typing.get_args(options.annotation(name) | None) if kind is not type(None)}
    kinds = {str if typing.get_origin(kind) is typing.Literal else kind for kind in kinds}
    return typing.Optional[kinds.pop()] if len(kinds) == 1 and kinds <= {int, float, bool, str} else None  # noqa: UP045
