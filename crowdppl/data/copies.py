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

Other workers who agree with either of a pair nearly as often may be of its group. They are not counted among everybody else,
unless most of the crowd would be of that group: then they are the crowd. Where the group would be about half of the crowd, and
workers of the other half agree as often, either half may have copied, and neither is named. Where two groups are each named only
as long as all workers of the other one count, at most one of them has copied (:mod:`crowdppl.data.rival_groups`).

Where a pair is named, other workers are compared with the answers on which its group agrees: these are closer to the common
source than those of each member, and the tests are fewer than the pairs of the crowd.

A fit counts one of a group for each item: every model and every engine then sees a group as often as one worker, and each of its
members keeps a share of the own annotations, at random, from which the member's quality is learned. Where everybody else hardly
agrees, nothing tells a group that copies from one that knows better, and all of them count unless the caller asks for one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.beyond_accuracy import COPIED, FALSE_ALARMS, at_least
from crowdppl.data.chance_agreement import ChanceAgreement
from crowdppl.data.first_labels import FirstLabels
from crowdppl.data.rival_groups import Rival, settled
from crowdppl.data.sets import whole

Array = npt.NDArray[Any]

# Chance-corrected agreement of everybody else from which a group counts as one worker: "moderate" by Landis and Koch (1977).
# Where it is lower by as many standard errors, a group may as well know better than the others. To follow them then costs far
# more labels than copies that count do (docs/benchmarks/copies.md).
TRUSTED, BELOW = 0.4, 1.0
# By how many a pair, and all who may belong to its group, may outnumber everybody else, where of these no two agree as often:
# what most of the crowd say is what accuracy is measured by. And standard errors up to which pairs agree as often.
MORE, ALIKE = 1, 3.0
# Pairs that agree as often as this may belong to one group: neither counts as another worker for the other's pairs.
NEAR = 0.75
# Most pairs that are looked at closely, and most further workers that are left out for a pair.
PAIRS = 2_000
SUSPECTS = 8


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
    votes = FirstLabels.of(data)
    if votes is None:
        return []
    a, b, common, equal = votes.pairs()
    # Some of the answers copied, and no other agreement, is the least that is to be exceeded.
    significance = at_least(equal, common, COPIED)
    near: dict[int, dict[int, float]] = {}
    for pair in np.flatnonzero((equal >= NEAR * common) & (significance < FALSE_ALARMS)):
        near.setdefault(int(a[pair]), {})[int(b[pair])] = equal[pair] / common[pair]
        near.setdefault(int(b[pair]), {})[int(a[pair])] = equal[pair] / common[pair]
    candidates = np.flatnonzero(significance * len(a) < FALSE_ALARMS)
    named, beside, either = [], [], set[tuple[int, int]]()
    candidates = candidates[np.argsort(significance[candidates], kind="stable")][:PAIRS]
    candidates = votes.beyond_chance(candidates, a, b, common, equal)
    suspects, doubtful = [], []
    for pair in candidates:
        group, doubt = _suspects(votes, near, *(int(of[pair]) for of in (a, b, common, equal)))
        suspects.append(group)
        doubtful.append(doubt)
    for place in votes.beyond_accuracy(candidates, a, b, common, equal, suspects):
        pair = candidates[place]
        one, other = int(a[pair]), int(b[pair])
        if votes.named(one, other, suspects[place], len(a)):
            named.append((one, other, int(common[pair]), int(equal[pair])))
            beside.append(suspects[place])
            if doubtful[place]:
                either.add((one, other))
    named = [pair for pair in _without_rivals(votes, named, beside, len(a)) if pair[:2] not in either]
    groups = _groups(named, data.J)
    pairs = np.stack([a, b, common, equal], 1)[significance < FALSE_ALARMS]
    groups = _groups(named + [pair for group in groups for pair in _joining(votes, group, groups, pairs)], data.J)
    return [
        replace(group, others=agreement)
        for group, agreement in zip(groups, votes.others([group.workers for group in groups]), strict=True)
    ]


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


def _without_rivals(
    votes: FirstLabels, named: list[tuple[int, int, int, int]], beside: list[set[int]], tests: int
) -> list[tuple[int, int, int, int]]:
    """Return the pairs that were named, without those that only another group makes seem copies.

    Args:
        votes: of the crowd.
        named: both workers of each pair, and the numbers of common items and of equal labels.
        beside: who was not counted among the others of each pair.
        tests: number of tests that share the level.
    """
    groups = _groups(named, len(votes.start) - 1)
    of = {worker: place for place, group in enumerate(groups) for worker in group.workers}
    pairs: list[list[int]] = [[] for _ in groups]
    for number, (one, *_) in enumerate(named):
        pairs[of[one]].append(number)
    rivals = []
    for group, own in zip(groups, pairs, strict=True):
        near = set(group.workers).union(*(beside[number] for number in own))
        rivals.append(Rival(group.workers, len(near), group.equal / group.common))

    def holds(place: int, once: set[int]) -> bool:
        return any(
            votes.named(one, other, beside[number] | once - {one, other}, tests)
            for number in pairs[place]
            for one, other, *_ in [named[number]]
        )

    return [named[number] for place in settled(rivals, holds) for number in pairs[place]]


def _suspects(
    votes: FirstLabels, near: dict[int, dict[int, float]], one: int, other: int, common: int, equal: int
) -> tuple[set[int], bool]:
    """Return the workers who may belong to one group with either of two; none where they are too many, or most of the crowd.

    Where all would be most of the crowd, those who agree with either as often as both with each other. And whether a group
    would be about half of the crowd, and workers of the other half agree as often, so that either half may have copied.

    Args:
        votes: of the crowd.
        near: share of equal labels of each worker and those who may belong to a group with this one.
        one: a worker.
        other: another one.
        common: number of their common items.
        equal: number of equal labels.
    """
    both = near.get(one, {}), near.get(other, {})
    suspects = {*both[0], *both[1]} - {one, other}
    share = (equal + 1) / (common + 2)
    alike = equal / common - ALIKE * (share * (1 - share) / common) ** 0.5
    if not suspects or len(suspects) > SUSPECTS:
        return set(), False
    for group in (suspects, {worker for worker in suspects if max(each.get(worker, 0.0) for each in both) >= alike}):
        more = votes.majority(one, other, group)
        if more <= MORE:
            return group, more >= -MORE and _agree(near, group | {one, other}, alike)
    return set(), False


def _agree(near: dict[int, dict[int, float]], group: set[int], share: float) -> bool:
    """Return whether two workers who are not of a group have at least this share of equal labels."""
    return any(
        value >= share
        for worker, those in near.items()
        if worker not in group
        for other, value in those.items()
        if other not in group
    )


def _joining(votes: FirstLabels, group: Copies, groups: list[Copies], pairs: Array) -> list[tuple[int, int, int, int]]:
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
