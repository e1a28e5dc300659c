"""Infit and outfit of raters and items: mean squared standardised residuals of grades, beside those of replicated grades.

The residual of a grade is its distance from the mean that is predicted, in predicted standard deviations. *Outfit* is the mean of
the squared residuals, which single surprising grades raise, and *infit* their mean weighted by the predicted variances, which it
takes many to raise (B. D. Wright and G. N. Masters 1982, Rating scale analysis). As in Rasch measurement, grades are predicted
as if raters differed in severity alone: a rater whose grades follow the items more loosely than those of the crowd has mean
squares above 1, one who is more predictable, for instance a copyist, below 1. With the slopes that graded facets has for each
rater, these differences are part of the prediction, and mean squares say what is left.

Unlike in programs for Rasch models, a grade is predicted from the *other* grades of its item, by the distribution of the place of
the item given them. So no grade predicts itself, and mean squares are 1 in the mean however few grades an item has, where those
of such programs are below. What is usual is read off grades that are replicated from the same predictions, for each posterior
draw (A. Gelman, X.-L. Meng and H. Stern 1996, Posterior predictive assessment of model fitness via realized discrepancies,
Statistica Sinica 6).
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from crowdppl.arguments import Level, Seed, TwoOrMore, checked
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ModelError
from crowdppl.inference.backends import choose
from crowdppl.inference.predict import parameter_draws
from crowdppl.inference.sampling import sample_truth, sample_truth_from_probabilities
from crowdppl.inference.stored import counted
from crowdppl.isolation import isolated
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel
from crowdppl.models.graded_facets import GradedFacets
from crowdppl.posterior.intervals import equal_tailed
from crowdppl.posterior.measures import default_level
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.workers import grading

Array = npt.NDArray[Any]

# Annotations x states x grades in memory at a time.
AT_ONCE = 2**22
# Least predicted variance: that of a grade which is certain is 0.
LEAST = 1e-9


@checked
def mean_squares(
    posterior: Posterior,
    *,
    of: Literal["worker", "item"] = "worker",
    slopes: Literal["equal", "own"] = "equal",
    draws: TwoOrMore = 200,
    level: Level | None = None,
    seed: Seed = 0,
    data: Annotations | None = None,
    model: AnnotationModel | None = None,
) -> pd.DataFrame:
    """Return infit and outfit mean squares of raters, or of items, with what is usual under the model.

    Each grade is predicted from the others of its item. A mean square is 1 in the mean where the prediction holds. It is higher
    where grades are less predictable, as of a rater who is less careful than the others or an item that is seen in two ways, and
    lower where they are more predictable.

    Args:
        posterior: a result whose labels are grades, of a model that gives each rater a table of probabilities.
        of: what mean squares are those of.
        slopes: ``"equal"`` for predictions in which raters differ in severity alone, as in Rasch models, for results of graded
            facets; ``"own"`` for those of the model itself.
        draws: number of replicated data sets, at least; posterior draws are reused if there are fewer.
        level: probability of the usual range.
        seed: of the replicated grades.
        data: as in :func:`crowdppl.criticism.replicates`.
        model: as there.

    Returns:
        A row for each rater, or item, with annotations: its name; ``annotations``; ``infit``, posterior mean, with ``infit_from``
        and ``infit_to``, between which those of replicated grades are, and ``infit_p``, a two-sided posterior predictive p-value;
        likewise ``outfit``.

    Raises:
        DataError: where labels are not grades.
        ModelError: where the model has no tables of raters, items have weights, or slopes of another model are to be equal.
    """
    grade = torch.as_tensor(grading.values(posterior), dtype=torch.float64)
    level = default_level(level)
    fitted = counted(posterior, data)
    by_item = of == "item"
    code, size = (fitted.item, fitted.N) if by_item else (fitted.worker, fitted.J)
    pairs = []
    with isolated(seed, threads=choose.threads(fitted)), torch.no_grad():
        chosen = list(islice(parameter_draws(posterior, fitted, model, draws), draws))
        for bound, values in chosen:
            parameters, _ = bound.conditioned(values, fitted)
            table = _tables(bound, parameters, fitted, slopes)
            prior = bound.log_truth(parameters, fitted).expand(fitted.N, -1)
            clamp = bound.truths.clamp(parameters, fitted)
            prior = prior if clamp is None else prior + clamp
            joint = _joint(table, prior, fitted, fitted.label)
            given = _mean_squares(*residuals(table, joint, fitted, fitted.label, grade), code, size)
            for _ in range(-(-draws // len(chosen))):
                state = sample_truth(joint)
                label = sample_truth_from_probabilities(table[_rows(table, fitted), state[fitted.item]])
                again = residuals(table, _joint(table, prior, fitted, label), fitted, label, grade)
                pairs.append(torch.stack([given, _mean_squares(*again, code, size)]))
    drawn = torch.stack(pairs).numpy()  # (draws, 2, 2, size)
    count = np.bincount(code.numpy(), minlength=size)
    name = posterior.item_column if by_item else "worker"
    out: dict[str, Any] = {name: fitted.items if by_item else fitted.workers, "annotations": count}
    for at, kind in enumerate(("infit", "outfit")):
        own, usual = drawn[:, 0, at], drawn[:, 1, at]
        low, high = equal_tailed(usual, level)
        # The given grades count as one of the replicates, so that no p-value is 0. Equality is up to rounding.
        above, below = ((1 + (sign * (usual - own) >= -1e-12).sum(0)) / (1 + len(usual)) for sign in (1, -1))
        p = np.minimum(1, 2 * np.minimum(above, below))
        out |= {kind: own.mean(0), f"{kind}_from": low, f"{kind}_to": high, f"{kind}_p": p}
    return pd.DataFrame(out)[count > 0].reset_index(drop=True)


def _tables(bound: BoundModel, parameters: Parameters, data: Annotations, slopes: str) -> Tensor:
    """Return the probabilities of grades by rater and state, ``(J, S, K)``; ``(J*L, S, K)`` by raters and ``L`` criteria."""
    name = type(bound.model).__name__
    if not bound.provides("confusion") or bound.expand(data).parent_item is not None or bound.truths.coupled:
        raise ModelError(f"mean squares need a table of probabilities for each rater; {name} has none for these data")
    if data.weight is not None:
        raise ModelError("mean squares are of items without weights; fit the annotations without them")
    if slopes == "own" and isinstance(bound.model, GradedFacets):
        return bound.model.tables_by_criterion(parameters, data)
    if slopes == "own":
        return bound.model.confusion(parameters, data).expand(data.J, -1, -1)
    if not isinstance(bound.model, GradedFacets):
        raise ModelError(f"raters of {name} have no slopes that could be equal; pass slopes='own'")
    return bound.model.equal_raters(parameters, data)


def _rows(table: Tensor, data: Annotations) -> Tensor:
    """Return the table of each annotation, ``(A,)``: that of its rater, or of rater and criterion."""
    return data.worker if len(table) == data.J else data.rater_row


def _parts(table: Tensor, data: Annotations) -> tuple[Tensor, ...]:
    """Return codes of annotations, in parts that fit into memory together with their tables."""
    return torch.arange(data.A).split(max(1, AT_ONCE // table[0].numel()))


def _joint(table: Tensor, prior: Tensor, data: Annotations, label: Tensor) -> Tensor:
    """Return the log-probabilities of the states of each item and all of its grades, ``(N, S)``."""
    logs, joint, row = table.log(), prior.clone(), _rows(table, data)
    for part in _parts(table, data):
        joint.index_add_(0, data.item[part], logs[row[part], :, label[part]])
    return joint


def residuals(table: Tensor, joint: Tensor, data: Annotations, label: Tensor, grade: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distance of each grade from its mean given the other grades of the item, and its variance, ``(A,)`` each.

    Args:
        table: probabilities of grades by rater and state, ``(J, S, K)``.
        joint: log-probabilities of the states of each item and all of its grades, ``(N, S)``.
        data: items and raters.
        label: code of each grade, ``(A,)``.
        grade: number of each code, ``(K,)``.
    """
    logs, row = table.log(), _rows(table, data)
    off, variance = (torch.empty(data.A, dtype=table.dtype) for _ in range(2))
    for part in _parts(table, data):
        others = joint[data.item[part]] - logs[row[part], :, label[part]]  # (a, S)
        # A state that the grade itself excludes stays excluded.
        others = torch.where(others.isnan(), -torch.inf, others).softmax(-1)
        predicted = (others.unsqueeze(-2) @ table[row[part]]).squeeze(-2)  # (a, K)
        mean = predicted @ grade
        off[part] = grade[label[part]] - mean
        variance[part] = (predicted * (grade - mean.unsqueeze(-1)).square()).sum(-1)
    return off, variance.clamp(min=LEAST)


def _mean_squares(off: Tensor, variance: Tensor, code: Tensor, size: int) -> Tensor:
    """Return infit and outfit, ``(2, size)``."""

    def total(value: Tensor) -> Tensor:
        return torch.zeros(size, dtype=value.dtype).index_add_(0, code, value)

    count = total(torch.ones_like(off)).clamp(min=1)
    return torch.stack([total(off.square()) / total(variance).clamp(min=LEAST), total(off.square() / variance) / count])
