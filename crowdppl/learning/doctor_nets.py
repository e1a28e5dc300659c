"""Doctor net: a classifier for each worker on a common body, and a weighted average of them.

Guan et al. (2018), Who said what: modeling individual labelers improves classification, AAAI. The network has an output for each
worker and class; ``p_ij`` is its softmax for item ``i`` and worker ``j``.

    stage 1    loss = sum over annotations n of -log p_ij[label_n], per item
    stage 2    p_i = sum_j w_j p_ij / sum_j w_j, w = softmax(v);  loss = cross-entropy of p_i to the mean label of item i

In stage 2 only ``v`` is trained. Its average leaves out the workers that labelled the item, whose classifiers were trained on
the labels of the target. Without stage 2, the weights are equal. The weights bring the average close to the distribution of the
labels; they are not a measure of worker quality.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from crowdppl import arguments
from crowdppl.arguments import Device, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.kernels.ops import above_zero
from crowdppl.learning.classifier import Classifier
from crowdppl.learning.learner import Learner, classifier_of
from crowdppl.learning.training import Training, Validation, optimise, train
from crowdppl.model.networks import Factory


class DoctorNet(Learner):
    """Cross-entropy of the labels of each worker; then, with ``averaging``, of the mean label to the weighted average.

    Args:
        data: annotations.
        classifier: maps features ``(n, D)`` to logits ``(n, J * K)``.
    """

    method = "doctor_net"

    def __init__(self, data: Annotations, classifier: nn.Module):
        super().__init__(data, classifier)
        self.log_weight = nn.Parameter(torch.zeros(data.J), requires_grad=False)
        self.averaging = False

    def each(self, inputs: Tensor) -> Tensor:
        """Return the logits of the label of each worker, ``(n, J, K)``."""
        return torch.as_tensor(self.classifier(inputs)).view(len(inputs), self.data.J, self.data.K)

    def loss(self, batch: Tensor) -> Tensor:
        """Return the loss of the present stage for a batch of items ``(B,)``, per item."""
        position, worker, label = self.annotations_of(batch)
        if not self.averaging:
            logits = self.each(self.inputs[batch])[position, worker]  # (n, K)
            return nn.functional.cross_entropy(logits, label, reduction="sum") / len(batch)
        self.classifier.eval()
        with torch.no_grad():
            p = self.each(self.inputs[batch]).softmax(-1)  # (B, J, K)
        others = torch.ones(p.shape[:2], dtype=torch.bool, device=p.device)
        others[position, worker] = False
        others |= ~others.any(-1, keepdim=True)  # where every worker labelled the item, all count
        weight = self.log_weight.expand(others.shape).masked_fill(~others, -torch.inf).softmax(-1)  # (B, J)
        log_mean = above_zero(torch.einsum("bj,bjk->bk", weight, p)).log()
        per_item = torch.bincount(position, minlength=len(batch))[position]
        return -(log_mean[position, label] / per_item).sum() / len(batch)

    def probability(self, inputs: Tensor) -> Tensor:
        """Return the weighted average of the workers' class probabilities, ``(n, K)``."""
        return torch.einsum("j,njk->nk", self.weights(), self.each(inputs).softmax(-1))

    def weights(self) -> Tensor:
        """Return the weight of each worker in the average, ``(J,)``; they sum to 1."""
        return self.log_weight.softmax(-1)


def train_weights(learner: Learner, training: Training) -> None:
    """Train the weights of the average, with the classifiers fixed."""
    assert isinstance(learner, DoctorNet)
    learner.requires_grad_(False)
    learner.log_weight.requires_grad_(True)
    learner.averaging = True
    optimise(learner, training)


@checked
def doctor_net(
    data: Annotations,
    network: Annotated[Factory, arguments.network] | None = None,
    *,
    averaging: Literal["learned", "equal"] = "learned",
    validation: Validation | None = None,
    training: Training | None = None,
    seed: Seed = 0,
    device: Device | None = None,
) -> Classifier:
    """Train a classifier for each worker on a common body, and average them.

    Args:
        data: annotations with features. Known true labels are not used.
        network: a module that maps features ``(n, D)`` to logits ``(n, J * K)``, worker by worker, or a function of the numbers
            of inputs and outputs that makes one. Defaults to a perceptron with one hidden layer of 128 units.
        averaging: weights of the workers, ``"learned"`` (WDN in the paper) or ``"equal"`` (IDN).
        validation: as for :func:`crowd_layer`, like all arguments below; it chooses the epoch of the first stage.
        training: likewise; both stages have these options.
        seed: likewise.
        device: likewise.

    Raises:
        DataError: for data without features.
    """

    def make(data: Annotations, network: Factory | None) -> Learner:
        return DoctorNet(data, classifier_of(data, network, DoctorNet.method, data.J * data.K))

    after = train_weights if averaging == "learned" else None
    return train(
        make, data, network=network, validation=validation, training=training, seed=seed, device=device, after=after
    )
