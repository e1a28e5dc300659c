"""Fits in several processes, which ``torchrun`` starts: rank 0 and other ranks.

Rank 0 reads, fits and writes as a single process does. Where passes over the annotations can be distributed, it sends each other
rank a part of the items, once; at each step it broadcasts the tables that the pass needs, and all ranks add up their sums. The
other ranks hold their part of the annotations only, and nothing of the model.
"""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from itertools import count, pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as processes
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError, OptionError
from crowdppl.inference.passes import Share, once, suits
from crowdppl.isolation import in_main_thread, on_signal
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.bound import BoundModel

# A process that has died is noticed at once by its closed connections; this limit is for one that hangs.
PATIENCE = timedelta(minutes=30)
# The other ranks wait while rank 0 reads, or fits by an engine that is not distributed.
IDLE = timedelta(days=365)


class LostProcessError(CrowdpplError):
    """Another process of the run was lost."""


class ProcessGroup:
    """The processes of a run, from the view of one of them.

    Args:
        cuda: whether each has a GPU.

    Attributes:
        rank: of this process.
        size: number of processes.
        broken: whether one was lost, or stopped within a step, so that no message can be sent any more.
        distributed: weak reference to the data whose parts the other ranks hold; set on rank 0.

    Raises:
        LostProcessError: if the processes cannot connect.
    """

    def __init__(self, cuda: bool):
        # Imported here, since not every build of torch has them.
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        self.cuda, self.broken = cuda, False
        self.distributed: weakref.ref[DistributedShare] | None = None
        try:
            # Separate keys, so that addresses of an earlier group are not taken for those of this one.
            store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
            store = PrefixStore(f"crowdppl/{next(_GROUPS)}", store)
            backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
            processes.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=size)
            self.commands = processes.new_group(backend="gloo", timeout=IDLE)
        except RuntimeError as error:
            if processes.is_initialized():
                processes.destroy_process_group()
            raise LostProcessError(
                f"the processes of this run did not find each other, or could not join "
                f"({' '.join(str(error).split())[:120]}); check that all of them are started, with the same address of rank 0"
            ) from None
        self.rank, self.size = rank, size

    def command(self, name: str = "", **arguments: Any) -> tuple[str, dict[str, Any]]:
        """Send a command to all other ranks, or on these wait for one."""
        if self.broken:
            raise _lost("within an earlier step")
        message = [(name, arguments)]
        with self.errors():
            processes.broadcast_object_list(message, 0, group=self.commands)
        return message[0]

    def broadcast(self, value: Tensor) -> Tensor:
        """Copy the value of rank 0 to all ranks."""
        with self.errors():
            processes.broadcast(value, 0)
        return value

    def send(self, value: Tensor, rank: int) -> None:
        """Send a value to one rank."""
        with self.errors():
            processes.send(value, rank)

    def receive(self, value: Tensor) -> Tensor:
        """Fill a tensor with a value from rank 0."""
        with self.errors():
            processes.recv(value, 0)
        return value

    def reduce(self, sums: Statistics) -> Statistics:
        """Return the sums over all processes, on rank 0; other ranks do not need the result."""
        parts = (
            sums.log_likelihood,
            sums.item_counts,
            sums.label_counts.transpose(1, 2),
        )  # memory is (worker, label, state)
        flat = torch.cat([part.reshape(-1).double() for part in parts])
        with self.errors():
            processes.reduce(flat, 0)
        likelihood, size, counts = (
            part.view(like.shape).to(like.dtype)
            for part, like in zip(flat.split([part.numel() for part in parts]), parts, strict=True)
        )
        return Statistics(likelihood, size, counts.transpose(1, 2))

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of communication as a :class:`LostProcessError`."""
        try:
            yield
        except RuntimeError as error:
            self.broken = True
            raise _lost(" ".join(str(error).split())[:80]) from None

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Defer Ctrl-C until all ranks have completed the step; any other exception breaks the group."""
        pressed: list[int] = []
        try:
            with on_signal(signal.SIGINT, lambda number, frame: pressed.append(number)):
                yield
        except BaseException:
            self.broken = True
            raise
        for number in pressed:
            signal.raise_signal(number)


_GROUPS = count()
# The group of this process, within joined() and in the thread that entered it.
_GROUP: ContextVar[ProcessGroup | None] = ContextVar("group", default=None)


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
    token = _GROUP.set(group)
    try:
        with on_signal(signal.SIGTERM, _stopped):
            yield group.rank == 0
            if group.rank > 0:
                _OtherRank(group).serve()
    except LostProcessError:
        group.broken = True
        # torchrun now ends this process, too: the first SIGTERM is ignored, so that it can report the error.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and in_main_thread():
            signal.signal(signal.SIGTERM, _ignore_once)
        raise
    finally:
        _GROUP.reset(token)
        if group.rank == 0 and not group.broken:
            with suppress(LostProcessError):
                group.command("end")
        processes.destroy_process_group()


def _stopped(number: int, frame: Any) -> None:
    """Report a lost process where ``torchrun`` ends this one before its own communication fails."""
    raise _lost("this one received SIGTERM")


def _ignore_once(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)


def _lost(reason: str) -> LostProcessError:
    return LostProcessError(
        f"another process of this run was lost ({reason}); start all of them again with the same command: with --checkpoint the "
        f"fit goes on from the last one written"
    )


def is_other_rank() -> bool:
    """Return whether this process is not rank 0 of a run, so that it must not fit by itself."""
    group = _GROUP.get()
    return group is not None and group.rank > 0


def share(model: BoundModel, data: Annotations) -> Share | DistributedShare | None:
    """Return an object that sums over all items by the fastest way, or ``None`` if the model or the data do not allow it.

    Raises:
        OptionError: if the data are on a GPU and the processes do not have one each.
    """
    if not model.closed or model.shared_confusion or model.states_per_class > 1:
        return None
    group = _GROUP.get()
    if group is not None and once(data):
        here = data.device
        if here.type == "cuda" and not (group.cuda and here.index in (None, torch.cuda.current_device())):
            raise OptionError(
                f"device={str(here)!r} in several processes: each needs a GPU of its own; start as many as there are GPUs, "
                f"with device='cuda'"
            )
        return DistributedShare(data, group)
    return Share(data) if suits(data, data.K) else None


class DistributedShare:
    """Sums over all items, of which each process holds a part: the counterpart of :class:`Share` for several processes.

    The parts consist of whole items and have nearly equal numbers of annotations. This class runs on rank 0,
    :class:`_OtherRank` on the others.

    Args:
        data: all annotations.
        group: the processes.
    """

    def __init__(self, data: Annotations, group: ProcessGroup):
        self.data, self.group = data, group
        ends = data.annotations_per_item.cumsum(0)
        marks = torch.arange(1, group.size, device=data.device) * data.A // group.size
        cuts = [0, *torch.searchsorted(ends, marks).tolist(), data.N]
        self.items = [slice(*pair) for pair in pairwise(cuts)]
        self.share = Share(self._part(0))
        self._distribute()

    def _part(self, rank: int) -> Annotations:
        items = self.items[rank]
        return self.data.batch(torch.arange(items.start, items.stop, device=self.data.device))

    def _distribute(self) -> None:
        """Send the other ranks their parts, unless they hold them: another fit may have started within this one."""
        if self.group.distributed is not None and self.group.distributed() is self:
            return
        self.group.distributed, data = None, self.data
        for rank in range(1, self.group.size):
            part = self._part(rank)
            values = [value.cpu() for value in (part.item, part.worker, part.label, part.truth)]
            with self.group.in_step():
                self.group.command(
                    "hold", rank=rank, size=(part.N, part.A, data.J, data.K), dtype=data.dtype, place=data.device.type
                )
                for value in values:
                    self.group.send(value, rank)
        self.group.distributed = weakref.ref(self)

    def expect(self, table: Tensor, prior: Tensor) -> Statistics:
        """Take an E step over all items; as :meth:`Share.expect`."""
        self._distribute()
        with self.group.in_step():
            self.group.command("expect")
            self.group.broadcast(table.transpose(1, 2).contiguous())  # its memory order: nothing is copied
            self.group.broadcast(prior.contiguous())
            return self.group.reduce(self.share.expect(table, prior))

    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities of all items; as :meth:`Share.given`."""
        self._distribute()
        with self.group.in_step():
            self.group.command("given")
            for rank, items in enumerate(self.items[1:], start=1):
                self.group.send(responsibility[items].contiguous(), rank)
            return self.group.reduce(self.share.given(responsibility[self.items[0]]))


class _OtherRank:
    """Carry out the commands of rank 0."""

    share: Share

    def __init__(self, group: ProcessGroup):
        self.group = group

    def serve(self) -> None:
        """Wait for commands until rank 0 ends the run. Ctrl-C reaches all processes; rank 0 handles it."""
        with torch.no_grad(), on_signal(signal.SIGINT, lambda number, frame: None):
            while (command := self.group.command())[0] != "end":
                getattr(self, command[0])(**command[1])

    def hold(self, rank: int, size: tuple[int, int, int, int], dtype: torch.dtype, place: str) -> None:
        """Receive a part of the annotations, which replaces any earlier one; identifiers stay on rank 0."""
        if rank != self.group.rank:
            return
        vars(self).pop("share", None)  # frees its memory first
        N, A, J, K = size
        item, worker, label, truth = (
            self.group.receive(torch.empty(n, dtype=torch.int64)).to(place) for n in (A, A, A, N)
        )
        items, workers, labels = (np.arange(n) for n in (N, J, K))
        self.share = Share(Annotations(item, worker, label, truth, items, workers, labels, dtype))

    def expect(self) -> None:
        """Take an E step over the part."""
        J, K = self.share.data.J, self.share.data.K
        table, prior = self.group.broadcast(self._empty(J, K, K)), self.group.broadcast(self._empty(K))
        self.group.reduce(self.share.expect(table.transpose(1, 2), prior))

    def given(self) -> None:
        """Sum given responsibilities of the part."""
        self.group.reduce(self.share.given(self.group.receive(self._empty(self.share.data.N, self.share.data.K))))

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.share.data.dtype, device=self.share.data.device)
