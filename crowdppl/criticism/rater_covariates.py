"""What the severity of raters depends on: their age, their training, the form of the question.

For every posterior draw of the severities, a linear regression on what is known of the raters, whose coefficients are drawn given
that draw; so the intervals of effects have the uncertainty of the severities and that of the sample of raters. Severities are
shrunk towards each other where raters have few annotations, and effects with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Level, Seed, checked
from crowdppl.data import html
from crowdppl.data.frames import indexed
from crowdppl.data.table.cells import plain
from crowdppl.data.table.columns import WORKER_COLUMNS
from crowdppl.errors import DataError, listed
from crowdppl.posterior.measures import interval
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import grading

Array = npt.NDArray[Any]
# Levels of a categorical covariate, at most, and fewest raters of each.
MOST_LEVELS, FEWEST = 30, 2


@dataclass(frozen=True, repr=False)
class SeverityEffects:
    """Effects of covariates on severity.

    Attributes:
        table: a row for each effect: ``covariate``; ``level`` of a categorical one, whose effect is by how much raters of this
            level are more severe than the mean of all levels, or blank, for a numeric one, whose effect is that of one more unit;
            ``raters``, their number; ``effect`` in grades, with ``low`` and ``high``; ``probability`` that it is positive.
        explained: share of the variance of severities that all covariates explain, adjusted for their number: mean, low and high
            over the draws of the severities, without the uncertainty from the sample of raters.
        raters: number of raters.
    """

    table: pd.DataFrame
    explained: tuple[float, float, float]
    raters: int

    def __str__(self) -> str:
        mean, low, high = (max(0.0, share) for share in self.explained)
        names = list(dict.fromkeys(self.table["covariate"]))
        explain = f"{' and '.join(names)} {'explains' if len(names) == 1 else 'explain'}"
        return f"{explain} {mean:.0%} of the variance of severity ({low:.0%} to {high:.0%}, {self.raters:,} raters)"

    def __repr__(self) -> str:
        return f"{self}\n{self.table}"

    def _repr_html_(self) -> str:
        return html.view(str(self), html.table(self.table))


@checked
def severity_effects(
    posterior: Posterior, covariates: Any, *, level: Level | None = None, seed: Seed = 0
) -> SeverityEffects:
    """Regress the severity of raters on what is known of them.

    Args:
        posterior: a result whose labels are grades (``kind="ordinal"``; yes and no may be read so, too).
        covariates: a frame with a row for each rater and a column for each covariate, the raters as its index or in a column
            ``worker``. Columns of numbers are numeric; text, categories and truth values are categorical. Raters of whom a value
            is missing are left out.
        level: probability of the intervals.
        seed: of the draws of coefficients.

    Raises:
        DataError: if labels are not grades, raters are missing, a covariate does not vary, or there are too few raters.
    """
    severity = grading.severities(posterior)  # (S, J)
    names = posterior.worker_names()
    frame = indexed(covariates, WORKER_COLUMNS, "covariates")
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"covariates is a {type(covariates).__name__}; pass a frame with a row for each worker")
    frame = by_worker(frame)
    if frame.index.has_duplicates:
        raise DataError(
            f"covariates: worker {listed(frame.index[frame.index.duplicated()].tolist(), 3)} has several rows"
        )
    rows = frame.index.get_indexer(pd.Index([str(name) for name in names]))
    if (rows < 0).any():
        raise DataError(f"covariates: no row for worker {listed(names[rows < 0].tolist(), 3)}")
    table = frame.iloc[rows].reset_index(drop=True)
    used = table.notna().all(axis=1).to_numpy() & (posterior.annotations_per_worker() > 0)
    design, effects = _design(table[used])
    n, columns = design.shape
    if n < columns + 2:
        raise DataError(f"covariates: {columns - 1} effects of {n} raters; leave covariates out")
    if np.linalg.matrix_rank(design) < columns:
        raise DataError("covariates: some of them follow from others; leave one out")
    y = severity[:, used]  # (S, n)
    inverse = np.linalg.inv(design.T @ design)
    coefficients = y @ design @ inverse  # (S, columns)
    residual = y - coefficients @ design.T
    variance = residual.var(1) * n / (n - columns)  # (S,)
    rng = np.random.default_rng(seed)
    scale = np.sqrt(variance / rng.chisquare(n - columns, len(y)) * (n - columns))
    drawn = coefficients + scale[:, None] * (rng.standard_normal(coefficients.shape) @ np.linalg.cholesky(inverse).T)
    lines = []
    for covariate, of_level, raters, weights in effects:
        draws = drawn @ weights
        mean, low, high = interval(draws, level)
        lines.append((covariate, of_level, raters, float(mean), float(low), float(high), float((draws > 0).mean())))
    share = 1 - variance / np.maximum(y.var(1) * n / (n - 1), np.finfo(float).tiny)
    parts = [float(part) for part in interval(share, level)]
    names_of = ["covariate", "level", "raters", "effect", "low", "high", "probability"]
    return SeverityEffects(pd.DataFrame(lines, columns=names_of), (parts[0], parts[1], parts[2]), n)


def by_worker(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of what is known of workers with their names, as text, as its index; they are its index or a column."""
    named = [name for name in WORKER_COLUMNS if name in table.columns]
    table = table.set_index(named[0]) if named else table
    return table.set_axis(pd.Index([str(plain(name)) for name in table.index.tolist()], dtype=object), axis=0)


def _design(table: pd.DataFrame) -> tuple[Array, list[tuple[str, str, int, Array]]]:
    """Return the columns of a regression, the first of which is constant, and what each effect is in terms of them.

    Raises:
        DataError: for a covariate that does not vary, with too many levels, or with a level of a single rater.
    """
    if table.shape[1] == 0:
        raise DataError("covariates: no column beside the workers")
    parts: list[Array] = [np.ones((len(table), 1))]
    columns: list[tuple[str, str, int, int, Array]] = []
    at = 1
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            values = column.to_numpy(dtype=float)
            if len(values) == 0 or np.ptp(values) == 0 or not np.isfinite(values).all():
                raise DataError(f"covariates: {name} is the same for all raters, or not finite; leave it out")
            parts.append((values - values.mean())[:, None])
            columns.append((str(name), "", len(values), at, np.ones(1)))
            at += 1
            continue
        codes, levels = pd.factorize(column.astype(str), sort=True)
        count = np.bincount(codes, minlength=len(levels))
        if not 2 <= len(levels) <= MOST_LEVELS or count.min() < FEWEST:
            rarest = int(count.min(initial=len(codes)))
            raise DataError(
                f"covariates: {name} has {len(levels)} levels, the rarest with {rarest} raters; it needs 2 to {MOST_LEVELS} with "
                f"at least {FEWEST} each: bring levels together, or leave it out"
            )
        # Effects sum to zero over the levels.
        contrasts = np.vstack([np.eye(len(levels) - 1), -np.ones(len(levels) - 1)])
        parts.append(contrasts[codes])
        columns += [(str(name), str(own), int(count[k]), at, contrasts[k]) for k, own in enumerate(levels)]
        at += len(levels) - 1
    effects = []
    for covariate, own, raters, first, weights in columns:
        whole = np.zeros(at)
        whole[first : first + len(weights)] = weights
        effects.append((covariate, own, raters, whole))
    return np.hstack(parts), effects
