"""Annotations: the caller's identifiers in, sorted index tensors and sparse counts out.

All later code works with integers: item ``0..N-1``, worker ``0..J-1``, class ``0..K-1``. The identifiers are kept in ``items``,
``workers`` and ``labels``; a :class:`crowdppl.Posterior` reports them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Column, InputPath, checked
from crowdppl.data import sets
from crowdppl.data.additions import AnnotationAdditions
from crowdppl.data.features import count_table
from crowdppl.data.fields import Kind
from crowdppl.data.frame_reading import (
    covariates_of,
    criterion_column,
    has_order,
    needed_columns,
    notes_on_table,
    refuse_for_numbers,
)
from crowdppl.data.frames import to_pandas
from crowdppl.data.numeric_reading import numeric_annotations
from crowdppl.data.readers.arrow import long_csv, long_parquet, release_memory
from crowdppl.data.readers.streams import source_name
from crowdppl.data.sequences import in_sequences
from crowdppl.data.table import kinds
from crowdppl.data.table.columns import ITEM_COLUMNS, column_of, item_column, reader_notes, series, three_columns
from crowdppl.data.table.criteria import Criteria, require_grades
from crowdppl.data.table.encoding import encode_columns
from crowdppl.data.table.label_names import LabelChoices, names_of_labels, words
from crowdppl.data.table.other_labels import declared_too, names_of
from crowdppl.data.table.questions import refuse_several
from crowdppl.data.table.repeats import Repeats
from crowdppl.data.table.structured import Several
from crowdppl.data.table.timestamps import Dates
from crowdppl.data.table.truths import Truth, notes_on_unknown, truth_columns
from crowdppl.errors import DataError, OptionError

# Name of the only worker in label counts, where the individual workers are unknown.
CROWD = "crowd"


class Annotations(AnnotationAdditions):
    """Annotations of ``N`` items by ``J`` workers in ``K`` classes, ``A`` annotations in all.

    Create one with :meth:`from_frame`, :meth:`from_arrays`, :meth:`from_csv`, :meth:`from_parquet` or :meth:`from_counts`, not
    with the constructor. Annotations are sorted by item; within an item they keep their original order.

    Attributes:
        item: item of each annotation, ``(A,)`` int64, ascending.
        worker: worker of each annotation, ``(A,)`` int64.
        label: label of each annotation, ``(A,)`` int64.
        truth: known true class of each item, ``(N,)`` int64, -1 if unknown.
        items: the caller's item identifiers, ``(N,)``.
        workers: the caller's worker identifiers, ``(J,)``.
        labels: the caller's class identifiers, ``(K,)``.
        dtype: floating type of all statistics of the data.
        notes: what was dropped, merged or unusual, in sentences.
        doubts: those of them that make a result likely wrong until they are resolved.
        misspelt: labels that are probably typing errors, each with the label that was probably meant.
        features: item features, ``(N, D)``, or ``None``.
        worker_features: worker features, ``(J, P)``, or ``None``.
        feature_names: names of the item features, ``D`` of them, if they came as a table with names; otherwise ``None``.
        worker_feature_names: likewise of the worker features.
        multiplicity: number of identical copies that each item stands for, ``(N,)``; ``None`` for one each.
        weight: power to which the likelihood of each item's labels is raised, ``(N,)``, see :meth:`with_weights`; ``None`` for 1.
        timestamp: time of each annotation, ``(A,)``, NaN if unknown; only the order matters. ``None`` without timestamps.
        seconds: duration of each annotation, ``(A,)``, NaN if unknown. ``None`` without durations.
        start: initial class probabilities for the engines, ``(N, K)``; ``None`` for their own initial values.
        anchor: share of each item's class that parameters are learned from whatever the posterior is, ``(N, K)``, as
            :meth:`AnnotationModel.anchor` states it; ``None`` for none.
        class_scores: of each item, ``(N, K)``, by a classifier that has not seen the labels of the item
            (:mod:`crowdppl.model.class_scores`); ``None`` for none.
        item_column: name of the item column in tables: ``"item"`` if the input used it, otherwise ``"task"``.
        repeats: treatment of repeated annotations of an item by one worker; an update of the result applies it, too.
        others: annotations whose label is never a true label, see :class:`crowdppl.data.table.other_labels.OtherLabels`; ``None``
            without them.
        labels_declared: whether the caller stated the classes in order, with ``labels`` or a categorical column. Other classes
            are sorted, and the order of words has no meaning then.
        kind: ``"ordinal"`` where labels are grades, in the order of ``labels``; ``"nominal"`` where the caller said that they are
            not; ``None`` where nothing was said.
        sequences: the caller's identifiers of sequences, where items are tokens, ``(B,)``; ``None`` otherwise.
        sequence: sequence of each item, ``(N,)``; the items of a sequence stand together, in their order.
        position: position of each item in its sequence, ``(N,)``: tokens follow each other where it rises by one.
        previous: label that the worker of each annotation gave the token before, ``(A,)``, ``K`` where there is none.
        standard_covariates: numbers known of each annotation, with mean 0 and variance 1, ``(A, P)``, see
            :meth:`with_covariates`; ``None`` without any. ``covariates`` are the same in their own units.
        covariate_names: names of the covariates, ``P`` of them.
        covariate_scales: mean and standard deviation of each over the annotations that were read.
        covariate_baselines: with what levels of categories are compared.
        covariate_values: distinct values of each, of at most 50; otherwise none.
        covariate_recipe: how they were computed: the formula, and the levels of each categorical column.
        set_labels: where annotations are sets of labels, the caller's identifiers of these, ``(L,)``: an item is a pair of a task
            (its ``sequence``) and a label (its ``position``), and its classes say whether the label is in the set.
        criteria: the caller's criteria of grades, ``(L,)``, where each is by one; ``None`` without criteria.
        criterion: criterion of each annotation, ``(A,)`` int64.
        criterion_column: name of the column of criteria.
        parent_item: in the expanded layouts of :meth:`item_label_cells` and :meth:`per_annotation`, the original item of each
            row, ``(N,)``; ``features`` then has one row for each original item. ``None`` otherwise.
    """

    @classmethod
    @checked
    def from_frame(
        cls,
        frame: Any,
        *,
        task: Column | None = None,
        worker: Column | None = None,
        label: Column | None = None,
        truth: Truth = None,
        labels: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        workers: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
        several: Several = "refuse",
        features: Any = None,
        worker_features: Any = None,
        timestamp: Column | None = None,
        seconds: Column | None = None,
        dates: Dates | None = None,
        map: Annotated[Mapping[Any, Any], arguments.mapping] | None = None,
        missing: str | Iterable[Any] = (),
        keep_missing: bool = False,
        fold: bool = True,
        other_labels: str | Iterable[Any] = (),
        kind: Kind | None = None,
        order: Annotated[Iterable[Any], arguments.a_list] | None = None,
        scale: Annotated[Sequence[float], arguments.a_list] | None = None,
        sequence: str | None = None,
        position: str | None = None,
        criterion: Column | None = None,
        covariates: str | Iterable[str] | Annotations | None = None,
        source: str = "the frame",
    ) -> Self:
        """Return the annotations of a table with one row per annotation.

        Args:
            frame: a pandas table, or one of any library that supports Arrow's PyCapsule protocol or the dataframe interchange
                protocol (Polars, PyArrow, DuckDB).
            task: column of item identifiers. Defaults to ``"task"``, or ``"item"``.
            worker: column of worker identifiers. Defaults to ``"worker"``.
            label: column of labels. Defaults to ``"label"``. Rows without a label are dropped and counted.
            truth: known true labels, which every engine holds fixed: a column of the table (blank if unknown), a mapping or
                Series from item to class, or a frame with an item and a label column, named as in the table or by their
                default names.
            labels: all classes, in order. Defaults to the categories of a categorical label column, otherwise to the labels that
                occur, sorted.
            items: all items, including those without annotations. Defaults to those that occur, in order of appearance.
            workers: all workers. Defaults to those that occur, in order of appearance.
            repeats: treatment of several annotations of an item by one worker: ``"keep"`` all of them, keep the ``"last"`` (the
                latest with a ``timestamp``, otherwise the last row), or ``"refuse"`` the table.
            several: treatment of several labels in a cell, a list or a set joined by a separator such as ``cat|dog``:
                ``"refuse"`` the table, read them as ``"sets"``, ``"join"`` the labels of each set to a class of its own, or
                ``"keep"`` the text as it is. A list of one label is that label. Of sets, ``labels`` are the labels that they
                are made of, a known truth is a set, and items are pairs, named ``task|label``, whose class is 1 where the label
                is in the set. The default model is then ``crowdppl.models.LabelSets``.
            features: item features, see :meth:`with_features`.
            worker_features: worker features.
            timestamp: column of the time of each annotation, a number or a date, blank if unknown; used for change over time.
            seconds: column of the duration of each annotation in seconds, or as ``0:01:30`` or ``PT1M30S``; blank if unknown.
            dates: ``"day-first"`` or ``"month-first"``, for timestamps such as 03.04.2024. Defaults to the order that all of
                them allow; where both are possible, a note names the one that was chosen, or the table is refused.
            map: names of classes by label, such as ``{0: "none", 1: "spam"}`` or ``{"Produkt": "product", "": None}``; ``None``
                for no label. Labels that it does not name are left as they are.
            missing: labels that stand for no label, such as ``"not sure"``, whatever their capitals. What programs write for a
                missing value (``null``, ``#N/A``, ``NaN``; see :mod:`crowdppl.data.table.missing_words`) stands for none in any
                case.
            keep_missing: whether these words of programs are classes.
            fold: whether labels that differ in capitals, white space or characters that look alike are one class. They are two
                classes in any case where they are both declared, or where workers use them as two.
            other_labels: labels that are never a true label, such as ``"cannot tell"``. Workers may give them in place of a
                class, at a rate that may depend on the true label, so that they are evidence on it.
            kind: ``"ordinal"`` for grades, whose default model is graded facets (``crowdppl.models.GradedFacets``);
                ``"numeric"`` for numbers, which gives :class:`crowdppl.data.numeric.NumericAnnotations` with the default model
                ``crowdppl.models.LinearGaussian``; ``"nominal"`` for classes without an order. Without it, numbers of which some
                are not whole are numbers, and a note says so; all else are classes, and where they look like grades a note asks.
            order: all grades, lowest first. Defaults to ``labels``, or to the order of numbers.
            scale: of numbers, the lowest and the highest one of a bounded scale: labels at its ends then stand for everything
                beyond.
            sequence: where items are tokens, the column of their sequence, such as a sentence or a document. The default model
                is then ``crowdppl.models.SequentialWorkers``, in which the true label of a token depends on that of the token
                before. Tokens are named by the column of the task, if there is one, else ``sequence:position``.
            position: the column of the position in the sequence, whole numbers.
            criterion: of grades, the column of the criterion that each is by, such as ``"style"``, where raters grade items by
                several and all are about one quality. Graded facets has a difficulty of each; an item has one true grade. Give
                ``kind="ordinal"`` or ``order``. Its categories are in their order, other criteria in that of appearance.
            covariates: what accuracy may depend on, known of each annotation: names of columns, or a formula of them such as
                ``"tenure + C(session)"``, as in R. Text is categorical, its first level the baseline. With ``timestamp``,
                ``experience`` is the number of annotations that the worker gave before, unless a column has this name. The
                default model is then ``crowdppl.models.AccuracyRegression``, in which they have effects on accuracy. Earlier
                annotations stand for their own formula, levels and scale, and their workers' experience counts.
            source: name of the table in messages.

        Raises:
            DataError: if the table cannot be used; the message names the rows, the column and a fix. Also for whole numbers with
                more than 20 values, if neither ``kind`` nor ``labels`` says what they are.
            OptionError: for an unknown ``repeats``, ``several`` or ``kind``, and for arguments that contradict each other.
        """
        if several == "sets":
            return cls._from_sets(
                frame,
                (task, worker, label),
                truth,
                labels,
                {"features": features, "other_labels": other_labels, "kind": kind, "order": order, "scale": scale}
                | {"sequence": sequence, "position": position, "criterion": criterion, "covariates": covariates},
                source,
                items=items,
                workers=workers,
                repeats=repeats,
                worker_features=worker_features,
                timestamp=timestamp,
                seconds=seconds,
                dates=dates,
                map=map,
                missing=missing,
                keep_missing=keep_missing,
                fold=fold,
            )
        if timestamp is None and isinstance(covariates, Annotations) and covariates.covariate_recipe is not None:
            timestamp = covariates.covariate_recipe.time or None
        kind, labels = kinds.declared(kind, order, labels)
        require_grades(criterion, kind)
        frame = to_pandas(frame, source, ", or use from_arrays")
        others = names_of(other_labels)
        table = None
        if sequence is not None or position is not None:
            frame, task, table = in_sequences(frame, task, sequence, position, kind, source)
            items = table["item"] if items is None else items
        task, worker, label = three_columns(frame, (task, worker, label), source)
        of_classes = {"labels": labels, "map": map, "other_labels": others}
        if scale is not None and kind not in (None, "numeric"):
            raise OptionError(f"scale= is that of numbers, and kind={kind!r} says that labels are none; leave one out")
        criterion, notes = criterion_column(frame, criterion, (task, worker, label), kind, source)
        numbers = kind in ("numeric", "ordinal") or scale is not None
        notes += refuse_several(frame, (task, worker, label), source, criterion, numbers=numbers)
        numeric, note = kinds.numbers_note("numeric" if scale is not None else kind, frame, label, of_classes, source)
        if numeric:
            refuse_for_numbers(
                worker_features=worker_features, timestamp=timestamp, seconds=seconds, covariates=covariates
            )
            # Which class it is follows from the data: callers that know write the type themselves.
            return numeric_annotations(  # type: ignore[return-value]
                frame,
                task=task,
                worker=worker,
                label=label,
                truth=truth,
                items=items,
                workers=workers,
                repeats=repeats,
                missing=words(missing),
                scale=scale,
                features=features,
                source=source,
                notes=notes if note is None else [*notes, note],
            )
        known = [truth] if isinstance(truth, str) and truth in frame else []
        frame = kinds.halves_as_text(frame, [label, *known], kind)
        columns = encode_columns(
            frame[task],
            frame[worker],
            frame[label],
            truth=truth_columns(frame, (task, label), truth, source),
            names=(task, worker, label),
            declared=(items, workers, declared_too(labels, others, frame[label]) if others else labels),
            repeats=repeats,
            several=several,
            source=source,
            timings={
                field: frame[column_of(frame, name, (), source, "", field)]
                for field, name in (("timestamp", timestamp), ("seconds", seconds))
                if name is not None
            },
            dates=dates,
            choices=LabelChoices(names_of_labels(map), words(missing), keep_missing, fold, kind == "ordinal", others),
            covariates=covariates_of(frame, covariates, (label, truth), timestamp, source),
            criteria=None if criterion is None else Criteria(frame[criterion]),
        )
        known_of_each = columns.pop("covariates", None)
        named = {name for name in (truth, timestamp, seconds, sequence, position, criterion) if isinstance(name, str)}
        columns["notes"] += (*notes, *reader_notes(frame, (task, worker, label), source))
        columns["notes"] += notes_on_table(
            frame, (task, worker, label), columns, named, source, truth_given=truth is not None
        )
        if several != "join":  # no worker may give a set that is a true one
            known, given = (columns[name].numpy() for name in ("truth", "label"))
            columns["notes"] += tuple(notes_on_unknown(known, given, columns["labels"], source))
        in_order = labels is not None or has_order(frame[label])
        data = cls(**columns, item_column=item_column(task), repeats=repeats, labels_declared=in_order)
        data = data if criterion is None else replace(data, criterion_column=str(criterion))
        data = data if known_of_each is None else data._with_covariates(known_of_each)
        data = data.with_other_labels(others) if others else data
        data = kinds.graded(data, source) if kind == "ordinal" else replace(data, kind=kind)
        data = data if table is None else data._in_sequences(table)
        if features is None and worker_features is None:
            return data
        return data.with_features(features, workers=worker_features)

    @classmethod
    def _from_sets(
        cls,
        frame: Any,
        names: tuple[str | None, ...],
        truth: Truth,
        labels: Iterable[Any] | None,
        unused: Mapping[str, Any],
        source: str,
        **options: Any,
    ) -> Self:
        """Return annotations that are sets of labels; arguments as of :meth:`from_frame`, ``unused`` are those not for sets."""
        sets.refuse_others(**unused)
        frame = to_pandas(frame, source, ", or use from_arrays")
        task, worker, label = three_columns(frame, names, source)
        column, notes = sets.as_texts(frame[label], f"{source}, column {label!r}")
        read = {label: column}
        if isinstance(truth, str) and truth in frame:
            read[truth] = sets.truth_of_sets(frame[truth], label)
        joined = cls.from_frame(
            frame.assign(**read),
            task=task,
            worker=worker,
            label=label,
            truth=sets.truth_of_sets(truth, label),
            several="join",
            kind="nominal",
            source=source,
            # Of declared labels it is the labels that are compared, not the sets.
            **options | {"fold": options["fold"] and labels is None, "map": None},
        )
        return sets.in_sets(joined, labels, options["fold"], options["map"], notes, source)

    @classmethod
    @checked
    def from_counts(
        cls,
        frame: Any,
        *,
        task: Column | None = None,
        labels: Annotated[Iterable[Any], arguments.a_list] | None = None,
        truth: Truth = None,
        features: Any = None,
        source: str = "the counts",
    ) -> Self:
        """Return annotations from label counts per item, the *global* setting: the worker of each label is unknown.

        All annotations belong to one worker, ``"crowd"``, so models estimate the quality of the crowd, not of its members.

        Args:
            frame: one row per item and one column of counts per class; any kind of table that :meth:`from_frame` accepts.
            task: column of item identifiers. Defaults to ``"task"``, or ``"item"``, or the index of the frame.
            labels: names of the classes, in the order of the count columns. Defaults to the column names.
            truth: known true labels, a mapping or Series from item to class.
            features: numbers known of the items, see :meth:`with_features`.
            source: name of the table in messages.

        Raises:
            DataError: if a count is missing, negative or not a whole number.
        """
        frame = to_pandas(frame, source, ", with one row per item")
        items, classes, counts = count_table(frame, task, labels, source)
        row, column = counts.nonzero()
        count = counts[row, column]
        named = task if task is not None else next((c for c in ITEM_COLUMNS if c in frame.columns), frame.index.name)
        data = cls.from_frame(
            pd.DataFrame(
                {
                    "task": items[row.repeat(count)],
                    "worker": pd.Series([CROWD], dtype=object).repeat(int(count.sum())).to_numpy(),
                    "label": classes[column.repeat(count)],
                }
            ),
            items=items,
            labels=classes,
            truth=truth,
            features=features,
            kind="nominal",
            source=source,
        )
        # Repeated annotations are expected in label counts: no note.
        notes = tuple(note for note in data.notes if "repeated annotations" not in note)
        return replace(data, notes=notes, item_column=item_column(named), kind=None)

    @classmethod
    @checked
    def from_arrays(
        cls,
        task: Any,
        worker: Any,
        label: Any,
        *,
        truth: Truth = None,
        labels: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        workers: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
        features: Any = None,
        worker_features: Any = None,
        kind: Kind | None = None,
        scale: Annotated[Sequence[float], arguments.a_list] | None = None,
        criterion: Any = None,
    ) -> Self:
        """Return the annotations of three arrays of equal length ``(A,)``; other arguments as in :meth:`from_frame`.

        Args:
            task: item of each annotation.
            worker: likewise.
            label: likewise.
            truth: a mapping from item to class.
            labels: as in :meth:`from_frame`; likewise the following.
            items: see there.
            workers: see there.
            repeats: see there.
            features: see there.
            worker_features: see there.
            kind: see there.
            scale: see there.
            criterion: of grades, the criterion that each is by, ``(A,)``.

        Raises:
            DataError: the arrays differ in length, or their values cannot be used as identifiers or labels.
        """
        given = {"task": task, "worker": worker, "label": label}
        given |= {} if criterion is None else {"criterion": criterion}
        columns = {name: series(v, name) for name, v in given.items()}
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            lengths = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
            raise DataError(f"the arrays differ in length: {lengths}; pass one value of each for every annotation")
        if isinstance(truth, str):
            raise DataError(
                "truth is the name of a column, but arrays have no columns; pass a mapping from item to class"
            )
        return cls.from_frame(
            pd.DataFrame(columns),
            truth=truth,
            labels=labels,
            items=items,
            workers=workers,
            repeats=repeats,
            features=features,
            worker_features=worker_features,
            kind=kind,
            scale=scale,
            criterion=None if criterion is None else "criterion",
            source="the arrays",
        )

    @classmethod
    @checked
    def from_csv(cls, path: InputPath, **options: Any) -> Self:
        """Read a CSV file (plain or compressed); options as in :meth:`from_frame`.

        Identifiers are kept as written: ``007`` is a string, and a column is read as integers only if every value is written as
        an integer. Only blank cells, ``nan`` and ``NaN`` are missing values; of labels see ``missing``.

        Raises:
            FileError: if the file cannot be read as CSV.
            DataError: as :meth:`from_frame`, naming the file.
        """
        return cls._from_long(long_csv, path, options)

    @classmethod
    @checked
    def from_parquet(cls, path: InputPath, **options: Any) -> Self:
        """Read a Parquet file; options as in :meth:`from_frame`, errors as in :meth:`from_csv`."""
        return cls._from_long(long_parquet, path, options)

    @classmethod
    def _from_long(cls, read: Callable[..., pd.DataFrame], path: str | Path, options: Mapping[str, Any]) -> Self:
        data = cls.from_frame(read(path, columns=needed_columns(options)), source=source_name(path), **options)
        release_memory()
        return data
