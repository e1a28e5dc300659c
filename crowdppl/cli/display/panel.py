"""Judges and people of a panel on the terminal: quality, states, versions, drift, and what to label next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from crowdppl.cli.application import console
from crowdppl.cli.display.judge_tables import (
    between,
    change,
    number,
    show_rows,
    show_table,
)
from crowdppl.cli.display.shared import SHOWN_ITEMS, SHOWN_WORKERS, and_more, legend
from crowdppl.report import judged

if TYPE_CHECKING:
    from crowdppl.judges.result import JudgesResult


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
        cells |= {heading: number(row[name], signed) for name, heading, signed in quality}
        cells["adds"] = number(more[row["judge"]], True)
        if priced:
            cost = row["cost_per_effective_verdict"]
            cells["cost"] = "none" if pd.isna(cost) else f"{cost:.3g}"
        rows.append(cells)
    show_table(f"Judges{best} (intervals of {result.level:.0%})", rows, {"judge"}, spare=("verdicts", "kappa", "cost"))
    legend("accuracy: probability that a verdict on a further item is correct")
    for name, _, _ in quality:
        if name in LEGEND:
            legend(LEGEND[name])
    legend("adds: by how much the effective number of judges is lower without this one")
    if priced:
        legend("cost: of an effective verdict")


def show_states(states: pd.DataFrame) -> None:
    """Print how many verdicts of each judge are missing, unparseable or abstained, if any are."""
    lost = states[list(STATES)].sum(axis=1)
    order = lost[lost > 0].sort_values(ascending=False, kind="stable").index
    if not len(order):
        return
    show_rows(
        "Verdicts that were not given",
        states.loc[order],
        lambda row: (
            {"judge": str(row["judge"]), "requests": f"{row['verdicts']:,}"}
            | {name: f"{row[name]:,} ({row[name] / row['verdicts']:.1%})" if row[name] else "0" for name in STATES}
        ),
        {"judge"},
        "judges in states.csv",
    )
    legend("None of them counts as a failure of the item.")


def show_versions(versions: pd.DataFrame) -> None:
    """Print versions of judges compared on the items that both saw, if there are several."""
    if not len(versions):
        return
    show_rows(
        "Versions of a judge: share of correct verdicts on the same items",
        versions,
        lambda row: (
            {"judge": str(row["judge"]), "from": str(row["version_a"]), "to": str(row["version_b"])} | _compared(row)
        ),
        {"judge", "from", "to"},
        "rows in versions.csv",
    )
    legend("better: probability that the later version is more often correct")


def show_judge_pairs(pairs: pd.DataFrame, level: float) -> None:
    """Print the difference of the accuracies of pairs of judges, the clearest first."""
    if not len(pairs):
        return
    show_rows(
        f"Judge against judge: difference of accuracy (intervals of {level:.0%})",
        pairs,
        lambda row: {"judge": str(row["judge_a"]), "other judge": str(row["judge_b"])} | _compared(row),
        {"judge", "other judge"},
        "pairs in judge_comparisons.csv",
        spare=("items",),
    )
    legend("on the items that both judged; better: probability that the first judge is more accurate")


def _compared(row: dict[Any, Any]) -> dict[str, str]:
    """Return how two judges differ on the items of both."""
    return {
        "items": f"{row['items']:,}",
        "difference": change(row, "difference"),
        "better": f"{row['probability_better']:.0%}",
    }


def show_drift(drift: pd.DataFrame, result: JudgesResult) -> None:
    """Print whether judges have changed between versions and over time, if there are several versions or days."""
    if not len(drift):
        return
    show_rows(
        f"Changes of judges at equal true labels (intervals of {result.level:.0%})",
        drift.sort_values("p_value", kind="stable"),
        lambda row: {
            "judge": str(row["judge"]),
            "from": str(row["before"]),
            "to": str(row["after"]),
            "verdicts": f"{row['verdicts']:,}",
            "measure": judged.measure(result, row["measure"]),
            "change": change(row, "change") if row["verdicts"] else "cannot be known",
            "": "changed" if row["changed"] else "",
        },
        {"judge", "from", "to"},
        "rows in drift.csv",
        spare=("verdicts",),
        style=lambda row: "yellow" if row[""] else None,
    )
    legend(judged.drift_words(result))


def show_alternative(table: pd.DataFrame) -> None:
    """Print whether judges may take the place of a person, if three people or more share items."""
    if not len(table):
        return
    show_rows(
        "May a judge take the place of a person?",
        table,
        lambda row: {
            "judge": str(row["judge"]),
            "people": f"{row['annotators']:,}",
            "items": f"{row['items']:,.0f}",
            "winning rate": f"{row['winning_rate']:.2f}",
            "as good": f"{row['advantage']:.1%}",
            "passes": "yes" if row["passes"] else "no",
        },
        {"judge"},
        "judges in alternative_annotators.csv",
        spare=("items",),
    )
    legend(judged.ALTERNATIVE)


def show_people(people: pd.DataFrame, level: float) -> None:
    """Print the errors of people, if there are any."""
    if not len(people):
        return
    show_rows(
        f"People: probability of an incorrect label (intervals of {level:.0%})",
        people,
        lambda row: {
            "person": str(row["annotator"]),
            "labels": f"{row['labels']:,}",
            "shared": f"{row['shared_items']:,}",
            "error": f"{row['error']:.1%}"
            + ("" if row["basis"] != "learned" else " " + between(row["error_low"], row["error_high"], True)),
            "basis": row["basis"],
        },
        {"person"},
        "people in people.csv",
    )
    legend("shared: items that others labelled, too")


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
    show_table(f"Label next: {len(items):,} item{'s' if len(items) > 1 else ''}", rows, {"item", "system", "opponent"})
    and_more(items, SHOWN_ITEMS, "in next.csv")
    legend("mean width after: expected width of the intervals with this label and those above")


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
