"""Trace regularization: confusion matrices of workers trained with the classifier, with a penalty on their traces.

Tanno et al. (2019), Learning from noisy labels by regularized estimation of annotator confusion, CVPR. With ``f_i`` the class
probabilities of item ``i`` and ``A_j`` the confusion matrix of worker ``j``, both rows of probabilities,

    loss = sum_n -log (A_j(n)^T f_i(n))[label_n] per item  +  penalty * mean_j trace(A_j)

The smallest trace that explains the labels belongs, under the paper's conditions, to the true matrices. Here rows are a softmax
of free values, which start at ``start`` on the diagonal and 0 elsewhere; the paper normalises positive values.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from crowdppl import arguments
from crowdppl.arguments import Device, NonNegativeFloat, PositiveFloat, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.learning.classifier import Classifier
from crowdppl.learning.learner import Learner, classifier_of
from crowdppl.learning.training import Training, Validation, train
from crowdppl.model.networks import Factory


class TraceRegularization(Learner):
    """Negative log-probability of the labels under confusion matrices, and a penalty on their traces.

    Args:
        data: annotations.
        classifier: maps features to logits of classes.
        penalty: factor of the mean trace.
        start: logit of the diagonal at the start.
    """

    method = "trace_regularization"
    estimates_workers = True

    def __init__(self, data: Annotations, classifier: nn.Module, penalty: float, start: float):
        super().__init__(data, classifier)
        self.penalty = penalty
        self.matrix = nn.Parameter((start * torch.eye(data.K)).expand(data.J, data.K, data.K).clone())

    def loss(self, batch: Tensor) -> Tensor:
        """Return the loss of a batch of items ``(B,)``, per item."""
        position, worker, label = self.annotations_of(batch)
        log_f = self.classifier(self.inputs[batch]).log_softmax(-1)[position]  # (n, K)
        log_matrix = self.matrix.log_softmax(-1)  # (J, K, K)
        log_given = log_matrix[worker, :, label]  # log p(label | class), (n, K)
        traces = log_matrix.exp().diagonal(dim1=-2, dim2=-1).sum(-1)
        return -(log_f + log_given).logsumexp(-1).sum() / len(batch) + self.penalty * traces.mean()

    def confusion(self) -> Tensor:
        """Return the confusion matrices, ``(J, K, K)``."""
        return self.matrix.softmax(-1)


@checked
def trace_regularization(
    data: Annotations,
    network: Annotated[Factory, arguments.network] | None = None,
    *,
    penalty: NonNegativeFloat = 0.01,
    start: PositiveFloat = 2.0,
    validation: Validation | None = None,
    training: Training | None = None,
    seed: Seed = 0,
    device: Device | None = None,
) -> Classifier:
    """Train a classifier and the confusion matrices of workers, with a penalty on their traces ("Anno-Reg").

    Args:
        data: annotations with features. Known true labels are not used.
        network: as for :func:`crowd_layer`, like all arguments below ``start``.
        penalty: factor of the mean trace of the matrices. The paper has .01; 0 trains the matrices without a penalty.
        start: logit of the diagonals at the start.
        validation: likewise.
        training: likewise.
        seed: likewise.
        device: likewise.

    Raises:
        DataError: for data without features.
    """

    def make(data: Annotations, network: Factory | None) -> Learner:
        classifier = classifier_of(data, network, TraceRegularization.method)
        return TraceRegularization(data, classifier, penalty, start)

    return train(make, data, network=network, validation=validation, training=training, seed=seed, device=device)
