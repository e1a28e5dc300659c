"""All ranks' parts of the data, from the view of rank 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError
from crowdppl.inference.distributed.group import GROUP, Alone, LostProcessError
from crowdppl.inference.scale.sharded.part import Contents, Part
from crowdppl.inference.scale.sharded.plan import Plan
from crowdppl.inference.scale.sharded.rows import Group, StoppedError
from crowdppl.kernels.statistics import Statistics


class Parts:
    """The parts of all ranks. Each method of :class:`Part` is called on all of them by :meth:`call`.

    Args:
        group: the processes.
        plan: what each rank reads.

    Attributes:
        contents: what the data hold.

    Raises:
        DataError: if the data cannot be used as they are.
        FileError: if a file cannot be read.
    """

    def __init__(self, group: Group, plan: Plan):
        self.group, self.plan = group, plan
        self.group.command("attach", kind=Part)
        self.here = Part(group)
        self.contents: Contents = self.call("read", plan=plan)

    def call(self, method: str, *mine: Any, **arguments: Any) -> Any:
        """Call a method on all ranks; return what it returns on this one.

        Args:
            method: of :class:`Part`.
            mine: arguments for this rank only, which sends them itself.
            arguments: for all ranks.

        Raises:
            LostProcessError: if a rank was lost.
            CrowdpplError: that any rank has met.
        """
        failed = None
        with self.group.in_step():
            self.group.command("call", method=method, **arguments)
            try:
                return getattr(self.here, method)(*mine, **arguments)
            except CrowdpplError as error:
                if isinstance(error, LostProcessError):
                    raise
                failed = error
        assert failed is not None
        if isinstance(failed, StoppedError):
            raise KeyboardInterrupt
        raise failed

    def expect(self, table: Tensor, prior: Tensor) -> Statistics:
        """Take an E step over all items; as :meth:`Share.expect`."""
        sums: Statistics = self.call("expect", table, prior)
        return sums

    def given(self, responsibility: Tensor) -> Statistics:
        """Return the sums of the votes' shares: no rank holds responsibilities ``(N, S)`` of all items."""
        sums: Statistics = self.call("given")
        return sums

    @cached_property
    def workers(self) -> np.ndarray:
        """Names of the workers, ``(J,)``."""
        return np.asarray(self.contents.names.workers.to_numpy(zero_copy_only=False))

    @cached_property
    def labels(self) -> np.ndarray:
        """Names of the classes, ``(K,)``."""
        return np.asarray(self.contents.names.labels.to_numpy(zero_copy_only=False))

    def sizes(self, rows: int = 0) -> Annotations:
        """Return data with these workers and classes, and as many items and annotations as ``rows``, which mean nothing."""
        nothing = torch.zeros(rows, dtype=torch.int64)
        return Annotations(
            item=torch.arange(rows),
            worker=nothing,
            label=nothing,
            truth=nothing - 1,
            items=np.arange(rows),
            workers=self.workers,
            labels=self.labels,
        )


@contextmanager
def opened(plan: Plan, group: Group) -> Iterator[Parts]:
    """Yield the parts of all ranks, which each has read; at the end of the block their memory is freed."""
    try:
        yield Parts(group, plan)
    finally:
        if not getattr(group, "broken", False):
            group.command("detach")


def processes() -> Group:
    """Return the processes of the run; this one only, where there are no others."""
    group = GROUP.get()
    return Alone() if group is None else group
