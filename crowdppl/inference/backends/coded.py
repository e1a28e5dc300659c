"""Annotations of whole items as compiled passes take them: four bytes an annotation, and nothing else of its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    """

    start: npt.NDArray[np.uint64]
    column: npt.NDArray[np.uint32]
    known: npt.NDArray[np.int16]
    J: int
    K: int
    dtype: torch.dtype = torch.float64

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
