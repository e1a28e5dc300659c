"""The base class of all methods: a classifier, a loss of a batch, and what it says of workers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.errors import OptionError
from crowdppl.model.networks import Factory, build, features_of, perceptron


class Learner(nn.Module):
    """A method of training. All of its parameters are trained; a batch is a set of items.

    Args:
        data: annotations on the device and with features of the type of the network.
        classifier: maps inputs to logits of classes, ``(n, ...)`` to ``(n, K)``.
        inputs: of the classifier for each item, ``(N, ...)``. Defaults to the features.
    """

    method = ""
    # Whether the matrices of confusion() are estimates of how workers label, and their diagonals of accuracies.
    estimates_workers = False

    def __init__(self, data: Annotations, classifier: nn.Module, inputs: Tensor | None = None):
        super().__init__()
        self.data, self.classifier = data, classifier
        self.inputs = features_of(data, self.method) if inputs is None else inputs

    @property
    def units(self) -> Tensor:
        """Codes of the items that an epoch visits once each, ``(U,)``: those with annotations, unless a method says otherwise."""
        return self.data.annotations_per_item.nonzero().squeeze(-1)

    def loss(self, batch: Tensor) -> Tensor:
        """Return the mean loss of a batch of items ``(B,)``, a scalar."""
        raise NotImplementedError

    def probability(self, inputs: Tensor) -> Tensor:
        """Return the probabilities of the classes for inputs ``(n, ...)``, as ``(n, K)``."""
        return torch.as_tensor(self.classifier(inputs)).softmax(-1)

    def item_probability(self) -> Tensor:
        """Return the probabilities of the classes of the items of the data, ``(N, K)``, from inputs alone."""
        return self.probability(self.inputs)

    def confusion(self) -> Tensor | None:
        """Return ``P(label | class, worker)``, ``(J, K, K)``, or ``None`` where the method has no such matrices."""
        return None

    def weights(self) -> Tensor | None:
        """Return a weight of each worker, ``(J,)``, or ``None`` where the method has no weights."""
        return None

    def annotations_of(self, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the annotations of a batch of items ``(B,)``: position in the batch, worker and label, each ``(n,)``."""
        count = self.data.annotations_per_item
        first = (count.cumsum(0) - count)[batch]  # annotations are sorted by item
        count = count[batch]
        position = torch.arange(len(batch), device=batch.device).repeat_interleave(count)
        before = count.cumsum(0) - count
        index = torch.arange(len(position), device=batch.device) + (first - before)[position]
        return position, self.data.worker[index], self.data.label[index]


def dropout_perceptron(inputs: int, outputs: int) -> nn.Sequential:
    """Return the default classifier: one hidden layer of 128 units with ReLU and dropout of one half."""
    return perceptron(inputs, outputs, (128,), 0.5)


def classifier_of(data: Annotations, network: Factory | None, method: str, outputs: int | None = None) -> nn.Module:
    """Make the classifier of a method: the caller's, else the default behind standardised features.

    Args:
        data: annotations with features ``(N, D)``.
        network: the caller's module or maker of one.
        method: name, for messages.
        outputs: number of logits. Defaults to the number of classes.

    Raises:
        DataError: for data without features.
        OptionError: for a network of other inputs or outputs.
    """
    inputs, outputs = features_of(data, method), data.K if outputs is None else outputs
    return checked(build(network, inputs, outputs, dropout_perceptron), inputs, outputs)


def checked(network: nn.Module, inputs: Tensor, outputs: int) -> nn.Module:
    """Return a network that maps inputs ``(n, ...)`` to ``(n, outputs)``, or say what it does instead.

    Raises:
        OptionError: where it is no module, fails on the inputs or gives another shape.
    """
    if not isinstance(network, nn.Module):
        raise OptionError(f"network returned a {type(network).__name__}; it must return a torch.nn.Module")
    few, training = inputs[:2], network.training
    try:
        with torch.no_grad():
            given = network.to(inputs.device).eval()(few)
    except (RuntimeError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split())[:200]
        raise OptionError(f"network fails on inputs of the shape {tuple(few.shape)}: {reason}") from None
    network.train(training)
    if getattr(given, "shape", None) != (len(few), outputs):
        shape = tuple(getattr(given, "shape", ()))
        raise OptionError(
            f"network maps inputs of the shape {tuple(few.shape)} to {shape}; it must give {(len(few), outputs)}, the logits"
        )
    return network
