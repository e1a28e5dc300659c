"""Who confuses what: classes that one worker confuses and others do not, and classes that the whole crowd confuses.

Counts are by the reported label of each item, so that anybody can verify them in the tables: of the annotations that a worker
gave to items reported as class ``k``, how many have label ``l``. What counts as systematic is decided by the posterior of the
confusion matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# Annotations of a class that a worker must have, and of these with the wrong label.
SEEN, WRONG = 5, 3
# A worker's confusion is systematic where its probability is at least this, and exceeds that of the others by this, ...
SHARE, EXCESS = 0.25, 0.2
# ... with this probability.
SURE = 0.8
# A crowd confuses two classes where this share of a class gets the other's label, from this share of its workers, and so much
# more often than wrong labels are given on average.
CROWD_SHARE, CROWD_WORKERS, CROWD_LIFT = 0.15, 0.5, 1.5
CROWD_SEEN = 10
# Items whose most probable class is less probable than this are torn between the first two.
TORN = 0.8
# Annotations of a class from which on a worker is asked whether they confuse it, too.
EACH = 3
# Cells of workers x classes x labels that are counted all at once.
DENSE = 2**25

COLUMNS = ["worker", "truth", "label", "share", "annotations", "of", "others", "probability"]
CROWD_COLUMNS = ["truth", "label", "share", "annotations", "of", "workers", "asked", "torn"]


@arguments.checked(posterior=arguments.posterior)
def systematic_confusions(posterior: PosteriorVariables) -> pd.DataFrame:
    """Return systematic errors of single workers: a wrong label that they often give to a class, and others do not.

    A confusion is listed where its probability exceeds .25, and the share of the others by .2, with probability .8, with at least
    five annotations of the class and three with the wrong label.

    Args:
        posterior: a result.

    Returns:
        A row for each, those with most wrong labels first: ``worker``; ``truth``, the class; ``label``, the wrong label;
        ``share`` of the worker's annotations of the class that have it, with their numbers, ``annotations`` of ``of``;
        ``others``, the share among all other workers; ``probability`` that the confusion is systematic.
    """
    worker, truth, label, often, seen, total, totals = _counts(posterior)
    wrong = (truth != label) & (seen >= SEEN) & (often >= WRONG) & (often >= SHARE * seen)
    j, k, m, n, of = (part[wrong] for part in (worker, truth, label, often, seen))
    rest = totals[k] - of
    others = np.where(rest >= SEEN, (total[wrong] - n) / np.maximum(rest, 1), 0.0)
    draws = posterior.tree["posterior"].to_dataset()["confusion"].values  # (C, D, J, K, K)
    step = max(1, 2**24 // (draws.shape[0] * draws.shape[1]))
    sure = np.array(
        [
            share
            for start in range(0, len(j), step)
            for share in (
                draws[:, :, j[start : start + step], k[start : start + step], m[start : start + step]]
                > np.maximum(SHARE, others[start : start + step] + EXCESS)
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
            "probability": sure,
        },
        columns=COLUMNS,
    )
    order = np.argsort(-(n - others * of), kind="stable")
    table = table.iloc[order]
    return table[table["probability"] >= SURE].reset_index(drop=True)


@arguments.checked(posterior=arguments.posterior, without=arguments.array("worker", kind="whole"))
def crowd_confusions(posterior: PosteriorVariables, *, without: Array | None = None) -> pd.DataFrame:
    """Return the classes that the crowd as a whole confuses: a matter of the guideline rather than of single workers.

    A confusion is listed where at least 15% of the annotations of a class have the wrong label, with three classes or more half
    as many again as a wrong label has on average, and where at least half of the workers with three annotations of the class give
    it at a comparable rate (half of the crowd's or more).

    Args:
        posterior: a result.
        without: workers to leave out, true or false, ``(J,)``: those who do not work in earnest; nobody where not given.

    Returns:
        A row for each class and wrong label, most annotations first: ``truth``, ``label``, ``share``, ``annotations`` of ``of``;
        ``workers`` of ``asked`` who do so; ``torn``, the items whose two most probable classes are these two, neither of them 80%
        probable.
    """
    J, K = len(posterior.worker_names()), len(posterior.labels)
    if K < 2:
        return pd.DataFrame(columns=CROWD_COLUMNS)
    kept = np.ones(J, dtype=bool) if without is None else ~np.asarray(without, dtype=bool)
    worker, truth, label, often, seen, _, _ = _counts(posterior)
    mine = kept[worker]
    worker, truth, label, often, seen = (part[mine] for part in (worker, truth, label, often, seen))
    pair = truth * K + label
    cells, which = np.unique(pair, return_inverse=True)
    count = np.bincount(which, weights=often, minlength=len(cells)).astype(int)
    k, m = cells // K, cells % K
    totals = np.bincount(truth, weights=often, minlength=K).astype(int)
    share = count / np.maximum(totals[k], 1)
    # Everyone with a few annotations of the class is asked, whether they gave the wrong label or not.
    enough = seen >= EACH
    each = np.unique(worker[enough] * K + truth[enough])
    asked = np.bincount(each % K, minlength=K)[k]
    does = enough & (often >= np.maximum(share[which] / 2 * seen, 1))
    doing = np.bincount(which[does], minlength=len(cells))
    torn = _torn(posterior)
    average = count[k != m].sum() / max(1, totals.sum() * (K - 1))
    lifted = np.full(len(k), K == 2) | (share >= CROWD_LIFT * average)
    listed = (
        lifted
        & (k != m)
        & (totals[k] >= CROWD_SEEN)
        & (share >= CROWD_SHARE)
        & (doing >= CROWD_WORKERS * asked)
        & (doing >= 2)
    )
    labels = posterior.labels
    table = pd.DataFrame(
        {
            "truth": labels[k],
            "label": labels[m],
            "share": share,
            "annotations": count,
            "of": totals[k],
            "workers": doing,
            "asked": asked,
            "torn": [torn.get((min(a, b), max(a, b)), 0) for a, b in zip(k.tolist(), m.tolist(), strict=True)],
        },
        columns=CROWD_COLUMNS,
    )[listed]
    return table.sort_values("annotations", ascending=False, kind="stable").reset_index(drop=True)


@arguments.checked(posterior=arguments.posterior, without=arguments.array("worker", kind="whole"))
def label_counts(posterior: PosteriorVariables, *, without: Array | None = None) -> Array:
    """Return how often items reported as each class were given each label, ``(K, K)``, by all workers or all but some."""
    K = len(posterior.labels)
    item, worker, label = posterior.annotation_index()
    reported = posterior.probability().argmax(1)[item]
    if without is not None:
        kept = ~np.asarray(without, dtype=bool)[worker]
        reported, label = reported[kept], label[kept]
    return np.bincount(reported * K + label, minlength=K * K).reshape(K, K)


def _counts(posterior: PosteriorVariables) -> tuple[Array, ...]:
    """Count labels by worker and reported class, cells that occur only.

    Returns:
        Worker, class and label of each cell; its annotations; those of the worker in the class; those of the crowd in
        class and label; and those of the crowd in each class, ``(K,)``.
    """
    J, K = len(posterior.worker_names()), len(posterior.labels)
    item, worker, label = posterior.annotation_index()
    reported = posterior.probability().argmax(1)[item].astype(np.int64)
    code = (worker.astype(np.int64) * K + reported) * K + label
    if J * K * K <= DENSE:  # counting is faster than sorting
        dense = np.bincount(code, minlength=J * K * K)
        cell = np.flatnonzero(dense)
        often = dense[cell]
    else:
        cell, often = np.unique(code, return_counts=True)
    row, which = np.unique(cell // K, return_inverse=True)
    seen = np.bincount(which, weights=often, minlength=len(row)).astype(int)[which]
    pair, into = np.unique(cell % (K * K), return_inverse=True)
    total = np.bincount(into, weights=often, minlength=len(pair)).astype(int)[into]
    return cell // (K * K), cell // K % K, cell % K, often, seen, total, np.bincount(reported, minlength=K)


def _torn(posterior: PosteriorVariables, sure: float = TORN) -> dict[tuple[int, int], int]:
    """Count items that are not settled, by their two most probable classes."""
    probability = posterior.probability()
    unsure = probability[(probability.max(1) < sure) & (posterior.known_truth() < 0)]
    if not len(unsure):
        return {}
    two = np.sort(np.argpartition(-unsure, 1, axis=1)[:, :2], axis=1)
    pairs, often = np.unique(two, axis=0, return_counts=True)
    return {(a, b): n for (a, b), n in zip(pairs.tolist(), often.tolist(), strict=True)}
