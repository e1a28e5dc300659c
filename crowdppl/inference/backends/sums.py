"""Sums over all items, wherever these are: by compiled passes, by sparse products, or by other processes."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends import passes
from crowdppl.inference.backends.coded import Coded
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.kernels.ops import normalise
from crowdppl.kernels.statistics import Statistics


class Sums(Protocol):
    """What both steps of EM need."""

    def expect(self, table: Tensor, prior: Tensor) -> Statistics:
        """Take an E step; as :meth:`Sweeps.expect`."""

    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities of all items."""


class SparseSums:
    """The same sums by sparse products of torch, for any data whose rows are items.

    Args:
        data: the annotations.
    """

    def __init__(self, data: Annotations):
        self.data = data

    def expect(self, table: Tensor, prior: Tensor) -> Statistics:
        """Take an E step; arguments as of :meth:`Sweeps.expect`."""
        marginal, r = normalise(self._joint(table, prior), overwrite=True)
        return Statistics(marginal.sum(dtype=torch.float64), r.sum(-2), self.data.counts.expected(r))

    def responsibilities(self, table: Tensor, prior: Tensor) -> Tensor:
        """Take an E step and return the responsibilities ``(N, S)``."""
        return normalise(self._joint(table, prior), overwrite=True)[1]

    def given(self, responsibility: Tensor) -> Statistics:
        """Sum given responsibilities ``(N, S)`` up; the log-likelihood is not a number."""
        nothing = responsibility.new_tensor(torch.nan)
        return Statistics(nothing, responsibility.sum(-2), self.data.counts.expected(responsibility))

    def counted(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Count items of each class ``(K,)``, and labels ``(J, K, K)`` by truths ``(N,)``."""
        sums = self.given(torch.nn.functional.one_hot(truth.long(), self.data.K).to(self.data.dtype))
        return sums.item_counts, sums.label_counts

    def _joint(self, table: Tensor, prior: Tensor) -> Tensor:
        """Return the item log joint ``(N, S)``."""
        joint = self.data.counts.log_likelihoods(table.log()).add_(prior.log())
        return joint if self.data.clamp is None else joint.add_(self.data.clamp)


def sums_over(data: Annotations | Coded, states: int) -> Sweeps | SparseSums:
    """Return the quickest way of this process to sum over items: coded data take passes whatever their size."""
    if isinstance(data, Coded):
        some = passes.compiled() is not None and data.N > 0
        return Sweeps.over(data) if some else SparseSums(data.annotations(0, data.N))
    return Sweeps.over(data) if data.A >= passes.ANNOTATIONS and passes.serves(data, states) else SparseSums(data)
