"""Who is better than whom: ranks of workers, draw by draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.errors import OptionError
from crowdppl.posterior.measures import LOWER_IS_BETTER, default_level
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# A rank is told by its interval alone where that holds more than this share of all ranks.
KNOWN = 0.5
UNKNOWN = "unknown"


@arguments.checked(values=arguments.array("draw", "worker"), lower_is_better=arguments.flag)
def rank(values: Array, *, lower_is_better: bool = False) -> Array:
    """Return ranks from 1 for the best, in each draw: ``(S, J)`` of values ``(S, J)``; equals share the mean of their places."""
    from scipy.stats import rankdata  # here, since it takes a third of a second to load

    return np.asarray(rankdata(values if lower_is_better else -values, axis=1, method="average"))


@arguments.checked(ranks=arguments.array("draw", "worker"), level=arguments.level)
def summarise_ranks(ranks: Array, level: float | None = None) -> pd.DataFrame:
    """Summarise ranks ``(S, J)`` over draws.

    Returns:
        A row for each worker: ``rank``, the median; ``rank_low`` and ``rank_high``, the ends of its interval, rounded outwards;
        ``place``, in words: "3 (1–6)", "1–3 of 5" where the interval holds more than half of all ranks, and "unknown" where it
        holds all of them.
    """
    level, J = default_level(level), ranks.shape[1]
    if len(ranks) < 2:  # one draw has no spread: nothing is known of how sure the order is
        low, middle, high = np.ones(J), ranks[0], np.full(J, J)
    else:
        low, middle, high = np.quantile(ranks, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    low, high = np.floor(low + 1e-9).astype(int), np.ceil(high - 1e-9).astype(int)
    words = [_place(m, a, b, J) for m, a, b in zip(middle, low, high, strict=True)]
    return pd.DataFrame({"rank": middle, "rank_low": low, "rank_high": high, "place": words})


def _place(middle: float, low: Any, high: Any, J: int) -> str:
    if low == high:
        return str(low)
    if high - low + 1 == J:
        return UNKNOWN
    return f"{low}–{high} of {J}" if high - low + 1 > KNOWN * J else f"{middle:.0f} ({low}–{high})"


@arguments.checked(
    posterior=arguments.posterior,
    a=arguments.identifier,
    b=arguments.identifier,
    by=arguments.text,
    cost=arguments.anything,
)
def probability_better(
    posterior: PosteriorVariables, a: Any, b: Any, *, by: str = "accuracy", cost: Any = None
) -> float:
    """Return the probability that worker ``a`` is better than worker ``b``; equals count half.

    Args:
        posterior: a result.
        a: a worker.
        b: another.
        by: a measure of :data:`crowdppl.posterior.workers.MEASURES`.
        cost: see :func:`crowdppl.posterior.workers.expected_cost`.

    Raises:
        DataError: for an unknown worker.
        OptionError: for an unknown measure.
    """
    values = posterior.measure(by, workers=[a, b], cost=cost)  # (S, 2)
    gain = (values[:, 0] - values[:, 1]) * (-1 if by in LOWER_IS_BETTER else 1)
    return float((gain > 0).mean() + (gain == 0).mean() / 2)


@arguments.checked(
    posterior=arguments.posterior,
    m=arguments.whole(1),
    by=arguments.text,
    cost=arguments.anything,
    minimum=arguments.whole(0),
)
def best(
    posterior: PosteriorVariables, m: int, *, by: str = "accuracy", cost: Any = None, minimum: int = 0
) -> pd.DataFrame:
    """Return how probable it is that each worker is among the best ``m``: ``worker``, ``annotations``, ``probability``, sorted.

    Args:
        posterior: a result.
        m: how many are chosen.
        by: a measure, see :func:`probability_better`.
        cost: likewise.
        minimum: compare workers with at least so many annotations.

    Raises:
        OptionError: for ``m`` outside 1 to the number of workers compared.
    """
    return _extreme(posterior, m, by, cost, minimum, turned=False)


@arguments.checked(
    posterior=arguments.posterior,
    m=arguments.whole(1),
    by=arguments.text,
    cost=arguments.anything,
    minimum=arguments.whole(0),
)
def worst(
    posterior: PosteriorVariables, m: int, *, by: str = "accuracy", cost: Any = None, minimum: int = 0
) -> pd.DataFrame:
    """Return how probable it is that each worker is among the worst ``m``; as :func:`best`."""
    return _extreme(posterior, m, by, cost, minimum, turned=True)


def _extreme(posterior: PosteriorVariables, m: int, by: str, cost: Any, minimum: int, *, turned: bool) -> pd.DataFrame:
    enough = posterior.annotations_per_worker() >= minimum
    if m > max(1, int(enough.sum())):
        raise OptionError(f"m={m!r}; choose from 1 to the {int(enough.sum()):,} workers compared")
    values = posterior.measure(by, cost=cost)[:, enough]
    places = rank(values, lower_is_better=(by in LOWER_IS_BETTER) != turned)
    table = pd.DataFrame(
        {
            "worker": posterior.worker_names()[enough],
            "annotations": posterior.annotations_per_worker()[enough],
            "probability": (places <= m).mean(0),
        }
    )
    return table.sort_values("probability", ascending=False, kind="stable").reset_index(drop=True)
