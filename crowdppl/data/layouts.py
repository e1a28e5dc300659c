"""The same annotations in another layout: expanded, paired, in batches, or some of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.fields import AnnotationFields, Array, tensors
from crowdppl.data.table.criteria import BETWEEN
from crowdppl.data.table.identifiers import coded, encode
from crowdppl.errors import DataError

NO_SEQUENCES: dict[str, Any] = dict.fromkeys(("sequences", "sequence", "position", "previous", "set_labels"))
# Of annotations that are not by criteria.
NO_CRITERIA: dict[str, Any] = {"criteria": None, "criterion": None}
NO_COVARIATES: dict[str, Any] = {
    "standard_covariates": None,
    "covariate_names": (),
    "covariate_scales": (),
    "covariate_baselines": (),
    "covariate_values": (),
    "covariate_recipe": None,
}


class AnnotationLayouts(AnnotationFields):
    """Methods that return the annotations, or some of them, in another layout."""

    def item_label_cells(self) -> Self:
        """Return the expanded layout of the global setting: each distinct label of an item becomes an item of its own.

        ``C`` cells have ``label (C,)``, ``multiplicity (C,)``, the number of times the label was given, and ``parent_item (C,)``.
        The workers are left out, so the size does not grow with their number.
        """
        cell = self.votes.reshape(-1).nonzero().squeeze(-1)  # (C,)
        parent = torch.div(cell, self.K, rounding_mode="floor")
        count = self.votes.reshape(-1)[cell]
        if self.multiplicity is not None:
            count = count * self.multiplicity[parent]
        return self._expanded(parent, torch.zeros_like(parent), cell % self.K, count)

    def per_annotation(self) -> Self:
        """Return the layout in which each annotation is an item of its own: ``N = A``, ``parent_item`` the annotated item."""
        count = None if self.multiplicity is None else self.multiplicity[self.item]
        return self._expanded(self.item, self.worker, self.label, count)

    def by_criterion(self) -> Self:
        """Return the annotations with each pair of an item and a criterion as an item, named ``item|criterion``.

        As agreement of raters takes grades by criteria: grades by two are no repeats. The items are the pairs that occur, and
        what is known of items is left out. Annotations without criteria are returned as they are.
        """
        if self.criteria is None or self.criterion is None:
            return self
        L = len(self.criteria)
        pairs, code = torch.unique(self.item * L + self.criterion, return_inverse=True)
        order = code.argsort(stable=True)
        task, by = self.items[(pairs // L).cpu().numpy()], self.criteria[(pairs % L).cpu().numpy()]
        besides = [name for name in tensors(self, "annotation") if name not in ("item", "criterion", "previous")]
        of_items = ("features", "feature_names", "multiplicity", "weight", "start", "anchor", "parent_item")
        fields: dict[str, Any] = {name: getattr(self, name)[order] for name in besides} | dict.fromkeys(of_items)
        return replace(
            self,
            **fields,
            item=code[order],
            items=np.array([f"{one}{BETWEEN}{other}" for one, other in zip(task, by, strict=True)], dtype=object),
            truth=torch.full((len(pairs),), -1, dtype=torch.int64, device=self.device),
            **NO_CRITERIA,
            **NO_SEQUENCES,
        )

    def paired(self) -> Self:
        """Return all pairs of an item and a worker, ``A = N * J``, with placeholder labels (code 0), as a prediction needs.

        Covariates are their means.
        """
        items, workers = torch.arange(self.N, device=self.device), torch.arange(self.J, device=self.device)
        item = items.repeat_interleave(self.J)
        return replace(
            self,
            item=item,
            worker=workers.repeat(self.N),
            label=torch.zeros_like(item),
            timestamp=None,
            seconds=None,
            standard_covariates=self._usual_covariates(len(item)),
            criterion=None,
            others=None,
        )

    def _usual_covariates(self, count: int) -> Tensor | None:
        """Return standard covariates of further annotations, ``(count, P)``: the means, where the annotations have any."""
        return None if self.standard_covariates is None else self.standard_covariates.new_zeros(count, self.P)

    @checked
    def code(self, labels: Annotated[Any, arguments.a_list], what: str) -> Tensor:
        """Return class identifiers ``(n,)`` as codes ``0..K-1``.

        Raises:
            DataError: if a label is missing or is not a class of these data.
        """
        values = coded(pd.Series(labels).reset_index(drop=True), "label", what)
        if values.missing.any():
            raise DataError(f"{what}: {int(values.missing.sum()):,} labels are missing; remove those rows")
        codes, _ = encode(values, self.labels, "label", what, rows=None, ordered=True)
        return torch.from_numpy(codes).to(self.device)

    def _expanded(self, parent: Tensor, worker: Tensor, label: Tensor, multiplicity: Tensor | None) -> Self:
        return replace(
            self,
            item=torch.arange(len(parent), device=self.device),
            worker=worker,
            label=label,
            truth=self.truth[parent],
            items=self.items[parent.cpu().numpy()],
            multiplicity=multiplicity,
            weight=None if self.weight is None else self.weight[parent],
            timestamp=None,
            seconds=None,
            **NO_COVARIATES,
            **NO_CRITERIA,
            start=None if self.start is None else self.start[parent],
            anchor=None,
            class_scores=None,
            parent_item=parent,
            **NO_SEQUENCES,
        )

    @checked
    def batch(self, index: Annotated[Tensor, arguments.positions]) -> Self:
        """Return the annotations of the items ``index`` ``(B,)``, renumbered ``0..B-1``; workers and classes are unchanged."""
        return self._of_items(index, self.items[index.cpu().numpy()])

    @checked
    def mini_batch(self, index: Annotated[Tensor, arguments.indices]) -> Self:
        """Return the same as :meth:`batch`, but with the numbers ``0..B-1`` as identifiers of the items: for steps of gradients.

        The identifiers are not on the device of the data, which would have to be waited for.
        """
        return self._of_items(index, np.arange(len(index)))

    def _of_items(self, index: Tensor, names: Array) -> Self:
        ends = self.annotations_per_item.cumsum(0)
        size = self.annotations_per_item[index]  # (B,)
        start = ends[index] - size
        total = int(size.sum())

        def each(values: Tensor) -> Tensor:
            return values.repeat_interleave(size, output_size=total)

        offset = torch.arange(total, device=self.device) - each(size.cumsum(0) - size)
        row = each(start) + offset  # (A of the batch,)
        item = each(torch.arange(len(index), device=self.device))
        part: dict[str, Any] = {name: value[row] for name, value in tensors(self, "annotation").items()}
        part |= {name: value[index] for name, value in tensors(self, "item").items() if name != "features"}
        if self.features is not None:  # in expanded layouts, of the original items
            part["features"] = self.features[index if self.parent_item is None else self.parent_item[index]]
        return replace(
            self,
            **part
            | {
                "item": item,
                "items": names,
                "parent_item": None,
                "others": None if self.others is None else self.others.batch(index, self.N),
            },
        )

    @checked
    def keep(self, annotations: Annotated[Tensor, arguments.mask]) -> Self:
        """Return the same items and workers with a subset of the annotations.

        Args:
            annotations: ``(A,)``, true for the annotations to keep.
        """
        selected = annotations.to(self.device)
        kept: dict[str, Any] = {name: value[selected] for name, value in tensors(self, "annotation").items()}
        return replace(self, notes=(), **kept)
