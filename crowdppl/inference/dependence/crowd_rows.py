"""Workers of independent errors start as average members of the crowd, where nobody has chosen a prior.

The prior of Dawid and Skene's model (:mod:`crowdppl.models.dawid_skene`) is a flat Dirichlet distribution of each row and a few
pseudo-annotations. The flat part does not move the mode, which EM finds. It moves the mean of draws around the mode, towards
``1 / K``, and the more the more classes there are: the mean accuracy of the prior is .71 with two classes, .56 with four and .38
with ten. Five workers of .85, four classes and 75 items of each are then said to have .82, and 89% intervals of the accuracy hold
.85 for three workers of five (docs/benchmarks/textbook-crowds.md).

So these draws take the rows of the crowd as their prior, worth ``START`` annotations in all, as workers do where errors are
correlated (:func:`crowdppl.inference.dependence.design_effect.quality`): empirical Bayes. They are shared by the classes as the
items are. As many of each class would be forty in all with ten classes, and describe a poor worker of thirty annotations as a
good one. A worker of many annotations is described by these, one of few by the crowd. The point, and with it the labels, is the
model's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from crowdppl.data.annotations import Annotations
from crowdppl.inference.dependence.design_effect import START
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.em import swept
from crowdppl.model.bound import BoundModel, bind
from crowdppl.models.dawid_skene import DawidSkene

# Share of a row that is spread over all labels, and the smallest pseudo-count: a Dirichlet distribution needs some of each.
EVEN, LEAST = 0.01, 1e-6
STARTED = (
    f" Not by the prior: every worker starts as an average member of the crowd, worth {START:g} annotations in all."
)


def starting_from_the_crowd(draws: Draws, data: Annotations) -> Draws:
    """Return draws by EM of Dawid and Skene's model with the crowd's rows as the prior of each worker's.

    Args:
        draws: of that model, as :func:`crowdppl.inference.engines.em.em` returns them; returned as they are where they have been
            drawn already, do not come from a sweep, or know a single class.
        data: the annotations, in the layout of the model.
    """
    if draws.later is None or draws.point is None or data.K < 2:
        return draws
    number = data.annotations_per_worker.to(data.dtype)
    rows = (number[:, None, None] * draws.point["confusion"]).sum(0) / number.sum().clamp(min=1)  # (K, K)
    rows = (1 - EVEN) * rows + EVEN / data.K
    prior = (START * draws.point["prevalence"][:, None] * rows).clamp(min=LEAST)
    model: BoundModel = bind(DawidSkene(concentration=tuple(map(tuple, prior.tolist()))), data)
    later = partial(swept, model, data, draws.point, draws.count)
    return replace(draws, later=later, interval_method=draws.interval_method + STARTED)
