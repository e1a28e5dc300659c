"""What a person should know before relying on a result, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdppl import arguments
from crowdppl.inference.convergence import ESS_LIMIT, RHAT_LIMIT, longer
from crowdppl.posterior.posterior import Posterior

# From here on chains that disagree are taken to sit at different solutions, which longer runs do not cure.
APART = 1.1
# Draws a chain that are still advised; beyond it other advice is given.
MOST_DRAWS = 20_000


@arguments.checked(posterior=arguments.posterior)
def advice(posterior: Posterior) -> list[str]:
    """Return sentences for someone who has not studied statistics: can the numbers be relied on, and what to do if not.

    Of sampled results, whether the chains agree (R-hat), how much the draws are worth (ESS), and divergences; of the others, what
    kind of approximation they are.
    """
    if posterior.kind == "posterior":
        return _sampled(posterior.info["facts"])
    if posterior.kind == "approximation":
        return [
            "The intervals come from an approximation to the posterior. It is quick, and its intervals are often too narrow. "
            "For decisions such as payment, use --method gibbs or nuts where the model allows it."
        ]
    return ["This result is a single best estimate: it does not say how certain the workers' figures are."]


def _sampled(facts: Mapping[str, Any]) -> list[str]:
    out = []
    chains, warmup, asked = facts["chains"], facts["warmup"], facts["num_samples"]
    worst = max(facts["r_hat"].values()) if "r_hat" in facts else None
    least = min(facts["ess"].values()) if "ess" in facts else None
    if worst is None or least is None:
        reason = "it was run once only" if chains == 1 else "there are too few draws"
        out.append(
            f"Whether the computation has converged cannot be judged: {reason}. Run it with --chains 4 --num-samples 1000."
        )
    if worst is not None and worst > APART:
        out.append(
            f"The computation was run {chains} times from different starts, and the runs disagree (R-hat {worst:.2f}, should "
            f"be {RHAT_LIMIT} or less): they may have found different solutions. Do not use the intervals. Run it again for "
            f"longer ({_command(warmup, facts)}); if the runs still disagree, use another model (--model one-coin has "
            f"fewer parameters) or give known truths (--truth-file)."
        )
    elif worst is not None and worst > RHAT_LIMIT:
        out.append(
            f"The computation was run {chains} times from different starts, and the runs do not agree yet (R-hat "
            f"{worst:.2f}, should be {RHAT_LIMIT} or less). Intervals may be too narrow. Run it again for longer "
            f"({_command(warmup, facts)})."
        )
    elif worst is not None:
        out.append(
            f"The computation was run {chains} times from different starts, and the runs agree (R-hat {worst:.3f})."
        )
    if least is not None and least < ESS_LIMIT and not (worst is not None and worst > RHAT_LIMIT):
        out.append(
            f"The {chains * asked:,} draws are worth only {least:,.0f} independent ones (at least {ESS_LIMIT} are needed), so "
            f"the ends of intervals are uncertain in the second digit. Run it again with {_command(None, facts)}."
        )
    divergences = sum(facts.get("divergences", []))
    if divergences:
        out.append(
            f"The sampler failed to follow the posterior in {divergences:,} of {chains * asked:,} draws (divergences): parts of "
            f"it may be missing. In Python, raise target_accept (crowdppl.fit(..., target_accept=0.95)), or use a stronger prior."
        )
    return out


def _command(warmup: int | None, facts: Mapping[str, Any]) -> str:
    """Return the options that ask for enough draws."""
    draws = min(longer(facts), max(MOST_DRAWS, 2 * facts["num_samples"]))
    return ("" if warmup is None else f"--warmup {2 * max(warmup, 100)} ") + f"--num-samples {draws}"
