"""``crowdppl.fit``: data and model in, posterior out, by any engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Checkpoints, Column, Device, Seed, checked
from crowdppl.data.annotations import Annotations
from crowdppl.data.copies import copied_answers, one_of_each
from crowdppl.data.diagnostics import equal_answers
from crowdppl.data.frames import to_pandas
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.table.kinds import graded
from crowdppl.data.table.truths import Truth
from crowdppl.errors import OptionError
from crowdppl.inference import distributed
from crowdppl.inference.catalogue import choice_of, default_model, is_numeric
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.numeric.fit import fit_numbers
from crowdppl.inference.option_help import with_options
from crowdppl.inference.options import Engine, require_engine, taken_apart
from crowdppl.inference.progress import ProgressCallback
from crowdppl.inference.run import fitted
from crowdppl.inference.work import REVIEWED, Work
from crowdppl.model.base import AnnotationModel, provides
from crowdppl.models.linear_gaussian import LinearGaussian
from crowdppl.posterior.posterior import Posterior


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
    checkpoint: Checkpoints | None = None,
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
            item effects, in a mixture with Dawid and Skene's model, or one-coin, where errors may be independent
            (:mod:`crowdppl.inference.dependence.independence`); to Dawid and Skene's model with ``independent``, or where item
            effects would take too long (one-coin where labels of each class are few and errors spread evenly); and to majority
            vote where labels cannot tell workers apart (:mod:`crowdppl.inference.catalogue`).
        method: ``"em"`` (posterior mode), ``"svi"`` (variational), ``"gibbs"`` (posterior draws, conjugate models) or
            ``"nuts"`` (posterior draws, any model, small data). Defaults to EM without a model, and for item effects; for
            other models to Gibbs sampling if they allow it, else EM; for numbers to Gibbs sampling up to 100,000 annotations,
            else EM. Or an engine with options: ``EM(restarts=2)``,
            ``SVI(...)``, ``Gibbs(...)``, ``NUTS(...)``.
        seed: of all random numbers; the same seed on the same machine gives the same result.
        device: ``"cpu"`` or ``"cuda"``. Defaults to the device of the data.
        progress: whether to show a bar in the terminal, or a function to call with ``(step, steps, what)``.
        independent: report true labels and workers from the model as published, which counts annotations of one item as
            independent; without a model every worker then starts as an average member of the crowd
            (:mod:`crowdppl.inference.dependence.crowd_rows`). By default both allow for correlated errors, see
            :mod:`crowdppl.inference.dependence.design_effect`; parameters are learned as published either way.
        rho: correlation between errors on one item: mean and standard deviation of its logit, which known true labels of the
            data update (:mod:`crowdppl.inference.dependence.known_truths`). Defaults to its distribution over public data sets.
            Or the correlation itself, from 0 to 1, as if it were known exactly: intervals are then too narrow for most crowds.
        copies: of workers who give the same answers (:mod:`crowdppl.data.copies`), count ``"one"`` for each item, or ``"all"``.
            Defaults to one where everybody else agrees well enough to tell that they are copies.
        checkpoint: a folder for the state of the fit. A fit that was stopped, by Ctrl-C or killed, continues from there when it
            is called again with the same data, model, options and seed, and ends with the same result. NUTS saves its state
            between chains, SVI only without ``validation``. Or ``(folder, seconds)``, with the time between two writes, else a
            minute.
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
    data = _annotations(data, model, {"task": task, "worker": worker, "label": label, "truth": truth})
    if isinstance(data, NumericAnnotations):
        of_classes = {"independent": independent, "rho": rho is not None, "copies": copies is not None}
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
        )
    data, aside, sentences = without_copies(data, copies)
    choice = default_model(data, independent=independent) if model is None else choice_of(model, data)
    chosen = choice.model
    if choice.drops_features:
        data = replace(data, features=None, feature_names=None)
    if data.kind is None and provides(chosen, "reading"):
        data = graded(data, "the annotations")
    work = Work(
        data,
        chosen,
        effect_of(chosen, data, independent, rho),
        int(seed),
        default=model is None,
        note=choice.note,
        copies=copies,
        aside=aside,
        warnings=tuple(sentences),
        scores=choice.scores,
        leaves_features=choice.leaves_features,
    )
    return fitted(work, engine, options, device=device, progress=progress, checkpoint=checkpoint)


def _annotations(data: Any, model: Any, columns: dict[str, Any]) -> Annotations | NumericAnnotations:
    """Return annotations as they are, and those of a frame by the names of its columns.

    Raises:
        OptionError: for columns of data that are no frame.
    """
    if not isinstance(data, (Annotations, NumericAnnotations)):
        columns |= {"kind": "numeric"} if is_numeric(model) else {}
        return Annotations.from_frame(to_pandas(data, "data", ", or crowdppl.Annotations"), **columns)
    if named := [name for name, value in columns.items() if value is not None]:
        raise OptionError(f"{named[0]}= names a column of a frame; give it where the Annotations are made")
    return data


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


def _per_item(data: Annotations) -> float:
    """Return the mean number of annotations of an item; those of an item with a weight count by it."""
    return (data.A if data.weight is None else float(data.weighted_per_item.sum())) / max(data.N, 1)
