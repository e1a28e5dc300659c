"""Tables of the report that only some results have: of covariates, and of sets of labels."""

from __future__ import annotations

from typing import Any

from crowdppl.posterior.effects import has_effects
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.sets import decisions, has_sets, shares
from crowdppl.report.rendering import percent

# Rows of each table of sets.
ROWS = 50


def effects(posterior: Posterior, level: float) -> list[list[str]] | None:
    """Return what accuracy depends on, a row for each covariate; ``None`` where the model has no effects of covariates."""
    if not has_effects(posterior):
        return None
    return [
        [
            str(row["covariate"]),
            f"{100 * row['accuracy_change']:+.1f}",
            f"{100 * row['accuracy_change_low']:+.1f} to {100 * row['accuracy_change_high']:+.1f}",
            f"{row['effect']:+.3g}",
            f"{row['effect_low']:+.3g} to {row['effect_high']:+.3g}",
            percent(row["probability_positive"]),
        ]
        for row in posterior.effects(level=level).to_dict("records")
    ]


def sets(posterior: Posterior) -> dict[str, Any] | None:
    """Return how often labels apply and are chosen, the least certain sets, and the number of tasks; ``None`` without sets."""
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
