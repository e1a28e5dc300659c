"""How often workers give labels that are never a true label, such as "cannot tell", by true label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl.data.table.identifiers import class_columns
from crowdppl.errors import DataError
from crowdppl.posterior.measures import ENDS, interval
from crowdppl.posterior.variables import PosteriorVariables

Array = npt.NDArray[Any]

SITE = "other_rate"
# Classes that a sentence names.
SHOWN = 8


def has_other_labels(posterior: PosteriorVariables) -> bool:
    """Tell whether the annotations had labels that are never a true label."""
    return SITE in posterior.tree["posterior"].data_vars


def names(posterior: PosteriorVariables) -> Array:
    """Return the names of these labels, ``(O,)``, of the type that classes have: the tree holds them as text."""
    written = posterior.tree["posterior"]["answer"].to_numpy()[1:]
    return written.astype(posterior.labels.dtype) if posterior.labels.dtype.kind in "iuf" else written


def counts(posterior: PosteriorVariables) -> Array:
    """Return how many such labels each worker gave, ``(J,)``."""
    worker = posterior.tree["constant_data"]["other_worker"].to_numpy()
    return np.bincount(worker, minlength=len(posterior.worker_names()))


def columns(posterior: PosteriorVariables, level: float) -> dict[str, Array]:
    """Return columns of the table of workers, ``(J,)`` each.

    ``other_labels``, how many such labels a worker gave; ``other_rate``, the share among answers to items of the prevalence, with
    ends; and the same by true class.
    """
    rates = 1 - posterior.draws(SITE)[..., 0]  # (S, J, K)
    prevalence = posterior.draws("prevalence")  # (S, K)
    out: dict[str, Array] = {"other_labels": counts(posterior)}
    parts = {SITE: np.einsum("sjk,sk->sj", rates, prevalence)}
    by_class = class_columns(f"{SITE}_of_", posterior.labels.tolist())
    parts |= {name: rates[..., k] for k, name in enumerate(by_class)}
    for name, draws in parts.items():
        out |= {name + end: value for end, value in zip(ENDS, interval(draws, level), strict=True)}
    return out


def table(posterior: PosteriorVariables, level: float | None = None) -> pd.DataFrame:
    """Return a table with a row for each worker, true label and other label.

    Columns: ``worker``, ``truth``, ``label``, the other label, ``rate``, the probability that the worker answers an item of this
    true label with it, and the ends ``low`` and ``high`` of its interval.

    Raises:
        DataError: if no label was said to be one that is never a true label.
    """
    if not has_other_labels(posterior):
        raise DataError(
            "no label of this result is never a true label; read the annotations with other_labels=['cannot tell']"
        )
    draws = posterior.draws(SITE)[..., 1:]  # (S, J, K, O)
    mean, low, high = interval(draws, level)
    J, K, kinds = mean.shape
    return pd.DataFrame(
        {
            "worker": np.repeat(posterior.worker_names(), K * kinds),
            "truth": np.tile(np.repeat(posterior.labels, kinds), J),
            "label": np.tile(names(posterior), J * K),
            "rate": mean.reshape(-1),
            "low": low.reshape(-1),
            "high": high.reshape(-1),
        }
    )


def sentences(posterior: PosteriorVariables) -> list[str]:
    """Return a sentence for each label that is never a true label: how often workers give it, by true label."""
    if not has_other_labels(posterior):
        return []
    constant, labels = posterior.tree["constant_data"], posterior.tree["observed_data"]["labels"]
    given = np.bincount(constant["other_label"].to_numpy(), minlength=len(names(posterior)))
    share = given / (given.sum() + len(labels))
    answers = posterior.annotations_per_worker() + counts(posterior)
    each = np.einsum("j,sjko->ko", answers / answers.sum(), posterior.draws(SITE)[..., 1:]) / len(posterior.draws(SITE))
    return [
        f"{name!r} is {share[o]:.0%} of all answers: "
        + ", ".join(
            f"{each[k, o]:.0%} where the true label is {label}" for k, label in enumerate(posterior.labels[:SHOWN])
        )
        + (" ..." if len(posterior.labels) > SHOWN else "")
        for o, name in enumerate(names(posterior).tolist())
    ]
