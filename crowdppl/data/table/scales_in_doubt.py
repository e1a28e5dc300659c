"""Labels that may be others: scales that begin at 0 for some workers, numbers far from a scale, and spellings of some workers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.missing_words import codes_for_nothing
from crowdppl.data.table.spellings import edits, folded
from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Classes of a scale, and more of them than are compared.
_FEWEST, _FEWEST_SHIFTED, _MOST = 4, 2, 12
# Pairs of annotations of an item, and annotations of the lowest label by each worker on the mean, from which this is no chance.
_PAIRS, _TIMES = 20, 2
# Annotations by which scales are compared, at most.
_ROWS = 1_000_000
# Standard errors by which more pairs agree after the shift.
_STANDARD_ERRORS = 4.0
# Annotations with a number far from the scale, at most, and their share.
_RARE, _SHARE = 2, 0.02
# Letters of labels that are compared, labels that are, and annotations beyond the first of each worker by which no worker
# would give one spelling only by chance.
_LETTERS, _NAMES, _BEYOND = 5, 60, 10
# A label with a number in brackets or a percentage; and different numbers of a label, on the mean, from which they are no part
# of its name. No two parts of the pattern can share a run of spaces, which takes a time that grows with its square.
_COUNTED, _NUMBERS = (
    re.compile(r"(?P<label>[^\W\d](?:.*\S)?)(?:\s*[(\[]\s*(?:n\s*)?(?:=\s*)?\d+\s*[)\]]|\s+\d{1,3} ?%)"),
    3,
)
_WHOLE = re.compile(r"[0-9]{1,2}")
_PERCENT = re.compile(r"\d{1,3}([.,]\d+)?\s*%")


def notes_on_scales(label: Array, worker: Array, item: Array, labels: Array, workers: Array, where: str) -> list[str]:
    """Return notes on labels that may stand for others.

    Args:
        label: label of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        item: its item, ``(A,)``.
        labels: the classes, ``(K,)``.
        workers: the workers, ``(J,)``.
        where: location of the labels, for messages.
    """
    if labels.dtype.kind == "i":
        return _of_far(label, labels, where) or _of_shift(label, worker, item, labels, workers, where)
    names = [str(name) for name in labels.tolist()]
    if _FEWEST_SHIFTED < len(names) <= _MOST and all(map(_WHOLE.fullmatch, names)):
        numbers = labels.astype(np.int64)
        rank = np.argsort(np.argsort(numbers))
        return _of_shift(rank[label], worker, item, np.sort(numbers), workers, where)
    return _of_counted(names, where) + _of_percent(names, where) + _of_spellings(label, worker, item, names, where)


def _of_far(label: Array, labels: Array, where: str) -> list[str]:
    """Return a note on a rare number far from all others, which are consecutive: 55 beside 1 to 5."""
    counts = np.bincount(label, minlength=len(labels))
    rare = (counts <= _RARE) & (counts <= _SHARE * len(label))
    usual = labels[~rare]
    if not 0 < int(rare.sum()) <= _RARE or len(usual) < _FEWEST - 1 or np.ptp(usual) != len(usual) - 1:
        return []
    low, high = int(usual[0]), int(usual[-1])
    codes = set(codes_for_nothing([str(name) for name in labels.tolist()]))
    far = [n for n in labels[rare].tolist() if (n < 0 <= low or n > 2 * high) and str(n) not in codes]
    if not far or low < 0:
        return []
    size = int(counts[np.isin(labels, far)].sum())
    annotations, errors = (
        ("1 annotation", "a typing error") if size == 1 else (f"{size:,} annotations", "typing errors")
    )
    return [
        f"{where}: {annotations} with {listed(far)} beside {low} to {high}: probably {errors}, and "
        f"{'a class of its own' if len(far) == 1 else 'classes of their own'}; if so, correct the table, or add "
        f"missing={str(far[0])!r}"
    ]


def _of_shift(label: Array, worker: Array, item: Array, labels: Array, workers: Array, where: str) -> list[str]:
    """Return a note where some workers never give the highest label, all others never the lowest, and both agree if shifted."""
    size = len(labels)
    if not _FEWEST_SHIFTED < size <= _MOST or np.ptp(labels) != size - 1 or len(workers) < 2:
        return []
    lowest, highest = (np.bincount(worker[label == n], minlength=len(workers)) for n in (0, size - 1))
    low = lowest > 0
    if (low & (highest > 0)).any() or not low.any() or lowest.sum() < _TIMES * low.sum():
        return []
    # Labels of each item by workers of the two kinds.
    present, at = np.unique(item[:_ROWS], return_inverse=True)
    counts = np.zeros((2, len(present), size), dtype=np.int64)
    np.add.at(counts, (low[worker[:_ROWS]].astype(np.int64), at, label[:_ROWS]), 1)
    above, below = counts
    pairs = int((above.sum(1) * below.sum(1)).sum())
    if pairs < _PAIRS:
        return []
    # Beyond chance: of few labels, more pairs are equal after the shift whatever they mean.
    chance = np.outer(*(side[above.sum(1) * below.sum(1) > 0].sum(0) / side.sum() for side in counts))
    equal, shifted = int((above * below).sum()), int((above[:, 1:] * below[:, :-1]).sum())
    shares = float(np.trace(chance)), float(np.trace(chance, offset=-1))
    gain = shifted - equal - pairs * (shares[1] - shares[0])
    if gain < _STANDARD_ERRORS * np.sqrt(pairs * (sum(shares) - (shares[1] - shares[0]) ** 2)):
        return []
    names = [str(workers[np.flatnonzero(side)[0]]) for side in (low, ~low)]
    first, last = int(labels[0]), int(labels[-1])
    return [
        f"{where}: workers such as {names[0]!r} give {first} to {last - 1}, others such as {names[1]!r} {first + 1} to {last}, "
        f"and they agree more often if 1 is added to the labels of the former; if one scale began at {first}, correct the table"
    ]


def _of_counted(names: Sequence[str], where: str) -> list[str]:
    matching = [_COUNTED.fullmatch(name.strip()) for name in names]
    stems = Counter(match["label"] for match in matching if match)
    if len(stems) < 2 or stems.total() < max(len(names), _NUMBERS * len(stems)):
        return []
    return [
        f"{where}: labels such as {listed(names, 2)} end in a number, so that one label is several classes; if the "
        f"number is no part of the label, write it in a column of its own"
    ]


def _of_percent(names: Sequence[str], where: str) -> list[str]:
    if len(names) < 3 or not all(_PERCENT.fullmatch(name.strip()) for name in names):
        return []
    return [
        f"{where}: percentages such as {names[0]!r} are read as classes without an order; if they are numbers, write them "
        f"without % and use kind='numeric', or kind='ordinal' if they are grades"
    ]


def _of_spellings(label: Array, worker: Array, item: Array, names: Sequence[str], where: str) -> list[str]:
    """Return a note on labels that differ in a letter or two, where each worker gives one of them only."""
    if not 2 < len(names) <= _NAMES:
        return []
    plain = [folded(name) for name in names]
    pairs = [
        (one, other)
        for one in range(len(names))
        for other in range(one)
        if min(len(plain[one]), len(plain[other])) >= _LETTERS
        and plain[one].isalpha()
        and plain[other].isalpha()
        and edits(plain[one], plain[other]) == 1
    ]
    if not pairs:
        return []
    given = np.zeros((len(names), int(worker.max()) + 1), dtype=bool)
    given[label, worker] = True
    sizes = np.bincount(label, minlength=len(names))
    beyond = sizes - given.sum(1)
    for one, other in pairs:
        if min(sizes[one], sizes[other]) < _TIMES or beyond[one] + beyond[other] < _BEYOND:
            continue
        if (given[one] & given[other]).any():
            continue
        if len(np.intersect1d(item[label == one], item[label == other])) < _TIMES:
            continue
        short, long = sorted((names[one], names[other]), key=len)
        return [
            f"{where}: {long!r} and {short!r} differ in one letter, and no worker gives both; if they are one label, add "
            f"map={{{short!r}: {long!r}}}"
        ]
    return []
