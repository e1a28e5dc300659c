"""How much memory this process may still use: by the machine, its control groups (Linux) and its own limits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from crowdppl.isolation.cores import system_text, upwards

# Files of a control group, by version: its limit, its use, and in its statistics the cache of files, which is given up on demand.
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def available_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may still use, at least 0; ``sys.maxsize`` where nothing is known.

    Args:
        root: where ``proc`` and ``sys`` are.
    """
    bounds = [*_of_machine(root), *_of_groups(root), *_of_process(root)]
    return max(0, min(bounds, default=sys.maxsize))


def _of_machine(root: Path) -> Iterator[int]:
    kilobytes = _table(root / "proc/meminfo").get("MemAvailable:")
    if kilobytes is not None:
        yield 1024 * kilobytes
    elif hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(os.sysconf_names):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(root: Path) -> Iterator[int]:
    """Yield what is left in the control groups of this process and in all groups above them."""
    mount = root / "sys/fs/cgroup"
    for line in system_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            for folder in upwards(mount, path):
                yield from _left(folder, *_VERSION_2)
        elif "memory" in controllers.split(","):
            for folder in upwards(mount / "memory", path):
                yield from _left(folder, *_VERSION_1)


def _left(folder: Path, limit: str, used: str, cache: str) -> Iterator[int]:
    try:
        most, current = int(system_text(folder / limit)), int(system_text(folder / used))
    except ValueError:  # no such group, or no limit, which is written as max
        return
    yield most - current + _table(folder / "memory.stat").get(cache, 0)


def _of_process(root: Path) -> Iterator[int]:
    """Yield what is left of the limits on the address space and on the data of this process."""
    try:
        import resource  # here: it exists on Unix only
    except ImportError:
        return
    used = _table(root / "proc/self/status")
    for limit, name in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            yield most - 1024 * used.get(name, 0)


def _table(path: Path) -> dict[str, int]:
    """Return the numbers of a file of names and numbers, one of each on a line."""
    rows = (line.split() for line in system_text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
