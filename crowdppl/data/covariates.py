"""Covariates of single annotations: columns of numbers from a formula, such as ``experience + C(session)``.

Formulas are those of R and statsmodels, read by formulaic: columns are added, ``a:b`` is an interaction, ``C(a)`` takes numbers
for categories, and functions such as ``np.log(a)`` apply. A column of text, of categories or of truth values is categorical: its
first level is the baseline, and each other level is a covariate of its own (treatment coding).
"""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import shown
from crowdppl.data.columns import column_of
from crowdppl.errors import DataError, OptionError, listed

Array = npt.NDArray[Any]
# Covariates, at most: a column of names with more levels is hardly meant.
MOST = 100
# Distinct values of a covariate that are kept, at most: those of sessions.
FEW = 50
# A column is a function of others where less than this share of its variance is left.
LEFT = 1e-9
# The number of annotations that the worker gave before, where a table with timestamps has no column of this name.
EXPERIENCE = "experience"
COUNTED = "experience, counted"
# The constant of a formula, which models have themselves.
INTERCEPT = "Intercept"


class Covariates(NamedTuple):
    """A table with a row for each annotation, and the formula of the covariates that its columns make."""

    table: pd.DataFrame
    formula: str


class Design(NamedTuple):
    """Covariates of annotations.

    Attributes:
        values: ``(A, P)``.
        names: ``P`` of them.
        baselines: with what levels of categories are compared, such as ``session = day``, and whether experience was counted.
    """

    values: Array
    names: tuple[str, ...]
    baselines: tuple[str, ...] = ()


def formula_of(covariates: str | Iterable[str]) -> str:
    """Return the formula that adds columns up, or the formula as it is given.

    Raises:
        OptionError: for something else than a formula or names of columns.
    """
    if isinstance(covariates, str):
        return covariates
    names = list(covariates) if isinstance(covariates, Iterable) else [covariates]
    if not names or not all(isinstance(name, str) and name and "`" not in name for name in names):
        raise OptionError(f"covariates={shown(covariates)}; it must be a formula, or names of columns")
    return " + ".join(f"`{name}`" for name in names)


def columns_of(formula: str, source: str) -> list[str]:
    """Return the names of the columns that a formula needs, sorted.

    Raises:
        OptionError: if it cannot be read, or has several parts.
    """
    from formulaic import Formula  # here: slow to import
    from formulaic.formula import StructuredFormula  # here: slow to import

    try:
        parsed = Formula(formula)
    except Exception as error:  # the parser raises whatever its parts do
        raise OptionError(f"{source}: the formula {formula!r} cannot be read: {_first_line(error)}") from error
    if isinstance(parsed, StructuredFormula):
        raise OptionError(f"{source}: the formula {formula!r} has several parts; write what accuracy depends on only")
    names = set(map(str, parsed.required_variables))
    # The parser leaves out columns within functions that are computed from all rows, such as poly.
    for factor in {factor.expr for term in parsed for factor in term.factors}:
        names |= _named_in(factor)
    return sorted(names)


def _named_in(expression: str) -> set[str]:
    """Return the names in an expression of Python that stand for columns: not those of functions and modules."""
    try:
        nodes = list(ast.walk(ast.parse(expression.strip(), mode="eval")))
    except SyntaxError:  # names in backticks, which the parser knows
        return set()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return names - called - {"np"}


def design(formula: str, table: pd.DataFrame, source: str) -> Design:
    """Return the columns of numbers that a formula makes of a table.

    Args:
        formula: of columns of the table.
        table: one row for each annotation.
        source: name of the table in messages.

    Raises:
        OptionError: if the formula cannot be read.
        DataError: if a column is missing, has missing values or cannot be used; if a covariate does not vary, is not finite, or
            follows from the others.
    """
    from formulaic import Formula  # here: slow to import

    needed = columns_of(formula, source)
    if INTERCEPT in needed:
        raise DataError(f"{source}: {INTERCEPT} is the name of the constant in formulas; rename the column")
    read = pd.DataFrame(
        {
            name: _typed(table[column_of(table, name, (), source, "", "covariates")], f"{source}, column {name!r}")
            for name in needed
        },
        index=table.index,
    )
    read.attrs = dict(table.attrs)
    try:
        matrix = Formula(formula).get_model_matrix(read, context={"np": np}, na_action="ignore", output="pandas")
    except Exception as error:  # whatever the parts of the formula raise
        raise DataError(f"{source}: the formula {formula!r} cannot be computed: {_first_line(error)}") from error
    matrix = matrix.drop(columns=[name for name in matrix.columns if name == INTERCEPT])
    names = tuple(map(_readable, matrix.columns))
    names = names if len(set(names)) == len(names) else tuple(map(str, matrix.columns))
    if not names:
        raise DataError(f"{source}: the formula {formula!r} has no covariate")
    if len(names) > MOST:
        raise DataError(
            f"{source}: the formula {formula!r} makes {len(names):,} covariates, more than {MOST}; bring levels together"
        )
    values = matrix.to_numpy(dtype=np.float64)
    require_usable(values, names, source)
    return Design(values, names, _baselines(read, formula))


def _baselines(read: pd.DataFrame, formula: str) -> tuple[str, ...]:
    """Return with what the levels of each categorical column are compared, and whether experience was counted."""
    out = []
    for name, column in read.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            out.append(f"{name} = {column.cat.categories[0]}")
        elif re.search(rf"\bC\(\s*`?{re.escape(str(name))}\b", formula):
            out.append(f"{name} = {column.min()}")
    return (*out, *([COUNTED] if read.attrs.get(COUNTED) and EXPERIENCE in read else []))


def require_usable(values: Array, names: tuple[str, ...], source: str) -> None:
    """Refuse covariates ``(A, P)`` that are not finite, do not vary, or follow from others.

    Raises:
        DataError: naming them.
    """
    columns = values.T
    for good, what in (
        ([bool(np.isfinite(column).all()) for column in columns], "is not finite everywhere"),
        ([bool(column.max() > column.min()) for column in columns], "is the same for all annotations"),
    ):
        if not all(good):
            which = [name for name, one in zip(names, good, strict=True) if not one]
            raise DataError(f"{source}: covariate {listed(which, 3)} {what}; leave it out")
    centred = values - values.mean(0)
    centred = centred / np.sqrt((centred**2).mean(0))
    # The triangle of the decomposition has on its diagonal what each column has beyond those before it.
    left = np.abs(np.diagonal(np.linalg.qr(centred, mode="r"))) ** 2 / len(values)
    if len(left) < len(names) or (left < LEFT).any():
        which = [name for n, name in enumerate(names) if n >= len(left) or left[n] < LEFT]
        raise DataError(f"{source}: covariate {listed(which, 3)} follows from the others; leave it out")


def distinct(column: Array) -> tuple[float, ...]:
    """Return the distinct values of a covariate, ascending; none if there are many."""
    values = np.unique(column)
    return tuple(values.tolist()) if len(values) <= FEW else ()


def with_experience(table: pd.DataFrame, worker: Array, timestamp: Array | None) -> pd.DataFrame:
    """Add the number of annotations that each worker gave before, where times are known and no column has its name.

    Args:
        table: one row for each annotation, ``A`` rows.
        worker: of each, ``(A,)``.
        timestamp: of each, ``(A,)``; ``None`` where times are not known.
    """
    if EXPERIENCE in table.columns or timestamp is None:
        return table
    order = pd.DataFrame({"worker": worker, "time": timestamp})
    before = order.groupby("worker")["time"].rank(method="first") - 1
    out = table.assign(**{EXPERIENCE: before.to_numpy()})
    out.attrs[COUNTED] = True
    return out


def _typed(column: pd.Series[Any], where: str) -> pd.Series[Any]:
    """Return a column as numbers or as categories.

    Raises:
        DataError: if values are missing, or are dates or times.
    """
    blank = column.isna()
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    if categorical:
        column = column.cat.remove_unused_categories()
    days = pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column)
    if not (categorical or days or pd.api.types.is_numeric_dtype(column)):
        days = bool(column.map(lambda value: isinstance(value, datetime.date)).any())
        text = column.astype(object).map(lambda value: value.strip() if isinstance(value, str) else value)
        blank |= text.eq("")
        numbers = pd.to_numeric(text, errors="coerce")
        # A file has text only: numbers are numbers all the same.
        column = numbers if len(text) and bool((numbers.notna() | blank).all()) else text
    if blank.any():
        raise DataError(
            f"{where}: {int(blank.sum()):,} of {len(column):,} annotations have no value; fill them in, or leave these rows out"
        )
    if days:
        raise DataError(
            f"{where}: dates and times are no covariate; name a column of numbers, or of categories such as the hour"
        )
    if categorical:
        return column
    if pd.api.types.is_bool_dtype(column):
        return column.astype(float)
    if pd.api.types.is_numeric_dtype(column):
        return column.astype(np.int64 if pd.api.types.is_integer_dtype(column) else np.float64)
    return column.astype(str).astype("category")


def _readable(name: Any) -> str:
    """Return a name such as ``session = night`` in place of ``C(session)[T.night]``."""
    plain = re.sub(r"\bC\(([^(),]+)(, *contr\.\w+)?\)", r"\1", str(name))
    return re.sub(r"\[(?:[TS]\.)?([^\]]*)\]", r" = \1", plain)


def _first_line(error: Exception) -> str:
    """Return the first line of an error of formulaic, without the colours of its marks."""
    return str(error).strip().split("\n")[0].strip()
