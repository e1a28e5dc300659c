"""Moments written in any of the ways that exports have, as seconds since 1970."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from crowdppl.isolation import without_warnings


def since_1970(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return moments as seconds since 1970 (UTC where no zone is given), NaN where blank or not a moment.

    Each text is read for itself: a file may write some moments with fractions of a second and some without. Numbers are taken for
    nanoseconds by pandas, and are to be told apart before.
    """
    style = None if pd.api.types.is_datetime64_any_dtype(column.dtype) else "mixed"
    with without_warnings():  # time zones by letters that pandas does not know
        try:
            times = pd.to_datetime(column, errors="coerce", utc=True, format=style)
            return (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
        except (ValueError, OverflowError):  # years that nanoseconds do not reach are not coerced
            return column.map(_one).astype(float)


def _one(value: Any) -> float:
    try:
        moment = pd.to_datetime(value, errors="coerce", utc=True)
        return np.nan if pd.isna(moment) else float((moment - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1))
    except (ValueError, OverflowError):
        return np.nan
