"""Votes: majority vote, vote shares, votes weighted by worker, and worker agreement with the aggregate.

These are not models: they have no likelihood, and their probabilities are shares of votes. They are what models are compared
with, and what is used where labels are many and workers are good. Known true labels are kept, and items without annotations have
equal probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.arguments import Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.truths import known_truths, truth_codes, truth_columns
from crowdppl.errors import DataError, OptionError, listed
from crowdppl.posterior.known_truth import tied_accuracy
from crowdppl.posterior.posterior import Posterior, truth_table

Array = npt.NDArray[Any]
Ties = Literal["split", "first", "random"]
TIES = ("split", "first", "random")


@dataclass(frozen=True)
class Aggregate:
    """Labels by votes.

    Attributes:
        method: how they were made.
        data: the annotations.
        shares: probability of each class for each item, ``(N, K)``; rows sum to 1.
        weights: weight of each worker's votes, ``(J,)``.
    """

    method: str
    data: Annotations
    shares: Array
    weights: Array

    def probability(self) -> Array:
        """Return the probabilities of the classes, ``(N, K)``."""
        return self.shares

    def truth(self) -> pd.DataFrame:
        """Return a table with one row per item; columns as in :meth:`crowdppl.Posterior.truth`, ties to the first class."""
        return truth_table(self.data.items, self.data.labels, self.shares, self.data.item_column)

    def workers(self) -> pd.DataFrame:
        """Return a table with one row per worker.

        Columns: ``worker``; ``annotations``; ``weight`` of the worker's votes; and ``agreement``, the mean probability of the
        labels that the worker gave: with whole votes, the share of them that are the item's label. Missing for workers without
        annotations.
        """
        item, worker, label = _indices(self.data)
        count = np.bincount(worker, minlength=self.data.J)
        agreed = np.bincount(worker, weights=self.shares[item, label], minlength=self.data.J)
        agreement = np.divide(agreed, count, out=np.full(self.data.J, np.nan), where=count > 0)
        columns = {"worker": self.data.workers, "annotations": count, "weight": self.weights, "agreement": agreement}
        return pd.DataFrame(columns)

    @checked
    def accuracy(self, truth: Any) -> tuple[float, int]:
        """Return the share of items of known truth whose label is correct, and their number.

        A class that is tied with others counts in part: one half of an item where two are tied.

        Args:
            truth: true labels of some items: a mapping or Series by item, or a frame with an item and a label column.

        Raises:
            DataError: if no item has a known truth, or for classes that do not occur.
        """
        columns = truth_columns(None, (self.data.item_column, None), truth, "the truth")
        codes, _ = truth_codes(known_truths(columns), self.data.items, self.data.labels, "the truth")
        have = np.flatnonzero(codes >= 0)
        if not len(have):
            raise DataError("none of the items of the truth is among those of the annotations")
        return tied_accuracy(self.shares, codes), len(have)


def _indices(data: Annotations) -> tuple[Array, Array, Array]:
    """Return item, worker and label of each annotation, each ``(A,)``."""
    item, worker, label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
    return item, worker, label


def _votes(data: Annotations, weights: Array) -> Array:
    """Return the sum of the weights of the workers that gave each label, ``(N, K)``; one-hot for known true labels.

    Raises:
        DataError: for an item whose workers all have weight 0.
    """
    item, worker, label = _indices(data)
    votes = np.bincount(item * data.K + label, weights=weights[worker], minlength=data.N * data.K)
    votes = votes.reshape(data.N, data.K).astype(float)
    known = data.truth.cpu().numpy()
    votes[known >= 0] = np.eye(data.K)[known[known >= 0]]
    empty = votes.sum(1) == 0
    silent = empty & (np.bincount(item, minlength=data.N) > 0)
    if silent.any():
        raise DataError(
            f"item {listed(data.items[silent].tolist(), 3)}: all of its workers have weight 0; give one of them a weight above 0"
        )
    votes[empty] = 1.0
    return votes


def _most_frequent(votes: Array, ties: Ties, seed: int) -> Array:
    """Return the most frequent label of each item as probabilities, ``(N, K)``, by a rule for ties."""
    # Sums of equal weights in another order may differ in the last digits.
    top = votes >= votes.max(1, keepdims=True) * (1 - 1e-12)
    if ties == "split":
        return np.asarray(top / top.sum(1, keepdims=True))
    order = np.random.default_rng(seed).random(votes.shape) if ties == "random" else np.ones(votes.shape)
    return np.asarray(np.eye(votes.shape[1])[np.where(top, order, -1.0).argmax(1)])


@checked
def majority(data: Annotations, *, ties: Ties = "split", seed: Seed = 0) -> Aggregate:
    """Return the most frequent label of each item.

    Args:
        data: the annotations.
        ties: ``"split"`` gives tied classes equal probabilities, ``"first"`` chooses the first class, in the order of
            ``data.labels``, and ``"random"`` one of them.
        seed: of the choice.
    """
    weights = np.ones(data.J)
    return Aggregate("majority", data, _most_frequent(_votes(data, weights), ties, seed), weights)


@checked
def vote_shares(data: Annotations) -> Aggregate:
    """Return the share of each label among those of the item: naive soft labels."""
    weights = np.ones(data.J)
    votes = _votes(data, weights)
    return Aggregate("vote shares", data, votes / votes.sum(1, keepdims=True), weights)


@checked
def weighted_majority(
    data: Annotations, weights: Posterior | Mapping[Any, float] | pd.Series[Any], *, measure: str = "accuracy"
) -> Aggregate:
    """Return the shares of weighted votes.

    Args:
        data: the annotations.
        weights: weight of each worker, by worker, at least 0; or a fit, whose workers have a measure.
        measure: the column of ``Posterior.workers()`` that is the weight, if a fit is given. What is negative counts 0.

    Raises:
        OptionError: for a worker without a weight, a weight that is negative or not a number, or an unknown measure.
        DataError: for an item whose workers all have weight 0.
    """
    if isinstance(weights, Posterior):
        table = weights.workers(measures=[measure])
        if measure not in table:
            raise OptionError(
                f"measure={measure!r}; it must be a measure of workers, such as accuracy or informativeness"
            )
        by_worker = table.set_index("worker")[measure].astype(float).clip(lower=0)
    elif isinstance(weights, (Mapping, pd.Series)):
        by_worker = pd.Series(weights, dtype=float)
    else:
        raise OptionError(
            f"weights is a {type(weights).__name__}; it must be a fit, or numbers by worker in a dict or a Series"
        )
    if by_worker.index.has_duplicates:
        double = by_worker.index[by_worker.index.duplicated()].unique()
        raise OptionError(f"weights: worker {listed(double.tolist(), 3)} has several; give one for each")
    aligned = by_worker.reindex(data.workers).to_numpy()
    wrong = ~(aligned >= 0) | np.isinf(aligned)
    if wrong.any():
        raise OptionError(
            f"weights: worker {listed(data.workers[wrong].tolist(), 3)} has no weight, or one that is negative or not finite"
        )
    votes = _votes(data, aligned)
    return Aggregate("weighted majority", data, votes / votes.sum(1, keepdims=True), aligned)


@checked
def wawa(data: Annotations, *, ties: Literal["first", "random"] = "first", seed: Seed = 0) -> Aggregate:
    """Return worker agreement with the aggregate (Wawa): votes weighted by agreement with the majority vote.

    Each worker's weight is the share of their labels that are the most frequent of the item.

    Args:
        data: the annotations.
        ties: of the first vote, as in :func:`majority`.
        seed: of the choice.

    Raises:
        DataError: for an item whose workers never agree with the majority.
    """
    agreement = majority(data, ties=ties, seed=seed).workers()["agreement"].to_numpy()
    weights = np.nan_to_num(agreement)  # workers without annotations have no votes
    votes = _votes(data, weights)
    return Aggregate("wawa", data, votes / votes.sum(1, keepdims=True), weights)
