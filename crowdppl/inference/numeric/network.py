"""What a network says of an item's number: a further feature, made by networks that have not seen the item's labels.

Networks learn what a linear regression on the features leaves of the numbers that labels say of items. The items are in
``FOLDS`` parts; the score of an item is by networks trained on the other parts (cross-fitting, V. Chernozhukov et al. 2018,
Double/debiased machine learning, The Econometrics Journal 21), so that a network that has learned its items by heart gets no
weight. The score then is one feature more, whose weight the model learns with those of the others: where the numbers are linear
in the features it is near 0. Items without labels, and new ones, have the mean score of all networks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import xarray as xr
from torch import Tensor

from crowdppl.errors import ModelError
from crowdppl.inference.numeric.mean_field import Loop
from crowdppl.inference.numeric.regression import weights
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import LinearGaussian

# Parts of the items, and networks trained without each of them, from different starts and with other items held out.
FOLDS, MEMBERS = 5, 2
# Share of a network's items that are held out, by whose error training stops.
HELD_OUT = 0.15
# Items of a training step, learning rate, decay of weights, steps between looks at the items held out, looks without a lower
# error after which training stops, and most looks.
BATCH, RATE, DECAY, BETWEEN, PATIENCE, LOOKS = 256, 2e-3, 1e-2, 20, 15, 150
# Steps of EM that teach what labels say of items, and by how much truths move at most after the last one.
STEPS, STILL = 300, 1e-3
# Fewest items with labels for which networks are trained.
FEWEST = 30
# Name of the score among the features.
NAME = "network"


@dataclass(frozen=True)
class Network:
    """``M`` perceptrons of one hidden layer of ``H`` rectified units.

    Attributes:
        hidden: weights of the hidden layer, ``(M, D, H)``.
        hidden_bias: ``(M, 1, H)``.
        output: weights of the output, ``(M, H, 1)``.
        output_bias: ``(M, 1, 1)``.
    """

    hidden: Tensor
    hidden_bias: Tensor
    output: Tensor
    output_bias: Tensor

    @classmethod
    def random(cls, members: int, inputs: int, hidden: int, like: Tensor) -> Network:
        """Return networks whose output is 0 for all inputs."""
        first = torch.randn(members, inputs, hidden).to(like) * (2 / inputs) ** 0.5
        return cls(
            first, like.new_zeros(members, 1, hidden), like.new_zeros(members, hidden, 1), like.new_zeros(members, 1, 1)
        )

    def __call__(self, features: Tensor) -> Tensor:
        """Return the outputs ``(M, n)`` for features ``(n, D)`` with mean 0 and standard deviation 1."""
        inside = torch.relu(features @ self.hidden + self.hidden_bias)
        return (inside @ self.output + self.output_bias).squeeze(-1)

    def parts(self) -> dict[str, Tensor]:
        """Return weights and biases by name."""
        return dict(vars(self))

    def dataset(self) -> xr.Dataset:
        """Return weights and biases for the file of a result."""
        axes = {
            "hidden": ("member", "input", "unit"),
            "hidden_bias": ("member", "one", "unit"),
            "output": ("member", "unit", "one"),
            "output_bias": ("member", "one", "one_output"),
        }
        return xr.Dataset({name: (axes[name], value.cpu().numpy()) for name, value in self.parts().items()})

    @classmethod
    def of(cls, dataset: xr.Dataset) -> Network:
        """Return the networks of a result's file."""
        names = ("hidden", "hidden_bias", "output", "output_bias")
        return cls(*(torch.from_numpy(dataset[name].to_numpy()) for name in names))

    def score(self, features: Tensor) -> Tensor:
        """Return the score of items that none of the networks has learned from, ``(n,)``."""
        return self(features.to(self.hidden.dtype)).mean(0).to(features.dtype)


def with_network(model: LinearGaussian, data: StandardLabels) -> tuple[StandardLabels, Network]:
    """Return labels of items with the networks' score as a further feature, and the networks.

    Raises:
        ModelError: without features, or for fewer than ``FEWEST`` items with labels.
    """
    if data.features is None:
        raise ModelError(
            "feature_model='network' reads item features and the data have none; pass features=... to Annotations.from_frame"
        )
    precision, linear, truth_sd, weight_sd = _said(model, data)
    count = int((precision > 0).sum())
    if count < FEWEST:
        raise ModelError(
            f"feature_model='network' takes at least {FEWEST} items with labels, these are {count:,}; use 'linear'"
        )
    fold = torch.randperm(data.items).to(precision.device) % FOLDS
    with torch.enable_grad():
        network = _trained(model.hidden, data.features, precision, linear, truth_sd, weight_sd, fold)
    each = network(data.features.to(network.hidden.dtype)).to(precision).unflatten(0, (FOLDS, MEMBERS)).mean(1)
    unseen = each.gather(0, fold.unsqueeze(0)).squeeze(0)
    score = torch.where(precision > 0, unseen, each.mean(0))
    mean, sd = score.mean(), score.std(correction=0)
    sd = torch.where(sd > 1e-12, sd, torch.ones_like(sd))
    assert data.feature_mean is not None
    assert data.feature_sd is not None
    more = replace(
        data,
        features=torch.cat([data.features, ((score - mean) / sd).unsqueeze(-1)], -1),
        feature_mean=torch.cat([data.feature_mean, mean.reshape(1)]),
        feature_sd=torch.cat([data.feature_sd, sd.reshape(1)]),
    )
    return more, network


def _said(model: LinearGaussian, data: StandardLabels) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what labels say of items, precision and precision times mean ``(N,)``, and spreads of truths and weights ``(1,)``.

    By EM with the features linear.
    """
    loop = Loop.after(model, data, STEPS, STILL)
    state = loop.state
    precision, linear = (part.squeeze(-1) for part in loop.said())
    truth_sd, weight_sd = (precision.new_tensor([one]) for one in (state.truth_sd, state.weight_sd))
    return precision, linear, truth_sd, weight_sd


def _trained(
    hidden: int,
    features: Tensor,
    precision: Tensor,
    linear: Tensor,
    truth_sd: Tensor,
    weight_sd: Tensor,
    fold: Tensor,
) -> Network:
    """Return networks trained on what a linear regression on other folds leaves; those of a fold follow each other.

    Args:
        hidden: number of hidden units.
        features: ``(N, D)``.
        precision: of what labels say of items, ``(N,)``.
        linear: precision times mean, likewise.
        truth_sd: standard deviation of truths around a linear regression, ``(1,)``.
        weight_sd: prior standard deviation of its weights, ``(1,)``.
        fold: of each item, ``(N,)``.
    """
    said = precision > 0
    number = torch.where(said, linear / precision.clamp(min=1e-300), 0.0)
    target, weight = [], []
    for part in range(FOLDS):
        own = ((fold != part) & said).to(precision)
        ridge, _ = weights(features, (precision * own).unsqueeze(-1), (linear * own).unsqueeze(-1), truth_sd, weight_sd)
        target += [number - (features @ ridge).squeeze(-1)] * MEMBERS
        weight += [own / (truth_sd**2 + 1 / precision.clamp(min=1e-12))] * MEMBERS
    x, y, w = (value.float() for value in (features, torch.stack(target), torch.stack(weight)))
    held = torch.rand(w.shape).to(w) < HELD_OUT
    learned, checked = (w * ~held, w * held)
    unit = (learned * y.square()).sum(-1, keepdim=True) / learned.sum(-1, keepdim=True).clamp(min=1e-30)
    unit = unit.sqrt().clamp(min=1e-6)
    network = Network.random(len(y), x.shape[-1], hidden, x)
    best = _best(network, x, y / unit, learned, checked)
    scale = unit.unsqueeze(-1)
    # With mean 0 over all items: the mean of the items that a network learned from is high where that of the others is low.
    bias = -(best(x) - best.output_bias.squeeze(-1)).mean(-1, keepdim=True).unsqueeze(-1)
    return replace(best, output=best.output * scale, output_bias=bias * scale)


def _best(network: Network, x: Tensor, y: Tensor, learned: Tensor, checked: Tensor) -> Network:
    """Return the networks with the lowest error on the items held out during training; at first they are constant.

    Args:
        network: the start.
        x: features, ``(N, D)``.
        y: numbers to be predicted, of each network ``(M, N)``.
        learned: weights of items that are learned from, likewise.
        checked: weights of items held out, likewise.
    """
    parts = {name: value.requires_grad_() for name, value in network.parts().items()}
    optimiser = torch.optim.AdamW(parts.values(), lr=RATE, weight_decay=DECAY)

    def error() -> Tensor:
        with torch.no_grad():
            return (checked * (Network(**parts)(x) - y).square()).sum(-1) / checked.sum(-1).clamp(min=1e-30)

    lowest, since = error(), 0
    best = {name: value.detach().clone() for name, value in parts.items()}
    for _ in range(LOOKS):
        for _ in range(BETWEEN):
            rows = torch.randint(len(x), (min(BATCH, len(x)),)).to(x.device)
            weight = learned[:, rows]
            optimiser.zero_grad()
            off = (weight * (Network(**parts)(x[rows]) - y[:, rows]).square()).sum(-1)
            (off / weight.sum(-1).clamp(min=1e-30)).sum().backward()
            optimiser.step()
        now = error()
        lower = now < lowest
        lowest, since = torch.where(lower, now, lowest), 0 if bool(lower.any()) else since + 1
        for name, value in parts.items():
            best[name] = torch.where(lower.view(-1, 1, 1), value.detach(), best[name])
        if since == PATIENCE:
            break
    return Network(**best)
