"""Labels that are numbers: scores, counts, lengths, places on a bounded scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data import html
from crowdppl.data.features import column_names, matrix
from crowdppl.data.frames import indexed
from crowdppl.data.table.columns import ITEM_COLUMNS
from crowdppl.data.table.repeats import Repeats

Array = npt.NDArray[Any]
# Distances between neighbouring values, as a share of the standard deviation, below which values are not on a grid.
FINE = 1e-3


@dataclass(frozen=True, eq=False)
class NumericAnnotations:
    """Annotations of ``N`` items by ``J`` workers whose labels are numbers, ``A`` annotations in all.

    :meth:`crowdppl.Annotations.from_frame` creates one with ``kind="numeric"``, or where labels are numbers that are not whole.
    Annotations are sorted by item; within an item they keep their original order.

    Attributes:
        item: item of each annotation, ``(A,)`` int64, ascending.
        worker: worker of each annotation, ``(A,)`` int64.
        value: the number given, ``(A,)`` float64.
        truth: known true number of each item, ``(N,)`` float64, NaN if unknown.
        items: the caller's item identifiers, ``(N,)``.
        workers: the caller's worker identifiers, ``(J,)``.
        scale: lowest and highest number of a bounded scale, whose ends stand for everything beyond; ``None`` for an unbounded
            one.
        notes: what was dropped or unusual, in sentences.
        item_column: name of the item column in tables, ``"task"`` or ``"item"``.
        repeats: treatment of repeated annotations of an item by one worker.
        features: item features, ``(N, D)`` float64, or ``None``.
        feature_names: names of the features, ``D`` of them, if they came as a table with names.
    """

    item: Tensor
    worker: Tensor
    value: Tensor
    truth: Tensor
    items: Array
    workers: Array
    scale: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    item_column: str = "task"
    repeats: Repeats = "keep"
    features: Tensor | None = None
    feature_names: tuple[str, ...] | None = None

    @property
    def N(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def J(self) -> int:
        """Number of workers."""
        return len(self.workers)

    @property
    def A(self) -> int:
        """Number of annotations."""
        return len(self.item)

    @property
    def D(self) -> int:
        """Number of features of an item, 0 without any."""
        return 0 if self.features is None else self.features.shape[-1]

    @property
    def kind(self) -> Literal["numeric"]:
        """The kind of labels."""
        return "numeric"

    @cached_property
    def known(self) -> Tensor:
        """Mask of items whose true number is known, ``(N,)``."""
        return ~self.truth.isnan()

    @cached_property
    def spacing(self) -> float:
        """Distance between neighbouring values of the scale, 0 for numbers that are not rounded."""
        values = self.value.unique()  # sorted
        if len(values) < 2:
            return 0.0
        least = float(values.diff().min())
        return least if least > FINE * float(self.value.std()) else 0.0

    @checked
    def to(self, device: Annotated[str | torch.device, arguments.place] | None = None) -> Self:
        """Return the same data on a device."""
        moved: dict[str, Any] = {} if device is None else {name: v.to(device) for name, v in self.tensors().items()}
        return replace(self, **moved) if moved else self

    def tensors(self) -> dict[str, Tensor]:
        """Return the fields that are tensors, by name."""
        fields = ("item", "worker", "value", "truth", "features")
        return {name: value for name in fields if (value := getattr(self, name)) is not None}

    @checked
    def with_features(self, features: Any) -> Self:
        """Return the same annotations with features of the items, on which models let the true number depend.

        Args:
            features: a frame of numbers with the tasks as its index, in any order (rows of other tasks are ignored); a table of
                another library with the tasks in a column ``task`` or ``item``; or an array ``(N, D)`` in the order of ``items``.
                ``None`` removes them.

        Raises:
            DataError: if rows are missing, repeated or not finite, or columns are not numeric; the message names them.
        """
        if features is None:
            return replace(self, features=None, feature_names=None)
        features = indexed(features, ITEM_COLUMNS, "features")
        values = torch.from_numpy(matrix(features, self.items, "task", "features")).to(self.value.device)
        return replace(self, features=values, feature_names=column_names(features))

    def means(self) -> tuple[Array, Array]:
        """Return the mean of each item's labels, ``(N,)``, NaN without any, and their number."""
        item, value = self.item.cpu().numpy(), self.value.cpu().numpy()
        count = np.bincount(item, minlength=self.N)
        total = np.bincount(item, weights=value, minlength=self.N)
        return np.divide(total, count, out=np.full(self.N, np.nan), where=count > 0), count

    def __repr__(self) -> str:
        known = int(self.known.sum())
        low, high = (float(f(self.value)) for f in (torch.min, torch.max))
        return (
            f"NumericAnnotations({self.A:,} numbers from {low:g} to {high:g}, of {self.N:,} items by {self.J:,} workers"
            f"{f', truth of {known:,} items known' if known else ''}{f', {self.D:,} features' if self.D else ''})"
        )

    def _repr_html_(self) -> str:
        """Return the size and the notes, for notebooks."""
        return html.view(repr(self), *self.notes)
