"""What the commands for annotations beyond memory, ``stream`` and ``distribute``, write and print alike."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdppl.cli.application import console

if TYPE_CHECKING:
    from crowdppl.inference.scale.result import LargeResult


def written(
    result: LargeResult, folder: Path, start: float, asked: Mapping[str, Any], facts: Mapping[str, Any]
) -> float:
    """Write the table of workers and the record of the run, and return the seconds that it took.

    Args:
        result: of the fit.
        folder: to write to.
        start: when the run began, by ``time.perf_counter``.
        asked: model, method, options and input, for the record.
        facts: of the run, for the record.
    """
    from crowdppl import export
    from crowdppl.export import results
    from crowdppl.inference.scale.result import described

    export.write(result.workers, folder / "workers.csv")
    seconds = time.perf_counter() - start
    results.write_run(folder, {**asked, **described(result), **facts, "seconds": seconds})
    return seconds


def show(result: LargeResult, seconds: float, more: str = "") -> None:
    """Print how much was fitted, in which time, and by what; ``more`` continues the first sentence."""
    size = f"{result.annotations:,} annotations of {result.items:,} items by {len(result.workers):,} workers"
    console.print(f"{size} in {seconds:.1f} s{more}.")
    console.print(f"By {result.interval_method}.")
