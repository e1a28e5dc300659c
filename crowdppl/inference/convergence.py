"""Have the chains converged? R-hat and effective sample size of the worst quantity, in words where they are not good."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from crowdppl.data.annotations import Annotations
from crowdppl.inference.evaluate import EvaluatedDraws

# Vehtari et al. (2021), Rank-normalization, folding, and localization, Bayesian Analysis 16(2).
RHAT_LIMIT = 1.01
ESS_LIMIT = 400
# With more workers than this the busiest stand for all.
QUANTITIES = 500


def longer(facts: Mapping[str, Any]) -> int:
    """Return how many draws a chain needs for an effective sample size of ``ESS_LIMIT``, rounded up to two digits.

    Args:
        facts: of a sampled result: ``num_samples``, ``ess`` and ``r_hat``.
    """
    least = min(facts["ess"].values()) if "ess" in facts else math.nan
    factor = 1.2 * ESS_LIMIT / least if least > 0 else 2.0  # a fifth more: the estimate is rough
    if max(facts.get("r_hat", {"": 1.0}).values()) > RHAT_LIMIT:
        factor = max(2.0, factor)
    needed = facts["num_samples"] * max(1.0, factor)
    step = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return math.ceil(needed / step) * step


def convergence(data: Annotations, evaluated: EvaluatedDraws) -> tuple[dict[str, Any], list[str]]:
    """Return R-hat and ESS of the worst of each kind of quantity, and warnings in plain sentences.

    Args:
        data: the annotations.
        evaluated: ``C`` chains of ``S`` posterior draws.
    """
    import arviz_stats  # takes a second: only for those who ask

    chains, count = evaluated.lp.shape
    if count < 4:
        return {}, ["too few draws to judge convergence; raise num_samples=..."]
    quantities = dict(evaluated.mixing)
    if "accuracy" in quantities:
        busiest = data.annotations_per_worker.topk(min(data.J, QUANTITIES)).indices
        quantities["accuracy"] = quantities["accuracy"][:, :, busiest]
    cells = {name: value.reshape(chains, count, -1).cpu().numpy() for name, value in quantities.items()}
    # A quantity that never moves (a probability fixed by the model) has no R-hat; it is left out.
    moving = {name: value[..., np.ptp(value, axis=(0, 1)) > 0] for name, value in cells.items()}
    table = xr.Dataset(
        {name: (("chain", "draw", f"{name}_cell"), value) for name, value in moving.items() if value.size}
    )
    if not table.data_vars:
        return {}, []
    ess = {str(name): float(value.min()) for name, value in arviz_stats.ess(table).data_vars.items()}
    sentences = []
    facts: dict[str, Any] = {"ess": ess}
    if chains > 1:
        rhat = {str(name): float(value.max()) for name, value in arviz_stats.rhat(table).data_vars.items()}
        facts["r_hat"] = rhat
        worst = max(rhat, key=lambda name: rhat[name])
        if rhat[worst] > RHAT_LIMIT:
            sentences.append(
                f"the chains have not mixed: R-hat of {worst} is {rhat[worst]:.3f} (at most {RHAT_LIMIT} is good); raise "
                f"warmup=... and num_samples=..., or give a stronger prior if chains sit in different modes"
            )
    least = min(ess, key=lambda name: ess[name])
    if ess[least] < ESS_LIMIT:
        sentences.append(
            f"the draws of {least} are worth only {ess[least]:.0f} independent ones (at least {ESS_LIMIT} is good); "
            f"raise num_samples=..."
        )
    return facts, sentences
