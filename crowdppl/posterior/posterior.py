"""The result of a fit: tables of truths, workers and confusion matrices, and the file that holds it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Identifier, InputPath, Level, NonNegativeInt, OutputFile, checked
from crowdppl.data import html
from crowdppl.data.table.identifiers import class_columns
from crowdppl.errors import DataError, FileError
from crowdppl.posterior import effects, io, sets, spans, viewed
from crowdppl.posterior.measures import DEFAULT_MEASURES, interval
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.numeric_schema import is_numeric
from crowdppl.posterior.variables import PosteriorVariables
from crowdppl.posterior.workers import grading, other_rates
from crowdppl.posterior.workers.table import table as worker_table

Array = npt.NDArray[Any]

# Number of items whose entropies are computed at a time.
_BLOCK = 2**15


class Posterior(PosteriorVariables):
    """The result of a fit.

    ``tree`` has the coordinates ``item``, ``worker``, ``true_label`` and ``given_label`` with the caller's identifiers, and
    these groups:

    - ``posterior``: the model's own draws, which R-hat, effective sample sizes, LOO and ArviZ's functions describe: its
      parameters ``(chain, draw, ...)``, and for every model ``confusion (chain, draw, worker, true_label, given_label)`` and
      ``prevalence (chain, draw, true_label)``. For EM and SVI they are an approximation, see :attr:`interval_method`.
    - ``calibrated``: if results allow for correlated errors (see :attr:`correlation`), what they report of truths and workers:
      ``rho (chain, draw)``, the correlation drawn; ``probability (item, true_label)``; ``draw_of (chain, draw, item)``, the
      truth drawn with each draw of the parameters (index into ``true_label``); and ``confusion`` and ``prevalence`` that follow
      these truths, with the axes of those in ``posterior``. All tables and methods read this group if it is there.
    - ``truth``: ``probability (item, true_label)`` by the model as published; with ``independent=True`` also ``draw_of``. For
      models that report their classifier, ``classifier (item, true_label)``, see :meth:`classifier`.
    - ``point``: the mode, for EM.
    - ``log_likelihood``: ``labels (chain, draw, item)``, of all labels of an item jointly, with the truth summed out.
    - ``log_prior``: a variable for each site with its log prior density, ``(chain, draw)``, or of each worker
      or item, ``(chain, draw, worker)``.
    - ``sample_stats``: ``lp (chain, draw)``, and the trace of the engine's objective.
    - ``annotation``: quantities of single annotations, averaged over draws, for models that have them.
    - ``thinned``: in results from small files, some draws of all parameters, where those of workers and items are left out.
    - ``networks``: the weights of networks in the safetensors format, see :attr:`networks`.
    - ``observed_data``, ``constant_data``: labels, items and workers of the annotations, known truths.

    Truths are there when a fit ends. After EM, draws and all that follows from them are made when they are first asked for.
    """

    def _repr_html_(self) -> str:
        """Return what comes first of a result, for notebooks: alerts and true labels, which need no draws."""
        labels = self.truth()[[self.item_column, "label", "probability"]]
        return html.view(repr(self), *self.alerts, html.table(labels), "More: .workers(), .confusion(worker), .tree")

    def truth(self) -> pd.DataFrame:
        """Return a table with one row per item.

        Columns: ``task`` (or ``item``, see :attr:`item_column`); ``label``, the most probable class (the first of ties), of spans
        by the model as published, so that they are those of :meth:`spans`;
        ``probability`` of that class; ``entropy`` of the item's distribution in bits; where labels are grades, ``mean_grade``,
        ``grade``, ``grade_low`` and ``grade_high``, see :meth:`grades`; and ``p_<class>`` for every class.
        """
        probability = self.probability()
        chosen = self.probability_as_published().argmax(-1) if spans.has_spans(self) else None
        table = truth_table(self.items(), self.labels, probability, self.item_column, chosen)
        if self.graded:
            graded = self.grades()
            for n, name in enumerate(("mean_grade", "grade", "grade_low", "grade_high")):
                table.insert(4 + n, name, graded[name])
        return table

    def classifier(self) -> pd.DataFrame:
        """Return the table of :meth:`truth` by the model's classifier alone, from each item's features and not its labels.

        Raises:
            DataError: if the model does not report its classifier. For items with features,
                :func:`crowdppl.predict` returns the same.
        """
        if "classifier" not in self.tree["truth"]:
            models = viewed.models_with("classifier")
            raise DataError(f"{self.info['model']} does not report a classifier of the items; fit {models}")
        return truth_table(self.items(), self.labels, self._values("truth", "classifier"), self.item_column)

    @checked
    def workers(
        self,
        *,
        level: Level | None = None,
        sort: str | None = None,
        minimum: NonNegativeInt = 0,
        measures: Annotated[Iterable[str], arguments.several(arguments.text, 0)] = DEFAULT_MEASURES,
        cost: Any = None,
    ) -> pd.DataFrame:
        """Return a table with one row per worker, each measure with the ends of its interval.

        Columns: ``worker``; ``annotations``; ``share_correct``, the share of the worker's own annotations that are correct (by
        the true labels of each draw); ``accuracy``, the expected accuracy of future annotations under the prevalence;
        ``sensitivity_<class>``, the probability of the correct label in each class; ``informativeness`` in bits; each followed by
        ``_low`` and ``_high``. Then
        ``rank`` by accuracy, or of raters of grades by ``grade_correlation``, with ``rank_low`` and ``rank_high``, and ``place``,
        the same as text, see
        :func:`crowdppl.posterior.workers.summarise_ranks`; ``spammer``, the probability that the labels do not depend on the
        truth; ``adversarial``, the probability that the worker avoids the correct label; ``verdict``, see
        :func:`crowdppl.posterior.workers.verdicts`; where annotations were read with ``other_labels``, ``other_labels``, how many
        of them a worker gave, ``other_rate``, their share among the worker's answers, and ``other_rate_of_<class>``, the same by
        true label, with ends of intervals; where labels are grades, ``mean_grade``, ``severity`` and ``grade_correlation``, see
        :meth:`severity`; where labels mark spans, ``spans``, how many the worker marked, ``span_precision`` and ``span_recall``
        with the ends of their intervals, ``boundary_errors``, the share of the worker's spans that have other ends than one of
        :meth:`spans`, and ``type_errors``, the share with the same ends and another type; and ``seconds``, the median duration
        of an annotation, if durations are known.

        Args:
            level: probability of the equal-tailed intervals. Defaults to ArviZ's default, .89.
            sort: column to sort by, best first. A column with an interval is sorted by its worse end, so that workers with few
                annotations do not come first by chance. Defaults to the order of the data.
            minimum: leave out workers with fewer annotations; they are not ranked either.
            measures: the measures, names of :data:`crowdppl.posterior.workers.MEASURES`, ``sensitivity`` and ``specificity``.
            cost: cost matrix for ``expected_cost`` and ``cost_quality``, see :func:`crowdppl.posterior.workers.expected_cost`.

        Raises:
            OptionError: for a level outside (0, 1), an unknown column or measure.
        """
        return worker_table(self, level=level, sort=sort, minimum=minimum, measures=measures, cost=cost)

    @checked
    def confusion(self, worker: Identifier = None, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per cell of the confusion matrix of a worker, or of all workers.

        Columns: ``worker`` (for all workers), ``truth``, ``label``, ``probability`` of that label given that truth, and the
        ends of its interval ``low`` and ``high``. ``.pivot(index="truth", columns="label", values="probability")`` is the
        matrix.

        Raises:
            DataError: for an unknown worker.
        """
        names = self.worker_names()
        if worker is not None:
            chosen = np.array([self.worker_index(worker)])
            parts = [interval(self.draws("confusion", worker=chosen), level)]
        else:
            chosen = np.arange(len(names))
            parts = [interval(confusion, level) for _, confusion, _ in self.worker_blocks()]
        mean, low, high = (np.concatenate(part).reshape(-1) for part in zip(*parts, strict=True))
        K = len(self.labels)
        table = pd.DataFrame(
            {
                "worker": np.repeat(names[chosen], K * K),
                "truth": np.tile(np.repeat(self.labels, K), len(chosen)),
                "label": np.tile(self.labels, K * len(chosen)),
                "probability": mean,
                "low": low,
                "high": high,
            }
        )
        return table if worker is None else table.drop(columns="worker")

    @checked
    def other_rates(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return how often each worker gives labels that are never a true label, by true label.

        Columns: ``worker``, ``truth``, ``label``, ``rate``, the probability that the worker answers an item of this true label
        with it, and the ends ``low`` and ``high`` of its interval.

        Raises:
            DataError: if the annotations were read without ``other_labels``.
        """
        return other_rates.table(self, level)

    @checked
    def spans(self, *, every: bool = False) -> pd.DataFrame:
        """Return a table with one row per span, of labels such as ``B-PER``, ``I-PER`` and ``O`` in sequences.

        Columns: ``sequence``; ``first`` and ``last`` position; ``type``; ``probability`` that the truth has exactly this span;
        ``workers``, how many marked it, ``of_workers``, how many labelled all its tokens; ``first_task`` and ``last_task`` (or
        ``item``), the tokens at its ends. The spans are those of the most probable labels.

        Args:
            every: whether to return also the spans that some worker marked; the column ``chosen`` tells them apart.

        Raises:
            DataError: if the result has no spans.
        """
        return spans.table(self, every)

    def sets(self) -> pd.DataFrame:
        """Return a table with one row per task, where annotations are sets of labels.

        Columns: ``task`` (or ``item``); ``labels``, those that are more probably in the set than not, joined by ``;``;
        ``probability`` that the true set is exactly this one; ``annotations``, the number of sets given; ``p_<label>`` for every
        label, the probability that it is in the true set.

        Raises:
            DataError: if the annotations are not sets.
        """
        return sets.table(self)

    def set_labels(self) -> Array | None:
        """Return the labels that sets are made of, ``(L,)``; ``None`` where annotations are not sets."""
        return sets.labels(self) if sets.has_sets(self) else None

    @checked
    def label_rates(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per worker and label, where annotations are sets of labels.

        Columns: ``worker``; ``label``; ``annotations``, the number of sets that the worker gave; ``chosen``, those with the
        label; ``sensitivity``, the probability that the worker chooses a label that is in the true set, and
        ``false_positive_rate``, one that is not, each with ``_low`` and ``_high``, the ends of its interval.

        Raises:
            DataError: if the annotations are not sets, or the model has no rates by label.
        """
        return sets.rates(self, level)

    @checked
    def effects(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per covariate: what accuracy depends on, by ``accuracy-regression``.

        Columns: ``covariate``; ``effect``, by how much the log odds of a correct label rise with one unit of it, workers, items
        and the other covariates being the same; ``accuracy_change``, by how much the probability of a correct label does, on
        average over the annotations; each with ``_low`` and ``_high``, the ends of its interval; ``probability_positive``, that
        the effect is positive. A level of a categorical covariate is compared with the baseline. The intervals are those of the
        model, whose items differ in easiness; no further correlation of errors is allowed for.

        Raises:
            DataError: if the model has no effects of covariates.
        """
        return effects.table(self, level)

    @checked
    def accuracy_over_time(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per worker and time, where abilities change: ``AccuracyRegression(walk="session")``.

        Columns: ``worker``; the covariate that has the times; ``accuracy`` on the mean item, other covariates at their means,
        with ``accuracy_low`` and ``accuracy_high``; ``probability_higher``, that it is higher than at the first time.

        Raises:
            DataError: if the model has no abilities that change.
        """
        return effects.over_time(self, level)

    @checked
    def grades(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per item: the grades that it was given, and its true grade.

        Columns: ``task`` (or ``item``); ``annotations``; ``mean_grade``, the mean of the grades given; ``grade``, the expected
        true grade, which allows for the severity of those who graded the item (the fair average where no true grades are known);
        ``grade_low`` and ``grade_high``, between which the true grade is with the probability ``level`` or more.

        Raises:
            DataError: if the labels are not grades.
        """
        return grading.item_table(self, level)

    @checked
    def severity(self, *, level: Level | None = None, pairs: bool = False) -> pd.DataFrame:
        """Return a table with one row per rater: how severe each is, in grades.

        Columns: ``worker``; ``annotations``; ``mean_grade``, the mean of the grades given; ``severity``, by how much the grades
        are lower than those of the mean rater on the same items, with ``severity_low`` and ``severity_high``;
        ``grade_correlation``, the correlation of the grades with the true ones, likewise.

        With ``pairs``, a row for each pair of raters: ``worker``, ``other``, ``difference``, the severity of the first less that
        of the other, its interval ``low`` and ``high``, and ``probability``, that the first is the more severe.

        Raises:
            DataError: if the labels are not grades.
        """
        return grading.pair_table(self, level) if pairs else grading.severity_table(self, level)

    @checked
    def criteria(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per criterion of grades: how hard it is to get a high grade by it, in grades.

        Columns: ``criterion``; ``annotations``; ``mean_grade``, the mean of the grades given by it; ``difficulty``, by how much
        grades by it are lower than by the mean criterion, of the same items by the same raters, with ``difficulty_low`` and
        ``difficulty_high``.

        Raises:
            DataError: if the grades are not by criteria, or the model has no difficulties of them.
        """
        return grading.criterion_table(self, level)

    @checked
    def prevalence(self, *, level: Level | None = None) -> pd.DataFrame:
        """Return a table with one row per class: ``label``, ``share`` of items, ``low``, ``high``."""
        mean, low, high = interval(self.draws("prevalence"), level)
        return pd.DataFrame({"label": self.labels, "share": mean, "low": low, "high": high})

    @checked
    def save(self, path: OutputFile, *, keep: Literal["small", "full"] = "small") -> Path:
        """Write the result to one NetCDF file, atomically: an interruption leaves the old file or the new one.

        Args:
            path: of the file.
            keep: what the file holds. ``"small"``: what all tables, reports, ``next``, ``check``, ``update`` and ArviZ's
                summary and leave-one-out prediction need, with draws rounded (see :mod:`crowdppl.posterior.compact`); parameters
                of single workers and items are left out, except those that the model states in ``viewed``. ``"full"``:
                everything as it is, many times as large.

        Raises:
            FileError: if the file cannot be written.
            OptionError: for ``keep="full"`` of a result that was loaded from a small file.
        """
        path = Path(path)
        io.write(self.tree, path, keep)
        return path


@checked
def truth_table(
    items: Annotated[Array, arguments.a_list],
    labels: Annotated[Array, arguments.a_list],
    probability: Array,
    item_column: str = "task",
    chosen: Array | None = None,
) -> pd.DataFrame:
    """Return the table of :meth:`Posterior.truth` for class probabilities ``(N, K)``.

    ``chosen`` are the classes to name ``(N,)``, where they are not the most probable ones.
    """
    best, entropy = (
        probability.argmax(-1) if chosen is None else chosen,
        np.empty(len(probability), dtype=probability.dtype),
    )
    for begin in range(0, len(entropy), _BLOCK):
        p = probability[begin : begin + _BLOCK]
        logs = np.log2(p, out=np.zeros_like(p), where=p > 0)  # 0 log 0 = 0
        entropy[begin : begin + _BLOCK] = -np.einsum("nk,nk->n", p, logs)
    table = {
        item_column: items,
        "label": labels[best],
        "probability": probability[np.arange(len(best)), best],
        "entropy": np.maximum(entropy, 0.0),
    }
    return pd.DataFrame(table | {name: probability[:, n] for n, name in enumerate(probability_columns(labels))})


def probability_columns(labels: Array) -> list[str]:
    """Return the names of the columns of class probabilities in a table of true labels."""
    return class_columns("p_", labels.tolist())


@checked
def load(path: InputPath) -> Posterior:
    """Read a result written by :meth:`Posterior.save` and validate it, see :mod:`crowdppl.posterior.schema`.

    A result whose labels are numbers is a :class:`crowdppl.posterior.numbers.NumericPosterior`.

    Large draws are read, and validated, when they are first used. The file is open only while it is read. What was not read of a
    file that has been moved, replaced or changed since gives a ``FileError``; ``posterior.tree.load()`` reads all at once.

    Raises:
        FileError: if the file is missing, damaged, of another kind, or of an earlier or later format.
    """
    tree = io.read(Path(path))
    if tree.attrs.get(io.KIND) == io.JUDGES:
        raise FileError(f"{Path(path).name} is a result of crowdppl.judges; read it with crowdppl.judges.load")
    if is_numeric(tree):
        return NumericPosterior(tree)  # type: ignore[return-value]  # which one it is follows from the file
    return Posterior(tree)
