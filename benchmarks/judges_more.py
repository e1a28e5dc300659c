"""Twelve kinds of simulated panels, long answers, several answers, changes of judges and arenas: sections of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import table
from judges_designs import LENGTHS, answers_part, drift_part, elo_part, length_part, length_truth
from judges_kinds import KINDS, METHODS, kind_part

# Repetitions of the kinds by method, of those whose coverage is lowest, of long answers, and of the others.
KIND_TIMES = dict(zip(METHODS, (40, 20), strict=True))
LOWEST, LOWEST_TIMES = ("one judge", "weak judges", "self-preference"), 60
LENGTH_TIMES, ANSWER_TIMES, DRIFT_TIMES, ELO_TIMES = 60, 30, 100, 50
CHANGES = (0.0, 1.0, 2.0)
LABELS = (30, 100)


def measure(kept: Callable[..., Any], repeated: Callable[..., Any], few: int | None) -> dict[str, Any]:
    """Return the figures of these sections.

    Args:
        kept: of :class:`judges.Kept`.
        repeated: :func:`judges.repeated`.
        few: number of repetitions in a quick run.
    """
    out: dict[str, Any] = {}
    for labels in LABELS:
        for kind in tuple(KINDS)[: 1 if few else None]:
            for method in METHODS:
                more = method == METHODS[0] and kind in LOWEST
                key, times = f"kind {labels} / {kind} / {method}", LOWEST_TIMES if more else KIND_TIMES[method]
                times = few or times
                out[key] = kept(key, lambda: repeated(kind_part, kind, labels, method, times=times))  # noqa: B023
    for design in LENGTHS:
        true = kept(f"length of {design}", lambda: length_truth(design))  # noqa: B023
        key = f"length {design}"
        out[key] = kept(key, lambda: repeated(length_part, design, true, times=few or LENGTH_TIMES))  # noqa: B023
    out["answers"] = kept("answers", lambda: repeated(answers_part, times=few or ANSWER_TIMES))
    for change in CHANGES:
        key = f"drift {change}"
        out[key] = kept(key, lambda: repeated(drift_part, change, times=few or DRIFT_TIMES))  # noqa: B023
    out["elo"] = kept("elo", lambda: repeated(elo_part, times=few or ELO_TIMES))
    return out


def sections(out: dict[str, Any]) -> str:
    """Return the sections of the page."""
    return "\n\n".join(part(out) for part in (_kinds, _lengths, _answers, _drift, _elo))


def _kinds(out: dict[str, Any]) -> str:
    """Return coverage and width by kind, beside those of the stack, and pooled."""
    rows, pooled = [], []
    for labels in LABELS:
        by_method = {}
        for kind in KINDS:
            runs = [out.get(f"kind {labels} / {kind} / {method}") for method in METHODS]
            if any(run is None for run in runs):
                continue
            ours, stack = runs
            by_method[kind] = runs
            figures = [ours["covered"], stack["covered"], ours["width"], stack["width"], ours["error"], stack["error"]]
            rows.append([kind, labels, *(round(x, 3) for x in figures)])
        own, others = (
            np.mean([[run[n][f] for f in ("covered", "width")] for run in by_method.values()], 0) for n in (0, 1)
        )
        well = [runs for runs in by_method.values() if runs[1]["covered"] >= 0.93]
        ratio = np.mean([runs[0]["width"] / runs[1]["width"] for runs in well]) if well else np.nan
        each = [runs[0]["covered"] for runs in by_method.values()]
        pooled.append(
            f"With {labels} labels {own[0]:.1%} of the intervals of crowdppl.judges contain the rate (by kind {min(each):.1%} "
            f"to {max(each):.1%}) and {others[0]:.1%} of those of the stack; mean widths are {own[1]:.3f} and {others[1]:.3f}. "
            f"Where the stack covers 93% or more ({len(well)} of {len(by_method)}), ours are {ratio:.2f} times as wide."
        )
    times = [runs[0]["times"] for runs in by_method.values()]
    header = ["kind", "human labels", "coverage", "stack", "width", "stack", "error", "stack"]
    return f"""## Twelve kinds of simulated panels

Coverage, mean width and mean absolute error of the rates of systems, 95% intervals, beside the stack (logistic regression on all
verdicts, bootstrap over labels). Nothing was tuned to these kinds. {min(times)} repetitions, {max(times)} of one
judge, weak judges and self-preference, {stack["times"]} of the stack: the standard error of a coverage of one kind is .01 to .04.

{table(header, rows)}

{chr(10).join(pooled)}

Twenty-four panels do not tell a coverage of 95% from one of 90%. On the first 24, one judge with 30 labels has .875, weak judges
with 30 have .903, and self-preference with 100 has .889; on 36 further panels .991, .981 and .963. One judge with 100 labels has
.972 and .898. Where a family of judges prefers a system, its rate with 100 labels is too high by .015, over half of its posterior
standard deviation: the model knows of the preference by its human labels only."""


def _lengths(out: dict[str, Any]) -> str:
    rows = []
    for design in LENGTHS:
        run = out[f"length {design}"]
        names = ("bias", "inside", "accused", "named", "covered", "without_covered", "width", "without_width")
        rows.append([design, *(round(run[name], 3) for name in (*names, "excess", "without_excess"))])
    header = [
        "who favours long answers",
        "bias",
        "contained",
        "accused",
        "named",
        "coverage",
        "without",
        "width",
        "without",
    ]
    return f"""## Long answers

The simulated panel above, 100 human labels, with lengths of the answers; each system's answers are half a standard deviation
longer than those of the one before. *Bias*: mean error of `length_bias`. *Contained*: share of its 95% intervals that contain
the value, which is 0 or comes from a panel of 24,000 answers. *Accused*: share of panels in which a statement names a judge who
favours no length; at most 5% are wished. *Named*: share of the judges who favour long answers that are named. *Coverage* and
*width* of the rates of systems with the lengths and *without* them. *Excess*: by how much the system with the longest answers is
too high beside that with the shortest. {run["times"]} repetitions.

{table([*header, "excess", "without"], rows)}

Where judges favour long answers, lengths bring the coverage of the rates from .81 to .91 (all judges) and from .88 to .94 (three
of six) with narrower intervals, and leave a half to two thirds of the excess. Where no judge does, they change little."""


def _answers(out: dict[str, Any]) -> str:
    run = out["answers"]
    rows = [
        [k, *(round(run[f"{name} {k}"], 3) for name in ("covered", "width", "bias", "uncorrected"))] for k in (1, 2, 4)
    ]
    return f"""## Several answers to a question

pass@k of two systems with four answers to each of 80 questions, three judges of accuracies .75 to .85, 100 human labels.
*Majority*: bias of the estimate by the majority of the judges. {run["times"]} repetitions.

{table(["k", "coverage", "mean width", "bias", "majority"], rows)}"""


def _drift(out: dict[str, Any]) -> str:
    rows = [
        [f"{change:g}", *(round(out[f"drift {change}"][name], 3) for name in ("named", "false_alarm"))]
        for change in CHANGES
    ]
    return f"""## Changes of judges

Three judges over 30 days, 300 items, of which people labelled 120. One judge passes more from the 15th day on, by so many log
odds. *Named*: it is said to have changed. *False alarms*: another judge is, or any without a change.
{out["drift 0.0"]["times"]} repetitions.

{table(["change, log odds", "named", "false alarms"], rows)}"""


def _elo(out: dict[str, Any]) -> str:
    run = out["elo"]
    rows = [
        [
            words,
            *(
                round(run[f"{name}_{figure}"], decimals)
                for figure, decimals in (("covered", 3), ("width", 1), ("error", 1))
            ),
        ]
        for name, words in (("pairs", "of the judged pairs"), ("further", "of further pairs"))
    ]
    return f"""## Ratings of an arena

Elo ratings of five systems from 300 pairs, four judges and 100 human labels: of the judged pairs, against Davidson's model with
all true labels, and of further pairs, against the strengths of the simulation. {run["times"]} repetitions.

{table(["ratings", "coverage", "mean width", "error"], rows)}"""
