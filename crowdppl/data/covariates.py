"""Covariates of single annotations: columns of numbers from a formula, such as ``experience + C(session)``.

Formulas are those of R and statsmodels, read by formulaic: columns are added, ``a:b`` is an interaction, ``C(a)`` takes numbers
for categories, and functions such as ``np.log(a)`` apply. A column of text, of categories or of truth values is categorical: its
first level is the baseline, and each other level is a covariate of its own (treatment coding).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.errors import DataError, listed

Array = npt.NDArray[Any]
# Covariates, at most: a column of names with more levels is hardly meant.
MOST = 100
# Distinct values of a covariate that are kept, at most: those of sessions.
FEW = 50
# The number of annotations that the worker gave before, where a table with timestamps has no column of this name.
EXPERIENCE = "experience"
COUNTED = "experience, counted"
# The constant of a formula, which models have themselves.
INTERCEPT = "Intercept"


class Recipe(NamedTuple):
    """How covariates were computed, so that further annotations get the same.

    Attributes:
        formula: of columns of a table.
        levels: of each categorical column its name, its levels, the baseline first, and whether it is one by its type; numbers
            may be by the formula, ``C(day)``.
        rows: empty where each row has its covariates by itself; otherwise a digest of the covariates, which were computed from
            all rows together, as by ``scale(tenure)``.
        after: the number of earlier annotations with which experience was counted.
        time: the column of the times by which it was counted; empty if it was not.
    """

    formula: str
    levels: tuple[tuple[str, tuple[Any, ...], bool], ...] = ()
    rows: str = ""
    after: int = 0
    time: str = ""


class Earlier(NamedTuple):
    """Annotations whose covariates others are to have.

    Attributes:
        recipe: of their covariates.
        scales: mean and standard deviation of each covariate.
        times: of each worker's annotations, ascending, by name; empty without times.
    """

    recipe: Recipe
    scales: tuple[tuple[float, float], ...]
    times: Mapping[Any, Array]


class Covariates(NamedTuple):
    """A table with a row for each annotation, and the formula of their covariates.

    Attributes:
        table: the table.
        formula: of its columns.
        earlier: annotations whose levels and scales these are to have.
        time: the column of the times of annotations; empty without.
    """

    table: pd.DataFrame
    formula: str
    earlier: Earlier | None = None
    time: str = ""


class Design(NamedTuple):
    """Covariates of annotations.

    Attributes:
        values: ``(A, P)``.
        names: ``P`` of them.
        baselines: with what levels of categories are compared, such as ``session = day``, and whether experience was counted.
        recipe: how they were computed.
        scales: mean and standard deviation of each; ``None`` for those of ``values``.
    """

    values: Array
    names: tuple[str, ...]
    baselines: tuple[str, ...] = ()
    recipe: Recipe | None = None
    scales: tuple[tuple[float, float], ...] | None = None


class Named(NamedTuple):
    """What covariates are, without their values."""

    names: tuple[str, ...]
    baselines: tuple[str, ...]
    recipe: Recipe | None

    def __str__(self) -> str:
        """Return names and baselines, as a message has them."""
        return listed([*self.names, *(f"against {one}" for one in self.baselines)], 6) if self.names else "none"


def order_of(further: Named, earlier: Named) -> list[int]:
    """Return the places among further covariates of the earlier ones.

    Raises:
        DataError: if they are not the same: other names or baselines, or computed from all rows of different tables.
    """
    if (frozenset(further.names), further.baselines) != (frozenset(earlier.names), earlier.baselines):
        raise DataError(
            f"the covariates of the earlier annotations are {earlier}, those of the further ones {further}; give both the same, "
            f"with the same levels: from_frame(..., covariates=<the earlier annotations>) does"
        )
    both = [part.recipe for part in (further, earlier) if part.recipe is not None]
    if len({recipe.rows for recipe in both}) > 1:
        raise DataError(
            f"the covariates {earlier} were computed from all rows of each table, such as by scale(); fit all annotations "
            f"together, or use a formula in which each row counts by itself"
        )
    return [further.names.index(name) for name in earlier.names]


def recipe_of(stored: Any) -> Recipe | None:
    """Return a recipe as JSON has it."""
    if stored is None:
        return None
    formula, levels, rows, after, time = stored
    return Recipe(formula, tuple((name, tuple(of), categorical) for name, of, categorical in levels), rows, after, time)


def distinct(column: Array) -> tuple[float, ...]:
    """Return the distinct values of a covariate, ascending; none if there are many."""
    values = np.unique(column)
    return tuple(values.tolist()) if len(values) <= FEW else ()


def with_experience(
    table: pd.DataFrame,
    worker: Array,
    timestamp: Array | None,
    workers: Array,
    earlier: Earlier | None = None,
    time: str = "",
) -> pd.DataFrame:
    """Add the number of annotations that each worker gave before, where times are known and no column has its name.

    Args:
        table: one row for each annotation, ``A`` rows.
        worker: of each, ``(A,)``.
        timestamp: of each, ``(A,)``; ``None`` where times are not known.
        workers: names, ``(J,)``.
        earlier: annotations that count, too.
        time: the column of the times.
    """
    if EXPERIENCE in table.columns or timestamp is None:
        return table
    order = pd.DataFrame({"worker": worker, "time": timestamp})
    before = (order.groupby("worker")["time"].rank(method="first") - 1).to_numpy(copy=True)
    times = {} if earlier is None else earlier.times
    for code, name in enumerate(workers.tolist()):
        if name in times:
            own = worker == code
            before[own] += np.searchsorted(times[name], timestamp[own], side="right")
    out = table.assign(**{EXPERIENCE: before})
    out.attrs[COUNTED] = time
    return out
