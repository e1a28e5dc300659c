"""Pyro's No-U-Turn sampler on the program with the truth summed out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends import choose
from crowdppl.inference.backends.batching import Function
from crowdppl.inference.checkpoint import NOTHING, Checkpoint, RandomStreams
from crowdppl.inference.draws import Draws
from crowdppl.inference.m_step import MStep
from crowdppl.inference.memory import thinned_note, thinning
from crowdppl.inference.options import engine
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.model.program import check, dispersed, together

# Name of all coordinates together, where Pyro knows no sites.
PLACE = "place"
# What is kept of each draw, by the names of ArviZ's schema, and its type.
STATISTICS = {
    "diverging": torch.bool,
    "energy": torch.float64,
    "tree_depth": torch.int64,
    "n_steps": torch.int64,
    "acceptance_rate": torch.float64,
    "step_size": torch.float64,
}
INTERVAL_METHOD = "draws from the posterior (No-U-Turn sampler on the likelihood with the truth summed out)"


class _Recorded(torch.autograd.Function):
    """Minus the log density, whose slope comes with it."""

    @staticmethod
    def forward(ctx: Any, place: Tensor, function: Function) -> Tensor:
        """Return the potential energy at a place ``(P,)``."""
        with torch.no_grad():
            value, slope = function(place)
        ctx.save_for_backward(slope)
        return -value

    @staticmethod
    def backward(ctx: Any, *sent: Tensor) -> tuple[Tensor, None]:
        """Return its slope."""
        (slope,) = ctx.saved_tensors
        return -sent[0] * slope, None


@dataclass
class Watch:
    """What follows each draw of a chain: a stopped fit ends, progress is reported, and the last draw's diagnostics are kept.

    Attributes:
        chain: number of the chain, of ``chains``.
        chains: number of all.
        warmup: draws for adaptation.
        num_samples: draws kept.
        report: called with progress.
        keep: the checkpoint.
        state: what it keeps, the chains that have ended.
        streams: the random streams at the start of the chain.
        diagnostics: those of Pyro's kernel after the last draw. The sampler's own summary computes R-hat as well, which refuses
            fewer than four draws.
    """

    chain: int
    chains: int
    warmup: int
    num_samples: int
    report: ProgressCallback
    keep: Checkpoint
    state: Any
    streams: RandomStreams
    diagnostics: dict[str, Any] = field(default_factory=dict)

    def __call__(self, kernel: Any, samples: Any, stage: str, i: int) -> None:
        """Follow draw ``i`` of a stage, as Pyro calls a hook."""
        warming, number, each = stage.startswith("Warmup"), self.chain + 1, self.warmup + self.num_samples
        again = f"{self.chain} of {self.chains} chains are kept, chain {number} begins again"
        self.keep.stop(lambda: self.state, self.streams, again)
        if i == self.num_samples - 1 and not warming:
            self.diagnostics.update(kernel.diagnostics())
        if i % 10 == 0:
            done = self.chain * each + i + (0 if warming else self.warmup)
            self.report(done, self.chains * each, f"chain {number}, {'warm-up' if warming else 'sampling'}")


class WatchedNUTS(NUTS):  # type: ignore[misc]
    """Pyro's sampler, which also keeps what ArviZ calls the statistics of each draw.

    Attributes:
        statistics: lists by name, with an entry for each transition, warm-up included.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.statistics: dict[str, list[float]] = {name: [] for name in STATISTICS}
        self._nested = False
        self._tree: dict[str, float] = {}

    def sample(self, params: Any) -> Any:
        """Take a transition."""
        self._tree = {"diverging": 0.0, "energy": float("nan"), "tree_depth": 0.0, "n_steps": 0.0, "accepted": 0.0}
        step_size = float(self.step_size)
        out = super().sample(params)
        tree = self._tree
        tree["acceptance_rate"] = tree.pop("accepted") / max(tree["n_steps"], 1.0)
        for name, value in (tree | {"step_size": step_size}).items():
            self.statistics[name].append(value)
        return out

    def _build_tree(self, *args: Any) -> Any:
        """Build a tree; of a whole doubling, not of its halves, keep what it was like."""
        if self._nested:
            return super()._build_tree(*args)
        self._nested = True
        try:
            tree = super()._build_tree(*args)
        finally:
            self._nested = False
        self._tree["energy"] = float(args[-1])  # of the state from which the transition begins, with its momentum
        self._tree["tree_depth"] += 1
        self._tree["n_steps"] += float(tree.num_proposals)
        self._tree["accepted"] += float(tree.sum_accept_probs)
        self._tree["diverging"] = max(self._tree["diverging"], float(tree.diverging))
        return tree


def _potential(function: Function, place: Parameters) -> Tensor:
    """Return the potential energy as Pyro's sampler asks for it."""
    apply: Any = _Recorded.apply
    return torch.as_tensor(apply(place[PLACE], function))


@dataclass
class NUTSState:
    """The chains that have been completed.

    Attributes:
        chains: draws of each, ``(draw, ...)``.
        divergences: number in each.
        acceptance: mean acceptance probability of each.
        statistics: of the draws kept of each, ``(draw,)`` by name.
    """

    chains: list[Parameters]
    divergences: list[int]
    acceptance: list[float]
    statistics: list[Parameters]


@engine("nuts")
def nuts(
    model: BoundModel,
    data: Annotations,
    report: ProgressCallback,
    keep: Checkpoint = NOTHING,
    *,
    chains: int,
    warmup: int,
    num_samples: int,
    target_accept: float,
    max_tree_depth: int,
    jit: bool | None,
) -> Draws:
    """Sample the posterior of any model with gradients; defaults are in :class:`crowdppl.inference.options.NUTS`.

    Args:
        model: any.
        data: the annotations.
        report: called with progress.
        keep: the checkpoint, from which a stopped fit continues.
        chains: run one after the other, each from its own perturbed majority vote.
        warmup: draws for adaptation, discarded.
        num_samples: draws kept per chain, before any thinning for memory.
        target_accept: acceptance probability that the step size is tuned to.
        max_tree_depth: at most ``2 ** max_tree_depth`` gradients a draw.
        jit: record the operations of the density and its gradient once, and run them without Python or Pyro, where the model
            allows it. Defaults to doing so for at least ``choose.MANY`` draws a chain.
    """
    space = Space(check(model, data))
    function = choose.recorded_density(model, data, space, warmup + num_samples, jit)
    thin = min(thinning(space.size, data, chains * num_samples), num_samples)
    state = keep.resume(NUTSState, data.device) or NUTSState([], [], [], [])
    for chain in range(len(state.chains), chains):
        streams = keep.streams()
        with torch.no_grad():
            first = MStep(model, data, space).start(dispersed(model.initial(data), data))
        options: dict[str, Any] = {"target_accept_prob": target_accept, "max_tree_depth": max_tree_depth}
        if function is None:
            start = init_to_value(values={k: space.interior(k, v) for k, v in first.items()})
            kernel, place = WatchedNUTS(model.marginal_program, init_strategy=start, **options), None
        else:
            potential = partial(_potential, function)
            kernel, place = WatchedNUTS(potential_fn=potential, **options), {PLACE: space.vector(first).detach()}

        watch = Watch(chain, chains, warmup, num_samples, report, keep, state, streams)
        sampler = MCMC(
            kernel,
            num_samples,
            warmup_steps=warmup,
            initial_params=place,
            num_chains=1,
            disable_progbar=True,
            hook_fn=watch,
        )
        sampler.run(data)
        drawn = {name: value[thin - 1 :: thin] for name, value in sampler.get_samples().items()}
        state.chains.append(drawn if function is None else together([space.values(one) for one in drawn[PLACE]]))
        state.statistics.append(
            {
                name: torch.tensor(values[-num_samples:], dtype=STATISTICS[name])[thin - 1 :: thin]
                for name, values in kernel.statistics.items()
            }
        )
        state.divergences.append(len(watch.diagnostics["divergences"]))
        state.acceptance.append(float(watch.diagnostics["acceptance rate"]))
        # Pyro does not expose the sampler's adaptation within a chain: a stopped chain begins again.
        keep.step(lambda: state)
    samples = {name: torch.stack([chain[name] for chain in state.chains]) for name in space.sizes}
    divergent = sum(state.divergences)
    facts = {
        "chains": chains,
        "warmup": warmup,
        "num_samples": num_samples,
        "thin": thin,
        "jit": function is not None,
        "divergences": state.divergences,
        "acceptance": state.acceptance,
    }
    warnings = [thinned_note(chains * (num_samples // thin), chains * num_samples)] if thin > 1 else []
    if divergent:
        warnings.append(
            f"{divergent} of {chains * num_samples} draws diverged: the sampler may have missed part of the posterior; "
            f"raise target_accept=..."
        )
    statistics = {name: torch.stack([chain[name] for chain in state.statistics]) for name in STATISTICS}
    return Draws(
        samples,
        "posterior",
        INTERVAL_METHOD,
        facts=facts,
        warnings=warnings,
        sites=space.sites,
        statistics=statistics,
    )
