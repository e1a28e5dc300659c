"""Classes with crowd-kit's names, methods and attributes (https://crowd-kit.readthedocs.io).

A script needs to change only its import: ``from crowdppl.crowdkit.aggregation import DawidSkene``. With ``smoothing=False`` the
classes run crowd-kit's algorithm step by step (vote, then ``n_iter`` times an E step and an M step, the same floor of 1e-10, the
same loss, the same stopping rule) and return its numbers. All differences are listed in ``docs/guide/crowd-kit.md``. The main
ones:

- **Smoothing** is on by default: pseudo-counts are added for every worker, so that a worker with two annotations is not estimated
  to be infallible. crowd-kit maximises the likelihood.
- **Missing values** and other bad input raise an error of one line or a warning (:class:`crowdppl.CrowdpplWarning`); crowd-kit
  drops such rows silently.
- ``probas_`` are those of the published model, which is overconfident if errors on an item are correlated. For calibrated
  probabilities and intervals use :func:`crowdppl.fit`; the attribute ``posterior_`` calls it with the same data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_matrix

from crowdppl.arguments import choice, flag, number, shown, whole
from crowdppl.data.annotations import Annotations
from crowdppl.data.frames import to_pandas
from crowdppl.errors import DataError, OptionError, listed, silent, warn
from crowdppl.inference.fit import fit
from crowdppl.models import DawidSkene as DawidSkeneModel
from crowdppl.models import OneCoin
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

AGGREGATED = "agg_label"
COLUMNS = ["task", "worker", "label"]
STRATEGIES = ("assign", "addition")
MISSING_SKILLS = ("error", "ignore", "value")
# crowd-kit's floor of a probability.
FLOOR = 1e-10


class MissingColumnError(DataError, KeyError):
    """A frame lacks a column. It is also a ``KeyError``, as in crowd-kit."""

    __str__ = Exception.__str__  # KeyError would put the message in quotes


class _Fitted:
    """Attributes of every class after ``fit``: ``labels_ (task)`` and ``probas_ (task, label)``."""

    labels_: pd.Series[Any]
    probas_: pd.DataFrame

    def _set_truth(self, probability: Array, tasks: pd.Index[Any], labels: pd.Index[Any]) -> None:
        self.probas_ = pd.DataFrame(probability, index=tasks, columns=labels)
        best = labels.take(probability.argmax(1)).rename(None)
        self.labels_ = pd.Series(best, index=tasks, name=AGGREGATED)

    def __repr__(self) -> str:
        options = {name: value for name, value in vars(self).items() if not (name[0] == "_" or name[-1] == "_")}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in options.items())})"


class _Rows(NamedTuple):
    """Counts of the annotations for EM. A row is a pair of a worker and a label; the ``R`` rows are sorted by worker and label.

    Attributes:
        data: the annotations.
        given: number of annotations by item and row, ``(N, R)``.
        worker: of each row, ``(R,)``.
        label: of each row, ``(R,)``.
        of_worker: 1 if a row belongs to a worker, ``(J, R)``.
    """

    data: Annotations
    given: Any
    worker: Array
    label: Array
    of_worker: Any

    @classmethod
    def of(cls, data: Annotations, *, every: bool) -> _Rows:
        """Count annotations by row: only pairs that occur, or every worker with every label."""
        item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
        rows, row = np.arange(data.J * data.K), worker * data.K + label
        if not every:
            rows, row = np.unique(row, return_inverse=True)
        given = csr_matrix((np.ones(data.A), (item, row)), shape=(data.N, len(rows)))
        place = (rows // data.K, np.arange(len(rows)))
        return cls(data, given, *np.divmod(rows, data.K), csr_matrix((np.ones(len(rows)), place), (data.J, len(rows))))

    def shares(self, values: Array) -> Array:
        """Divide ``(R, K)`` by its sum over the rows of each worker; values below the floor are raised to it."""
        values = np.maximum(values, FLOOR)
        return np.asarray(values / (self.of_worker @ values)[self.worker])


class _ByEm(_Fitted):
    """A model fitted by EM; arguments are those of :class:`DawidSkene`."""

    priors_: pd.Series[Any]
    errors_: pd.DataFrame
    loss_history_: list[float]

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-5,
        initial_error_strategy: Literal["assign", "addition"] | None = None,
        *,
        smoothing: bool = True,
    ):
        n_iter = whole(0)("n_iter", n_iter)
        if isinstance(tol, bool) or not isinstance(tol, (int, float)) or math.isnan(tol):
            raise OptionError(f"tol={shown(tol)}; it must be a number (a negative one runs all of n_iter)")
        if initial_error_strategy is not None:
            choice(*STRATEGIES)("initial_error_strategy", initial_error_strategy)
        flag("smoothing", smoothing)
        self.n_iter, self.tol, self.initial_error_strategy = n_iter, tol, initial_error_strategy
        self.smoothing = smoothing
        self._data: Annotations | None = None
        self._posterior: Posterior | None = None

    @property
    def posterior_(self) -> Posterior:
        """The calibrated result of :func:`crowdppl.fit` for the same model and data, computed when first used.

        Raises:
            AttributeError: before ``fit``, or after a fit to no data.
        """
        if self._posterior is None:
            if self._data is None:
                raise AttributeError(f"posterior_ needs annotations; call {type(self).__name__}.fit with some first")
            model = self._prior if self.smoothing else self._prior.maximum_likelihood()
            self._posterior = fit(self._data, model, method="em")
        return self._posterior

    # ------------------------------------------------------------------ defined by the models

    _prior: DawidSkeneModel | OneCoin

    def _step(self, r: Array, rows: _Rows) -> Array:
        """M step: return ``p(label | truth)`` of each row ``(R, K)``, from ``p(truth)`` ``(N, K)``."""
        raise NotImplementedError

    def _pseudo_counts(self, rows: _Rows) -> Array:
        """Return the pseudo-counts of the rows, ``(R, K)`` or ``(1,)``."""
        return np.zeros(1)

    def _density(self, errors: Array, rows: _Rows) -> float:
        """Return the log prior density of ``p(label | truth)``, up to a constant."""
        raise NotImplementedError

    # ------------------------------------------------------------------ EM

    def _fit(
        self, frame: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial: pd.DataFrame | None = None
    ) -> tuple[Array, _Rows, pd.Index[Any]] | None:
        """Fit; return ``p(truth)``, the rows and the names of the workers, or ``None`` for an empty frame."""
        frame = _columns(frame)
        self._data = self._posterior = None
        self.loss_history_ = []
        if not len(frame):
            self.probas_, self.errors_ = pd.DataFrame(), pd.DataFrame()
            self.labels_, self.priors_ = pd.Series(dtype=float, name=AGGREGATED), pd.Series(dtype=float, name="prior")
            return None
        data = _annotations(frame, true_labels)
        rows = _Rows.of(data, every=self.smoothing)
        tasks, workers, labels = _names(frame, data)
        index = pd.MultiIndex.from_arrays([workers.take(rows.worker), labels.take(rows.label)])
        clamp = 0.0 if data.clamp is None else data.clamp.numpy()
        r = data.majority().numpy()
        prior, errors, before = r.mean(0), self._step(r, rows), -np.inf
        table = pd.DataFrame(errors, index, labels.rename(None))
        if initial is not None and self.initial_error_strategy is not None:
            counts = pd.DataFrame(rows.given.T @ r + self._pseudo_counts(rows), index, table.columns)
            table = _with_initial(counts, initial, self.initial_error_strategy)
            errors = table.loc[index].to_numpy()
        for _ in range(self.n_iter):
            joint = np.log2(np.maximum(prior, FLOOR)) + rows.given @ np.log2(errors) + clamp
            top = joint.max(1, keepdims=True)
            r = np.exp2(joint - top)
            total = r.sum(1, keepdims=True)
            r = r / total
            log_posterior = self._density(errors, rows) + math.log(2) * float((top + np.log2(total)).sum())
            prior, errors = r.mean(0), self._step(r, rows)
            loss = (log_posterior if self.smoothing else _loss(r, prior, errors, rows)) / data.A
            self.loss_history_.append(loss)
            if loss - before < self.tol:
                break
            before = loss
        self._data = data
        self._set_truth(r, tasks, labels)
        self.priors_ = pd.Series(prior, index=labels, name="prior")
        self.errors_ = pd.DataFrame(errors, index, table.columns) if self.loss_history_ else table
        return r, rows, workers


class DawidSkene(_ByEm):
    """Dawid and Skene's model; after ``fit`` also ``priors_ (label)``, ``errors_ (worker x label, truth)``, ``loss_history_``.

    Args:
        n_iter: maximum number of iterations; 0 leaves the majority vote.
        tol: stop when the loss of an annotation rises by less than this. The loss is the log posterior with smoothing, and
            crowd-kit's without.
        initial_error_strategy: how ``initial_error`` enters the first M step: in place of the counts (``"assign"``) or added to
            them (``"addition"``).
        smoothing: pseudo-counts for every worker; ``False`` for maximum likelihood by crowd-kit's algorithm.

    Raises:
        OptionError: for a value outside its range.
    """

    _prior = DawidSkeneModel()

    def fit(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> Self:
        """Fit to a frame with ``task``, ``worker``, ``label``.

        Args:
            data: the annotations.
            true_labels: known true labels by task; those of tasks that are not in ``data`` are ignored.
            initial_error: of workers, indexed by ``worker`` and ``label`` with a column for each true label: counts, or for
                ``"assign"`` also probabilities.

        Raises:
            DataError: for missing columns or invalid annotations.
        """
        if initial_error is not None and self.initial_error_strategy is None:
            warn("initial_error is ignored without an initial_error_strategy; give 'assign' or 'addition'")
            initial_error = None
        self._fit(data, true_labels, initial_error)
        return self

    def fit_predict(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> pd.Series[Any]:
        """Fit, and return ``labels_``."""
        return self.fit(data, true_labels, initial_error).labels_

    def fit_predict_proba(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Fit, and return ``probas_``."""
        return self.fit(data, true_labels, initial_error).probas_

    def _step(self, r: Array, rows: _Rows) -> Array:
        return rows.shares(rows.given.T @ r + self._pseudo_counts(rows))

    def _density(self, errors: Array, rows: _Rows) -> float:
        return float((self._pseudo_counts(rows) * np.log(errors)).sum())

    def _pseudo_counts(self, rows: _Rows) -> Array:
        if not self.smoothing:
            return np.zeros(1)
        return np.asarray((self._prior.concentrations(rows.data)[1].numpy() - 1).T[rows.label])


class OneCoinDawidSkene(_ByEm):
    """One accuracy for each worker; after ``fit`` also ``skills_ (worker)``, ``priors_``, ``errors_``, ``loss_history_``.

    Arguments as of :class:`DawidSkene`. As in crowd-kit, ``fit`` takes no initial errors and no known true labels.
    """

    skills_: pd.Series[Any]
    _prior = OneCoin()

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit to a frame with ``task``, ``worker``, ``label``.

        Raises:
            DataError: for missing columns or invalid annotations.
        """
        self.skills_ = pd.Series(dtype=float, name="skill")
        fitted = self._fit(data)
        if fitted is not None:
            r, rows, workers = fitted
            self.skills_ = pd.Series(self._skills(r, rows), index=workers, name="skill")
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit, and return ``labels_``."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit, and return ``probas_``."""
        return self.fit(data).probas_

    def _pseudo(self) -> tuple[float, float]:
        """Return the pseudo-counts of correct and of incorrect annotations."""
        return (self._prior.prior_correct, self._prior.prior_incorrect) if self.smoothing else (0.0, 0.0)

    def _skills(self, r: Array, rows: _Rows) -> Array:
        """Return the accuracy of each worker, ``(J,)``."""
        prior_correct, prior_incorrect = self._pseudo()
        correct = rows.of_worker @ (rows.given.T @ r)[np.arange(len(rows.label)), rows.label]
        total = rows.of_worker @ np.asarray(rows.given.sum(0)).ravel()
        return np.asarray((correct + prior_correct) / (total + prior_correct + prior_incorrect))

    def _step(self, r: Array, rows: _Rows) -> Array:
        K = rows.data.K
        mine = self._skills(r, rows)[rows.worker, None]
        errors = np.where(rows.label[:, None] == np.arange(K), mine, (1 - mine) / max(1, K - 1))
        return errors.clip(FLOOR, 1 - FLOOR)

    def _density(self, errors: Array, rows: _Rows) -> float:
        if not self.smoothing:
            return 0.0
        correct, incorrect = self._pseudo()
        skills = errors[rows.label == 0, 0]
        return float((correct * np.log(skills) + incorrect * np.log1p(-skills)).sum())


class MajorityVote(_Fitted):
    """Majority vote, weighted by skills if they are given; after ``fit`` also ``skills_ (worker)``.

    ``skills_`` is the share of a worker's annotations that agree with the vote.

    Args:
        default_skill: weight of workers without a skill, for ``on_missing_skill="value"``.
        on_missing_skill: for workers without a skill: ``"error"``; ``"ignore"`` their annotations; or ``"value"``, use
            ``default_skill``.

    Raises:
        OptionError: for another ``on_missing_skill``, or one that needs a ``default_skill``.
    """

    skills_: pd.Series[Any]

    def __init__(
        self, default_skill: float | None = None, on_missing_skill: Literal["error", "ignore", "value"] = "error"
    ):
        choice(*MISSING_SKILLS)("on_missing_skill", on_missing_skill)
        if default_skill is not None:
            default_skill = number()("default_skill", default_skill)
        if on_missing_skill == "value" and default_skill is None:
            raise OptionError("on_missing_skill='value' needs a default_skill")
        self.default_skill, self.on_missing_skill = default_skill, on_missing_skill

    def fit(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> Self:
        """Count the votes of a frame with ``task``, ``worker``, ``label``.

        Args:
            data: the annotations.
            skills: weight of each worker, by worker.

        Raises:
            DataError: for a worker without a skill if that is an error, or a task on which all workers have weight 0.
            OptionError: for a ``default_skill`` that ``on_missing_skill`` does not use.
        """
        frame = _columns(data)
        if not len(frame):
            self.probas_ = pd.DataFrame()
            self.labels_, self.skills_ = pd.Series(dtype=object, name=AGGREGATED), pd.Series(dtype=float, name="skill")
            return self
        annotations = _annotations(frame, None)
        N, J, K = annotations.N, annotations.J, annotations.K
        tasks, workers, labels = _names(frame, annotations)
        item, worker, label = (part.numpy() for part in (annotations.item, annotations.worker, annotations.label))
        weight = np.ones(J) if skills is None else self._weights(skills, workers)
        known = ~np.isnan(weight)
        kept = known[worker]
        item, worker, label = item[kept], worker[kept], label[kept]
        votes = np.bincount(item * K + label, weights=weight[worker], minlength=N * K).reshape(N, K)
        total = votes.sum(1, keepdims=True)
        if (total == 0).any():
            raise DataError(
                f"task {listed(annotations.items[total[:, 0] == 0].tolist(), 3)}: nobody with a skill above 0 has annotated it; "
                f"give the skill of one of its workers, or on_missing_skill='value'"
            )
        self._set_truth(votes / total, tasks, labels)
        # Repeated equal annotations count once, as in crowd-kit.
        _, first = np.unique((item * J + worker) * K + label, return_index=True)
        correct = votes.argmax(1)[item[first]] == label[first]
        agreed = np.bincount(worker[first], weights=correct, minlength=J)
        total = np.bincount(worker[first], minlength=J)
        self.skills_ = pd.Series(agreed[known] / total[known], index=workers[known], name="skill").sort_index()
        return self

    def fit_predict(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> pd.Series[Any]:
        """Fit, and return ``labels_``."""
        return self.fit(data, skills).labels_

    def fit_predict_proba(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> pd.DataFrame:
        """Fit, and return ``probas_``."""
        return self.fit(data, skills).probas_

    def _weights(self, skills: pd.Series[Any], workers: pd.Index[Any]) -> Array:
        """Return the weight of each worker, ``(J,)``, NaN for workers that are ignored."""
        if self.default_skill is not None and self.on_missing_skill != "value":
            raise OptionError(
                f"default_skill={self.default_skill!r} is used with on_missing_skill='value' only, not "
                f"{self.on_missing_skill!r}"
            )
        skills = _series("skills", skills)
        twice = skills.index[skills.index.duplicated()]
        if len(twice):
            raise DataError(
                f"skills: worker {listed(twice.unique().tolist(), 3)} has several; give one skill for each worker"
            )
        weight = skills.reindex(workers).to_numpy(dtype=float, copy=True)
        missing = np.isnan(weight)
        if missing.any() and self.on_missing_skill == "error":
            raise DataError(
                f"no skill of worker {listed(workers[missing].tolist(), 3)}; add it, or choose on_missing_skill='ignore' or "
                f"'value'"
            )
        if self.on_missing_skill == "value":
            weight[missing] = self.default_skill
        return weight


def _columns(data: pd.DataFrame) -> pd.DataFrame:
    if not isinstance(data, pd.DataFrame):
        taken = to_pandas(data, "data", ", with task, worker and label")
        data = pd.DataFrame({name: taken[name].to_list() for name in taken.columns})
    missing = [name for name in COLUMNS if name not in data.columns]
    if missing:
        there = listed([str(name) for name in data.columns], 12)
        raise MissingColumnError(f"data: no column {listed(missing)}; columns are {there}; rename those that hold them")
    return data[COLUMNS]


def _series(name: str, value: Any) -> pd.Series[Any]:
    """Accept a Series, or a mapping."""
    if isinstance(value, Mapping):
        return pd.Series(dict(value))
    if not isinstance(value, pd.Series):
        raise DataError(f"{name} is a {type(value).__name__}; pass a Series or a mapping")
    return value


def _annotations(frame: pd.DataFrame, true_labels: pd.Series[Any] | None) -> Annotations:
    if true_labels is not None:
        true_labels = _series("true_labels", true_labels).dropna()
        true_labels = true_labels[true_labels.index.isin(frame["task"])]
    with silent("repeated annotations"):
        return Annotations.from_frame(frame, truth=true_labels, task="task", worker="worker", label="label")


def _names(frame: pd.DataFrame, data: Annotations) -> tuple[pd.Index[Any], pd.Index[Any], pd.Index[Any]]:
    """Return tasks, workers and labels as indexes with the types of the frame's columns."""
    out = []
    for name, values in zip(COLUMNS, (data.items, data.workers, data.labels), strict=True):
        index, dtype = pd.Index(values, name=name), frame[name].dtype
        plain = not isinstance(dtype, pd.CategoricalDtype) and (index.dtype.kind in "biuf") == (dtype.kind in "biuf")
        out.append(index.astype(dtype) if plain else index)
    return out[0], out[1], out[2]


def _with_initial(counts: pd.DataFrame, initial: pd.DataFrame, strategy: str) -> pd.DataFrame:
    """Return ``p(label | truth)`` after the first M step with initial errors, by crowd-kit's rule."""
    if list(initial.index.names) != ["worker", "label"]:
        raise DataError(
            f"The index of initial_error must be ['worker', 'label'], but it is {list(initial.index.names)}; "
            f"use initial_error.set_index(['worker', 'label'])"
        )
    missing = [label for label in counts.columns if label not in initial.columns]
    if missing:
        raise DataError(f"initial_error: no column for the true label {listed(missing)}; add one with counts of 0")
    initial = initial[counts.columns].astype(float)
    if strategy == "addition":
        errors = counts.add(initial, fill_value=0.0)
    else:
        there = counts.index.isin(initial.index)
        if not there.all():
            who = counts.index[~there].get_level_values("worker").unique().tolist()
            raise DataError(
                f"All the workers in data should be in initial_error, with all labels they gave: "
                f"rows of worker {listed(who, 3)} are missing; add them, or use initial_error_strategy='addition'"
            )
        sums = initial.groupby(level="worker").sum()
        if bool((initial <= 1).all(axis=None)) and not np.allclose(sums, 1.0):
            raise DataError(
                "The sum of each worker's error matrix in initial_error should be 1.0 for every true label; give "
                "probabilities that sum to 1, or counts"
            )
        errors = initial
    errors = errors.clip(lower=FLOOR)
    return errors / errors.groupby(level="worker").transform("sum")


def _loss(r: Array, prior: Array, errors: Array, rows: _Rows) -> float:
    """Return crowd-kit's lower bound of the log-likelihood, in which the class prior counts once for each annotation."""
    joint = (rows.given.T @ r) * (np.log(errors) + np.log(np.maximum(prior, FLOOR)))
    kept = np.maximum(r, FLOOR)
    return float(joint.sum() - (kept * np.log(kept)).sum())
