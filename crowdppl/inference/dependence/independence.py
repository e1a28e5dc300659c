"""Whether errors on one item are correlated at all: the default averages over both answers.

Errors are correlated in nearly all public crowds, and the default allows for it
(:mod:`crowdppl.inference.dependence.design_effect`). Where five people label everything by themselves, errors may be independent;
the default then says too little of them. Labels tell both apart by how the agreement of workers varies from item to item:
correlated errors make it vary more than Dawid and Skene's model explains. The statistic is the mean over items of ``a_i^2 /
p_i``, with ``a_i`` pairs of equal labels of ``p_i`` pairs, compared with its mean and standard deviation over data sets simulated
from the fitted model (a posterior predictive check at the mode), as ``z``.

With independent errors ``z`` is near 0 wherever the data determine the model, or below: matrices of few annotations explain more
than there is, so that simulated agreement varies more than that of the data. Its distribution is half a normal one on either
side, with two standard deviations. In public crowds ``z`` grows with the square root of the number of items, and is near 0 in
some: a choice by ``z`` would be wrong in a third of small crowds. So the result is a mixture: a share of the draws, the
posterior probability of independence, comes from Dawid and Skene's model, whose workers start
as average members of the crowd (:mod:`crowdppl.inference.dependence.crowd_rows`). Crowds of many classes, or of few labels a
worker, are compared with a simpler model: :mod:`crowdppl.inference.dependence.coinciding_errors`.

    p(independent | z)  proportional to  SHARE N(z; 0, NULL^2) above 0 and, as far, N(z; 0, BELOW^2) below,
    p(correlated | z)  proportional to  (1 - SHARE) N(z; MEAN sqrt(N), 1 + SPREAD^2 N)

The constants are those of public crowds, and of simulated independent ones (docs/benchmarks/textbook-crowds.md). Known true
labels update the probability by what each answer makes of them.

*One class.* Where workers hardly agree beyond chance, Dawid and Skene's model may find one class in nearly all items. Either it
is that of nearly all, which workers of about equal accuracy give about equally often; or workers know little and answer by
preferences of their own, which differ. Nothing else in the labels tells both apart: by everything but how often workers give the
class, public crowds of such workers look like simulated ones with a rare class. Where they give it equally often, the first has
about a third of the probability: half of it gained a little more with a rare class, and lost twice as much where workers share
one preference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import chdtri
from torch import Tensor

from crowdppl.data.alerts import ONE_CLASS_OR_GUESSES
from crowdppl.data.annotations import Annotations
from crowdppl.inference.backends import choose
from crowdppl.inference.dependence import coinciding_errors
from crowdppl.inference.dependence.crowd_rows import starting_from_the_crowd
from crowdppl.inference.dependence.known_truths import left_out_score
from crowdppl.inference.draws import Draws
from crowdppl.inference.engines.em import em
from crowdppl.inference.evaluate import EvaluatedDraws, evaluate
from crowdppl.inference.options import completed
from crowdppl.isolation import random_state, set_random_state
from crowdppl.model.bound import BoundModel, bind
from crowdppl.model.weighted_votes import mostly_adversarial
from crowdppl.models.dawid_skene import DawidSkene
from crowdppl.models.one_coin import OneCoin

Array = npt.NDArray[Any]
# Prior probability of independent errors.
SHARE = 0.28
# Standard deviations of z with independent errors, above 0 and below, and mean and standard deviation over public crowds for each
# root of the number of items with several annotations.
NULL, BELOW, MEAN, SPREAD = 0.4, 0.8, 0.12, 0.16
# Fewest items with several annotations, and annotations for each free number of the workers' matrices: with fewer of these the
# model explains what is not there.
FEWEST, LEAST_EACH = 100, 15.0
# Fewest annotations of an item, in the mean; and the largest share of items whose label both models may find different: above it
# Dawid and Skene's model has found something else, and not the same with more certainty; unless its labels are nearly those of
# the votes: to them go at most so much less of each item's votes. Item effects may then have explained a rare class away.
EACH_ITEM, APART, FROM_VOTES = 3.0, 0.08, 0.035
# One class has at least this share of the items; in the mean of workers, the log odds of giving it are at least so high, and
# their standard deviation is at most so large, except with this probability; and what is left of the probability of independence.
NEARLY_ALL, OFTEN, EQUALLY, CHANCE, ONE_CLASS = 0.9, 0.25, 0.75, 0.1, 0.35
# Most annotations, and most classes, for which data sets are simulated, and how many are.
MOST, CLASSES, SIMULATED = 100_000, 10, 40
# Largest log odds that known true labels leave: probability .99.
SURE = 4.6
# Probability below which both answers are not worth a second model.
NEGLIGIBLE = 0.02
# Probability from which, and up to which, it matters to the user that nearly all items may be of one class.
IN_DOUBT = 0.1, 0.9

# In most crowds z is far from 0. After so many E steps, with so few simulated data sets, the rest follows only where so much less
# of z could still matter: z changes little from then on.
BEGUN, FIRST, ROUGHLY = 40, 12, 0.6


@dataclass(eq=False)
class Independence:
    """A model of independent errors beside the default one.

    Attributes:
        probability: that errors are independent.
        z: how much more agreement varies from item to item than the model explains, in standard deviations.
        model: Dawid and Skene's, or that of one coin, of the data.
        draws: its draws, still to be drawn.
        truth: probabilities of the classes by it, ``(N, K)``.
        one_class: name of the class of nearly all items by it, where the default gives many of them other labels; else ``None``.
    """

    probability: float
    z: float
    model: BoundModel
    draws: Draws
    truth: Tensor
    one_class: Any = None

    @property
    def in_doubt(self) -> bool:
        """Whether nearly all items may be of one class, and may as well not."""
        return self.one_class is not None and IN_DOUBT[0] <= self.probability <= IN_DOUBT[1]

    def mix(self, probability: Tensor) -> Tensor:
        """Return class probabilities ``(N, K)`` averaged over both answers."""
        return (1 - self.probability) * probability + self.probability * self.truth

    def mix_draws(self, evaluated: EvaluatedDraws, data: Annotations) -> None:
        """Replace a share of the draws that are reported, at random, by draws of independent errors."""
        draws = replace(self.draws).drawn()
        other = evaluate(self.model, data, draws)
        if evaluated.effect is not None and evaluated.effect.likelihood is not None:
            odds = left_out_score(self.model, data, draws) - evaluated.effect.log_score
            odds += math.log(self.probability / (1 - self.probability))
            self.probability = 1 / (1 + math.exp(-min(max(odds, -SURE), SURE)))
        total = evaluated.lp.numel()
        chosen = torch.randperm(total, device="cpu")[: round(self.probability * total)].to(data.device)
        pairs = [(evaluated.truth, other.truth)]
        pairs += [(value, getattr(other, name)) for name, value in evaluated.calibrated.items()]
        for value, its in pairs:
            value.flatten(0, 1)[chosen] = its.flatten(0, 1)[chosen]
        if evaluated.rho is not None:
            evaluated.rho.flatten()[chosen] = 0.0
        if evaluated.lift is not None:
            evaluated.lift.flatten(0, 1)[chosen] = 1.0
        if evaluated.correct is not None and other.correct is not None:
            evaluated.correct[chosen.cpu()] = other.correct[chosen.cpu()]
        else:
            evaluated.correct = None
        evaluated.probability = self.mix(evaluated.probability)

    def say(self) -> str:
        """Return a sentence for the result."""
        z = round(self.z, 1) + 0.0  # no minus before a zero
        said = (
            f"Agreement varies from item to item as if errors were independent (z = {z:.1f}). They are with probability "
            f"{self.probability:.0%}, and this share of the draws comes from {self.model.name}."
        )
        if not self.in_doubt:
            return said
        one = f"By this model nearly all items are of class {self.one_class!r}"
        return f"{said} {one}; give the true labels of some items to find out."

    def warning(self) -> str:
        """Return a sentence on both answers, where nearly all items may be of one class."""
        return (
            f"{ONE_CLASS_OR_GUESSES}: with probability {self.probability:.0%} nearly all items are of class "
            f"{self.one_class!r} and the other labels are errors, else most workers know little of the items and other classes "
            f"are common; the class probabilities average over both, and the annotations do not decide; give the true labels of "
            f"some items"
        )


def independence(data: Annotations, probability: Tensor, count: int) -> Independence | None:
    """Fit a model of independent errors by EM, and return it where independence is probable enough to matter.

    It is Dawid and Skene's where the data determine the matrices of all workers, else that of one coin for each.

    Of the random streams nothing is used up.

    Args:
        data: the annotations.
        probability: of the classes by the default model, ``(N, K)``.
        count: number of draws to make later.
    """
    streams = random_state(data.device)
    try:
        if _told_apart(data):
            return _by_matrices(data, probability, count)
        return _by_one_number(data, probability, count)
    finally:
        set_random_state(streams, data.device)


def _by_matrices(data: Annotations, probability: Tensor, count: int) -> Independence | None:
    """Compare with Dawid and Skene's model."""
    model = bind(DawidSkene(), data)
    arranged, pairs = model.anchored(model.expand(data)), _several(data)
    draws = em(model, arranged, completed("em", {"num_samples": count, "max_iter": BEGUN}))
    assert draws.point is not None
    over = Overdispersion(data, draws.point)
    z = over.z(FIRST)
    if posterior_probability(ROUGHLY * z, pairs) < NEGLIGIBLE:
        return None
    if not draws.facts["converged"]:
        draws = em(model, arranged, completed("em", {"num_samples": count}))
        assert draws.point is not None
        over = Overdispersion(data, draws.point)
    z = over.z()
    independent = posterior_probability(z, pairs)
    if independent < NEGLIGIBLE:
        return None
    truth = _reported(model, data, draws)
    one_class = None
    if _contradicted(truth, probability, data):
        one_class = _one_class(truth, data)
        independent *= ONE_CLASS
        if one_class is None or independent < NEGLIGIBLE:
            return None
    draws = starting_from_the_crowd(replace(draws, passes=None), arranged)
    return Independence(independent, z, model, draws, truth, one_class)


def _by_one_number(data: Annotations, probability: Tensor, count: int) -> Independence | None:
    """Compare with the model of one coin: :mod:`crowdppl.inference.dependence.coinciding_errors`."""
    if not comparable(data) or not coinciding_errors.comparable(data):
        return None
    if coinciding_errors.many_coincide(data, probability):
        return None
    model = bind(OneCoin(), data)
    arranged, pairs = model.anchored(model.expand(data)), _several(data)
    draws = em(model, arranged, completed("em", {"num_samples": count}))
    assert draws.point is not None
    scores = coinciding_errors.Coincidence(data, draws.point).scores()
    if not coinciding_errors.describes(data, draws.point, scores):
        return None
    odds = _log_odds(max(scores.z, 0.0), pairs)
    if not coinciding_errors.shows_hard_items(data):
        odds = min(odds, math.log(SHARE / (1 - SHARE)))
    independent = _expit(odds + coinciding_errors.log_odds(scores.errors, pairs))
    if independent < NEGLIGIBLE:
        return None
    truth = _reported(model, data, draws)
    if _contradicted(truth, probability, data):
        return None
    draws = starting_from_the_crowd(replace(draws, passes=None), arranged)
    return Independence(independent, scores.z, model, draws, truth)


def _several(data: Annotations) -> int:
    """Return the number of items with several annotations."""
    return int((data.annotations_per_item > 1).sum())


def _reported(model: BoundModel, data: Annotations, draws: Draws) -> Tensor:
    """Return probabilities of the classes at the point of an engine that maximises, ``(N, K)``."""
    assert draws.point is not None
    truth, _ = choose.items(model, model.expand(data), data, draws.passes).reported(draws.point, None)
    return truth


def _contradicted(truth: Tensor, probability: Tensor, data: Annotations) -> bool:
    """Tell whether the default and the annotations contradict the labels of Dawid and Skene's model.

    The default does if it gives many items other labels. The annotations do if the votes of items are mostly for other labels, or
    if most workers would be adversarial.

    Args:
        truth: probabilities of the classes by Dawid and Skene's model, ``(N, K)``.
        probability: of the classes by the default, ``(N, K)``.
        data: the annotations.
    """
    label = truth.argmax(-1)
    votes = data.majority()
    behind = votes.amax(-1) - votes.gather(-1, label.unsqueeze(-1)).squeeze(-1)
    if float((label != probability.argmax(-1)).double().mean()) <= APART:
        return False
    return float(behind.mean()) > FROM_VOTES or mostly_adversarial(data, truth)


def _one_class(truth: Tensor, data: Annotations) -> Any:
    """Return the name of the class of nearly all items by ``truth (N, K)``, if all workers give it about equally often.

    The standard deviation over workers of their log odds is compared with the upper end of its one-sided confidence interval. It
    contains the noise of few annotations, so that few workers, or few annotations, do not suffice.
    """
    items = truth.argmax(-1).bincount(minlength=data.K)
    if int(items.max()) < NEARLY_ALL * data.N or data.J < 3:
        return None
    number = data.annotations_per_worker.double()
    given = torch.bincount(data.worker, (data.label == items.argmax()).double(), minlength=data.J)
    odds = ((given + 0.5) / (number - given + 0.5)).log()[number > 0]
    widest = float(odds.std()) * math.sqrt((len(odds) - 1) / float(chdtri(len(odds) - 1, 1 - CHANCE)))
    equally = float(odds.mean()) >= OFTEN and widest <= EQUALLY
    return data.labels.tolist()[int(items.argmax())] if equally else None


def comparable(data: Annotations) -> bool:
    """Tell whether annotations of items are several, and plain ones of one process."""
    plain = data.weight is None and data.multiplicity is None and data.others is None
    apart = torch.distributed.is_available() and torch.distributed.is_initialized()
    return _several(data) >= FEWEST and plain and not apart and data.A >= EACH_ITEM * data.N


def _told_apart(data: Annotations) -> bool:
    """Tell whether the data determine the matrices of all workers, so that ``z`` says something."""
    if not comparable(data) or not 1 < data.K <= CLASSES or data.A > MOST:
        return False
    return data.A >= LEAST_EACH * data.J * data.K * (data.K - 1)


class Overdispersion:
    """``z`` of the data: of data sets simulated with a fixed seed from a point of Dawid and Skene's model.

    Args:
        data: the annotations.
        point: of the model's parameters.
    """

    def __init__(self, data: Annotations, point: dict[str, Tensor]):
        self.item, self.worker, self.label = (part.cpu().numpy() for part in (data.item, data.worker, data.label))
        self.N, self.K = data.N, data.K
        self.size = data.annotations_per_item.cpu().numpy()
        pairs = self.size.astype(float) * (self.size - 1.0) / 2
        self.some = pairs > 0
        self.pairs = pairs[self.some]
        # The ends of the shares of all labels but the last, (K-1, J K); in rows, which lie together in memory.
        ends = point["confusion"].double().cpu().numpy().cumsum(-1)[..., :-1].reshape(-1, data.K - 1)
        self.ends, self.shares = np.ascontiguousarray(ends.T), point["prevalence"].double().cpu().numpy()
        self.rng, self.simulated = np.random.default_rng(0), list[float]()

    def z(self, number: int = SIMULATED) -> float:
        """Return it from so many data sets, those of earlier calls among them."""
        row, drawn = self.worker * self.K, np.empty(len(self.item), dtype=self.item.dtype)
        while len(self.simulated) < number:
            truth = self.rng.choice(self.K, self.N, p=self.shares / self.shares.sum())
            chance, place = self.rng.random(len(self.item)), row + truth[self.item]
            drawn[:] = 0
            for end in self.ends:
                drawn += chance > end[place]
            self.simulated.append(self._statistic(drawn))
        spread = float(np.std(self.simulated))
        # Workers who never disagree, nor would: nothing varies.
        return 0.0 if spread < 1e-9 else (self._statistic(self.label) - float(np.mean(self.simulated))) / spread

    def _statistic(self, label: Array) -> float:
        """Return the mean of ``a_i^2 / p_i`` over items, for labels ``(A,)``."""
        count = np.bincount(self.item * self.K + label, minlength=self.N * self.K).reshape(self.N, self.K)
        equal = (np.einsum("nk,nk->n", count, count) - self.size) / 2
        return float((equal[self.some] ** 2 / self.pairs).mean())


def posterior_probability(z: float, items: int) -> float:
    """Return the probability of independent errors given ``z``, of so many items with several annotations."""
    return _expit(_log_odds(z, items))


def _log_odds(z: float, items: int) -> float:
    """Return the log odds of the same."""
    spread = math.sqrt(1 + SPREAD**2 * items)
    null = -0.5 * (z / (NULL if z > 0 else BELOW)) ** 2 - math.log((NULL + BELOW) / 2)
    correlated = -0.5 * ((z - MEAN * math.sqrt(items)) / spread) ** 2 - math.log(spread)
    return math.log(SHARE / (1 - SHARE)) + null - correlated


def _expit(odds: float) -> float:
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0
