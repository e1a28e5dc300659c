"""Types of arguments by name, each with its check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy.typing as npt

from crowdppl.arguments import checks, objects

if TYPE_CHECKING:
    import torch

Seed = Annotated[int, checks.seed]
PositiveInt = Annotated[int, checks.whole(1)]
NonNegativeInt = Annotated[int, checks.whole(0)]
TwoOrMore = Annotated[int, checks.whole(2)]
PositiveFloat = Annotated[float, checks.positive]
NonNegativeFloat = Annotated[float, checks.at_least_zero]
Share = Annotated[float, checks.share]
Probability = Annotated[float, checks.probability]
Level = Annotated[float, checks.level]
Identifier = Annotated[Any, checks.identifier]
Column = Annotated[str, checks.anything]  # of a table: looked up there, and names of columns may be of any type
InputPath = Annotated[str | Path, checks.input_path]
OutputFile = Annotated[str | Path, checks.output_file]
Folder = Annotated[str | Path, checks.folder]
Checkpoints = Annotated[str | Path | tuple[str | Path, float], checks.folder_at_intervals]
Device = Annotated["str | torch.device", objects.device]
Confusions = Annotated[npt.NDArray[Any], objects.confusions]
Prevalences = Annotated[npt.NDArray[Any], objects.prevalences]
