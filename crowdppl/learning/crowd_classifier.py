"""A classifier trained on the labels of several workers, by the conventions of scikit-learn.

The classifier and the workers are learned together, as in Raykar et al. (2010), Learning from crowds, JMLR 11: in turn, the
class probabilities of each item from the classifier and from its labels, and from these the confusion matrices and the
classifier. Two things differ, so that any classifier may stand inside. The probabilities that judge an item are those of
classifiers that have not seen it (cross-fitting), since a flexible one repeats whatever it was trained on; and they are raised to
the power that suits the current class probabilities best, since many classifiers are too sure of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter, validate_data
from torch import nn

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.errors import OptionError, silent
from crowdppl.inference.dependence.design_effect import NODES, DesignEffect
from crowdppl.inference.fit import fit
from crowdppl.inference.predict import predict
from crowdppl.models.raykar import Raykar
from crowdppl.posterior.posterior import Posterior

Array = npt.NDArray[Any]

# Class probabilities below this teach the classifier nothing.
NEGLIGIBLE = 1e-3
# Pseudo-annotations of a single worker, who is taken for correct.
CERTAIN = 1e9
# Least probability of a class that a classifier states, and range of the power of its probabilities.
LEAST, POWERS = 1e-6, (0.05, 3.0)


class CrowdClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of items that several workers have labelled.

    Args:
        estimator: a classifier of scikit-learn with ``predict_proba``, also a pipeline, or a ``torch.nn.Module`` with an output
            for each class. Defaults to the logistic classifier of :class:`crowdppl.models.Raykar`.
        folds: number of parts of the items, each judged by a classifier of the others; for classifiers of scikit-learn.
        max_iter: largest number of steps, each of which trains ``folds`` classifiers; likewise.
        tol: change of the class probabilities at which they end.
        prior_correct: correct pseudo-annotations of every worker in every class, on top of a flat prior.
        prior_incorrect: incorrect pseudo-annotations, shared evenly by the incorrect labels.
        independent: whether labels of one item count as independent in ``label_probability_``. By default it allows for
            correlated errors, as ``crowdppl.fit`` does (:mod:`crowdppl.inference.dependence.design_effect`).
        random_state: seed of the folds, of networks, and of estimators without one.

    Attributes:
        classes_: the classes ``(K,)``.
        estimator_: the trained classifier; a result of ``crowdppl.fit`` for the logistic one and for modules.
        label_probability_: class probabilities of the items of the training, by features and labels, ``(n, K)``.
        confusion_: probability of each label of each worker given the class, ``(J, K, K)``.
        power_: of the probabilities of the classifier; 1 for the logistic one and for modules.
        n_iter_: number of steps.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        folds: int = 5,
        max_iter: int = 10,
        tol: float = 0.01,
        prior_correct: float = 4.0,
        prior_incorrect: float = 1.0,
        independent: bool = False,
        random_state: int = 0,
    ):
        self.estimator = estimator
        self.folds = folds
        self.max_iter = max_iter
        self.tol = tol
        self.prior_correct = prior_correct
        self.prior_incorrect = prior_incorrect
        self.independent = independent
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> CrowdClassifier:
        """Train on features and labels.

        Args:
            X: features ``(n, D)``, finite numbers.
            y: labels ``(n, J)``, a column for each worker, missing (``None`` or NaN) where a worker did not label an item; or
                ``(n,)`` of one worker, who is taken for correct.

        Raises:
            OptionError: for an estimator that is no classifier with ``predict_proba``.
            ValueError: for features or labels that scikit-learn refuses.
        """
        X = validate_data(self, X, dtype=np.float64)
        labels = _columns(y, len(X))
        codes, self.classes_ = _coded(labels)
        self._check()
        if codes.shape[1] == 1:
            self._fit_true(X, codes[:, 0])
        elif self._by_model:
            self._fit_module(X, codes)
        else:
            self._fit_together(X, codes)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the class probabilities of items from their features alone, ``(n, K)``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if not isinstance(self.estimator_, Posterior):
            return _powered(_probabilities(self.estimator_, X, len(self.classes_)), self.power_)
        with silent():
            table = predict(self.estimator_, X, model=self._model())
        return table[[name for name in table if str(name).startswith("p_")]].to_numpy()

    def predict(self, X: Any) -> Array:
        """Return the most probable class of items from their features alone, ``(n,)``."""
        probability = self.predict_proba(X)
        return np.asarray(self.classes_[probability.argmax(1)])

    def _check(self) -> None:
        """Refuse arguments that cannot be used.

        Raises:
            OptionError: for a number outside its range, or an estimator without probabilities.
        """
        arguments.whole(2)("folds", self.folds)
        arguments.whole(1)("max_iter", self.max_iter)
        for name in ("tol", "prior_correct", "prior_incorrect"):
            arguments.at_least_zero(name, getattr(self, name))
        if self._by_model:
            return
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict_proba"):
            raise OptionError(
                f"estimator is a {type(self.estimator).__name__} without predict_proba; pass a classifier that states "
                f"probabilities, such as sklearn.calibration.CalibratedClassifierCV of it"
            )

    @property
    def _by_model(self) -> bool:
        """Whether the classifier is part of a model, which is fitted by EM."""
        return self.estimator is None or isinstance(self.estimator, nn.Module)

    def _model(self, workers: int = 2) -> Raykar:
        """Return the model; a single worker is taken for correct."""
        correct = self.prior_correct if workers > 1 else CERTAIN
        return Raykar(network=self.estimator, prior_correct=correct, prior_incorrect=self.prior_incorrect)

    def _fit_true(self, X: Array, code: Array) -> None:
        """Train on the labels of one worker, as if they were true."""
        K = len(self.classes_)
        if self._by_model:
            self._fit_module(X, code[:, None])
        self.label_probability_ = np.eye(K)[code]
        self.confusion_, self.power_, self.n_iter_ = np.eye(K)[None], 1.0, 1
        if not self._by_model:
            self.estimator_ = self._trained(X, self.label_probability_)

    def _fit_module(self, X: Array, codes: Array) -> None:
        """Fit learning from crowds with this network by EM."""
        item, worker = np.nonzero(codes >= 0)
        data = Annotations.from_arrays(
            item,
            worker,
            codes[item, worker],
            labels=range(len(self.classes_)),
            items=range(len(X)),
            workers=range(codes.shape[1]),
        )
        with silent():
            posterior = fit(
                data.with_features(X),
                self._model(codes.shape[1]),
                method="em",
                seed=self.random_state,
                independent=self.independent,
            )
        self.estimator_, self.power_ = posterior, 1.0
        self.label_probability_ = posterior.probability()
        self.confusion_ = posterior.tree["point"]["confusion"].to_numpy()
        self.n_iter_ = int(posterior.info["facts"]["iterations"])

    def _fit_together(self, X: Array, codes: Array) -> None:
        """Learn workers and classifier in turn."""
        labelled = np.asarray((codes >= 0).any(1))
        r = _votes(codes, len(self.classes_))
        for step in range(1, self.max_iter + 1):
            stated = np.empty_like(r)
            for train, judged in self._folds(labelled):
                judge = self._trained(X[train], r[train])
                stated[judged] = _probabilities(judge, X[judged], r.shape[1])
            self.power_ = _power(stated[labelled], r[labelled])
            log_prior = np.log(_powered(stated, self.power_))
            confusion = self._confusion(codes, r)
            joint = log_prior + _log_likelihood(confusion, codes)
            updated = _normalised(joint)
            change = float(np.abs(updated - r).max())
            r, self.n_iter_ = updated, step
            if change < self.tol:
                break
        self.label_probability_ = r if self.independent else _allowing_for_correlation(joint, (codes >= 0).sum(1))
        self.confusion_ = self._confusion(codes, r)
        self.estimator_ = self._trained(X[labelled], r[labelled])

    def _folds(self, labelled: Array) -> Iterator[tuple[Array, Array]]:
        """Yield, for each part, the labelled items to train on and the items to judge; those without labels in the parts, too."""
        splitter = KFold(min(self.folds, len(labelled)), shuffle=True, random_state=self.random_state)
        for train, judged in splitter.split(labelled):
            yield train[labelled[train]], judged

    def _confusion(self, codes: Array, r: Array) -> Array:
        """Return the confusion matrices ``(J, K, K)`` at the mode, given class probabilities."""
        J, K = codes.shape[1], r.shape[1]
        counts = np.full((J, K, K), self.prior_incorrect / max(K - 1, 1))
        counts[:, np.arange(K), np.arange(K)] = self.prior_correct
        item, worker = np.nonzero(codes >= 0)
        np.add.at(counts.transpose(0, 2, 1), (worker, codes[item, worker]), r[item])
        return np.asarray((counts + LEAST) / (counts + LEAST).sum(-1, keepdims=True))

    def _trained(self, X: Array, r: Array) -> Any:
        """Return a clone of the estimator, trained on class probabilities: as weights where it takes them, else on the likeliest.

        Seeds that are not set are those of this classifier.
        """
        estimator = clone(self.estimator)
        seeds = [key for key, value in estimator.get_params().items() if key.endswith("random_state") and value is None]
        estimator.set_params(**dict.fromkeys(seeds, self.random_state))
        name = _weights_of(estimator)
        if name is None:
            return estimator.fit(X, r.argmax(1))
        item, code = np.nonzero(r > NEGLIGIBLE)
        return estimator.fit(X[item], code, **{name: r[item, code]})

    def __sklearn_tags__(self) -> Any:
        """Say that labels may be those of several workers."""
        tags = super().__sklearn_tags__()
        tags.target_tags.two_d_labels = True
        return tags


def _columns(y: Any, items: int) -> Array:
    """Return labels with a column for each worker, ``(n, J)`` of objects.

    Raises:
        ValueError: for labels of another number of items, or no column.
    """
    if y is None:
        raise ValueError("CrowdClassifier requires y to be passed, but the target y is None")
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    single = values.ndim == 1 or values.shape[1:] == (1,)
    if single and pd.isna(values).any():
        raise ValueError("Input y contains NaN: a single worker has to label every item; leave the others out of X")
    if values.ndim == 1:
        check_classification_targets(values)
        values = values[:, None]
    elif values.ndim == 2 and values.shape[1] == 1:
        column_or_1d(values, warn=True)
    if values.ndim != 2 or not values.shape[1]:
        raise ValueError(f"y has shape {values.shape}; labels are (n, workers), or (n,) of one worker")
    if len(values) != items:
        raise ValueError(f"X has {items:,} items and y the labels of {len(values):,}")
    return values


def _coded(labels: Array) -> tuple[Array, Array]:
    """Return labels as codes ``(n, J)``, -1 where missing, and the classes.

    Raises:
        ValueError: for fewer than two classes, or words beside numbers.
    """
    missing = np.asarray(pd.isna(labels))
    if labels.dtype == object and len({isinstance(label, str) for label in labels[~missing].tolist()}) > 1:
        raise ValueError("y has words and numbers; write all labels alike")
    classes, code = np.unique(np.asarray(labels[~missing].tolist()), return_inverse=True)
    if classes.dtype.kind == "f" and bool((classes == np.floor(classes)).all()) and missing.any():
        classes = classes.astype(np.int64)  # whole numbers, which are floats only because some are missing
    if len(classes) < 2:
        raise ValueError(f"the labels have {len(classes)} class; a classifier needs two")
    codes = np.full(labels.shape, -1)
    codes[~missing] = code.ravel()
    return codes, classes


def _votes(codes: Array, K: int) -> Array:
    """Return shares of votes ``(n, K)``, even where there are none."""
    counts = np.zeros((len(codes), K))
    item, worker = np.nonzero(codes >= 0)
    np.add.at(counts, (item, codes[item, worker]), 1.0)
    counts[counts.sum(1) == 0] = 1.0
    return np.asarray(counts / counts.sum(1, keepdims=True))


def _weights_of(estimator: Any) -> str | None:
    """Return the argument of ``fit`` that takes weights, if any."""
    if isinstance(estimator, Pipeline):
        last, inner = estimator.steps[-1]
        return f"{last}__sample_weight" if has_fit_parameter(inner, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def _probabilities(estimator: Any, X: Array, K: int) -> Array:
    """Return what a classifier states of all ``K`` classes, ``(n, K)``, also of those that it has not seen."""
    out = np.full((len(X), K), LEAST)
    out[:, estimator.classes_] = np.maximum(estimator.predict_proba(X), LEAST)
    return np.asarray(out / out.sum(1, keepdims=True))


def _powered(probability: Array, power: float) -> Array:
    return _normalised(power * np.log(probability))


def _power(stated: Array, r: Array) -> float:
    """Return the power of stated probabilities at which those of ``r`` are likeliest."""
    from scipy.optimize import minimize_scalar  # here: slow to import

    logs = np.log(stated)

    def loss(power: float) -> float:
        return -float((r * np.log(_normalised(power * logs))).sum())

    return float(minimize_scalar(loss, bounds=POWERS, method="bounded", options={"xatol": 1e-3}).x)


def _log_likelihood(confusion: Array, codes: Array) -> Array:
    """Return the log-likelihood of each item's labels by class, ``(n, K)``."""
    out = np.zeros((len(codes), confusion.shape[1]))
    item, worker = np.nonzero(codes >= 0)
    np.add.at(out, item, np.log(confusion[worker, :, codes[item, worker]]))
    return out


def _allowing_for_correlation(joint: Array, number: Array) -> Array:
    """Return class probabilities ``(n, K)`` averaged over ``rho``, given the log joint and the number of labels of each item."""
    rho = DesignEffect.of_crowds(None, 1.0).quantiles((torch.arange(NODES, dtype=torch.float64) + 0.5) / NODES).numpy()
    more = np.maximum(number - 1, 0)[:, None]
    return np.asarray(np.mean([_normalised(joint / (1 + more * one)) for one in rho], axis=0))


def _normalised(logs: Array) -> Array:
    """Return probabilities from logs up to a constant in each row, none of them 0."""
    p = np.exp(logs - logs.max(1, keepdims=True))
    p = np.maximum(p, LEAST * p.sum(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))
