"""Correlation of criteria across items: by people, and by judges, who may carry their impression over to all criteria."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import positions
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.people.human_likelihood import counts_by_item

Array = npt.NDArray[Any]
# Draws of the table of labels on two criteria; items from which a correlation is stated; and pseudo-items (Perks 1947).
DRAWS, FEWEST, PSEUDO_ITEMS = 2000, 5, 1.0
COLUMNS = (
    "criterion_a",
    "criterion_b",
    "labelled",
    "correlation",
    "correlation_low",
    "correlation_high",
    "judged",
    "of_verdicts",
)


def correlations(results: Mapping[Any, TruthDraws]) -> pd.DataFrame:
    """Return a row for each pair of criteria: the correlation of what they add to the rates, across items.

    Columns:

    - ``criterion_a``, ``criterion_b``;
    - ``labelled``: number of items that people labelled on both;
    - ``correlation`` of these labels with its interval; NaN with fewer than :data:`FEWEST` items, or where all have one label.
      Items count as independent: the table of their labels has a Dirichlet posterior with :data:`PSEUDO_ITEMS` pseudo-items;
    - ``judged``: number of items with verdicts on both, and ``of_verdicts``: the correlation of the mean verdicts on them. If
      it is much higher than that of the labels, judges carry their impression from one criterion over to the other (a halo
      effect, Thorndike 1920).
    """
    rows = []
    for a, b in combinations(results, 2):
        first, second = results[a], results[b]
        row = {"criterion_a": a, "criterion_b": b} | _of_people(first, second)
        own, other = _mean_verdicts(first), _mean_verdicts(second)
        common = own.index.intersection(other.index)
        x, y = own[common].to_numpy(), other[common].to_numpy()
        varied = len(common) >= FEWEST and np.ptp(x) > 0 and np.ptp(y) > 0
        rows.append(row | {"judged": len(common), "of_verdicts": np.corrcoef(x, y)[0, 1] if varied else np.nan})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_people(first: TruthDraws, second: TruthDraws) -> dict[str, Any]:
    """Return the number of items that people labelled on both criteria, and the correlation with its interval."""
    none = {"labelled": 0} | dict.fromkeys(("correlation", "correlation_low", "correlation_high"), np.nan)
    if first.human is None or second.human is None:
        return none
    (items, own), (others, other) = (
        counts_by_item(one.human, len(one.verdicts.labels)) for one in (first, second) if one.human is not None
    )
    names, other_names = first.verdicts.items[items], second.verdicts.items[others]
    common = np.array([name for name in names.tolist() if name in set(other_names.tolist())], dtype=names.dtype)
    own, other = own[positions(common, names)], other[positions(common, other_names)]
    share, other_share = own / own.sum(1, keepdims=True), other / other.sum(1, keepdims=True)
    varied = np.ptp(share @ first.value) > 0 and np.ptp(other_share @ second.value) > 0 if len(common) else False
    if len(common) < FEWEST or not varied:
        return none | {"labelled": len(common)}
    drawn = posterior(share.T @ other_share, first.value, second.value)
    return {"labelled": len(common)} | first.columns("correlation", drawn)


def posterior(table: Array, value: Array, other: Array) -> Array:
    """Return draws of the correlation of two values, ``(D,)``, given numbers of items by both, ``(K, K')``."""
    drawn = np.random.default_rng(0).standard_gamma(table + PSEUDO_ITEMS / table.size, (DRAWS, *table.shape))
    p = drawn / drawn.sum((1, 2), keepdims=True)
    row, column = p.sum(2), p.sum(1)
    x, y = value - (row @ value)[:, None], other - (column @ other)[:, None]
    covariance = np.einsum("dkl,dk,dl->d", p, x, y)
    return np.asarray(covariance / np.sqrt((row * x**2).sum(1) * (column * y**2).sum(1)))


def _mean_verdicts(draws: TruthDraws) -> pd.Series[float]:
    """Return the mean value of the verdicts on each item that has some, by its name."""
    v = draws.verdicts
    given = v.label >= 0
    number = np.bincount(v.item[given], minlength=len(v.items))
    total = np.bincount(v.item[given], draws.value[v.label[given]], len(v.items))
    judged = number > 0
    return pd.Series(total[judged] / number[judged], index=v.items[judged])
