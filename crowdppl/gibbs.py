"""Gibbs sampling by exact conditionals: truths given parameters, parameters given truths, all chains as one batch."""

from __future__ import annotations

import torch

from crowdppl.annotations import Annotations
from crowdppl.draws import WORK_BYTES, Draws, Races, Report, thinned_note, thinning, whole
from crowdppl.errors import ModelError
from crowdppl.model import AnnotationModel, Parameters, check, dispersed, prior_draws, without_gibbs
from crowdppl.space import Space

HOW = "draws from the posterior (Gibbs sampling with exact conditionals)"


def gibbs(
    model: AnnotationModel,
    data: Annotations,
    report: Report,
    *,
    chains: int = 4,
    warmup: int = 500,
    num_samples: int = 1000,
) -> Draws:
    """Sample the posterior of a model with conjugate steps.

    Args:
        model: must have ``gibbs_step``.
        data: the judgements.
        report: called with progress.
        chains: run side by side, each from its own disturbed majority vote.
        warmup: sweeps thrown away.
        num_samples: sweeps kept per chain, before any thinning for memory.
    """
    whole("chains", chains, 1)
    whole("warmup", warmup, 0)
    whole("num_samples", num_samples, 1)
    reason = without_gibbs(model, data)
    if reason is not None:
        raise ModelError(reason)
    space = Space(check(model, data), discrete=True)
    states = data.K * model.states_per_class
    thin = min(thinning(space.size, data, chains * num_samples), num_samples)
    # Small data: all chains in one batch, the cost of calling torch is shared. Large data: memory is the bound, and
    # chains in turn stay in the caches.
    width = max(1, min(chains, WORK_BYTES // (8 * data.N * states * 4)))
    groups = [min(width, chains - start) for start in range(0, chains, width)]
    total = (warmup + num_samples) * len(groups)
    kept: list[list[Parameters]] = []
    # Inference mode: no bookkeeping for gradients, a tenth of a small sweep. What the data keep (counts and the like) was
    # made by the check above, outside of it.
    with torch.inference_mode():
        for number, size in enumerate(groups):
            races = Races((size, data.N, states), data)
            start = dispersed(model.starting(data).expand(size, data.N, states), data)
            truth = races.winners(start.log())
            # Steps that condition on the parameters too get them from the prior: any valid point will do.
            parameters = model.gibbs_step(truth, prior_draws(model, data, size), data)
            kept.append([])
            for sweep in range(warmup + num_samples):
                truth = races.winners(model.item_log_joint(parameters, data))
                parameters = model.gibbs_step(truth, parameters, data)
                if sweep >= warmup and (sweep - warmup + 1) % thin == 0:
                    kept[-1].append(parameters)
                if sweep % 50 == 0:
                    done = number * (warmup + num_samples) + sweep
                    report(done, total, "warm-up" if sweep < warmup else "sampling")
    samples = {
        name: torch.cat([torch.stack([draw[name] for draw in group], dim=1) for group in kept]) for name in space.sizes
    }
    facts = {"chains": chains, "warmup": warmup, "num_samples": num_samples, "thin": thin}
    return Draws(samples, "posterior", HOW, facts=facts, warnings=[thinned_note(thin)] if thin > 1 else [])
