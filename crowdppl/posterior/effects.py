"""The table of what accuracy depends on."""

from __future__ import annotations

import pandas as pd

from crowdppl.errors import DataError
from crowdppl.posterior import viewed
from crowdppl.posterior.measures import interval
from crowdppl.posterior.variables import PosteriorVariables

# Sites, on the units of the covariates: of log odds, and of the probability that an annotation is correct.
EFFECT, ACCURACY = "effect_per_unit", "accuracy_per_unit"


def has_effects(posterior: PosteriorVariables) -> bool:
    """Tell whether the model has effects of covariates."""
    return all(viewed.has(posterior.tree, name, "covariate") for name in (EFFECT, ACCURACY))


def table(posterior: PosteriorVariables, level: float | None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.effects` describes."""
    if not has_effects(posterior):
        raise DataError(
            "the model has no effects of covariates; read the annotations with from_frame(..., covariates=...) and fit "
            f"{viewed.models_with(EFFECT, ACCURACY)}"
        )
    effect, accuracy = (posterior.draws(name) for name in (EFFECT, ACCURACY))  # (S, P)
    names = posterior.tree["posterior"]["covariate"].to_numpy()
    columns: dict[str, object] = {"covariate": [str(name) for name in names]}
    for name, draws in (("effect", effect), ("accuracy_change", accuracy)):
        for end, value in zip(("", "_low", "_high"), interval(draws, level), strict=True):
            columns[f"{name}{end}"] = value
    columns["probability_positive"] = (effect > 0).mean(0)
    return pd.DataFrame(columns)
