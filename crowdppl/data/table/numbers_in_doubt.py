"""Labels that are numbers and may be no numbers of their worker: codes for no answer, other units, turned scales, and means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Codes for no answer, their share of the annotations at most, and how far beyond all others they lie, in ranges of these.
_CODES, _SHARE, _BEYOND = (-9999, -999, -99, -88, -77, 99, 999, 9999, 99999), 0.3, 2.0
# Annotations of an item, of which the middle one is not that of one worker; items of a worker; workers; and numbers compared.
_ANNOTATIONS, _ITEMS, _WORKERS, _LARGEST = 3, 10, 500, 5_000_000
# Powers of ten by which numbers of another unit differ, and by which this varies; correlations of a turned scale, and of others.
_UNIT, _SPREAD, _TURNED, _ALIKE = 0.9, 0.15, -0.7, 0.5
# Standard errors of a correlation below zero, which nobody of many reaches by chance.
_Z = 4.0
# Workers who differ, at most, as a share.
_FEW = 1 / 3


def notes_on_numbers(item: Array, worker: Array, value: Array, workers: Array, source: str) -> list[str]:
    """Return notes on numbers that are probably not what they seem.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        value: its number, ``(A,)``.
        workers: names of workers.
        source: name of the table.
    """
    notes, far = _of_codes(value, source)
    if len(workers) > _WORKERS or (int(item.max(initial=0)) + 1) * len(workers) > _LARGEST:
        return notes
    # One number for each item and worker, as a table.
    table = np.full((int(item.max(initial=0)) + 1, len(workers)), np.nan)
    table[item[~far], worker[~far]] = value[~far]
    table = table[(~np.isnan(table)).sum(1) >= _ANNOTATIONS]
    given = ~np.isnan(table)
    compared = np.flatnonzero(given.sum(0) >= _ITEMS)
    if not len(compared):
        return notes
    return notes + (
        _of_means(table, given, compared, workers, source)
        or _of_units(table, given, compared, workers, source)
        or _of_turned(table, given, compared, workers, source)
    )


def _of_codes(value: Array, source: str) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Return a note on codes for no answer far from all other numbers, and where they are, ``(A,)``."""
    coded = np.isin(value, _CODES)
    others = value[~coded]
    none = np.zeros(len(value), dtype=bool)
    if not coded.any() or coded.mean() > _SHARE or len(others) < 2:
        return [], none
    low, high = others.min(), others.max()
    reach = _BEYOND * max(high - low, 1.0)
    far = coded & ((value < low - reach) | (value > high + reach))
    if not far.any():
        return [], none
    codes = [f"{code:g}" for code in np.unique(value[far]).tolist()]
    size = int(far.sum())
    which = "1 annotation is" if size == 1 else f"{size:,} annotations are"
    return [
        f"{source}: {which} {listed(codes, 3)} beside numbers from {low:g} to {high:g}; if it stands for no answer, leave the "
        f"cells blank"
    ], far


def _of_means(table: Array, given: Array, compared: Array, workers: Array, source: str) -> list[str]:
    """Return a note on a worker whose numbers are the means of those of all others, rounded to one decimal or more."""
    size = given.sum(1)
    total = np.nansum(table, axis=1)
    for one in compared.tolist():
        rows = given[:, one]
        own = table[rows, one]
        others = (total[rows] - own) / (size[rows] - 1)
        digits = next((n for n in range(7) if np.allclose(own, np.round(own, n), rtol=0, atol=1e-9)), 7)
        spread = np.nanstd(np.where(np.arange(table.shape[1]) == one, np.nan, table)[rows], axis=1)
        if (
            digits
            and np.allclose(own, others, rtol=0, atol=0.5001 * 10.0**-digits)
            and (spread > 10.0**-digits).sum() >= _ITEMS
        ):
            return [
                f"{source}: the numbers of the worker {str(workers[one])!r} are the means of those of all others; if it "
                f"summarizes them, leave it out, as it would count their labels twice"
            ]
    return []


def _of_units(table: Array, given: Array, compared: Array, workers: Array, source: str) -> list[str]:
    """Return a note on workers whose numbers are ten times those of others, or more, or less."""
    positive = table[np.where(given, table, 1.0).min(1) > 0]
    if len(positive) < _ITEMS:
        return []
    powers = np.log10(positive)
    powers -= np.nanmedian(powers, axis=1, keepdims=True)
    differing = []
    for one in compared.tolist():
        own = powers[:, one]
        own = own[~np.isnan(own)]
        if len(own) < _ITEMS:
            continue
        low, middle, high = np.quantile(own, (0.25, 0.5, 0.75))
        if abs(middle) >= _UNIT and high - low < _SPREAD:
            differing.append((one, middle))
    if not 0 < len(differing) <= _FEW * len(compared):
        return []
    (one, power), *_ = differing
    power = round(power) if abs(power - round(power)) < _SPREAD else power
    size = f"about {10.0 ** abs(power):,.0f} times {'larger' if power > 0 else 'smaller'} than those of others"
    return [
        f"{source}: the numbers of the worker {str(workers[one])!r} are {size} on the same items; if the unit is another one, "
        f"correct the table"
    ]


def _of_turned(table: Array, given: Array, compared: Array, workers: Array, source: str) -> list[str]:
    """Return a note on workers whose numbers fall where those of the others rise, who agree with each other."""
    ranked = []
    for one in compared.tolist():
        rows = given[:, one]
        others = np.nanmedian(np.where(np.arange(table.shape[1]) == one, np.nan, table)[rows], axis=1)
        own = table[rows, one]
        if np.ptp(own) > 0 and np.ptp(others) > 0:
            correlation = float(np.corrcoef(own, others)[0, 1])
            z = np.arctanh(np.clip(correlation, -0.999, 0.999)) * (len(own) - 3) ** 0.5
            ranked.append((correlation if z <= -_Z or correlation > _TURNED else 0.0, one))
    turned = [one for one in ranked if one[0] <= _TURNED]
    rest = [correlation for correlation, one in ranked if correlation > _TURNED]
    if not 0 < len(turned) <= _FEW * len(ranked) or not rest or np.median(rest) < _ALIKE:
        return []
    name = str(workers[turned[0][1]])
    return [
        f"{source}: the numbers of the worker {name!r} fall where those of others rise (correlation {turned[0][0]:.2f}); if the "
        f"scale was turned around, correct the table"
    ]
