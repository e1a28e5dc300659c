"""EM for numbers: the accelerated steps of :mod:`crowdppl.inference.numeric.mean_field`, and what is read off their end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crowdppl.inference.hooks import SILENT, Hooks
from crowdppl.inference.memory import KEPT
from crowdppl.inference.numeric.acceleration import Path, PathState
from crowdppl.inference.numeric.draws import STORED, NumericDraws, parameters_of
from crowdppl.inference.numeric.mean_field import Loop, State
from crowdppl.inference.numeric.readings import CONSENSUS, FAIR, REFERENCE, Moments, readings
from crowdppl.inference.numeric.regression import Truths, drawn
from crowdppl.inference.options import EM, OPTIONS
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import MEAN_SCALE, LinearGaussian

INTERVAL_METHOD = "draws from the distributions of workers that mean-field EM ends with, truths exactly given these"
# Options of EM that are about networks, restarts, extrapolation or the log posterior, none of which this model has.
UNUSED = sorted(set(OPTIONS["em"]) - {"max_iter", "num_samples"})


@dataclass
class EMState:
    """A run after some steps.

    Attributes:
        path: where it is.
        trace: lower bounds so far.
    """

    path: PathState
    trace: list[float]


def em(model: LinearGaussian, data: StandardLabels, options: EM, hooks: Hooks = SILENT) -> NumericDraws:
    """Fit by mean-field EM; of the options it takes ``max_iter`` and ``num_samples``."""
    loop = Loop(model, data)
    path, trace = Path(loop), list[float]()
    stopped = hooks.keep.resume(EMState, data.value.device)
    if stopped is not None:
        path.take_up(stopped.path)
        trace = stopped.trace
    for step in range(len(trace), options.max_iter):
        hooks.keep.step(lambda: EMState(path.state(), trace))
        trace.append(path.step())
        if step % 10 == 0:
            hooks.report(step, options.max_iter, "EM")
        if path.done:
            break
    path.end()
    steps, converged = len(trace), path.done
    trace.append(loop.bound())
    state = loop.state
    count = max(1, min(options.num_samples or KEPT, STORED // data.columns))
    samples = _drawn(model, data, state, loop.truths, count)
    facts = {"converged": converged, "iterations": steps, "lower_bound": trace[-1]}
    warnings = [] if converged else [f"EM stopped after {steps} steps before it stood; raise max_iter"]
    return NumericDraws(
        samples, "approximation", INTERVAL_METHOD, _moments(loop, samples), facts=facts, warnings=warnings, trace=trace
    )


def _drawn(model: LinearGaussian, data: StandardLabels, state: State, truths: Truths, count: int) -> dict[str, Tensor]:
    """Draw parameters of workers from their distributions, ``(1, count, ...)``, beside the mode of the crowd."""
    like, J = data.value, data.columns
    first, second = (torch.randn(count, J).to(like) for _ in range(2))
    # The part of each draw, and the moments within it, (count, J).
    part = torch.zeros(count, J, dtype=torch.int64, device=like.device)
    if model.slopes:
        part = (torch.rand(count, J).to(like) < state.part[1]).long()
    at = torch.arange(J, device=like.device)
    centre, steep, var_b, var_g, cov = (
        value[part, at] for value in (state.intercept, state.slope, state.var_b, state.var_g, state.cov)
    )
    intercept = centre + var_b.sqrt() * first
    along = cov / var_b
    slope = steep + along * (intercept - centre)
    slope = slope + (var_g - along * cov).clamp(min=0).sqrt() * second
    variance = (state.rate / torch._standard_gamma(state.shape.expand(count, J))).clamp(min=data.floor)
    # The mean of the crowd given its workers.
    spread = (data.workers / state.bias_sd**2 + MEAN_SCALE**-2) ** -0.5
    own = slice(0, data.workers)
    mean = intercept[:, own].mean(1) + spread * torch.randn(count).to(like)
    fixed = {
        "truth_sd": state.truth_sd,
        "bias_sd": state.bias_sd,
        "noise_variance": state.common,
        "noise_df": state.df,
    }
    out = {"mean": mean, "intercept": intercept[:, own], "variance": variance[:, own]}
    if model.slopes:
        fixed |= {"slope_sd": state.slope_sd, "random_share": state.random_share}
        out["slope"] = slope[:, own]
    if data.has_reference:
        out |= {"reference_intercept": intercept[:, -1], "reference_variance": variance[:, -1]}
        if model.slopes:
            out["reference_slope"] = slope[:, -1]
    if truths.weight is not None and truths.root is not None:
        fixed["weight_sd"] = state.weight_sd
        noise = torch.randn(data.width, count).to(like)
        out["weight"] = drawn(truths.weight.unsqueeze(-1), truths.root.expand(count, -1, -1), noise).T
    out |= {name: torch.full((count,), value).to(like) for name, value in fixed.items()}
    return {name: value.unsqueeze(0) for name, value in out.items()}


def _moments(loop: Loop, samples: dict[str, Tensor]) -> Moments:
    """Return the moments of readings: truths and workers are independent, so moments of both suffice."""
    data = loop.data
    parameters = parameters_of({name: value.squeeze(0) for name, value in samples.items()}, data)
    out = Moments(draws=1)
    mean, variance, N = loop.truths.mean, loop.truths.variance, data.items
    apart, relative = mean - mean.mean(), loop.truths.relative_variance(data.features, loop.state.truth_sd)
    of = readings(parameters, data)
    for name in (CONSENSUS, FAIR, REFERENCE):
        if name not in of:
            continue
        alpha, beta, noise = of[name]
        steep, square = beta.mean(), (beta**2).mean()
        value = alpha.mean() + steep * mean
        total = (alpha**2).mean() + 2 * (alpha * beta).mean() * mean + square * (mean**2 + variance) + noise.mean()
        total_apart = square * (apart**2 + relative) + noise.mean() * (1 - 1 / N)
        out.sums[name] = torch.stack([value, total, steep * apart, total_apart])
    return out
