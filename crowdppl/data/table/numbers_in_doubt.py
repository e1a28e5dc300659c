"""Labels that are numbers and may be no numbers of their worker: codes for no answer, other units, turned scales, and means."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.errors import listed

Array = npt.NDArray[Any]

# Codes for no answer, their share of the annotations at most, and how far beyond all others they lie, in ranges of these.
_CODES, _SHARE, _BEYOND = (-9999, -999, -99, -88, -77, 99, 999, 9999, 99999), 0.3, 2.0
# Annotations of an item, of which none stands for all others; items of a worker; workers who are compared; decimals that are
# counted.
_ANNOTATIONS, _ITEMS, _WORKERS, _DIGITS = 3, 10, 500, 7
# Powers of ten by which numbers of another unit differ, and by which this varies; how far they are at least from the mean of all
# others, of whom some may differ, too; correlations of a turned scale, and of others.
_UNIT, _SPREAD, _NEAR, _TURNED, _ALIKE = 0.9, 0.15, 0.5, -0.7, 0.5
# Standard errors of a correlation below zero, which nobody of many reaches by chance.
_Z = 4.0
# Workers who differ, at most, as a share.
_FEW = 1 / 3


class _Numbers(NamedTuple):
    """Numbers of items with several, with what all others gave to each item: nothing is as large as items times workers."""

    item: Array  # (A,)
    worker: Array  # (A,)
    value: Array  # (A,)
    size: Array  # annotations of the item of each, (A,)
    compared: npt.NDArray[np.bool_]  # whether a worker has numbers of enough items, (J,)
    workers: Array  # names, (J,)


def notes_on_numbers(item: Array, worker: Array, value: Array, workers: Array, source: str) -> list[str]:
    """Return notes on numbers that are probably not what they seem.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: its worker, ``(A,)``.
        value: its number, ``(A,)``.
        workers: names of workers.
        source: name of the table.
    """
    notes, far = _of_codes(item, value, source)
    if not 1 < len(workers) <= _WORKERS:
        return notes
    if far.any():
        item, worker, value = item[~far], worker[~far], value[~far]
    with np.errstate(over="ignore", invalid="ignore"):  # of the largest numbers
        doubts = _of_workers(item, worker, value, workers, source)
        if doubts:
            # Of several numbers of an item by one worker, the last one.
            last = ~pd.Series(item.astype(np.int64) * len(workers) + worker).duplicated(keep="last").to_numpy()
            doubts = doubts if last.all() else _of_workers(item[last], worker[last], value[last], workers, source)
    return notes + doubts


def _of_workers(item: Array, worker: Array, value: Array, workers: Array, source: str) -> list[str]:
    """Return a note on workers whose numbers are not those of the others; arguments as of :func:`notes_on_numbers`."""
    size = np.bincount(item)[item]
    several = size >= _ANNOTATIONS
    if not several.all():
        item, worker, value, size = item[several], worker[several], value[several], size[several]
    compared = np.bincount(worker, minlength=len(workers)) >= _ITEMS
    if not compared.any():
        return []
    numbers = _Numbers(item, worker, value, size, compared, workers)
    # Of each annotation, the mean of the others of its item, from the mean of all: exact for large numbers, too.
    own = value - (np.bincount(item, value) / np.maximum(np.bincount(item), 1))[item]
    others = value - own * size / (size - 1)
    return _of_means(numbers, own, others, source) or _of_units(numbers, source) or _of_turned(numbers, others, source)


def _of_codes(item: Array, value: Array, source: str) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Return a note on codes for no answer far from all other numbers, and where they are, ``(A,)``.

    A number on which several workers agree is one of the item.
    """
    coded = np.isin(value, _CODES)
    none = np.zeros(len(value), dtype=bool)
    if not coded.any() or coded.mean() > _SHARE or len(value) - coded.sum() < 2:
        return [], none
    others = value[~coded]
    low, high = others.min(), others.max()
    reach = _BEYOND * max(high - low, 1.0)
    far = coded & ((value < low - reach) | (value > high + reach))
    if not far.any():
        return [], none
    given, of_item = np.bincount(item[far], minlength=int(item.max()) + 1), np.bincount(item)
    agreed = (given > 1) & (given == of_item)
    if 2 * agreed.sum() >= ((given > 0) & (of_item > 1)).sum() > 0:
        return [], none
    codes = [f"{code:g}" for code in np.unique(value[far]).tolist()]
    size = int(far.sum())
    which = "1 annotation is" if size == 1 else f"{size:,} annotations are"
    return [
        f"{source}: {which} {listed(codes, 3)} beside numbers from {low:g} to {high:g}; if it stands for no answer, leave the "
        f"cells blank"
    ], far


def _of_means(numbers: _Numbers, own: Array, others: Array, source: str) -> list[str]:
    """Return a note on a worker whose numbers are the means of those of all others, rounded to one decimal or more.

    Args:
        numbers: the numbers.
        own: of each annotation, its number minus the mean of its item, ``(A,)``.
        others: mean of the other annotations of its item, ``(A,)``.
        source: name of the table.
    """
    item, worker, value, size, compared, workers = numbers
    # Most workers differ from the mean by more than rounding to one decimal does, on most items.
    near = np.bincount(worker, np.abs(value - others) <= 0.5001 * 10.0**-1, minlength=len(workers))
    squares = np.bincount(item, own**2)
    for one in np.flatnonzero(compared & (near == np.bincount(worker, minlength=len(workers)))).tolist():
        at = worker == one
        mine, mean, n = value[at], others[at], size[at] - 1
        digits = next((d for d in range(_DIGITS) if np.allclose(mine, np.round(mine, d), rtol=0, atol=1e-9)), _DIGITS)
        # The squared deviations of the others from their own mean.
        spread = np.sqrt(np.maximum(squares[item[at]] - own[at] ** 2 * (1 + 1 / n), 0) / n)
        if (
            digits
            and np.allclose(mine, mean, rtol=0, atol=0.5001 * 10.0**-digits)
            and (spread > 10.0**-digits).sum() >= _ITEMS
        ):
            return [
                f"{source}: the numbers of the worker {str(workers[one])!r} are the means of those of all others; if it "
                f"summarizes them, leave it out, as it would count their labels twice"
            ]
    return []


def _of_units(numbers: _Numbers, source: str) -> list[str]:
    """Return a note on workers whose numbers are ten times those of others, or more, or less."""
    item, worker, value, size, _, workers = numbers
    if (value <= 0).any():
        positive = np.ones(int(item.max()) + 1, dtype=bool)
        positive[item[value <= 0]] = False
        kept = positive[item]
        item, worker, value, size = item[kept], worker[kept], value[kept], size[kept]
    each = np.bincount(worker, minlength=len(workers))
    if not len(value) or value.max() < 10**_NEAR * value.min():
        return []
    powers = np.log10(value)
    own = powers - (np.bincount(item, powers) / np.maximum(np.bincount(item), 1))[item]
    apart = np.bincount(worker, own * size / (size - 1), minlength=len(workers)) / np.maximum(each, 1)
    if not (np.abs(apart[each >= _ITEMS]) >= _NEAR).any():
        return []
    order = np.lexsort((powers, item))
    starts = np.flatnonzero(np.diff(item[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    middles = np.zeros(int(item.max()) + 1)
    middles[item[order[starts]]] = (powers[order[starts + (sizes - 1) // 2]] + powers[order[starts + sizes // 2]]) / 2
    powers -= middles[item]
    differing = []
    for one in np.flatnonzero((each >= _ITEMS) & (np.abs(apart) >= _NEAR)).tolist():
        low, middle, high = np.quantile(powers[worker == one], (0.25, 0.5, 0.75))
        if abs(middle) >= _UNIT and high - low < _SPREAD:
            differing.append((one, middle))
    if not 0 < len(differing) <= _FEW * (each >= _ITEMS).sum():
        return []
    (one, power), *_ = differing
    power = round(power) if abs(power - round(power)) < _SPREAD else power
    times = f"about {10.0 ** abs(power):,.0f} times {'larger' if power > 0 else 'smaller'} than those of others"
    return [
        f"{source}: the numbers of the worker {str(workers[one])!r} are {times} on the same items; if the unit is another one, "
        f"correct the table"
    ]


def _of_turned(numbers: _Numbers, others: Array, source: str) -> list[str]:
    """Return a note on workers whose numbers fall where those of the others rise, who agree with each other.

    Args:
        numbers: the numbers.
        others: mean of the other annotations of the item of each, ``(A,)``.
        source: name of the table.
    """
    worker, workers = numbers.worker, numbers.workers
    each = np.bincount(worker, minlength=len(workers))
    centred = [
        part - (np.bincount(worker, part) / np.maximum(each[: worker.max() + 1], 1))[worker]
        for part in (numbers.value, others)
    ]
    own, mean = centred
    products, of_own, of_mean = (
        np.bincount(worker, part, minlength=len(workers)) for part in (own * mean, own**2, mean**2)
    )
    ranked = np.flatnonzero(numbers.compared & (of_own > 0) & (of_mean > 0))
    correlation = products[ranked] / np.sqrt(of_own[ranked] * of_mean[ranked])
    z = np.arctanh(np.clip(correlation, -0.999, 0.999)) * np.sqrt(each[ranked] - 3)
    turned = (correlation <= _TURNED) & (z <= -_Z)
    rest = np.where(correlation > _TURNED, correlation, 0.0)[~turned]
    if not 0 < turned.sum() <= _FEW * len(ranked) or not len(rest) or np.median(rest) < _ALIKE:
        return []
    first = int(np.flatnonzero(turned)[0])
    return [
        f"{source}: the numbers of the worker {str(workers[ranked[first]])!r} fall where those of others rise (correlation "
        f"{correlation[first]:.2f}); if the scale was turned around, correct the table"
    ]
