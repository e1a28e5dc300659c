"""Networks of item or worker features: the usual one, and how any ``torch.nn.Module`` becomes part of a model.

The weights of a network are a sample site like all other parameters, with a normal prior (what others call weight decay):
EM and SVI carry them as a point, NUTS samples them where they are few. The module itself provides the structure and
the buffers; it is called with the weights of the trace.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pyro
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, ModelError

# Makes a network of (inputs, outputs); a module is taken as it is, its weights as the start.
Factory = Callable[[int, int], nn.Module] | nn.Module
# Mark of a site that is a network's weight, in the site's ``infer``.
WEIGHT = "network"


class Standardise(nn.Module):
    """Bring every feature to mean 0 and standard deviation 1, as they were in the data it was made from.

    Args:
        features: ``(N, D)``. A feature that never varies is only centred.
        more: further inputs behind the features, which pass unchanged.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: Tensor, more: int = 0):
        super().__init__()
        scale = features.std(0, unbiased=False)
        scale = torch.where(scale > 1e-12, scale, torch.ones_like(scale))
        self.register_buffer("mean", nn.functional.pad(features.mean(0), (0, more)))
        self.register_buffer("scale", nn.functional.pad(scale, (0, more), value=1.0))

    def forward(self, features: Tensor) -> Tensor:
        """Map ``(..., D + more)`` to ``(..., D + more)``."""
        return (features - self.mean) / self.scale


def perceptron(inputs: int, outputs: int, hidden: tuple[int, ...] = (128,), dropout: float = 0.0) -> nn.Sequential:
    """Return a perceptron with ReLU between its layers; no hidden layer is a linear map."""
    sizes = (inputs, *hidden)
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def standardised(network: nn.Module, features: Tensor, more: int = 0) -> nn.Sequential:
    """Put :class:`Standardise` before a network."""
    return nn.Sequential(Standardise(features, more), network)


def features_of(data: Annotations, model: str) -> Tensor:
    """Return the items' features ``(N, D)``, or say that there are none."""
    if data.features is None:
        raise DataError(
            f"{model} reads item features and the data have none; pass features=... to Annotations.from_frame: a frame "
            f"of numbers with the tasks as its index (in the terminal: --features FILE)"
        )
    return data.features


def build(
    network: Factory | None,
    features: Tensor,
    outputs: int,
    default: Callable[[int, int], nn.Module],
    more: int = 0,
) -> nn.Module:
    """Make a model's network: the caller's as it is, else the model's own behind :class:`Standardise`.

    Args:
        network: the caller's module or maker of one; ``None`` for the default.
        features: ``(N, D)`` it will read.
        outputs: how many numbers it must give.
        default: the model's own maker.
        more: further inputs behind the features.
    """
    inputs = features.shape[-1] + more
    if network is None:
        return standardised(default(inputs, outputs), features, more)
    if isinstance(network, nn.Module):
        return network
    return network(inputs, outputs)


class Networks:
    """The networks of one model for one fit.

    Args:
        modules: by name; owned by the fit.
    """

    def __init__(self, modules: Mapping[str, nn.Module]):
        self.modules = dict(modules)

    def sample(self, name: str, scale: float, training: bool) -> Callable[..., Any]:
        """Sample the weights of a network and return it as a function.

        All weights of a network are one site, a vector: a program with a site for each tensor spends its time on sites.

        Args:
            name: of the network; its site is ``name.weights``.
            scale: standard deviation of the normal prior of each weight.
            training: whether dropout is active.

        Raises:
            ModelError: within ``torch.jit.trace``, which does not take weights that are handed to a module.
        """
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise ModelError(
                f"the network {name!r} cannot be compiled by torch.jit: use TraceEnum_ELBO or Trace_ELBO, not their Jit forms, "
                f"and NUTS(..., jit_compile=False)"
            )
        module = self.modules[name]
        size = sum(value.numel() for value in module.parameters())
        there = next(module.parameters())
        prior = Normal(torch.zeros((), dtype=there.dtype, device=there.device), scale).expand([size]).to_event(1)
        weights = self.views(name, pyro.sample(f"{name}.weights", prior, infer={WEIGHT: True}))

        def call(*inputs: Tensor) -> Tensor:
            module.train(training)
            return torch.func.functional_call(module, weights, inputs)

        return call

    def views(self, name: str, vector: Tensor) -> dict[str, Tensor]:
        """Return the parts of a network's vector of weights by the names its module knows.

        The vector may lead with axes of length 1, as Pyro's predictive programs add.

        Raises:
            ModelError: for several vectors at once.
        """
        own = dict(self.modules[name].named_parameters())
        sizes = [value.numel() for value in own.values()]
        if vector.numel() != sum(sizes):
            raise ModelError(
                f"weights of the network {name!r} of shape {tuple(vector.shape)}; a program takes one vector ({sum(sizes)},): "
                f"run it draw by draw, such as Predictive(..., parallel=False)"
            )
        parts = vector.reshape(-1).split(sizes)
        return {key: part.view(value.shape) for (key, value), part in zip(own.items(), parts, strict=True)}

    def start(self) -> dict[str, Tensor]:
        """Return the modules' own weights by site."""
        return {
            f"{name}.weights": torch.cat([value.detach().reshape(-1) for value in module.parameters()])
            for name, module in self.modules.items()
        }

    def state(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return weights (from ``values``, by site) and buffers of all networks: all that is needed to run them again."""
        out: dict[str, Tensor] = {}
        for name, module in self.modules.items():
            state = dict(module.state_dict())
            if f"{name}.weights" in values:
                state |= self.views(name, values[f"{name}.weights"].detach())
            out |= {f"{name}.{key}": value.detach().cpu().clone() for key, value in state.items()}
        return out

    def renew(self, modules: Mapping[str, nn.Module]) -> None:
        """Begin again with freshly made modules, in place of the present ones."""
        for name, module in modules.items():
            there = next(self.modules[name].parameters())
            self.modules[name] = copy.deepcopy(module).to(there.device, there.dtype)

    def buffers(self) -> dict[str, Tensor]:
        """Return copies of all buffers by ``network.buffer``."""
        return {
            f"{name}.{key}": value.clone()
            for name, module in self.modules.items()
            for key, value in module.named_buffers()
        }

    def take(self, buffers: Mapping[str, Tensor]) -> None:
        """Put buffers back that :meth:`buffers` copied."""
        for name, module in self.modules.items():
            for key, value in module.named_buffers():
                if f"{name}.{key}" in buffers:
                    value.copy_(buffers[f"{name}.{key}"])

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take weights and buffers as :meth:`state` gave them.

        Raises:
            ModelError: where they belong to another network.
        """
        for name, module in self.modules.items():
            own = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            try:
                module.load_state_dict(own)
            except RuntimeError as error:
                raise ModelError(
                    f"the saved weights do not fit the network {name!r}: {' '.join(str(error).split())[:200]}; pass the model "
                    f"that was fitted"
                ) from None


def is_weight(node: Mapping[str, Any]) -> bool:
    """Tell whether a trace's node is a network's weight."""
    return bool(node["infer"].get(WEIGHT))
