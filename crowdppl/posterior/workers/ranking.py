"""Ranks of workers, computed for each draw."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Identifier, Level, NonNegativeInt, PositiveInt, checked
from crowdppl.errors import OptionError
from crowdppl.posterior.intervals import equal_tailed
from crowdppl.posterior.measures import LOWER_IS_BETTER, default_level
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# A rank is shown by its interval alone if that contains more than this share of all ranks.
WIDE = 0.5
UNKNOWN = "unknown"


@checked
def rank(values: Annotated[Array, arguments.array("draw", "worker")], *, lower_is_better: bool = False) -> Array:
    """Return ranks within each draw, 1 for the best: ``(S, J)`` for values ``(S, J)``; ties get their mean rank."""
    # scipy.stats has the same, and takes a third of a second to import.
    return pd.DataFrame(values).rank(axis=1, ascending=lower_is_better, method="average").to_numpy()


@checked
def summarise_ranks(
    ranks: Annotated[Array, arguments.array("draw", "worker")], level: Level | None = None
) -> pd.DataFrame:
    """Summarise ranks ``(S, J)`` over draws.

    Returns:
        A table with one row per worker: ``rank``, the median; ``rank_low`` and ``rank_high``, the ends of its interval, rounded
        outwards; ``place``, as text: "3 (1–6)", "1–3 of 5" if the interval contains more than half of all ranks, and "unknown" if
        it contains all of them.
    """
    level, J = default_level(level), ranks.shape[1]
    if len(ranks) < 2:  # a single draw: the uncertainty of the order is unknown
        low, middle, high = np.ones(J), ranks[0], np.full(J, J)
    else:
        (low, high), middle = equal_tailed(ranks, level), np.quantile(ranks, 0.5, axis=0)
    low, high = np.floor(low + 1e-9).astype(int), np.ceil(high - 1e-9).astype(int)
    texts = [_place_text(m, a, b, J) for m, a, b in zip(middle, low, high, strict=True)]
    return pd.DataFrame({"rank": middle, "rank_low": low, "rank_high": high, "place": texts})


def _place_text(middle: float, low: Any, high: Any, J: int) -> str:
    if low == high:
        return str(low)
    if high - low + 1 == J:
        return UNKNOWN
    return f"{low}–{high} of {J}" if high - low + 1 > WIDE * J else f"{middle:.0f} ({low}–{high})"


@checked
def probability_better(
    posterior: PosteriorVariables, a: Identifier, b: Identifier, *, by: str = "accuracy", cost: Any = None
) -> float:
    """Return the probability that worker ``a`` is better than worker ``b``; ties count half.

    Args:
        posterior: a result.
        a: a worker.
        b: another worker.
        by: a measure of :data:`crowdppl.posterior.workers.MEASURES`.
        cost: see :func:`crowdppl.posterior.workers.expected_cost`.

    Raises:
        DataError: for an unknown worker.
        OptionError: for an unknown measure.
    """
    values = posterior.measure(by, workers=[a, b], cost=cost)  # (S, 2)
    gain = (values[:, 0] - values[:, 1]) * (-1 if by in LOWER_IS_BETTER else 1)
    return float((gain > 0).mean() + (gain == 0).mean() / 2)


@checked
def best(
    posterior: PosteriorVariables,
    m: PositiveInt,
    *,
    by: str = "accuracy",
    cost: Any = None,
    minimum: NonNegativeInt = 0,
) -> pd.DataFrame:
    """Return the probability that each worker is among the best ``m``: ``worker``, ``annotations``, ``probability``, sorted.

    Args:
        posterior: a result.
        m: number of workers to choose.
        by: a measure, see :func:`probability_better`.
        cost: cost matrix, see :func:`crowdppl.posterior.workers.expected_cost`.
        minimum: minimum number of annotations of the workers compared.

    Raises:
        OptionError: for ``m`` outside 1 to the number of workers compared.
    """
    return _extreme(posterior, m, by, cost, minimum, worst_first=False)


@checked
def worst(
    posterior: PosteriorVariables,
    m: PositiveInt,
    *,
    by: str = "accuracy",
    cost: Any = None,
    minimum: NonNegativeInt = 0,
) -> pd.DataFrame:
    """Return the probability that each worker is among the worst ``m``; arguments as in :func:`best`."""
    return _extreme(posterior, m, by, cost, minimum, worst_first=True)


def _extreme(
    posterior: PosteriorVariables, m: int, by: str, cost: Any, minimum: int, *, worst_first: bool
) -> pd.DataFrame:
    enough = posterior.annotations_per_worker() >= minimum
    if m > max(1, int(enough.sum())):
        raise OptionError(f"m={m!r}; it must be from 1 to {int(enough.sum()):,}, the number of workers compared")
    values = posterior.measure(by, cost=cost)[:, enough]
    ranks = rank(values, lower_is_better=(by in LOWER_IS_BETTER) != worst_first)
    table = pd.DataFrame(
        {
            "worker": posterior.worker_names()[enough],
            "annotations": posterior.annotations_per_worker()[enough],
            "probability": (ranks <= m).mean(0),
        }
    )
    return table.sort_values("probability", ascending=False, kind="stable").reset_index(drop=True)
