"""Gibbs sampling over the parts of all ranks: parameters are drawn on rank 0, true labels where the items are.

The draw of a true label depends on the seed and on the item's name only, and sums of drawn labels are whole numbers: any number
of ranks draws the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crowdppl.inference.engines.monitor import BlockMoments, Diagnosis, Layout, diagnose, places
from crowdppl.inference.hooks import Hooks
from crowdppl.inference.memory import KEPT
from crowdppl.inference.scale.sharded.parts import Parts
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel

# Numbers of the workers' accuracies that are kept, and workers whose convergence is watched, at most.
NUMBERS, WATCHED = 2 * 10**7, 5000


@dataclass
class ShardedGibbsState:
    """The state of a run between two sweeps; the sums of probabilities are in files of the ranks.

    Attributes:
        sweep: the next one.
        chains: current parameters of each chain.
        total: sums of the parameters over draws.
        accuracy: draws of the workers' accuracies that are kept, ``(draws, J)``.
        moments: of what is watched, for each chain.
        saved: number in the names of the ranks' files; 0 if there are none.
    """

    sweep: int
    chains: list[Parameters]
    total: Parameters
    accuracy: Tensor
    moments: list[BlockMoments]
    saved: int


@dataclass
class Sampled:
    """The result of a run.

    Attributes:
        mean: of the parameters.
        accuracy: draws of the workers' accuracies, ``(draws, J)``.
        diagnosis: of what was watched.
        draws: number of draws of all chains.
    """

    mean: Parameters
    accuracy: Tensor
    diagnosis: Diagnosis
    draws: int


def gibbs(model: BoundModel, parts: Parts, hooks: Hooks, *, chains: int, warmup: int, num_samples: int) -> Sampled:
    """Sample the posterior; each chain begins with true labels drawn by the shares of the votes.

    Args:
        model: with closed-form updates.
        parts: of all ranks, which afterwards hold the sums of class probabilities over all draws.
        hooks: called between sweeps.
        chains: number of chains; a sweep takes a step of each.
        warmup: sweeps discarded.
        num_samples: sweeps that count, in each chain.
    """
    run = _Run(model, parts, chains, warmup, num_samples)
    folder = None if hooks.keep.path is None else hooks.keep.path.parent.absolute()  # ranks may be in other folders
    state = hooks.keep.resume(ShardedGibbsState, torch.device("cpu"))
    if state is None:
        run.begin()
    else:
        run.state = state
        if state.saved and folder is not None:
            parts.call("load", folder=folder, number=state.saved)
    for sweep in range(run.state.sweep, warmup + num_samples):
        if folder is not None:
            hooks.keep.step(lambda: run.saved(folder))
        run.sweep(sweep)
        hooks.report(sweep + 1, warmup + num_samples, "warm-up" if sweep < warmup else "sampling")
    total = chains * num_samples
    mean = {name: value / total for name, value in run.state.total.items()}
    return Sampled(mean, run.state.accuracy, diagnose(run.state.moments, run.layout), total)


class _Run:
    """A run, and its state."""

    def __init__(self, model: BoundModel, parts: Parts, chains: int, warmup: int, num_samples: int):
        assert model.conjugacy is not None
        self.model, self.parts, self.conjugacy = model, parts, model.conjugacy
        self.warmup = warmup
        self.sizes = parts.sizes()
        J, K = self.sizes.J, self.sizes.K
        # Evenly spaced.
        self.watched = torch.arange(min(J, WATCHED)) * J // min(J, WATCHED)
        count = len(self.watched)
        self.layout = Layout(places({"accuracy": count, "prevalence": K, "sensitivity": count * K}), 1)
        quantities = max(end for _, end in self.layout.kinds.values())
        like = torch.empty((), dtype=torch.float64)
        moments = [BlockMoments.empty(1, quantities, like, sweeps=num_samples) for _ in range(chains)]
        self.every = -(-chains * num_samples // max(20, min(KEPT, NUMBERS // J)))
        self.state = ShardedGibbsState(0, [], {}, torch.empty(0, J, dtype=torch.float32), moments, 0)

    def begin(self) -> None:
        """Draw the first parameters of each chain."""
        for _ in self.state.moments:
            sums = self.parts.call("draw", seed=_seed(), votes=True)
            self.state.chains.append(self.conjugacy.gibbs_step(sums))
        self.state.total = {name: torch.zeros_like(value) for name, value in self.state.chains[0].items()}

    def sweep(self, sweep: int) -> None:
        """Take a step of each chain."""
        state, counts = self.state, sweep >= self.warmup
        kept = []
        for number, parameters in enumerate(state.chains):
            table, prior = self.model.tables(parameters, self.sizes)
            if counts:
                accuracy = torch.einsum("k,jkk->j", prior, table)
                sensitivity = table[self.watched].diagonal(dim1=-2, dim2=-1)
                values = torch.cat([accuracy[self.watched], prior, sensitivity.flatten()])
                state.moments[number].add(values.unsqueeze(0))
                for name, value in parameters.items():
                    state.total[name] += value
                place = (sweep - self.warmup) * len(state.chains) + number
                if place % self.every == 0:
                    kept.append(accuracy.float())
            sums = self.parts.call("draw", table, prior, seed=_seed(), add=counts)
            state.chains[number] = self.conjugacy.gibbs_step(sums, parameters)
        if kept:
            state.accuracy = torch.cat([state.accuracy, torch.stack(kept)])
        state.sweep = sweep + 1

    def saved(self, folder: Path) -> ShardedGibbsState:
        """Return the state, after all ranks have written theirs."""
        if self.state.sweep > self.warmup:
            before, self.state.saved = self.state.saved, self.state.sweep
            self.parts.call("save", folder=folder, number=self.state.sweep, before=before)
        return self.state


def _seed() -> int:
    """Return a seed from torch's random stream, which the checkpoint holds."""
    return int(torch.empty((), dtype=torch.int64).random_())


def facts(sampled: Sampled, chains: int, warmup: int, num_samples: int) -> dict[str, Any]:
    """Return what is said of a run."""
    now = sampled.diagnosis
    return {
        "converged": now.converged,
        "chains": chains,
        "warmup": warmup,
        "num_samples": num_samples,
        "r_hat": max(now.r_hat.values()) if now.r_hat else None,
        "ess": min(now.ess.values()) if now.ess else None,
    }
