"""Advice on the reliability of a result, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdppl.arguments import checked
from crowdppl.inference.engines.convergence import SHOWN, longer, seconds
from crowdppl.inference.engines.monitor import ESS_LIMIT, RHAT_LIMIT
from crowdppl.posterior import workers
from crowdppl.posterior.posterior import Posterior

# R-hat above which chains are assumed to be at different modes, which longer runs do not fix.
DIFFERENT_MODES = 1.1
# Maximum recommended number of draws per chain.
MAX_DRAWS = 20_000
# Workers whose accuracy fell that are named.
MOST = 5


@checked
def advice(posterior: Posterior) -> list[str]:
    """Return sentences for readers without training in statistics: whether the numbers are reliable, and what to do if not.

    For sampled results they cover convergence (R-hat), effective sample size and divergences; for others, the kind of
    approximation. If annotations have timestamps, workers whose accuracy fell over time follow: the figures of such a worker
    are averages over time.
    """
    if posterior.kind == "posterior":
        sentences = _sampled(posterior.info["facts"])
    elif posterior.kind == "approximation":
        sentences = [
            "The intervals come from an approximation to the posterior, which is quick; where the model allows it, "
            f"--method gibbs or nuts samples the posterior itself. {posterior.coverage}".rstrip()
        ]
    else:
        sentences = ["This result is a single best estimate, without the uncertainty of the workers' figures."]
    fell = workers.became_worse(posterior)
    return (
        sentences
        + [f"Worker {row['worker']}: {row['sentence']} Ask what changed." for row in fell.head(MOST).to_dict("records")]
        + ([f"{len(fell) - MOST:,} further workers became less accurate over time."] if len(fell) > MOST else [])
    )


def _sampled(facts: Mapping[str, Any]) -> list[str]:
    sentences = []
    chains, warmup, draws = facts["chains"], facts["warmup"], facts["num_samples"]
    # Quantities that are constant to reported precision have neither.
    worst = max(facts["r_hat"].values(), default=1.0) if "r_hat" in facts else None
    least = min(facts["ess"].values(), default=float(ESS_LIMIT)) if "ess" in facts else None
    if worst is None or least is None:
        reason = "there is only one chain" if chains == 1 else "there are too few draws"
        sentences.append(
            f"Whether the computation has converged is unknown: {reason}. Run it with --chains 4 and without --num-samples."
        )
    if worst is not None and worst > RHAT_LIMIT and facts.get("modes"):
        sentences.append(
            f"The computation was run {chains} times from different starts, and the runs have found different solutions (R-hat "
            f"{_shown(worst)}, should be {RHAT_LIMIT} or less). Do not use the intervals. A longer run seldom helps: use another "
            f"model (--model one-coin has fewer parameters) or give known truths (--truth-file)."
        )
    elif worst is not None and worst > DIFFERENT_MODES:
        sentences.append(
            f"The computation was run {chains} times from different starts, and the runs disagree (R-hat {_shown(worst)}, should "
            f"be {RHAT_LIMIT} or less): they may have found different solutions. Do not use the intervals. Run it again for "
            f"longer ({_command(warmup, facts)}); if the runs still disagree, use another model (--model one-coin has "
            f"fewer parameters) or give known truths (--truth-file)."
        )
    elif worst is not None and worst > RHAT_LIMIT:
        sentences.append(
            f"The computation was run {chains} times from different starts, and the runs do not agree yet (R-hat "
            f"{worst:.2f}, should be {RHAT_LIMIT} or less). Intervals may be too narrow. Run it again for longer "
            f"({_command(warmup, facts)})."
        )
    elif worst is not None:
        sentences.append(
            f"The computation was run {chains} times from different starts, and the runs agree (R-hat {worst:.3f})."
        )
    if least is not None and least < ESS_LIMIT and not (worst is not None and worst > RHAT_LIMIT):
        sentences.append(
            f"The {chains * draws:,} draws correspond to only {least:,.0f} independent ones (at least {ESS_LIMIT} are needed), "
            f"so the second digit of the ends of intervals is uncertain. Run it again with {_command(None, facts)}."
        )
    items = facts.get("disagreeing_items", 0)
    if items and not (worst is not None and worst > RHAT_LIMIT):
        sentences.append(
            f"The runs disagree about the class of {items:,} item{'' if items == 1 else 's'}. Do not use the intervals. Run it "
            f"again for longer ({_command(warmup, facts)})."
        )
    divergences = facts.get("divergences", [])
    if isinstance(divergences, int):  # of Gibbs sampling, in its moves by gradients: one number for all chains
        if divergences:
            sentences.append(
                f"The sampler failed to follow the posterior in {divergences:,} moves (divergences): parts of it may be missing. "
                f"Use --method nuts, or a stronger prior."
            )
    elif divergences := sum(divergences):
        sentences.append(
            f"The sampler failed to follow the posterior in {divergences:,} of {chains * draws:,} draws (divergences): parts of "
            f"it may be missing. In Python, raise target_accept (crowdppl.fit(..., target_accept=0.95)), or use a stronger prior."
        )
    return sentences


def _shown(r_hat: float) -> str:
    return f"{r_hat:.2f}" if r_hat < SHOWN else f"over {SHOWN}"


def _command(warmup: int | None, facts: Mapping[str, Any]) -> str:
    """Return command-line options for enough draws."""
    if facts.get("max_seconds") is not None:
        return f"--max-seconds {seconds(facts)}"
    draws = min(longer(facts), max(MAX_DRAWS, 2 * facts["num_samples"]))
    return ("" if warmup is None else f"--warmup {2 * max(warmup, 100)} ") + f"--num-samples {draws}"
