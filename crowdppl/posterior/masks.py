"""STAPLE, and raters of segmentations: how well each finds the elements of a class, counted in elements of the image."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.masks import Masks
from crowdppl.errors import DataError, listed
from crowdppl.models import DawidSkene
from crowdppl.posterior.posterior import Posterior


@checked
def staple(data: Annotations) -> DawidSkene:
    """Return the model of STAPLE for these data: flat priors, and the shares of the labels given as fixed prevalence.

    S. K. Warfield, K. H. Zou and W. M. Wells (2004). Simultaneous truth and performance level estimation (STAPLE): an algorithm
    for the validation of image segmentation. IEEE Transactions on Medical Imaging 23(7), 903-921.

    Raises:
        DataError: if nobody gave one of the classes.
    """
    votes = data.votes if data.multiplicity is None else data.votes * data.multiplicity.unsqueeze(-1)
    shares = votes.sum(0).double()
    if bool((shares == 0).any()):
        never = data.labels[(shares == 0).cpu().numpy()].tolist()
        raise DataError(f"STAPLE: nobody gave {listed(never, 3)}, whose share would be 0; leave it out")
    return dataclasses.replace(DawidSkene.maximum_likelihood(), prevalence=tuple((shares / shares.sum()).tolist()))


@checked
def rater_table(posterior: Posterior, masks: Masks) -> pd.DataFrame:
    """Return a table with a row for each rater and class but the lowest, which is the background.

    Columns: ``worker``; ``class``; ``elements``, the number that the rater gave the class; ``sensitivity``, the probability that
    an element of the class is given it, ``specificity``, that another one is not, and ``dice``, the overlap with the consensus:
    twice the common elements over those of both. No intervals: neighbouring elements are not independent, and hundreds of
    thousands of them would make any interval too narrow.

    Raises:
        DataError: if the result is not of these masks.
    """
    if not isinstance(masks, Masks):
        raise DataError(f"masks is a {type(masks).__name__}; pass the Masks whose annotations were fitted")
    if list(posterior.items()) != list(masks.annotations.items) or list(posterior.worker_names()) != list(masks.raters):
        raise DataError("the result is not one of these masks; fit their annotations")
    point = posterior.tree["point"].data_vars if "point" in posterior.tree.children else {}
    known = "confusion" in point
    confusion = point["confusion"].to_numpy() if known else posterior.draws("confusion").mean(0)  # (J, K, K)
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
