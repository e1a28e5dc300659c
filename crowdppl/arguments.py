"""Checks of arguments: every public argument is checked, and an invalid one is refused in one line with its name.

A check is a function ``(name, value) -> value`` that returns the value in the expected type, or raises. :func:`checked` reads the
checks of a function's arguments from their types: ``seed: Seed``, ``classes: Annotated[int, whole(2)]``, ``data: Annotations``.
``None`` is accepted if it is the default, or the type allows it.

The command imports this module for its options: torch is imported by the checks that need it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import numbers
import os
import re
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from crowdppl.errors import CrowdpplError, DataError, FileError, OptionError, suggestion

if TYPE_CHECKING:
    import torch

Check = Callable[[str, Any], Any]
P = ParamSpec("P")
R = TypeVar("R")

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


# ---------------------------------------------------------------------- the decorator


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a function before it runs, each by its type in the signature (:func:`check_of`)."""
    read = functools.cache(lambda: _read(function))  # at the first call, when the names of the module are known

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        signature, checks, optional = read()
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python's own message names the function and what is missing
        for name, value in given.arguments.items():
            if name in checks and not (value is None and name in optional):
                given.arguments[name] = checks[name](name, value)
        return function(*given.args, **given.kwargs)

    call.__checks__ = read  # type: ignore[attr-defined]  # for checks_of
    return call


def checks_of(function: Callable[..., Any]) -> dict[str, Check] | None:
    """Return the checks of a function by argument, the dictionary that its calls use; ``None`` for one that is not checked.

    Raises:
        TypeError: a type in the signature cannot be read.
    """
    read = getattr(function, "__checks__", None)
    return None if read is None else read()[1]


def takes_none(parameter: inspect.Parameter) -> bool:
    """Return whether ``None`` is valid: it is the default, or the type allows it."""
    return parameter.default is None or re.search(r"\bNone\b", str(parameter.annotation)) is not None


def _read(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Check], set[str]]:
    """Return the signature of a function, its checks, and the names of arguments that may be ``None``."""
    signature = inspect.signature(function)
    checks = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue  # whoever takes them checks them
        try:
            check = check_of(parameter.annotation, function.__globals__)
        except (NameError, AttributeError) as error:
            raise TypeError(
                f"{function.__module__}.{function.__qualname__}: cannot read {name}: {parameter.annotation} ({error}); import "
                "the type outside TYPE_CHECKING, or write Annotated[type, check], of which only the check is read"
            ) from error
        if check is not None:
            checks[name] = check
    return signature, checks, {name for name, parameter in signature.parameters.items() if takes_none(parameter)}


def check_of(annotation: Any, names: dict[str, Any]) -> Check | None:
    """Return the check of the type of an argument; ``None`` if it has none, and the function checks the argument itself.

    - ``Annotated[type, check]`` and names for it, such as :data:`Seed`, have this check. The type itself is not read, so that it
      may be imported under ``TYPE_CHECKING``.
    - ``Literal[...]``, ``bool`` and ``str`` have those of a word, a flag and text.
    - Classes have those in ``INSTANCES``, by name; a union of them takes an instance of any.

    Args:
        annotation: the type, or its source, which is what ``from __future__ import annotations`` leaves.
        names: globals of the function.

    Raises:
        NameError: a type that may have a check is not known in the function's module.
        AttributeError: likewise, in another module.
    """
    return (
        _in_source(ast.parse(annotation, mode="eval").body, names)
        if isinstance(annotation, str)
        else _in_type(annotation)
    )


def _in_source(node: ast.expr, names: dict[str, Any]) -> Check | None:
    """Return the check of a type in source."""
    if isinstance(node, ast.BinOp):
        return _of_union([_in_source(part, names) for part in _parts(node)])
    if isinstance(node, ast.Subscript):
        within = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if _last_name(node.value) == "Literal":
            return choice(*map(ast.literal_eval, within))
        # Of other types nothing is read, since not all can be evaluated, such as pd.Series[Any].
        return _first([_value(part, names) for part in within[1:]]) if _last_name(node.value) == "Annotated" else None
    if isinstance(node, ast.Constant):  # a type in quotes, or None
        return check_of(node.value, names) if isinstance(node.value, str) else None
    by_name = _CLASSES.get(_last_name(node))
    return by_name or _in_type(_value(node, names))


def _in_type(kind: Any) -> Check | None:
    """Return the check of a type."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _of_union([_in_type(part) for part in get_args(kind) if part is not types.NoneType])
    if origin is Annotated:
        return _first(kind.__metadata__)
    if origin is Literal:
        return choice(*get_args(kind))
    return _CLASSES.get(kind.__name__) if isinstance(kind, type) else None


def _of_union(checks: Sequence[Check | None]) -> Check | None:
    """Return the check of a union without ``None``: that of its only type, or one that takes an instance of several classes."""
    if len(checks) == 1:
        return checks[0]
    classes = [check for check in checks if check is not None and check in INSTANCES.values()]
    return one_of(*classes) if len(classes) == len(checks) else None


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return the types of a union in source, without ``None``."""
    if isinstance(node, ast.BinOp):
        return [*_parts(node.left), *_parts(node.right)]
    return [] if isinstance(node, ast.Constant) and node.value is None else [node]


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<type of an argument>", "eval"), names)


def _first(metadata: Iterable[Any]) -> Check | None:
    return next((part for part in metadata if callable(part)), None)


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
    wanted = f"a number {' and '.join(bounds)}" if bounds else "a finite number"

    def check(name: str, value: Any) -> float:
        if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)):
            raise refuse(name, value, wanted)
        given = float(value)
        if not math.isfinite(given):
            raise refuse(name, value, wanted)
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
        values = _array(value)
        if values is None or values.dtype.kind not in "iuf" or values.ndim < axes or not np.isfinite(values).all():
            raise refuse(name, value, wanted)
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
        values = value if isinstance(value, np.ndarray) else _array(value)
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


def _array(value: Any) -> Any:
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


# ---------------------------------------------------------------------- objects


def instance(module: str, kind: str, how: str) -> Check:
    """Accept an instance of a class, which is imported on use since all modules import this one.

    Args:
        module: module of the class.
        kind: name of the class.
        how: how to obtain an instance, for the message.
    """

    def check(name: str, value: Any) -> Any:
        from importlib import import_module

        if not isinstance(value, getattr(import_module(module), kind)):
            raise DataError(f"{name} is {_a(value)}; pass {how}")
        return value

    return check


def not_numeric(check: Check, sentence: str) -> Check:
    """Refuse annotations and results whose labels are numbers with a sentence of their own, before another check."""

    def both(name: str, value: Any) -> Any:
        if type(value).__name__ in ("NumericAnnotations", "NumericPosterior"):
            raise DataError(f"{name} {sentence}")
        return check(name, value)

    return both


def one_of(*checks: Check) -> Check:
    """Accept what one of several checks accepts; the message is that of the first."""

    def check(name: str, value: Any) -> Any:
        for other in checks[1:]:
            try:
                return other(name, value)
            except CrowdpplError:
                continue
        return checks[0](name, value)

    return check


def _a(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


confusions = array("draw", "worker", "class", "class")
prevalences = array("draw", "class")
posterior = not_numeric(
    instance("crowdppl.posterior.posterior", "Posterior", "a result of crowdppl.fit or crowdppl.load"),
    "is a result whose labels are numbers, for which this is not available",
)
numeric_posterior = instance(
    "crowdppl.posterior.numbers", "NumericPosterior", "a result of crowdppl.fit whose labels are numbers"
)
numeric_data = instance("crowdppl.data.numeric", "NumericAnnotations", "annotations that were read with kind='numeric'")
annotation_data = not_numeric(
    instance("crowdppl.data.annotations", "Annotations", "crowdppl.Annotations"),
    "has labels that are numbers, for which this is not available; kind='nominal' or kind='ordinal' reads classes or grades",
)
any_data = one_of(annotation_data, numeric_data)
any_posterior = one_of(posterior, numeric_posterior)
groups_of_copies = several(instance("crowdppl.data.copies", "Copies", "groups, as copied_answers returns them"), 0)


def worker_table(name: str, value: Any) -> Any:
    """Accept a table of workers as ``Posterior.workers`` returns it."""
    if not {"worker", "verdict"} <= set(getattr(value, "columns", ())):
        raise refuse(name, value, "a table of workers, as posterior.workers() returns it")
    return value


def table_of(how: str, *columns: str) -> Check:
    """Accept a table with some columns, as a function returns it.

    Args:
        how: how to obtain such a table, for the message.
        *columns: its columns.
    """

    def check(name: str, value: Any) -> Any:
        if not set(columns) <= set(getattr(value, "columns", ())):
            raise refuse(name, value, f"a table, as {how} returns it")
        return value

    return check


def some_draws(name: str, value: Any) -> Any:
    """Accept an array of numbers with draws along its first axis; values may be NaN."""
    values = _array(value)
    if values is None or values.dtype.kind not in "iubf" or not values.ndim or not len(values):
        raise refuse(name, value, "an array of numbers, draws along its first axis")
    return values


def mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """Accept a mapping."""
    if not isinstance(value, Mapping):
        raise refuse(name, value, "a mapping")
    return value


def tensor(name: str, value: Any) -> torch.Tensor:
    """Accept a tensor with at least one axis."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.dim():
        raise refuse(name, value, "a tensor")
    return value


def indices(name: str, value: Any) -> torch.Tensor:
    """Accept a tensor of indices, whose numbers are not read: on a GPU that would wait for all earlier work."""
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype != torch.int64 or value.dim() != 1:
        raise refuse(name, value, "a tensor of whole numbers of at least 0, one axis, int64")
    return value


def positions(name: str, value: Any) -> torch.Tensor:
    """Accept a tensor of indices, integers of at least 0."""
    if bool((indices(name, value) < 0).any()):
        raise refuse(name, value, "a tensor of whole numbers of at least 0, one axis, int64")
    return value


def mask(name: str, value: Any) -> torch.Tensor:
    """Accept a boolean mask as a tensor."""
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype != torch.bool or value.dim() != 1:
        raise refuse(name, value, "a tensor of True and False with one axis")
    return value


def floating(name: str, value: Any) -> torch.dtype:
    """Accept a floating type supported by the library."""
    import torch

    if not isinstance(value, torch.dtype) or value not in (torch.float32, torch.float64):
        given = value if isinstance(value, torch.dtype) else shown(value)
        raise OptionError(f"{name}={given}; it must be a floating type, torch.float64 or torch.float32")
    return value


def by_item(name: str, value: Any) -> Any:
    """Accept a mapping, or a Series indexed by item."""
    if not isinstance(value, Mapping) and not (
        hasattr(value, "index") and hasattr(value, "items") and getattr(value, "ndim", 0) == 1
    ):
        raise refuse(name, value, "a mapping or a Series by item")
    return value


def place(name: str, value: Any) -> torch.device:
    """Accept the name of a device known to torch."""
    import torch

    try:
        return torch.device(value)
    except (RuntimeError, TypeError):
        raise OptionError(f"{name}={shown(value)}: no such device; use 'cpu', 'cuda' or 'cuda:0'") from None


def device(name: str, value: Any) -> torch.device:
    """Accept the name of a device available on this machine."""
    import torch

    torch_device = place(name, value)
    if torch_device.type not in ("cpu", "cuda"):
        raise OptionError(f"{name}={str(torch_device)!r}; fits run on 'cpu' or 'cuda'")
    if torch_device.type == "cuda":
        if not torch.cuda.is_available():
            raise OptionError(f"{name}={str(torch_device)!r}, but torch finds no CUDA device here; use {name}='cpu'")
        if torch_device.index is not None and torch_device.index >= torch.cuda.device_count():
            raise OptionError(
                f"{name}={str(torch_device)!r}; torch finds {torch.cuda.device_count()} CUDA devices here"
            )
    return torch_device


# ---------------------------------------------------------------------- types with checks

Seed = Annotated[int, seed]
PositiveInt = Annotated[int, whole(1)]
NonNegativeInt = Annotated[int, whole(0)]
TwoOrMore = Annotated[int, whole(2)]
PositiveFloat = Annotated[float, positive]
NonNegativeFloat = Annotated[float, at_least_zero]
Share = Annotated[float, share]
Probability = Annotated[float, probability]
Level = Annotated[float, level]
Identifier = Annotated[Any, identifier]
Column = Annotated[str, anything]  # of a table: looked up there, and names of columns may be of any type
InputPath = Annotated[str | Path, input_path]
OutputFile = Annotated[str | Path, output_file]
Folder = Annotated[str | Path, folder]
Device = Annotated["str | torch.device", device]
Confusions = Annotated[npt.NDArray[Any], confusions]
Prevalences = Annotated[npt.NDArray[Any], prevalences]

# Checks of classes, by name: the classes are of later modules, or slow to import.
INSTANCES = {
    "AnnotationModel": instance("crowdppl.model.base", "AnnotationModel", "an instance of a crowdppl.AnnotationModel"),
    "Annotations": annotation_data,
    "NumericAnnotations": numeric_data,
    "Posterior": posterior,
    "PosteriorVariables": posterior,
    "NumericPosterior": numeric_posterior,
    "JudgesResult": instance("crowdppl.judges.result", "JudgesResult", "a result of crowdppl.judges.fit"),
    "CriteriaResult": instance("crowdppl.judges.criteria_result", "CriteriaResult", "a result of crowdppl.judges.fit"),
    "Verdicts": instance("crowdppl.judges.verdicts", "Verdicts", "crowdppl.judges.Verdicts"),
    "Training": instance("crowdppl.learning", "Training", "crowdppl.learning.Training(...)"),
    "Actions": instance("crowdppl.report.plan", "Actions", "the result of report.actions"),
    "Axes": instance("matplotlib.axes", "Axes", "axes of matplotlib, such as plt.gca()"),
    "DataFrame": instance("pandas", "DataFrame", "a pandas DataFrame"),
}
_CLASSES: dict[str, Check] = {"bool": flag, "str": text, **INSTANCES}
