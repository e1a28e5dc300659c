"""Durations of annotations: numbers of seconds, and what programs write for them, as one reading of a whole column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import rows_text
from crowdppl.data.table.timestamps import blank_values, decimal_commas, distinct_values, thousands_or_decimals
from crowdppl.errors import DataError

Array = npt.NDArray[Any]

# Hours, minutes and seconds, after days; without the seconds, hours could be minutes.
_CLOCK = re.compile(r"(?:(?P<d>\d+) days?,? )?(?P<h>\d{1,3}):(?P<m>[0-5]\d):(?P<s>[0-5]\d(?:[.,]\d+)?)", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:[.,]\d+)?)S)?)?", re.ASCII
)
# Units at the end of the name of a column, or in brackets.
_UNIT = re.compile(r"[\W_](?:(?P<ms>ms|msec|millis|milliseconds?)|mins?|minutes?)\W*$", re.IGNORECASE)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def durations(column: pd.Series[Any], where: str) -> tuple[Array, list[str]]:
    """Return durations in seconds as floats ``(A,)``, NaN if blank, and notes on how they were read.

    Columns of durations are converted. Numbers may have a decimal comma. A column of ``0:01:30`` or ``0 days 00:01:30``, or of
    ``PT1M30S`` (ISO 8601), is read as well; a number beside such a text is refused, as its unit is not known.

    Raises:
        DataError: if a value is not a duration of at least 0.
    """
    codes, texts = distinct_values(column)
    if texts.dtype.kind == "m":
        texts = texts.astype("timedelta64[ns]") / pd.Timedelta(seconds=1)
    blank = blank_values(texts)
    values = np.array(pd.to_numeric(texts.where(~blank), errors="coerce").to_numpy(dtype=float, na_value=np.nan))
    notes: list[str] = []
    if (np.isnan(values) & ~blank).any():
        read = _written([str(text).strip() for text in texts[~blank]])
        if read is not None:
            values[~blank] = read[0]
            notes.append(f"{where}: {read[1]}")
    invalid = (np.isnan(values) & ~blank) | np.isinf(values)
    reason = "a duration below 0; correct it or leave it blank"
    if invalid.any():
        example = str(texts[invalid].iloc[0])
        reason = f"{example!r} is not a number"
        if re.fullmatch(r"\s*\d+:\d\d\s*", example):
            reason += " of seconds, and its parts may be hours or minutes"
        unclear = thousands_or_decimals([str(text) for text in texts[~blank]])
        reason = f"{reason}; correct it or leave it blank" if unclear is None else unclear
    invalid = invalid if invalid.any() else values < 0
    if invalid.any():
        rows = np.flatnonzero(np.append(invalid, False)[codes])
        raise DataError(f"{where}, {rows_text(rows)}: {reason}")
    return np.append(values, np.nan)[codes], notes or _of_units(str(column.name), values, where)


def _of_units(name: str, values: Array, where: str) -> list[str]:
    """Return a note on numbers that are probably no seconds, by the name of their column."""
    unit = _UNIT.search(name)
    if unit is None or np.isnan(values).all():
        return []
    what, factor = ("milliseconds", "divide them by 1,000") if unit["ms"] else ("minutes", "multiply them by 60")
    return [
        f"{where}: {np.nanmedian(values):,g} is read as a number of seconds, though the name of the column says {what}; {factor} "
        f"if it is right"
    ]


def _written(texts: Sequence[str]) -> tuple[list[float], str] | None:
    """Return durations that are all written in one way, and a sentence on it; ``None`` for other texts."""
    plain = decimal_commas(texts)
    if plain is not None:
        return [float(text) for text in plain], f"numbers such as {_example(texts)!r} are read with a decimal comma"
    for form in (_CLOCK, _ISO):
        matching = [form.fullmatch(text) for text in texts]
        if all(match is not None and any(match.groupdict().values()) for match in matching):
            seconds = [
                sum(
                    _SECONDS[part] * float((value or "0").replace(",", "."))
                    for part, value in match.groupdict().items()
                )
                for match in matching
                if match is not None
            ]
            return seconds, f"durations such as {texts[0]!r} are read as {seconds[0]:,g} seconds"
    return None


def _example(texts: Sequence[str]) -> str:
    return next(text for text in texts if "," in text)
