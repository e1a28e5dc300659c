"""Tables of sets of labels: the set of each task, and how each worker chooses each label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import class_columns
from crowdppl.data.table.structured import EMPTY, SEPARATOR
from crowdppl.errors import DataError
from crowdppl.posterior import viewed
from crowdppl.posterior.measures import interval
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

# Probabilities of choosing a label that is in the set, and one that is not.
RATES = ("sensitivity", "false_positive_rate")


def has_sets(posterior: PosteriorVariables) -> bool:
    """Tell whether the annotations are sets of labels."""
    return "sets" in posterior._known.children


def has_rates(posterior: PosteriorVariables) -> bool:
    """Tell whether the model has rates by label."""
    return all(viewed.has(posterior.tree, name, "worker", "set_label") for name in RATES)


def _require(posterior: PosteriorVariables) -> None:
    if not has_sets(posterior):
        raise DataError("the labels of this result are no sets; read the annotations with several='sets'")


def labels(posterior: PosteriorVariables) -> Array:
    """Return the labels that sets are made of, ``(L,)``."""
    return np.asarray(posterior._known["constant_data"]["set_label"].to_numpy(), dtype=object)


def size(posterior: PosteriorVariables) -> int:
    """Return how many items one annotation of a worker is about: the labels of a set, or one."""
    return len(labels(posterior)) if has_sets(posterior) else 1


def table(posterior: PosteriorVariables) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.sets` describes."""
    _require(posterior)
    names = labels(posterior)
    each = posterior.probability()[:, 1].reshape(-1, len(names))  # (G, L)
    task = posterior._values("constant_data", "sequence_index").reshape(-1, len(names))[:, 0]
    number = posterior.annotations_per_item().reshape(-1, len(names))[:, 0]
    rows = pd.DataFrame(
        {
            posterior.item_column: posterior._values("constant_data", "sequence")[task],
            "labels": [SEPARATOR.join(names[own].tolist()) or EMPTY for own in each > 0.5],
            "probability": posterior._values("sets", "probability")[task],
            "annotations": number,
        }
    )
    probabilities = pd.DataFrame(each, columns=class_columns("p_", names.tolist()))
    return pd.concat([rows, probabilities], axis=1)


def shares(posterior: PosteriorVariables) -> pd.DataFrame:
    """Return a table with a row for each label: the share of tasks whose set has it, and of annotations that chose it."""
    _require(posterior)
    names = labels(posterior)
    each = posterior.probability()[:, 1].reshape(-1, len(names))
    answers = len(posterior.annotation_index()[0]) // len(names)
    chosen = posterior._values("constant_data", "set_label_votes") / max(1, answers)
    return pd.DataFrame({"label": names, "share": each.mean(0), "chosen": chosen})


def decisions(posterior: PosteriorVariables) -> pd.DataFrame:
    """Return a table with a row for each label: how all workers together choose it, by the probabilities of the true sets.

    Columns: ``label``; ``sensitivity`` and ``false_positive_rate``, the share of the annotations with it where it is in the set,
    and where it is not; ``wrong``, the expected number of wrong decisions.
    """
    _require(posterior)
    names, each = labels(posterior), posterior.probability()[:, 1]
    item, _, label = (np.asarray(part) for part in posterior.annotation_index())
    number, inside = item % len(names), each[item]
    there, chosen_there, outside, chosen_outside = (
        np.bincount(number, weights=weight, minlength=len(names))
        for weight in (inside, inside * label, 1 - inside, (1 - inside) * label)
    )
    shares = (
        np.divide(part, total, out=np.full(len(names), np.nan), where=total > 0)
        for part, total in ((chosen_there, there), (chosen_outside, outside))
    )
    out = dict(zip(RATES, shares, strict=True))
    return pd.DataFrame({"label": names, **out, "wrong": there - chosen_there + chosen_outside})


def rates(posterior: PosteriorVariables, level: float | None) -> pd.DataFrame:
    """Return the table that :meth:`crowdppl.Posterior.label_rates` describes."""
    _require(posterior)
    if not has_rates(posterior):
        raise DataError(f"this model has no rates by label; fit model={viewed.models_with(*RATES)}")
    names, workers = labels(posterior), posterior.worker_names()
    item, worker, label = (np.asarray(part) for part in posterior.annotation_index())
    place = worker * len(names) + item % len(names)
    cells = len(workers) * len(names)
    out: dict[str, Any] = {
        "worker": np.repeat(workers, len(names)),
        "label": np.tile(names, len(workers)),
        "annotations": np.bincount(place, minlength=cells),
        "chosen": np.bincount(place, weights=label, minlength=cells).astype(np.int64),
    }
    for name in RATES:
        ends = interval(posterior.draws(name), level)
        out |= {name + end: value.reshape(-1) for end, value in zip(("", "_low", "_high"), ends, strict=True)}
    return pd.DataFrame(out)
