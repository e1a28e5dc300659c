"""Trapping sets: what workers said of items whose class is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.errors import OptionError
from crowdppl.posterior.known_truth import codes
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.variables import PosteriorVariables


@arguments.checked(posterior=arguments.posterior, truth=arguments.anything, level=arguments.level)
def gold_accuracy(posterior: PosteriorVariables, truth: Any = None, *, level: float | None = None) -> pd.DataFrame:
    """Return the share of right annotations on items of known truth, which needs no model.

    Args:
        posterior: a result.
        truth: true classes, see :func:`crowdppl.criticism.coverage`; those that the fit knew where not given.
        level: probability of the intervals (equal-tailed, under the Jeffreys prior Beta(.5, .5)).

    Returns:
        A row for each worker: ``worker``, ``annotations`` of known items, ``right`` of them, ``score`` (NaN without any), ``low``,
        ``high``.

    Raises:
        OptionError: where no truth is given and the fit knew none.
    """
    from scipy.special import betaincinv  # here, since it takes a while to load

    level = default_level(level)
    known = posterior.known_truth() if truth is None else codes(posterior, truth, new=False)
    if (known < 0).all():
        raise OptionError("the fit knew no truths; pass truth=, classes of some items")
    item, worker, label = posterior.annotation_index()
    kept = known[item] >= 0
    J = len(posterior.worker_names())
    total = np.bincount(worker[kept], minlength=J)
    right = np.bincount(worker[kept & (known[item] == label)], minlength=J)
    low, high = (betaincinv(0.5 + right, 0.5 + total - right, q) for q in ((1 - level) / 2, (1 + level) / 2))
    return pd.DataFrame(
        {
            "worker": posterior.worker_names(),
            "annotations": total,
            "right": right,
            "score": np.where(total > 0, right / np.maximum(total, 1), np.nan),
            "low": low,
            "high": high,
        }
    )
