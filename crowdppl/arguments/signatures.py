"""The decorator of public functions, and how it reads the check of an argument from its type."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import types
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from crowdppl.arguments.checks import Check, choice
from crowdppl.arguments.objects import CLASSES, INSTANCES, one_of
from crowdppl.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")
# Arguments of earlier versions: the argument that took their place, and what is written there.
MOVED = {"every": ("checkpoint", "the seconds between two writes stand beside the folder: checkpoint=('state', 60)")}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a function before it runs, each by its type in the signature (:func:`check_of`)."""
    read = functools.cache(lambda: _read(function))  # at the first call, when the names of the module are known

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        signature, checks, optional = read()
        refuse_moved(signature.parameters, kwargs)
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


def refuse_moved(parameters: Container[str], names: Iterable[str]) -> None:
    """Refuse arguments of earlier versions where a function has what took their place, and no argument of that name.

    Args:
        parameters: names of the function's arguments.
        names: of those that were given.

    Raises:
        OptionError: for the first, with what is written in its place.
    """
    for name in names:
        place, advice = MOVED.get(name, ("", ""))
        if place in parameters and name not in parameters:
            raise OptionError(f"{name}= is no longer an argument; {advice}")


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
    by_name = CLASSES.get(_last_name(node))
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
    return CLASSES.get(kind.__name__) if isinstance(kind, type) else None


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
