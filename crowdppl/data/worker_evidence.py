"""Whether labels can tell workers apart: how many each worker gave, and whether of more than one class.

Quality of a worker is estimated from agreement with others. A worker who gave one label, or whose labels are all of one class,
has no error rate of their own: some true labels make such a worker perfect, and others random. A model with parameters for each
worker is then free to explain all disagreement by some workers, and all items by one class.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.worker_information import Codes, Sizes, names_score

Array = npt.NDArray[Any]

# Half of the annotations are from workers with fewer annotations than this: workers cannot be told apart. Where half are from
# workers with fewer than SOME, a crowd can only if a permutation test of its names has at least the z score MIN_Z
# (docs/benchmarks/labels-per-worker.md).
FEW, SOME, MIN_Z, MIN_WORKERS = 5, 20, 2.0, 20
# Share of the annotations by workers who abstain on classes from which votes are counted: a model for each worker then has fewer
# correct labels than the votes. Share by workers who give one class only from which they are taken to abstain on the others.
ABSTAINING, ONE_SIDED = 0.1, 0.5
# Probability that a worker like the others gives one class only, below which this is no chance.
CHANCE = 0.01
# z score of the share of a worker's class among other workers' labels of the same items, from which the worker is taken to
# abstain on the other classes. Where half of the annotations are by workers who give one class, that is the likelier reason, and
# it is given up only if together they show nothing of it; of nearly all annotations, never: too little is left to learn from.
CHOOSES, NEARLY_ALL = 3.0, 0.8


@checked
def why_not_apart(data: Annotations) -> str | None:
    """Return the reason, in words, for which labels cannot tell workers apart; ``None`` where they can.

    Where one worker gave all labels, or a single class was given, there is nothing to tell apart, and no reason is returned.
    """
    if data.J < 2 or data.K < 2 or data.A == 0:
        return None
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    share = float(abstaining(item, worker, label, (data.N, data.J, data.K))[worker].mean())
    if share >= ABSTAINING:
        of = "every worker gave" if share == 1 else f"{share:.0%} of the annotations are by workers who gave"
        return (
            f"{of} labels of one class only, as labelling functions do that abstain otherwise, and one label does not tell how "
            f"often its worker would have been wrong on the other classes"
        )
    typical = typical_number(data)
    if typical >= SOME:
        return None
    if typical >= FEW:
        if data.J < MIN_WORKERS:
            return None
        z = names_score(item, worker, label, (data.N, data.J, data.K))
        if z is None or z >= MIN_Z:
            return None
        return (
            f"half of the annotations are by workers with at most {typical:g} of them, and who gave which label makes no "
            f"difference to agreement (z = {z:.1f} in a permutation test of worker names)"
        )
    if int(data.annotations_per_worker.max()) == 1:
        return "every worker gave one label"
    if typical == 0:
        return "most annotations are of items that nobody else annotated"
    number = "one label" if typical <= 1 else f"at most {typical:g} labels"
    return f"half of the annotations are by workers with {number} that can be compared with others'"


def typical_number(data: Annotations) -> float:
    """Return the number of annotations of the worker of the median annotation.

    Only annotations of items count that somebody else annotated too, or whose true label is known; an item of weight 2 counts
    as two items. 0 without any.
    """
    compared = (data.annotations_per_item > 1) | (data.truth >= 0)
    value = compared.double() if data.weight is None else compared * data.weight.double()
    number = torch.zeros(data.J, dtype=torch.float64, device=data.device).index_add_(0, data.worker, value[data.item])
    ordered = number.sort().values
    total = ordered.cumsum(0)
    middle = torch.searchsorted(total, total[-1:] / 2).clamp(max=data.J - 1)
    return float(ordered[middle])


def one_sided(worker: Tensor, label: Tensor, J: int, K: int) -> Tensor:
    """Tell which workers give one class only, and not by chance: ``(J,)``.

    None where all labels are of one class, since all workers then do.

    Args:
        worker: of each annotation, ``(A,)``.
        label: likewise.
        J: number of workers.
        K: number of classes.
    """
    only, number = only_class(worker, label, J), torch.bincount(worker, minlength=J)
    share = torch.bincount(label, minlength=K).double() / max(1, len(label))
    return (only >= 0) & (share[only.clamp(min=0)].log() * number < math.log(CHANCE))


def only_class(worker: Tensor, label: Tensor, J: int) -> Tensor:
    """Return the class of all labels of each worker, ``(J,)``; -1 for workers with labels of several, or without any."""
    worker, label = worker.long(), label.long()
    low = torch.full((J,), torch.iinfo(torch.int64).max, device=label.device).scatter_reduce_(0, worker, label, "amin")
    high = torch.full((J,), -1, device=label.device).scatter_reduce_(0, worker, label, "amax")
    return torch.where(low == high, high, -1)


@checked
def abstaining(item: Codes, worker: Codes, label: Codes, sizes: Sizes) -> npt.NDArray[np.bool_]:
    """Tell which workers give one class and abstain on others, ``(J,)``, as labelling functions do.

    These are the workers of :func:`one_sided` to whose items other workers give this class more often than to other items:
    somebody who gives one class whatever the item does not choose items. Where most annotations are by workers of one class, all
    of them are meant, unless together they do not choose items.

    Args:
        item: of each annotation, ``(A,)``.
        worker: likewise.
        label: likewise.
        sizes: numbers of items, workers and classes.
    """
    N, J, K = sizes
    coded = torch.from_numpy(worker).long(), torch.from_numpy(label).long()
    candidates: npt.NDArray[np.bool_] = one_sided(*coded, J, K).numpy()
    mine = candidates[worker]
    if not mine.any():
        return candidates
    only = only_class(*coded, J).numpy()
    number, given = np.bincount(worker, minlength=J), np.bincount(label, minlength=K)[only]
    votes = np.bincount(item * K + label, minlength=N * K)[(item * K + label)[mine]] - 1
    all_votes = np.bincount(item, minlength=N)[item[mine]] - 1
    # On the items of the worker, and on others: labels of others that are of the worker's class, and all labels of others.
    here, others = (np.bincount(worker[mine], weights=value, minlength=J) for value in (votes, all_votes))
    there, rest = given - here - number, len(label) - others - number
    share = (here + there) / np.maximum(others + rest, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (here / others - there / rest) / np.sqrt(share * (1 - share) * (1 / others + 1 / rest))
    if mine.mean() >= ONE_SIDED:
        together = np.nansum(z[candidates]) / math.sqrt(candidates.sum())  # who annotated all items, chose none
        if mine.mean() >= NEARLY_ALL or together > CHOOSES:
            return candidates
    return candidates & (z > CHOOSES)
