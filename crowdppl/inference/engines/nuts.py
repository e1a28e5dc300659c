"""The no-U-turn sampler on the density with the truth summed out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.backends import choose
from crowdppl.inference.backends.adaptation import Target
from crowdppl.inference.backends.gradients import space_of_chains
from crowdppl.inference.backends.nuts_chains import Chain, ChainState, learn_scales, phases, together
from crowdppl.inference.backends.trees import STATISTICS
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.non_centred import NonCentred
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.inference.hooks import SILENT, Hooks
from crowdppl.inference.memory import thinned_note, thinning
from crowdppl.inference.options import NUTS
from crowdppl.model.bound import BoundModel
from crowdppl.model.contract import check
from crowdppl.model.program import dispersed

INTERVAL_METHOD = "draws from the posterior (No-U-Turn sampler on the likelihood with the truth summed out)"


@dataclass
class NUTSState:
    """All chains, and how many parts of the warm-up have ended."""

    chains: list[ChainState]
    phase: int


def _begun(
    model: BoundModel, data: Annotations, space: Space, target: Target, chains: int, max_tree_depth: int
) -> list[Chain]:
    """Begin each chain at the parameters that its own disturbed votes suggest.

    Raises:
        ModelError: where the density is not finite there.
    """
    places, out = [], []
    for _ in range(chains):
        with torch.no_grad():
            first = MStep(model, data, space).start(dispersed(model.initial(data), data))
        places.append(space.vector(first).detach())
    if not bool(torch.isfinite(target(torch.stack(places))[0]).all()):
        raise ModelError(
            f"{model.name}: the log density is not finite, or fails, where a chain starts; check the model with "
            f"crowdppl.check_contract(model, data)"
        )
    for place in places:
        random = np.random.default_rng(int(torch.randint(2**62, ())))
        out.append(Chain(place.double().cpu().numpy(), np.ones(space.size), random, max_tree_depth))
    return out


def nuts(model: BoundModel, data: Annotations, options: NUTS, hooks: Hooks = SILENT) -> Draws:
    """Sample the posterior of any model with gradients.

    Chains run side by side, each from its own perturbed majority vote. In the warm-up they learn scales together. By default
    operations are recorded for at least ``choose.MANY`` draws a chain, and normal sites whose mean or scale is another site move
    by standard normal coordinates where data say little of them (:func:`crowdppl.inference.engines.non_centred.uninformed`).

    Args:
        model: any.
        data: the annotations.
        options: all of NUTS's.
        hooks: called between steps; a stopped fit continues from its checkpoint.

    Raises:
        ModelError: where the density is not finite at the start of a chain.
    """
    chains, warmup, num_samples = options.chains, options.warmup, options.num_samples
    space = space_of_chains(model, data, Space(check(model, data)), options.non_centred)
    density, recorded = choose.density_of_chains(model, data, space, chains, warmup + num_samples, options.jit)

    def target(place: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return density(place.to(data.device, data.dtype))

    thin = min(thinning(space.size, data, chains * num_samples), num_samples)
    stopped = hooks.keep.resume(NUTSState, torch.device("cpu"))
    if stopped is None:
        running, begun = _begun(model, data, space, target, chains, options.max_tree_depth), 0
    else:
        running, begun = [state.chain() for state in stopped.chains], stopped.phase
    ends = [*phases(warmup), (warmup + num_samples, False)]
    for phase in range(begun, len(ends)):
        end, learned = ends[phase]
        warming = phase < len(ends) - 1

        def after(phase: int = phase, warming: bool = warming) -> None:
            done = sum(chain.done for chain in running)
            hooks.report(done, chains * (warmup + num_samples), "warm-up" if warming else "sampling")
            hooks.keep.step(lambda: NUTSState([ChainState.of(chain) for chain in running], phase))

        tuned = options.target_accept if warming else None
        together(running, [chain.until(end, tuned, thin, warmup) for chain in running], target, after)
        if learned:
            learn_scales(running)
        elif warming:
            for chain in running:
                chain.begin_window()
    return _draws(running, space, data, recorded, warmup=warmup, num_samples=num_samples, thin=thin)


def _draws(
    running: list[Chain], space: Space, data: Annotations, recorded: bool, *, warmup: int, num_samples: int, thin: int
) -> Draws:
    """Return the draws of all chains and what is to be said of them."""
    chains = len(running)
    places = torch.from_numpy(np.stack([np.stack(chain.draws) for chain in running])).to(data.device, data.dtype)
    statistics = {
        name: torch.tensor([chain.statistics[name] for chain in running], dtype=kind)
        for name, kind in STATISTICS.items()
    }
    divergences = [chain.divergences for chain in running]
    facts = {
        "chains": chains,
        "warmup": warmup,
        "num_samples": num_samples,
        "thin": thin,
        "jit": recorded,
        "non_centred": sorted(space.names) if isinstance(space, NonCentred) else [],
        "divergences": divergences,
        "acceptance": [chain.accepted / num_samples for chain in running],
    }
    warnings = [thinned_note(chains * (num_samples // thin), chains * num_samples)] if thin > 1 else []
    if sum(divergences):
        warnings.append(
            f"{sum(divergences)} of {chains * num_samples} draws diverged: the sampler may have missed part of the posterior; "
            f"raise target_accept=..."
        )
    return Draws(
        space.several(places),
        "posterior",
        INTERVAL_METHOD,
        facts=facts,
        warnings=warnings,
        sites=space.sites,
        statistics=statistics,
    )
