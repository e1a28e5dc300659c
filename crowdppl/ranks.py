"""Several processes on one fit: what ``torchrun`` starts. The first of them leads, the others help.

The leader reads, fits and writes as a single process does. Where passes over the judgements can be shared, it hands each helper
some of the items, once; at each step it tells what the pass goes by and adds up what all have found. A helper holds its share of
the judgements only, and knows nothing of the model.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as processes
from torch import Tensor

from crowdppl.annotations import Annotations
from crowdppl.errors import CrowdpplError, OptionError
from crowdppl.isolation import on_signal
from crowdppl.kernels import waits
from crowdppl.model import AnnotationModel, Sums, provides
from crowdppl.sweeps import Share, suits

# A process that has died is noticed at once by its closed connections; this is for one that hangs amid a pass.
PATIENCE = timedelta(minutes=30)
# A helper waits as long as the leader has other things to do: reading, or an engine that does not share its work.
IDLE = timedelta(days=365)


class LostProcessError(CrowdpplError):
    """Another process of the run has gone."""


@contextmanager
def joined() -> Iterator[bool]:
    """Join the processes that ``torchrun`` has started, if it has; on GPUs by NCCL, else by gloo.

    Whoever leads does the work, and the others help until it leaves the block::

        with crowdppl.ranks.joined() as leads:
            if leads:
                crowdppl.fit(data, method="em")

    Yields:
        Whether this process leads; true where there is only one.

    Raises:
        OptionError: where the program has set up ``torch.distributed`` itself.
        LostProcessError: in all others, where one of the processes has gone.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield True
        return
    if processes.is_initialized():
        raise OptionError("torch.distributed is set up already; leave that to crowdppl.ranks.joined(), entered once")
    cuda = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    processes.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=IDLE)
    leads = processes.get_rank() == 0
    try:
        with on_signal(signal.SIGTERM, _stopped):
            yield leads
            if not leads:
                _Helper().serve()
    finally:
        if leads:
            with suppress(LostProcessError):
                _order("part")
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


def helps() -> bool:
    """Tell whether this process is a helper, which has to leave the work to the one that leads."""
    return several() and processes.get_rank() > 0


def share(model: AnnotationModel, data: Annotations) -> Share | Shares | None:
    """Return what sums up over all items by the quickest way there is, where the model allows it and it is worth it."""
    if not provides(model, "m_step_from"):
        return None
    if several() and data.weight is None and data.multiplicity is None and data.owner is None:
        return Shares(data, data.K * model.states_per_class)
    return Share(data) if suits(data, data.K * model.states_per_class) else None


class Shares:
    """The sums over all items where each process has its share of them: what :class:`Share` is for one process.

    Shares are of as many judgements each, and of whole items. This is the leader's side, :class:`_Helper` the other.

    Args:
        data: all judgements.
        states: of an item, ``S``.
    """

    def __init__(self, data: Annotations, states: int):
        size = processes.get_world_size()
        ends = data.judgements_per_item.cumsum(0)
        marks = torch.arange(1, size, device=data.device) * data.A // size
        cuts = [0, *torch.searchsorted(ends, marks).tolist(), data.N]
        self.items = [slice(*pair) for pair in pairwise(cuts)]
        here = {"width": (data.J, data.K, states), "dtype": data.dtype, "place": data.device.type}
        for rank, items in enumerate(self.items):
            mine = data.batch(torch.arange(items.start, items.stop, device=data.device))
            if rank == 0:
                self.share = Share(mine)
                continue
            _order("take", to=rank, size=(mine.N, mine.A), **here)
            for part in (mine.item, mine.worker, mine.label, mine.truth):
                _sent(part.cpu(), rank)

    def expect(self, table: Tensor, prior: Tensor) -> Sums:
        """Take an E step over all items; as :meth:`Share.expect`."""
        _order("expect")
        _told(table.transpose(1, 2).contiguous())  # as it lies in memory: nothing is copied
        _told(prior.contiguous())
        return _summed(self.share.expect(table, prior))

    def given(self, responsibility: Tensor) -> Sums:
        """Sum up responsibilities of all items; as :meth:`Share.given`."""
        _order("given")
        for rank, items in enumerate(self.items):
            if rank > 0:
                _sent(responsibility[items].contiguous(), rank)
        return _summed(self.share.given(responsibility[self.items[0]]))


class _Helper:
    """Does what the leader asks for."""

    share: Share
    states: int

    def serve(self) -> None:
        """Go on until the leader parts. Ctrl-C reaches all processes and is the leader's affair."""
        with torch.no_grad(), on_signal(signal.SIGINT, lambda number, frame: None):
            while (order := _order())[0] != "part":
                getattr(self, order[0])(**order[1])

    def take(self, to: int, size: tuple[int, int], width: tuple[int, int, int], dtype: torch.dtype, place: str) -> None:
        """Take a share of the judgements, in place of any earlier one; names stay with the leader."""
        if to != processes.get_rank():
            return
        (N, A), (J, K, self.states) = size, width
        item, worker, label, truth = (_received(torch.empty(n, dtype=torch.int64)).to(place) for n in (A, A, A, N))
        items, workers, labels = (np.arange(n) for n in (N, J, K))
        self.share = Share(Annotations(item, worker, label, truth, items, workers, labels, dtype))

    def expect(self) -> None:
        """Take the E step of the share."""
        data = self.share.data
        table = _told(torch.empty(data.J, data.K, self.states, dtype=data.dtype, device=data.device))
        prior = _told(torch.empty(self.states, dtype=data.dtype, device=data.device))
        _summed(self.share.expect(table.transpose(1, 2), prior))

    def given(self) -> None:
        """Sum up the responsibilities of the share."""
        data = self.share.data
        _summed(self.share.given(_received(torch.empty(data.N, self.states, dtype=data.dtype, device=data.device))))


def _order(what: str = "", **facts: Any) -> tuple[str, dict[str, Any]]:
    """Give an order to all helpers, or in a helper wait for one."""
    order = [(what, facts)]
    with _together():
        processes.broadcast_object_list(order, 0)
    return order[0]


def _told(value: Tensor) -> Tensor:
    """Bring the leader's value to all."""
    with _together():
        processes.broadcast(value, 0)
    return value


def _sent(value: Tensor, rank: int) -> None:
    with _together():
        processes.send(value, rank)


def _received(value: Tensor) -> Tensor:
    with _together():
        processes.recv(value, 0)
    return value


def _summed(sums: Sums) -> Sums:
    """Return the sums over all processes; of use to the leader only."""
    parts = (sums.log_likelihood, sums.size, sums.counts.transpose(1, 2))  # memory is (worker, label, state)
    flat = torch.cat([part.reshape(-1).double() for part in parts])
    with _together():
        work = processes.reduce(flat, 0, async_op=True)
        # With NCCL waiting for a time would keep the host from going on.
        work.wait() if waits(flat) else work.wait(PATIENCE)
    likelihood, size, counts = (
        part.view(like.shape).to(like.dtype)
        for part, like in zip(flat.split([part.numel() for part in parts]), parts, strict=True)
    )
    return Sums(likelihood, size, counts.transpose(1, 2))


@contextmanager
def _together() -> Iterator[None]:
    """Say in one line that another process has gone."""
    try:
        yield
    except RuntimeError as error:
        raise _lost(" ".join(str(error).split())[:80]) from None
