"""Scales of labels: how far two labels agree, from their numbers or from the order that the caller states."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from crowdppl.data.annotations import Annotations
from crowdppl.data.table.identifier_checks import numbers
from crowdppl.errors import OptionError, listed

Array = npt.NDArray[Any]
Weights = Literal["nominal", "ordinal", "linear", "quadratic"]
WEIGHTS = ("nominal", "ordinal", "linear", "quadratic")


def places(data: Annotations, weights: Weights) -> Array:
    """Return the place of each class on a scale, ``(K,)``: its number, or its position in a stated order.

    Raises:
        OptionError: for three classes or more that are words in no stated order, unless the weights are nominal.
    """
    values = numbers(data.labels)
    if values is not None and len(np.unique(values)) == data.K:
        return values
    if weights != "nominal" and data.K > 2 and not data.labels_declared:
        raise OptionError(
            f"weights={weights!r} needs the order of the labels, and {listed(data.labels.tolist())} is alphabetical order; "
            f"state the order with labels=[...], lowest first, or use weights='nominal'"
        )
    return np.arange(data.K, dtype=float)


def label_weights(place: Array, weights: Weights) -> Array:
    """Return how far two labels agree, ``(K, K)``: 1 if they are the same, and for ordered labels less the farther apart.

    Args:
        place: place of each class on the scale, ``(K,)``, see :func:`places`.
        weights: ``linear`` and ``quadratic`` use the distance of the places, ``ordinal`` the number of pairs of classes from one
            label to the other (Gwet 2014, section 3.5).
    """
    K = len(place)
    if weights == "nominal":
        return np.eye(K)
    if weights == "ordinal":
        rank = np.argsort(np.argsort(place))
        apart = np.abs(rank[:, None] - rank)
        return np.asarray(1 - apart * (apart + 1) / max(1, K * (K - 1)))
    distance = np.abs(place[:, None] - place) / max(np.ptp(place), np.finfo(float).tiny)
    return np.asarray(1 - (distance if weights == "linear" else distance**2))
