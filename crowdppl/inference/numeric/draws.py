"""What an engine for numbers returns, and parameters of its draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from crowdppl.inference.numeric.readings import Moments, Parameters, conditional, readings
from crowdppl.model.numeric import StandardLabels

# Numbers that a stored site has at most; draws of more are thinned.
STORED = 4_000_000
# Draws evaluated at a time, times items and workers.
BLOCK = 2**21


@dataclass
class NumericDraws:
    """Draws of the parameters on the standard scale.

    Attributes:
        samples: by site, ``(chains, draws, ...)``; sites of workers without the reference.
        kind: ``"posterior"``, ``"approximation"`` or ``"point"``.
        interval_method: how intervals arise, in a sentence.
        moments: of the readings of truths.
        facts: on the run.
        warnings: what makes the result doubtful.
        trace: objective of each step.
    """

    samples: dict[str, Tensor]
    kind: str
    interval_method: str
    moments: Moments
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    trace: list[float] = field(default_factory=list)


def parameters_of(draws: dict[str, Tensor], data: StandardLabels) -> Parameters:
    """Return the parameters of draws ``(C, ...)`` by site, those of the reference among the workers'."""
    worker = {
        name: draws[name].T if name in draws else torch.ones_like(draws["intercept"]).T
        for name in ("intercept", "slope", "variance")
    }
    if data.has_reference:
        for name in worker:
            other = draws.get(f"reference_{name}", torch.ones_like(draws["mean"]))
            worker[name] = torch.cat([worker[name], other.unsqueeze(0)])
    weight = draws["weight"].T if "weight" in draws else None
    return Parameters(**worker, mean=draws["mean"], truth_sd=draws["truth_sd"], weight=weight)


def blocks(samples: dict[str, Tensor], data: StandardLabels) -> Iterator[Parameters]:
    """Yield the parameters of all draws, some at a time."""
    flat = {name: value.flatten(0, 1) for name, value in samples.items()}
    count = len(flat["mean"])
    step = max(1, BLOCK // (data.items + data.columns))
    for begin in range(0, count, step):
        yield parameters_of({name: value[begin : begin + step] for name, value in flat.items()}, data)


def of_readings(samples: dict[str, Tensor], data: StandardLabels) -> Moments:
    """Return the moments of the readings over draws."""
    out = Moments()
    for parameters in blocks(samples, data):
        out.add(*conditional(parameters, data), readings(parameters, data))
    return out


def thinned(samples: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return evenly spaced draws, as many as may be stored."""
    largest = max(value.numel() for value in samples.values())
    step = -(-largest // STORED)
    return samples if step == 1 else {name: value[:, step - 1 :: step] for name, value in samples.items()}
