"""Workers whose labels follow from those of all others: a column of the majority, or of what any or all of them gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Items on which others differ and on which they are of one opinion, from which a worker is compared; annotations of others of an
# item at least; labels of items that are counted at once; and workers who are compared.
_DIFFER, _ALIKE, _OTHERS, _LARGEST, _MOST = 8, 3, 2, 2_000_000, 200
# Chance that somebody like the others follows a rule, and that somebody who is always right does, below which a worker is named.
_LIKE_OTHERS, _RIGHT = 0.002, 0.01
# Rounds by which errors of each class are estimated, labels that are added to those of a class, and the difference between two
# log-likelihoods of which both are plausible.
_ROUNDS, _ADDED, _PLAUSIBLE = 50, 0.5, 3.0


def notes_on_summaries(
    item: Array, worker: Array, label: Array, names: tuple[Array, Array, Array], source: str
) -> list[str]:
    """Return a note on a worker with a label for each item that others labelled, which always follows from theirs.

    The rule is the majority, or the first or the last class that anybody gave. Somebody else would follow it by chance: on the
    items on which others differ, as often as the one of these who follows it most often, or as often as it is right.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        label: its label, ``(A,)``.
        names: of items, workers and labels.
        source: name of the table.
    """
    sizes = tuple(map(len, names))
    # Most tables end here: workers label few of the items.
    if 2 * len(item) < sizes[0] * sizes[1] or sizes[0] < _DIFFER + _ALIKE or sizes[0] * sizes[2] > _LARGEST:
        return []
    each = np.bincount(worker, minlength=sizes[1])
    complete = np.flatnonzero(each == sizes[0])
    if not 0 < len(complete) <= _MOST or sizes[1] <= _OTHERS or sizes[2] < 2:
        return []
    first = np.zeros(sizes[0], dtype=label.dtype)
    first[item] = label
    # Items on which all agree show nothing, and most tables without any other have many.
    differ = np.zeros(sizes[0], dtype=bool)
    differ[item[label != first[item]]] = True
    if np.count_nonzero(differ) < _DIFFER:
        return []
    counts = np.bincount(item * np.int64(sizes[2]) + label, minlength=sizes[0] * sizes[2]).reshape(sizes[0], sizes[2])
    for one in np.flatnonzero(_may_summarize((item, worker, label), counts, differ, each == sizes[0])).tolist():
        at = worker == one
        own = np.full(sizes[0], -1)
        own[item[at]] = label[at]
        if (own < 0).any():
            continue
        others = counts.copy()
        others[np.arange(sizes[0]), own] -= 1
        total = others.sum(1)
        apart = (total >= _OTHERS) & (others.max(1) < total)
        if np.count_nonzero((total >= _OTHERS) & ~apart) < _ALIKE:
            continue
        rule = _rule(own, others, apart, (item, worker, label), one, names)
        if rule is not None:
            what, size = rule
            return [
                f"{source}: each label of the worker {str(names[1][one])!r} is {what} ({size:,} items on which they differ); if "
                f"it summarizes them, leave it out, as it would count their labels twice"
            ]
    return []


def _may_summarize(
    codes: tuple[Array, Array, Array], counts: Array, differ: Array, complete: Array
) -> npt.NDArray[np.bool_]:
    """Return which workers may follow a rule, ``(J,)``: most differ from all others somewhere.

    Args:
        codes: item, worker and label of each annotation, ``(A,)`` each.
        counts: how many gave each label to each item, ``(N, K)``.
        differ: items that have several labels, ``(N,)``.
        complete: workers with as many annotations as there are items, ``(J,)``.
    """
    total, top, given = counts.sum(1), counts.max(1), counts > 0
    several = total > _OTHERS
    # Items on which all others of some worker are of one opinion.
    if np.count_nonzero(several & (top >= total - 1)) < _ALIKE:
        return np.zeros_like(complete)
    used = np.flatnonzero((differ & several)[codes[0]] & complete[codes[1]])
    item, worker, label = (part[used] for part in codes)
    same = counts[item, label]
    # Where all others are of one opinion, the worker is of it, too. What follows from the labels of others follows from all
    # labels, of which it is one.
    broken = (
        (same == 1) & (top == total - 1)[item],
        same < top[item],
        label < (given.shape[1] - 1 - given[:, ::-1].argmax(1))[item],
        label > given.argmax(1)[item],
    )
    alone, *follows = (np.bincount(worker[part], minlength=len(complete)) == 0 for part in broken)
    may = np.stack(follows) & alone & complete
    # Where several follow a rule, so may anybody like them.
    return (may & (may.sum(1, keepdims=True) == 1)).any(0)


def _rule(
    own: Array,
    others: Array,
    differ: Array,
    codes: tuple[Array, Array, Array],
    one: int,
    names: tuple[Array, Array, Array],
) -> tuple[str, int] | None:
    """Return by which rule the labels of a worker follow from those of others, and on how many items these differ.

    Args:
        own: label of each item, ``(N,)``.
        others: how many others gave each label, ``(N, K)``.
        differ: items on which others differ, ``(N,)``.
        codes: item, worker and label of all annotations, ``(A,)`` each.
        one: the worker.
        names: of items, workers and labels.
    """
    workers, labels = len(names[1]), names[2].tolist()
    ordered = np.sort(others, axis=1)
    given = others > 0
    rules = (
        ("the one that most of the others gave", others.argmax(1), differ & (ordered[:, -1] > ordered[:, -2])),
        (_extreme(labels[::-1]), others.shape[1] - 1 - given[:, ::-1].argmax(1), differ),
        (_extreme(labels), given.argmax(1), differ),
    )
    item, worker, label = codes
    for what, follows, used in rules:
        size = int(used.sum())
        if size < _DIFFER or (own[used] != follows[used]).any():
            continue
        counted = used[item] & (worker != one)
        times = np.bincount(worker[counted], minlength=workers)
        right = np.bincount(
            worker[counted], (label[counted] == follows[item[counted]]).astype(float), minlength=workers
        )
        best = float(((right + 1) / (times + 2))[times > 0].max())
        if best**size * workers < _LIKE_OTHERS and _of_expert(others, used, follows) < _RIGHT:
            return what, size
    return None


def _of_expert(others: Array, used: Array, follows: Array) -> float:
    """Return the chance that somebody who is always right gives the labels of a rule, if all others err alike in each class.

    Others who never give a false alarm are always right where one of them gave an alarm: the labels of who is right are those of
    a rule, too. Errors of each class are estimated from the labels of the others alone (Dawid and Skene 1979, with one confusion
    matrix for all), beginning with those most of them gave.

    Args:
        others: how many others gave each label to each item, ``(N, K)``.
        used: items on which these differ, ``(N,)``.
        follows: label of each item by the rule, ``(N,)``.
    """
    if others.size * others.shape[1] > _LARGEST:
        return 1.0  # many classes of many items would take seconds
    chances = []
    # From the majority, and from the rule itself: what explains the labels as well is no less plausible.
    share = others / np.maximum(others.sum(1, keepdims=True), 1)
    for start in (share, np.eye(others.shape[1])[follows]):
        weight = start
        for _ in range(_ROUNDS):
            theta = weight.T @ others + _ADDED * np.eye(others.shape[1]) + 0.01  # (K, K)
            theta /= theta.sum(1, keepdims=True)
            prior = (weight.sum(0) + _ADDED) / (len(weight) + _ADDED * len(theta))
            joint = np.log(prior) + others @ np.log(theta).T  # (N, K)
            top = joint.max(1, keepdims=True)
            of_item = top + np.log(np.exp(joint - top).sum(1, keepdims=True))
            weight = np.exp(joint - of_item)
            log_share = np.log(np.maximum(weight[used, follows[used]], 1e-300))
            chances.append((float(np.exp(log_share.sum())), float(of_item.sum())))
    best = max(fit for _, fit in chances)
    return max(chance for chance, fit in chances if fit >= best - _PLAUSIBLE)


def _extreme(labels: list[Any]) -> str:
    """Return the rule by which the first of some classes counts that anybody gave."""
    if len(labels) == 2:
        return f"{str(labels[0])!r} where any of the others gave it, and only there"
    return f"the first one in the order {listed([str(label) for label in labels], 3)} that any of the others gave"
