"""More annotations after a fit: start from what is known, end where a fit to everything ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Seed, checked
from crowdppl.data.alerts import LABELS_UNCLEAR
from crowdppl.data.annotations import Annotations
from crowdppl.data.frames import to_pandas
from crowdppl.data.joining import as_criteria, joined
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.table.repeats import Repeats
from crowdppl.errors import DataError, ModelError, OptionError
from crowdppl.inference.backends import choose
from crowdppl.inference.catalogue import default_model, model_name
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.fit import fit
from crowdppl.inference.numeric.update import update_numbers
from crowdppl.inference.stored import data_of, engine_as_before, reads_covariates, rebuilt
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import normalise
from crowdppl.model.base import AnnotationModel, provides
from crowdppl.model.bound import bind
from crowdppl.model.class_scores import NAME as CLASS_SCORES
from crowdppl.model.features_read import reads_features
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior

# Over what is new, before everything is gone through.
SWEEPS = 2


@checked
def update(
    posterior: Annotated[Posterior, arguments.any_posterior],
    more: Annotations | pd.DataFrame | Any,
    *,
    data: Annotations | NumericAnnotations | None = None,
    model: AnnotationModel | None = None,
    seed: Seed | None = None,
    repeats: Repeats | None = None,
    **options: Any,
) -> Posterior:
    """Fit again with more annotations, starting from a result.

    The further annotations may be of new items, by new workers, or both. Engines start from the earlier probabilities of true
    labels, but models whose items have places on a line, such as graded-facets, start as a fit does; after EM, items with new
    annotations are first updated by themselves, at a cost in proportion to them, so that EM needs few steps. Samplers keep their
    warm-up by default. The result is that of a fit to all annotations: the earlier one only determines where it starts.

    Args:
        posterior: a result.
        more: further annotations, or a frame, which :meth:`Annotations.from_frame` converts. Their classes are those of the
            result.
        data: the annotations that were fitted, required if they had features.
        model: the fitted model, required if it cannot be rebuilt by its name.
        seed: of all random numbers. Defaults to that of the result.
        repeats: what to do where a worker annotates an item again, see :meth:`Annotations.from_frame`. Defaults to what the
            result was fitted with. Annotations that the result has already are counted in a note.
        **options: of :func:`crowdppl.fit`. Default to those of the result.

    Raises:
        DataError: for a class that the result does not have, names of another kind, or repeated annotations that are refused.
        ModelError: if ``data`` or ``model`` is required.
    """
    if isinstance(posterior, NumericPosterior):
        if model is not None or not (data is None or isinstance(data, NumericAnnotations)):
            raise OptionError(
                "a result whose labels are numbers is updated with its own data and model; leave model= out, and data= of classes"
            )
        return update_numbers(posterior, more, data=data, seed=seed, repeats=repeats, **options)
    if isinstance(data, NumericAnnotations):
        raise DataError("data has labels that are numbers, and those of the result are classes; pass what was fitted")
    info = posterior.info
    before = data_of(posterior, aside=True) if data is None else data.to("cpu")
    before, more = _with_equal_covariates(before, more, read=model is not None or reads_covariates(posterior))
    together = joined(before, more, repeats)
    chosen = rebuilt(posterior) if model is None else model
    # What the earlier fit chose for its data is chosen anew for all of them: the model, where none was named, and rho below.
    fitted: AnnotationModel | None = chosen
    if model is None and info.get("default_model", False):
        as_before = "rho" not in options and info["rho"] is None
        usual = default_model(together, independent=options.get("independent", as_before)).model
        fitted, chosen = None, chosen if type(usual) is type(chosen) else usual
    widths = {name: info["counts"][name] for name in ("features", "worker_features") if info["counts"].get(name)}
    scored = f"{CLASS_SCORES}.weights" in posterior.networks and provides(chosen, "learn_class_scores")
    if data is None and widths and (scored or _reads_any(chosen, before, widths)):
        raise ModelError("the annotations had features, which a result does not keep; pass data=")
    start = _start(posterior, chosen, together, more)
    settings = _settings(info, chosen, seed, options)
    doubts = tuple(
        sentence.removeprefix(f"{LABELS_UNCLEAR}: ")
        for sentence in posterior.warnings
        if sentence.startswith(LABELS_UNCLEAR)
    )
    # Models of places learn some of their numbers in the first M step, which is to be that of a fit to all annotations.
    begin = None if provides(chosen, "reading") else start
    return fit(dataclasses.replace(together, start=begin, doubts=doubts), fitted, **settings)


def _with_equal_covariates(before: Annotations, more: Any, *, read: bool) -> tuple[Annotations, Annotations]:
    """Return the earlier annotations and further ones of the same classes, with covariates if the model reads them."""
    if not isinstance(more, Annotations):
        frame = to_pandas(more, "more", ", or crowdppl.Annotations")
        stated = {"labels": _all_labels(before), "covariates": before if before.P and read else None}
        more = Annotations.from_frame(frame, **stated | as_criteria(before))
    return (before, more) if read else (before.with_covariates(None), more.with_covariates(None))


def _start(posterior: Posterior, model: AnnotationModel, together: Annotations, more: Annotations) -> Tensor:
    """Return the probabilities from which engines start, ``(N, K)``: the earlier ones, and votes of new items.

    After EM the items with new annotations are updated by themselves first.
    """
    place = {name: n for n, name in enumerate(together.items.tolist())}
    start = together.majority()
    at = torch.tensor([place[name] for name in posterior.items().tolist()])
    unknown = together.truth[at] < 0
    start[at[unknown]] = torch.from_numpy(posterior.probability_as_published()).to(start.dtype)[unknown]
    touched = torch.from_numpy(
        np.unique([place[name] for name in more.items[more.annotations_per_item.numpy() > 0].tolist()])
    )
    same_model = model_name(model) == posterior.info["model"]
    if "point" in posterior.tree.children and same_model and provides(model, "conjugate_counts"):
        start[touched] = _first_sweeps(posterior, model, together.batch(touched), start[touched])
    return start


def _settings(
    info: Mapping[str, Any], model: AnnotationModel, seed: int | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a fit: those that a caller gives, else those of the earlier result, described by ``info``.

    Raises:
        OptionError: where neither names an engine.
    """
    same_model = model_name(model) == info["model"]
    method, settings = engine_as_before(info, options, same_model=same_model)
    if not {"independent", "rho"} & options.keys():
        effect = DesignEffect.of_json(info["rho"])
        settings |= {"independent": effect is None, "rho": None if effect is None else effect.given_as}
    usual = {"copies": info.get("copies"), "method": method, "seed": info["seed"] if seed is None else seed}
    return usual | settings


def _reads_any(model: AnnotationModel, before: Annotations, widths: Mapping[str, int]) -> bool:
    """Return whether a model reads features of items or workers.

    Args:
        model: the fitted model.
        before: the annotations that were fitted, without features.
        widths: numbers of features of items and of workers, if there were any, as the result states them.
    """
    few = before.batch(torch.arange(min(before.N, 1)))
    sizes = {"features": few.N, "worker_features": few.J}
    zeros: dict[str, Any] = {name: torch.zeros(sizes[name], width, dtype=few.dtype) for name, width in widths.items()}
    return any(reads_features(model, dataclasses.replace(few, **zeros)).values())


def _first_sweeps(posterior: Posterior, model: AnnotationModel, batch: Annotations, start: Tensor) -> Tensor:
    """Return class probabilities ``(n, K)`` of the items that have new annotations, by sweeps over these items only.

    Earlier workers keep their parameters; those of new ones follow from their annotations of these items. The cost is
    in proportion to these items.
    """
    point = posterior.tree["point"].to_dataset()
    old = {str(name): torch.from_numpy(value.to_numpy()).to(batch.dtype) for name, value in point.items()}
    by_worker = [name for name in old if "worker" in point[name].dims]
    known = len(posterior.worker_names())
    bound = bind(model, batch)
    r = bound.truths.at_shares(start, torch.ones(batch.N, bound.states, dtype=batch.dtype, device=batch.device), batch)
    isolation = isolated(0, device=batch.device, dtype=batch.dtype, threads=choose.threads(batch))
    with isolation, torch.no_grad():
        for _ in range(SWEEPS):
            theta = bound.m_step(r, batch)
            theta |= {
                name: torch.cat([old[name], theta[name][known:]]) if name in by_worker else old[name] for name in old
            }
            r = normalise(bound.item_log_joint(theta, batch), overwrite=True)[1]
    return bound.truths.by_class(r, theta, batch)


def _all_labels(data: Annotations) -> list[Any] | None:
    """Return all labels of the data, where some are never a true label; ``None`` for those that occur."""
    return None if data.others is None else [*data.labels.tolist(), *data.others.names.tolist()]
