"""Soft answers: workers who state a probability of each class, as the annotations of Platanios et al. (2020) are.

A soft answer ``p (K,)`` has the likelihood ``prod_k P(label = k | truth) ** p_k``: that of labels of which there is a share
``p_k`` of each. Here it is ``parts`` labels, in numbers that are the nearest to ``parts * p_k``, of items with a weight of
``1 / parts``. So every model reads soft answers, exactly where they are in tenths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.arguments import PositiveInt, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.columns import series
from crowdppl.errors import DataError, listed

__all__ = ["from_probabilities"]


def __dir__() -> list[str]:
    return __all__


@checked
def from_probabilities(
    task: Annotated[Any, arguments.anything],
    worker: Annotated[Any, arguments.anything],
    probability: Annotated[npt.ArrayLike, arguments.array("answer", "class")],
    *,
    labels: Annotated[Iterable[Any] | None, arguments.a_list] = None,
    items: Iterable[Any] | None = None,
    workers: Iterable[Any] | None = None,
    features: Annotated[Any, arguments.anything] = None,
    parts: PositiveInt = 10,
) -> Annotations:
    """Return annotations from soft answers: the likelihood of each is that of labels in the shares of its probabilities.

    Args:
        task: item of each answer, ``(A,)``.
        worker: likewise.
        probability: of each class, ``(A, K)``; rows that sum to one up to rounding (.001).
        labels: the classes, ``K`` of them; by default their numbers.
        items: all items, in order, as in :meth:`crowdppl.Annotations.from_frame`; likewise the following.
        workers: see there.
        features: see there.
        parts: how finely answers are divided: probabilities are rounded to multiples of ``1 / parts``. There are so many
            annotations for each answer.

    Returns:
        Annotations with ``parts`` labels for each answer, and item weights of ``1 / parts``. Counts of annotations are those of
        the parts; likelihoods, and so the posterior, are those of the answers.

    Raises:
        DataError: if a probability is negative or not finite, a row does not sum to one, or the number of rows or of classes
            is another.
    """
    p = np.asarray(probability, dtype=float)
    names = list(range(p.shape[1])) if labels is None else list(labels)
    if len(names) != p.shape[1]:
        raise DataError(f"probability has {p.shape[1]} classes and labels {len(names)}; they must be the same")
    invalid = ~(np.isfinite(p).all(1) & (p >= 0).all(1) & (np.abs(p.sum(1) - 1) < 1e-3))
    if invalid.any():
        rows = (np.flatnonzero(invalid)[:3] + 1).tolist()
        raise DataError(f"probability, row {listed(rows)}: probabilities must be at least 0 and sum to one")
    counts = _parts(p, parts)
    given = {name: series(values, name) for name, values in (("task", task), ("worker", worker))}
    if any(len(values) != len(p) for values in given.values()):
        sizes = ", ".join(f"{name} has {len(values):,}" for name, values in given.items())
        raise DataError(
            f"the arrays differ in length: {sizes}, probability has {len(p):,}; pass one of each per answer"
        )
    for name, values in given.items():
        if values.isna().any():
            rows = (np.flatnonzero(values.isna())[:3] + 1).tolist()
            raise DataError(f"{name}, row {listed(rows)}: {name} missing; fill it in or drop the answers")
    label = np.repeat(np.tile(np.arange(len(names)), len(p)), counts.reshape(-1))
    data = Annotations.from_arrays(
        given["task"].repeat(parts),
        given["worker"].repeat(parts),
        np.array(names, dtype=object)[label] if labels is not None else label,
        labels=names,
        items=items,
        workers=workers,
        features=features,
    )
    # In place of a note on repeated labels.
    notes = (f"{len(p):,} soft answers, each as {parts} labels of weight 1 / {parts}",)
    return replace(data, notes=notes).with_weights(np.full(data.N, 1 / parts))


def _parts(p: npt.NDArray[Any], parts: int) -> npt.NDArray[Any]:
    """Return whole numbers ``(A, K)`` that sum to ``parts``, the nearest to ``parts * p``: the largest rests are rounded up."""
    exact = parts * p / p.sum(1, keepdims=True)
    # What differs from a whole number by rounding errors only is that number.
    down = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - down), axis=1, kind="stable")
    more = np.arange(p.shape[1]) < (parts - down.sum(1))[:, None]
    np.put_along_axis(down, order, np.take_along_axis(down, order, 1) + more, 1)
    return down
