"""What a panel of judges is worth: the correlation of their errors, and the number of independent judges that it equals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array

from crowdppl.data import html
from crowdppl.judges.model.draws import TruthDraws

Array = npt.NDArray[Any]
# Draws of the true labels of which correlations are computed, and smallest number of items that two judges have in common.
DRAWS, COMMON = 200, 5
# Fewer draws, but so many at least, where more would take so many products of verdicts.
FEWEST, OPERATIONS = 25, 2e11
# Judges up to which the frame of correlations has all of them.
FRAME = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """A panel of judges.

    Attributes:
        judges: number of judges.
        effective: effective number of judges: mean, low and high end of the interval.
        correlation: mean correlation of errors of each pair of judges, a frame by judge ``(J, J)``; of more than :data:`FRAME`
            judges, of those who have items in common with another one.
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
    errors = Correlations.of(draws)
    number = errors.number
    low, high = draws.ends(number)
    effective = (float(number.mean()), float(low), float(high))
    shown = np.arange(J) if J <= FRAME else errors.compared
    cells = np.full((len(shown), len(shown)), np.nan)
    place = np.searchsorted(shown, errors.compared)
    cells[np.ix_(place, place)] = errors.mean
    mean = pd.DataFrame(cells, index=v.judges[shown], columns=v.judges[shown])
    rows = []
    for a, b in zip(*np.nonzero(np.triu(np.isfinite(errors.by_family).any(0))), strict=True):
        values = errors.by_family[:, a, b]
        values = values[np.isfinite(values)]
        rows.append(
            (
                v.families[a],
                v.families[b],
                int(errors.pairs[a, b]),
                float(values.mean()),
                *map(float, draws.ends(values)),
            )
        )
    names = ["family_a", "family_b", "pairs", "correlation", "correlation_low", "correlation_high"]
    adds = number[:, None] - errors.number_without if J > 1 else number[:, None]
    contributions = pd.DataFrame({"judge": v.judges, "family": v.families[v.family]} | draws.columns("adds", adds))
    if J == 1:
        statement = "There is one judge, so that there is no panel."
    elif not len(rows):
        statement = "What the panel is worth is not known: no two judges gave verdicts on enough items in common."
    else:
        statement = (
            f"The {J} judges are worth {effective[0]:.1f} independent ones ({effective[1]:.1f} to {effective[2]:.1f}): the mean "
            f"correlation of the errors of two judges is {errors.rho.mean():.2f}."
        )
    return Panel(J, effective, mean, pd.DataFrame(rows, columns=names), contributions, statement)


@dataclass(frozen=True, eq=False, repr=False)
class Correlations:
    """Correlations of the errors of judges in ``d`` draws of the true labels.

    Only the ``C`` judges who have :data:`COMMON` items in common with another one are compared, so that memory and time do not
    grow with the square of the number of all judges.

    Attributes:
        compared: these judges, ascending, ``(C,)``.
        mean: mean correlation of each pair over the draws, ``(C, C)``, NaN where unknown.
        total: sum of the known correlations of each judge with the others, ``(d, J)``.
        known: number of these, ``(d, J)``.
        pairs: number of pairs of judges of two families, ``(F, F)``.
        by_family: their mean correlation, ``(d, F, F)``, NaN if none is known.
    """

    compared: Array
    mean: Array
    total: Array
    known: Array
    pairs: Array
    by_family: Array

    def __repr__(self) -> str:
        return f"Correlations({len(self.compared):,} judges, {len(self.total):,} draws)"

    @property
    def rho(self) -> Array:
        """Mean correlation of two judges in each draw, ``(d,)``; 0 where none is known."""
        return np.asarray(_ratio(self.total.sum(1), self.known.sum(1)))

    @property
    def number(self) -> Array:
        """Effective number of judges in each draw, at most ``J``, ``(d,)``."""
        return _worth(self.rho, self.total.shape[1])

    @property
    def number_without(self) -> Array:
        """Effective number without each of the judges in each draw, ``(d, J)``."""
        # The pairs of a judge are in its own sum, and in those of the others.
        total, known = (one.sum(1, keepdims=True) - 2 * one for one in (self.total, self.known))
        return _worth(_ratio(total, known), self.total.shape[1] - 1)

    @classmethod
    def of(cls, draws: TruthDraws) -> Correlations:
        """Return the correlations of some of the draws, fewer for many judges."""
        v = draws.verdicts
        N, J, F = len(v.items), len(v.judges), len(v.families)
        used = v.label >= 0
        there = csr_array((np.ones(used.sum()), (v.item[used], v.judge[used])), shape=(N, J))
        there.data[:] = 1.0
        in_common = there.T @ there
        in_common.setdiag(0)
        compared = (
            np.flatnonzero(in_common.max(1).toarray().ravel() >= COMMON) if J > 1 else np.zeros(0, dtype=np.int64)
        )
        C = len(compared)
        place = np.full(J, -1)
        place[compared] = np.arange(C)
        rows = used & (place[v.judge] >= 0)
        cell = v.item[rows] * C + place[v.judge[rows]]
        number = np.bincount(cell, minlength=N * C).reshape(N, C).astype(float)
        seen = (number > 0).astype(float)
        both = seen.T @ seen
        affordable = int(OPERATIONS / max(float(N) * C**2, 1.0))
        every = max(len(draws.truth) // min(max(affordable, FEWEST), DRAWS), 1)
        truth = draws.truth[::every]
        of = (v.family[compared][:, None] == np.arange(F)).astype(float)  # (C, F)
        total, known = np.zeros((len(truth), J)), np.zeros((len(truth), J))
        by_family = np.full((len(truth), F, F), np.nan)
        mean, times = np.zeros((C, C)), np.zeros((C, C))
        for d, z in enumerate(truth):
            wrong = np.bincount(cell, v.label[rows] != z[v.item[rows]], N * C).reshape(N, C) / np.maximum(number, 1)
            correlation = _correlation(wrong, seen, both)
            there_too = np.isfinite(correlation)
            mean += np.where(there_too, correlation, 0.0)
            times += there_too
            np.fill_diagonal(there_too, False)
            value = np.where(there_too, correlation, 0.0)
            total[d, compared], known[d, compared] = value.sum(1), there_too.sum(1)
            in_family = of.T @ there_too @ of
            np.divide(of.T @ value @ of, in_family, out=by_family[d], where=in_family > 0)
        size = np.bincount(v.family, minlength=F).astype(float)
        pairs = size[:, None] * size
        pairs[np.diag_indices(F)] = size * (size - 1) / 2
        return cls(compared, _ratio(mean, times, np.nan), total, known, pairs, by_family)


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


def _worth(rho: Array, J: int) -> Array:
    if J < 2:
        return np.full(rho.shape, float(J))
    return np.asarray(J / (1 + (J - 1) * np.maximum(rho, 0.0)))


def _ratio(total: Array, number: Array, otherwise: float = 0.0) -> Array:
    return np.divide(total, number, out=np.full(total.shape, otherwise), where=number > 0)
