"""What accuracy depends on, in the report: a row for each covariate."""

from __future__ import annotations

from crowdppl.posterior.effects import has_effects
from crowdppl.posterior.posterior import Posterior
from crowdppl.report.rendering import percent


def effects(posterior: Posterior, level: float) -> list[list[str]] | None:
    """Return the rows of the table; ``None`` where the model has no effects of covariates."""
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
