"""Measured coverage of intervals on public data, by model and engine, cited beside every interval."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdppl.inference.dependence.design_effect import DesignEffect

# Below this share of workers, 89% intervals are called too narrow.
TOO_NARROW = 0.8
NARROW = "These intervals are too narrow."


@cache
def measured() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Return figures of benchmarks/calibration/model_coverage.py by model, engine, and ``default`` or ``independent``."""
    file = resources.files("crowdppl.inference.dependence").joinpath("coverage.json")
    return dict(json.loads(file.read_text(encoding="utf-8")))


def cited(model: str, method: str, effect: DesignEffect | None, *, default_priors: bool = True) -> str:
    """Return a sentence on the coverage that was measured for a model and an engine, or that none was.

    Args:
        model: name in the zoo, or that of a user's own class.
        method: the engine.
        effect: design effect of the fit; ``None`` for the model as published.
        default_priors: whether the fit has the default hyperparameters, which were measured.
    """
    by_engine = measured().get(model, {})
    # Both engines sample the same posterior.
    engine = "gibbs" if method == "nuts" and "gibbs" in by_engine else method
    if engine not in by_engine:
        return f"Coverage of these intervals: not measured on public data for {model} by {method}."
    measurement: dict[str, Any] = by_engine[engine]["independent" if effect is None else "default"]
    limits = []
    if engine != method:
        limits.append(f"by {engine}, which samples the same posterior")
    if effect is not None and effect.likelihood is not None:
        limits.append("without known true labels, from which this fit estimates rho")
    if effect is not None and not effect.public:
        limits.append("with the default spread of rho, which this fit does not use")
    if not default_priors:
        limits.append("with the default priors, which this fit does not use")
    sentence = (
        f"Coverage measured for {model} by {method}{' (' + '; '.join(limits) + ')' if limits else ''}: on {measurement['sets']} "
        "public data sets, 89% intervals held the share of a worker's annotations that are correct for "
        f"{measurement['share']:.0%} of {measurement['workers']:,} workers, and those of the accuracy for "
        f"{measurement['accuracy']:.0%}."
    )
    if min(measurement["share"], measurement["accuracy"]) < TOO_NARROW:
        sentence += f" {NARROW}"
    return sentence
