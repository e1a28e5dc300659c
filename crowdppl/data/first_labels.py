"""The labels by which workers are compared with each other: the first of each worker for each item, and tests of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from crowdppl.data.annotations import Annotations
from crowdppl.data.beyond_accuracy import COPIED, FALSE_ALARMS, at_least, beyond_accuracy, by_chance, exceeds
from crowdppl.data.chance_agreement import ChanceAgreement
from crowdppl.data.copied_pairs import explained
from crowdppl.data.worker_items import WorkerItems

Array = npt.NDArray[Any]

# Fewest common items of a pair that is tested.
COMMON = 20
# By how much more, in proportion, a pair must be explained to be left out together with others: rounding.
ROUNDING = 1e-6
# Most cells of working arrays.
CELLS = 20_000_000


@dataclass(frozen=True)
class FirstLabels:
    """The first label of each worker for each item, by worker, and how many each item has.

    Attributes:
        cells: pairs of a worker and an item.
        start: first cell of each worker, and the end, ``(J + 1,)``.
        counts: number of workers of each item with each label, ``(N, K)``.
    """

    cells: WorkerItems
    start: Array
    counts: Array

    @staticmethod
    def of(data: Annotations) -> FirstLabels | None:
        """Return it, or ``None`` for a crowd too small or too large."""
        pairs = float((data.item.bincount().double() ** 2).sum())
        if data.J < 4 or data.N * data.K > CELLS or pairs > CELLS:
            return None
        cells = WorkerItems.of(data)
        counts = np.bincount(cells.item * data.K + cells.first, minlength=data.N * data.K).astype(float)
        return FirstLabels(cells, cells.starts(data.J), counts.reshape(data.N, data.K))

    def of_worker(self, worker: int) -> tuple[Array, Array]:
        """Return the items of a worker, ascending, and their labels."""
        own = slice(*self.start[worker : worker + 2])
        return self.cells.item[own], self.cells.first[own]

    def pairs(self) -> tuple[Array, Array, Array, Array]:
        """Return both workers of each pair with enough common items, and the numbers of common items and equal labels."""
        J = len(self.start) - 1
        common = self.cells.common(J)
        enough = common.data >= COMMON
        a, b, number = common.row[enough], common.col[enough], common.data[enough]
        if not len(a):
            return a, b, number, number
        N, K = self.counts.shape
        ones = np.ones(len(self.cells.item), dtype=np.int32)
        given = scipy.sparse.csr_array((ones, self.cells.item * K + self.cells.first, self.start), shape=(J, N * K))
        return a, b, number, np.asarray((given @ given.T).tocsr()[a, b]).ravel()

    def beyond_chance(self, pairs: Array, a: Array, b: Array, common: Array, equal: Array) -> Array:
        """Return those of ``pairs`` whose equal labels exceed what chance explains: few, and the others need no closer look.

        Args:
            pairs: places in the other arrays, which are those that :meth:`pairs` returns.
            a: one worker of each pair.
            b: the other one.
            common: number of common items.
            equal: number of equal labels.
        """
        if not len(pairs):
            return pairs
        bound = COPIED + (1 - COPIED) * np.minimum(self._chance(pairs, a, b, common), 1.0)
        return np.asarray(pairs[at_least(equal[pairs], common[pairs], bound) * len(a) < FALSE_ALARMS])

    def _chance(self, pairs: Array, a: Array, b: Array, common: Array) -> Array:
        """Return the agreement of each of ``pairs`` by chance; arguments as of :meth:`beyond_chance`."""
        K, given = self.counts.shape[1], self._given
        chance = np.zeros(len(pairs))
        for k in range(K):
            chance += np.asarray(given[a[pairs] * K + k, b[pairs]]).ravel() * np.asarray(
                given[b[pairs] * K + k, a[pairs]]
            ).ravel().astype(float)
        return np.asarray(chance / common[pairs].astype(float) ** 2)

    @cached_property
    def _given(self) -> scipy.sparse.csr_array:
        """How often each worker gave each label to items of each other worker, ``(J K, J)``."""
        J, (N, K), cells = len(self.start) - 1, self.counts.shape, self.cells
        ones = np.ones(len(cells.item), dtype=np.int32)
        has = scipy.sparse.csr_array((ones, cells.item, self.start), shape=(J, N))
        by_label = scipy.sparse.coo_array((ones, (cells.worker * K + cells.first, cells.item)), shape=(J * K, N))
        return (by_label.tocsr() @ has.T).tocsr()

    def beyond_accuracy(
        self, pairs: Array, a: Array, b: Array, common: Array, equal: Array, left_out: list[set[int]]
    ) -> Array:
        """Return the places of those of ``pairs`` whose equal labels exceed what accuracy explains, or might.

        Arguments as of :meth:`beyond_chance`; ``left_out`` are the workers who are not counted among the others of each pair.
        """
        if not len(pairs) or (len(self.start) - 1) * len(self.counts) > CELLS:
            return np.arange(len(pairs))
        one, other, number = a[pairs], b[pairs], common[pairs]
        honest = explained(self.cells, self.counts, one, other, left_out)
        chance = self._chance(pairs, a, b, common)
        bound = COPIED + (1 - COPIED) * np.minimum(chance + (1 - chance) * honest, 1.0)
        level = at_least(equal[pairs], number, np.where(np.isnan(bound), 1.0, bound * (1 - ROUNDING)))
        return np.flatnonzero((level * len(a) < FALSE_ALARMS) & ~np.isnan(honest))

    def others(self, groups: list[tuple[int, ...]]) -> list[ChanceAgreement | None]:
        """Return, for the items of each group, the chance-corrected agreement of workers who are in no group."""
        counts = self.counts.copy()  # (N, L)
        for worker in (member for group in groups for member in group):
            items, labels = self.of_worker(worker)
            counts[items, labels] -= 1
        out = []
        for group in groups:
            own = np.unique(np.concatenate([self.of_worker(member)[0] for member in group]))
            out.append(ChanceAgreement.within(counts[own]))
        return out

    def agreed(self, members: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the items, ascending, that two or more of these workers labelled, all of them with one label, and that label."""
        items, labels = (np.concatenate(parts) for parts in zip(*map(self.of_worker, members), strict=True))
        given, place = np.unique(items, return_inverse=True)
        least, most = np.full(len(given), self.counts.shape[1]), np.full(len(given), -1)
        np.minimum.at(least, place, labels)
        np.maximum.at(most, place, labels)
        kept = (least == most) & (np.bincount(place) > 1)
        return given[kept], most[kept]

    def _spread(self, answers: tuple[Array, Array]) -> Array:
        """Return the label of each item, ``(N,)``, by items and labels; -1 without one. The next call writes over it."""
        out = self._room
        out[self._filled[0]] = -1
        out[answers[0]] = answers[1]
        self._filled[0] = answers[0]
        return out

    @cached_property
    def _number(self) -> Array:
        """Number of workers of each item, ``(N,)``."""
        return np.asarray(self.counts.sum(1))

    @cached_property
    def _room(self) -> Array:
        """Memory for a label of each item, ``(N,)``, -1 but for those of ``_filled``."""
        return np.full(len(self.counts), -1, dtype=np.int32)

    @cached_property
    def _filled(self) -> list[Array]:
        """The items with a label in ``_room``, one array of them."""
        return [np.zeros(0, dtype=np.intp)]

    def majority(self, one: int, other: int, suspects: set[int]) -> float:
        """Return by how many two workers and others who may be of their group outnumber everybody else, on the pair's items."""
        items = self.of_worker(one)[0]
        items = items[self._spread(self.of_worker(other))[items] >= 0]
        of_theirs = sum((self._spread(self.of_worker(worker))[items] >= 0).sum() for worker in suspects)
        group = 2 + of_theirs / len(items)
        return float(2 * group - self._number[items].mean())

    def named(self, one: int, other: int, left_out: set[int], tests: int) -> bool:
        """Return whether labels of two workers are equal more often than is explained; as :meth:`exceeds_explained`."""
        return self.exceeds_explained(self.of_worker(one), self.of_worker(other), left_out, tests, counted=2)

    def exceeds_explained(
        self, one: tuple[Array, Array], other: tuple[Array, Array], left_out: set[int], tests: int, *, counted: int
    ) -> bool:
        """Return whether labels are equal more often than if ``COPIED`` were copied and accuracy explained the rest.

        Args:
            one: items, ascending, and labels of a worker, or of a group.
            other: those of another one.
            left_out: workers who are not counted among the others, besides these.
            tests: number of tests that share the level.
            counted: whose labels are those of one worker, who is none of the others: 2 for both, 1 for ``other`` alone.

        Returns:
            That; ``False`` where too little is known.
        """
        given = self._spread(other)[one[0]]
        both = given >= 0
        items, first, second = one[0][both], one[1][both], given[both]
        if len(items) < COMMON:
            return False
        if not exceeds(first, second, by_chance(first, second, self.counts.shape[1]), tests):
            return False  # whatever accuracy explains: most pairs, at a fraction of the time
        others, each = self.counts[items], np.arange(len(items))  # (n, L)
        for labels in (second, first)[:counted]:
            others[each, labels] -= 1
        for worker in left_out:
            labels = self._spread(self.of_worker(worker))[items]
            here = np.flatnonzero(labels >= 0)
            others[here, labels[here]] -= 1
        return beyond_accuracy(first, second, others, tests)
