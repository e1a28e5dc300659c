"""Max-MIG: a classifier of features and an aggregator of labels that share as much information as possible.

Cao et al. (2019), Max-MIG: an information theoretic approach for joint learning from crowds, ICLR. With the outputs of the
classifier ``f_i = softmax(h(x_i))`` and of the aggregator
``g_i = softmax(b + sum_n W_j(n)[:, label_n])`` over the annotations of item ``i``, and class probabilities ``p``,

    m_ab = sum_k f_a[k] g_b[k] / p[k]
    loss = -( mean_a (1 + log m_aa)  -  mean_{a != b} m_ab )

over the items ``a, b`` of a batch: minus a lower bound of their mutual information (Kullback-Leibler). ``W`` starts at the
logarithm of each worker's confusion matrix against the vote shares and ``b`` at ``log p``. ``p``, the mean vote share, is fixed.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from crowdppl import arguments
from crowdppl.aggregate import vote_shares
from crowdppl.arguments import Device, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero
from crowdppl.learning.classifier import Classifier
from crowdppl.learning.learner import Learner, classifier_of
from crowdppl.learning.training import Training, Validation, train
from crowdppl.model.networks import Factory

# Added to each count of the matrices at the start, so that their logarithms are finite.
SMOOTHING = 0.1


class MaxMIG(Learner):
    """Minus the mutual information gain of classifier and aggregator.

    Args:
        data: annotations.
        classifier: maps features to logits of classes.
        shares: vote shares, ``(N, K)``, for the start.
    """

    method = "max_mig"
    estimates_workers = True
    prevalence: Tensor

    def __init__(self, data: Annotations, classifier: nn.Module, shares: Tensor):
        super().__init__(data, classifier)
        counts = torch.zeros(data.J, data.K, data.K, device=data.device, dtype=shares.dtype)  # (worker, label, class)
        counts.index_put_((data.worker, data.label), shares[data.item], accumulate=True)
        rows = counts.transpose(-1, -2) + SMOOTHING
        self.register_buffer("prevalence", above_zero(shares[data.annotations_per_item > 0].mean(0)))
        self.matrix = nn.Parameter((rows / rows.sum(-1, keepdim=True)).log())  # (worker, class, label)
        self.bias = nn.Parameter(self.prevalence.log())

    def aggregate(self, batch: Tensor) -> Tensor:
        """Return the aggregator's class probabilities for a batch of items ``(B,)``, as ``(B, K)``."""
        position, worker, label = self.annotations_of(batch)
        logits = self.bias.expand(len(batch), -1).index_add(0, position, self.matrix[worker, :, label])
        return logits.softmax(-1)

    def loss(self, batch: Tensor) -> Tensor:
        """Return minus the mutual information gain of a batch of items ``(B,)``."""
        f = self.classifier(self.inputs[batch]).softmax(-1)
        m = (f / self.prevalence) @ self.aggregate(batch).T  # (B, B)
        joint = 1 + above_zero(m.diagonal()).log().mean()
        if len(batch) == 1:
            return -joint
        return (m.sum() - m.diagonal().sum()) / (len(batch) * (len(batch) - 1)) - joint

    def confusion(self) -> Tensor:
        """Return the aggregator's matrices as probabilities of labels given the class, ``(J, K, K)``."""
        return self.matrix.softmax(-1)


@checked
def max_mig(
    data: Annotations,
    network: Annotated[Factory, arguments.network] | None = None,
    *,
    validation: Validation | None = None,
    training: Training | None = None,
    seed: Seed = 0,
    device: Device | None = None,
) -> Classifier:
    """Train a classifier and an aggregator of labels to share as much information as possible ("Max-MIG").

    Args:
        data: annotations with features. Known true labels count as votes at the start only.
        network: as for :func:`crowd_layer`, like all other arguments.
        validation: likewise.
        training: likewise.
        seed: likewise.
        device: likewise.

    Raises:
        DataError: for data without features.
    """

    def make(data: Annotations, network: Factory | None) -> Learner:
        shares = torch.tensor(vote_shares(data).probability(), dtype=torch.get_default_dtype(), device=data.device)
        return MaxMIG(data, classifier_of(data, network, MaxMIG.method), shares)

    return train(make, data, network=network, validation=validation, training=training, seed=seed, device=device)
