"""Threads of OpenMP that sleep while they wait: torch's would otherwise spin, and take cores from the threads they wait for.

GNU's OpenMP, which torch's builds for Linux use, reads how to wait from the environment when it is loaded, once. So the variable
is there while torch is imported, if that happens after the library was imported, and is gone afterwards: other programs that
this process starts are not affected. Nothing is changed if torch is already imported or the user has decided how to wait.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from crowdppl.isolation import threads

POLICY = "OMP_WAIT_POLICY"
# By any of these the user decides.
DECIDED = (POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@contextmanager
def sleeping_threads() -> Iterator[None]:
    """Have OpenMP's threads sleep while they wait, where OpenMP is loaded in the block."""
    if any(name in os.environ for name in DECIDED):
        yield
        return
    os.environ[POLICY] = "passive"
    try:
        yield
    finally:
        os.environ.pop(POLICY, None)


class _Loader:
    """Loads torch by its own loader, then sets its number of threads."""

    def __init__(self, own: Any):
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self.own.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self.own
        with sleeping_threads():
            self.own.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        threads.follow(module)


class _Finder:
    """Finds torch, as the other finders do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        others = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        spec = next((one for finder in others if (one := finder.find_spec(fullname, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # the two methods that imports call
        return spec


def watch() -> None:
    """Have the threads of torch sleep while they wait, if it is imported later in this process."""
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, _Finder())
