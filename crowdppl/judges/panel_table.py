"""What a panel of judges is worth: the correlation of their errors, and the number of independent judges that it equals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data import html
from crowdppl.judges.draws import TruthDraws
from crowdppl.judges.features import by_judge

Array = npt.NDArray[Any]
# Draws of the true labels of which correlations are computed, and smallest number of items that two judges have in common.
DRAWS, COMMON = 200, 5


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        return f"Panel({self.judges:,} judges: {self.statement})"

    def _repr_html_(self) -> str:
        """Return the statement as HTML, for notebooks."""
        return html.element("p", self.statement)


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
    number_of_pairs, by_family = _by_family(correlation, v.family, len(v.families))
    rows = []
    for a, b in zip(*np.nonzero(np.triu(np.isfinite(by_family).any(0))), strict=True):
        values = by_family[:, a, b]
        values = values[np.isfinite(values)]
        rows.append(
            (
                v.families[a],
                v.families[b],
                int(number_of_pairs[a, b]),
                float(values.mean()),
                *map(float, draws.ends(values)),
            )
        )
    names = ["family_a", "family_b", "pairs", "correlation", "correlation_low", "correlation_high"]
    adds = number[:, None] - _number_without(correlation) if J > 1 else number[:, None]
    contributions = pd.DataFrame({"judge": v.judges, "family": v.families[v.family]} | draws.columns("adds", adds))
    rho = _mean_correlation(correlation)
    if J == 1:
        statement = "There is one judge, so that there is no panel."
    elif not len(rows):
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
    used = v.label >= 0
    number = by_judge(v, used).astype(float)
    wrong = (by_judge(v, used, (v.label != z[v.item]).astype(float)) / np.maximum(number, 1) for z in truth)
    seen = (number > 0).astype(float)
    both = seen.T @ seen
    correlation = np.stack([_correlation(one, seen, both) for one in wrong])
    return _number(correlation, J), correlation


def _correlation(wrong: Array, seen: Array, both: Array) -> Array:
    """Return the correlation of the errors of each pair of judges on the items that both judged, ``(J, J)``.

    Args:
        wrong: share of the verdicts of each judge on each item that are wrong, ``(N, J)``.
        seen: whether the judge gave a verdict on the item, ``(N, J)``.
        both: number of items that two judges have in common, ``(J, J)``.
    """
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
    total, known = _sums(correlation)
    return np.asarray(_ratio(total.sum(1), known.sum(1)))


def _number(correlation: Array, J: int) -> Array:
    """Return the effective number of ``J`` judges in each draw, at most ``J``, ``(d,)``."""
    return _worth(_mean_correlation(correlation), J)


def _number_without(correlation: Array) -> Array:
    """Return the effective number without each of the ``J`` judges in each draw, ``(d, J)``."""
    total, known = _sums(correlation)
    # The pairs of a judge are in its own sum, and in those of the others.
    rest = _ratio(total.sum(1, keepdims=True) - 2 * total, known.sum(1, keepdims=True) - 2 * known)
    return _worth(rest, correlation.shape[-1] - 1)


def _worth(rho: Array, J: int) -> Array:
    if J < 2:
        return np.full(rho.shape, float(J))
    return np.asarray(J / (1 + (J - 1) * np.maximum(rho, 0.0)))


def _sums(correlation: Array) -> tuple[Array, Array]:
    """Return the sum of the known correlations of each judge with the others, and their number, ``(d, J)`` each."""
    known = np.isfinite(correlation) & ~np.eye(correlation.shape[-1], dtype=bool)
    return np.where(known, correlation, 0.0).sum(2), known.sum(2)


def _ratio(total: Array, number: Array) -> Array:
    return np.divide(total, number, out=np.zeros(total.shape), where=number > 0)


def _by_family(correlation: Array, family: Array, F: int) -> tuple[Array, Array]:
    """Return the number of pairs of judges of two families ``(F, F)``, and their mean correlation ``(d, F, F)``, NaN if none."""
    of = (family[:, None] == np.arange(F)).astype(float)  # (J, F)
    other = 1.0 - np.eye(len(family))
    known = np.isfinite(correlation) * other
    total = of.T @ np.where(known > 0, correlation, 0.0) @ of
    number = of.T @ known @ of
    pairs = of.T @ other @ of
    pairs[np.diag_indices(F)] /= 2
    return pairs, np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)


def _nanmean(values: Array, axis: int) -> Array:
    """Return means of the values that are not NaN; NaN where there are none."""
    there = np.isfinite(values)
    number = there.sum(axis)
    total = np.where(there, values, 0.0).sum(axis)
    return np.divide(total, number, out=np.full(np.shape(total), np.nan), where=number > 0)
