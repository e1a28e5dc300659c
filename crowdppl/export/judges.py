"""Tables of judges and systems, in a folder that is replaced as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl import export
from crowdppl.export.folders import replaced
from crowdppl.export.results import write_run
from crowdppl.judges.coding.states import State
from crowdppl.judges.criteria_result import CriteriaResult
from crowdppl.judges.result import JudgesResult
from crowdppl.judges.tables import several_answers, system_table

# Files of tables; those without rows are not written, nor states if every verdict was given.
TABLES = (
    "judges.csv",
    "systems.csv",
    "comparisons.csv",
    "judge_comparisons.csv",
    "items.csv",
    "states.csv",
    "panel_families.csv",
    "panel_adds.csv",
    "next.csv",
    "labels_needed.csv",
    "smaller_panels.csv",
    "versions.csv",
    "drift.csv",
    "people.csv",
    "alternative_annotators.csv",
    "pass_at_k.csv",
    "systems_population.csv",
    "comparisons_population.csv",
)
# Those of several criteria.
OF_CRITERIA = ("rates_by_criterion.csv", "criteria_correlations.csv")
FILES = (*TABLES, *OF_CRITERIA, "report.html", "run.json")


def tables(result: JudgesResult, more: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables of a result by the name of their file.

    Args:
        result: of :func:`crowdppl.judges.fit`.
        more: tables that are already computed, and those that need a number: ``next.csv``, ``labels_needed.csv`` and
            ``smaller_panels.csv``.
    """
    panel = result.panel() if {"panel_families.csv", "panel_adds.csv"} - set(more) else None
    compute: dict[str, Callable[[], pd.DataFrame]] = {
        "judges.csv": result.judges,
        "systems.csv": result.systems,
        "comparisons.csv": result.comparisons,
        "judge_comparisons.csv": result.judge_comparisons,
        "items.csv": result.items,
        "states.csv": result.verdicts.states,
        "versions.csv": result.versions,
        "drift.csv": result.drift,
        "alternative_annotators.csv": result.alternative_annotators,
        "people.csv": result.people,
    }
    if several_answers.several(result):
        compute["pass_at_k.csv"] = result.pass_at
    if system_table.further(result):
        compute |= {
            "systems_population.csv": partial(result.systems, "population"),
            "comparisons_population.csv": partial(result.comparisons, "population"),
        }
    out = {name: more[name] if name in more else make() for name, make in compute.items()} | dict(more)
    if panel is not None:
        out |= {"panel_families.csv": panel.families, "panel_adds.csv": panel.adds}
    if (result.verdicts.state == State.GIVEN).all():
        del out["states.csv"]
    return {name: out[name] for name in TABLES if name in out and len(out[name])}


def together(result: CriteriaResult, tables: Mapping[Any, Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Return the tables of several criteria by the name of their file, one below the other with a first column ``criterion``.

    Besides, there are two of all criteria: the rates of systems side by side, and the correlations of criteria.

    Args:
        result: of :func:`crowdppl.judges.fit_criteria`.
        tables: of each criterion, by its name.
    """
    out = {}
    for name in TABLES:
        parts = {criterion: own[name] for criterion, own in tables.items() if name in own}
        if parts:
            out[name] = pd.concat(
                [part.assign(criterion=criterion)[["criterion", *part.columns]] for criterion, part in parts.items()],
                ignore_index=True,
            )
    return out | dict(zip(OF_CRITERIA, (result.rates(), result.correlations()), strict=True))


def write(
    folder: Path,
    contents: Mapping[str, pd.DataFrame],
    report: Callable[[Path], object],
    run: Mapping[str, Any],
    *,
    raw: bool = False,
    then: Callable[[], None] = lambda: None,
) -> list[Path]:
    """Write tables and a report to a folder, all of them or none.

    Args:
        folder: created if necessary.
        contents: tables by the name of their file.
        report: writes the report to a path.
        run: content of ``run.json``: input, command, seed, seconds.
        raw: leave text in CSV as it is, see :func:`crowdppl.export.to_file`.
        then: called as soon as the files are in place.

    Returns:
        The paths of the tables and, last, of the report.

    Raises:
        FileError: if something cannot be written; files of an earlier run then stay as they were.
    """
    with replaced(folder, FILES, then) as staging:
        for name, table in contents.items():
            export.write(table, staging / name, raw=raw)
        report(staging / "report.html")
        write_run(staging, run)
    return [folder / name for name in (*contents, "report.html")]
