"""Workers who give the same answers: copies, a shared script, or one person with several accounts.

Two honest workers agree as often as each agrees with everybody else, up to their accuracies: for chance-corrected agreement
(Cohen's kappa) of independent workers, ``kappa_ab = kappa_ao kappa_bo / kappa_oo``, where ``o`` are the other annotations of the
very items that ``a`` and ``b`` have in common. Easy items, good workers and errors that the whole crowd shares raise both sides.
A pair is named where its equal labels cannot be explained even if half of them were copied. Labels alone do not tell copies from
workers who apply a criterion of their own, other than everybody else's, in nearly the same way. That copying is what two sources
have in common beyond their accuracy is the idea of Dong, Berti-Equille and Srivastava (2009), Integrating conflicting data.

A fit counts one of a group for each item: every model and every engine then sees a group as often as one worker, and each of its
members keeps a share of the own annotations, at random, from which the member's quality is learned. Where everybody else hardly
agrees, nothing tells a group that copies from one that knows better, and all of them count unless the caller asks for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.special
import torch

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.chance_agreement import ChanceAgreement
from crowdppl.data.sets import whole
from crowdppl.data.worker_items import WorkerItems

Array = npt.NDArray[Any]

# Fewest common items of a pair that is tested, and fewest annotations of these items by others.
COMMON = 20
OTHERS = 20
# Level of the test that no more than half of the answers of a pair are copied, over all pairs of a crowd.
FALSE_ALARMS = 0.01
# Share of copied answers that a pair may have without being named.
COPIED = 0.5
# Standard errors that are added to what accuracy explains.
MARGIN = 1.0
# Standard errors by which the agreement of others must exceed 0.
AGREEING = 3.0
# Chance-corrected agreement of everybody else from which a group counts as one worker: "moderate" by Landis and Koch (1977).
# Where it is surely lower, a group may as well know better than the others.
TRUSTED = 0.4
# Pairs that agree as often as this may belong to one group: neither counts as another worker for the other's pairs.
NEAR = 0.75
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
        return not self.others.surely_below(TRUSTED)


@checked
def copied_answers(data: Annotations) -> list[Copies]:
    """Return the groups of workers whose answers are equal more often than accuracy explains, the largest first.

    Of repeated annotations the first counts. The level of the test is .01 over all pairs together; its error rates stand in
    docs/benchmarks/copies.md. Nothing is returned for crowds of fewer than four workers or whose other workers do not agree, for
    items that nobody else annotated, and for crowds whose pairs of annotations or cells of label counts exceed 20 million.
    """
    votes = _Votes.of(whole(data).by_criterion())
    if votes is None:
        return []
    a, b, common, equal = votes.pairs()
    # Half of the answers copied, and no other agreement, is the least that is to be exceeded.
    significance = _at_least(equal, common, COPIED)
    near: dict[int, set[int]] = {}
    for pair in np.flatnonzero((equal >= NEAR * common) & (significance < FALSE_ALARMS)):
        near.setdefault(int(a[pair]), set()).add(int(b[pair]))
        near.setdefault(int(b[pair]), set()).add(int(a[pair]))
    candidates = np.flatnonzero(significance * len(a) < FALSE_ALARMS)
    named = []
    for pair in candidates[np.argsort(significance[candidates], kind="stable")][:PAIRS]:
        one, other = int(a[pair]), int(b[pair])
        suspects = (near.get(one, set()) | near.get(other, set())) - {one, other}

        def exceeds(bound: float, pair: int = pair) -> bool:
            return bool(_at_least(equal[pair], common[pair], bound) * len(a) < FALSE_ALARMS)

        if votes.exceeds_explained(one, other, suspects if len(suspects) <= SUSPECTS else set(), exceeds):
            named.append((one, other, int(common[pair]), int(equal[pair])))
    groups = _groups(named, data.J)
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

    def exceeds_explained(self, a: int, b: int, suspects: set[int], exceeds: Callable[[float], bool]) -> bool:
        """Return whether labels of a pair are equal more often than if half were copied and accuracy explained the rest.

        Args:
            a: a worker.
            b: another one.
            suspects: whose labels say nothing of the accuracy.
            exceeds: returns whether equal labels are more than a share of the common ones explains.

        Returns:
            That; ``False`` where too little is known.
        """
        of_a, of_b = self.of_worker(a), self.of_worker(b)
        items, at_a, at_b = np.intersect1d(of_a[0], of_b[0], assume_unique=True, return_indices=True)
        first, second = of_a[1][at_a], of_b[1][at_b]

        def shares(labels: Array, weight: Array | None = None) -> Array:
            counted = np.bincount(labels, weight, minlength=self.counts.shape[1])
            return counted / (len(labels) if weight is None else weight.sum())

        chance = float(shares(first) @ shares(second))
        if not exceeds(
            chance + (1 - chance) * COPIED
        ):  # whatever accuracy explains: most pairs, at a fraction of the time
            return False
        each = np.arange(len(items))
        others = self.counts[items].copy()  # (n, L)
        others[each, first] -= 1
        others[each, second] -= 1
        for suspect in suspects:
            theirs, labels = self.of_worker(suspect)
            _, here, there = np.intersect1d(items, theirs, assume_unique=True, return_indices=True)
            others[here, labels[there]] -= 1
        number = others.sum(1)
        rest = ChanceAgreement.within(others)
        if number.sum() < OTHERS or rest is None:
            return False
        all_others = others.sum(0) / number.sum()
        one = ChanceAgreement.of(others[each, first], number, float(shares(first, number) @ all_others))
        two = ChanceAgreement.of(others[each, second], number, float(shares(second, number) @ all_others))
        if rest.value <= AGREEING * rest.error:  # a crowd of guesses says nothing of two workers who agree
            return False
        honest = max(0.0, one.value) * max(0.0, two.value) / rest.value
        relative = sum((part.error / max(part.value, 1e-3)) ** 2 for part in (one, two, rest))
        honest = min(1.0, honest * (1 + MARGIN * relative**0.5))
        return exceeds(chance + (1 - chance) * (COPIED + (1 - COPIED) * honest))


def _at_least(equal: Array, common: Array, rate: float) -> Array:
    """Return the binomial probability of at least so many equal labels; ``scipy.stats`` takes long to import."""
    return np.asarray(np.where(equal > 0, scipy.special.betainc(np.maximum(equal, 1), common - equal + 1, rate), 1.0))


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
