"""Pyro's No-U-Turn sampler on the program with the truth summed out."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide.initialization import init_to_value
from torch.jit._trace import TracerWarning

from crowdppl.data.annotations import Annotations
from crowdppl.inference.checkpoint import NOTHING, Checkpoint, State, packed, streams, unpacked
from crowdppl.inference.draws import Draws
from crowdppl.inference.m_step import MStep
from crowdppl.inference.memory import thinned_note, thinning
from crowdppl.inference.options import engine
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.unconstrained import Space
from crowdppl.isolation import without_warnings
from crowdppl.model.base import AnnotationModel, Parameters, check, dispersed, provides

HOW = "draws from the posterior (No-U-Turn sampler on the likelihood with the truth summed out)"


@engine("nuts")
def nuts(
    model: AnnotationModel,
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
    """Sample the posterior of any model with gradients; defaults are in :class:`crowdppl.inference.options.NUTSOptions`.

    Args:
        model: any.
        data: the annotations.
        report: called with progress.
        keep: where the state is kept, for a fit that is stopped to go on.
        chains: run in turn, each from its own disturbed majority vote.
        warmup: draws for adaptation, thrown away.
        num_samples: draws kept per chain, before any thinning for memory.
        target_accept: acceptance probability that the step size is tuned to.
        max_tree_depth: at most ``2 ** max_tree_depth`` gradients a draw.
        jit: compile the density; by default where the model's likelihood is the library's own table and small.
    """
    space = Space(check(model, data))
    if jit is None:
        jit = provides(model, "log_confusion") and model._bound is None and data.counts.dense
    thin = min(thinning(space.size, data, chains * num_samples), num_samples)
    total = chains * (warmup + num_samples)
    kept: list[Parameters] = []
    divergences: list[int] = []
    acceptance: list[float] = []
    found = keep.resume("nuts", data.device)
    if found is not None:
        tensors, told_before = found
        kept = [unpacked(f"chain {c}", tensors) for c in range(told_before["chains"])]
        divergences, acceptance = list(told_before["divergences"]), list(told_before["acceptance"])
    for chain in range(len(kept), chains):
        begun = {} if keep is NOTHING else streams()
        with torch.no_grad():
            first = MStep(model, data, space).start(dispersed(model.starting(data), data))
        kernel = NUTS(
            model.marginal_program,
            target_accept_prob=target_accept,
            max_tree_depth=max_tree_depth,
            jit_compile=jit,
            ignore_jit_warnings=True,
            init_strategy=init_to_value(values={k: space.interior(k, v) for k, v in first.items()}),
        )

        # The sampler's own summary computes R-hat as well, which refuses fewer than four draws.
        told: dict[str, Any] = {}

        def tell(
            kernel: Any,
            samples: Any,
            stage: str,
            i: int,
            chain: int = chain,
            told: dict[str, Any] = told,
            begun: dict[str, torch.Tensor] = begun,
        ) -> None:
            keep.stop(
                partial(_state, kept, divergences, acceptance),
                "nuts",
                begun,
                f"{chain} of {chains} chains are kept, chain {chain + 1} begins again",
            )
            if i == num_samples - 1 and not stage.startswith("Warmup"):
                told.update(kernel.diagnostics())
            if i % 10 == 0:
                done = chain * (warmup + num_samples) + i + (0 if stage.startswith("Warmup") else warmup)
                report(done, total, f"chain {chain + 1}, {'warm-up' if stage.startswith('Warmup') else 'sampling'}")

        sampler = MCMC(kernel, num_samples, warmup_steps=warmup, num_chains=1, disable_progbar=True, hook_fn=tell)
        # Tracing is deprecated in torch and has no successor that Pyro uses yet.
        with (
            without_warnings(message=".*torch.jit.*", category=DeprecationWarning),
            without_warnings(category=TracerWarning),
        ):
            sampler.run(data)
        kept.append({name: value[thin - 1 :: thin] for name, value in sampler.get_samples().items()})
        divergences.append(len(told["divergences"]))
        acceptance.append(float(told["acceptance rate"]))
        # Within a chain the sampler's adaptation is Pyro's own business: a stopped chain is begun again.
        keep.step(partial(_state, kept, divergences, acceptance), "nuts")
    samples = {name: torch.stack([chain[name] for chain in kept]) for name in space.sizes}
    facts = {
        "chains": chains,
        "warmup": warmup,
        "num_samples": num_samples,
        "thin": thin,
        "jit": jit,
        "divergences": divergences,
        "acceptance": acceptance,
    }
    told_user = [thinned_note(chains * (num_samples // thin), chains * num_samples)] if thin > 1 else []
    if sum(divergences):
        told_user.append(
            f"{sum(divergences)} of {chains * num_samples} draws diverged: the sampler may have missed part of the posterior; "
            f"raise target_accept=..."
        )
    logging.getLogger(__name__).debug("nuts: %s", facts)
    return Draws(samples, "posterior", HOW, facts=facts, warnings=told_user, sites=space.sites)


def _state(kept: list[Parameters], divergences: list[int], acceptance: list[float]) -> State:
    """The chains that have ended."""
    out: Parameters = {}
    for chain, samples in enumerate(kept):
        out |= packed(f"chain {chain}", samples)
    return out, {"chains": len(kept), "divergences": divergences, "acceptance": acceptance}
