"""What should be known of annotations before they are relied upon: groups that cannot be compared, names that mean nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_matrix
from torch import Tensor

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import listed

Array = npt.NDArray[np.int64]

# The permutation test of worker names: permutations, annotations and workers it needs, and the z below which it warns.
PERMUTATIONS = 30
ENOUGH, BUSY, EACH = 5_000, 20, 20
NOTHING = 3.0
# A class is unused where fewer items than this are expected to be of it.
UNUSED = 0.5
# Labels given so often or less say nothing of a class; among more labels than these, most should be given more often.
RARE, MANY = 2, 10
_CODES = arguments.array("annotation", kind="whole")


@arguments.checked(data=arguments.annotation_data)
def review(data: Annotations) -> list[str]:
    """Return what is odd about annotations, in sentences; nothing of it forbids a fit."""
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    told = []
    groups = pieces(data)
    if len(groups) > 1:
        sizes = ", ".join(f"{size:,}" for size in groups[:5]) + (" ..." if len(groups) > 5 else "")
        told.append(
            f"the workers fall into {len(groups):,} groups that share no item ({sizes} workers): workers of different groups "
            f"cannot be compared but through the prior"
        )
    if data.J == 1:
        told.append("there is one worker only: how good they are cannot be told from their own answers")
    given = np.bincount(label, minlength=data.K)
    occurring = int((given > 0).sum())
    if occurring == 1 and data.K > 1:
        told.append(
            f"every label given is {data.labels.tolist()[int(given.argmax())]!r}: how often workers err on the other classes, "
            f"and with it their accuracy, cannot be judged from these annotations"
        )
    rare = int(((given > 0) & (given <= RARE)).sum())
    if occurring > MANY and rare > occurring / 2:
        told.append(
            f"{rare:,} of {occurring:,} labels were given {RARE} times or fewer: nothing can be learned of such classes; "
            f"group them, or round them if they are numbers"
        )
    single = int((np.bincount(item, minlength=data.N) == 1).sum())
    if single and data.J > 1:
        told.append(
            f"{single:,} of {data.N:,} items {'has' if single == 1 else 'have'} one annotation: nothing checks it but what "
            f"else is known of its worker"
        )
    z = worker_information(item, worker, label, (data.N, data.J, data.K))
    if z is not None and z < NOTHING:
        told.append(
            f"worker names carry no information (z = {z:.1f} in a permutation test; a crowd whose members differ has far more): "
            f"they may have been shuffled or reassigned, or all workers are alike; what is said of single workers then means "
            f"nothing"
        )
    return told


@arguments.checked(data=arguments.annotation_data, probability=arguments.tensor)
def unused_classes(data: Annotations, probability: Tensor) -> list[str]:
    """Return a sentence where a fit uses fewer classes than the labels do.

    A class is named if it wins the vote of at least one item, no item has it as its most probable class, and fewer than
    ``UNUSED`` items are expected to be of it. With few labels such a fit is often a collapsed one: a mode in which all items are
    of one class and all disagreement is error.

    Args:
        data: the annotations.
        probability: of each class for each item, ``(N, K)``.
    """
    rare = probability.sum(0) < UNUSED
    if not bool(rare.any()):
        return []
    rare &= torch.bincount(probability.argmax(1), minlength=data.K) == 0
    cell = data.item * data.K + data.label
    votes = torch.bincount(cell, minlength=data.N * data.K).view(data.N, data.K)
    top = votes == votes.max(1, keepdim=True).values
    wins = (top & (top.sum(1, keepdim=True) == 1)).sum(0)
    unused = (rare & (wins > 0)).nonzero()[:, 0].tolist()
    if not unused:
        return []
    given, names = torch.bincount(data.label, minlength=data.K), data.labels.tolist()
    labels = f"the label {listed([names[k] for k in unused], 3)}"
    return [
        f"the fit assigns no item to {labels}, which was given {int(given[unused].sum()):,} times and has the most votes of "
        f"{int(wins[unused].sum()):,} of {data.N:,} items: there are too few labels for this model, or annotators do not tell "
        f"these classes apart; compare with model='majority-vote', or with method='gibbs', or merge the classes"
    ]


@arguments.checked(data=arguments.annotation_data)
def pieces(data: Annotations) -> list[int]:
    """Return the numbers of workers in each group that shares no item with the others, largest first."""
    from scipy.sparse.csgraph import connected_components  # here, since it takes a tenth of a second to load

    item, worker = data.item.cpu().numpy(), data.worker.cpu().numpy()
    size = data.N + data.J
    graph = coo_matrix((np.ones(len(item), dtype=np.int8), (item, data.N + worker)), shape=(size, size))
    _, of = connected_components(graph, directed=False)
    judged = np.unique(worker)
    return sorted([int(n) for n in np.bincount(of[data.N + judged]) if n], reverse=True)


@arguments.checked(
    item=_CODES,
    worker=_CODES,
    label=_CODES,
    sizes=arguments.several(arguments.whole(1), 3),
    seed=arguments.seed,
)
def worker_information(
    item: Array, worker: Array, label: Array, sizes: tuple[int, int, int], seed: int = 0
) -> float | None:
    """Test whether worker names tell anything of who agrees with the crowd.

    Workers' agreement with the most frequent label of an item, within items of the same most frequent label, is compared with
    what it is after worker names are permuted among these annotations: ``sum_j (agreements of j)^2 / (annotations of j)``.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        label: its label, ``(A,)``.
        sizes: numbers of items, workers and classes.
        seed: of the permutations.

    Returns:
        By how many standard deviations the names as given exceed permuted ones; ``None`` with too few annotations or workers.
    """
    N, J, K = sizes
    several = np.bincount(item, minlength=N)[item] > 1
    item, worker, label = item[several], worker[several], label[several]
    if len(item) < ENOUGH or (np.bincount(worker, minlength=J) >= EACH).sum() < BUSY:
        return None
    votes = np.bincount(item * K + label, minlength=N * K).reshape(N, K)
    majority = votes.argmax(1)[item]
    order = np.argsort(majority, kind="stable")
    worker, majority, agrees = worker[order], majority[order], (label == majority)[order].astype(float)
    edges = np.flatnonzero(np.diff(majority)) + 1
    rng = np.random.default_rng(seed)

    def statistic(names: Array) -> float:
        total = 0.0
        for part, mine in zip(np.split(names, edges), np.split(agrees, edges), strict=True):
            n = np.bincount(part, minlength=J)
            right = np.bincount(part, weights=mine, minlength=J)
            total += float((right[n > 0] ** 2 / n[n > 0]).sum())
        return total

    permuted = [
        statistic(np.concatenate([rng.permutation(part) for part in np.split(worker, edges)]))
        for _ in range(PERMUTATIONS)
    ]
    spread = float(np.std(permuted, ddof=1))
    return None if spread < 1e-9 else float((statistic(worker) - np.mean(permuted)) / spread)
