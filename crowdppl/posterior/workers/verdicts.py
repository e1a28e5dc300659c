"""What each worker is, in a word, and what to do about it: quality and speed weighed together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crowdppl import arguments
from crowdppl.posterior.measures import accuracy, kappa
from crowdppl.posterior.variables import PosteriorVariables
from crowdppl.posterior.workers.confusions import systematic_confusions
from crowdppl.posterior.workers.drift import FAST, relative_speed
from crowdppl.posterior.workers.spammers import hypothesis_probabilities

Array = npt.NDArray[Any]

# A word for each kind of worker, and what to do about one.
ACTIONS = {
    "reliable": "keep",
    "fair": "keep",
    "weak": "retrain",
    "confuses": "retrain",
    "hasty": "slow down",
    "random": "exclude",
    "constant": "exclude",
    "adversarial": "ask why",
    "unknown": "wait",
}
VERDICTS = tuple(ACTIONS)
# Verdicts that call for something to be done, and those whose labels are not made in earnest.
NOTABLE = ("adversarial", "random", "constant", "hasty", "confuses", "weak")
UNRELIABLE = ("adversarial", "random", "constant", "hasty")

# Probability from which on a worker is called random, constant or adversarial, and from which on everything else is taken as
# certain. The true labels drawn are those of a posterior that allows for correlated errors; in some of its draws hardly
# anything is known, and few random workers reach .95.
SPAMMER, ADVERSARY = 0.8, 2 / 3
SURE = 0.95
# A worker whose agreement beyond chance (kappa) is below this with this probability is random, too, where that has at least this
# probability by the labels themselves: after many annotations nothing has come of them.
NOTHING, NEAR, PLAUSIBLE = 0.1, 0.9, 1 / 3
# A random worker who gives one label at least this often is constant.
ALWAYS = 0.9
# A worker is behind the crowd by this much accuracy, or by this share of the errors that a typical worker makes, whichever is
# more; and is called weak where that has this probability.
BEHIND, BEHIND_ERRORS = 0.05, 0.2
WEAK = 0.8
# Nobody is called reliable who is behind the crowd with more than one minus this probability.
GREEN = 0.7
# Workers with at least this many annotations say what is typical.
ENOUGH = 10


@arguments.checked(posterior=arguments.posterior, probabilities=arguments.array("worker", "hypothesis"))
def verdicts(posterior: PosteriorVariables, probabilities: Array | None = None) -> Array:
    """Return the verdict on each worker, in a word: ``(J,)``, one of ``VERDICTS``.

    The first of these that applies:

    - ``unknown``: no annotation of an item that somebody else labelled, or whose true label was known; or a single class;
    - ``adversarial``: avoids the correct label (probability 2/3), or is correct less often than by chance (probability .95) and
      not random;
    - ``random``, ``constant``: the labels do not depend on the truth (probability .8), or agree with it no more than by chance
      (kappa below .1 with probability .9); spread, or one of them at least nine times in ten;
    - ``hasty``: takes less than a third of the time of the others, and is probably less accurate than the typical worker;
    - ``confuses``: systematically gives one class another class's label, which other workers do not
      (:func:`crowdppl.posterior.workers.systematic_confusions`);
    - ``weak``: clearly less accurate than the typical worker, or more often wrong than correct;
    - ``unknown``: none of these, and not shown to be informed either, mostly for want of annotations;
    - ``fair``: informed, but not shown to be as accurate as the typical worker; ``reliable``: informed, and as accurate.

    A typical worker is the median of those with at least ten annotations, without adversarial, random and constant ones. Less
    accurate means by .05, or by a fifth of the errors that the typical worker makes where that is more.

    Args:
        posterior: a result.
        probabilities: of :func:`crowdppl.posterior.workers.hypothesis_probabilities`, ``(J, 3)``, where at hand.
    """
    _, random, adversarial = (hypothesis_probabilities(posterior) if probabilities is None else probabilities).T
    given = posterior.label_counts_by_worker()  # (J, K)
    total = given.sum(1)
    parts = [(kappa(c, p), accuracy(c, p)) for _, c, p in posterior.worker_blocks()]
    beyond, quality = (np.concatenate([part[n] for part in parts], axis=1) for n in (0, 1))  # each (S, J)
    against = (beyond < 0).mean(0)
    avoids = (adversarial >= ADVERSARY) | ((against >= SURE) & (adversarial > 2 * random) & (adversarial > 1 - SURE))
    spams = random + adversarial >= SPAMMER
    spams |= ((np.abs(beyond) < NOTHING).mean(0) >= NEAR) & (random >= PLAUSIBLE)
    avoids |= ((against >= SURE) & (random <= 1 - SURE)) | (spams & (adversarial > random))
    enough = total >= min(ENOUGH, total.max(initial=1))
    shown = enough & ~avoids & ~spams
    shown = shown if shown.any() else np.ones_like(shown)
    typical = np.median(quality[:, shown], axis=1, keepdims=True)
    behind = (quality < typical - np.maximum(BEHIND, BEHIND_ERRORS * (1 - typical))).mean(0)
    below = (quality < typical).mean(0) + (quality == typical).mean(0) / 2
    wrong = (quality < 0.5).mean(0)
    confused = set(systematic_confusions(posterior)["worker"].tolist())
    confuses = np.array([name in confused for name in posterior.worker_names().tolist()], dtype=bool)

    words = np.full(len(total), "reliable", dtype=object)
    words[behind > 1 - GREEN] = "fair"
    words[(against > 1 - SURE) | (random + adversarial > 1 - SURE)] = "unknown"
    words[enough & ((behind >= WEAK) | (wrong >= WEAK))] = "weak"
    words[confuses] = "confuses"
    words[(relative_speed(posterior) < FAST) & (below > 0.5)] = "hasty"
    words[spams] = np.where(given.max(1) >= ALWAYS * total, "constant", "random")[spams]
    words[avoids] = "adversarial"
    words[(_compared(posterior) == 0) | (given.shape[1] < 2)] = "unknown"
    return words


def _compared(posterior: PosteriorVariables) -> Array:
    """Return how many annotations of each worker, ``(J,)``, can be compared with another worker's or a known true label."""
    item, worker, _ = posterior.annotation_index()
    J = len(posterior.worker_names())
    N = len(posterior.items())
    first = np.zeros(N, dtype=worker.dtype)
    first[item[::-1]] = worker[::-1]
    several = np.bincount(item, weights=worker != first[item], minlength=N) > 0
    comparable = several | (posterior.known_truth() >= 0)
    return np.bincount(worker[comparable[item]], minlength=J)
