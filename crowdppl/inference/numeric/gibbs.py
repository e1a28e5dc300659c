"""Gibbs sampling of the linear Gaussian model: a run of its chains until they agree."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crowdppl.inference.engines.monitor import Diagnosis, of_draws
from crowdppl.inference.hooks import SILENT, Hooks
from crowdppl.inference.numeric.chains import Chains
from crowdppl.inference.numeric.draws import STORED, NumericDraws, thinned
from crowdppl.inference.numeric.readings import Moments, readings
from crowdppl.inference.options import Gibbs
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import LinearGaussian

INTERVAL_METHOD = "draws from the posterior (Gibbs sampling with exact conditionals)"
# Sweeps between two looks at convergence.
ROUND = 250
# Workers whose parameters are watched for convergence, at most, the busiest of those with so many labels.
WATCHED, JUDGED = 200, 10


@dataclass
class GibbsState:
    """A run between two sweeps.

    Attributes:
        chains: what the next sweep starts from.
        kept: draws so far.
        moments: of the readings.
        done: number of sweeps, those of the warm-up included.
        step: of how many sweeps one is kept.
        seconds: that the run has taken.
    """

    chains: dict[str, Tensor]
    kept: list[dict[str, Tensor]]
    moments: Moments
    done: int
    step: int
    seconds: float


def gibbs(model: LinearGaussian, data: StandardLabels, options: Gibbs, hooks: Hooks = SILENT) -> NumericDraws:
    """Sample the posterior."""
    chains, warmup, num_samples, began = options.chains, options.warmup, options.num_samples, time.perf_counter()
    sampler = Chains(model, data, chains)
    moments = Moments()
    kept: list[dict[str, Tensor]] = []
    step = 1
    diagnosis = Diagnosis()
    done = 0
    stopped = hooks.keep.resume(GibbsState, data.value.device)
    if stopped is not None:
        sampler.restore(stopped.chains)
        kept, moments, done, step = stopped.kept, stopped.moments, stopped.done, stopped.step
        began -= stopped.seconds
    while True:
        hooks.keep.step(
            lambda: GibbsState(sampler.held(), kept, moments, done, step, time.perf_counter() - began)  # noqa: B023
        )
        mean, variance = sampler.conditional()
        if done >= warmup:
            moments.add(mean, variance, readings(sampler.parameters, data))
        sampler.sweep(mean, variance)
        done += 1
        if done <= warmup:
            if done % 50 == 0:
                hooks.report(done, warmup + (num_samples or 2 * ROUND), "warm-up")
            continue
        sweeps = done - warmup
        if sweeps % step == 0:
            kept.append(sampler.state())
        if sweeps % 50 == 0:
            hooks.report(done, warmup + (num_samples or max(2 * ROUND, sweeps)), "sampling")
        if num_samples is not None:
            if sweeps == num_samples:
                break
            continue
        if sweeps % ROUND == 0 and sweeps >= 2 * ROUND:
            diagnosis = watched(kept, data)
            if diagnosis.converged or time.perf_counter() - began > options.max_seconds:
                break
            if len(kept) * chains * data.workers > 2 * STORED or len(kept) >= 4 * ROUND:
                kept, step = kept[1::2], step * 2
    samples = {name: torch.stack([one[name] for one in kept], 1) for name in kept[0]}
    if num_samples is not None:
        diagnosis = watched(kept, data)
    facts: dict[str, Any] = {"chains": chains, "warmup": warmup, "num_samples": sweeps, "thin": step}
    facts |= diagnosis.facts(chains)
    if num_samples is None:
        facts["max_seconds"] = options.max_seconds
    return NumericDraws(thinned(samples), "posterior", INTERVAL_METHOD, moments, facts=facts)


def watched(kept: list[dict[str, Tensor]], data: StandardLabels) -> Diagnosis:
    """Judge draws of what results report: mean and spread of truths, and the parameters of the busiest workers."""
    if len(kept) < 4:
        return Diagnosis()
    samples = {name: torch.stack([one[name] for one in kept], 1) for name in kept[0]}
    count = data.tables.count[: data.workers].squeeze(-1)
    # Of few labels a worker may follow the truth or answer at random: a slope that jumps between both says nothing on the chains.
    judged = max(int((count >= JUDGED).sum()), min(5, data.workers))
    busiest = count.topk(min(WATCHED, judged)).indices
    values = {"mean": samples["mean"]}
    if "slope" in samples:
        values["slope"] = samples["slope"][..., busiest]
    values["truth_sd"] = samples["truth_sd"]
    if "weight" in samples:
        values |= {"weight": samples["weight"][..., :WATCHED], "weight_sd": samples["weight_sd"]}
    values["bias"] = samples["intercept"][..., busiest] - samples["mean"].unsqueeze(-1)
    values["sd"] = samples["variance"][..., busiest].sqrt()
    return of_draws(values)
