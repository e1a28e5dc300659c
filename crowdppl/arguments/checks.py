"""Checks of values: numbers, words, lists, arrays and paths.

A check is a function ``(name, value) -> value`` that returns the value in the expected type, or raises in one line with the name.
"""

from __future__ import annotations

import math
import numbers
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crowdppl.errors import DataError, FileError, OptionError, suggestion

Check = Callable[[str, Any], Any]

# The largest seed that torch accepts.
LARGEST_SEED = 2**63 - 1
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def shown(value: Any) -> str:
    """Return a value as text for messages: short and on one line; tables and arrays by their type."""
    plain = value is None or isinstance(value, (str, bytes, bool, numbers.Number, list, tuple, dict, set, os.PathLike))
    return " ".join(_SHORT.repr(value).split()) if plain else f"<{type(value).__name__}>"


def refuse(name: str, value: Any, wanted: str) -> OptionError:
    """Return the error for an invalid value of an argument."""
    return OptionError(f"{name}={shown(value)}; it must be {wanted}")


# ---------------------------------------------------------------------- numbers


def whole(at_least: int = 0, at_most: int | None = None) -> Check:
    """Accept a whole number."""
    wanted = (
        f"a whole number of at least {at_least}" if at_most is None else f"a whole number from {at_least} to {at_most}"
    )

    def check(name: str, value: Any) -> int:
        plain = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
        if not plain or value < at_least or (at_most is not None and value > at_most):
            raise refuse(name, value, wanted)
        return int(value)

    return check


def number(
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> Check:
    """Accept a finite number within bounds."""
    bounds = [
        f"{words} {bound:g}"
        for words, bound in (("of at least", at_least), ("above", above), ("at most", at_most), ("below", below))
        if bound is not None
    ]
    finite = " ".join(["a finite number", " and ".join(bounds)]).strip()
    wanted = f"a number {' and '.join(bounds)}" if bounds else finite

    def check(name: str, value: Any) -> float:
        if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)):
            raise refuse(name, value, wanted)
        given = float(value)
        if not math.isfinite(given):
            raise refuse(name, value, finite)
        outside = (
            (at_least is not None and given < at_least)
            or (above is not None and given <= above)
            or (at_most is not None and given > at_most)
            or (below is not None and given >= below)
        )
        if outside:
            raise refuse(name, value, wanted)
        return given

    return check


positive = number(above=0)
at_least_zero = number(at_least=0)
share = number(at_least=0, at_most=1)
seed = whole(0, LARGEST_SEED)


def between(low: float, high: float, such_as: float) -> Check:
    """Accept a number strictly between two others."""
    plain = number(above=low, below=high)

    def check(name: str, value: Any) -> float:
        try:
            return float(plain(name, value))
        except OptionError:
            raise refuse(name, value, f"between {low:g} and {high:g}, such as {such_as:g}") from None

    return check


probability = between(0, 1, 0.95)


def level(name: str, value: Any) -> float:
    """Accept the probability of an interval."""
    try:
        return float(probability(name, value))
    except OptionError:
        raise OptionError(
            f"{name}={shown(value)}; an interval's probability lies between 0 and 1, such as 0.89"
        ) from None


# ---------------------------------------------------------------------- words and switches


def flag(name: str, value: Any) -> bool:
    """Accept ``True`` or ``False``, but no other value with a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise refuse(name, value, "True or False")
    return bool(value)


def text(name: str, value: Any) -> str:
    """Accept text."""
    if not isinstance(value, str):
        raise refuse(name, value, "text")
    return value


def choice(*choices: str) -> Check:
    """Accept one of several words."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            near = suggestion(value, choices) if isinstance(value, str) else ""
            listed = (
                f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}" if len(choices) > 1 else repr(choices[0])
            )
            raise OptionError(f"{name}={shown(value)}; use {listed}{near}")
        return value

    return check


def function(name: str, value: Any) -> Callable[..., Any]:
    """Accept a function."""
    if not callable(value):
        raise refuse(name, value, "a function")
    return value


def network(name: str, value: Any) -> Any:
    """Accept a module, or a function that makes one."""
    if not callable(value):
        raise refuse(
            name, value, "a torch.nn.Module, or a function of the numbers of inputs and outputs that returns one"
        )
    return value


def progress(name: str, value: Any) -> Any:
    """Accept a boolean, or a function that is called with ``(step, steps, what)``."""
    if not callable(value) and not isinstance(value, (bool, np.bool_)):
        raise refuse(name, value, "True, False or a function (step, steps, what)")
    return value


def anything(name: str, value: Any) -> Any:
    """Accept any value of a type that has a check: the function checks it itself, against data or another argument."""
    return value


# ---------------------------------------------------------------------- several values


def several(each: Check, at_least: int = 1, *, distinct: bool = False) -> Check:
    """Accept a list (or any other iterable except text) of values that pass ``each``."""

    def check(name: str, value: Any) -> list[Any]:
        values = _listed(name, value, at_least)
        values = [each(f"{name}[{n}]", one) for n, one in enumerate(values)]
        if distinct:
            _distinct(name, values)
        return values

    return check


def identifier(name: str, value: Any) -> Any:
    """Accept an identifier: text, a number, a date or any other hashable value."""
    try:
        hash(value)
    except TypeError:
        raise refuse(name, value, "a name") from None
    return value


def identifiers(name: str, value: Any) -> list[Any]:
    """Accept a list of different identifiers, at least one."""
    values = _listed(name, value, 1)
    _distinct(name, values)
    return values


def _listed(name: str, value: Any, at_least: int) -> list[Any]:
    dimensions = getattr(value, "ndim", 1)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable) or dimensions != 1:
        raise refuse(name, value, "a list")
    values = value.tolist() if hasattr(value, "tolist") else list(value)
    if len(values) < at_least:
        raise OptionError(
            f"{name} has {len(values):,} values; at least {at_least:,} {'is' if at_least == 1 else 'are'} needed"
        )
    return values


def _distinct(name: str, values: Sequence[Any]) -> None:
    known: set[Any] = set()
    for value in values:
        identifier(name, value)
        if value in known:
            raise OptionError(f"{name} contains {shown(value)} more than once; list each value once")
        known.add(value)


def a_list(name: str, value: Any) -> Any:
    """Accept several values in any form except text, and return them unchanged."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:
        raise DataError(str(refuse(name, value, "a list")))
    return value


def amounts(at_least: float | None = None, at_most: float | None = None, axes: int = 0) -> Check:
    """Accept a number, or an array of numbers with at least ``axes`` axes, all finite and within bounds."""
    wanted = "numbers" if at_least is None else f"numbers of at least {at_least:g}"
    wanted = wanted if at_most is None else f"numbers from {at_least:g} to {at_most:g}"
    wanted = wanted if not axes else f"an array of {wanted}"

    def check(name: str, value: Any) -> Any:
        values = as_array(value)
        if values is None or values.dtype.kind not in "iuf" or values.ndim < axes:
            raise refuse(name, value, wanted)
        if not np.isfinite(values).all():
            raise refuse(name, value, wanted.replace("numbers", "finite numbers", 1))
        if axes and not values.size:
            raise refuse(name, value, wanted)
        if (at_least is not None and (values < at_least).any()) or (at_most is not None and (values > at_most).any()):
            raise refuse(name, value, wanted)
        return value if not axes else values

    return check


def array(*shape: str, kind: str = "number") -> Check:
    """Accept an array of numbers with named axes; axes of the same name have the same length.

    Args:
        *shape: names of the axes, such as ``"draw", "worker"``; a digit is a length.
        kind: ``"number"`` or ``"whole"``.
    """
    wanted = (
        f"an array of {'whole ' if kind == 'whole' else ''}numbers ({', '.join(shape)}{',' if len(shape) == 1 else ''})"
    )

    def check(name: str, value: Any) -> Any:
        values = value if isinstance(value, np.ndarray) else as_array(value)
        kinds = "iub" if kind == "whole" else "iubf"
        if values is None or values.ndim != len(shape) or values.dtype.kind not in kinds or not len(values):
            came = f"an array of shape {values.shape}" if values is not None and values.ndim else shown(value)
            raise OptionError(f"{name} is {came}; it must be {wanted}")
        lengths: dict[str, int] = {}
        for axis, length in zip(shape, values.shape, strict=True):
            if lengths.setdefault(axis, int(axis) if axis.isdigit() else length) != length:
                raise OptionError(f"{name} has shape {values.shape}; it must be {wanted}")
        return values

    return check


def as_array(value: Any) -> Any:
    """Return a value as an array, ``None`` where it is none."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        return np.asarray(value)
    except (ValueError, TypeError):  # ragged, or of several types
        return None


# ---------------------------------------------------------------------- files


def input_path(name: str, value: Any) -> Path:
    """Accept the path of an input; the reader checks whether it exists."""
    return _path(name, value)


def output_file(name: str, value: Any) -> Path:
    """Accept the path of a file to write, in an existing folder."""
    path = _path(name, value)
    if path.is_dir():
        raise FileError(f"cannot write {path}: {name} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    return path


def folder(name: str, value: Any) -> Path:
    """Accept the path of a folder, which need not exist."""
    path = _path(name, value)
    if path.exists() and not path.is_dir():
        raise FileError(f"{name}={str(path)!r} is a file; name a folder")
    return path


def folder_at_intervals(name: str, value: Any) -> Path | tuple[Path, float]:
    """Accept the path of a folder, or this and the seconds between two writes to it."""
    if isinstance(value, (str, os.PathLike)):
        return folder(name, value)
    pair = isinstance(value, tuple) and len(value) == 2
    if not pair or not isinstance(value[0], (str, os.PathLike)):
        wanted = "a folder, or a tuple of a folder and the seconds between two writes, such as ('state', 60)"
        raise refuse(name, value, wanted)
    return folder(name, value[0]), at_least_zero(f"{name}[1]", value[1])


def _path(name: str, value: Any) -> Path:
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(given, str):
        kind = type(value).__name__
        article = "an" if kind[0] in "aeiou" else "a"
        raise FileError(f"{name}: {article} {kind} is not the path of a file or folder; pass a string or a Path")
    if not given.strip():
        raise FileError(f"{name}={shown(value)}; it must be a path")
    if "\0" in given:
        raise FileError(f"{name}={shown(value)}; a path cannot contain a NUL character")
    return Path(given)
