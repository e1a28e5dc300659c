"""Accuracy against the number of annotations per item, on real annotations of which some are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl import arguments
from crowdppl.arguments import PositiveInt, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.experiments import thinned
from crowdppl.data.table.truths import known_truths, truth_codes, truth_columns
from crowdppl.errors import DataError, OptionError, silent
from crowdppl.inference.fit import fit
from crowdppl.model.base import AnnotationModel
from crowdppl.posterior.known_truth import tied_accuracy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]
Method = str | AnnotationModel | Callable[[Annotations], Any]


@dataclass(frozen=True)
class RedundancyCurve:
    """Accuracy of several methods at several numbers of annotations per item.

    Attributes:
        table: one row per method and number: ``method``, ``per_item``, ``accuracy``, the mean over draws, with its standard error
            ``error``, and ``draws``.
        draws: one row per method, number and draw: ``method``, ``per_item``, ``draw``, ``accuracy``.
    """

    table: pd.DataFrame
    draws: pd.DataFrame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy against annotations per item, a line for each method, with two standard errors."""
        import matplotlib.pyplot as plt  # here: slow to import

        if ax is None:
            _, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
        for name, rows in self.table.groupby("method", sort=False):
            ax.errorbar(
                rows["per_item"], rows["accuracy"], yerr=2 * rows["error"], marker="o", ms=4, capsize=2, label=str(name)
            )
        ax.set(xlabel="annotations per item", ylabel="accuracy")
        ax.legend(fontsize=8)
        return ax


@checked
def redundancy_curve(
    data: Annotations,
    truth: Any,
    methods: Annotated[Mapping[str, Method], arguments.mapping],
    levels: Annotated[Sequence[int], arguments.several(arguments.whole(1), 1, distinct=True)] = (2, 5, 10, 20),
    *,
    draws: PositiveInt = 20,
    seed: Seed = 0,
) -> RedundancyCurve:
    """Return the accuracy of methods on random subsets of the annotations, with so many of each item.

    All methods see the same subsets. A class that is tied with others counts in part.

    Args:
        data: the annotations.
        truth: true labels of some items: a mapping or Series by item, or a frame with an item and a label column. Methods do
            not see them.
        methods: by name: the name of a model or an instance, which is fitted by EM as published, or a
            function from annotations to a result with ``probability()``, such as :func:`crowdppl.aggregate.majority`.
        levels: numbers of annotations per item.
        draws: number of subsets at each level. At a level that leaves nothing out there is one.
        seed: of the subsets and the fits.

    Raises:
        OptionError: for no methods, or a method of another type.
        DataError: if no item of the truth is in the data.
    """
    if not methods:
        raise OptionError("methods is empty; pass at least one, by name")
    given = known_truths(truth_columns(None, (data.item_column, None), truth, "the truth"))
    known, _ = truth_codes(given, data.items, data.labels, "the data")
    if not (known >= 0).any():
        raise DataError("truth has no true label of an item of the data; pass a mapping from item to class")
    blind = replace(data, truth=torch.full_like(data.truth, -1))
    largest = int(data.annotations_per_item.max())
    rows = []
    for level in levels:
        for draw in range(draws if level < largest else 1):
            part = thinned(blind, per_item=level, seed=seed + draw)
            for name, method in methods.items():
                accuracy = tied_accuracy(_probability(name, method, part, seed + draw), known)
                rows.append({"method": name, "per_item": level, "draw": draw, "accuracy": accuracy})
    frame = pd.DataFrame(rows)
    by = frame.groupby(["method", "per_item"], sort=False)["accuracy"]
    table = by.agg(
        accuracy="mean", error=lambda values: values.std() / np.sqrt(len(values)), draws="size"
    ).reset_index()
    return RedundancyCurve(table, frame)


def _probability(name: str, method: Method, data: Annotations, seed: int) -> Array:
    if isinstance(method, (str, AnnotationModel)):
        with silent():
            return fit(data, method, method="em", seed=seed, independent=True).probability()
    if not callable(method):
        raise OptionError(
            f"methods[{name!r}] is a {type(method).__name__}; it must be a model, its name, or a function"
        )
    return np.asarray(method(data).probability())
