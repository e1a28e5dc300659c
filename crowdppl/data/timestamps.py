"""Timestamps in any format that exports use, as seconds since 1970."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from crowdppl.isolation import without_warnings


def since_1970(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return timestamps as seconds since 1970 (UTC without a time zone), NaN if blank or unreadable.

    Each text is parsed by itself: a file may contain timestamps with and without fractions of a second. Numbers must be handled
    before, since pandas would read them as nanoseconds.
    """
    style = None if pd.api.types.is_datetime64_any_dtype(column.dtype) else "mixed"
    with without_warnings():  # abbreviated time zones that pandas does not know
        try:
            times = pd.to_datetime(column, errors="coerce", utc=True, format=style)
            return (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
        except (ValueError, OverflowError):  # years outside the range of nanoseconds are not coerced
            return column.map(_parse_one).astype(float)


def _parse_one(value: Any) -> float:
    try:
        time = pd.to_datetime(value, errors="coerce", utc=True)
        return np.nan if pd.isna(time) else float((time - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1))
    except (ValueError, OverflowError):
        return np.nan
