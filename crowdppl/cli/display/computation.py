"""What to do, and how a result was computed, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from crowdppl.cli.application import console, in_command
from crowdppl.cli.display.shared import legend, show_notes
from crowdppl.inference.dependence.coverage import NARROW
from crowdppl.posterior.posterior import Posterior

if TYPE_CHECKING:
    from crowdppl import report

# Probability of independent errors from which the summary says so.
SAID = 0.1


def show_actions(actions: report.Actions, posterior: Posterior) -> None:
    """Print what to do, in a few lines: the same as the report's first screen."""
    from crowdppl import report  # here: slow to import

    console.print("\n[bold]What to do[/bold]")
    for line in report.lines(actions, posterior)[bool(posterior.alert) :]:  # an alert is shown above
        head, colon, rest = line.partition(": ")
        console.print(f"- [bold]{escape(head)}[/bold]{colon}{escape(rest)}" if colon else f"  {escape(line)}")


def show_computation(posterior: Posterior, *, verbose: bool = False) -> None:
    """Print all notes and warnings, then how the result was computed and what its intervals allow for.

    Args:
        posterior: a result.
        verbose: whether to print all that is known of the computation, in place of a short paragraph.
    """
    # An alert stands above everything else.
    show_notes(posterior.notes + [sentence for sentence in posterior.warnings if sentence not in posterior.alerts])
    info = posterior.info
    ran = f"{info['model']} by {info['method']} in {info['seconds']:.1f} s"
    if not verbose:
        legend(
            f"{ran}. {_intervals(posterior)} How they were computed and their coverage on public data: --verbose, run.json "
            "or the appendix of the report."
        )
        return
    method = in_command(posterior.interval_method[0].upper() + posterior.interval_method[1:])
    console.print(f"{ran}. {escape(method)}")
    show_chains(info["facts"], _stored(posterior))
    console.print(escape(in_command(posterior.correlation)))
    legend(escape(posterior.coverage))


def show_chains(facts: Mapping[str, Any], stored: str = "") -> None:
    """Print how the chains of a fit stand, if it had any; ``stored`` says how many draws are kept."""
    if facts.get("r_hat") and facts.get("ess"):
        rhat, ess = max(facts["r_hat"].values()), min(facts["ess"].values())
        console.print(
            f"Chains: R-hat at most {rhat:.3f} (1.01 or less is good), effective sample size at least {ess:,.0f} of "
            f"{facts['chains'] * facts['num_samples']:,} draws{stored}."
        )


def _intervals(posterior: Posterior) -> str:
    """Return what intervals allow for, in one sentence."""
    if posterior.kind == "point":
        return "There are point estimates only, without intervals."
    narrow = ", and are too narrow on public data" if posterior.coverage.endswith(NARROW) else ""
    mixture = posterior.info.get("independence")
    if mixture is not None and mixture["probability"] >= SAID:
        independent = f"Errors of workers are independent with probability {mixture['probability']:.0%}"
        return f"{independent}; intervals average over this and errors that they share{narrow}."
    errors = "allow for errors that workers share" if posterior.calibrated else "take errors of workers as independent"
    return f"Intervals {errors}{narrow}."


def _stored(posterior: Posterior) -> str:
    """Say how many draws are stored where that is fewer than the run had, and what they are worth."""
    facts, sizes = posterior.info["facts"], posterior.tree["posterior"].sizes
    stored, worth = sizes["chain"] * sizes["draw"], facts.get("ess_stored")
    if not worth or stored >= facts["chains"] * facts["num_samples"]:
        return ""
    return f"; {stored:,} of them are kept, with an effective sample size of at least {min(worth.values()):,.0f}"
