"""Smaller panels: which judges can be left out, what it saves, and what it does to the intervals of the systems."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import PositiveFloat, checked
from crowdppl.judges.fit import refit
from crowdppl.judges.result import JudgesResult
from crowdppl.judges.tables.judge_table import weights
from crowdppl.judges.verdicts import Verdicts

# Draws of the fit of a smaller panel: widths are means over systems of quantiles.
DRAWS = 500


@checked
def smaller_panels(
    result: JudgesResult,
    width: PositiveFloat,
) -> pd.DataFrame:
    """Return smaller and smaller panels, each without the judge that was worth least for its cost, and their intervals.

    Each panel is fitted anew to the same human labels. The judge that is left out next is the one whose weight beside the other
    judges is smallest for its cost: the subsets are those of this order, not all there are. Without costs, each verdict costs 1.

    Args:
        result: of :func:`crowdppl.judges.fit`.
        width: wished width of the widest interval of :meth:`JudgesResult.systems`.

    Returns:
        A row for each number of judges, all of them first: ``judges`` (their number), ``panel`` (their names), ``left_out`` (the
        judge left out last), ``cost`` of their verdicts, ``width`` (of the widest interval), ``mean_width``, ``enough`` (whether
        the width is at most the wished one), and ``cheapest``, true for the panel of the lowest cost for which it is.
    """
    cost = _costs(result.verdicts)
    rows, kept, left_out, at = [], np.arange(len(cost)), None, result
    while True:
        ends = at.systems()
        each = ends["corrected_high"] - ends["corrected_low"]
        names = tuple(result.verdicts.judges[kept].tolist())
        rows.append((len(kept), names, left_out, cost[kept].sum(), each.max(), each.mean()))
        if len(kept) == 1:
            break
        weight, price = weights(at).mean(0), np.maximum(cost[kept], 1e-12)
        # Of judges that weigh less than nothing, the most expensive goes first.
        out = int(np.where(weight > 0, weight / price, weight * price).argmin())
        left_out, kept = result.verdicts.judges[kept[out]], np.delete(kept, out)
        at = refit(result, result.verdicts.only(result.verdicts.judges[kept]), min(DRAWS, len(result.truth)))
    table = pd.DataFrame(rows, columns=["judges", "panel", "left_out", "cost", "width", "mean_width"])
    table["enough"] = table["width"] <= width
    table["left_out"] = np.array([row[2] for row in rows], dtype=object)
    cheapest = table.loc[table["enough"], "cost"].min()
    same = table.index[table["enough"] & (table["cost"] == cheapest)]  # of the same cost, the smallest panel
    table["cheapest"] = table.index == (same[-1] if len(same) else -1)
    return table


def _costs(verdicts: Verdicts) -> npt.NDArray[np.float64]:
    """Return the cost of the verdicts of each judge, ``(J,)``: the number of rows without costs.

    A row without a cost counts with the mean of the judge's others; a judge without any counts with the mean of all.
    """
    J = len(verdicts.judges)
    number = np.bincount(verdicts.judge, minlength=J).astype(float)
    stated = np.isfinite(verdicts.cost)
    if not stated.any():
        return number
    known = np.bincount(verdicts.judge[stated], minlength=J)
    total = np.bincount(verdicts.judge[stated], verdicts.cost[stated], J)
    mean = np.where(known > 0, total / np.maximum(known, 1), verdicts.cost[stated].mean())
    return np.asarray(mean * number)
