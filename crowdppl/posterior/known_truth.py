"""True classes that a fit was not given, or was: by item, as codes of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.identifiers import kind_of, positions
from crowdppl.data.truths import known_truths, truth_columns, unmatched
from crowdppl.errors import DataError, OptionError, listed, warn
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]


def codes(posterior: PosteriorVariables, truth: Any, *, new: bool = True) -> Array:
    """Return true classes as codes ``(N,)`` in the order of the result's items, -1 where unknown.

    Args:
        posterior: a result.
        truth: a mapping or Series by item, or a frame of any library with the item's and the label's column. Truths of items
            that the result does not have are counted in a warning.
        new: refuse truths all of which the fit knew.

    Raises:
        OptionError: for truths that are not new.
        DataError: where no item is known, an item has two truths, or a class is not one of the result's.
    """
    known = known_truths(
        truth_columns(None, (posterior.item_column, None), {} if truth is None else truth, "the truth")
    )
    items, labels = (_plain(names) for names in (posterior.items(), posterior.labels))
    place = _places(known.item.names, items)[known.item.codes]
    code = _places(known.label.names, labels)[known.label.codes]
    here = place >= 0
    if not here.any():
        told = known.item.names[known.item.codes[:3]].tolist()
        raise DataError(
            f"no item of the truth is in the result: its items are like {listed(items.tolist(), 3)}, those of the truth like "
            f"{listed(told, 3)}"
        )
    strange = np.flatnonzero(here & (code < 0))
    if len(strange):
        name, label = (part.names[part.codes[strange[0]]] for part in (known.item, known.label))
        raise DataError(f"the truth of {name!r} is {label!r}, not a class of the result: {listed(labels.tolist())}")
    out = np.full(len(items), -1)
    out[place[here]] = code[here]
    if not here.all():
        warn(unmatched(known, place, items, "the result"))
    if new and bool((posterior.known_truth()[out >= 0] >= 0).all()):
        raise OptionError("the fit knew all of these truths; compare with others, or fit without them")
    return out


def _plain(names: Array) -> Array:
    return names if names.dtype.kind in "iub" else names.astype(object)


def _places(values: Array, names: Array) -> Array:
    """Return the place of each value among names, -1 where it has none: integers and text are compared as they are written."""
    if {kind_of(values), kind_of(names)} == {"integers", "strings"}:
        values, names = (np.array([str(name) for name in part.tolist()], dtype=object) for part in (values, names))
    if len(values) == 0 or kind_of(values) != kind_of(names):
        return np.full(len(values), -1)
    return positions(values, names)
