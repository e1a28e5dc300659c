"""Workers in time: learning, fatigue, drift, and how long an annotation takes."""

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

# Imaginary right and wrong answers in each window (Jeffreys).
START = 0.5
# A worker is fast below this share of the time that the others take, with at least this many annotations of known duration.
FAST, TIMED = 1 / 3, 10


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
    """Return accuracy in successive windows of a worker's annotations.

    Annotations are cut into ``windows`` parts of equal number by their time. In each draw those that are right by its truth are
    counted, and the accuracy drawn given the count.

    Args:
        posterior: a result of annotations with times.
        worker: one worker; all with at least two annotations a window where not given.
        windows: parts.
        level: probability of the intervals.
        seed: of the draws.

    Returns:
        A row for each worker and window: ``worker``, ``window`` from 1, ``annotations``, ``begins``, ``ends`` (the times of
        its first and last annotation), ``accuracy``, ``low``, ``high``.

    Raises:
        OptionError: where the annotations carry no times.
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
    """Return by how much each worker's accuracy changed from the first to the second half of the annotations.

    Args:
        posterior: a result of annotations with times.
        level: probability of the intervals.
        minimum: annotations a worker must have.
        seed: of the draws.

    Returns:
        A row for each worker: ``worker``, ``annotations``, ``change`` (above 0: better later) with ``change_low`` and
        ``change_high``, and ``worse``, the probability that the second half is the worse one.

    Raises:
        OptionError: where the annotations carry no times.
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
    """Return the median time of each worker's annotations, in the unit of the data: ``(J,)``, NaN where none is known.

    Raises:
        OptionError: where the annotations carry no durations.
    """
    took = posterior.annotation_metadata("seconds")
    _, worker, _ = posterior.annotation_index()
    medians = pd.Series(took).groupby(worker).median()
    return medians.reindex(range(len(posterior.worker_names()))).to_numpy()


@arguments.checked(posterior=arguments.posterior)
def relative_speed(posterior: PosteriorVariables) -> Array:
    """Return the median time of each worker over that of the others: ``(J,)``, below 1 for the faster.

    The others are taken as the median of their medians. NaN where less than ten annotations of a worker, or of all others, have
    a duration.
    """
    J = len(posterior.worker_names())
    if "seconds" not in posterior.tree["constant_data"]:
        return np.full(J, np.nan)
    took = posterior.annotation_metadata("seconds")
    _, worker, _ = posterior.annotation_index()
    known = ~np.isnan(took)
    medians = median_seconds(posterior)
    enough = np.bincount(worker[known], minlength=J) >= TIMED
    out = np.full(J, np.nan)
    held = np.flatnonzero(enough)
    if len(held) < 2:
        return out
    ordered = np.sort(medians[held])
    place = np.searchsorted(ordered, medians[held])
    # The median of all but one: of an ordered list with that one taken out.
    middle = np.array([(len(held) - 2) // 2, (len(held) - 1) // 2])
    others = ordered[middle[None, :] + (place[:, None] <= middle[None, :])].mean(1)
    out[held] = np.divide(medians[held], others, out=np.full(len(held), np.nan), where=others > 0)
    return out


def _in_time(posterior: PosteriorVariables, worker: Any, minimum: int) -> Iterator[tuple[Any, Array]]:
    """Yield workers and the places of their annotations in order of time; annotations without a time are left out."""
    timestamp = posterior.annotation_metadata("timestamp")
    _, by, _ = posterior.annotation_index()
    names = posterior.worker_names()
    chosen = range(len(names)) if worker is None else [posterior.worker_index(worker)]
    timed = np.flatnonzero(~np.isnan(timestamp))
    order = timed[np.lexsort((timestamp[timed], by[timed]))]
    starts = np.searchsorted(by[order], np.arange(len(names) + 1))
    for j in chosen:
        places = order[starts[j] : starts[j + 1]]
        if len(places) >= minimum:
            yield names[j], places
        elif worker is not None:
            raise OptionError(f"worker {worker!r} has {len(places):,} annotations with a time; {minimum:,} are needed")


def _accuracy(posterior: PosteriorVariables, part: Array, rng: np.random.Generator) -> Array:
    """Draw the accuracy in a set of annotations, ``(S,)``."""
    item, _, label = posterior.annotation_index()
    right = (posterior.truth_draws()[:, item[part]] == label[part]).sum(1)  # (S,)
    return rng.beta(START + right, START + len(part) - right)
