"""Workers over time: learning, fatigue, drift, and durations of annotations.

Accuracy over time is judged by the labels of the other workers and by known true labels, not by the true labels of the result,
which follow a worker's own labels and make a change look smaller than it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Identifier, Level, NonNegativeInt, TwoOrMore, checked
from crowdppl.errors import OptionError
from crowdppl.posterior.intervals import equal_tailed, tails
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.variables import PosteriorVariables
from crowdppl.posterior.workers.others import GRID, accuracy_density, class_by_others, differences, quantiles

Array = npt.NDArray[Any]

# A worker has become worse if accuracy fell by FALL or more, and the probability that it fell leaves less than ALARMS false
# alarms in the whole crowd.
FALL, ALARMS = 0.1, 0.05
CHANGE_COLUMNS = [
    "worker",
    "annotations",
    "first_half",
    "second_half",
    "change",
    "change_low",
    "change_high",
    "worse",
]
# A worker is fast below this share of the duration of the others, given at least this many annotations with a duration.
FAST, MIN_TIMED = 1 / 3, 10


@checked
def accuracy_over_time(
    posterior: PosteriorVariables, worker: Identifier = None, *, windows: TwoOrMore = 5, level: Level | None = None
) -> pd.DataFrame:
    """Return the accuracy in successive windows of a worker's annotations.

    Annotations are split by time into ``windows`` parts of equal size. In each the accuracy is estimated by the labels that the
    other workers gave the same items, and by known true labels.

    Args:
        posterior: a result of annotations with timestamps.
        worker: one worker. Defaults to all with at least two annotations per window.
        windows: number of windows.
        level: probability of the intervals.

    Returns:
        A table with one row per worker and window: ``worker``, ``window`` from 1, ``annotations``, ``begins``, ``ends``
        (timestamps of its first and last annotation), ``accuracy``, ``low``, ``high``.

    Raises:
        OptionError: if the annotations have no timestamps.
        DataError: for an unknown worker.
    """
    level = default_level(level)
    timestamp = posterior.annotation_metadata("timestamp")
    chosen = list(_in_time(posterior, worker, 2 * windows if worker is None else windows))
    parts = [part for _, order in chosen for part in np.array_split(order, windows)]
    density = _densities(posterior, parts)
    low, high = quantiles(density, np.array(tails(level))).T
    return pd.DataFrame(
        {
            "worker": pd.Series([name for name, _ in chosen for _ in range(windows)], dtype=object).infer_objects(),
            "window": np.tile(np.arange(1, windows + 1), len(chosen)),
            "annotations": [len(part) for part in parts],
            "begins": [timestamp[part[0]] for part in parts],
            "ends": [timestamp[part[-1]] for part in parts],
            "accuracy": density @ GRID,
            "low": low,
            "high": high,
        }
    )


@checked
def accuracy_change(
    posterior: PosteriorVariables, *, level: Level | None = None, minimum: NonNegativeInt = 10
) -> pd.DataFrame:
    """Return the change of each worker's accuracy from the first to the second half of their annotations.

    Args:
        posterior: a result of annotations with timestamps.
        level: probability of the intervals.
        minimum: minimum number of annotations of a worker.

    Returns:
        A table with one row per worker: ``worker``, ``annotations``, ``first_half`` and ``second_half``, the accuracies as
        :func:`accuracy_over_time` estimates them, ``change`` (positive: better later) with ``change_low`` and
        ``change_high``, and ``worse``, the probability that the second half is worse.

    Raises:
        OptionError: if the annotations have no timestamps.
    """
    level = default_level(level)
    chosen = list(_in_time(posterior, None, max(2, minimum)))
    density = _densities(posterior, [part for _, order in chosen for part in np.array_split(order, 2)])
    first, second = density[::2], density[1::2]
    values, worse = differences(first, second)
    low, high = equal_tailed(values, level, axis=1)
    return pd.DataFrame(
        {
            "worker": pd.Series([name for name, _ in chosen], dtype=object).infer_objects(),
            "annotations": [len(order) for _, order in chosen],
            "first_half": first @ GRID,
            "second_half": second @ GRID,
            "change": (second - first) @ GRID,
            "change_low": low,
            "change_high": high,
            "worse": worse,
        }
    )


@checked
def became_worse(posterior: PosteriorVariables) -> pd.DataFrame:
    """Return the workers whose accuracy fell over time, largest fall first.

    A worker is listed if accuracy fell by at least .1 from the first to the second half of the annotations, with a probability so
    high that fewer than one crowd in twenty has a false alarm: 1 - .05 / (number of workers).

    Args:
        posterior: a result.

    Returns:
        Rows of :func:`accuracy_change`, with ``sentence``, which states the fall; none without timestamps.
    """
    if "timestamp" not in posterior.tree["constant_data"]:
        return pd.DataFrame(columns=[*CHANGE_COLUMNS, "sentence"])
    table = accuracy_change(posterior)
    fell = (table["change"] <= -FALL) & (table["worse"] >= 1 - ALARMS / max(1, len(table)))
    table = table[fell].sort_values("change", kind="stable").reset_index(drop=True)
    table["sentence"] = [
        f"Accuracy fell over time, from {row['first_half']:.0%} in the first half of {row['annotations']:,} annotations to "
        f"{row['second_half']:.0%} in the second."
        for row in table.to_dict("records")
    ]
    return table


@checked
def median_seconds(posterior: PosteriorVariables) -> Array:
    """Return the median duration of each worker's annotations, in the unit of the data: ``(J,)``, NaN without durations.

    Raises:
        OptionError: if the annotations have no durations.
    """
    duration = posterior.annotation_metadata("seconds")
    _, worker, _ = posterior.annotation_index()
    medians = pd.Series(duration).groupby(worker).median()
    return medians.reindex(range(len(posterior.worker_names()))).to_numpy()


@checked
def relative_speed(posterior: PosteriorVariables) -> Array:
    """Return the median duration of each worker relative to the others: ``(J,)``, below 1 for faster workers.

    The reference is the median of the medians of the other workers. NaN if fewer than ten annotations of the worker, or of every
    other worker, have a duration.
    """
    J = len(posterior.worker_names())
    if "seconds" not in posterior.tree["constant_data"]:
        return np.full(J, np.nan)
    duration = posterior.annotation_metadata("seconds")
    _, worker, _ = posterior.annotation_index()
    known = ~np.isnan(duration)
    medians = median_seconds(posterior)
    enough = np.bincount(worker[known], minlength=J) >= MIN_TIMED
    out = np.full(J, np.nan)
    timed = np.flatnonzero(enough)
    if len(timed) < 2:
        return out
    ordered = np.sort(medians[timed])
    position = np.searchsorted(ordered, medians[timed])
    # The median of all but one: of the ordered list without it.
    middle = np.array([(len(timed) - 2) // 2, (len(timed) - 1) // 2])
    others = ordered[middle[None, :] + (position[:, None] <= middle[None, :])].mean(1)
    out[timed] = np.divide(medians[timed], others, out=np.full(len(timed), np.nan), where=others > 0)
    return out


def _in_time(posterior: PosteriorVariables, worker: Any, minimum: int) -> Iterator[tuple[Any, Array]]:
    """Yield workers and the indices of their annotations in order of time, without annotations that have no timestamp."""
    timestamp = posterior.annotation_metadata("timestamp")
    _, by, _ = posterior.annotation_index()
    names = posterior.worker_names()
    chosen = range(len(names)) if worker is None else [posterior.worker_index(worker)]
    timed = np.flatnonzero(~np.isnan(timestamp))
    order = timed[np.lexsort((timestamp[timed], by[timed]))]
    starts = np.searchsorted(by[order], np.arange(len(names) + 1))
    for j in chosen:
        indices = order[starts[j] : starts[j + 1]]
        if len(indices) >= minimum:
            yield names[j], indices
        elif worker is not None:
            raise OptionError(
                f"worker {worker!r} has {len(indices):,} annotations with a timestamp; at least {minimum:,} are needed"
            )


def _densities(posterior: PosteriorVariables, parts: list[Array]) -> Array:
    """Return the posterior of the accuracy in sets of annotations, on a grid, see :func:`accuracy_density`."""
    correct, _ = class_by_others(posterior)
    order = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    group = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return accuracy_density(correct[order], group, len(parts), len(posterior.labels))
