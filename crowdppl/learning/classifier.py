"""The result of training: a classifier of items, and what the method says of workers."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Identifier, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.features import in_order_of
from crowdppl.errors import DataError
from crowdppl.learning.learner import Learner
from crowdppl.posterior.posterior import truth_table

Array = npt.NDArray[Any]
# Items per pass of a prediction, which bounds its memory.
BLOCK = 8192


class Classifier:
    """A trained classifier.

    Attributes:
        method: name of the method.
        learner: the trained module; its ``classifier`` is the network, with the weights of the chosen epoch.
        history: a row per epoch: ``epoch``; the mean ``loss``; with validation items, their ``accuracy``.
        seconds: wall time of the training.
    """

    def __init__(self, learner: Learner, history: list[dict[str, float]], seconds: float):
        self.method, self.learner, self.seconds = learner.method, learner, seconds
        self.history = pd.DataFrame(history)

    @property
    def data(self) -> Annotations:
        """The annotations that it was trained on."""
        return self.learner.data

    def __repr__(self) -> str:
        """Name the method and its size."""
        epochs = len(self.history)
        return f"Classifier({self.method}, {self.data.K} classes, {epochs} epochs in {self.seconds:.1f} s)"

    @checked
    def predict(self, items: Annotations | Any) -> pd.DataFrame:
        """Predict the class of new items from their features.

        Args:
            items: features ``(n, D)``, a frame whose index names the items, or annotations with features. Columns of a frame are
                taken by name if those of the training had names.

        Returns:
            A row per item, as :meth:`crowdppl.Posterior.truth`.

        Raises:
            DataError: for other features than those of the training, or a classifier of item embeddings.
        """
        design = self._design(items)
        return truth_table(design.items, self.data.labels, self._probability(design), self.data.item_column)

    @checked
    def probability(self, items: Annotations | Any = None) -> Array:
        """Return the probabilities of the classes of items, ``(n, K)``.

        Args:
            items: as for :meth:`predict`. Defaults to the items of the training.
        """
        if items is not None:
            return self._probability(self._design(items))
        with torch.no_grad():
            return self.learner.item_probability().double().cpu().numpy()

    def truth(self) -> pd.DataFrame:
        """Return a table with a row per item of the training: its class by the classifier, as :meth:`predict`."""
        return truth_table(self.data.items, self.data.labels, self.probability(), self.data.item_column)

    @checked
    def accuracy(self, items: Annotations | Any, classes: Annotated[Any, arguments.a_list]) -> float:
        """Return the accuracy on items of known class.

        Args:
            items: as for :meth:`predict`.
            classes: true classes ``(n,)``, in the order of the items, or a Series with the items as its index.

        Raises:
            DataError: for classes that are not those of the training, or of another number than the items.
        """
        design = self._design(items)
        codes = self.data.code(in_order_of(classes, design.items), "classes").cpu().numpy()
        probability = self._probability(design)
        if len(codes) != len(probability):
            raise DataError(f"{len(probability):,} items, but {len(codes):,} classes; pass the class of each item")
        return float((probability.argmax(1) == codes).mean())

    def workers(self) -> pd.DataFrame:
        """Return a table with a row per worker.

        Columns: ``worker`` and ``annotations``; ``accuracy``, the mean of the diagonal of the worker's matrix over the classes as
        the classifier predicts them, where the method estimates confusion matrices; ``weight``, where it has weights.
        These have no intervals; for worker quality with intervals, fit a model.
        """
        table: dict[str, Any] = {
            "worker": self.data.workers,
            "annotations": self.data.annotations_per_worker.cpu().numpy(),
        }
        if self.learner.estimates_workers and (confusion := self._of(self.learner.confusion)) is not None:
            prevalence = self.probability().mean(0)
            table["accuracy"] = np.diagonal(confusion, axis1=1, axis2=2) @ prevalence
        if (weight := self._of(self.learner.weights)) is not None:
            table["weight"] = weight
        return pd.DataFrame(table)

    @checked
    def confusion(self, worker: Identifier = None) -> pd.DataFrame:
        """Return a table with a row per cell of the matrix of a worker, or of all workers.

        Columns: ``worker`` (for all workers), ``truth``, ``label`` and ``probability`` of the label given the class. For a crowd
        layer the class is one of which the classifier is certain; such matrices do not estimate how workers label.

        Args:
            worker: one worker. Defaults to all.

        Raises:
            DataError: for an unknown worker, or a method without matrices.
        """
        confusion = self._of(self.learner.confusion)
        if confusion is None:
            raise DataError(f"{self.method} has no confusion matrices; train a crowd layer, or fit a model")
        labels, workers = self.data.labels, self.data.workers
        if worker is not None:
            names = workers.tolist()
            if worker not in names:
                raise DataError(f"worker={worker!r} is not one of these data, such as {names[0]!r}")
            row = [names.index(worker)]
            confusion, workers = confusion[row], workers[row]
        K = len(labels)
        table = pd.DataFrame(
            {
                "worker": np.repeat(workers, K * K),
                "truth": np.tile(np.repeat(labels, K), len(workers)),
                "label": np.tile(labels, K * len(workers)),
                "probability": confusion.reshape(-1),
            }
        )
        return table if worker is None else table.drop(columns="worker")

    def _of(self, report: Any) -> Array | None:
        with torch.no_grad():
            value: Tensor | None = report()
        return None if value is None else value.double().cpu().numpy()

    def _design(self, items: Annotations | Any) -> Annotations:
        if self.data.features is None or self.learner.inputs is not self.data.features:
            raise DataError(
                f"{self.method} was trained on an embedding of each item and cannot predict others; use truth() for its items, "
                f"or train on features"
            )
        if isinstance(items, Annotations):
            return items.with_features_ordered(self.data.feature_names)
        return self.data.unseen(items)

    def _probability(self, design: Annotations) -> Array:
        assert design.features is not None
        assert self.data.features is not None
        with torch.no_grad():
            parts = design.features.to(self.data.features).split(BLOCK)
            return torch.cat([self.learner.probability(part) for part in parts]).double().cpu().numpy()
