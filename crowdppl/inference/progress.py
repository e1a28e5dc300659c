"""Progress of a fit: a bar in the terminal, or a function of the caller's."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Called by engines with the step, the number of steps and a description.
ProgressCallback = Callable[[int, int, str], None]


def silent(step: int, steps: int, description: str) -> None:
    """Show nothing."""


@contextmanager
def progress_bar(progress: bool | ProgressCallback, method: str) -> Iterator[ProgressCallback]:
    """Yield a function to call with progress: the caller's, one that moves a bar in the terminal, or one that does nothing.

    Args:
        progress: whether to show a bar, or a function to call with ``(step, steps, description)``.
        method: the engine's name, shown beside the bar.
    """
    if callable(progress):
        yield progress
        return
    if not progress:
        yield silent
        return
    stream = random.getstate()
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    random.setstate(stream)  # the first import of rich draws from Python's random stream
    columns = (TextColumn(method), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda step, steps, description: bar.update(task, completed=step, total=steps, description=description)
        bar.update(task, completed=1, total=1, description="done")
