"""What a result says of the fit that made it: model, engine, options, data and versions, and its warnings and notes."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from crowdppl.data.alerts import LABELS_UNCLEAR
from crowdppl.data.annotations import Annotations
from crowdppl.data.diagnostics import (
    far_from_votes,
    hardly_agree,
    lost_classes,
    nothing_learned,
    review,
    unused_classes,
)
from crowdppl.errors import listed
from crowdppl.inference.catalogue import FEATURES, catalogue, model_name, named_model
from crowdppl.inference.dependence.coverage import cited
from crowdppl.inference.dependence.crowd_rows import STARTED
from crowdppl.inference.engines.convergence import warning as not_converged
from crowdppl.inference.work import REVIEWED, Fitted, Work
from crowdppl.model.base import AnnotationModel, provides

PACKAGES = ("crowdppl", "torch", "pyro-ppl", "numpy", "pandas", "xarray", "arviz-base", "arviz-stats")
# With fewer draws the ends of an 89% interval are the smallest and the largest draw.
FEW_DRAWS = 19


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


def warnings_of(work: Work, fit: Fitted, options: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a fit: those of the engine, and what data and true labels give reason for.

    Args:
        work: what was to be fitted.
        fit: the fit.
        options: of the engine.
    """
    data, draws, probability = fit.data, fit.draws, fit.probability
    warnings = list(draws.warnings)
    count = draws.count if fit.evaluated is None else fit.evaluated.lp.numel()
    if draws.kind == "approximation" and count < FEW_DRAWS:
        warnings.append(_few_draws(count, options["num_samples"], data))
    failed = not_converged(draws.facts) if draws.kind == "posterior" else None
    warnings[:0] = [failed] if failed else []
    warnings += [f"{LABELS_UNCLEAR}: {sentence}" for sentence in data.doubts]
    warnings += nothing_learned(data, probability)
    warnings += [*work.warnings, *(hardly_agree(data) if data.A <= REVIEWED else [])]
    if fit.independence is not None and fit.independence.in_doubt:
        warnings.append(fit.independence.warning())  # of both answers; the others know only one of them
    elif data.kind != "ordinal":  # of grades the most frequent one is no vote
        warnings += lost_classes(data, probability)
        warnings += unused_classes(data, probability) + far_from_votes(data, probability)
    said = {"features": True} if work.leaves_features else {}
    return warnings + _unread(work.model, fit.reads | said, data)


def notes_of(work: Work, data: Annotations, troubles: Sequence[str]) -> list[str]:
    """Return the notes of a fit.

    Args:
        work: what was to be fitted.
        data: the annotations, on the device of the fit.
        troubles: of the run, such as checkpoints that could not be written.
    """
    notes = (review(data) if data.A <= REVIEWED else []) + list(troubles)
    return notes + [sentence for sentence in (work.note, work.model.caveat) if sentence]


def coverage_of(work: Work, fit: Fitted, engine: str) -> str:
    """Return a sentence on the measured coverage of the intervals of a model and an engine; empty where there are none."""
    if fit.draws.kind == "point":
        return ""
    name = model_name(work.model)
    standard = name in catalogue() and hyperparameters(work.model) == hyperparameters(named_model(name))
    standard = standard and not fit.draws.interval_method.endswith(STARTED)
    return cited(name, engine, fit.effect, default_priors=standard)


def _few_draws(count: int, requested: int | None, data: Annotations) -> str:
    """Return the warning that intervals come from few draws, and why."""
    if count == requested:
        return f"the ends of intervals come from {count} draws and are rough; raise num_samples to at least 100"
    size = f"{data.J:,} confusion matrices of {data.K:,} classes"
    ends = "there are no intervals: a single draw" if count == 1 else f"the ends of intervals are rough: {count} draws"
    return (
        f"{ends} of {size} fit{'s' if count == 1 else ''} in memory; merge rare classes, or fit a model with fewer numbers a "
        f"worker, such as 'one-coin'"
    )


def _unread(model: AnnotationModel, reads: Mapping[str, bool], data: Annotations) -> list[str]:
    """Return a sentence for each part of the data that the model does not read.

    Args:
        model: the model.
        reads: whether the model reads ``features``, ``worker_features``, ``covariates`` and ``criterion``, of those there are.
        data: the annotations.
    """
    name, sentences = model_name(model), []
    if data.covariate_names and not reads.get("covariates", True):
        covariates = listed(data.covariate_names, 5)
        sentences.append(
            f"the covariates {covariates} were not used: {name} does not read them, accuracy-regression does"
        )
    if data.criteria is not None and not reads.get("criterion", True):
        sentences.append(
            f"the criteria {listed(data.criteria, 5)} were not used: {name} takes grades by several criteria for repeated ones, "
            f"graded-facets has a difficulty of each"
        )
    for field, what in (("features", "items"), ("worker_features", "workers")):
        if not reads.get(field, True):
            zoo = catalogue()
            classifiers = [kind for kind in zoo if kind == FEATURES or provides(named_model(kind), "networks")]
            sentences.append(
                f"the {getattr(data, field).shape[-1]:,} features of {what} were not used: {name} does not read them. Models "
                f"with a classifier of features are {listed(classifiers, 9)}; name one with model=..."
            )
    return sentences
