"""Choosing when to stop by items held out: their features and their true classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.features import in_order_of
from crowdppl.errors import DataError, OptionError
from crowdppl.kernels.ops import above_zero
from crowdppl.model.bound import BoundModel


class Validation:
    """Accuracy of a model's classes on held-out items, from features alone.

    Args:
        held_out: features and classes of the items, ``(n, D)`` and ``(n,)``.
        model: bound to its networks.
        data: the annotations the model is fitted to.

    Raises:
        OptionError: where ``held_out`` is not a pair.
        DataError: where the features or classes are not those of the data.
    """

    def __init__(self, held_out: Any, model: BoundModel, data: Annotations):
        if not isinstance(held_out, (tuple, list)) or len(held_out) != 2:
            raise OptionError("validation must be a pair: features (n, D) and classes (n,) of items held out")
        features, labels = held_out
        self.model, self.design = model, data.unseen(features)
        self.label = data.code(in_order_of(labels, self.design.items), "validation")
        if len(self.label) != self.design.N:
            raise DataError(f"validation: {self.design.N:,} rows of features, but {len(self.label):,} classes")

    def score(self, values: Mapping[str, Tensor]) -> tuple[float, float]:
        """Return accuracy and mean log-probability of the true class at the parameters ``values``."""
        with torch.no_grad():
            probability = class_probabilities(self.model, values, self.design)
        right = (probability.argmax(-1) == self.label).double().mean()
        log = above_zero(probability.gather(-1, self.label.unsqueeze(-1))).log().mean()
        return float(right), float(log)


def class_probabilities(model: BoundModel, values: Mapping[str, Tensor], design: Annotations) -> Tensor:
    """Return ``p(truth_i = k)`` of items without an annotation, ``(N, K)``."""
    parameters, _ = model.conditioned(values, design)
    probability = model.truths.by_class(model.log_truth(parameters, design).softmax(-1), parameters, design)
    return probability.expand(design.N, design.K)
