"""The training loop of all methods."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from crowdppl import arguments
from crowdppl.data.annotations import Annotations
from crowdppl.data.features import in_order_of
from crowdppl.errors import CrowdpplError, DataError, ModelError, OptionError
from crowdppl.inference.engines.minibatches import in_batches
from crowdppl.isolation import isolated
from crowdppl.learning.classifier import Classifier
from crowdppl.learning.learner import Learner
from crowdppl.model.networks import Factory

Validation = tuple[Any, Any]


@dataclass(frozen=True)
class Training:
    """Options of the training loop.

    Attributes:
        epochs: passes over the units of the method, items or annotations.
        batch_size: units per step.
        learning_rate: of Adam.
        weight_decay: of Adam; an L2 penalty on all parameters.
        patience: epochs without a better accuracy on the validation items after which training stops. Defaults to none: all
            epochs are run.

    Raises:
        OptionError: for a value outside its range.
    """

    epochs: int = 50
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    patience: int | None = None

    def __post_init__(self) -> None:
        arguments.whole(1)("epochs", self.epochs)
        arguments.whole(1)("batch_size", self.batch_size)
        arguments.positive("learning_rate", self.learning_rate)
        arguments.at_least_zero("weight_decay", self.weight_decay)
        if self.patience is not None:
            arguments.whole(1)("patience", self.patience)


def train(
    make: Callable[[Annotations, Factory | None], Learner],
    data: Annotations,
    *,
    network: Factory | None,
    validation: Validation | None,
    training: Training | None,
    seed: int,
    device: str | torch.device | None,
    after: Callable[[Learner, Training], None] | None = None,
) -> Classifier:
    """Make a learner and train it; the same arguments give the same bits.

    Args:
        make: makes the learner from data on the device of the training and the network.
        data: annotations.
        network: the caller's module, or maker of one. A module is copied, and the features take its type; else they are in single
            precision.
        validation: features ``(n, D)`` and classes ``(n,)`` of items held out. The epoch with the highest accuracy on them is
            kept, the first of equal ones; without them, the last.
        training: options of the loop.
        seed: of the weights, the batches and dropout.
        device: of the training. Defaults to that of the data.
        after: a second stage of the method, once the best epoch is in place.

    Raises:
        DataError: where the validation items are not of the kind of the data.
        ModelError: where the loss is not finite.
        OptionError: for ``patience`` without validation items.
    """
    training = training or Training()
    if training.patience is not None and validation is None:
        raise OptionError("patience needs validation items; pass validation=(features, classes)")
    started = time.perf_counter()
    data = data.to(device or data.device)
    dtype = torch.float32
    if isinstance(network, nn.Module):
        network = copy.deepcopy(network)
        dtype = next((weight.dtype for weight in network.parameters()), dtype)
    if data.features is not None:
        data = replace(data, features=data.features.to(dtype))
    held_out = None if validation is None else _held_out(data, validation)
    with isolated(seed, device=data.device, dtype=dtype):
        learner = make(data, network).to(data.device)
        history = optimise(learner, training, held_out)
        if after is not None:
            after(learner, training)
        learner.eval()
    return Classifier(learner, history, time.perf_counter() - started)


def optimise(
    learner: Learner, training: Training, held_out: tuple[Tensor, Tensor] | None = None
) -> list[dict[str, float]]:
    """Train a learner by Adam and return epoch, mean loss and accuracy on held-out items of each epoch."""
    trained = [value for value in learner.parameters() if value.requires_grad]
    adam = torch.optim.Adam(trained, lr=training.learning_rate, weight_decay=training.weight_decay)
    units, history, best, state = learner.units, [], -1.0, None
    since = 0
    for epoch in range(1, training.epochs + 1):
        learner.train()
        total = torch.zeros((), device=units.device)
        for part in in_batches(torch.randperm(len(units), device=units.device), training.batch_size):
            adam.zero_grad()
            loss = _loss(learner, units[part])
            loss.backward()
            adam.step()
            total += loss.detach() * len(part)
        row = {"epoch": epoch, "loss": float(total) / max(len(units), 1)}
        if row["loss"] - row["loss"] != 0:
            raise ModelError(
                f"{learner.method}: the loss is not finite in epoch {epoch}; check the features, or lower learning_rate"
            )
        history.append(row)
        if held_out is None:
            continue
        row["accuracy"] = _accuracy(learner, *held_out)
        since += 1
        if row["accuracy"] > best:
            best, since = row["accuracy"], 0
            state = {name: value.clone() for name, value in learner.state_dict().items()}
        if training.patience is not None and since >= training.patience:
            break
    if state is not None:
        learner.load_state_dict(state)
    return history


def _loss(learner: Learner, units: Tensor) -> Tensor:
    """Return the loss of a batch of units ``(B,)``.

    Raises:
        OptionError: where the network fails on a batch of one, as normalisation over a batch does.
    """
    try:
        return learner.loss(units)
    except ValueError as error:
        if len(units) > 1 or isinstance(error, CrowdpplError):
            raise
        reason = " ".join(str(error).split())[:160]
        raise OptionError(
            f"{learner.method}: network fails on a batch of 1: {reason}; normalisation over a batch needs two, so raise "
            f"batch_size, or leave it out"
        ) from None


def _accuracy(learner: Learner, features: Tensor, codes: Tensor) -> float:
    """Return the accuracy of a learner on features ``(n, D)`` of items of known class ``(n,)``."""
    learner.eval()
    with torch.no_grad():
        return float((learner.probability(features).argmax(-1) == codes).double().mean())


def _held_out(data: Annotations, validation: Validation) -> tuple[Tensor, Tensor]:
    """Return features ``(n, D)`` and class codes ``(n,)`` of the validation items."""
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise OptionError("validation must be a pair: features (n, D) and classes (n,) of items held out")
    features, classes = validation
    design = data.unseen(features)
    codes = data.code(in_order_of(classes, design.items), "validation")
    if len(codes) != design.N:
        raise DataError(f"validation: {design.N:,} rows of features, but {len(codes):,} classes")
    assert design.features is not None
    assert data.features is not None
    return design.features.to(data.features), codes.to(data.device)
