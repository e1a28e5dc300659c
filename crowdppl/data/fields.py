"""Annotations as tensors: the fields, and the counts and shares that models and engines read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy.typing as npt
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data import html
from crowdppl.data.covariates import Named, Recipe
from crowdppl.data.table.other_labels import OtherLabels
from crowdppl.data.table.repeats import Repeats
from crowdppl.errors import DataError
from crowdppl.kernels.ops import sum_by
from crowdppl.kernels.sparse import WorkerCounts

Array = npt.NDArray[Any]
Axis = Literal["annotation", "item", "worker"]
Kind = Literal["nominal", "ordinal", "numeric"]
# The first axis of each field that is a tensor.
AXES: dict[str, Axis] = {
    **dict.fromkeys(("item", "worker", "label", "previous", "timestamp", "seconds", "criterion"), "annotation"),
    "standard_covariates": "annotation",
    **dict.fromkeys(
        ("truth", "features", "multiplicity", "weight", "start", "anchor", "class_scores", "parent_item"), "item"
    ),
    **dict.fromkeys(("sequence", "position"), "item"),
    "worker_features": "worker",
}

# Number of annotations whose votes are counted at a time.
_BLOCK = 2**17


@dataclass(frozen=True, eq=False)
class AnnotationFields:
    """Tensors and statistics of annotations; :class:`crowdppl.Annotations` documents the attributes.

    :data:`AXES` names the first axis of each tensor, so that batches, subsets, copies on a device and digests go through all.
    """

    item: Tensor
    worker: Tensor
    label: Tensor
    truth: Tensor
    items: Array
    workers: Array
    labels: Array
    dtype: torch.dtype = torch.float64
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    misspelt: tuple[tuple[str, str], ...] = ()
    features: Tensor | None = None
    worker_features: Tensor | None = None
    feature_names: tuple[str, ...] | None = None
    worker_feature_names: tuple[str, ...] | None = None
    multiplicity: Tensor | None = None
    weight: Tensor | None = None
    timestamp: Tensor | None = None
    seconds: Tensor | None = None
    start: Tensor | None = None
    anchor: Tensor | None = None
    class_scores: Tensor | None = None
    parent_item: Tensor | None = None
    item_column: str = "task"
    repeats: Repeats = "keep"
    labels_declared: bool = False
    kind: Kind | None = None
    others: OtherLabels | None = None
    sequences: Array | None = None
    sequence: Tensor | None = None
    position: Tensor | None = None
    previous: Tensor | None = None
    set_labels: Array | None = None
    criteria: Array | None = None
    criterion: Tensor | None = None
    criterion_column: str = "criterion"
    standard_covariates: Tensor | None = None
    covariate_names: tuple[str, ...] = ()
    covariate_scales: tuple[tuple[float, float], ...] = ()
    covariate_baselines: tuple[str, ...] = ()
    covariate_values: tuple[tuple[float, ...], ...] = ()
    covariate_recipe: Recipe | None = None

    @property
    def N(self) -> int:
        """Number of items (in this batch)."""
        return len(self.truth)

    @property
    def J(self) -> int:
        """Number of workers."""
        return len(self.workers)

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.labels)

    @property
    def A(self) -> int:
        """Number of annotations."""
        return len(self.item)

    @property
    def D(self) -> int:
        """Number of item features, 0 where there are none."""
        return 0 if self.features is None else self.features.shape[-1]

    @property
    def P(self) -> int:
        """Number of covariates of annotations, 0 where there are none."""
        return len(self.covariate_names)

    @property
    def in_full(self) -> bool:
        """Whether rows are items, each of which counts once and in full."""
        return self.weight is None and self.multiplicity is None and self.parent_item is None

    @property
    def named_covariates(self) -> Named:
        """Names, baselines and recipe of the covariates."""
        return Named(self.covariate_names, self.covariate_baselines, self.covariate_recipe)

    @cached_property
    def covariates(self) -> Tensor | None:
        """Covariates of the annotations in their own units, ``(A, P)``; ``None`` without any."""
        if self.standard_covariates is None:
            return None
        mean, scale = torch.tensor(self.covariate_scales, dtype=torch.float64, device=self.device).T
        return mean + scale * self.standard_covariates.double()

    @checked
    def times_of(self, covariate: str) -> tuple[Tensor, tuple[float, ...]]:
        """Return which of its distinct values a covariate has in each annotation, ``(A,)`` int64, and these, ascending.

        For covariates such as the session. The distinct values are those of all annotations that were read; of a covariate with
        more than 50 they are not kept, and none are returned.

        Raises:
            DataError: if the annotations have no such covariate.
        """
        if self.covariates is None or covariate not in self.covariate_names:
            raise DataError(
                f"the annotations have no covariate {covariate!r}; from_frame(..., covariates=...) gives them"
            )
        p = self.covariate_names.index(covariate)
        values = self.covariate_values[p]
        between = [(low + high) / 2 for low, high in pairwise(values)]
        limits = torch.tensor(between, dtype=torch.float64, device=self.device)
        return torch.bucketize(self.covariates[:, p].contiguous(), limits), values

    @property
    def _covariates(self) -> Tensor:
        """Standard covariates, ``(A, P)``; ``(A, 0)`` where there are none."""
        return (
            self.item.new_zeros(self.A, 0).to(self.dtype)
            if self.standard_covariates is None
            else self.standard_covariates
        )

    @cached_property
    def covariates_of_workers(self) -> Tensor:
        """Standard covariates of each worker, ``(J, P)``: NaN where one varies over their annotations, 0 without any."""
        return _constant(self._covariates, self.worker, self.J)

    @cached_property
    def covariates_of_items(self) -> Tensor:
        """Likewise of each item, ``(N, P)``."""
        return _constant(self._covariates, self.item, self.N)

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.item.device

    @cached_property
    def counts(self) -> WorkerCounts:
        """Sparse ``(N, J*K)`` counts for log-likelihoods and expected counts; each row is multiplied by its item's weight."""
        return WorkerCounts(self.item, self.worker, self.label, (self.N, self.J, self.K), self.dtype, self.weight)

    @cached_property
    def counts_after(self) -> WorkerCounts:
        """The same, with a row for each worker and the label that they gave the token before: ``(N, J*(K+1)*K)``."""
        size = (self.N, self.J * (self.K + 1), self.K)
        row = self.worker * (self.K + 1) + self.label_before
        return WorkerCounts(self.item, row, self.label, size, self.dtype, self.weight)

    @property
    def set_label(self) -> Tensor:
        """Number of the label that each item is about, ``(N,)`` int64: 0 for items that are not pairs of a task and a label."""
        if self.set_labels is None or self.position is None:
            return torch.zeros(self.N, dtype=torch.int64, device=self.device)
        return self.position

    @property
    def number_of_set_labels(self) -> int:
        """Number ``L`` of labels that the sets of a task are made of, 1 without sets."""
        return 1 if self.set_labels is None else len(self.set_labels)

    @cached_property
    def counts_by_set_label(self) -> WorkerCounts:
        """As :attr:`counts`, with a row for each worker and the label that an item is about: ``(N, J*L*K)``."""
        L = self.number_of_set_labels
        row = self.worker * L + self.set_label[self.item]
        return WorkerCounts(self.item, row, self.label, (self.N, self.J * L, self.K), self.dtype, self.weight)

    @property
    def number_of_criteria(self) -> int:
        """Number ``L`` of criteria of the grades, 1 where there are none."""
        return 1 if self.criteria is None else len(self.criteria)

    @property
    def rater_row(self) -> Tensor:
        """Number of each annotation's worker and criterion together, ``(A,)``: ``worker * L + criterion``."""
        return self.worker if self.criterion is None else self.worker * self.number_of_criteria + self.criterion

    @cached_property
    def counts_by_criterion(self) -> WorkerCounts:
        """As :attr:`counts`, with a row for each worker and criterion: ``(N, J*L*K)``."""
        if self.criterion is None:
            return self.counts
        size = (self.N, self.J * self.number_of_criteria, self.K)
        return WorkerCounts(self.item, self.rater_row, self.label, size, self.dtype, self.weight)

    @cached_property
    def majority_before(self) -> Tensor:
        """Number of each worker's labels by the one before and the class, as the votes have it: ``(J, K+1, K)``."""
        return self.counts_after.expected(self.majority()).sum(-1).unflatten(-2, (self.J, self.K + 1))

    @cached_property
    def answers(self) -> WorkerCounts:
        """Sparse ``(N, J*(O+1))`` counts of all answers: a class, which is number 0, or one of the ``O`` other labels."""
        assert self.others is not None
        item, worker = torch.cat([self.item, self.others.item]), torch.cat([self.worker, self.others.worker])
        answer = torch.cat([torch.zeros_like(self.label), 1 + self.others.label])
        order = item.argsort(stable=True)
        size = (self.N, self.J, 1 + len(self.others.names))
        return WorkerCounts(item[order], worker[order], answer[order], size, self.dtype, self.weight)

    @cached_property
    def votes(self) -> Tensor:
        """Number of annotations per item and label, ``(N, K)``."""
        return self._counted_votes()

    def _counted_votes(self) -> Tensor:
        out = torch.zeros(self.N * self.K, dtype=self.dtype, device=self.device)
        # Items are sorted, so a block covers a contiguous range of items and no temporary array has the length of the
        # annotations. On a GPU each block would synchronise with the host: one block is used there.
        step = _BLOCK if self.device.type == "cpu" else max(1, self.A)
        for begin in range(0, self.A, step):
            item, label = (codes[begin : begin + step] for codes in (self.item, self.label))
            first = int(item[0]) * self.K
            votes = torch.bincount(item * self.K + label - first)
            out[first : first + len(votes)] += votes
        return out.view(self.N, self.K)

    @property
    def weighted_votes(self) -> Tensor:
        """Votes multiplied by the weight of their item, ``(N, K)``."""
        return self.votes if self.weight is None else self.votes * self.weight.unsqueeze(-1)

    @checked
    def weighted(self, values: Annotated[Tensor, arguments.tensor]) -> Tensor:
        """Multiply log-likelihoods ``(A, ...)`` by the weight of each annotation's item, before they are summed over an item."""
        if self.weight is None:
            return values
        weight = self.weight[self.item].view(-1, *[1] * (values.dim() - 1))
        # With weight 0 an impossible label counts for nothing: 0 times minus infinity must be 0, not NaN.
        return torch.where(weight > 0, values * weight, 0.0)

    @cached_property
    def clamp(self) -> Tensor | None:
        """Log mask of known truths, ``(N, K)``: 0 if a class is allowed, minus infinity if not; ``None`` if no truth is known."""
        known = self.truth >= 0
        if not bool(known.any()):
            return None
        allowed = torch.zeros(self.N, self.K, dtype=self.dtype, device=self.device)
        allowed[known] = -torch.inf
        allowed[known, self.truth[known]] = 0.0
        return allowed

    @property
    def label_before(self) -> Tensor:
        """Label that each annotation's worker gave the token before, ``(A,)``; ``K`` where there is none."""
        return torch.full_like(self.label, self.K) if self.previous is None else self.previous

    @cached_property
    def following(self) -> Tensor:
        """Whether each item is the token after the item before it, ``(N,)``."""
        out = torch.zeros(self.N, dtype=torch.bool, device=self.device)
        if self.sequence is not None and self.position is not None:
            out[1:] = (self.sequence.diff() == 0) & (self.position.diff() == 1)
        return out

    @cached_property
    def chain_starts(self) -> Tensor:
        """First item of each chain of tokens that follow each other, and ``N``: ``(B + 1,)`` int64.

        Where a token is missing a new chain begins. Without sequences each item is a chain of its own.
        """
        begins = (~self.following).nonzero().squeeze(-1)
        return torch.cat([begins, begins.new_tensor([self.N])])

    @cached_property
    def annotations_per_worker(self) -> Tensor:
        """Number of annotations of each worker, ``(J,)`` int64."""
        return torch.bincount(self.worker, minlength=self.J)

    @cached_property
    def annotations_per_item(self) -> Tensor:
        """Number of annotations of each item, ``(N,)`` int64."""
        return torch.bincount(self.item, minlength=self.N)

    @property
    def weighted_per_item(self) -> Tensor:
        """Number of annotations that each item's count for, ``(N,)``: :attr:`annotations_per_item` times the item's weight."""
        count = self.annotations_per_item.to(self.dtype)
        return count if self.weight is None else count * self.weight

    @property
    def sources_per_item(self) -> Tensor:
        """Number of sources of each item's class whose errors are correlated, ``(N,)``.

        The annotations, and class scores that say something: they are learned from votes of the same workers. Those of tokens
        are an observation whose rates are learned, and no part of what a design effect divides.
        """
        count = self.weighted_per_item
        if self.class_scores is None or self.sequence is not None:
            return count
        return count + (self.class_scores != 0).any(-1).to(count.dtype)

    def majority(self) -> Tensor:
        """Return vote shares per class, ``(N, K)``: uniform for items without annotations, one-hot for known truths."""
        share = self._counted_votes()  # not the cached `votes`: a fit may need them only here
        total = share.sum(-1, keepdim=True)
        share.div_(total.clamp(min=1)).masked_fill_(total == 0, 1 / self.K)
        known = self.truth >= 0
        share[known] = torch.nn.functional.one_hot(self.truth[known], self.K).to(self.dtype)
        return share

    @checked
    def mean_by_worker(self, values: Annotated[Tensor, arguments.tensor]) -> Tensor:
        """Average ``(A, ...)`` over each worker's annotations, ``(J, ...)``; 0 for workers without annotations.

        Annotations of items with weights count by the weight.
        """
        if self.weight is None:
            size = self.annotations_per_worker.clamp(min=1).to(values.dtype)
        else:
            weight = self.weight[self.item].to(values.dtype)  # (A,)
            values = values * weight.view(-1, *[1] * (values.dim() - 1))
            size = sum_by(self.worker, weight, self.J).clamp(min=torch.finfo(values.dtype).tiny)
        return sum_by(self.worker, values, self.J) / size.view(-1, *[1] * (values.dim() - 1))

    @checked
    def to(
        self,
        device: Annotated[str | torch.device, arguments.place] | None = None,
        dtype: Annotated[torch.dtype, arguments.floating] | None = None,
    ) -> Self:
        """Return the same data on a device, with statistics in a floating type.

        Raises:
            OptionError: if the type is not floating.
        """
        device = self.device if device is None else torch.device(device)
        dtype = self.dtype if dtype is None else dtype
        if device == self.device and dtype == self.dtype:
            return self
        moved: dict[str, Any] = {
            name: value.to(device, dtype if value.is_floating_point() else value.dtype)
            for name, value in tensors(self).items()
        }
        moved["others"] = None if self.others is None else self.others.to(device)
        return replace(self, dtype=dtype, **moved)

    def __repr__(self) -> str:
        known = int((self.truth >= 0).sum())
        return (
            f"Annotations({self.A:,} annotations of {self.N:,} items by {self.J:,} workers in {self.K:,} classes"
            f"{self._in_groups()}"
            f"{'' if self.criteria is None else f', by {len(self.criteria):,} criteria'}"
            f"{f', truth of {known:,} items known' if known else ''}"
            f"{'' if self.others is None else f', {len(self.others):,} other labels'})"
        )

    def _in_groups(self) -> str:
        """Return what items are, where they are tokens of sequences or labels of sets."""
        if self.sequences is None:
            return ""
        if self.set_labels is None:
            return f", in {len(self.sequences):,} sequences"
        return f": sets of {len(self.set_labels):,} labels of {len(self.sequences):,} tasks"

    def _repr_html_(self) -> str:
        """Return the size, the labels with their numbers and the notes, for notebooks."""
        import pandas as pd  # here: the fields need it for nothing else

        counts = pd.DataFrame({"label": self.labels, "annotations": self.votes.sum(0).long().cpu().numpy()})
        ordered = counts.sort_values("annotations", ascending=False, kind="stable")
        return html.view(repr(self), html.table(ordered), *self.notes)


def _constant(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Return rows ``(A, P)`` by index, ``(size, P)``: NaN where they differ, 0 where there is none."""
    place = index.unsqueeze(-1).expand_as(values)
    zeros = values.new_zeros(size, values.shape[-1])
    lowest = zeros.scatter_reduce(0, place, values, "amin", include_self=False)
    highest = zeros.scatter_reduce(0, place, values, "amax", include_self=False)
    return torch.where(lowest == highest, lowest, torch.nan)


def tensors(data: AnnotationFields, *axes: Axis) -> dict[str, Tensor]:
    """Return the tensors that are there, by field: those whose first axis is one of ``axes``, or all."""
    values = {name: getattr(data, name) for name, axis in AXES.items() if not axes or axis in axes}
    return {name: value for name, value in values.items() if value is not None}
