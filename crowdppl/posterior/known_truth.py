"""True labels of items as indices into the classes of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl.data.table.identifiers import kind_of, positions
from crowdppl.data.table.truths import known_truths, truth_columns, unmatched
from crowdppl.errors import DataError, OptionError, listed, warn
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]


def truth_indices(posterior: PosteriorVariables, truth: Any, *, new: bool = True) -> Array:
    """Return true labels as class indices ``(N,)`` in the order of the result's items, -1 if unknown.

    Args:
        posterior: a result.
        truth: a mapping or Series by item, or a frame of any library with an item and a label column. Truths of items that are
        not
            in the result are counted in a warning.
        new: refuse truths if the fit knew all of them.

    Raises:
        OptionError: if the fit knew all of the truths.
        DataError: if none of the items is in the result, an item has two truths, or a class is not one of the result's.
    """
    known = known_truths(
        truth_columns(None, (posterior.item_column, None), {} if truth is None else truth, "the truth")
    )
    items, labels = (_plain(names) for names in (posterior.items(), posterior.labels))
    position = _positions(known.item.names, items)[known.item.codes]
    index = _positions(known.label.names, labels)[known.label.codes]
    present = position >= 0
    if not present.any():
        examples = known.item.names[known.item.codes[:3]].tolist()
        raise DataError(
            f"none of the items of the truth is in the result, whose items are like {listed(items.tolist(), 3)}; those of the "
            f"truth are like {listed(examples, 3)}"
        )
    unknown = np.flatnonzero(present & (index < 0))
    if len(unknown):
        name, label = (part.names[part.codes[unknown[0]]] for part in (known.item, known.label))
        raise DataError(f"the truth of {name!r} is {label!r}, not a class of the result: {listed(labels.tolist())}")
    out = np.full(len(items), -1)
    out[position[present]] = index[present]
    if not present.all():
        warn(unmatched(known, position, items, "the result"))
    if new and bool((posterior.known_truth()[out >= 0] >= 0).all()):
        raise OptionError("the fit knew all of these truths; compare with other truths, or fit without them")
    return out


def tied_accuracy(probability: Array, known: Array) -> float:
    """Return the share of items of known class whose most probable class is correct; one that is tied with others counts in part.

    Args:
        probability: of the classes, ``(N, K)``.
        known: class of each item, ``(N,)``, -1 if it is not known.
    """
    p, k = probability[known >= 0], known[known >= 0]
    # Sums of equal weights in another order may differ in the last digits.
    top = p >= p.max(1, keepdims=True) * (1 - 1e-12)
    return float((top / top.sum(1, keepdims=True))[np.arange(len(p)), k].mean())


def _plain(names: Array) -> Array:
    return names if names.dtype.kind in "iub" else names.astype(object)


def _positions(values: Array, names: Array) -> Array:
    """Return the position of each value among names, -1 if absent; integers and strings are compared as text."""
    if {kind_of(values), kind_of(names)} == {"integers", "strings"}:
        values, names = (np.array([str(name) for name in part.tolist()], dtype=object) for part in (values, names))
    if len(values) == 0 or kind_of(values) != kind_of(names):
        return np.full(len(values), -1)
    return positions(values, names)
