"""Gold questions: accuracy of workers on items whose true label is known, of all classes together and by class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Level, checked
from crowdppl.errors import OptionError
from crowdppl.posterior.intervals import jeffreys
from crowdppl.posterior.known_truth import truth_indices
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]


@checked
def gold_accuracy(
    posterior: PosteriorVariables, truth: Any = None, *, level: Level | None = None, by_class: bool = False
) -> pd.DataFrame:
    """Return the share of correct annotations on items with known true labels, without a model.

    Where known items are not a random sample, for example as many of each class, the score over all of them does not estimate the
    accuracy on the items of the data. The score of a class still estimates the worker's sensitivity.

    Args:
        posterior: a result.
        truth: true labels, see :func:`crowdppl.criticism.coverage`. Defaults to those known to the fit.
        level: probability of the equal-tailed intervals under the Jeffreys prior Beta(.5, .5).
        by_class: count the items of each true class by themselves.

    Returns:
        A table with one row per worker: ``worker``, ``annotations`` of these items, number ``correct``, their share ``score``
        (NaN without annotations), ``low``, ``high``. With ``by_class`` one row per worker and ``class`` of known items.

    Raises:
        OptionError: if neither ``truth`` nor the fit has known true labels.
    """
    level = default_level(level)
    known = posterior.known_truth() if truth is None else truth_indices(posterior, truth, new=False)
    if (known < 0).all():
        raise OptionError("the fit knew no true labels; pass those of some items with truth=...")
    item, worker, label = posterior.annotation_index()
    kept = known[item] >= 0
    J, K = len(posterior.worker_names()), len(posterior.labels)
    row, shape = worker[kept] * K + known[item[kept]], (J, K)
    right = known[item[kept]] == label[kept]
    total = np.bincount(row, minlength=J * K).reshape(shape)
    correct = np.bincount(row[right], minlength=J * K).reshape(shape)
    if not by_class:
        return pd.DataFrame({"worker": posterior.worker_names()} | _scores(total.sum(1), correct.sum(1), level))
    classes = np.unique(known[known >= 0])
    names = {
        "worker": np.repeat(posterior.worker_names(), len(classes)),
        "class": np.tile(posterior.labels[classes], J),
    }
    return pd.DataFrame(names | _scores(total[:, classes].ravel(), correct[:, classes].ravel(), level))


def _scores(total: Array, correct: Array, level: float) -> dict[str, Array]:
    """Return the columns of a table of numbers of annotations and of correct ones, ``(R,)`` each."""
    low, high = jeffreys(correct, total - correct, level)
    score = np.where(total > 0, correct / np.maximum(total, 1), np.nan)
    return {"annotations": total, "correct": correct, "score": score, "low": low, "high": high}
