"""Crowd layer: a map of the classifier's output for each worker, trained on the worker's labels.

Rodrigues and Pereira (2018), Deep learning from crowds, AAAI. With ``f_i`` the class probabilities of item ``i`` ``(K,)``, the
logits of the label of worker ``j`` are

    W_j^T f_i          kind "MW", W_j (K, K)
    w_j * f_i          kind "VW", w_j (K,), element by element
    w_j * f_i + b_j    kind "VW+B"

and the loss is the cross-entropy of the labels, summed over the annotations of an item. Maps start as the identity. The layer is
not a noise model: its outputs pass through a second softmax, and nothing identifies the scale of ``f``.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from crowdppl import arguments
from crowdppl.arguments import Device, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.learning.classifier import Classifier
from crowdppl.learning.learner import Learner, classifier_of
from crowdppl.learning.training import Training, Validation, train
from crowdppl.model.networks import Factory

Kind = Literal["MW", "VW", "VW+B"]


class CrowdLayer(Learner):
    """Cross-entropy of each label to the output of its worker's map.

    Args:
        data: annotations.
        classifier: maps features to logits of classes.
        kind: of the maps.
    """

    method = "crowd_layer"

    def __init__(self, data: Annotations, classifier: nn.Module, kind: Kind):
        super().__init__(data, classifier)
        start = torch.eye(data.K) if kind == "MW" else torch.ones(data.K)
        self.map = nn.Parameter(start.expand(data.J, *start.shape).clone())  # (J, K, K) or (J, K)
        self.bias = nn.Parameter(torch.zeros(data.J, data.K)) if kind == "VW+B" else None

    def logits(self, f: Tensor, worker: Tensor) -> Tensor:
        """Return the logits of the labels ``(n, K)`` of workers ``(n,)`` for class probabilities ``(n, K)``."""
        there = self.map[worker]
        out = torch.einsum("nk,nkl->nl", f, there) if there.ndim == 3 else f * there
        return out if self.bias is None else out + self.bias[worker]

    def loss(self, batch: Tensor) -> Tensor:
        """Return the cross-entropy of the labels of a batch of items ``(B,)``, per item."""
        position, worker, label = self.annotations_of(batch)
        f = self.classifier(self.inputs[batch]).softmax(-1)[position]
        return nn.functional.cross_entropy(self.logits(f, worker), label, reduction="sum") / len(batch)

    def confusion(self) -> Tensor:
        """Return the distribution of each worker's labels where the classifier is certain of a class, ``(J, K, K)``."""
        J, K = self.data.J, self.data.K
        certain = torch.eye(K, dtype=self.map.dtype, device=self.map.device).repeat(J, 1)  # (J * K, K)
        worker = torch.arange(J, device=self.map.device).repeat_interleave(K)
        return self.logits(certain, worker).softmax(-1).view(J, K, K)


@checked
def crowd_layer(
    data: Annotations,
    network: Annotated[Factory, arguments.network] | None = None,
    *,
    kind: Kind = "MW",
    validation: Validation | None = None,
    training: Training | None = None,
    seed: Seed = 0,
    device: Device | None = None,
) -> Classifier:
    """Train a classifier through a crowd layer ("DL-CL").

    Args:
        data: annotations with features. Known true labels are not used.
        network: a module that maps features ``(n, D)`` to logits ``(n, K)``, or a function of the numbers of inputs and outputs
            that makes one. Defaults to a perceptron with one hidden layer of 128 units.
        kind: a matrix for each worker (``"MW"``), a weight for each of its classes (``"VW"``), or also a bias (``"VW+B"``).
        validation: features ``(n, D)`` and classes ``(n,)`` of items held out, to choose the epoch on.
        training: options of the loop.
        seed: of everything random.
        device: ``"cpu"`` or ``"cuda"``. Defaults to that of the data.

    Raises:
        DataError: for data without features.
    """

    def make(data: Annotations, network: Factory | None) -> Learner:
        return CrowdLayer(data, classifier_of(data, network, CrowdLayer.method), kind)

    return train(make, data, network=network, validation=validation, training=training, seed=seed, device=device)
