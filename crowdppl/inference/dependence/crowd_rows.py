"""Workers of independent errors start as average members of the crowd, where nobody has chosen a prior.

The prior of Dawid and Skene's model (:mod:`crowdppl.models.dawid_skene`) is a flat Dirichlet distribution of each row and a few
pseudo-annotations. The flat part does not move the mode, which EM finds. It moves the mean of draws around the mode, towards
``1 / K``, and the more the more classes there are: the mean accuracy of the prior is .71 with two classes, .56 with four and .38
with ten. Five workers of .85, four classes and 75 items of each are then said to have .82, and 89% intervals of the accuracy hold
.85 for three workers of five (docs/benchmarks/textbook-crowds.md).

So these draws take the rows of the crowd as their prior, worth ``START`` annotations in all, as workers do where errors are
correlated (:func:`crowdppl.inference.dependence.design_effect.quality`): empirical Bayes. They are shared by the classes as the
items are. As many of each class would be forty in all with ten classes, and describe a poor worker of thirty annotations as a
good one. A worker of many annotations is described by these, one of few by the crowd, unless the annotations are rather those of
somebody who guesses: then by equal shares of all labels, worth as much. Ten classes and a crowd of .9, thirty guesses: with the
rows of the crowd the accuracy of .10 is said to be .24, with either .10. The point, and with it the labels, is the model's.

Workers who are described by one accuracy start likewise, with that of the crowd.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.dependence.design_effect import START
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.em import swept
from crowdppl.model.base import AnnotationModel, Parameters
from crowdppl.model.bound import BoundModel, bind
from crowdppl.model.priors import symmetric_confusion
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.one_coin import OneCoin

# Share of a row that is spread over all labels, and the smallest pseudo-count: a Dirichlet distribution needs some of each.
EVEN, LEAST = 0.01, 1e-6
# Probability, before any label, that a worker guesses, and the largest one that is not worth a second sweep.
GUESSING, NEGLIGIBLE = 0.1, 1e-3
STARTED = (
    f" Not by the prior: every worker starts as an average member of the crowd, or as one who guesses where the labels say so, "
    f"worth {START:g} annotations in all."
)


def starting_from_the_crowd(draws: Draws, data: Annotations) -> Draws:
    """Return draws by EM with what is known of the crowd as the prior of each worker.

    Args:
        draws: of Dawid and Skene's model, or of that of one coin, as :func:`crowdppl.inference.engines.em.em` returns them;
            returned as they are where they have been drawn already, do not come from a sweep, or know a single class.
        data: the annotations, in the layout of the model.
    """
    if draws.later is None or draws.point is None or data.K < 2:
        return draws
    number = data.annotations_per_worker.to(data.dtype)
    weight = number / number.sum().clamp(min=1)
    if "accuracy" in draws.point:
        mean = float((weight * draws.point["accuracy"]).sum())
        rows = symmetric_confusion(torch.full((1,), (1 - EVEN) * mean + EVEN / data.K, dtype=data.dtype), data.K)
        models = _coin(float(rows[0, 0])), _coin(1 / data.K)
    else:
        rows = (weight[:, None, None] * draws.point["confusion"]).sum(0)  # (K, K)
        rows = (1 - EVEN) * rows + EVEN / data.K
        prior = (START * draws.point["prevalence"][:, None] * rows).clamp(min=LEAST)
        models = _matrices(prior), _matrices((prior.sum(-1, keepdim=True) / data.K).expand_as(prior))
    bound = bind(models[0], data), bind(models[1], data)
    chance = guessing(expected_counts(bound[0], data, draws.point), rows)
    later = partial(_drawn, bound, chance, data, draws.point, draws.count)
    return replace(draws, later=later, interval_method=draws.interval_method + STARTED)


def _matrices(prior: Tensor) -> AnnotationModel:
    return DawidSkene(concentration=tuple(map(tuple, prior.tolist())))


def _coin(accuracy: float) -> AnnotationModel:
    """Return the model of one coin with a prior that is worth ``START`` annotations, as far as its flat part leaves it."""
    return OneCoin(prior_correct=max(START * accuracy - 1, 0.0), prior_incorrect=max(START * (1 - accuracy) - 1, 0.0))


def expected_counts(model: BoundModel, data: Annotations, point: Parameters) -> Tensor:
    """Return the expected numbers of each worker's labels by true class, ``(J, K, K)``."""
    truth = model.learned_from(model.item_log_joint(point, data), data).softmax(-1)  # (N, K)
    return model.statistics(truth, data).label_counts


def guessing(counts: Tensor, rows: Tensor) -> Tensor:
    """Return the probability that each worker guesses, ``(J,)``, rather than being an average member of the crowd.

    Of two workers, one with the rows of the crowd and one who gives every label equally often. With the few pseudo-counts of
    both priors in place of their means, the comparison would be one of their widths.

    Args:
        counts: labels by true class, ``(J, K, K)``.
        rows: of the crowd, ``(K, K)``, positive.
    """
    less = -(counts * (rows * len(rows)).log()).sum((-1, -2))
    return (math.log(GUESSING / (1 - GUESSING)) + less).sigmoid()


def _drawn(
    models: tuple[BoundModel, BoundModel], chance: Tensor, data: Annotations, point: Parameters, count: int, passes: Any
) -> Parameters:
    """Draw the parameters by a sweep: of each worker by the second model with the given chance ``(J,)``, else by the first."""
    drawn = swept(models[0], data, point, count, passes)
    if float(chance.max()) < NEGLIGIBLE:
        return drawn
    other = swept(models[1], data, point, count, passes)
    site = "accuracy" if "accuracy" in other else "confusion"  # (1, count, J, ...)
    guesses = torch.rand(other[site].shape[:3], dtype=data.dtype, device=data.device) < chance
    apart = guesses.reshape(guesses.shape + (1,) * (other[site].dim() - 3))
    drawn[site] = torch.where(apart, other[site], drawn[site])
    return drawn
