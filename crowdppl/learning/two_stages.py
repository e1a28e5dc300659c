"""Two-stage training: aggregate the labels, then train a classifier on the result."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from crowdppl import arguments
from crowdppl.aggregate import Aggregate
from crowdppl.arguments import Device, PositiveInt, Seed
from crowdppl.data.annotations import Annotations
from crowdppl.data.table.truths import known_truths, truth_codes, truth_columns
from crowdppl.errors import DataError, OptionError
from crowdppl.learning.classifier import Classifier
from crowdppl.learning.learner import Learner, checked, classifier_of, dropout_perceptron
from crowdppl.learning.targets import hardened, target_of
from crowdppl.learning.training import Training, Validation, train
from crowdppl.model.networks import Factory
from crowdppl.posterior.posterior import Posterior


class TwoStage(Learner):
    """Cross-entropy of the classifier to fixed class probabilities: ``-sum_k target[i, k] log p(k | x_i)``.

    Args:
        data: annotations.
        classifier: maps inputs to logits.
        target: probabilities of the classes of each item, ``(N, K)``; an item whose row is 0 is left out.
        inputs: of the classifier, ``(N, ...)``. Defaults to the features.
    """

    method = "two_stage"

    def __init__(self, data: Annotations, classifier: nn.Module, target: Tensor, inputs: Tensor | None = None):
        super().__init__(data, classifier, inputs)
        self.target = target

    @property
    def units(self) -> Tensor:
        """Items that have a target."""
        return self.target.sum(-1).nonzero().squeeze(-1)

    def loss(self, batch: Tensor) -> Tensor:
        """Return the mean cross-entropy of a batch of items ``(B,)``."""
        return torch.nn.functional.cross_entropy(self.classifier(self.inputs[batch]), self.target[batch])


class Embedded(nn.Module):
    """A classifier of items without features: a learned vector of each item, and a network of it.

    Args:
        items: number of items.
        size: of the vectors.
        network: maps vectors ``(n, size)`` to logits ``(n, K)``.
    """

    def __init__(self, items: int, size: int, network: nn.Module):
        super().__init__()
        self.vector, self.network = nn.Embedding(items, size), network

    def forward(self, item: Tensor) -> Tensor:
        """Map item codes ``(n,)`` to logits ``(n, K)``."""
        return torch.as_tensor(self.network(self.vector(item)))


@arguments.checked
def two_stage(
    data: Annotations,
    aggregation: Aggregate | Posterior | Any,
    network: Annotated[Factory, arguments.network] | None = None,
    *,
    labels: Literal["soft", "hard"] = "soft",
    embedding: PositiveInt | None = None,
    validation: Validation | None = None,
    training: Training | None = None,
    seed: Seed = 0,
    device: Device | None = None,
) -> Classifier:
    """Train a classifier on the labels of an aggregation, by cross-entropy.

    With :func:`crowdppl.aggregate.majority` it is "DL-MV", with a fit of Dawid-Skene "DL-DS", with one of GLAD "DL-GLAD" and with
    minimax entropy MMCE* (MMCE*-E with ``embedding``) of the literature.

    Args:
        data: annotations, with features unless ``embedding`` is given.
        aggregation: votes of :mod:`crowdppl.aggregate`, a fit of any model, or probabilities ``(N, K)``; of the same items.
        network: a module that maps features ``(n, D)`` to logits ``(n, K)``, or a function of the numbers of inputs and outputs
            that makes one. Defaults to a perceptron with one hidden layer of 128 units.
        labels: ``"soft"`` trains on the probabilities, ``"hard"`` on the most probable class, with ties broken at random.
        embedding: size of a learned vector of each item that replaces the features. Such a classifier smooths the labels of
            its own items and cannot predict others.
        validation: features ``(n, D)`` and classes ``(n,)`` of items held out, to choose the epoch on.
        training: options of the loop.
        seed: of everything random.
        device: ``"cpu"`` or ``"cuda"``. Defaults to that of the data.

    Raises:
        DataError: for data without features, or an aggregation of other items or classes.
    """
    if embedding is not None and validation is not None:
        raise OptionError("validation items have no embedding; leave out validation, or train on features")
    target = target_of(data, aggregation)
    if labels == "hard":
        target = hardened(target, seed)

    def make(data: Annotations, network: Factory | None) -> Learner:
        there = target.to(data.device, torch.get_default_dtype())
        if embedding is None:
            return TwoStage(data, classifier_of(data, network, "two_stage"), there)
        maker = dropout_perceptron if network is None else network
        body = maker if isinstance(maker, nn.Module) else maker(embedding, data.K)
        body = checked(body, torch.zeros(2, embedding), data.K)
        return TwoStage(data, Embedded(data.N, embedding, body), there, torch.arange(data.N, device=data.device))

    return train(make, data, network=network, validation=validation, training=training, seed=seed, device=device)


@arguments.checked
def on_truth(
    data: Annotations,
    truth: Any,
    network: Annotated[Factory, arguments.network] | None = None,
    *,
    validation: Validation | None = None,
    training: Training | None = None,
    seed: Seed = 0,
    device: Device | None = None,
) -> Classifier:
    """Train a classifier on true labels, the upper bound of what annotations can give ("Ideal").

    Args:
        data: the items and their features.
        truth: true labels of some items: a mapping or Series by item, or a frame with an item and a label column; others are
            left out.
        network: as for :func:`two_stage`, like all other arguments.
        validation: likewise.
        training: likewise.
        seed: likewise.
        device: likewise.

    Raises:
        DataError: if no item has a true label, or for data without features.
    """
    columns = truth_columns(None, (data.item_column, None), truth, "the truth")
    codes, _ = truth_codes(known_truths(columns), data.items, data.labels, "the truth")
    if not (codes >= 0).any():
        raise DataError("none of the items of the truth is among those of the annotations")
    rows = np.vstack([np.eye(data.K), np.zeros(data.K)])[codes]
    return two_stage(data, rows, network, validation=validation, training=training, seed=seed, device=device)
