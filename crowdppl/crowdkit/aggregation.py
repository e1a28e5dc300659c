"""Classes with crowd-kit's names, methods and attributes (https://crowd-kit.readthedocs.io), fitted by our EM.

A script changes its import and goes on. What differs, and how to have it their way:

- **Smoothing.** Workers start with imaginary answers, so that a worker with two judgements is not taken for infallible; crowd-kit
  maximises the likelihood and gives rows without judgements a convention of its own. ``smoothing=False`` is the maximum of the
  likelihood.
- **Repeated judgements** of an item by one worker count each, as in crowd-kit.
- **Missing values** and other bad input are refused or told (:class:`crowdppl.CrowdpplWarning`); crowd-kit drops such rows.
- **Ties** of a vote go to the first class in order; probabilities keep them.
- ``probas_`` are those of the models as published, overconfident where judgements of an item err together. For probabilities and
  intervals that mean what they say take :func:`crowdppl.fit`; ``posterior_`` holds the result.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, DataError, OptionError, listed
from crowdppl.inference import fit, named_model
from crowdppl.model import AnnotationModel
from crowdppl.posterior import Posterior

AGGREGATED = "agg_label"


class _Fitted:
    """What every class offers after ``fit``: ``labels_ (task)``, ``probas_ (task, label)``."""

    labels_: pd.Series[Any]
    probas_: pd.DataFrame

    def _take(self, data: Annotations, probability: np.ndarray[Any, Any]) -> None:
        tasks = pd.Index(data.items, name="task")
        self.probas_ = pd.DataFrame(probability, index=tasks, columns=pd.Index(data.labels, name="label")).sort_index()
        best = self.probas_.to_numpy().argmax(1)
        self.labels_ = pd.Series(data.labels[best], index=self.probas_.index, name=AGGREGATED)


class _ByEm(_Fitted):
    """A model fitted by EM.

    Args:
        n_iter: most iterations.
        tol: stop where the log posterior (of all items) rises by less than this fraction of itself.
        smoothing: imaginary answers of every worker; ``False`` for the maximum of the likelihood.
    """

    model: str

    def __init__(self, n_iter: int = 100, tol: float = 1e-5, *, smoothing: bool = True):
        self.n_iter, self.tol, self.smoothing = n_iter, tol, smoothing

    def _model(self) -> AnnotationModel:
        chosen = named_model(self.model)
        return chosen if self.smoothing else type(chosen).maximum_likelihood()  # type: ignore[attr-defined]

    def _fit(self, data: pd.DataFrame, true_labels: pd.Series[Any] | None) -> None:
        made = _annotations(data, true_labels)
        with warnings.catch_warnings():
            # Ending after n_iter is what was asked for.
            warnings.filterwarnings("ignore", category=CrowdpplWarning)
            posterior = fit(
                made,
                self._model(),
                method="em",
                independent=True,
                accelerate=False,
                max_iter=max(1, self.n_iter),
                tol=max(0.0, self.tol),
                num_samples=2,
            )
        self.posterior_: Posterior = posterior
        self._take(made, posterior.probability())
        point = posterior.tree["point"].to_dataset()
        labels = pd.Index(made.labels, name="label")
        self.priors_ = pd.Series(point["prevalence"].to_numpy(), index=labels, name="prior")
        self.errors_ = self._errors(made, posterior)
        trace = posterior.tree["sample_stats"].to_dataset()
        name = next(str(n) for n in trace.data_vars if trace[n].dims == ("iteration",))
        self.loss_history_ = (trace[name].to_numpy() / made.N).tolist()

    def _errors(self, data: Annotations, posterior: Posterior) -> pd.DataFrame:
        """Return ``p(label | truth)``: rows are (worker, label given), columns the true label, as crowd-kit has it."""
        table = self._confusion(posterior)  # (J, truth, label)
        K = len(data.labels)
        index = pd.MultiIndex.from_arrays(
            [np.repeat(data.workers, K), np.tile(data.labels, data.J)], names=["worker", "label"]
        )
        return pd.DataFrame(table.swapaxes(1, 2).reshape(-1, K), index=index, columns=data.labels)

    def _confusion(self, posterior: Posterior) -> np.ndarray[Any, Any]:
        return np.asarray(posterior.tree["point"].to_dataset()["confusion"].to_numpy())


class DawidSkene(_ByEm):
    """Dawid and Skene's model; after ``fit`` also ``priors_ (label)``, ``errors_ (worker x label, truth)``, ``loss_history_``.

    Args:
        n_iter: most iterations.
        tol: stop where the log posterior rises by less than this fraction of itself.
        initial_error_strategy: crowd-kit's; not offered, see ``fit``.
        smoothing: imaginary answers of every worker; ``False`` for the maximum of the likelihood.

    Raises:
        OptionError: for an ``initial_error_strategy``.
    """

    model = "dawid-skene"

    def __init__(
        self, n_iter: int = 100, tol: float = 1e-5, initial_error_strategy: str | None = None, *, smoothing: bool = True
    ):
        _no_initial_error(initial_error_strategy)
        super().__init__(n_iter, tol, smoothing=smoothing)

    def fit(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> DawidSkene:
        """Fit to a frame with ``task``, ``worker``, ``label``; ``true_labels`` are known truths by task.

        Raises:
            DataError: says what is wrong with the data.
            OptionError: for an ``initial_error``: give known truths, or a prior by :func:`crowdppl.fit`.
        """
        _no_initial_error(initial_error)
        self._fit(data, true_labels)
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


class OneCoinDawidSkene(_ByEm):
    """One accuracy for each worker; after ``fit`` also ``skills_ (worker)``, ``priors_``, ``errors_``, ``loss_history_``.

    Arguments as of :class:`DawidSkene`.
    """

    model = "one-coin"

    def __init__(
        self, n_iter: int = 100, tol: float = 1e-5, initial_error_strategy: str | None = None, *, smoothing: bool = True
    ):
        _no_initial_error(initial_error_strategy)
        super().__init__(n_iter, tol, smoothing=smoothing)

    def fit(self, data: pd.DataFrame) -> OneCoinDawidSkene:
        """Fit to a frame with ``task``, ``worker``, ``label``."""
        self._fit(data, None)
        point = self.posterior_.tree["point"].to_dataset()
        workers = pd.Index(self.posterior_.worker_names(), name="worker")
        self.skills_ = pd.Series(point["accuracy"].to_numpy(), index=workers, name="skill").sort_index()
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit, and return ``labels_``."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit, and return ``probas_``."""
        return self.fit(data).probas_

    def _confusion(self, posterior: Posterior) -> np.ndarray[Any, Any]:
        right = posterior.tree["point"].to_dataset()["accuracy"].to_numpy()[:, None, None]  # (J, 1, 1)
        K = len(posterior.labels)
        return np.where(np.eye(K, dtype=bool), right, (1 - right) / (K - 1))


class MajorityVote(_Fitted):
    """A vote, each worker with the weight of a skill where skills are given; after ``fit`` also ``skills_ (worker)``.

    Args:
        default_skill: of workers without one, for ``on_missing_skill="value"``.
        on_missing_skill: ``"error"``, ``"ignore"`` such workers, or ``"value"``.

    Raises:
        OptionError: for another ``on_missing_skill``.
    """

    def __init__(
        self, default_skill: float | None = None, on_missing_skill: Literal["error", "ignore", "value"] = "error"
    ):
        if on_missing_skill not in ("error", "ignore", "value"):
            raise OptionError(f"on_missing_skill={on_missing_skill!r}; use 'error', 'ignore' or 'value'")
        if on_missing_skill == "value" and default_skill is None:
            raise OptionError("on_missing_skill='value' needs a default_skill")
        self.default_skill, self.on_missing_skill = default_skill, on_missing_skill

    def fit(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> MajorityVote:
        """Count the votes of a frame with ``task``, ``worker``, ``label``.

        Raises:
            DataError: where a worker has no skill and that is an error, or nobody is left.
        """
        made = _annotations(data, None)
        item, worker, label = (part.numpy() for part in (made.item, made.worker, made.label))
        weight = np.ones(made.J)
        if skills is not None:
            weight = skills.reindex(made.workers).to_numpy(dtype=float, copy=True)
            missing = np.isnan(weight)
            if missing.any() and self.on_missing_skill == "error":
                raise DataError(f"no skill of worker {listed(made.workers[missing].tolist(), 3)}; see on_missing_skill")
            weight[missing] = (self.default_skill or 0.0) if self.on_missing_skill == "value" else 0.0
        votes = np.bincount(item * made.K + label, weights=weight[worker], minlength=made.N * made.K)
        votes = votes.reshape(made.N, made.K)
        total = votes.sum(1, keepdims=True)
        if (total == 0).any():
            raise DataError(
                f"task {listed(made.items[total[:, 0] == 0].tolist(), 3)}: nobody with a skill has judged it"
            )
        self._take(made, votes / total)
        right = votes.argmax(1)[item] == label
        agreed = np.bincount(worker, weights=right, minlength=made.J) / np.bincount(worker, minlength=made.J)
        self.skills_ = pd.Series(agreed, index=pd.Index(made.workers, name="worker"), name="skill").sort_index()
        return self

    def fit_predict(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> pd.Series[Any]:
        """Fit, and return ``labels_``."""
        return self.fit(data, skills).labels_

    def fit_predict_proba(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> pd.DataFrame:
        """Fit, and return ``probas_``."""
        return self.fit(data, skills).probas_


def _annotations(data: pd.DataFrame, true_labels: pd.Series[Any] | None) -> Annotations:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*repeated judgements.*", category=CrowdpplWarning)
        return Annotations.from_frame(data, truth=true_labels)


def _no_initial_error(given: object) -> None:
    if given is not None:
        raise OptionError(
            "initial errors of workers are not taken: give known truths (true_labels), or a prior (crowdppl.fit with "
            "crowdppl.models.DawidSkene(concentration=...))"
        )
