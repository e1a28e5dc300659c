"""True classes that a fit was not given, or was: by item, as codes of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.errors import DataError, OptionError, listed
from crowdppl.intake import ITEM_COLUMNS, LABEL_COLUMNS, column_of

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

Array = npt.NDArray[Any]


def codes(posterior: Posterior, truth: Any, *, new: bool = True) -> Array:
    """Return true classes as codes ``(N,)`` in the order of the result's items, -1 where unknown.

    Args:
        posterior: a result.
        truth: a mapping or Series by item, or a frame with the item's and the label's column.
        new: refuse truths all of which the fit knew.

    Raises:
        OptionError: for truths that are not new.
        DataError: where no item is known, an item has two classes, or a class is not one of the result's.
    """
    if isinstance(truth, pd.DataFrame):
        item = column_of(truth, None, ITEM_COLUMNS, "the truth", "name it 'item' or 'task'")
        label = column_of(truth, None, LABEL_COLUMNS, "the truth", "name it 'label'")
        truth = truth.dropna(subset=[item, label]).set_index(item)[label]
    if isinstance(truth, Mapping):
        truth = pd.Series(dict(truth))
    if not isinstance(truth, pd.Series):
        raise DataError(f"the truth is a {type(truth).__name__}; pass a mapping or Series by item, or a frame")
    names, labels = posterior.items().tolist(), posterior.labels.tolist()
    item_at, label_at = ({name: n for n, name in enumerate(values)} for values in (names, labels))
    out = np.full(len(names), -1)
    for name, label in zip(truth.index.tolist(), truth.tolist(), strict=True):
        n = item_at.get(name)
        if n is None:
            continue
        if label not in label_at:
            raise DataError(f"the truth of {name!r} is {label!r}, not a class of the result: {listed(labels)}")
        if out[n] >= 0 and out[n] != label_at[label]:
            raise DataError(f"the truth gives two classes for {name!r}; keep one")
        out[n] = label_at[label]
    if (out < 0).all():
        raise DataError(
            f"no item of the truth is in the result: its items are like {listed(names, 3)}, those of the truth like "
            f"{listed(truth.index.tolist(), 3)}"
        )
    if new and bool((posterior.known_truth()[out >= 0] >= 0).all()):
        raise OptionError("the fit knew all of these truths; compare with others, or fit without them")
    return out
