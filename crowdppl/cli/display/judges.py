"""Systems and criteria on the terminal, as judges and human labels give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console, in_command
from crowdppl.cli.display.judge_tables import (
    BAR,
    NAME,
    between,
    number,
    ranks,
    rate,
    show_table,
)
from crowdppl.cli.display.panel import (
    show_alternative,
    show_drift,
    show_judge_pairs,
    show_judges,
    show_next,
    show_people,
    show_states,
    show_versions,
    smaller,
)
from crowdppl.cli.display.shared import SHOWN_WORKERS, and_more, interval_bar, legend
from crowdppl.report import judged

if TYPE_CHECKING:
    from crowdppl.judges.criteria_result import CriteriaResult
    from crowdppl.judges.result import JudgesResult


def show(result: JudgesResult, more: Mapping[str, pd.DataFrame], width: float | None) -> dict[str, pd.DataFrame]:
    """Print a result: what cannot be known, systems, judges, the panel, states of verdicts, and what to label next.

    Args:
        result: of :func:`crowdppl.judges.fit`.
        more: tables by name of their file: ``next.csv``; ``labels_needed.csv`` and ``smaller_panels.csv`` if a width is wished;
            ``systems_population.csv`` with clusters; ``pass_at_k.csv`` with several answers to a question.
        width: the wished width of intervals.

    Returns:
        The tables that were computed for it, by the name of their file.
    """
    systems, judges, panel, versions = result.systems(), result.judges(), result.panel(), result.versions()
    people, drift, replace = judged.people(result), result.drift(), result.alternative_annotators()
    show_statements(result)
    show_systems(result, systems)
    if "systems_population.csv" in more:
        show_population(result, more["systems_population.csv"])
    if "pass_at_k.csv" in more:
        show_pass_at(result, more["pass_at_k.csv"])
    show_judges(result, judges, panel.adds)
    console.print(f"[bold]{escape(panel.statement)}[/bold]")
    if between := judged.families(panel):
        console.print(escape(between))
    show_states(result.verdicts.states())
    pairs = result.judge_comparisons()
    show_judge_pairs(pairs, result.level)
    show_versions(versions)
    show_drift(drift, result)
    show_people(people, result.level)
    show_alternative(replace)
    show_next(more["next.csv"])
    if width is not None:
        console.print(escape(judged.needed(more["labels_needed.csv"], width)))
        if len(result.verdicts.judges) > 1:
            console.print(escape(smaller(more["smaller_panels.csv"], width)))
    return {
        "systems.csv": systems,
        "judges.csv": judges,
        "versions.csv": versions,
        "judge_comparisons.csv": pairs,
        "drift.csv": drift,
        "alternative_annotators.csv": replace,
        "panel_families.csv": panel.families,
        "panel_adds.csv": panel.adds,
    }


def show_criteria(result: CriteriaResult) -> None:
    """Print the corrected rate of each system on every criterion."""
    cells: dict[str, dict[str, str]] = {}
    for name, one in result.items():
        share = judged.is_share(one)
        for row in one.systems().head(SHOWN_WORKERS).to_dict("records"):
            interval = between(float(row["corrected_low"]), float(row["corrected_high"]), share)
            own = cells.setdefault(str(row["system"]), {"system": str(row["system"])})
            own[str(name)] = f"{rate(row['corrected'], share)} {interval}"
    criteria = [str(name) for name in result]
    widest = max(len(text) for own in cells.values() for text in (*own, *list(own.values())[1:]))
    # As many criteria side by side as leave room for the names of systems.
    beside = max((console.width - NAME - 4) // (widest + 3), 1)
    for first in range(0, len(criteria), beside):
        shown = criteria[first : first + beside]
        rows = [{"system": own["system"]} | {name: own.get(name, "none") for name in shown} for own in cells.values()]
        title = "All criteria: corrected rate of each system" if first == 0 else ""
        show_table(title, rows, {"system"})
    for name, one in result.items():
        legend(f"{name}: {judged.rate_name(one)}")
    show_correlations(result)


def show_correlations(result: CriteriaResult) -> None:
    """Print the correlation of criteria across items."""
    table = judged.known_correlations(result)
    if not len(table):
        return
    rows = [
        {
            "criterion": str(row["criterion_a"]),
            "other criterion": str(row["criterion_b"]),
            "labelled": f"{row['labelled']:,}",
            "correlation": "none"
            if pd.isna(row["correlation"])
            else f"{row['correlation']:+.2f} ({row['correlation_low']:+.2f} to {row['correlation_high']:+.2f})",
            "of verdicts": number(row["of_verdicts"], True),
        }
        for row in table.head(SHOWN_WORKERS).to_dict("records")
    ]
    title = "Correlation of criteria across items"
    show_table(title, rows, {"criterion", "other criterion"}, spare=("labelled",))
    and_more(table, SHOWN_WORKERS, "pairs in criteria_correlations.csv")
    legend(judged.CORRELATIONS)


def show_statements(result: JudgesResult) -> None:
    """Print what cannot be known from the data, and how many items people labelled."""
    console.print(f"\n{escape(judged.sample(result))}")
    for sentence in judged.statements(result):
        console.print(f"[yellow]![/yellow] [bold]{escape(in_command(sentence))}[/bold]")


def show_systems(result: JudgesResult, systems: pd.DataFrame) -> None:
    """Print the uncorrected and the corrected rate of each system side by side."""
    share, several = judged.is_share(result), len(systems) > 1
    least, most = float(result.value.min()), float(result.value.max())
    scale = f"{least:g}".ljust(BAR - len(f"{most:g}")) + f"{most:g}"
    transported = bool(systems["transported"].any() and result.labelled.any())
    rows: list[dict[str, str]] = []
    for row in systems.head(SHOWN_WORKERS).to_dict("records"):
        ends = [float(row[f"corrected{end}"]) for end in ("_low", "_high")]
        mean, low, high, ring = ((x - least) / (most - least) for x in (row["corrected"], *ends, row["uncorrected"]))
        mark = "~" if transported and row["transported"] else " " if transported else ""
        rows.append(
            ({"rank": ranks(row["rank_low"], row["rank_high"])} if several else {})
            | {
                "system": str(row["system"]),
                "labelled": f"{row['labelled']:,}/{row['items']:,}",
                "uncorrected": rate(row["uncorrected"], share),
                "corrected": f"{rate(row['corrected'], share)} {between(ends[0], ends[1], share)}{mark}",
            }
            | _elo(row)
            | {
                scale: interval_bar(mean, low, high, ring, BAR),
            }
        )
    what = "Systems" if several else "All items"
    title = f"{what}: {judged.rate_name(result)} (intervals of {result.level:.0%})"
    show_table(
        title, rows, {"system"}, ["yellow" if "~" in row["corrected"] else None for row in rows], (scale, "labelled")
    )
    and_more(systems, SHOWN_WORKERS, "systems in systems.csv")
    legend("labelled: items with human labels; ○ uncorrected, ● corrected")
    if transported:
        legend("~ transported: no item has a human label; judges are taken to treat it as they treat other systems")


def show_population(result: JudgesResult, systems: pd.DataFrame) -> None:
    """Print the rate of each system on further questions, with intervals that contain how much clusters differ."""
    share = judged.is_share(result)
    rows = [
        {
            "rank": ranks(row["rank_low"], row["rank_high"]),
            "system": str(row["system"]),
            "corrected": f"{rate(row['corrected'], share)} {between(row['corrected_low'], row['corrected_high'], share)}",
        }
        | _elo(row)
        for row in systems.head(SHOWN_WORKERS).to_dict("records")
    ]
    show_table(f"Further questions: {judged.rate_name(result)} (intervals of {result.level:.0%})", rows, {"system"})
    legend(f"{judged.further_words(result)}; see comparisons_population.csv")


def show_pass_at(result: JudgesResult, table: pd.DataFrame) -> None:
    """Print whether one of several answers to a question passes."""
    share = judged.is_share(result)

    def cell(row: dict[Any, Any], name: str) -> str:
        return f"{rate(row[name], share)} {between(row[f'{name}_low'], row[f'{name}_high'], share)}"

    rows = [
        {"system": str(row["system"]), "k": f"{row['k']}", "questions": f"{row['questions']:,}"}
        | {heading: cell(row, name) for heading, name in (("one passes", "pass_at_k"), ("all pass", "all_pass"))}
        | {"picked": cell(row, "picked")}
        for row in table.head(SHOWN_WORKERS).to_dict("records")
    ]
    show_table(
        f"Several answers to a question (intervals of {result.level:.0%})", rows, {"system"}, spare=("questions",)
    )
    and_more(table, SHOWN_WORKERS, "rows in pass_at_k.csv")
    legend("one passes: pass@k; picked: rate of the answer of k with the best verdicts")


def _elo(row: dict[Any, Any]) -> dict[str, str]:
    return {"Elo": f"{row['elo']:.0f} ({row['elo_low']:.0f}–{row['elo_high']:.0f})"} if "elo" in row else {}
