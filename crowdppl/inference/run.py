"""One fit, step by step: an engine draws parameters, the model is evaluated at them, and the result is laid out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed

from crowdppl.arguments import Checkpoints
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, ModelError, warn
from crowdppl.inference.backends import choose
from crowdppl.inference.checkpoint import Checkpoint, digest
from crowdppl.inference.datatree import attributes, beginning, to_datatree
from crowdppl.inference.dependence.crowd_rows import starting_from_the_crowd
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.dependence.independence import independence
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.anchoring import learned
from crowdppl.inference.engines.convergence import convergence
from crowdppl.inference.engines.em import em
from crowdppl.inference.engines.gibbs import gibbs
from crowdppl.inference.engines.nuts import nuts
from crowdppl.inference.engines.svi import svi
from crowdppl.inference.evaluate import evaluate
from crowdppl.inference.fingerprint import of_model
from crowdppl.inference.hooks import Engine, Hooks
from crowdppl.inference.options import TYPES, filled
from crowdppl.inference.progress import ProgressCallback, progress_bar
from crowdppl.inference.record import coverage_of, notes_of, record, warnings_of
from crowdppl.inference.result import Rest
from crowdppl.inference.sets import set_probabilities
from crowdppl.inference.spans import spans
from crowdppl.inference.work import Fitted, Work
from crowdppl.isolation import isolated, limited_threads, random_state, seed_streams
from crowdppl.model.base import AnnotationModel
from crowdppl.model.bound import BoundModel, bind
from crowdppl.model.features_read import READABLE, reads_features
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.item_effects import ItemEffects
from crowdppl.models.one_coin import OneCoin
from crowdppl.posterior.posterior import Posterior

ENGINES: dict[str, Engine[BoundModel, Annotations, Draws]] = {"em": em, "svi": svi, "gibbs": gibbs, "nuts": nuts}


def fitted(
    work: Work,
    engine: str | None,
    options: Mapping[str, Any],
    *,
    device: str | torch.device | None = None,
    progress: bool | ProgressCallback = False,
    checkpoint: Checkpoints | None = None,
    draw: Callable[..., Draws] | None = None,
) -> Posterior:
    """Draw parameters by an engine, or by ``draw`` in its place, and return the result; as :func:`crowdppl.fit`."""
    _require_memory(work.model, work.data)
    data = work.data.to(device)
    began = time.perf_counter()
    isolation: dict[str, Any] = {
        "seed": work.seed,
        "device": data.device,
        "dtype": data.dtype,
        "threads": choose.threads(data),
    }
    with isolated(**isolation), ExitStack() as limits:
        bound = bind(work.model, data)
        engine = engine or _usual_engine(work, bound)
        if draw is None:
            options = _checked_options(work.model, data, engine, options)
        isolation["threads"] = choose.threads(data, bound if engine in ("em", "gibbs") else None)
        limits.enter_context(limited_threads(isolation["threads"]))
        data = bound.with_learned_scores(data, work.scores)
        arranged = bound.anchored(bound.expand(data))
        if engine != "em":
            arranged = learned(bound, arranged)
        identity = "" if checkpoint is None else digest(data, of_model(bound), engine, dict(options), work.seed)
        keep = Checkpoint(checkpoint, identity, data.device)
        with progress_bar(progress, engine) as report:
            seed_streams(work.seed, data.device)  # networks have drawn from the stream
            with keep.stoppable():
                if draw is not None:
                    draws = draw(bound, arranged)
                else:
                    draws = ENGINES[engine](bound, arranged, TYPES[engine](**options), Hooks(report, keep))
                    if work.default and work.effect is None and isinstance(work.model, DawidSkene | OneCoin):
                        draws = starting_from_the_crowd(draws, arranged)
            stream = random_state(data.device)
            fit = _evaluated(work, bound, data, draws, mixture=draw is None)
        decoded = fit.probability if fit.published is None else fit.published
        if bound.truths.coupled:
            fit.parts["spans"] = spans(bound, data, draws, fit.effect, decoded)
        if data.set_labels is not None:
            fit.parts["sets"] = set_probabilities(bound, data, draws, fit.effect, fit.probability)
        fit.weights = {} if bound.networks is None else bound.networks.state(draws.fixed)
        if bound.classifier is not None:
            fit.weights |= bound.classifier.state()
    attrs = _attributes(work, fit, engine, options, time.perf_counter() - began, keep.troubles)
    if fit.evaluated is None:
        posterior = Posterior(beginning(fit, attrs), Rest(fit, attrs, isolation, stream))
    else:
        posterior = Posterior(to_datatree(fit, fit.evaluated, attrs))
        posterior._correct = None if fit.evaluated.correct is None else fit.evaluated.correct.numpy()
    keep.clear()
    for sentence in draws.warnings:
        warn(sentence)
    return posterior


def _attributes(
    work: Work, fit: Fitted, engine: str, options: Mapping[str, Any], seconds: float, troubles: Sequence[str]
) -> dict[str, Any]:
    """Return what a result records of a fit, its notes and warnings among it; facts and warnings are added to the draws.

    Args:
        work: what was fitted.
        fit: the fit.
        engine: its name.
        options: of the engine.
        seconds: that the fit took.
        troubles: notes on the checkpoint.
    """
    data, draws = fit.data, fit.draws
    if draws.kind == "posterior":
        assert fit.evaluated is not None
        draws.facts |= convergence(data, fit.evaluated, draws.diagnosis)
    if any(getattr(data, name) is not None for name in READABLE):
        fit.reads = reads_features(work.model, data)
    draws.warnings = warnings_of(work, fit, options)
    return attributes(
        fit,
        run=record(work, fit, engine, options, seconds),
        notes=notes_of(work, data, troubles),
        coverage=coverage_of(work, fit, engine),
    )


def _usual_engine(work: Work, bound: BoundModel) -> str:
    """Return the name of the engine of a fit that names none."""
    return work.model.default_method or ("em" if work.default or not bound.has_conditionals else "gibbs")


def _checked_options(
    model: AnnotationModel, data: Annotations, engine: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all options of an engine, those left out by the model's and the engine's defaults.

    Raises:
        ModelError: where the engine cannot fit the model to these data.
    """
    chosen = filled(engine, options, model.engine_defaults.get(engine))
    reason = model.check_method(engine, data)
    if reason is not None:
        raise ModelError(f"{type(model).__name__} by method={engine!r}: {reason}")
    return chosen


def _evaluated(work: Work, bound: BoundModel, data: Annotations, draws: Draws, *, mixture: bool) -> Fitted:
    """Return the fit with the probabilities of the classes, and the draws evaluated where those need them.

    Args:
        work: what is fitted.
        bound: the fitted model.
        data: the annotations.
        draws: of the engine.
        mixture: whether a default result may be a mixture with a model of independent errors.
    """
    public = work.effect is not None and work.effect.public
    mixture = mixture and work.default and public and isinstance(work.model, ItemEffects | DawidSkene | OneCoin)
    if _can_wait(draws, data, work.effect):
        assert draws.point is not None
        items = choose.items(bound, bound.expand(data), data, draws.passes)
        probability, published = items.reported(draws.point, work.effect)
        draws.passes = None
        fit = Fitted(data, bound, draws, work.effect, probability, published, aside=work.aside)
        fit.independence = independence(data, probability, draws.count) if mixture else None
        if fit.independence is not None:
            fit.probability = fit.independence.mix(probability)
        return fit
    evaluated = evaluate(bound, data, draws.drawn(), work.effect)
    other = independence(data, evaluated.probability, evaluated.lp.numel()) if mixture else None
    if other is not None:
        other.mix_draws(evaluated, data)
    return Fitted(
        data,
        bound,
        draws,
        evaluated.effect,
        evaluated.probability,
        evaluated.published,
        evaluated,
        aside=work.aside,
        independence=other,
    )


def _can_wait(draws: Draws, data: Annotations, effect: DesignEffect | None) -> bool:
    """Tell whether the truths of a fit need no draws.

    Known true labels inform the design effect through draws. Several processes share a fit as long as their group is open.
    """
    informed = effect is not None and not effect.fixed and bool((data.truth >= 0).any())
    apart = torch.distributed.is_available() and torch.distributed.is_initialized()
    return draws.later is not None and not informed and not apart


def _require_memory(model: AnnotationModel, data: Annotations) -> None:
    """Refuse arrays that exceed this machine's memory: its system would kill the process without a message."""
    states = model.states(data)
    # Confusion matrices, their expected counts and logs, and responsibilities; an extrapolation holds a few more.
    needed = 8 * 4 * (data.J * states * data.K + data.N * states)
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not available on every system
        return
    if data.device.type == "cpu" and needed > available:
        raise DataError(
            f"{data.J:,} workers, {data.N:,} items and {data.K:,} classes need some {needed / 2**30:,.0f} GiB for confusions "
            f"and probabilities, and this machine has {available / 2**30:,.0f}; merge rare classes, or fit a part of the workers"
        )
