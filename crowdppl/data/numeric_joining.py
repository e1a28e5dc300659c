"""Two sets of annotations that are numbers as one: earlier ones, and those that came later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.features import in_order
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.numeric_reading import numeric_annotations
from crowdppl.data.table.identifiers import kind_of
from crowdppl.data.table.repeats import Repeats
from crowdppl.errors import DataError


def joined_numbers(
    before: NumericAnnotations, more: NumericAnnotations, repeats: Repeats | None = None
) -> NumericAnnotations:
    """Return the annotations of both.

    Raises:
        DataError: for names of another kind, two true numbers of one item, or repeated annotations that are refused.
    """
    tables = [_frame(one) for one in (before, more)]
    for what, one, other in (("task", before.items, more.items), ("worker", before.workers, more.workers)):
        if kind_of(one) != kind_of(other):
            raise DataError(
                f"{what}s of the further annotations are {kind_of(other)}, those of the result {kind_of(one)}; write both alike"
            )
    known: dict[Any, float] = {}
    for data in (before, more):
        for item, value in zip(data.items[data.known.numpy()].tolist(), data.truth[data.known].tolist(), strict=True):
            if known.setdefault(item, value) != value:
                raise DataError(
                    f"two different true numbers for item {item!r}: {known[item]:g} and {value:g}; keep one of them"
                )
    if before.D != more.D:
        raise DataError(
            f"{before.D:,} features of items in the earlier annotations, {more.D:,} in the further ones; give both the same"
        )
    features = None
    if before.D:
        first, second = (_features(one) for one in (before, more))
        features = pd.concat(
            [first, in_order(second, before.feature_names, "features").set_axis(first.columns, axis=1)]
        )
        features = features[~features.index.duplicated(keep="last")]
    return numeric_annotations(
        pd.concat(tables, ignore_index=True),
        truth=known or None,
        items=list(dict.fromkeys([*before.items.tolist(), *more.items.tolist()])),
        workers=list(dict.fromkeys([*before.workers.tolist(), *more.workers.tolist()])),
        repeats=before.repeats if repeats is None else repeats,
        scale=before.scale,
        features=features,
        source="the annotations",
    )


def _features(data: NumericAnnotations) -> pd.DataFrame:
    """Return the features of items, with the items as the index."""
    assert data.features is not None
    columns = None if data.feature_names is None else list(data.feature_names)
    return pd.DataFrame(data.features.cpu().numpy(), index=pd.Index(data.items), columns=columns)


def _frame(data: NumericAnnotations) -> pd.DataFrame:
    names = {"task": data.items[data.item.numpy()], "worker": data.workers[data.worker.numpy()]}
    return pd.DataFrame(names | {"label": np.asarray(data.value)})
