"""A model's own numbers: checks for its ``__post_init__``, in one wording for all models, and what its docstring says of them."""

from __future__ import annotations

import inspect
import math
import numbers
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from crowdppl.arguments import shown
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError


def require_pseudo_counts(model: Any, *names: str) -> None:
    """Require numbers of pseudo-annotations, pseudo-items or pseudo-workers: finite and at least 0."""
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


def require_concentration(model: Any, value: Any) -> None:
    """Require a Dirichlet concentration of confusion rows: a square table of positive numbers."""
    try:
        rows = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        rows = torch.zeros(0)
    square = rows.dim() == 2 and rows.shape[0] == rows.shape[1] > 1
    if not square or not bool(((rows > 0) & torch.isfinite(rows)).all()):
        raise ModelError(
            f"{type(model).__name__}: concentration must be a (K, K) table of positive numbers, (true label, given label)"
        )


def require_numbers(model: Any, name: str, count: int) -> None:
    """Require a tuple of finite numbers."""
    value = getattr(model, name)
    if (
        not isinstance(value, tuple)
        or len(value) != count
        or not all(type(part) in (int, float) and math.isfinite(part) for part in value)
    ):
        raise ModelError(f"{type(model).__name__}: {name} is {shown(value)}; it must be a tuple of {count} numbers")


def require_shares(model: Any, name: str) -> None:
    """Require a tuple of positive numbers with sum 1."""
    value = getattr(model, name)
    numbers = isinstance(value, tuple) and all(type(part) in (int, float) and 0 < part < math.inf for part in value)
    if not numbers or abs(sum(value) - 1) > 1e-6:
        raise ModelError(
            f"{type(model).__name__}: {name} is {shown(value)}; it must be a tuple of positive shares with sum 1, one of each "
            f"class"
        )


def refuse_weights(method: str, data: Annotations | None) -> str | None:
    """Return why a Gibbs sampler that draws whole counts does not suit the item weights of data; ``None`` where all is well."""
    if method != "gibbs" or data is None or data.weight is None or bool((data.weight == data.weight.round()).all()):
        return None
    return (
        "its Gibbs sampler draws whole counts, and the item weights are not whole numbers; use method='nuts' or 'svi'"
    )


def refuse_one_class(data: Annotations | None) -> str | None:
    """Return why a model of at least two classes does not suit data; ``None`` where they have two."""
    if data is None or data.K > 1:
        return None
    return (
        f"the data have one class, {data.labels[0]!s}, and the model needs two; declare all classes with labels=[...]"
    )


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
