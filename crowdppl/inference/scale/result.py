"""The result of a fit that holds neither annotations nor true labels in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd

from crowdppl.errors import OptionError, suggestion
from crowdppl.model.base import Parameters
from crowdppl.posterior.workers import interval

__all__ = ["LargeResult"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LargeResult:
    """The result of :func:`crowdppl.stream` and :func:`crowdppl.distribute`.

    Attributes:
        parameters: of the model, by site: of EM its point, of Gibbs sampling and ``"vb"`` the mean, of ``"svi"`` the median.
        workers: a row for each: ``worker``, ``annotations``, ``accuracy``, and where it is no point ``accuracy_low`` and
            ``accuracy_high``.
        labels: the classes, ``(K,)``.
        items: how many there are.
        annotations: how many there are.
        facts: how the computation went. Of :func:`crowdppl.stream` ``objective``, for each pass but the first, of the parameters
            before it: the log posterior, or the bound of the evidence (in the first they change on the way); of SVI minus the
            mean loss of every pass. Of :func:`crowdppl.distribute` ``largest_share``, the annotations that one process holds at
            most, and ``converged``; by EM ``iterations``, ``evaluations``, ``log_posterior`` and ``log_likelihood``; by Gibbs
            sampling ``chains``, ``warmup``, ``num_samples``, and of what was watched the largest ``r_hat`` and the smallest
            effective sample size, ``ess``.
        interval_method: how intervals arise, in words.
        consensus: the file, or the folder of files, of the true labels; ``None`` where none were asked for.
    """

    parameters: Parameters
    workers: pd.DataFrame
    labels: Array
    items: int
    annotations: int
    facts: dict[str, Any]
    interval_method: str
    consensus: Path | None = None


def require_method(method: str, methods: Mapping[str, str], how: str) -> None:
    """Refuse a method that data beyond memory are not fitted by; ``how`` says in what way they are fitted.

    Raises:
        OptionError: for such a method.
    """
    if method not in methods:
        raise OptionError(f"no method {method!r} {how}{suggestion(method, methods)}; use one of {', '.join(methods)}")


def described(result: LargeResult) -> dict[str, Any]:
    """Return what a command records of any such result."""
    return {
        "interval_method": result.interval_method,
        "items": result.items,
        "annotations": result.annotations,
        "classes": len(result.labels),
    }


def worker_table(names: Array, annotations: Array, accuracy: Array | None, draws: Array, level: float) -> pd.DataFrame:
    """Return the table of workers.

    Args:
        names: of the workers, ``(J,)``.
        annotations: of each, ``(J,)``.
        accuracy: at a point, ``(J,)``; ``None`` for the mean of the draws.
        draws: of the accuracy, ``(S, J)``; none for a point.
        level: probability of the intervals.
    """
    table = pd.DataFrame({"worker": names, "annotations": annotations})
    if len(draws):
        mean, low, high = interval(draws, level)
        return table.assign(accuracy=mean if accuracy is None else accuracy, accuracy_low=low, accuracy_high=high)
    return table.assign(accuracy=accuracy)
