"""All numbers and texts of the report on judges and systems, from a result alone; the terminal shows the same sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import listed
from crowdppl.judges.criteria_result import CriteriaResult
from crowdppl.judges.result import JudgesResult
from crowdppl.judges.tables import several_answers, system_table
from crowdppl.judges.tables.panel_table import Panel
from crowdppl.report.figures import short, shorts

# Items in the page, the least certain first; labelled ones after all others.
ITEMS = 20_000
# Judges up to which the correlations of all pairs are shown, and systems up to which all pairs are compared in a matrix.
MATRIX_JUDGES, MATRIX_SYSTEMS = 80, 12
# Columns of names, which may be numbers.
NAMES = (
    "item",
    "label",
    "judge",
    "judge_a",
    "judge_b",
    "annotator",
    "system",
    "opponent",
    "criterion_a",
    "criterion_b",
)
# What the alternative annotator test says.
ALTERNATIVE = (
    "the alternative annotator test of Calderon, Reichart and Dror (2025), in which a judge may be worse by .2 since it costs "
    "less; winning rate: share of the people whom the judge can replace; as good: how often it agrees with the others at least "
    "as often as the person does"
)
# What the correlations of criteria are.
CORRELATIONS = (
    "correlation of the labels by people; of verdicts: that of the mean verdicts, much higher where judges carry their "
    "impression from one criterion over to another"
)
# The page proposes a width of this share of the widest interval.
NARROWER = 0.7


def statements(result: JudgesResult) -> list[str]:
    """Return what cannot be known from the data, without notes on how they were read."""
    return list(result.statements[: len(result.statements) - len(result.notes)])


def is_share(result: JudgesResult) -> bool:
    """Return whether rates are shares of items that pass or pairs that are won, not means of grades."""
    return result.paired or bool(np.isin(result.value, (0.0, 1.0)).all())


def rate_name(result: JudgesResult) -> str:
    """Return what the rate of a system is."""
    if result.paired:
        return "probability of a better answer than another system's, ties half"
    if not is_share(result):
        return "mean grade"
    return f"share of {listed([str(k) for k in result.verdicts.labels[result.value == 1].tolist()])}"


def sample(result: JudgesResult) -> str:
    """Return how many items people labelled, and how these were chosen."""
    labelled, total = int(result.labelled.sum()), len(result.labelled)
    if not labelled:
        return f"None of the {total:,} items has a human label."
    known = result.human is not None and bool(np.isfinite(result.human.probability).any())
    how = "weighted by the probability of being chosen" if known else "taken as a random sample"
    return f"{labelled:,} of {total:,} items have human labels, {how}."


def families(panel: Panel) -> str:
    """Return how correlated errors are within families of judges and between them; empty if there is nothing to compare."""
    table = panel.families
    within = table["family_a"] == table["family_b"]
    if within.all() or not within.any():
        return ""
    mean = [float(np.average(t["correlation"], weights=t["pairs"])) for t in (table[within], table[~within])]
    return f"Mean correlation of errors within families {mean[0]:.2f}, between families {mean[1]:.2f}."


def needed(table: pd.DataFrame, width: float) -> str:
    """Return how many labels bring the widest interval of a system to a width, in a sentence.

    Args:
        table: of :meth:`JudgesResult.labels_needed`.
        width: the width.
    """
    rows = table.set_index("how")
    count = rows["labels"]
    if count.isna().all():
        least = float(rows["width"].min())
        return f"Labels of all items leave an interval of width {least:.3g}; {width:.3g} cannot be reached."
    if (count == 0).all():
        return f"Every interval is at most {width:.3g} wide already."
    chosen, random = (f"{int(n):,}" if pd.notna(n) else "all" for n in (count["chosen"], count["random"]))
    return (
        f"Intervals at most {width:.3g} wide for every system take about {chosen} more labels of items chosen for it, or "
        f"{random} of items drawn at random."
    )


def content(
    result: JudgesResult,
    run: Mapping[str, Any] | None = None,
    *,
    title: str | None = None,
    items: pd.DataFrame | None = None,
    needed_labels: pd.DataFrame | None = None,
    width: float | None = None,
    pass_at: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Return the content of the report, as plain lists and numbers; arguments as of :func:`crowdppl.report.write_judges`."""
    v = result.verdicts
    run = {} if run is None else run
    source = run.get("input", {})
    systems, panel = result.systems(), result.panel()
    if width is None:
        width = float(f"{NARROWER * float((systems['corrected_high'] - systems['corrected_low']).max()):.2g}")
    if needed_labels is None and width > 0:
        needed_labels = result.labels_needed(width)
    items = result.next(20) if items is None else items
    if pass_at is None:
        pass_at = result.pass_at() if several_answers.several(result) else pd.DataFrame({"system": []})
    return {
        "title": title or str(source.get("file") or "Language models as judges"),
        "level": result.level,
        "share": is_share(result),
        "range": [float(result.value.min()), float(result.value.max())],
        "rate": rate_name(result),
        "classes": [str(k) for k in v.labels.tolist()],
        "counts": {
            "verdicts": len(v),
            "judges": len(v.judges),
            "items": len(v.items),
            "systems": len(v.systems),
            "labelled": int(result.labelled.sum()),
        },
        "sample": sample(result),
        "statements": statements(result),
        "notes": list(result.notes),
        "systems": _columns(systems),
        "better": _better(result, systems),
        "judges": _columns(result.judges()),
        "versions": _columns(result.versions()),
        "drift": _columns(_drift(result)),
        "drift_words": drift_words(result),
        "judge_pairs": _columns(_judge_pairs(result)),
        "people": _columns(people(result)),
        "alternative": _columns(result.alternative_annotators()),
        "alternative_words": ALTERNATIVE,
        "pass_at": _columns(pass_at),
        "population": _columns(result.systems("population") if system_table.further(result) else systems.head(0)),
        "population_words": further_words(result),
        "panel": {
            "effective": [short(value) for value in panel.effective],
            "statement": panel.statement,
            "families_sentence": families(panel),
            "families": _columns(panel.families),
            "adds": _columns(panel.adds.sort_values("adds", ascending=False, kind="stable")),
            "judges": _judge_correlations(result, panel),
        },
        "states": _states(result),
        "next": _columns(items),
        "needed": None if needed_labels is None else needed(needed_labels, width),
        "items": _columns(_listed_items(result)),
        "reproduce": {
            "input": source,
            "command": list(run.get("command", [])),
            "seed": run.get("seed"),
            "seconds": short(run["seconds"]) if "seconds" in run else None,
            "draws": len(result.truth),
            "version": version("crowdppl"),
        },
    }


def criteria_content(result: CriteriaResult, run: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Return the content of the report on several criteria: that of each, and the names.

    Options are those of :func:`content`; tables have the rows of all criteria.
    """

    def own(value: Any, name: Any) -> Any:
        return result.of(value, name) if isinstance(value, pd.DataFrame) else value

    parts = [
        content(one, run, **{option: own(value, name) for option, value in options.items()})
        for name, one in result.items()
    ]
    return {
        "title": parts[0]["title"],
        "criteria": [str(name) for name in result],
        "parts": parts,
        "correlations": _columns(known_correlations(result)),
        "correlations_words": CORRELATIONS,
    }


def known_correlations(result: CriteriaResult) -> pd.DataFrame:
    """Return the correlations of criteria, the strongest first; those that are not known are left out."""
    table = result.correlations()
    table = table[table[["correlation", "of_verdicts"]].notna().any(axis=1)]
    return table.sort_values("correlation", key=abs, ascending=False, kind="stable", ignore_index=True)


def further_words(result: JudgesResult) -> str:
    """Return as what further questions vary."""
    if system_table.clustered(result):
        return f"as the {len(result.verdicts.clusters):,} clusters of these questions vary"
    return "as these questions vary; the rates above are those of the judged pairs, which people know"


def measure(result: JudgesResult, name: str) -> str:
    """Return a measure of :func:`crowdppl.judges.tables.drift.drift` in words."""
    if name in ("accuracy", "score"):
        return {"accuracy": "correct", "score": "mean score"}[name]
    return "first better" if result.paired else "passing" if is_share(result) else "mean grade"


def drift_words(result: JudgesResult) -> str:
    """Return what the table of changes compares, in a sentence."""
    return (
        f"verdicts on the same items, or on items of one system with the same human label; if no judge had changed, at most "
        f"{1 - result.level:.0%} of such tables would say that one has"
    )


def people(result: JudgesResult) -> pd.DataFrame:
    """Return the errors of people, if any is learned or stated; else no rows."""
    table = result.people()
    return table if (table["basis"] != "shared").any() else table.head(0)


def _drift(result: JudgesResult) -> pd.DataFrame:
    """Return the table of changes with the names of measures in words."""
    table = result.drift()
    return table.assign(measure=[measure(result, name) for name in table["measure"]])


def _judge_pairs(result: JudgesResult) -> pd.DataFrame:
    """Return the comparisons of pairs of judges, of few enough to be read."""
    few = len(result.verdicts.judges) <= MATRIX_JUDGES
    return result.judge_comparisons() if few else pd.DataFrame({"judge_a": []})


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return a table as columns of plain values: numbers of four decimals, ``None`` where missing, names as text."""
    out: dict[str, list[Any]] = {}
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_bool_dtype(column.dtype):
            out[str(name)] = column.tolist()
        elif pd.api.types.is_numeric_dtype(column.dtype) and name not in NAMES:
            whole = pd.api.types.is_integer_dtype(column.dtype)
            out[str(name)] = (
                [
                    None if x is None or (isinstance(x, float) and math.isnan(x)) else int(x)
                    for x in column.astype(object)
                ]
                if whole
                else shorts(column)
            )
        else:
            out[str(name)] = [None if pd.isna(x) else str(x) for x in column.astype(object).tolist()]
    return out


def _better(result: JudgesResult, systems: pd.DataFrame) -> list[list[float | None]]:
    """Return the probability that each system is better than each other, in the order of the table of systems."""
    names = systems["system"].tolist()
    if not 1 < len(names) <= MATRIX_SYSTEMS:
        return []
    place = {name: n for n, name in enumerate(names)}
    out: list[list[float | None]] = [[None] * len(names) for _ in names]
    for row in result.comparisons().to_dict("records"):
        a, b, p = place[row["system_a"]], place[row["system_b"]], float(row["probability_better"])
        out[a][b], out[b][a] = short(p), short(1 - p)
    return out


def _judge_correlations(result: JudgesResult, panel: Panel) -> dict[str, Any]:
    """Return the correlation of errors of each pair of judges, those of a family side by side; empty for many judges."""
    if not 1 < panel.judges <= MATRIX_JUDGES:
        return {"names": [], "families": [], "correlation": []}
    v = result.verdicts
    order = np.argsort(v.family, kind="stable")
    cells = panel.correlation.to_numpy()[np.ix_(order, order)]
    return {
        "names": [str(name) for name in v.judges[order].tolist()],
        "families": [str(name) for name in v.families[v.family[order]].tolist()],
        "correlation": [shorts(row) for row in cells],
    }


def _states(result: JudgesResult) -> dict[str, list[Any]]:
    """Return the states of the verdicts of each judge, if any verdict was not given; else an empty table."""
    table = result.verdicts.states()
    lost = table[["missing", "unparseable", "abstained"]].sum(axis=1) > 0
    return _columns(table) if lost.any() else {}


def _listed_items(result: JudgesResult) -> pd.DataFrame:
    """Return items with their most probable label, those without human label first, the least certain of these first."""
    table = result.items()
    names = [name for name in ("item", "system", "opponent", "label", "probability", "labelled") if name in table]
    return table.sort_values(["labelled", "probability"], kind="stable")[names].head(ITEMS)
