"""How many threads computations use: torch's operations, compiled passes and chains, and readers.

The number is one of the process, like torch's own, and is therefore kept here. Without one that is set it follows torch's, the
cores that the process may use (:mod:`crowdppl.isolation.cores`), and how many processes ``torchrun`` has started beside it. A
number in ``OMP_NUM_THREADS`` is the user's decision and holds as it is.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crowdppl.isolation.cores import usable_cores


class _State:
    """What is decided for the process.

    Attributes:
        limit: the number that is set; ``None`` for the default.
        torch: torch's number before the first that was set; ``None`` if none was.
        forked: whether this is a child made by ``fork`` after torch was imported.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self.torch: int | None = None
        self.forked = False


_STATE = _State()


def _in_other_thread(function: Callable[[], Any]) -> Any:
    """Return the result of a function run in a new thread."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


def set_limit(count: int | None) -> None:
    """Set the number of threads of the process, torch's included; ``None`` for the default."""
    _STATE.limit = count
    if (torch := sys.modules.get("torch")) is not None:
        follow(torch)


def follow(torch: Any) -> None:
    """Set torch's number of threads to that of the process, for this thread and for new ones."""
    if _STATE.forked:
        return  # torch's threads are the parent's: the first operation that needs them would wait forever
    if _STATE.limit is not None:
        if _STATE.torch is None:
            _STATE.torch = torch.get_num_threads()
        torch.set_num_threads(_STATE.limit)
        return
    if _STATE.torch is not None:
        torch.set_num_threads(_STATE.torch)
        _STATE.torch = None
    if (count := threads_outside()) < torch.get_num_threads():
        torch.set_num_threads(count)


def threads_outside() -> int:
    """Return the number of threads of the process, outside of blocks that limit torch's.

    Work that never waits by spinning may use as many also where torch's operations take fewer.
    """
    if _STATE.limit is not None:
        return _STATE.limit
    torch, given = sys.modules.get("torch"), _given()
    if torch is None:
        return given or _share()
    outside = int(_in_other_thread(torch.get_num_threads))
    return outside if given else min(outside, _share())


def _given() -> int | None:
    """Return the number of threads that the user gives every program, if any."""
    number = re.match(r"\s*\+?0*([1-9]\d*)", os.environ.get("OMP_NUM_THREADS", ""))
    return int(number[1]) if number else None


def _share() -> int:
    """Return this process's share of the cores; ``torchrun`` gives the number of processes on this machine."""
    processes = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, usable_cores() // max(1, int(processes) if processes.isdecimal() else 1))


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Limit the number of threads of torch's operations in this thread only, to ``count`` and to that of the process.

    Torch has one number for each thread and one for new threads, and always sets both.
    """
    import torch

    own, most = torch.get_num_threads(), threads_outside()
    wanted = min(own, most) if count is None else min(count, most)
    if wanted == own:
        yield
        return
    others = _in_other_thread(torch.get_num_threads)
    try:
        torch.set_num_threads(wanted)
        _in_other_thread(lambda: torch.set_num_threads(others))
        yield
    finally:
        torch.set_num_threads(own)
        if own != others:
            _in_other_thread(lambda: torch.set_num_threads(others))


@contextmanager
def limited_arrow() -> Iterator[int]:
    """Limit the number of threads of Arrow in a block to that of the process, and give that number."""
    import pyarrow

    before, count = pyarrow.cpu_count(), threads_outside()
    if before <= count:
        yield max(1, before)
        return
    pyarrow.set_cpu_count(count)
    try:
        yield count
    finally:
        pyarrow.set_cpu_count(before)


def in_child() -> None:
    """Use one thread in a child made by ``fork``, unless it sets another number: it is one process of several."""
    # If the parent used several threads of torch, the first parallel operation of the child would wait for them forever.
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
        _STATE.limit, _STATE.torch, _STATE.forked = None, None, True
