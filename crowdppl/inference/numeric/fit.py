"""Fits of models to labels that are numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from crowdppl.arguments import Checkpoints
from crowdppl.data.diagnostics import separate_groups
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import ModelError, OptionError, listed, suggestion, warn
from crowdppl.inference.checkpoint import Checkpoint, digest_of_numbers
from crowdppl.inference.engines.convergence import warning as not_converged
from crowdppl.inference.hooks import Engine, Hooks
from crowdppl.inference.numeric import em, gibbs, gradients
from crowdppl.inference.numeric.datatree import to_datatree
from crowdppl.inference.numeric.draws import NumericDraws
from crowdppl.inference.numeric.network import Network, with_network
from crowdppl.inference.numeric.residuals import correlated_errors
from crowdppl.inference.options import completed, filled
from crowdppl.inference.progress import ProgressCallback, progress_bar
from crowdppl.inference.record import recorded_options, versions
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel
from crowdppl.model.numeric import NumericModel, StandardLabels
from crowdppl.models import CATALOGUE, NUMERIC
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.posterior.numbers import NumericPosterior

# Annotations up to which the default is Gibbs sampling; EM takes a hundredth of the time, with intervals of workers that are
# narrower.
SAMPLED = 100_000
# Features that a fit takes at most, and items times squared features of which Gibbs sampling is the default.
MOST_FEATURES, REGRESSED = 500, 30_000_000
# Share of labels at the lowest and the highest number above which a note asks for the scale.
AT_ENDS = 0.15
ENGINES: dict[str, Engine[LinearGaussian, StandardLabels, NumericDraws]] = {
    "em": em.em,
    "gibbs": gibbs.gibbs,
    "svi": gradients.svi,
    "nuts": gradients.nuts,
}


def numeric_model(model: Any) -> LinearGaussian:
    """Return the model of this name, or the instance itself.

    Raises:
        OptionError: for an unknown name, or a class in place of an instance.
        ModelError: for a model of classes or grades.
    """
    if model is None:
        return LinearGaussian()
    if isinstance(model, str):
        if model in NUMERIC:
            return NUMERIC[model]()
        if model in CATALOGUE:
            raise ModelError(
                f"{model!r} is a model of classes or grades, and labels are numbers; use {listed(NUMERIC)}"
            )
        raise OptionError(f"no model {model!r}{suggestion(model, NUMERIC)}; models of numbers are {listed(NUMERIC)}")
    if isinstance(model, type) and issubclass(model, NumericModel):
        raise OptionError(f"model is the class {model.__name__}; pass an instance, {model.__name__}()")
    if isinstance(model, AnnotationModel):
        raise ModelError(
            f"{type(model).__name__} is a model of classes or grades, and labels are numbers; use {listed(NUMERIC)}"
        )
    if not isinstance(model, LinearGaussian):
        raise ModelError(
            f"model is a {type(model).__name__}; pass {listed(NUMERIC)} or crowdppl.models.LinearGaussian(...)"
        )
    return model


def fit_numbers(
    data: NumericAnnotations,
    model: Any,
    method: str | None,
    options: Mapping[str, Any],
    *,
    seed: int,
    device: str | torch.device | None,
    progress: bool | ProgressCallback,
    checkpoint: Checkpoints | None = None,
) -> NumericPosterior:
    """Fit a model of numbers; arguments as of :func:`crowdppl.fit`.

    Raises:
        OptionError: for an unknown model, method or option.
        ModelError: for a model of classes, for too many features, and where the method does not allow for the ends of a bounded
            scale; and for networks of features, where there are none or few items.
        FileError: for a checkpoint of another fit, or a folder that cannot be written to.
    """
    chosen = numeric_model(model)
    if data.D > MOST_FEATURES:
        raise ModelError(
            f"{data.D:,} features of items are more than the {MOST_FEATURES:,} that {chosen.name} takes; reduce them, for "
            f"instance to principal components"
        )
    few = (data.A <= SAMPLED and data.N * data.D**2 <= REGRESSED) or data.scale is not None
    engine = method if method is not None else "gibbs" if few else "em"
    if engine == "em":
        unused = [name for name in options if name in em.UNUSED]
        if unused:
            raise OptionError(f"{unused[0]}= is not used by models of numbers; leave it out")
    taken = filled(engine, options, chosen.engine_defaults.get(engine))
    if engine == "em":
        taken = {name: taken[name] for name in ("max_iter", "num_samples")}
    if data.scale is not None and engine != "gibbs":
        raise ModelError(
            f"method={engine!r} does not allow for labels at the ends of a bounded scale; use method='gibbs', or read the labels "
            f"without scale=..."
        )
    data = data.to(device)
    began = time.perf_counter()
    identity = "" if checkpoint is None else digest_of_numbers(data, chosen, engine, taken, seed)
    keep = Checkpoint(checkpoint, identity, data.item.device)
    with isolated(seed=seed, device=data.item.device), progress_bar(progress, engine) as report, keep.stoppable():
        standard, network = StandardLabels.of(data), None
        if chosen.feature_model == "network":
            standard, network = with_network(chosen, standard)
        draws = ENGINES[engine](chosen, standard, completed(engine, taken), Hooks(report, keep))
    run = {
        "default_model": model is None,
        "method": engine,
        "options": recorded_options(taken),
        "seed": seed,
        "seconds": time.perf_counter() - began,
    }
    posterior = result(data, standard, chosen, draws, run, keep.troubles, network)
    keep.clear()
    return posterior


def result(
    data: NumericAnnotations,
    standard: StandardLabels,
    model: LinearGaussian,
    draws: NumericDraws,
    run: Mapping[str, Any],
    troubles: Sequence[str] = (),
    network: Network | None = None,
) -> NumericPosterior:
    """Return the result of draws, with notes on the data and warnings, which are issued.

    Args:
        data: the annotations.
        standard: the same on the standard scale.
        model: the model.
        draws: of an engine; warnings are added to.
        run: description of the fit.
        troubles: further notes, on the run.
        network: of the features, if any.
    """
    if draws.kind == "posterior":
        failed = not_converged(draws.facts)
        draws.warnings[:0] = [failed] if failed else []
    shared = correlated_errors(data, standard, draws)
    notes = [*_notes(data), *troubles]
    if standard.has_reference:
        notes += shared  # true numbers that are known tell how large shared errors are
    else:
        draws.warnings += shared
    story = {
        "model": model.name,
        "hyperparameters": dict(model.hyperparameters()),
        "device": str(data.item.device),
        "counts": {"items": data.N, "workers": data.J, "annotations": data.A, "known": int(data.known.sum())}
        | ({"features": data.D} if data.D else {}),
        "named_features": data.feature_names is not None,
        "facts": draws.facts,
        "versions": versions(),
    }
    for sentence in draws.warnings:
        warn(sentence)
    return NumericPosterior(to_datatree(data, standard, draws, run=story | dict(run), notes=notes, network=network))


def _notes(data: NumericAnnotations) -> list[str]:
    """Return sentences on what is unusual about the data."""
    notes = separate_groups(data.item.cpu().numpy(), data.worker.cpu().numpy(), data.N, data.J)
    if data.J == 1:
        notes.append("there is only one worker, whose bias and noise cannot be estimated from their own labels")
    if float(data.value.min()) == float(data.value.max()):
        notes.append(f"every label given is {float(data.value[0]):g}: workers and items cannot be told apart")
    if data.scale is None and data.A >= 50:
        low, high = data.value.min(), data.value.max()
        at = float(((data.value == low) | (data.value == high)).double().mean())
        if at > AT_ENDS and data.spacing > 0:
            notes.append(
                f"{at:.0%} of the labels are {float(low):g} or {float(high):g}. They are taken as they are; if they stand for "
                f"everything beyond the ends of a scale, say so with scale=({float(low):g}, {float(high):g})"
            )
    return notes
