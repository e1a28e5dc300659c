"""Gibbs sampling by exact conditionals: truths given parameters, parameters given truths, all chains as one batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.checkpoint import NOTHING, Checkpoint, State, packed, unpacked
from crowdppl.inference.draws import Draws
from crowdppl.inference.memory import thinned_note, thinning, work_bytes
from crowdppl.inference.options import engine
from crowdppl.inference.passes import Sweeps, at
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.sampling import GumbelMaxSampler
from crowdppl.inference.unconstrained import Space
from crowdppl.model.base import AnnotationModel, Parameters, check, dispersed, one_hot, prior_draws, without_gibbs

HOW = "draws from the posterior (Gibbs sampling with exact conditionals)"


@engine("gibbs")
def gibbs(
    model: AnnotationModel,
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
        keep: where the state is kept, for a fit that is stopped to go on.
        chains: run side by side, each from its own disturbed majority vote.
        warmup: sweeps thrown away.
        num_samples: sweeps kept per chain, before any thinning for memory.
    """
    reason = without_gibbs(model, data)
    if reason is not None:
        raise ModelError(reason)
    space = Space(check(model, data), discrete=True)
    states = data.K * model.states_per_class
    thin = min(thinning(space.size, data, chains * num_samples), num_samples)
    # Small data: all chains in one batch, the cost of calling torch is shared. Large data: memory is the bound, and
    # chains in turn stay in the caches.
    width = max(1, min(chains, work_bytes(data) // (8 * data.N * states * 4)))
    groups = [min(width, chains - start) for start in range(0, chains, width)]
    sweeps = Sweeps.of(model, data, "gibbs_from")
    if sweeps is not None:
        groups = [1] * chains
    total = (warmup + num_samples) * len(groups)
    kept: list[list[Parameters]] = []
    # Inference mode: no bookkeeping for gradients, a tenth of a small sweep. What the data keep (counts and the like) was
    # made by the check above, outside of it.
    with torch.inference_mode():
        found = keep.resume("gibbs", data.device)
        begun, done_sweeps = (0, 0) if found is None else (found[1]["group"], found[1]["sweep"])
        for number, size in enumerate(groups):
            if found is not None and number < begun:
                kept.append(_kept(found[0], number))
                continue
            sampler = GumbelMaxSampler((size, data.N, states), data)
            if found is not None and number == begun:
                kept.append(_kept(found[0], number))
                parameters = unpacked("now", found[0])
                sampler.unused = found[0]["unused"]
                first = done_sweeps
            else:
                start = dispersed(model.starting(data).expand(size, data.N, states), data)
                truth = sampler.sample(start.log())
                if sweeps is not None:
                    parameters = _leading(model.gibbs_from(sweeps.given(one_hot(truth[0], data)), data))
                else:
                    # Steps that condition on the parameters too get them from the prior: any valid point will do.
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
                keep.step(partial(_state, number, sweep + 1, parameters, kept, sampler), "gibbs")
                if sweep % 50 == 0:
                    done = number * (warmup + num_samples) + sweep
                    report(done, total, "warm-up" if sweep < warmup else "sampling")
    samples = {
        name: torch.cat([torch.stack([draw[name] for draw in group], dim=1) for group in kept]) for name in space.sizes
    }
    facts = {"chains": chains, "warmup": warmup, "num_samples": num_samples, "thin": thin}
    told = [thinned_note(chains * (num_samples // thin), chains * num_samples)] if thin > 1 else []
    return Draws(samples, "posterior", HOW, facts=facts, warnings=told, sites=space.sites, passes=sweeps)


def _step(model: AnnotationModel, data: Annotations, sweeps: Sweeps, parameters: Parameters) -> Parameters:
    """Take a sweep of one chain by a compiled pass; parameters lead with an axis of one."""
    now = {name: value[0] for name, value in parameters.items()}
    _, sums = sweeps.draw(*at(model, now, data))
    return _leading(model.gibbs_from(sums, data))


def _leading(parameters: Parameters) -> Parameters:
    return {name: value.unsqueeze(0) for name, value in parameters.items()}


def _state(
    group: int, sweep: int, parameters: Parameters, kept: list[list[Parameters]], sampler: GumbelMaxSampler
) -> State:
    """What it takes to go on: the next sweep of a group of chains, and the draws kept so far."""
    out = packed("now", parameters) | {"unused": sampler.unused}
    for number, draws in enumerate(kept):
        if draws:
            out |= packed(f"kept {number}", {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]})
    return out, {"group": group, "sweep": sweep}


def _kept(tensors: Mapping[str, Tensor], group: int) -> list[Parameters]:
    stacked = unpacked(f"kept {group}", tensors)
    count = len(next(iter(stacked.values()))) if stacked else 0
    return [{name: value[s] for name, value in stacked.items()} for s in range(count)]
