"""What an engine takes besides model, data and options: a function to call with its progress, and the place of its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from crowdppl.inference.checkpoint import NOTHING, Checkpoint
from crowdppl.inference.progress import ProgressCallback, silent

Model = TypeVar("Model")
Data = TypeVar("Data")
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Hooks:
    """What a run calls between its steps, whatever its engine.

    Attributes:
        report: called with progress.
        keep: the checkpoint, from which a stopped run continues.
    """

    report: ProgressCallback = silent
    keep: Checkpoint = NOTHING


# Of a run within another one.
SILENT = Hooks()
# An engine: model, data, its options, and hooks. The type of the options is the engine's own, in crowdppl.inference.options.
Engine: TypeAlias = Callable[[Model, Data, Any, Hooks], Drawn]
