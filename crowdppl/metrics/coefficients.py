"""Agreement of workers, corrected for chance: Krippendorff's alpha, Fleiss' kappa, Gwet's AC1 and AC2.

All coefficients are ``(observed - expected) / (1 - expected)`` agreement and differ in what is expected by chance. They allow for
items with different numbers of annotations. Items with one worker say nothing about agreement; they count for the frequencies of
labels, except in Krippendorff's alpha. Pairs are of different workers: what a worker says of an item several times counts as one
label in all, and agreement of a worker with himself is a measure of its own.

Sources: J. L. Fleiss (1971), Psychological Bulletin 76, 378-382; K. Krippendorff (2019), Content analysis, 4th edition, chapter
12; K. L. Gwet (2014), Handbook of inter-rater reliability, 4th edition, chapters 2 to 5, whose forms for missing annotations
these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Level, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.worker_items import WorkerItems
from crowdppl.errors import DataError, warn
from crowdppl.metrics.scales import Weights, label_weights, places
from crowdppl.metrics.score_intervals import TINY, score_interval
from crowdppl.posterior.measures import default_level

Array = npt.NDArray[Any]

ORDER = ("agreement", "krippendorff_alpha", "fleiss_kappa", "gwet_ac")


@dataclass(frozen=True)
class Coefficient:
    """A coefficient before its interval.

    Attributes:
        observed: observed agreement.
        expected: agreement expected by chance.
        influence: derivative of the coefficient by the weight of each unit, ``(n,)``; its squares add up to the variance.
    """

    observed: float
    expected: float
    influence: Array

    @classmethod
    def corrected(cls, observed: float, expected: float, by_observed: Array, by_expected: Array) -> Coefficient:
        """Return the coefficient with the influences of the units on observed and expected agreement, each ``(n,)``."""
        beyond = 1 - expected
        if not beyond > TINY:
            return cls(observed, expected, np.zeros(len(by_observed)))
        value = (observed - expected) / beyond
        return cls(observed, expected, (by_observed - (1 - value) * by_expected) / beyond)

    def row(self, measure: str, units: int, level: float) -> dict[str, Any]:
        """Return value and interval as a row of a table; NaN if all labels are the same."""
        n = len(self.influence)
        variance = float(np.square(self.influence).sum()) * n / max(1, n - 1)
        low, high = score_interval(self.observed, self.expected, variance, units, level)
        beyond = 1 - self.expected
        value = (self.observed - self.expected) / beyond if beyond > TINY else np.nan
        return {"measure": measure, "value": float(value), "low": low, "high": high, "items": units}


@checked
def agreement(data: Annotations, *, weights: Weights = "nominal", level: Level | None = None) -> pd.DataFrame:
    """Return agreement of the workers on the items, with intervals.

    Rows: ``agreement``, the share of pairs of workers of an item that agree, mean over items; ``krippendorff_alpha``;
    ``fleiss_kappa``; ``gwet_ac``, AC1 for nominal labels and AC2 for weighted ones; and, if workers labelled items several
    times, ``intra_rater``, the share of pairs of such labels that agree. Columns: ``measure``, ``value``, ``low`` and ``high``,
    and ``items``, the number with two workers or more; of ``intra_rater``, the number of pairs of a worker and an item.

    The intervals are over items: which items were drawn is uncertain, the workers are those of the data. They are Wilson's, with
    an effective number of items, so that they do not shrink to a point where all labels agree. Coefficients are NaN if all
    labels are the same.

    Args:
        data: the annotations; known true labels are not used. Labels that one worker gave an item several times count as one
            label in all, so that they are not taken for agreement of workers.
        weights: ``"nominal"`` for labels that agree or do not. For ordered labels, which agree in part: ``"linear"`` or
            ``"quadratic"`` in the distance, of the numbers where labels are numbers and otherwise of the places in ``labels``;
            or ``"ordinal"``, by the order alone, with Krippendorff's ordinal difference in his alpha.
        level: probability of the intervals. Defaults to ArviZ's default, .89.

    Raises:
        DataError: if fewer than two items have two workers, or the data have one class.
        OptionError: for weights of ordered labels, if the labels are words whose order was not stated.
    """
    level = default_level(level)
    if data.K < 2:
        raise DataError("the data have one class; agreement needs two")
    place = places(data, weights)
    cells = WorkerItems.of(data.by_criterion())
    several = cells.raters > 1
    items = int(several.sum())
    w = label_weights(place, weights)
    rows = []
    if items > 1:
        coefficients = _by_items(cells, _own_agreement(cells, w), several, w)
        coefficients["krippendorff_alpha"] = _alpha(cells, several, place, weights)
        rows += [coefficients[name].row(name, items, level) for name in ORDER]
    if len(cells.repeated) > 1:
        rows.append(_intra_rater(cells, w).row("intra_rater", len(cells.repeated), level))
    if not rows:
        raise DataError(
            f"{items} items have two annotations or more by different workers; agreement needs two such items"
        )
    if items < 2:
        warn(
            f"{items} items have labels of two workers: only the agreement of workers with their own repeats is measured"
        )
    undefined = [row["measure"] for row in rows if np.isnan(row["value"])]
    if undefined:
        warn(f"all labels are the same, so that {', '.join(undefined)} is undefined (NaN)")
    return pd.DataFrame(rows)


def _own_agreement(cells: WorkerItems, w: Array) -> Array:
    """Return the agreement of each cell's labels with themselves, summed over the cells of each item, ``(N,)``."""
    own = np.ones(len(cells.item))
    share = cells.shares[cells.repeated].toarray()
    own[cells.repeated] = np.einsum("ck,kl,cl->c", share, w, share)
    return np.bincount(cells.item, weights=own, minlength=cells.items)


def _by_items(cells: WorkerItems, own: Array, several: Array, w: Array) -> dict[str, Coefficient]:
    """Return observed agreement, Fleiss' kappa and Gwet's AC, whose units are items."""
    K = len(w)
    some = cells.raters > 0
    votes, n, several = cells.votes[some], cells.raters[some], several[some]
    pairs = np.where(several, n * (n - 1), 1)
    agreeing = np.where(several, ((votes * (votes @ w)).sum(1) - own[some]) / pairs, 0.0)
    observed = float(agreeing.sum() / several.sum())
    by_observed = np.where(several, agreeing - observed, 0.0) / several.sum()
    share = votes / n[:, None]
    mean = share.mean(0)
    apart = (share - mean) / len(share)
    scale = w.sum() / (K * (K - 1))
    return {
        "agreement": Coefficient(observed, 0.0, by_observed[several]),
        "fleiss_kappa": Coefficient.corrected(observed, float(mean @ w @ mean), by_observed, 2 * apart @ w @ mean),
        "gwet_ac": Coefficient.corrected(
            observed, float(scale * (mean * (1 - mean)).sum()), by_observed, scale * (apart * (1 - 2 * mean)).sum(1)
        ),
    }


def _alpha(cells: WorkerItems, several: Array, place: Array, weights: Weights) -> Coefficient:
    """Return Krippendorff's alpha: expected are the pairs of all labels of items with several workers, in and between items.

    His ordinal difference of two labels is the squared difference of their mean ranks among all labels, which depend on the data.
    """
    votes, n = cells.votes[several], cells.raters[several]
    total, counts = n.sum(), votes.sum(0)
    below = (place[:, None] < place).astype(float) + 0.5 * (place[:, None] == place)  # (label, whose rank)
    w = label_weights(counts @ below, "quadratic") if weights == "ordinal" else label_weights(place, weights)
    own = _own_agreement(cells, w)[several]
    together = ((votes * (votes @ w)).sum(1) - own) / (n - 1)
    observed = float(together.sum() / total)
    pairs = total * (total - 1)
    expected = float((counts @ w @ counts - own.sum()) / pairs)
    by_observed = (together - observed * n) / total
    by_expected = (2 * votes @ w @ counts - own - expected * n * (2 * total - 1)) / pairs
    if weights == "ordinal":
        rank = counts @ below
        by_rank = -4 * (rank[:, None] - rank) / max(float(np.ptp(rank)), TINY) ** 2
        item_weights = np.zeros(cells.items)
        item_weights[several] = 1 / (n - 1)
        selves = _own_pairs(cells, item_weights)
        pairs_together = votes.T @ (votes / (n - 1)[:, None]) - selves
        pairs_apart = np.outer(counts, counts) - _own_pairs(cells, several.astype(float))
        moved = votes @ below  # what each item adds to the ranks
        by_observed = by_observed + moved @ (pairs_together * by_rank).sum(1) / total
        by_expected = by_expected + moved @ (pairs_apart * by_rank).sum(1) / pairs
    return Coefficient.corrected(observed, expected, by_observed, by_expected)


def _own_pairs(cells: WorkerItems, item_weights: Array) -> Array:
    """Return the pairs of labels within cells, weighted by item, ``(K, K)``."""
    share = cells.shares
    weighted = share * item_weights[cells.item][:, None]
    return np.asarray((share.T @ weighted).todense())


def _intra_rater(cells: WorkerItems, w: Array) -> Coefficient:
    """Return how often a worker gives an item the same label again; units are pairs of a worker and an item."""
    counts, size = cells.counts[cells.repeated].toarray(), cells.size[cells.repeated]
    agreeing = ((counts * (counts @ w)).sum(1) - size) / (size * (size - 1))
    observed = float(agreeing.mean())
    return Coefficient(observed, 0.0, (agreeing - observed) / len(agreeing))
