"""Threads of Python for work that releases its lock: compiled functions, and numpy's on large arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from crowdppl.isolation.threads import threads_outside

T = TypeVar("T")


class Threads:
    """Some threads of Python.

    Args:
        most: of the threads; there are no more than torch has.
    """

    def __init__(self, most: int):
        from concurrent.futures import ThreadPoolExecutor  # here: not needed to import the library

        self.pool = ThreadPoolExecutor(count) if (count := min(most, threads_outside())) > 1 else None

    def all(self, tasks: Iterable[Callable[[], T]]) -> list[T]:
        """Return what tasks return, in threads if there are any."""
        if self.pool is None:
            return [task() for task in tasks]
        return list(self.pool.map(lambda task: task(), tasks))

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown()
