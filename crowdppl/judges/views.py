"""Short views of a result, as text and for notebooks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.data import html
from crowdppl.errors import listed
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.tables import judge_table, system_table

# Rows of each table.
ROWS = 5


def text(draws: TruthDraws) -> str:
    """Return a result in some lines: its size, the first systems and the first judges."""
    parts = [_title(draws)]
    for heading, frame, more in _tables(draws):
        parts.append(f"\n{heading}\n{frame.to_string(index=False, max_colwidth=30)}{more}")
    return "\n".join(parts)


def markup(draws: TruthDraws) -> str:
    """Return the same as HTML."""
    parts = [
        part for heading, frame, more in _tables(draws) for part in (heading, html.table(frame), more.strip()) if part
    ]
    return html.view(_title(draws), *parts)


def _title(draws: TruthDraws) -> str:
    v = draws.verdicts
    systems = f" of {len(v.systems):,} systems" if len(v.systems) else ""
    return (
        f"JudgesResult: {len(v):,} verdicts by {len(v.judges):,} judges on {len(v.items):,} items{systems}, "
        f"{int(draws.labelled.sum()):,} items with human labels"
    )


def _rate(draws: TruthDraws) -> str:
    """Return what the rate of a system is."""
    if draws.paired:
        return "probability of a better answer"
    if np.isin(draws.value, (0.0, 1.0)).all():
        return f"share of {listed([str(k) for k in draws.verdicts.labels[draws.value == 1].tolist()])}"
    return "mean grade"


def _tables(draws: TruthDraws) -> list[tuple[str, pd.DataFrame, str]]:
    """Return the tables of a view: heading, rows, and what follows."""
    systems = system_table.systems(draws, "items")
    judges = judge_table.judges(draws)
    return [
        (
            f"Systems: {_rate(draws)} (intervals of {draws.level:.0%})",
            _shown(systems, ["system", "items", "labelled", "uncorrected"], "corrected"),
            _more(len(systems), "systems()"),
        ),
        ("Judges", _shown(judges, ["judge", "verdicts"], "accuracy"), _more(len(judges), "judges()")),
    ]


def _shown(table: pd.DataFrame, names: list[str], rate: str) -> pd.DataFrame:
    head = table.head(ROWS)
    out = head[names].copy()
    for name in (rate, "uncorrected"):
        if name in head:
            out[name] = [f"{x:.3f}" if np.isfinite(x) else "none" for x in head[name]]
    out["interval"] = [
        f"{low:.3f} to {high:.3f}" for low, high in zip(head[f"{rate}_low"], head[f"{rate}_high"], strict=True)
    ]
    return out


def _more(count: int, method: str) -> str:
    return f"\n... {count:,} rows in {method}" if count > ROWS else ""
