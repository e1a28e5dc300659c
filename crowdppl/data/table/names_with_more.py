"""Names that are those of others with something before or behind them: further accounts of people, other forms of items."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.name_forms import of_one_shape

Array = npt.NDArray[Any]

# Pairs of names, of which some are nobody's chance; the share of names with an addition of which the plain ones exist; names that
# are compared, and those before a name that begin it.
_PAIRS, _MOST_PAIRS, _SHARE, _NAMES, _NESTED, _ITEMS = 2, 3, 0.8, 5_000, 4, 200_000
# Items from which labels show whether pairs are one, labels of them that are counted, and standard errors.
_ENOUGH, _LARGEST, _ERRORS = 20, 2_000_000, 2.0
# Letters by which an addition is no part of a name, signs that separate it, and a number.
_LETTERS, _SIGN, _DIGITS = 3, re.compile(r"[\W_]"), re.compile("[0-9]+")


def notes_on_accounts(item: Array, worker: Array, workers: Array, source: str) -> list[str]:
    """Return a note where several workers have names of others with one addition, and no item in common with them.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        workers: names of workers.
        source: name of the table.
    """
    if workers.dtype != object or not 2 * _PAIRS <= len(workers) <= _NAMES:
        return []
    texts = workers.tolist()
    # Fast path: of names that differ in their numbers, such as w1 and w12, none has anything else before or behind it.
    if of_one_shape(texts):
        return []
    items_of = cache(lambda: _items_of(item, worker, len(texts)))
    for turned in (False, True):
        additions = _with_addition([name[::-1] for name in texts] if turned else texts, turned)
        for addition, pairs in additions:
            if not all(set(items_of()(n).tolist()).isdisjoint(items_of()(k).tolist()) for n, k in pairs):
                continue
            plain, longer = (texts[n] for n in pairs[0])
            where = "before" if turned else "behind"
            return [
                f"{source}: {len(pairs):,} workers have the name of another one with {addition!r} {where} it, such as {longer!r} "
                f"and {plain!r}, and no item in common with it; if they are the same people, write their names alike"
            ]
    return []


def _with_addition(texts: Sequence[str], turned: bool) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return additions and the positions of names without and with them, where nearly all that have one exist without it.

    Args:
        texts: the names, turned around where additions stand before them.
        turned: whether they are.
    """
    order = sorted(texts)
    # Fast path: behind a name in order are those that begin with it.
    if not any(map(str.startswith, order[1:], order)):
        return []
    at = {name: n for n, name in enumerate(texts)}
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    # In order, names that begin a name stand before it, and all between them begin with the same.
    begun: list[str] = []
    for name in sorted(at):
        while begun and not name.startswith(begun[-1]):
            begun.pop()
        for bare in begun[-_NESTED:]:
            groups[name[len(bare) :]].append((at[bare], at[name]))
        begun.append(name)
    kept = {}
    for addition, pairs in groups.items():
        fewest = _MOST_PAIRS if not _SIGN.search(addition) else _PAIRS
        # Of a chain, such as a, aa and aaa, names are neither.
        chain = not {n for n, _ in pairs}.isdisjoint(n for _, n in pairs)
        if len(pairs) >= fewest and not chain and _separates(addition, [texts[n] for n, _ in pairs]):
            kept[addition] = sorted(pairs, key=lambda pair: pair[1])
    sizes = Counter(name[-size:] for size in set(map(len, kept)) for name in texts if name[-size:] in kept)
    return [
        (addition[::-1] if turned else addition, pairs)
        for addition, pairs in kept.items()
        if len(pairs) >= _SHARE * sizes[addition]
    ]


def _separates(addition: str, bare: Sequence[str]) -> bool:
    """Return whether an addition is no part of a name: it has a sign, is a word, or a number behind letters, or the reverse."""
    if _SIGN.search(addition) or sum(map(str.isalpha, addition)) >= _LETTERS:
        return True
    if addition.isdigit():
        return all(name[-1:].isalpha() for name in bare)
    return all(name.isdigit() for name in bare)


def _items_of(item: Array, worker: Array, size: int) -> Callable[[int], Array]:
    """Return a function that returns the items of a worker."""
    order = np.argsort(worker, kind="stable")
    ends = np.cumsum(np.bincount(worker, minlength=size))
    of_worker = item[order]
    return lambda one: of_worker[ends[one - 1] if one else 0 : ends[one]]


def names_in_two_forms(item: Array, group: Array, label: Array, items: Array, classes: int) -> list[str]:
    """Return a sentence where the items of the two largest groups of workers who share none have the same names in two forms.

    Labels of many items must show that they are the same: names of two languages, parts or batches differ alike.

    Args:
        item: item of each annotation, ``(A,)``.
        group: group of its worker, ``(A,)``.
        label: its label, ``(A,)``.
        items: names of items.
        classes: number of classes.
    """
    if items.dtype != object:
        return []
    of_item = np.full(len(items), -1)
    of_item[item] = group
    sizes = np.bincount(of_item[of_item >= 0])
    largest = np.argsort(-sizes, kind="stable")[:2]
    if len(largest) < 2 or sizes[largest].sum() > _ITEMS:
        return []
    at = [np.flatnonzero(of_item == one) for one in largest.tolist()]
    pairs = in_two_forms(*([str(name) for name in items[part].tolist()] for part in at))
    if len(pairs) == 0 or not _may_agree(item, label, np.stack([at[n][pairs[:, n]] for n in (0, 1)]), classes):
        return []
    first, second = (str(items[at[n][pairs[0, n]]]) for n in (0, 1))
    return [
        f"items of one group have the names of those of another one but for what stands in all of them, such as {first!r} and "
        f"{second!r}: if they are the same items, write their names alike"
    ]


def _may_agree(item: Array, label: Array, pairs: Array, classes: int) -> bool:
    """Return whether labels of pairs of items, ``(2, M)``, agree beyond chance; false where they are too few to say so."""
    pairs = pairs[:, : _LARGEST // classes]
    size = pairs.shape[1]
    if size < _ENOUGH:
        return False
    counts = []
    for side in pairs:
        place = np.full(int(item.max()) + 1, -1)
        place[side] = np.arange(size)
        kept = place[item] >= 0
        given = np.bincount(place[item[kept]] * classes + label[kept], minlength=size * classes).reshape(size, classes)
        counts.append(given / given.sum(1, keepdims=True))
    first, second = counts
    gain = ((first - first.mean(0)) * (second - second.mean(0))).sum(1)
    return bool(gain.mean() > _ERRORS * gain.std() / size**0.5)


def in_two_forms(first: Sequence[str], second: Sequence[str]) -> Array:
    """Return the positions of names, ``(M, 2)``, that are one but for what all names of each of two groups have around them.

    Args:
        first: names of one group.
        second: names of the other.
    """
    parts = [_without_affixes(names) for names in (first, second)]
    fewer = min(map(len, parts))
    common = [part for part in parts[0] if part in parts[1]]
    if fewer < _MOST_PAIRS or len(common) < _SHARE * fewer:
        return np.empty((0, 2), dtype=np.int64)
    return np.array([(parts[0][part], parts[1][part]) for part in common])


def _without_affixes(names: Sequence[str]) -> dict[str, int]:
    """Return positions of names by what they have of their own, numbers without zeros before them."""
    before = _beginning(names).rstrip("0123456789")
    behind = _beginning([name[len(before) :][::-1] for name in names])[::-1].lstrip("0123456789")
    cores = [name[len(before) : len(name) - len(behind)] for name in names]
    return {_DIGITS.sub(lambda match: match[0].lstrip("0") or "0", core): n for n, core in enumerate(cores)}


def _beginning(names: Sequence[str]) -> str:
    """Return what all names begin with: in order, the first and the last one differ earliest."""
    first, last = min(names), max(names)
    end = next((n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:end]
