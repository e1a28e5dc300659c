"""Tables of spans: which ones a text has, and how well each worker marks them.

A worker's span is right with the probability that the truth has it, as :mod:`crowdppl.inference.spans` computes it for all spans
that somebody marked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.sequences import Tags, all_chosen, follows, given_spans
from crowdppl.errors import DataError
from crowdppl.posterior.intervals import jeffreys
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]
# Measures of a worker, each with the ends of its interval.
MEASURES = ("span_precision", "span_recall")


def has_spans(posterior: PosteriorVariables) -> bool:
    """Tell whether a result has spans."""
    return "spans" in posterior._known.children


class _Spans(NamedTuple):
    """Spans of a result, ``(M,)`` each: items, type, probability, and whether the most probable labels have them."""

    first: Array
    last: Array
    kind: Array
    probability: Array
    chosen: Array
    types: tuple[str, ...]


def _spans(posterior: PosteriorVariables) -> _Spans:
    tags = Tags.of(posterior.labels)
    if not has_spans(posterior) or tags is None:
        raise DataError(
            "the result has no spans; read labels such as B-PER, I-PER and O with sequence=... and position=..."
        )
    first, last, kind, probability, chosen = (
        posterior._values("spans", name) for name in ("first", "last", "type", "probability", "chosen")
    )
    return _Spans(first, last, kind, probability, chosen > 0, tags.types)


def table(posterior: PosteriorVariables, every: bool) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.spans` describes."""
    spans = _spans(posterior)
    sequence, position = (posterior._values("constant_data", name) for name in ("sequence_index", "position"))
    marked, labelled, _ = _by_worker(posterior, spans)
    rows = pd.DataFrame(
        {
            "sequence": posterior._values("constant_data", "sequence")[sequence[spans.first]],
            "first": position[spans.first],
            "last": position[spans.last],
            "type": np.array(spans.types, dtype=object)[spans.kind],
            "probability": spans.probability,
            "workers": marked.sum(0),
            "of_workers": labelled.sum(0),
            f"first_{posterior.item_column}": posterior.items()[spans.first],
            f"last_{posterior.item_column}": posterior.items()[spans.last],
        }
    )
    if every:
        rows.insert(5, "chosen", spans.chosen)
        return rows
    return rows[spans.chosen].reset_index(drop=True)


def columns(posterior: PosteriorVariables, level: float) -> dict[str, Array]:
    """Return what the table of workers says of spans: precision, recall and shares of errors, ``(J,)`` each by name."""
    spans = _spans(posterior)
    marked, labelled, own = _by_worker(posterior, spans)
    right = marked @ spans.probability
    missed = (labelled & ~marked) @ spans.probability
    out: dict[str, Array] = {"spans": marked.sum(1)}
    for name, failures in zip(MEASURES, (marked.sum(1) - right, missed), strict=True):
        total = right + failures
        share = np.divide(right, total, out=np.full(len(total), np.nan), where=total > 0)
        ends = jeffreys(right, failures, level)
        for suffix, value in zip(("", "_low", "_high"), (share, *ends), strict=True):
            out[name + suffix] = np.where(total > 0, value, np.nan)
    boundary, kind = _errors(spans, own)
    workers = len(marked)
    for name, wrong in (("boundary_errors", boundary), ("type_errors", kind)):
        count = np.bincount(own[:, 0], weights=wrong, minlength=workers)
        out[name] = np.divide(count, out["spans"], out=np.full(workers, np.nan), where=out["spans"] > 0)
    return out


def _by_worker(posterior: PosteriorVariables, spans: _Spans) -> tuple[Array, Array, Array]:
    """Return which spans each worker marked and which tokens they labelled all of, ``(J, M)``, and the workers' own spans."""
    following = follows(*(posterior._values("constant_data", name) for name in ("sequence_index", "position")))
    item, worker, label = (np.asarray(part, dtype=np.int64) for part in posterior.annotation_index())
    tags, workers, items = Tags.of(posterior.labels), len(posterior.worker_names()), len(posterior.items())
    assert tags is not None
    own = given_spans(tags, item, worker, label, following)
    places = pd.MultiIndex.from_arrays([spans.first, spans.last + 1, spans.kind])
    number = places.get_indexer(pd.MultiIndex.from_arrays(list(own[:, 1:].T)))
    marked = np.zeros((workers, len(spans.first)), dtype=bool)
    marked[own[number >= 0, 0], number[number >= 0]] = True
    labelled = np.zeros_like(marked)
    for j in range(workers):  # one row of tokens at a time: all together they may be large
        labelled[j] = all_chosen(item[worker == j], spans.first, spans.last + 1, items)
    return marked, labelled | marked, own


def _errors(spans: _Spans, own: Array) -> tuple[Array, Array]:
    """Return which of the workers' own spans overlap one of the most probable ones with other ends, and which differ in type.

    Args:
        spans: of the result.
        own: rows (worker, first item, item after the last, type), ``(n, 4)``.
    """
    first, end, kind = (part[spans.chosen] for part in (spans.first, spans.last + 1, spans.kind))
    if len(first) == 0:
        return np.zeros(len(own), dtype=bool), np.zeros(len(own), dtype=bool)
    # Chosen spans do not overlap each other: the last one that begins before the end of a span is the one to look at first.
    at = np.searchsorted(first, own[:, 2] - 1, side="right") - 1
    there = (at >= 0) & (end[at] > own[:, 1])
    same_ends = there & (first[at] == own[:, 1]) & (end[at] == own[:, 2])
    same_kind = kind[at] == own[:, 3]
    return there & ~same_ends & same_kind, same_ends & ~same_kind
