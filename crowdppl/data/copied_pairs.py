"""What accuracy explains of the equal labels of two workers: of many pairs together.

A crowd may have hundreds of pairs that are worth a closer look, of few common items each: one pair at a time, calls would take
longer than sums. Rows are common items, those of a pair one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.chance_agreement import FEWEST
from crowdppl.data.worker_items import WorkerItems

Array = npt.NDArray[Any]

# Fewest annotations of a pair's items by others.
OTHERS = 20
# Standard errors that are added to what accuracy explains.
MARGIN = 1.0
# Standard errors by which the agreement of others must exceed 0.
AGREEING = 3.0
# Most numbers of an array of a block of pairs.
BLOCK = 2**20


def by_accuracy(first: Array, second: Array, others: Array, begin: Array) -> Array:
    """Return the chance-corrected agreement of pairs that follows from that of both with the others, ``(P,)``.

    Args:
        first: labels of one worker of each pair, ``(n,)``.
        second: those of the other one.
        others: numbers of the others' labels of the same items, ``(n, L)``.
        begin: the first row of each pair, ``(P,)``; each has some.

    Returns:
        It, at most 1; NaN where too little is known.
    """

    def summed(values: Array) -> Array:
        return np.asarray(np.add.reduceat(values, begin, axis=0))

    n, L = others.shape
    pair = np.repeat(np.arange(len(begin)), np.diff(np.append(begin, n)))
    number = others.sum(1)
    pairs, total = number * (number - 1), summed(number)
    known = (total >= OTHERS) & (summed(pairs) >= FEWEST)

    def agreement(equal: Array, out_of: Array, chance: Array) -> tuple[Array, Array]:
        """Return it beyond chance and its standard error, as :meth:`ChanceAgreement.of` does, ``(P,)``."""
        whole = np.maximum(summed(out_of), 1)
        rate = summed(equal) / whole
        error = np.sqrt(summed((equal - rate[pair] * out_of) ** 2)) / whole
        rest = np.maximum(1 - chance, 1e-9)
        return (rate - chance) / rest, error / rest

    shares = summed(others * np.maximum(number - 1, 0)[:, None]) / np.maximum(summed(pairs), 1)[:, None]
    rest, rest_error = agreement((others * (others - 1)).sum(1), pairs, (shares * shares).sum(1))
    frequent = summed(others) / np.maximum(total, 1)[:, None]
    honest, relative = np.ones(len(begin)), (rest_error / np.maximum(rest, 1e-3)) ** 2
    for labels in (first, second):
        given = np.bincount(pair * L + labels, number, len(begin) * L).reshape(-1, L) / np.maximum(total, 1)[:, None]
        value, error = agreement(others[np.arange(n), labels], number, (given * frequent).sum(1))
        honest *= np.maximum(value, 0.0)
        relative += (error / np.maximum(value, 1e-3)) ** 2
    known &= rest > AGREEING * rest_error  # a crowd of guesses says nothing of two workers who agree
    honest /= np.where(known, rest, 1.0)
    return np.where(known, np.minimum(1.0, honest * (1 + MARGIN * relative**0.5)), np.nan)


def explained(cells: WorkerItems, counts: Array, one: Array, other: Array, left_out: Sequence[set[int]]) -> Array:
    """Return what :func:`by_accuracy` does for pairs of workers; memory for a label of each worker and item is taken.

    Args:
        cells: of the crowd.
        counts: number of workers of each item with each label, ``(N, L)``.
        one: a worker of each pair, ``(P,)``.
        other: the other one; they have common items.
        left_out: workers who are not counted among the others of each pair, besides these two.
    """
    (N, L), J, out = counts.shape, int(cells.worker.max(initial=-1)) + 1, []
    start = cells.starts(J)
    given = np.full(J * N, -1, dtype=np.int32)  # label by worker and item
    given[cells.worker * N + cells.item] = cells.first
    for part in _blocks(np.diff(start)[one] * L):
        row, own = _ranges(start[one[part]], start[one[part] + 1])
        second = given[other[part][own] * N + cells.item[row]]
        row, own, second = (values[second >= 0] for values in (row, own, second))
        items, first, each = cells.item[row], cells.first[row], np.arange(len(row)) * L
        begin = np.searchsorted(own, np.arange(part.stop - part.start + 1))
        pair, worker = _members(left_out[part])
        place, of = _ranges(begin[pair], begin[pair + 1])
        label = given[worker[of] * N + items[place]]
        known = label >= 0
        fewer = np.concatenate([each + first, each + second, place[known] * L + label[known]])
        others = counts[items] - np.bincount(fewer, minlength=len(row) * L).reshape(-1, L)
        out.append(by_accuracy(first, second, others, begin[:-1]))
    return np.concatenate(out) if out else np.zeros(0)


def _blocks(sizes: Array) -> Iterator[slice]:
    """Split pairs into runs of at most ``BLOCK`` numbers together, or of one pair."""
    begin, ends = 0, np.cumsum(sizes)
    while begin < len(sizes):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + BLOCK, side="right")))
        yield slice(begin, end)
        begin = end


def _ranges(begin: Array, end: Array) -> tuple[Array, Array]:
    """Return the whole numbers from each ``begin`` up to its ``end``, one range after the other, and the range of each."""
    size = end - begin
    of = np.repeat(np.arange(len(size)), size)
    return np.arange(len(of)) + (begin - np.cumsum(size) + size)[of], of


def _members(sets: Sequence[set[int]]) -> tuple[Array, Array]:
    """Return the members of sets, and before them the set of each."""
    pairs = [(n, member) for n, one in enumerate(sets) for member in sorted(one)]
    return tuple(np.array(pairs, dtype=np.intp).reshape(-1, 2).T)  # type: ignore[return-value]
