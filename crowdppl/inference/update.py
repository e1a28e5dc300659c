"""More annotations after a fit: start from what is known, end where a fit to everything ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl import arguments
from crowdppl.arguments import Seed, checked
from crowdppl.data.alerts import LABELS_UNCLEAR
from crowdppl.data.annotations import CROWD, Annotations
from crowdppl.data.covariates import COUNTED, Design, order_of
from crowdppl.data.encoding import Repeats
from crowdppl.data.frames import to_pandas
from crowdppl.data.label_names import respelled
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.data.sets import of_labels
from crowdppl.errors import DataError, ModelError, OptionError, listed, warn
from crowdppl.inference.backends import choose
from crowdppl.inference.catalogue import default_model, model_name
from crowdppl.inference.design_effect import DesignEffect
from crowdppl.inference.fit import fit
from crowdppl.inference.numeric.update import update_numbers
from crowdppl.inference.options import OPTIONS, taken_apart
from crowdppl.inference.predict import data_of, reads_covariates, rebuilt
from crowdppl.isolation import isolated
from crowdppl.kernels.ops import normalise
from crowdppl.model.base import AnnotationModel, provides
from crowdppl.model.bound import bind
from crowdppl.model.program import reads_features
from crowdppl.posterior.numbers import NumericPosterior
from crowdppl.posterior.posterior import Posterior

# What is known of single annotations besides, by its name in the data and in the result.
TIMINGS = ("timestamp", "seconds")
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
    labels; after EM, items with new annotations are first updated by themselves, at a cost in proportion to them, so that EM
    needs few steps. Samplers keep their warm-up by default. The result is that of a fit to all annotations: the earlier one
    only determines where it starts.

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
    if not isinstance(more, Annotations):
        read = before.P and (model is not None or reads_covariates(posterior))
        frame = to_pandas(more, "more", ", or crowdppl.Annotations")
        stated = {"labels": _all_labels(before), "covariates": before if read else None} | as_criteria(before)
        more = Annotations.from_frame(frame, **stated)
    if model is None and not reads_covariates(posterior):
        before, more = (part.with_covariates(None) for part in (before, more))
    together = joined(before, more, repeats)
    place = {name: n for n, name in enumerate(together.items.tolist())}
    start = together.majority()
    at = torch.tensor([place[name] for name in posterior.items().tolist()])
    unknown = together.truth[at] < 0
    start[at[unknown]] = torch.from_numpy(posterior.probability_as_published()).to(start.dtype)[unknown]
    chosen = rebuilt(posterior) if model is None else model
    # What the earlier fit chose for its data is chosen anew for all of them: the model, where none was named, and rho below.
    fitted: AnnotationModel | None = chosen
    if model is None and info.get("default_model", False):
        as_before = "rho" not in options and info["rho"] is None
        usual = default_model(together, independent=options.get("independent", as_before)).model
        fitted, chosen = None, chosen if type(usual) is type(chosen) else usual
    widths = {name: info["counts"][name] for name in ("features", "worker_features") if info["counts"].get(name)}
    if data is None and widths and _reads_any(chosen, before, widths):
        raise ModelError("the annotations had features, which a result does not keep; pass data=")
    touched = torch.from_numpy(
        np.unique([place[name] for name in more.items[more.annotations_per_item.numpy() > 0].tolist()])
    )
    if (
        "point" in posterior.tree.children
        and model_name(chosen) == info["model"]
        and provides(chosen, "conjugate_counts")
    ):
        start[touched] = _first_sweeps(posterior, chosen, together.batch(touched), start[touched])
    settings: dict[str, Any] = {}
    same_model = model_name(chosen) == info["model"]
    method, options = taken_apart(options.get("method"), {k: v for k, v in options.items() if k != "method"})
    if method is not None:
        options["method"] = method
    if method is None and info["method"] not in OPTIONS:
        raise OptionError("the result was made of samples that the caller brought; name the engine with method=...")
    if same_model and options.get("method", info["method"]) == info["method"]:  # others have other options
        settings = {name: value for name, value in info["options"].items() if name != "validation"}
    if not {"independent", "rho"} & options.keys():
        effect = DesignEffect.of_json(info["rho"])
        settings |= {"independent": effect is None, "rho": None if effect is None else effect.given_as}
    settings |= {
        "copies": info.get("copies"),
        "method": info["method"],
        "seed": info["seed"] if seed is None else seed,
    } | options
    doubts = tuple(
        sentence.removeprefix(f"{LABELS_UNCLEAR}: ")
        for sentence in posterior.warnings
        if sentence.startswith(LABELS_UNCLEAR)
    )
    return fit(dataclasses.replace(together, start=start, doubts=doubts), fitted, **settings)


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


@checked
def as_criteria(before: Annotations) -> dict[str, Any]:
    """Return arguments of :meth:`Annotations.from_frame`, by which further grades are by criteria where the earlier ones are."""
    if before.criteria is None:
        return {}
    options = {"criterion": before.criterion_column, "kind": "ordinal"}
    words = any(isinstance(label, str) for label in before.labels.tolist())  # which have no order of their own
    return options | ({"labels": before.labels.tolist()} if words else {})


def _all_labels(data: Annotations) -> list[Any] | None:
    """Return all labels of the data, where some are never a true label; ``None`` for those that occur."""
    return None if data.others is None else [*data.labels.tolist(), *data.others.names.tolist()]


def _columns(covariates: Sequence[str]) -> list[str]:
    """Return names of columns for covariates: their own are those of other columns, or parts of formulas."""
    return [f"covariate {n + 1}" for n in range(len(covariates))]


def _as_frame(data: Annotations, covariates: Sequence[str]) -> pd.DataFrame:
    """Return one row for each annotation, also of those that are never a true label, with covariates in the order of names."""
    parts = [(data.item, data.worker, data.labels[data.label.numpy()])]
    if data.others is not None:
        parts.append((data.others.item, data.others.worker, data.others.names[data.others.label.numpy()]))
    frames = [
        pd.DataFrame({"task": data.items[item.numpy()], "worker": data.workers[worker.numpy()], "label": label})
        for item, worker, label in parts
    ]
    timings = {name: getattr(data, name).numpy() for name in TIMINGS if getattr(data, name) is not None}
    if data.criteria is not None and data.criterion is not None:
        timings["criterion"] = data.criteria[data.criterion.numpy()]
    if data.covariates is not None:
        place = [data.covariate_names.index(name) for name in covariates]
        timings |= dict(zip(_columns(covariates), data.covariates.numpy().T[place], strict=True))
    frames[0] = frames[0].assign(**timings)
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def _require_experience_of_all(before: Annotations, more: Annotations) -> None:
    """Refuse further annotations whose workers' experience was counted without the earlier ones, or that came before these.

    Raises:
        DataError: naming the way out.
    """
    if not more.A or COUNTED not in before.covariate_baselines:
        return
    if more.covariate_recipe is None or more.covariate_recipe.after != before.A:
        raise DataError(
            "experience of the further annotations was counted without the earlier ones; read them with "
            "covariates=<the earlier annotations>, or give update a table"
        )
    assert before.timestamp is not None
    assert more.timestamp is not None
    earlier = before.timestamp.new_full((before.J,), -torch.inf).scatter_reduce(
        0, before.worker, before.timestamp, "amax"
    )
    last = dict(zip(before.workers.tolist(), earlier.tolist(), strict=True))
    limit = torch.tensor([last.get(name, -np.inf) for name in more.workers.tolist()], dtype=more.timestamp.dtype)
    if count := int((more.timestamp < limit[more.worker]).sum()):
        raise DataError(
            f"{count:,} further annotations are from before earlier ones of their workers, whose experience they change; fit all "
            f"annotations together"
        )


def _respelled(more: Annotations, classes: npt.NDArray[Any]) -> Annotations:
    """Return annotations with the earlier classes in place of other spellings of them."""
    spelled = respelled(more.labels.tolist(), classes.tolist())
    new = [spelled[label] for label in more.labels.tolist()]
    if new == more.labels.tolist():
        return more
    names = list(dict.fromkeys(new))
    code = torch.tensor([names.index(name) for name in new], dtype=torch.int64)
    changed = [name for name in more.labels.tolist() if spelled[name] != name]
    note = f"further annotations: {listed(changed, 3)} taken for another spelling of an earlier class"
    return dataclasses.replace(
        more,
        label=code[more.label],
        truth=torch.where(more.truth >= 0, code[more.truth.clamp(min=0)], more.truth),
        labels=np.array(names, dtype=more.labels.dtype if more.labels.dtype.kind in "iub" else object),
        notes=(*more.notes, note),
    )


@checked
def joined(before: Annotations, more: Annotations, repeats: Repeats | None = None) -> Annotations:
    """Return two sets of annotations as one: items and workers of the first, in their order, then the new ones.

    Args:
        before: the first.
        more: the second.
        repeats: what to do where a worker annotates an item again; as in the first where ``None``.

    Raises:
        DataError: for a class that the first does not have, names of another kind, truths that contradict each other, or
            annotations again where these are refused.
    """
    repeats = before.repeats if repeats is None else repeats
    others = [] if before.others is None else before.others.names.tolist()
    if before.set_labels is not None and more.set_labels is not None:
        more = of_labels(more, before.set_labels)
    elif before.set_labels is not None or more.set_labels is not None:
        raise DataError(
            "annotations of one are sets of labels, and of the other are not; read both with several='sets'"
        )
    elif (
        before.sequence is not None and more.sequence is None and set(more.items.tolist()) - set(before.items.tolist())
    ):
        raise DataError(
            "the result is of tokens in sequences, and further annotations have none; read them with sequence=... and "
            "position=..."
        )
    named = [name for name in others if name in more.labels.tolist()]
    more = _respelled(more.with_other_labels(named) if named else more, before.labels)
    strange = [label for label in more.labels.tolist() if label not in before.labels.tolist()]
    if strange:
        raise DataError(
            f"the further annotations have labels that the result does not have, {listed(strange)}; its classes are "
            f"{listed(before.labels.tolist())}. Fit anew with labels=[...] to add a class"
        )
    names = before.covariate_names
    if more.A or more.P:
        order_of(more.named_covariates, before.named_covariates)
    _require_experience_of_all(before, more)
    frames: list[pd.DataFrame] = []
    truth: dict[Any, Any] = {}
    for part in (before, more):
        frames.append(_as_frame(part, names))
        for i in np.flatnonzero(part.truth.numpy() >= 0).tolist():
            task, label = part.items[i : i + 1].tolist()[0], part.labels.tolist()[int(part.truth[i])]
            if truth.setdefault(task, label) != label:
                raise DataError(
                    f"the truth of {task!r} was {truth[task]!r} and is {label!r} now; leave one, or fit anew"
                )
    for name in ("items", "workers"):
        kinds = {"numbers" if getattr(part, name).dtype.kind in "iub" else "text" for part in (before, more)}
        if len(kinds) > 1:
            raise DataError(
                f"{name} are numbers in one and text in the other of both sets of annotations; write both alike"
            )
    items = list(dict.fromkeys([*before.items.tolist(), *more.items.tolist()]))
    workers = list(dict.fromkeys([*before.workers.tolist(), *more.workers.tolist()]))
    criteria = _all_criteria(before, more)
    again = _again(frames[0], frames[1], repeats)
    frame = pd.concat(frames, ignore_index=True)
    timings: dict[str, Any] = {name: name for name in TIMINGS if name in frame}
    if names:
        # Labels that are never a true label have none; they leave the annotations, and take what is filled in along.
        columns = _columns(names)
        frame[columns] = frame[columns].fillna(frame[columns].mean())
        timings["covariates"] = columns
    if criteria is not None:
        frame["criterion"] = pd.Categorical(frame["criterion"], categories=criteria)
        timings["criterion"] = "criterion"
    both = Annotations.from_frame(
        frame,
        items=items,
        workers=workers,
        labels=before.labels,
        truth=truth or None,
        repeats=repeats,
        other_labels=others,
        kind=before.kind,
        source="all annotations",
        **timings,
    )
    if names:
        assert both.covariates is not None
        both = both._with_covariates(
            Design(both.covariates.numpy(), names, before.covariate_baselines, before.covariate_recipe)
        )
    both = dataclasses.replace(both, item_column=before.item_column, criterion_column=before.criterion_column)
    both = dataclasses.replace(both, notes=(*before.notes, *more.notes, *again))
    tokens = [frame for frame in map(_tokens, (before, more)) if frame is not None]
    if before.set_labels is not None:
        places = pd.concat(tokens, ignore_index=True).drop_duplicates("task").set_index("task").loc[both.items]
        both = both._in_sets(places["sequence"], places["position"], before.set_labels)
    elif before.sequence is not None:
        both = both.with_sequences(pd.concat(tokens, ignore_index=True))
    both = both.with_features(
        _rows("features", "items", before, more), workers=_rows("worker_features", "workers", before, more)
    )
    weights = _rows("weight", "items", before, more)
    # Items that came without a weight count once.
    return both if weights is None else both.with_weights(weights[0].reindex(pd.Index(items), fill_value=1.0))


def _all_criteria(before: Annotations, more: Annotations) -> list[Any] | None:
    """Return the criteria of the earlier grades and those that further ones have besides; ``None`` without.

    Raises:
        DataError: where grades of one are by criteria, and of the other are not.
    """
    parts = [part for part in (before, more) if part.A]
    if len({part.criteria is None for part in parts}) > 1:
        raise DataError(
            "grades of one are by criteria, and of the other are not; read both with criterion=... (--criterion)"
        )
    names = [name for part in parts if part.criteria is not None for name in part.criteria.tolist()]
    return list(dict.fromkeys(names)) or None


def _tokens(data: Annotations) -> pd.DataFrame | None:
    """Return the places of the items in sequences, as :meth:`Annotations.with_sequences` takes them, if there are any."""
    if data.sequences is None or data.sequence is None or data.position is None:
        return None
    return pd.DataFrame(
        {"task": data.items, "sequence": data.sequences[data.sequence.numpy()], "position": data.position.numpy()}
    )


def _again(before: pd.DataFrame, more: pd.DataFrame, repeats: Repeats) -> list[str]:
    """Count further annotations of an item by a worker who has annotated it, and say what becomes of them.

    Raises:
        DataError: where they are refused.
    """
    pair = ["task", "worker", *(["criterion"] if "criterion" in before and "criterion" in more else [])]
    row = [*pair, "label"]
    if list(before["worker"].unique()) == [CROWD]:  # of a crowd's counts repeats are the point
        return []
    old = before[before["task"].isin(more["task"].unique())]
    pairs = more.merge(old[pair].drop_duplicates(), on=pair)
    if not len(pairs):
        return []
    same = len(more.merge(old[row].drop_duplicates(), on=row))
    some = listed([f"{task} by {worker}" for task, worker, *_ in pairs[pair].head(3).itertuples(index=False)])
    message = f"{len(pairs):,} of {len(more):,} further annotations are of items that their workers had annotated before ({some}"
    message += f"{' and more' if len(pairs) > 3 else ''}), {same:,} of them with the same label"
    if repeats == "refuse":
        raise DataError(
            f"{message}; the fit refuses repeated annotations: drop them, or choose repeats='last' or repeats='keep' (--repeats)"
        )
    end = {
        "keep": "each counts separately; if these are the same annotations again, drop them, or use repeats='last' "
        "(--repeats last)",
        "last": "each replaces the earlier one",
    }
    sentence = f"{message}: {end[repeats]}"
    warn(sentence)
    return [sentence]


def _rows(name: str, of: str, before: Annotations, more: Annotations) -> pd.DataFrame | None:
    """Return features of items or workers from both parts by name, those of the later part taking precedence, or ``None``.

    Raises:
        DataError: for features of other names.
    """
    if getattr(before, name) is None:
        return None
    names = getattr(before, f"{name[:-1]}_names", None)
    if names is not None:
        more = more.with_features_ordered(*((names, None) if name == "features" else (None, names)))
    parts = [part for part in (before, more) if getattr(part, name) is not None]
    table = pd.concat(
        [pd.DataFrame(getattr(part, name).numpy(), index=pd.Index(getattr(part, of)), columns=names) for part in parts]
    )
    return table[~table.index.duplicated(keep="last")]
