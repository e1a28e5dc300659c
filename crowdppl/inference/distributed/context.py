"""The context in which processes that ``torchrun`` has started work together."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
import torch.distributed as processes

from crowdppl.errors import OptionError
from crowdppl.inference.distributed.group import GROUP, LostProcessError, ProcessGroup, lost
from crowdppl.inference.distributed.shares import OtherRank
from crowdppl.isolation import in_main_thread, on_signal


@contextmanager
def joined() -> Iterator[bool]:
    """Join the processes that ``torchrun`` has started, if it has; on GPUs by NCCL, else by gloo.

    Rank 0 does the work, and the other ranks take part in its fits until it leaves the block::

        with crowdppl.inference.distributed.joined() as rank0:
            if rank0:
                crowdppl.fit(data, method="em")

    Yields:
        Whether this process is rank 0; true if it is the only one.

    Raises:
        OptionError: if the program has set up ``torch.distributed`` itself.
        LostProcessError: if another process was lost.
    """
    if not processes.is_available() or not processes.is_torchelastic_launched() or int(os.environ["WORLD_SIZE"]) < 2:
        yield True
        return
    if processes.is_initialized():
        raise OptionError(
            "torch.distributed is set up already; leave that to crowdppl.inference.distributed.joined(), entered once"
        )
    cuda = processes.is_nccl_available() and torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    group = ProcessGroup(cuda)
    token = GROUP.set(group)
    try:
        with on_signal(signal.SIGTERM, _stopped):
            yield group.rank == 0
            if group.rank > 0:
                OtherRank(group).serve()
    except LostProcessError:
        group.broken = True
        # torchrun now ends this process, too: the first SIGTERM is ignored, so that it can report the error.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and in_main_thread():
            signal.signal(signal.SIGTERM, _ignore_once)
        raise
    finally:
        GROUP.reset(token)
        if group.rank == 0 and not group.broken:
            with suppress(LostProcessError):
                group.command("end")
        processes.destroy_process_group()


def _stopped(number: int, frame: Any) -> None:
    """Report a lost process where ``torchrun`` ends this one before its own communication fails."""
    raise lost("this one received SIGTERM")


def _ignore_once(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
