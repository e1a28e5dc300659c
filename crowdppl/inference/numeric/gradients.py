"""SVI and NUTS on the Pyro program of a model of numbers, in which the truths are integrated out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyro
import torch
from pyro.infer import MCMC, Trace_ELBO
from pyro.infer.autoguide import (
    AutoDelta,
    AutoLowRankMultivariateNormal,
    AutoMultivariateNormal,
    AutoNormal,
    init_to_value,
)
from torch import Tensor

from crowdppl.errors import OptionError
from crowdppl.inference.checkpoint import RandomStreams
from crowdppl.inference.engines.monitor import of_draws
from crowdppl.inference.hooks import SILENT, Hooks
from crowdppl.inference.numeric.draws import NumericDraws, of_readings, thinned
from crowdppl.inference.numeric.mean_field import Loop
from crowdppl.inference.options import NUTS, SVI, Engine
from crowdppl.isolation import without_warnings
from crowdppl.model.numeric import StandardLabels
from crowdppl.models.linear_gaussian import LinearGaussian

SVI_METHOD = "draws from a variational approximation ({guide}), truths exactly given these"
NUTS_METHOD = "draws from the posterior (No-U-Turn sampler on the likelihood with the truth integrated out)"
# Numbers of parameters up to which the default guide has a full covariance matrix.
FULL_RANK = 200
# Guides by name.
FAMILIES: dict[str, Callable[..., Any]] = {
    "full-rank": partial(AutoMultivariateNormal, init_scale=0.05),
    "low-rank": partial(AutoLowRankMultivariateNormal, init_scale=0.05),
    "independent": partial(AutoNormal, init_scale=0.05),
    "point": AutoDelta,
}
# Steps of EM that the gradients start from.
FIRST_STEPS = 20
# Steps over which the loss is compared with the steps before.
WINDOW = 100


def _start(model: LinearGaussian, data: StandardLabels) -> dict[str, Tensor]:
    """Return values of the sites near the mode."""
    loop = Loop.after(model, data, FIRST_STEPS)
    state, own = loop.state, slice(0, data.workers)
    like = data.value
    variance = (1 / state.weight).clamp(min=2 * data.floor)
    overall = state.overall()
    out = {
        "mean": state.mean,
        "truth_sd": state.truth_sd,
        "bias_sd": max(state.bias_sd, 0.05),
        "noise_variance": max(state.common, 0.01),
        "inverse_noise_df": 0.2,
        "intercept": overall[0][own],
        "variance": variance[own],
    }
    if model.slopes:
        share = min(max(state.random_share, 0.01), 0.9)
        out |= {"slope_sd": max(state.slope_sd, 0.05), "random_share": share, "slope": overall[1][own]}
    if data.has_reference:
        out |= {"reference_intercept": overall[0][-1], "reference_variance": variance[-1]}
        if model.slopes:
            out["reference_slope"] = overall[1][-1]
    if loop.truths.weight is not None:
        out |= {"weight": loop.truths.weight, "weight_sd": max(state.weight_sd, 0.05)}
    return {name: torch.as_tensor(value).to(like) for name, value in out.items()}


def _refuse(options: Engine, *names: str) -> None:
    """Refuse options that say something and that models of numbers do not use.

    Raises:
        OptionError: for the first of them.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and value is not False:
            raise OptionError(
                f"{name}={'True' if value is True else ''} is not used by models of numbers; leave it out"
            )


def without_inverse(samples: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return draws with the degrees of freedom in place of their inverse."""
    return {name: value for name, value in samples.items() if name != "inverse_noise_df"} | {
        "noise_df": 1 / samples["inverse_noise_df"]
    }


def judged(samples: dict[str, Tensor]) -> dict[str, Any]:
    """Return the facts on the convergence of posterior draws."""
    chains, count = samples["mean"].shape
    names = ("mean", "truth_sd", "intercept", "slope", "variance", "weight", "weight_sd")
    diagnosis = of_draws({name: samples[name] for name in names if name in samples})
    return {"chains": chains, "num_samples": count} | diagnosis.facts(chains)


@dataclass
class SVIState:
    """A run between two steps.

    Attributes:
        guide: values of the guide's parameters by name.
        optimiser: state of Pyro's optimiser.
        losses: so far.
    """

    guide: dict[str, Tensor]
    optimiser: dict[str, Any]
    losses: list[float]


def svi(model: LinearGaussian, data: StandardLabels, options: SVI, hooks: Hooks = SILENT) -> NumericDraws:
    """Fit a guide."""
    _refuse(options, "batch_size", "validation")
    first, max_iter, guide = _start(model, data), options.max_iter, str(options.guide)
    if guide == "auto":
        guide = "full-rank" if sum(value.numel() for value in first.values()) <= FULL_RANK else "independent"
    family = FAMILIES[guide](model.program, init_loc_fn=init_to_value(values=first))
    decay = 0.1 ** (1 / max_iter)
    optimiser = pyro.optim.ClippedAdam({"lr": options.learning_rate, "lrd": decay})
    inference = pyro.infer.SVI(model.program, family, optimiser, Trace_ELBO())
    losses: list[float] = []
    converged = False
    family._setup_prototype(data)  # as the first step does: its parameters exist from here on
    guided = {name: value.data for name, value in family.named_parameters()}
    stopped = hooks.keep.resume(SVIState, data.value.device)
    if stopped is not None:
        for name, value in stopped.guide.items():
            guided[name].copy_(value)
        optimiser.set_state(stopped.optimiser)
        losses = stopped.losses
    for step in range(len(losses), max_iter):
        hooks.keep.step(lambda: SVIState(guided, optimiser.get_state(), losses))
        losses.append(float(inference.step(data)))
        if step % 50 == 0:
            hooks.report(step, max_iter, "SVI")
        if step >= 4 * WINDOW and step % WINDOW == 0:
            last, before = (sum(losses[a:b]) / WINDOW for a, b in ((-WINDOW, None), (-2 * WINDOW, -WINDOW)))
            if before - last < options.tol * abs(before):
                converged = True
                break
    with torch.no_grad():
        drawn = [family(data) for _ in range(1 if guide == "point" else options.num_samples)]
    samples = {name: torch.stack([one[name] for one in drawn]).unsqueeze(0).detach() for name in first}
    samples = without_inverse(samples)
    warnings = [] if converged else [f"SVI stopped after {len(losses)} steps before its loss stood; raise max_iter"]
    facts = {"converged": converged, "iterations": len(losses), "loss": losses[-1]}
    return NumericDraws(
        thinned(samples),
        "point" if guide == "point" else "approximation",
        SVI_METHOD.format(guide=guide),
        of_readings(samples, data),
        facts=facts,
        warnings=warnings,
        trace=losses,
    )


@dataclass
class Watch:
    """What follows each draw of a chain: a stopped fit ends, progress is reported, and the last draw's diagnostics are kept.

    Attributes:
        chain: number of the chain, of ``chains``.
        chains: number of all.
        warmup: draws for adaptation.
        num_samples: draws kept.
        hooks: called with progress; their checkpoint keeps the state.
        state: the chains that have ended.
        streams: the random streams at the start of the chain.
        diagnostics: those of Pyro's kernel after the last draw. The sampler's own summary computes R-hat as well, which refuses
            fewer than four draws.
    """

    chain: int
    chains: int
    warmup: int
    num_samples: int
    hooks: Hooks
    state: Any
    streams: RandomStreams
    diagnostics: dict[str, Any] = field(default_factory=dict)

    def __call__(self, kernel: Any, samples: Any, stage: str, i: int) -> None:
        """Follow draw ``i`` of a stage, as Pyro calls a hook."""
        warming, number, each = stage.startswith("Warmup"), self.chain + 1, self.warmup + self.num_samples
        again = f"{self.chain} of {self.chains} chains are kept, chain {number} begins again"
        self.hooks.keep.stop(lambda: self.state, self.streams, again)
        if i == self.num_samples - 1 and not warming:
            self.diagnostics.update(kernel.diagnostics())
        if i % 10 == 0:
            done = self.chain * each + i + (0 if warming else self.warmup)
            self.hooks.report(done, self.chains * each, f"chain {number}, {'warm-up' if warming else 'sampling'}")


@dataclass
class NUTSState:
    """The chains that have been completed: draws of each, and how many of all diverged."""

    runs: list[dict[str, Tensor]]
    divergent: int


def nuts(model: LinearGaussian, data: StandardLabels, options: NUTS, hooks: Hooks = SILENT) -> NumericDraws:
    """Sample the posterior."""
    _refuse(options, "jit", "non_centred")
    chains, warmup, num_samples = options.chains, options.warmup, options.num_samples
    first = _start(model, data)
    done = hooks.keep.resume(NUTSState, data.value.device) or NUTSState([], 0)
    for chain in range(len(done.runs), chains):
        watch = Watch(chain, chains, warmup, num_samples, hooks, done, hooks.keep.streams())
        away = {name: value * (1 + 0.05 * torch.randn_like(value)) for name, value in first.items()}
        away["inverse_noise_df"] = first["inverse_noise_df"]
        away["variance"] = away["variance"].clamp(min=2 * data.floor)
        kernel = pyro.infer.NUTS(
            model.program,
            target_accept_prob=options.target_accept,
            max_tree_depth=options.max_tree_depth,
            init_strategy=init_to_value(values=away),
        )
        sampler = MCMC(kernel, num_samples, warmup_steps=warmup, num_chains=1, disable_progbar=True, hook_fn=watch)
        with without_warnings():
            sampler.run(data)
        done.runs.append(sampler.get_samples())
        done.divergent += len(watch.diagnostics["divergences"])
        hooks.keep.step(lambda: done)
    divergent = done.divergent
    samples = without_inverse({name: torch.stack([run[name] for run in done.runs]) for name in first})
    facts: dict[str, Any] = {"warmup": warmup, "divergences": divergent} | judged(samples)
    warnings = []
    if divergent:
        warnings.append(f"{divergent} of {chains * num_samples} draws diverged; raise target_accept=...")
    return NumericDraws(
        thinned(samples), "posterior", NUTS_METHOD, of_readings(samples, data), facts=facts, warnings=warnings
    )
