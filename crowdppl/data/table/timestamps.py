"""Timestamps and durations of annotations: one reading of a whole column, as seconds since 1970.

Each distinct text is read once. Texts with the year first, with the name of the month, or of an ISO week are clear by themselves.
``03.04.2024`` is not: whether its day or its month comes first is decided by all values of the column together.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.compute as pc

from crowdppl.data.table.identifiers import as_objects, from_arrow, rows_text, storable
from crowdppl.data.table.months import month_by_name
from crowdppl.errors import DataError

Array = npt.NDArray[Any]
Dates = Literal["day-first", "month-first"]

# Hours from UTC of abbreviated time zones; those with several meanings (IST, BST, CST of China) are not in use in exports.
ZONES = {"Z": 0, "UTC": 0, "GMT": 0, "UT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3}
ZONES |= {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "JST": 9}
# From this number on, whole numbers are seconds since 1970, and a thousand times as many are milliseconds, and so on.
EPOCH = 1e8
# Days since 1899-12-30, as spreadsheets count them: of 1 January 1970, and of the years 2000 and 2060.
_SHEET_DAYS, _SHEET = 25_569, (36_526, 58_441)
# Where the parts of a date stand that is written as digits, and the years that such a date may have.
_PLACES = {"y": (0, 4), "m": (4, 6), "d": (6, 8), "h": (8, 10), "n": (10, 12), "s": (12, 14)}
_YEARS = (1990, 2100)
# Years in two digits, how many of them such dates span at most, and how many different ones are no chance.
_SHORT_YEARS, _SPAN, _FEWEST_DATES = (10, 40), 5, 3
# Numbers that are years rather than seconds; dates before and after years of other calendars.
_LATE_YEARS, _CALENDAR = (1950, 2060), (1800, 2200)
# Days since 1970 of 1899-12-30, 1899-12-31, 1900-01-01, 1900-01-02, 1904-01-01, 1980-01-01, 2001-01-01 and 2099-12-31.
_PLACEHOLDER_DAYS = (-25_569, -25_568, -25_567, -25_566, -24_107, 3_652, 11_323, 47_481)
_UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")

_CLOCK = r"(?P<h>\d{1,2}):(?P<n>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,12}))?)?(?: ?(?P<p>[AaPp])\.?[Mm]\.?)?"
_ZONE = r"(?: ?(?P<z>(?:UTC|GMT)?[+-]\d{2}(?::?\d{2})?|(?:UTC|GMT)[+-]\d|[A-Z]{1,5}))?(?: \([^()]*\))?"
_TIME = rf"(?:(?:[Tt]|,? )(?:at )?{_CLOCK}{_ZONE})?"
_DAY, _NAME, _WEEKDAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?", r"(?P<m>\p{L}{3,12})\.?", r"(?:\p{L}{3,12}\.?,? )?"
# Dates that are clear by themselves: year first (also without separators), ISO weeks, and months by name.
CLEAR = (
    rf"^(?P<y>\d{{4}})[-/.](?P<m>\d{{1,2}})(?:[-/.](?P<d>\d{{1,2}}))?{_TIME}$",
    rf"^(?P<y>\d{{4}})(?P<m>\d{{2}})(?P<d>\d{{2}})T(?P<h>\d{{2}}):?(?P<n>\d{{2}})(?::?(?P<s>\d{{2}})(?:[.,](?P<f>\d{{1,12}}))?)?{_ZONE}$",
    rf"^(?P<y>\d{{4}})-?W(?P<w>\d{{2}})(?:-?(?P<d>[1-7]))?{_TIME}$",
    rf"^{_WEEKDAY}{_DAY}(?:\. ?|[-/ ]){_NAME},?[-/ ](?P<y>\d{{4}}|\d{{2}}){_TIME}$",
    rf"^{_WEEKDAY}{_NAME}[-/ ]{_DAY},?[-/ ](?P<y>\d{{4}}){_TIME}$",
    rf"^(?P<y>\d{{4}})[-/ ]{_NAME}[-/ ]{_DAY}{_TIME}$",
    rf"^{_WEEKDAY}{_NAME} +{_DAY} {_CLOCK}{_ZONE} (?P<y>\d{{4}})$",
)
UNCLEAR = rf"^(?P<a>\d{{1,2}})(?P<sep>[-/.]) ?(?P<b>\d{{1,2}})[-/.] ?(?P<c>\d{{4}}|\d{{2}}){_TIME}$"
# Which of the three numbers of an unclear date are year, month and day.
ORDERS = {"day-first": "cba", "month-first": "cab", "year-first": "abc"}
# A number with a decimal comma, or without decimals.
_NUMBER = re.compile(r"[+-]?(?P<w>\d+)(?:,(?P<f>\d+))?", re.ASCII)
_TIME_ONLY = re.compile(r"[Tt]?\d{1,2}:\d{2}")


class Fault(NamedTuple):
    """Why some values of a column cannot be read.

    Attributes:
        at: positions of the distinct values that the sentence is about; all rows of them are meant if ``all_rows``.
        why: the sentence.
        all_rows: whether every row with these values is named, or the first of each value.
    """

    at: Sequence[int]
    why: str
    all_rows: bool = True


class Times(NamedTuple):
    """Distinct timestamps as seconds since 1970 ``(n,)``, NaN if blank or unreadable, what is wrong, and notes."""

    seconds: Array
    faults: list[Fault]
    notes: list[str]


def times(column: pd.Series[Any], where: str, *, dates: Dates | None = None) -> tuple[Array, list[str]]:
    """Return timestamps, numbers or dates, as floats ``(A,)``, NaN if blank, and notes on how they were read.

    Args:
        column: of the table, ``(A,)``.
        where: its name in messages.
        dates: whether the day or the month comes first in dates that end with the year. Defaults to what all values allow.

    Raises:
        DataError: if a value is neither a number nor a date, or the values cannot all be read alike.
    """
    codes, texts = distinct_values(_starts(column))
    read = read_times(texts, dates)
    for fault in read.faults:
        chosen = np.isin(codes, fault.at)
        rows = np.flatnonzero(chosen) if fault.all_rows else _first_rows(codes, fault.at)
        raise DataError(f"{where}, {rows_text(rows)}: {fault.why}")
    # A missing value has the code -1, which selects the last entry.
    return np.append(read.seconds, np.nan)[codes], [f"{where}: {note}" for note in read.notes]


def since_1970(column: pd.Series[Any]) -> tuple[pd.Series[Any], list[str]]:
    """Return timestamps of an export as seconds since 1970, and notes: they are optional and no reason to refuse a file.

    Values that cannot be read, or not all alike, are NaN, and a note says how many and why.
    """
    codes, texts = distinct_values(_starts(column))
    read = read_times(texts, None)
    values = np.append(read.seconds, np.nan)[codes]
    unread = int((np.isnan(values) & (codes >= 0) & ~np.append(blank_values(texts), True)[codes]).sum())
    notes = list(read.notes)
    if unread:
        notes.append(f"{unread:,} timestamp{'s are' if unread > 1 else ' is'} left out: {read.faults[0].why}")
    return pd.Series(values, index=column.index, name=column.name), notes


def _starts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return periods, such as months, as the times when they start."""
    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.start_time
    if column.dtype == object and len(column) and isinstance(column.iloc[0], pd.Period):
        return column.map(lambda value: value.start_time if isinstance(value, pd.Period) else value)
    return column


def distinct_values(column: pd.Series[Any]) -> tuple[Array, pd.Series[Any]]:
    """Return the code of each row, -1 if missing, and the distinct values."""
    if isinstance(column.dtype, pd.ArrowDtype):
        arrow = from_arrow(column)
        if arrow is not None:
            return arrow.codes, pd.Series(arrow.names)
        kind = column.dtype.pyarrow_dtype
        if not (pyarrow.types.is_timestamp(kind) or pyarrow.types.is_duration(kind)):
            column = as_objects(column)
    try:
        codes, names = pd.factorize(column)
    except TypeError:  # lists and other values that are no timestamps are compared by their text
        codes, names = pd.factorize(column.map(str, na_action="ignore"))
    if names.dtype == object:  # no string type of pandas holds half a character, as in broken JSON
        return codes, pd.Series(np.fromiter(map(storable, names), dtype=object, count=len(names)))
    return codes, pd.Series(names)


def blank_values(values: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Return which distinct values are missing or blank, ``(n,)``."""
    return (values.isna() | (values.astype(str).str.strip() == "")).to_numpy(dtype=bool)


def decimal_commas(texts: Sequence[str]) -> list[str] | None:
    """Return numbers with a decimal comma as numbers with a point; ``None`` if not all texts are numbers, or none has a comma.

    A column in which all commas are followed by three digits is none, as they may separate thousands: not behind a 0, or behind
    more than three digits.
    """
    if _may_be_thousands(texts) is not False:
        return None
    return [text.strip().replace(",", ".") for text in texts]


def thousands_or_decimals(texts: Sequence[str]) -> str | None:
    """Return why numbers with commas are not read: each comma may separate thousands, or decimals; ``None`` for other texts."""
    if not _may_be_thousands(texts):
        return None
    example = next(text for text in texts if "," in text).strip()
    plain = [example.replace(",", sign) for sign in (".", "")]
    return f"the comma of {example!r} may separate decimals or thousands; write {plain[0]} or {plain[1]}"


def _may_be_thousands(texts: Sequence[str]) -> bool | None:
    """Return whether all commas of numbers may separate thousands; ``None`` for other texts, and numbers without any comma."""
    if "," not in "".join(texts):  # fast path: most columns
        return None
    parts = []
    for text in texts:
        part = _NUMBER.fullmatch(text.strip())
        if part is None:
            return None
        parts.append(part)
    with_comma = [part for part in parts if part["f"] is not None]
    return all(len(part["f"]) == 3 and part["w"] != "0" and len(part["w"]) <= 3 for part in with_comma)


def _first_rows(codes: Array, at: Sequence[int]) -> Array:
    return np.array([int((codes == position).argmax()) for position in at])


# ---------------------------------------------------------------------- distinct values


def read_times(values: pd.Series[Any], dates: Dates | None) -> Times:
    """Read distinct timestamps; other arguments as in :func:`times`."""
    read = _read_times(values, dates)
    notes = [_of_placeholders(read.seconds, values), _of_calendars(read.seconds, values)]
    return read._replace(notes=[*read.notes, *filter(None, notes)])


def _of_calendars(seconds: Array, values: pd.Series[Any]) -> str | None:
    """Return a note where most dates are in years of another calendar, such as the Buddhist one."""
    years = seconds[~np.isnan(seconds)] / (365.2425 * 86_400) + 1970
    if not len(years) or ((years > _CALENDAR[0]) & (years < _CALENDAR[1])).mean() >= 0.5:
        return None
    example = next(str(value) for value, time in zip(values, seconds.tolist(), strict=True) if time == time)
    return f"dates such as {example!r} are read as years of the Gregorian calendar; if they are of another one, convert them"


def _of_placeholders(seconds: Array, values: pd.Series[Any]) -> str | None:
    """Return a note on dates that programs write for no date, such as 1970-01-01 or 9999-12-31, decades from all others."""
    finite = np.where(np.isnan(seconds), 0.5, seconds)
    days = np.floor(finite / 86_400)
    years = np.floor(days / 365.2425) + 1970
    unusual = (np.abs(days) <= 1) & (finite != 0.5) | np.isin(years, (1, 9999)) | np.isin(days, _PLACEHOLDER_DAYS)
    others = seconds[~unusual & ~np.isnan(seconds)]
    if not unusual.any() or not len(others):
        return None
    far = unusual & (np.abs(seconds - np.median(others)) > 15 * 365 * 86_400)
    if not far.any() or np.ptp(others) > 15 * 365 * 86_400:
        return None
    example = str(values.iloc[int(np.flatnonzero(far)[0])])
    return (
        f"times such as {example!r} are decades from all others, as programs write for no time; if so, leave them blank"
    )


def _read_times(values: pd.Series[Any], dates: Dates | None) -> Times:
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        try:
            stamps = pd.to_datetime(values, utc=True)
            since = (stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
            return Times(since.to_numpy(dtype=float, na_value=np.nan), [], [])
        except (pd.errors.OutOfBoundsDatetime, OverflowError):  # years beyond those of nanoseconds
            values = values.astype(str)
    if values.dtype.kind in "bm":  # truth values and durations are no timestamps
        values = values.astype(str)
    blank = blank_values(values)
    given = [] if pd.api.types.is_numeric_dtype(values.dtype) else values[~blank].astype(str).tolist()
    with_points = decimal_commas(given)
    if with_points is not None:
        example = next(text for text in given if "," in text)
        numbers_again = values.astype(object)
        numbers_again[~blank] = with_points
        read = _read_times(numbers_again, dates)
        return read._replace(notes=[f"numbers such as {example!r} are read with a decimal comma", *read.notes])
    unclear = thousands_or_decimals(given)
    if unclear is not None:
        at = [n for n in np.flatnonzero(~blank).tolist() if "," in str(values.iloc[n])]
        return Times(np.full(len(values), np.nan), [Fault(at, unclear, False)], [])
    parsed = pd.to_numeric(values.where(~blank), errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    numbers: Array = np.where(np.isinf(parsed), np.nan, parsed)
    words = np.flatnonzero(np.isnan(numbers) & ~blank)
    if not len(words):
        written = _dates_as_numbers(numbers)
        return _epochs(numbers, values) if written is None else written
    texts = _plain(pyarrow.array(values.iloc[words].astype(str).to_numpy(dtype=object), pyarrow.large_string()))
    seconds = np.full(len(values), np.nan)
    read = _texts(pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"\s+", " "), dates)
    seconds[words] = read.seconds
    faults = [fault._replace(at=words[list(fault.at)].tolist()) for fault in read.faults]
    plain = np.flatnonzero(~np.isnan(numbers))
    if len(plain) and not faults:
        pair = [int(plain[0]), int(words[0])]
        faults.append(
            Fault(
                pair,
                f"{str(values.iloc[pair[0]])!r} is a number and {str(values.iloc[pair[1]])!r} a date; write all "
                f"timestamps alike",
                False,
            )
        )
    return Times(seconds, faults, read.notes)


def _plain(texts: Any) -> Any:
    """Return texts with digits and spaces of other scripts and widths as plain ones."""
    plain = pc.string_is_ascii(texts)
    if pc.all(plain).as_py():  # fast path: most are
        return texts
    others = [unicodedata.normalize("NFKC", text) for text in texts.filter(pc.invert(plain)).to_pylist()]
    return pc.replace_with_mask(texts, pc.invert(plain), pyarrow.array(others, pyarrow.large_string()))


def _dates_as_numbers(numbers: Array) -> Times | None:
    """Return dates written as digits (20240403, 20240403100000) or as days of a spreadsheet (45385.4); ``None`` for others."""
    given = numbers[~np.isnan(numbers)]
    if not len(given) or given.min() <= 0:
        return None
    whole = bool((given == np.floor(given)).all())
    length = len(f"{given.max():.0f}")
    if whole and length in (8, 12, 14) and length == len(f"{given.min():.0f}"):
        texts = [f"{number:.0f}" for number in given]
        parts = {name: pyarrow.array([text[a:b] for text in texts]) for name, (a, b) in _PLACES.items() if b <= length}
        read = _seconds({name: parts.get(name, pyarrow.array([""] * len(texts))) for name in (*_PLACES, "z")})[0]
        years = given // 10.0 ** (length - 4)
        if not np.isnan(read).any() and years.min() >= _YEARS[0] and years.max() <= _YEARS[1]:
            seconds = np.full(len(numbers), np.nan)
            seconds[~np.isnan(numbers)] = read
            return Times(seconds, [], [f"numbers such as {texts[0]} are read as dates"])
    first = f"{given[0]:0{8 if given.max() >= 1e6 else 6}.0f}"
    if whole and _short_years(given):
        return Times(
            numbers, [], [f"numbers such as {first} are read as seconds; they may be dates: write these as 2024-04-03"]
        )
    if whole and bool(_year_last(given).all()):
        why = f"{first} may be a date with the day or the month first, without signs between; write dates as 2024-04-03"
        return Times(np.full(len(numbers), np.nan), [Fault(np.flatnonzero(~np.isnan(numbers)).tolist(), why)], [])
    if whole and _LATE_YEARS[0] <= given.min() and given.max() <= _LATE_YEARS[1]:
        return Times(numbers, [], [f"numbers such as {given[0]:.0f} are read as seconds; they may be years"])
    if given.min() < _SHEET[0] or given.max() > _SHEET[1]:
        return None
    # Dates of a spreadsheet are whole seconds, parts of a day with many decimals; times of a stopwatch have three at most.
    seconds, thousandths = given * 86_400, given * 1000
    if (np.abs(seconds - seconds.round()) > 0.01).any():
        return None
    if (np.abs(thousandths - thousandths.round()) < 1e-4).mean() > 0.5:
        note = f"numbers such as {given[0]:.10g} are read as seconds; dates of a spreadsheet are to be written as 2024-04-03"
        return Times(numbers, [], [note])
    note = (
        f"numbers such as {given[0]:.10g} are read as dates of a spreadsheet, in days since 1899-12-30; if they are seconds, "
        f"write them since 1970"
    )
    return Times((numbers - _SHEET_DAYS) * 86_400, [], [note])


def _short_years(numbers: Array) -> bool:
    """Return whether all numbers may be dates of six digits, with the year first or last, and are not one after the other."""
    a, b, c = numbers // 10_000, numbers // 100 % 100, numbers % 100
    low, high = np.minimum(a, b), np.maximum(a, b)
    distinct = np.unique(numbers)
    if numbers.max() >= 1e6 or len(distinct) < _FEWEST_DATES or np.ptp(distinct) < len(distinct):
        return False
    for day, month, year in ((high, low, c), (c, b, a)):
        dates = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        # Without a day above 12, numbers may be anything.
        sure = dates.all() and bool((day > 12).any())
        if sure and year.min() >= _SHORT_YEARS[0] and year.max() <= _SHORT_YEARS[1] and np.ptp(year) <= _SPAN:
            return True
    return False


def _year_last(numbers: Array) -> Array:
    """Return whether whole numbers are a day, a month and a year in digits, in this order or with the month first."""
    first, second, year = numbers // 1_000_000, numbers // 10_000 % 100, numbers % 10_000
    parts = np.sort(np.stack([first, second]), axis=0)
    return np.asarray((parts[0] >= 1) & (parts[0] <= 12) & (parts[1] <= 31) & (year >= _YEARS[0]) & (year <= _YEARS[1]))


def _epochs(numbers: Array, values: pd.Series[Any]) -> Times:
    """Return numbers, those since 1970 in seconds whatever their unit; units must not be mixed."""
    size = np.abs(numbers[~np.isnan(numbers)])
    if not len(size) or size[size > 0].min(initial=np.inf) < EPOCH:
        return Times(numbers, [], [])
    unit = np.where(np.abs(numbers) > 0, np.floor((np.log10(np.abs(numbers) + 1) - np.log10(EPOCH)) / 3), np.nan)
    first, last = np.nanmin(unit), np.nanmax(unit)
    if not np.isfinite(last) or last >= len(_UNITS):
        return Times(numbers, [], [])
    if first < last:
        pair = [int(np.nanargmin(unit)), int(np.nanargmax(unit))]
        names = [f"{str(values.iloc[at])!r} is in {_UNITS[int(unit[at])]}" for at in pair]
        why = f"{names[0]} since 1970 and {names[1]}; write all timestamps in one unit"
        return Times(np.full(len(numbers), np.nan), [Fault(pair, why, False)], [])
    return Times(numbers / 1000.0**first, [], [])


def _texts(texts: Any, dates: Dates | None) -> Times:
    """Read dates as text, none of them blank."""
    count = len(texts)
    seconds, zones = np.full(count, np.nan), np.full(count, "", dtype=object)
    left = np.arange(count)
    for pattern in CLEAR:
        left = _fill(seconds, zones, texts, left, pattern)
        if not len(left):
            break
    faults: list[Fault] = []
    notes: list[str] = []
    unclear, parts = _matches(texts, left, UNCLEAR)
    if len(unclear):
        order, fault, note = _order(texts, unclear, parts, dates)
        faults += [fault] if fault else []
        notes += [note] if note else []
        if order:
            roles = dict(zip("ymd", ORDERS[order], strict=True))
            seconds[unclear], zones[unclear] = _seconds(parts | {role: parts[part] for role, part in roles.items()})
    wrong = np.isnan(seconds)
    wrong[unclear] &= not faults
    if wrong.any():
        at = np.flatnonzero(wrong).tolist()
        example = texts[at[0]].as_py()
        reason = "is a time without a date" if _TIME_ONLY.match(example) else "is not a number or a date"
        at = [n for n in at if texts[n].as_py() == example] if reason.endswith("out a date") else at
        advice = "write dates as 2024-04-03 10:00:00" if "without" in reason else "correct it or leave it blank"
        faults.insert(0, Fault(at, f"{example!r} {reason}; {advice}"))
    fault, note = _mixed_zones(texts, seconds, zones)
    return Times(seconds, faults + ([fault] if fault else []), notes + ([note] if note else []))


def _matches(texts: Any, left: Array, pattern: str) -> tuple[Array, dict[str, Any]]:
    """Return which texts match a pattern, of those left, and their parts by the names of its groups."""
    matching = pc.extract_regex(texts.take(pyarrow.array(left)), pattern)
    matched = matching.is_valid().to_numpy(zero_copy_only=False)
    names = [field.name for field in matching.type]
    kept = matching.filter(pyarrow.array(matched))
    return left[matched], {name: kept.field(n) for n, name in enumerate(names)}


def _fill(seconds: Array, zones: Array, texts: Any, left: Array, pattern: str) -> Array:
    """Read the texts of one pattern, and return those that are still left."""
    at, parts = _matches(texts, left, pattern)
    if len(at):
        seconds[at], zones[at] = _seconds(parts)
    return np.setdiff1d(left, at, assume_unique=True) if len(at) else left


def _number(part: Any, absent: int) -> Array:
    filled = pc.if_else(pc.equal(part, ""), str(absent), part)
    return filled.cast(pyarrow.int64()).to_numpy(zero_copy_only=False)


def _seconds(parts: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return seconds since 1970 from the parts of dates, NaN for days that do not exist, and their time zones as text."""
    size = len(parts["y"])
    year = _number(parts["y"], 0)
    short = pc.equal(pc.utf8_length(parts["y"]), 2).to_numpy(zero_copy_only=False)
    year = np.where(short, np.where(year < 69, 2000, 1900) + year, year)
    if "w" in parts:
        days, valid = _iso_weeks(year, _number(parts["w"], 1), _number(parts["d"], 1))
    else:
        month, day = _month(parts["m"]), _number(parts["d"], 1)
        valid = (month >= 1) & (month <= 12)
        start = (year - 1970) * 12 + np.where(valid, month, 1) - 1
        first, following = (
            (start + step).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for step in (0, 1)
        )
        valid &= (day >= 1) & (day <= following - first)
        days = first + day - 1
    hour, minute, second = (_number(parts[name], 0) if name in parts else np.zeros(size, np.int64) for name in "hns")
    if _any(parts, "p"):
        codes, halves = _coded(parts["p"])
        half = np.array([name.lower() for name in halves])[codes]
        valid &= (half == "") | ((hour >= 1) & (hour <= 12))
        hour = np.where(half == "", hour, hour % 12 + 12 * (half == "p"))
    valid &= (hour <= 23) & (minute <= 59) & (second <= 60)
    out = (days * 86_400 + hour * 3_600 + minute * 60 + second).astype(float)
    if _any(parts, "f"):
        digits = parts["f"].cast(pyarrow.string())
        out += pc.binary_join_element_wise("0.", digits, "0", "").cast(pyarrow.float64()).to_numpy()
    codes, names = _coded(parts["z"])
    out -= np.array([_offset(name) for name in names], dtype=float)[codes]
    out[~valid] = np.nan
    return out, np.array(names, dtype=object)[codes]


def _any(parts: Mapping[str, Any], name: str) -> bool:
    return name in parts and bool(pc.any(pc.not_equal(parts[name], "")).as_py())


def _coded(part: Any) -> tuple[Array, list[str]]:
    encoded = part.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def _month(part: Any) -> Array:
    """Return months by number or by name, 0 for other words."""
    codes, names = _coded(part)
    numbers = [int(name) if name.isdigit() else month_by_name(name) for name in names]
    return np.array(numbers, dtype=np.int64)[codes]


def _iso_weeks(year: Array, week: Array, day: Array) -> tuple[Array, Array]:
    """Return days since 1970 of ISO weeks, and which of them exist."""

    def monday(years: Array) -> Array:  # of week 1, the week with 4 January
        fourth = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64) + 3
        return fourth - (fourth + 3) % 7

    days = monday(year) + (week - 1) * 7 + day - 1
    return days, (week >= 1) & (monday(year) + (week - 1) * 7 < monday(year + 1))


def _offset(zone: str) -> float:
    """Return seconds from UTC of a time zone as text, NaN if it is unknown."""
    matching = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2}?):?(\d{2})?", zone)
    if matching:
        return (3_600.0 * int(matching[2]) + 60.0 * int(matching[3] or 0)) * (1 if matching[1] == "+" else -1)
    return 0.0 if zone == "" else 3_600.0 * ZONES.get(zone, np.nan)


# ---------------------------------------------------------------------- what all values decide together


def _order(
    texts: Any, at: Array, parts: dict[str, Any], dates: Dates | None
) -> tuple[str | None, Fault | None, str | None]:
    """Decide which of the orders of day, month and year all unclear dates have.

    Returns:
        The order, or ``None`` with a fault; and a note where a convention decided.
    """
    four = pc.equal(pc.utf8_length(parts["c"]), 4).to_numpy(zero_copy_only=False)
    candidates = ["day-first", "month-first"] + (["year-first"] if not four.any() else [])
    read = {
        order: _seconds(parts | dict(zip("ymd", (parts[p] for p in ORDERS[order]), strict=True)))[0]
        for order in candidates
    }
    possible = [order for order in candidates if not np.isnan(read[order]).any()]
    if dates is not None:
        return dates, None, None  # dates that do not exist in this order are reported as unreadable
    if len(possible) == 1:
        return possible[0], _otherwise_usual(texts, at, parts, possible[0], read), None
    if not possible:
        wrong = {order: np.flatnonzero(np.isnan(read[order])) for order in ("day-first", "month-first")}
        pair = [int(wrong["month-first"][0]), int(wrong["day-first"][0])]
        if pair[0] == pair[1]:
            return "day-first", None, None  # no date in any order: reported as unreadable
        day, month = (texts[int(at[n])].as_py() for n in pair)
        why = f"{day!r} has the day first and {month!r} the month; write all dates alike, best as 2024-04-03"
        return None, Fault([int(at[n]) for n in pair], why, False), None
    example = texts[int(at[0])].as_py()
    american = _any(parts, "p")
    dotted = bool(pc.all(pc.equal(parts["sep"], ".")).as_py())
    # The year is where its numbers vary little.
    span = {order: float(np.ptp(read[order])) for order in possible}
    leading = "year-first" in possible and span["year-first"] < min(
        (span[order] for order in possible if order != "year-first"), default=np.inf
    )
    # Only the order of timestamps matters: where all readings agree on it, none of them is wrong.
    ranks = [np.unique(read[order], return_inverse=True)[1] for order in possible]
    agree = all(np.array_equal(ranks[0], rank) for rank in ranks[1:])
    if dotted == american and not agree:
        why = (
            f"dates such as {example!r} may have the day or the month first; state dates='day-first' or "
            f"dates='month-first', or write them as 2024-04-03"
        )
        return None, Fault([int(at[0])], why, False), None
    order = next(
        order
        for order, usual in (("year-first", leading), ("day-first", dotted), ("month-first", True), ("day-first", True))
        if usual and order in possible
    )
    advice = "write them as 2024-04-03" if order == "year-first" else "state " + _other(order)
    note = f"dates such as {example!r} are read with the {order.split('-')[0]} first; if that is wrong, {advice}"
    return order, None, note


def _otherwise_usual(texts: Any, at: Array, parts: dict[str, Any], order: str, read: dict[str, Array]) -> Fault | None:
    """Refuse dates with dots that others, with other signs, would give the order of the United States: 03.04. is in April."""
    dotted = pc.equal(parts["sep"], ".").to_numpy(zero_copy_only=False)
    if order != "month-first" or not dotted.any() or dotted.all() or np.isnan(read["day-first"][dotted]).any():
        return None
    pair = [int(at[np.flatnonzero(dotted)[0]]), int(at[np.flatnonzero(~dotted & np.isnan(read["day-first"]))[0]])]
    names = [repr(texts[n].as_py()) for n in pair]
    why = f"{names[1]} has the month first, and {names[0]} usually the day; state dates='month-first', or write all dates alike"
    return Fault(pair, why, False)


def _other(order: str) -> str:
    return "dates='month-first'" if order == "day-first" else "dates='day-first'"


def _mixed_zones(texts: Any, seconds: Array, zones: Array) -> tuple[Fault | None, str | None]:
    """Refuse times with and without a time zone in one column; if all zones are UTC, say that the others are taken as UTC."""
    read = ~np.isnan(seconds)
    without, having = read & (zones == ""), read & (zones != "")
    if not without.any() or not having.any():
        return None, None
    distinct = [zone for zone in pd.unique(zones[having]) if _offset(zone) != 0]
    if not distinct:
        example = texts[int(np.flatnonzero(without)[0])].as_py()
        return None, f"times without a time zone, such as {example!r}, are taken as UTC, which the others have"
    pair = [int(np.flatnonzero(without)[0]), int(np.flatnonzero(having & (zones == distinct[0]))[0])]
    names = [repr(texts[n].as_py()) for n in pair]
    return Fault(pair, f"{names[0]} has no time zone and {names[1]} has one; write all times alike", False), None
