"""Raters of segmentations: how well each finds the elements of a class, counted in elements of the image."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl import arguments
from crowdppl.data.masks import Masks
from crowdppl.errors import DataError
from crowdppl.posterior.posterior import Posterior


@arguments.checked(posterior=arguments.posterior, masks=arguments.anything)
def rater_table(posterior: Posterior, masks: Masks) -> pd.DataFrame:
    """Return a table with a row for each rater and class but the lowest, which is the background.

    Columns: ``worker``; ``class``; ``elements``, the number that the rater gave the class; ``sensitivity``, the probability that
    an element of the class is given it, ``specificity``, that another one is not, and ``dice``, the overlap with the consensus:
    twice the common elements over those of both. No intervals: neighbouring elements are not independent, and hundreds of
    thousands of them would make any interval too narrow.

    Raises:
        DataError: if the result is not of these masks.
    """
    if list(posterior.items()) != list(masks.annotations.items) or list(posterior.worker_names()) != list(masks.raters):
        raise DataError("the result is not one of these masks; fit their annotations")
    point = (
        posterior.tree["point"]
        if "point" in posterior.tree.children
        else posterior.tree["posterior"].mean(("chain", "draw"))
    )
    confusion = point["confusion"].to_numpy()  # (J, K, K)
    probability, votes, counts = posterior.probability(), masks.votes, masks.counts  # (N, K), (N, J), (N,)
    consensus = probability.argmax(-1)
    rows = []
    for j, name in enumerate(masks.raters.tolist()):
        table = confusion[j]  # (K, K)
        expected = (probability * counts[:, None]).sum(0)
        for k in range(1, probability.shape[1]):
            given, there = votes[:, j] == k, consensus == k
            others = np.delete(np.arange(len(expected)), k)
            share = expected[others] / max(expected[others].sum(), np.finfo(float).tiny)
            both = counts[given & there].sum()
            total = counts[given].sum() + counts[there].sum()
            rows.append(
                {
                    "worker": name,
                    "class": posterior.labels[k],
                    "elements": int(counts[given].sum()),
                    "sensitivity": table[k, k],
                    "specificity": 1 - share @ table[others, k],
                    "dice": 2 * both / total if total else np.nan,
                }
            )
    return pd.DataFrame(rows)
