"""Sets of labels in the report: how often each label applies and is chosen, and the tasks whose set is least certain."""

from __future__ import annotations

from typing import Any

from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import decisions, has_sets, shares
from crowdppl.report.rendering import percent

# Rows of each table.
ROWS = 50


def sets(posterior: Posterior) -> dict[str, Any] | None:
    """Return the rows of both tables and the number of tasks; ``None`` where annotations are not sets."""
    if not has_sets(posterior):
        return None
    each = (
        shares(posterior).merge(decisions(posterior), on="label").sort_values("share", ascending=False, kind="stable")
    )
    table = posterior.sets().sort_values("probability", kind="stable")
    return {
        "tasks": len(table),
        "labels": [
            [
                str(row["label"]),
                *(percent(row[name]) for name in ("share", "chosen", "sensitivity", "false_positive_rate")),
            ]
            for row in each.head(ROWS).to_dict("records")
        ],
        "uncertain": [
            [
                str(row[posterior.item_column]),
                str(row["labels"]),
                percent(row["probability"]),
                f"{row['annotations']:,}",
            ]
            for row in table.head(ROWS).to_dict("records")
        ],
    }
