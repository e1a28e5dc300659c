"""What a person should know before relying on a result, in plain words."""

from __future__ import annotations

from crowdppl.convergence import ESS_LIMIT, RHAT_LIMIT
from crowdppl.posterior import Posterior


def advice(posterior: Posterior) -> list[str]:
    """Return sentences for someone who has not studied statistics: can the numbers be relied on, and what to do if not.

    Of sampled results, whether the chains agree (R-hat), how much the draws are worth (ESS), and divergences; of the others, what
    kind of approximation they are.
    """
    info = posterior.info
    facts, out = info["facts"], []
    chains, draws = (posterior.tree["posterior"].sizes[name] for name in ("chain", "draw"))
    if posterior.kind == "posterior":
        if "r_hat" in facts:
            worst = max(facts["r_hat"].values())
            if worst > RHAT_LIMIT:
                out.append(
                    f"The computation was run {chains} times from different starts, and the runs do not agree yet (R-hat "
                    f"{worst:.2f}, should be {RHAT_LIMIT} or less). Labels are usually right all the same, but intervals may be "
                    f"too narrow: run it again for longer (--warmup {2 * info['options'].get('warmup', draws)} --num-samples "
                    f"{2 * draws})."
                )
            else:
                out.append(
                    f"The computation was run {chains} times from different starts, and the runs agree (R-hat {worst:.3f})."
                )
        if "ess" in facts:
            least = min(facts["ess"].values())
            if least < ESS_LIMIT:
                out.append(
                    f"The {chains * draws:,} draws are worth only {least:,.0f} independent ones, so the ends of intervals "
                    f"wobble in the second digit: run it with --num-samples {2 * draws}."
                )
        if facts.get("divergences"):
            out.append(
                f"The sampler stumbled {facts['divergences']:,} times (divergences): parts of the posterior may be missing. "
                f"Raise target_accept, or use a stronger prior."
            )
    elif posterior.kind == "approximation":
        out.append(
            "The intervals come from an approximation to the posterior: quick, and often a little too narrow. For results that "
            "people are paid by, use --method gibbs or nuts where the model allows it."
        )
    else:
        out.append("This is one best answer: it says nothing of how sure the workers' figures are.")
    return out
