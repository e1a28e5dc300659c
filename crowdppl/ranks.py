"""Several processes on one fit: what ``torchrun`` starts, each with a share of the items.

Passes over judgements are shared out; parameters are the same everywhere, since every process adds up what all of them have
found. Whoever calls :func:`crowdppl.fit` in all processes gets the same result in each; the command lets the first one write.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as processes
from torch import Tensor

from crowdppl.annotations import Annotations
from crowdppl.errors import CrowdpplError
from crowdppl.isolation import on_signal

# A process that has died is noticed at once by its closed connections; this is for one that hangs.
PATIENCE = timedelta(minutes=30)


class LostProcessError(CrowdpplError):
    """Another process of the run has gone."""


@contextmanager
def joined() -> Iterator[None]:
    """Join the processes that ``torchrun`` has started, if it has; on GPUs by NCCL, else by gloo."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or processes.is_initialized():
        yield
        return
    cuda = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    processes.init_process_group("nccl" if cuda else "gloo", timeout=PATIENCE)
    try:
        with on_signal(signal.SIGTERM, _stopped):
            yield
    finally:
        processes.destroy_process_group()


def _stopped(number: int, frame: Any) -> None:
    """Say why this process ends where ``torchrun`` ends it, as it does when another was lost, before a sum has noticed."""
    raise _lost("this one was told to stop")


def _lost(how: str) -> LostProcessError:
    return LostProcessError(
        f"another process of this run was lost ({how}); start all of them again with the same command: with --checkpoint the "
        f"fit goes on from the last one written"
    )


def several() -> bool:
    """Tell whether this process is one of several."""
    return processes.is_available() and processes.is_initialized() and processes.get_world_size() > 1


def first() -> bool:
    """Tell whether this process is the one that writes."""
    return not several() or processes.get_rank() == 0


def share(data: Annotations) -> slice:
    """Return this process's items: as many judgements for each process, and whole items."""
    size, rank = processes.get_world_size(), processes.get_rank()
    ends = data.judgements_per_item.cumsum(0)
    marks = torch.arange(1, size, device=data.device) * data.A // size
    cuts = [0, *torch.searchsorted(ends, marks).tolist(), data.N]
    return slice(cuts[rank], cuts[rank + 1])


def summed(*values: Tensor) -> list[Tensor]:
    """Return the sums of tensors over all processes.

    Raises:
        LostProcessError: where one of them has gone.
    """
    flat = torch.cat([value.reshape(-1).to(torch.float64) for value in values])
    try:
        processes.all_reduce(flat)
    except RuntimeError as error:
        raise _lost(" ".join(str(error).split())[:80]) from None
    parts = flat.split([value.numel() for value in values])
    return [part.view(value.shape).to(value.dtype) for part, value in zip(parts, values, strict=True)]
