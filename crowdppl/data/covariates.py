"""Covariates of single annotations: columns of numbers from a formula, such as ``experience + C(session)``.

Formulas are those of R and statsmodels, read by formulaic: columns are added, ``a:b`` is an interaction, ``C(a)`` takes numbers
for categories, and functions such as ``np.log(a)`` apply. A column of text, of categories or of truth values is categorical: its
first level is the baseline, and each other level is a covariate of its own (treatment coding).
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import shown
from crowdppl.data.table.columns import column_of
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


def formula_of(covariates: Any) -> str:
    """Return the formula that adds columns up, or the formula as it is given or as other annotations have it.

    Raises:
        OptionError: for something else than a formula, names of columns, or annotations with covariates.
    """
    recipe: Recipe | None = getattr(covariates, "covariate_recipe", None)
    if recipe is not None:
        return recipe.formula
    if isinstance(covariates, str):
        return covariates
    names = list(covariates) if isinstance(covariates, Iterable) else [covariates]
    if not names or not all(isinstance(name, str) and name and "`" not in name for name in names):
        raise OptionError(
            f"covariates={shown(covariates)}; it must be a formula, names of columns, or annotations that have covariates"
        )
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


def design(formula: str, table: pd.DataFrame, source: str, earlier: Earlier | None = None) -> Design:
    """Return the columns of numbers that a formula makes of a table.

    Args:
        formula: of columns of the table.
        table: one row for each annotation.
        source: name of the table in messages.
        earlier: annotations whose levels and scales these are to have.

    Raises:
        OptionError: if the formula cannot be read.
        DataError: if a column is missing, has missing values or cannot be used; if a covariate does not vary, is not finite, or
            follows from the others; if a level is new, or the formula is not computed row by row, where there are earlier ones.
    """
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
    counted = (COUNTED,) if COUNTED in table.attrs and EXPERIENCE in read else ()
    levels = _levels(read, formula) if earlier is None else _known_levels(read, table, earlier.recipe, source)
    matrix = _matrix(read, formula, levels, source)
    names = tuple(map(_readable, matrix.columns))
    names = names if len(set(names)) == len(names) else tuple(map(str, matrix.columns))
    if not names:
        raise DataError(f"{source}: the formula {formula!r} has no covariate")
    if len(names) > MOST:
        raise DataError(
            f"{source}: the formula {formula!r} makes {len(names):,} covariates, more than {MOST}; bring levels together"
        )
    values = matrix.to_numpy(dtype=np.float64)
    baselines = (*(f"{name} = {first}" for name, (first, *_), _ in levels), *counted)
    if earlier is not None:
        if len(names) != len(earlier.scales):
            raise DataError(
                f"{source}: {formula!r} makes {listed(names, 5)}, and made {len(earlier.scales)} covariates of the earlier "
                f"annotations; fit all together"
            )
        require_finite(values, names, source)
        after = sum(map(len, earlier.times.values())) if counted else 0
        return Design(values, names, baselines, earlier.recipe._replace(after=after), earlier.scales)
    require_usable(values, names, source)
    rows = "" if _by_row(read, formula, levels, values) else hashlib.sha256(values.tobytes()).hexdigest()
    return Design(values, names, baselines, Recipe(formula, levels, rows, time=table.attrs[COUNTED] if counted else ""))


Levels = tuple[tuple[str, tuple[Any, ...], bool], ...]


def _levels(read: pd.DataFrame, formula: str) -> Levels:
    """Return the levels of each categorical column, the baseline first."""
    out = []
    for name, column in read.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            out.append((str(name), tuple(column.cat.categories.tolist()), True))
        elif re.search(rf"\bC\(\s*`?{re.escape(str(name))}\b", formula):
            out.append((str(name), tuple(np.unique(column).tolist()), False))
    return tuple(out)


def _known_levels(read: pd.DataFrame, table: pd.DataFrame, recipe: Recipe, source: str) -> Levels:
    """Give the columns of a table the types and levels of earlier annotations.

    Args:
        read: the columns that the formula needs, changed here.
        table: the same as they were given.
        recipe: of the earlier annotations.
        source: name of the table in messages.

    Raises:
        DataError: for other levels, or a formula that is not computed row by row.
    """
    if recipe.rows:
        raise DataError(
            f"{source}: {recipe.formula!r} is computed from all rows of a table together; fit all annotations together, or use "
            f"a formula in which each row counts by itself"
        )
    for name in set(read) - {of for of, _, _ in recipe.levels}:
        if not pd.api.types.is_numeric_dtype(read[name]):
            numbers = [_number(value) for value in read[name]]
            if None in numbers:
                raise DataError(
                    f"{source}, column {name!r}: not all values are numbers, as in the earlier annotations they are"
                )
            read[name] = np.array(numbers)
    for name, levels, categorical in recipe.levels:
        # What a column is follows from the earlier annotations: numbers that stand for categories in one table may be text here.
        given = table[column_of(table, name, (), source, "", "covariates")].astype(object)
        place = {value: _level(value, levels) for value in pd.unique(given)}
        new = [value for value, level in place.items() if level is None]
        if new:
            raise DataError(
                f"{source}, column {name!r}: {listed(new, 3)} does not occur in the earlier annotations; fit all together"
            )
        values = [place[value] for value in given]
        read[name] = pd.Categorical(values, categories=list(levels)) if categorical else np.array(values)
    return recipe.levels


def _level(value: Any, levels: tuple[Any, ...]) -> Any:
    """Return the level that a value is, as it is written, else as a number or truth value; ``None`` if it is new."""
    text = str(value).strip()
    for level in levels:
        if str(level) == text:
            return level
    numbers = [_number(one) for one in (value, *levels)]
    same = [
        level for level, number in zip(levels, numbers[1:], strict=True) if number is not None and number == numbers[0]
    ]
    return same[0] if len(same) == 1 else None


def _number(value: Any) -> float | None:
    """Return a number or truth value, also as text, as a number; ``None`` for anything else."""
    word = str(value).strip().lower()
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _matrix(read: pd.DataFrame, formula: str, levels: Levels, source: str) -> pd.DataFrame:
    """Return what a formula makes of a table in which not every level need occur.

    Raises:
        DataError: whatever the parts of the formula raise, in one line.
    """
    from formulaic import Formula  # here: slow to import

    # Where levels do not occur, rows that have each one stand above the others, so that each level has its column. Not elsewhere:
    # they would count in what is computed from all rows.
    lacking = any(set(of) - set(read[name].astype(object)) for name, of, _ in levels)
    above = max(len(of) for _, of, _ in levels) if lacking and len(read) else 0
    whole = read
    if above:
        first = read.iloc[np.zeros(above, dtype=np.int64)].copy()
        for name, of, categorical in levels:
            values = [of[n % len(of)] for n in range(above)]
            first[name] = pd.Categorical(values, categories=list(of)) if categorical else values
        whole = pd.concat([first, read], ignore_index=True)
    try:
        matrix = Formula(formula).get_model_matrix(whole, context={"np": np}, na_action="ignore", output="pandas")
    except Exception as error:  # whatever the parts of the formula raise
        raise DataError(f"{source}: the formula {formula!r} cannot be computed: {_first_line(error)}") from error
    return matrix.drop(columns=[name for name in matrix.columns if name == INTERCEPT]).iloc[above:]


def _by_row(read: pd.DataFrame, formula: str, levels: Levels, values: Array) -> bool:
    """Return whether half of the rows have the same covariates ``(A, P)`` without the other half."""
    half = slice(0, None, 2)
    try:
        alone = _matrix(read.iloc[half], formula, levels, "half of the rows").to_numpy(dtype=np.float64)
    except DataError:
        return False
    return alone.shape == values[half].shape and bool(np.allclose(alone, values[half], rtol=1e-9, atol=0))


def require_usable(values: Array, names: tuple[str, ...], source: str) -> None:
    """Refuse covariates ``(A, P)`` that are not finite, do not vary, or follow from others.

    Raises:
        DataError: naming them.
    """
    require_finite(values, names, source)
    constant = [name for name, column in zip(names, values.T, strict=True) if column.max() == column.min()]
    if constant:
        raise DataError(f"{source}: covariate {listed(constant, 3)} is the same for all annotations; leave it out")
    centred = values - values.mean(0)
    centred = centred / np.sqrt((centred**2).mean(0))
    # The triangle of the decomposition has on its diagonal what each column has beyond those before it.
    left = np.abs(np.diagonal(np.linalg.qr(centred, mode="r"))) ** 2 / len(values)
    if len(left) < len(names) or (left < LEFT).any():
        which = [name for n, name in enumerate(names) if n >= len(left) or left[n] < LEFT]
        raise DataError(f"{source}: covariate {listed(which, 3)} follows from the others; leave it out")


def require_finite(values: Array, names: tuple[str, ...], source: str) -> None:
    """Refuse covariates ``(A, P)`` that are not finite.

    Raises:
        DataError: naming them.
    """
    odd = [name for name, column in zip(names, values.T, strict=True) if not np.isfinite(column).all()]
    if odd:
        raise DataError(f"{source}: covariate {listed(odd, 3)} is not finite everywhere; leave it out")


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
