"""Systematic confusions: of single workers, and of the crowd as a whole.

Counts refer to the reported label of each item, so that they can be verified in the tables: the number of annotations with label
``l`` that a worker gave to items reported as class ``k``. Which confusions are systematic is decided by the posterior of the
confusion matrices.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# Minimum number of a worker's annotations of a class, and of those with the wrong label.
MIN_ANNOTATIONS, MIN_WRONG = 5, 3
# A worker's confusion is systematic if its probability is at least MIN_SHARE and exceeds that of the other workers by MIN_EXCESS,
# with posterior probability MIN_PROBABILITY.
MIN_SHARE, MIN_EXCESS = 0.25, 0.2
MIN_PROBABILITY = 0.8
# Expected share of chance findings among the confusions listed (Benjamini and Hochberg 1995): many are tested.
FALSE_SHARE = 0.1
# The crowd confuses two classes if this share of the annotations of a class has the other label, given by this share of the
# workers, and this many times as often as an average wrong label.
CROWD_SHARE, CROWD_WORKERS, CROWD_LIFT = 0.15, 0.5, 1.5
CROWD_ANNOTATIONS = 10
# Items whose most probable class is less probable than this are ambiguous between the first two.
AMBIGUOUS = 0.8
# Minimum number of annotations of a class for a worker to count in a confusion of the crowd.
CROWD_MIN_PER_WORKER = 3
# Maximum number of cells (workers x classes x labels) of a dense table of counts.
DENSE_CELLS = 2**25

COLUMNS = ["worker", "truth", "label", "share", "annotations", "of", "others", "probability"]
CROWD_COLUMNS = ["truth", "label", "share", "annotations", "of", "workers", "asked", "torn"]


@checked
def systematic_confusions(posterior: PosteriorVariables) -> pd.DataFrame:
    """Return systematic confusions of single workers: a wrong label that a worker, unlike others, often gives to a class.

    A confusion is listed if its probability exceeds .25, and the share among the other workers by .2, with posterior probability
    .8, given at least five annotations of the class and three with the wrong label. It must also be more than chance: of the
    confusions listed less than a tenth are expected to be chance, given how many workers and classes there are.

    Args:
        posterior: a result.

    Returns:
        A table with one row per confusion, most excess wrong labels first: ``worker``; ``truth``, the class; ``label``, the wrong
        label; ``share`` of the worker's annotations of the class with that label, as ``annotations`` out of ``of``; ``others``,
        the share among all other workers; ``probability`` that the confusion is systematic.
    """
    from scipy.special import betainc  # here: slow to import

    worker, truth, label, count, seen, total, totals = _counts(posterior)
    wrong = (truth != label) & (seen >= MIN_ANNOTATIONS) & (count >= MIN_WRONG) & (count >= MIN_SHARE * seen)
    j, k, m, n, of = (part[wrong] for part in (worker, truth, label, count, seen))
    rest = totals[k] - of
    others = np.where(rest >= MIN_ANNOTATIONS, (total[wrong] - n) / np.maximum(rest, 1), 0.0)
    K = len(posterior.labels)
    tests = len(np.unique((worker * K + truth)[seen >= MIN_ANNOTATIONS])) * (K - 1)
    # Probability of so many wrong labels at the others' rate.
    by_chance = betainc(n, of - n + 1, (total[wrong] - n + 0.5) / (rest + 1))
    listed = _discoveries(by_chance, tests)
    j, k, m, n, of, others = (part[listed] for part in (j, k, m, n, of, others))
    draws = posterior.variable("confusion").values  # (C, D, J, K, K)
    step = max(1, 2**24 // (draws.shape[0] * draws.shape[1]))
    probability = np.array(
        [
            share
            for start in range(0, len(j), step)
            for share in (
                draws[:, :, j[start : start + step], k[start : start + step], m[start : start + step]]
                > np.maximum(MIN_SHARE, others[start : start + step] + MIN_EXCESS)
            ).mean((0, 1))
        ]
    )
    names, labels = posterior.worker_names(), posterior.labels
    table = pd.DataFrame(
        {
            "worker": names[j],
            "truth": labels[k],
            "label": labels[m],
            "share": n / np.maximum(of, 1),
            "annotations": n,
            "of": of,
            "others": others,
            "probability": probability,
        },
        columns=COLUMNS,
    )
    order = np.argsort(-(n - others * of), kind="stable")
    table = table.iloc[order]
    return table[table["probability"] >= MIN_PROBABILITY].reset_index(drop=True)


def _discoveries(p_value: Array, tests: int) -> Array:
    """Return which p-values ``(n,)`` are discoveries at a false share of ``FALSE_SHARE``, among so many tests in all."""
    ordered = np.sort(p_value)
    below = np.flatnonzero(ordered <= FALSE_SHARE * np.arange(1, len(ordered) + 1) / max(1, tests))
    return np.asarray(p_value <= (ordered[below[-1]] if len(below) else -1.0))


@checked
def crowd_confusions(
    posterior: PosteriorVariables, *, without: Annotated[Array, arguments.array("worker", kind="whole")] | None = None
) -> pd.DataFrame:
    """Return the classes that the crowd as a whole confuses, which suggests a problem of the guideline.

    A confusion is listed if at least 15% of the annotations of a class have the wrong label, which with three or more classes
    must be 1.5 times as frequent as an average wrong label, and if many give it at half of the crowd's rate or more: at least
    half of the workers with three annotations of the class, or workers with at least half of the annotations of the class, none
    of whom gave most of these labels alone.

    Args:
        posterior: a result.
        without: mask of workers to leave out, ``(J,)``, such as unreliable ones. Defaults to none.

    Returns:
        A table with one row per class and wrong label, most annotations first: ``truth``, ``label``, ``share``, ``annotations``
        out of ``of``; ``workers`` out of ``asked`` who give it, of those with three annotations of the class if they are half of
        these, otherwise of all; ``torn``, the number of ambiguous items: their two most
        probable classes are these two, neither of them 80% probable.
    """
    J, K = len(posterior.worker_names()), len(posterior.labels)
    if K < 2:
        return pd.DataFrame(columns=CROWD_COLUMNS)
    kept = np.ones(J, dtype=bool) if without is None else ~np.asarray(without, dtype=bool)
    worker, truth, label, count, seen, _, _ = _counts(posterior)
    selected = kept[worker]
    worker, truth, label, count, seen = (part[selected] for part in (worker, truth, label, count, seen))
    pair = truth * K + label
    cells, which = np.unique(pair, return_inverse=True)
    crowd_count = np.bincount(which, weights=count, minlength=len(cells)).astype(int)
    k, m = cells // K, cells % K
    totals = np.bincount(truth, weights=count, minlength=K).astype(int)
    share = crowd_count / np.maximum(totals[k], 1)
    # All workers with enough annotations of the class count, whether or not they gave the wrong label.
    enough = seen >= CROWD_MIN_PER_WORKER
    active = np.unique(worker[enough] * K + truth[enough])
    asked = np.bincount(active % K, minlength=K)[k]
    gives = count >= np.maximum(share[which] / 2 * seen, 1)
    confusing = np.bincount(which[enough & gives], minlength=len(cells))
    by_many = (confusing >= CROWD_WORKERS * asked) & (confusing >= 2)
    # By annotations: of workers from whom at least one such label was to be expected, or who gave one.
    # Columns: annotations of the class by those who give the label, and by all these workers.
    of_class = np.zeros((len(cells), 2))
    of_class[:, 0] = np.bincount(which[gives], weights=seen[gives], minlength=len(cells))
    row, first = np.unique(worker * K + truth, return_index=True)
    for cell in np.flatnonzero((share >= CROWD_SHARE) & (k != m) & (totals[k] >= CROWD_ANNOTATIONS)).tolist():
        mine = (row % K == k[cell]) & (seen[first] * share[cell] >= 1)
        few = gives & (which == cell) & (seen * share[cell] < 1)
        of_class[cell, 1] = seen[first][mine].sum() + seen[few].sum()
    most = np.zeros(len(cells))
    np.maximum.at(most, which, count)
    givers = np.bincount(which[gives], minlength=len(cells))
    by_much = (of_class[:, 0] >= CROWD_WORKERS * of_class[:, 1]) & (givers >= 2) & (most <= crowd_count / 2)
    labelled = np.bincount(row % K, minlength=K)  # workers with an annotation of each class
    ambiguous = _ambiguous_items(posterior)
    average = crowd_count[k != m].sum() / max(1, totals.sum() * (K - 1))
    above_average = np.full(len(k), K == 2) | (share >= CROWD_LIFT * average)
    systematic = (
        above_average & (k != m) & (totals[k] >= CROWD_ANNOTATIONS) & (share >= CROWD_SHARE) & (by_many | by_much)
    )
    labels = posterior.labels
    table = pd.DataFrame(
        {
            "truth": labels[k],
            "label": labels[m],
            "share": share,
            "annotations": crowd_count,
            "of": totals[k],
            "workers": np.where(by_many, confusing, givers),
            "asked": np.where(by_many, asked, labelled[k]),
            "torn": [ambiguous.get((min(a, b), max(a, b)), 0) for a, b in zip(k.tolist(), m.tolist(), strict=True)],
        },
        columns=CROWD_COLUMNS,
    )[systematic]
    return table.sort_values("annotations", ascending=False, kind="stable").reset_index(drop=True)


@checked
def label_counts(
    posterior: PosteriorVariables, *, without: Annotated[Array, arguments.array("worker", kind="whole")] | None = None
) -> Array:
    """Return the number of annotations by reported class and given label, ``(K, K)``, optionally without some workers."""
    K = len(posterior.labels)
    item, worker, label = posterior.annotation_index()
    reported = posterior.probability().argmax(1)[item]
    if without is not None:
        kept = ~np.asarray(without, dtype=bool)[worker]
        reported, label = reported[kept], label[kept]
    return np.bincount(reported * K + label, minlength=K * K).reshape(K, K)


def _counts(posterior: PosteriorVariables) -> tuple[Array, ...]:
    """Count annotations by worker, reported class and label, for nonempty cells.

    Returns:
        Worker, class and label of each cell; its number of annotations; that of the worker in the class; that of the crowd in the
        class and label; and that of the crowd in each class, ``(K,)``.
    """
    J, K = len(posterior.worker_names()), len(posterior.labels)
    item, worker, label = posterior.annotation_index()
    reported = posterior.probability().argmax(1)[item].astype(np.int64)
    code = (worker.astype(np.int64) * K + reported) * K + label
    if J * K * K <= DENSE_CELLS:  # counting is faster than sorting
        dense = np.bincount(code, minlength=J * K * K)
        cell = np.flatnonzero(dense)
        count = dense[cell]
    else:
        cell, count = np.unique(code, return_counts=True)
    row, which = np.unique(cell // K, return_inverse=True)
    seen = np.bincount(which, weights=count, minlength=len(row)).astype(int)[which]
    pair, into = np.unique(cell % (K * K), return_inverse=True)
    total = np.bincount(into, weights=count, minlength=len(pair)).astype(int)[into]
    return cell // (K * K), cell // K % K, cell % K, count, seen, total, np.bincount(reported, minlength=K)


def _ambiguous_items(posterior: PosteriorVariables) -> dict[tuple[int, int], int]:
    """Count ambiguous items by their two most probable classes."""
    probability = posterior.probability()
    ambiguous = probability[(probability.max(1) < AMBIGUOUS) & (posterior.known_truth() < 0)]
    if not len(ambiguous):
        return {}
    two = np.sort(np.argpartition(-ambiguous, 1, axis=1)[:, :2], axis=1)
    pairs, count = np.unique(two, axis=0, return_counts=True)
    return {(a, b): n for (a, b), n in zip(pairs.tolist(), count.tolist(), strict=True)}
