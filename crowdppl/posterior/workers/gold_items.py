"""Gold questions: accuracy of workers on items whose true label is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from crowdppl.arguments import Level, checked
from crowdppl.errors import OptionError
from crowdppl.posterior.known_truth import truth_indices
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.variables import PosteriorVariables


@checked
def gold_accuracy(posterior: PosteriorVariables, truth: Any = None, *, level: Level | None = None) -> pd.DataFrame:
    """Return the share of correct annotations on items with known true labels, without a model.

    Args:
        posterior: a result.
        truth: true labels, see :func:`crowdppl.criticism.coverage`. Defaults to those known to the fit.
        level: probability of the equal-tailed intervals under the Jeffreys prior Beta(.5, .5).

    Returns:
        A table with one row per worker: ``worker``, ``annotations`` of these items, number ``correct``, their share ``score``
        (NaN without annotations), ``low``, ``high``.

    Raises:
        OptionError: if neither ``truth`` nor the fit has known true labels.
    """
    from scipy.special import betaincinv  # here: slow to import

    level = default_level(level)
    known = posterior.known_truth() if truth is None else truth_indices(posterior, truth, new=False)
    if (known < 0).all():
        raise OptionError("the fit knew no true labels; pass those of some items with truth=...")
    item, worker, label = posterior.annotation_index()
    kept = known[item] >= 0
    J = len(posterior.worker_names())
    total = np.bincount(worker[kept], minlength=J)
    correct = np.bincount(worker[kept & (known[item] == label)], minlength=J)
    low, high = (betaincinv(0.5 + correct, 0.5 + total - correct, q) for q in ((1 - level) / 2, (1 + level) / 2))
    return pd.DataFrame(
        {
            "worker": posterior.worker_names(),
            "annotations": total,
            "correct": correct,
            "score": np.where(total > 0, correct / np.maximum(total, 1), np.nan),
            "low": low,
            "high": high,
        }
    )
