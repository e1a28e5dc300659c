"""How many cores this process may use: by its CPU affinity, and by the CPU quotas of its control groups (Linux).

A container with a quota shows all cores of its machine. More threads than the quota pays for are stopped together until the next
period, some of them while the others wait for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from math import ceil
from pathlib import Path, PurePosixPath


def usable_cores() -> int:
    """Return how many cores this process may use, at least one. Quotas are read once, and rounded up."""
    return max(1, min([affinity(), *_quotas()]))


@cache
def _quotas() -> list[int]:
    return [ceil(quota) for quota in cpu_quotas(Path("/"))]


def affinity() -> int:
    """Return how many cores the scheduler may run this process on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quotas(root: Path) -> Iterator[float]:
    """Yield the CPU quotas that hold for this process, in cores: those of its control groups and of all groups above them.

    Args:
        root: where ``proc`` and ``sys`` are.
    """
    mount = root / "sys/fs/cgroup"
    for line in system_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:  # version 2: one hierarchy
            for folder in upwards(mount, path):
                yield from _quota(*(*system_text(folder / "cpu.max").split(), "", "")[:2])
        elif "cpu" in controllers.split(","):
            # The hierarchy is mounted by the names of its controllers, or by one of them.
            for name in {controllers, "cpu"}:
                for folder in upwards(mount / name, path):
                    yield from _quota(
                        system_text(folder / "cpu.cfs_quota_us"), system_text(folder / "cpu.cfs_period_us")
                    )


def upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yield the folder of a control group and of those above it; in a container some of them may not exist."""
    group = PurePosixPath(path.lstrip("/"))
    if ".." in group.parts:  # outside of what the container sees
        group = PurePosixPath()
    for part in (group, *group.parents):
        yield mount / part


def _quota(quota: str, period: str) -> Iterator[float]:
    """Yield the cores that a quota grants; none where there is no quota, written as ``max`` or -1."""
    try:
        granted, of = int(quota), int(period)
    except ValueError:
        return
    if granted > 0 and of > 0:
        yield granted / of


def system_text(path: Path) -> str:
    """Return the content of a file, nothing if it cannot be read: other systems have none, and old ones have other files."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
