"""What a result records of the fit that made it: model, engine, options, data and versions."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from crowdppl.data.annotations import Annotations
from crowdppl.inference.catalogue import model_name
from crowdppl.inference.work import Fitted, Work
from crowdppl.model.base import AnnotationModel

PACKAGES = ("crowdppl", "torch", "pyro-ppl", "numpy", "pandas", "xarray", "arviz-base", "arviz-stats")


@cache
def versions() -> dict[str, str]:
    """Return the versions recorded with a result; reading them takes longer than a small fit by EM."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def recorded_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's options as JSON can hold them: of the items for validation only whether there were any."""
    return {name: value is not None if name == "validation" else value for name, value in options.items()}


def hyperparameters(model: AnnotationModel) -> dict[str, Any]:
    """Return a model's fields as JSON can hold them: others, such as networks of the caller's, by their ``repr``."""
    if not dataclasses.is_dataclass(model):
        return {}
    values = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    plain = (str, int, float, bool, tuple, type(None))
    return {name: value if isinstance(value, plain) else repr(value) for name, value in values.items()}


def record(work: Work, fit: Fitted, engine: str, options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the description of a fit, serialisable as JSON.

    Args:
        work: what was to be fitted.
        fit: the fit.
        engine: its name.
        options: of the engine.
        seconds: that the fit took.
    """
    data, model = fit.data, work.model
    other = fit.independence
    return {
        "model": model_name(model),
        "default_model": work.default,
        "hyperparameters": hyperparameters(model),
        "method": engine,
        "options": recorded_options(options),
        "seed": work.seed,
        "rho": None if fit.effect is None else fit.effect.as_json(),
        "residual_rho": model.residual_rho,
        "independence": None if other is None else {"z": other.z, "probability": other.probability},
        "copies": work.copies,
        "device": str(data.device),
        "backend": fit.draws.backend,
        "dtype": str(data.dtype).removeprefix("torch."),
        "counts": _counts(data, work.aside),
        "reads": fit.reads,
        "feature_names": {"features": data.feature_names, "worker_features": data.worker_feature_names},
        "covariates": {
            "names": data.covariate_names,
            "scales": data.covariate_scales,
            "baselines": data.covariate_baselines,
            "values": data.covariate_values,
            "recipe": data.covariate_recipe,
        },
        "facts": fit.draws.facts,
        "seconds": seconds,
        "versions": versions(),
    }


def _counts(data: Annotations, aside: Annotations | None) -> dict[str, int]:
    """Return how many there are of everything; of what most data lack only where there is some."""
    counts = {"items": data.N, "workers": data.J, "annotations": data.A, "classes": data.K, "features": data.D}
    others = {
        "set_aside": 0 if aside is None else aside.A,
        "worker_features": 0 if data.worker_features is None else data.worker_features.shape[-1],
        "covariates": data.P,
        "criteria": 0 if data.criteria is None else len(data.criteria),
    }
    return counts | {name: count for name, count in others.items() if count}
