"""The table of what accuracy depends on."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.errors import DataError
from crowdppl.posterior import viewed
from crowdppl.posterior.measures import interval
from crowdppl.posterior.variables import PosteriorVariables

# Sites, on the units of the covariates: of log odds, and of the probability that an annotation is correct.
EFFECT, ACCURACY = "effect_per_unit", "accuracy_per_unit"
# Accuracy of each worker at each of the times over which abilities walk.
AT_TIMES = "accuracy_at"


def has_effects(posterior: PosteriorVariables) -> bool:
    """Tell whether the model has effects of covariates."""
    return all(viewed.has(posterior.tree, name, "covariate") for name in (EFFECT, ACCURACY))


def table(posterior: PosteriorVariables, level: float | None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.effects` describes."""
    if not has_effects(posterior):
        raise DataError(
            "the model has no effects of covariates; read the annotations with from_frame(..., covariates=...) and fit a model "
            "that has them, such as 'accuracy-regression'"
        )
    effect, accuracy = (posterior.draws(name) for name in (EFFECT, ACCURACY))  # (S, P)
    names = posterior.tree["posterior"]["covariate"].to_numpy()
    columns: dict[str, object] = {"covariate": [str(name) for name in names]}
    for name, draws in (("effect", effect), ("accuracy_change", accuracy)):
        for end, value in zip(("", "_low", "_high"), interval(draws, level), strict=True):
            columns[f"{name}{end}"] = value
    columns["probability_positive"] = (effect > 0).mean(0)
    return pd.DataFrame(columns)


def over_time(posterior: PosteriorVariables, level: float | None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.accuracy_over_time` describes."""
    if not viewed.has(posterior.tree, AT_TIMES, "worker", "time"):
        raise DataError(
            "the model has no abilities that change; fit crowdppl.models.AccuracyRegression(walk='session') to annotations with "
            "covariates='session', or the like; posterior.workers.accuracy_over_time compares halves of any result"
        )
    draws = posterior.draws(AT_TIMES)  # (S, J, T)
    name = posterior.info["hyperparameters"].get("walk") or "time"
    known = posterior.info["covariates"]
    times = known["values"][known["names"].index(name)] if name in known["names"] else range(draws.shape[-1])
    mean, low, high = interval(draws, level)
    workers = posterior.worker_names()
    changed = (draws > draws[..., :1]).mean(0)
    return pd.DataFrame(
        {
            "worker": np.repeat(workers, len(times)),
            name: np.tile(np.asarray(times), len(workers)),
            "accuracy": mean.ravel(),
            "accuracy_low": low.ravel(),
            "accuracy_high": high.ravel(),
            "probability_higher": np.where(np.arange(len(times)) == 0, np.nan, changed).ravel(),
        }
    )
