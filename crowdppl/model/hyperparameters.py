"""A model's own numbers: checks for its ``__post_init__``, in one wording for all models, and what its docstring says of them."""

from __future__ import annotations

import inspect
import numbers
import re
from collections.abc import Callable, Sequence
from typing import Any

from crowdppl.arguments import shown
from crowdppl.errors import ModelError


def require_answers(model: Any, *names: str) -> None:
    """Require imaginary answers, items or workers: finite numbers of at least 0."""
    _require(model, names, lambda value: 0 <= value < float("inf"), "a number of at least 0")


def require_positive(model: Any, *names: str) -> None:
    """Require finite numbers above 0."""
    _require(model, names, lambda value: 0 < value < float("inf"), "a positive number")


def require_above(model: Any, least: float, *names: str) -> None:
    """Require finite numbers above ``least``."""
    _require(model, names, lambda value: least < value < float("inf"), f"a number above {least:g}")


def require_share(model: Any, *names: str) -> None:
    """Require numbers of at least 0 and below 1."""
    _require(model, names, lambda value: 0 <= value < 1, "a number of at least 0 and below 1")


def require_whole(model: Any, *names: str, least: int = 1) -> None:
    """Require whole numbers of at least ``least``."""
    _require(
        model, names, lambda value: isinstance(value, int) and value >= least, f"a whole number of at least {least}"
    )


def require_one_of(model: Any, name: str, choices: Sequence[str]) -> None:
    """Require one of some words."""
    value = getattr(model, name)
    if not isinstance(value, str) or value not in choices:
        raise ModelError(f"{type(model).__name__}: {name} is {shown(value)}; use {' or '.join(map(repr, choices))}")


def _require(model: Any, names: Sequence[str], valid: Callable[[Any], bool], wanted: str) -> None:
    for name in names:
        value = getattr(model, name)
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not valid(value):
            raise ModelError(f"{type(model).__name__}: {name} is {shown(value)}; it must be {wanted}")


def summary(kind: type[Any]) -> str:
    """Return the first line of a model's docstring."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n")[0].replace("``", "")


def described(kind: type[Any]) -> dict[str, str]:
    """Return what a model's docstring says of each of its fields, from the section ``Attributes``."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:\n")
    section = re.split(r"\n(?=\S)", section, maxsplit=1)[0]  # up to the next line without indentation
    entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(words.replace("``", "").split()) for name, words in zip(entries[::2], entries[1::2], strict=True)
    }
