"""Diagnostics of annotations before a fit: workers that cannot be compared, and worker names without information."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_matrix
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import NonNegativeInt, checked
from crowdppl.data.alerts import CLASSES_LOST, HARDLY_AGREE, SAME_ANSWERS
from crowdppl.data.annotations import Annotations
from crowdppl.data.chance_agreement import ChanceAgreement
from crowdppl.data.copies import Copies
from crowdppl.data.first_labels import CELLS
from crowdppl.data.table.names_with_more import names_in_two_forms
from crowdppl.data.worker_information import worker_information
from crowdppl.errors import listed

Array = npt.NDArray[np.int64]
Floats = npt.NDArray[Any]

# Krippendorff's alpha below which labels say little.
AGREEMENT = 0.1
# Steps over the graph of items and workers before all of its components are looked for.
MOST_STEPS = 6
# Groups of workers that are named, and workers of each.
NAMED = 3
# The z score of worker names below which a review warns.
MIN_Z = 3.0
# A class is unused if the expected number of its items is below this.
UNUSED = 0.5
# Probabilities nearer to 1 / K than this are equal.
UNIFORM = 1e-3
# A label is rare if it was given at most so often; with more classes than this, most of them should not be rare.
RARE, MANY = 2, 10
# A fit is far from the votes if its label differs from all majority labels for more than this share of at least so many items:
# on 26 public sets the largest share was .26 (docs/benchmarks/default-model.md).
FAR, MIN_FAR_ITEMS = 0.3, 50
# A class is lost if it has the most votes of at least so many items, and of all labels at least this part of an even share, and
# the fit gives it to fewer than a tenth as many items. On public crowds none is (docs/benchmarks/unused-classes.md).
MIN_LOST_ITEMS, FAIR, LOST = 10, 0.25, 0.1
# Fewest items of known truth that may say that votes are wrong.
MIN_KNOWN = 5


@checked
def review(data: Annotations) -> list[str]:
    """Return sentences about unusual properties of annotations, none of which prevents a fit."""
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    notes = []
    apart = separate_groups(item, worker, data.N, data.J, data.workers)
    if apart:
        group = _components(item, worker, data.N, data.J)[worker]
        notes += [*apart, *names_in_two_forms(item, group, label, data.items, data.K)]
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


@checked
def equal_answers(
    data: Annotations,
    groups: Annotated[list[Copies], arguments.groups_of_copies],
    copies: Literal["one", "all"] | None,
) -> list[str]:
    """Return a sentence for each group of workers who give the same answers (:mod:`crowdppl.data.copies`).

    Args:
        data: the annotations.
        groups: of workers.
        copies: what the caller asked to count, see :func:`crowdppl.fit`.
    """
    once = (
        "The fit counts one of them for each item, taken at random, so that they do not outvote others; if they are different "
        "people who judge for themselves, fit with copies='all'"
    )
    each = "The fit counts all of them, so that they outvote others; copies='one' counts one of them for each item"
    unclear = (
        "The fit counts all of them, since everybody else agrees too little to tell copies from workers who know better; "
        "copies='one' counts one of them for each item"
    )
    return [
        f"{SAME_ANSWERS}: {listed(data.workers[list(group.workers)].tolist())} gave equal labels to {group.equal:,} of "
        f"{group.common:,} common items{'' if len(group.workers) == 2 else ', counted pair by pair'}, far more than their "
        f"agreement with others explains: copies, one person with several accounts, or a criterion of their own? "
        + (once if group.counts_once(copies) else each if copies == "all" else unclear)
        for group in groups
    ]


@checked
def hardly_agree(data: Annotations) -> list[str]:
    """Return a sentence if the labels of an item agree little more than by chance: Krippendorff's alpha is surely below .1.

    Grades are left out: those that differ by one agree in part.
    """
    if data.K < 2 or data.kind == "ordinal" or data.N * data.K > CELLS:
        return []
    alpha = ChanceAgreement.krippendorff(data.votes.cpu().numpy())
    if alpha is None or not alpha.surely_below(AGREEMENT):
        return []
    return [
        f"{HARDLY_AGREE}: Krippendorff's alpha is {alpha.value:.2f}, where 0 is chance and 1 full agreement, so that the labels "
        f"alone say little about what is true; state the true labels of some items (truth=...), and look at those that differ"
    ]


@checked
def nothing_learned(data: Annotations, probability: Annotated[Tensor, arguments.tensor]) -> list[str]:
    """Return a sentence if a fit gives all classes of all items with annotations the same probability.

    Args:
        data: the annotations.
        probability: probability of each class for each item, ``(N, K)``.
    """
    asked = (data.annotations_per_item > 0) & (data.truth < 0)
    if data.K < 2 or not bool(asked.any()) or bool(((probability[asked] - 1 / data.K).abs() > UNIFORM).any()):
        return []
    return [
        f"the fit learned nothing: each of the {data.K:,} classes is equally probable for every item. The prior outweighs the "
        f"labels: choose a weaker one, or another model"
    ]


@checked
def unused_classes(data: Annotations, probability: Annotated[Tensor, arguments.tensor]) -> list[str]:
    """Return a sentence if a fit uses fewer classes than the labels do.

    A class is reported if it has the most votes of at least one item, is the most probable class of no item, and its expected
    number of items is below ``UNUSED``. With few labels such a fit has often collapsed to a mode in which all items belong to one
    class and all disagreement is error. There is no sentence where items of known truth say that the votes for the class are
    wrong.

    Args:
        data: the annotations.
        probability: probability of each class for each item, ``(N, K)``.
    """
    rare = probability.sum(0) < UNUSED
    if not bool(rare.any()):
        return []
    rare &= torch.bincount(probability.argmax(1), minlength=data.K) == 0
    wins = _won(data)
    unused = (rare & (wins > 0) & ~_refuted(data)).nonzero()[:, 0].tolist()
    if not unused:
        return []
    given, names = torch.bincount(data.label, minlength=data.K), data.labels.tolist()
    labels = f"the label {listed([names[k] for k in unused], 3)}"
    return [
        f"the fit assigns no item to {labels}, which was given {int(given[unused].sum()):,} times and has the most votes of "
        f"{int(wins[unused].sum()):,} of {data.N:,} items: there are too few labels for this model, or annotators do not tell "
        f"these classes apart; compare with model='majority-vote', or with method='gibbs', or merge the classes"
    ]


@checked
def lost_classes(data: Annotations, probability: Annotated[Tensor, arguments.tensor]) -> list[str]:
    """Return a sentence if a class with a fair share of the votes loses nearly all of its items in a fit.

    Items of known truth do not count. Where these say that the votes for the class are wrong, there is no sentence.

    Args:
        data: the annotations.
        probability: probability of each class for each item, ``(N, K)``.
    """
    counted = data.truth < 0
    labelled = torch.bincount(probability.argmax(1)[counted], minlength=data.K)
    given = torch.bincount(data.label, minlength=data.K)
    if not bool(((labelled < LOST * data.N) & (given >= MIN_LOST_ITEMS)).any()):
        return []  # the usual case, without counting votes
    wins = _won(data, counted)
    fair = (wins >= MIN_LOST_ITEMS) & (given >= FAIR / data.K * data.A)
    lost = (fair & (labelled < LOST * wins)).nonzero()[:, 0].tolist()
    lost = [k for k in lost if not _refuted(data)[k]]
    if not lost:
        return []
    names = data.labels.tolist()
    parts = [
        f"{names[k]!r} has the most votes of {int(wins[k]):,} items and is the label of {int(labelled[k]):,}"
        for k in lost
    ]
    more = f", and {len(parts) - 3:,} more classes" if len(parts) > 3 else ""
    return [
        f"{CLASSES_LOST} ({'; '.join(parts[:3])}{more}, of {data.N:,}): the annotations do not suffice for this model, or most "
        f"of those who give these labels are wrong; compare with model='majority-vote', or give known true labels of some items"
    ]


def _refuted(data: Annotations) -> Tensor:
    """Tell of which classes most votes are wrong, by items of known truth, ``(K,)``; of none where too few are known."""
    counted = data.truth >= 0
    won = _tops(data)[counted]  # (n, K)
    right = (won & torch.nn.functional.one_hot(data.truth[counted], data.K).bool()).sum(0)
    return (won.sum(0) >= MIN_KNOWN) & (2 * right < won.sum(0))


def _won(data: Annotations, counted: Tensor | None = None) -> Tensor:
    """Return of how many items each class alone has the most votes, ``(K,)``: of all, or of those counted ``(N,)``."""
    top = _tops(data)
    return (top if counted is None else top & counted.unsqueeze(1)).sum(0)


def _tops(data: Annotations) -> Tensor:
    """Tell which class alone has the most votes of each item, ``(N, K)``."""
    votes = data.votes
    top = votes == votes.max(1, keepdim=True).values
    return top & (top.sum(1, keepdim=True) == 1)


@checked
def far_from_votes(data: Annotations, probability: Annotated[Tensor, arguments.tensor]) -> list[str]:
    """Return a sentence if a fit disagrees with the majority vote about more items than it does on public crowds.

    Items count that have at least two annotations and no known truth. The label differs if it is not among those with the most
    votes. Where votes are wrong on half as large a share of the items of known truth, there is no sentence.

    Args:
        data: the annotations.
        probability: probability of each class for each item, ``(N, K)``.
    """
    counted = (data.annotations_per_item >= 2) & (data.truth < 0)
    size = int(counted.sum())
    if size < MIN_FAR_ITEMS:
        return []
    best = probability.argmax(1, keepdim=True)
    votes = data.votes
    changed = int(((votes.gather(1, best).squeeze(1) < votes.amax(1)) & counted).sum())
    if changed <= FAR * size:
        return []
    known = ((data.annotations_per_item >= 2) & (data.truth >= 0)).nonzero()[:, 0]
    wrong = int((votes[known].gather(1, data.truth[known].unsqueeze(1)).squeeze(1) < votes[known].amax(1)).sum())
    if len(known) >= MIN_KNOWN and wrong / len(known) >= changed / size / 2:
        return []
    return [
        f"the label is not that of the majority for {changed:,} of {size:,} items, a larger share than on any of 26 public "
        f"sets (26%): either most annotators are wrong on many items, or the fit has changed the meaning of classes; give known "
        f"true labels of some of these items, or look at them: crowdppl compare lists them"
    ]


@checked
def separate_groups(
    item: Annotated[Array, arguments.anything],
    worker: Annotated[Array, arguments.anything],
    items: NonNegativeInt,
    workers: NonNegativeInt,
    names: npt.NDArray[Any] | None = None,
) -> list[str]:
    """Return a sentence where workers fall into groups that share no item.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: worker of each annotation, ``(A,)``.
        items: number of items.
        workers: number of workers.
        names: of the workers, ``(workers,)``, of whom some of each group other than the largest are then named.
    """
    groups = _group_sizes(item, worker, items, workers)
    if len(groups) < 2:
        return []
    named = "" if names is None else _outside(item, worker, items, names)
    sizes = ", ".join(f"{size:,}" for size in groups[:5]) + (" ..." if len(groups) > 5 else "")
    return [
        f"the workers fall into {len(groups):,} groups that share no item ({sizes} workers): workers of different groups "
        f"can be compared through the prior only{named}"
    ]


def _outside(item: Array, worker: Array, items: int, names: npt.NDArray[Any]) -> str:
    """Return words that name the workers outside of the largest group: some of each of the next groups."""
    component = _components(item, worker, items, len(names))
    active = np.bincount(worker, minlength=len(names)) > 0
    sizes = np.bincount(component[active])
    order = np.argsort(-sizes, kind="stable")[1 : (sizes > 0).sum()]
    groups = [listed(names[active & (component == one)].tolist(), NAMED) for one in order[:NAMED]]
    more = f"; and {len(order) - NAMED:,} more groups" if len(order) > NAMED else ""
    return f" (outside of the largest: {'; '.join(groups)}{more})"


def _group_sizes(item: Array, worker: Array, items: int, workers: int) -> list[int]:
    active = np.bincount(worker, minlength=workers) > 0
    if _reaches_all(item, worker, active, items):
        return [int(active.sum())]
    groups = _components(item, worker, items, workers)
    return sorted(np.unique(groups[active], return_counts=True)[1].tolist(), reverse=True)


def _components(item: Array, worker: Array, items: int, workers: int) -> Array:
    """Return the number of the connected group of each worker, ``(workers,)``."""
    from scipy.sparse.csgraph import connected_components  # here, since it takes a tenth of a second to load

    size = items + workers
    graph = coo_matrix((np.ones(len(item), dtype=np.int8), (item, items + worker)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    return np.asarray(component[items:], dtype=np.int64)


def _reaches_all(item: Array, worker: Array, active: npt.NDArray[np.bool_], N: int) -> bool:
    """Tell whether a few steps from one worker to their items, and on to all workers of these, reach all active workers.

    In most crowds they do, and this takes a tenth of the time of finding all components.
    """
    reached = np.zeros_like(active)
    reached[worker[:1]] = True
    count = 1
    for _ in range(MOST_STEPS):
        items = np.bincount(item[reached[worker]], minlength=N) > 0
        reached[worker[items[item]]] = True
        before, count = count, int(reached.sum())
        if count == before:
            break
    return count == int(active.sum())
