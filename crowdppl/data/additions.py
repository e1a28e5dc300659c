"""The same annotations with what else is known: features, covariates, other labels, sequences, sets, weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.data.covariate_design import design, formula_of
from crowdppl.data.covariates import Design, Earlier, distinct, with_experience
from crowdppl.data.features import column_names, in_order, matrix
from crowdppl.data.fields import Array, tensors
from crowdppl.data.frames import indexed, to_pandas
from crowdppl.data.layouts import NO_COVARIATES, NO_SEQUENCES, AnnotationLayouts
from crowdppl.data.sequences import follows, previous_labels, tokens
from crowdppl.data.table.columns import ITEM_COLUMNS, WORKER_COLUMNS, column_of
from crowdppl.data.table.identifiers import clean
from crowdppl.data.table.other_labels import OtherLabels, names_of, numbered
from crowdppl.errors import DataError, listed


class AnnotationAdditions(AnnotationLayouts):
    """Methods that return the annotations with something added to them."""

    @checked
    def with_features(self, features: Any = None, *, workers: Any = None) -> Self:
        """Return the same annotations with features of the items and of the workers.

        Args:
            features: a frame of numbers with the tasks as its index, in any order (rows of other tasks are ignored); a table of
                another library with the tasks in a column ``task`` or ``item``; or an array ``(N, D)`` in the order of ``items``.
            workers: the same for the workers, ``(J, P)``.

        Raises:
            DataError: if rows are missing, repeated or not finite, or columns are not numeric; the message names them.
        """
        fields: dict[str, Any] = {}
        features = indexed(features, ITEM_COLUMNS, "features")
        workers = indexed(workers, WORKER_COLUMNS, "worker features")
        if features is not None:
            fields["features"] = matrix(features, self.items, "task", "features")
            fields["feature_names"] = column_names(features)
        if workers is not None:
            fields["worker_features"] = matrix(workers, self.workers, "worker", "worker features")
            fields["worker_feature_names"] = column_names(workers)
        for name in ("features", "worker_features"):
            if name in fields:
                fields[name] = torch.from_numpy(fields[name]).to(self.device, self.dtype)
        return replace(self, **fields)

    @checked
    def with_covariates(self, covariates: Any, formula: str | None = None) -> Self:
        """Return the same annotations with covariates: numbers known of each annotation, such as the session that it is from.

        Models read them in ``emission``, as ``data.covariates`` ``(A, P)`` or with mean 0 and variance 1 as
        ``data.standard_covariates``; :class:`crowdppl.models.AccuracyRegression` has their effects on accuracy. A table of
        annotations gives them with ``from_frame(..., covariates=...)``.

        Args:
            covariates: one row for each annotation, in the order of ``data.item``, ``data.worker`` and ``data.label``: a table,
                or an array of numbers ``(A, P)``; ``None`` removes them.
            formula: what covariates the columns of the table make, such as ``"experience + C(session)"``. Defaults to all
                columns.

        Raises:
            DataError: if there is not one row for each annotation, a value is missing, or a covariate does not vary or follows
                from the others.
            OptionError: if the formula cannot be read.
        """
        if covariates is None:
            return replace(self, **NO_COVARIATES)
        source = "the covariates"
        if isinstance(covariates, np.ndarray | Tensor | list):
            values = np.asarray(arguments.array("annotation", "covariate")("covariates", covariates), dtype=np.float64)
            table = pd.DataFrame(values)
        else:
            table = to_pandas(covariates, source, ", with one row for each annotation")
        if len(table) != self.A:
            raise DataError(
                f"{source} have {len(table):,} rows, and there are {self.A:,} annotations; give one row for each"
            )
        table.columns = [f"x{n + 1}" if isinstance(name, int) else name for n, name in enumerate(table.columns)]
        time = None if self.timestamp is None else self.timestamp.cpu().numpy()
        whole = with_experience(table.reset_index(drop=True), self.worker.cpu().numpy(), time, self.workers)
        return self._with_covariates(
            design(formula_of(list(table.columns) if formula is None else formula), whole, source)
        )

    def _with_covariates(self, own: Design) -> Self:
        """Return the same annotations with covariates that are fit for use."""
        scales = own.scales or tuple(zip(own.values.mean(0).tolist(), own.values.std(0).tolist(), strict=True))
        mean, scale = np.array(scales).T
        return replace(
            self,
            standard_covariates=torch.tensor((own.values - mean) / scale, dtype=self.dtype, device=self.device),
            covariate_names=own.names,
            covariate_scales=scales,
            covariate_baselines=own.baselines,
            covariate_values=tuple(map(distinct, own.values.T)),
            covariate_recipe=own.recipe,
        )

    def _earlier(self) -> Earlier:
        """Return the covariates of these annotations as further annotations are to have them."""
        assert self.covariate_recipe is not None
        times: dict[Any, Array] = {}
        if self.timestamp is not None:
            time, worker = self.timestamp.cpu().numpy(), self.worker.cpu().numpy()
            ends = np.bincount(worker, minlength=self.J).cumsum()[:-1]
            parts = np.split(time[np.lexsort((time, worker))], ends)
            times = dict(zip(self.workers.tolist(), parts, strict=True))
        return Earlier(self.covariate_recipe, self.covariate_scales, times)

    @checked
    def with_other_labels(self, names: str | Iterable[Any]) -> Self:
        """Return the same annotations with some of the labels taken for ones that are never a true label.

        Args:
            names: the labels, such as ``["cannot tell"]``, whatever their capitals. Known true labels that are among them are
                taken as unknown.

        Raises:
            DataError: if no class is one of the names, or none is left.
        """
        is_class, number = (torch.from_numpy(part).to(self.device) for part in numbered(names_of(names), self.labels))
        own = is_class[self.label]
        known = self.truth >= 0
        true_class = known & is_class[self.truth.clamp(min=0)]
        others = OtherLabels(
            self.item[~own], self.worker[~own], number[self.label[~own]], self.labels[~is_class.cpu().numpy()]
        )
        sentences = [
            f"{len(others):,} of {self.A:,} annotations are {listed(others.names.tolist(), 5)}, which is never a true label"
        ]
        if dropped := int((known & ~true_class).sum()):
            sentences.append(f"{dropped:,} known true labels are labels that are never a true label; taken as unknown")
        kept = self.keep(own)
        return replace(
            kept,
            label=number[kept.label],
            truth=torch.where(true_class, number[self.truth.clamp(min=0)], -1),
            labels=self.labels[is_class.cpu().numpy()],
            others=others if self.others is None else self.others.and_also(others),
            notes=(*self.notes, *sentences),
        )

    @checked
    def with_sequences(
        self, frame: Any, *, sequence: str = "sequence", position: str = "position", task: str | None = None
    ) -> Self:
        """Return the same annotations with items that are tokens of sequences, in the order of these.

        Args:
            frame: one row for each token, or more: its task, its sequence, and its position there. Tokens that nobody annotated,
                of sequences that someone did, become items as well.
            sequence: column of the sequence, such as a sentence or a document.
            position: column of the position, whole numbers; tokens follow each other where it rises by one.
            task: column of the task. Defaults to ``"task"``, or ``"item"``.

        Raises:
            DataError: where a task has no row, or tokens and positions do not correspond; the message names one.
        """
        frame = to_pandas(frame, "the sequences", ", with one row for each token")
        own = column_of(frame, task, ITEM_COLUMNS, "the sequences", fix="", argument="task")
        table = tokens(frame, (sequence, position, own), "the sequences")
        annotated = table["item"].isin(pd.Index(self.items))
        table = table[table["sequence"].isin(table["sequence"][annotated])]
        missing = table["item"][~annotated].to_numpy()
        alone = replace(self, **NO_SEQUENCES)
        return (alone._with_items(missing) if len(missing) else alone)._in_sequences(table)

    def _with_items(self, names: Array) -> Self:
        """Return the annotations with further items that have none.

        Raises:
            DataError: where something else is known of items.
        """
        if besides := [name for name in tensors(self, "item") if name != "truth"]:
            raise DataError(
                f"the sequences have {len(names):,} tokens without annotations, and the items have {besides[0]} already; give "
                f"the sequences first"
            )
        unknown = torch.full((len(names),), -1, dtype=torch.int64, device=self.device)
        note = f"{len(names):,} tokens of the sequences have no annotation"
        items = np.concatenate([self.items, names.astype(self.items.dtype)])
        return replace(self, items=items, truth=torch.cat([self.truth, unknown]), notes=(*self.notes, note))

    def _in_sequences(self, table: pd.DataFrame) -> Self:
        """Return the annotations in the order of tokens, a table as of :func:`crowdppl.data.sequences.tokens`."""
        rows = pd.Index(table["item"]).get_indexer(pd.Index(self.items))
        if (rows < 0).any():
            missing = self.items[rows < 0]
            raise DataError(
                f"the sequences: no row for task {listed(missing.tolist(), 3)}; each token needs a sequence and a position"
            )
        order = np.argsort(rows, kind="stable")
        table = table.iloc[rows[order]]
        codes, names = pd.factorize(table["sequence"])
        ordered = self.batch(torch.from_numpy(order).to(self.device))
        place = {"sequence": codes.astype(np.int64), "position": table["position"].to_numpy(np.int64, copy=True)}
        item, worker, label = (part.cpu().numpy() for part in (ordered.item, ordered.worker, ordered.label))
        following = follows(place["sequence"], place["position"])
        before = previous_labels(item, worker, label, following, self.K)
        arrays = place | {"previous": before}
        fields: dict[str, Any] = {name: torch.from_numpy(value).to(self.device) for name, value in arrays.items()}
        return replace(ordered, sequences=np.asarray(names), **fields)

    def _in_sets(self, task: Any, number: Any, labels: Array) -> Self:
        """Return the annotations of pairs of a task and a label, in the order of tasks and labels, as sets of labels.

        Args:
            task: name of the task of each item, ``(N,)``.
            number: number of its label, ``(N,)``.
            labels: names of the labels, ``(L,)``.
        """
        codes, names = pd.factorize(np.asarray(task))
        number = np.asarray(number, dtype=np.int64)
        order = np.lexsort((number, codes))
        ordered = replace(self, **NO_SEQUENCES).batch(torch.from_numpy(order).to(self.device))
        places = {"sequence": codes[order].astype(np.int64), "position": number[order]}
        fields: dict[str, Any] = {name: torch.from_numpy(value).to(self.device) for name, value in places.items()}
        return replace(ordered, sequences=np.asarray(names), set_labels=np.asarray(labels), **fields)

    @checked
    def with_weights(self, weights: Any) -> Self:
        """Return the same annotations with the likelihood of each item's labels raised to a power.

        ``log p(truth_i = k) + weight_i * log p(labels of i | truth = k)`` is then the item log joint in every engine, and label
        counts of workers are weighted by item. With ``weight = 1 / (1 + (n - 1) rho)`` the ``n`` annotations
        of an item, correlated by ``rho``, carry the information of ``n * weight`` independent ones (the design effect of survey
        sampling).

        Args:
            weights: a Series or mapping by task, or numbers ``(N,)`` in the order of ``items``; ``None`` removes the weights.

        Raises:
            DataError: if a weight is missing, negative or not finite.
        """
        if weights is None:
            return replace(self, weight=None)
        if isinstance(weights, Mapping):
            weights = pd.Series(weights)
        if isinstance(weights, pd.Series):
            column = matrix(weights.to_frame("weight"), self.items, "task", "weights")
        else:
            weights = arguments.array("item")("weights", weights)
            column = matrix(torch.as_tensor(weights).reshape(-1, 1), self.items, "task", "weights")
        if (column < 0).any():
            negative = self.items[(column < 0)[:, 0]].tolist()
            raise DataError(
                f"weights: the weight of task {listed(negative, 3)} is negative; weights must be at least 0"
            )
        return replace(self, weight=torch.from_numpy(column[:, 0]).to(self.device, self.dtype))

    @checked
    def unseen(
        self, features: Any = None, *, items: Annotated[Any, arguments.a_list] = None, workers: Any = None
    ) -> Self:
        """Return new items without annotations, and optionally new workers, with the same classes: the input of a prediction.

        Args:
            features: features of the new items, ``(n, D)``, or a frame whose index names the items. Columns of a frame are taken
                by name if the features of these data have names.
            items: names of the new items. Defaults to the frame's index, or ``0..n-1`` for an array.
            workers: features of new workers, ``(m, P)``, or a frame whose index names the workers. Defaults to the present
                workers.

        Raises:
            DataError: if the number or the names of the features differ from those of these data.
        """
        features = in_order(indexed(features, ITEM_COLUMNS, "features"), self.feature_names, "features")
        workers = in_order(
            indexed(workers, WORKER_COLUMNS, "worker features"), self.worker_feature_names, "worker features"
        )
        names = self.items if features is None else _names(features, items)
        worker_names = self.workers if workers is None else _names(workers, None)
        no_codes = torch.zeros(0, dtype=torch.int64, device=self.device)
        empty = replace(
            self,
            item=no_codes,
            worker=no_codes,
            label=no_codes,
            truth=torch.full((len(names),), -1, device=self.device),
            items=names,
            workers=worker_names,
            multiplicity=None,
            weight=None,
            timestamp=None,
            seconds=None,
            standard_covariates=self._usual_covariates(0),
            criterion=None,
            start=None,
            anchor=None,
            class_scores=None,
            parent_item=None,
            notes=(),
            others=None,
            **NO_SEQUENCES,
            features=self.features if features is None else None,
            worker_features=self.worker_features if workers is None else None,
        )
        new = empty.with_features(features, workers=workers)
        for name, what in (("features", "item"), ("worker_features", "worker")):
            given, fitted = (getattr(data, name) for data in (new, self))
            if given is not None and (fitted is None or fitted.shape[-1] != given.shape[-1]):
                expected = 0 if fitted is None else fitted.shape[-1]
                raise DataError(
                    f"{given.shape[-1]:,} {what} features; the model was fitted with {expected:,}, pass the same ones"
                )
        return new

    @checked
    def with_features_ordered(self, names: tuple[str, ...] | None, workers: tuple[str, ...] | None = None) -> Self:
        """Return the same data with the columns of the features in the order of ``names``; unnamed features are unchanged.

        Args:
            names: names of the item features; ``None`` for any.
            workers: names of the worker features; likewise.

        Raises:
            DataError: for features of other names.
        """
        fields: dict[str, Any] = {}
        for field, wanted, where in (("feature", names, "features"), ("worker_feature", workers, "worker features")):
            given, values = getattr(self, f"{field}_names"), getattr(self, f"{field}s")
            if wanted is None or given is None or given == wanted or values is None:
                continue
            at = in_order(pd.DataFrame([range(len(given))], columns=list(given)), wanted, where).to_numpy()[0].copy()
            fields |= {f"{field}s": values[..., torch.from_numpy(at).to(values.device)], f"{field}_names": wanted}
        return replace(self, **fields) if fields else self


def _names(features: Any, names: Any) -> Array:
    if not hasattr(features, "__len__") or getattr(features, "ndim", 1) == 0:
        raise DataError(
            f"features={arguments.shown(features)}; it must be a frame or an array of numbers with one row for each item or "
            "worker"
        )
    if names is None:
        names = features.index if isinstance(features, pd.DataFrame) else np.arange(len(features))
    return clean(pd.Series(names).reset_index(drop=True), "name", "the new items or workers")[0]
