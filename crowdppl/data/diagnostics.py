"""Diagnostics of annotations before a fit: workers that cannot be compared, and worker names without information."""

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

# Permutation test of worker names: number of permutations, required numbers of annotations and of workers with at least so many
# annotations, and the z score below which it warns.
PERMUTATIONS = 30
MIN_ANNOTATIONS, MIN_WORKERS, MIN_PER_WORKER = 5_000, 20, 20
MIN_Z = 3.0
# A class is unused if the expected number of its items is below this.
UNUSED = 0.5
# A label is rare if it was given at most so often; with more classes than this, most of them should not be rare.
RARE, MANY = 2, 10
# A fit is far from the votes if its label differs from all majority labels for more than this share of at least so many items:
# on 26 public sets the largest share was .26 (docs/benchmarks/default-model.md).
FAR, MIN_FAR_ITEMS = 0.3, 50
_CODES = arguments.array("annotation", kind="whole")


@arguments.checked(data=arguments.annotation_data)
def review(data: Annotations) -> list[str]:
    """Return sentences about unusual properties of annotations, none of which prevents a fit."""
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    notes = []
    groups = connected_groups(data)
    if len(groups) > 1:
        sizes = ", ".join(f"{size:,}" for size in groups[:5]) + (" ..." if len(groups) > 5 else "")
        notes.append(
            f"the workers fall into {len(groups):,} groups that share no item ({sizes} workers): workers of different groups "
            f"can be compared through the prior only"
        )
    if data.J == 1:
        notes.append("there is only one worker, whose quality cannot be estimated from their own labels")
    given = np.bincount(label, minlength=data.K)
    occurring = int((given > 0).sum())
    if occurring == 1 and data.K > 1:
        notes.append(
            f"every label given is {data.labels.tolist()[int(given.argmax())]!r}: the error rates of workers on the other "
            f"classes, and therefore their accuracy, cannot be estimated from these annotations"
        )
    rare = int(((given > 0) & (given <= RARE)).sum())
    if occurring > MANY and rare > occurring / 2:
        notes.append(
            f"{rare:,} of {occurring:,} labels were given {RARE} times or fewer: too rarely to learn about these classes; "
            f"group them, or round them if they are numbers"
        )
    single = int((np.bincount(item, minlength=data.N) == 1).sum())
    if single and data.J > 1:
        notes.append(
            f"{single:,} of {data.N:,} items {'has' if single == 1 else 'have'} one annotation, which can be checked only "
            f"by the quality of its worker"
        )
    z = worker_information(item, worker, label, (data.N, data.J, data.K))
    if z is not None and z < MIN_Z:
        notes.append(
            f"worker names carry no information (z = {z:.1f} in a permutation test; crowds whose members differ score far "
            "higher): they may have been shuffled or reassigned, or all workers are alike; results on individual workers are "
            f"then meaningless"
        )
    return notes


@arguments.checked(data=arguments.annotation_data, probability=arguments.tensor)
def unused_classes(data: Annotations, probability: Tensor) -> list[str]:
    """Return a sentence if a fit uses fewer classes than the labels do.

    A class is reported if it has the most votes of at least one item, is the most probable class of no item, and its expected
    number of items is below ``UNUSED``. With few labels such a fit has often collapsed to a mode in which all items belong to one
    class and all disagreement is error.

    Args:
        data: the annotations.
        probability: probability of each class for each item, ``(N, K)``.
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


@arguments.checked(data=arguments.annotation_data, probability=arguments.tensor)
def far_from_votes(data: Annotations, probability: Tensor) -> list[str]:
    """Return a sentence if a fit disagrees with the majority vote about more items than it does on public crowds.

    Items count that have at least two annotations and no known truth. The label differs if it is not among those with the most
    votes.

    Args:
        data: the annotations.
        probability: probability of each class for each item, ``(N, K)``.
    """
    counted = (data.annotations_per_item >= 2) & (data.truth < 0)
    size = int(counted.sum())
    if size < MIN_FAR_ITEMS:
        return []
    best = probability.argmax(1, keepdim=True)
    cell = data.item * data.K + data.label
    votes = torch.bincount(cell, minlength=data.N * data.K).view(data.N, data.K)
    changed = int(((votes.gather(1, best).squeeze(1) < votes.amax(1)) & counted).sum())
    if changed <= FAR * size:
        return []
    return [
        f"the label is not that of the majority for {changed:,} of {size:,} items, a larger share than on any of 26 public "
        f"sets (26%): either most annotators are wrong on many items, or the fit has changed the meaning of classes; give known "
        f"true labels of some of these items, or look at them: crowdppl compare lists them"
    ]


@arguments.checked(data=arguments.annotation_data)
def connected_groups(data: Annotations) -> list[int]:
    """Return the number of workers in each connected group, largest first; workers of different groups share no item."""
    from scipy.sparse.csgraph import connected_components  # here, since it takes a tenth of a second to load

    item, worker = data.item.cpu().numpy(), data.worker.cpu().numpy()
    size = data.N + data.J
    graph = coo_matrix((np.ones(len(item), dtype=np.int8), (item, data.N + worker)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    active = np.unique(worker)
    return sorted([int(n) for n in np.bincount(component[data.N + active]) if n], reverse=True)


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
    """Test whether worker names carry information on agreement with the crowd, by a permutation test.

    The statistic is ``sum_j (agreements of j)^2 / (annotations of j)``, where an annotation agrees if it is the most frequent
    label of its item. Names are permuted among annotations of items with the same most frequent label.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        label: its label, ``(A,)``.
        sizes: numbers of items, workers and classes.
        seed: seed of the permutations.

    Returns:
        The z score of the original names among permuted ones; ``None`` with too few annotations or workers.
    """
    N, J, K = sizes
    several = np.bincount(item, minlength=N)[item] > 1
    item, worker, label = item[several], worker[several], label[several]
    if len(item) < MIN_ANNOTATIONS or (np.bincount(worker, minlength=J) >= MIN_PER_WORKER).sum() < MIN_WORKERS:
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
            agreements = np.bincount(part, weights=mine, minlength=J)
            total += float((agreements[n > 0] ** 2 / n[n > 0]).sum())
        return total

    permuted = [
        statistic(np.concatenate([rng.permutation(part) for part in np.split(worker, edges)]))
        for _ in range(PERMUTATIONS)
    ]
    deviation = float(np.std(permuted, ddof=1))
    return None if deviation < 1e-9 else float((statistic(worker) - np.mean(permuted)) / deviation)
