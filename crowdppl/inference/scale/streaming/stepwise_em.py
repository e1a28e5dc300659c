"""Stepwise EM and stochastic variational Bayes: the sums over items as a running average over batches.

O. Cappe and E. Moulines (2009). On-line expectation-maximization algorithm for latent data models. JRSS B 71(3), 593-613;
P. Liang and D. Klein (2009). Online EM for unsupervised models. NAACL. M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley (2013).
Stochastic variational inference. JMLR 14, 1303-1347: there the average of the sums, with the prior added, is the natural
parameter of the approximation, and a step of the average is one along the natural gradient. What follows from the sums is all
that the two differ in.

Each batch's sums are scaled up to all items and averaged with weights ``(t + 2) ** -a`` for the ``t``-th batch, where ``a`` is
the step size exponent. One such pass has the effect of several of plain EM, and leaves the noise of its last batches, which plain
passes then remove.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends.sums import sums_over
from crowdppl.inference.scale.streaming.dataset import Stored
from crowdppl.kernels.statistics import Statistics
from crowdppl.model.base import Parameters
from crowdppl.model.bound import BoundModel


class Point(NamedTuple):
    """The arguments of an E step.

    Attributes:
        table: ``p(label | state, worker)``, or what stands for it, ``(J, S, K)``.
        prior: of the states, ``(S,)``.
        parameters: by site.
        penalty: log prior of the parameters, or minus the divergence from it: what the objective adds to the log-likelihood.
    """

    table: Tensor
    prior: Tensor
    parameters: Parameters
    penalty: float


class Learned(NamedTuple):
    """The result of the passes, with the sums that led to it, and the objective in each but the first."""

    point: Point
    sums: Statistics
    trace: list[float]


Step = Callable[[BoundModel, Statistics, Annotations, Point | None], Point]


def maximised(model: BoundModel, sums: Statistics, sizes: Annotations, before: Point | None) -> Point:
    """Return the M step of EM: the parameters' mode given the sums."""
    assert model.conjugacy is not None
    model.conjugacy.require_mode()
    parameters = model.conjugacy.m_step(sums, None if before is None else before.parameters)
    return Point(*model.tables(parameters, sizes), parameters, float(model.log_prior(parameters, sizes)))


def averaged(model: BoundModel, sums: Statistics, sizes: Annotations, before: Point | None) -> Point:
    """Return the same of mean-field variational Bayes: the parameters' conditional posterior given the sums, in expectation."""
    assert model.conjugacy is not None
    expected = model.conjugacy.expect(sums)
    return Point(expected.confusion, expected.truth, expected.mean, -float(expected.divergence))


def learn(
    model: BoundModel,
    source: Stored,
    step: Step,
    passes: int,
    step_size_exponent: float,
    on_batch: Callable[[int], None],
) -> Learned:
    """Go through the data ``passes`` times.

    Args:
        model: all of whose sites are conjugate.
        source: the data.
        step: :func:`maximised` or :func:`averaged`.
        passes: the first with a running average, the others with the sums of all batches.
        step_size_exponent: ``a`` in the weight ``(t + 2) ** -a`` of the ``t``-th batch.
        on_batch: called with the number of annotations of each batch once it is done.
    """
    sizes = source.empty()
    average: Statistics | None = None
    point: Point | None = None
    trace: list[float] = []
    t = 0
    for number in range(passes):
        total = 0.0
        whole: Statistics | None = None
        for batch in source.batches():
            sums = _sums(model, point, batch)
            total += float(sums.log_likelihood)
            if number > 0:
                whole = sums if whole is None else _added(whole, sums)
            else:
                scaled = _scaled(sums, source.items / batch.N)
                average = scaled if average is None else _mixed(average, scaled, (t + 2.0) ** -step_size_exponent)
                point = step(model, _copied(average), sizes, point)
            t += 1
            on_batch(batch.A)
        assert point is not None
        if whole is not None:
            trace.append(total + point.penalty)
            average = whole
            point = step(model, _copied(whole), sizes, point)
    assert point is not None
    assert average is not None
    return Learned(point, average, trace)


def responsibilities(point: Point, batch: Annotations) -> Tensor:
    """Return the probability of each state for each item, ``(N, S)``."""
    return sums_over(batch, len(point.prior)).responsibilities(point.table, point.prior)


def _sums(model: BoundModel, point: Point | None, batch: Annotations) -> Statistics:
    """Return the sums of a batch; before the first step, those of a majority vote."""
    sums = sums_over(batch, batch.K)
    return sums.given(model.initial(batch)) if point is None else sums.expect(point.table, point.prior)


def _mixed(average: Statistics, batch: Statistics, weight: float) -> Statistics:
    items = average.item_counts.lerp(batch.item_counts, weight)
    return Statistics(batch.log_likelihood, items, average.label_counts.lerp(batch.label_counts, weight))


def _scaled(sums: Statistics, factor: float) -> Statistics:
    return Statistics(sums.log_likelihood, sums.item_counts * factor, sums.label_counts * factor)


def _added(one: Statistics, other: Statistics) -> Statistics:
    likelihood = one.log_likelihood + other.log_likelihood
    return Statistics(likelihood, one.item_counts + other.item_counts, one.label_counts + other.label_counts)


def _copied(sums: Statistics) -> Statistics:
    """Return memory that a step may keep."""
    return Statistics(sums.log_likelihood.clone(), sums.item_counts.clone(), sums.label_counts.clone())
