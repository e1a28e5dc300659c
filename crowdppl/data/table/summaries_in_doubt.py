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
# Chance that somebody like the others follows a rule, and that somebody who is always right does, below which a worker is named:
# the first and the last one, where summaries stand, and others.
_AT_THE_END, _WITHIN = (0.05, 0.3), (0.002, 0.01)


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
    counts = np.bincount(item * np.int64(sizes[2]) + label, minlength=sizes[0] * sizes[2]).reshape(sizes[0], sizes[2])
    for one in complete.tolist():
        at = worker == one
        own = np.full(sizes[0], -1)
        own[item[at]] = label[at]
        if (own < 0).any():
            continue
        others = counts.copy()
        others[np.arange(sizes[0]), own] -= 1
        # Most workers differ from the others where these are of one opinion.
        total, top = others.sum(1), others.max(1)
        several = total >= _OTHERS
        alike = several & (top == total)
        if alike.sum() < _ALIKE or (others[alike, own[alike]] == 0).any():
            continue
        rule = _rule(own, others, several & (top < total), (item, worker, label), one, names)
        if rule is not None:
            what, size = rule
            return [
                f"{source}: each label of the worker {str(names[1][one])!r} is {what} ({size:,} items on which they differ); if "
                f"it summarizes them, leave it out, as it would count their labels twice"
            ]
    return []


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
        chance, of_expert = _AT_THE_END if one in (0, workers - 1) else _WITHIN
        if best**size * workers < chance and _of_expert(others, used, follows) < of_expert:
            return what, size
    return None


def _of_expert(others: Array, used: Array, follows: Array) -> float:
    """Return the chance that somebody who is always right gives the labels of a rule, if all others are equally good.

    Args:
        others: how many others gave each label to each item, ``(N, K)``.
        used: items on which these differ, ``(N,)``.
        follows: label of each item by the rule, ``(N,)``.
    """
    every, others, follows = others[others.sum(1) >= _OTHERS], others[used], follows[used]
    right = (every.max(1).sum() + 1) / (every.sum() + 2)
    log_weight = others * np.log(max(right * (every.shape[1] - 1) / (1 - right), 1.0))
    log_weight -= log_weight.max(1, keepdims=True)
    log_share = log_weight[np.arange(len(others)), follows] - np.log(np.exp(log_weight).sum(1))
    return float(np.exp(log_share.sum()))


def _extreme(labels: list[Any]) -> str:
    """Return the rule by which the first of some classes counts that anybody gave."""
    if len(labels) == 2:
        return f"{str(labels[0])!r} where any of the others gave it, and only there"
    return f"the first one in the order {listed([str(label) for label in labels], 3)} that any of the others gave"
