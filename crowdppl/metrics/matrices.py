"""Jensen-Shannon divergence of confusion matrices: I-JS and G-JS of Mena and Ñanculef (2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.truths import known_truths, truth_codes, truth_columns
from crowdppl.errors import DataError, OptionError

Array = npt.NDArray[Any]


def _matrices(name: str, value: Any) -> Array:
    """Return confusion matrices ``(..., K, K)``.

    Raises:
        OptionError: unless the rows are probabilities.
    """
    try:
        table = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise arguments.refuse(name, value, "confusion matrices, an array of numbers (..., K, K)") from None
    if table.ndim < 2 or table.shape[-1] != table.shape[-2] or not table.size:
        raise OptionError(f"{name} has shape {table.shape}; it must be (..., K, K) = (..., true label, given label)")
    if not ((table >= 0) & np.isfinite(table)).all() or not np.allclose(table.sum(-1), 1, atol=1e-6):
        raise OptionError(f"{name}: rows must be probabilities that sum to 1")
    return table


@checked
def divergence(first: Any, second: Any) -> Array:
    """Return the Jensen-Shannon divergence of the rows of confusion matrices in bits, mean over rows, ``(...)``.

    It is 0 for equal matrices, and 1 for those whose rows have no label in common.

    Args:
        first: matrices ``(..., K, K)``.
        second: likewise; leading axes broadcast.

    Raises:
        OptionError: for other shapes, or rows that are no probabilities.
    """
    return _divergence("first", first, "second", second)


def _divergence(name: str, first: Any, other_name: str, second: Any) -> Array:
    """Return :func:`divergence` of two arguments by their names."""
    one, other = _matrices(name, first), _matrices(other_name, second)
    if one.shape[-1] != other.shape[-1]:
        raise OptionError(
            f"{name} has {one.shape[-1]} classes and {other_name} {other.shape[-1]}; they must be the same"
        )
    try:
        np.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        raise OptionError(
            f"{name} has shape {one.shape} and {other_name} {other.shape}; pass matrices of the same workers, or one for all"
        ) from None
    tiny = np.finfo(float).tiny  # half of a smaller number may be zero
    one, other = (np.where(p < tiny, 0.0, p) for p in (one, other))
    middle = (one + other) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.where(p > 0, p * np.log2(p / middle), 0.0).sum(-1) for p in (one, other)]
    return np.asarray(((parts[0] + parts[1]) / 2).mean(-1))


@checked
def individual_divergence(confusion: Any, reference: Any) -> float:
    """Return I-JS: the divergence of each worker's matrix from its reference, mean over workers.

    Args:
        confusion: of the workers, ``(J, K, K)``.
        reference: likewise, such as :func:`empirical_confusion`.
    """
    return float(_divergence("confusion", confusion, "reference", reference).mean())


@checked
def global_divergence(confusion: Any, reference: Any) -> float:
    """Return G-JS: the divergence of the crowd's matrix, the mean of the workers', from that of the reference.

    Args:
        confusion: of the workers, ``(J, K, K)``, or of the crowd, ``(K, K)``.
        reference: likewise.
    """
    own, other = (
        table.reshape(-1, *table.shape[-2:]).mean(0)
        for table in (_matrices("confusion", confusion), _matrices("reference", reference))
    )
    return float(_divergence("confusion", own, "reference", other).mean())


@checked
def empirical_confusion(data: Annotations, truth: Any) -> Array:
    """Return each worker's confusion matrix by known true labels, ``(J, K, K)``; uniform rows for classes not annotated.

    Args:
        data: the annotations.
        truth: true labels of some items: a mapping or Series by item, or a frame with an item and a label column.

    Raises:
        DataError: if no item of the truth is in the data.
    """
    given = known_truths(truth_columns(None, (data.item_column, None), truth, "the truth"))
    known, _ = truth_codes(given, data.items, data.labels, "the data")
    if not (known >= 0).any():
        raise DataError("truth has no true label of an item of the data; pass a mapping from item to class")
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    kept = known[item] >= 0
    K = data.K
    cell = (worker[kept] * K + known[item[kept]]) * K + label[kept]
    counts = np.bincount(cell, minlength=data.J * K * K).reshape(data.J, K, K).astype(float)
    total = counts.sum(-1, keepdims=True)
    return np.divide(counts, total, out=np.full_like(counts, 1 / K), where=total > 0)
