"""The processes that ``torchrun`` starts as a group: messages between them, and what is raised where one is lost."""

from __future__ import annotations

import signal
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as processes
from torch import Tensor

from crowdppl.errors import CrowdpplError
from crowdppl.isolation import on_signal
from crowdppl.kernels.statistics import Statistics

# A process that has died is noticed at once by its closed connections; this limit is for one that hangs.
PATIENCE = timedelta(minutes=30)
# The other ranks wait while rank 0 reads, or fits by an engine that is not distributed.
IDLE = timedelta(days=365)


class LostProcessError(CrowdpplError):
    """Another process of the run was lost.

    Attributes:
        reported: whether another rank reports it, so that this one need not.
    """

    reported = False


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

        self.cuda, self.broken, self._reports = cuda, False, False
        self.distributed: weakref.ref[Any] | None = None
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
        self.rank, self.size, self._store = rank, size, store

    def command(self, name: str = "", **arguments: Any) -> tuple[str, dict[str, Any]]:
        """Send a command to all other ranks, or on these wait for one."""
        if self.broken:
            raise lost("within an earlier step")
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

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order, on every rank."""
        values: list[Any] = [None] * self.size
        with self.errors():
            processes.all_gather_object(values, value)
        return values

    def add(self, values: Tensor) -> Tensor:
        """Add up the values of all ranks in place, on rank 0; other ranks do not need the result."""
        with self.errors():
            processes.reduce(values, 0)
        return values

    def exchange(self, parcels: Sequence[bytes], note: int) -> tuple[list[memoryview], list[int]]:
        """Send a parcel to each rank; return the parcels received from each, and the notes of all."""
        sizes = torch.tensor([[len(parcel), note] for parcel in parcels])
        received = torch.empty_like(sizes)
        with self.errors():
            processes.all_to_all_single(received, sizes)
            lengths, notes = received.T.tolist()
            incoming = torch.empty(sum(lengths), dtype=torch.uint8)
            outgoing = torch.frombuffer(bytearray(b"".join(parcels) or b"-"), dtype=torch.uint8)
            outgoing = outgoing[: int(sizes[:, 0].sum())]
            processes.all_to_all_single(incoming, outgoing, lengths, sizes[:, 0].tolist())
        parts = incoming.split(lengths)
        return [memoryview(part.numpy()) for part in parts], notes

    def reports(self) -> bool:
        """Return whether this rank is the one that reports a lost process: the first that asks."""
        if not self._reports:
            try:
                self._reports = self._store.add("reports", 1) == 1
            except RuntimeError:  # its keeper was lost, too
                self._reports = True
        return self._reports

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of communication as a :class:`LostProcessError`."""
        try:
            yield
        except RuntimeError as error:
            self.broken = True
            raise lost(" ".join(str(error).split())[:80]) from None

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


class Alone:
    """A group of this process only, with the methods of :class:`ProcessGroup`."""

    rank, size = 0, 1

    def command(self, name: str = "", **arguments: Any) -> None:
        """Do nothing: there is no other rank."""

    def broadcast(self, value: Tensor) -> Tensor:
        """Return the value."""
        return value

    def reduce(self, sums: Statistics) -> Statistics:
        """Return the sums."""
        return sums

    def gather(self, value: Any) -> list[Any]:
        """Return the value in a list."""
        return [value]

    def add(self, values: Tensor) -> Tensor:
        """Return the values."""
        return values

    def exchange(self, parcels: Sequence[bytes], note: int) -> tuple[list[memoryview], list[int]]:
        """Return the parcel, and the note."""
        return [memoryview(parcel) for parcel in parcels], [note]

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Do nothing: Ctrl-C leaves no other rank out of step."""
        yield


def lost(reason: str) -> LostProcessError:
    """Return the error for a lost process."""
    error = LostProcessError(
        f"another process of this run was lost ({reason}); start all of them again with the same command: with --checkpoint the "
        f"fit goes on from the last one written"
    )
    group = GROUP.get()
    error.reported = group is not None and not group.reports()
    return error


_GROUPS = count()
# The group of this process, within joined() and in the thread that entered it.
GROUP: ContextVar[ProcessGroup | None] = ContextVar("group", default=None)


def is_other_rank() -> bool:
    """Return whether this process is not rank 0 of a run, so that it must not fit by itself."""
    group = GROUP.get()
    return group is not None and group.rank > 0
