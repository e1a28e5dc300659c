"""The options of the engines as others show them: in the signature and help of a function, and in the command."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from crowdppl.inference.options import OPTIONS, TYPES, Option

P = ParamSpec("P")
R = TypeVar("R")


class _Defaults:
    """The default of an option in a signature: that of the engine, which may differ between engines."""

    def __init__(self, of: Mapping[str, Any]):
        self.of = of

    def __repr__(self) -> str:
        return f"<{', '.join(f'{method}: {value!r}' for method, value in self.of.items())}>"


def names() -> list[str]:
    """Return all options of all engines, each once."""
    return list(dict.fromkeys(name for options in OPTIONS.values() for name in options))


def having(name: str) -> dict[str, Option]:
    """Return the engines that have an option, with the option of each."""
    return {method: options[name] for method, options in OPTIONS.items() if name in options}


def annotation(name: str) -> Any:
    """Return the type of an option, of all engines that have it."""
    hints = [typing.get_type_hints(TYPES[method])[name] for method in having(name)]
    union = hints[0]
    for hint in hints[1:]:
        union = union | hint if union is not hint else union
    return union


def described(name: str, *, defaults: bool = True) -> str:
    """Return the help text of an option, engine by engine."""
    parts: dict[str, list[str]] = {}
    for method, option in having(name).items():
        words = option.help
        if defaults and option.default is not None:
            words += f" ({option.default})"
        parts.setdefault(words, []).append(method)
    return "; ".join(f"{', '.join(methods)}: {words}" for words, methods in parts.items())


def with_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the options of all engines to the signature and docstring of a function that takes them as ``**options``."""
    signature = inspect.signature(function)
    plain = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_Defaults({method: option.default for method, option in having(name).items()}),
            annotation=annotation(name),
        )
        for name in names()
    ]
    function.__signature__ = signature.replace(parameters=[*plain, *more])  # type: ignore[attr-defined]
    lines = [f"    {name}: {described(name)}." for name in names()]
    before, raises, after = inspect.cleandoc(function.__doc__ or "").partition("\nRaises:")
    function.__doc__ = "\n".join(
        [f"{before}\nOptions of the engines, with their defaults:", *lines, f"{raises}{after}"]
    )
    return function
