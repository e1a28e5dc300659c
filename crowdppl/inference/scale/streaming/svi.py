"""Stochastic variational inference from disk: Pyro's SVI over mini-batches of each batch that is read.

With ``guide="point"`` it is generalised EM: the gradient of the log posterior with the truth summed out is that of EM's expected
log joint (Fisher's identity), which each step increases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from pyro.infer import SVI, TraceEnum_ELBO
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError, warn
from crowdppl.inference.engines.guides import guide_draws, guide_of, medians
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.svi import adam, require_finite
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.scale.streaming.dataset import Stored
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.contract import check

# Gradient steps that it takes at least, from the first point that a majority vote gives.
ENOUGH = 500


@dataclass(frozen=True)
class _All:
    """What a Pyro program asks of all the data, of which a batch is in memory: their sizes, and some of that batch's items."""

    N: int
    J: int
    here: Annotations

    def mini_batch(self, index: Tensor) -> Annotations:
        return self.here.mini_batch(index)


def learn(
    model: BoundModel,
    source: Stored,
    guide: Literal["auto", "point"],
    passes: int,
    batch_size: int,
    learning_rate: float,
    on_batch: Callable[[int], None],
) -> tuple[Parameters, Callable[[], Parameters], list[float]]:
    """Fit a guide.

    Returns:
        Its median, what draws from it, and the mean loss of each pass.

    Raises:
        ModelError: where the model asks for more than workers' confusions and a prior of the truth that all items share.
    """
    batch = next(source.batches())
    space = Space(check(model, batch))
    with torch.no_grad():
        first = MStep(model, batch, space).start(model.initial(batch))
    if space.per_item or space.weights or model.log_truth(first, batch).dim() > 1:
        raise ModelError(f"{model.name} has parameters of items, or a prior of its own for each; it cannot be streamed")
    family, _ = guide_of(model, batch, space, first, guide)
    # It learns its sites and takes its first values at its first call.
    family(batch)
    total = passes * -(-source.items // batch_size)
    steps = SVI(model.program, family, adam(learning_rate, total), TraceEnum_ELBO(max_plate_nesting=1))
    trace: list[float] = []
    taken = 0
    for _ in range(passes):
        losses: list[float] = []
        for batch in source.batches():
            all_of_it = _All(source.items, batch.J, batch)
            for index in _parts(batch.N, batch_size):
                losses.append(steps.step(all_of_it, index))
                require_finite(losses[-1], model, taken + len(losses) - 1)
            on_batch(batch.A)
        trace.append(sum(losses) / len(losses))
        taken += len(losses)
    if taken < ENOUGH:
        few = f"SVI took {taken} gradient steps, and some {ENOUGH:,} are needed; raise passes=..., or lower batch_size=..."
        warn(few)
    sites = list(space.sizes)

    def draw() -> Parameters:
        return {name: value[0, 0] for name, value in guide_draws(family, batch, sites, [], 1)[0].items()}

    with torch.no_grad():
        return medians(family, batch, space), draw, trace


def _parts(items: int, size: int) -> Iterator[Tensor]:
    """Split items in random order into parts of nearly one size."""
    yield from torch.randperm(items).tensor_split(-(-items // size))
