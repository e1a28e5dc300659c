"""Agreement of pairs of workers: J. Cohen (1960), Educational and Psychological Measurement 20, 37-46."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Level, PositiveInt, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.worker_items import WorkerItems
from crowdppl.errors import warn
from crowdppl.metrics.coefficients import Coefficient
from crowdppl.metrics.scales import Weights, label_weights, places
from crowdppl.posterior.measures import default_level

Array = npt.NDArray[Any]

# Fewest common items of the pairs that are shown, where some pairs have as many.
COMMON = 20
COLUMNS = ["first", "second", "items", "agreement", "agreement_low", "agreement_high", "cohen_kappa", "low", "high"]


@checked
def pairwise_agreement(
    data: Annotations, *, minimum: PositiveInt | None = None, weights: Weights = "nominal", level: Level | None = None
) -> pd.DataFrame:
    """Return agreement and Cohen's kappa of pairs of workers on their common items.

    Columns: ``first`` and ``second`` worker; ``items``, the number in common; ``agreement`` with ``agreement_low`` and
    ``agreement_high``; ``cohen_kappa`` with ``low`` and ``high``, NaN if both gave all items the same label. Intervals are as in
    :func:`agreement`. Labels that a worker gave an item several times count as one label in all. A warning states how many pairs
    with common items are left out, or that there are none.

    Args:
        data: the annotations.
        minimum: fewest common items of a pair. Defaults to 20, or the most that any pair has if that is fewer.
        weights: as in :func:`agreement`.
        level: probability of the intervals. Defaults to ArviZ's default, .89.

    Raises:
        OptionError: as in :func:`agreement`.
    """
    level = default_level(level)
    w = label_weights(places(data, weights), weights)
    cells = WorkerItems.of(data.by_criterion())
    start, common = cells.starts(data.J), cells.common(data.J)
    least = min(COMMON, int(common.data.max(initial=1))) if minimum is None else minimum
    kept = common.data >= least
    left_out = int((~kept).sum())
    if not len(kept):
        warn(f"none of the {data.J:,} workers has an item in common with another, so that no pair can be compared")
    if left_out:
        warn(
            f"{left_out:,} of {len(kept):,} pairs of workers with common items have fewer than {least}, and are left out; "
            f"minimum=1 includes them"
        )
    rows = []
    order = np.lexsort((common.col[kept], common.row[kept]))
    for a, b in zip(common.row[kept][order].tolist(), common.col[kept][order].tolist(), strict=True):
        mine, theirs = slice(start[a], start[a + 1]), slice(start[b], start[b + 1])
        _, here, there = np.intersect1d(cells.item[mine], cells.item[theirs], assume_unique=True, return_indices=True)
        pair = (cells.shares[start[a] + here].toarray(), cells.shares[start[b] + there].toarray())
        rows.append({"first": data.workers[a], "second": data.workers[b], **_cohen(*pair, w, level)})
    return pd.DataFrame(rows, columns=COLUMNS)


def _cohen(one: Array, other: Array, w: Array, level: float) -> dict[str, Any]:
    """Return agreement and Cohen's kappa of two workers' labels of the same items, as shares ``(n, K)`` each."""
    n = len(one)
    agreeing = np.einsum("nk,kl,nl->n", one, w, other)
    observed, mine, theirs = float(agreeing.mean()), one.mean(0), other.mean(0)
    by_observed = (agreeing - observed) / n
    by_expected = ((one - mine) @ w @ theirs + (other - theirs) @ w @ mine) / n
    raw = Coefficient(observed, 0.0, by_observed).row("agreement", n, level)
    kappa = Coefficient.corrected(observed, float(mine @ w @ theirs), by_observed, by_expected).row("kappa", n, level)
    values = (n, observed, raw["low"], raw["high"], kappa["value"], kappa["low"], kappa["high"])
    return dict(zip(COLUMNS[2:], values, strict=True))
