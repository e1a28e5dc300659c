"""Two sets of annotations as one: earlier ones, and those that came later."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from crowdppl.arguments import checked
from crowdppl.data.annotations import CROWD, Annotations
from crowdppl.data.covariates import COUNTED, Design, order_of
from crowdppl.data.sets import of_labels
from crowdppl.data.table.label_names import respelled
from crowdppl.data.table.repeats import Repeats
from crowdppl.errors import DataError, listed, warn

# What is known of single annotations besides, by its name in the data and in the result.
TIMINGS = ("timestamp", "seconds")


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
    _require_same_arrangement(before, more)
    more = _in_classes_of(before, more)
    names = before.covariate_names
    if more.A or more.P:
        order_of(more.named_covariates, before.named_covariates)
    _require_experience_of_all(before, more)
    truth = _known_truths(before, more)
    _require_same_kinds_of_names(before, more)
    criteria = _all_criteria(before, more)
    frames = [_as_frame(part, names) for part in (before, more)]
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
        items=list(dict.fromkeys([*before.items.tolist(), *more.items.tolist()])),
        workers=list(dict.fromkeys([*before.workers.tolist(), *more.workers.tolist()])),
        labels=before.labels,
        truth=truth or None,
        repeats=repeats,
        other_labels=[] if before.others is None else before.others.names.tolist(),
        kind=before.kind,
        source="all annotations",
        **timings,
    )
    if names:
        assert both.covariates is not None
        both = both._with_covariates(
            Design(both.covariates.numpy(), names, before.covariate_baselines, before.covariate_recipe)
        )
    both = dataclasses.replace(
        both,
        item_column=before.item_column,
        criterion_column=before.criterion_column,
        notes=(*before.notes, *more.notes, *again),
    )
    return _with_what_items_have(both, before, more)


def _require_same_arrangement(before: Annotations, more: Annotations) -> None:
    """Refuse sets of labels, or tokens of sequences, beside annotations that are none.

    Raises:
        DataError: naming the way out.
    """
    if (before.set_labels is None) != (more.set_labels is None):
        raise DataError(
            "annotations of one are sets of labels, and of the other are not; read both with several='sets'"
        )
    new = set(more.items.tolist()) - set(before.items.tolist())
    if before.sequence is not None and more.sequence is None and new:
        raise DataError(
            "the result is of tokens in sequences, and further annotations have none; read them with sequence=... and "
            "position=..."
        )


def _in_classes_of(before: Annotations, more: Annotations) -> Annotations:
    """Return further annotations with the classes, and the labels that are never a true label, of the earlier ones.

    Raises:
        DataError: for a class that the earlier ones do not have.
    """
    if before.set_labels is not None:
        more = of_labels(more, before.set_labels)
    others = [] if before.others is None else before.others.names.tolist()
    named = [name for name in others if name in more.labels.tolist()]
    more = _respelled(more.with_other_labels(named) if named else more, before.labels)
    strange = [label for label in more.labels.tolist() if label not in before.labels.tolist()]
    if strange:
        raise DataError(
            f"the further annotations have labels that the result does not have, {listed(strange)}; its classes are "
            f"{listed(before.labels.tolist())}. Fit anew with labels=[...] to add a class"
        )
    return more


def _known_truths(before: Annotations, more: Annotations) -> dict[Any, Any]:
    """Return the known true labels of both by item.

    Raises:
        DataError: where they contradict each other.
    """
    truth: dict[Any, Any] = {}
    for part in (before, more):
        items, labels = part.items.tolist(), part.labels.tolist()
        for i in np.flatnonzero(part.truth.numpy() >= 0).tolist():
            task, label = items[i], labels[int(part.truth[i])]
            if truth.setdefault(task, label) != label:
                raise DataError(
                    f"the truth of {task!r} was {truth[task]!r} and is {label!r} now; leave one, or fit anew"
                )
    return truth


def _require_same_kinds_of_names(before: Annotations, more: Annotations) -> None:
    """Refuse names that are numbers in one and text in the other.

    Raises:
        DataError: for such items or workers.
    """
    for name in ("items", "workers"):
        kinds = {"numbers" if getattr(part, name).dtype.kind in "iub" else "text" for part in (before, more)}
        if len(kinds) > 1:
            raise DataError(
                f"{name} are numbers in one and text in the other of both sets of annotations; write both alike"
            )


def _with_what_items_have(both: Annotations, before: Annotations, more: Annotations) -> Annotations:
    """Return all annotations with the places in sequences, the features and the weights of both parts."""
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
    return both if weights is None else both.with_weights(weights[0].reindex(pd.Index(both.items), fill_value=1.0))


@checked
def as_criteria(before: Annotations) -> dict[str, Any]:
    """Return arguments of :meth:`Annotations.from_frame`, by which further grades are by criteria where the earlier ones are."""
    if before.criteria is None:
        return {}
    options = {"criterion": before.criterion_column, "kind": "ordinal"}
    words = any(isinstance(label, str) for label in before.labels.tolist())  # which have no order of their own
    return options | ({"labels": before.labels.tolist()} if words else {})


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
    if repeats == "last":
        end = _replaced(old, more, pair, len(pairs))
    else:
        end = "each counts separately; if these are the same annotations again, drop them, or use repeats='last' (--repeats last)"
    sentence = f"{message}: {end}"
    warn(sentence)
    return [sentence]


def _replaced(old: pd.DataFrame, more: pd.DataFrame, pair: list[str], count: int) -> str:
    """Return what becomes of ``count`` further annotations of pairs that ``old`` has, where the last of each pair is kept.

    The last is the latest where all times of a pair are known, as in :func:`crowdppl.data.table.repeats.repeated`.
    """
    time = "timestamp"
    left_out = 0
    if time in old and time in more:
        # With an unknown time, infinity here, the order of both parts decides.
        parts = [part[[*pair, time]].fillna({time: np.inf}) for part in (old, more)]
        earlier, later = (part.groupby(pair, sort=False, as_index=False)[time].max() for part in parts)
        both = parts[1].merge(earlier, on=pair, suffixes=("", " before")).merge(later, on=pair, suffixes=("", " last"))
        before = both[f"{time} before"]
        left_out = int(((both[f"{time} last"] < before) & np.isfinite(before)).sum())
    if not left_out:
        return "each replaces the earlier one"
    some = f"{left_out:,} {'is' if left_out == 1 else 'are'} left out, as the other is later by its time"
    rest = "" if left_out == count else ", and each other replaces the earlier one"
    return f"{some}{rest}"


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
