"""A formula of covariates and the columns of a table as a matrix of numbers, by formulaic."""

from __future__ import annotations

import ast
import datetime
import hashlib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import shown
from crowdppl.data.covariates import COUNTED, EXPERIENCE, INTERCEPT, MOST, Design, Earlier, Recipe
from crowdppl.data.table.columns import column_of
from crowdppl.data.table.identifiers import storable
from crowdppl.errors import DataError, OptionError, listed

Array = npt.NDArray[Any]

# A column is a function of others where less than this share of its variance is left.
LEFT = 1e-9


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
        text = column.astype(object).map(lambda value: storable(value.strip()) if isinstance(value, str) else value)
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
