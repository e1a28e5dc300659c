"""The order of annotations by item, and what is kept of several of an item by one worker."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse

from crowdppl.data.table.identifiers import rows_text
from crowdppl.errors import DataError

Array = npt.NDArray[Any]
Repeats = Literal["keep", "last", "refuse"]


def _in_time(pair: pd.Series[Any], time: Array | None) -> Array:
    """Return the order of rows by time, ``(n,)``; rows of a pair with an unknown time, and of equal times, keep their order."""
    if time is None:
        return np.arange(len(pair))
    unknown = pair.isin(pair[np.isnan(time)]).to_numpy()
    return np.argsort(np.where(unknown, 0.0, time), kind="stable")


def sort_by_item(item: npt.NDArray[np.int64], items: int) -> Array | slice:
    """Return the stable order ``(A,)`` that sorts annotations by item; a slice of everything if they are sorted."""
    if bool((item[1:] >= item[:-1]).all()):
        return slice(None)
    # Conversion to compressed sparse rows is a counting sort: linear time.
    position = np.arange(len(item))
    rows = scipy.sparse.coo_array((np.ones(len(item), dtype=np.int8), (item, position)), shape=(items, len(item)))
    return rows.tocsr().indices


def repeated(
    item: Array,
    worker: Array,
    label: Array,
    repeats: Repeats,
    rows: Array | None,
    source: str,
    notes: list[str],
    time: Array | None = None,
) -> Array | None:
    """Return which annotations ``(A,)`` to keep under the policy for repeated ones; ``None`` for all.

    Args:
        item: item of each annotation, ``(A,)``.
        worker: worker of each, ``(A,)``.
        label: code of the label of each, ``(A,)``.
        repeats: the policy.
        rows: rows of the annotations in the table, for messages; ``None`` if they are the whole table.
        source: name of the table in messages.
        notes: sentences on what was found, added to.
        time: of each, ``(A,)``, NaN if unknown: the last of a pair is the latest where the times of all its annotations are
            known, and otherwise the one that stands last.

    Raises:
        DataError: for repeated annotations that are to be refused.
    """

    def pair_codes() -> Array:
        key = item * (int(worker.max()) + 1)
        key += worker
        return key

    key = pair_codes()
    key.sort()
    repeated_keys = key[1:][key[1:] == key[:-1]]
    if len(repeated_keys) == 0:
        return None
    key = pair_codes()
    # Repeats are rare: the remaining steps use their rows only.
    at = np.flatnonzero(pd.Index(key, copy=False).isin(pd.unique(repeated_keys)))
    pair = pd.Series(key[at])
    later = pair.duplicated(keep="first").to_numpy()
    if repeats == "refuse":
        raise DataError(
            f"{source}, {rows_text(at[later], of=rows)}: the worker has annotated the item before; drop the rows, or choose "
            f"repeats='keep' (all annotations count) or repeats='last'"
        )
    if repeats == "last":
        by_time = _in_time(pair, None if time is None else time[at])
        dropped = at[by_time][pair.iloc[by_time].duplicated(keep="last").to_numpy()]
        notes.append(
            f"{source}: kept the last of repeated annotations, {len(dropped):,} earlier ones dropped (by the order of the rows"
            f"{'' if time is None else ', and by their times where these are known'})"
        )
        keep = np.ones(len(key), dtype=bool)
        keep[dropped] = False
        return keep
    # Rows with distinct labels of a pair: a pair with more than one contradicts itself.
    labels = pd.DataFrame({"pair": pair, "label": label[at]}).drop_duplicates()
    differing = labels["pair"].duplicated().to_numpy()
    notes.append(
        f"{source}: {int(later.sum()):,} repeated annotations of an item by the same worker kept "
        f"({labels['pair'][differing].nunique():,} worker-item pairs have different labels)"
    )
    return None
