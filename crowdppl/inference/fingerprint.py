"""Descriptions of models and options as text that is the same in every process, by which fits are distinguished."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from crowdppl.model.bound import BoundModel

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def described(value: Any, within: tuple[int, ...] = ()) -> str:
    """Return a value as text that depends on its content only: without memory addresses, and with all numbers.

    Args:
        value: anything.
        within: ``id`` of the objects that contain it; a function may close over itself.
    """
    if isinstance(value, (str, bytes, int, float, complex, bool, type(None), type)):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {_digest(value.detach().cpu().contiguous().view(-1).view(torch.uint8))}"
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape} {_digest(value)}"
    name = type(value).__qualname__
    if isinstance(value, (pd.DataFrame, pd.Series, pd.Index)):
        axes = [described(list(axis), within) for axis in getattr(value, "axes", [])]
        return f"{name} {axes} {described(value.to_numpy(), within)}"
    if isinstance(value, (set, frozenset)):
        return f"{name} {sorted(described(part, within) for part in value)}"
    if id(value) in within:
        return f"{name} again"
    within = (*within, id(value))
    if isinstance(value, np.ndarray):
        return described(value.tolist(), within)
    if isinstance(value, nn.Module):
        return f"{name} {_ADDRESS.sub('', repr(value))} {described(value.state_dict(), within)}"
    if isinstance(value, FunctionType):
        closed = [_enclosed(cell, within) for cell in value.__closure__ or ()]
        defaults = described((value.__defaults__, value.__kwdefaults__), within)
        return f"function {_code(value.__code__)} {defaults} {closed}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{described(k, within)}: {described(v, within)}' for k, v in value.items()))}}}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(described(part, within) for part in value)})"
    own = _own(value)
    return f"{name} {described(own, within) if own else _ADDRESS.sub('', repr(value))}"


def _enclosed(cell: CellType, within: tuple[int, ...]) -> str:
    try:
        return described(cell.cell_contents, within)
    except ValueError:  # not yet assigned
        return "empty"


def _own(value: Any) -> dict[str, Any]:
    """Return a dataclass's fields, or an object's attributes without those computed from others."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    computed = {name for kind in type(value).__mro__ for name, part in vars(kind).items() if hasattr(part, "__get__")}
    return {name: part for name, part in getattr(value, "__dict__", {}).items() if name not in computed}


def of_model(bound: BoundModel) -> str:
    """Return what identifies a model: its class, hyperparameters, and networks with their weights.

    A function that builds a network is identified by the network. Classes outside of the library are also identified by the code
    of their methods.
    """
    model = bound.model
    networks = {} if bound.networks is None else bound.networks.modules
    fields = {name: value for name, value in _own(model).items() if not (networks and callable(value))}
    methods = {
        f"{kind.__qualname__}.{name}": described(value)
        for kind in type(model).__mro__
        if kind.__module__.partition(".")[0] not in ("crowdppl", "builtins", "abc", "typing")
        for name, value in vars(kind).items()
        if isinstance(value, FunctionType)
    }
    return f"{type(model).__qualname__} {described(fields)} {described(networks)} {described(methods)}"


def _digest(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _code(code: CodeType) -> str:
    parts = [_code(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {parts}"
