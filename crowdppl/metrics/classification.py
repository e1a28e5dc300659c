"""ROC curve and area under it, of estimated true labels or of a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.errors import OptionError

Array = npt.NDArray[Any]


def _scored(probability: Any, truth: Any) -> tuple[Array, Array]:
    """Return scores ``(n, K)`` and one-hot truths ``(n, K)``, both with one column for two classes.

    Raises:
        OptionError: for other shapes, numbers that are not finite, or classes out of range.
    """
    try:
        score, known = np.asarray(probability, dtype=float), np.asarray(truth)
    except (TypeError, ValueError):
        raise arguments.refuse("probability", probability, "numbers, (n,) or (n, K)") from None
    if score.ndim not in (1, 2) or known.shape != score.shape[:1] or not len(known):
        raise OptionError(
            f"probability has shape {score.shape} and truth {known.shape}; they must be (n,) or (n, K), and (n,), with n above 0"
        )
    if not np.isfinite(score).all():
        raise OptionError("probability has values that are not finite")
    K = score.shape[1] if score.ndim == 2 else 2
    if known.dtype.kind not in "iub" or known.min() < 0 or known.max() >= K:
        raise OptionError(f"truth must be the numbers of classes, 0 to {K - 1}")
    if score.ndim == 1 or K == 2:
        return (score if score.ndim == 1 else score[:, 1])[:, None], (known == 1)[:, None].astype(float)
    return score, np.eye(K)[known.astype(int)]


@checked
def auc(probability: Any, truth: Any) -> float:
    """Return the area under the ROC curve: the probability that a positive scores higher than a negative, ties one half.

    Of more than two classes it is the mean over classes, each against the rest; classes that are not, or always, true are left
    out.

    Args:
        probability: of class 1, ``(n,)``, or of all classes, ``(n, K)``.
        truth: number of the true class, ``(n,)``.

    Raises:
        OptionError: for wrong shapes, or if all items are of one class.
    """
    areas = []
    for score, one in zip(*(table.T for table in _scored(probability, truth)), strict=True):
        positive = one == 1
        ones, zeros = int(positive.sum()), int((~positive).sum())
        if ones and zeros:
            ranks = pd.Series(score).rank().to_numpy()  # scipy.stats takes long to import
            areas.append((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))
    if not areas:
        raise OptionError("truth: all items are of one class; the area needs two")
    return float(np.mean(areas))


@checked
def roc(probability: Any, truth: Any) -> pd.DataFrame:
    """Return the ROC curve of two classes, from the highest threshold to the lowest.

    Columns: ``threshold``; ``false_positive_rate``; ``true_positive_rate`` of calling class 1 what scores at least the threshold.

    Args:
        probability: of class 1, ``(n,)``, or of both, ``(n, 2)``.
        truth: number of the true class, ``(n,)``.

    Raises:
        OptionError: for wrong shapes, more than two classes, or if all items are of one class.
    """
    score, positive = _scored(probability, truth)
    if score.shape[1] > 1:
        raise OptionError(
            "probability has more than two classes; pass the probability of one of them, and truth as 0 and 1"
        )
    if positive.min() == positive.max():
        raise OptionError("truth: all items are of one class; the curve needs two")
    order = np.argsort(-score[:, 0], kind="stable")
    ranked, ones = score[order, 0], positive[order, 0]
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # the last item of each score
    true = np.cumsum(ones)[last]
    columns = {
        "threshold": np.append(np.inf, ranked[last]),
        "false_positive_rate": np.append(0.0, (last + 1 - true) / (1 - ones).sum()),
        "true_positive_rate": np.append(0.0, true / ones.sum()),
    }
    return pd.DataFrame(columns)
