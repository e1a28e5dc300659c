"""Have the chains converged? R-hat and effective sample size of the worst quantity, in words where they are not good."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from crowdppl.data.annotations import Annotations
from crowdppl.inference.engines.monitor import ESS_LIMIT, RHAT_LIMIT, Diagnosis, of_draws
from crowdppl.inference.evaluate import EvaluatedDraws
from crowdppl.posterior.recorded import NOT_CONVERGED

# With more workers than this the busiest stand for all.
QUANTITIES = 500
# Fewer draws of a chain cannot be judged.
FEWEST = 4
# Beyond this R-hat is not spelled out.
SHOWN = 10
WHAT = {
    "lp": "the log posterior density",
    "accuracy": "workers' accuracy",
    "prevalence": "the prevalence of classes",
    "confusion": "confusion matrices",
    "sensitivity": "workers' sensitivity",
    "shared": "parameters that all workers share",
    "truth": "the class probabilities of items",
}


def convergence(data: Annotations, evaluated: EvaluatedDraws, diagnosis: Diagnosis | None = None) -> dict[str, Any]:
    """Return the facts on convergence: R-hat and ESS of the worst of each kind of quantity, and whether they are good.

    Args:
        data: the annotations.
        evaluated: ``C`` chains of ``S`` posterior draws.
        diagnosis: of the engine that has watched its run; ``ess_stored`` is then the effective sample size of the draws that are
            kept, of the same quantities as far as they are stored. Without it, the draws are judged by ArviZ: rank-normalised
            split R-hat and bulk ESS (Vehtari et al. 2021).
    """
    chains, count = evaluated.lp.shape
    if diagnosis is not None:
        facts: dict[str, Any] = {"ess": diagnosis.ess} if diagnosis.sweeps else {}
        if chains > 1 and diagnosis.sweeps:
            facts["r_hat"] = diagnosis.r_hat
        facts |= {"modes": diagnosis.modes, "disagreeing_items": len(diagnosis.disagreeing)}
        stored = of_draws({name: value for name, value in evaluated.mixing.items() if name != "lp"})
        return facts | {"ess_stored": stored.ess, "converged": diagnosis.converged}
    if count < FEWEST:
        return {"converged": False}
    facts = _by_arviz(data, evaluated, chains, count)
    good = max(facts.get("r_hat", {}).values(), default=1.0) <= RHAT_LIMIT
    good = good and min(facts["ess"].values(), default=math.inf) >= ESS_LIMIT
    return facts | {"modes": not good and of_draws(evaluated.mixing).modes, "converged": good}


def _by_arviz(data: Annotations, evaluated: EvaluatedDraws, chains: int, count: int) -> dict[str, Any]:
    import arviz_stats  # takes a second: only for those who ask

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
        return {"ess": {}} | ({"r_hat": {}} if chains > 1 else {})
    facts: dict[str, Any] = {
        "ess": {str(name): float(value.min()) for name, value in arviz_stats.ess(table).data_vars.items()}
    }
    if chains > 1:
        facts["r_hat"] = {str(name): float(value.max()) for name, value in arviz_stats.rhat(table).data_vars.items()}
    return facts


def warning(facts: Mapping[str, Any]) -> str | None:
    """Return the first warning of a result whose chains have not converged, with figures and what helps; else ``None``.

    Args:
        facts: of a sampled result, with those of :func:`convergence`.
    """
    if facts["converged"]:
        return None
    if "ess" not in facts:
        return f"{NOT_CONVERGED} (too few draws to judge); {_longer(facts)}"
    figures = []
    r_hat, ess = facts.get("r_hat", {}), facts["ess"]
    if r_hat:
        worst = max(r_hat, key=lambda kind: float(r_hat[kind]))
        figure = f"{r_hat[worst]:.3f}" if r_hat[worst] < SHOWN else f"over {SHOWN}"
        figures.append(f"R-hat of {WHAT.get(worst, worst)} is {figure}, at most {RHAT_LIMIT} is good")
    if ess:
        worst = min(ess, key=lambda kind: float(ess[kind]))
        figures.append(
            f"the effective sample size of {WHAT.get(worst, worst)} is {ess[worst]:,.0f}, at least {ESS_LIMIT} is good"
        )
    items = facts.get("disagreeing_items", 0)
    if items:
        figures.append(f"the chains disagree about {items:,} item{'' if items == 1 else 's'}")
    return f"{NOT_CONVERGED} ({'; '.join(figures)}); {remedy(facts)}"


def remedy(facts: Mapping[str, Any]) -> str:
    """Return what helps a run that has not converged: more time where chains agree, another model where they do not."""
    if facts.get("modes"):
        return (
            "the chains are in different modes, which a longer run seldom changes: use another model, such as "
            "model='one-coin' with fewer parameters, or give known truths of some items"
        )
    return _longer(facts)


def _longer(facts: Mapping[str, Any]) -> str:
    if facts.get("max_seconds") is not None:
        return f"raise max_seconds to about {seconds(facts)}"
    return f"raise num_samples to about {longer(facts)}"


def seconds(facts: Mapping[str, Any]) -> int:
    """Return in about how many seconds a run that has used up ``max_seconds`` would converge."""
    return _rounded(facts["max_seconds"] * max(2.0, _factor(facts)))


def _factor(facts: Mapping[str, Any]) -> float:
    """Return how many times longer the run must be."""
    least = min(facts.get("ess", {}).values(), default=0.0)
    factor = 1.2 * ESS_LIMIT / least if least > 0 else 2.0  # a fifth more: the estimate is rough
    # The excess of R-hat over one is inversely proportional to the number of draws.
    excess = max(facts.get("r_hat", {}).values(), default=1.0) - 1
    if excess > RHAT_LIMIT - 1:
        factor = max(2.0, factor, min(20.0, excess / (RHAT_LIMIT - 1)))
    return max(1.0, factor)


def longer(facts: Mapping[str, Any]) -> int:
    """Return how many draws a chain needs for an effective sample size of ``ESS_LIMIT``, rounded up to two digits.

    Args:
        facts: of a sampled result: ``num_samples``, ``ess`` and ``r_hat``.
    """
    return _rounded(facts["num_samples"] * _factor(facts))


def _rounded(needed: float) -> int:
    step = 10 ** max(0, math.floor(math.log10(max(1.0, needed))) - 1)
    return math.ceil(needed / step) * step
