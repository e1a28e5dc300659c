"""Intraclass correlations of numeric labels.

Source: K. O. McGraw and S. P. Wong (1996), Forming inferences about some intraclass correlation coefficients, Psychological
Methods 1, 30-46, whose names these are; P. E. Shrout and J. L. Fleiss (1979), Psychological Bulletin 86, 420-428, call them
ICC(1,1), ICC(2,1) and ICC(2,k).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from crowdppl.arguments import Level, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.table.identifier_checks import numbers
from crowdppl.data.worker_items import WorkerItems
from crowdppl.errors import DataError, listed, warn
from crowdppl.metrics.score_intervals import TINY, score_interval
from crowdppl.posterior.measures import default_level

Array = npt.NDArray[Any]


@checked
def intraclass_correlation(data: Annotations | NumericAnnotations, *, level: Level | None = None) -> pd.DataFrame:
    """Return intraclass correlations of labels that are numbers, with intervals.

    Rows: ``icc_1``, of single labels, each item with workers of its own, on all items with two workers or more; ``icc_a_1``, the
    absolute agreement of single labels, and ``icc_a_k``, of the mean over all workers, on the items that every worker labelled.
    The last two are left out with a warning where there are fewer than two such items. Columns: ``measure``, ``value``, ``low``
    and ``high``, and ``items``. The intervals are those of the F distribution; where all labels of each item are equal they are
    those of :func:`agreement` with quadratic weights.

    Args:
        data: the annotations. Of a worker's repeated labels of an item the first counts.
        level: probability of the intervals. Defaults to ArviZ's default, .89.

    Raises:
        DataError: if labels are not numbers, or fewer than two items have two workers.
    """
    level = default_level(level)
    score, item, worker = _first_scores(data)
    n = np.bincount(item, minlength=data.N)
    items = int((n > 1).sum())
    if items < 2:
        raise DataError(
            f"{items} items have two annotations or more by different workers; agreement needs two such items"
        )
    used = (n > 1)[item]
    rows = [_one_way(score[used], np.unique(item[used], return_inverse=True)[1], level)]
    workers = int(worker.max()) + 1
    complete = np.flatnonzero(n == workers)
    if len(complete) > 1:
        chosen = np.isin(item, complete)  # scores are sorted by worker, and then by item
        rows += _two_way(score[chosen].reshape(workers, len(complete)).T, level)
    else:
        warn(f"{len(complete)} items have a label of every worker; icc_a_1 and icc_a_k need two, and are left out")
    if np.isnan(rows[0]["value"]):
        warn("all labels are the same, so that intraclass correlations are undefined (NaN)")
    return pd.DataFrame(rows)


def _first_scores(data: Annotations | NumericAnnotations) -> tuple[Array, Array, Array]:
    """Return the first score that each worker gave an item, with item and worker, ``(C,)`` each, by worker and then by item.

    Raises:
        DataError: if labels are not numbers.
    """
    if isinstance(data, NumericAnnotations):
        code, first = np.unique((data.worker * data.N + data.item).cpu().numpy(), return_index=True)
        return data.value.cpu().numpy()[first], code % data.N, code // data.N
    values = numbers(data.labels)
    if values is None:
        raise DataError(
            f"labels are {listed(data.labels.tolist())}; intraclass correlation needs labels that are numbers"
        )
    cells = WorkerItems.of(data.by_criterion())
    return values[cells.first], cells.item, cells.worker


def _row(measure: str, value: float, ends: tuple[float, float], items: int) -> dict[str, Any]:
    low, high = (float(np.clip(end, -1, 1)) for end in ends)
    return {"measure": measure, "value": float(value), "low": low, "high": high, "items": items}


def _one_way(score: Array, item: Array, level: float) -> dict[str, Any]:
    """Return ICC(1) of scores ``(A,)`` of items ``(A,)``, which may have different numbers of them."""
    size = np.bincount(item)
    mean = np.bincount(item, weights=score) / size
    A, n = len(score), len(size)
    between = float((size * (mean - score.mean()) ** 2).sum() / (n - 1))
    within = float(((score - mean[item]) ** 2).sum() / (A - n))
    each = (A - np.square(size).sum() / A) / (n - 1)  # labels per item, as the expected mean square has it
    if between <= TINY and within <= TINY:
        return _row("icc_1", np.nan, (np.nan, np.nan), n)
    value = (between - within) / (between + (each - 1) * within)
    if within <= TINY:
        return _row("icc_1", value, _equal(mean, n, level), n)
    ratio, tail = between / within, (1 + level) / 2
    ends = (ratio / special.fdtri(n - 1, A - n, tail), ratio * special.fdtri(A - n, n - 1, tail))
    return _row("icc_1", value, ((ends[0] - 1) / (ends[0] + each - 1), (ends[1] - 1) / (ends[1] + each - 1)), n)


def _two_way(table: Array, level: float) -> list[dict[str, Any]]:
    """Return ICC(A,1) and ICC(A,k) of a complete table of scores ``(n, k)``, items by workers."""
    n, k = table.shape
    items, workers, grand = table.mean(1), table.mean(0), table.mean()
    by_item = k * float(((items - grand) ** 2).sum()) / (n - 1)
    by_worker = n * float(((workers - grand) ** 2).sum()) / (k - 1)
    error = float(((table - items[:, None] - workers + grand) ** 2).sum()) / ((n - 1) * (k - 1))
    if by_item <= TINY and by_worker <= TINY and error <= TINY:
        return [_row(name, np.nan, (np.nan, np.nan), n) for name in ("icc_a_1", "icc_a_k")]
    value = (by_item - error) / (by_item + (k - 1) * error + k / n * (by_worker - error))
    if by_worker <= TINY and error <= TINY:
        ends = _equal(items, n, level)
    else:
        # Satterthwaite's degrees of freedom of the variance of a label given its item.
        a, b = k * value / n, (1 - value) + k * value * (n - 1) / n
        parts = (a * by_worker, b * error)
        degrees = sum(parts) ** 2 / (parts[0] ** 2 / (k - 1) + parts[1] ** 2 / ((n - 1) * (k - 1)))
        tail, rest = (1 + level) / 2, k * by_worker + (k * n - k - n) * error
        low, high = special.fdtri(n - 1, degrees, tail), special.fdtri(degrees, n - 1, tail)
        ends = (
            n * (by_item - low * error) / (low * rest + n * by_item),
            n * (high * by_item - error) / (rest + n * high * by_item),
        )

    def of_mean(single: float) -> float:
        return k * single / (1 + (k - 1) * single)  # Spearman and Brown

    return [
        _row("icc_a_1", value, ends, n),
        _row("icc_a_k", of_mean(value), (of_mean(ends[0]), of_mean(ends[1])), n),
    ]


def _equal(scores: Array, n: int, level: float) -> tuple[float, float]:
    """Return the interval where all labels of each item are equal: that of quadratic agreement of ``n`` items of ``n``."""
    expected = 1 - 2 * float(scores.var()) / float(np.ptp(scores)) ** 2
    return score_interval(1.0, expected, 0.0, n, level)
