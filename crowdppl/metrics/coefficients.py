"""Agreement of workers, corrected for chance: Krippendorff's alpha, Fleiss' and Cohen's kappa, Gwet's AC1 and AC2.

All coefficients are ``(observed - expected) / (1 - expected)`` agreement and differ in what is expected by chance. They allow for
items with different numbers of annotations. Items with one annotation say nothing about agreement; they count for the frequencies
of labels, except in Krippendorff's alpha.

Sources: J. L. Fleiss (1971), Psychological Bulletin 76, 378-382; K. Krippendorff (2019), Content analysis, 4th edition, chapter
12; K. L. Gwet (2014), Handbook of inter-rater reliability, 4th edition, chapters 2 to 5, whose forms for missing annotations
these are; J. Cohen (1960), Educational and Psychological Measurement 20, 37-46.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError
from crowdppl.posterior.measures import default_level

Array = npt.NDArray[Any]
Weights = Literal["nominal", "linear", "quadratic"]
WEIGHTS = ("nominal", "linear", "quadratic")


def label_weights(K: int, weights: Weights) -> Array:
    """Return how far two labels agree, ``(K, K)``: 1 if they are the same, and for ordered labels less the farther apart."""
    distance = np.abs(np.arange(K)[:, None] - np.arange(K)) / max(1, K - 1)
    return np.asarray(
        {"nominal": (distance == 0).astype(float), "linear": 1 - distance, "quadratic": 1 - distance**2}[weights]
    )


def _item_sums(votes: Array, w: Array) -> Array:
    """Return what each item adds to the sums that the coefficients are functions of, ``(N, 5 + 2 K)``.

    Columns: whether it has two annotations; its share of pairs that agree; whether it has any; its annotations, if it has two;
    its pairs that agree over annotations less one; shares of labels ``(K,)``; and numbers of labels, if it has two, ``(K,)``.
    """
    n = votes.sum(1)
    several = n > 1
    agreeing = (votes * (votes @ w - 1)).sum(1)  # ordered pairs of different annotations
    pairs = np.where(several, n * (n - 1), 1.0)
    share = np.divide(votes, n[:, None], out=np.zeros_like(votes), where=n[:, None] > 0)
    columns = [several, np.where(several, agreeing / pairs, 0.0), n > 0, np.where(several, n, 0.0)]
    columns.append(np.where(several, agreeing / np.where(several, n - 1, 1.0), 0.0))
    return np.column_stack([*columns, share, votes * several[:, None]])


def _coefficients(sums: Array, w: Array) -> dict[str, Array]:
    """Return the coefficients of sums over items ``(..., 5 + 2 K)``."""
    K = len(w)
    several, agreeing, any_, annotations, weighted = np.moveaxis(sums[..., :5], -1, 0)
    share, counts = sums[..., 5 : 5 + K] / any_[..., None], sums[..., 5 + K :]
    observed = agreeing / several
    fleiss = np.einsum("...k,kl,...l->...", share, w, share)
    gwet = w.sum() / (K * (K - 1)) * (share * (1 - share)).sum(-1)
    # Krippendorff: pairs of all annotations, in and between items, without an annotation with itself.
    together = weighted / annotations
    apart = (np.einsum("...k,kl,...l->...", counts, w, counts) - annotations) / (annotations * (annotations - 1))

    def corrected(observed: Array, expected: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((observed - expected) / (1 - expected))

    return {
        "agreement": observed,
        "krippendorff_alpha": corrected(together, apart),
        "fleiss_kappa": corrected(observed, fleiss),
        "gwet_ac": corrected(observed, gwet),
    }


@arguments.checked(data=arguments.annotation_data, weights=arguments.choice(*WEIGHTS), level=arguments.level)
def agreement(data: Annotations, *, weights: Weights = "nominal", level: float | None = None) -> pd.DataFrame:
    """Return agreement of the workers on the items, with intervals.

    Rows: ``agreement``, the share of pairs of annotations of an item that agree, mean over items; ``krippendorff_alpha``;
    ``fleiss_kappa``; and ``gwet_ac``, AC1 for nominal labels and AC2 for weighted ones. Columns: ``measure``, ``value``, ``low``
    and ``high``, and ``items``, the number with two annotations or more.

    The intervals are over items: which items were drawn is uncertain, the workers are those of the data. They come from the
    jackknife, with Student's t.

    Args:
        data: the annotations; known true labels are not used.
        weights: ``"nominal"`` for labels that agree or do not; ``"linear"`` or ``"quadratic"`` for ordered labels, in the order
            of ``data.labels``, which agree in part.
        level: probability of the intervals. Defaults to ArviZ's default, .89.

    Raises:
        DataError: if fewer than two items have two annotations, or the data have one class.
    """
    level = default_level(level)
    if data.K < 2:
        raise DataError("the data have one class; agreement needs two")
    votes = data.votes.cpu().double().numpy()
    w = label_weights(data.K, weights)
    each = _item_sums(votes, w)
    items = int(each[:, 0].sum())
    if items < 2:
        raise DataError(f"{items} items have two annotations or more; agreement needs two such items")
    used = each[each[:, 2] > 0]
    total = used.sum(0)
    values, without = _coefficients(total, w), _coefficients(total - used, w)
    n = len(used)
    width = special.stdtrit(items - 1, (1 + level) / 2)
    rows = []
    for name, value in values.items():
        left = without[name]
        error = np.sqrt((n - 1) / n * np.square(left - left.mean()).sum())
        low, high = (float(np.clip(value + sign * width * error, -1, 1)) for sign in (-1, 1))
        rows.append({"measure": name, "value": float(value), "low": low, "high": high, "items": items})
    return pd.DataFrame(rows)


@arguments.checked(
    data=arguments.annotation_data,
    minimum=arguments.whole(1),
    weights=arguments.choice(*WEIGHTS),
    level=arguments.level,
)
def pairwise_agreement(
    data: Annotations, *, minimum: int = 20, weights: Weights = "nominal", level: float | None = None
) -> pd.DataFrame:
    """Return agreement and Cohen's kappa of pairs of workers on their common items.

    Columns: ``first`` and ``second`` worker; ``items``, the number in common; ``agreement``; ``cohen_kappa`` with ``low`` and
    ``high``, by the jackknife over items. Of a worker's repeated annotations of an item the first counts.

    Args:
        data: the annotations.
        minimum: fewest common items of a pair.
        weights: as in :func:`agreement`.
        level: probability of the intervals. Defaults to ArviZ's default, .89.
    """
    level = default_level(level)
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    _, first = np.unique(worker * data.N + item, return_index=True)
    item, worker, label = item[first], worker[first], label[first]
    w = label_weights(data.K, weights)
    start = np.searchsorted(worker, np.arange(data.J + 1))
    rows = []
    for a in range(data.J):
        mine = slice(start[a], start[a + 1])
        for b in range(a + 1, data.J):
            theirs = slice(start[b], start[b + 1])
            _, here, there = np.intersect1d(item[mine], item[theirs], assume_unique=True, return_indices=True)
            if len(here) >= minimum:
                pair = (label[mine][here], label[theirs][there])
                rows.append({"first": data.workers[a], "second": data.workers[b], **_cohen(*pair, w, level)})
    return pd.DataFrame(rows, columns=["first", "second", "items", "agreement", "cohen_kappa", "low", "high"])


def _cohen(first: Array, second: Array, w: Array, level: float) -> dict[str, Any]:
    """Return Cohen's kappa of two workers' labels of the same items, each ``(n,)``."""
    n, eye = len(first), np.eye(len(w))
    one, other, agreeing = eye[first], eye[second], w[first, second]

    def kappa(agreeing: Array, one: Array, other: Array, n: int) -> Array:
        expected = np.einsum("...k,kl,...l->...", one, w, other) / n**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((agreeing / n - expected) / (1 - expected))

    value = float(kappa(agreeing.sum(), one.sum(0), other.sum(0), n))
    low = high = np.nan
    if n > 2:
        left = kappa(agreeing.sum() - agreeing, one.sum(0) - one, other.sum(0) - other, n - 1)
        error = np.sqrt((n - 1) / n * np.square(left - left.mean()).sum()) * special.stdtrit(n - 1, (1 + level) / 2)
        low, high = (float(np.clip(value + sign * error, -1, 1)) for sign in (-1, 1))
    return {"items": n, "agreement": float(agreeing.mean()), "cohen_kappa": value, "low": low, "high": high}
