"""A verdict on each worker in one word, from quality and speed, and the recommended action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.arguments import checked
from crowdppl.posterior import sets
from crowdppl.posterior.measures import accuracy, beyond_chance
from crowdppl.posterior.variables import PosteriorVariables
from crowdppl.posterior.workers import grading
from crowdppl.posterior.workers.confusions import systematic_confusions
from crowdppl.posterior.workers.drift import FAST, relative_speed
from crowdppl.posterior.workers.others import class_by_others
from crowdppl.posterior.workers.spammers import hypothesis_probabilities

Array = npt.NDArray[Any]

# The verdicts, and the recommended action for each.
ACTIONS = {
    "reliable": "keep",
    "fair": "keep",
    "severe": "compare grades",
    "lenient": "compare grades",
    "weak": "retrain",
    "confuses": "retrain",
    "hasty": "slow down",
    "random": "exclude",
    "constant": "exclude",
    "adversarial": "ask why",
    "unknown": "wait",
}
VERDICTS = tuple(ACTIONS)
# Verdicts that need action, and those of workers whose labels are unreliable.
NOTABLE = ("adversarial", "random", "constant", "hasty", "confuses", "weak", "severe", "lenient")
UNRELIABLE = ("adversarial", "random", "constant", "hasty")

# Probabilities from which a worker is called random or constant (SPAMMER) or adversarial (ADVERSARY), and from which other
# statements count as certain (SURE). SPAMMER is below SURE since the posterior allows for correlated errors: some of its draws
# are nearly uninformative, and few random workers reach .95.
SPAMMER, ADVERSARY = 0.8, 2 / 3
SURE = 0.95
# A worker is also random if |kappa| is below MAX_KAPPA with probability MIN_PROBABILITY, and the hypothesis has at least
# probability PLAUSIBLE: many annotations without agreement beyond chance.
MAX_KAPPA, MIN_PROBABILITY, PLAUSIBLE = 0.1, 0.9, 1 / 3
# A random worker whose most frequent label has at least this share is constant.
CONSTANT_SHARE = 0.9
# A worker is behind by this difference in accuracy, or this share of the errors of a typical worker if that is more; and weak if
# this has probability WEAK.
BEHIND, BEHIND_ERRORS = 0.05, 0.2
WEAK = 0.8
# A worker is reliable only if not behind with at least this probability.
RELIABLE = 0.7
# Nor is one who is probably correct less often than this: in a crowd without skill everybody is typical.
RELIABLE_ACCURACY = 2 / 3
# Minimum number of annotations of the workers that define the typical worker. With fewer, a worker is called adversarial, random
# or constant only with at least probability FEW, and nothing else that needs action.
MIN_ANNOTATIONS, FEW = 10, 0.8
# A worker is reliable or fair only if the other workers' labels support this by GAIN: nats that they tell of the worker's labels.
GAIN = 1.5
# The labels of workers depend on each other if pairs of workers agree, or differ, more than by chance by so many standard errors;
# otherwise workers cannot be compared.
DEPENDENT = 2.5
# Pairs of annotations that are compared, at most, up to those of the last round.
MOST_PAIRS = 2_000_000


class QualityDraws(NamedTuple):
    """What verdicts need of the confusion matrices of some workers, for ``S`` draws.

    Attributes:
        accuracy: of each draw and worker, ``(S, j)``.
        kappa: agreement with the truth beyond chance, likewise.
        mean: confusion matrices averaged over draws, ``(j, K, K)``.
    """

    accuracy: Array
    kappa: Array
    mean: Array


def quality_draws(confusion: Array, prevalence: Array) -> QualityDraws:
    """Return what verdicts need, for confusion matrices ``(S, j, K, K)`` and prevalence ``(S, K)``."""
    correct = accuracy(confusion, prevalence)
    return QualityDraws(correct, beyond_chance(correct, confusion, prevalence), confusion.mean(0))


@checked
def verdicts(
    posterior: PosteriorVariables,
    probabilities: Annotated[Array, arguments.array("worker", "hypothesis")] | None = None,
) -> Array:
    """Return the verdict on each worker: ``(J,)``, each one of ``VERDICTS``.

    The first that applies:

    - ``unknown``: no annotation of an item that somebody else labelled, or whose true label was known; or a single class; or a
      worker who gives one class and abstains on others, as labelling functions do
      (:func:`crowdppl.data.worker_evidence.abstaining`); or, unless random or constant, where labels of workers do not
      depend on each other more than by chance;
    - ``adversarial``: avoids the correct label (probability 2/3), or is correct less often than by chance (probability .95) and
      not random;
    - ``random``, ``constant``: the labels do not depend on the truth (probability .8), or agree with it no more than by chance
      (kappa below .1 with probability .9); ``constant`` if one label has a share of at least .9;
    - ``hasty``: takes less than a third of the time of the others, and is probably less accurate than the typical worker;
    - ``confuses``: systematically gives one class another class's label, which other workers do not
      (:func:`crowdppl.posterior.workers.systematic_confusions`);
    - ``weak``: clearly less accurate than the typical worker, or more often wrong than correct;
    - ``unknown``: none of these, and not shown to be informed, usually for lack of annotations;
    - ``fair``: informed, but not shown to be as accurate as the typical worker, or probably correct in fewer than two of
      three annotations; ``reliable``: informed, as accurate as the typical worker, and not so often wrong.

    Workers with fewer than ten annotations are called adversarial, random or constant only with probability .8, and never hasty,
    weak or one who confuses. A worker is informed only if the labels of the others tell so, too: the worker's own labels, which
    the true labels follow, do not count.

    Where labels are grades, a grade next to the true one is no error. Then a rater is ``adversarial``, ``random``, ``constant``
    or ``weak`` by the correlation of the grades with the true ones, ``severe`` or ``lenient`` where they are lower or higher than
    the mean rater's by half a grade or more (probability .95), and ``unknown`` with few annotations
    (:mod:`crowdppl.posterior.workers.grading`).

    The typical worker is the median of those with at least ten annotations, without adversarial, random and constant ones. Less
    accurate means by .05, or by a fifth of the errors of the typical worker if that is more.

    Args:
        posterior: a result.
        probabilities: result of :func:`crowdppl.posterior.workers.hypothesis_probabilities`, ``(J, 3)``. Computed by default.
    """
    if posterior.graded:
        return grading.verdicts(posterior, _compared(posterior))
    probabilities = hypothesis_probabilities(posterior) if probabilities is None else probabilities
    return verdicts_of(posterior, probabilities, posterior.by_block(quality_draws))


def verdicts_of(posterior: PosteriorVariables, probabilities: Array, parts: Sequence[QualityDraws]) -> Array:
    """Return what :func:`verdicts` does where labels are classes, from the quality of workers in blocks, in their order."""
    from crowdppl.data.worker_evidence import abstaining  # here: imports torch, which the choice of items does without

    _, random, adversarial = probabilities.T
    given = posterior.label_counts_by_worker()  # (J, K)
    total = given.sum(1) // sets.size(posterior)  # a set is one answer
    beyond, quality = (
        np.concatenate(draws, axis=1) for draws in zip(*((p.kappa, p.accuracy) for p in parts), strict=True)
    )
    against = (beyond < 0).mean(0)
    avoids = (adversarial >= ADVERSARY) | ((against >= SURE) & (adversarial > 2 * random) & (adversarial > 1 - SURE))
    spams = random + adversarial >= SPAMMER
    spams |= ((np.abs(beyond) < MAX_KAPPA).mean(0) >= MIN_PROBABILITY) & (random >= PLAUSIBLE)
    avoids |= ((against >= SURE) & (random <= 1 - SURE)) | (spams & (adversarial > random))
    enough = total >= min(MIN_ANNOTATIONS, total.max(initial=1))
    shown = enough & ~avoids & ~spams
    shown = shown if shown.any() else np.ones_like(shown)
    typical = np.median(quality[:, shown], axis=1, keepdims=True)
    behind = (quality < typical - np.maximum(BEHIND, BEHIND_ERRORS * (1 - typical))).mean(0)
    below = (quality < typical).mean(0) + (quality == typical).mean(0) / 2
    wrong = (quality < 0.5).mean(0)
    confused = set(systematic_confusions(posterior)["worker"].tolist())
    confuses = np.array([name in confused for name in posterior.worker_names().tolist()], dtype=bool)

    few = total < MIN_ANNOTATIONS
    avoids &= ~few | (adversarial >= FEW)
    spams &= ~few | (random + adversarial >= FEW)
    verdict = np.full(len(total), "reliable", dtype=object)
    verdict[behind > 1 - RELIABLE] = "fair"
    verdict[(quality < RELIABLE_ACCURACY).mean(0) > 0.5] = "fair"
    informed = _told_by_others(posterior, given, np.concatenate([part.mean for part in parts])) >= GAIN
    verdict[(against > 1 - SURE) | (random + adversarial > 1 - SURE) | ~informed] = "unknown"
    verdict[enough & ((behind >= WEAK) | (wrong >= WEAK))] = "weak"
    verdict[confuses] = "confuses"
    verdict[(relative_speed(posterior) < FAST) & (below > 0.5)] = "hasty"
    verdict[few & np.isin(verdict, NOTABLE)] = "unknown"
    if not _dependent(posterior, given):
        avoids &= False
        verdict[:] = "unknown"
    verdict[spams] = np.where(given.max(1) >= CONSTANT_SHARE * total, "constant", "random")[spams]
    verdict[avoids] = "adversarial"
    sizes = len(posterior.items()), given.shape[0], given.shape[1]
    abstains = abstaining(*posterior.annotation_index(), sizes)
    verdict[(_compared(posterior) == 0) | (given.shape[1] < 2) | abstains] = "unknown"
    return verdict


def _told_by_others(posterior: PosteriorVariables, given: Array, confusion: Array) -> Array:
    """Return how much better the other workers' labels predict a worker's labels than their shares do, in nats: ``(J,)``.

    ``confusion (J, K, K)`` are the mean confusion matrices.
    """
    _, worker, label = posterior.annotation_index()
    _, fitting = class_by_others(posterior, confusion)
    share = (given + 0.5) / (given + 0.5).sum(1, keepdims=True)
    gain = np.log(np.maximum(fitting, np.finfo(float).tiny)) - np.log(share[worker, label])
    return np.bincount(worker, weights=gain, minlength=len(given))


def _dependent(posterior: PosteriorVariables, given: Array) -> bool:
    """Return whether the labels of workers depend on each other, or true labels are known.

    By chance two labels agree with the probability that the shares of both workers' labels give. The statistic is the sum over
    pairs of workers of the squared deviation from that in standard errors: somebody who always differs counts as one who agrees.

    Args:
        posterior: a result.
        given: how often each worker gave each label, ``(J, K)``.
    """
    if (posterior.known_truth() >= 0).any():
        return True
    item, worker, label = posterior.annotation_index()
    # A worker's repeats are no agreement of workers.
    _, first = np.unique(item * len(given) + worker, return_index=True)
    item, worker, label = item[first], worker[first], label[first]
    share = given / np.maximum(given.sum(1, keepdims=True), 1)
    begins = np.flatnonzero(np.r_[True, item[1:] != item[:-1]]) if len(item) else np.zeros(0, dtype=int)
    size = np.diff(np.r_[begins, len(item)])
    place = np.arange(len(item)) - np.repeat(begins, size)  # of each annotation among those of its item
    seen = 0
    sums: dict[str, list[Array]] = {"pair": [], "excess": [], "variance": []}
    for apart in range(1, int(size.max(initial=0))):
        later = np.flatnonzero(place >= apart)
        one, other = later - apart, later
        chance = (share[worker[one]] * share[worker[other]]).sum(1)
        sums["pair"].append(
            np.minimum(worker[one], worker[other]) * len(given) + np.maximum(worker[one], worker[other])
        )
        sums["excess"].append((label[one] == label[other]) - chance)
        sums["variance"].append(chance * (1 - chance))
        seen += len(later)
        if seen > MOST_PAIRS:
            break
    if not seen:
        return False
    codes, pair = np.unique(np.concatenate(sums["pair"]), return_inverse=True)
    variance = np.concatenate(sums["variance"])
    excess, spread = (
        np.bincount(pair, weights=np.concatenate(sums[n]), minlength=len(codes)) for n in ("excess", "variance")
    )
    fourth = np.bincount(pair, weights=variance * (1 - 6 * variance), minlength=len(codes))  # fourth cumulants
    some = spread > 0
    squared = excess[some] ** 2 / spread[some] - 1
    noise = np.sqrt((2 + fourth[some] / spread[some] ** 2).sum())
    overall = excess.sum() / np.sqrt(max(spread.sum(), np.finfo(float).tiny))
    return bool(max(squared.sum() / max(noise, np.finfo(float).tiny), overall) > DEPENDENT)


def _compared(posterior: PosteriorVariables) -> Array:
    """Return the number of annotations of each worker, ``(J,)``, of items with another worker's label or a known true label."""
    item, worker, _ = posterior.annotation_index()
    J = len(posterior.worker_names())
    N = len(posterior.items())
    first = np.zeros(N, dtype=worker.dtype)
    first[item[::-1]] = worker[::-1]
    several = np.bincount(item, weights=worker != first[item], minlength=N) > 0
    comparable = several | (posterior.known_truth() >= 0)
    return np.bincount(worker[comparable[item]], minlength=J)
