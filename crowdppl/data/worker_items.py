"""What each worker said of each item: the cells that agreement of workers compares, each with the labels given in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from crowdppl.data.annotations import CROWD, Annotations

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class WorkerItems:
    """Pairs of a worker and an item, ``C`` of them, by worker and then by item.

    A worker who labels an item several times is still one worker: the labels share one cell, and count as one label in all.

    Attributes:
        item: item of each cell, ``(C,)``.
        worker: worker of each cell, ``(C,)``.
        counts: number of times that each label was given in it, ``(C, K)``, sparse.
        size: number of annotations in it, ``(C,)``.
        first: label of the first annotation in it, ``(C,)``.
        items: number of items, ``N``.
    """

    item: Array
    worker: Array
    counts: scipy.sparse.csr_array
    size: Array
    first: Array
    items: int

    @classmethod
    def of(cls, data: Annotations) -> WorkerItems:
        """Return the cells of annotations. In counts of labels, where the workers are unknown, each annotation is a cell."""
        item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
        if data.workers.tolist() == [CROWD]:
            worker = np.arange(data.A) - np.searchsorted(item, item)
        code, first, inverse, size = np.unique(
            worker * data.N + item, return_index=True, return_inverse=True, return_counts=True
        )
        counts = scipy.sparse.coo_array((np.ones(data.A), (inverse, label)), shape=(len(code), data.K))
        return cls(code % data.N, code // data.N, counts.tocsr(), size, label[first], data.N)

    def starts(self, workers: int) -> Array:
        """Return the first cell of each worker, and the end of the last one's, ``(J + 1,)``."""
        return np.searchsorted(self.worker, np.arange(workers + 1))

    def common(self, workers: int) -> scipy.sparse.coo_array:
        """Return the number of common items of each pair of workers that has some, ``(J, J)``, above the diagonal."""
        ones = np.ones(len(self.item), dtype=np.int32)
        has = scipy.sparse.csr_array((ones, self.item, self.starts(workers)), shape=(workers, self.items))
        return scipy.sparse.triu(has @ has.T, 1).tocoo()

    @cached_property
    def shares(self) -> scipy.sparse.csr_array:
        """Share of each label among those of a cell, ``(C, K)``, sparse."""
        return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / self.size) @ self.counts)

    @cached_property
    def votes(self) -> Array:
        """Sum of the shares over the cells of each item, ``(N, K)``."""
        cells = (self.item, np.arange(len(self.item)))
        by_item = scipy.sparse.coo_array((np.ones(len(self.item)), cells), shape=(self.items, len(self.item)))
        return np.asarray((by_item.tocsr() @ self.shares).todense())

    @cached_property
    def raters(self) -> Array:
        """Number of workers of each item, ``(N,)``."""
        return np.bincount(self.item, minlength=self.items)

    @cached_property
    def repeated(self) -> Array:
        """WorkerItems with several annotations."""
        return np.flatnonzero(self.size > 1)
