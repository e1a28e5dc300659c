"""Workers who give the same answers: copies, a shared script, or one person with several accounts.

Two honest workers agree as often as each agrees with everybody else, up to their accuracies: for chance-corrected agreement
(Cohen's kappa) of independent workers, ``kappa_ab = kappa_ao kappa_bo / kappa_oo``, where ``o`` are the other annotations of the
very items that ``a`` and ``b`` have in common. Easy items, good workers and errors that the whole crowd shares raise both sides.
Workers who share a criterion, such as a strict one, also agree as often as on two items of which everybody else said the same
(strata, as N. Mantel and W. Haenszel 1959). The larger of the two is what accuracy explains. A pair is named where its equal
labels exceed that even if two in five of them were copied, also once labels that everybody else calls by another one are replaced
by it: who tells apart what others merge is no copy (:mod:`crowdppl.data.beyond_accuracy`). Labels alone do not tell copies from
workers who apply a criterion of their own, other than everybody else's, in nearly the same way. That copying is what two sources
have in common beyond their accuracy is the idea of Dong, Berti-Equille and Srivastava (2009), Integrating conflicting data.

Where a pair is named, other workers are compared with the answers on which its group agrees: these are closer to the common
source than those of each member, and the tests are fewer than the pairs of the crowd.

A fit counts one of a group for each item: every model and every engine then sees a group as often as one worker, and each of its
members keeps a share of the own annotations, at random, from which the member's quality is learned. Where everybody else hardly
agrees, nothing tells a group that copies from one that knows better, and all of them count unless the caller asks for one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.beyond_accuracy import COPIED, FALSE_ALARMS, at_least, beyond_accuracy, by_chance, exceeds
from crowdppl.data.chance_agreement import ChanceAgreement
from crowdppl.data.copied_pairs import explained
from crowdppl.data.sets import whole
from crowdppl.data.worker_items import WorkerItems

Array = npt.NDArray[Any]

# Fewest common items of a pair that is tested.
COMMON = 20
# Chance-corrected agreement of everybody else from which a group counts as one worker: "moderate" by Landis and Koch (1977).
# Where it is lower by as many standard errors, a group may as well know better than the others. To follow them then costs far
# more labels than copies that count do (docs/benchmarks/copies.md).
TRUSTED, BELOW = 0.4, 1.0
# Pairs that agree as often as this may belong to one group: neither counts as another worker for the other's pairs.
NEAR = 0.75
# By how much more, in proportion, a pair must be explained to be left out together with others: rounding.
ROUNDING = 1e-6
# Most pairs that are looked at closely, most further workers that are left out for a pair, and most cells of working arrays.
PAIRS = 2_000
SUSPECTS = 8
CELLS = 20_000_000


@dataclass(frozen=True)
class Copies:
    """Workers who give the same answers.

    Attributes:
        workers: their codes, at least two, ascending.
        common: number of common items, summed over the pairs that were named.
        equal: number of these with equal labels.
        others: chance-corrected agreement, on the items of these workers, of those who are in no group; ``None`` for too few.
    """

    workers: tuple[int, ...]
    common: int
    equal: int
    others: ChanceAgreement | None = None

    @checked
    def counts_once(self, copies: Literal["one", "all"] | None) -> bool:
        """Return whether a fit counts one of them for each item: as the caller asks, else where others agree."""
        if copies is not None or self.others is None:
            return copies == "one"
        return self.others.value + BELOW * self.others.error >= TRUSTED


@checked
def copied_answers(data: Annotations) -> list[Copies]:
    """Return the groups of workers whose answers are equal more often than accuracy explains, the largest first.

    Of repeated annotations the first counts. The level of the tests is .01 over all pairs and groups together; their error rates
    stand in docs/benchmarks/copies.md. Nothing is returned for crowds of fewer than four workers or whose other workers do not
    agree, for items that nobody else annotated, and for crowds whose pairs of annotations or cells of label counts exceed 20
    million.
    """
    if data.set_labels is not None:
        data = whole(data)
    if data.criterion is not None:
        data = data.by_criterion()
    votes = _Votes.of(data)
    if votes is None:
        return []
    a, b, common, equal = votes.pairs()
    # Some of the answers copied, and no other agreement, is the least that is to be exceeded.
    significance = at_least(equal, common, COPIED)
    near: dict[int, set[int]] = {}
    for pair in np.flatnonzero((equal >= NEAR * common) & (significance < FALSE_ALARMS)):
        near.setdefault(int(a[pair]), set()).add(int(b[pair]))
        near.setdefault(int(b[pair]), set()).add(int(a[pair]))
    candidates = np.flatnonzero(significance * len(a) < FALSE_ALARMS)
    named = []
    candidates = candidates[np.argsort(significance[candidates], kind="stable")][:PAIRS]
    candidates = votes.beyond_chance(candidates, a, b, common, equal)
    suspects = [_suspects(near, int(a[pair]), int(b[pair])) for pair in candidates]
    for place in votes.beyond_accuracy(candidates, a, b, common, equal, suspects):
        pair = candidates[place]
        one, other = int(a[pair]), int(b[pair])
        left_out = suspects[place]
        if votes.exceeds_explained(votes.of_worker(one), votes.of_worker(other), left_out, len(a), counted=2):
            named.append((one, other, int(common[pair]), int(equal[pair])))
    groups = _groups(named, data.J)
    pairs = np.stack([a, b, common, equal], 1)[significance < FALSE_ALARMS]
    groups = _groups(named + [pair for group in groups for pair in _joining(votes, group, groups, pairs)], data.J)
    return [replace(group, others=agreement) for group, agreement in zip(groups, votes.others(groups), strict=True)]


@checked
def one_of_each(
    data: Annotations, groups: Annotated[list[Copies], arguments.groups_of_copies]
) -> tuple[Annotations, Annotations]:
    """Return annotations in which one member of each group, at random, has annotated an item, and those that are set aside.

    Who keeps an item does not depend on the labels, and is the same in every call. Repeated annotations of one member stay
    together. Labels that are never a true label are not set aside.

    Args:
        data: the annotations.
        groups: of workers, none in two of them, as :func:`copied_answers` returns them.
    """
    item, worker = data.item.cpu().numpy(), data.worker.cpu().numpy()
    if data.set_labels is not None and data.sequence is not None:  # a set is one answer
        item = data.sequence.cpu().numpy()[item]
    kept = np.ones(data.A, dtype=bool)
    rng = np.random.default_rng(0)
    for group in groups:
        rows = np.flatnonzero(np.isin(worker, group.workers))
        rows = rows[np.lexsort((worker[rows], item[rows]))]  # whatever the order of the annotations of an item
        drawn = rows[rng.permutation(len(rows))]
        items, first = np.unique(item[drawn], return_index=True)
        keeper = np.zeros(int(item.max(initial=-1)) + 1, dtype=worker.dtype)
        keeper[items] = worker[drawn[first]]
        kept[rows] = worker[rows] == keeper[item[rows]]
    selected = torch.from_numpy(kept)
    return replace(data.keep(selected), notes=data.notes), data.keep(~selected)


@dataclass(frozen=True)
class _Votes:
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
    def of(data: Annotations) -> _Votes | None:
        """Return it, or ``None`` for a crowd too small or too large."""
        pairs = float((data.item.bincount().double() ** 2).sum())
        if data.J < 4 or data.N * data.K > CELLS or pairs > CELLS:
            return None
        cells = WorkerItems.of(data)
        counts = np.bincount(cells.item * data.K + cells.first, minlength=data.N * data.K).astype(float)
        return _Votes(cells, cells.starts(data.J), counts.reshape(data.N, data.K))

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

    def others(self, groups: list[Copies]) -> list[ChanceAgreement | None]:
        """Return, for the items of each group, the chance-corrected agreement of workers who are in no group."""
        counts = self.counts.copy()  # (N, L)
        for worker in (member for group in groups for member in group.workers):
            items, labels = self.of_worker(worker)
            counts[items, labels] -= 1
        out = []
        for group in groups:
            own = np.unique(np.concatenate([self.of_worker(member)[0] for member in group.workers]))
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
    def _room(self) -> Array:
        """Memory for a label of each item, ``(N,)``, -1 but for those of ``_filled``."""
        return np.full(len(self.counts), -1, dtype=np.int32)

    @cached_property
    def _filled(self) -> list[Array]:
        """The items with a label in ``_room``, one array of them."""
        return [np.zeros(0, dtype=np.intp)]

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


def _suspects(near: dict[int, set[int]], one: int, other: int) -> set[int]:
    """Return the workers who may belong to one group with either of two, none where they are too many."""
    suspects = (near.get(one, set()) | near.get(other, set())) - {one, other}
    return suspects if len(suspects) <= SUSPECTS else set()


def _joining(votes: _Votes, group: Copies, groups: list[Copies], pairs: Array) -> list[tuple[int, int, int, int]]:
    """Return pairs of a member of a group and a worker whose answers are the group's.

    Args:
        votes: of the crowd.
        group: that was named.
        groups: all of these, whose members are not compared.
        pairs: workers, common items and equal labels of the pairs that are worth a look, ``(P, 4)``.
    """
    members = set(group.workers)
    somebody = {member for one in groups for member in one.workers}
    touching = pairs[np.isin(pairs[:, :2], list(members)).any(1)]
    agreed = votes.agreed(group.workers)
    out = []
    for worker in sorted(set(touching[:, :2].ravel().tolist()) - somebody):
        if votes.exceeds_explained(agreed, votes.of_worker(worker), members, len(votes.start) - 1, counted=1):
            rows = touching[(touching[:, :2] == worker).any(1)]
            out += [tuple(int(value) for value in row) for row in rows]
    return out  # type: ignore[return-value]  # four columns


def _groups(named: list[tuple[int, int, int, int]], workers: int) -> list[Copies]:
    """Join pairs that share a worker."""
    if not named:
        return []
    from scipy.sparse.csgraph import connected_components  # here, since it takes a tenth of a second to load

    a, b, common, equal = np.array(named).T
    links = scipy.sparse.coo_array((np.ones(len(a)), (a, b)), shape=(workers, workers))
    _, of = connected_components(links, directed=False)
    groups = []
    for number in np.unique(of[a]):
        inside = of[a] == number
        members = tuple(np.flatnonzero(of == number).tolist())
        groups.append(Copies(members, int(common[inside].sum()), int(equal[inside].sum())))
    return sorted(groups, key=lambda group: (-len(group.workers), group.workers))
