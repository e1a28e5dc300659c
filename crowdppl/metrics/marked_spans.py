"""Agreement of workers on spans, by the F measure.

G. Hripcsak and A. S. Rothschild (2005), Agreement, the F-measure, and reliability in information retrieval, JAMIA 12(3), 296-298:
what nobody marks cannot be counted, so that kappa is not defined, and the F measure is what it tends to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Level, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.sequences import Tags, all_chosen, given_spans, number_chosen
from crowdppl.errors import DataError
from crowdppl.metrics.coefficients import Coefficient
from crowdppl.posterior.measures import default_level

Array = npt.NDArray[Any]
# The row of all types.
ALL = "all"


@checked
def span_agreement(data: Annotations, *, level: Level | None = None) -> pd.DataFrame:
    """Return how often another worker marks the span that a worker has marked.

    Only tokens that both workers labelled count: for each marked span, the other workers who labelled all of its tokens. Over
    pairs of workers this share is the F measure ``2 tp / (2 tp + fp + fn)`` of one against the other, pooled.

    Columns: ``type`` of the spans, first ``"all"``; ``spans``, the number marked, each worker's by itself; ``exact`` with
    ``exact_low`` and ``exact_high``, the share where the other worker marked the same tokens with the same type; ``overlap`` with
    its ends, the share where the other worker marked a span of the type that has a token in common. Intervals are over sequences,
    as in :func:`agreement` over items. NaN where nobody else labelled the tokens.

    Args:
        data: labels such as ``B-PER``, ``I-PER`` and ``O`` of tokens of sequences.
        level: probability of the intervals. Defaults to ArviZ's default, .89.

    Raises:
        DataError: for data without sequences, or without labels of spans.
    """
    tags = Tags.of(data.labels)
    if data.sequence is None or tags is None:
        raise DataError(
            "no spans to compare: read labels such as B-PER, I-PER and O with sequence=... and position=..., or use "
            "metrics.agreement"
        )
    level = default_level(level)
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    own = given_spans(tags, item, worker, label, data.following.cpu().numpy())
    others, same, overlapping = _matches(own, item, worker, data.N)
    sequence = data.sequence.cpu().numpy()[own[:, 1]]
    rows = []
    of_type = [(name, own[:, 3] == number) for number, name in enumerate(tags.types)]
    for name, kept in [(ALL, np.ones(len(own), dtype=bool)), *of_type]:
        exact, overlap = (_row(matched[kept], others[kept], sequence[kept], level) for matched in (same, overlapping))
        row = {"type": name, "spans": int(kept.sum())}
        for column, values in (("exact", exact), ("overlap", overlap)):
            row |= {column + end: values[key] for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))}
        rows.append(row)
    return pd.DataFrame(rows)


def _row(matched: Array, others: Array, sequence: Array, level: float) -> dict[str, Any]:
    """Return the share of matched pairs of a span and another worker, with its interval.

    Args:
        matched: number of other workers who marked each span, ``(M,)``.
        others: number of other workers who labelled its tokens.
        sequence: of each span.
        level: probability of the interval.
    """
    total = others.sum()
    if total == 0:
        return {"value": np.nan, "low": np.nan, "high": np.nan}
    share = float(matched.sum() / total)
    _, unit = np.unique(sequence[others > 0], return_inverse=True)
    by_unit = np.bincount(unit, weights=(matched - share * others)[others > 0])
    return Coefficient(share, 0.0, by_unit / total).row("", len(by_unit), level)


def _matches(own: Array, item: Array, worker: Array, items: int) -> tuple[Array, Array, Array]:
    """Return for each marked span the number of other workers who labelled, marked and touched it, ``(M,)`` each.

    Args:
        own: rows (worker, first item, item after the last, type), ``(M, 4)``.
        item: of each annotation, ``(A,)``.
        worker: of each annotation.
        items: number of items ``N``.
    """
    by, first, end, kind = own.T
    order = np.argsort(worker, kind="stable")
    starts = np.searchsorted(worker[order], np.arange(worker.max(initial=-1) + 2))
    labelled, same, touched = (np.zeros(len(own), dtype=np.int64) for _ in range(3))
    identity = pd.MultiIndex.from_arrays([first, end, kind])
    for j in np.unique(worker).tolist():
        there = all_chosen(item[order[starts[j] : starts[j + 1]]], first, end, items) & (by != j)
        labelled += there
        mine = own[by == j]
        same += there & identity.isin(list(map(tuple, mine[:, 1:].tolist())))
        for t in np.unique(mine[:, 3]).tolist():
            inside = np.concatenate([np.arange(*span[1:3]) for span in mine[mine[:, 3] == t]])
            touched += there & (kind == t) & (number_chosen(inside, first, end, items) > 0)
    return labelled, same, touched
