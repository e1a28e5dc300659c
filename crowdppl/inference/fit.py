"""``crowdppl.fit``: data and model in, posterior out, by any engine."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Column, Device, Folder, NonNegativeFloat, Seed, checked
from crowdppl.data.alerts import LABELS_UNCLEAR
from crowdppl.data.annotations import Annotations
from crowdppl.data.copies import copied_answers, one_of_each
from crowdppl.data.diagnostics import (
    equal_answers,
    far_from_votes,
    hardly_agree,
    lost_classes,
    nothing_learned,
    review,
    unused_classes,
)
from crowdppl.data.frames import to_pandas
from crowdppl.data.kinds import graded
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.truths import Truth
from crowdppl.errors import DataError, ModelError, OptionError, listed, warn
from crowdppl.inference import distributed
from crowdppl.inference.anchoring import learned
from crowdppl.inference.backends import choose
from crowdppl.inference.catalogue import (
    FEATURES,
    catalogue,
    default_model,
    is_numeric,
    model_name,
    named_model,
    why_unread,
)
from crowdppl.inference.checkpoint import EVERY, Checkpoint, digest
from crowdppl.inference.convergence import convergence
from crowdppl.inference.convergence import warning as not_converged
from crowdppl.inference.coverage import cited
from crowdppl.inference.datatree import attributes, first_datatree, to_datatree
from crowdppl.inference.design_effect import DesignEffect
from crowdppl.inference.draws import Draws
from crowdppl.inference.em import em
from crowdppl.inference.evaluate import evaluate, evaluate_point
from crowdppl.inference.fingerprint import of_model
from crowdppl.inference.gibbs import gibbs
from crowdppl.inference.independence import Independence, independence
from crowdppl.inference.numeric.fit import fit_numbers
from crowdppl.inference.nuts import nuts
from crowdppl.inference.options import Engine, filled, require_engine, taken_apart, with_options
from crowdppl.inference.progress import ProgressCallback, progress_bar
from crowdppl.inference.result import Rest, can_wait
from crowdppl.inference.sets import set_probabilities
from crowdppl.inference.spans import spans
from crowdppl.inference.svi import svi
from crowdppl.inference.versions import versions
from crowdppl.isolation import isolated, limited_threads, random_state, seed_streams
from crowdppl.model.base import AnnotationModel, provides
from crowdppl.model.bound import bind
from crowdppl.model.class_scores import learned as learned_scores
from crowdppl.model.program import reads_features
from crowdppl.models.item_effects import ItemEffects
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.posterior.posterior import Posterior

ENGINES: dict[str, Callable[..., Draws]] = {"em": em, "svi": svi, "gibbs": gibbs, "nuts": nuts}
# Largest number of annotations that a fit reviews; the review costs a few passes.
REVIEWED = 2_000_000
# With fewer draws the ends of an 89% interval are the smallest and the largest draw.
FEW_DRAWS = 19


@with_options
@checked
def fit(
    data: Annotations | pd.DataFrame | Any,
    model: str | AnnotationModel | LinearGaussian | None = None,
    *,
    method: Annotated[str | Engine, require_engine] | None = None,
    seed: Seed = 0,
    device: Device | None = None,
    progress: Annotated[bool | ProgressCallback, arguments.progress] = False,
    independent: bool = False,
    rho: Annotated[float | tuple[float, float], arguments.anything] | None = None,
    copies: Literal["one", "all"] | None = None,
    checkpoint: Folder | None = None,
    every: NonNegativeFloat = EVERY,
    task: Column | None = None,
    worker: Column | None = None,
    label: Column | None = None,
    truth: Truth = None,
    **options: Any,
) -> Posterior:
    """Fit a model of annotation.

    Args:
        data: annotations, or a frame of pandas or another library, which :meth:`Annotations.from_frame` converts.
        model: a name in the catalogue (``crowdppl.models.CATALOGUE``) or an instance, which may be of a class of your own.
            Defaults to graded facets for grades, and to the linear Gaussian model for numbers. For classes it defaults to
            item effects, in a mixture with Dawid and Skene's model where errors may be independent
            (:mod:`crowdppl.inference.independence`); to Dawid and Skene's model with ``independent``, or where item effects
            would take too long; and to majority vote where labels cannot tell workers apart
            (:mod:`crowdppl.inference.catalogue`).
        method: ``"em"`` (posterior mode), ``"svi"`` (variational), ``"gibbs"`` (posterior draws, conjugate models) or
            ``"nuts"`` (posterior draws, any model, small data). Defaults to EM without a model, and for item effects; for
            other models to Gibbs sampling if they allow it, else EM; for numbers to Gibbs sampling up to 100,000 annotations,
            else EM. Or an engine with options: ``EM(restarts=2)``,
            ``SVI(...)``, ``Gibbs(...)``, ``NUTS(...)``.
        seed: of all random numbers; the same seed on the same machine gives the same result.
        device: ``"cpu"`` or ``"cuda"``. Defaults to the device of the data.
        progress: whether to show a bar in the terminal, or a function to call with ``(step, steps, what)``.
        independent: report true labels and workers from the model as published, which counts annotations of one item as
            independent. By default both allow for correlated errors, see :mod:`crowdppl.inference.design_effect`; parameters are
            learned as published either way.
        rho: correlation between errors on one item: mean and standard deviation of its logit, which known true labels of the
            data update (:mod:`crowdppl.inference.known_truths`). Defaults to its distribution over public data sets. Or the
            correlation itself, from 0 to 1, as if it were known exactly: intervals are then too narrow for most crowds.
        copies: of workers who give the same answers (:mod:`crowdppl.data.copies`), count ``"one"`` for each item, or ``"all"``.
            Defaults to one where everybody else agrees well enough to tell that they are copies.
        checkpoint: a folder for the state of the fit. A fit that was stopped, by Ctrl-C or killed, continues from there when it
            is called again with the same data, model, options and seed, and ends with the same result. NUTS saves its state
            between chains, SVI only without ``validation``.
        every: seconds between two checkpoints.
        task: column of the item, where ``data`` is a frame; as in :meth:`Annotations.from_frame`.
        worker: likewise, column of the worker.
        label: likewise, column of the label.
        truth: likewise, known true labels.
        **options: of the engine, where ``method`` is a name, see :mod:`crowdppl.inference.options`.

    Returns:
        The result; of labels that are numbers, a :class:`crowdppl.posterior.numbers.NumericPosterior`.

    Raises:
        OptionError: for an unknown model, method, device or option, or a value outside its range.
        ModelError: where the model does not fit the data or the method.
        DataError: for data that are invalid, or too large for this machine's memory; for a model of grades, for labels without an
            order.
    """
    if distributed.is_other_rank():
        raise OptionError(
            "of several processes only rank 0 may fit: "
            "with crowdppl.inference.distributed.joined() as rank0: if rank0: ..."
        )
    engine, options = taken_apart(method, options)
    columns = {"task": task, "worker": worker, "label": label, "truth": truth}
    if not isinstance(data, (Annotations, NumericAnnotations)):
        columns |= {"kind": "numeric"} if is_numeric(model) else {}
        data = Annotations.from_frame(to_pandas(data, "data", ", or crowdppl.Annotations"), **columns)  # type: ignore[arg-type]
    elif named := [name for name, value in columns.items() if value is not None]:
        raise OptionError(f"{named[0]}= names a column of a frame; give it where the Annotations are made")
    if isinstance(data, NumericAnnotations):
        of_classes = {
            "independent": independent,
            "rho": rho is not None,
            "copies": copies is not None,
        }
        if unread := [name for name, given in of_classes.items() if given]:
            raise OptionError(f"{unread[0]}= is not used for labels that are numbers; leave it out")
        return fit_numbers(  # type: ignore[return-value]  # which one it is follows from the data
            data,
            model,
            engine,
            options,
            seed=int(seed),
            device=device,
            progress=progress,
            checkpoint=checkpoint,
            every=every,
        )
    data, aside, sentences = without_copies(data, copies)
    chosen, note = default_model(data, independent=independent) if model is None else (named_model(model), None)
    if data.kind is None and provides(chosen, "reading"):
        data = graded(data, "the annotations")
    work = Work(
        data,
        chosen,
        effect_of(chosen, data, independent, rho),
        int(seed),
        default=model is None,
        note=note,
        copies=copies,
        aside=aside,
        warnings=tuple(sentences),
    )
    return fitted(work, engine, options, device=device, progress=progress, checkpoint=checkpoint, every=every)


def without_copies(
    data: Annotations, copies: Literal["one", "all"] | None
) -> tuple[Annotations, Annotations | None, list[str]]:
    """Return the annotations that a fit counts, those of copies that it sets aside, if any, and a warning for each group.

    Args:
        data: the annotations.
        copies: as in :func:`fit`.
    """
    groups = copied_answers(data) if data.A <= REVIEWED or copies == "one" else []
    sentences = equal_answers(data, groups, copies)
    counted_once = [group for group in groups if group.counts_once(copies)]
    return (*one_of_each(data, counted_once), sentences) if counted_once else (data, None, sentences)


def effect_of(
    model: AnnotationModel, data: Annotations, independent: bool, rho: float | tuple[float, float] | None
) -> DesignEffect | None:
    """Return the design effect that a fit allows for: by default none where classes are read off places on a line.

    Raises:
        OptionError: if the arguments contradict each other.
    """
    if independent and rho is not None:
        raise OptionError(f"independent=True and rho={rho!r} contradict each other; give one of them")
    if independent or (rho is None and provides(model, "reading")):
        return None  # of grades, one that is not known made log losses worse (docs/benchmarks/grades.md)
    return DesignEffect.of(rho, model.residual_rho, _per_item(data))


@dataclass(frozen=True)
class Work:
    """What is fitted, whatever the engine.

    Attributes:
        data: the annotations.
        model: the model.
        effect: the design effect that the result allows for, if any.
        seed: of all random numbers.
        default: whether the model was chosen by the library.
        note: a sentence on that choice.
        copies: what the caller asked to count of workers who give the same answers.
        aside: annotations of such workers that are not counted.
        warnings: a sentence for each group of such workers.
    """

    data: Annotations
    model: AnnotationModel
    effect: DesignEffect | None
    seed: int
    default: bool = False
    note: str | None = None
    copies: Literal["one", "all"] | None = "all"
    aside: Annotations | None = None
    warnings: tuple[str, ...] = ()


def fitted(
    work: Work,
    engine: str | None,
    options: dict[str, Any],
    *,
    device: str | torch.device | None = None,
    progress: bool | ProgressCallback = False,
    checkpoint: str | Path | None = None,
    every: float = EVERY,
    draw: Callable[..., Draws] | None = None,
) -> Posterior:
    """Draw parameters by an engine, or by ``draw`` in its place, and return the result; as :func:`fit`."""
    chosen, effect, seed = work.model, work.effect, work.seed
    _require_memory(chosen, work.data)
    data = work.data.to(device)
    began = time.perf_counter()
    isolation: dict[str, Any] = {
        "seed": seed,
        "device": data.device,
        "dtype": data.dtype,
        "threads": choose.threads(data),
    }
    with isolated(**isolation), ExitStack() as limits:
        bound = bind(chosen, data)
        if engine is None:
            engine = chosen.default_method or ("em" if work.default or not bound.has_conditionals else "gibbs")
        if draw is None:
            options = filled(engine, options, chosen.engine_defaults.get(engine))
            reason = chosen.check_method(engine, data)
            if reason is not None:
                raise ModelError(f"{type(chosen).__name__} by method={engine!r}: {reason}")
        isolation["threads"] = choose.threads(data, bound if engine in ("em", "gibbs") else None)
        limits.enter_context(limited_threads(isolation["threads"]))
        arranged = bound.anchored(bound.expand(data))
        if engine != "em":
            arranged = learned(bound, arranged)
        identity = "" if checkpoint is None else digest(data, of_model(bound), engine, options, seed)
        keep = Checkpoint(checkpoint, identity, every, data.device)
        with progress_bar(progress, engine) as report:
            seed_streams(seed, data.device)  # networks have drawn from the stream
            with keep.stoppable():
                draws = (draw or ENGINES[engine])(bound, arranged, report, keep, **options)
            stream = random_state(data.device)
            evaluated, other = None, None
            if can_wait(draws, data, effect):
                probability, published = evaluate_point(bound, data, draws, effect)
                draws.passes = None
                count, weighted = draws.count, published is not None
                other = _other(work, data, probability, count) if draw is None else None
                probability = probability if other is None else other.mix(probability)
            else:
                evaluated = evaluate(bound, data, draws.drawn(), effect)
                count, weighted = evaluated.lp.numel(), evaluated.rho is not None
                other = _other(work, data, evaluated.probability, count) if draw is None else None
                if other is not None:
                    other.mix_draws(evaluated, data)
                effect, probability = evaluated.effect, evaluated.probability
        as_published = published if evaluated is None else evaluated.published
        decoded = probability if as_published is None else as_published
        parts = {
            "spans": spans(bound, arranged, draws, effect, decoded),
            "sets": set_probabilities(bound, data, draws, effect, probability),
        }
        weights = {} if bound.networks is None else bound.networks.state(draws.fixed)
        if arranged.class_scores is not None:
            weights |= learned_scores(data).classifier.state()
    seconds = time.perf_counter() - began
    if draws.kind == "approximation" and count < FEW_DRAWS:
        draws.warnings.append(_few_draws(count, options["num_samples"], data))
    if draws.kind == "posterior":
        assert evaluated is not None
        draws.facts |= convergence(data, evaluated, draws.diagnosis)
        failed = not_converged(draws.facts)
        draws.warnings[:0] = [failed] if failed else []
    draws.warnings += [f"{LABELS_UNCLEAR}: {sentence}" for sentence in data.doubts]
    draws.warnings += nothing_learned(data, probability)
    draws.warnings += [*work.warnings, *(hardly_agree(data) if data.A <= REVIEWED else [])]
    if data.kind != "ordinal":  # of grades the most frequent one is no vote
        draws.warnings += lost_classes(data, probability)
        draws.warnings += unused_classes(data, probability) + far_from_votes(data, probability)
    hyperparameters, name = _hyperparameters(chosen), model_name(chosen)
    reads = reads_features(chosen, data)
    weighed = {"features": True} if work.default and why_unread(data) is not None else {}  # the note says so
    draws.warnings += _unread(reads | weighed, data, name)
    run = {
        "model": name,
        "default_model": work.default,
        "hyperparameters": hyperparameters,
        "method": engine,
        "options": {name: value if name != "validation" else value is not None for name, value in options.items()},
        "seed": seed,
        "rho": None if effect is None else effect.as_json(),
        "residual_rho": chosen.residual_rho,
        "independence": None if other is None else {"z": other.z, "probability": other.probability},
        "copies": work.copies,
        "device": str(data.device),
        "backend": draws.backend,
        "dtype": str(data.dtype).removeprefix("torch."),
        "counts": {"items": data.N, "workers": data.J, "annotations": data.A, "classes": data.K, "features": data.D}
        | ({} if work.aside is None else {"set_aside": work.aside.A})
        | ({} if data.worker_features is None else {"worker_features": data.worker_features.shape[-1]})
        | ({"covariates": data.P} if data.P else {})
        | ({} if data.criteria is None else {"criteria": len(data.criteria)}),
        "reads": reads,
        "feature_names": {"features": data.feature_names, "worker_features": data.worker_feature_names},
        "covariates": {
            "names": data.covariate_names,
            "scales": data.covariate_scales,
            "baselines": data.covariate_baselines,
            "values": data.covariate_values,
            "recipe": data.covariate_recipe,
        },
        "facts": draws.facts,
        "seconds": seconds,
        "versions": versions(),
    }
    coverage = ""
    if draws.kind != "point":
        standard = name in catalogue() and hyperparameters == _hyperparameters(named_model(name))
        coverage = cited(name, engine, effect, default_priors=standard)
    notes = (review(data) if data.A <= REVIEWED else []) + keep.troubles
    notes += [sentence for sentence in (work.note, chosen.caveat) if sentence]
    also = "" if other is None else other.say()
    reported = effect if weighted else None
    attrs = attributes(data, draws, reported, viewed=bound.viewed, run=run, notes=notes, coverage=coverage, also=also)
    if evaluated is not None:
        tree = to_datatree(data, bound, draws, evaluated, weights=weights, attrs=attrs, aside=work.aside, parts=parts)
        posterior = Posterior(tree)
        posterior._correct = None if evaluated.correct is None else evaluated.correct.numpy()
    else:
        first = first_datatree(
            data, bound, draws, probability, published, weights=weights, attrs=attrs, aside=work.aside, parts=parts
        )
        posterior = Posterior(
            first, Rest(data, bound, draws, effect, attrs, isolation, stream, work.aside, other, parts, weights)
        )
    keep.clear()
    for sentence in draws.warnings:
        warn(sentence)
    return posterior


def _other(work: Work, data: Annotations, probability: Tensor, count: int) -> Independence | None:
    """Return the model of independent errors that a default result is a mixture with, if any."""
    public = work.effect is not None and work.effect.public
    usual = work.default and isinstance(work.model, ItemEffects)
    return independence(data, probability, count) if usual and public else None


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


def _per_item(data: Annotations) -> float:
    """Return the mean number of annotations of an item; those of an item with a weight count by it."""
    return (data.A if data.weight is None else float(data.weighted_per_item.sum())) / max(data.N, 1)


def _unread(reads: dict[str, bool], data: Annotations, name: str) -> list[str]:
    """Return a sentence for features that the model of this name does not read."""
    classifiers = [kind for kind in catalogue() if kind == FEATURES or provides(named_model(kind), "networks")]
    unread = [] if reads.get("covariates", True) else list(data.covariate_names)
    sentence = f"the covariates {listed(unread, 5)} were not used: {name} does not read them, accuracy-regression does"
    criteria = [] if reads.get("criterion", True) or data.criteria is None else list(data.criteria)
    repeats = (
        f"the criteria {listed(criteria, 5)} were not used: {name} takes grades by several criteria for repeated ones, "
        f"graded-facets has a difficulty of each"
    )
    return (
        [sentence] * bool(unread)
        + [repeats] * bool(criteria)
        + [
            f"the {getattr(data, field).shape[-1]:,} features of {what} were not used: {name} does not read them. Models with a "
            f"classifier of features are {listed(classifiers, 9)}; name one with model=..."
            for field, what in (("features", "items"), ("worker_features", "workers"))
            if not reads.get(field, True)
        ]
    )


def _hyperparameters(model: AnnotationModel) -> dict[str, Any]:
    """Return a model's fields as JSON can hold them: others, such as networks of the caller's, by their ``repr``."""
    if not dataclasses.is_dataclass(model):
        return {}
    values = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    plain = (str, int, float, bool, tuple, type(None))
    return {name: value if isinstance(value, plain) else repr(value) for name, value in values.items()}


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
