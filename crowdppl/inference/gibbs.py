"""Gibbs sampling by exact conditionals: truths given parameters, parameters given truths, all chains as one batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.checkpoint import NOTHING, Checkpoint
from crowdppl.inference.draws import Draws
from crowdppl.inference.memory import thinned_note, thinning, work_bytes
from crowdppl.inference.options import engine
from crowdppl.inference.passes import Sweeps, at
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.sampling import GumbelMaxSampler
from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel, one_hot
from crowdppl.model.program import check, dispersed, prior_draws

INTERVAL_METHOD = "draws from the posterior (Gibbs sampling with exact conditionals)"


@dataclass
class GibbsState:
    """The state of a sampler between two sweeps.

    Attributes:
        group: number of the group of chains that is being sampled.
        sweep: the group's next sweep.
        parameters: of the group's chains.
        samples: draws kept so far, by group, ``(draw, chain, ...)``.
        unused: random numbers generated and not yet used, see :class:`GumbelMaxSampler`.
    """

    group: int
    sweep: int
    parameters: Parameters
    samples: list[Parameters]
    unused: Tensor


@engine("gibbs")
def gibbs(
    model: BoundModel,
    data: Annotations,
    report: ProgressCallback,
    keep: Checkpoint = NOTHING,
    *,
    chains: int,
    warmup: int,
    num_samples: int,
) -> Draws:
    """Sample the posterior of a model with conjugate steps; defaults are in :class:`crowdppl.inference.options.GibbsOptions`.

    Args:
        model: must have ``gibbs_step``.
        data: the annotations.
        report: called with progress.
        keep: the checkpoint, from which a stopped fit continues.
        chains: run in parallel, each from its own perturbed majority vote.
        warmup: sweeps discarded.
        num_samples: sweeps kept per chain, before any thinning for memory.

    Raises:
        ModelError: for a model without conjugate steps.
    """
    reason = model.why_not_gibbs(data)
    if reason is not None:
        raise ModelError(reason)
    space = Space(check(model, data), discrete=True)
    states = data.K * model.states_per_class
    thin = min(thinning(space.size, data, chains * num_samples), num_samples)
    # Small data: all chains in one batch, which share the cost of calling torch. Large data: memory bandwidth is the limit,
    # and one chain after the other stays in the caches.
    width = max(1, min(chains, work_bytes(data) // (8 * data.N * states * 4)))
    groups = [min(width, chains - start) for start in range(0, chains, width)]
    sweeps = Sweeps.of(model, data)
    if sweeps is not None:
        groups = [1] * chains
    total = (warmup + num_samples) * len(groups)
    kept: list[list[Parameters]] = []
    # Inference mode: no bookkeeping for gradients, a tenth of a small sweep. The data's cached counts were computed by the
    # check above, outside of it.
    with torch.inference_mode():
        resumed = keep.resume(GibbsState, data.device)
        if resumed is not None:
            kept = [_unstacked(samples) for samples in resumed.samples]
        for number in range(0 if resumed is None else resumed.group, len(groups)):
            size = groups[number]
            sampler = GumbelMaxSampler((size, data.N, states), data)
            if resumed is not None:
                parameters, sampler.unused, first = resumed.parameters, resumed.unused, resumed.sweep
                resumed = None
            else:
                start = dispersed(model.initial(data).expand(size, data.N, states), data)
                truth = sampler.sample(start.log())
                if sweeps is not None:
                    assert model.conjugacy is not None
                    parameters = _leading(model.conjugacy.gibbs_step(sweeps.given(one_hot(truth[0], data))))
                else:
                    # Steps that also condition on the parameters get them from the prior: any valid point will do.
                    parameters = model.gibbs_step(truth, prior_draws(model, data, size), data)
                kept.append([])
                first = 0
            for sweep in range(first, warmup + num_samples):
                if sweeps is None:
                    truth = sampler.sample(model.item_log_joint(parameters, data))
                    parameters = model.gibbs_step(truth, parameters, data)
                else:
                    parameters = _step(model, data, sweeps, parameters)
                if sweep >= warmup and (sweep - warmup + 1) % thin == 0:
                    kept[-1].append(parameters)
                keep.step(lambda: GibbsState(number, sweep + 1, parameters, _stacked(kept), sampler.unused))  # noqa: B023
                if sweep % 50 == 0:
                    done = number * (warmup + num_samples) + sweep
                    report(done, total, "warm-up" if sweep < warmup else "sampling")
    samples = {
        name: torch.cat([torch.stack([draw[name] for draw in group], dim=1) for group in kept]) for name in space.sizes
    }
    facts = {"chains": chains, "warmup": warmup, "num_samples": num_samples, "thin": thin}
    warnings = [thinned_note(chains * (num_samples // thin), chains * num_samples)] if thin > 1 else []
    return Draws(
        samples, "posterior", INTERVAL_METHOD, facts=facts, warnings=warnings, sites=space.sites, passes=sweeps
    )


def _step(model: BoundModel, data: Annotations, sweeps: Sweeps, parameters: Parameters) -> Parameters:
    """Take a sweep of one chain by a compiled pass; parameters have a leading axis of one."""
    now = {name: value[0] for name, value in parameters.items()}
    _, sums = sweeps.draw(*at(model, now, data))
    assert model.conjugacy is not None
    return _leading(model.conjugacy.gibbs_step(sums, now))


def _leading(parameters: Parameters) -> Parameters:
    return {name: value.unsqueeze(0) for name, value in parameters.items()}


def _stacked(kept: list[list[Parameters]]) -> list[Parameters]:
    """Return the draws of each group of chains as one tensor for each site, ``(draw, chain, ...)``."""
    return [{name: torch.stack([draw[name] for draw in draws]) for name in draws[0]} if draws else {} for draws in kept]


def _unstacked(samples: Parameters) -> list[Parameters]:
    return [dict(zip(samples, values, strict=True)) for values in zip(*samples.values(), strict=True)]
