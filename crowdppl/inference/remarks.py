"""What is said of a fit: warnings, which are also issued, and notes, which stand in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from crowdppl.inference.catalogue import FEATURES, catalogue, model_name, named_model, why_unread
from crowdppl.inference.dependence.coverage import cited
from crowdppl.inference.engines.convergence import warning as not_converged
from crowdppl.inference.record import hyperparameters
from crowdppl.inference.work import REVIEWED, Fitted, Work
from crowdppl.model.base import AnnotationModel, provides

# With fewer draws the ends of an 89% interval are the smallest and the largest draw.
FEW_DRAWS = 19


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
    if data.kind != "ordinal":  # of grades the most frequent one is no vote
        warnings += lost_classes(data, probability)
        warnings += unused_classes(data, probability) + far_from_votes(data, probability)
    # Where the default leaves features unread, its note says so.
    weighed = {"features": True} if work.default and why_unread(data, work.scores) is not None else {}
    return warnings + _unread(work.model, fit.reads | weighed, data)


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
