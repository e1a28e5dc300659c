"""Which of two groups of workers copies, where each is the reason why the other seems to.

What accuracy explains of the agreement of two workers follows from how well both agree with everybody else. Where two of eight
copy from each other and six know the answer, the six agree with each other, and not at all with the two, who agree with each
other without an error. By the two, the six are copies; by the six, the two are. The labels are symmetric: a source that six copy
with errors of their own, and a truth that six know, are one model. So a group is tested again with one worker in place of each
other group. Where it is named only as long as all of another group count, and the other only as long as all of it do, the group
of fewer workers has copied: what most of the crowd agree on is the answer. Where both are about as large, and the smaller one
gives nearly equal labels throughout, it has. Else neither is named, since an honest worker accused is worse than a copy missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# By how many workers a group that agrees by knowing the answer is larger, and the share of equal labels that counts as nearly
# all: answers of which 85% are copied are equal less often, and so are those of workers who are right less often than .98.
LARGER, NEARLY_ALL = 2, 0.97


@dataclass(frozen=True)
class Rival:
    """A group that may have copied.

    Attributes:
        workers: their codes, ascending.
        size: number of these, and of those who may belong to it.
        equal: share of equal labels of its pairs.
    """

    workers: tuple[int, ...]
    size: int
    equal: float

    def rather_than(self, other: Rival) -> bool:
        """Return whether this group has copied, and the other one knows the answer, where it is one of both."""
        if other.size >= self.size + LARGER:
            return True
        return other.size > self.size and self.equal >= NEARLY_ALL > other.equal


def settled(groups: Sequence[Rival], holds: Callable[[int, set[int]], bool]) -> list[int]:
    """Return the places of the groups that are named, whatever the others are.

    Args:
        groups: named, each as if all workers of the others counted.
        holds: tells whether a group, by its place, is named if further workers are not counted.
    """
    if len(groups) < 2:
        return list(range(len(groups)))
    every = set(range(len(groups)))
    alone = [place for place in sorted(every) if holds(place, _counted_once(groups, every - {place}))]
    once = _counted_once(groups, alone)
    open_ = [place for place in sorted(every - set(alone)) if holds(place, once)]
    kept = list(alone)
    for place in open_:
        against = [other for other in open_ if other != place]
        rivals = [other for other in against if not holds(place, once | _counted_once(groups, [other]))] or against
        if all(groups[place].rather_than(groups[other]) for other in rivals):
            kept.append(place)
    return sorted(kept)


def _counted_once(groups: Sequence[Rival], places: set[int] | list[int]) -> set[int]:
    """Return the members of groups, but one of each."""
    return {worker for place in places for worker in groups[place].workers[1:]}
