"""Workers over time: learning, fatigue, drift, and durations of annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.errors import OptionError
from crowdppl.posterior.measures import default_level, interval
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# Pseudo-counts of correct and wrong annotations in each window (Jeffreys prior).
PRIOR = 0.5
# A worker is fast below this share of the duration of the others, given at least this many annotations with a duration.
FAST, MIN_TIMED = 1 / 3, 10


@arguments.checked(
    posterior=arguments.posterior,
    worker=arguments.identifier,
    windows=arguments.whole(2),
    level=arguments.level,
    seed=arguments.seed,
)
def accuracy_over_time(
    posterior: PosteriorVariables, worker: Any = None, *, windows: int = 5, level: float | None = None, seed: int = 0
) -> pd.DataFrame:
    """Return the accuracy in successive windows of a worker's annotations.

    Annotations are split by time into ``windows`` parts of equal size. In each draw, the number of correct annotations is counted
    by the true labels drawn, and the accuracy is drawn given the count.

    Args:
        posterior: a result of annotations with timestamps.
        worker: one worker. Defaults to all with at least two annotations per window.
        windows: number of windows.
        level: probability of the intervals.
        seed: random seed.

    Returns:
        A table with one row per worker and window: ``worker``, ``window`` from 1, ``annotations``, ``begins``, ``ends``
        (timestamps of its first and last annotation), ``accuracy``, ``low``, ``high``.

    Raises:
        OptionError: if the annotations have no timestamps.
        DataError: for an unknown worker.
    """
    rng = np.random.default_rng(seed)
    timestamp = posterior.annotation_metadata("timestamp")
    rows: list[dict[str, Any]] = []
    for name, order in _in_time(posterior, worker, 2 * windows if worker is None else windows):
        for number, part in enumerate(np.array_split(order, windows), 1):
            mean, low, high = interval(_accuracy(posterior, part, rng)[:, None], level)
            rows.append(
                {
                    "worker": name,
                    "window": number,
                    "annotations": len(part),
                    "begins": timestamp[part[0]],
                    "ends": timestamp[part[-1]],
                    "accuracy": mean[0],
                    "low": low[0],
                    "high": high[0],
                }
            )
    columns = ["worker", "window", "annotations", "begins", "ends", "accuracy", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


@arguments.checked(
    posterior=arguments.posterior, level=arguments.level, minimum=arguments.whole(0), seed=arguments.seed
)
def accuracy_change(
    posterior: PosteriorVariables, *, level: float | None = None, minimum: int = 10, seed: int = 0
) -> pd.DataFrame:
    """Return the change of each worker's accuracy from the first to the second half of their annotations.

    Args:
        posterior: a result of annotations with timestamps.
        level: probability of the intervals.
        minimum: minimum number of annotations of a worker.
        seed: random seed.

    Returns:
        A table with one row per worker: ``worker``, ``annotations``, ``change`` (positive: better later) with ``change_low`` and
        ``change_high``, and ``worse``, the probability that the second half is worse.

    Raises:
        OptionError: if the annotations have no timestamps.
    """
    level = default_level(level)
    rng = np.random.default_rng(seed)
    rows = []
    for name, order in _in_time(posterior, None, max(2, minimum)):
        first, second = (_accuracy(posterior, part, rng) for part in np.array_split(order, 2))
        mean, low, high = interval((second - first)[:, None], level)
        rows.append((name, len(order), mean[0], low[0], high[0], float((second < first).mean())))
    return pd.DataFrame(rows, columns=["worker", "annotations", "change", "change_low", "change_high", "worse"])


@arguments.checked(posterior=arguments.posterior)
def median_seconds(posterior: PosteriorVariables) -> Array:
    """Return the median duration of each worker's annotations, in the unit of the data: ``(J,)``, NaN without durations.

    Raises:
        OptionError: if the annotations have no durations.
    """
    duration = posterior.annotation_metadata("seconds")
    _, worker, _ = posterior.annotation_index()
    medians = pd.Series(duration).groupby(worker).median()
    return medians.reindex(range(len(posterior.worker_names()))).to_numpy()


@arguments.checked(posterior=arguments.posterior)
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


def _accuracy(posterior: PosteriorVariables, part: Array, rng: np.random.Generator) -> Array:
    """Draw the accuracy of a set of annotations, ``(S,)``."""
    item, _, label = posterior.annotation_index()
    correct = (posterior.truth_draws()[:, item[part]] == label[part]).sum(1)  # (S,)
    return rng.beta(PRIOR + correct, PRIOR + len(part) - correct)
