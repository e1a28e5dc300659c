"""Several processes on one fit: what ``torchrun`` starts. The first of them leads, the others help.

The leader reads, fits and writes as a single process does. Where passes over the annotations can be shared, it hands each helper
some of the items, once; at each step it tells what the pass goes by and adds up what all have found. A helper holds its share of
the annotations only, and knows nothing of the model.
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
from crowdppl.model.base import AnnotationModel, Sums, provides

# A process that has died is noticed at once by its closed connections; this is for one that hangs.
PATIENCE = timedelta(minutes=30)
# A helper waits as long as the leader has other things to do: reading, or an engine that does not share its work.
IDLE = timedelta(days=365)


class LostProcessError(CrowdpplError):
    """Another process of the run has gone."""


class Team:
    """The processes of a run, as one of them sees it.

    Args:
        cuda: whether each has a GPU.

    Attributes:
        rank: of this process; 0 leads.
        size: how many there are.
        broken: whether one has gone, or stopped amid a step, so that nothing can be said to the others any more.
        held: whose shares the helpers hold, as long as there is someone; known to the leader.
    """

    def __init__(self, cuda: bool):
        # Here, since not every build of torch has them.
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        self.cuda, self.broken = cuda, False
        self.held: weakref.ref[Shares] | None = None
        try:
            # Keys of their own: addresses of an earlier team must not be taken for those of this one.
            store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
            store = PrefixStore(f"crowdppl/{next(_TEAMS)}", store)
            backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
            processes.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=size)
            self.orders = processes.new_group(backend="gloo", timeout=IDLE)
        except RuntimeError as error:
            if processes.is_initialized():
                processes.destroy_process_group()
            raise LostProcessError(
                f"the processes of this run did not find each other, or could not join "
                f"({' '.join(str(error).split())[:120]}); see that all of them are started, with one address of the first"
            ) from None
        self.rank, self.size = rank, size

    def order(self, what: str = "", **facts: Any) -> tuple[str, dict[str, Any]]:
        """Give an order to all helpers, or in a helper wait for one."""
        if self.broken:
            raise _lost("amid an earlier step")
        order = [(what, facts)]
        with self.together():
            processes.broadcast_object_list(order, 0, group=self.orders)
        return order[0]

    def told(self, value: Tensor) -> Tensor:
        """Bring the leader's value to all."""
        with self.together():
            processes.broadcast(value, 0)
        return value

    def sent(self, value: Tensor, rank: int) -> None:
        """Send a value to one process."""
        with self.together():
            processes.send(value, rank)

    def received(self, value: Tensor) -> Tensor:
        """Fill a tensor with what the leader sends."""
        with self.together():
            processes.recv(value, 0)
        return value

    def summed(self, sums: Sums) -> Sums:
        """Return the sums over all processes; of use to the leader only."""
        parts = (sums.log_likelihood, sums.size, sums.counts.transpose(1, 2))  # memory is (worker, label, state)
        flat = torch.cat([part.reshape(-1).double() for part in parts])
        with self.together():
            processes.reduce(flat, 0)
        likelihood, size, counts = (
            part.view(like.shape).to(like.dtype)
            for part, like in zip(flat.split([part.numel() for part in parts]), parts, strict=True)
        )
        return Sums(likelihood, size, counts.transpose(1, 2))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Say in one line that another process has gone."""
        try:
            yield
        except RuntimeError as error:
            self.broken = True
            raise _lost(" ".join(str(error).split())[:80]) from None

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Let Ctrl-C wait until all have done what they were told to; whoever else stops before leaves a broken team."""
        pressed: list[int] = []
        try:
            with on_signal(signal.SIGINT, lambda number, frame: pressed.append(number)):
                yield
        except BaseException:
            self.broken = True
            raise
        for number in pressed:
            signal.raise_signal(number)


_TEAMS = count()
# The team that this process belongs to, inside of joined() and in the thread that has entered it.
_TEAM: ContextVar[Team | None] = ContextVar("team", default=None)


@contextmanager
def joined() -> Iterator[bool]:
    """Join the processes that ``torchrun`` has started, if it has; on GPUs by NCCL, else by gloo.

    Whoever leads does the work, and the others help until it leaves the block::

        with crowdppl.inference.distributed.joined() as leads:
            if leads:
                crowdppl.fit(data, method="em")

    Yields:
        Whether this process leads; true where there is only one.

    Raises:
        OptionError: where the program has set up ``torch.distributed`` itself.
        LostProcessError: where another process has gone.
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
    team = Team(cuda)
    token = _TEAM.set(team)
    try:
        with on_signal(signal.SIGTERM, _stopped):
            yield team.rank == 0
            if team.rank > 0:
                _Helper(team).serve()
    except LostProcessError:
        team.broken = True
        # torchrun now ends this one, too, and at once: that is known already, and it has to say why.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and in_main_thread():
            signal.signal(signal.SIGTERM, _known)
        raise
    finally:
        _TEAM.reset(token)
        if team.rank == 0 and not team.broken:
            with suppress(LostProcessError):
                team.order("part")
        processes.destroy_process_group()


def _stopped(number: int, frame: Any) -> None:
    """Say why this process ends where ``torchrun`` ends it, as it does when another was lost, before a sum has noticed."""
    raise _lost("this one was told to stop")


def _known(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)


def _lost(how: str) -> LostProcessError:
    return LostProcessError(
        f"another process of this run was lost ({how}); start all of them again with the same command: with --checkpoint the "
        f"fit goes on from the last one written"
    )


def helps() -> bool:
    """Tell whether this process is a helper, which has to leave the work to the one that leads."""
    team = _TEAM.get()
    return team is not None and team.rank > 0


def share(model: AnnotationModel, data: Annotations) -> Share | Shares | None:
    """Return what sums up over all items by the quickest way there is, where the model allows it and it is worth it.

    Raises:
        OptionError: on a GPU, where processes do not have one each.
    """
    if not provides(model, "m_step_from") or model.states_per_class > 1:
        return None
    team = _TEAM.get()
    if team is not None and once(data):
        here = data.device
        if here.type == "cuda" and not (team.cuda and here.index in (None, torch.cuda.current_device())):
            raise OptionError(
                f"device={str(here)!r} in several processes: each needs a GPU of its own; start as many as there are GPUs, "
                f"with device='cuda'"
            )
        return Shares(data, team)
    return Share(data) if suits(data, data.K) else None


class Shares:
    """The sums over all items where each process has its share of them: what :class:`Share` is for one process.

    Shares are of as many annotations each, and of whole items. This is the leader's side, :class:`_Helper` the other.

    Args:
        data: all annotations.
        team: the processes.
    """

    def __init__(self, data: Annotations, team: Team):
        self.data, self.team = data, team
        ends = data.annotations_per_item.cumsum(0)
        marks = torch.arange(1, team.size, device=data.device) * data.A // team.size
        cuts = [0, *torch.searchsorted(ends, marks).tolist(), data.N]
        self.items = [slice(*pair) for pair in pairwise(cuts)]
        self.share = Share(self._part(0))
        self._hand_out()

    def _part(self, rank: int) -> Annotations:
        items = self.items[rank]
        return self.data.batch(torch.arange(items.start, items.stop, device=self.data.device))

    def _hand_out(self) -> None:
        """Give helpers their shares, if they do not hold them: another fit may have been begun in the midst of this one."""
        if self.team.held is not None and self.team.held() is self:
            return
        self.team.held, data = None, self.data
        for rank in range(1, self.team.size):
            part = self._part(rank)
            values = [value.cpu() for value in (part.item, part.worker, part.label, part.truth)]
            with self.team.in_step():
                self.team.order(
                    "take", to=rank, size=(part.N, part.A, data.J, data.K), dtype=data.dtype, place=data.device.type
                )
                for value in values:
                    self.team.sent(value, rank)
        self.team.held = weakref.ref(self)

    def expect(self, table: Tensor, prior: Tensor) -> Sums:
        """Take an E step over all items; as :meth:`Share.expect`."""
        self._hand_out()
        with self.team.in_step():
            self.team.order("expect")
            self.team.told(table.transpose(1, 2).contiguous())  # as it lies in memory: nothing is copied
            self.team.told(prior.contiguous())
            return self.team.summed(self.share.expect(table, prior))

    def given(self, responsibility: Tensor) -> Sums:
        """Sum up responsibilities of all items; as :meth:`Share.given`."""
        self._hand_out()
        with self.team.in_step():
            self.team.order("given")
            for rank, items in enumerate(self.items[1:], start=1):
                self.team.sent(responsibility[items].contiguous(), rank)
            return self.team.summed(self.share.given(responsibility[self.items[0]]))


class _Helper:
    """Does what the leader asks for."""

    share: Share

    def __init__(self, team: Team):
        self.team = team

    def serve(self) -> None:
        """Go on until the leader parts. Ctrl-C reaches all processes and is the leader's affair."""
        with torch.no_grad(), on_signal(signal.SIGINT, lambda number, frame: None):
            while (order := self.team.order())[0] != "part":
                getattr(self, order[0])(**order[1])

    def take(self, to: int, size: tuple[int, int, int, int], dtype: torch.dtype, place: str) -> None:
        """Take a share of the annotations, in place of any earlier one; names stay with the leader."""
        if to != self.team.rank:
            return
        vars(self).pop("share", None)  # frees its memory first
        N, A, J, K = size
        item, worker, label, truth = (
            self.team.received(torch.empty(n, dtype=torch.int64)).to(place) for n in (A, A, A, N)
        )
        items, workers, labels = (np.arange(n) for n in (N, J, K))
        self.share = Share(Annotations(item, worker, label, truth, items, workers, labels, dtype))

    def expect(self) -> None:
        """Take the E step of the share."""
        J, K = self.share.data.J, self.share.data.K
        table, prior = self.team.told(self._room(J, K, K)), self.team.told(self._room(K))
        self.team.summed(self.share.expect(table.transpose(1, 2), prior))

    def given(self) -> None:
        """Sum up the responsibilities of the share."""
        self.team.summed(self.share.given(self.team.received(self._room(self.share.data.N, self.share.data.K))))

    def _room(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.share.data.dtype, device=self.share.data.device)
