"""Sums over all items, of which each rank holds a part that rank 0 has sent it."""

from __future__ import annotations

import signal
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError
from crowdppl.inference.backends.sums import Sums, sums_over
from crowdppl.inference.distributed.group import LostProcessError, ProcessGroup
from crowdppl.isolation import on_signal
from crowdppl.kernels.statistics import Statistics


class DistributedSums:
    """Sums over all items, of which each process holds a part: the counterpart of :class:`SparseSums`.

    The parts consist of whole items and have nearly equal numbers of annotations. This class runs on rank 0,
    :class:`OtherRank` on the others.

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
        self.sums = sums_over(self._part(0), data.K)
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
        """Take an E step over all items; as :meth:`Sweeps.expect`."""
        self._distribute()
        with self.group.in_step():
            self.group.command("expect")
            self.group.broadcast(table.transpose(1, 2).contiguous())  # its memory order: nothing is copied
            self.group.broadcast(prior.contiguous())
            return self.group.reduce(self.sums.expect(table, prior))

    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities of all items; as :meth:`Sweeps.given`."""
        self._distribute()
        with self.group.in_step():
            self.group.command("given")
            for rank, items in enumerate(self.items[1:], start=1):
                self.group.send(responsibility[items].contiguous(), rank)
            return self.group.reduce(self.sums.given(responsibility[self.items[0]]))


class OtherRank:
    """Carry out the commands of rank 0."""

    data: Annotations
    sums: Sums
    part: Any

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
        vars(self).pop("sums", None)  # frees its memory first
        N, A, J, K = size
        item, worker, label, truth = (
            self.group.receive(torch.empty(n, dtype=torch.int64)).to(place) for n in (A, A, A, N)
        )
        items, workers, labels = (np.arange(n) for n in (N, J, K))
        self.data = Annotations(item, worker, label, truth, items, workers, labels, dtype)
        self.sums = sums_over(self.data, K)

    def expect(self) -> None:
        """Take an E step over the part."""
        J, K = self.data.J, self.data.K
        table, prior = self.group.broadcast(self._empty(J, K, K)), self.group.broadcast(self._empty(K))
        self.group.reduce(self.sums.expect(table.transpose(1, 2), prior))

    def given(self) -> None:
        """Sum given responsibilities of the part."""
        self.group.reduce(self.sums.given(self.group.receive(self._empty(self.data.N, self.data.K))))

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.data.dtype, device=self.data.device)

    def attach(self, kind: type[Any]) -> None:
        """Begin work on data that each rank reads for itself, by an object of a class."""
        self.part = kind(self.group)

    def call(self, method: str, **arguments: Any) -> None:
        """Call a method of that object. Errors of the data are raised on all ranks, and rank 0 reports them."""
        try:
            getattr(self.part, method)(**arguments)
        except CrowdpplError as error:
            if isinstance(error, LostProcessError):
                raise

    def detach(self) -> None:
        """Free the memory of that object."""
        vars(self).pop("part", None)
