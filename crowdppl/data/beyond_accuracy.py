"""Whether two workers give equal labels more often than their accuracies explain: the tests of one pair.

Labels are equal more often than explained if they were even where a share ``COPIED`` of them was copied and the rest is explained
in either of two senses: by agreement with everybody else, and by everybody else's labels of similar items.

Both take another label for an error. It is none where everybody else merges classes that two workers tell apart: "husky" of two
who know dogs is "dog" for the others, every time. Such workers agree more often than either agrees with the others, and nobody
else can say whether they are right. So labels that the others surely call by another one are replaced by it, and the labels that
are equal then must exceed what is explained, too. Copies of a worker who guesses also give labels where the others give another
one, that of a frequent class, but these labels tell nothing of the class: the others give it as often elsewhere. So a label is
replaced only where it surely means the other one. Where the others call all labels by one, as with two classes of which two
workers are strict, nothing is left to compare: labels alone do not tell strict workers from copies, and these tests name both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

from crowdppl.data.copied_pairs import MARGIN, by_accuracy

Array = npt.NDArray[Any]

# Level of the tests that no more than ``COPIED`` of the answers are copied: over all pairs of a crowd, and over all workers who
# are compared with a group. Together they make 1 crowd of 100.
FALSE_ALARMS = 0.005
# Share of copied answers that a pair may have without being named.
COPIED = 0.4
# Strata of items by the share of everybody else's most frequent label.
STRATA = 6
# Standard errors by which the others more often give another label where a pair gives one, and by which a label of a pair means
# another one of the others: they then call it by that one.
OTHERWISE = 2.0


def exceeds(first: Array, second: Array, explained: float, tests: int) -> bool:
    """Return whether labels are equal more often than if ``COPIED`` were copied and a share of the others ``explained``.

    Args:
        first: labels of one worker, ``(n,)``, or of a group.
        second: those of another one, of the same items.
        explained: share of equal labels that is explained without copies.
        tests: number of tests that share the level.
    """
    bound = COPIED + (1 - COPIED) * min(1.0, explained)
    return bool(at_least(np.asarray((first == second).sum()), np.asarray(len(first)), bound) * tests < FALSE_ALARMS)


def beyond_accuracy(first: Array, second: Array, others: Array, tests: int) -> bool:
    """Return whether labels are equal more often than accuracy explains; ``False`` where too little is known.

    Args:
        first: labels of one worker, ``(n,)``, or of a group.
        second: those of another one, of the same items.
        others: numbers of the others' labels of the same items, ``(n, L)``.
        tests: number of tests that share the level.
    """
    if not _beyond_both(first, second, others, tests):
        return False
    said = as_others_say(first, second, others)
    return said is None or _beyond_both(said[first], said[second], others, tests)


def _beyond_both(first: Array, second: Array, others: Array, tests: int) -> bool:
    """Return whether labels are equal more often than is explained in either sense; arguments as above."""
    honest = float(by_accuracy(first, second, others, np.zeros(1, dtype=np.intp))[0])
    if np.isnan(honest):
        return False
    chance = by_chance(first, second, others.shape[1])
    explained = (chance + (1 - chance) * honest, _by_stratum(first, second, others))
    return all(exceeds(first, second, share, tests) for share in explained)


def as_others_say(first: Array, second: Array, others: Array) -> Array | None:
    """Return the label that the others give where a pair gives each label, ``(L,)``.

    It is another one only where they surely give that more often, and the pair's label means it.

    Args:
        first: as of :func:`beyond_accuracy`.
        second: likewise.
        others: likewise.

    Returns:
        It; ``None`` where each label is the others' own, or where they call all labels by one and nothing is left to compare.
    """
    own = np.arange(others.shape[1])
    table = np.zeros((len(own), len(own)))
    for labels in (first, second):
        np.add.at(table, labels, others)
    same, most = table.diagonal(), table.max(1)
    instead = table.argmax(1)
    otherwise = (most - same > OTHERWISE * np.sqrt(most + same)) & _means(first, second, others, instead)
    said = np.where(otherwise, instead, own)
    given = said[np.concatenate([first, second])]
    return None if np.array_equal(said, own) or (given == given[0]).all() else said


def _means(first: Array, second: Array, others: Array, instead: Array) -> Array:
    """Return whether the pair's labels mean another one of the others, ``(L,)``.

    Where both give the label, the other one surely is most of what the others say of an item, and more than of the pair's further
    items. Items count, not the others' labels, which agree on an item; shares have the posterior of a flat prior.

    Args:
        first: as of :func:`beyond_accuracy`.
        second: likewise.
        others: likewise.
        instead: the other one for each label, ``(L,)``.
    """
    share = others / np.maximum(others.sum(1, keepdims=True), 1)  # (n, L)
    both, L = first == second, len(instead)
    here = np.bincount(first[both], minlength=L)
    said = np.bincount(first[both], share[both, instead[first[both]]], L)
    mean, variance = _flat(said, here)
    rest, rest_variance = _flat(share.sum(0)[instead] - said, len(first) - here)
    return np.asarray(
        (mean - OTHERWISE * variance**0.5 > 0.5) & (mean - rest > OTHERWISE * (variance + rest_variance) ** 0.5)
    )


def _flat(part: Array, whole: Array) -> tuple[Array, Array]:
    """Return the mean and the variance of a share of a whole, by a flat prior."""
    mean = (part + 1) / (whole + 2)
    return mean, mean * (1 - mean) / (whole + 3)


def by_chance(first: Array, second: Array, classes: int) -> float:
    """Return the share of equal labels by chance."""
    return float(_shares(first, classes) @ _shares(second, classes))


def _shares(labels: Array, classes: int) -> Array:
    """Return the share of each label, ``(L,)``."""
    return np.asarray(np.bincount(labels, minlength=classes) / len(labels))


def _by_stratum(first: Array, second: Array, others: Array) -> float:
    """Return the share of equal labels of one item by one worker and another, similar item by the other, and its standard error.

    Items are similar where the others' most frequent label is the same and about as frequent. An item without a similar one
    counts as explained. Arguments as of
    :func:`crowdppl.data.copied_pairs.by_accuracy`.
    """
    number = others.sum(1)
    share = np.round(STRATA * others.max(1) / np.maximum(number, 1))
    _, stratum = np.unique(others.argmax(1) * (STRATA + 1) + share, return_inverse=True)
    shape = (int(stratum.max()) + 1, others.shape[1])
    each = [np.bincount(stratum * shape[1] + labels, minlength=shape[0] * shape[1]) for labels in (first, second)]
    size = np.bincount(stratum, minlength=shape[0])
    same = np.bincount(stratum, first == second, minlength=shape[0])
    # Pairs of two different items of a stratum.
    pairs = (each[0] * each[1]).reshape(shape).sum(1) - same
    rate = np.where(size > 1, pairs / np.maximum(size * (size - 1), 1), 1.0)
    mean = float((size * rate).sum() / size.sum())
    return mean + MARGIN * (mean * (1 - mean) / len(first)) ** 0.5


def at_least(equal: Array, common: Array, rate: float | Array) -> Array:
    """Return the binomial probability of at least so many equal labels; ``scipy.stats`` takes long to import."""
    return np.asarray(np.where(equal > 0, scipy.special.betainc(np.maximum(equal, 1), common - equal + 1, rate), 1.0))
