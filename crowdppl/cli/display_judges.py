"""Judges, systems and panels on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.markup import escape

from crowdppl.cli.application import console, in_command
from crowdppl.cli.display import SHOWN_ITEMS, SHOWN_WORKERS, grid
from crowdppl.report import judged

if TYPE_CHECKING:
    from crowdppl.judges.criteria_result import CriteriaResult
    from crowdppl.judges.result import JudgesResult

BAR = 12  # characters
# Characters of a name that are shown at least, if other columns can be left out for it.
NAME = 16
# Columns of judges beside accuracy: name in the table, heading, and whether it is a difference, which has a sign.
QUALITY = (
    ("sensitivity", "sens.", False),
    ("specificity", "spec.", False),
    ("kappa", "kappa", False),
    ("position_bias", "position", True),
    ("self_preference", "self", True),
    ("length_bias", "length", True),
)
LEGEND = {
    "sensitivity": "sens., spec.: probability of passing an item that should pass, and of failing one that should fail",
    "kappa": "kappa: agreement with the true label beyond chance",
    "position_bias": "position: accuracy where the correct answer is shown first, minus where it is second",
    "self_preference": "self: how much more often the own family's systems pass, given the true label",
    "length_bias": "length: how much more often long answers pass (upper quartile) than short ones (lower), given the true label",
}
STATES = ("missing", "unparseable", "abstained")


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
            interval = _between(float(row["corrected_low"]), float(row["corrected_high"]), share)
            own = cells.setdefault(str(row["system"]), {"system": str(row["system"])})
            own[str(name)] = f"{_rate(row['corrected'], share)} {interval}"
    criteria = [str(name) for name in result]
    widest = max(len(text) for own in cells.values() for text in (*own, *list(own.values())[1:]))
    # As many criteria side by side as leave room for the names of systems.
    beside = max((console.width - NAME - 4) // (widest + 3), 1)
    for first in range(0, len(criteria), beside):
        shown = criteria[first : first + beside]
        rows = [{"system": own["system"]} | {name: own.get(name, "none") for name in shown} for own in cells.values()]
        title = "All criteria: corrected rate of each system" if first == 0 else ""
        _print(title, rows, {"system"})
    for name, one in result.items():
        _legend(f"{name}: {judged.rate_name(one)}")
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
            "of verdicts": _number(row["of_verdicts"], True),
        }
        for row in table.head(SHOWN_WORKERS).to_dict("records")
    ]
    title = "Correlation of criteria across items"
    _print(title, rows, {"criterion", "other criterion"}, spare=("labelled",))
    _and_more(table, "pairs", "criteria_correlations.csv")
    _legend(judged.CORRELATIONS)


def panels_in_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return smaller panels with the names of the judges as text."""
    return table.assign(panel=[", ".join(map(str, names)) for names in table["panel"]])


def smaller(table: pd.DataFrame, width: float) -> str:
    """Return which smaller panel has intervals of a width, in a sentence."""
    best = table[table["cheapest"]]
    if not len(best):
        return f"No panel of these judges has intervals of at most {width:.3g} with these human labels."
    row = best.iloc[0]
    if row["judges"] == len(table):
        return f"Of the panels tried, only that of all judges has intervals of at most {width:.3g}."
    whole = table["cost"].iloc[0]
    share = f", {row['cost'] / whole:.0%} of the cost" if whole > 0 else ""
    return (
        f"Of the panels tried, the cheapest with intervals of at most {width:.3g}: {row['judges']} of {len(table)} judges{share} "
        f"({row['panel']})."
    )


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
        places = ((x - least) / (most - least) for x in (row["uncorrected"], row["corrected"], *ends))
        mark = "~" if transported and row["transported"] else " " if transported else ""
        rows.append(
            ({"rank": _ranks(row["rank_low"], row["rank_high"])} if several else {})
            | {
                "system": str(row["system"]),
                "labelled": f"{row['labelled']:,}/{row['items']:,}",
                "uncorrected": _rate(row["uncorrected"], share),
                "corrected": f"{_rate(row['corrected'], share)} {_between(ends[0], ends[1], share)}{mark}",
            }
            | _elo(row)
            | {
                scale: bar(*places),
            }
        )
    what = "Systems" if several else "All items"
    title = f"{what}: {judged.rate_name(result)} (intervals of {result.level:.0%})"
    _print(
        title, rows, {"system"}, ["yellow" if "~" in row["corrected"] else None for row in rows], (scale, "labelled")
    )
    _and_more(systems, "systems", "systems.csv")
    _legend("labelled: items with human labels; ○ uncorrected, ● corrected")
    if transported:
        _legend("~ transported: no item has a human label; judges are taken to treat it as they treat other systems")


def show_population(result: JudgesResult, systems: pd.DataFrame) -> None:
    """Print the rate of each system on further questions, with intervals that contain how much clusters differ."""
    share = judged.is_share(result)
    rows = [
        {
            "rank": _ranks(row["rank_low"], row["rank_high"]),
            "system": str(row["system"]),
            "corrected": f"{_rate(row['corrected'], share)} {_between(row['corrected_low'], row['corrected_high'], share)}",
        }
        | _elo(row)
        for row in systems.head(SHOWN_WORKERS).to_dict("records")
    ]
    _print(f"Further questions: {judged.rate_name(result)} (intervals of {result.level:.0%})", rows, {"system"})
    _legend(f"{judged.further_words(result)}; see comparisons_population.csv")


def show_pass_at(result: JudgesResult, table: pd.DataFrame) -> None:
    """Print whether one of several answers to a question passes."""
    share = judged.is_share(result)

    def cell(row: dict[Any, Any], name: str) -> str:
        return f"{_rate(row[name], share)} {_between(row[f'{name}_low'], row[f'{name}_high'], share)}"

    rows = [
        {"system": str(row["system"]), "k": f"{row['k']}", "questions": f"{row['questions']:,}"}
        | {heading: cell(row, name) for heading, name in (("one passes", "pass_at_k"), ("all pass", "all_pass"))}
        | {"picked": cell(row, "picked")}
        for row in table.head(SHOWN_WORKERS).to_dict("records")
    ]
    _print(f"Several answers to a question (intervals of {result.level:.0%})", rows, {"system"}, spare=("questions",))
    _and_more(table, "rows", "pass_at_k.csv")
    _legend("one passes: pass@k; picked: rate of the answer of k with the best verdicts")


def show_judges(result: JudgesResult, judges: pd.DataFrame, adds: pd.DataFrame) -> None:
    """Print the quality of judges, the most accurate first."""
    shown = judges.head(SHOWN_WORKERS)
    best = f", the {len(shown)} most accurate of {len(judges):,}" if len(shown) < len(judges) else ""
    quality = [one for one in QUALITY if one[0] in judges and judges[one[0]].notna().any()]
    priced = "cost_per_effective_verdict" in judges
    more = adds.set_index("judge")["adds"]
    rows: list[dict[str, str]] = []
    for row in shown.to_dict("records"):
        low, high = float(row["accuracy_low"]), float(row["accuracy_high"])
        cells = {"judge": str(row["judge"]), "verdicts": f"{row['verdicts']:,}"}
        cells["accuracy"] = f"{row['accuracy']:.1%} ({100 * low:.0f}–{100 * high:.0f})"
        cells |= {heading: _number(row[name], signed) for name, heading, signed in quality}
        cells["adds"] = _number(more[row["judge"]], True)
        if priced:
            cost = row["cost_per_effective_verdict"]
            cells["cost"] = "none" if pd.isna(cost) else f"{cost:.3g}"
        rows.append(cells)
    _print(f"Judges{best} (intervals of {result.level:.0%})", rows, {"judge"}, spare=("verdicts", "kappa", "cost"))
    _legend("accuracy: probability that a verdict on a further item is correct")
    for name, _, _ in quality:
        if name in LEGEND:
            _legend(LEGEND[name])
    _legend("adds: by how much the effective number of judges is lower without this one")
    if priced:
        _legend("cost: of an effective verdict")


def show_states(states: pd.DataFrame) -> None:
    """Print how many verdicts of each judge are missing, unparseable or abstained, if any are."""
    lost = states[list(STATES)].sum(axis=1)
    order = lost[lost > 0].sort_values(ascending=False, kind="stable").index
    if not len(order):
        return
    rows = [
        {"judge": str(row["judge"]), "requests": f"{row['verdicts']:,}"}
        | {name: f"{row[name]:,} ({row[name] / row['verdicts']:.1%})" if row[name] else "0" for name in STATES}
        for row in states.loc[order].head(SHOWN_WORKERS).to_dict("records")
    ]
    _print("Verdicts that were not given", rows, {"judge"})
    _and_more(order, "judges", "states.csv")
    _legend("None of them counts as a failure of the item.")


def show_versions(versions: pd.DataFrame) -> None:
    """Print versions of judges compared on the items that both saw, if there are several."""
    if not len(versions):
        return
    rows = [
        {
            "judge": str(row["judge"]),
            "from": str(row["version_a"]),
            "to": str(row["version_b"]),
            "items": f"{row['items']:,}",
            "difference": _change(row, "difference"),
            "better": f"{row['probability_better']:.0%}",
        }
        for row in versions.head(SHOWN_WORKERS).to_dict("records")
    ]
    _print("Versions of a judge: share of correct verdicts on the same items", rows, {"judge", "from", "to"})
    _and_more(versions, "rows", "versions.csv")
    _legend("better: probability that the later version is more often correct")


def show_judge_pairs(pairs: pd.DataFrame, level: float) -> None:
    """Print the difference of the accuracies of pairs of judges, the clearest first."""
    if not len(pairs):
        return
    rows = [
        {
            "judge": str(row["judge_a"]),
            "other judge": str(row["judge_b"]),
            "items": f"{row['items']:,}",
            "difference": _change(row, "difference"),
            "better": f"{row['probability_better']:.0%}",
        }
        for row in pairs.head(SHOWN_WORKERS).to_dict("records")
    ]
    title = f"Judge against judge: difference of accuracy (intervals of {level:.0%})"
    _print(title, rows, {"judge", "other judge"}, spare=("items",))
    _and_more(pairs, "pairs", "judge_comparisons.csv")
    _legend("on the items that both judged; better: probability that the first judge is more accurate")


def show_drift(drift: pd.DataFrame, result: JudgesResult) -> None:
    """Print whether judges have changed between versions and over time, if there are several versions or days."""
    if not len(drift):
        return
    shown = drift.sort_values("p_value", kind="stable").head(SHOWN_WORKERS)
    rows = [
        {
            "judge": str(row["judge"]),
            "from": str(row["before"]),
            "to": str(row["after"]),
            "verdicts": f"{row['verdicts']:,}",
            "measure": judged.measure(result, row["measure"]),
            "change": _change(row, "change") if row["verdicts"] else "cannot be known",
            "": "changed" if row["changed"] else "",
        }
        for row in shown.to_dict("records")
    ]
    styles = ["yellow" if row[""] else None for row in rows]
    title = f"Changes of judges at equal true labels (intervals of {result.level:.0%})"
    _print(title, rows, {"judge", "from", "to"}, styles, spare=("verdicts",))
    _and_more(drift, "rows", "drift.csv")
    _legend(judged.drift_words(result))


def show_alternative(table: pd.DataFrame) -> None:
    """Print whether judges may take the place of a person, if three people or more share items."""
    if not len(table):
        return
    rows = [
        {
            "judge": str(row["judge"]),
            "people": f"{row['annotators']:,}",
            "items": f"{row['items']:,.0f}",
            "winning rate": f"{row['winning_rate']:.2f}",
            "as good": f"{row['advantage']:.1%}",
            "passes": "yes" if row["passes"] else "no",
        }
        for row in table.head(SHOWN_WORKERS).to_dict("records")
    ]
    _print("May a judge take the place of a person?", rows, {"judge"}, spare=("items",))
    _and_more(table, "judges", "alternative_annotators.csv")
    _legend(judged.ALTERNATIVE)


def show_people(people: pd.DataFrame, level: float) -> None:
    """Print the errors of people, if there are any."""
    if not len(people):
        return
    rows = [
        {
            "person": str(row["annotator"]),
            "labels": f"{row['labels']:,}",
            "shared": f"{row['shared_items']:,}",
            "error": f"{row['error']:.1%}"
            + ("" if row["basis"] != "learned" else " " + _between(row["error_low"], row["error_high"], True)),
            "basis": row["basis"],
        }
        for row in people.head(SHOWN_WORKERS).to_dict("records")
    ]
    _print(f"People: probability of an incorrect label (intervals of {level:.0%})", rows, {"person"})
    _and_more(people, "people", "people.csv")
    _legend("shared: items that others labelled, too")


def show_next(items: pd.DataFrame) -> None:
    """Print which items people should label next."""
    if not len(items):
        console.print("\nEvery item has a human label.")
        return
    rows = [
        {name: str(row[name]) for name in ("item", "system", "opponent") if name in row}
        | {
            "probable label": f"{row['label']} {row['probability']:.0%}",
            "mean width after": f"{row['width_after']:.3f}",
        }
        for row in items.head(SHOWN_ITEMS).to_dict("records")
    ]
    _print(f"Label next: {len(items):,} item{'s' if len(items) > 1 else ''}", rows, {"item", "system", "opponent"})
    if len(items) > SHOWN_ITEMS:
        console.print(f"... and {len(items) - SHOWN_ITEMS:,} more in next.csv", style="dim")
    _legend("mean width after: expected width of the intervals with this label and those above")


def _print(
    title: str,
    rows: list[dict[str, str]],
    names: set[str],
    styles: list[str | None] | None = None,
    spare: tuple[str, ...] = (),
) -> None:
    """Print a table. Where the terminal is narrow, names are shortened and some columns are left out, but numbers are complete.

    Args:
        title: above it.
        rows: cells by heading.
        names: headings of the columns of names.
        styles: of the rows.
        spare: columns that are left out where names would be shortened to less than ``NAME`` characters, in order.
    """
    widths = {heading: max(len(heading), *(len(row[heading]) for row in rows)) for heading in rows[0]}
    kept, left = list(widths), list(spare)
    while True:
        # A character of the box and a blank at either side, and three between columns.
        room = console.width - 3 * len(kept) - 1 - sum(widths[heading] for heading in kept if heading not in names)
        each = room // sum(heading in names for heading in kept)
        if each >= min(NAME, max(widths[heading] for heading in kept if heading in names)) or not left:
            break
        dropped = left.pop(0)
        kept = [heading for heading in kept if heading != dropped]
    table = grid(f"\n{escape(title)}")
    for heading in kept:
        if heading in names:
            table.add_column(heading, overflow="ellipsis", no_wrap=True, max_width=max(each, 1))
        else:
            table.add_column(heading, justify="right", no_wrap=True, min_width=widths[heading])
    for row, style in zip(rows, styles or [None] * len(rows), strict=True):
        table.add_row(*(escape(row[heading]) for heading in kept), style=style)
    console.print(table)


def bar(uncorrected: float, corrected: float, low: float, high: float, width: int = BAR) -> str:
    """Draw an interval, its mean and the uncorrected rate on the scale from 0 to 1, as text."""

    def cell(x: float) -> int:
        return max(0, min(width - 1, int(x * width)))

    line = ["·"] * width
    line[cell(low) : cell(high) + 1] = ["─"] * (cell(high) - cell(low) + 1)
    if pd.notna(uncorrected):
        line[cell(uncorrected)] = "○"
    line[cell(corrected)] = "●"
    return "".join(line)


def _rate(value: float, share: bool) -> str:
    return "none" if pd.isna(value) else f"{value:.1%}" if share else f"{value:.2f}"


def _and_more(all_rows: Sized, what: str, file: str) -> None:
    """Say how many rows a table has beyond those that are shown, and where they are."""
    if len(all_rows) > SHOWN_WORKERS:
        console.print(f"... and {len(all_rows) - SHOWN_WORKERS:,} more {what} in {file}", style="dim")


def _change(row: dict[Any, Any], name: str) -> str:
    return f"{row[name]:+.3f} ({row[f'{name}_low']:+.3f} to {row[f'{name}_high']:+.3f})"


def _elo(row: dict[Any, Any]) -> dict[str, str]:
    return {"Elo": f"{row['elo']:.0f} ({row['elo_low']:.0f}–{row['elo_high']:.0f})"} if "elo" in row else {}


def _between(low: float, high: float, share: bool) -> str:
    return f"({100 * low:.1f}–{100 * high:.1f})" if share else f"({low:.2f}–{high:.2f})"


def _ranks(low: float, high: float) -> str:
    return f"{low:.0f}" if low == high else f"{low:.0f}–{high:.0f}"


def _number(value: Any, signed: bool) -> str:
    return "none" if pd.isna(value) else f"{value:+.2f}" if signed else f"{value:.2f}"


def _legend(sentence: str) -> None:
    console.print(sentence, style="dim")
