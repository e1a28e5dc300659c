"""What a panel of judges is worth: the correlation of their errors, and the number of independent judges that it equals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.judges.draws import TruthDraws
from crowdppl.judges.features import by_judge

Array = npt.NDArray[Any]
# Draws of the true labels of which correlations are computed, and smallest number of items that two judges have in common.
DRAWS, COMMON = 200, 5


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of judges.

    Attributes:
        judges: number of judges.
        effective: effective number of judges: mean, low and high end of the interval.
        correlation: mean correlation of errors of each pair of judges, a frame by judge ``(J, J)``.
        families: a row for each pair of families: ``family_a``, ``family_b``, ``pairs`` of judges, and ``correlation`` with its
            interval. Rows with one family twice are within it.
        adds: a row for each judge: by how much the effective number falls without the judge, ``adds`` with its interval.
        statement: the same in a sentence.
    """

    judges: int
    effective: tuple[float, float, float]
    correlation: pd.DataFrame
    families: pd.DataFrame
    adds: pd.DataFrame
    statement: str


def panel(draws: TruthDraws) -> Panel:
    """Return the effective number of judges, correlations of their errors, and what each judge adds.

    Errors are the verdicts that differ from the true label of a draw. With the mean correlation ``rho`` of the errors of two
    judges, ``J`` judges are worth ``J / (1 + (J - 1) rho)`` independent ones (Kish 1965, Survey Sampling, section 5.4).
    """
    v = draws.verdicts
    J = len(v.judges)
    number, correlation = effective_number(draws)
    low, high = draws.ends(number)
    effective = (float(number.mean()), float(low), float(high))
    with np.errstate(invalid="ignore"):
        mean = pd.DataFrame(_nanmean(correlation, 0), index=v.judges, columns=v.judges)
    rows = []
    upper = np.triu(np.ones((J, J), dtype=bool), 1)
    for a in range(len(v.families)):
        for b in range(a, len(v.families)):
            pair = (v.family[:, None] == a) & (v.family == b)
            pair = (pair | pair.T) & upper
            values = _nanmean(correlation[:, pair], 1)
            if not np.isfinite(values).any():
                continue
            ends = draws.ends(values[np.isfinite(values)])
            rows.append((v.families[a], v.families[b], int(pair.sum()), float(_nanmean(values, 0)), *map(float, ends)))
    names = ["family_a", "family_b", "pairs", "correlation", "correlation_low", "correlation_high"]
    adds = (
        np.stack([number - _number(_without(correlation, j), J - 1) for j in range(J)], 1) if J > 1 else number[:, None]
    )
    contributions = pd.DataFrame({"judge": v.judges, "family": v.families[v.family]} | draws.columns("adds", adds))
    rho = _mean_correlation(correlation)
    if J == 1:
        statement = "There is one judge, so that there is no panel."
    elif not np.isfinite(correlation[:, upper]).any():
        statement = "What the panel is worth is not known: no two judges gave verdicts on enough items in common."
    else:
        statement = (
            f"The {J} judges are worth {effective[0]:.1f} independent ones ({effective[1]:.1f} to {effective[2]:.1f}): the mean "
            f"correlation of the errors of two judges is {rho.mean():.2f}."
        )
    return Panel(J, effective, mean, pd.DataFrame(rows, columns=names), contributions, statement)


def effective_number(draws: TruthDraws) -> tuple[Array, Array]:
    """Return draws of the effective number of judges ``(d,)`` and of correlations of errors ``(d, J, J)``, NaN where unknown."""
    v = draws.verdicts
    J = len(v.judges)
    truth = draws.truth[:: max(len(draws.truth) // DRAWS, 1)]
    correlation = np.stack([_correlation(draws, z) for z in truth])
    return _number(correlation, J), correlation


def _correlation(draws: TruthDraws, truth: Array) -> Array:
    """Return the correlation of the errors of each pair of judges on the items that both judged, ``(J, J)``."""
    v = draws.verdicts
    used = v.label >= 0
    number = by_judge(v, used).astype(float)
    wrong = by_judge(v, used, (v.label != truth[v.item]).astype(float))
    seen = (number > 0).astype(float)
    wrong = np.asarray(wrong / np.maximum(number, 1))
    both = seen.T @ seen
    x = wrong.T @ seen  # sum of errors of the first over common items
    xx = (wrong**2).T @ seen
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = wrong.T @ wrong / both - (x / both) * (x.T / both)
        variance = xx / both - (x / both) ** 2
        out = covariance / np.sqrt(variance * variance.T)
    out[(both < COMMON) | (variance <= 1e-12) | (variance.T <= 1e-12)] = np.nan
    return np.asarray(out)


def _mean_correlation(correlation: Array) -> Array:
    """Return the mean correlation of two judges in each draw, ``(d,)``; 0 where none is known."""
    J = correlation.shape[-1]
    values = _nanmean(correlation[:, np.triu(np.ones((J, J), dtype=bool), 1)], 1)
    return np.nan_to_num(values)


def _number(correlation: Array, J: int) -> Array:
    """Return the effective number of ``J`` judges in each draw, at most ``J``, ``(d,)``."""
    if J < 2:
        return np.full(len(correlation), float(J))
    return J / (1 + (J - 1) * np.maximum(_mean_correlation(correlation), 0.0))


def _without(correlation: Array, j: int) -> Array:
    return np.delete(np.delete(correlation, j, 1), j, 2)


def _nanmean(values: Array, axis: int) -> Array:
    """Return means of the values that are not NaN; NaN where there are none."""
    there = np.isfinite(values)
    number = there.sum(axis)
    total = np.where(there, values, 0.0).sum(axis)
    return np.divide(total, number, out=np.full(np.shape(total), np.nan), where=number > 0)
