"""Annotations of whole items as compiled functions take them: four bytes an annotation, and nothing else of its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from crowdppl.data.annotations import Annotations


@dataclass(eq=False)
class Coded:
    """Annotations of ``N`` items by ``J`` workers in ``K`` classes, without names.

    Attributes:
        start: the first annotation of each item, and their number, ``(N+1,)`` uint64.
        column: worker * K + label, ``(A + padding,)`` uint32; what follows the last annotation is 0.
        known: known true class of each item, ``(N,)`` int16, -1 if unknown.
        J: number of workers.
        K: number of classes.
        dtype: floating type of all statistics.
        anchor: the share of each item's class that is taken from elsewhere, ``(N, K)``; without rows where there is none.
    """

    start: npt.NDArray[np.uint64]
    column: npt.NDArray[np.uint32]
    known: npt.NDArray[np.int16]
    J: int
    K: int
    dtype: torch.dtype = torch.float64
    anchor: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def of(cls, data: Annotations, padding: int = 0) -> Coded:
        """Return annotations in this form; ``padding`` is how many codes functions look at beyond the last."""
        start = np.zeros(data.N + 1, dtype=np.uint64)
        np.cumsum(data.annotations_per_item.numpy(), out=start[1:].view(np.int64))
        column, codes = padded(data.A, padding)
        np.multiply(data.worker.numpy(), data.K, out=codes, casting="unsafe")
        np.add(codes, data.label.numpy(), out=codes, casting="unsafe")
        anchor = np.empty((0, data.K)) if data.anchor is None else _rows(data.anchor)
        return cls(start, column, data.truth.numpy().astype(np.int16), data.J, data.K, data.dtype, anchor)

    def with_anchor(self, anchor: torch.Tensor) -> Coded:
        """Return them with another anchor ``(N, K)``."""
        return replace(self, anchor=_rows(anchor))

    @property
    def N(self) -> int:
        """Number of items."""
        return len(self.known)

    @property
    def A(self) -> int:
        """Number of annotations."""
        return int(self.start[-1])

    def annotations(self, first: int, end: int) -> Annotations:
        """Return the annotations of some items; names are numbers."""
        begin, stop = int(self.start[first]), int(self.start[end])
        sizes = np.diff(self.start[first : end + 1].view(np.int64))
        column = torch.from_numpy(self.column[begin:stop].astype(np.int64))
        return Annotations(
            item=torch.arange(end - first).repeat_interleave(torch.from_numpy(sizes)),
            worker=column.div(self.K, rounding_mode="floor"),
            label=column % self.K,
            truth=torch.from_numpy(self.known[first:end].astype(np.int64)),
            items=np.arange(end - first),
            workers=np.arange(self.J),
            labels=np.arange(self.K),
            dtype=self.dtype,
        )

    def blocks(self, rows: int) -> Iterator[tuple[int, int]]:
        """Go through ranges of items with about ``rows`` annotations and items together: the first, and the next after them."""
        size = self.start.view(np.int64) + np.arange(self.N + 1)
        first = 0
        while first < self.N:
            end = max(first + 1, int(np.searchsorted(size, size[first] + rows, side="right")) - 1)
            yield first, end
            first = end


def _rows(anchor: torch.Tensor) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(anchor.double().numpy())


def padded(size: int, more: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return memory for so many codes and the zeros that functions look at beyond the last, and the part for the codes."""
    room = np.empty(size + more, dtype=np.uint32)
    room[size:] = 0
    return room, room[:size]


def shared(begin: npt.NDArray[np.uint64], threads: int) -> npt.NDArray[np.uint64]:
    """Return the rows of each thread ``(T+1,)``: whole ones, with as many annotations for each; ``begin`` is where rows do."""
    bounds = np.searchsorted(begin, np.linspace(0, begin[-1], threads + 1)).astype(np.uint64)
    bounds[0], bounds[-1] = 0, len(begin) - 1
    return bounds
